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
/// How much is read at a time. A source that has this much ready floods, and is read more slowly, so that it costs the
/// others nothing.
const CHUNK: usize = 32 * 1024;
/// How long such a source then waits.
const FLOOD_PAUSE: Duration = Duration::from_millis(10);

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
        let mut chunk = vec![0; CHUNK];
        let mut line = Vec::new();
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            self.written.fetch_add(read as u64, Ordering::Relaxed);
            for &byte in &chunk[..read] {
                if byte == b'\n' || byte == b'\r' {
                    self.keep(std::mem::take(&mut line));
                } else if line.len() < 4 * LINE_MAX {
                    line.push(byte);
                }
            }
            if read == CHUNK {
                tokio::time::sleep(FLOOD_PAUSE).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
        self.keep(line);
    }

    /// How many bytes the source has written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn keep(&self, line: Vec<u8>) {
        if line.trim_ascii().is_empty() {
            return;
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(line = %self.shown(&line), "stderr");
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
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
