//! Owns the reading of what an HTTP source says instead of an answer: its statuses, pages and complaints, in words, each
//! with what to do. It decides nothing.

use std::borrow::Cow;
use std::num::IntErrorKind;
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};

use super::target::{SAMPLE, Target, UNKNOWN_EFFECT};
use crate::call::{CallError, ErrorKind};
use crate::protocol;
use crate::wire::message::number;
use crate::wire::{Kind, Message, Object};

/// What servers say, word for word, to whom they do not know: those of the TypeScript, Python, Rust and Go SDKs and mcp-go.
const FORGOTTEN: &[&str] = &[
    "Bad Request: Mcp-Session-Id header is required",
    "Bad Request: Missing session ID",
    "Bad Request: No valid session ID provided",
    "Bad Request: Server not initialized",
    "Bad Request: Session ID is required",
    "Not Found: Invalid or expired session ID",
    "Not Found: Session has been terminated",
    "Not Found: Session not found",
    "Session not found",
    "Session terminated",
];
/// What else is said for it, in a refusal that is none of a tool: in small letters, without the name of the status before it.
const FORGOTTEN_TOO: &[&str] = &[
    "a new session can only be created by an initialize request. include a valid mcp-session-id header for \
     non-initialize requests",
    "could not find session",
    "invalid mcp-session-id",
    "invalid or missing session id",
    "invalid or expired session id",
    "invalid session id",
    "mcp-session-id header is required",
    "missing mcp-session-id header",
    "missing session id",
    "no transport found for sessionid",
    "no valid session id",
    "no valid session id provided",
    "server not initialized",
    "session expired",
    "session id is required",
    "session id missing",
    "session id required in mcp-session-id header",
    "session not found",
    "session terminated",
    "unknown session",
];
/// What is said of a source that takes no new greeting.
const NOT_AGAIN: &str = "has forgotten the session, and begins no new one";
/// How it begins where a revision is not known.
const OTHER_REVISION: &[&str] = &["unsupported protocol version", "unsupported mcp-protocol-version"];

/// What a source complains of where the relay can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complaint {
    /// It has forgotten the session.
    Session,
    /// The headers do not say what the body does (-32020).
    Headers,
}

/// A response that is no success.
pub struct Refusal {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The complaint in a reply, if it is one that the relay can do something about.
pub fn complaint(reply: &Message) -> Option<Complaint> {
    let error = Object::parse(reply.text(reply.error?))?;
    let text = error.string("message").unwrap_or_default();
    match error.get("code")?.parse::<i64>().ok()? {
        protocol::HEADER_MISMATCH => Some(Complaint::Headers),
        // A tool may speak of sessions of its own, in any words but these.
        -32000 | -32001 | -32002 | -32600 | -30001 if FORGOTTEN.contains(&&*text) => Some(Complaint::Session),
        _ => None,
    }
}

/// Whether a reply is an error as a source may give it that wants a handshake before anything else, in whatever words.
pub fn leaves_doubt(reply: &Message) -> bool {
    let Some(error) = reply.error.and_then(|error| Object::parse(reply.text(error))) else { return false };
    speaks_of_session(&error.string("message").unwrap_or_default())
}

fn speaks_of_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("session") || text.contains("initializ")
}

/// An error that names no request, as the reply to this one.
pub fn named(error: &str, id: u64) -> Option<Message> {
    let error = error.replace(['\n', '\r'], " ");
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}");
    Message::parse(text.into()).ok().filter(|message| message.kind == Kind::Reply)
}

/// The same failure of a request that has no effect.
pub fn without_effect(mut error: CallError) -> CallError {
    if error.hint == UNKNOWN_EFFECT {
        "see whether the source is up and well".clone_into(&mut error.hint);
    }
    error
}

/// The same failure of a call that may have been carried out.
pub fn with_effect(mut error: CallError) -> CallError {
    if !error.hint.contains(UNKNOWN_EFFECT) {
        error.hint = format!("{UNKNOWN_EFFECT}; {}", error.hint);
    }
    error
}

/// How long a source wants to be left alone, if it may be asked again at all.
pub fn later(status: StatusCode, headers: &HeaderMap) -> Option<Option<Duration>> {
    if !matches!(status.as_u16(), 429 | 503) {
        return None;
    }
    let after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::trim);
    Some(after.and_then(|after| match after.parse::<u64>() {
        Ok(secs) => Some(Duration::from_secs(secs)),
        Err(why) if *why.kind() == IntErrorKind::PosOverflow => Some(Duration::MAX),
        Err(_) => Some(httpdate::parse_http_date(after).ok()?.duration_since(SystemTime::now()).unwrap_or_default()),
    }))
}

