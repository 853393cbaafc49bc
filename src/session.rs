//! Owns one client's conversation: its requests in flight, its revision, what it is told of changes.
//! It does not know how the bytes travel, and leaves every call's target to [`crate::dispatch`].

mod answer;
mod asks;
mod bound;
mod changes;
mod client_call;
mod coming_back;
mod hello;
mod here;
mod in_vain;
mod intake;
mod list;
mod logging;
mod offers;
mod pages;
mod parked;
mod rounds;
mod routed;
mod seen;
mod skills;
mod subscriptions;
mod tools;
mod uris;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{CallError, Caller, ErrorKind, Tenant, Ticket};
use crate::control::Control;
use crate::defect;
use crate::menu::batch::Batches;
use crate::protocol;
use crate::snapshot::Principal;
use crate::source::updates::Subscribers;
use crate::source::via::Via;
use crate::wire::{Kind, Message, Object, Outbox, quoted, unquoted};
pub use answer::Exchange;
pub use parked::Parked;
pub use seen::Seen;

/// What a session needs of the relay around it.
#[derive(Clone)]
pub struct Surroundings {
    pub control: Control,
    pub batches: Batches,
    /// Calls that wait for their clients.
    pub parked: Parked,
    /// What sources spoke of.
    pub seen: Seen,
    /// Who wants to know of changed resources.
    pub subscribers: Subscribers,
    /// Which relays stand before this one.
    pub via: Via,
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
}

/// Said to a client that uses an id for a second request before the first is answered.
const ID_IN_FLIGHT: &str = "a request with this id is in flight already";

/// A client's session.
pub struct Session {
    around: Surroundings,
    principal: Principal,
    /// Whose instances of sources it uses.
    tenant: Tenant,
    /// Where it is told what belongs to none of its requests.
    news: Arc<Outbox>,
    state: Mutex<ClientState>,
    /// Nothing is in flight any more.
    settled: Notify,
    /// A legacy client may be told of changes from now on.
    tell: Notify,
}

#[derive(Default)]
struct ClientState {
    /// By the id as the client wrote it.
    in_flight: HashMap<Arc<str>, InFlight>,
    /// `subscriptions/listen` requests, by their ids.
    listens: BTreeMap<Arc<str>, Listen>,
    /// What was negotiated with `initialize`.
    version: Option<&'static str>,
    /// What it said of itself then.
    caller: Option<Arc<Caller>>,
    /// What it is asked, by the relay's own ids.
    asked: HashMap<u64, asks::Asked>,
    last_question: u64,
    /// The legacy sources that have asked it for its roots.
    rooted: BTreeSet<String>,
    /// It is a legacy client, and has said that it is ready.
    initialized: bool,
    /// The digest of the list that it got last, or that it was told of.
    known: Option<[u8; 32]>,
    /// The digest of each [`offers::Kind`] that it knows, as far as it has asked for some or listens.
    known_offers: [Option<[u8; 32]>; offers::KINDS],
    /// How many lists it waits for; of what they will show it need not be told.
    listing: usize,
}

impl ClientState {
    /// Whether a request with this id is still to be answered.
    fn holds(&self, id: &str) -> bool {
        self.in_flight.contains_key(id) || self.listens.contains_key(id)
    }

    /// An id as it was written in its request: texts may be escaped in several ways.
    fn as_sent(&self, id: &str) -> Arc<str> {
        if self.holds(id) {
            return id.into();
        }
        let text = unquoted(id);
        let mut ids = self.in_flight.keys().chain(self.listens.keys());
        let same = ids.find(|sent| text.is_some() && unquoted(sent) == text);
        same.cloned().unwrap_or_else(|| id.into())
    }

    /// The request in flight, if it is still this one.
    fn request(&self, exchange: &Exchange) -> Option<&InFlight> {
        self.in_flight.get(&exchange.id).filter(|request| request.exchange.number == exchange.number)
    }
}

struct InFlight {
    exchange: Exchange,
    work: Work,
}

/// What a request in flight is waited for.
enum Work {
    Call(Arc<Ticket>),
    /// A task of the relay's own.
    Task(CancellationToken),
}

