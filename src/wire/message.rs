//! Owns the outside view of one JSON-RPC message: which members it has and where they stand in its bytes.
//! It does not look into them, and keeps the bytes as they came.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::Object;
use super::scan::{self, Keys, Met};

/// A range of bytes within a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    /// Where `part`, a slice of `whole`, stands in it.
    pub fn of(whole: &[u8], part: &str) -> Self {
        let start = part.as_ptr() as usize - whole.as_ptr() as usize;
        debug_assert!(start + part.len() <= whole.len());
        Self { start, end: start + part.len() }
    }

    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Request,
    Notification,
    /// A result or an error, with an id.
    Reply,
}

/// A message whose members are known by place only.
#[derive(Debug, Clone)]
pub struct Message {
    pub line: Bytes,
    pub kind: Kind,
    pub id: Option<Span>,
    pub method: Option<Span>,
    pub params: Option<Span>,
    pub result: Option<Span>,
    pub error: Option<Span>,
    /// Exactly as JSON-RPC 2.0 has it: no member twice, `jsonrpc` there and right, one of result and error.
    pub regular: bool,
    /// What stands in it, at any depth.
    pub met: Met,
}

/// Why a line is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("the text is not UTF-8")]
    NotUtf8,
    #[error("the text is not JSON: {0}")]
    NotJson(String),
    #[error("a JSON-RPC batch")]
    Batch,
    #[error("not a JSON object")]
    NotObject,
    #[error("a JSON object that is no JSON-RPC message: {0}")]
    NotMessage(&'static str),
}

impl Message {
    /// Reads the top level of `line`. On failure the bytes come back.
    pub fn parse(line: Bytes) -> Result<Self, (Unreadable, Bytes)> {
        let is_text = || std::str::from_utf8(&line).is_ok();
        // A byte order mark belongs to a file, not to the message, and is not passed on.
        let start = before(&line);
        let why = match line.get(start) {
            Some(b'{') => {
                let mut members = Members::default();
                let walked = scan::members(&line[start..], Keys::Loose, |key, value| {
                    members.note(&line[start..], key, value);
                });
                match walked {
                    Ok(met) if met.ascii || is_text() => {
                        let line = line.slice(start..);
                        return members.message(&line, met).map_err(|why| (why, line));
                    }
                    Err(fault) if is_text() => {
                        return Err((Unreadable::NotJson(fault.to_string()), line.slice(start..)));
                    }
                    _ => Unreadable::NotUtf8,
                }
            }
            _ if !is_text() => Unreadable::NotUtf8,
            Some(b'[') => Unreadable::Batch,
            _ => Unreadable::NotObject,
        };
        Err((why, line))
    }

    /// The text at `span`.
    pub fn text(&self, span: Span) -> &str {
        std::str::from_utf8(&self.line[span.range()]).expect("BUG: a span lies on character borders")
    }

    /// The bytes at `span`, shared and not copied.
    pub fn slice(&self, span: Span) -> Bytes {
        self.line.slice(span.range())
    }

    /// The id as it was written; `None` for a notification.
    pub fn id_text(&self) -> Option<&str> {
        self.id.map(|span| self.text(span))
    }

    /// The method's name; empty for a reply.
    pub fn method_name(&self) -> Cow<'_, str> {
        self.method.and_then(|span| super::unquoted(self.text(span))).unwrap_or_default()
    }

    /// The params as they were written; `None` where they are absent or null.
    pub fn params_text(&self) -> Option<&str> {
        self.params.map(|span| self.text(span)).filter(|text| *text != "null")
    }

    /// The params, if they are an object. They can be large: whoever needs them more than once keeps what this gives.
    pub fn params_object(&self) -> Option<Object<'_>> {
        self.params_text().and_then(Object::parse)
    }

    /// The text of a member of `_meta` in the params.
    pub fn meta(&self, name: &str) -> Option<&str> {
        Object::parse(self.params_object()?.get("_meta")?)?.get(name)
    }

    /// The id of a reply to one of the relay's own requests, which are all whole numbers; a source that turns them into
    /// strings is understood.
    pub fn number_id(&self) -> Option<u64> {
        number(self.id_text()?)
    }
}

/// A whole number, also when written as a string or with a fraction of zero.
pub fn number(raw: &str) -> Option<u64> {
    let bare = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
    bare.parse().ok().or_else(|| bare.strip_suffix(".0")?.parse().ok())
}

/// How much stands before a message that is none of it: byte order marks and blanks.
fn before(line: &[u8]) -> usize {
    let mut rest = line;
    while let [b' ' | b'\t' | b'\r', next @ ..] | [0xef, 0xbb, 0xbf, next @ ..] = rest {
        rest = next;
    }
    line.len() - rest.len()
}

/// How the method of a notification begins.
const NOTE: &[u8] = b"\"notifications/";
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members that matter, the last of each name.
#[derive(Default)]
struct Members {
    jsonrpc: Option<Span>,
    id: Option<Span>,
    method: Option<Span>,
    params: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
    repeated: bool,
}

