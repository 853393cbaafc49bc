//! Owns the end of one source while the relay goes on: whether it is wanted, why, what its callers are told, and whether
//! it is over. It ends nothing itself: the source's actor does.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::call::{CallError, ErrorKind};

/// Why a source is ended while the relay goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Farewell {
    /// Its entry says something else now; another source takes its place.
    Changed,
    Removed,
    Disabled,
    /// Its entry has a fault now.
    Misconfigured(String),
}

impl Farewell {
    fn error(&self, source: &str) -> CallError {
        let text = |what: &str| format!("source `{source}` {what} sources.toml");
        let (kind, message, hint) = match self {
            Self::Changed => (
                ErrorKind::Cancelled,
                format!("{} while this call was under way; it is started anew", text("was changed in")),
                "call again: it takes the new settings",
            ),
            Self::Removed => {
                (ErrorKind::Unavailable, text("was removed from"), "see `list_sources` for the sources there are")
            }
            Self::Disabled => (
                ErrorKind::Unavailable,
                text("was disabled in"),
                "set `enabled = true` for it in sources.toml to use it",
            ),
            Self::Misconfigured(reason) => (
                ErrorKind::Unavailable,
                format!("{}: {reason}", text("was ended, for its entry is faulty now in")),
                "correct its entry in sources.toml, `toolrelay check` shows every fault",
            ),
        };
        CallError::new(kind, message, hint).at(source, None)
    }
}

/// The end of one source, as its actor and its handles share it. Cheap to clone.
#[derive(Clone, Default)]
pub struct Ending {
    wanted: CancellationToken,
    why: Arc<OnceLock<Farewell>>,
    over: CancellationToken,
}

impl Ending {
    /// Asks for the end.
    pub fn want(&self, why: Farewell) {
        let _ = self.why.set(why);
        self.wanted.cancel();
    }

    /// Waits until the end is asked for.
    pub async fn wanted(&self) {
        self.wanted.cancelled().await;
    }

    pub fn is_wanted(&self) -> bool {
        self.wanted.is_cancelled()
    }

    /// What callers are told; `None` while the source stays.
    pub fn error(&self, source: &str) -> Option<CallError> {
        self.why.get().map(|why| why.error(source))
    }

    /// Cancelled once the source's processes are gone.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Held until then.
    pub fn guard(&self) -> DropGuard {
        self.over.clone().drop_guard()
    }
}
