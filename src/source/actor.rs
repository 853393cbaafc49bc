//! Owns one source's life: when it runs, when its list is looked after, when it is tried again, and what it is asked meanwhile.
//! It never touches the messages of calls; those go over the [`Link`] past it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::door::Live;
use super::failures;
use super::farewell::Ending;
use super::instances::{Place, Role};
use super::link::Link;
use super::origin::Origin;
use super::ready::{Due, Ready};
use super::relist::Read;
use super::run::Gone;
use super::start::{self, Started};
use super::waiting::Waiting;
use super::{Ask, SourceEvent, State, Status, Surroundings};
use crate::call::{Call, CallError, ErrorKind};
use crate::config::{EraChoice, SourceConfig};
use crate::protocol::Era;

/// How often limits, idleness and lists are looked after while a source runs.
const TICK: Duration = Duration::from_millis(200);
/// A call waits for the next launch if that is no further away than this.
const WAIT_FOR_RETRY: Duration = Duration::from_secs(3);
/// At least this long between two launches of a failing source, whoever asks.
pub(super) const LAUNCH_GAP: Duration = Duration::from_secs(5);
/// Results of the actor's own tasks; there are never more than a few of them.
const INNER: usize = 16;

/// Results of the actor's own tasks, each with the launch it belongs to.
pub(super) enum Inner {
    Started(u64, Result<Box<Started>, CallError>),
    Gone(u64, Gone),
    ListChanged(u64),
    Listed(u64, Result<Box<Read>, CallError>),
}

pub(super) enum Phase {
    Idle,
    Starting,
    Ready(Box<Ready>),
    /// Asked to stop, and on its way.
    Stopping,
    Down {
        error: CallError,
        retry_at: Instant,
    },
}

pub struct Actor {
    pub(super) config: Arc<SourceConfig>,
    /// What its configuration says now.
    settings: watch::Receiver<Arc<SourceConfig>>,
    ending: Ending,
    pub(super) around: Surroundings,
    pub(super) role: Role,
    pub(super) live: Live,
    publish: watch::Sender<Status>,
    pub(super) phase: Phase,
    /// Counts launches; results of an earlier one are dropped.
    pub(super) generation: u64,
    era: Arc<Mutex<Option<Era>>>,
    pub(super) digest: Option<String>,
    pub(super) failures: u32,
    /// It has asked something of clients in an earlier launch.
    pub(super) asks: bool,
    last_launch: Option<Instant>,
    /// When it is started again for its subscribers, though nobody calls it.
    pub(super) rerun_at: Option<Instant>,
    pub(super) waiting: Waiting,
    urgent: Arc<Notify>,
    cancel_start: CancellationToken,
    /// What was launched and is not gone yet.
    processes: TaskTracker,
    next_tick: Instant,
    pub(super) inner: mpsc::Sender<Inner>,
    results: mpsc::Receiver<Inner>,
}

impl Actor {
    pub fn new(
        origin: Origin,
        around: Surroundings,
        role: Role,
        digest: Option<String>,
        live: Live,
        publish: watch::Sender<Status>,
    ) -> Self {
        let (inner, results) = mpsc::channel(INNER);
        let settings = origin.settings.subscribe();
        let config = settings.borrow().clone();
        let processes = TaskTracker::new();
        processes.close();
        Self {
            cancel_start: around.shutdown.child_token(),
            waiting: Waiting::new(config.id.as_str()),
            config,
            settings,
            ending: origin.ending,
            around,
            role,
            live,
            publish,
            phase: Phase::Idle,
            generation: 0,
            era: origin.era,
            digest,
            failures: 0,
            asks: false,
            last_launch: None,
            rerun_at: None,
            urgent: Arc::new(Notify::new()),
            processes,
            next_tick: Instant::now(),
            inner,
            results,
        }
    }

