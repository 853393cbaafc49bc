//! Owns the sources: one actor each, or one for each session as well, and the handle through which everyone else reaches them.
//! It does not know clients, policy or names; calls come in with their way back and listings go out as events.

pub mod actor;
mod asking;
mod budget;
mod commands;
mod debt;
mod deliver;
mod door;
mod doubt;
mod down;
mod events;
mod failures;
pub mod farewell;
mod ghosts;
pub mod handshake;
mod headers;
pub mod http;
mod in_flight;
mod instances;
mod lacking;
pub mod launch;
mod leftover;
mod limits;
mod lines;
pub mod link;
mod listed;
mod noise;
mod notes;
mod origin;
pub mod own;
mod pace;
mod post;
pub mod ready;
mod refusal;
pub mod relist;
mod renewal;
pub mod run;
mod session;
mod sse;
pub mod start;
pub mod stderr;
pub mod strays;
mod target;
mod unasked;
pub mod updates;
mod verdict;
pub mod via;
pub mod waiting;
pub mod watchdog;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{Call, CallError, End, ErrorKind, Rooted, Tenant, Whose};
use crate::catalog::Listing;
use crate::config::{BadSource, Isolation, SourceConfig, SourceEntry};
use crate::name::SourceId;
use crate::protocol::Era;
use crate::redact;
use door::Door;
use farewell::Ending;
pub use farewell::Farewell;
use instances::{Instances, Role};
use link::Link;
use origin::Origin;
use updates::Subscribers;
use via::Via;
use watchdog::Watchdog;

/// Characters of a call's arguments in the log.
const ARGUMENTS_LOGGED: usize = 2_000;

/// What a source is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Running and greeted. `note` tells what is odd about it, if anything.
    Ready {
        /// `None` for a source that is reached over HTTP.
        pid: Option<u32>,
        version: String,
        note: Option<String>,
        /// It may have tools that are not known.
        lacks_tools: bool,
        /// Its list was read since it started: until then what is known of its tools is what it had before.
        listed: bool,
    },
    /// Not running, and fine: started when it is needed.
    Dormant {
        note: Option<String>,
    },
    Starting {
        /// It takes longer than usual and is at work, since when, and its last words: a first installation, say.
        at_work: Option<(SystemTime, String)>,
    },
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
            Self::Starting { .. } => "starting",
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
            Self::Starting { at_work } => at_work.as_ref().map(|(since, words)| {
                let time = since.elapsed().unwrap_or_default().as_secs();
                format!("at work for {time} s, as in a first installation{words}")
            }),
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
    /// Whose instances they are, where each session has one.
    pub tenant: Option<Tenant>,
    pub via: Via,
    /// With which edition of the configuration a source came: it tells a source from an earlier one of the same id.
    pub edition: u64,
}

/// What an actor is asked.
pub enum Ask {
    Call(Box<Call>),
    /// Start the source if need be. One that runs is listed where it is to be listed `again`, unless that was done just now.
    List {
        reply: oneshot::Sender<Result<(), CallError>>,
        again: bool,
    },
    /// What was remembered of its list is lost.
    Forget,
    /// Its list may be another one now.
    Changed,
}

/// A source as everyone else sees it. Cheap to clone.
#[derive(Clone)]
pub struct Source {
    pub id: SourceId,
    /// `None` for a source whose entry is faulty.
    pub config: Option<Arc<SourceConfig>>,
    /// With which edition of the configuration it came.
    pub edition: u64,
    active: Option<Active>,
    status: watch::Receiver<Status>,
}

/// What a source has that may run.
#[derive(Clone)]
struct Active {
    /// The way to the actor that is listed; all clients share it, unless each session has an instance of its own.
    door: Door,
    instances: Option<Arc<Instances>>,
    /// What its configuration says now, for its actors.
    settings: Arc<watch::Sender<Arc<SourceConfig>>>,
    ending: Ending,
}

impl Active {
    fn new(config: &Arc<SourceConfig>, known: Known, around: &Surroundings, after: Option<Ending>) -> (Self, Watch) {
        let (origin, over) = Origin::new(config.clone(), known.era, around, after);
        let (settings, ending) = (origin.settings.clone(), origin.ending.clone());
        let (door, status) = origin.clone().spawn(Role::Lister, known.digest, over);
        let is_shared = config.isolation == Isolation::Shared;
        let instances = (!is_shared).then(|| Instances::new(origin, &door.inbox));
        (Self { door, instances, settings, ending }, status)
    }

    /// The way to what this tenant calls; `None` once its session is over.
    fn door_of(&self, tenant: Option<&Tenant>) -> Option<Cow<'_, Door>> {
        match (&self.instances, tenant) {
            (Some(instances), Some(tenant)) => instances.of(tenant).map(Cow::Owned),
            _ => Some(Cow::Borrowed(&self.door)),
        }
    }

    /// The live connection that this tenant uses, if there is one.
    fn link_of(&self, tenant: &Tenant) -> Option<Arc<Link>> {
        match &self.instances {
            Some(instances) => instances.known(tenant)?.link(),
            None => self.door.link(),
        }
    }
}

