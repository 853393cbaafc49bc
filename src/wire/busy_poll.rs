//! Owns how long the thread that carries all messages looks for the next one before it sleeps: to be woken takes longer than
//! to carry a message. It looks only while the messages of an exchange have lately come one soon after the other, as the
//! halt polling of KVM does, and never where many are under way or there is one processor. It makes way for whoever else
//! waits for its processor.
//! It does not know what is waited for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::Notify;

/// The longest it looks, and the longest that a message counts as soon.
const SOON: Duration = Duration::from_micros(200);
/// How many have to come soon, one after the other, before it looks.
const IN_A_ROW: u32 = 4;
/// With more calls than this under way there is enough to do: looking would only keep others from the processor.
const FEW: usize = 2;

/// Whether a message was sent since the thread last had nothing to do.
static SENT: AtomicBool = AtomicBool::new(false);
/// Calls that have not been answered.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Notes that a message was sent, to which another one may come.
pub fn note_sent() {
    SENT.store(true, Ordering::Relaxed);
}

/// A call under way, for as long as this lives.
pub struct UnderWay(());

impl UnderWay {
    pub fn begin() -> Self {
        CALLS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How the waits of late went.
#[derive(Default)]
struct Waits {
    /// Since when the answer to what was sent is waited for.
    since: Option<Instant>,
    /// How many came soon, one after the other.
    soon: u32,
}

impl Waits {
    /// There is nothing to do any more, and something may have been sent meanwhile. Whether to look for the next message.
    fn begin(&mut self, sent: bool, now: Instant) -> bool {
        if !sent {
            return false;
        }
        if self.since.replace(now).is_some() {
            self.soon = (self.soon + 1).min(IN_A_ROW);
        }
        self.soon == IN_A_ROW
    }

    /// There is something to do again.
    fn end(&mut self, now: Instant) {
        if self.since.is_some_and(|since| now.duration_since(since) > SOON) {
            *self = Self::default();
        }
    }
}

/// What looks, on behalf of a runtime.
#[derive(Clone, Default)]
pub struct BusyPoll {
    waits: Arc<Mutex<Waits>>,
    look: Arc<Notify>,
}

impl BusyPoll {
    /// For a runtime of one thread. `None` where another processor would have to be there.
    pub fn install(builder: &mut Builder) -> Option<Self> {
        std::thread::available_parallelism().ok().filter(|processors| processors.get() > 1)?;
        let poll = Self::default();
        let (before, after) = (poll.clone(), poll.clone());
        builder.on_thread_park(move || {
            let looks = before.waits().begin(SENT.swap(false, Ordering::Relaxed), Instant::now());
            if looks && CALLS.load(Ordering::Relaxed) <= FEW {
                before.look.notify_one();
            }
        });
        builder.on_thread_unpark(move || after.waits().end(Instant::now()));
        Some(poll)
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whenever it is time to, without end.
    pub async fn run(self) {
        loop {
            self.look.notified().await;
            let until = Instant::now() + SOON;
            while !SENT.load(Ordering::Relaxed) && Instant::now() < until {
                // A source may have threads that hand its answer on, and wait for this processor.
                std::thread::yield_now();
                // The runtime asks the system for what has come, and does not sleep, while there is something to do.
                tokio::task::yield_now().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(50);
    const SLOW: Duration = Duration::from_millis(1);

    /// Messages that come after so long each; whether it looks for the next one then.
    fn check(waits: &[Duration], looks: bool) {
        let (mut seen, mut now) = (Waits::default(), Instant::now());
        let mut last = seen.begin(true, now);
        for wait in waits {
            now += *wait;
            seen.end(now);
            // Something that is no message.
            assert!(!seen.begin(false, now));
            last = seen.begin(true, now);
        }
        assert_eq!(last, looks, "{waits:?}");
    }

    #[test]
    fn it_looks_while_messages_come_soon() {
        check(&[], false);
        check(&[QUICK; 3], false);
        check(&[QUICK; 4], true);
        check(&[QUICK; 100], true);
        check(&[QUICK, QUICK, QUICK, QUICK, SLOW], false);
        check(&[SLOW, QUICK, QUICK, QUICK], false);
        check(&[SLOW, QUICK, QUICK, QUICK, QUICK], true);
        check(&[QUICK, SLOW].repeat(50), false);
    }
}
