//! Owns the eye on one file: says when it has come to rest after a change, however it was changed (written in place,
//! replaced by another, deleted and made again, reached through links). It does not read the file.
//!
//! The system's events only wake it; what counts is what the file looks like. Where there are no events (too many watches,
//! network folders, a folder that is replaced as a whole) it looks now and then.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

/// How long a file must look the same before it counts as written: editors write in steps, and not all at once.
const REST: Duration = Duration::from_millis(250);
/// How often at most a file is looked at when events come in.
const PACE: Duration = Duration::from_millis(50);
/// How often it is looked at without any event.
const GLANCE: Duration = Duration::from_secs(5);
/// The same where no events can be had.
const GLANCE_UNWATCHED: Duration = Duration::from_secs(1);
/// How many links on the way to a file are followed.
const LINKS_MAX: usize = 16;

/// What wakes the eye.
pub enum Wake {
    /// Something happened near the file.
    Event,
    /// The file is to be taken as changed, whatever it looks like.
    Forced,
}

/// Why the file is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Changed,
    Forced,
}

/// What a file looks like from outside; `None` when it is not there.
pub type Look = Option<Seen>;

/// A file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    identity: (u64, u64),
    /// `None` of what is no regular file: a pipe changes with each reading.
    content: Option<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    modified: SystemTime,
    len: u64,
    changed: (i64, i64),
}

/// What a file looks like now, through links.
pub fn look(file: &Path) -> Look {
    let about = std::fs::metadata(file).ok()?;
    let content = if about.is_file() {
        Some(Content { modified: about.modified().ok()?, len: about.len(), changed: changed(&about) })
    } else {
        None
    };
    Some(Seen { identity: identity(&about), content })
}

/// Another file of the same size and time is another one still.
#[cfg(unix)]
fn identity(about: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (about.dev(), about.ino())
}

/// When anything about it was changed, who may read it included. Nobody can set this back, as tools do with the other time.
#[cfg(unix)]
fn changed(about: &Metadata) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (about.ctime(), about.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> (i64, i64) {
    (0, 0)
}

/// An eye on one file.
pub struct Eye {
    file: PathBuf,
    /// What the file looked like when it was last read.
    read: Look,
    seen: Look,
    since: Instant,
    wakes: Receiver<Wake>,
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
}

impl Eye {
    /// `read` is what the file looked like before it was read first; `wake` is the other end of `wakes`.
    pub fn new(file: PathBuf, read: Look, wakes: Receiver<Wake>, wake: Sender<Wake>) -> Self {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading the file is an event too.
            let is_reading = event.is_ok_and(|event| matches!(event.kind, notify::EventKind::Access(_)));
            if !is_reading {
                let _ = wake.send(Wake::Event);
            }
        });
        let watcher = watcher.inspect_err(|error| blind(&file, error)).ok();
        let mut eye = Self { file, read, seen: read, since: Instant::now(), wakes, watcher, folders: BTreeSet::new() };
        eye.watch();
        eye
    }

    /// An eye that gets no events.
    #[cfg(test)]
    fn without_events(file: PathBuf, wakes: Receiver<Wake>) -> Self {
        let read = look(&file);
        Self { file, read, seen: read, since: Instant::now(), wakes, watcher: None, folders: BTreeSet::new() }
    }

    /// Waits until the file is to be read; `None` when nobody can wake this eye any more.
    pub fn next(&mut self) -> Option<Cause> {
        loop {
            // First: what happened while the watches were laid anew made no event.
            let now = look(&self.file);
            if now != self.seen {
                (self.seen, self.since) = (now, Instant::now());
            }
            if self.seen != self.read && self.since.elapsed() >= REST {
                return Some(self.take(Cause::Changed));
            }
            let is_forced = match self.wakes.recv_timeout(self.patience()) {
                Ok(Wake::Forced) => true,
                Ok(Wake::Event) => {
                    std::thread::sleep(PACE);
                    self.drain()?
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return None,
            };
            if is_forced {
                self.seen = look(&self.file);
                return Some(self.take(Cause::Forced));
            }
        }
    }

    /// The file is going to be read as it looks now.
    fn take(&mut self, cause: Cause) -> Cause {
        self.read = self.seen;
        self.watch();
        cause
    }

    /// Whether the file still looks as it did when it was said to be at rest.
    pub fn still_rests(&self) -> bool {
        look(&self.file) == self.read
    }

    fn patience(&self) -> Duration {
        if self.seen != self.read {
            return REST.saturating_sub(self.since.elapsed()).max(PACE / 10);
        }
        if self.folders.is_empty() { GLANCE_UNWATCHED } else { GLANCE }
    }

    /// Takes all wakes that have come; whether one of them was forced.
    fn drain(&self) -> Option<bool> {
        let mut forced = false;
        loop {
            match self.wakes.try_recv() {
                Ok(wake) => forced |= matches!(wake, Wake::Forced),
                Err(std::sync::mpsc::TryRecvError::Empty) => return Some(forced),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return None,
            }
        }
    }

    /// Watches the folders on the way to the file as they are now.
    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for folder in std::mem::take(&mut self.folders) {
            let _ = watcher.unwatch(&folder);
        }
        let mut failure = None;
        for folder in folders(&self.file) {
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.folders.insert(folder);
                }
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure.filter(|_| self.folders.is_empty()) {
            blind(&self.file, &error);
            self.watcher = None;
        }
    }
}

