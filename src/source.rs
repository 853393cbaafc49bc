//! Owns the sources: one actor each, and the handle through which everyone else reaches it.
//! It does not know clients, policy or names; calls come in with their way back and listings go out as events.

pub mod actor;
mod failures;
pub mod handshake;
pub mod launch;
pub mod link;
pub mod ready;
pub mod relist;
pub mod run;
pub mod start;
pub mod stderr;
pub mod updates;
pub mod waiting;
pub mod watchdog;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{Call, CallError, End, ErrorKind};
use crate::catalog::Listing;
use crate::config::{BadSource, SourceConfig, SourceEntry};
use crate::name::SourceId;
use crate::protocol::Era;
use crate::redact;
use link::Link;
use watchdog::Watchdog;

/// How many calls and questions may wait for an actor: more than one client can have in flight.
const INBOX: usize = 1024;
/// Characters of a call's arguments in the log.
const ARGUMENTS_LOGGED: usize = 2_000;

/// What a source is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Running and greeted. `note` tells what is odd about it, if anything.
    Ready {
        pid: u32,
        version: String,
        note: Option<String>,
    },
    /// Not running, and fine: started when it is needed.
    Dormant {
        note: Option<String>,
    },
    Starting,
    /// It failed; the cause in words, and when it is tried again.
    Unreachable {
        cause: String,
        next_try: SystemTime,
    },
    Disabled,
    Misconfigured {
        reason: String,
    },
}

impl State {
    /// The state's name in the relay's replies.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ready { .. } => "ready",
            Self::Dormant { .. } => "dormant",
            Self::Starting => "starting",
            Self::Unreachable { .. } => "unreachable",
            Self::Disabled => "disabled",
            Self::Misconfigured { .. } => "misconfigured",
        }
    }

    /// Why it is so, where that needs saying.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Ready { note, .. } | Self::Dormant { note } => note.clone(),
            Self::Starting => None,
            Self::Unreachable { cause, next_try } => {
                let wait = next_try.duration_since(SystemTime::now()).unwrap_or_default().as_secs_f32();
                Some(format!("{cause}; it is tried again in {:.0} s, or sooner when it is called", wait.ceil()))
            }
            Self::Disabled => Some("`enabled = false` in sources.toml; set it to true to use it".to_owned()),
            Self::Misconfigured { reason } => Some(reason.clone()),
        }
    }
}

/// A state and since when.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub state: State,
    pub since: SystemTime,
}

impl Status {
    pub fn now(state: State) -> Self {
        Self { state, since: SystemTime::now() }
    }
}

/// What an actor tells the control plane.
#[derive(Debug)]
pub enum SourceEvent {
    /// A listing that differs from the last one; `seen` is answered when it is in force.
    Listed { source: SourceId, listing: Box<Listing>, seen: oneshot::Sender<()> },
    /// Its era was found out.
    Greeted { source: SourceId, era: Era },
}

/// What all sources share.
#[derive(Clone)]
pub struct Surroundings {
    pub events: mpsc::Sender<SourceEvent>,
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
    /// Bounds how many sources start at once.
    pub starting: Arc<Semaphore>,
    pub max_message: usize,
    pub watchdog: Watchdog,
}

/// What an actor is asked.
pub enum Ask {
    Call(Box<Call>),
    /// List again unless that was done just now, starting the source if need be.
    List(oneshot::Sender<Result<(), CallError>>),
    /// What was remembered of its list is lost.
    Forget,
}

/// A source as everyone else sees it. Cheap to clone.
#[derive(Clone)]
pub struct Source {
    pub id: SourceId,
    /// `None` for a source whose entry is faulty.
    pub config: Option<Arc<SourceConfig>>,
    door: Option<Door>,
    status: watch::Receiver<Status>,
}

#[derive(Clone)]
struct Door {
    /// The live connection, for the fast path past the actor.
    live: Arc<Mutex<Option<Arc<Link>>>>,
    inbox: mpsc::Sender<Ask>,
}

