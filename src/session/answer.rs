//! Owns the frames that answer one request: results, errors, and a source's own replies put into the client's era.
//! It does not decide what is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::{CallError, OfferShape, error_shape};
use crate::protocol::{self, Era};
use crate::wire::{Message, Object, Outbox, Piece, Role, Span, quoted};

/// `resultType` values a client can be given (SEP-2322).
const RESULT_TYPES: &[&str] = &["complete", "input_required", "task"];

/// One request of a client: its id, the shapes it is answered in, and the way there.
#[derive(Clone)]
pub struct Exchange {
    /// As the client wrote it; `null` where it could not be read.
    pub id: Arc<str>,
    /// Its own, in the order of arrival: a client may use an id again.
    pub number: u64,
    /// In the shapes of 2026-07-28.
    pub modern: bool,
    /// The shape that the result of a source has to have, where it is not that of a tool.
    pub offer: Option<OfferShape>,
    pub out: Arc<Outbox>,
}

impl Exchange {
    pub fn new(id: &str, modern: bool, out: &Arc<Outbox>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Self { id: id.into(), number, modern, offer: None, out: out.clone() }
    }

    /// Answers with a result; `members` is the text of an object.
    pub fn result(&self, object: &str) {
        let text = if self.modern { with_result_type(object) } else { object.to_owned() };
        self.frame(
            &[
                Piece::Text("{\"jsonrpc\":\"2.0\",\"id\":"),
                Piece::Text(&self.id),
                Piece::Text(",\"result\":"),
                Piece::Text(&text),
                Piece::Text("}"),
            ],
            Role::Result,
        );
    }

