//! What must hold for any bytes at all, one function a parser. The fuzz targets and `tests/fuzz_corpus.rs` call the same ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, ReadBuf};
use toolrelay::catalog::definition::Definition;
use toolrelay::catalog::lock::{Lock, Tools};
use toolrelay::config::{self, Lookup};
use toolrelay::name::{SourceId, ToolName};
use toolrelay::wire::message::Span;
use toolrelay::wire::salvage::salvage_id;
use toolrelay::wire::sse::{Event, SseReader};
use toolrelay::wire::{Line, LineReader, Message, Object, Unreadable};

/// A line of either side: the message, its object, and the id that is saved from a wreck.
pub fn message(bytes: &[u8]) {
    let salvaged = salvage_id(bytes, bytes);
    if let Some(id) = salvaged {
        let raw: &RawValue = serde_json::from_str(id).expect("a salvaged id is JSON");
        assert!(!raw.get().starts_with(['{', '[']), "an id is a string or a number: {id}");
    }
    // A message over the limit is known by its two ends only.
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    salvage_id(head, tail);
    let text = std::str::from_utf8(bytes).ok();
    let read = Message::parse(Bytes::copy_from_slice(bytes));
    assert_eq!(text.is_none(), matches!(read, Err((Unreadable::NotUtf8, _))));
    match read {
        Ok(message) => {
            is_json(&message.line);
            parsed(&message);
        }
        // A byte order mark and blanks at the start may be gone, nothing else.
        Err((why, rest)) => {
            assert!(bytes.ends_with(&rest));
            match why {
                Unreadable::NotJson(_) => assert!(serde_json::from_slice::<&RawValue>(&rest).is_err()),
                Unreadable::NotMessage(_) => is_json(&rest),
                Unreadable::NotUtf8 | Unreadable::Batch | Unreadable::NotObject => {}
            }
        }
    }
    let Some(text) = text else { return };
    let found = Object::parse(text);
    let raw = serde_json::from_str::<&RawValue>(text).ok();
    assert_eq!(found.is_some(), raw.is_some_and(|raw| raw.get().starts_with('{')));
    if let Some(found) = found {
        object(&found, salvaged);
        // Keys that are no text fail there.
        let values: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
        for (name, value) in values {
            let own = found.get(&name).expect("a member is found");
            assert_eq!((own, own.as_ptr()), (value.get(), value.get().as_ptr()), "{name}");
        }
    }
}

/// What was taken for JSON is it, but that the names of a message's own members may hold control characters.
fn is_json(text: &[u8]) {
    let has_control = text.iter().any(|byte| byte.is_ascii_control());
    assert!(has_control || serde_json::from_slice::<&RawValue>(text).is_ok());
}

/// Each part is JSON, and what a parser that reads everything finds there.
fn parsed(message: &Message) {
    let whole: Option<Value> = serde_json::from_slice(&message.line).ok();
    let parts = [
        ("id", message.id),
        ("method", message.method),
        ("params", message.params),
        ("result", message.result),
        ("error", message.error),
    ];
    for (name, span) in parts {
        let Some(span) = span else { continue };
        let text = message.text(span);
        assert_eq!(message.slice(span), text.as_bytes());
        serde_json::from_str::<&RawValue>(text).expect("a part is JSON");
        if let Some(whole) = &whole {
            assert_eq!(Some(&serde_json::from_str::<Value>(text).expect("part of a whole")), whole.get(name), "{name}");
        }
    }
    assert!(message.result.is_none() || message.error.is_none());
    let _ = (message.method_name(), message.params_text(), message.number_id(), message.id_text());
    let _ = Span::of(&message.line, message.text(Span { start: 0, end: message.line.len() }));
}

/// An object written again is the same, and an id is saved from it only if it is its own.
fn object(found: &Object<'_>, salvaged: Option<&str>) {
    let members = |object: &Object<'_>| -> Vec<(String, String)> {
        object.members.iter().map(|member| (member.key_raw.to_owned(), member.value.to_owned())).collect()
    };
    let same = found.rewritten(|_| true, &[]);
    let again = Object::parse(&same).expect("a rewritten object is one");
    assert_eq!(members(&again), members(found));
    let more = found.rewritten(|name| name != "id", &["\"id\":7"]);
    let more = Object::parse(&more).expect("a changed object is one");
    assert_eq!(more.get("id"), Some("7"));
    let _ = (found.ambiguous(&["id", "method"]), found.string("method"));
    let mut ids = found.members.iter().filter(|member| member.key == "id");
    match (ids.next(), ids.next()) {
        (None, _) => assert_eq!(salvaged, None),
        (Some(id), None)
            if id.key_raw == "\"id\""
                && id.value.starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) =>
        {
            assert_eq!(salvaged, Some(id.value));
        }
        _ => {}
    }
}