fn blind(file: &Path, error: &notify::Error) {
    tracing::warn!(
        file = %file.display(), %error, hint = "nothing need be done; `kill -HUP` makes the relay read it at once",
        "configuration cannot be watched, it is looked at every second instead"
    );
}

/// The folders in which something happens when the file changes: its own, those of the links on the way (a folder may be
/// one), and that of the file that they lead to.
fn folders(file: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut at = file.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(folder) = at.parent().map(Path::to_owned) else { break };
        let links = folder.ancestors().filter(|above| above.is_symlink());
        found.extend(links.filter_map(Path::parent).map(Path::to_owned));
        let Ok(target) = std::fs::read_link(&at) else {
            found.insert(folder);
            break;
        };
        at = folder.join(target);
        found.insert(folder);
    }
    let real = std::fs::canonicalize(file).ok();
    found.extend(real.as_deref().and_then(Path::parent).map(Path::to_owned));
    found.retain(|folder| folder.is_dir());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An eye on a thread of its own: what it says comes out here.
    fn causes(mut eye: Eye) -> Receiver<Cause> {
        let (tell, causes) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while let Some(cause) = eye.next() {
                if tell.send(cause).is_err() {
                    return;
                }
            }
        });
        causes
    }

    #[test]
    fn without_events_it_looks_now_and_then() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::write(&file, "1").unwrap();
        let (wake, wakes) = std::sync::mpsc::channel();
        let causes = causes(Eye::without_events(file.clone(), wakes));
        std::fs::write(&file, "22").unwrap();
        assert_eq!(causes.recv_timeout(Duration::from_secs(20)), Ok(Cause::Changed));
        wake.send(Wake::Forced).unwrap();
        assert_eq!(causes.recv_timeout(Duration::from_secs(20)), Ok(Cause::Forced));
        drop(wake);
        assert_eq!(causes.recv_timeout(Duration::from_secs(20)), Err(RecvTimeoutError::Disconnected));
    }

    /// A file that could not be read is as it was, but for whom it is for.
    #[test]
    #[cfg(unix)]
    fn who_may_read_a_file_is_part_of_its_look() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::write(&file, "1").unwrap();
        let (_wake, wakes) = std::sync::mpsc::channel();
        let causes = causes(Eye::without_events(file.clone(), wakes));
        // The clock by which files are dated may be a few milliseconds behind.
        std::thread::sleep(PACE);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(causes.recv_timeout(Duration::from_secs(20)), Ok(Cause::Changed));
    }

    #[test]
    #[cfg(unix)]
    fn every_folder_on_the_way_is_watched() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().canonicalize().unwrap().join(name);
        for folder in ["a", "b", "c"] {
            std::fs::create_dir(path(folder)).unwrap();
        }
        std::fs::write(path("c/real"), "").unwrap();
        std::os::unix::fs::symlink("../b/link", path("a/f")).unwrap();
        std::os::unix::fs::symlink(path("c/real"), path("b/link")).unwrap();
        std::fs::create_dir(path("d")).unwrap();
        std::os::unix::fs::symlink("../a", path("d/current")).unwrap();
        let check = |file: &str, want: &[&str]| {
            let found: BTreeSet<_> = folders(&path(file)).iter().map(|found| found.canonicalize().unwrap()).collect();
            assert_eq!(found, want.iter().map(|folder| path(folder)).collect(), "{file}");
        };
        check("c/real", &["c"]);
        check("a/f", &["a", "b", "c"]);
        check("d/current/f", &["a", "b", "c", "d"]);
    }
}
