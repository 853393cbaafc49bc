//! Owns the way of one message to an HTTP source: its headers, the one repetition that is safe, and its answer.
//! What is read from the answer goes to the link elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};

use super::deliver::{Asked, StreamEnd, What};
use super::events::Events;
use super::http::Connection;
use super::refusal::{self, Complaint};
use super::relist;
use super::session::Session;
use super::target::Trouble;
use crate::call::CallError;
use crate::protocol::headers::SESSION;
use crate::protocol::{self, Era};
use crate::wire::{self, Kind, Message, busy_poll};

/// The wait before the second try of a connection that did not come about.
const QUICK: Duration = Duration::from_millis(250);
/// How often a source that takes no requests for now is asked again.
const WAITS_MAX: u32 = 3;
/// The wait where such a source does not say how long; doubled each time.
const WAIT: Duration = Duration::from_secs(1);
/// How long the relay's own requests may wait for such a source.
pub const OWN_PATIENCE: Duration = Duration::from_secs(30);
/// How long the list may take that is read again for the headers of a call.
const RELIST: Duration = Duration::from_secs(30);
/// How often in a row a broken stream is tried to be taken up again in vain, and the first wait where the source does not say.
const RESUMES_MAX: u32 = 5;
const RESUME: Duration = Duration::from_millis(500);
/// The shortest and the longest wait where nothing came.
const POLL_MIN: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(5);

/// What came of one try.
enum Outcome {
    Answered,
    /// It was not processed, for a reason that can be mended.
    Complains(Complaint),
    /// It was not processed now.
    Later(Option<Duration>, CallError),
}

/// How long a source is left alone that says this of it, after so many waits.
pub fn wait(after: Option<Duration>, waits: u32) -> Duration {
    after.unwrap_or(WAIT * (1 << waits))
}

