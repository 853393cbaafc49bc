//! Owns whose instance of a source a call goes to, where each session has one of its own.
//! It knows no instance.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// Who has instances of its own. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Tenant {
    /// One session, until its token is cancelled.
    Session(Arc<CancellationToken>),
    /// All requests of a principal whose clients have no sessions, by its number.
    Principal(u64),
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
            Self::Session(over) => Whose::Session(Arc::as_ptr(over) as usize),
            Self::Principal(number) => Whose::Principal(*number),
        }
    }

    /// The session is over, and with it all that it has of its own.
    pub fn end(&self) {
        if let Self::Session(over) = self {
            over.cancel();
        }
    }

    /// Cancelled once the session is over; `None` for what has no end.
    pub fn over(&self) -> Option<&CancellationToken> {
        match self {
            Self::Session(over) => Some(over),
            Self::Principal(_) => None,
        }
    }

    pub fn is_over(&self) -> bool {
        self.over().is_some_and(CancellationToken::is_cancelled)
    }
}
