//! Owns the transport of 2024-11-05: one stream for every answer, messages posted beside it, and a new stream where the
//! source has forgotten the session, which is the same thing. It does not know what a message asks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use tokio::sync::{oneshot, watch};
use tracing::Instrument;

use super::deliver::{Asked, What};
use super::events::{Events, Over};
use super::http::Connection;
use super::in_flight::Pending;
use super::post::OWN_PATIENCE;
use super::refusal::{self, Refusal};
use super::session::Session;
use super::target::with_login_of;
use crate::call::{CallError, ErrorKind};
use crate::wire::Message;

/// The streams of one connection.
#[derive(Default)]
pub struct Streams(Mutex<Arc<Stream>>);

/// One stream, which is one session.
pub struct Stream {
    state: watch::Sender<State>,
    /// The source takes no messages for it any more. Answers may still come.
    forgotten: AtomicBool,
    usage: watch::Sender<Usage>,
}

#[derive(Default)]
struct Usage {
    /// How many requests may still be answered on it.
    waiting: usize,
    /// Another has taken its place.
    replaced: bool,
}

/// A request that may be answered on a stream.
struct Waits<'a>(&'a Stream);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.usage.send_modify(|usage| usage.waiting -= 1);
    }
}

#[derive(Clone)]
enum State {
    Opening,
    /// Where messages go.
    Open(Url),
    Over(CallError),
}

impl Default for Stream {
    fn default() -> Self {
        let state = watch::channel(State::Opening).0;
        Self { state, forgotten: AtomicBool::new(false), usage: watch::Sender::default() }
    }
}

impl Stream {
    /// Where messages go, once the source has told.
    pub async fn endpoint(&self) -> Result<Url, CallError> {
        let mut states = self.state.subscribe();
        let state = states.wait_for(|state| !matches!(state, State::Opening)).await;
        match state.expect("BUG: the sender is here").clone() {
            State::Open(url) => Ok(url),
            State::Over(error) => Err(error),
            State::Opening => unreachable!("BUG: waited for it"),
        }
    }

    /// Waits for its end.
    async fn over(&self) -> CallError {
        let mut states = self.state.subscribe();
        let state = states.wait_for(|state| matches!(state, State::Over(_))).await;
        match state.expect("BUG: the sender is here").clone() {
            State::Over(error) => error,
            _ => unreachable!("BUG: waited for it"),
        }
    }

    fn wait(&self) -> Waits<'_> {
        self.usage.send_modify(|usage| usage.waiting += 1);
        Waits(self)
    }

    /// Waits until it is of no use any more.
    async fn unused(&self) {
        let mut usage = self.usage.subscribe();
        let unused = usage.wait_for(|usage| usage.replaced && usage.waiting == 0).await;
        drop(unused.expect("BUG: the sender is here"));
    }

    fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Relaxed)
    }
}

impl Streams {
    pub fn current(&self) -> Arc<Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_current(&self, stream: &Arc<Stream>) -> bool {
        Arc::ptr_eq(&self.current(), stream)
    }

    fn replace(&self, stream: Arc<Stream>) {
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), stream);
        before.usage.send_modify(|usage| usage.replaced = true);
    }
}

/// Reads a stream for as long as it is of use. The connection lasts as long as the stream of its session.
pub async fn listen(connection: Arc<Connection>, stream: Arc<Stream>) {
    let error = tokio::select! {
        error = read_whole(&connection, &stream) => error,
        () = stream.unused() => {
            let text = format!("source `{}` has forgotten the session", connection.link.source);
            CallError::new(ErrorKind::Exited, text, "call again")
        }
    };
    let error = refusal::without_effect(error.at(&connection.link.source, None));
    stream.state.send_replace(State::Over(error.clone()));
    if connection.old.as_ref().is_some_and(|old| old.is_current(&stream)) && !stream.is_forgotten() {
        connection.end(error);
    }
}

