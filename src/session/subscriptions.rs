//! Owns a client's subscriptions to resources: of legacy clients one by one, of modern ones with `subscriptions/listen`.
//! Sources are asked once for each resource, however many clients want to know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::routed::no_resource;
use super::uris::{Found, Nowhere, find_even_withheld, find_resource, withheld};
use super::{Exchange, Session};
use crate::name::SourceId;
use crate::protocol;
use crate::snapshot::Snapshot;
use crate::source::Source;
use crate::source::own::Answer;
use crate::source::updates::Tell;
use crate::wire::{Message, Object, Outbox, quoted};

/// How long a source may take to say whether it tells of a resource's changes; its silence is none of the client's business.
const ANSWER: Duration = Duration::from_secs(10);

/// Whether a source tells of changes of its resources, as far as is known.
fn tells_changes(snapshot: &Snapshot, source: &Source) -> bool {
    let toolset = snapshot.catalog.toolset(source.id.as_str());
    toolset.is_none_or(|toolset| toolset.note().offer.abilities.subscribe)
}

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
        let snapshot = self.around.control.snapshots.now();
        let Found { source, own, .. } = match self.resource(uri) {
            Ok(found) => found,
            // It may have been allowed when it was subscribed to: nothing is told of it any more.
            Err(Nowhere::Withheld(_)) if !begin => {
                let seen = |uri: &str| self.around.seen.source_of(&self.principal, uri);
                if let Some(Found { source, own, .. }) = find_even_withheld(&snapshot, uri, seen) {
                    self.want_no_more(&source, &own, owner(self));
                }
                return exchange.result("{}");
            }
            Err(why) => return no_resource(uri, exchange, &why, &snapshot),
        };
        if begin && !tells_changes(&snapshot, &source) {
            let text = format!("source `{}` does not tell when its resources change: read `{uri}` again", source.id);
            return exchange.error(protocol::METHOD_NOT_FOUND, &text, None);
        }
        if !begin {
            self.want_no_more(&source, &own, owner(self));
            return exchange.result("{}");
        }
        let tell = self.updated(&source, &own, uri, &self.news, None);
        let Some(answer) = self.want(&source, owner(self), [(own.clone(), tell)]).pop() else {
            return exchange.result("{}");
        };
        let (session, asked) = (self.clone(), exchange.clone());
        self.spawn(exchange, async move {
            let answer = tokio::time::timeout(ANSWER, answer).await;
            if !session.finish(&asked) {
                return;
            }
            match answer {
                Ok(Ok(Ok(Message { error: Some(error), line, .. }))) => {
                    let subscribers = source.seen_by(&session.around.subscribers, &session.tenant);
                    // Who came after it is told nothing either: the next one's asking is passed on again.
                    subscribers.remove_refused(source.id.as_str(), &own);
                    asked.error_text(&String::from_utf8_lossy(&line[error.range()]));
                }
                _ => asked.result("{}"),
            }
        });
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
            if !tells_changes(&self.around.control.snapshots.now(), &source) {
                continue;
            }
            let tell = self.updated(&source, &own, uri, &exchange.out, Some(&exchange.id));
            wanted.entry(source.id.clone()).or_insert_with(|| (source, Vec::new())).1.push((own, tell));
            accepted.push(uri.clone());
        }
        for (source, resources) in wanted.into_values() {
            self.want(&source, owner(&exchange.id), resources);
        }
        accepted
    }

    /// All of one source at once: it is asked anew for what it is to tell of.
    fn want(&self, source: &Source, owner: u64, resources: impl IntoIterator<Item = (String, Tell)>) -> Vec<Answer> {
        let subscribers = source.seen_by(&self.around.subscribers, &self.tenant);
        let mut new = Vec::new();
        for (uri, tell) in resources {
            if subscribers.add(source.id.as_str(), &uri, owner, tell) {
                new.push(uri);
            }
        }
        let answers = if new.is_empty() { Vec::new() } else { source.subscribe(&self.tenant, &new, &[]) };
        // Only a running source tells of changes.
        let (source, tenant) = (source.clone(), self.tenant.clone());
        self.around.tracker.spawn(async move {
            if let Err(error) = source.start(&tenant).await {
                tracing::debug!(source = %source.id, why = %error.message, "source of a subscription is not up");
            }
        });
        answers
    }

    /// How the client hears that a source's `own` resource, which it knows as `uri`, has changed: on `out`, of the listening
    /// request `of` if that wants to know.
    fn updated(
        self: &Arc<Self>,
        source: &Source,
        own: &str,
        uri: &str,
        out: &Arc<Outbox>,
        of: Option<&Arc<str>>,
    ) -> Tell {
        let (session, out, source) = (Arc::downgrade(self), Arc::downgrade(out), source.id.clone());
        let (own, uri, of) = (own.to_owned(), uri.to_owned(), of.cloned());
        Arc::new(move |params, below| {
            let (Some(session), Some(out)) = (session.upgrade(), out.upgrade()) else { return };
            let snapshot = session.around.control.snapshots.now();
            let source = snapshot.source(source.as_str());
            if source.is_none_or(|source| withheld(&snapshot, source, &format!("{own}{below}")).is_some()) {
                return;
            }
            let shown = format!("\"uri\":{}", quoted(&format!("{uri}{below}")));
            let _ =
                out.send_text(&notification("notifications/resources/updated", &told(params, &shown, of.as_deref())));
        })
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
                let out = Arc::downgrade(&self.news);
                let text = notification("notifications/elicitation/complete", &params);
                let tell = Arc::new(move || {
                    let _ = out.upgrade().map(|out| out.send_text(&text));
                });
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

/// The params of a source's notification with the URI as the client knows it, and the client's own listening request.
fn told(params: &Object<'_>, shown: &str, of: Option<&str>) -> String {
    let own = of.map(|id| format!("\"{}\":{id}", protocol::META_SUBSCRIPTION));
    let meta = params.get("_meta").and_then(Object::parse);
    let meta = meta
        .as_ref()
        .unwrap_or(&Object { text: "{}", members: Vec::new() })
        .rewritten(|name| !name.starts_with(protocol::META_PREFIX), &own.as_deref().into_iter().collect::<Vec<_>>());
    let meta = (meta != "{}").then(|| format!("\"_meta\":{meta}"));
    let more: Vec<&str> = [shown].into_iter().chain(meta.as_deref()).collect();
    params.rewritten(|name| !matches!(name, "uri" | "_meta"), &more)
}

fn notification(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}")
}
