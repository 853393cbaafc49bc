//! Owns which source a URI leads to, and under which URIs sources' resources are put for clients.
//!
//! A resource keeps its URI; where several sources list the same one, the first in the catalog's order keeps it, and the
//! others' are `toolrelay://SOURCE/URI`, which leads to the source whether it is listed or not. Any other URI leads to the
//! only source with a template that gives it, else to the one that spoke of it, else to the only one that has resources of its scheme, or
//! that has resources at all. What a source with skills (SEP-2640) calls `skill://PATH` is `skill://SOURCE/PATH`, always, and
//! such a URI leads nowhere else: two sources may have skills of one name. What a URI leads to, the rules may still withhold.

use super::offers::offers;
use crate::catalog::offer::Offer;
use crate::name::SourceId;
use crate::policy::{Offered, Policy};
use crate::snapshot::Snapshot;
use crate::source::Source;
use crate::wire::{Message, Object, quoted};

/// What a URI begins with that names its source.
const OWN_SCHEME: &str = "toolrelay://";
/// What the URI of a skill begins with.
const SKILL_SCHEME: &str = "skill://";

/// How a source's own URIs are put for a client that asked for one under another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// All of them behind the relay's own scheme.
    Relay(SourceId),
    /// Those of skills with the source in front.
    Skill(SourceId),
}

impl Naming {
    pub fn shown(&self, own: &str) -> String {
        match (self, own.strip_prefix(SKILL_SCHEME)) {
            (Self::Skill(source), Some(path)) => format!("{SKILL_SCHEME}{source}/{path}"),
            (Self::Skill(source) | Self::Relay(source), _) => format!("{OWN_SCHEME}{source}/{own}"),
        }
    }
}

/// The source that a URI leads to.
pub struct Found {
    pub source: Source,
    /// Its own URI.
    pub own: String,
    /// `None` where the client knows its URIs as they are.
    pub naming: Option<Naming>,
}

/// Why a URI leads nowhere.
pub enum Nowhere {
    Unknown,
    /// It may not be had, for this reason.
    Withheld(String),
}

/// The source of a resource or a template. `seen` tells which source spoke of a URI.
pub fn find_resource(snapshot: &Snapshot, uri: &str, seen: impl Fn(&str) -> Option<String>) -> Result<Found, Nowhere> {
    permitted(snapshot, lookup(snapshot, uri, seen))
}

/// The same, whether it may be had or not.
pub fn find_even_withheld(snapshot: &Snapshot, uri: &str, seen: impl Fn(&str) -> Option<String>) -> Option<Found> {
    lookup(snapshot, uri, seen)
}

/// The source of a skill, or of a `directory` of one: only a URI that names a source that has skills leads to one.
pub fn find_skill(snapshot: &Snapshot, uri: &str, directory: bool) -> Result<Found, Nowhere> {
    let found = named(snapshot, uri).flatten().filter(|(_, offer)| has_skills(offer, directory));
    permitted(snapshot, found.map(|(found, _)| found))
}

/// Whether anybody has skills, or lists their directories.
pub fn any_skills(snapshot: &Snapshot, directory: bool) -> bool {
    offers(snapshot).any(|(_, _, offer)| has_skills(offer, directory))
}

fn has_skills(offer: &Offer, directory: bool) -> bool {
    offer.abilities.skills().is_some_and(|skills| skills.directory_read || !directory)
}

fn permitted(snapshot: &Snapshot, found: Option<Found>) -> Result<Found, Nowhere> {
    let found = found.ok_or(Nowhere::Unknown)?;
    match withheld(snapshot, &found.source, &found.own) {
        Some(reason) => Err(Nowhere::Withheld(reason)),
        None => Ok(found),
    }
}

/// Why a resource is withheld, if it is, by its source's own URI.
pub fn withheld(snapshot: &Snapshot, source: &Source, own: &str) -> Option<String> {
    refusal(snapshot, source, Offered::Resource(own))
}

/// Why a prompt or a resource is withheld, if it is: the source's rules, and then those of the credential.
pub fn refusal(snapshot: &Snapshot, source: &Source, offered: Offered<'_>) -> Option<String> {
    let rules = source.config.as_ref().map(|config| &config.rules);
    let rules = rules.filter(|rules| !rules.allow.is_empty() || !rules.deny.is_empty());
    let by_source = rules.and_then(|rules| Policy::new(rules).refusal_of(offered));
    by_source.or_else(|| snapshot.granted.as_ref()?.refusal_of(source.id.as_str(), offered))
}

