//! Owns a client's request on its way to a source: the bytes as they came, and what has to change in them.
//! It decides nothing about where it goes.

use std::sync::Arc;

use bytes::Bytes;

use crate::name::ToolName;
use crate::protocol::{self, Era};
use crate::wire::raw::{self, Kind, Member};
use crate::wire::{Closed, Message, Object, Outbox, Piece, Span, quoted, unquoted};

/// Who makes a request, as far as a source may know: what its client can do and wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The text of its `ClientCapabilities`.
    pub capabilities: Option<Box<str>>,
    /// The text of its `clientInfo`.
    pub info: Option<Box<str>>,
    /// The text of the least level of log lines that it wants to see.
    pub log_level: Option<Box<str>>,
}

/// A client's request, with what has to change on its way to the source.
#[derive(Clone)]
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
    /// The client may take the call up again with another request, which may want progress: a source is told what it needs
    /// for that with the first one, or never.
    may_want_progress: bool,
    /// What a legacy client said of itself in its handshake; a modern one says it in each request.
    caller: Option<Arc<Caller>>,
    /// Members to put into the params: what the client answered to a source's questions.
    more: Option<String>,
    /// The place of a source's state, and what to write there.
    state: Option<(Span, String)>,
    /// It brings back a state, or answers to questions.
    comes_back: bool,
    /// What is left out of the params.
    left_out: Vec<Span>,
}

/// Members by which a request takes up what came before (SEP-2322).
pub const OF_ROUNDS: [&str; 2] = ["requestState", "inputResponses"];
/// What the requests besides `tools/call` are judged and routed by.
const ROUTED_BY: [&str; 6] = ["name", "arguments", "uri", "ref", "taskId", "_meta"];

/// The room that the hop's own members of `_meta` mostly take.
const MEMBERS_OF_HOP: usize = 512;

/// Arguments to put into a request.
#[derive(Clone)]
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

/// The token under which a client wants to be told of progress, as it wrote it: a string or a number; anything else is none.
pub fn progress_token<'a>(meta: &Object<'a>) -> Option<&'a str> {
    meta.get("progressToken").filter(|token| matches!(raw::kind(token), Kind::Text | Kind::Number))
}

fn wants_progress(params: &Object<'_>) -> Result<bool, BadRequest> {
    let Some(meta) = params.get("_meta").filter(|text| *text != "null") else { return Ok(false) };
    Ok(progress_token(&Object::parse(meta).ok_or(BadRequest::BadMeta)?).is_some())
}

impl CallRequest {
    /// Reads a `tools/call` request; gives the name it asks for, and its arguments' place.
    pub fn read(message: &Message) -> Result<(Self, String, Option<Span>), BadRequest> {
        Self::of(message, message.params_object().as_ref())
    }

    /// The same where the params have been read already.
    pub fn of(message: &Message, params: Option<&Object<'_>>) -> Result<(Self, String, Option<Span>), BadRequest> {
        let object = params.ok_or(BadRequest::NoParams)?;
        if let Some(name) = object.ambiguous(&["name", "arguments", "_meta"]).or_else(|| object.ambiguous(&OF_ROUNDS)) {
            return Err(BadRequest::Ambiguous(name));
        }
        let span = |text: &str| Span::of(&message.line, text);
        let raw_name = object.get("name").ok_or(BadRequest::NoName)?;
        let name = unquoted(raw_name).ok_or(BadRequest::NoName)?.into_owned();
        let wants_progress = wants_progress(object)?;
        let arguments = object.get("arguments");
        if arguments.is_some_and(|text| text != "null" && !text.starts_with('{') && !text.starts_with('"')) {
            return Err(BadRequest::BadArguments);
        }
        // A client that sends null means that there are none; a source may not take null.
        let none = arguments.filter(|text| *text == "null").map(|text| (span(text), Arguments::Empty));
        let request = Self { arguments: none, ..Self::plain(message, object, span(raw_name), wants_progress) };
        Ok((request, name, arguments.map(span)))
    }

    /// Reads a `prompts/get` request; `name` is the place of the prompt's name.
    pub fn read_prompt(message: &Message, name: Option<Span>) -> Result<Self, BadRequest> {
        let request = Self::read_other(message, name)?;
        let params = message.params_object().ok_or(BadRequest::NoParams)?;
        request.with_readable_arguments(&params)
    }

