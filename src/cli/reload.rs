//! Owns the way from `sources.toml`, as it is edited while the relay serves, to the control plane; and what is said of it
//! on stderr. It decides nothing about sources.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;

use tokio::sync::mpsc;

use super::setup::{self, Hangups};
use super::watch::{Cause, Eye, Look, Wake, look};
use super::{Common, Failure, relock};
use crate::config::{Config, Exposure, Prefixes, SourceEntry};
use crate::control::{Control, Reloaded, starts_alike};
use crate::name::SourceId;

/// Readings that may wait: a new one is not made before the last is in force.
const READINGS: usize = 1;

/// What a file that was changed comes to.
type Reading = Result<Config, Failure>;

/// Reads one configuration file, again and again.
pub struct Loader {
    file: PathBuf,
    /// What the command line says instead of the file.
    exposure: Option<Exposure>,
    /// What the file looked like before it was read first.
    look: Look,
    lock: relock::Seen,
    /// Who had which prefix when it was read last.
    held: Prefixes,
    /// The sources of then.
    sources: Vec<SourceEntry>,
}

impl Loader {
    /// Finds the file.
    pub fn new(common: &Common, exposure: Option<Exposure>) -> Result<Self, Failure> {
        let found = setup::find_config(common)?;
        // Once: the current directory stays the same one when its place in the tree is taken by another.
        let file = std::path::absolute(&found).unwrap_or(found);
        let look = look(&file);
        let lock = relock::Seen::beside(&file);
        Ok(Self { file, exposure, look, lock, held: Prefixes::new(), sources: Vec::new() })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The configuration, as the file says it now.
    pub fn read(&self) -> Reading {
        Ok(self.adjusted(setup::check_file(&self.file, &self.held)?.map_err(|error| setup::unreadable(&error))?))
    }

    /// Takes note of what is put in force.
    pub fn gave(&mut self, config: &Config) {
        self.held = config.prefixes();
        self.sources.clone_from(&config.sources);
    }

    /// That what `${file:...}` comes to is as it was, where its process stays: an edit touches no other source.
    fn keep_files(&self, config: &mut Config) {
        for entry in &mut config.sources {
            let before = self.sources.iter().find(|before| before.id() == entry.id());
            if let (SourceEntry::Usable(now), Some(SourceEntry::Usable(before))) = (entry, before)
                && starts_alike(before, now)
            {
                now.files.clone_from(&before.files);
            }
        }
    }

    /// The same of a file that was changed. One that is empty or gone is about to be written.
    fn read_again(&self) -> Reading {
        let failure = |what: String, hint: &str| {
            let error = format!("{} {what}", self.file.display());
            Err(Failure::Config { error, hint: hint.to_owned() })
        };
        // A pipe would be waited for, perhaps for ever.
        if std::fs::metadata(&self.file).is_ok_and(|about| !about.is_file()) {
            return failure("is not a regular file".to_owned(), "put a file there; it is read as soon as it is there");
        }
        match std::fs::read_to_string(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                failure(format!("cannot be read: {error}"), "let this user read it; it is read as soon as that is so")
            }
            Err(error) => failure(format!("cannot be read: {error}"), "put it back; it is read as soon as it is there"),
            Ok(text) if text.trim_start_matches('\u{feff}').trim().is_empty() => {
                failure("is empty".to_owned(), "write it again; a file that is to have no source has a comment in it")
            }
            Ok(_) => self.read(),
        }
    }

    fn adjusted(&self, mut config: Config) -> Config {
        config.relay.exposure = self.exposure.unwrap_or(config.relay.exposure);
        config
    }
}

/// Puts in force what the file says, each time it was changed and at each hangup, until the relay ends.
pub async fn follow(loader: Loader, control: Control, mut hangups: Hangups) {
    let (wake, wakes) = blocking::channel();
    let (give, mut readings) = mpsc::channel(READINGS);
    let file = loader.file.clone();
    tokio::spawn(relock::follow(loader.lock.clone(), control.clone()));
    // A file may lie where looking at it takes long, so none of this is done beside the messages.
    let watching = {
        let wake = wake.clone();
        std::thread::Builder::new().name("config".to_owned()).spawn(move || watch(loader, wakes, wake, &give))
    };
    if let Err(error) = watching {
        return tracing::warn!(%error, "configuration is not watched: no thread could be started");
    }
    loop {
        let reading = tokio::select! {
            () = hangups.next() => {
                tracing::info!("hangup received, reading the configuration");
                let _ = wake.send(Wake::Forced);
                continue;
            }
            reading = readings.recv() => reading,
        };
        let Some((cause, reading)) = reading else { return };
        match reading {
            Ok(config) => {
                let (faults, warnings) = (config.faults.clone(), config.warnings.clone());
                let Some(reloaded) = control.reload(config).await else { return };
                tell(&file, cause, &reloaded);
                if reloaded.new_faults {
                    setup::log_faults(&file, &faults, &warnings);
                }
            }
            Err(Failure::Config { error, hint }) => {
                tracing::warn!(error, hint, "configuration cannot be used, the running one is kept");
                control.keep(&format!("sources.toml was changed and cannot be used: {error} ({hint})")).await;
            }
            Err(error) => tracing::warn!(%error, "configuration cannot be used, the running one is kept"),
        }
    }
}

/// Reads the file each time it has come to rest. A failure is told once, until something else is found.
fn watch(
    mut loader: Loader,
    wakes: blocking::Receiver<Wake>,
    wake: blocking::Sender<Wake>,
    give: &mpsc::Sender<(Cause, Reading)>,
) {
    let mut eye = Eye::new(loader.file.clone(), loader.look, wakes, wake);
    let mut told = None;
    while let Some(cause) = eye.next() {
        let mut reading = loader.read_again();
        if cause == Cause::Changed && !eye.still_rests() {
            // It was written again meanwhile, and is read when that is over.
            continue;
        }
        let failure = reading.as_ref().err().map(ToString::to_string);
        let is_news = cause == Cause::Forced || failure.is_none() || failure != told;
        told = failure;
        if let Ok(config) = &mut reading {
            if cause == Cause::Changed {
                loader.keep_files(config);
            }
            loader.gave(config);
        }
        if is_news && give.blocking_send((cause, reading)).is_err() {
            return;
        }
    }
}

fn tell(file: &Path, cause: Cause, reloaded: &Reloaded) {
    for key in &reloaded.restart {
        let hint = "start the relay again to use it; what it was at the start holds until then";
        tracing::warn!(file = %file.display(), key, hint, "this takes effect only at the start of the relay");
    }
    if reloaded.differs {
        let ids = |ids: &[SourceId]| ids.iter().map(SourceId::as_str).collect::<Vec<_>>().join(" ");
        tracing::info!(
            added = ids(&reloaded.added),
            removed = ids(&reloaded.removed),
            restarted = ids(&reloaded.changed),
            settings = ids(&reloaded.retuned),
            "configuration reloaded"
        );
    } else if cause == Cause::Forced {
        tracing::info!("configuration is unchanged");
    } else {
        tracing::debug!("configuration is unchanged");
    }
}