/// Reads a stream from its first byte to its last. Gives why it ended, or never began.
async fn read_whole(connection: &Arc<Connection>, stream: &Stream) -> CallError {
    let read = match open(connection).await {
        Ok(response) => read(connection, stream, response).await,
        Err(error) => return error,
    };
    read.map_or_else(
        |error| error,
        |why| {
            let text = format!("source `{}` closed its stream{why}", connection.link.source);
            CallError::new(ErrorKind::Exited, text, "it is connected to again when it is needed")
        },
    )
}

/// Opens a stream, of a source that takes none for now once it does.
async fn open(connection: &Arc<Connection>) -> Result<Response, CallError> {
    let mut waits = 0;
    loop {
        let response = connection.open_stream(HeaderMap::new(), None).await.map_err(|trouble| trouble.error)?;
        if response.status().is_success() && refusal::is_stream(response.headers()) {
            return Ok(response);
        }
        let refusal = connection.read_refusal(response).await;
        if refusal.status.is_success() {
            let text = String::from_utf8_lossy(&refusal.body);
            return Err(refusal::no_answer(&connection.target, &refusal.headers, &text));
        }
        let error = refusal.error(&connection.target);
        let Some(after) = refusal.later() else { return Err(error) };
        connection.wait_to_begin(OWN_PATIENCE, after, waits, error).await?;
        waits += 1;
    }
}

/// Reads the stream to its end. Gives why it ended, in words.
async fn read(connection: &Arc<Connection>, stream: &Stream, response: Response) -> Result<String, CallError> {
    let mut events = Events::of(connection, response);
    loop {
        match events.next().await {
            Ok(event) if event.name == "endpoint" => {
                let url = endpoint(connection, &String::from_utf8_lossy(&event.data))?;
                stream.state.send_replace(State::Open(url));
            }
            Ok(event) => drop(connection.take_event(event, None).await),
            Err(Over::Ended) => return Ok(String::new()),
            Err(Over::BrokeOff(why)) => return Ok(format!(": {why}")),
            Err(Over::TooLong(why)) => return Ok(format!(", or had to be left: {why}")),
        }
    }
}

/// Where the source wants its messages: within its own origin only.
fn endpoint(connection: &Connection, told: &str) -> Result<Url, CallError> {
    let target = &connection.target;
    let refused = |why: String| {
        let text = format!("source `{}` {why}", target.source);
        CallError::new(ErrorKind::Unavailable, text, "report this to the authors of the source")
    };
    let url = target.url.join(told.trim()).map_err(|error| refused(format!("names no usable endpoint: {error}")))?;
    if url.origin() != target.url.origin() {
        let (own, other) = (target.shown(&target.url), target.shown(&url));
        return Err(refused(format!("at {own} wants its messages at another origin, {other}, which is refused")));
    }
    Ok(with_login_of(&target.url, url))
}

/// Whether a refusal says that the session is over, or never was.
fn forgets(refusal: &Refusal, id: u64) -> bool {
    matches!(refusal.status, StatusCode::NOT_FOUND | StatusCode::GONE) || refusal.is_of_session(false, id)
}

impl Connection {
    /// Sends one request, and waits for as long as its answer may come.
    pub async fn exchange_old(self: &Arc<Self>, old: &Streams, message: &Message, id: u64) -> Result<(), CallError> {
        let what = What::of(message);
        if what == What::Initialize {
            self.session.begin(message);
        }
        let mut may_repeat = what != What::Initialize;
        let mut waits = 0;
        loop {
            let (session, stream) = (self.session.current(), old.current());
            let _waits = stream.wait();
            let url = match stream.endpoint().await {
                Err(_) if !old.is_current(&stream) => continue,
                told => told?,
            };
            let response = self.post(&url, &self.headers(message).await, &message.line).await?;
            if response.status().is_success() {
                return self.answered_on(&stream, response, Asked { id, what, acts_on: None }).await;
            }
            let refusal = self.read_refusal(response).await;
            let forgotten = forgets(&refusal, id);
            if forgotten && may_repeat {
                may_repeat = false;
                stream.forgotten.store(true, Ordering::Relaxed);
                self.renew(session.epoch, what == What::List, self.patience(id)).await?;
                continue;
            }
            let error = self.refused_old(&refusal, forgotten.then_some(&url), what);
            let Some(after) = refusal.later_again(what == What::Call) else {
                let own = refusal.reply(id).filter(|_| !forgotten && !matches!(refusal.status.as_u16(), 401 | 403));
                let Some(reply) = own else { return Err(error) };
                self.deliver(reply.line.as_ref().into(), Some(Asked { id, what, acts_on: None })).await;
                return Ok(());
            };
            self.wait_for_room(self.patience(id), after, waits, error).await?;
            waits += 1;
        }
    }

