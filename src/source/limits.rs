//! Owns when a connection has had enough: calls that come to their limits, a source that is mute, and one that is idle.
//! It does not decide how often that is looked at.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::failures;
use super::in_flight::Pending;
use super::link::{Link, refuse};
use crate::call::{CallError, End, ErrorKind};

/// How often the client of a call that waits for its turn is told so, if it asked for progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

impl Link {
    /// Ends calls that are over their limits, and tells the source; tells the clients of those that wait for their turn.
    pub fn sweep(&self, now: Instant) {
        let mut over = Vec::new();
        let mut table = self.lock();
        let last = table.swept.replace(now).unwrap_or(now);
        // Questions that nobody waits for any more.
        table.pending.retain(|_, entry| !matches!(entry, Pending::Own(answer) if answer.is_closed()));
        table.look_after_unclear(now);
        let kept: HashSet<u64> = table.queue.iter().copied().filter(|id| table.is_kept_back(*id)).collect();
        for (id, entry) in &mut table.pending {
            if let Pending::Call { call, since, heard, sent, told, .. } = entry {
                if call.back.waits_for_client() {
                    *since += now.saturating_duration_since(last);
                    *heard = now;
                }
                let (idle, total) = (now.duration_since(*heard), now.duration_since(*since));
                if idle >= call.limits.idle || total >= call.limits.total {
                    over.push((*id, *sent, total >= call.limits.total));
                } else if !*sent && total >= TELL_EVERY * (*told + 1) {
                    *told += 1;
                    call.back.waits(&failures::turn(&self.source, kept.contains(id), total));
                }
            }
        }
        // A call whose client is away makes room for another.
        let barred = if table.queue.is_empty() { Vec::new() } else { self.advance(&mut table) };
        over.iter().for_each(|(id, ..)| table.leave(*id));
        drop(table);
        refuse(barred);
        over.sort_unstable();
        for (id, sent, hard) in over {
            let Some(Pending::Call { call, since, after, .. }) = self.take(id, false) else { continue };
            if sent {
                self.tell_cancelled(id, Some("the time limit of the relay was reached"));
                self.judge(after);
            }
            let (tool, took) = (call.subject.name(), now - since);
            let mut error = match kept.contains(&id) {
                true => failures::kept_back(&self.source, tool, took),
                false => failures::timed_out(&self.source, tool, call.limits, took, sent, hard),
            };
            error.message.push_str(&self.noise.told(since));
            call.back.end(End::Failed(error));
        }
    }

    /// A call came to its limit that was sent `after` so many messages. A source that stays mute is given up, but not while
    /// another call may still be at work.
    fn judge(&self, after: u64) {
        if let Some(why) = self.verdict.timed_out(after)
            && !self.is_over_http()
            && self.lock().running == 0
        {
            self.give_up(why);
        }
    }

    /// Ends a source that is of no use any more.
    pub fn give_up(&self, why: String) {
        self.verdict.settle(why);
        self.stop.cancel();
    }

    /// Nothing in flight since then; `None` while something is.
    pub fn idle_since(&self) -> Option<Instant> {
        let table = self.lock();
        if table.pending.is_empty() { table.last_used } else { None }
    }

    /// Whether a call was sent or ended after `then`, or is in flight.
    pub fn used_since(&self, then: Instant) -> bool {
        let table = self.lock();
        table.last_used.is_some_and(|at| at > then)
            || table.pending.values().any(|entry| matches!(entry, Pending::Call { .. }))
    }

    /// Takes no more calls, if none is in flight; a call that comes later is given back and starts the source again.
    pub fn close_if_idle(&self) -> bool {
        let mut table = self.lock();
        if table.pending.is_empty() && table.closed.is_none() {
            let text = format!("source `{}` was idle and is being stopped", self.source);
            table.closed = Some(CallError::new(ErrorKind::Cancelled, text, "call again: the source is started again"));
            return true;
        }
        false
    }
}
