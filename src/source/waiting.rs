//! Owns what waits for a source to be up: calls, and questions for its list.
//! It does not start the source.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::link::Link;
use crate::call::{Call, CallError, End, ErrorKind};

/// How many calls may wait for a start.
const CALLS_MAX: usize = 1024;

type Asker = oneshot::Sender<Result<(), CallError>>;

/// All that waits for one source.
pub struct Waiting {
    source: String,
    calls: VecDeque<(Box<Call>, Instant)>,
    askers: Vec<Asker>,
}

impl Waiting {
    pub fn new(source: &str) -> Self {
        Self { source: source.to_owned(), calls: VecDeque::new(), askers: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.askers.is_empty()
    }

    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Lets a call wait; refuses it when there are too many.
    pub fn add_call(&mut self, call: Box<Call>) {
        if self.calls.len() < CALLS_MAX {
            return self.calls.push_back((call, Instant::now()));
        }
        let text = format!("source `{}` is starting, and {CALLS_MAX} calls wait for it already", self.source);
        let error = CallError::new(ErrorKind::Busy, text, "try again in a moment");
        self.fail(call, error);
    }

    pub fn add_asker(&mut self, asker: Asker) {
        self.askers.push(asker);
    }

    /// Gives every call to the source; those it does not take go on waiting.
    pub fn submit(&mut self, link: &Arc<Link>) {
        for (call, since) in std::mem::take(&mut self.calls) {
            if let Err(call) = link.submit(call) {
                self.calls.push_back((call, since));
            }
        }
    }

    /// Answers every question for the list.
    pub fn answer(&mut self, outcome: &Result<(), CallError>) {
        for asker in std::mem::take(&mut self.askers) {
            let _ = asker.send(outcome.clone());
        }
    }

    /// Ends everything that waits with the same failure.
    pub fn fail_all(&mut self, error: &CallError) {
        for (call, _) in std::mem::take(&mut self.calls) {
            self.fail(call, error.clone());
        }
        self.answer(&Err(error.clone()));
    }

    /// Ends calls that have waited as long as they may, and forgets those that were cancelled.
    pub fn expire(&mut self, now: Instant) {
        for (call, since) in std::mem::take(&mut self.calls) {
            let waited = now.duration_since(since);
            if waited >= call.limits.total {
                let text = format!("source `{}` is still starting after {:.0} s", self.source, waited.as_secs_f32());
                self.fail(call, CallError::new(ErrorKind::Starting, text, "call again later; the start goes on"));
            } else if !call.ticket.is_cancelled() {
                self.calls.push_back((call, since));
            }
        }
    }

    fn fail(&self, call: Box<Call>, error: CallError) {
        if !call.ticket.is_cancelled() {
            let own = error.at(&self.source, Some(call.tool.as_str()));
            call.back.end(End::Failed(own));
        }
    }
}
