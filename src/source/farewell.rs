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
    /// The session that this instance of it belonged to is over.
    SessionOver,
}

impl Farewell {
    fn error(&self, source: &str) -> CallError {
        let text = |what: &str| format!("source `{source}` {what} sources.toml");
        let (kind, message, hint) = match self {
            Self::SessionOver => (
                ErrorKind::Cancelled,
                format!("source `{source}` was ended with the session that it ran for"),
                "begin another session and call again",
            ),
            Self::Changed => (
                ErrorKind::Cancelled,
                format!("{} while this call was under way; it is started anew", text("was changed in")),
                "call again: it takes the new settings",
            ),
            Self::Removed => {
                (ErrorKind::Unavailable, text("was removed from"), "it is not there any more; use another source")
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
    /// The end of the session that it belongs to, if it belongs to one.
    session: Option<CancellationToken>,
}

impl Ending {
    /// Asks for the end.
    pub fn want(&self, why: Farewell) {
        let _ = self.why.set(why);
        self.wanted.cancel();
    }

    /// The end of an instance, which may come before that of the source.
    pub fn of_session(&self, session: Option<CancellationToken>) -> Self {
        Self { session, ..self.clone() }
    }

    /// Waits until the end is asked for.
    pub async fn wanted(&self) {
        match &self.session {
            None => self.wanted.cancelled().await,
            Some(session) => tokio::select! {
                () = self.wanted.cancelled() => {}
                () = session.cancelled() => {}
            },
        }
    }

    pub fn is_wanted(&self) -> bool {
        self.wanted.is_cancelled()
    }

    /// What callers are told; `None` while the source stays.
    pub fn error(&self, source: &str) -> Option<CallError> {
        let of_session = self.session.as_ref().filter(|session| session.is_cancelled());
        self.why.get().or(of_session.map(|_| &Farewell::SessionOver)).map(|why| why.error(source))
    }

    /// What those are told who still wait when it ends, be it with the relay.
    pub fn last_words(&self, source: &str) -> CallError {
        self.error(source).unwrap_or_else(|| {
            let text = format!("source `{source}` is being stopped with the relay");
            CallError::new(ErrorKind::Cancelled, text, "call again once the relay is up")
        })
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
