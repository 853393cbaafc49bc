//! Owns the words for what goes wrong on a connection to a source: what, why, and what to do; and how long a source that
//! failed is left alone. It decides nothing else.

use std::time::Duration;

use crate::call::{CallError, ErrorKind};
use crate::config::CallLimits;

/// The first wait after a failure; doubled with each further one.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A source that wants credentials is tried by itself no more often than this: nothing changes but by somebody's hand.
const AUTH_RETRY: Duration = Duration::from_secs(120);

/// How long a source is left alone after so many failures, the last of this kind.
pub fn pause(failures: u32, kind: ErrorKind) -> Duration {
    let exponent = failures.saturating_sub(1).min(16);
    let wait = BACKOFF_FIRST.saturating_mul(1 << exponent).mul_f64(0.8 + 0.4 * fastrand::f64()).min(BACKOFF_MAX);
    if kind == ErrorKind::NeedsAuth { wait.max(AUTH_RETRY) } else { wait }
}

/// What is told of a source that is down until it is tried again.
pub fn until_retry(mut error: CallError, wait: Duration) -> CallError {
    if !matches!(error.kind, ErrorKind::Cancelled | ErrorKind::NeedsAuth) {
        error.kind = ErrorKind::Unavailable;
    }
    error.hint.push_str(&format!("; it is tried again in {:.0} s", wait.as_secs_f32().ceil()));
    error
}

/// The same, for who called too soon.
pub fn or_with_a_call(error: &CallError, wait: Duration) -> CallError {
    let mut error = error.clone();
    error.hint.push_str(&format!(", or with a call {:.0} s from now or later", wait.as_secs_f32().ceil()));
    error
}

/// There is no place for another call.
pub fn busy(source: &str, tool: &str, waiting: usize) -> CallError {
    let text =
        format!("source `{source}` takes no more calls: {waiting} wait already, or it does not read what it is sent");
    let hint = "try again later, or raise `max_in_flight` of the source";
    CallError::new(ErrorKind::Busy, text, hint).at(source, Some(tool))
}

/// Why a call has not been sent yet: another client's comes first, or the source has enough to do.
pub fn turn(source: &str, is_kept_back: bool, waited: Duration) -> String {
    let why = match is_kept_back {
        true => "a call of another client comes first, for it may be asked something",
        false => "it is at work on other calls",
    };
    format!("waits for its turn at source `{source}` ({:.0} s): {why}", waited.as_secs_f32())
}

/// A call that waited until its time was over for the calls of another client to end.
pub fn kept_back(source: &str, tool: &str, took: Duration) -> CallError {
    let text = format!(
        "`{tool}` of source `{source}` waited {:.1} s for its turn and was not sent: a call of another client comes first, \
         for it may be asked something",
        took.as_secs_f32()
    );
    let hint = "try again later; with `isolation = \"session\"` for the source clients do not wait for each other";
    CallError::new(ErrorKind::TimedOut, text, hint).at(source, Some(tool))
}

/// A reply that is no message.
pub fn unreadable(source: &str, why: &str) -> CallError {
    let text = format!("source `{source}` answered, but its answer cannot be read: {why}");
    let hint = "report this to the authors of the source";
    CallError::new(ErrorKind::Unavailable, text, hint).at(source, None)
}

/// A call that was over a limit: `sent` or still waiting for its turn, the `hard` maximum or the one without progress.
pub fn timed_out(source: &str, tool: &str, limits: CallLimits, took: Duration, sent: bool, hard: bool) -> CallError {
    let (idle, total, took) = (limits.idle.as_secs_f32(), limits.total.as_secs_f32(), took.as_secs_f32());
    let (message, hint) = match (sent, hard) {
        (false, _) => (
            format!("`{tool}` of source `{source}` waited {took:.1} s for its turn and was not sent"),
            "try again later, or raise `max_in_flight` of the source",
        ),
        (true, true) => (
            format!(
                "`{tool}` of source `{source}` ran for {took:.1} s, longer than the hard maximum of {total} s (the limit without progress is {idle} s)"
            ),
            "raise `max_call_secs` of the source if it needs longer; the call was cancelled and may have taken effect",
        ),
        (true, false) => (
            format!(
                "`{tool}` of source `{source}` gave no sign for {idle} s (ran {took:.1} s; the hard maximum is {total} s)"
            ),
            "raise `call_timeout_secs` of the source or of the tool if it needs longer; the call was cancelled and may have taken effect",
        ),
    };
    CallError::new(ErrorKind::TimedOut, message, hint).at(source, Some(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let is_within = |pause: Duration, least: u64, most: u64| {
            (Duration::from_millis(least)..=Duration::from_millis(most)).contains(&pause)
        };
        for (failures, least, most) in
            [(1, 800, 1200), (4, 6400, 9600), (9, 204_800, 300_000), (10, 300_000, 300_000), (99, 300_000, 300_000)]
        {
            for _ in 0..100 {
                let pause = pause(failures, ErrorKind::Exited);
                assert!(is_within(pause, least, most), "{failures}: {pause:?}");
            }
        }
        assert_eq!(pause(1, ErrorKind::NeedsAuth), AUTH_RETRY);
    }
}
