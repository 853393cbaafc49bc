//! Owns the way to one actor: past it to its live connection, or into its inbox.
//! It does not choose among the instances of a source.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::Ask;
use super::link::Link;
use crate::call::{Call, CallError, End, ErrorKind};

/// The live connection of an actor, for the fast path past it.
pub type Live = Arc<Mutex<Option<Arc<Link>>>>;

/// Cheap to clone.
#[derive(Clone)]
pub struct Door {
    pub live: Live,
    pub inbox: mpsc::Sender<Ask>,
}

impl Door {
    /// Its connection, while there is one.
    pub fn link(&self) -> Option<Arc<Link>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a call: to the running source at once, else it waits until the source has started. One that comes after the
    /// actor's end is given back.
    pub fn call(&self, call: Box<Call>) -> Result<(), Box<Call>> {
        let call = match self.link() {
            Some(link) => match link.submit(call) {
                Ok(()) => return Ok(()),
                Err(call) => call,
            },
            None => call,
        };
        match self.inbox.try_send(Ask::Call(call)) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Full(Ask::Call(call))) => {
                let text = format!("source `{}` has more calls waiting for its start than it can take", call.source);
                let error = CallError::new(ErrorKind::Busy, text, "try again in a moment");
                let error = error.at(call.source.as_str(), None);
                call.back.end(End::Failed(error));
                Ok(())
            }
            Err(mpsc::error::TrySendError::Closed(Ask::Call(call))) => Err(call),
            Err(_) => unreachable!("BUG: a call was sent"),
        }
    }

    /// Has the source started if need be, and listed if this is the actor that does so. `None` after the actor's end.
    pub async fn list(&self) -> Option<Result<(), CallError>> {
        self.ask(true).await
    }

    /// Has the source started if need be. `None` after the actor's end.
    pub async fn start(&self) -> Option<Result<(), CallError>> {
        self.ask(false).await
    }

    async fn ask(&self, again: bool) -> Option<Result<(), CallError>> {
        let (reply, done) = oneshot::channel();
        self.inbox.send(Ask::List { reply, again }).await.ok()?;
        done.await.ok()
    }
}