    /// Reads any other request; `name` is the place of what it is routed by, if that may have to be written anew.
    pub fn read_other(message: &Message, name: Option<Span>) -> Result<Self, BadRequest> {
        let object = message.params_object().ok_or(BadRequest::NoParams)?;
        if let Some(name) = object.ambiguous(&ROUTED_BY).or_else(|| object.ambiguous(&OF_ROUNDS)) {
            return Err(BadRequest::Ambiguous(name));
        }
        let name = name.unwrap_or(Span { start: 0, end: 0 });
        Ok(Self::plain(message, &object, name, wants_progress(&object)?))
    }

    /// The request as the client wrote it.
    fn plain(message: &Message, params: &Object<'_>, name: Span, wants_progress: bool) -> Self {
        Self {
            line: message.line.clone(),
            id: message.id.expect("BUG: a request has an id"),
            params: Span::of(&message.line, params.text),
            name: (name, None),
            arguments: None,
            meta: params.get("_meta").map(|text| Span::of(&message.line, text)),
            wants_progress,
            may_want_progress: false,
            caller: None,
            more: None,
            state: None,
            comes_back: OF_ROUNDS.iter().any(|name| params.get(name).is_some()),
            left_out: Vec::new(),
        }
    }

    /// The request of a call that the client may take up again.
    pub fn resumable(mut self) -> Self {
        self.may_want_progress = true;
        self
    }

    /// The request with something else written where it is routed by.
    pub fn renamed(mut self, name: &str) -> Self {
        self.name.1 = Some(quoted(name));
        self
    }

    /// The request as from a client that said this of itself.
    pub fn from(mut self, caller: Option<Arc<Caller>>) -> Self {
        self.caller = caller;
        self
    }

    /// The request once more, with what the client answered to the source's questions: `inputResponses` as the text of an
    /// object, `requestState` as the text of a string.
    pub fn answering(mut self, responses: Option<&str>, state: Option<&str>) -> Self {
        let mut more = String::new();
        for (name, text) in [("inputResponses", responses), ("requestState", state)] {
            if let Some(text) = text {
                more.push_str(&format!("\"{name}\":{text},"));
            }
        }
        self.more = Some(more).filter(|more| !more.is_empty());
        self
    }

    /// The request with another `requestState` than the message's own.
    pub fn with_state(mut self, place: Span, state: &str) -> Self {
        self.state = Some((place, quoted(state)));
        self
    }

    /// The request with its arguments as an object, where they are a string that holds one: models write them so.
    pub fn decoded(self, place: Option<Span>) -> Result<Self, BadRequest> {
        let Some(place) = place else { return Ok(self) };
        let text = std::str::from_utf8(&self.line[place.range()]).expect("BUG: a span of text");
        match decoded(text)? {
            Some(decoded) => Ok(self.with_arguments(Some(place), decoded)),
            None => Ok(self),
        }
    }

    /// The request with its arguments as an object, or without where they are null.
    fn with_readable_arguments(self, params: &Object<'_>) -> Result<Self, BadRequest> {
        let Some(text) = params.get("arguments") else { return Ok(self) };
        let place = Span::of(&self.line, text);
        match decoded(text)? {
            Some(Arguments::Empty) => Ok(self.without(&["arguments"])),
            Some(decoded) => Ok(self.with_arguments(Some(place), decoded)),
            None if text.starts_with('{') => Ok(self),
            None => Err(BadRequest::BadArguments),
        }
    }

    /// The request without some members of its params.
    pub fn without(mut self, names: &[&str]) -> Self {
        let text = std::str::from_utf8(&self.line[self.params.range()]).expect("BUG: a span of text");
        let Some(params) = Object::parse(text) else { return self };
        let start = |member: &Member<'_>| Span::of(&self.line, member.key_raw).start;
        let end = |member: &Member<'_>| Span::of(&self.line, member.value).end;
        let members = &params.members;
        let mut at = 0;
        for run in members.chunk_by(|a, b| names.contains(&&*a.key) == names.contains(&&*b.key)) {
            let (first, next) = (at, at + run.len());
            at = next;
            if !names.contains(&&*run[0].key) {
                continue;
            }
            // A comma goes with them: the one before, or at the beginning the one behind.
            let span = match (first, members.get(next)) {
                (0, Some(next)) => Span { start: start(&run[0]), end: start(next) },
                (0, None) => Span { start: start(&run[0]), end: end(&run[run.len() - 1]) },
                (first, _) => Span { start: end(&members[first - 1]), end: end(&run[run.len() - 1]) },
            };
            self.left_out.push(span);
        }
        self
    }