    /// What is told of a refusal, after which the connection may be of no use. `forgotten` is where the source knows of no
    /// session; where it has just begun one, it is this request alone that it does not take, and others go on.
    fn refused_old(&self, refusal: &Refusal, forgotten: Option<&Url>, what: What) -> CallError {
        let error = match forgotten {
            Some(url) => refusal.not_taken(&self.target, url),
            None => refusal.error(&self.target),
        };
        if forgotten.is_some() && what == What::Initialize || refusal.status == StatusCode::UNAUTHORIZED {
            self.leave(error.clone());
        }
        error
    }

    /// A request was accepted: its answer comes on the stream, or stands here already.
    async fn answered_on(self: &Arc<Self>, stream: &Stream, response: Response, asked: Asked) -> Result<(), CallError> {
        let is_json = refusal::content_type(response.headers()) == "application/json";
        if is_json {
            let body = self.read_body(response).await?;
            if self.deliver(body, Some(asked)).await.answered {
                return Ok(());
            }
        }
        let error = stream.over().await;
        if stream.is_forgotten() {
            return Err(refusal::broke_off(&self.link.source, &error.message));
        }
        // The connection ends with its stream, and the call with the connection.
        std::future::pending().await
    }

    /// Begins another session, on a stream of its own. Where that fails the connection is to be left.
    pub async fn begin_anew(self: &Arc<Self>, old: &Streams, greeting: Bytes) -> Result<Session, CallError> {
        let stream = Arc::<Stream>::default();
        self.spawn(listen(self.clone(), stream.clone()).in_current_span());
        self.greet_on(&stream, greeting).await?;
        old.replace(stream);
        Ok(Session::default())
    }

    async fn greet_on(&self, stream: &Stream, greeting: Bytes) -> Result<(), CallError> {
        let url = stream.endpoint().await?;
        let (answer, mut answered) = oneshot::channel();
        let id = Message::parse(greeting.clone()).ok().and_then(|greeting| greeting.number_id());
        let id = id.expect("BUG: the relay's own greeting has an id");
        self.link.lock().pending.insert(id, Pending::Own(answer));
        let note = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.post_begin(&url, headers.clone(), greeting).await?;
        let reply = tokio::select! {
            reply = &mut answered => reply,
            error = stream.over() => return Err(error),
        };
        match reply {
            Ok(Ok(reply)) if reply.result.is_some() => {
                self.link.greeted_again(&reply)?;
                self.post_begin(&url, headers, note).await
            }
            Ok(Err(error)) => Err(error),
            _ => Err(refusal::not_again(&self.target, reply.ok().and_then(Result::ok).as_ref())),
        }
    }

    async fn post_begin(&self, url: &Url, headers: HeaderMap, body: Bytes) -> Result<(), CallError> {
        let mut waits = 0;
        loop {
            let response = self.post(url, &headers, &body).await?;
            if response.status().is_success() {
                return Ok(());
            }
            let refusal = self.read_refusal(response).await;
            let error = refusal.not_again(&self.target);
            let Some(after) = refusal.later() else { return Err(error) };
            self.wait_to_begin(OWN_PATIENCE, after, waits, error).await?;
            waits += 1;
        }
    }
}