/// What a refusal says, if its words are its own and not a tool's.
struct Words<'a> {
    code: Option<i64>,
    text: Cow<'a, str>,
    /// It names the request, as the answers of tools do.
    names_it: bool,
}

impl Words<'_> {
    /// In small letters, without the name of the status before it.
    fn bare(&self) -> String {
        let text = self.text.trim().trim_end_matches('.').to_ascii_lowercase();
        let names = ["bad request: ", "not found: ", "invalid request: "];
        names.iter().find_map(|name| text.strip_prefix(name)).unwrap_or(&text).to_owned()
    }

    /// The session is not known to it.
    fn forgets(&self) -> bool {
        FORGOTTEN.contains(&&*self.text) || !self.names_it && FORGOTTEN_TOO.contains(&&*self.bare())
    }

    /// The revision is not known to it.
    fn knows_other_revisions(&self) -> bool {
        let bare = self.bare();
        self.code == Some(protocol::UNSUPPORTED_VERSION)
            || !self.names_it && OTHER_REVISION.iter().any(|start| bare.starts_with(start))
    }
}

impl Refusal {
    /// The JSON-RPC error in it, as the reply to `id`.
    pub fn reply(&self, id: u64) -> Option<Message> {
        let text = std::str::from_utf8(&self.body).ok()?.trim();
        let object = Object::parse(text)?;
        let error = object.get("error").filter(|it| Object::parse(it).is_some_and(|it| it.get("code").is_some()))?;
        named(error, id)
    }