impl Connection {
    /// Sends one request and sees to its answer.
    pub async fn fly(self: &Arc<Self>, message: &Message, id: u64) {
        let flown = match (self.admits().await, &self.old) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(old)) => self.exchange_old(old, message, id).await,
            (Ok(()), None) => self.exchange(message, id).await,
        };
        let Err(error) = flown else { return };
        let error = if What::of(message) == What::Call { error } else { refusal::without_effect(error) };
        if let Some(outbox) = self.link.fail(id, error) {
            outbox.room().await;
        }
    }

    fn is_modern(&self, message: &Message) -> bool {
        self.link.era() == Era::Modern || &*message.method_name() == "server/discover"
    }

    /// The headers of a message, some of which may have to be looked for in it.
    pub async fn headers(self: &Arc<Self>, message: &Message) -> HeaderMap {
        let mut headers = match self.is_modern(message) {
            true => {
                let (connection, message) = (self.clone(), message.clone());
                wire::handle(message.line.clone(), move |_| connection.params.of(&message)).await
            }
            false => self.legacy_headers(message),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers
    }

    /// One POST of a request; what came of it shows whether the source can still be reached.
    pub async fn post(&self, url: &Url, headers: &HeaderMap, body: &Bytes) -> Result<Response, CallError> {
        let sent = Instant::now();
        busy_poll::note_sent();
        match self.reach(url, headers, body).await {
            Ok(response) => {
                self.note_reached(sent);
                Ok(response)
            }
            Err(trouble) => {
                if trouble.unreached {
                    self.note_unreached(&trouble.error);
                }
                Err(trouble.error)
            }
        }
    }

    /// One POST; tried a second time if no connection came about.
    pub async fn reach(&self, url: &Url, headers: &HeaderMap, body: &Bytes) -> Result<Response, Trouble> {
        match self.target.send(Method::POST, url, headers, body).await {
            Err(trouble) if trouble.unreached => {
                tokio::time::sleep(QUICK).await;
                Box::pin(self.target.send(Method::POST, url, headers, body)).await
            }
            sent => sent,
        }
    }

    async fn exchange(self: &Arc<Self>, message: &Message, id: u64) -> Result<(), CallError> {
        let what = What::of(message);
        if what == What::Initialize {
            self.session.begin(message);
        }
        let mut repeated = false;
        let mut waits = 0;
        loop {
            let session = self.session.current();
            let acts_on = match (repeated, self.is_modern(message)) {
                (false, true) if what == What::Call => Some(Complaint::Headers),
                (false, false) if session.has_begun() => Some(Complaint::Session),
                _ => None,
            };
            let asked = Asked { id, what, acts_on };
            let response = self.post(&self.target.url, &self.headers(message).await, &message.line).await?;
            match self.answer(response, asked, &session).await? {
                Outcome::Answered => return Ok(()),
                Outcome::Complains(Complaint::Session) => {
                    repeated = true;
                    self.renew(session.epoch, what == What::List, self.patience(id)).await?;
                }
                Outcome::Complains(Complaint::Headers) => {
                    repeated = true;
                    // What the tools want in headers may have changed: this reads it anew.
                    self.link.list_changed.notify_one();
                    let _ = relist::tools(&self.link, RELIST).await;
                }
                Outcome::Later(after, error) => {
                    self.wait_for_room(self.patience(id), after, waits, error).await?;
                    waits += 1;
                }
            }
        }
    }

    /// How long the request may still wait for a source that takes none for now.
    pub fn patience(&self, id: u64) -> Duration {
        self.link.patience(id).unwrap_or(OWN_PATIENCE)
    }

    /// Waits until a source that took the request not now is to be asked again, for as long as the request has time for it.
    pub async fn wait_for_room(
        &self,
        patience: Duration,
        after: Option<Duration>,
        waits: u32,
        error: CallError,
    ) -> Result<(), CallError> {
        let wait = wait(after, waits);
        if waits >= WAITS_MAX || wait >= patience {
            return Err(error);
        }
        tracing::debug!(secs = wait.as_secs_f32(), "source takes no requests for now");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    async fn answer(
        self: &Arc<Self>,
        mut response: Response,
        asked: Asked,
        session: &Session,
    ) -> Result<Outcome, CallError> {
        let status = response.status();
        if !status.is_success() {
            return Box::pin(self.refused(response, asked, session)).await;
        }
        if asked.what == What::Initialize {
            self.session.note_id(response.headers().get(SESSION));
        }
        let headers = std::mem::take(response.headers_mut());
        match refusal::content_type(&headers).as_str() {
            "text/event-stream" => {
                let end = self.read_stream(response, Some(asked)).await?;
                match (end.complaint, end.answered) {
                    (Some(complaint), _) => Ok(Outcome::Complains(complaint)),
                    (None, true) => Ok(Outcome::Answered),
                    (None, false) => Box::pin(self.stream_ended(end, asked, session)).await,
                }
            }
            kind => {
                let body = self.read_body(response).await?;
                let sample = body[..body.len().min(16 * super::target::SAMPLE)].to_vec();
                let delivered = self.deliver(body, Some(asked)).await;
                let error = match (delivered.complaint, delivered.answered, delivered.stray) {
                    (Some(complaint), ..) => return Ok(Outcome::Complains(complaint)),
                    (None, true, _) => return Ok(Outcome::Answered),
                    _ if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
                        // The answer may come on the stream of the session, for as long as there is one.
                        let _ = self.listens.subscribe().wait_for(|open| !open).await;
                        let why = format!("it answers HTTP {} without a message", status.as_u16());
                        return Err(refusal::broke_off(&self.link.source, &why));
                    }
                    (None, false, stray) if kind == "application/json" => {
                        let why = stray.unwrap_or_else(|| "it is no answer to what was asked".to_owned());
                        super::failures::unreadable(&self.link.source, &why)
                    }
                    _ => refusal::no_answer(&self.target, &headers, &String::from_utf8_lossy(&sample)),
                };
                Err(if asked.what == What::Call { refusal::with_effect(error) } else { error })
            }
        }
    }

    async fn refused(
        self: &Arc<Self>,
        response: Response,
        asked: Asked,
        session: &Session,
    ) -> Result<Outcome, CallError> {
        let refusal = self.read_refusal(response).await;
        let status = refusal.status;
        let error = refusal.error(&self.target);
        if matches!(status.as_u16(), 401 | 403) {
            if status == StatusCode::UNAUTHORIZED {
                self.leave(error.clone());
            }
            return Err(error);
        }
        if asked.acts_on == Some(Complaint::Session) && refusal.is_of_session(session.id.is_some(), asked.id) {
            return Ok(Outcome::Complains(Complaint::Session));
        }
        let in_doubt = self.link.era() == Era::Modern && refusal.leaves_doubt(asked.id);
        if in_doubt && (refusal.is_of_era(asked.id) || self.is_modern_no_more().await) {
            let changed = refusal.changed(&self.target, &format!("does not speak {} any more", protocol::MODERN));
            self.leave(changed.clone());
            return Err(if status.is_client_error() { changed } else { error });
        }
        if let Some(reply) = refusal.reply(asked.id) {
            let delivered = self.deliver(reply.line.as_ref().into(), Some(asked)).await;
            return Ok(delivered.complaint.map_or(Outcome::Answered, Outcome::Complains));
        }
        if let Some(after) = refusal.later_again(asked.what == What::Call) {
            return Ok(Outcome::Later(after, error));
        }
        if asked.what == What::Initialize && matches!(status.as_u16(), 400 | 404 | 405) {
            self.note_wants_old();
        }
        Err(error)
    }

    /// A stream that ended before its answer is taken up again, if the source numbers its events: for as long as the request
    /// may take where the source opens it each time, as one does that wants to be polled (SEP-1699).
    async fn stream_ended(
        self: &Arc<Self>,
        mut end: StreamEnd,
        asked: Asked,
        session: &Session,
    ) -> Result<Outcome, CallError> {
        let (mut in_vain, mut empty) = (0, 0);
        let mut broke = end.broke.take();
        loop {
            match (end.complaint, end.answered) {
                (Some(complaint), _) => return Ok(Outcome::Complains(complaint)),
                (None, true) => return Ok(Outcome::Answered),
                _ => {}
            }
            let why = broke.clone().unwrap_or_else(|| "its stream ended without one".to_owned());
            let given_up = || refusal::broke_off(&self.link.source, &why);
            let last_id = end.last_id.clone().filter(|_| self.link.era() == Era::Legacy).ok_or_else(given_up)?;
            if in_vain >= RESUMES_MAX {
                return Err(given_up());
            }
            let own = (RESUME * (1 + in_vain + empty)).min(POLL_MAX);
            let least = if end.spoke { Duration::ZERO } else { POLL_MIN };
            tokio::time::sleep(end.retry.unwrap_or(own).max(least)).await;
            in_vain += 1;
            let response = self.open_stream(session.headers(), Some(&last_id)).await;
            let retry = end.retry;
            end = match response {
                Ok(response) if response.status().is_success() => {
                    in_vain = 0;
                    self.read_stream(response, Some(asked)).await?
                }
                Ok(response) => match refusal::later(response.status(), response.headers()) {
                    Some(after) if after < Some(self.patience(asked.id)) => {
                        StreamEnd { retry: after, ..StreamEnd::default() }
                    }
                    // It may still count as open, or its place be taken by another for now.
                    None if matches!(response.status().as_u16(), 404 | 408 | 409 | 425) => StreamEnd::default(),
                    None if !response.status().is_client_error() => StreamEnd::default(),
                    _ => return Err(given_up()),
                },
                Err(_) => StreamEnd::default(),
            };
            broke = end.broke.take().or(broke);
            let has_moved = end.spoke || end.last_id.as_ref().is_some_and(|id| *id != last_id);
            empty = if has_moved { 0 } else { empty + 1 };
            end.last_id = end.last_id.or(Some(last_id));
            end.retry = end.retry.or(retry);
        }
    }

    /// The reply to an `initialize` that no link waits for.
    pub async fn first_reply(&self, response: Response) -> Result<Message, CallError> {
        let found = |text: Bytes| Message::parse(text).ok().filter(|it| it.kind == Kind::Reply);
        let refused = || refusal::not_again(&self.target, None);
        if !refusal::is_stream(response.headers()) {
            return found(self.read_body(response).await?.freeze()).ok_or_else(refused);
        }
        let mut events = Events::of(self, response);
        while let Ok(event) = events.next().await {
            if let Some(reply) = found(event.data.freeze()) {
                return Ok(reply);
            }
        }
        Err(refused())
    }
}
