//! Owns the search for processes that left their source's group (daemons): they are known by a variable which every
//! process inherits from the one that started it. It does not start or know sources.
//!
//! One that cleared its environment, or runs as another user, cannot be found. Only Linux shows the environment of another
//! process; elsewhere nothing is found.

use std::time::{Duration, Instant};

/// The variable. A program that is meant to live on starts without it.
pub const VARIABLE: &str = "TOOLRELAY_LAUNCH";
/// How often it is looked whether they have ended.
#[cfg(target_os = "linux")]
const PACE: Duration = Duration::from_millis(20);
/// How long those that are killed may take to be gone.
#[cfg(target_os = "linux")]
const KILLED: Duration = Duration::from_millis(500);

/// What marks the processes of one run of the relay, and of one launch in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// One that no other run has.
    pub fn new() -> Self {
        Self(crate::name::unguessable())
    }

    /// As it was told by [`Mark::value`].
    pub fn told(value: &str) -> Self {
        Self(value.to_owned())
    }

    /// That of one launch; the run's own covers it.
    #[must_use]
    pub fn launch(&self, number: u64) -> Self {
        Self(format!("{}-{number}", self.0))
    }

    /// What stands in the variable.
    pub fn value(&self) -> &str {
        &self.0
    }

    /// Whether a process whose variable has this value is covered.
    #[cfg(any(target_os = "linux", test))]
    fn covers(&self, value: &[u8]) -> bool {
        let rest = value.strip_prefix(self.0.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"))
    }
}

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

/// Ends every process with one of these marks: asks it to terminate, and kills it after `grace`. Blocks until they are gone.
#[cfg(target_os = "linux")]
pub fn end(marks: &[Mark], grace: Duration) {
    use rustix::process::Signal;
    let start = Instant::now();
    let mut asked = std::collections::BTreeSet::new();
    while start.elapsed() < grace + KILLED {
        let found = find(marks);
        if found.is_empty() {
            return;
        }
        for stray in &found {
            if start.elapsed() >= grace {
                stray.signal(Signal::KILL);
            } else if asked.insert(stray.pid) {
                stray.signal(Signal::TERM);
            }
        }
        std::thread::sleep(PACE);
    }
}

#[cfg(not(target_os = "linux"))]
pub fn end(_: &[Mark], _: Duration) {}

/// A marked process, held so that its number cannot become another's.
#[cfg(target_os = "linux")]
struct Stray {
    pid: i32,
    held: rustix::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Stray {
    fn signal(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.held, signal);
    }
}

/// The marked processes that have not ended; an ended one has no environment any more.
#[cfg(target_os = "linux")]
fn find(marks: &[Mark]) -> Vec<Stray> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| is_marked(*pid, marks))
        .filter_map(|pid| {
            let held = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
            // Looked at again now that it is held.
            is_marked(pid, marks).then_some(Stray { pid, held })
        })
        .collect()
}

#[cfg(target_os = "linux")]
fn is_marked(pid: i32, marks: &[Mark]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| {
        let value = variable.strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.is_some_and(|value| marks.iter().any(|mark| mark.covers(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_covers_its_launches_and_no_other() {
        let run = Mark::told("00ff");
        let launch = run.launch(1);
        let covered = |mark: &Mark, values: [&str; 5]| values.map(|value| mark.covers(value.as_bytes()));
        assert_eq!(covered(&run, ["00ff", "00ff-1", "00ff-12", "00ff1", ""]), [true, true, true, false, false]);
        assert_eq!(covered(&launch, ["00ff", "00ff-1", "00ff-12", "00ff-1-2", "x"]), [false, true, false, true, false]);
    }
}
