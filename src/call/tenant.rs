//! Owns whose instance of a source a call goes to, where each session has one of its own.
//! It knows no instance.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Who has instances of its own. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Tenant {
    /// One session, until it is over.
    Session(Arc<Visit>),
    /// All requests of a principal whose clients have no sessions, by its number.
    Principal(u64),
}

/// What instances of sources have to know of the session that has them.
#[derive(Debug, Default)]
pub struct Visit {
    over: CancellationToken,
    /// What its client can be asked, as the text of its `ClientCapabilities`.
    capabilities: Mutex<Option<Box<str>>>,
}

/// The name of a [`Tenant`], good for as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    /// What all clients share.
    Everybody,
    Session(usize),
    Principal(u64),
}

impl Tenant {
    /// A session that begins.
    pub fn session() -> Self {
        Self::Session(Arc::default())
    }

    pub fn whose(&self) -> Whose {
        match self {
            Self::Session(visit) => Whose::Session(Arc::as_ptr(visit) as usize),
            Self::Principal(number) => Whose::Principal(*number),
        }
    }

    /// The session is over, and with it all that it has of its own.
    pub fn end(&self) {
        if let Self::Session(visit) = self {
            visit.over.cancel();
        }
    }

    /// What the session's only client has declared, if it has.
    pub fn declares(&self, capabilities: Option<&str>) {
        if let Self::Session(visit) = self {
            *visit.capabilities.lock().unwrap_or_else(PoisonError::into_inner) = capabilities.map(Box::from);
        }
    }

    /// What its only client has declared; `None` where it has said nothing, or there are several.
    pub fn capabilities(&self) -> Option<Box<str>> {
        match self {
            Self::Session(visit) => visit.capabilities.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Self::Principal(_) => None,
        }
    }

    /// Cancelled once the session is over; `None` for what has no end.
    pub fn over(&self) -> Option<&CancellationToken> {
        match self {
            Self::Session(visit) => Some(&visit.over),
            Self::Principal(_) => None,
        }
    }

    pub fn is_over(&self) -> bool {
        self.over().is_some_and(CancellationToken::is_cancelled)
    }
}
