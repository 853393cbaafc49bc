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
            if self.lock().known != Some(now) && self.tell_list_changed("tools", |listen| listen.tools) {
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

    /// Notes which prompts and resources the client knows now.
    pub(super) fn knows_offers(&self, snapshot: &Snapshot) {
        let [prompts, resources] = self.offer_digests(snapshot);
        let mut state = self.lock();
        (state.known_prompts, state.known_resources) = (Some(prompts), Some(resources));
    }

    fn offer_digests(&self, snapshot: &Snapshot) -> [[u8; 32]; 2] {
        let of = |kinds: &[Kind]| digest(snapshot, kinds);
        [of(&[Kind::Prompts]), of(&[Kind::Resources, Kind::Templates, Kind::Skills])]
    }

    /// Tells a client that its list of prompts or resources differs, if it has one or listens.
    fn tell_offers_changed(&self, snapshot: &Snapshot) -> bool {
        let state = self.lock();
        let listens = state.listens.values().any(|listen| listen.prompts || listen.resources);
        let known = (state.known_prompts, state.known_resources);
        drop(state);
        if known == (None, None) && !listens {
            return false;
        }
        let [prompts, resources] = self.offer_digests(snapshot);
        let mut told = false;
        if known.0.is_some_and(|known| known != prompts) {
            told |= self.tell_list_changed("prompts", |listen| listen.prompts);
        }
        if known.1.is_some_and(|known| known != resources) {
            told |= self.tell_list_changed("resources", |listen| listen.resources);
        }
        if told || known.0.is_none() {
            let mut state = self.lock();
            (state.known_prompts, state.known_resources) = (Some(prompts), Some(resources));
        }
        told
    }

    /// `false` when there is nobody yet who may be told, or who need not be.
    fn tell_list_changed(&self, list: &str, wants: impl Fn(&Listen) -> bool) -> bool {
        let state = self.lock();
        if state.listing > 0 {
            return false;
        }
        let listens: Vec<_> =
            state.listens.values().filter(|listen| wants(listen)).map(|listen| listen.exchange.clone()).collect();
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
        let flag = |name: &str| wanted.get(name) == Some("true");
        let (tools, prompts) = (flag("toolsListChanged"), flag("promptsListChanged"));
        let resources = flag("resourcesListChanged");
        let Exchange { id, out, .. } = exchange.clone();
        let uris = self.listen_to(&uris(wanted), &exchange);
        if prompts || resources {
            self.knows_offers(&self.around.control.snapshots.now());
        }
        self.lock().listens.insert(id.clone(), Listen { tools, prompts, resources, exchange });
        let mut accepted: Vec<String> = ["tools", "prompts", "resources"]
            .into_iter()
            .zip([tools, prompts, resources])
            .filter(|(_, wanted)| *wanted)
            .map(|(list, _)| format!("\"{list}ListChanged\":true"))
            .collect();
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
