//! Owns one live connection to a source over HTTP: what is posted, what listens, and its end. It stands where a process
//! stands for a source that is a program. It does not know how a single request fares.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::Surroundings;
use super::doubt::Doubt;
use super::headers::ParamHeaders;
use super::link::{Link, OUTBOX_LIMIT};
use super::notes::Questions;
use super::run::{Gone, Running};
use super::session::Sessions;
use super::sse::{self, Streams};
use super::target::Target;
use super::unasked;
use crate::call::{CallError, ErrorKind};
use crate::config::{Remote, SourceConfig};
use crate::protocol::Era;
use crate::wire::{self, Kind, Message, Object, Outbox};

/// How often requests are looked for whose answer nobody waits for any more.
const TIDY: Duration = Duration::from_secs(1);
/// How long the end of a session may take: while the relay goes on, and when it ends.
const FAREWELL: Duration = Duration::from_secs(3);
const FAREWELL_AT_EXIT: Duration = Duration::from_millis(700);

/// A connection to an HTTP source.
pub struct Connection {
    pub link: Arc<Link>,
    pub target: Target,
    pub max_message: usize,
    pub session: Sessions,
    pub params: ParamHeaders,
    /// The connection is over: whatever still runs for it ends.
    pub closing: CancellationToken,
    pub tracker: TaskTracker,
    /// The streams of the transport of 2024-11-05; `None` with streamable HTTP.
    pub old: Option<Streams>,
    /// Answers may come on the stream of a legacy session.
    pub listens: watch::Sender<bool>,
    pub questions: Questions,
    pub doubt: Doubt,
    flights: Mutex<HashMap<u64, Flight>>,
    end: Mutex<Option<oneshot::Sender<CallError>>>,
    /// Why it is to end once what is in flight is over.
    leaving: Mutex<Option<CallError>>,
    /// Why the last request did not reach the source, where none did since.
    unreached: Mutex<Option<(Instant, CallError)>>,
    wants_old: AtomicBool,
    /// Whether the subscription to changed lists was ever open, and that to changed resources.
    pub subscribed: [AtomicBool; 2],
    /// Subscriptions lost one after another.
    lost: AtomicU32,
}

/// A request under way.
struct Flight {
    recalled: CancellationToken,
    /// It stays open for what the source may tell; no answer is awaited.
    listens: bool,
}

/// Makes the connection's client and its tasks. Nothing is sent before the link is used, but with the old transport, which
/// begins with a stream.
pub async fn connect(
    config: &SourceConfig,
    remote: &Remote,
    old: bool,
    around: &Surroundings,
) -> Result<Running, CallError> {
    let id = config.id.as_str();
    let target = Target::new(id, remote, around.lookup(), around.via.clone()).await?;
    let tail = target.tail();
    let outbox = Outbox::frames(OUTBOX_LIMIT);
    let link = Link::new(id, config.max_in_flight, around.shutdown.child_token(), outbox, target.secrets());
    let (end, ended) = oneshot::channel();
    let connection = Arc::new(Connection {
        link: link.clone(),
        target,
        max_message: around.max_message,
        session: Sessions::default(),
        params: ParamHeaders::default(),
        closing: CancellationToken::new(),
        tracker: around.tracker.clone(),
        old: old.then(Streams::default),
        listens: watch::channel(false).0,
        questions: Questions::default(),
        doubt: Doubt::default(),
        flights: Mutex::default(),
        end: Mutex::new(Some(end)),
        leaving: Mutex::default(),
        unreached: Mutex::default(),
        wants_old: AtomicBool::new(false),
        subscribed: Default::default(),
        lost: AtomicU32::new(0),
    });
    let span = tracing::error_span!("source", id);
    let (tell, gone) = oneshot::channel();
    if let Some(old) = &connection.old {
        connection.spawn(sse::listen(connection.clone(), old.current()).instrument(span.clone()));
    }
    connection.spawn(connection.clone().post_all().instrument(span.clone()));
    connection.spawn(connection.clone().tidy());
    let supervised = connection.clone().supervise(ended, around.shutdown.clone(), tell);
    around.tracker.spawn(supervised.instrument(span));
    Ok(Running { link, pid: None, tail, gone, http: Some(connection) })
}

