//! Owns the way from `sources.lock`, as it is written while the relay serves, to the control plane. It does not read the file.

use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;

use tokio::sync::mpsc;

use super::setup::Hangups;
use super::watch::{Cause, Eye, Look, Wake, look};
use crate::control::Control;

/// Changes that may wait: the last one stands for all.
const CHANGES: usize = 1;

/// A lock file, and what it looked like before it was read first.
#[derive(Clone)]
pub struct Seen {
    file: PathBuf,
    look: Look,
}

impl Seen {
    /// Looks at the lock of a configuration file.
    pub fn beside(config: &Path) -> Self {
        let file = config.with_extension("lock");
        let file = std::path::absolute(&file).unwrap_or(file);
        Self { look: look(&file), file }
    }
}

/// Has the tools held against the file each time it was changed and at each hangup, until the relay ends.
pub async fn follow(seen: Seen, control: Control) {
    let mut hangups = Hangups::default();
    let (wake, wakes) = blocking::channel();
    let (give, mut causes) = mpsc::channel(CHANGES);
    let watching = {
        let wake = wake.clone();
        let watch = move || {
            let mut eye = Eye::new(seen.file, seen.look, wakes, wake);
            while eye.next().is_some_and(|cause| give.blocking_send(cause).is_ok()) {}
        };
        std::thread::Builder::new().name("lock".to_owned()).spawn(watch)
    };
    if let Err(error) = watching {
        return tracing::warn!(%error, "sources.lock is not watched: no thread could be started");
    }
    loop {
        tokio::select! {
            () = hangups.next() => {
                let _ = wake.send(Wake::Forced);
            }
            cause = causes.recv() => {
                let Some(cause) = cause else { return };
                if !control.relock().await {
                    return;
                }
                if cause == Cause::Changed {
                    tracing::info!("sources.lock was changed, tools are held against it as it is now");
                }
            }
        }
    }
}
