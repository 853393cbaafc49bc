//! Owns the bytes of JSON-RPC: lines in, messages seen from outside, frames out.
//! It does not know MCP's methods, sources or sessions, and never builds a tree of a message it only passes on.

pub mod busy_poll;
pub mod line;
pub mod message;
pub mod object;
pub mod outbox;
pub(crate) mod raw;
pub mod salvage;
pub(crate) mod scan;
pub mod sse;

pub use line::{Line, LineReader};
pub use message::{Kind, Message, Span, Unreadable};
pub use object::Object;
pub use outbox::{Closed, Frame, Outbox, Piece, Role};

use std::borrow::Cow;

use ::bytes::{Bytes, BytesMut};

use crate::defect;

/// A message from this size on is handled on a thread of its own, so that it never holds up the small ones of others.
pub const LARGE_MESSAGE: usize = 2 * 1024 * 1024;

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

/// The text of a message as one line: line ends stand between tokens only, where they say no more than a blank.
pub fn one_line(bytes: Bytes) -> Bytes {
    let Some(mut from) = memchr::memchr2(b'\n', b'\r', &bytes) else { return bytes };
    let mut text = BytesMut::from(bytes);
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &text[from..]) {
        text[from + at] = b' ';
        from += at + 1;
    }
    text.freeze()
}

/// Handles one line: at once where it is small, else on a thread of its own, while the messages of others go on. Either
/// way it has been handled when this returns, so the order of a connection's lines is kept.
pub async fn handle<T: Send + 'static>(bytes: Bytes, handler: impl FnOnce(Bytes) -> T + Send + 'static) -> T {
    if bytes.len() < LARGE_MESSAGE {
        return handler(bytes);
    }
    // Apart: what waits seldom has its room to itself, and not in every future around it.
    Box::pin(defect::apart(|| handler(bytes))).await
}
