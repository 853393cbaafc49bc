//! Owns what is made of each line that a source writes to its standard output: a message, the wreck of one, or noise.
//! It does not read the lines, and does not know what a message leads to.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::link::Link;
use super::stderr::StderrTail;
use crate::protocol;
use crate::wire::message::number;
use crate::wire::salvage::{self, Wreck};
use crate::wire::{self, Kind, Line, Message, Object, Outbox, Piece, Unreadable, quoted, unquoted};

/// How much of a stray line is shown.
const SAMPLE: usize = 120;

/// Takes a line. Gives the outbox that was written to, or the reason if the connection must end for what was sent.
pub async fn take_line(link: &Arc<Link>, tail: &StderrTail, line: Line) -> Result<Option<Arc<Outbox>>, String> {
    match line {
        Line::Whole(bytes) => {
            let (link, tail) = (link.clone(), tail.clone());
            let handler = move |bytes| match Message::parse(bytes) {
                Ok(message) => Ok(take_message(&link, &tail, &message)),
                Err((why, bytes)) => stray_line(&link, &tail, &why, &bytes),
            };
            wire::handle(bytes, handler).await
        }
        Line::TooLong { head, tail: end, length } => {
            let why = format!("the message has {length} bytes, more than `max_message_mib` of the relay allows");
            tracing::warn!(length, "message over the limit skipped");
            Ok(broken(link, &Wreck::of(&head, &end), &why).flatten())
        }
    }
}

/// Takes what stands at the end without a line end. What breaks off in the middle is no answer: its call ends with the
/// process.
pub fn take_rest(link: &Link, tail: &StderrTail, bytes: Bytes) {
    match Message::parse(bytes) {
        Ok(message) => drop(link.receive(&message)),
        Err((_, bytes)) => {
            link.noise.leaves_open(0);
            note_noise(link, tail, &bytes);
        }
    }
}

/// Takes what can be read, if it is meant as a message.
fn take_message(link: &Link, tail: &StderrTail, message: &Message) -> Option<Arc<Outbox>> {
    if is_echo(link, message) {
        link.noise.note_echo();
    } else if !is_log_line(message) {
        return link.receive(message);
    }
    note_noise(link, tail, &message.line);
    None
}

/// The relay's own request coming back, as from a terminal or from `cat`.
fn is_echo(link: &Link, message: &Message) -> bool {
    message.kind == Kind::Request
        && is_own_method(&message.method_name())
        && message.number_id().is_some_and(|id| link.is_awaited(id))
}

/// Whether only the relay asks this of a source, and no source of the relay.
fn is_own_method(method: &str) -> bool {
    let area = method.split('/').next().unwrap_or_default();
    let areas = ["initialize", "server", "tools", "prompts", "resources", "completion", "logging", "subscriptions"];
    areas.contains(&area)
}

/// Whether it only looks like a message: without `jsonrpc` (which some sources leave out), but with members that no message
/// has, as a log line in JSON.
fn is_log_line(message: &Message) -> bool {
    if message.regular {
        return false;
    }
    let text = std::str::from_utf8(&message.line).ok().and_then(Object::parse);
    text.is_some_and(|object| {
        let has = |name: &str| object.get(name).is_some();
        !has("jsonrpc") && object.members.iter().any(|member| !salvage::MEMBERS.contains(&&*member.key))
    })
}

/// What is left of a message that cannot be read: a reply ends its call at once, a request is refused. `None` where it is no
/// part of the conversation.
fn broken(link: &Link, wreck: &Wreck<'_>, why: &str) -> Option<Option<Arc<Outbox>>> {
    let id = wreck.id?;
    if wreck.is_reply() {
        return link.broken_reply(number(id)?, why).map(Some);
    }
    let method = unquoted(wreck.method?).unwrap_or_default();
    if !wreck.is_request() || is_own_method(&method) {
        return None;
    }
    tracing::warn!(%method, why, "request that cannot be read refused");
    let error = format!("{{\"code\":{},\"message\":{}}}", protocol::INVALID_REQUEST, quoted(why));
    let parts = ["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"error\":", &error, "}"].map(Piece::Text);
    link.note_asked(id.len());
    let _ = link.outbox.send(&parts);
    Some(None)
}

