//! Owns what a source writes to its standard output that is no message: how much it was, and what it looked like.
//! It reads no message; one that is spread over several lines it puts together.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use crate::wire::Line;

/// The most lines of one message that is written over several.
const LINES_MAX: usize = 100_000;

/// The noise of one connection.
#[derive(Default)]
pub struct Noise {
    lines: AtomicU64,
    /// When it last wrote such a line, and one of them.
    last: Mutex<Option<(Instant, String)>>,
    /// Bytes of a line that has not ended yet.
    open: AtomicUsize,
    /// The relay's own words came back.
    echo: AtomicBool,
}

impl Noise {
    fn lock(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a line; gives `sample` of it when it is worth a warning (the first, the tenth, the hundredth ..).
    pub fn add(&self, sample: impl FnOnce() -> String) -> Option<String> {
        let count = self.lines.fetch_add(1, Ordering::Relaxed) + 1;
        let worth_it = std::iter::successors(Some(1_u64), |step| step.checked_mul(10))
            .take_while(|step| *step <= count)
            .any(|step| step == count);
        let now = Instant::now();
        let mut last = self.lock();
        match &mut *last {
            Some((at, _)) if !worth_it => {
                *at = now;
                None
            }
            _ => {
                let sample = sample();
                *last = Some((now, sample.clone()));
                Some(sample)
            }
        }
    }

    /// How many lines it was.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// What the relay sent came back.
    pub fn note_echo(&self) {
        self.echo.store(true, Ordering::Relaxed);
    }

    /// Whether it ever did.
    pub fn has_echo(&self) -> bool {
        self.echo.load(Ordering::Relaxed)
    }

    /// So many bytes came without the end of their line.
    pub fn leaves_open(&self, bytes: usize) {
        self.open.store(bytes, Ordering::Relaxed);
    }

    /// What there was since `then` that may explain why no answer came, as the rest of a sentence; else nothing.
    pub fn told(&self, then: Instant) -> String {
        let open = self.open.load(Ordering::Relaxed);
        let lines = self.lines();
        match &*self.lock() {
            _ if open > 0 => format!("; its last {open} bytes on stdout have no line end, which a message needs"),
            Some((at, sample)) if *at >= then => {
                let what = if lines == 1 { "a line that is no message" } else { "lines that are no messages" };
                format!("; meanwhile it wrote {what} on stdout, for example `{sample}`")
            }
            _ => String::new(),
        }
    }
}

/// Puts together what is written over several lines: from a line `{` to a line `}`.
#[derive(Default)]
pub struct Spread {
    lines: BytesMut,
    count: usize,
}

impl Spread {
    /// Takes a line; gives it back, or the whole of which it was the last, or nothing yet. A line that is an object by
    /// itself ends what was begun: it is no part of it.
    pub fn add(&mut self, line: Line, limit: usize) -> Option<Line> {
        let Line::Whole(bytes) = &line else {
            self.drop_begun();
            return Some(line);
        };
        let text = bytes.trim_ascii_end();
        if self.count == 0 && text != b"{" {
            return Some(line);
        }
        let is_part = self.count == 0 || !text.starts_with(b"{");
        if !is_part || self.count == LINES_MAX || self.lines.len() + text.len() > limit {
            self.drop_begun();
            return Some(line);
        }
        self.lines.extend_from_slice(text);
        self.lines.extend_from_slice(b" ");
        self.count += 1;
        if text != b"}" {
            return None;
        }
        self.count = 0;
        Some(Line::Whole(Bytes::from(self.lines.split())))
    }

    fn drop_begun(&mut self) {
        self.count = 0;
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_messages_are_put_together() {
        let mut spread = Spread::default();
        let mut add = |text: &'static str| match spread.add(Line::Whole(Bytes::from_static(text.as_bytes())), 40) {
            Some(Line::Whole(bytes)) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
            _ => None,
        };
        assert_eq!(add("banner").as_deref(), Some("banner"));
        assert_eq!(add("}").as_deref(), Some("}"));
        assert_eq!(add("{"), None);
        assert_eq!(add("  \"id\": 1,"), None);
        assert_eq!(add("  }"), None);
        assert_eq!(add("}").as_deref(), Some("{   \"id\": 1,   } } "));
        // One that breaks off costs no other message.
        assert_eq!(add("{"), None);
        assert_eq!(add("{\"id\":2}").as_deref(), Some("{\"id\":2}"));
        assert_eq!(add("}").as_deref(), Some("}"));
        // Nor does one over the limit.
        assert_eq!(add("{"), None);
        let long = "  \"0123456789012345678901234567890123456789\"";
        assert_eq!(add(long).as_deref(), Some(long));
    }

    #[test]
    fn noise_is_told_while_it_matters() {
        let (noise, before) = (Noise::default(), Instant::now());
        assert_eq!(noise.told(before), "");
        assert_eq!(noise.add(|| "ready".to_owned()).as_deref(), Some("ready"));
        assert!(noise.told(before).ends_with("wrote a line that is no message on stdout, for example `ready`"));
        assert_eq!(noise.add(|| unreachable!("BUG: the second is not worth it")), None);
        assert_eq!(noise.lines(), 2);
        assert_eq!(noise.told(Instant::now() + std::time::Duration::from_secs(1)), "");
        noise.leaves_open(7);
        assert!(noise.told(Instant::now()).contains("last 7 bytes on stdout have no line end"));
    }
}
