//! Owns one client's conversation: its requests in flight, its revision, what it is told of changes.
//! It does not know how the bytes travel, and leaves every call's target to [`crate::dispatch`].

mod answer;
mod changes;
mod hello;
mod list;
mod tools;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{CallError, ErrorKind, Ticket};
use crate::control::Control;
use crate::menu::batch::Batches;
use crate::protocol;
use crate::snapshot::Principal;
use crate::wire::{self, Kind, Line, Message, Object, Outbox, Unreadable, quoted};
pub use hello::instructions;

/// What a session needs of the relay around it.
#[derive(Clone)]
pub struct Surroundings {
    pub control: Control,
    pub batches: Batches,
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
}

/// Said to a client that uses an id for a second request before the first is answered.
const ID_IN_FLIGHT: &str = "a request with this id is in flight already";

/// A client's session.
pub struct Session {
    around: Surroundings,
    principal: Principal,
    outbox: Arc<Outbox>,
    state: Mutex<ClientState>,
    /// Nothing is in flight any more.
    settled: Notify,
    /// A legacy client may be told of changes from now on.
    tell: Notify,
}

#[derive(Default)]
struct ClientState {
    /// By the id as the client wrote it.
    in_flight: HashMap<Box<str>, InFlight>,
    /// `subscriptions/listen` requests, by their ids.
    listens: BTreeMap<Box<str>, Listen>,
    /// What was negotiated with `initialize`.
    version: Option<&'static str>,
    /// It is a legacy client, and has said that it is ready.
    initialized: bool,
    /// The digest of the list that it got last, or that it was told of.
    known: Option<[u8; 32]>,
    /// How many lists it waits for; of what they will show it need not be told.
    listing: usize,
}

impl ClientState {
    /// Whether a request with this id is still to be answered.
    fn holds(&self, id: &str) -> bool {
        self.in_flight.contains_key(id) || self.listens.contains_key(id)
    }
}

enum InFlight {
    Call(Arc<Ticket>, Style),
    /// A task of the relay's own.
    Task(CancellationToken),
}

struct Listen {
    tools: bool,
}

/// How one request wants to be answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// In the shapes of 2026-07-28.
    pub modern: bool,
}