impl Connection {
    /// Runs a task for as long as the connection lives.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let closing = self.closing.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = task => {}
                () = closing.cancelled() => {}
            }
        });
    }

    /// The connection cannot go on.
    pub fn end(&self, error: CallError) {
        if let Some(end) = self.end.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = end.send(error);
        }
    }

    /// Whether it came to an end by itself, or is about to.
    pub fn has_ended(&self) -> bool {
        self.leaving().or_else(|| self.unreached()).is_some()
            || self.end.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The connection is of no use to new requests: it takes none, and ends once those in flight are over.
    pub fn leave(&self, error: CallError) {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// A request did not reach the source. One that takes no more connections may still answer what it has: what is in flight
    /// goes on, and the connection ends after it unless a later request gets through.
    pub fn note_unreached(&self, error: &CallError) {
        *self.unreached.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), error.clone()));
    }

    /// A request that was sent at this time has reached the source.
    pub fn note_reached(&self, sent: Instant) {
        self.unreached.lock().unwrap_or_else(PoisonError::into_inner).take_if(|(at, _)| *at < sent);
    }

    fn unreached(&self) -> Option<CallError> {
        self.unreached.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, error)| error.clone())
    }

    fn leaving(&self) -> Option<CallError> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why it takes no request any more. Where its credentials were refused, and are others now, it goes on with them.
    pub async fn admits(&self) -> Result<(), CallError> {
        let Some(error) = self.leaving() else { return Ok(()) };
        if error.kind != ErrorKind::NeedsAuth || !self.target.renew(&self.target.worn()).await {
            return Err(error);
        }
        *self.leaving.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Ends a connection that is to end, if nothing is in flight. What is in flight with refused credentials may go on for as
    /// long as it takes; a source that has become another one will not answer what it was asked before.
    fn end_if_over(&self, waited: bool) {
        let (leaving, unreached) = (self.leaving(), self.unreached());
        let waits = leaving.as_ref().is_none_or(|error| error.kind == ErrorKind::NeedsAuth) || !waited;
        let Some(error) = leaving.or(unreached) else { return };
        if !waits || self.link.lock().pending.is_empty() {
            self.end(error);
        }
    }

    /// How many subscriptions were lost before this one without a `good` one between them.
    pub fn count_subscription(&self, good: bool) -> u32 {
        if good {
            self.lost.store(0, Ordering::Relaxed);
        }
        self.lost.fetch_add(1, Ordering::Relaxed)
    }

    /// `initialize` was refused in the way that calls for the transport of 2024-11-05.
    pub fn wants_old(&self) -> bool {
        self.wants_old.load(Ordering::Relaxed)
    }

    pub fn note_wants_old(&self) {
        self.wants_old.store(true, Ordering::Relaxed);
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<u64, Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what the link queues: each request on its own, so that none waits for the answer to another.
    async fn post_all(self: Arc<Self>) {
        while let Some(frame) = self.link.outbox.next().await {
            let parsed = wire::handle(frame.into_bytes(), Message::parse).await;
            let message = parsed.map_err(|(why, _)| why).expect("BUG: the relay's own messages can be read");
            match (message.kind, &*message.method_name()) {
                (Kind::Request, method) => self.take_off(message.clone(), method == "subscriptions/listen"),
                (_, "notifications/initialized") => {
                    // Nothing may overtake it.
                    self.post_note(&message).await;
                    if self.old.is_none() {
                        self.listens.send_replace(true);
                        self.spawn(unasked::own_stream(self.clone()).in_current_span());
                    }
                }
                (_, "notifications/cancelled") if self.link.era() == Era::Modern => self.close_stream_of(&message),
                _ => {
                    let connection = self.clone();
                    let message = message.clone();
                    self.spawn(async move { connection.post_note(&message).await }.in_current_span());
                }
            }
        }
    }

    fn take_off(self: &Arc<Self>, message: Message, listens: bool) {
        let Some(id) = message.number_id() else { return };
        let recalled = self.closing.child_token();
        self.flights().insert(id, Flight { recalled: recalled.clone(), listens });
        let connection = self.clone();
        let flight = async move {
            let flown = async {
                match listens {
                    true => unasked::subscribe(&connection, &message, id).await,
                    false => connection.fly(&message, id).await,
                }
            };
            tokio::select! {
                () = flown => {}
                () = recalled.cancelled() => {}
            }
            connection.flights().remove(&id);
            connection.end_if_over(false);
        };
        self.tracker.spawn(flight.in_current_span());
    }

    /// In the modern era a request is cancelled by closing its stream.
    fn close_stream_of(&self, message: &Message) {
        let params = message.params_text().and_then(Object::parse);
        let id = params.and_then(|params| wire::message::number(params.get("requestId")?));
        if let Some(flight) = id.and_then(|id| self.flights().remove(&id)) {
            flight.recalled.cancel();
        }
    }

    /// Breaks off requests whose answer nobody waits for any more.
    async fn tidy(self: Arc<Self>) {
        let mut leaves = false;
        loop {
            tokio::time::sleep(TIDY).await;
            self.end_if_over(leaves);
            leaves = self.leaving().is_some();
            self.flights().retain(|id, flight| {
                let awaited = flight.listens || self.link.is_awaited(*id);
                if !awaited {
                    flight.recalled.cancel();
                }
                awaited
            });
        }
    }

    /// Waits for the end, and sees the connection out.
    async fn supervise(
        self: Arc<Self>,
        ended: oneshot::Receiver<CallError>,
        ending: CancellationToken,
        tell: oneshot::Sender<Gone>,
    ) {
        let source = &self.link.source;
        let (error, clean) = tokio::select! {
            biased;
            Ok(error) = ended => (error, false),
            () = self.link.stop.cancelled() => {
                let text = format!("source `{source}` was disconnected by the relay");
                let hint = "call again: the source is connected to when it is needed";
                (CallError::new(ErrorKind::Cancelled, text, hint).at(source, None), true)
            }
        };
        let answered = self.link.is_done();
        tracing::info!(how = %error.message, "connection ended");
        self.link.shut(&error);
        self.closing.cancel();
        if clean {
            self.say_goodbye(&ending).await;
        }
        let _ = tell.send(Gone { error, clean, answered });
    }

    /// Ends the session, so that the source need not keep it. A source that does not know how says so, and that is all.
    async fn say_goodbye(&self, ending: &CancellationToken) {
        let session = self.session.current();
        if session.id.is_none() {
            return;
        }
        let limit = async {
            tokio::select! {
                () = tokio::time::sleep(FAREWELL) => {}
                () = async { ending.cancelled().await; tokio::time::sleep(FAREWELL_AT_EXIT).await } => {}
            }
        };
        let (url, headers, body) = (self.target.url.clone(), session.headers(), Bytes::new());
        tokio::select! {
            gone = self.target.send(Method::DELETE, &url, &headers, &body) => {
                tracing::debug!(status = gone.map_or(0, |response| response.status().as_u16()), "session ended");
            }
            () = limit => tracing::debug!("session not ended in time"),
        }
    }

    /// The headers of a message to a legacy source.
    pub fn legacy_headers(&self, message: &Message) -> HeaderMap {
        if &*message.method_name() == "initialize" { HeaderMap::new() } else { self.session.current().headers() }
    }
}
