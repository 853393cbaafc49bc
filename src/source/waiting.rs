//! Owns what waits for a source to be up: calls, and questions for its list.
//! It does not start the source.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::Ask;
use super::link::Link;
use crate::call::{Call, CallError, End, ErrorKind};

/// How many calls may wait for a start.
const CALLS_MAX: usize = 1024;

/// How often the client of a waiting call is told so, if it asked for progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

type Asker = oneshot::Sender<Result<(), CallError>>;

/// All that waits for one source.
pub struct Waiting {
    source: String,
    calls: VecDeque<Waiter>,
    askers: Vec<Asker>,
}

struct Waiter {
    call: Box<Call>,
    since: Instant,
    /// How often its client was told that it waits.
    told: u32,
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
            return self.calls.push_back(Waiter { call, since: Instant::now(), told: 0 });
        }
        let text = format!("source `{}` is starting, and {CALLS_MAX} calls wait for it already", self.source);
        let error = CallError::new(ErrorKind::Busy, text, "try again in a moment");
        self.fail(call, error);
    }

    /// Takes what nobody has looked at yet.
    pub fn add_rest(&mut self, mut asks: mpsc::Receiver<Ask>) {
        asks.close();
        while let Ok(ask) = asks.try_recv() {
            match ask {
                Ask::Call(call) => self.add_call(call),
                Ask::List { reply, .. } => self.add_asker(reply),
                Ask::Forget | Ask::Changed => {}
            }
        }
    }

    pub fn add_asker(&mut self, asker: Asker) {
        self.askers.push(asker);
    }

    /// Gives every call to the source; those it does not take go on waiting.
    pub fn submit(&mut self, link: &Arc<Link>) {
        for waiter in std::mem::take(&mut self.calls) {
            if let Some(error) = waiter.call.back.barred() {
                self.fail(waiter.call, error);
            } else if let Err(call) = link.submit(waiter.call) {
                self.calls.push_back(Waiter { call, ..waiter });
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
        for waiter in std::mem::take(&mut self.calls) {
            self.fail(waiter.call, error.clone());
        }
        self.answer(&Err(error.clone()));
    }

    /// Ends calls that have waited as long as they may, forgets those that were cancelled, and tells the clients of the
    /// others now and then that they still wait.
    pub fn expire(&mut self, now: Instant) {
        for mut waiter in std::mem::take(&mut self.calls) {
            let waited = now.duration_since(waiter.since);
            if waited >= waiter.call.limits.total {
                let text = format!("source `{}` is still starting after {:.0} s", self.source, waited.as_secs_f32());
                self.fail(
                    waiter.call,
                    CallError::new(ErrorKind::Starting, text, "call again later; the start goes on"),
                );
                continue;
            }
            if waiter.call.ticket.is_cancelled() {
                continue;
            }
            if waited >= TELL_EVERY * (waiter.told + 1) {
                waiter.told += 1;
                let text = format!("source `{}` is starting ({:.0} s)", self.source, waited.as_secs_f32());
                waiter.call.back.waits(&text);
            }
            self.calls.push_back(waiter);
        }
    }

    fn fail(&self, call: Box<Call>, error: CallError) {
        if !call.ticket.is_cancelled() {
            let own = error.at(&self.source, Some(call.subject.name()));
            call.back.end(End::Failed(own));
        }
    }
}
