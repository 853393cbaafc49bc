//! Owns `sources.lock` on disk: reading it, once for a running relay, and writing it as a whole. It does not know its form, nor
//! what is to be accepted.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::catalog::drift;
use crate::catalog::lock::{Lock, LockFault, Pinned};
use crate::config::{Pin, RelayConfig};
use crate::name::SourceId;

/// How many links on the way to the file are followed.
const LINKS_MAX: usize = 16;

/// Why there is no lock to go by.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("there is no {}", file_name(.0))]
    Missing(PathBuf),
    #[error("{} cannot be read: {error}", file_name(.file))]
    Unreadable { file: PathBuf, error: io::Error },
    #[error("{} is faulty: {fault}", file_name(.file))]
    Faulty { file: PathBuf, fault: LockFault },
}

impl Unusable {
    /// The cause without the names of tools: not everybody who is told may know of them all.
    fn brief(&self) -> String {
        match self {
            Self::Missing(_) => self.to_string(),
            Self::Unreadable { file, .. } => format!("{} cannot be read", file_name(file)),
            Self::Faulty { file, fault } => format!("{} is faulty in line {}", file_name(file), fault.line),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing(_) => "`toolrelay lock` makes it, and accepts the tools as they are now",
            Self::Unreadable { .. } => "make it a file that this user may read",
            Self::Faulty { .. } => "take it from version control, or delete it and run `toolrelay lock`",
        }
    }
}

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// Reads a lock file.
pub fn read(file: &Path) -> Result<Lock, Unusable> {
    // A pipe would be waited for, perhaps for ever.
    let is_other = std::fs::metadata(file).is_ok_and(|about| !about.is_file());
    let text = if is_other { Err(io::Error::other("it is not a regular file")) } else { std::fs::read_to_string(file) };
    let text = text.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unusable::Missing(file.to_owned()),
        _ => Unusable::Unreadable { file: file.to_owned(), error },
    })?;
    Lock::read(&text).map_err(|fault| Unusable::Faulty { file: file.to_owned(), fault })
}

/// Writes the file as a whole: whoever reads it finds the old one or the new one. Links are followed, and the mode is kept.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    let file = target(file)?;
    let draft = file.with_file_name(format!(".{}.{}", file_name(&file), std::process::id()));
    let written = fill(&draft, &file, text).and_then(|()| std::fs::rename(&draft, &file));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

fn fill(draft: &Path, file: &Path, text: &str) -> io::Result<()> {
    let mut open = match OpenOptions::new().write(true).create_new(true).open(draft) {
        // Left by a process of this id that was killed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::create(draft)?,
        open => open?,
    };
    open.write_all(text.as_bytes())?;
    match std::fs::metadata(file) {
        Ok(about) => open.set_permissions(about.permissions())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    open.sync_all()
}

/// Where links lead; what they lead to need not be there.
fn target(file: &Path) -> io::Result<PathBuf> {
    let mut at = file.to_owned();
    for _ in 0..LINKS_MAX {
        match std::fs::read_link(&at) {
            Ok(next) => at = at.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(at),
        }
    }
    Err(io::Error::other("links lead to it in a circle"))
}

/// What a running relay holds tools against: the file as it was when it was first needed.
#[derive(Debug)]
pub struct Pins {
    pin: Pin,
    file: PathBuf,
    found: OnceLock<Result<BTreeMap<SourceId, Pinned>, Closed>>,
}

/// Why there is nothing to go by, in words.
#[derive(Debug)]
struct Closed {
    is_missing: bool,
    why: String,
    /// The same for whoever is refused a call.
    brief: String,
}

impl Pins {
    pub fn new(relay: &RelayConfig) -> Self {
        Self { pin: relay.pin, file: relay.lock.clone(), found: OnceLock::new() }
    }

    /// Whether there is anything to be read, or missed.
    pub fn are_wanted(&self) -> bool {
        match self.pin {
            Pin::Off => false,
            Pin::Warn => self.file.exists(),
            Pin::Enforce => true,
        }
    }

    /// Reads the file unless that has been done, and tells on stderr what is wrong with it.
    pub fn look(&self) {
        if self.pin != Pin::Off {
            self.found.get_or_init(|| self.find());
        }
    }

    fn find(&self) -> Result<BTreeMap<SourceId, Pinned>, Closed> {
        let error = match read(&self.file) {
            Ok(lock) => return Ok(lock.hashes()),
            Err(error) => error,
        };
        let (file, hint, is_missing) = (self.file.display(), error.hint(), matches!(error, Unusable::Missing(_)));
        match self.pin {
            Pin::Enforce => tracing::warn!(%file, %error, hint, "no tool can be called: `pin` is `enforce`"),
            Pin::Warn if is_missing => {}
            _ => tracing::warn!(%file, %error, hint, "tools are not compared with the lock"),
        }
        Err(Closed { is_missing, why: format!("{error}; {hint}"), brief: format!("{}; {hint}", error.brief()) })
    }

    /// What the tools of a source are held against. Reads the file if need be.
    pub fn of(&self, source: &SourceId) -> drift::Pins<'_> {
        self.look();
        match (self.pin, self.found.get()) {
            (Pin::Off, _) | (_, None) | (Pin::Warn, Some(Err(_))) => drift::Pins::Free,
            (Pin::Enforce, Some(Err(closed))) => drift::Pins::Closed(&closed.brief),
            (pin, Some(Ok(found))) => drift::Pins::Locked { pinned: found.get(source), enforce: pin == Pin::Enforce },
        }
    }

    /// That the lock cannot be used, if that is known and matters.
    pub fn notice(&self) -> Option<Arc<str>> {
        let Some(Err(closed)) = self.found.get() else { return None };
        match self.pin {
            Pin::Enforce => Some(format!("no tool can be called: {}", closed.why).into()),
            Pin::Warn if !closed.is_missing => {
                Some(format!("tools are not compared with the lock: {}", closed.why).into())
            }
            Pin::Warn | Pin::Off => None,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("sources.lock");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&pipe).unwrap_err().to_string(), "sources.lock cannot be read: it is not a regular file");
    }

    #[test]
    fn links_are_followed_and_the_mode_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::create_dir(path("other")).unwrap();
        symlink("other/real", path("link")).unwrap();
        write(&path("link"), "1").unwrap();
        std::fs::set_permissions(path("other/real"), PermissionsExt::from_mode(0o640)).unwrap();
        write(&path("link"), "22").unwrap();
        assert!(path("link").is_symlink());
        assert_eq!(std::fs::read_to_string(path("other/real")).unwrap(), "22");
        assert_eq!(std::fs::metadata(path("other/real")).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(path("other")).unwrap().count(), 1);
        symlink("round", path("round")).unwrap();
        assert!(write(&path("round"), "").is_err());
        assert!(write(&path("nowhere/f"), "").is_err());
    }
}
