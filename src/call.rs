//! Owns one call in flight: what is asked of which source, within which limits, and the way back.
//! It knows no session and no source: a call carries its own way back, and a source learns nothing else of its client.

mod block_shape;
pub mod error_shape;
mod offer_shape;
pub mod question;
mod request;
pub mod shape;
mod tenant;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::value::RawValue;

use crate::config::CallLimits;
use crate::name::{SourceId, ToolName};
use crate::protocol::Era;
use crate::wire::busy_poll::UnderWay;
use crate::wire::{Message, Outbox, Span, quoted};
pub use offer_shape::OfferShape;
pub use question::{Question, Rooted, Who};
pub use request::{Arguments, BadRequest, CallRequest, Caller, OF_ROUNDS, progress_token, written_arguments};
pub use tenant::{Tenant, Whose};

/// What is asked of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Tool(ToolName),
    Prompt(String),
    /// A resource, by its URI at the source.
    Resource(String),
    /// Anything else, by its method.
    Method(String),
}

impl Subject {
    /// The tool's or prompt's name, the resource's URI, or the method.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(name) => name.as_str(),
            Self::Prompt(name) | Self::Resource(name) | Self::Method(name) => name,
        }
    }
}

/// One request to one source.
pub struct Call {
    pub source: SourceId,
    pub subject: Subject,
    pub request: CallRequest,
    pub limits: CallLimits,
    pub ticket: Arc<Ticket>,
    /// Whose instance it goes to, where each session has one; `None` where no client makes it.
    pub tenant: Option<Tenant>,
    pub back: Box<dyn ReturnPath>,
    pub under_way: UnderWay,
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
    fn outbox(&self) -> Option<Arc<Outbox>>;
    /// Whose call it is; `None` where there is no client that could be asked anything.
    fn who(&self) -> Option<Who> {
        None
    }
    /// The principal whose call it is, as in [`Who::owner`].
    fn owner(&self) -> Option<u64> {
        self.who().map(|who| who.owner)
    }
    /// The id of the client's request that waits for the call's answer.
    fn request(&self) -> Option<Arc<str>> {
        None
    }
    /// The source asks something of the client whose call it is.
    fn ask(&self, question: Question) {
        question.refuse("nobody can be asked during this call");
    }
    /// A log line of the source that belongs to the call's client; `true` where that takes it during this call.
    fn tell(&self, _notice: &Message) -> bool {
        false
    }
    /// Why the call may not be made any more, where the rules have changed while it waited.
    fn barred(&self) -> Option<CallError> {
        None
    }
    /// The call waits for its client, which costs it no time.
    fn waits_for_client(&self) -> bool {
        false
    }
}

/// How a call ended.
pub enum End {
    Reply(Box<Reply>),
    Failed(CallError),
}

/// A source's own reply, and what is needed to ask it once more.
pub struct Reply {
    pub message: Message,
    /// The era the source speaks.
    pub era: Era,
    pub request: CallRequest,
    pub limits: CallLimits,
    pub ticket: Arc<Ticket>,
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
    /// It wants credentials, or better ones.
    NeedsAuth,
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
            Self::NeedsAuth => "needs_auth",
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
    /// The same, once more: it was answered before, with a question.
    SentAgain(Weak<dyn Recall>, u64),
    Cancelled,
}

/// A connection that can take back a call it was given.
pub trait Recall: Send + Sync {
    /// Forgets the call and tells the source; `false` where that had not been sent the call yet.
    fn recall(&self, id: u64, reason: Option<&str>) -> bool;
}

impl Ticket {
    /// Notes where the call went; `false` when it was cancelled before.
    pub fn sent(&self, to: Weak<dyn Recall>, id: u64) -> bool {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *place = match *place {
            Place::Cancelled => return false,
            Place::Waiting => Place::Sent(to, id),
            Place::Sent(..) | Place::SentAgain(..) => Place::SentAgain(to, id),
        };
        true
    }

    pub fn is_cancelled(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), Place::Cancelled)
    }

    /// Takes the call back, wherever it is.
    pub fn cancel(&self, reason: Option<&str>) {
        self.take_back(reason);
    }

    /// The same; `false` where no source was sent anything of it, so that it cannot have taken effect.
    pub fn take_back(&self, reason: Option<&str>) -> bool {
        let place = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), Place::Cancelled);
        match place {
            Place::Waiting => false,
            Place::Cancelled => true,
            Place::Sent(to, id) => to.upgrade().is_none_or(|to| to.recall(id, reason)),
            Place::SentAgain(to, id) => {
                let _ = to.upgrade().map(|to| to.recall(id, reason));
                true
            }
        }
    }
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(300), total: Duration::from_secs(3600) }
    }
}