type Watch = watch::Receiver<Status>;

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
                let after = predecessor.and_then(|source| source.active.as_ref()).map(|active| active.ending.clone());
                let config = Arc::new((**config).clone());
                let (active, status) = Active::new(&config, known, around, after);
                Self {
                    id: config.id.clone(),
                    config: Some(config),
                    edition: around.edition,
                    active: Some(active),
                    status,
                }
            }
        }
    }

    fn inert(id: &SourceId, config: Option<Arc<SourceConfig>>, state: State, edition: u64) -> Self {
        let (_, status) = watch::channel(Status::now(state));
        Self { id: id.clone(), config, edition, active: None, status }
    }

    /// The same source, its process and its calls in flight, under other settings from now on.
    pub fn retuned(&self, config: &SourceConfig) -> Self {
        let config = Arc::new(config.clone());
        if let Some(active) = &self.active {
            active.settings.send_replace(config.clone());
        }
        Self { config: Some(config), ..self.clone() }
    }

    /// Ends this one source, all its instances. What is in flight fails and is told why, and so is every later call through this handle.
    pub fn end(&self, why: Farewell) {
        if let Some(active) = &self.active {
            active.ending.want(why);
        }
    }

    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// A receiver of the state's changes.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// How many instances run, apart from the one that is listed; `None` where all clients share that.
    pub fn instances(&self) -> Option<usize> {
        self.active.as_ref()?.instances.as_ref().map(|instances| instances.running())
    }

    /// Whether each session has an instance of its own.
    pub fn is_isolated(&self) -> bool {
        self.instances().is_some()
    }

    /// The subscriptions to what this tenant uses of the source.
    pub fn seen_by(&self, all: &Subscribers, tenant: &Tenant) -> Subscribers {
        all.of(if self.is_isolated() { tenant.whose() } else { Whose::Everybody })
    }

    /// Sends a call: to the running source at once, else it waits until the source has started.
    pub fn call(&self, call: Box<Call>) {
        self.log(&call);
        let Some(active) = &self.active else { return call.back.end(End::Failed(self.closed(None))) };
        let tenant = call.tenant.clone();
        let left = match active.door_of(tenant.as_ref()) {
            Some(door) => door.call(call).err(),
            None => Some(call),
        };
        if let Some(call) = left {
            call.back.end(End::Failed(self.closed(tenant.as_ref())));
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
        let Some(active) = &self.active else { return Err(self.closed(None)) };
        active.door.list().await.unwrap_or_else(|| Err(self.closed(None)))
    }

    /// Has started what this tenant uses of the source, if it does not run.
    pub async fn start(&self, tenant: &Tenant) -> Result<(), CallError> {
        let door = self.active.as_ref().and_then(|active| active.door_of(Some(tenant)));
        let Some(door) = door else { return Err(self.closed(Some(tenant))) };
        door.start().await.unwrap_or_else(|| Err(self.closed(Some(tenant))))
    }

    /// The live connection that a tenant uses.
    fn link_of(&self, tenant: &Tenant) -> Option<Arc<Link>> {
        self.active.as_ref()?.link_of(tenant)
    }

    /// The era of what this tenant uses of the source, while it runs.
    pub fn era_for(&self, tenant: &Tenant) -> Option<Era> {
        Some(self.link_of(tenant)?.era())
    }

    /// Has a running source told which resources are wanted (see [`Link::subscribe`]); one that is not running is told when
    /// it has started.
    pub fn subscribe(&self, tenant: &Tenant, new: &[String], gone: &[String]) -> Vec<own::Answer> {
        self.link_of(tenant).map(|link| link.subscribe(new, gone)).unwrap_or_default()
    }

    /// Has a running legacy source send log lines from this level on; one that is not running is told when it has started.
    pub fn set_log_level(&self, tenant: &Tenant, level: &str) {
        if let Some(link) = self.link_of(tenant) {
            link.set_log_level(level);
        }
    }

    /// Tells a running legacy source that the roots of a client of this principal are others now.
    pub fn roots_changed(&self, tenant: &Tenant, of: &Arc<impl Rooted + 'static>, owner: u64) {
        if let Some(link) = self.link_of(tenant) {
            link.roots_changed(of, owner);
        }
    }

    /// Its remembered list is lost: the next listing counts as new, whatever it says.
    pub async fn forget(&self) {
        if let Some(active) = &self.active {
            let _ = active.door.inbox.send(Ask::Forget).await;
        }
    }

    /// Why this source takes no calls whatever happens; `None` if it may be called.
    pub fn refusal(&self) -> Option<CallError> {
        self.active.is_none().then(|| self.closed(None))
    }

    fn closed(&self, tenant: Option<&Tenant>) -> CallError {
        let over = tenant.and_then(Tenant::over).filter(|_| self.is_isolated()).cloned();
        let ending = self.active.as_ref().map(|active| active.ending.of_session(over));
        let ended = ending.and_then(|ending| ending.error(self.id.as_str()));
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
