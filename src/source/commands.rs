//! Owns the oversight of the commands that fill in a source's settings: they end with the source and with the relay, however
//! that ends. It does not run them.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::strays::{self, Mark};
use super::watchdog::Watchdog;
use crate::config::{Oversight, SystemLookup};

/// The commands of one source. What a command has left running when it is done (the agent of a password store) lives on.
struct Commands {
    watchdog: Watchdog,
    ending: CancellationToken,
}

impl Surroundings {
    /// The way to this machine, for the source's settings.
    pub fn lookup(&self) -> SystemLookup {
        let (watchdog, ending) = (self.watchdog.clone(), self.shutdown.clone());
        SystemLookup::overseen(Arc::new(Commands { watchdog, ending }))
    }
}

impl Oversight for Commands {
    fn begins(&self) -> (&'static str, String) {
        // One that the mark of the run does not cover.
        let mark = Mark::new();
        self.watchdog.watch_mark(&mark);
        (strays::VARIABLE, mark.value().to_owned())
    }

    fn runs(&self, group: u32) {
        self.watchdog.watch(group);
    }

    fn is_wanted(&self) -> bool {
        !self.ending.is_cancelled()
    }

    fn is_over(&self, mark: &str, group: Option<u32>, done: bool) {
        let mark = Mark::told(mark);
        if !done {
            strays::end(std::slice::from_ref(&mark), Duration::ZERO);
        }
        self.watchdog.forget_mark(&mark);
        if let Some(group) = group {
            self.watchdog.forget(group);
        }
    }
}