struct Listen {
    /// Which lists it wants to hear of: `tools`, `prompts`, `resources`.
    lists: Vec<&'static str>,
    exchange: Exchange,
}

impl Session {
    /// A session of a principal, which sees the world as that one does.
    pub fn new(around: Surroundings, principal: Principal, news: Arc<Outbox>) -> Arc<Self> {
        Self::of(around, principal, Tenant::session(), news)
    }

    /// The same for one request of a client that has no session.
    pub fn single(around: Surroundings, principal: Principal, news: Arc<Outbox>) -> Arc<Self> {
        let tenant = Tenant::Principal(principal.number());
        Self::of(around, principal, tenant, news)
    }

    fn of(mut around: Surroundings, principal: Principal, tenant: Tenant, news: Arc<Outbox>) -> Arc<Self> {
        around.control.snapshots = around.control.snapshots.seen_by(&principal);
        let (state, settled, tell) = Default::default();
        Arc::new(Self { around, principal, tenant, news, state, settled, tell })
    }

    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it speaks the one revision that has batches.
    pub fn takes_batches(&self) -> bool {
        self.lock().version == Some(protocol::WITH_BATCHES)
    }

    /// What was negotiated with `initialize`; `None` for a modern client.
    pub fn version(&self) -> Option<&'static str> {
        self.lock().version
    }

    /// Takes one message from the client; what answers it goes to `out`.
    pub fn message(self: &Arc<Self>, message: Message, out: &Arc<Outbox>) {
        match message.kind {
            Kind::Reply => self.answered(&message),
            Kind::Notification => self.notification(&message),
            Kind::Request => self.request(message, out),
        }
    }

    fn request(self: &Arc<Self>, message: Message, out: &Arc<Outbox>) {
        let id = message.id_text().expect("BUG: a request has an id");
        if !is_legal_id(id) {
            let text = "an id is a string or a number";
            return Exchange::new("null", false, out).error(protocol::INVALID_REQUEST, text, None);
        }
        let mut exchange = Exchange::new(id, false, out);
        if !message.regular {
            let text = "`jsonrpc` must be \"2.0\", and no member may stand there twice";
            return exchange.error(protocol::INVALID_REQUEST, text, None);
        }
        if self.lock().holds(id) {
            return exchange.error(protocol::INVALID_REQUEST, ID_IN_FLIGHT, None);
        }
        let method = message.method_name();
        let params = message.params_object();
        match is_modern(params.as_ref(), &method) {
            Ok(modern) => exchange.modern = modern,
            Err(refusal) => return exchange.error(refusal.code, &refusal.text, refusal.data.as_deref()),
        }
        match &*method {
            "initialize" if !exchange.modern => self.initialize(&message, exchange),
            "server/discover" => self.discover(exchange),
            "ping" if !exchange.modern => exchange.result("{}"),
            "logging/setLevel" if !exchange.modern => self.set_log_level(&message, &exchange),
            "tools/list" => {
                self.around.control.wake();
                self.list_tools(&message, exchange);
            }
            "tools/call" => {
                self.around.control.wake();
                self.call_tool(&message, params.as_ref(), exchange);
            }
            "subscriptions/listen" if exchange.modern => {
                self.around.control.wake();
                self.listen(&message, exchange);
            }
            "resources/subscribe" | "resources/unsubscribe" if !exchange.modern => {
                self.around.control.wake();
                self.subscribe(method == "resources/subscribe", &message, exchange);
            }
            other => {
                if let Some(kind) = offers::Kind::of_method(other, exchange.modern) {
                    self.around.control.wake();
                    return self.list_offers(kind, &message, exchange);
                }
                if self.route_other(other, &message, params.as_ref(), &exchange) {
                    return self.around.control.wake();
                }
                let text = format!("there is no method `{other}` here");
                exchange.error(protocol::METHOD_NOT_FOUND, &text, None);
            }
        }
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
                let id = self.lock().as_sent(id);
                self.cancel(&id, reason.as_deref());
            }
            "notifications/roots/list_changed" => self.roots_changed(),
            "notifications/progress" => self.progressed(message),
            _ => {}
        }
    }

    fn cancel(&self, id: &str, reason: Option<&str>) {
        let mut state = self.lock();
        if let Some(listen) = state.listens.remove(id) {
            drop(state);
            self.listens_no_more(&listen.exchange);
            return listen.exchange.out.give_up_answer();
        }
        let found = state.in_flight.remove(id);
        drop(state);
        match found {
            Some(InFlight { exchange, work, .. }) => {
                // The source is told first: a refused question might let it go on without the answer.
                match work {
                    Work::Call(ticket) => ticket.cancel(reason),
                    Work::Task(token) => token.cancel(),
                }
                self.take_questions_back(&exchange);
                exchange.out.give_up_answer();
            }
            None => tracing::debug!("cancelled what is not in flight"),
        }
        self.tell_settled();
    }

    /// The client is gone, and with it whatever it waited for.
    pub fn abandon(&self) {
        let state = self.lock();
        let left: Vec<_> = state.in_flight.keys().chain(state.listens.keys()).cloned().collect();
        drop(state);
        for id in left {
            self.cancel(&id, Some("the client is gone"));
        }
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.in_flight.is_empty() && state.listens.is_empty()
    }

    /// It is told nothing more.
    pub fn close(self: &Arc<Self>) {
        self.takes_no_lines();
        self.unsubscribe();
        self.tenant.end();
        self.news.close();
    }

    /// Notes a request as in flight; refuses an id that is in flight already.
    fn begin(&self, exchange: &Exchange, work: Work) -> bool {
        let mut state = self.lock();
        if state.holds(&exchange.id) {
            drop(state);
            exchange.error(protocol::INVALID_REQUEST, ID_IN_FLIGHT, None);
            return false;
        }
        state.in_flight.insert(exchange.id.clone(), InFlight { exchange: exchange.clone(), work });
        true
    }

    /// Ends a request; `false` when it was cancelled, and must not be answered.
    fn finish(&self, exchange: &Exchange) -> bool {
        let mut state = self.lock();
        if state.request(exchange).is_none() {
            return false;
        }
        state.in_flight.remove(&exchange.id);
        drop(state);
        self.take_questions_back(exchange);
        self.tell_settled();
        true
    }

    /// Whether a request has still to be answered.
    fn waits_for(&self, exchange: &Exchange) -> bool {
        self.lock().request(exchange).is_some()
    }

    /// By which the call of a request can be taken back.
    fn ticket(&self, exchange: &Exchange) -> Option<Arc<Ticket>> {
        match self.lock().request(exchange)?.work {
            Work::Call(ref ticket) => Some(ticket.clone()),
            Work::Task(_) => None,
        }
    }

    fn tell_settled(&self) {
        if self.lock().in_flight.is_empty() {
            self.settled.notify_waiters();
        }
    }

    /// Runs a task that answers one request, unless the client cancels it before.
    fn spawn(self: &Arc<Self>, exchange: &Exchange, task: impl Future<Output = ()> + Send + 'static) {
        let token = CancellationToken::new();
        if self.begin(exchange, Work::Task(token.clone())) {
            let answered = self.clone().guarded(exchange.clone(), task);
            self.around.tracker.spawn(async move { token.run_until_cancelled(answered).await });
        }
    }

    /// Runs a task that a request in flight needs before it can be sent on or answered.
    fn go_on(self: &Arc<Self>, exchange: &Exchange, task: impl Future<Output = ()> + Send + 'static) {
        self.around.tracker.spawn(self.clone().guarded(exchange.clone(), task));
    }

    /// A fault of the relay's own in the task costs this answer, and never leaves the client waiting for it.
    async fn guarded(self: Arc<Self>, exchange: Exchange, task: impl Future<Output = ()>) {
        let outcome = AssertUnwindSafe(defect::contained(task)).catch_unwind().await;
        if outcome.is_err() && self.finish(&exchange) {
            let text = "toolrelay failed at this request; please report it with the lines on stderr";
            exchange.error(protocol::INTERNAL_ERROR, text, None);
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
        // What the client has been asked it does not answer any more.
        self.is_gone();
        self.break_off(|state, id| state.asked.values().any(|asked| asked.is_only_of(id)));
        if tokio::time::timeout(limit, settled).await.is_err() {
            self.break_off(|_, _| true);
        }
    }

    /// Cancels requests in flight and answers them.
    fn break_off(&self, chosen: impl Fn(&ClientState, &str) -> bool) {
        let mut state = self.lock();
        let ids: Vec<_> = state.in_flight.keys().filter(|id| chosen(&state, id)).cloned().collect();
        let mut left: Vec<_> = ids.iter().filter_map(|id| state.in_flight.remove(id)).collect();
        drop(state);
        // The last one first: a place that becomes free is for none that is broken off as well.
        left.sort_unstable_by_key(|request| std::cmp::Reverse(request.exchange.number));
        for InFlight { exchange, work, .. } in left {
            let text = "the relay is ending and broke this request off";
            match work {
                Work::Call(ticket) => {
                    let hint = match ticket.take_back(Some("the client is gone")) {
                        true => "whether it took effect is not known, check before repeating it",
                        false => "it was not sent to the source, so it had no effect",
                    };
                    self.take_questions_back(&exchange);
                    exchange.tool_error(&CallError::new(ErrorKind::Cancelled, text, hint));
                }
                Work::Task(token) => {
                    token.cancel();
                    exchange.error(protocol::INTERNAL_ERROR, text, None);
                }
            }
        }
        self.tell_settled();
    }

    /// Says goodbye to whoever still listens.
    pub fn end(&self) {
        let listens = std::mem::take(&mut self.lock().listens);
        for Listen { exchange, .. } in listens.values() {
            exchange.result(&format!("{{\"_meta\":{{\"{}\":{}}}}}", protocol::META_SUBSCRIPTION, exchange.id));
        }
    }
}