/// What a URI leads to that names its source; `None` when it is no such URI, an inner `None` when there is no such source.
fn named<'a>(snapshot: &'a Snapshot, uri: &str) -> Option<Option<(Found, &'a Offer)>> {
    let found = |id: &str, own: String, naming: fn(SourceId) -> Naming| {
        let (toolset, source, offer) = offers(snapshot).find(|(toolset, ..)| toolset.id.as_str() == id)?;
        Some((Found { source: source.clone(), own, naming: Some(naming(toolset.id.clone())) }, offer))
    };
    if let Some((id, own)) = uri.strip_prefix(OWN_SCHEME).and_then(|rest| rest.split_once('/')) {
        return Some(found(id, own.to_owned(), Naming::Relay));
    }
    let (id, path) = uri.strip_prefix(SKILL_SCHEME)?.split_once('/')?;
    let found = found(id, format!("{SKILL_SCHEME}{path}"), Naming::Skill);
    found.filter(|(_, offer)| has_skills(offer, false)).map(Some)
}

fn lookup(snapshot: &Snapshot, uri: &str, seen: impl Fn(&str) -> Option<String>) -> Option<Found> {
    if let Some(named) = named(snapshot, uri) {
        return named.map(|(found, _)| found);
    }
    let found = |source: &Source| Some(Found { source: source.clone(), own: uri.to_owned(), naming: None });
    let is_skill = uri.starts_with(SKILL_SCHEME);
    let able = || offers(snapshot).filter(|(_, _, offer)| offer.abilities.resources);
    // What a source with skills has under this scheme is known by other URIs.
    let all = || able().filter(|(_, _, offer)| !is_skill || !has_skills(offer, false));
    if let Some((_, source, _)) = all().find(|(_, _, offer)| offer.lists(uri) || offer.lists_template(uri)) {
        return found(source);
    }
    let fitting = || all().filter_map(|(_, source, offer)| Some((source, offer.fitting_template(uri)?)));
    let mut left = fitting().filter(|(source, _)| withheld(snapshot, source, uri).is_none());
    if let Some((source, template)) = left.next() {
        // Where others have the same template, theirs are known by other URIs.
        if left.all(|(_, other)| other == template) {
            return found(source);
        }
    } else if let Some((source, _)) = fitting().next() {
        return found(source);
    }
    if let Some((_, source, _)) = seen(uri).and_then(|id| able().find(|(toolset, ..)| toolset.id.as_str() == id)) {
        return found(source);
    }
    if fitting().next().is_some() {
        return None;
    }
    if is_skill && any_skills(snapshot, false) {
        return None;
    }
    let mut of_scheme = all().filter(|(_, _, offer)| offer.has_scheme(uri));
    match (of_scheme.next(), of_scheme.next()) {
        (Some((_, source, _)), None) => return found(source),
        (Some(_), Some(_)) => return None,
        (None, _) => {}
    }
    let mut any = all();
    match (any.next(), any.next()) {
        (Some((_, source, _)), None) => found(source),
        _ => None,
    }
}

/// Under which URIs a resource can be asked for that no source lists and several may have: those with a template for it, else
/// those that have resources of its scheme.
pub fn candidates(snapshot: &Snapshot, uri: &str) -> Vec<String> {
    let those = |may_have: fn(&Offer, &str) -> bool| -> Vec<String> {
        let able = offers(snapshot).filter(|(_, _, offer)| offer.abilities.resources && may_have(offer, uri));
        let own = able.filter(|(_, source, _)| withheld(snapshot, source, uri).is_none());
        own.map(|(toolset, ..)| Naming::Relay(toolset.id.clone()).shown(uri)).collect()
    };
    let fitting = those(|offer, uri| offer.fitting_template(uri).is_some());
    if fitting.is_empty() { those(Offer::has_scheme) } else { fitting }
}

/// Under which URI a listed resource or template of a source is shown, unless another source's is shown under it already.
pub fn shown(snapshot: &Snapshot, source: &SourceId, offer: &Offer, own: &str) -> String {
    match named(snapshot, own) {
        _ if own.starts_with(SKILL_SCHEME) && has_skills(offer, false) => Naming::Skill(source.clone()).shown(own),
        // It looks like the URI of another source's.
        Some(_) => Naming::Relay(source.clone()).shown(own),
        None => own.to_owned(),
    }
}