impl Session {
    pub fn new(around: Surroundings, principal: Principal, outbox: Arc<Outbox>) -> Arc<Self> {
        Arc::new(Self {
            around,
            principal,
            outbox,
            state: Mutex::default(),
            settled: Notify::new(),
            tell: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one line from the client.
    pub async fn receive(self: &Arc<Self>, line: Line) {
        match line {
            Line::Whole(bytes) => {
                let session = self.clone();
                let handler = move |bytes| match Message::parse(bytes) {
                    Ok(message) => session.message(message),
                    Err((why, bytes)) => session.unreadable(&why, &bytes),
                };
                wire::handle(bytes, handler).await;
            }
            Line::TooLong { head, tail, length } => {
                let text = format!("the message has {length} bytes, more than `max_message_mib` in [relay] allows");
                self.error(salvaged(&head, &tail), protocol::INVALID_REQUEST, &text, None);
            }
        }
    }

    /// A batch, for a client of the one revision that has them: each message as if it had come alone, and answered so.
    fn batch(self: &Arc<Self>, bytes: &Bytes) -> bool {
        if self.lock().version != Some(protocol::WITH_BATCHES) {
            return false;
        }
        let parts: Vec<&RawValue> = serde_json::from_slice(bytes).unwrap_or_default();
        for part in &parts {
            match Message::parse(bytes.slice_ref(part.get().as_bytes())) {
                Ok(message) => self.message(message),
                Err((why, part)) => self.unreadable(&why, &part),
            }
        }
        !parts.is_empty()
    }

    fn unreadable(self: &Arc<Self>, why: &Unreadable, bytes: &Bytes) {
        if *why == Unreadable::Batch && self.batch(bytes) {
            return;
        }
        let (code, id) = match why {
            Unreadable::NotUtf8 | Unreadable::NotJson(_) => (protocol::PARSE_ERROR, salvaged(bytes, bytes)),
            Unreadable::Batch => (protocol::INVALID_REQUEST, "null"),
            Unreadable::NotObject => (protocol::PARSE_ERROR, "null"),
            Unreadable::NotMessage(_) => (protocol::INVALID_REQUEST, salvaged(bytes, bytes)),
        };
        let hint = match why {
            Unreadable::Batch => ": send each message on a line of its own; only 2025-03-26 has batches",
            _ => ": expected one JSON-RPC message a line",
        };
        self.error(id, code, &format!("{why}{hint}"), None);
    }

    fn message(self: &Arc<Self>, message: Message) {
        match message.kind {
            Kind::Reply => tracing::debug!("reply of the client to nothing dropped"),
            Kind::Notification => self.notification(&message),
            Kind::Request => self.request(message),
        }
    }

    fn request(self: &Arc<Self>, message: Message) {
        let id = message.id_text().expect("BUG: a request has an id");
        if !is_legal_id(id) {
            return self.error("null", protocol::INVALID_REQUEST, "an id is a string or a number", None);
        }
        if !message.regular {
            let text = "`jsonrpc` must be \"2.0\", and no member may stand there twice";
            return self.error(id, protocol::INVALID_REQUEST, text, None);
        }
        if self.lock().holds(id) {
            return self.error(id, protocol::INVALID_REQUEST, ID_IN_FLIGHT, None);
        }
        let method = message.method_name();
        let style = match self.style(&message, &method) {
            Ok(style) => style,
            Err(()) => return,
        };
        match &*method {
            "initialize" => self.initialize(&message),
            "server/discover" => self.discover(&message),
            "ping" => self.result(id, "{}", style),
            "tools/list" => {
                self.around.control.wake();
                self.list_tools(&message, style);
            }
            "tools/call" => {
                self.around.control.wake();
                self.call_tool(&message, style);
            }
            "subscriptions/listen" if style.modern => {
                self.around.control.wake();
                self.listen(&message);
            }
            other => {
                let text = format!("there is no method `{other}` here; toolrelay serves tools");
                self.error(id, protocol::METHOD_NOT_FOUND, &text, None);
            }
        }
    }

    /// Which era a request is written in; a request that claims the modern one wrongly is refused here.
    fn style(&self, message: &Message, method: &str) -> Result<Style, ()> {
        let id = message.id_text().expect("BUG: a request has an id");
        let meta = message.params_text().and_then(Object::parse).and_then(|params| params.get("_meta"));
        let meta = meta.and_then(Object::parse);
        let version = meta.as_ref().and_then(|meta| meta.get(protocol::META_VERSION));
        let Some(version) = version.filter(|_| method != "initialize") else {
            return Ok(Style { modern: method == "server/discover" });
        };
        let meta = meta.as_ref().expect("BUG: the version came from it");
        let Some(version) = wire::unquoted(version) else {
            self.error(id, protocol::INVALID_PARAMS, &format!("`_meta.{}` is no string", protocol::META_VERSION), None);
            return Err(());
        };
        if version != protocol::MODERN {
            let data = format!("{{\"supported\":[\"{}\"],\"requested\":{}}}", protocol::MODERN, quoted(&version));
            let text = format!("protocol revision `{version}` is not spoken without `initialize`");
            self.error(id, protocol::UNSUPPORTED_VERSION, &text, Some(&data));
            return Err(());
        }
        if meta.get(protocol::META_CAPABILITIES).and_then(Object::parse).is_none() {
            let text = format!("`_meta.{}` is missing or no object", protocol::META_CAPABILITIES);
            self.error(id, protocol::INVALID_PARAMS, &text, None);
            return Err(());
        }
        Ok(Style { modern: true })
    }

    fn notification(self: &Arc<Self>, message: &Message) {
        match &*message.method_name() {
            "notifications/initialized" => {
                self.lock().initialized = true;
                self.tell.notify_one();
                self.around.control.wake();
            }
            "notifications/cancelled" => {
                let params = message.params_text().and_then(Object::parse);
                let Some(id) = params.as_ref().and_then(|params| params.get("requestId")) else { return };
                let reason = params.as_ref().and_then(|params| params.string("reason"));
                self.cancel(id, reason.as_deref());
            }
            _ => {}
        }
    }

    fn cancel(&self, id: &str, reason: Option<&str>) {
        let mut state = self.lock();
        if state.listens.remove(id).is_some() {
            return;
        }
        let found = state.in_flight.remove(id);
        drop(state);
        match found {
            Some(InFlight::Call(ticket, _)) => ticket.cancel(reason),
            Some(InFlight::Task(token)) => token.cancel(),
            None => tracing::debug!("cancelled what is not in flight"),
        }
        self.tell_settled();
    }

    /// Notes a request as in flight; refuses an id that is in flight already.
    fn begin(&self, id: &str, what: InFlight) -> bool {
        let mut state = self.lock();
        if state.holds(id) {
            drop(state);
            self.error(id, protocol::INVALID_REQUEST, ID_IN_FLIGHT, None);
            return false;
        }
        state.in_flight.insert(id.into(), what);
        true
    }

    /// Ends a request; `false` when it was cancelled, and must not be answered.
    fn finish(&self, id: &str) -> bool {
        let found = self.lock().in_flight.remove(id).is_some();
        self.tell_settled();
        found
    }

    fn tell_settled(&self) {
        if self.lock().in_flight.is_empty() {
            self.settled.notify_waiters();
        }
    }

    /// Runs a task that answers one request, unless the client cancels it before.
    fn spawn(self: &Arc<Self>, id: &str, task: impl Future<Output = ()> + Send + 'static) {
        let token = CancellationToken::new();
        if self.begin(id, InFlight::Task(token.clone())) {
            let (session, own_id) = (self.clone(), id.to_owned());
            self.around.tracker.spawn(async move {
                let outcome = tokio::select! {
                    () = token.cancelled() => return,
                    outcome = std::panic::AssertUnwindSafe(task).catch_unwind() => outcome,
                };
                // A fault of the relay's own costs this answer, and never leaves the client waiting for it.
                if outcome.is_err() && session.finish(&own_id) {
                    let text = "toolrelay failed at this request; please report it with the lines on stderr";
                    session.error(&own_id, protocol::INTERNAL_ERROR, text, None);
                }
            });
        }
    }

    /// Waits until everything in flight has been answered, at most `limit`; what is left is then cancelled and told so.
    pub async fn drain(&self, limit: Duration) {
        let settled = async {
            loop {
                let notified = self.settled.notified();
                tokio::pin!(notified);
                notified.as_mut().enable();
                if self.lock().in_flight.is_empty() {
                    return;
                }
                notified.await;
            }
        };
        if tokio::time::timeout(limit, settled).await.is_ok() {
            return;
        }
        let left: Vec<_> = self.lock().in_flight.drain().collect();
        for (id, what) in left {
            let text = "the relay is ending and broke this request off";
            match what {
                InFlight::Call(ticket, style) => {
                    ticket.cancel(Some("the client is gone"));
                    let hint = "whether it took effect is not known, check before repeating it";
                    self.tool_error(&id, &CallError::new(ErrorKind::Cancelled, text, hint), style);
                }
                InFlight::Task(token) => {
                    token.cancel();
                    self.error(&id, protocol::INTERNAL_ERROR, text, None);
                }
            }
        }
    }

    /// Says goodbye to whoever still listens.
    pub fn end(&self) {
        let listens = std::mem::take(&mut self.lock().listens);
        for id in listens.keys() {
            let _ = self.outbox.send_text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"resultType\":\"complete\",\"_meta\":{{\"{}\":{id}}}}}}}",
                protocol::META_SUBSCRIPTION
            ));
        }
    }
}

fn is_legal_id(id: &str) -> bool {
    id.starts_with('"') || id.bytes().next().is_some_and(|first| first == b'-' || first.is_ascii_digit())
}

/// The id in a message that cannot be read, as text to answer with; `null` when there is none.
fn salvaged<'a>(head: &'a [u8], tail: &'a [u8]) -> &'a str {
    wire::salvage::salvage_id(head, tail).unwrap_or("null")
}