    /// Whether it brings back a state, or answers to questions.
    pub fn comes_back(&self) -> bool {
        self.comes_back
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

    /// The place of `_meta` in the client's message.
    pub fn meta(&self) -> Option<Span> {
        self.meta
    }

    pub fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    /// Queues the request with the relay's own id, in the source's era.
    pub fn send(&self, outbox: &Outbox, id: u64, era: Era) -> Result<(), Closed> {
        let id_text = id.to_string();
        let mut edits: Vec<(Span, Piece<'_>)> = Vec::with_capacity(6 + self.left_out.len());
        edits.push((self.id, Piece::Text(&id_text)));
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
        if let Some((span, state)) = &self.state {
            edits.push((*span, Piece::Text(state)));
        }
        if let Some(more) = &self.more {
            let start = self.params.start + 1;
            edits.push((Span { start, end: start }, Piece::Text(more)));
        }
        edits.extend(self.left_out.iter().map(|span| (*span, Piece::Text(""))));
        edits.sort_by_key(|(span, _)| (span.start, span.end));
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
        let wants_progress = self.wants_progress || self.may_want_progress && era == Era::Legacy;
        if era == Era::Legacy && !own && !wants_progress {
            return None;
        }
        let mut more = String::with_capacity(MEMBERS_OF_HOP);
        if wants_progress {
            add_member(&mut more, "progressToken", id);
        }
        if era == Era::Modern {
            self.say_of_client(object.as_ref(), &mut more);
        }
        let more = Some(&*more).filter(|more| !more.is_empty());
        let empty = Object { text: "{}", members: Vec::new() };
        let value = object.as_ref().unwrap_or(&empty).rewritten(|name| !hop_owned(name), more.as_slice());
        Some(match self.meta {
            Some(span) => (span, value),
            None => {
                let start = self.params.start + 1;
                (Span { start, end: start }, ["\"_meta\":", &value, ","].concat())
            }
        })
    }

    /// The hop's own members of `_meta` towards a modern source: what the client can do is mirrored, no more and no less.
    fn say_of_client(&self, meta: Option<&Object<'_>>, members: &mut String) {
        let caller = self.caller.as_deref();
        add_member(members, protocol::META_VERSION, &["\"", protocol::MODERN, "\""].concat());
        let mut add = |name: &str, known: Option<&str>, standard: Option<&str>| {
            let said = meta.and_then(|meta| meta.get(name)).filter(|text| *text != "null");
            if let Some(text) = said.or(known).or(standard) {
                add_member(members, name, text);
            }
        };
        let capabilities = caller.and_then(|caller| caller.capabilities.as_deref());
        add(protocol::META_CAPABILITIES, capabilities, Some("{}"));
        let info = caller.and_then(|caller| caller.info.as_deref());
        add(protocol::META_CLIENT, info, Some(protocol::own_info()));
        add(protocol::META_LOG_LEVEL, caller.and_then(|caller| caller.log_level.as_deref()), None);
    }
}

/// Adds a member to those of an object.
fn add_member(members: &mut String, name: &str, value: &str) {
    if !members.is_empty() {
        members.push(',');
    }
    for part in ["\"", name, "\":", value] {
        members.push_str(part);
    }
}

/// What arguments are that are written in another way than as an object; `None` where nothing is to be decoded.
fn decoded(raw: &str) -> Result<Option<Arguments>, BadRequest> {
    if raw == "null" {
        return Ok(Some(Arguments::Empty));
    }
    if !raw.starts_with('"') {
        return Ok(None);
    }
    let text = unquoted(raw).ok_or(BadRequest::BadArguments)?;
    Ok(Some(written_arguments(&text)?.map_or(Arguments::Empty, Arguments::Text)))
}

/// The object that a text holds where arguments belong; `None` where it says that there are none.
pub fn written_arguments(text: &str) -> Result<Option<String>, BadRequest> {
    let text = text.trim();
    if matches!(text, "" | "null") {
        return Ok(None);
    }
    Object::parse(text).ok_or(BadRequest::BadArguments)?;
    // A message is one line; the text of a string may hold more, where a line end says no more than a blank.
    Ok(Some(text.replace(['\n', '\r'], " ")))
}
