//! Owns the sessions of clients of 2025-11-25 and before over HTTP: their ids, their event streams, and their end.
//! It reads no message.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::events::Stream;
use crate::session::{Session, Surroundings};
use crate::snapshot::Principal;
use crate::wire::{Frame, Outbox};

/// How many sessions there may be: each costs a few kilobytes.
const SESSIONS_MAX: usize = 10_000;
/// How many bytes of news wait for a client that does not listen.
const NEWS_LIMIT: usize = 256 * 1024;
/// How many finished streams can still be taken up.
const FINISHED_KEPT: usize = 8;
/// After the end of so many sessions the memory they took is given back.
const GIVE_BACK_AFTER: usize = 100;
/// The stream of what belongs to no request.
pub const NEWS: u64 = 0;

/// A client's session.
pub struct Held {
    pub id: String,
    pub principal: Principal,
    pub session: Arc<Session>,
    news: Arc<Stream>,
    streams: Mutex<BTreeMap<u64, Arc<Stream>>>,
    last_stream: AtomicU64,
    /// Requests and streams of this moment.
    open: AtomicUsize,
    used: Mutex<Instant>,
    teller: AbortHandle,
}

impl Held {
    /// The stream so numbered, if it can be taken up.
    pub fn stream(&self, id: u64) -> Option<Arc<Stream>> {
        if id == NEWS {
            return Some(self.news.clone());
        }
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub fn news(&self) -> &Arc<Stream> {
        &self.news
    }

    /// A new stream, which can be taken up later.
    pub fn add_stream(&self, out: Arc<Outbox>, sent: Vec<Frame>) -> Arc<Stream> {
        let id = self.last_stream.fetch_add(1, Ordering::Relaxed) + 1;
        let stream = Stream::new(id, out, sent);
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let finished: Vec<u64> = streams.iter().filter(|(_, stream)| stream.is_over()).map(|(id, _)| *id).collect();
        for id in finished.iter().rev().skip(FINISHED_KEPT) {
            streams.remove(id);
        }
        streams.insert(id, stream.clone());
        stream
    }

    /// Keeps the session from being idle as long as the guard lives.
    pub fn use_it(self: &Arc<Self>) -> InUse {
        self.open.fetch_add(1, Ordering::Relaxed);
        InUse(self.clone())
    }

    /// Since when nobody has used it; `None` while somebody does.
    fn idle_since(&self) -> Option<Instant> {
        let idle = self.open.load(Ordering::Relaxed) == 0 && self.session.is_idle();
        idle.then(|| *self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&self) {
        self.teller.abort();
        self.session.abandon();
        self.session.close();
    }
}

/// A request or a stream of a session.
pub struct InUse(Arc<Held>);

impl Drop for InUse {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All sessions.
#[derive(Default)]
pub struct Sessions {
    held: Mutex<HashMap<String, Arc<Held>>>,
    single: Mutex<HashMap<u64, Arc<Session>>>,
    last_single: AtomicU64,
    /// How many ended since memory was last given back.
    ended: AtomicUsize,
}

/// The session of one request of a modern client: when its connection ends, nobody waits for the answer any more.
pub struct Single {
    number: u64,
    sessions: Arc<Sessions>,
    session: Arc<Session>,
    teller: Option<AbortHandle>,
}

impl Single {
    /// The client is told of changes, as long as it listens.
    pub fn tell_changes(&mut self, around: &Surroundings) {
        self.teller = Some(around.tracker.spawn(self.session.clone().tell_changes()).abort_handle());
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        if let Some(teller) = &self.teller {
            teller.abort();
        }
        self.session.abandon();
        self.sessions.single.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// There are too many sessions, all of them in use.
#[derive(Debug, thiserror::Error)]
#[error("there are {SESSIONS_MAX} sessions already, all of them in use")]
pub struct Full;

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session for a principal; where there are too many, the one that has been idle longest goes.
    pub fn begin(&self, around: &Surroundings, principal: Principal) -> Result<Arc<Held>, Full> {
        if self.lock().len() >= SESSIONS_MAX {
            let oldest = {
                let table = self.lock();
                let idle = table.values().filter_map(|held| Some((held.idle_since()?, held.id.clone())));
                idle.min().map(|(_, id)| id).ok_or(Full)?
            };
            self.remove(&oldest);
        }
        let news = Outbox::news(NEWS_LIMIT);
        let session = Session::new(around.clone(), principal.clone(), news.clone());
        let teller = around.tracker.spawn(session.clone().tell_changes()).abort_handle();
        let held = Arc::new(Held {
            id: crate::name::unguessable(),
            principal,
            session,
            news: Stream::new(NEWS, news, Vec::new()),
            streams: Mutex::default(),
            last_stream: AtomicU64::new(NEWS),
            open: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            teller,
        });
        self.lock().insert(held.id.clone(), held.clone());
        Ok(held)
    }

    /// The session with this id, if it is the principal's.
    pub fn get(&self, id: &str, principal: &Principal) -> Option<Arc<Held>> {
        self.lock().get(id).filter(|held| held.principal == *principal).cloned()
    }

    /// Ends a session.
    pub fn remove(&self, id: &str) {
        let found = self.lock().remove(id);
        if let Some(held) = found {
            self.ended.fetch_add(1, Ordering::Relaxed);
            held.end();
        }
    }

    /// Ends the sessions that nobody has used for so long.
    pub fn expire(&self, limit: Duration) {
        let over = |held: &Arc<Held>| held.idle_since().is_some_and(|since| since.elapsed() >= limit);
        let expired: Vec<_> = self.lock().values().filter(|held| over(held)).map(|held| held.id.clone()).collect();
        for id in expired {
            tracing::debug!("session expired");
            self.remove(&id);
        }
        if self.ended.load(Ordering::Relaxed) >= GIVE_BACK_AFTER {
            self.ended.store(0, Ordering::Relaxed);
            self.lock().shrink_to_fit();
            tokio::task::spawn_blocking(crate::trim::give_back);
        }
    }

    /// Every session there is, those of single requests too.
    pub fn all(&self) -> Vec<Arc<Session>> {
        let mut all: Vec<_> = self.lock().values().map(|held| held.session.clone()).collect();
        all.extend(self.single.lock().unwrap_or_else(PoisonError::into_inner).values().cloned());
        all
    }

    /// A session of one request, for as long as the guard lives.
    pub fn add_single(self: &Arc<Self>, session: Arc<Session>) -> Single {
        let number = self.last_single.fetch_add(1, Ordering::Relaxed);
        self.single.lock().unwrap_or_else(PoisonError::into_inner).insert(number, session.clone());
        Single { number, sessions: self.clone(), session, teller: None }
    }
}
