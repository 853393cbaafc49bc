//! Owns the MCP endpoint over HTTP: each request's era, session and stream, and the status it is answered with.
//! What is answered is the session's affair.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::answers::{Follow, error, event_stream, listening, not_allowed, primes, refuse, respond, unknown_version};
use super::body::Incoming;
use super::head::{self, Head, Part};
use super::headers::{self, Accepts, media_type};
use super::sessions::{Held, Sessions};
use super::{body, events};
use crate::config::HttpConfig;
use crate::protocol;
use crate::protocol::headers::{SESSION, VERSION};
use crate::session::{Refusal, Session, Surroundings};
use crate::snapshot::Principal;
use crate::wire::{self, Kind, Message, Outbox, Unreadable};

/// The endpoint, shared by all connections.
pub struct Endpoint {
    pub around: Surroundings,
    pub config: HttpConfig,
    pub bound: SocketAddr,
    pub max_message: usize,
    pub sessions: Arc<Sessions>,
}

impl Endpoint {
    /// POST: one message, or a batch of the one revision that has them.
    pub async fn post(&self, parts: &Parts, body: Incoming, principal: Principal) -> Response {
        if let Some(kind) = parts.headers.get(CONTENT_TYPE)
            && !media_type(kind).eq_ignore_ascii_case("application/json")
        {
            let text = "the body must be JSON: send `Content-Type: application/json`";
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, protocol::INVALID_REQUEST, text);
        }
        let held = parts.headers.get(SESSION).and_then(|id| self.sessions.get(id.to_str().ok()?, &principal));
        let is_asked = held.as_ref().is_some_and(|held| held.session.is_asked_anything());
        let bytes = match body.read(&parts.headers, self.max_message, is_asked).await {
            Ok(bytes) => bytes,
            Err(fault) => {
                let text = fault.to_string();
                if let (body::Fault::TooLarge { head, tail, .. }, Some(held)) = (&fault, held) {
                    held.session.id_to_refuse(head, tail, &text);
                }
                let (status, code) = fault.codes();
                return refuse(status, code, &text);
            }
        };
        match wire::handle(bytes, |bytes| Head::read(wire::one_line(bytes))).await {
            Ok(head) => self.message(parts, head, principal).await,
            Err((Unreadable::Batch, bytes)) => Box::pin(self.batch(parts, bytes, principal)).await,
            Err((why, bytes)) => wire::handle(bytes, move |bytes| unreadable(held.as_deref(), &why, &bytes)).await,
        }
    }

    async fn message(&self, parts: &Parts, head: Head, principal: Principal) -> Response {
        let method = &*head.method;
        let version = parts.headers.get(VERSION).map(|value| value.as_bytes());
        let modern = method == "server/discover"
            || head.says_version()
            || (method != "initialize" && version == Some(protocol::MODERN.as_bytes()));
        if modern {
            return self.modern(parts, head, principal).await;
        }
        let message = head.message;
        if method == "initialize" && message.kind == Kind::Request {
            return match self.sessions.begin(&self.around, principal) {
                Ok(held) => {
                    let id = HeaderValue::from_str(&held.id).expect("BUG: an id is hexadecimal");
                    let mut response = self.legacy(parts, message, held).await;
                    response.headers_mut().insert(SESSION, id);
                    response
                }
                Err(full) => refuse(
                    StatusCode::SERVICE_UNAVAILABLE,
                    protocol::INTERNAL_ERROR,
                    &format!("{full}: try again later, or end sessions with DELETE"),
                ),
            };
        }
        if let Some(version) = version.filter(|version| !is_legacy(version))
            && !parts.headers.contains_key(SESSION)
        {
            return unknown_version(message.id_text().unwrap_or("null"), &String::from_utf8_lossy(version));
        }
        match self.held(&parts.headers, &principal) {
            Ok(held) => self.legacy(parts, message, held).await,
            Err(response) => *response,
        }
    }

    /// The session that a request of a legacy client belongs to.
    fn held(&self, headers: &HeaderMap, principal: &Principal) -> Result<Arc<Held>, Box<Response>> {
        let Some(id) = headers.get(SESSION) else {
            let text = "header `Mcp-Session-Id` is missing: send `initialize` first, and the id it is answered with from \
                        then on";
            return Err(Box::new(refuse(StatusCode::BAD_REQUEST, protocol::INVALID_REQUEST, text)));
        };
        if let Some(version) = headers.get(VERSION)
            && !is_legacy(version.as_bytes())
        {
            let text = format!(
                "header `MCP-Protocol-Version` must be one of {} in a session, not `{}`",
                protocol::LEGACY.join(", "),
                String::from_utf8_lossy(version.as_bytes())
            );
            return Err(Box::new(refuse(StatusCode::BAD_REQUEST, protocol::INVALID_REQUEST, &text)));
        }
        let found = id.to_str().ok().and_then(|id| self.sessions.get(id, principal));
        found.ok_or_else(|| {
            let text = "there is no such session (any more): send `initialize` again";
            Box::new(refuse(StatusCode::NOT_FOUND, protocol::INVALID_REQUEST, text))
        })
    }

    async fn modern(&self, parts: &Parts, head: Head, principal: Principal) -> Response {
        match head.message.kind {
            Kind::Notification => return StatusCode::ACCEPTED.into_response(),
            Kind::Reply => {
                let text = "a client of 2026-07-28 answers with a request of its own, which repeats the first one";
                return refuse(StatusCode::BAD_REQUEST, protocol::INVALID_REQUEST, text);
            }
            Kind::Request => {}
        }
        let snapshot = self.around.control.snapshots.seen_by(&principal).now();
        let checked = headers::check(&parts.headers, &head, &snapshot).await;
        let says_version = head.says_version();
        let Head { message, method, is_modern, .. } = head;
        let checked = checked.and_then(|()| match is_modern {
            Ok(_) if method == "initialize" => {
                let text = "there is no method `initialize` in 2026-07-28: send requests at once".to_owned();
                Err(Refusal { code: protocol::METHOD_NOT_FOUND, text, data: None })
            }
            Ok(true) if says_version => Ok(()),
            Ok(_) => {
                let text = format!("`params._meta.{}` is missing", protocol::META_VERSION);
                Err(Refusal { code: protocol::INVALID_PARAMS, text, data: None })
            }
            Err(refusal) => Err(refusal),
        });
        if let Err(refusal) = checked {
            let status = match refusal.code {
                protocol::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
                _ => StatusCode::BAD_REQUEST,
            };
            return error(status, message.id_text().unwrap_or("null"), &refusal);
        }
        let accepts = Accepts::of(&parts.headers);
        let listens = method == "subscriptions/listen";
        if listens && !accepts.events {
            let text = "what is listened for comes as events: send `Accept: application/json, text/event-stream`";
            let refusal = Refusal { code: protocol::INVALID_REQUEST, text: text.to_owned(), data: None };
            return error(StatusCode::NOT_ACCEPTABLE, message.id_text().unwrap_or("null"), &refusal);
        }
        let out = if listens { listening() } else { accepts.outbox(1) };
        let session = Session::single(self.around.clone(), principal, out.clone());
        let mut single = self.sessions.add_single(session.clone());
        if listens {
            single.tell_changes(&self.around);
        }
        submit(&session, message, &out).await;
        respond(out, accepts, Follow::Modern(single)).await
    }

    async fn legacy(&self, parts: &Parts, message: Message, held: Arc<Held>) -> Response {
        let in_use = held.use_it();
        let is_request = message.kind == Kind::Request;
        let accepts = Accepts::of(&parts.headers);
        let out = accepts.outbox(1);
        submit(&held.session, message, &out).await;
        if !is_request {
            return StatusCode::ACCEPTED.into_response();
        }
        respond(out, accepts, Follow::Legacy(held, in_use)).await
    }

    async fn batch(&self, parts: &Parts, bytes: Bytes, principal: Principal) -> Response {
        let held = match self.held(&parts.headers, &principal) {
            Ok(held) => held,
            Err(response) => return *response,
        };
        let parsed = match wire::handle(bytes, |bytes| head::parts(&bytes)).await {
            Ok(parsed) => parsed,
            Err(error) => {
                let text = format!("the text is not JSON: {error}");
                return refuse(StatusCode::BAD_REQUEST, protocol::PARSE_ERROR, &text);
            }
        };
        if !held.session.takes_batches() || parsed.is_empty() {
            let text = format!("a batch of messages must not be empty, and only {} has them", protocol::WITH_BATCHES);
            return refuse(StatusCode::BAD_REQUEST, protocol::INVALID_REQUEST, &text);
        }
        let in_use = held.use_it();
        let is_answered = |part: &&Part| !matches!(part, Ok(message) if message.kind != Kind::Request);
        let answers = parsed.iter().filter(is_answered).count();
        let accepts = Accepts::of(&parts.headers);
        let out = accepts.outbox(answers);
        for part in parsed {
            match part {
                Ok(message) => submit(&held.session, message, &out).await,
                Err((why, part)) => held.session.no_member(&why, &part, &out),
            }
        }
        if answers == 0 {
            return StatusCode::ACCEPTED.into_response();
        }
        respond(out, accepts, Follow::Batch(held, in_use)).await
    }

    /// GET: the stream of what belongs to no request, or a stream that broke.
    pub fn get(&self, parts: &Parts, principal: &Principal) -> Response {
        if !parts.headers.contains_key(SESSION) {
            return not_allowed();
        }
        if !Accepts::of(&parts.headers).events {
            let text = "a stream of events is all there is here: send `Accept: text/event-stream`";
            return refuse(StatusCode::NOT_ACCEPTABLE, protocol::INVALID_REQUEST, text);
        }
        let held = match self.held(&parts.headers, principal) {
            Ok(held) => held,
            Err(response) => return *response,
        };
        let last = parts.headers.get("last-event-id").filter(|id| !id.is_empty());
        let found = last.map(|id| held.stream_after(events::read_id(id.to_str().ok()?)?));
        let Some((stream, cursor)) = found.unwrap_or_else(|| Some((held.news().clone(), held.news().last()))) else {
            // Not 404, which says that the session is gone.
            let text = "`Last-Event-ID` names no event that can be taken up here (any more): what came after it is lost; \
                        send GET without it to listen for news";
            return refuse(StatusCode::BAD_REQUEST, protocol::INVALID_REQUEST, text);
        };
        let prime = primes(&held);
        let in_use = held.use_it();
        event_stream(stream.follow(cursor, prime, in_use))
    }

    /// DELETE: the client ends its session.
    pub fn delete(&self, parts: &Parts, principal: &Principal) -> Response {
        if !parts.headers.contains_key(SESSION) {
            return not_allowed();
        }
        match self.held(&parts.headers, principal) {
            Ok(held) => {
                self.sessions.remove(&held.id);
                StatusCode::OK.into_response()
            }
            Err(response) => *response,
        }
    }
}

/// Gives a message to the session; a large one on a thread of its own.
async fn submit(session: &Arc<Session>, message: Message, out: &Arc<Outbox>) {
    let (session, out) = (session.clone(), out.clone());
    wire::handle(message.line.clone(), move |_| session.message(message, &out)).await;
}

/// Whether a header names a revision with sessions.
fn is_legacy(version: &[u8]) -> bool {
    protocol::LEGACY.iter().any(|legacy| legacy.as_bytes() == version)
}

/// Refuses what is no message.
fn unreadable(held: Option<&Held>, why: &Unreadable, bytes: &[u8]) -> Response {
    let code = match why {
        Unreadable::NotMessage(_) => protocol::INVALID_REQUEST,
        _ => protocol::PARSE_ERROR,
    };
    let text = format!("{why}: the body must be one JSON-RPC message");
    let id = match held {
        Some(held) => held.session.id_to_refuse(bytes, bytes, &text),
        None => wire::salvage::salvage_id(bytes, bytes),
    };
    let id = id.unwrap_or("null");
    error(StatusCode::BAD_REQUEST, id, &Refusal { code, text, data: None })
}