/// A stream of lines is cut at its line ends, wherever the reads end, and a line over the limit costs no other.
pub fn lines(bytes: &[u8]) {
    let [limit, step, stream @ ..] = bytes else { return };
    let (limit, step) = (usize::from(*limit) + 1, usize::from(*step) + 1);
    if stream.windows(2).any(|pair| pair == b"\r\r") {
        // Only the last of them belongs to the line end, which the model below does not tell apart.
        cut(Pieces { rest: stream, step }, limit);
        return;
    }
    let short = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // At the limit itself a carriage return may count or not.
        (line.len() < limit && !line.trim_ascii().is_empty()).then(|| line.to_vec())
    };
    let wanted: Vec<Vec<u8>> = stream.split(|byte| *byte == b'\n').filter_map(short).collect();
    for step in [step, usize::MAX] {
        let found = cut(Pieces { rest: stream, step }, limit);
        let found = found.into_iter().filter_map(|line| match line {
            Line::Whole(line) => short(&line),
            Line::TooLong { length, head, tail } => {
                assert!(length > limit as u64 && head.len() as u64 <= length && tail.len() as u64 <= length);
                None
            }
        });
        assert_eq!(found.collect::<Vec<_>>(), wanted);
    }
}

fn cut(from: Pieces<'_>, limit: usize) -> Vec<Line> {
    let mut reader = LineReader::new(from, limit);
    let mut found = Vec::new();
    while let Some(line) = reader.next().now_or_never().expect("it is all there").expect("memory can be read") {
        found.push(line);
    }
    found
}

/// Bytes that come in reads of at most `step`.
struct Pieces<'a> {
    rest: &'a [u8],
    step: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let (now, later) = self.rest.split_at(self.step.min(self.rest.len()).min(room.remaining()));
        room.put_slice(now);
        self.rest = later;
        Poll::Ready(Ok(()))
    }
}

/// A stream of events says the same wherever the reads end, and no event is over the limit.
pub fn sse(bytes: &[u8]) {
    let [limit, step, stream @ ..] = bytes else { return };
    let (limit, step) = (4 * usize::from(*limit) + 1, usize::from(*step) + 1);
    let whole = events(stream.chunks(stream.len().max(1)), limit);
    let pieces = events(stream.chunks(step), limit);
    // A line that is no data counts only while its end has not come.
    if let (Some(whole), Some(pieces)) = (whole, pieces) {
        assert_eq!(whole, pieces);
    }
}

type Heard = (Vec<Event>, Option<String>, Option<Duration>);

/// `None` where an event was refused for its length.
fn events<'a>(chunks: impl Iterator<Item = &'a [u8]>, limit: usize) -> Option<Heard> {
    let mut reader = SseReader::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        reader.feed(chunk, &mut events).ok()?;
    }
    reader.finish(&mut events).ok()?;
    for event in &events {
        assert!(!event.data.is_empty() && event.data.len() <= limit + 16);
    }
    Some((events, reader.last_id().map(str::to_owned), reader.retry()))
}

/// A configuration is told the same twice, runs nothing, and each fault has its place, its cause and its remedy.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = Path::new("/folder/sources.toml");
    let first = config::check(text, file, &Nothing);
    assert_eq!(first, config::check(text, file, &Nothing));
    let lines = text.split('\n').count();
    match first {
        Ok(config) => {
            for fault in &config.faults {
                assert!((1..=lines).contains(&fault.line) && fault.column >= 1, "{fault}");
                assert!(!fault.cause.is_empty() && !fault.hint.is_empty(), "{fault}");
            }
        }
        Err(error) => {
            assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error}");
            assert!(!error.cause.is_empty() && !error.hint.is_empty(), "{error}");
        }
    }
}

/// A lock that is read and written again is the same lock, and is written the same again; a fault has its line and its cause.
/// The same text also stands for a tool: its name in the first line, and its definition.
pub fn lock(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Lock::read(text) {
        Ok(lock) => locked(&lock),
        Err(fault) => {
            assert!((1..=text.split('\n').count()).contains(&fault.line), "{fault}");
            assert!(!fault.cause.is_empty());
        }
    }
    let (name, raw) = text.split_once('\n').unwrap_or(("tool", text));
    let tools = Tools::from([(ToolName::new(name), Definition::of(name, raw))]);
    let source = SourceId::new("a").expect("an id");
    locked(&Lock { sources: [(source, tools)].into(), ..Lock::default() });
}

fn locked(lock: &Lock) {
    let written = lock.text();
    let again = Lock::read(&written).unwrap_or_else(|fault| panic!("{fault}: {written}"));
    assert_eq!(again, *lock, "{written}");
    assert_eq!(again.text(), written);
    // How line ends are written, and a mark before the text, do not matter.
    assert_eq!(Lock::read(&format!("\u{feff}{}", written.replace('\n', "\r\n"))).as_ref(), Ok(lock));
}

/// A machine with one variable, one file and no programs.
struct Nothing;

impl Lookup for Nothing {
    fn var(&self, name: &str) -> Option<String> {
        (name == "SET").then(|| "value".to_owned())
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        if path == Path::new("/folder/file") { Ok("text".to_owned()) } else { Err("no such file".to_owned()) }
    }

    fn is_file(&self, path: &Path) -> bool {
        path == Path::new("/folder/file")
    }

    fn command(&self, argv: &[String]) -> Result<String, String> {
        panic!("a check runs nothing: {argv:?}")
    }

    fn home(&self) -> Option<PathBuf> {
        None
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }

    fn vars(&self) -> Vec<(String, String)> {
        vec![("SET".to_owned(), "value".to_owned())]
    }
}