impl Members {
    fn note(&mut self, text: &[u8], key: Span, value: Span) {
        let raw = &text[key.range()];
        let decoded;
        let name = if raw.contains(&b'\\') {
            decoded = std::str::from_utf8(raw).ok().and_then(super::unquoted).unwrap_or_default();
            decoded.as_bytes()
        } else {
            &raw[1..raw.len() - 1]
        };
        let place = match name {
            b"jsonrpc" => &mut self.jsonrpc,
            b"id" => &mut self.id,
            b"method" => &mut self.method,
            b"params" => &mut self.params,
            b"result" => &mut self.result,
            b"error" => &mut self.error,
            // Some readers take these for the same.
            _ => {
                let is_like = |own: &&str| super::object::is_alike(name, own.as_bytes());
                self.repeated |= MEMBERS.iter().any(is_like);
                return;
            }
        };
        self.repeated |= place.is_some();
        *place = Some(value);
    }

    fn message(&self, line: &Bytes, met: Met) -> Result<Message, Unreadable> {
        let text = |span: Span| &line[span.range()];
        let not_null = |span: &Span| text(*span) != b"null";
        // Some write out that a notification has none.
        let is_note =
            |id: &Span| text(*id) == b"null" && self.method.is_some_and(|method| text(method).starts_with(NOTE));
        let id = self.id.filter(|id| !is_note(id));
        let kind = match (self.method, id) {
            (Some(method), _) if line[method.start] != b'"' => {
                return Err(Unreadable::NotMessage("`method` is no string"));
            }
            (Some(_), Some(_)) => Kind::Request,
            (Some(_), None) => Kind::Notification,
            (None, Some(_)) if self.result.is_some() || self.error.is_some() => Kind::Reply,
            (None, _) => return Err(Unreadable::NotMessage("neither a method nor a result or an error with an id")),
        };
        // `"error": null` beside a result is no error; `"result": null` is a result.
        let error = self.error.filter(|error| self.result.is_none() || not_null(error));
        let regular = self.jsonrpc.is_some_and(|version| text(version) == b"\"2.0\"")
            && !self.repeated
            && id == self.id
            && (self.result.is_none() || self.error.is_none());
        Ok(Message {
            line: line.clone(),
            kind,
            id,
            method: self.method,
            params: self.params,
            result: if error.is_some() { None } else { self.result },
            error,
            regular,
            met,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message, Unreadable> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).map_err(|(error, _)| error)
    }

    /// Kind, id, method, params, result, error, regular.
    type Seen = (Kind, Option<String>, String, Option<String>, Option<String>, Option<String>, bool);

    fn seen(text: &str) -> Seen {
        let message = parse(text).unwrap();
        let own = |span: Option<Span>| span.map(|span| message.text(span).to_owned());
        (
            message.kind,
            own(message.id),
            message.method_name().into_owned(),
            message.params_text().map(str::to_owned),
            own(message.result),
            own(message.error),
            message.regular,
        )
    }

    #[test]
    fn members_are_found() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            seen(r#" {"jsonrpc":"2.0","id":"a b","method":"tools\/call","params":{"x":1e400},"traceparent":"t"}"#),
            (Kind::Request, some("\"a b\""), "tools/call".into(), some(r#"{"x":1e400}"#), None, None, true)
        );
        assert_eq!(
            seen(r#"{"method":"ping","params":null}"#),
            (Kind::Notification, None, "ping".into(), None, None, None, false)
        );
        assert_eq!(
            seen(r#"{"jsonrpc":"2.0","id":null,"method":"notifications/progress","params":{}}"#),
            (Kind::Notification, None, "notifications/progress".into(), some("{}"), None, None, false)
        );
        assert_eq!(seen(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#).0, Kind::Request);
        assert_eq!(
            seen(r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
            (Kind::Reply, some("1"), String::new(), None, some("null"), None, true)
        );
        assert_eq!(
            seen(r#"{"jsonrpc":"2.0","id":1,"result":{"a":"\ud800"},"error":null}"#),
            (Kind::Reply, some("1"), String::new(), None, some(r#"{"a":"\ud800"}"#), None, false)
        );
        assert_eq!(
            seen(r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":99999999999}}"#),
            (Kind::Reply, some("1"), String::new(), None, None, some(r#"{"code":99999999999}"#), false)
        );
        assert_eq!(
            seen(r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{},"\ud800":1}"#),
            (Kind::Reply, some("2"), String::new(), None, some("{}"), None, false)
        );
        for (name, regular) in
            [("ID", false), ("re\u{17f}ult", false), ("\\u0050arams", false), ("ids", true), ("x", true)]
        {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"{name}":2,"result":{{}}}}"#);
            assert_eq!(parse(&text).unwrap().regular, regular, "{text}");
        }
    }

    #[test]
    fn depth_has_no_limit() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&deep).is_ok());
    }

    #[test]
    fn other_lines_are_told_apart() {
        assert_eq!(parse("[{}]").unwrap_err(), Unreadable::Batch);
        for text in ["", "12", "MyServer v1.2.3", "\u{1b}[32mready\u{1b}[0m", "null"] {
            assert_eq!(parse(text).unwrap_err(), Unreadable::NotObject);
        }
        for text in [r#"{"level":"info"}"#, r#"{"id":1}"#, r#"{"result":1}"#, r#"{"method":1,"id":1}"#] {
            assert!(matches!(parse(text), Err(Unreadable::NotMessage(_))), "{text}");
        }
        for text in [r#"{"id":1,"result":"#, r#"{"id":1,"result":{}} x"#] {
            assert!(matches!(parse(text), Err(Unreadable::NotJson(_))), "{text}");
        }
        let bytes = Bytes::from_static(b"{\"id\":1,\"result\":\"\xb1\xe2\"}");
        assert_eq!(Message::parse(bytes).unwrap_err().0, Unreadable::NotUtf8);
    }
}