    /// Its words about the request of this id.
    fn words(&self, id: u64) -> Words<'_> {
        let text = str::from_utf8(&self.body).unwrap_or_default().trim();
        let Some(object) = Object::parse(text) else { return Words { code: None, text: text.into(), names_it: false } };
        let names_it = object.get("id").and_then(number) == Some(id);
        let Some(error) = object.get("error").and_then(Object::parse) else {
            return Words { code: None, text: object.string("error").unwrap_or_default(), names_it };
        };
        let code = error.get("code").and_then(|code| code.parse().ok());
        Words { code, text: error.string("message").unwrap_or_default(), names_it }
    }

    /// Whether it is the session that is refused to the request of this id, by a source that had given one or should have;
    /// or all that such a session goes by.
    pub fn is_of_session(&self, has_id: bool, id: u64) -> bool {
        let words = self.words(id);
        match self.status.as_u16() {
            404 | 410 => has_id || words.forgets(),
            400 => words.forgets() || words.knows_other_revisions() || words.code == Some(protocol::HEADER_MISMATCH),
            _ => false,
        }
    }

    /// Whether a modern source that refuses the request of this id may have become another: it does not say which request it
    /// refuses, or speaks of what the modern era has not.
    pub fn leaves_doubt(&self, id: u64) -> bool {
        let words = self.words(id);
        let is_strange = self.status.is_client_error() && !words.names_it && !matches!(self.status.as_u16(), 408 | 429);
        is_strange || speaks_of_session(&words.text) || self.is_of_era(id)
    }

    /// Whether a source that was asked without a handshake wants one, or does not know that revision.
    pub fn is_of_era(&self, id: u64) -> bool {
        let words = self.words(id);
        matches!(self.status.as_u16(), 400 | 404) && (words.forgets() || words.knows_other_revisions())
    }

    /// The source was started again as something else: it does not do any more what this connection goes by.
    pub fn changed(&self, target: &Target, what: &str) -> CallError {
        let (status, said) = (self.status.as_u16(), self.said(target));
        changed(&target.source, &format!("{what} (HTTP {status}){said}"))
    }

    /// It knows of no session where it wants messages, though the session is a new one.
    pub fn not_taken(&self, target: &Target, url: &Url) -> CallError {
        let (source, at, status) = (&target.source, target.shown(url), self.status.as_u16());
        let said = self.said(target);
        let why =
            format!("does not take this at {at}, where it wants messages, in a new session (HTTP {status}){said}");
        let hint = "nothing was done; see what the source needs in its own documentation";
        CallError::new(ErrorKind::Unavailable, format!("source `{source}` {why}"), hint).at(source, None)
    }

    /// The same in words where it refuses to begin a session again.
    pub fn not_again(&self, target: &Target) -> CallError {
        match self.status.as_u16() {
            401 | 403 => self.error(target),
            _ if self.did_nothing() => self.error(target),
            _ => self.changed(target, NOT_AGAIN),
        }
    }

    /// Whether it says that nothing was done. A 503 alone may come from something in between that lost the answer.
    pub fn did_nothing(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS || self.later().flatten().is_some()
    }

    /// How long the source wants to be left alone, if it may be asked again at all.
    pub fn later(&self) -> Option<Option<Duration>> {
        later(self.status, &self.headers)
    }

    /// The same where it is the request itself that may be asked again: a call only where nothing was done.
    pub fn later_again(&self, is_call: bool) -> Option<Option<Duration>> {
        self.later().filter(|_| self.did_nothing() || !is_call)
    }

    /// In words: the status, and what stood beside it.
    pub fn error(&self, target: &Target) -> CallError {
        let source = &target.source;
        let at = target.shown(&target.url);
        let status = self.status.as_u16();
        let said = self.said(target);
        let (kind, why, hint) = match status {
            401 | 403 => return self.unauthorized(target, &at, &said),
            404 | 405 | 410 => (
                ErrorKind::Unavailable,
                format!("answers HTTP {status} at {at}{said}"),
                "correct `url`: it must be the address of the MCP endpoint itself, often with `/mcp` at its end"
                    .to_owned(),
            ),
            429 | 503 if self.did_nothing() => {
                let wait = self.later().flatten().filter(|wait| *wait < Duration::MAX);
                let wait = wait.map(|wait| format!(" in {} s", wait.as_secs())).unwrap_or_default();
                (
                    ErrorKind::Busy,
                    format!("takes no more requests for now (HTTP {status}){said}"),
                    format!("nothing was done; try again{}", if wait.is_empty() { " later".to_owned() } else { wait }),
                )
            }
            400 | 406 | 413 | 415 | 422 => (
                ErrorKind::Unavailable,
                format!("refuses the request with HTTP {status}{said}"),
                "see what the source needs in its own documentation".to_owned(),
            ),
            _ => (ErrorKind::Unavailable, format!("answers HTTP {status}{said}"), UNKNOWN_EFFECT.to_owned()),
        };
        CallError::new(kind, format!("source `{source}` {why}"), hint).at(source, None)
    }

    fn unauthorized(&self, target: &Target, at: &str, said: &str) -> CallError {
        let source = &target.source;
        let status = self.status.as_u16();
        let challenge = self.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let about_host = status == 403 && is_about_host(said);
        if about_host || status == 403 && said.contains("only allowed at") {
            let hint = "it may take one name only: write that in `url`, or set `headers = { Host = \"...\" }`";
            let text = format!("source `{source}` refuses access with HTTP 403 at {at}{said}");
            return CallError::new(ErrorKind::Unavailable, text, hint).at(source, None);
        }
        let text = match status {
            401 if target.has_credentials => {
                format!("source `{source}` does not accept its credentials (HTTP 401){said}")
            }
            401 => format!("source `{source}` wants credentials (HTTP 401){said}"),
            _ => format!("source `{source}` does not permit this (HTTP 403){said}"),
        };
        let hint = if target.has_token {
            "set a valid `token` with the rights it needs; it is read anew with the next connection"
        } else if challenge.contains("resource_metadata") {
            "it wants OAuth, which is not in this version yet; get a token elsewhere and write `auth = \"bearer\"` and `token`"
        } else if target.has_credentials {
            "set valid credentials in `headers`; they are read anew with the next connection"
        } else {
            "write `auth = \"bearer\"` and `token = \"${VARIABLE}\"`, or the header it wants in `headers`"
        };
        CallError::new(ErrorKind::NeedsAuth, text, hint).at(source, None)
    }

    /// `: its own words`, or nothing.
    fn said(&self, target: &Target) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(16 * SAMPLE)]).into_owned();
        if is_page(&self.headers, &text) {
            return ", with a web page instead of an MCP message".to_owned();
        }
        let own = Object::parse(text.trim()).and_then(|object| {
            let inner = object.get("error").and_then(Object::parse);
            let message = inner.as_ref().and_then(|error| error.string("message"));
            let told = message.or_else(|| object.string("message")).or_else(|| object.string("error_description"));
            told.or_else(|| object.string("error")).map(std::borrow::Cow::into_owned)
        });
        let told = target.masked(&own.unwrap_or(text), SAMPLE);
        if told.is_empty() { String::new() } else { format!(": {told}") }
    }
}