    /// Answers that input is needed first (SEP-2322); `requests` is the text of an object, `state` that of a string.
    pub fn input_required(&self, requests: &str, state: Option<&str>) {
        let state = state.map(|state| format!(",\"requestState\":{state}")).unwrap_or_default();
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"resultType\":\"input_required\",\"inputRequests\":{requests}{state}}}}}",
            self.id
        );
        self.frame(&[Piece::Text(&text)], Role::Result);
    }

    /// Answers with a result that is whole as it is.
    pub fn asks(&self, result: &str) {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", self.id);
        self.frame(&[Piece::Text(&text)], Role::Result);
    }

    /// Answers with a JSON-RPC error.
    pub fn error(&self, code: i64, message: &str, data: Option<&str>) {
        let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
        self.error_text(&format!("{{\"code\":{code},\"message\":{}{data}}}", quoted(message)));
    }

    /// Answers with a JSON-RPC error, given as the text of an object.
    pub fn error_text(&self, error: &str) {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", self.id);
        self.frame(&[Piece::Text(&text)], Role::Error);
    }

    fn frame(&self, pieces: &[Piece<'_>], role: Role) {
        if self.out.answer(pieces, role).is_err() {
            tracing::debug!("client is gone, answer dropped");
        }
    }

    /// Answers a tool call with a reply of the relay's own, `json` both as structured content and as text.
    pub fn tool_result(&self, json: &str, is_error: bool) {
        let object = format!(
            "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{json},\"isError\":{is_error}}}",
            quoted(json)
        );
        self.result(&object);
    }

    /// Answers a tool call with a failure the model can act on.
    pub fn tool_error(&self, error: &CallError) {
        let object = format!(
            "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{{\"error\":{}}},\"isError\":true}}",
            quoted(&error.to_text()),
            error.to_json()
        );
        self.result(&object);
    }

    /// The result of a reply, where it has to be looked into on its way from a source of this era.
    pub fn opened<'a>(&self, reply: &'a Message, from: Era) -> Option<Object<'a>> {
        let span = reply.result.filter(|_| self.modern || from == Era::Modern)?;
        Object::parse(reply.text(span))
    }

    /// Passes on a source's reply: every byte as it came, but for the id, what belongs to the hop, and what has no legal
    /// shape. `result` is what [`Exchange::opened`] gave of it. A modern client gets `hints`, the text of members, with a
    /// result that has none of its own.
    pub fn pass_on(&self, reply: &Message, result: Option<&Object<'_>>, from: Era, hints: &str) {
        match self.offer.as_ref().and_then(|offer| offer.mended_reply(reply)) {
            Some(mended) => self.pass(&mended, self.opened(&mended, from).as_ref(), from, hints),
            None => self.pass(reply, result, from, hints),
        }
    }

    fn pass(&self, reply: &Message, result: Option<&Object<'_>>, from: Era, hints: &str) {
        if let Some(error) = reply.error {
            return match error_shape::mended(reply.text(error)) {
                None => self.pass_member(reply, "error", error, Role::Error),
                Some(mended) => self.error_text(&mended),
            };
        }
        let Some(object) = result else {
            let place = reply.result.expect("BUG: a reply has a result or an error");
            return self.pass_member(reply, "result", place, Role::Result);
        };
        match object.string("resultType").as_deref() {
            Some(kind) if from == Era::Modern && !RESULT_TYPES.contains(&kind) => {
                let text = format!("the source answered with the result type `{kind}`, which toolrelay does not carry");
                self.error(protocol::INTERNAL_ERROR, &text, None);
            }
            _ => self.pass_object(reply, object, from, hints),
        }
    }

    /// The reply with the client's id in place of the relay's.
    fn pass_member(&self, reply: &Message, name: &str, value: Span, role: Role) {
        let place = reply.id.expect("BUG: a reply has an id");
        if reply.regular {
            return self.frame(
                &[
                    Piece::Slice(&reply.line, 0, place.start),
                    Piece::Text(&self.id),
                    Piece::Slice(&reply.line, place.end, reply.line.len()),
                ],
                role,
            );
        }
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{name}\":", self.id);
        self.frame(&[Piece::Text(&head), Piece::Slice(&reply.line, value.start, value.end), Piece::Text("}")], role);
    }

    /// A result between eras: `resultType` put in or taken out, hop-owned `_meta` taken out, all else as it came.
    fn pass_object(&self, reply: &Message, object: &Object<'_>, from: Era, hints: &str) {
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{", self.id);
        let mut pieces = Vec::with_capacity(2 * object.members.len() + 6);
        pieces.push(Piece::Text(&head));
        // What a legacy source calls so is its own, and means nothing here.
        let typed = from == Era::Modern && object.get("resultType").is_some();
        if self.modern && !typed {
            pieces.push(Piece::Text("\"resultType\":\"complete\""));
        }
        if self.modern && !hints.is_empty() && object.get("ttlMs").is_none() && object.get("inputRequests").is_none() {
            if pieces.len() > 1 {
                pieces.push(Piece::Text(","));
            }
            pieces.push(Piece::Text(hints));
        }
        let meta = object
            .get("_meta")
            .and_then(Object::parse)
            .filter(|meta| meta.members.iter().any(|member| member.key.starts_with(protocol::META_PREFIX)));
        let meta = meta.map(|meta| meta.rewritten(|name| !name.starts_with(protocol::META_PREFIX), &[]));
        let meta = meta.map(|text| if text == "{}" { String::new() } else { format!("\"_meta\":{text}") });
        for member in &object.members {
            let name = &member.key;
            let text = match (name.as_ref(), &meta) {
                ("resultType", _) if self.modern != (from == Era::Modern) => continue,
                ("_meta", Some(text)) if text.is_empty() => continue,
                ("_meta", Some(text)) => Piece::Text(text),
                _ => {
                    let span = Span::of(&reply.line, member.text(object.text));
                    Piece::Slice(&reply.line, span.start, span.end)
                }
            };
            if pieces.len() > 1 {
                pieces.push(Piece::Text(","));
            }
            pieces.push(text);
        }
        pieces.push(Piece::Text("}}"));
        self.frame(&pieces, Role::Result);
    }
}

fn with_result_type(object: &str) -> String {
    let rest = &object[1..];
    let comma = if rest == "}" { "" } else { "," };
    format!("{{\"resultType\":\"complete\"{comma}{rest}")
}
