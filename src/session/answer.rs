//! Owns the frames that go to the client: results, errors, and a source's own replies put into the client's era.
//! It does not decide what is answered.

use super::{Session, Style};
use crate::call::{CallError, ErrorKind};
use crate::protocol::{self, Era};
use crate::wire::{Message, Object, Piece, Span, quoted};

/// `resultType` values a client can be given (SEP-2322).
const RESULT_TYPES: &[&str] = &["complete", "input_required"];

impl Session {
    /// Answers with a result; `members` is the text of an object.
    pub(super) fn result(&self, id: &str, object: &str, style: Style) {
        let text = if style.modern { with_result_type(object) } else { object.to_owned() };
        self.frame(&[
            Piece::Text("{\"jsonrpc\":\"2.0\",\"id\":"),
            Piece::Text(id),
            Piece::Text(",\"result\":"),
            Piece::Text(&text),
            Piece::Text("}"),
        ]);
    }

    /// Answers with a JSON-RPC error.
    pub(super) fn error(&self, id: &str, code: i64, message: &str, data: Option<&str>) {
        let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{}{data}}}}}",
            quoted(message)
        );
        self.frame(&[Piece::Text(&text)]);
    }

    pub(super) fn frame(&self, pieces: &[Piece<'_>]) {
        if self.outbox.send(pieces).is_err() {
            tracing::debug!("client is gone, answer dropped");
        }
    }

    /// Answers a tool call with a reply of the relay's own, `json` both as structured content and as text.
    pub(super) fn tool_result(&self, id: &str, json: &str, is_error: bool, style: Style) {
        let object = format!(
            "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{json},\"isError\":{is_error}}}",
            quoted(json)
        );
        self.result(id, &object, style);
    }

    /// Answers a tool call with a failure the model can act on.
    pub(super) fn tool_error(&self, id: &str, error: &CallError, style: Style) {
        let object = format!(
            "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{{\"error\":{}}},\"isError\":true}}",
            quoted(&error.to_text()),
            error.to_json()
        );
        self.result(id, &object, style);
    }

    /// Passes on a source's reply: every byte as it came, but for the id and what belongs to the hop.
    pub(super) fn pass_on(&self, id: &str, reply: &Message, from: Era, style: Style) {
        if let Some(error) = reply.error {
            if reply.text(error).starts_with('{') {
                return self.pass_member(id, reply, "error", error);
            }
            let text = format!("the source answered with an error that is no object: {}", reply.text(error));
            return self.error(id, protocol::INTERNAL_ERROR, &text, None);
        }
        let result = reply.result.expect("BUG: a reply has a result or an error");
        if from == Era::Legacy && !style.modern {
            return self.pass_member(id, reply, "result", result);
        }
        let Some(object) = Object::parse(reply.text(result)) else {
            return self.pass_member(id, reply, "result", result);
        };
        let kind = object.string("resultType").map(|kind| kind.into_owned());
        match kind.as_deref() {
            Some(kind) if from == Era::Modern && !RESULT_TYPES.contains(&kind) => {
                let text = format!("the source answered with the result type `{kind}`, which toolrelay does not carry");
                self.error(id, protocol::INTERNAL_ERROR, &text, None);
            }
            Some("input_required") if from == Era::Modern && !style.modern => {
                let text = "the source asks for input, which this client cannot be asked for through toolrelay yet";
                let hint = "give everything the tool needs in its arguments, or use another tool";
                self.tool_error(id, &CallError::new(ErrorKind::Unavailable, text, hint), style);
            }
            _ => self.pass_object(id, reply, &object, from, style),
        }
    }

    /// The reply with the client's id in place of the relay's.
    fn pass_member(&self, id: &str, reply: &Message, name: &str, value: Span) {
        let place = reply.id.expect("BUG: a reply has an id");
        if reply.regular {
            return self.frame(&[
                Piece::Slice(&reply.line, 0, place.start),
                Piece::Text(id),
                Piece::Slice(&reply.line, place.end, reply.line.len()),
            ]);
        }
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":");
        self.frame(&[Piece::Text(&head), Piece::Slice(&reply.line, value.start, value.end), Piece::Text("}")]);
    }

    /// A result between eras: `resultType` put in or taken out, hop-owned `_meta` taken out, all else as it came.
    fn pass_object(&self, id: &str, reply: &Message, object: &Object<'_>, from: Era, style: Style) {
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{");
        let mut pieces = vec![Piece::Text(&head)];
        let typed = object.get("resultType").is_some();
        if style.modern && !typed {
            pieces.push(Piece::Text("\"resultType\":\"complete\""));
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
                ("resultType", _) if !style.modern && from == Era::Modern => continue,
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
        self.frame(&pieces);
    }
}

fn with_result_type(object: &str) -> String {
    let rest = &object[1..];
    let comma = if rest == "}" { "" } else { "," };
    format!("{{\"resultType\":\"complete\"{comma}{rest}")
}
