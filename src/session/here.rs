//! Owns a client's request that waits for the answer of a call: what it says of its client, and the way back to it.

use std::sync::Arc;

use super::asks::Lack;
use super::{Exchange, Session};
use crate::call::progress_token;
use crate::protocol;
use crate::wire::{Message, Object, Piece, Span, unquoted};

/// A request of the client that waits for the call's answer.
#[derive(Clone)]
pub struct Here {
    pub session: Arc<Session>,
    pub exchange: Exchange,
    /// The client's progress token, as it wrote it.
    pub(super) token: Option<Box<str>>,
    /// The request of a modern client, which says what it can do and may be sent again.
    request: Option<Box<Message>>,
    /// The place of `_meta` in it.
    meta: Option<Span>,
}

impl Here {
    /// `meta` is the place of `_meta` in the message.
    pub fn new(session: &Arc<Session>, exchange: Exchange, message: &Message, meta: Option<Span>) -> Self {
        let said = meta.and_then(|meta| Object::parse(message.text(meta)));
        let level = said.as_ref().and_then(|said| said.get(protocol::META_LOG_LEVEL));
        if let Some(level) = level.filter(|_| exchange.modern) {
            session.wants_lines_of(level);
        }
        let token = said.as_ref().and_then(progress_token).map(Box::<str>::from);
        let request = exchange.modern.then(|| Box::new(message.clone()));
        Self { session: session.clone(), exchange, token, request, meta }
    }

    /// What a modern client's request says of this in its `_meta`.
    fn said(&self, name: &str) -> Option<Box<str>> {
        let meta = self.request.as_ref()?.text(self.meta?);
        Object::parse(meta)?.get(name).filter(|value| *value != "null").map(Box::<str>::from)
    }

    /// Why the client cannot be asked this; `None` if it can.
    pub fn cannot(&self, method: &str, params: &str) -> Option<Lack> {
        let said = match &self.request {
            Some(_) => self.said(protocol::META_CAPABILITIES),
            None => self.session.caller(&self.exchange).and_then(|caller| caller.capabilities.clone()),
        };
        super::asks::cannot(said.as_deref().unwrap_or("{}"), method, params)
    }

    /// Whether the call may wait for its client, which then takes it up with another request.
    pub(super) fn may_come_back(&self) -> bool {
        let said = self.said(protocol::META_CAPABILITIES);
        let asked = |name: &str| matches!(name, "elicitation" | "sampling" | "roots");
        said.as_deref().and_then(Object::parse).is_some_and(|said| said.members.iter().any(|member| asked(&member.key)))
    }

    /// Whether the client wants to see log lines of this level, from this source.
    pub fn wants_line(&self, level: &str, source: &str) -> bool {
        let least = match &self.request {
            // Without being asked for, no line goes to a modern client.
            Some(_) => match self.said(protocol::META_LOG_LEVEL) {
                Some(least) => Some(least),
                None => return false,
            },
            None => self.session.caller(&self.exchange).and_then(|caller| caller.log_level.clone()),
        };
        match least {
            Some(least) => super::logging::is_shown(level, &unquoted(&least).unwrap_or_default()),
            None => self.session.sees_unasked(level, source),
        }
    }

    /// The request of a modern client.
    pub fn request(&self) -> Option<&Message> {
        self.request.as_deref()
    }

    /// What of the request has to be the same when it is sent again.
    pub fn repeated(&self) -> String {
        self.request().and_then(super::parked::same).unwrap_or_default()
    }

    /// Something that belongs to the call, before its answer.
    pub fn tell(&self, pieces: &[Piece<'_>]) {
        if self.exchange.out.send(pieces).is_err() {
            tracing::debug!("client is gone, notification dropped");
        }
    }
}