/// As what the client knows a resource that a source speaks of, where another source's is known under that URI: one that is
/// listed, or one of a template that both have.
fn known_as(snapshot: &Snapshot, source: &SourceId, uri: &str) -> Option<String> {
    let is_own = match offers(snapshot).find(|(_, _, offer)| offer.lists(uri)) {
        Some((holder, ..)) => holder.id == *source,
        None => {
            let mut own = offers(snapshot).filter(|(toolset, ..)| toolset.id == *source);
            let leads_here =
                || lookup(snapshot, uri, |_| Some(source.to_string())).is_some_and(|found| found.source.id == *source);
            !own.any(|(_, _, offer)| offer.fitting_template(uri).is_some()) || leads_here()
        }
    };
    (!is_own).then(|| Naming::Relay(source.clone()).shown(uri))
}

/// A tool's or a prompt's result with the URIs of its links as the client knows them; `None` where all are known as they are.
pub fn links_told(snapshot: &Snapshot, source: &SourceId, reply: &Message) -> Option<Message> {
    if !reply.met.resource_link {
        return None;
    }
    let result = Object::parse(reply.text(reply.result?))?;
    let told = |raw: &str| {
        let block = Object::parse(raw).filter(|block| block.string("type").as_deref() == Some("resource_link"))?;
        let uri = format!("\"uri\":{}", quoted(&known_as(snapshot, source, &block.string("uri")?)?));
        Some(block.rewritten(|name| name != "uri", &[&uri]))
    };
    let in_message = |raw: &str| {
        let message = Object::parse(raw)?;
        let content = format!("\"content\":{}", told(message.get("content")?)?);
        Some(message.rewritten(|name| name != "content", &[&content]))
    };
    let (name, list) = match result.get("content") {
        Some(content) => ("content", each_told(content, told)?),
        None => ("messages", each_told(result.get("messages")?, in_message)?),
    };
    with_result(reply, &result.rewritten(|other| other != name, &[&format!("\"{name}\":{list}")]))
}

/// A list with those of its parts that are `told` otherwise; `None` where there are none.
fn each_told(list: &str, told: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut is_other = false;
    let parts = crate::wire::raw::elements(list)?.into_iter().map(|raw| {
        let other = told(raw);
        is_other |= other.is_some();
        other.unwrap_or_else(|| raw.to_owned())
    });
    let parts: Vec<String> = parts.collect();
    is_other.then(|| format!("[{}]", parts.join(",")))
}

/// What was read of a resource, with its URIs as the client knows them.
pub fn renamed(reply: &Message, naming: &Naming) -> Option<Message> {
    let result = Object::parse(reply.text(reply.result?))?;
    let contents = each_renamed(result.get("contents")?, naming)?;
    with_result(reply, &result.rewritten(|name| name != "contents", &[&format!("\"contents\":{contents}")]))
}

/// The objects of a list with their `uri` as the client knows it.
pub fn each_renamed(list: &str, naming: &Naming) -> Option<String> {
    let one = |raw: &str| {
        let told = Object::parse(raw).and_then(|object| {
            let uri = format!("\"uri\":{}", quoted(&naming.shown(&object.string("uri")?)));
            Some(object.rewritten(|name| name != "uri", &[&uri]))
        });
        told.unwrap_or_else(|| raw.to_owned())
    };
    let all: Vec<String> = crate::wire::raw::elements(list)?.into_iter().map(one).collect();
    Some(format!("[{}]", all.join(",")))
}

/// A reply with another result.
pub fn with_result(reply: &Message, result: &str) -> Option<Message> {
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", reply.id_text()?);
    Message::parse(line.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_get_their_source_in_front() {
        let source = SourceId::new("docs").unwrap();
        let (skill, relay) = (Naming::Skill(source.clone()), Naming::Relay(source));
        assert_eq!(skill.shown("skill://pdf/SKILL.md"), "skill://docs/pdf/SKILL.md");
        assert_eq!(skill.shown("repo://a/pdf/SKILL.md"), "toolrelay://docs/repo://a/pdf/SKILL.md");
        assert_eq!(relay.shown("skill://pdf/SKILL.md"), "toolrelay://docs/skill://pdf/SKILL.md");
    }
}
