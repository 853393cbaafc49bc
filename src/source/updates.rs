//! Owns who is told when a resource of a source changes.
//! It does not subscribe to anything at the source.

use std::sync::{Arc, Mutex, PoisonError};

use crate::wire::{Message, Object};

/// Told of every changed resource, by its URI at the source.
pub type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// The listener of a connection.
#[derive(Default)]
pub struct Updates(Mutex<Option<Listener>>);

impl Updates {
    pub fn listen(&self, listener: Listener) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// Passes on `notifications/resources/updated`.
    pub fn notice(&self, message: &Message) {
        let listener = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let uri = message.params_text().and_then(Object::parse).and_then(|params| params.string("uri"));
        if let (Some(listener), Some(uri)) = (listener, uri) {
            listener(&uri);
        }
    }
}
