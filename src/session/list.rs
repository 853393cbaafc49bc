//! Owns `tools/list`: what this principal sees now, in which order.
//! It does not cut or page: real clients read one page only.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{Session, Style};
use crate::catalog::Entry;
use crate::config::Exposure;
use crate::menu;
use crate::protocol;
use crate::snapshot::{Opened, Principal, Snapshot};
use crate::wire::{Message, Object};

/// How long after the first use `eager` waits for sources that have never been listed.
const FIRST_LISTING: Duration = Duration::from_secs(3);

impl Session {
    pub(super) fn list_tools(self: &Arc<Self>, message: &Message, style: Style) {
        let id = message.id_text().expect("BUG: a request has an id").to_owned();
        let params = message.params_text().and_then(Object::parse);
        if params.and_then(|params| params.get("cursor")).is_some_and(|cursor| cursor != "null") {
            let text = "there is no such cursor: the list comes whole";
            return self.error(&id, protocol::INVALID_PARAMS, text, None);
        }
        let snapshot = self.around.control.snapshots.now();
        let waited = self.around.control.awake_for() >= FIRST_LISTING;
        if is_ready(&snapshot, &self.principal, waited) {
            self.knows(&snapshot);
            return self.result(&id, &tools_json(&snapshot, &self.principal, style), style);
        }
        let session = self.clone();
        let own_id = id.clone();
        let listing = Listing::begin(self);
        self.spawn(&id, async move {
            let _listing = listing;
            let snapshot = session.listable().await;
            let json = tools_json(&snapshot, &session.principal, style);
            if session.finish(&own_id) {
                session.knows(&snapshot);
                session.result(&own_id, &json, style);
            }
        });
    }

    /// A snapshot that can be listed: remembered tools read, and in `eager` the first listings given a moment.
    async fn listable(&self) -> Arc<Snapshot> {
        let loaded = self.around.control.snapshots.loaded().await;
        if loaded.config.relay.exposure != Exposure::Eager {
            return loaded;
        }
        let mut snapshots = self.around.control.snapshots.watch();
        let pending = |snapshot: &Arc<Snapshot>| snapshot.catalog.is_loaded() && !awaits_first(snapshot);
        let waited = tokio::time::timeout(FIRST_LISTING.saturating_sub(self.around.control.awake_for()), async {
            loop {
                if pending(&snapshots.borrow_and_update()) {
                    return;
                }
                // A source may also fail without a listing, which changes no snapshot.
                let _ = tokio::time::timeout(Duration::from_millis(100), snapshots.changed()).await;
            }
        });
        let _ = waited.await;
        self.around.control.snapshots.now()
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

/// A source that has never been listed and may yet be.
fn awaits_first(snapshot: &Snapshot) -> bool {
    use crate::source::State::{Dormant, Ready, Starting};
    snapshot.catalog.toolsets.iter().filter(|toolset| !toolset.is_listed()).any(|toolset| {
        let state = snapshot.source(toolset.id.as_str()).map(|source| source.status().state);
        matches!(state, Some(Starting | Ready { .. } | Dormant { note: None }))
    })
}

/// Whether the list can be given at once: nothing in it has still to be read.
fn is_ready(snapshot: &Snapshot, principal: &Principal, waited: bool) -> bool {
    let config = &snapshot.config.relay;
    if config.exposure == Exposure::Eager {
        return snapshot.catalog.is_loaded() && (waited || !awaits_first(snapshot));
    }
    let opened = snapshot.open.get(principal).is_some_and(|opened| *opened != Opened::default());
    snapshot.catalog.is_loaded() || (!opened && config.always_visible.is_empty())
}

/// The entries shown directly, in catalog order.
fn visible<'a>(snapshot: &'a Snapshot, principal: &'a Principal) -> impl Iterator<Item = &'a Entry> {
    let usable = |id: &str| snapshot.source(id).is_some_and(|source| source.refusal().is_none());
    let toolsets = snapshot.catalog.toolsets.iter().filter(move |toolset| usable(toolset.id.as_str()));
    toolsets.flat_map(|toolset| &toolset.entries).filter(|entry| snapshot.is_shown(principal, entry))
}

fn tools_json(snapshot: &Snapshot, principal: &Principal, style: Style) -> String {
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
        push(&snapshot.catalog.exposed_json(entry, style.modern));
    }
    json.push(']');
    if style.modern {
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
    for toolset in snapshot.catalog.toolsets.iter().filter(|toolset| snapshot.is_open(principal, toolset.id.as_str())) {
        hash.update(toolset.id.as_str());
        hash.update(&toolset.digest);
    }
    let single = !snapshot.config.relay.always_visible.is_empty()
        || snapshot.open.get(principal).is_some_and(|opened| !opened.tools.is_empty());
    if single {
        let rest = visible(snapshot, principal).filter(|entry| !snapshot.is_open(principal, entry.source.as_str()));
        for entry in rest {
            hash.update(entry.name.as_str());
            hash.update(&*entry.raw);
        }
    }
    hash.finalize().into()
}
