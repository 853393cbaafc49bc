//! Owns the bytes of JSON-RPC: lines in, messages seen from outside, frames out.
//! It does not know MCP's methods, sources or sessions, and never builds a tree of a message it only passes on.

pub mod line;
pub mod message;
pub mod object;
pub mod outbox;
pub(crate) mod raw;

pub use line::{Line, LineReader};
pub use message::{Kind, Message, Span, Unreadable};
pub use object::Object;
pub use outbox::{Closed, Outbox, Piece};

use std::borrow::Cow;

/// A message from this size on is parsed on a thread of its own, so that it never holds up the small ones of others.
pub const LARGE_MESSAGE: usize = 256 * 1024;

/// `text` as a JSON string literal, quotes included.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("BUG: a string always serializes")
}

/// What a JSON string literal says; `None` for anything that is no string or holds a lone surrogate.
pub fn unquoted(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Parses a line, on a thread of its own where it is large.
pub async fn parse(bytes: bytes::Bytes) -> Result<Message, (Unreadable, bytes::Bytes)> {
    if bytes.len() < LARGE_MESSAGE {
        return Message::parse(bytes);
    }
    tokio::task::spawn_blocking(move || Message::parse(bytes)).await.expect("BUG: parsing never panics")
}
