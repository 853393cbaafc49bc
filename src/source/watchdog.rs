//! Owns the second process that ends the sources when the relay is killed and can do so itself no more.
//! It is started with the first source, and does nothing as long as the relay lives.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The hidden command under which the relay's own program is the watchdog.
pub const COMMAND: &str = "watch-sources";
/// How long process groups have to end when they are asked to, before they are killed.
const TERMINATED: Duration = Duration::from_millis(500);

/// The way to the watchdog. Cheap to clone.
#[derive(Clone, Default)]
pub struct Watchdog(Arc<Mutex<State>>);

#[derive(Default)]
enum State {
    #[default]
    Unborn,
    Watching(Child),
    /// It could not be started; the relay does without.
    Missing,
}

impl Watchdog {
    /// From now on this process group ends with the relay, however that ends.
    pub fn watch(&self, group: u32) {
        self.tell(&format!("+{group}\n"), true);
    }

    /// This process group is gone.
    pub fn forget(&self, group: u32) {
        self.tell(&format!("-{group}\n"), false);
    }

    fn tell(&self, line: &str, start: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if start && matches!(*state, State::Unborn) {
            *state = launch().map_or_else(
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

    /// Ends the watchdog, when no source is left.
    pub fn end(&self) {
        let state = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Missing);
        if let State::Watching(mut child) = state {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

#[cfg(unix)]
fn launch() -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt;
    // On Linux this is the running program even if its file has been replaced since.
    let own = std::path::Path::new("/proc/self/exe");
    let program = if own.exists() { own.to_owned() } else { std::env::current_exe()? };
    let mut command = Command::new(program);
    // A group of its own: what a terminal sends to the relay's group is not for it.
    command.arg(COMMAND).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

#[cfg(not(unix))]
fn launch() -> std::io::Result<Child> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "there are no process groups here"))
}

/// The watchdog's whole life: takes note of process groups until its input ends, which is when the relay has ended; ends
/// those that are left then.
pub fn run(input: impl BufRead) {
    let mut groups = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        let group = line.get(1..).and_then(|group| group.parse::<i32>().ok());
        match (line.as_bytes().first(), group) {
            (Some(b'+'), Some(group)) => drop(groups.insert(group)),
            (Some(b'-'), Some(group)) => drop(groups.remove(&group)),
            _ => {}
        }
    }
    if !groups.is_empty() {
        end_groups(&groups);
    }
}

#[cfg(unix)]
fn end_groups(groups: &BTreeSet<i32>) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let send = |signal: Signal| {
        let left = groups.iter().filter_map(|group| Pid::from_raw(*group));
        left.filter(|group| kill_process_group(*group, signal).is_ok()).count()
    };
    if send(Signal::TERM) > 0 {
        std::thread::sleep(TERMINATED);
        send(Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_groups(_: &BTreeSet<i32>) {}
