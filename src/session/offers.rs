//! Owns what clients see of prompts, resources and their templates: which there are, under which names, in which order.
//! All of every source are always listed, in every exposure: they are chosen by people and programs, and cost a model nothing.
//!
//! A prompt is named like a directly shown tool. A resource keeps its URI; where several sources list the same one, the
//! first in the catalog's order keeps it, and the others' are `toolrelay://SOURCE/URI`, which leads to the source whether it
//! is listed or not. Any other URI leads to the source whose template gives it, else to the one that spoke of it, else to
//! the only one that has resources of its scheme, or that has resources at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Exchange, Session};
use crate::catalog::Toolset;
use crate::catalog::offer::{Item, Offer};
use crate::name::ExposedName;
use crate::protocol;
use crate::snapshot::Snapshot;
use crate::source::Source;
use crate::wire::{Message, Object, quoted};

/// The most items of one page.
const PAGE: usize = 1000;
/// What a URI begins with that names its source.
const OWN_SCHEME: &str = "toolrelay://";

/// One of the lists besides that of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    /// By the method that lists it.
    pub fn of_method(method: &str) -> Option<Self> {
        match method {
            "prompts/list" => Some(Self::Prompts),
            "resources/list" => Some(Self::Resources),
            "resources/templates/list" => Some(Self::Templates),
            _ => None,
        }
    }

    fn member(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    fn items(self, offer: &Offer) -> &[Item] {
        match self {
            Self::Prompts => &offer.prompts,
            Self::Resources => &offer.resources,
            Self::Templates => &offer.templates,
        }
    }
}

/// The sources of a snapshot, which is what a principal sees, in the catalog's order, with what they offer.
pub fn offers(snapshot: &Snapshot) -> impl Iterator<Item = (&Toolset, &Source, &Offer)> {
    snapshot.catalog.toolsets.iter().filter_map(|toolset| {
        let source = snapshot.source(toolset.id.as_str()).filter(|source| source.refusal().is_none())?;
        Some((&**toolset, source, &toolset.note().offer))
    })
}

/// The items of a list as they are shown.
fn shown(snapshot: &Snapshot, kind: Kind) -> Vec<String> {
    if kind == Kind::Prompts {
        return prompts(snapshot).iter().map(|(name, _, item)| renamed(&item.raw, "name", name)).collect();
    }
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (toolset, _, offer) in offers(snapshot) {
        for item in kind.items(offer) {
            let (member, name) = match kind {
                _ if seen.insert(item.key.as_str()) => ("", String::new()),
                Kind::Templates => ("uriTemplate", format!("{OWN_SCHEME}{}/{}", toolset.id, item.key)),
                _ => ("uri", format!("{OWN_SCHEME}{}/{}", toolset.id, item.key)),
            };
            all.push(renamed(&item.raw, member, &name));
        }
    }
    all
}

/// All prompts with the names that they are shown under.
fn prompts(snapshot: &Snapshot) -> Vec<(String, &Source, &Item)> {
    let mut all = Vec::new();
    for (toolset, source, offer) in offers(snapshot) {
        let name = |item: &Item| ExposedName::of(&toolset.id, &toolset.prefix, &item.name()).to_string();
        all.extend(offer.prompts.iter().map(|item| (name(item), source, item)));
    }
    all
}

/// An item with another value of one member.
fn renamed(raw: &str, member: &str, value: &str) -> String {
    let Some(object) =
        Object::parse(raw).filter(|object| !member.is_empty() && object.string(member).as_deref() != Some(value))
    else {
        return raw.to_owned();
    };
    object.rewritten(|name| name != member, &[&format!("\"{member}\":{}", quoted(value))])
}

/// The source of a prompt, and its own name for it.
pub fn find_prompt(snapshot: &Snapshot, name: &str) -> Option<(Source, String)> {
    let all = prompts(snapshot);
    all.iter().find(|(shown, ..)| shown == name).map(|(_, source, item)| ((*source).clone(), item.key.clone()))
}

