//! Owns what clients are told of skills (SEP-2640): their entries with the URIs that lead back to their sources. Digests,
//! sizes, frontmatter and the files themselves stay as they are. Where a skill is asked for is decided in [`super::uris`].

use super::client_call::Target;
use super::offers::offers;
use super::uris::{Naming, each_renamed, with_result, withheld};
use crate::call::Subject;
use crate::catalog::offer::{CacheHint, files};
use crate::snapshot::Snapshot;
use crate::source::State;
use crate::wire::raw::elements;
use crate::wire::{Message, Object, quoted};

/// Lists the skills of all sources.
pub const LIST: &str = "skills/list";
/// Gives the entry of one skill.
pub const GET: &str = "skills/get";
/// Lists a directory of a skill.
pub const DIRECTORY: &str = "resources/directory/read";

/// What a source tells of a skill, with its URIs as the client knows them.
pub fn entry(raw: &str, naming: &Naming) -> String {
    let Some(skill) = Object::parse(raw) else { return raw.to_owned() };
    let uri = skill.string("uri").map(|uri| format!("\"uri\":{}", quoted(&naming.shown(&uri))));
    // Where the files change all the time there is a word in place of their list.
    let files = skill.get("resources").and_then(|list| each_renamed(list, naming));
    let files = files.map(|list| format!("\"resources\":{list}"));
    let new: Vec<&str> = [&uri, &files].into_iter().filter_map(Option::as_deref).collect();
    skill.rewritten(
        |name| match name {
            "uri" => uri.is_none(),
            "resources" => files.is_none(),
            _ => true,
        },
        &new,
    )
}

/// For how long the list of all skills holds, and for whom: as that of the source where it holds least. The list of a source
/// that does not run, which nobody tells of changes, holds for no time; where there are credentials, each may see another list.
pub fn hint(snapshot: &Snapshot) -> CacheHint {
    let of_skills = offers(snapshot).filter(|(_, _, offer)| offer.abilities.skills().is_some());
    let hints = of_skills.map(|(_, source, offer)| match source.status().state {
        State::Ready { .. } | State::Starting { .. } => offer.skills_hint.unwrap_or(CacheHint::NONE),
        _ => CacheHint { ttl_ms: 0, ..offer.skills_hint.unwrap_or(CacheHint::NONE) },
    });
    let merged = hints.reduce(CacheHint::and).unwrap_or(CacheHint::NONE);
    CacheHint { public: merged.public && snapshot.config.http.credentials.is_empty(), ..merged }
}

/// A source's answer about a skill or a directory, as the client gets it: with the URIs that it knows, and without what it
/// may not have. `None` when it is no such answer, and an error where nothing is left.
pub fn told(snapshot: &Snapshot, target: &Target, reply: &Message) -> Option<Result<Message, String>> {
    let (Subject::Method(method), Some(naming)) = (&target.subject, &target.prefix) else { return None };
    let result = Object::parse(reply.text(reply.result?))?;
    let refusal = |uri: &str| withheld(snapshot, &target.source, uri);
    match method.as_str() {
        GET => {
            let raw = result.get("skill")?;
            let own = Object::parse(raw).and_then(|skill| skill.string("uri").map(|uri| uri.into_owned()));
            if let Some(reason) = files(raw).iter().chain(&own).find_map(|uri| refusal(uri)) {
                return Some(Err(reason));
            }
            let skill = format!("\"skill\":{}", entry(raw, naming));
            with_result(reply, &result.rewritten(|name| name != "skill", &[&skill])).map(Ok)
        }
        DIRECTORY => {
            let is_left = |raw: &&str| {
                let uri = Object::parse(raw).and_then(|child| child.string("uri").map(|uri| uri.into_owned()));
                uri.is_none_or(|uri| refusal(&uri).is_none())
            };
            let children: Vec<&str> = elements(result.get("resources")?)?.into_iter().filter(is_left).collect();
            let children = each_renamed(&format!("[{}]", children.join(",")), naming)?;
            let children = format!("\"resources\":{children}");
            with_result(reply, &result.rewritten(|name| name != "resources", &[&children])).map(Ok)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::SourceId;

    #[test]
    fn nothing_of_an_entry_changes_but_its_uris() {
        let naming = Naming::Skill(SourceId::new("docs").unwrap());
        let raw = r#"{"frontmatter":{"name":"pdf","uri":"skill://pdf/x", "n":1e400},"uri":"skill://pdf/SKILL.md","resources":[{"size":1,"uri":"skill://pdf/a","digest":"sha256:0"}],"x":[1]}"#;
        let want = r#"{"uri":"skill://docs/pdf/SKILL.md","resources":[{"uri":"skill://docs/pdf/a","size":1,"digest":"sha256:0"}],"frontmatter":{"name":"pdf","uri":"skill://pdf/x", "n":1e400},"x":[1]}"#;
        assert_eq!(entry(raw, &naming), want);
        let dynamic = r#"{"resources":"dynamic","frontmatter":{},"uri":"skill://pdf/SKILL.md"}"#;
        let want = r#"{"uri":"skill://docs/pdf/SKILL.md","resources":"dynamic","frontmatter":{}}"#;
        assert_eq!(entry(dynamic, &naming), want);
    }
}
