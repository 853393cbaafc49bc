//! Owns the search for the id of a message that cannot be read, so that its call can end at once instead of at its limit.
//! It finds only an id of the message itself: one inside its params or its result would end somebody else's call.

use serde_json::value::RawValue;

/// The members that a message can have.
pub const MEMBERS: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

/// The id, as it is written, in a message of which the beginning and the end are at hand (each may be the whole).
pub fn salvage_id<'a>(head: &'a [u8], tail: &'a [u8]) -> Option<&'a str> {
    Wreck::of(head, tail).id
}

/// Whether a message, of which the beginning is at hand, is seen to be an answer and no request.
pub fn is_answer(head: &[u8]) -> bool {
    let wreck = Wreck::of(head, b"");
    wreck.has_outcome && wreck.method.is_none()
}

/// What can still be told of a message that cannot be read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Wreck<'a> {
    /// As it is written.
    pub id: Option<&'a str>,
    /// The method's name as it is written; empty where there is one that cannot be read.
    pub method: Option<&'a str>,
    has_version: bool,
    has_outcome: bool,
    /// It has a member that no message has.
    has_foreign: bool,
}

impl<'a> Wreck<'a> {
    /// Of a message of which the beginning and the end are at hand (each may be the whole).
    pub fn of(head: &'a [u8], tail: &'a [u8]) -> Self {
        let mut wreck = Self::default();
        let _ = wreck.read(head);
        wreck.id = wreck.id.or_else(|| from_tail(tail));
        wreck
    }

    /// Whether it is what is left of an answer, and neither a request nor a line of a log.
    pub fn is_reply(&self) -> bool {
        self.method.is_none() && (self.has_version || self.has_outcome && !self.has_foreign)
    }

    /// Whether it is what is left of a request, or of a notification.
    pub fn is_request(&self) -> bool {
        self.method.is_some() && (self.has_version || !self.has_foreign)
    }

    /// Follows strings and brackets from the start, and takes note of the names outside of every inner value.
    fn read(&mut self, text: &'a [u8]) -> Option<()> {
        let (mut at, mut depth) = (0, 0_usize);
        while at < text.len() {
            match text[at] {
                b'"' => {
                    let end = at + string_length(&text[at..])?;
                    if depth == 1 && text[end..].trim_ascii_start().starts_with(b":") {
                        self.note(&text[at + 1..end - 1], &text[end..]);
                    }
                    at = end;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
        }
        None
    }

    fn note(&mut self, name: &[u8], rest: &'a [u8]) {
        match name {
            b"id" => self.id = self.id.or_else(|| value(rest).map(|(id, _)| id)),
            b"method" => self.method = Some(value(rest).map_or("", |(method, _)| method)),
            b"params" => self.method = self.method.or(Some("")),
            b"jsonrpc" => self.has_version = true,
            b"result" | b"error" => self.has_outcome = true,
            _ => self.has_foreign = true,
        }
    }
}

/// The last `"id":` after which nothing but plain members and the message's own bracket comes.
fn from_tail(text: &[u8]) -> Option<&str> {
    let at = memchr::memmem::rfind(text, b"\"id\"")?;
    // The end of a longer name.
    if text[..at].ends_with(b"\\") {
        return None;
    }
    let (id, rest) = value(&text[at + 4..])?;
    let inner = rest.trim_ascii_end().strip_suffix(b"}")?;
    let is_outermost = !inner.iter().any(|byte| matches!(byte, b'{' | b'[' | b'}' | b']'));
    is_outermost.then_some(id)
}

/// A string or a number behind a colon, and what comes after it.
fn value(text: &[u8]) -> Option<(&str, &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let length = match text.first()? {
        b'"' => string_length(text)?,
        _ => text.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))?,
    };
    let raw = std::str::from_utf8(&text[..length]).ok()?;
    serde_json::from_str::<&RawValue>(raw).ok()?;
    Some((raw, &text[length..]))
}

/// The length of the string literal that `text` starts with, quotes included.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<&str>) {
        assert_eq!(salvage_id(text.as_bytes(), text.as_bytes()), want, "{text}");
    }

    #[test]
    fn ids_of_broken_messages_are_found() {
        check(r#"{"jsonrpc":"2.0","id": 17,"result":{"con"#, Some("17"));
        check(r#"{"jsonrpc":"2.0","id":"a \" b","method":"#, Some(r#""a \" b""#));
        check(r#""}],"isError":false},"id":"18"}"#, Some(r#""18""#));
        check(r#"{"result":{"id":1,"a":[{"id":2}]},"jsonrpc":"2.0","id":-3,}"#, Some("-3"));
        check(r#"3}]},"id":4,"jsonrpc":"2.0"}"#, Some("4"));
        check(r#"{"method":"id","id":5,"#, Some("5"));
    }

    #[test]
    fn answers_are_told_from_requests() {
        for (text, want) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"method":"#, true),
            (r#"{"error":{"code":1},"#, true),
            (r#"{"result":"method","#, true),
            (r#"{"jsonrpc":"result","id":1,"method":"error","params":{"result":1}"#, false),
            (r#"{"params":{"result":1},"id":2"#, false),
            (r#"[{"result":1}]"#, false),
            (r#"{"result"#, false),
            ("", false),
        ] {
            assert_eq!(is_answer(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn wrecks_are_told_apart() {
        for (text, want) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}"#, "reply"),
            (r#"{"jsonrpc":"2.0","id":1,"resu"#, "reply"),
            (r#"{"id":1,"result":{"method":"x"},}"#, "reply"),
            (r#"{"level":"info","id":1,"result":NaN}"#, "neither"),
            (r#"{"level":"info","id":1,"took":NaN}"#, "neither"),
            (r#"{"id":1,"x"#, "neither"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"a":NaN}}"#, "request"),
            (r#"{"params":{"result":NaN},"id":1}"#, "request"),
            (r#"{"method":"GET","path":"/","took":NaN,"id":1}"#, "neither"),
            (r#"{"jsonrpc":"2.0","result":"method","id":1,}"#, "reply"),
        ] {
            let wreck = Wreck::of(text.as_bytes(), text.as_bytes());
            let found = [(wreck.is_reply(), "reply"), (wreck.is_request(), "request"), (true, "neither")];
            assert_eq!(found.iter().find(|(is, _)| *is).map(|(_, what)| *what), Some(want), "{text}");
        }
    }

    #[test]
    fn ids_of_inner_values_are_not() {
        check(r#"{"jsonrpc":"2.0","#, None);
        check(r#"{"jsonrpc":"2.0","id":1"#, None);
        check(r#"{"params":{"id":1},"method":"ping""#, None);
        check(r#"{"params":{"arguments":{"id":1}}}"#, None);
        assert_eq!(from_tail(br#"1},{"id":2}]}}"#), None);
        check(r#"{"text":"\"id\":1,","#, None);
        check(r#"{"id":{},"x"#, None);
    }
}
