//! Owns one stream of server-sent events: what is sent, under which ids, and what is kept for a client that comes back.
//! It does not know what an event says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::Notify;

use crate::wire::{Frame, Outbox, Role};

/// Said on a stream that says nothing else, so that nobody on the way takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a client should wait before it takes up a stream that broke, in milliseconds.
const RETRY_MS: u32 = 1000;
/// What a stream keeps of what it has sent: so much, and so many events. Answers and the last one are always kept.
const KEPT_BYTES: usize = 1024 * 1024;
const KEPT_EVENTS: usize = 1024;

/// A stream that can be taken up again (2025-11-25 and before: `Last-Event-ID`).
pub struct Stream {
    pub id: u64,
    out: Arc<Outbox>,
    log: Mutex<Log>,
    /// Counts the connections that followed it; only the newest does.
    followers: AtomicU64,
    /// Something was sent, or a newer connection follows.
    stirred: Notify,
}

#[derive(Default)]
struct Log {
    last: u64,
    kept: VecDeque<Sent>,
    bytes: usize,
    ended: bool,
    /// The end was sent on a connection that still lived.
    seen: bool,
    /// When it was first found to be over.
    over_since: Option<Instant>,
}

struct Sent {
    number: u64,
    event: Bytes,
    role: Role,
}

/// How a stream stands of which nothing more will come.
pub struct Over {
    pub since: Instant,
    /// The end was sent on a connection that still lived.
    pub seen: bool,
    /// What of it is still held, in bytes.
    pub size: usize,
}

impl Stream {
    /// A stream of what is queued in `out`, after `sent`.
    pub fn new(id: u64, out: Arc<Outbox>, sent: Vec<Frame>) -> Arc<Self> {
        let mut log = Log::default();
        for frame in sent {
            log.add(id, frame);
        }
        Arc::new(Self { id, out, log: Mutex::new(log), followers: AtomicU64::new(0), stirred: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last event that was sent.
    pub fn last(&self) -> u64 {
        self.lock().last
    }

    /// How it stands, if nothing more will come, whether or not anybody has seen the end.
    pub fn over(&self) -> Option<Over> {
        let (is_closed, queued) = (self.out.is_closed(), self.out.queued());
        let mut log = self.lock();
        if !log.ended && !is_closed {
            return None;
        }
        let since = *log.over_since.get_or_insert_with(Instant::now);
        Some(Over { since, seen: log.seen, size: log.bytes + queued })
    }

    /// Takes the stream up after the event `cursor`, for as long as nobody else does. `prime` begins with an event that
    /// says nothing but its id (SEP-1699).
    pub fn follow(self: &Arc<Self>, cursor: u64, prime: bool, held: impl Send + 'static) -> Body {
        let follower = self.followers.fetch_add(1, Ordering::Relaxed) + 1;
        self.stirred.notify_waiters();
        let prime = prime.then(|| Bytes::from(format!("id: {}-{cursor}\nretry: {RETRY_MS}\ndata:\n\n", self.id)));
        let state = (self.clone(), cursor, prime, (self.out.reading(), held));
        Body::from_stream(stream::unfold(state, move |(stream, cursor, prime, held)| async move {
            if let Some(prime) = prime {
                return Some((Ok::<_, std::io::Error>(prime), (stream, cursor, None, held)));
            }
            match tokio::time::timeout(KEEP_ALIVE, stream.next(cursor, follower)).await {
                Ok(Some((cursor, event))) => Some((Ok(event), (stream, cursor, None, held))),
                Ok(None) => None,
                Err(_) => Some((Ok(comment()), (stream, cursor, None, held))),
            }
        }))
    }

    async fn next(&self, cursor: u64, follower: u64) -> Option<(u64, Bytes)> {
        loop {
            let stirred = self.stirred.notified();
            tokio::pin!(stirred);
            stirred.as_mut().enable();
            if self.followers.load(Ordering::Relaxed) != follower {
                return None;
            }
            {
                let mut log = self.lock();
                if let Some(sent) = log.kept.iter().find(|sent| sent.number > cursor) {
                    return Some((sent.number, sent.event.clone()));
                }
                if log.ended {
                    log.seen = true;
                    return None;
                }
            }
            tokio::select! {
                frame = self.out.next() => {
                    match frame {
                        Some(frame) => self.lock().add(self.id, frame),
                        None => self.lock().ended = true,
                    }
                    self.stirred.notify_waiters();
                }
                () = stirred => {}
            }
        }
    }
}

impl Log {
    fn add(&mut self, stream: u64, frame: Frame) {
        self.last += 1;
        let role = frame.role;
        let event = event(&format!("id: {stream}-{}\n", self.last), frame);
        self.bytes += event.len();
        while self.bytes > KEPT_BYTES || self.kept.len() >= KEPT_EVENTS {
            let Some(oldest) = self.kept.iter().position(|sent| !sent.role.is_answer()) else { break };
            self.bytes -= self.kept.remove(oldest).map_or(0, |sent| sent.event.len());
        }
        self.kept.push_back(Sent { number: self.last, event, role });
    }
}

/// The text of an event's id: the stream and the number.
pub fn read_id(text: &str) -> Option<(u64, u64)> {
    let (stream, number) = text.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// A stream that nobody can take up again: what is queued in `out`, after `sent`. It ends with the connection, and `held`
/// is dropped then.
pub fn once(out: Arc<Outbox>, sent: Vec<Frame>, held: impl Send + 'static) -> Body {
    let state = (out, VecDeque::from(sent), held);
    Body::from_stream(stream::unfold(state, |(out, mut sent, held)| async move {
        let frame = match sent.pop_front() {
            Some(frame) => Some(frame),
            None => match tokio::time::timeout(KEEP_ALIVE, out.next()).await {
                Ok(frame) => frame,
                Err(_) => return Some((Ok::<_, std::io::Error>(comment()), (out, sent, held))),
            },
        };
        frame.map(|frame| (Ok(event("", frame)), (out, sent, held)))
    }))
}

fn event(id: &str, frame: Frame) -> Bytes {
    let mut text = Vec::with_capacity(id.len() + frame.len() + 10);
    text.extend_from_slice(id.as_bytes());
    text.extend_from_slice(b"data: ");
    for part in &frame.parts {
        text.extend_from_slice(part);
    }
    text.extend_from_slice(b"\n\n");
    text.into()
}

fn comment() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_longer_than_notices() {
        let frame = |role, size| Frame { parts: vec![Bytes::from(vec![b'x'; size])], role };
        let kept = |frames: &[(Role, usize)]| {
            let mut log = Log::default();
            frames.iter().for_each(|(role, size)| log.add(7, frame(*role, *size)));
            assert_eq!(log.bytes, log.kept.iter().map(|sent| sent.event.len()).sum::<usize>());
            log.kept.iter().map(|sent| sent.number).collect::<Vec<_>>()
        };
        let half = KEPT_BYTES / 2;
        assert_eq!(
            kept(&[(Role::Notice, half), (Role::Result, half), (Role::Notice, half), (Role::Error, half)]),
            [2, 4]
        );
        assert_eq!(kept(&[(Role::Notice, 9), (Role::Notice, 2 * KEPT_BYTES)]), [2]);
        let many = vec![(Role::Notice, 1); KEPT_EVENTS + 2];
        assert_eq!(kept(&many), (3..=KEPT_EVENTS as u64 + 2).collect::<Vec<_>>());
    }
}
