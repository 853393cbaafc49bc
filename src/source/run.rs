//! Owns the tasks of one launched process: one reads its output, one writes its input, one drains its standard error, one
//! waits for its end. It does not decide when a source runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::process::ChildStdin;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use super::Surroundings;
use super::debt::Debt;
use super::http::Connection;
use super::launch::{self, Launched, Process};
use super::leftover::{Leftover, Stop};
use super::lines::{take_line, take_rest};
use super::link::{Link, OUTBOX_LIMIT};
use super::noise::Spread;
use super::pace::Pace;
use super::stderr::StderrTail;
use super::verdict::OtherEnd;
use super::watchdog::Watchdog;
use crate::call::{CallError, ErrorKind};
use crate::wire::{self, Line, LineReader, Outbox};

/// How long a process that closed its output may take to end by itself.
const LAST_BREATH: Duration = Duration::from_millis(500);
/// How long standard error is still read after the end.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// What a source may write before its first message; one that writes more is no MCP server.
const PROLOGUE_MAX: u64 = 8 * 1024 * 1024;
/// The same in lines: short ones take longer.
const PROLOGUE_LINES_MAX: u64 = 100_000;
/// How long a source that sends back what it is sent may take to send anything else.
const ECHO_MAX: Duration = Duration::from_secs(5);

/// How a process came to its end.
#[derive(Debug, Clone)]
pub struct Gone {
    pub error: CallError,
    /// It was asked to stop, or ended by itself with code 0.
    pub clean: bool,
    /// It answered something after the handshake, and left no call unanswered.
    pub answered: bool,
}

/// A running process, or a connection, seen from its supervisor.
pub struct Running {
    pub link: Arc<Link>,
    /// `None` for a source that is reached over HTTP.
    pub pid: Option<u32>,
    pub tail: StderrTail,
    pub gone: oneshot::Receiver<Gone>,
    /// The connection of an HTTP source.
    pub http: Option<Arc<Connection>>,
}

/// Starts the tasks of a launched process, which counts among `processes` until it is gone.
pub fn run(
    launched: Launched,
    source: &str,
    max_in_flight: usize,
    around: &Surroundings,
    processes: &TaskTracker,
) -> Running {
    let tracker = &around.tracker;
    let Launched { process, stdin, stdout, stderr, secrets } = launched;
    let tail = StderrTail::new(secrets);
    let secrets = tail.secrets();
    let secrets = Box::new(move || secrets.clone());
    let link = Link::new(source, max_in_flight, around.shutdown.child_token(), Outbox::lines(OUTBOX_LIMIT), secrets);
    let pid = process.pid();
    let span = tracing::error_span!("source", id = source, pid);
    let ended = CancellationToken::new();
    let closed = ended.child_token();
    tracker.spawn(write(link.clone(), stdin, closed.clone()).instrument(span.clone()));
    let drain = tracker.spawn(tail.clone().drain(stderr).instrument(span.clone()));
    let reading = {
        let (link, tail, leftover) = (link.clone(), tail.clone(), Leftover::new(closed, ended.clone()));
        tracker.spawn(read(link, tail, LineReader::new(stdout, around.max_message), leftover).instrument(span.clone()))
    };
    let (tell, gone) = oneshot::channel();
    around.watchdog.watch(pid);
    let supervised = Supervised {
        process,
        counted: processes.token(),
        ended,
        link: link.clone(),
        tail: tail.clone(),
        began: std::time::Instant::now(),
        ending: around.shutdown.clone(),
        watchdog: around.watchdog.clone(),
    };
    tracker.spawn(supervised.supervise(reading, drain, tell).instrument(span));
    Running { link, pid: Some(pid), tail, gone, http: None }
}

/// Writes what the source is sent. One that closed its input gets no call any more, and the reader is told: if it does not end
/// by itself it is ended, for what was written last may be lost.
async fn write(link: Arc<Link>, stdin: ChildStdin, closed: CancellationToken) {
    let other_end = OtherEnd::of(&stdin);
    let written = tokio::select! {
        written = link.outbox.write_to(stdin) => written,
        () = other_end.closed() => Err(std::io::ErrorKind::BrokenPipe.into()),
    };
    let Err(error) = written else { return };
    tracing::debug!(%error, "source takes no more input");
    link.outbox.close();
    link.close();
    closed.cancel();
}