    /// Runs until the relay ends or this source is ended; its process has then been told to end as well, and has its place
    /// until it is gone.
    pub async fn run(mut self, mut asks: mpsc::Receiver<Ask>) -> Option<Place> {
        loop {
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = self.around.shutdown.cancelled() => break,
                () = self.ending.wanted() => break,
                Ok(()) = self.settings.changed() => self.config = self.settings.borrow().clone(),
                Some(result) = self.results.recv() => self.result(result).await,
                ask = asks.recv() => match ask {
                    Some(Ask::Call(call)) => self.call(call),
                    Some(Ask::List { reply, again }) => self.list(reply, again),
                    Some(Ask::Forget) => self.forget(),
                    Some(Ask::Changed) => self.changed(),
                    None => break,
                },
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now).into()), if wake.is_some() => self.tick(),
            }
        }
        self.finish(asks)
    }

    fn next_wake(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Idle => self.rerun_at,
            Phase::Stopping => None,
            Phase::Starting => self.waiting.has_calls().then_some(self.next_tick),
            Phase::Ready(_) => Some(self.next_tick),
            Phase::Down { retry_at, .. } => self.is_needed().then_some(*retry_at),
        }
    }

    /// Whether anybody has a use for it: an instance runs only for its tenant.
    fn is_needed(&self) -> bool {
        self.role.is_lister() || !self.waiting.is_empty() || self.around.subscribers.has_any(self.config.id.as_str())
    }

    fn known_era(&self) -> MutexGuard<'_, Option<Era>> {
        self.era.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn say(&self, state: State) {
        self.publish.send_if_modified(|status| {
            let modified = status.state != state;
            if modified {
                *status = Status::now(state);
            }
            modified
        });
    }

    // -- what is asked ------------------------------------------------------------------------------------------------

    fn call(&mut self, call: Box<Call>) {
        let call = match &self.phase {
            Phase::Ready(ready) => match ready.link.submit(call) {
                Ok(()) => return,
                Err(call) => call,
            },
            _ => call,
        };
        self.waiting.add_call(call);
        self.wanted();
    }

    fn list(&mut self, reply: oneshot::Sender<Result<(), CallError>>, again: bool) {
        if let Phase::Ready(ready) = &mut self.phase {
            if !self.role.is_lister() || ready.is_fresh() || !again && !ready.link.is_closed() {
                let _ = reply.send(Ok(()));
                return;
            }
            ready.dirty |= !ready.listing;
        }
        self.waiting.add_asker(reply);
        self.wanted();
        self.look_after_list();
    }

    fn forget(&mut self) {
        self.digest = None;
        self.changed();
    }

    /// Its list may be another one now.
    fn changed(&mut self) {
        if let Phase::Ready(ready) = &mut self.phase {
            ready.dirty = true;
        }
        self.wanted();
        self.look_after_list();
    }

    /// Somebody waits for the source: start it, unless it failed just now.
    pub(super) fn wanted(&mut self) {
        match &self.phase {
            Phase::Idle => self.launch(),
            Phase::Starting => self.urgent.notify_one(),
            Phase::Ready(_) | Phase::Stopping => {}
            Phase::Down { error, retry_at } => {
                let now = Instant::now();
                let gap = self.last_launch.map_or(now, |at| at + LAUNCH_GAP);
                let spared = self.failures <= 1 && error.kind != ErrorKind::NeedsAuth;
                if spared || gap <= now {
                    return self.launch();
                }
                let next = gap.min(*retry_at).saturating_duration_since(now);
                if next > WAIT_FOR_RETRY {
                    self.waiting.fail_all(&failures::or_with_a_call(error, next));
                } else if let Phase::Down { retry_at, .. } = &mut self.phase {
                    *retry_at = now + next;
                }
            }
        }
    }

    // -- starting -----------------------------------------------------------------------------------------------------

    fn launch(&mut self) {
        if let Err(error) = self.role.take_place(&self.config) {
            self.waiting.fail_all(&error);
            if let Phase::Down { retry_at, .. } = &mut self.phase {
                *retry_at = Instant::now() + LAUNCH_GAP;
            }
            return;
        }
        self.generation += 1;
        self.last_launch = Some(Instant::now());
        self.rerun_at = None;
        self.phase = Phase::Starting;
        self.say(State::Starting { at_work: None });
        self.urgent = Arc::new(Notify::new());
        if !self.waiting.is_empty() {
            self.urgent.notify_one();
        }
        let known = if self.config.era == EraChoice::Auto { *self.known_era() } else { None };
        let terms = start::Terms {
            known,
            urgent: self.urgent.clone(),
            cancel: self.cancel_start.clone(),
            processes: self.processes.clone(),
            publish: self.publish.clone(),
        };
        let starting = start::start(self.config.clone(), self.around.clone(), terms);
        let (inner, generation) = (self.inner.clone(), self.generation);
        self.around.tracker.spawn(async move {
            let started = starting.await.map(Box::new);
            if let Err(mpsc::error::SendError(Inner::Started(_, Ok(started)))) =
                inner.send(Inner::Started(generation, started)).await
            {
                // The actor is gone: nobody else would end the process.
                started.running.link.stop.cancel();
            }
        });
    }

    async fn result(&mut self, result: Inner) {
        match result {
            Inner::Started(generation, Ok(started)) if generation == self.generation => self.started(*started).await,
            Inner::Started(generation, Err(error)) if generation == self.generation => self.failed(error),
            Inner::Gone(generation, gone) if generation == self.generation => self.gone(gone),
            Inner::ListChanged(generation) if generation == self.generation => {
                self.role.tell_lister();
                if let Phase::Ready(ready) = &mut self.phase {
                    ready.dirty = self.role.is_lister();
                }
                self.look_after_list();
            }
            Inner::Listed(generation, listing) if generation == self.generation => self.listed(listing).await,
            Inner::Started(_, Ok(started)) => started.running.link.stop.cancel(),
            _ => tracing::debug!(source = %self.config.id, "result of an earlier launch dropped"),
        }
    }

    async fn started(&mut self, started: Started) {
        let Started { running, greeting } = started;
        tracing::info!(source = %self.config.id, pid = running.pid, version = greeting.version, era = greeting.era.as_str(), "source ready");
        let known = self.known_era().replace(greeting.era);
        if known != Some(greeting.era) {
            let (source, edition) = (self.config.id.clone(), self.around.edition);
            let event = SourceEvent::Greeted { source, edition, era: greeting.era };
            let _ = self.around.events.send(event).await;
        }
        let link = running.link.clone();
        link.lock().sole = self.role.is_of_session();
        link.lock().asks = self.asks;
        self.follow(&link, running.gone);
        link.begin(&greeting, &self.around.subscribers);
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.clone());
        self.waiting.submit(&link);
        let ready = Ready::new(link, running.pid, greeting, self.role.is_lister());
        if !self.role.is_lister() {
            self.waiting.answer(&Ok(()));
        }
        if self.digest.is_some() {
            // Without any list it is of no use yet: it goes on starting until its first one is in.
            self.say(ready.state());
        }
        self.phase = Phase::Ready(Box::new(ready));
        self.look_after_list();
    }

    /// Passes on what happens to a connection until it is gone.
    fn follow(&self, link: &Arc<Link>, mut gone: oneshot::Receiver<Gone>) {
        let (inner, generation, link) = (self.inner.clone(), self.generation, link.clone());
        self.around.tracker.spawn(async move {
            loop {
                let event = tokio::select! {
                    gone = &mut gone => match gone {
                        Ok(gone) => Inner::Gone(generation, gone),
                        Err(_) => return,
                    },
                    () = link.list_changed.notified() => Inner::ListChanged(generation),
                };
                let last = matches!(event, Inner::Gone(..));
                if inner.send(event).await.is_err() || last {
                    return;
                }
            }
        });
    }

    // -- time ---------------------------------------------------------------------------------------------------------

    fn tick(&mut self) {
        let now = Instant::now();
        self.next_tick = now + TICK;
        self.waiting.expire(now);
        match &mut self.phase {
            Phase::Down { retry_at, .. } if *retry_at <= now => self.launch(),
            Phase::Idle if self.rerun_at.is_some_and(|at| at <= now) => {
                self.rerun_at = None;
                if self.around.subscribers.has_any(self.config.id.as_str()) {
                    self.launch();
                }
            }
            Phase::Ready(ready) => {
                ready.link.sweep(now);
                // Whoever wants to know of changes needs it running.
                let rest = self.config.idle_stop.filter(|_| !self.around.subscribers.has_any(self.config.id.as_str()));
                match ready.due(now, rest) {
                    Due::Rest if ready.link.close_if_idle() => self.stop_idle(),
                    Due::List => self.look_after_list(),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn stop_idle(&mut self) {
        let Phase::Ready(ready) = &self.phase else { return };
        tracing::info!(source = %self.config.id, "source idle, stopped");
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        ready.link.stop.cancel();
        self.phase = Phase::Stopping;
    }

    /// The relay or this source ends: so does the process, and so does every call.
    fn finish(mut self, asks: mpsc::Receiver<Ask>) -> Option<Place> {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Phase::Ready(ready) = &self.phase {
            if let Some(farewell) = self.ending.error(self.config.id.as_str()) {
                ready.link.shut(&farewell);
            }
            ready.link.stop.cancel();
        }
        self.waiting.add_rest(asks);
        while let Ok(result) = self.results.try_recv() {
            if let Inner::Started(_, Ok(started)) = result {
                started.running.link.stop.cancel();
            }
        }
        self.waiting.fail_all(&self.ending.last_words(self.config.id.as_str()));
        // A start under way is broken off, and what is being stopped takes no longer than at the end of the relay.
        self.around.shutdown.cancel();
        self.role.hand_over_place()
    }
}