/// Whether a source refuses the name that it was asked under. Others may speak of hosts as well.
fn is_about_host(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    [
        "host header",
        "header host",
        "http_host",
        "invalid host",
        "unknown host",
        "host is not allowed",
        "host not allowed",
        "this host",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// Whether this is a page for people.
fn is_page(headers: &HeaderMap, text: &str) -> bool {
    let kind = content_type(headers);
    let start = text.trim_start().get(..15).unwrap_or_default().to_ascii_lowercase();
    kind.contains("html") || start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// The media type, in small letters and without parameters; empty where there is none.
pub fn content_type(headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a stream of events follows.
pub fn is_stream(headers: &HeaderMap) -> bool {
    content_type(headers) == "text/event-stream"
}

/// A successful answer that is none of MCP.
pub fn no_answer(target: &Target, headers: &HeaderMap, text: &str) -> CallError {
    let at = target.shown(&target.url);
    let (why, hint) = if is_page(headers, text) {
        let page = if text.to_ascii_lowercase().contains("password") { "a login page" } else { "a web page" };
        (
            format!("answers at {at} with {page} instead of an MCP message"),
            "correct `url`: it must be the MCP endpoint itself; a login page means that it wants credentials",
        )
    } else if text.trim().is_empty() {
        (format!("answers at {at} with nothing instead of an MCP message"), "report this to the authors of the source")
    } else {
        let kind = content_type(headers);
        let kind = if kind.is_empty() { "an answer of no type".to_owned() } else { format!("`{kind}`") };
        let sample = target.masked(text, SAMPLE);
        (format!("answers at {at} with {kind}, which is no MCP message: {sample}"), "correct `url`")
    };
    let text = format!("source `{}` {why}", target.source);
    CallError::new(ErrorKind::Unavailable, text, hint).at(&target.source, None)
}

/// A source that is another one now, and refused what it was asked.
pub fn changed(source: &str, what: &str) -> CallError {
    let hint = "nothing was done; call again: it is connected to anew, and asked what it speaks";
    CallError::new(ErrorKind::Unavailable, format!("source `{source}` {what}"), hint).at(source, None)
}

/// A source that answers a greeting with something else than a new session.
pub fn not_again(target: &Target, reply: Option<&Message>) -> CallError {
    let error = reply.and_then(|reply| Object::parse(reply.text(reply.error?)));
    let said = error.and_then(|error| error.string("message").map(|text| target.masked(&text, SAMPLE)));
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    changed(&target.source, &format!("{NOT_AGAIN}{said}"))
}

/// An answer that broke off, or never began.
pub fn broke_off(source: &str, why: &str) -> CallError {
    let text = format!("source `{source}` broke its answer off: {why}");
    CallError::new(ErrorKind::Unavailable, text, UNKNOWN_EFFECT).at(source, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, headers: &[(&'static str, &str)], body: &str) -> Refusal {
        let headers = headers.iter().map(|&(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Refusal { status: StatusCode::from_u16(status).unwrap(), headers: headers.collect(), body: body.into() }
    }

    #[test]
    fn a_source_says_how_long_to_wait() {
        for (status, after, want) in [
            (429, Some("2"), Some(Some(2))),
            (503, None, Some(None)),
            (503, Some("soon"), Some(None)),
            (503, Some("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Some(0))),
            (503, Some("Sunday, 06-Nov-94 08:49:37 GMT"), Some(Some(0))),
            (503, Some("Sun Nov  6 08:49:37 1994"), Some(Some(0))),
            (503, Some("99999999999999999999"), Some(Some(u64::MAX))),
            (500, Some("2"), None),
        ] {
            let headers: Vec<_> = after.map(|after| ("retry-after", after)).into_iter().collect();
            let later = refusal(status, &headers, "").later();
            assert_eq!(later.map(|wait| wait.map(|wait| wait.as_secs())), want, "{status} {after:?}");
        }
        let later = |after: &str| refusal(429, &[("retry-after", after)], "").later().flatten().unwrap();
        let ahead = Duration::from_secs(4_102_444_800) - SystemTime::UNIX_EPOCH.elapsed().unwrap();
        for after in ["Fri, 01 Jan 2100 00:00:00 GMT", "Fri Jan  1 00:00:00 2100"] {
            assert!(later(after).abs_diff(ahead) < Duration::from_secs(10), "{after}");
        }
    }

    #[test]
    fn errors_in_refusals_are_replies() {
        let reply =
            |body: &str| refusal(400, &[], body).reply(7).map(|reply| String::from_utf8(reply.line.to_vec()).unwrap());
        let want = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000, "message":"x"}}"#;
        for id in ["\"id\":null,", "\"id\":\"server-error\",", "", "\"id\":7,"] {
            let body = format!("{{{id}\"jsonrpc\":\"2.0\",\"error\":{{\"code\":-32000,\n\"message\":\"x\"}}}}\n");
            assert_eq!(reply(&body).as_deref(), Some(want));
        }
        for body in ["", "x", "{}", r#"{"error":"x"}"#, r#"{"error":{"message":"x"}}"#, "[1]"] {
            assert_eq!(reply(body), None, "{body}");
        }
    }

    #[test]
    fn complaints_about_the_session_are_known() {
        let check = |code: i64, text: &str, want: Option<Complaint>| {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"{text}"}}}}"#);
            assert_eq!(complaint(&Message::parse(line.into()).unwrap()), want, "{text}");
        };
        check(-32001, "Session not found", Some(Complaint::Session));
        check(-32000, "Bad Request: Server not initialized", Some(Complaint::Session));
        check(-32000, "Bad Request: Mcp-Session-Id header is required", Some(Complaint::Session));
        check(-32001, "Request timed out", None);
        check(-32000, "the browser session is busy", None);
        check(-32000, "created release #1, but the CDN cache is not initialized", None);
        check(-32001, "moved 3 files; the browser session is closed", None);
        check(-32600, "Bad Request: Missing session ID", Some(Complaint::Session));
        check(-32020, "Mcp-Name differs", Some(Complaint::Headers));
        check(-32603, "session not found", None);
        let of_session = |status, body: &str, has_id| refusal(status, &[], body).is_of_session(has_id, 7);
        assert!(of_session(404, "", true) && !of_session(404, "", false) && !of_session(500, "session id", true));
        assert!(of_session(400, "Bad Request: No valid session ID provided", true) && !of_session(400, "bad", true));
        let error = |id: &str, code: i64, text: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{text}"}}}}"#)
        };
        assert!(of_session(400, &error("null", -32602, "Session expired."), true));
        assert!(of_session(400, &error("\"server-error\"", -32600, "Bad Request: Missing session ID"), true));
        assert!(of_session(400, &error("7", -32000, "Bad Request: Server not initialized"), false));
        // A tool's own error says which request it answers, or speaks of more than that.
        assert!(!of_session(400, &error("7", -32602, "Invalid session ID"), true));
        assert!(!of_session(400, &error("null", -32602, "argument `session id` of your bank account is wrong"), true));
    }

    #[test]
    fn another_era_is_known_by_what_it_says() {
        let of_era = |status, id: &str, code: i64, text: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{text}"}}}}"#);
            refusal(status, &[], &body).is_of_era(7)
        };
        assert!(of_era(400, "null", -32000, "Bad Request: Server not initialized"));
        assert!(of_era(400, "\"server-error\"", -32600, "Bad Request: Missing session ID"));
        assert!(of_era(400, "null", -32000, "Bad Request: Unsupported protocol version: 2026-07-28"));
        assert!(of_era(400, "7", -32022, "unsupported"));
        assert!(!of_era(400, "7", -32602, "unsupported protocol version of your printer"));
        let in_doubt = |status, body: &str| refusal(status, &[], body).leaves_doubt(7);
        let error = |id: &str, text: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"{text}"}}}}"#)
        };
        assert!(
            in_doubt(404, "") && in_doubt(422, "x") && in_doubt(400, &error("\"\"", "A valid session id is REQUIRED"))
        );
        assert!(in_doubt(500, "no session") && in_doubt(400, &error("7", "Not initialized")));
        assert!(!in_doubt(500, "oops") && !in_doubt(429, "") && !in_doubt(400, &error("7", "bad argument")));
        assert!(!of_era(404, "7", -32601, "no such method") && !of_era(500, "null", -32000, "Session not found"));
    }
}
