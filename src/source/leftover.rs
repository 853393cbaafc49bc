//! Owns how much is still read of a process that comes to its end: what stands in its pipe, however long the client takes for
//! it, and what comes after that for a moment only. It does not look at what is read.

use std::io;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::wire::LineReader;

/// How long more output is waited for after the process has ended (a grandchild may hold the pipe open).
const LAST_OUTPUT: Duration = Duration::from_millis(300);
/// How long a process that closed its input may take to answer what it has read, and to end by itself.
const LAST_ANSWERS: Duration = Duration::from_millis(1000);
/// What a pipe holds: who ended has left no more than this.
const PIPE: u64 = 256 * 1024;

/// Why no more is read.
#[derive(Debug)]
pub enum Stop {
    Unreadable(io::Error),
    /// The process has closed its input, and neither ends nor has more to say.
    ClosedInput,
    /// The process has ended.
    Ended,
}

/// What is left to be read, as the reader keeps count of it.
pub struct Leftover {
    input: Last,
    process: Last,
}

impl Leftover {
    /// Others cancel the tokens: `closed` when the process has closed its input, and `ended`, whose child it is, when it has
    /// ended.
    pub fn new(closed: CancellationToken, ended: CancellationToken) -> Self {
        Self { input: Last::new(closed, LAST_ANSWERS), process: Last::new(ended, LAST_OUTPUT) }
    }

    /// Reads once, as [`LineReader::fill`] does, or tells that no more is to be expected.
    pub async fn fill(&mut self, reader: &mut LineReader<impl AsyncRead + Unpin>) -> Result<bool, Stop> {
        let began = self.input.has_come().then(Instant::now);
        if began.is_some() {
            let total = reader.total();
            let (mute, ended) = (self.input.is_over(total), self.process.is_over(total));
            if ended || (mute && !self.process.has_come()) {
                return Err(if ended { Stop::Ended } else { Stop::ClosedInput });
            }
        }
        let filled = tokio::select! {
            biased;
            // What is there is read, however late it is.
            filled = reader.fill() => filled.map_err(Stop::Unreadable),
            stop = self.lapse() => Err(stop),
        };
        if let Some(began) = began {
            self.input.waited(began);
            self.process.waited(began);
        }
        filled
    }

    /// Waits until the process has closed its input or ended.
    pub async fn begins(&self) {
        self.input.event.cancelled().await;
    }

    /// So long the reading was held up by something else than the process, which costs it no time.
    pub fn held_up(&mut self, time: Duration) {
        self.input.held_up(time);
        self.process.held_up(time);
    }

    async fn lapse(&self) -> Stop {
        self.input.event.cancelled().await;
        tokio::select! {
            () = self.process.lapse() => return Stop::Ended,
            () = self.input.lapse() => {}
        }
        if self.process.has_come() {
            self.process.lapse().await;
            return Stop::Ended;
        }
        Stop::ClosedInput
    }
}

/// A time that begins with an event. What was in the pipe by then is read in any case.
struct Last {
    event: CancellationToken,
    limit: Duration,
    /// When the event was noticed, and how much had been read by then.
    since: Option<(Instant, u64)>,
    /// How long the pipe was empty since then.
    waited: Duration,
    /// How long reading was held up since then.
    held_up: Duration,
}

impl Last {
    fn new(event: CancellationToken, limit: Duration) -> Self {
        Self { event, limit, since: None, waited: Duration::ZERO, held_up: Duration::ZERO }
    }

    fn has_come(&self) -> bool {
        self.event.is_cancelled()
    }

    /// Whether the time is over for one who has written on all the time.
    fn is_over(&mut self, total: u64) -> bool {
        if !self.has_come() {
            return false;
        }
        let (since, before) = *self.since.get_or_insert_with(|| (Instant::now(), total));
        total - before > PIPE && since.elapsed().saturating_sub(self.held_up) > self.limit
    }

    fn waited(&mut self, began: Instant) {
        if self.since.is_some() {
            self.waited += began.elapsed();
        }
    }

    fn held_up(&mut self, time: Duration) {
        if self.since.is_some() {
            self.held_up += time;
        }
    }

    /// Comes to its end when the pipe was empty for so long in all.
    async fn lapse(&self) {
        self.event.cancelled().await;
        tokio::time::sleep(self.limit.saturating_sub(self.waited)).await;
    }
}
