//! Owns a client's subscriptions to resources: of legacy clients one by one, of modern ones with `subscriptions/listen`.
//! Sources are asked once for each resource, however many clients want to know.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::routed::no_resource;
use super::uris::{Found, Nowhere, find_resource};
use super::{Exchange, Session};
use crate::name::SourceId;
use crate::protocol;
use crate::source::Source;
use crate::source::updates::Tell;
use crate::wire::{Message, Object, Outbox, quoted};

/// Owns subscriptions: the client's session or its listening request, both by their places in memory.
pub(super) fn owner<T: ?Sized>(of: &Arc<T>) -> u64 {
    Arc::as_ptr(of).cast::<()>() as u64
}

impl Session {
    /// `resources/subscribe` and `resources/unsubscribe` of a legacy client.
    pub(super) fn subscribe(self: &Arc<Self>, begin: bool, message: &Message, exchange: Exchange) {
        let uri = message.params_text().and_then(Object::parse);
        let uri = uri.and_then(|params| params.string("uri").map(|uri| uri.into_owned()));
        let Some(uri) = uri else {
            return exchange.error(protocol::INVALID_PARAMS, "`params.uri` is missing or no string", None);
        };
        if self.resource(&uri).is_ok() {
            return self.subscribe_to(begin, &uri, &exchange);
        }
        let (session, own) = (self.clone(), exchange.clone());
        self.spawn(&exchange, async move {
            session.around.control.once(|snapshot| !snapshot.awaits_any()).await;
            if session.finish(&own) {
                session.subscribe_to(begin, &uri, &own);
            }
        });
    }

    fn subscribe_to(self: &Arc<Self>, begin: bool, uri: &str, exchange: &Exchange) {
        let Found { source, own, .. } = match self.resource(uri) {
            Ok(found) => found,
            Err(why) => return no_resource(uri, exchange, &why, &self.around.control.snapshots.now()),
        };
        if begin {
            let params = format!("{{\"uri\":{}}}", quoted(uri));
            self.want(&source, owner(self), [(own, updated(&self.news, params))]);
        } else {
            self.want_no_more(&source, &own, owner(self));
        }
        exchange.result("{}");
    }

    pub(super) fn resource(&self, uri: &str) -> Result<Found, Nowhere> {
        let snapshot = self.around.control.snapshots.now();
        find_resource(&snapshot, uri, |uri| self.around.seen.source_of(&self.principal, uri))
    }

    /// The resources of a `subscriptions/listen` request; gives those that there are.
    pub(super) fn listen_to(self: &Arc<Self>, uris: &[String], exchange: &Exchange) -> Vec<String> {
        let mut accepted = Vec::new();
        let mut wanted: BTreeMap<SourceId, (Source, Vec<(String, Tell)>)> = BTreeMap::new();
        for uri in uris {
            let Ok(Found { source, own, .. }) = self.resource(uri) else { continue };
            let id = &exchange.id;
            let params = format!("{{\"uri\":{},\"_meta\":{{\"{}\":{id}}}}}", quoted(uri), protocol::META_SUBSCRIPTION);
            let tell = updated(&exchange.out, params);
            wanted.entry(source.id.clone()).or_insert_with(|| (source, Vec::new())).1.push((own, tell));
            accepted.push(uri.clone());
        }
        for (source, resources) in wanted.into_values() {
            self.want(&source, owner(&exchange.id), resources);
        }
        accepted
    }

    /// All of one source at once: it is asked anew for what it is to tell of.
    fn want(&self, source: &Source, owner: u64, resources: impl IntoIterator<Item = (String, Tell)>) {
        let subscribers = source.seen_by(&self.around.subscribers, &self.tenant);
        let mut new = Vec::new();
        for (uri, tell) in resources {
            if subscribers.add(source.id.as_str(), &uri, owner, tell) {
                new.push(uri);
            }
        }
        if !new.is_empty() {
            source.subscribe(&self.tenant, &new, &[]);
        }
        // Only a running source tells of changes.
        let (source, tenant) = (source.clone(), self.tenant.clone());
        self.around.tracker.spawn(async move {
            if let Err(error) = source.start(&tenant).await {
                tracing::debug!(source = %source.id, why = %error.message, "source of a subscription is not up");
            }
        });
    }

    fn want_no_more(&self, source: &Source, uri: &str, owner: u64) {
        let subscribers = source.seen_by(&self.around.subscribers, &self.tenant);
        if subscribers.remove(source.id.as_str(), uri, owner) {
            source.subscribe(&self.tenant, &[], &[uri.to_owned()]);
        }
    }

    /// A legacy client is asked to visit pages, each the text of what says so: it is told when the source says that it has.
    pub(super) fn expects_visits<'a>(self: &Arc<Self>, source: &str, pages: impl IntoIterator<Item = &'a str>) {
        let snapshot = self.around.control.snapshots.now();
        let Some(of) = snapshot.source(source) else { return };
        let subscribers = of.seen_by(&self.around.subscribers, &self.tenant);
        for page in pages.into_iter().filter_map(Object::parse) {
            if let Some(id) = page.string("elicitationId") {
                let params = format!("{{\"elicitationId\":{}}}", quoted(&id));
                let tell = tell(&self.news, "notifications/elicitation/complete", &params);
                subscribers.expect_visit(source, &id, owner(self), tell);
            }
        }
    }

    /// The listening request is over.
    pub(super) fn listens_no_more(&self, exchange: &Exchange) {
        self.end_subscriptions(owner(&exchange.id));
    }

    /// The session is over.
    pub(super) fn unsubscribe(self: &Arc<Self>) {
        self.end_subscriptions(owner(self));
    }

    fn end_subscriptions(&self, owner: u64) {
        let snapshot = self.around.control.snapshots.now();
        // In the order of their sources.
        let left = self.around.subscribers.remove_all(owner);
        for of_one in left.chunk_by(|one, next| one.source == next.source) {
            if let Some(source) = snapshot.source(&of_one[0].source) {
                let gone: Vec<String> = of_one.iter().map(|left| left.uri.clone()).collect();
                source.subscribe(&self.tenant, &[], &gone);
            }
        }
    }
}

fn updated(out: &Arc<Outbox>, params: String) -> Tell {
    tell(out, "notifications/resources/updated", &params)
}

fn tell(out: &Arc<Outbox>, method: &str, params: &str) -> Tell {
    let out = Arc::downgrade(out);
    let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}");
    Arc::new(move || {
        if let Some(out) = out.upgrade() {
            let _ = out.send_text(&text);
        }
    })
}
