//! Owns one call in flight: what is asked of which source's tool, within which limits, and the way back.
//! It knows no session and no source: a call carries its own way back, and a source learns nothing else of its client.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::config::CallLimits;
use crate::name::{SourceId, ToolName};
use crate::protocol::{self, Era};
use crate::wire::{Closed, Message, Object, Outbox, Piece, Span, quoted};

/// One request to one tool.
pub struct Call {
    pub source: SourceId,
    pub tool: ToolName,
    pub request: CallRequest,
    pub limits: CallLimits,
    pub ticket: Arc<Ticket>,
    pub back: Box<dyn ReturnPath>,
}

/// Where a call's progress and its end go.
pub trait ReturnPath: Send + Sync {
    /// The one end of the call.
    fn end(self: Box<Self>, end: End);
    /// A progress notification of the source; `token` is where its token stands.
    fn progress(&self, notice: &Message, token: Span);
    /// The call has not been sent yet; tells whoever asked for progress why.
    fn waits(&self, why: &str);
    /// The connection the answers go to, if it can fill up.
    fn outbox(&self) -> Option<&Arc<Outbox>>;
}

/// How a call ended.
pub enum End {
    /// The source's own reply and the era it speaks.
    Reply(Message, Era),
    Failed(CallError),
}

/// The machine-readable kind of a failed call (the relay's contract, `structuredContent.error.kind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    UnknownSource,
    UnknownTool,
    Withheld,
    InvalidArguments,
    Unavailable,
    Starting,
    TimedOut,
    Exited,
    Busy,
    Cancelled,
    /// The source's own JSON-RPC error, where it cannot be passed on as one (within a batch).
    SourceError,
}

impl ErrorKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownSource => "unknown_source",
            Self::UnknownTool => "unknown_tool",
            Self::Withheld => "withheld",
            Self::InvalidArguments => "invalid_arguments",
            Self::Unavailable => "unavailable",
            Self::Starting => "starting",
            Self::TimedOut => "timed_out",
            Self::Exited => "exited",
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::SourceError => "source_error",
        }
    }
}

/// Why a call failed on the relay's side: what, why, and what to do. Boxed, because it is rare and calls are not.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", .0.message)]
pub struct CallError(Box<Facts>);

/// What is known of a failure.
#[derive(Debug, Clone)]
pub struct Facts {
    pub kind: ErrorKind,
    pub source: Option<String>,
    pub tool: Option<String>,
    pub message: String,
    pub hint: String,
    pub similar: Vec<String>,
    pub input_schema: Option<Box<RawValue>>,
    /// The source's own JSON-RPC error, where there is one.
    pub cause: Option<Box<RawValue>>,
}

impl CallError {
    pub fn new(kind: ErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self(Box::new(Facts {
            kind,
            source: None,
            tool: None,
            message: message.into(),
            hint: hint.into(),
            similar: Vec::new(),
            input_schema: None,
            cause: None,
        }))
    }

    /// In words, for a model: what, why, and what to do.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}. {}.", self.message, self.hint);
        if !self.similar.is_empty() {
            text.push_str(&format!(" Similar: {}.", self.similar.join(", ")));
        }
        if let Some(schema) = &self.input_schema {
            text.push_str(&format!(" Its input schema: {schema}"));
        }
        text
    }

    /// As the contract has it: `{kind, source?, tool?, message, hint, similar?, inputSchema?, sourceError?}`.
    pub fn to_json(&self) -> String {
        let mut members = vec![format!("\"kind\":{}", quoted(self.kind.as_str()))];
        members.extend(self.source.as_ref().map(|source| format!("\"source\":{}", quoted(source))));
        members.extend(self.tool.as_ref().map(|tool| format!("\"tool\":{}", quoted(tool))));
        members.push(format!("\"message\":{}", quoted(&self.message)));
        members.push(format!("\"hint\":{}", quoted(&self.hint)));
        if !self.similar.is_empty() {
            let similar: Vec<_> = self.similar.iter().map(|name| quoted(name)).collect();
            members.push(format!("\"similar\":[{}]", similar.join(",")));
        }
        members.extend(self.input_schema.as_ref().map(|schema| format!("\"inputSchema\":{schema}")));
        members.extend(self.cause.as_ref().map(|cause| format!("\"sourceError\":{cause}")));
        format!("{{{}}}", members.join(","))
    }

    /// The same failure with the source and the tool it concerns.
    pub fn at(mut self, source: &str, tool: Option<&str>) -> Self {
        self.source = Some(source.to_owned());
        self.tool = tool.map(str::to_owned).or(self.0.tool.take());
        self
    }
}