/// Why a request is refused before it is looked at.
pub struct Refusal {
    pub code: i64,
    pub text: String,
    pub data: Option<String>,
}

/// Which era a request is written in; a request that claims the modern one wrongly is refused here.
pub fn is_modern(params: Option<&Object<'_>>, method: &str) -> Result<bool, Refusal> {
    let refusal = |code, text| Refusal { code, text, data: None };
    let meta = params.and_then(|params| params.get("_meta")).and_then(Object::parse);
    let version = meta.as_ref().and_then(|meta| meta.get(protocol::META_VERSION));
    let Some(version) = version.filter(|_| method != "initialize") else {
        return Ok(method == "server/discover");
    };
    let meta = meta.as_ref().expect("BUG: the version came from it");
    let Some(version) = unquoted(version) else {
        return Err(refusal(protocol::INVALID_PARAMS, format!("`_meta.{}` is no string", protocol::META_VERSION)));
    };
    if version != protocol::MODERN {
        let data = format!("{{\"supported\":[\"{}\"],\"requested\":{}}}", protocol::MODERN, quoted(&version));
        let text = format!("protocol revision `{version}` is not spoken without `initialize`");
        return Err(Refusal { data: Some(data), ..refusal(protocol::UNSUPPORTED_VERSION, text) });
    }
    if meta.get(protocol::META_CAPABILITIES).and_then(Object::parse).is_none() {
        let text = format!("`_meta.{}` is missing or no object", protocol::META_CAPABILITIES);
        return Err(refusal(protocol::INVALID_PARAMS, text));
    }
    if meta.get(protocol::META_LOG_LEVEL).is_some_and(|level| !logging::is_level(level)) {
        let levels = protocol::LOG_LEVELS.join(", ");
        let text = format!("`_meta.{}` must be one of {levels}", protocol::META_LOG_LEVEL);
        return Err(refusal(protocol::INVALID_PARAMS, text));
    }
    Ok(true)
}

fn is_legal_id(id: &str) -> bool {
    id.starts_with('"') || id.bytes().next().is_some_and(|first| first == b'-' || first.is_ascii_digit())
}