impl Source {
    /// Makes the source of a checked entry and spawns its actor; starts no process.
    pub fn spawn(entry: &SourceEntry, known: Known, around: &Surroundings) -> Self {
        match entry {
            SourceEntry::Misconfigured(BadSource { id, reason, .. }) => {
                Self::inert(id, None, State::Misconfigured { reason: reason.clone() })
            }
            SourceEntry::Usable(config) if !config.enabled => {
                Self::inert(&config.id, Some(Arc::new((**config).clone())), State::Disabled)
            }
            SourceEntry::Usable(config) => Self::active(Arc::new((**config).clone()), known, around),
        }
    }

    fn inert(id: &SourceId, config: Option<Arc<SourceConfig>>, state: State) -> Self {
        let (_, status) = watch::channel(Status::now(state));
        Self { id: id.clone(), config, door: None, status }
    }

    fn active(config: Arc<SourceConfig>, known: Known, around: &Surroundings) -> Self {
        let (inbox, asks) = mpsc::channel(INBOX);
        let (publish, status) = watch::channel(Status::now(State::Dormant { note: None }));
        let live = Arc::new(Mutex::new(None));
        let actor = actor::Actor::new(config.clone(), known, around.clone(), live.clone(), publish);
        around.tracker.spawn(actor.run(asks));
        Self { id: config.id.clone(), config: Some(config), door: Some(Door { live, inbox }), status }
    }

    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// A receiver of the state's changes.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Sends a call: to the running source at once, else it waits until the source has started.
    pub fn call(&self, call: Box<Call>) {
        self.log(&call);
        let Some(door) = &self.door else { return call.back.end(End::Failed(self.closed())) };
        let live = door.live.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let call = match live {
            Some(link) => match link.submit(call) {
                Ok(()) => return,
                Err(call) => call,
            },
            None => call,
        };
        match door.inbox.try_send(Ask::Call(call)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(Ask::Call(call))) => {
                let text = format!("source `{}` has more calls waiting for its start than it can take", self.id);
                let error = CallError::new(ErrorKind::Busy, text, "try again in a moment");
                call.back.end(End::Failed(error.at(self.id.as_str(), None)));
            }
            Err(mpsc::error::TrySendError::Closed(Ask::Call(call))) => call.back.end(End::Failed(self.closed())),
            Err(_) => unreachable!("BUG: a call was sent"),
        }
    }

    /// Arguments may hold anything, so they are told at `trace` alone, without what is known to be a secret.
    fn log(&self, call: &Call) {
        tracing::debug!(source = %self.id, tool = call.subject.name(), "call");
        if tracing::enabled!(tracing::Level::TRACE) {
            let arguments = redact::one_line(&redact::mask(call.request.arguments_text(), &[]), ARGUMENTS_LOGGED);
            tracing::trace!(source = %self.id, tool = call.subject.name(), arguments, "call arguments");
        }
    }

    /// Has the source listed again (started if need be), and waits until the catalog shows it.
    pub async fn list(&self) -> Result<(), CallError> {
        let Some(door) = &self.door else { return Err(self.closed()) };
        let (reply, done) = oneshot::channel();
        if door.inbox.send(Ask::List(reply)).await.is_err() {
            return Err(self.closed());
        }
        done.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Its remembered list is lost: the next listing counts as new, whatever it says.
    pub async fn forget(&self) {
        if let Some(door) = &self.door {
            let _ = door.inbox.send(Ask::Forget).await;
        }
    }

    /// Why this source takes no calls whatever happens; `None` if it may be called.
    pub fn refusal(&self) -> Option<CallError> {
        self.door.is_none().then(|| self.closed())
    }

    fn closed(&self) -> CallError {
        let status = self.status();
        let (why, hint) = match &status.state {
            State::Disabled => ("is disabled".to_owned(), "set `enabled = true` for it in sources.toml"),
            State::Misconfigured { reason } => (
                format!("is misconfigured: {reason}"),
                "correct its entry in sources.toml, `toolrelay check` shows every fault",
            ),
            _ => ("is being stopped with the relay".to_owned(), "call again once the relay is up"),
        };
        CallError::new(ErrorKind::Unavailable, format!("source `{}` {why}", self.id), hint).at(self.id.as_str(), None)
    }
}

/// What is remembered of a source from earlier runs.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub era: Option<Era>,
    /// The digest of the last listing.
    pub digest: Option<String>,
}
