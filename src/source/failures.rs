//! Owns the words for what goes wrong on a connection to a source: what, why, and what to do.
//! It decides nothing.

use std::time::Duration;

use crate::call::{CallError, ErrorKind};
use crate::config::CallLimits;

/// There is no place for another call.
pub fn busy(source: &str, tool: &str, waiting: usize) -> CallError {
    let text =
        format!("source `{source}` takes no more calls: {waiting} wait already, or it does not read what it is sent");
    let hint = "try again later, or raise `max_in_flight` of the source";
    CallError::new(ErrorKind::Busy, text, hint).at(source, Some(tool))
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
