//! Owns how many files the relay may have open at once: as many as the system lets it, though few programs that it starts can
//! do with that. It opens none.

#[cfg(target_os = "linux")]
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// As many as are ever needed: a source takes four, a client over HTTP one.
#[cfg(target_os = "linux")]
const WANTED: u64 = 65_536;

/// What the process was given, if that has been changed. There is one limit for the whole process, so this is one as well.
#[cfg(target_os = "linux")]
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit that may be raised, before anything else is done.
#[cfg(target_os = "linux")]
pub fn raise() {
    let given = getrlimit(Resource::Nofile);
    let wanted = given.maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    let raised = Rlimit { current: Some(wanted), maximum: given.maximum };
    if given.current.is_some_and(|current| current < wanted) && setrlimit(Resource::Nofile, raised).is_ok() {
        let _ = GIVEN.set(given);
    }
}

/// Gives a process that is about to become another program what the relay was given: one that uses `select` breaks with more
/// than 1024 files. Allocates nothing and takes no lock.
#[cfg(target_os = "linux")]
pub fn put_back() -> std::io::Result<()> {
    match GIVEN.get() {
        Some(given) => Ok(setrlimit(Resource::Nofile, *given)?),
        None => Ok(()),
    }
}

/// The same for a program that runs already; it will hardly have looked yet.
#[cfg(target_os = "linux")]
pub fn put_back_in(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let (Some(pid), Some(given)) = (pid, GIVEN.get()) {
        // It may have ended.
        let _ = prlimit(Some(pid), Resource::Nofile, *given);
    }
}

#[cfg(not(target_os = "linux"))]
pub fn raise() {}

#[cfg(not(target_os = "linux"))]
pub fn put_back_in(_: u32) {}
