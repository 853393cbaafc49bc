//! Owns `tools/list`: what this principal sees now, in which order.
//! It does not cut or page: real clients read one page only.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Exchange, Session};
use crate::catalog::{Entry, Toolset};
use crate::config::Exposure;
use crate::control::FIRST_LISTING;
use crate::menu;
use crate::protocol;
use crate::snapshot::{Opened, Principal, Snapshot};
use crate::wire::{Message, Object};

impl Session {
    pub(super) fn list_tools(self: &Arc<Self>, message: &Message, exchange: Exchange) {
        let params = message.params_text().and_then(Object::parse);
        if params.and_then(|params| params.get("cursor")).is_some_and(|cursor| cursor != "null") {
            let text = "there is no such cursor: the list comes whole";
            return exchange.error(protocol::INVALID_PARAMS, text, None);
        }
        let snapshot = self.around.control.snapshots.now();
        let waited = self.around.control.awake_for() >= FIRST_LISTING;
        if is_ready(&snapshot, &self.principal, waited) {
            self.knows(&snapshot);
            return exchange.result(&tools_json(&snapshot, &self.principal, exchange.modern));
        }
        let (session, own) = (self.clone(), exchange.clone());
        let listing = Listing::begin(self);
        self.spawn(&exchange, async move {
            let _listing = listing;
            let snapshot = session.listable().await;
            let json = tools_json(&snapshot, &session.principal, own.modern);
            if session.finish(&own) {
                session.knows(&snapshot);
                own.result(&json);
            }
        });
    }

    /// A snapshot that can be listed: remembered tools read, and in `eager` the first listings given a moment.
    async fn listable(&self) -> Arc<Snapshot> {
        let loaded = self.around.control.snapshots.loaded().await;
        if loaded.config.relay.exposure != Exposure::Eager {
            return loaded;
        }
        self.around.control.once(|snapshot| snapshot.catalog.is_loaded() && !snapshot.awaits_any()).await
    }
}

/// A list that a client waits for.
struct Listing(Arc<Session>);

impl Listing {
    fn begin(session: &Arc<Session>) -> Self {
        session.lock().listing += 1;
        Self(session.clone())
    }
}

impl Drop for Listing {
    /// What came in meanwhile and is not in the list is told now.
    fn drop(&mut self) {
        self.0.lock().listing -= 1;
        self.0.tell.notify_one();
    }
}

/// Whether the list can be given at once: nothing in it has still to be read.
fn is_ready(snapshot: &Snapshot, principal: &Principal, waited: bool) -> bool {
    let config = &snapshot.config.relay;
    if config.exposure == Exposure::Eager {
        return snapshot.catalog.is_loaded() && (waited || !snapshot.awaits_any());
    }
    let opened = snapshot.open.get(principal).is_some_and(|opened| *opened != Opened::default());
    snapshot.catalog.is_loaded() || (!opened && config.always_visible.is_empty())
}

/// The entries shown directly, in catalog order.
fn visible<'a>(snapshot: &'a Snapshot, principal: &'a Principal) -> impl Iterator<Item = &'a Entry> {
    snapshot.catalog.toolsets.iter().flat_map(|toolset| visible_of(snapshot, principal, toolset))
}

/// The entries of one source that are shown directly.
fn visible_of<'a>(
    snapshot: &'a Snapshot,
    principal: &'a Principal,
    toolset: &'a Toolset,
) -> impl Iterator<Item = &'a Entry> {
    let is_usable = || snapshot.source(toolset.id.as_str()).is_some_and(|source| source.refusal().is_none());
    let may_show = snapshot.may_show(principal, toolset) && is_usable();
    let entries = may_show.then_some(&toolset.entries).into_iter().flatten();
    entries.filter(|entry| snapshot.is_shown(principal, entry))
}

fn tools_json(snapshot: &Snapshot, principal: &Principal, modern: bool) -> String {
    let mut json = String::from("{\"tools\":[");
    let mut first = true;
    let mut push = |tool: &str| {
        if !std::mem::take(&mut first) {
            json.push(',');
        }
        json.push_str(tool);
    };
    for tool in menu::shown(snapshot) {
        push(&tool);
    }
    for entry in visible(snapshot, principal) {
        push(&snapshot.catalog.exposed_json(entry, modern));
    }
    json.push(']');
    if modern {
        json.push_str(",\"ttlMs\":0,\"cacheScope\":\"private\"");
    }
    json.push('}');
    json
}

/// A hash that differs when the list that this principal sees differs.
pub(super) fn visible_digest(snapshot: &Snapshot, principal: &Principal) -> [u8; 32] {
    let mut hash = Sha256::new();
    for tool in menu::shown(snapshot) {
        hash.update(tool);
    }
    for toolset in &snapshot.catalog.toolsets {
        if snapshot.is_whole_open(principal, toolset.id.as_str()) {
            hash.update(toolset.id.as_str());
            hash.update(&toolset.tools_digest);
            continue;
        }
        for entry in visible_of(snapshot, principal, toolset) {
            hash.update(entry.name.as_str());
            hash.update(entry.raw.unpack());
        }
    }
    hash.finalize().into()
}