impl std::ops::Deref for CallError {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.0
    }
}

impl std::ops::DerefMut for CallError {
    fn deref_mut(&mut self) -> &mut Facts {
        &mut self.0
    }
}

/// Where a call is, so that it can be taken back from there.
#[derive(Default)]
pub struct Ticket(Mutex<Place>);

#[derive(Default)]
enum Place {
    /// Not yet given to a connection.
    #[default]
    Waiting,
    Sent(Weak<dyn Recall>, u64),
    Cancelled,
}

/// A connection that can take back a call it was given.
pub trait Recall: Send + Sync {
    /// Forgets the call and tells the source.
    fn recall(&self, id: u64, reason: Option<&str>);
}

impl Ticket {
    /// Notes where the call went; `false` when it was cancelled before.
    pub fn sent(&self, to: Weak<dyn Recall>, id: u64) -> bool {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, Place::Cancelled) {
            return false;
        }
        *place = Place::Sent(to, id);
        true
    }

    pub fn is_cancelled(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), Place::Cancelled)
    }

    /// Takes the call back, wherever it is.
    pub fn cancel(&self, reason: Option<&str>) {
        let place = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), Place::Cancelled);
        if let Place::Sent(to, id) = place
            && let Some(to) = to.upgrade()
        {
            to.recall(id, reason);
        }
    }
}

/// A `tools/call` request as the client sent it, with what has to change on its way to the source.
pub struct CallRequest {
    line: Bytes,
    id: Span,
    params: Span,
    /// The name's place, and the name to write there if it differs.
    name: (Span, Option<String>),
    /// The arguments' place (empty where they have to be put in), and what to write there.
    arguments: Option<(Span, Arguments)>,
    meta: Option<Span>,
    wants_progress: bool,
}

/// Arguments to put into a request.
pub enum Arguments {
    Empty,
    /// A range of the same message.
    Within(Span),
    Text(String),
}

/// Why a `tools/call` request cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    #[error("`params` is no object")]
    NoParams,
    #[error("`params.{0}` stands there more than once, or in another letter case")]
    Ambiguous(&'static str),
    #[error("`params.name` is missing or no string")]
    NoName,
    #[error("`params._meta` is no object")]
    BadMeta,
    #[error("`params.arguments` is no object")]
    BadArguments,
}

impl CallRequest {
    /// Reads a `tools/call` request; gives the name it asks for, and its arguments' place.
    pub fn read(message: &Message) -> Result<(Self, String, Option<Span>), BadRequest> {
        let params = message.params.ok_or(BadRequest::NoParams)?;
        let object = Object::parse(message.text(params)).ok_or(BadRequest::NoParams)?;
        if let Some(name) = object.ambiguous(&["name", "arguments", "_meta"]) {
            return Err(BadRequest::Ambiguous(name));
        }
        let span = |text: &str| Span::of(&message.line, text);
        let raw_name = object.get("name").ok_or(BadRequest::NoName)?;
        let name = crate::wire::unquoted(raw_name).ok_or(BadRequest::NoName)?.into_owned();
        let meta = object.get("_meta").filter(|text| *text != "null");
        let wants_progress = match meta {
            Some(text) => Object::parse(text).ok_or(BadRequest::BadMeta)?.get("progressToken").is_some(),
            None => false,
        };
        let arguments = object.get("arguments");
        if arguments.is_some_and(|text| text != "null" && !text.starts_with('{') && !text.starts_with('"')) {
            return Err(BadRequest::BadArguments);
        }
        let request = Self {
            line: message.line.clone(),
            id: message.id.expect("BUG: a request has an id"),
            params,
            name: (span(raw_name), None),
            // A client that sends null means that there are none; a source may not take null.
            arguments: arguments.filter(|text| *text == "null").map(|text| (span(text), Arguments::Empty)),
            meta: object.get("_meta").map(span),
            wants_progress,
        };
        Ok((request, name, arguments.map(span)))
    }

