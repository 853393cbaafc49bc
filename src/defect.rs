//! Owns what becomes of a panic, which is a defect of the relay's own. One whose damage somebody makes good (an answer that is
//! an error then) is told and costs no more; any other ends the process, because what is left
//! of it may wait for ever for what died. The watchdog then ends the sources. It knows no task.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::pin::pin;
use std::time::Duration;

/// The exit code after a panic, as of any Rust program.
pub const CODE: i32 = 101;
/// How long the end waits for somebody to read what is said last.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How many characters of its reason are told. A pipe that has room takes a whole page without waiting.
const REASON_MAX: usize = 800;

thread_local! {
    /// What runs on this thread now is somebody's to make good.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Marks what runs while it lives.
struct Mark(bool);

impl Mark {
    fn set() -> Self {
        Self(CONTAINED.replace(true))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        CONTAINED.set(self.0);
    }
}

/// Runs a task whose panic is caught, and made good, by whoever awaits or joins it.
pub async fn contained<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(move |context| {
        let _mark = Mark::set();
        task.as_mut().poll(context)
    })
    .await
}

/// The same for work on the thread it is called on.
pub fn contained_now<T>(work: impl FnOnce() -> T) -> T {
    let _mark = Mark::set();
    work()
}

/// Work on a thread of its own; a panic of it is `None`, and whoever awaits it makes that good.
pub async fn contained_apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(|| contained_now(work)).await.ok()
}

/// Work on a thread of its own, a panic of which is as one here.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let is_contained = CONTAINED.get();
    match tokio::task::spawn_blocking(move || if is_contained { contained_now(work) } else { work() }).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// From now on every panic is told in one line, and ends the process unless it is contained.
pub fn watch() {
    std::panic::set_hook(Box::new(|panic| {
        let ends = !CONTAINED.get();
        tell(&text(panic, ends));
        if ends {
            // Nothing is drained: which of the parts still work is not known. Sources end with the process.
            std::process::exit(CODE);
        }
    }));
}

fn text(panic: &PanicHookInfo<'_>, ends: bool) -> String {
    let what = panic.payload();
    let what = what.downcast_ref::<&str>().copied().or_else(|| what.downcast_ref::<String>().map(String::as_str));
    let what: String = what.unwrap_or("no reason is known").chars().take(REASON_MAX).collect();
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    let then = if ends { "toolrelay and its sources end" } else { "toolrelay goes on" };
    let what = what.replace('\n', " ");
    format!("error: a defect of toolrelay{place}: {what}; {then}\nhint: please report it with the lines before it\n")
}

/// Writes to stderr, but does not wait for a reader that is not there.
fn tell(text: &str) {
    if is_read_soon() {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

#[cfg(unix)]
fn is_read_soon() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let errors = std::io::stderr();
    let limit = Timespec { tv_sec: 0, tv_nsec: LAST_WORDS.subsec_nanos().into() };
    poll(&mut [PollFd::new(&errors, PollFlags::OUT)], Some(&limit)).is_ok_and(|ready| ready > 0)
}

#[cfg(not(unix))]
fn is_read_soon() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_within_is_contained() {
        let is_contained = || CONTAINED.get();
        let seen = contained_now(|| (is_contained(), contained_now(is_contained), is_contained()));
        assert_eq!((seen, is_contained()), ((true, true, true), false));
        let caught = std::panic::catch_unwind(|| contained_now(|| std::panic::resume_unwind(Box::new(1))));
        assert!(caught.is_err() && !is_contained());
        let (mut waited, runtime) = (false, tokio::runtime::Builder::new_current_thread().build().unwrap());
        let task = contained(poll_fn(|context| {
            assert!(is_contained());
            context.waker().wake_by_ref();
            if std::mem::replace(&mut waited, true) { std::task::Poll::Ready(7) } else { std::task::Poll::Pending }
        }));
        assert_eq!((runtime.block_on(task), is_contained()), (7, false));
        let apart = async move {
            let lost: Option<()> = contained_apart(|| std::panic::resume_unwind(Box::new(1))).await;
            (contained_apart(is_contained).await, lost, apart(is_contained).await, contained(apart(is_contained)).await)
        };
        assert_eq!(runtime.block_on(apart), (Some(true), None, false, true));
    }
}
