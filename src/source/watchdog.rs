//! Owns the second process that ends the sources when the relay is killed and can do so itself no more.
//! It is started with the first source, and does nothing as long as the relay lives.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::strays::{self, Mark};

/// The hidden command under which the relay's own program is the watchdog.
pub const COMMAND: &str = "watch-sources";
/// How long process groups have to end when they are asked to, before they are killed.
const TERMINATED: Duration = Duration::from_millis(500);
/// What left the groups has what is left of this at the end of the relay, which clients do not wait for any longer.
const END: Duration = Duration::from_millis(1600);
/// But at least this.
const TERMINATED_LEAST: Duration = Duration::from_millis(150);
/// How often it is looked whether they have.
#[cfg(unix)]
const PACE: Duration = Duration::from_millis(20);

/// The way to the watchdog. Cheap to clone.
#[derive(Clone, Default)]
pub struct Watchdog(Arc<Watched>);

#[derive(Default)]
struct Watched {
    state: Mutex<State>,
    /// What all processes of this run are known by.
    mark: Mark,
    launches: AtomicU64,
    ending: AtomicBool,
}

#[derive(Default)]
enum State {
    #[default]
    Unborn,
    Watching(Child),
    /// It could not be started; the relay does without.
    Missing,
}

impl Watchdog {
    /// What the processes of the next launch are known by.
    pub fn next_mark(&self) -> Mark {
        self.0.mark.launch(self.0.launches.fetch_add(1, Ordering::Relaxed))
    }

    /// From now on this process group ends with the relay, however that ends.
    pub fn watch(&self, group: u32) {
        self.tell(&format!("+{group}\n"), true);
    }

    /// This process group is gone.
    pub fn forget(&self, group: u32) {
        self.tell(&format!("-{group}\n"), false);
    }

    fn tell(&self, line: &str, start: bool) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if start && matches!(*state, State::Unborn) {
            *state = launch(&self.0.mark).map_or_else(
                |error| {
                    tracing::warn!(%error, "watchdog cannot be started: sources may outlive a relay that is killed");
                    State::Missing
                },
                State::Watching,
            );
        }
        if let State::Watching(child) = &mut *state
            && let Some(pipe) = &mut child.stdin
            && let Err(error) = pipe.write_all(line.as_bytes())
        {
            tracing::warn!(%error, "watchdog is gone: sources may outlive a relay that is killed");
            *state = State::Missing;
        }
    }

    /// The relay ends, and [`Watchdog::end`] will be called.
    pub fn begin_end(&self) {
        self.0.ending.store(true, Ordering::Relaxed);
    }

    pub fn is_ending(&self) -> bool {
        self.0.ending.load(Ordering::Relaxed)
    }

    /// Ends the watchdog, when no source is left, and before it what left the sources' groups; the end of the relay has
    /// taken `spent` so far. Blocks until they are gone.
    pub fn end(&self, spent: Duration) {
        let grace = END.saturating_sub(spent).clamp(TERMINATED_LEAST, TERMINATED);
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Missing) {
            State::Unborn => {}
            State::Watching(mut child) => {
                if let Some(mut pipe) = child.stdin.take() {
                    // Nobody to tell is nobody to wait for.
                    let _ = writeln!(pipe, "~{}", grace.as_millis());
                }
                let _ = child.wait();
            }
            State::Missing => strays::end(&self.0.mark, grace),
        }
    }
}

#[cfg(unix)]
fn launch(mark: &Mark) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt;
    // On Linux this is the running program even if its file has been replaced since.
    let own = std::path::Path::new("/proc/self/exe");
    let program = if own.exists() { own.to_owned() } else { std::env::current_exe()? };
    let mut command = Command::new(program);
    // A group of its own: what a terminal sends to the relay's group is not for it.
    command.arg(COMMAND).env_clear().current_dir("/").process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    if let Some(pipe) = &mut child.stdin {
        writeln!(pipe, "={}", mark.value())?;
    }
    Ok(child)
}

#[cfg(not(unix))]
fn launch(_: &Mark) -> std::io::Result<Child> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "there are no process groups here"))
}

/// The watchdog's whole life: takes note of process groups until its input ends, which is when the relay has ended; ends
/// those that are left then, and what left them.
pub fn run(input: impl BufRead) {
    let mut groups = BTreeSet::new();
    let (mut mark, mut grace) = (None, TERMINATED);
    for line in input.lines().map_while(Result::ok) {
        let told = line.get(1..).unwrap_or_default();
        match (line.as_bytes().first(), told.parse::<i32>().ok()) {
            (Some(b'~'), Some(millis)) => grace = Duration::from_millis(millis.unsigned_abs().into()),
            (Some(b'='), _) => mark = Some(Mark::told(told)),
            (Some(b'+'), Some(group)) => drop(groups.insert(group)),
            (Some(b'-'), Some(group)) => drop(groups.remove(&group)),
            _ => {}
        }
    }
    end_all(&groups, mark.as_ref(), grace);
}

#[cfg(unix)]
fn end_all(groups: &BTreeSet<i32>, mark: Option<&Mark>, grace: Duration) {
    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
    let start = Instant::now();
    let left = || groups.iter().filter_map(|group| Pid::from_raw(*group));
    let send = |signal| left().filter(|group| kill_process_group(*group, signal).is_ok()).count();
    let asked = send(Signal::TERM);
    // Members of the groups are marked as well, so this waits for most of them.
    if let Some(mark) = mark {
        strays::end(mark, grace);
    }
    if asked > 0 {
        while start.elapsed() < grace && left().any(|group| test_kill_process_group(group).is_ok()) {
            std::thread::sleep(PACE);
        }
        send(Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_all(_: &BTreeSet<i32>, _: Option<&Mark>, _: Duration) {}
