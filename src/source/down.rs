//! Owns what becomes of a source that failed or is gone: what it is said to be doing, who is told, and when it is tried again.
//! It does not launch it again: the actor does, when it is time or when it is wanted.

use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

use super::State;
use super::actor::{Actor, LAUNCH_GAP, Phase};
use super::failures;
use super::ready::LIST_GAP;
use super::run::Gone;
use crate::call::{CallError, ErrorKind};

/// A source that ran this long has recovered: its failures are forgotten.
const RECOVERED: Duration = Duration::from_secs(20);

impl Actor {
    /// A start or a first listing failed, and whoever waited for it is told.
    pub(super) fn failed(&mut self, error: CallError) {
        self.down(error);
        if let Phase::Down { error, .. } = &self.phase {
            self.waiting.fail_all(error);
        }
        self.role.leave_place();
    }

    /// The source is down until the next try.
    fn down(&mut self, error: CallError) {
        self.failures += 1;
        let wait = failures::pause(self.failures, error.kind);
        tracing::warn!(source = %self.config.id, why = %error.message, hint = %error.hint, failures = self.failures, "source failed");
        let cause = format!("{} ({})", error.message, error.hint);
        self.say(match error.kind {
            ErrorKind::NeedsAuth => State::NeedsAuth { reason: cause },
            _ => State::Unreachable { cause, next_try: SystemTime::now() + wait },
        });
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.phase = Phase::Down { error: failures::until_retry(error, wait), retry_at: Instant::now() + wait };
    }

    pub(super) fn gone(&mut self, gone: Gone) {
        let uptime = match &self.phase {
            Phase::Ready(ready) => {
                self.asks |= ready.link.lock().asks;
                ready.uptime()
            }
            _ => Duration::ZERO,
        };
        let stopping = matches!(self.phase, Phase::Stopping);
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if uptime >= RECOVERED {
            self.failures = 0;
        }
        // A script that ends after its answer has done nothing wrong, however soon that was.
        let done = gone.clean && (uptime >= LIST_GAP || gone.answered);
        let subscribed = self.around.subscribers.has_any(self.config.id.as_str());
        if stopping || done {
            // But whoever has subscribed to it needs it running.
            self.rerun_at = subscribed.then(|| Instant::now() + LAUNCH_GAP);
            let note = (!stopping).then(|| format!("{}; it is started again when it is called", gone.error.message));
            self.say(State::Dormant { note });
            self.phase = Phase::Idle;
        } else {
            // Calls that came in since go with the next launch, not down with this one.
            self.down(gone.error);
        }
        if !self.waiting.is_empty() || stopping && subscribed {
            self.wanted();
        }
        if !matches!(self.phase, Phase::Starting) {
            self.role.leave_place();
        }
    }
}
