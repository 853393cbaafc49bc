//! Owns the line on stderr that tells what a command is waiting for. It is there only on a terminal, only while something
//! takes longer than a moment, and gone at the end.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes no longer is not worth a word.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);
const TEMPLATE: &str = "{spinner} {wide_msg} {elapsed}";

/// What is being waited for. Cheap to clone.
#[derive(Clone)]
pub struct Progress {
    bars: MultiProgress,
    note: Arc<Mutex<String>>,
}

impl Progress {
    /// `quiet`: nothing is ever shown.
    pub fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        Self { bars: MultiProgress::with_draw_target(target), note: Arc::default() }
    }

    /// Says what is being waited for from now on.
    pub fn say(&self, note: String) {
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }

    /// Waits for `work`, and tells about it if that takes long.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        tokio::pin!(work);
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
            return done;
        }
        let style = ProgressStyle::with_template(TEMPLATE).expect("BUG: the template is right");
        let bar = self.bars.add(ProgressBar::new_spinner().with_style(style).with_elapsed(began.elapsed()));
        // A bar that is dropped is taken away.
        loop {
            let note = self.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if note == bar.message() {
                bar.tick()
            } else {
                bar.set_message(note)
            }
            tokio::select! {
                biased;
                done = &mut work => {
                    bar.finish_and_clear();
                    return done;
                }
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// A way to stderr that does not write into the line.
    pub fn beside(&self) -> Beside {
        Beside(self.bars.clone())
    }
}

/// Writes to stderr above the line.
pub struct Beside(MultiProgress);

impl Write for Beside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
