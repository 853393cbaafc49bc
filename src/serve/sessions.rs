//! Owns the sessions of clients of 2025-11-25 and before over HTTP: their ids, their event streams, and their end.
//! It reads no message.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::events::{Over, Stream};
use crate::session::{Session, Surroundings};
use crate::snapshot::Principal;
use crate::wire::{Frame, Outbox};

/// How many sessions there may be: each costs a few kilobytes.
const SESSIONS_MAX: usize = 10_000;
/// How many bytes of news wait for a client that does not listen.
const NEWS_LIMIT: usize = 256 * 1024;
/// How many finished streams can still be taken up though their end was sent.
const SEEN_KEPT: usize = 8;
/// What a session keeps of finished streams in all, in bytes, and for how long. What nobody has read to its end goes last.
const FINISHED_BYTES: usize = 16 * 1024 * 1024;
const FINISHED_TIME: Duration = Duration::from_secs(300);
/// What a stream costs beside the bytes of its events.
const STREAM_COST: usize = 4 * 1024;
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
    /// The stream of an event and the event's number, if it was sent and the stream can be taken up.
    pub fn stream_after(&self, (id, event): (u64, u64)) -> Option<(Arc<Stream>, u64)> {
        let stream = match id {
            NEWS => self.news.clone(),
            _ => self.streams.lock().unwrap_or_else(PoisonError::into_inner).get(&id)?.clone(),
        };
        (event <= stream.last()).then_some((stream, event))
    }

    pub fn news(&self) -> &Arc<Stream> {
        &self.news
    }

    /// A new stream, which can be taken up later.
    pub fn add_stream(&self, out: Arc<Outbox>, sent: Vec<Frame>) -> Arc<Stream> {
        let id = self.last_stream.fetch_add(1, Ordering::Relaxed) + 1;
        let stream = Stream::new(id, out, sent);
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(id, stream.clone());
        self.forget_streams();
        stream
    }

    /// Forgets finished streams, as far as it must.
    fn forget_streams(&self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let finished = streams.iter().filter_map(|(id, stream)| Some((*id, stream.over()?)));
        for id in too_many(finished.collect()) {
            streams.remove(&id);
        }
    }

    /// Keeps the session from being idle as long as the guard lives.
    pub fn use_it(self: &Arc<Self>) -> InUse {
        self.open.fetch_add(1, Ordering::Relaxed);
        InUse(self.clone())
    }

    /// Since when nobody has used it, as far as it was looked at meanwhile; `None` while somebody does. A call that outlives
    /// its connection is use.
    fn idle_since(&self) -> Option<Instant> {
        let idle = self.open.load(Ordering::Relaxed) == 0 && self.session.is_idle();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if !idle {
            *used = Instant::now();
        }
        idle.then_some(*used)
    }

    fn end(&self) {
        self.teller.abort();
        self.session.abandon();
        self.session.close();
    }
}

/// Which of a session's finished streams are to be forgotten; they come oldest first.
fn too_many(mut finished: Vec<(u64, Over)>) -> Vec<u64> {
    finished.reverse();
    finished.sort_by_key(|(_, over)| over.seen);
    let (mut kept, mut seen, mut bytes) = (0, 0, 0);
    let mut is_too_much = |over: &Over| {
        let size = over.size + STREAM_COST;
        let has_room = (kept == 0 || bytes + size <= FINISHED_BYTES) && (!over.seen || seen < SEEN_KEPT);
        if over.since.elapsed() >= FINISHED_TIME || !has_room {
            return true;
        }
        (kept, seen, bytes) = (kept + 1, seen + usize::from(over.seen), bytes + size);
        false
    };
    finished.into_iter().filter(|(_, over)| is_too_much(over)).map(|(id, _)| id).collect()
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
        let left: Vec<_> = self.lock().values().cloned().collect();
        left.iter().for_each(|held| held.forget_streams());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn over(secs: u64, seen: bool, size: usize) -> Over {
        Over { since: Instant::now() - Duration::from_secs(secs), seen, size }
    }

    #[test]
    fn what_nobody_has_read_goes_last() {
        let forgotten = |finished: Vec<Over>| {
            let mut gone = too_many((1..).zip(finished).collect());
            gone.sort_unstable();
            gone
        };
        let half = FINISHED_BYTES / 2;
        assert_eq!(forgotten((0..1000).map(|_| over(1, false, 100)).collect()), [0; 0]);
        assert_eq!(forgotten((0..SEEN_KEPT + 2).map(|_| over(1, true, 100)).collect()), [1, 2]);
        assert_eq!(forgotten(vec![over(299, false, 9), over(301, false, 9), over(301, true, 9)]), [2, 3]);
        assert_eq!(forgotten(vec![over(1, false, half), over(1, false, half), over(1, false, 9)]), [1]);
        assert_eq!(forgotten(vec![over(1, true, half), over(1, false, 9), over(1, true, half)]), [1]);
        assert_eq!(forgotten(vec![over(2, false, 9), over(1, false, 3 * half)]), [1]);
        assert_eq!(forgotten(vec![over(1, false, 9), over(1, true, half), over(1, true, half)]), [2]);
    }
}
