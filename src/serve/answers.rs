//! Owns how a request is answered over HTTP: with JSON or with a stream, and with which status.
//! What the answer says is the session's affair, but for refusals of the front's own.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::events;
use super::headers::Accepts;
use super::sessions::{Held, InUse, Single};
use crate::protocol;
use crate::session::Refusal;
use crate::wire::{Frame, Message, Object, Outbox, Role, quoted};

/// What one client may leave unread of a request before more that nobody waits for is dropped; questions may come to as much
/// again, and the answer always comes.
const UNREAD_LIMIT: usize = 8 * 1024 * 1024;
/// How long an answer may take before a stream is begun for it. A modern client sees errors in the status, which can be told
/// only as long as there is none; a legacy one can take up a stream that broke.
const PATIENCE_MODERN: Duration = Duration::from_secs(5);
const PATIENCE_LEGACY: Duration = Duration::from_millis(400);

/// How a request is followed up once its stream has begun.
pub enum Follow {
    /// The stream is the request: when it breaks, nobody waits any more.
    Modern(Single),
    /// The stream can be taken up again.
    Legacy(Arc<Held>, InUse),
    /// The same for a batch: without a stream its answers are an array.
    Batch(Arc<Held>, InUse),
}

impl Accepts {
    /// Where the answers to so many requests come out.
    pub fn outbox(self, requests: usize) -> Arc<Outbox> {
        if self.events { Outbox::answers(UNREAD_LIMIT, requests) } else { Outbox::only_answers(UNREAD_LIMIT, requests) }
    }
}

/// Where what a client listens for comes out.
pub fn listening() -> Arc<Outbox> {
    Outbox::listening(UNREAD_LIMIT)
}

/// Answers with JSON where the answers come soon and nothing else does, else with a stream.
pub async fn respond(out: Arc<Outbox>, accepts: Accepts, follow: Follow) -> Response {
    let mut frames = Vec::new();
    let patience = match follow {
        Follow::Modern(_) => PATIENCE_MODERN,
        Follow::Legacy(..) | Follow::Batch(..) => PATIENCE_LEGACY,
    };
    let until = tokio::time::Instant::now() + patience;
    let mut done = false;
    while !done {
        let next = if accepts.events {
            match tokio::time::timeout_at(until, out.next()).await {
                Ok(next) => next,
                Err(_) => break,
            }
        } else {
            out.next().await
        };
        match next {
            Some(frame) => {
                let is_answer = frame.role.is_answer();
                frames.push(frame);
                if !is_answer && accepts.events {
                    break;
                }
            }
            None => done = true,
        }
    }
    if done && accepts.json && (!accepts.events || frames.iter().all(|frame| frame.role.is_answer())) {
        return json(frames, &follow);
    }
    match follow {
        Follow::Modern(single) => event_stream(events::once(out, frames, single)),
        Follow::Legacy(held, in_use) | Follow::Batch(held, in_use) => {
            let prime = primes(&held);
            event_stream(held.add_stream(out, frames).follow(0, prime, in_use))
        }
    }
}

/// Whether the client understands an event without data.
pub fn primes(held: &Held) -> bool {
    held.session.version() == Some(protocol::LATEST_LEGACY)
}

fn json(mut frames: Vec<Frame>, follow: &Follow) -> Response {
    if frames.is_empty() {
        // It was cancelled, and nobody waits for an answer.
        return StatusCode::ACCEPTED.into_response();
    }
    if matches!(follow, Follow::Batch(..)) {
        let texts: Vec<Bytes> = frames.into_iter().map(Frame::into_bytes).collect();
        let body = [b"[", &*texts.join(&b","[..]), b"]"].concat();
        return json_body(StatusCode::OK, body.into());
    }
    let frame = frames.remove(0);
    let is_error = frame.role == Role::Error;
    let body = frame.into_bytes();
    let status = if matches!(follow, Follow::Modern(_)) && is_error { status_of(&body) } else { StatusCode::OK };
    json_body(status, body)
}

/// The status that goes with an error, for a client of 2026-07-28.
fn status_of(body: &Bytes) -> StatusCode {
    let code = Message::parse(body.clone()).ok().and_then(|message| {
        let error = Object::parse(message.text(message.error?))?;
        error.get("code")?.parse::<i64>().ok()
    });
    match code {
        Some(protocol::PARSE_ERROR | protocol::INVALID_REQUEST) => StatusCode::BAD_REQUEST,
        Some(code) if protocol::MODERN_ERRORS.contains(&code) => StatusCode::BAD_REQUEST,
        Some(protocol::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

fn json_body(status: StatusCode, body: Bytes) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], Body::from(body)).into_response()
}

pub fn event_stream(body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (axum::http::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (StatusCode::OK, headers, body).into_response()
}

/// Answers with an error of the relay's own.
pub fn error(status: StatusCode, id: &str, refusal: &Refusal) -> Response {
    let data = refusal.data.as_ref().map(|data| format!(",\"data\":{data}")).unwrap_or_default();
    let text = quoted(&refusal.text);
    let body =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{},\"message\":{text}{data}}}}}", refusal.code);
    json_body(status, body.into())
}

/// [`error`] where no request's id is known.
pub fn refuse(status: StatusCode, code: i64, text: &str) -> Response {
    error(status, "null", &Refusal { code, text: text.to_owned(), data: None })
}

pub fn not_allowed() -> Response {
    let text = "only POST works here without a session";
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, protocol::INVALID_REQUEST, text);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Refuses a request of a revision that is not spoken here.
pub fn unknown_version(id: &str, version: &str) -> Response {
    let spoken: Vec<&str> = [protocol::MODERN].iter().chain(protocol::LEGACY).copied().collect();
    let text =
        format!("header `MCP-Protocol-Version` says `{version}`, which is not spoken here; {} are", spoken.join(", "));
    let data = format!("{{\"supported\":[\"{}\"],\"requested\":{}}}", spoken.join("\",\""), quoted(version));
    error(StatusCode::BAD_REQUEST, id, &Refusal { code: protocol::UNSUPPORTED_VERSION, text, data: Some(data) })
}
