//! Owns what is made of the bytes that come from a client: messages, batches of them, and what is neither. It does not know
//! what a message asks for.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Exchange, Session};
use crate::protocol;
use crate::wire::{self, Line, Message, Outbox, Unreadable};

impl Session {
    /// Takes one line from the client; what answers it goes to `out`.
    pub async fn receive(self: &Arc<Self>, line: Line, out: &Arc<Outbox>) {
        match line {
            Line::Whole(bytes) => {
                let (session, out) = (self.clone(), out.clone());
                let handler = move |bytes| match Message::parse(bytes) {
                    Ok(message) => session.message(message, &out),
                    Err((Unreadable::Batch, bytes)) if session.batch(&bytes, &out) => {}
                    Err((why, bytes)) => session.unreadable(&why, &bytes, &out),
                };
                wire::handle(bytes, handler).await;
            }
            Line::TooLong { head, tail, length } => {
                let text = format!("the message has {length} bytes, more than `max_message_mib` in [relay] allows");
                self.refuse_unread(protocol::INVALID_REQUEST, &text, [&head, &tail], out);
            }
        }
    }

    /// Answers what cannot be read, of which the beginning and the end are at hand.
    fn refuse_unread(&self, code: i64, text: &str, [head, tail]: [&[u8]; 2], out: &Arc<Outbox>) {
        match self.id_to_refuse(head, tail, text) {
            Some(id) => Exchange::new(id, false, out).error(code, text, None),
            None => out.give_up_answer(),
        }
    }

    /// A batch, for a client of the one revision that has them: each message as if it had come alone, and answered so.
    fn batch(self: &Arc<Self>, bytes: &Bytes, out: &Arc<Outbox>) -> bool {
        if !self.takes_batches() {
            return false;
        }
        let parts: Vec<&RawValue> = match serde_json::from_slice(bytes) {
            Ok(parts) => parts,
            Err(error) => {
                self.unreadable(&Unreadable::NotJson(error.to_string()), bytes, out);
                return true;
            }
        };
        for part in &parts {
            match Message::parse(bytes.slice_ref(part.get().as_bytes())) {
                Ok(message) => self.message(message, out),
                Err((why, part)) => self.no_member(&why, &part, out),
            }
        }
        !parts.is_empty()
    }

    /// Answers what is no message, though it stands in a batch.
    pub fn no_member(&self, why: &Unreadable, part: &Bytes, out: &Arc<Outbox>) {
        let text = match why {
            Unreadable::Batch => "a batch within a batch",
            Unreadable::NotObject => "not a JSON object",
            _ => return self.unreadable(why, part, out),
        };
        let text = format!("{text}: the members of a batch are JSON-RPC messages");
        Exchange::new("null", false, out).error(protocol::INVALID_REQUEST, &text, None);
    }

    /// Answers what is no message.
    fn unreadable(&self, why: &Unreadable, bytes: &Bytes, out: &Arc<Outbox>) {
        let code = match why {
            Unreadable::NotUtf8 | Unreadable::NotJson(_) | Unreadable::NotObject => protocol::PARSE_ERROR,
            Unreadable::Batch | Unreadable::NotMessage(_) => protocol::INVALID_REQUEST,
        };
        let hint = match why {
            Unreadable::Batch => ": send each message on a line of its own; only 2025-03-26 has batches",
            _ => ": expected one JSON-RPC message a line",
        };
        self.refuse_unread(code, &format!("{why}{hint}"), [bytes, bytes], out);
    }
}
