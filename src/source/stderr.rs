//! Owns what a source writes to its standard error: always drained, the last lines kept.
//! It does not judge what is said there.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::redact;

/// How many lines are kept.
const LINES: usize = 20;
/// How many characters of a line are kept.
const LINE_MAX: usize = 300;
/// How many lines are told in an error.
const TOLD: usize = 5;

/// The last lines of a source's standard error, secrets masked.
#[derive(Clone, Default)]
pub struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    secrets: Arc<Vec<String>>,
}

impl StderrTail {
    pub fn new(secrets: Vec<String>) -> Self {
        Self { lines: Arc::default(), secrets: Arc::new(secrets) }
    }

    /// Reads to the end of the stream, whatever is written and however much.
    pub async fn drain(self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8 * 1024];
        let mut line = Vec::new();
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            for &byte in &chunk[..read] {
                if byte == b'\n' || byte == b'\r' {
                    self.keep(&line);
                    line.clear();
                } else if line.len() < 4 * LINE_MAX {
                    line.push(byte);
                }
            }
            // A pipe that is never empty would otherwise keep everybody else waiting for a megabyte at a time.
            tokio::task::yield_now().await;
        }
        self.keep(&line);
    }

    fn keep(&self, line: &[u8]) {
        let text = redact::mask(&String::from_utf8_lossy(line), &self.secrets);
        let text = redact::one_line(&text, LINE_MAX);
        if text.is_empty() {
            return;
        }
        tracing::debug!(line = %text, "stderr");
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }

    /// A sample of the source's own text, masked.
    pub fn masked(&self, text: &str, max: usize) -> String {
        redact::one_line(&redact::mask(text, &self.secrets), max)
    }

    /// `; its last words: ..`, or nothing.
    pub fn told(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return String::new();
        }
        let told: Vec<_> = lines.iter().skip(lines.len().saturating_sub(TOLD)).map(String::as_str).collect();
        format!("; its last words on stderr: {}", told.join(" | "))
    }
}