/// The source of a resource or a template, and its own URI for it. `seen` tells which source spoke of a URI.
pub fn find_resource(
    snapshot: &Snapshot,
    uri: &str,
    seen: impl Fn(&str) -> Option<String>,
) -> Option<(Source, String)> {
    let found = |source: &Source| Some((source.clone(), uri.to_owned()));
    if let Some((id, rest)) = uri.strip_prefix(OWN_SCHEME).and_then(|rest| rest.split_once('/')) {
        let own = offers(snapshot).find(|(toolset, ..)| toolset.id.as_str() == id);
        return own.map(|(_, source, _)| (source.clone(), rest.to_owned()));
    }
    let all = || offers(snapshot).filter(|(_, _, offer)| offer.abilities.resources);
    if let Some((_, source, _)) = all().find(|(_, _, offer)| offer.lists(uri)) {
        return found(source);
    }
    if let Some((_, source, _)) = all().find(|(_, _, offer)| offer.fits_template(uri)) {
        return found(source);
    }
    if let Some((_, source, _)) = seen(uri).and_then(|id| all().find(|(toolset, ..)| toolset.id.as_str() == id)) {
        return found(source);
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

/// Under which URIs a resource can be asked for that no source lists and several may have.
pub fn candidates(snapshot: &Snapshot, uri: &str) -> Vec<String> {
    let may_have = |offer: &Offer| offer.abilities.resources && offer.has_scheme(uri);
    let own = offers(snapshot).filter(|(_, _, offer)| may_have(offer));
    own.map(|(toolset, ..)| format!("{OWN_SCHEME}{}/{uri}", toolset.id)).collect()
}

/// What was read of a resource, with its URIs as the client knows them: `prefix` before the source's own.
pub fn prefixed(reply: &Message, prefix: &str) -> Option<Message> {
    let result = Object::parse(reply.text(reply.result?))?;
    let one = |raw: &str| {
        let told = Object::parse(raw).and_then(|content| {
            let uri = format!("\"uri\":{}", quoted(&format!("{prefix}{}", content.string("uri")?)));
            Some(content.rewritten(|name| name != "uri", &[&uri]))
        });
        told.unwrap_or_else(|| raw.to_owned())
    };
    let contents: Vec<String> = crate::wire::raw::elements(result.get("contents")?)?.into_iter().map(one).collect();
    let contents = format!("\"contents\":[{}]", contents.join(","));
    let result = result.rewritten(|name| name != "contents", &[&contents]);
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", reply.id_text()?);
    Message::parse(line.into()).ok()
}

/// A hash that differs when a list differs that the principal sees.
pub fn digest(snapshot: &Snapshot, kinds: &[Kind]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for kind in kinds {
        for item in shown(snapshot, *kind) {
            hash.update(item);
            hash.update(b"\n");
        }
        hash.update(b"\n");
    }
    hash.finalize().into()
}

impl Session {
    /// `prompts/list`, `resources/list` and `resources/templates/list`.
    pub(super) fn list_offers(self: &Arc<Self>, kind: Kind, message: &Message, exchange: Exchange) {
        let cursor = message.params_text().and_then(Object::parse);
        let cursor = cursor.and_then(|params| params.get("cursor").filter(|text| *text != "null").map(str::to_owned));
        let start =
            match cursor.map(|cursor| crate::wire::unquoted(&cursor).and_then(|text| text.parse::<usize>().ok())) {
                None => 0,
                Some(Some(start)) if start > 0 => start,
                Some(_) => {
                    let text = "there is no such cursor: begin the list anew";
                    return exchange.error(protocol::INVALID_PARAMS, text, None);
                }
            };
        let (session, own) = (self.clone(), exchange.clone());
        self.spawn(&exchange, async move {
            let snapshot = session.around.control.once(|snapshot| !snapshot.awaits_any()).await;
            let all = shown(&snapshot, kind);
            if !session.finish(&own) {
                return;
            }
            if start > 0 && start >= all.len() {
                let text = "there is no such cursor (any more): begin the list anew";
                return own.error(protocol::INVALID_PARAMS, text, None);
            }
            session.knows_offers(&snapshot);
            let end = all.len().min(start + PAGE);
            let next = if end < all.len() { format!(",\"nextCursor\":\"{end}\"") } else { String::new() };
            let hints = if own.modern { ",\"ttlMs\":0,\"cacheScope\":\"private\"" } else { "" };
            own.result(&format!("{{\"{}\":[{}]{next}{hints}}}", kind.member(), all[start..end].join(",")));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn an_item_is_rewritten_only_where_it_must_be() {
        let raw = "{\"title\":\"T\", \"name\":\"a\",\"x\":1e400}";
        assert_eq!(renamed(raw, "name", "a"), raw);
        assert_eq!(renamed(raw, "", ""), raw);
        assert_eq!(renamed(raw, "name", "p__a"), "{\"name\":\"p__a\",\"title\":\"T\",\"x\":1e400}");
    }
}
