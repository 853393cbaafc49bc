//! Owns the session of a connection to a legacy HTTP source: its id, its revision, and its renewal when the source has
//! forgotten it. It sends nothing itself.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue};
use tokio::sync::watch;

use crate::call::{CallError, ErrorKind};
use crate::protocol::headers::{SESSION, VERSION};
use crate::wire::{Message, Object};

/// What a legacy source wants to see with every request after `initialize`.
#[derive(Debug, Clone, Default)]
pub struct Session {
    pub id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// Counts renewals.
    pub epoch: u64,
    renewing: bool,
    /// Until when the renewal leaves the source alone, which wants that, and what it said.
    waits: Option<(Instant, CallError)>,
    /// Why the last renewal came to nothing.
    failed: Option<CallError>,
    /// The request that began it, to begin it again.
    greeting: Option<Bytes>,
}

impl Session {
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(4);
        if let Some(id) = &self.id {
            headers.insert(SESSION, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(VERSION, version.clone());
        }
        headers
    }

    /// Whether `initialize` has been answered.
    pub fn has_begun(&self) -> bool {
        self.version.is_some()
    }
}

/// The session of one connection.
#[derive(Default)]
pub struct Sessions(watch::Sender<Session>);

impl Sessions {
    pub fn current(&self) -> Session {
        self.0.borrow().clone()
    }

    /// Notes the request that begins the session.
    pub fn begin(&self, greeting: &Message) {
        self.0.send_modify(|session| session.greeting = Some(greeting.line.clone()));
    }

    /// Notes what the source answered to it.
    pub fn note_id(&self, id: Option<&HeaderValue>) {
        self.0.send_modify(|session| session.id = id.cloned());
    }

    pub fn note_version(&self, reply: &Message) {
        if let Some(version) = version(reply) {
            self.0.send_modify(|session| session.version = Some(version));
        }
    }

    /// Asks to renew the session last seen as `epoch`. Gives the greeting to whoever is to do it.
    pub fn claim(&self, epoch: u64) -> Option<Bytes> {
        let mut greeting = None;
        self.0.send_if_modified(|session| {
            if session.epoch == epoch && !session.renewing {
                session.renewing = session.greeting.is_some();
                greeting.clone_from(&session.greeting);
            }
            false
        });
        greeting
    }

    /// The session that a new greeting has begun, not yet in force.
    pub fn next(&self, id: Option<&HeaderValue>, reply: &Message) -> Session {
        let now = self.current();
        Session { id: id.cloned(), version: version(reply).or(now.version), ..Session::default() }
    }

    /// The outcome of a renewal: the new session, or why there is none.
    pub fn renewed(&self, outcome: Result<Session, CallError>) {
        self.0.send_modify(|session| {
            (session.renewing, session.waits) = (false, None);
            session.epoch += 1;
            match outcome {
                Ok(next) => {
                    (session.id, session.version) = (next.id, next.version);
                    session.failed = None;
                }
                Err(error) => session.failed = Some(error),
            }
        });
    }

    /// Notes that the source is left alone for so long before it is asked for a session again.
    pub fn note_wait(&self, wait: Duration, error: &CallError) {
        let until = Instant::now() + wait;
        self.0.send_modify(|session| session.waits = Some((until, error.clone())));
    }

    /// Waits until the session last seen as `epoch` has been renewed. Who has less patience than the source wants to be left
    /// alone is told so at once.
    pub async fn past(&self, epoch: u64, patience: Duration) -> Result<(), CallError> {
        let by = Instant::now().checked_add(patience);
        let too_late = |(until, _): &(Instant, CallError)| by.is_some_and(|by| *until >= by);
        let mut changes = self.0.subscribe();
        let session = changes.wait_for(|it| it.epoch != epoch || it.waits.as_ref().is_some_and(too_late)).await;
        let session = session.expect("BUG: the sender is here");
        match &session.waits {
            Some((until, error)) if session.epoch == epoch => Err(left_alone(error, *until)),
            _ => session.failed.clone().map_or(Ok(()), Err),
        }
    }
}

/// What the source said, with the time that is left now.
fn left_alone(error: &CallError, until: Instant) -> CallError {
    let mut error = error.clone();
    if error.kind == ErrorKind::Busy {
        let left = until.saturating_duration_since(Instant::now()).as_secs_f32().ceil();
        error.hint = format!("nothing was done; try again in {left} s");
    }
    error
}

fn version(reply: &Message) -> Option<HeaderValue> {
    let result = Object::parse(reply.text(reply.result?))?;
    HeaderValue::from_str(&result.string("protocolVersion")?).ok()
}
