//! Owns what a client is told of changes: `list_changed` once a change, coalesced, and only when its own list differs.
//! It does not watch sources; it compares snapshots.

use std::sync::Arc;
use std::time::Duration;

use super::list::visible_digest;
use super::offers::{Kind, digest};
use super::{Exchange, Listen, Session};
use crate::protocol;
use crate::snapshot::Snapshot;
use crate::wire::{Message, Object, quoted};

/// The notifications besides that of the tools, and the lists that each is for.
const OFFERS: [(&str, &[Kind]); 2] =
    [("prompts", &[Kind::Prompts]), ("resources", &[Kind::Resources, Kind::Templates, Kind::Skills])];
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
            let mut told = false;
            if self.lock().known != Some(now) && self.tell_list_changed("tools") {
                self.lock().known = Some(now);
                told = true;
            }
            told |= self.tell_offers_changed(&snapshot);
            if told {
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

    /// Notes that the client has these lists of prompts or resources now. Of others that the same notification is for it is
    /// told what is new from now on.
    pub(super) fn knows_offers(&self, snapshot: &Snapshot, read: &[Kind]) {
        let told_with = OFFERS.into_iter().filter(|(_, kinds)| kinds.iter().any(|kind| read.contains(kind)));
        for kind in told_with.flat_map(|(_, kinds)| kinds) {
            let digest = digest(snapshot, *kind);
            let mut state = self.lock();
            let known = &mut state.known_offers[*kind as usize];
            if known.is_none() || read.contains(kind) {
                *known = Some(digest);
            }
        }
    }

    /// Tells a client that lists of prompts or resources differ that it has or listens to.
    fn tell_offers_changed(&self, snapshot: &Snapshot) -> bool {
        let known = self.lock().known_offers;
        let mut told = false;
        for (list, kinds) in OFFERS {
            let known = kinds.iter().filter_map(|kind| Some((*kind, known[*kind as usize]?)));
            let now: Vec<_> = known.map(|(kind, known)| (kind, known, digest(snapshot, kind))).collect();
            if now.iter().any(|(_, known, now)| known != now) && self.tell_list_changed(list) {
                told = true;
                let mut state = self.lock();
                now.iter().for_each(|(kind, _, now)| state.known_offers[*kind as usize] = Some(*now));
            }
        }
        told
    }

    /// `false` when there is nobody yet who may be told, or who need not be.
    fn tell_list_changed(&self, list: &str) -> bool {
        let state = self.lock();
        if state.listing > 0 {
            return false;
        }
        let listens = state.listens.values().filter(|listen| listen.lists.contains(&list));
        let listens: Vec<_> = listens.map(|listen| listen.exchange.clone()).collect();
        let initialized = state.initialized;
        drop(state);
        if initialized {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"}}");
            let _ = self.news.send_text(&text);
        }
        for Exchange { id, out, .. } in &listens {
            let _ = out.send_text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\",\"params\":{{\"_meta\":{{\"{}\":{id}}}}}}}",
                protocol::META_SUBSCRIPTION
            ));
        }
        initialized || !listens.is_empty()
    }

    /// `subscriptions/listen` (SEP-2575): acknowledged at once, answered only at its end. Only where it names a resource that
    /// no source has, as far as is known, the first listings are waited for.
    pub(super) fn listen(self: &Arc<Self>, message: &Message, exchange: Exchange) {
        let Some(wanted) = wanted_by(message) else {
            let text = "`params.notifications` is missing or no object";
            return exchange.error(protocol::INVALID_PARAMS, text, None);
        };
        if uris(&wanted).iter().all(|uri| self.resource(uri).is_ok()) {
            return self.listen_now(&wanted, exchange);
        }
        let (session, own, message) = (self.clone(), exchange.clone(), message.clone());
        self.spawn(&exchange, async move {
            session.around.control.once(|snapshot| !snapshot.awaits_any()).await;
            if let Some(wanted) = wanted_by(&message)
                && session.finish(&own)
            {
                session.listen_now(&wanted, own);
            }
        });
    }

    fn listen_now(self: &Arc<Self>, wanted: &Object<'_>, exchange: Exchange) {
        let is_wanted = |list: &&str| wanted.get(&format!("{list}ListChanged")) == Some("true");
        let lists: Vec<&str> = ["tools", "prompts", "resources"].into_iter().filter(is_wanted).collect();
        let Exchange { id, out, .. } = exchange.clone();
        let uris = self.listen_to(&uris(wanted), &exchange);
        for (_, kinds) in OFFERS.iter().filter(|(list, _)| lists.contains(list)) {
            self.knows_offers(&self.around.control.snapshots.now(), kinds);
        }
        let mut accepted: Vec<String> = lists.iter().map(|list| format!("\"{list}ListChanged\":true")).collect();
        self.lock().listens.insert(id.clone(), Listen { lists, exchange });
        if !uris.is_empty() {
            let uris: Vec<String> = uris.iter().map(|uri| quoted(uri)).collect();
            accepted.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        let accepted = format!("{{{}}}", accepted.join(","));
        let _ = out.send_text(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"_meta\":{{\"{}\":{id}}},\
             \"notifications\":{accepted}}}}}",
            protocol::META_SUBSCRIPTION
        ));
        self.tell.notify_one();
    }
}

/// What a `subscriptions/listen` request wants to be told of.
fn wanted_by(message: &Message) -> Option<Object<'_>> {
    let params = message.params_text().and_then(Object::parse)?;
    params.get("notifications").and_then(Object::parse)
}

/// The resources that it wants to be told of.
fn uris(wanted: &Object<'_>) -> Vec<String> {
    let text = wanted.get("resourceSubscriptions");
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
