//! Owns what clients see of prompts, resources, their templates and skills: which there are, under which names, in which order.
//! All that the rules leave of every source are always listed, in every exposure: they are chosen by people and programs, and
//! cost a model nothing. A prompt is named like a directly shown tool; how a URI is put is [`super::uris`]'s affair.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::uris::{self, Found, Naming, Nowhere};
use super::{Exchange, Session, skills};
use crate::catalog::Toolset;
use crate::catalog::offer::{CacheHint, Item, Offer};
use crate::name::{ExposedName, SEPARATOR};
use crate::policy::Offered;
use crate::protocol;
use crate::snapshot::Snapshot;
use crate::source::Source;
use crate::wire::{Message, Object, quoted};

/// The most items of one page.
const PAGE: usize = 1000;
/// The same of skills: each may name hundreds of files.
const SKILLS_PAGE: usize = 100;

/// One of the lists besides that of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Prompts,
    Resources,
    Templates,
    Skills,
}

/// How many there are.
pub const KINDS: usize = 4;

impl Kind {
    /// By the method that lists it; only modern clients are told of extensions.
    pub fn of_method(method: &str, modern: bool) -> Option<Self> {
        match method {
            skills::LIST if modern => Some(Self::Skills),
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
            Self::Skills => "skills",
        }
    }

    fn items(self, offer: &Offer) -> &[Item] {
        match self {
            Self::Prompts => &offer.prompts,
            Self::Resources => &offer.resources,
            Self::Templates => &offer.templates,
            Self::Skills => &offer.skills,
        }
    }

    fn page(self) -> usize {
        match self {
            Self::Skills => SKILLS_PAGE,
            _ => PAGE,
        }
    }

    /// For how long the list holds, and for whom, as members of a result.
    fn hints(self, snapshot: &Snapshot) -> String {
        let hint = match self {
            Self::Skills => skills::hint(snapshot),
            _ => CacheHint::NONE,
        };
        let scope = if hint.public { "public" } else { "private" };
        format!(",\"ttlMs\":{},\"cacheScope\":\"{scope}\"", hint.ttl_ms)
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
        return prompts(snapshot).iter().map(|(name, _, item)| renamed(&item.shown("name"), "name", name)).collect();
    }
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (toolset, _, offer) in offers(snapshot) {
        for item in kind.items(offer) {
            if kind == Kind::Skills {
                all.push(skills::entry(&item.raw, &Naming::Skill(toolset.id.clone())));
                continue;
            }
            let mut uri = uris::shown(snapshot, &toolset.id, offer, &item.key);
            if !seen.insert(uri.clone()) {
                uri = Naming::Relay(toolset.id.clone()).shown(&item.key);
            }
            let member = if kind == Kind::Templates { "uriTemplate" } else { "uri" };
            let raw = item.shown(member);
            all.push(if uri == item.key { raw.into_owned() } else { renamed(&raw, member, &uri) });
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

/// The source of a prompt.
pub fn find_prompt(snapshot: &Snapshot, name: &str) -> Result<Found, Nowhere> {
    if let Some((_, source, item)) = prompts(snapshot).into_iter().find(|(shown, ..)| shown == name) {
        return Ok(Found { source: source.clone(), own: item.key.clone(), naming: None });
    }
    let refusal =
        offers(snapshot).filter(|(toolset, ..)| !toolset.prefix.is_empty()).find_map(|(toolset, source, _)| {
            let own = name.strip_prefix(&toolset.prefix)?.strip_prefix(SEPARATOR)?;
            uris::refusal(snapshot, source, Offered::Prompt(own))
        });
    Err(refusal.map_or(Nowhere::Unknown, Nowhere::Withheld))
}

/// A hash that differs when a list differs that the principal sees.
pub fn digest(snapshot: &Snapshot, kind: Kind) -> [u8; 32] {
    let mut hash = Sha256::new();
    for item in shown(snapshot, kind) {
        hash.update(item);
        hash.update(b"\n");
    }
    hash.finalize().into()
}

impl Session {
    /// `prompts/list`, `resources/list`, `resources/templates/list` and `skills/list`.
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
            if kind == Kind::Skills && !uris::any_skills(&snapshot, false) {
                return own.error(protocol::METHOD_NOT_FOUND, "no source has skills", None);
            }
            if start > 0 && start >= all.len() {
                let text = "there is no such cursor (any more): begin the list anew";
                return own.error(protocol::INVALID_PARAMS, text, None);
            }
            session.knows_offers(&snapshot, &[kind]);
            let end = all.len().min(start + kind.page());
            let next = if end < all.len() { format!(",\"nextCursor\":\"{end}\"") } else { String::new() };
            let hints = if own.modern { kind.hints(&snapshot) } else { String::new() };
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
