//! Owns what a client is told of changes: `list_changed` once a change, coalesced, and only when its own list differs.
//! It does not watch sources; it compares snapshots.

use std::sync::Arc;
use std::time::Duration;

use super::list::visible_digest;
use super::{Exchange, Listen, Session};
use crate::protocol;
use crate::snapshot::Snapshot;
use crate::wire::{Message, Object};

/// At least this long between two notifications.
const GAP: Duration = Duration::from_secs(1);

impl Session {
    /// Tells the client of changes until the relay ends. Spawned once a session.
    pub async fn tell_changes(self: Arc<Self>) {
        let mut snapshots = self.around.control.snapshots.watch();
        self.knows(&snapshots.borrow_and_update().clone());
        loop {
            tokio::select! {
                () = self.around.shutdown.cancelled() => return,
                () = self.tell.notified() => {}
                changed = snapshots.changed() => if changed.is_err() { return },
            }
            let snapshot = snapshots.borrow_and_update().clone();
            if !snapshot.catalog.is_loaded() {
                continue;
            }
            let now = visible_digest(&snapshot, &self.principal);
            if self.lock().known != Some(now) && self.tell_list_changed() {
                self.lock().known = Some(now);
                tokio::select! {
                    () = self.around.shutdown.cancelled() => return,
                    () = tokio::time::sleep(GAP) => {}
                }
                // What came in meanwhile is told now, once.
                self.tell.notify_one();
            }
        }
    }

    /// Notes which list the client has now: of that one it need not be told.
    pub(super) fn knows(&self, snapshot: &Snapshot) {
        let digest = visible_digest(snapshot, &self.principal);
        self.lock().known = Some(digest);
    }

    /// `false` when there is nobody yet who may be told, or who need not be.
    fn tell_list_changed(&self) -> bool {
        let state = self.lock();
        if state.listing > 0 {
            return false;
        }
        let listens: Vec<_> =
            state.listens.values().filter(|listen| listen.tools).map(|listen| listen.exchange.clone()).collect();
        let initialized = state.initialized;
        drop(state);
        if initialized {
            let _ = self.news.send_text("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
        }
        for Exchange { id, out, .. } in &listens {
            let _ = out.send_text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{{\"_meta\":{{\"{}\":{id}}}}}}}",
                protocol::META_SUBSCRIPTION
            ));
        }
        initialized || !listens.is_empty()
    }

    /// `subscriptions/listen` (SEP-2575): acknowledged at once, answered only at its end.
    pub(super) fn listen(self: &Arc<Self>, message: &Message, exchange: Exchange) {
        let params = message.params_text().and_then(Object::parse);
        let wanted = params.and_then(|params| params.get("notifications")).and_then(Object::parse);
        let Some(wanted) = wanted else {
            let text = "`params.notifications` is missing or no object";
            return exchange.error(protocol::INVALID_PARAMS, text, None);
        };
        let tools = wanted.get("toolsListChanged") == Some("true");
        let Exchange { id, out, .. } = exchange.clone();
        self.lock().listens.insert(id.clone(), Listen { tools, exchange });
        let accepted = if tools { "{\"toolsListChanged\":true}" } else { "{}" };
        let _ = out.send_text(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"_meta\":{{\"{}\":{id}}},\
             \"notifications\":{accepted}}}}}",
            protocol::META_SUBSCRIPTION
        ));
        self.tell.notify_one();
    }
}