/// Reads what the source sends, to its end. Gives the reason if the connection must end for what was sent.
async fn read(
    link: Arc<Link>,
    tail: StderrTail,
    mut reader: LineReader<impl AsyncRead + Unpin>,
    mut leftover: Leftover,
) -> Option<String> {
    let (mut spread, mut debt) = (Spread::default(), Debt::default());
    let mut echoes = None;
    loop {
        let (mut written, mut pace) = (None, Pace::new(&link));
        while let Some(line) = reader.buffered() {
            let Some(line) = spread.add(line, reader.limit()) else { continue };
            let large = is_large(&line).then(Instant::now);
            match take_line(&link, &tail, line).await {
                Ok(outbox) => written = outbox.or(written),
                Err(fatal) => return Some(fatal),
            }
            leftover.held_up(large.map_or(Duration::ZERO, |began| began.elapsed()));
            if debt.is_high(&link) {
                tokio::select! {
                    () = link.outbox.rest() => {}
                    // Who reads no more, as its child may seem to, is read to its end.
                    () = leftover.begins() => {}
                }
            }
            pace.line().await;
        }
        leftover.held_up(pace.rest(written).await);
        if !link.has_spoken() && reader.total() > PROLOGUE_MAX {
            return Some(format!("it wrote {} MiB and not one MCP message among them", PROLOGUE_MAX >> 20));
        }
        if !link.has_spoken() && link.noise.lines() > PROLOGUE_LINES_MAX {
            return Some(format!("it wrote {PROLOGUE_LINES_MAX} lines and not one MCP message among them"));
        }
        link.noise.leaves_open(reader.pending());
        if link.noise.has_echo() && !link.has_spoken() {
            echoes.get_or_insert_with(Instant::now);
        }
        let filled = tokio::select! {
            filled = leftover.fill(&mut reader) => filled,
            () = only_echoes(&link, echoes) => {
                return Some("it sends back what it is sent, so it is no MCP server".to_owned());
            }
        };
        match filled {
            Ok(true) => {}
            Ok(false) => {
                if let Some(Line::Whole(bytes)) = reader.buffered() {
                    wire::handle(bytes, move |bytes| take_rest(&link, &tail, bytes)).await;
                }
                return None;
            }
            Err(Stop::Ended) => return None,
            Err(Stop::ClosedInput) => return Some("closed its input".to_owned()),
            Err(Stop::Unreadable(error)) => return Some(format!("its output cannot be read: {error}")),
        }
    }
}

/// Whether a line is so long that it takes time.
fn is_large(line: &Line) -> bool {
    matches!(line, Line::Whole(bytes) if bytes.len() >= wire::LARGE_MESSAGE)
}

/// Comes to its end when nothing but echoes has come for too long, `since` the first.
async fn only_echoes(link: &Link, since: Option<Instant>) {
    match since {
        Some(since) if !link.has_spoken() => tokio::time::sleep_until(since + ECHO_MAX).await,
        _ => std::future::pending().await,
    }
}

struct Supervised {
    process: Process,
    /// Held until the process is gone.
    counted: TaskTrackerToken,
    /// Tells the reader that the process has ended.
    ended: CancellationToken,
    link: Arc<Link>,
    tail: StderrTail,
    began: std::time::Instant,
    /// The relay itself ends.
    ending: CancellationToken,
    watchdog: Watchdog,
}

impl Supervised {
    async fn supervise(
        mut self,
        mut reading: tokio::task::JoinHandle<Option<String>>,
        drain: tokio::task::JoinHandle<()>,
        tell: oneshot::Sender<Gone>,
    ) {
        let stop = self.link.stop.clone();
        let draining = drain.abort_handle();
        let mut asked = false;
        let mut fatal = None;
        tokio::select! {
            () = stop.cancelled() => asked = true,
            _ = self.process.wait() => {
                self.link.close();
                self.ended.cancel();
                fatal = tokio::select! {
                    read = &mut reading => read.ok().flatten(),
                    () = stop.cancelled() => None,
                    () = self.ending.cancelled() => None,
                };
            }
            read = &mut reading => {
                self.link.close();
                fatal = read.ok().flatten();
                if fatal.is_none() {
                    let ending = self.ending.clone();
                    tokio::select! {
                        _ = self.process.wait() => {}
                        () = tokio::time::sleep(LAST_BREATH) => {}
                        () = ending.cancelled() => {}
                    }
                }
            }
        }
        if !asked {
            // Let its last words come in before they are told.
            let _ = self.within(LAST_WORDS, drain).await;
        }
        let answered = self.link.is_done();
        let gone = self.account(asked, fatal, answered);
        tracing::info!(how = %gone.error.message, "source ended");
        self.link.shut(&gone.error);
        self.process.stop(&self.ending).await;
        self.watchdog.forget(self.process.pid());
        // A process that left the group may hold the pipes open.
        reading.abort();
        draining.abort();
        drop(self.counted);
        let _ = tell.send(gone);
        // At the end of the relay the watchdog looks for those of all sources in one go.
        if !self.watchdog.is_ending() {
            self.process.end_strays().await;
        }
    }

    /// Waits for `what`, at most `limit`, and not at all once the relay ends.
    async fn within<T>(&self, limit: Duration, what: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = what => Some(done),
            () = tokio::time::sleep(limit) => None,
            () = self.ending.cancelled() => None,
        }
    }

    fn account(&self, asked: bool, fatal: Option<String>, answered: bool) -> Gone {
        let source = &self.link.source;
        if let (true, Some(why)) = (asked, self.link.verdict.why()) {
            let message = format!("source `{source}`: {why}{}", self.tail.told());
            let error = CallError::new(ErrorKind::Exited, message, "the source is started again when it is needed");
            return Gone { error: error.at(source, None), clean: false, answered };
        }
        if asked {
            let error = CallError::new(
                ErrorKind::Cancelled,
                format!("source `{source}` was stopped by the relay"),
                "call again: the source is started when it is needed",
            );
            return Gone { error: error.at(source, None), clean: true, answered: false };
        }
        let status = self.process.ended();
        let how = match (&fatal, status) {
            (Some(fatal), _) => fatal.clone(),
            (None, None) => "closed its output".to_owned(),
            (None, status) => launch::describe(status),
        };
        // Many programs say on stdout why they do not start.
        let told = match self.link.is_greeted() || fatal.is_some() {
            true => String::new(),
            false => self.link.noise.told(self.began),
        };
        let clean = fatal.is_none() && status.is_some_and(|status| status.success());
        let message = format!("source `{source}`: {how}{told}{}", self.tail.told());
        let error = CallError::new(ErrorKind::Exited, message, "the source is started again when it is needed");
        Gone { error: error.at(source, None), clean, answered }
    }
}
