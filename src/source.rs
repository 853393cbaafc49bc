//! Owns the sources: one actor each, and the handle through which everyone else reaches it.
//! It does not know clients, policy or names; calls come in with their way back and listings go out as events.

pub mod actor;
mod deliver;
mod failures;
pub mod farewell;
pub mod handshake;
mod headers;
pub mod http;
mod in_flight;
pub mod launch;
pub mod link;
mod noise;
mod own;
mod post;
pub mod ready;
mod refusal;
pub mod relist;
pub mod run;
mod session;
pub mod start;
pub mod stderr;
pub mod strays;
mod target;
mod unasked;
pub mod updates;
mod verdict;
pub mod waiting;
pub mod watchdog;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{Call, CallError, End, ErrorKind};
use crate::catalog::Listing;
use crate::config::{BadSource, SourceConfig, SourceEntry};
use crate::name::SourceId;
use crate::protocol::Era;
use crate::redact;
use farewell::Ending;
pub use farewell::Farewell;
use link::Link;
use updates::Subscribers;
use watchdog::Watchdog;

/// How many calls and questions may wait for an actor: more than one client can have in flight.
const INBOX: usize = 1024;
/// Characters of a call's arguments in the log.
const ARGUMENTS_LOGGED: usize = 2_000;
/// How long the successor of a source waits for its end: a little longer than that takes. What still runs then has left
/// the source's process group and holds its pipes.
const SUCCESSION: Duration = Duration::from_secs(3);

/// What a source is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Running and greeted. `note` tells what is odd about it, if anything.
    Ready {
        /// `None` for a source that is reached over HTTP.
        pid: Option<u32>,
        version: String,
        note: Option<String>,
        /// Its list was read since it started: until then what is known of its tools is what it had before.
        listed: bool,
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
    /// It wants credentials, or better ones; what to do, in words.
    NeedsAuth {
        reason: String,
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
            Self::NeedsAuth { .. } => "needs_auth",
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
            Self::NeedsAuth { reason } | Self::Misconfigured { reason } => Some(reason.clone()),
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
    Listed { source: SourceId, edition: u64, listing: Box<Listing>, seen: oneshot::Sender<()> },
    /// Its era was found out.
    Greeted { source: SourceId, edition: u64, era: Era },
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
    pub subscribers: Subscribers,
    /// With which edition of the configuration a source came: it tells a source from an earlier one of the same id.
    pub edition: u64,
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
    /// With which edition of the configuration it came.
    pub edition: u64,
    door: Option<Door>,
    status: watch::Receiver<Status>,
}

#[derive(Clone)]
struct Door {
    /// The live connection, for the fast path past the actor.
    live: Arc<Mutex<Option<Arc<Link>>>>,
    inbox: mpsc::Sender<Ask>,
    /// What its configuration says now, for the actor.
    settings: Arc<watch::Sender<Arc<SourceConfig>>>,
    ending: Ending,
}

impl Source {
    /// Makes the source of a checked entry and spawns its actor; starts no process. Where it takes the place of another
    /// that is being ended, it starts none before that one is gone: both may want the same port or file.
    pub fn spawn(entry: &SourceEntry, known: Known, around: &Surroundings, predecessor: Option<&Self>) -> Self {
        match entry {
            SourceEntry::Misconfigured(BadSource { id, reason, .. }) => {
                Self::inert(id, None, State::Misconfigured { reason: reason.clone() }, around.edition)
            }
            SourceEntry::Usable(config) if !config.enabled => {
                Self::inert(&config.id, Some(Arc::new((**config).clone())), State::Disabled, around.edition)
            }
            SourceEntry::Usable(config) => {
                let after = predecessor.and_then(|source| source.door.as_ref()).map(|door| door.ending.clone());
                Self::active(Arc::new((**config).clone()), known, around, after)
            }
        }
    }

    fn inert(id: &SourceId, config: Option<Arc<SourceConfig>>, state: State, edition: u64) -> Self {
        let (_, status) = watch::channel(Status::now(state));
        Self { id: id.clone(), config, edition, door: None, status }
    }

    fn active(config: Arc<SourceConfig>, known: Known, around: &Surroundings, after: Option<Ending>) -> Self {
        let (inbox, asks) = mpsc::channel(INBOX);
        let (publish, status) = watch::channel(Status::now(State::Dormant { note: None }));
        let (settings, followed) = watch::channel(config.clone());
        let (live, ending) = (Arc::new(Mutex::new(None)), Ending::default());
        // All that belongs to this source: it can be ended, and seen to its end, without the others.
        let (tracker, shutdown) = (TaskTracker::new(), around.shutdown.child_token());
        let own = Surroundings { tracker: tracker.clone(), shutdown: shutdown.clone(), ..around.clone() };
        let actor = actor::Actor::new(followed, known, own, live.clone(), publish, ending.clone());
        let over = ending.guard();
        around.tracker.spawn(async move {
            let _over = over;
            if let Some(after) = after {
                tokio::select! {
                    () = after.over().cancelled() => {}
                    () = shutdown.cancelled() => {}
                }
            }
            actor.run(asks).await;
            tracker.close();
            let _ = tokio::time::timeout(SUCCESSION, tracker.wait()).await;
        });
        let door = Door { live, inbox, settings: Arc::new(settings), ending };
        Self { id: config.id.clone(), config: Some(config), edition: around.edition, door: Some(door), status }
    }

    /// The same source, its process and its calls in flight, under other settings from now on.
    pub fn retuned(&self, config: &SourceConfig) -> Self {
        let config = Arc::new(config.clone());
        if let Some(door) = &self.door {
            door.settings.send_replace(config.clone());
        }
        Self { config: Some(config), ..self.clone() }
    }

    /// Ends this one source. What is in flight fails and is told why, and so is every later call through this handle.
    pub fn end(&self, why: Farewell) {
        if let Some(door) = &self.door {
            door.ending.want(why);
        }
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
        tracing::debug!(source = %self.id, tool = %call.subject.name(), "call");
        if tracing::enabled!(tracing::Level::TRACE) {
            let arguments = redact::one_line(&redact::mask(call.request.arguments_text(), &[]), ARGUMENTS_LOGGED);
            tracing::trace!(source = %self.id, tool = %call.subject.name(), arguments, "call arguments");
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

    /// Has a running source told which resources are wanted (see [`Link::subscribe`]); one that is not running is told when
    /// it has started.
    pub fn subscribe(&self, wanted: &[String], new: Option<&str>, gone: Option<&str>) {
        let live = self.door.as_ref().map(|door| door.live.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if let Some(link) = live.flatten() {
            link.subscribe(wanted, new, gone);
        }
    }

    /// Has a running legacy source send log lines from this level on; one that is not running is told when it has started.
    pub fn set_log_level(&self, level: &str) {
        let live = self.door.as_ref().map(|door| door.live.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if let Some(link) = live.flatten() {
            link.set_log_level(level);
        }
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
        let ended = self.door.as_ref().and_then(|door| door.ending.error(self.id.as_str()));
        if let Some(error) = ended {
            return error;
        }
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
