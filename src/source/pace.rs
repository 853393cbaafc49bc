//! Owns how fast a source is read: others have their turn between its lines, and one that floods with what nobody waits for is
//! read in a part of the time only. It reads nothing itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::link::Link;
use crate::wire::Outbox;

/// How long the lines of one source are handled at a time.
const TURN: Duration = Duration::from_micros(500);
/// From so many lines in one read on that nobody waits for, it is a flood.
const FLOOD: u64 = 50;
/// How long such a source then waits at least, and how many times as long as its lines took.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_TIMES: u32 = 3;

/// The pace within what one read brought.
pub struct Pace<'a> {
    link: &'a Link,
    /// How many lines nobody waited for there were before.
    before: u64,
    turn: Instant,
    spent: Duration,
}

impl<'a> Pace<'a> {
    pub fn new(link: &'a Link) -> Self {
        Self { link, before: link.in_vain(), turn: Instant::now(), spent: Duration::ZERO }
    }

    /// A line has been handled.
    pub async fn line(&mut self) {
        let turn = self.turn.elapsed();
        if turn >= TURN {
            self.spent += turn;
            tokio::task::yield_now().await;
            self.turn = Instant::now();
        }
    }

    /// All lines of the read have been handled; `written` is whom they were last passed on to, who sets the pace: a client
    /// that does not read makes its sources wait. Gives how long it did.
    pub async fn rest(self, written: Option<Arc<Outbox>>) -> Duration {
        let spent = self.spent + self.turn.elapsed();
        let handled = Instant::now();
        let floods = self.link.in_vain() - self.before >= FLOOD;
        if let Some(outbox) = written {
            if floods {
                outbox.rest().await;
            } else {
                outbox.room().await;
            }
        }
        let waited = handled.elapsed();
        if floods {
            tokio::time::sleep(PAUSE.max(PAUSE_TIMES * spent)).await;
        }
        waited
    }
}
