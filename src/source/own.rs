//! Owns what the relay itself says to a source on a connection: its own requests, its subscriptions, its notifications.
//! It carries no call.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::handshake::{self, Greeting};
use super::in_flight::Pending;
use super::link::Link;
use super::updates::Subscribers;
use crate::call::CallError;
use crate::protocol::{self, Era};
use crate::wire::{Message, quoted};

/// The answer to a request of the relay's own, once it has come.
pub type Answer = oneshot::Receiver<Result<Message, CallError>>;

impl Link {
    /// One request of the relay's own. `params` is the text of an object.
    pub fn request(&self, method: &str, params: &str) -> Answer {
        let (answer, receiver) = oneshot::channel();
        let mut table = self.lock();
        if let Some(closed) = &table.closed {
            let _ = answer.send(Err(closed.clone()));
            return receiver;
        }
        table.last_id += 1;
        let id = table.last_id;
        table.pending.insert(id, Pending::Own(answer));
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{},\"params\":{params}}}", quoted(method));
        let _ = self.outbox.send_text(&text);
        receiver
    }

    /// After the greeting: what the source is to tell of from the start.
    pub fn begin(&self, greeting: &Greeting, subscribers: &Subscribers) {
        if greeting.era == Era::Modern {
            self.listen();
        }
        let _ = self.subscribers.set(subscribers.clone());
        self.note_abilities(greeting);
        match greeting.era {
            Era::Legacy => self.subscribe_again(),
            Era::Modern => drop(self.subscribe(&[], &[])),
        }
    }

    fn note_abilities(&self, greeting: &Greeting) {
        let logs = greeting.era == Era::Legacy && greeting.note.offer.abilities.logging;
        self.logs.store(logs, Ordering::Relaxed);
        self.declares_tools.store(greeting.tools, Ordering::Relaxed);
    }

    /// What a legacy source answered to the greeting of another session: it may be another version of itself by now.
    pub fn greeted_again(&self, reply: &Message) -> Result<(), CallError> {
        let greeting = handshake::read_legacy(self, &Ok(reply.clone()))?;
        self.note_abilities(&greeting);
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(greeting);
        Ok(())
    }

    /// What it said of itself since, if that was asked for again.
    pub fn take_news(&self) -> Option<Greeting> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Asks a modern source to tell of changes of its list (SEP-2575). The request stays open as long as the connection,
    /// so nobody waits for its answer.
    pub fn listen(&self) {
        let id = self.next_id();
        let _ = self.outbox.send_text(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":\
             {{\"toolsListChanged\":true,\"promptsListChanged\":true,\"resourcesListChanged\":true}},\"_meta\":{}}}}}",
            protocol::modern_meta()
        ));
    }

    /// Has the source tell of changes of all resources that are wanted, and of no others any more: of these `new` were not
    /// wanted before, and `gone` are wanted no longer. A legacy source answers to each of the new ones.
    pub fn subscribe(&self, new: &[String], gone: &[String]) -> Vec<Answer> {
        if self.era() == Era::Modern {
            self.listen_to_resources(&mut self.listening());
            return Vec::new();
        }
        let ask = |method: &str, uri: &String| self.request(method, &format!("{{\"uri\":{}}}", quoted(uri)));
        gone.iter().for_each(|uri| drop(ask("resources/unsubscribe", uri)));
        new.iter().map(|uri| ask("resources/subscribe", uri)).collect()
    }

    /// Whether this is the id of the request for the resources that are wanted now.
    pub fn listens_as(&self, id: u64) -> bool {
        *self.listening() == id
    }

    fn listening(&self) -> MutexGuard<'_, u64> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request for all that is wanted takes the place of the last one, whose id is in `listening`.
    fn listen_to_resources(&self, listening: &mut u64) {
        let wanted = self.wanted();
        let id = if wanted.is_empty() {
            0
        } else {
            let uris: Vec<String> = wanted.iter().map(|uri| quoted(uri)).collect();
            let id = self.next_id();
            let _ = self.outbox.send_text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":\
                 {{\"resourceSubscriptions\":[{}]}},\"_meta\":{}}}}}",
                uris.join(","),
                protocol::modern_meta()
            ));
            id
        };
        let before = std::mem::replace(listening, id);
        if before != 0 {
            self.tell_cancelled(before, Some("another subscription takes its place"));
        }
    }

    /// The resources of the source that anybody is subscribed to.
    fn wanted(&self) -> Vec<String> {
        self.subscribers.get().map(|all| all.uris(&self.source)).unwrap_or_default()
    }

    /// The subscription of this id was lost: another takes its place, and what changed meanwhile is read again.
    pub fn listen_again(&self, lost: u64) {
        let mut listening = self.listening();
        if *listening == lost {
            return self.listen_to_resources(&mut listening);
        }
        drop(listening);
        self.list_changed.notify_one();
        self.listen();
    }

    /// Has a legacy source send log lines from this level on. Of a modern one each request asks for them.
    pub fn set_log_level(&self, level: &str) {
        if self.logs.load(Ordering::Relaxed) {
            drop(self.request("logging/setLevel", &format!("{{\"level\":{}}}", quoted(level))));
        }
    }

    /// A legacy source that has forgotten its session has forgotten what it was asked to tell of.
    pub fn subscribe_again(&self) {
        if let Some(level) = self.subscribers.get().and_then(Subscribers::level) {
            self.set_log_level(level);
        }
        drop(self.subscribe(&self.wanted(), &[]));
    }

    pub(super) fn next_id(&self) -> u64 {
        let mut table = self.lock();
        table.last_id += 1;
        table.last_id
    }

    /// One notification of the relay's own; `params` may be empty.
    pub fn notify(&self, method: &str, params: &str) {
        let params = if params.is_empty() { String::new() } else { format!(",\"params\":{params}") };
        let _ = self.outbox.send_text(&format!("{{\"jsonrpc\":\"2.0\",\"method\":{}{params}}}", quoted(method)));
    }

    pub(super) fn tell_cancelled(&self, id: u64, reason: Option<&str>) {
        let reason = reason.map(|reason| format!(",\"reason\":{}", quoted(reason))).unwrap_or_default();
        self.notify("notifications/cancelled", &format!("{{\"requestId\":{id}{reason}}}"));
    }
}
