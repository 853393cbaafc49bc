//! Owns the signs that a running program is of no use any more: it closed its input, or calls in a row came to their limits
//! while nothing came from it. It ends nothing itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::process::ChildStdin;

/// After so many calls in a row without a single message a source is given up; one may just have been slow.
const MUTE_MAX: u32 = 3;

/// What is held against one connection.
#[derive(Default)]
pub struct Verdict {
    why: OnceLock<String>,
    /// How many messages came.
    heard: AtomicU64,
    /// How many calls in a row came to their limits without one.
    mute: AtomicU32,
}

impl Verdict {
    /// A message came from the source.
    pub fn hear(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        self.mute.store(0, Ordering::Relaxed);
    }

    /// How many messages came so far.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// A call came to its limit that was sent when so many messages had come; gives why the source is of no use any more,
    /// if that is so now.
    pub fn timed_out(&self, heard: u64) -> Option<String> {
        if self.heard() != heard {
            return None;
        }
        let calls = self.mute.fetch_add(1, Ordering::Relaxed) + 1;
        (calls >= MUTE_MAX).then(|| {
            format!("does not respond: {calls} calls in a row came to their limits and nothing came from it meanwhile")
        })
    }

    /// Settles it; the first reason counts.
    pub fn settle(&self, why: String) {
        let _ = self.why.set(why);
    }

    pub fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }
}

/// Watches the other end of a program's input. A call that was written just before it closed would get no answer and no
/// error.
#[cfg(unix)]
pub struct OtherEnd(Option<tokio::net::unix::pipe::Sender>);

#[cfg(unix)]
impl OtherEnd {
    pub fn of(stdin: &ChildStdin) -> Self {
        use std::os::fd::AsFd;
        let end = stdin.as_fd().try_clone_to_owned().ok();
        Self(end.and_then(|end| tokio::net::unix::pipe::Sender::from_owned_fd(end).ok()))
    }

    /// Waits until the program has closed its input; for ever where that cannot be seen.
    pub async fn closed(&self) {
        match &self.0 {
            Some(end) if end.ready(tokio::io::Interest::ERROR).await.is_ok() => {}
            _ => std::future::pending().await,
        }
    }
}

/// Where this cannot be seen the next write tells.
#[cfg(not(unix))]
pub struct OtherEnd;

#[cfg(not(unix))]
impl OtherEnd {
    pub fn of(_: &ChildStdin) -> Self {
        Self
    }

    pub async fn closed(&self) {
        std::future::pending().await
    }
}