    /// The request as it goes to `tool`: its own name instead of the one the client used.
    pub fn named(mut self, tool: &ToolName, asked: &str) -> Self {
        if tool.as_str() != asked {
            self.name.1 = Some(quoted(tool.as_str()));
        }
        self
    }

    /// The request with other arguments than the message's own.
    pub fn with_arguments(mut self, place: Option<Span>, arguments: Arguments) -> Self {
        let end_of_name = Span { start: self.name.0.end, end: self.name.0.end };
        self.arguments = Some((place.unwrap_or(end_of_name), arguments));
        self
    }

    /// The text of the arguments as they go to the source.
    pub fn arguments_text(&self) -> &str {
        let text = |span: Span| std::str::from_utf8(&self.line[span.range()]).unwrap_or_default();
        match &self.arguments {
            Some((_, Arguments::Empty)) => "{}",
            Some((_, Arguments::Within(span))) => text(*span),
            Some((_, Arguments::Text(written))) => written,
            None => Object::parse(text(self.params)).and_then(|params| params.get("arguments")).unwrap_or("{}"),
        }
    }

    pub fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    /// Queues the request with the relay's own id, in the source's era.
    pub fn send(&self, outbox: &Outbox, id: u64, era: Era) -> Result<(), Closed> {
        let id_text = id.to_string();
        let mut edits: Vec<(Span, Piece<'_>)> = vec![(self.id, Piece::Text(&id_text))];
        if let (span, Some(name)) = &self.name {
            edits.push((*span, Piece::Text(name)));
        }
        let insertion;
        if let Some((span, arguments)) = &self.arguments {
            let piece = match arguments {
                Arguments::Empty => Piece::Text("{}"),
                Arguments::Within(inner) => Piece::Slice(&self.line, inner.start, inner.end),
                Arguments::Text(text) => Piece::Text(text),
            };
            if span.start == span.end {
                insertion = format!(",\"arguments\":{}", self.piece_text(piece));
                edits.push((*span, Piece::Text(&insertion)));
            } else {
                edits.push((*span, piece));
            }
        }
        let meta = self.meta_text(&id_text, era);
        if let Some((span, text)) = &meta {
            edits.push((*span, Piece::Text(text)));
        }
        edits.sort_by_key(|(span, _)| span.start);
        let mut pieces = Vec::with_capacity(2 * edits.len() + 1);
        let mut at = 0;
        for (span, piece) in edits {
            pieces.push(Piece::Slice(&self.line, at, span.start));
            pieces.push(piece);
            at = span.end;
        }
        pieces.push(Piece::Slice(&self.line, at, self.line.len()));
        outbox.send(&pieces)
    }

    fn piece_text<'a>(&'a self, piece: Piece<'a>) -> &'a str {
        match piece {
            Piece::Text(text) => text,
            Piece::Slice(bytes, start, end) => {
                std::str::from_utf8(&bytes[start..end]).expect("BUG: a span lies on character borders")
            }
        }
    }

    /// What `_meta` has to say towards the source, if that differs from what the client wrote.
    fn meta_text(&self, id: &str, era: Era) -> Option<(Span, String)> {
        let text = |span: Span| std::str::from_utf8(&self.line[span.range()]).expect("BUG: a span of text");
        let object = self.meta.and_then(|span| Object::parse(text(span)));
        let hop_owned = |name: &str| name.starts_with(protocol::META_PREFIX) || name == "progressToken";
        let own = object.iter().flat_map(|object| &object.members).any(|member| hop_owned(&member.key));
        if era == Era::Legacy && !own {
            return None;
        }
        let mut more = Vec::new();
        let token = format!("\"progressToken\":{id}");
        if self.wants_progress {
            more.push(token.as_str());
        }
        if era == Era::Modern {
            more.extend(protocol::modern_meta_members());
        }
        let empty = Object { text: "{}", members: Vec::new() };
        let value = object.as_ref().unwrap_or(&empty).rewritten(|name| !hop_owned(name), &more);
        Some(match self.meta {
            Some(span) => (span, value),
            None => {
                let start = self.params.start + 1;
                (Span { start, end: start }, format!("\"_meta\":{value},"))
            }
        })
    }
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(300), total: Duration::from_secs(3600) }
    }
}