/// Takes the messages of a line on which more stands than one: another message, as of programs that write a message and its
/// line end apart and from several threads, or text. `None` if there is none. Only what is whole from the first brace on
/// counts: what stands within the wreck of a message is no message.
fn take_glued(link: &Link, tail: &StderrTail, bytes: &Bytes) -> Option<Option<Arc<Outbox>>> {
    let (mut found, mut strays) = (None, Vec::new());
    let mut at = 0;
    while let Some(start) = memchr::memchr(b'{', &bytes[at..]).map(|start| at + start) {
        let mut values = serde_json::Deserializer::from_slice(&bytes[start..]).into_iter::<&RawValue>();
        let Some(Ok(value)) = values.next() else { break };
        at = start + values.byte_offset();
        match Message::parse(bytes.slice_ref(value.get().as_bytes())) {
            Ok(message) if message.regular => {
                let outbox = take_message(link, tail, &message);
                found = Some(outbox.or(found.flatten()));
            }
            _ => strays.push(value.get().as_bytes()),
        }
    }
    let mut found = found?;
    let rest = bytes[at..].trim_ascii();
    if !rest.is_empty() {
        let why = Unreadable::NotJson("it stands behind another message and breaks off".to_owned()).to_string();
        match broken(link, &Wreck::of(rest, rest), &why) {
            Some(outbox) => found = outbox.or(found),
            None => strays.push(rest),
        }
    }
    strays.iter().for_each(|stray| note_noise(link, tail, stray));
    Some(found)
}

/// Whether every second of the first bytes is zero, as in ASCII that is written as UTF-16.
fn is_utf16(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xff\xfe").or_else(|| bytes.strip_prefix(b"\xfe\xff")).unwrap_or(bytes);
    let is_zero = |at: usize| text.iter().skip(at).step_by(2).take(8).all(|byte| *byte == 0);
    text.len() >= 16 && (is_zero(0) || is_zero(1))
}

/// A line that is no message is skipped; if it is the wreck of a reply, its call ends at once.
fn stray_line(link: &Link, tail: &StderrTail, why: &Unreadable, bytes: &Bytes) -> Result<Option<Arc<Outbox>>, String> {
    match why {
        Unreadable::NotUtf8 => {
            // Better a replacement character than no answer at all.
            let text = String::from_utf8_lossy(bytes).into_owned();
            if let Ok(message) = Message::parse(text.into()) {
                tracing::warn!("message that is not UTF-8 repaired with replacement characters");
                return Ok(take_message(link, tail, &message));
            }
        }
        Unreadable::NotObject | Unreadable::NotJson(_) => {
            if let Some(outbox) = take_glued(link, tail, bytes) {
                return Ok(outbox);
            }
        }
        Unreadable::Batch => {
            if let Ok(parts) = serde_json::from_slice::<Vec<&RawValue>>(bytes) {
                let messages = parts.iter().map(|part| Message::parse(bytes.slice_ref(part.get().as_bytes())));
                return Ok(messages
                    .filter_map(Result::ok)
                    .filter_map(|message| take_message(link, tail, &message))
                    .last());
            }
        }
        _ => {}
    }
    if !link.has_spoken()
        && let Some(length) = bytes.strip_prefix(b"Content-Length:").or_else(|| bytes.strip_prefix(b"content-length:"))
        && length.trim_ascii().iter().all(u8::is_ascii_digit)
    {
        return Err(
            "it frames its messages with Content-Length headers; over stdio MCP has one JSON message a line".into()
        );
    }
    if !link.has_spoken() && is_utf16(bytes) {
        return Err("it writes UTF-16; MCP is UTF-8 (a shell or a logger in between may have changed it)".into());
    }
    if matches!(why, Unreadable::NotJson(_) | Unreadable::NotUtf8 | Unreadable::NotMessage(_))
        && let Some(outbox) = broken(link, &Wreck::of(bytes, bytes), &why.to_string())
    {
        return Ok(outbox);
    }
    note_noise(link, tail, bytes);
    Ok(None)
}

fn note_noise(link: &Link, tail: &StderrTail, bytes: &[u8]) {
    let sample = || tail.masked(&String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SAMPLE)]), SAMPLE);
    if let Some(sample) = link.noise.add(sample) {
        tracing::warn!(count = link.noise.lines(), sample, "line on stdout is no message, skipped");
    }
}
