//! Owns what a source writes to its standard error: always drained, the last lines kept.
//! It does not judge what is said there.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::redact;

/// How many lines are kept.
const LINES: usize = 20;
/// How many characters of a line are kept.
const LINE_MAX: usize = 300;
/// How many lines are told in an error.
const TOLD: usize = 5;
/// How a stream is read.
struct Rate {
    /// How much at a time.
    chunk: usize,
    /// After how much there is a pause, so that a source that floods takes a part of the time only.
    turn: usize,
    pause: Duration,
}

/// A pipe full at a time, and some hundred MiB a second: a program that logs much is at work.
const FAST: Rate = Rate { chunk: 64 * 1024, turn: 1024 * 1024, pause: Duration::from_millis(3) };
/// Where each line is logged, which takes its time.
const LOGGED: Rate = Rate { chunk: 32 * 1024, turn: 32 * 1024, pause: Duration::from_millis(10) };

/// The last lines of a source's standard error, secrets masked.
#[derive(Clone, Default)]
pub struct StderrTail {
    /// As they came; masked when they are told, since a flood of them costs every source time.
    lines: Arc<Mutex<VecDeque<Vec<u8>>>>,
    secrets: Arc<Vec<String>>,
    /// Bytes that came so far.
    written: Arc<AtomicU64>,
}

impl StderrTail {
    pub fn new(secrets: Vec<String>) -> Self {
        Self { lines: Arc::default(), secrets: Arc::new(redact::forms(secrets)), written: Arc::default() }
    }

    /// Reads to the end of the stream, whatever is written and however much.
    pub async fn drain(self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; FAST.chunk];
        let (mut line, mut turn) = (Vec::new(), 0);
        loop {
            let rate = if is_logged() { LOGGED } else { FAST };
            let Ok(read @ 1..) = stream.read(&mut chunk[..rate.chunk]).await else { break };
            self.written.fetch_add(read as u64, Ordering::Relaxed);
            self.take(&chunk[..read], &mut line);
            turn += read;
            if turn >= rate.turn {
                turn = 0;
                tokio::time::sleep(rate.pause).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
        self.keep(&line);
    }

    /// Takes a piece, `line` being what came before of its first line.
    fn take(&self, piece: &[u8], line: &mut Vec<u8>) {
        let from = if is_logged() { 0 } else { last_lines(piece) };
        if from > 0 {
            line.clear();
        }
        let mut rest = &piece[from..];
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            extend(line, &rest[..end]);
            self.keep(line);
            line.clear();
            rest = &rest[end + 1..];
        }
        extend(line, rest);
    }

    /// How many bytes the source has written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn keep(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        if is_logged() {
            tracing::debug!(line = %self.shown(line), "stderr");
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_vec());
    }

    fn shown(&self, line: &[u8]) -> String {
        self.masked(&String::from_utf8_lossy(line), LINE_MAX)
    }

    /// A sample of the source's own text, masked.
    pub fn masked(&self, text: &str, max: usize) -> String {
        redact::one_line(&redact::mask(text, &self.secrets), max)
    }

    /// What is secret of the source, in all forms.
    pub fn secrets(&self) -> Arc<Vec<String>> {
        self.secrets.clone()
    }

    /// `; its last words: ..`, or nothing.
    pub fn told(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = lines.iter().rev().map(|line| self.shown(line)).filter(|line| !line.is_empty());
        let mut told: Vec<_> = shown.take(TOLD).collect();
        if told.is_empty() {
            return String::new();
        }
        told.reverse();
        format!("; its last words on stderr: {}", told.join(" | "))
    }
}

fn is_logged() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// Adds to a line as much as is kept of one.
fn extend(line: &mut Vec<u8>, more: &[u8]) {
    let room = (4 * LINE_MAX).saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

/// Where the last lines of a piece begin, as many as are kept: what stands before them is never told.
fn last_lines(piece: &[u8]) -> usize {
    let (mut end, mut found) = (piece.len(), 0);
    while let Some(at) = memchr::memrchr2(b'\n', b'\r', &piece[..end]) {
        // The first of them breaks off at the end of the piece, and may be blank so far.
        if end < piece.len() && !piece[at + 1..end].trim_ascii().is_empty() {
            found += 1;
        }
        if found == LINES {
            return at + 1;
        }
        end = at;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_told_however_they_come() {
        let numbered: String = (0..50_000).map(|n| format!("line {n}\r\n\n")).collect();
        let long = format!("{}\nthe end", "x".repeat(3 * FAST.chunk));
        let told = |last: [&str; TOLD]| format!("; its last words on stderr: {}", last.join(" | "));
        let x = redact::one_line(&"x".repeat(4 * LINE_MAX), LINE_MAX);
        for (text, want) in [
            (numbered.clone(), told(["line 49995", "line 49996", "line 49997", "line 49998", "line 49999"])),
            (format!("{numbered}{long}"), told(["line 49997", "line 49998", "line 49999", &x, "the end"])),
            (
                format!("{numbered}{}", "\n \n".repeat(FAST.chunk)),
                told(["line 49995", "line 49996", "line 49997", "line 49998", "line 49999"]),
            ),
        ] {
            let tail = StderrTail::new(Vec::new());
            tail.clone().drain(text.as_bytes()).await;
            assert_eq!(tail.told(), want);
            assert_eq!(tail.lines.lock().unwrap().len(), LINES);
            assert_eq!(tail.written(), text.len() as u64);
        }
    }
}
