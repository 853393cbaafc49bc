//! Owns one source's life: when it runs, when it is listed, when it is tried again, and what it is said to be doing.
//! It never touches the messages of calls; those go over the [`Link`] past it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::farewell::Ending;
use super::link::Link;
use super::ready::{Due, LIST_GAP, Ready};
use super::run::Gone;
use super::start::{self, Started};
use super::waiting::Waiting;
use super::{Ask, Known, SourceEvent, State, Status, Surroundings, relist};
use crate::call::{Call, CallError, ErrorKind};
use crate::catalog::Listing;
use crate::config::{EraChoice, SourceConfig};
use crate::protocol::Era;

/// How often limits, idleness and lists are looked after while a source runs.
const TICK: Duration = Duration::from_millis(200);
/// The first wait after a failure; doubled with each further one.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A source that wants credentials is tried by itself no more often than this: nothing changes but by somebody's hand.
const AUTH_RETRY: Duration = Duration::from_secs(120);
/// A source that ran this long has recovered: its failures are forgotten.
const RECOVERED: Duration = Duration::from_secs(20);
/// A call waits for the next launch if that is no further away than this.
const WAIT_FOR_RETRY: Duration = Duration::from_secs(3);
/// At least this long between two launches of a failing source, whoever asks.
const LAUNCH_GAP: Duration = Duration::from_secs(5);
/// Results of the actor's own tasks; there are never more than a few of them.
const INNER: usize = 16;

/// Results of the actor's own tasks, each with the launch it belongs to.
enum Inner {
    Started(u64, Result<Box<Started>, CallError>),
    Gone(u64, Gone),
    ListChanged(u64),
    Listed(u64, Result<Box<Listing>, CallError>),
}

enum Phase {
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
    config: Arc<SourceConfig>,
    /// What its configuration says now.
    settings: watch::Receiver<Arc<SourceConfig>>,
    ending: Ending,
    around: Surroundings,
    live: Arc<Mutex<Option<Arc<Link>>>>,
    publish: watch::Sender<Status>,
    phase: Phase,
    /// Counts launches; results of an earlier one are dropped.
    generation: u64,
    era: Option<Era>,
    digest: Option<String>,
    failures: u32,
    last_launch: Option<Instant>,
    waiting: Waiting,
    urgent: Arc<Notify>,
    cancel_start: CancellationToken,
    next_tick: Instant,
    inner: mpsc::Sender<Inner>,
    results: mpsc::Receiver<Inner>,
}

impl Actor {
    pub fn new(
        settings: watch::Receiver<Arc<SourceConfig>>,
        known: Known,
        around: Surroundings,
        live: Arc<Mutex<Option<Arc<Link>>>>,
        publish: watch::Sender<Status>,
        ending: Ending,
    ) -> Self {
        let (inner, results) = mpsc::channel(INNER);
        let config = settings.borrow().clone();
        Self {
            cancel_start: around.shutdown.child_token(),
            waiting: Waiting::new(config.id.as_str()),
            config,
            settings,
            ending,
            around,
            live,
            publish,
            phase: Phase::Idle,
            generation: 0,
            era: known.era,
            digest: known.digest,
            failures: 0,
            last_launch: None,
            urgent: Arc::new(Notify::new()),
            next_tick: Instant::now(),
            inner,
            results,
        }
    }

    /// Runs until the relay ends or this source is ended; its process has then been told to end as well.
    pub async fn run(mut self, mut asks: mpsc::Receiver<Ask>) {
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
                    Some(Ask::List(reply)) => self.list(reply),
                    Some(Ask::Forget) => self.forget(),
                    None => break,
                },
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now).into()), if wake.is_some() => self.tick(),
            }
        }
        self.finish(asks);
    }

    fn next_wake(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Idle | Phase::Stopping => None,
            Phase::Starting => self.waiting.has_calls().then_some(self.next_tick),
            Phase::Ready(_) => Some(self.next_tick),
            Phase::Down { retry_at, .. } => Some(*retry_at),
        }
    }

    fn say(&self, state: State) {
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

    fn list(&mut self, reply: oneshot::Sender<Result<(), CallError>>) {
        if let Phase::Ready(ready) = &mut self.phase {
            if ready.is_fresh() {
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
        if let Phase::Ready(ready) = &mut self.phase {
            ready.dirty = true;
        }
        self.wanted();
        self.look_after_list();
    }

    /// Somebody waits for the source: start it, unless it failed just now.
    fn wanted(&mut self) {
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
                    let mut error = error.clone();
                    error
                        .hint
                        .push_str(&format!(", or with a call {:.0} s from now or later", next.as_secs_f32().ceil()));
                    self.waiting.fail_all(&error);
                } else if let Phase::Down { retry_at, .. } = &mut self.phase {
                    *retry_at = now + next;
                }
            }
        }
    }

    // -- starting -----------------------------------------------------------------------------------------------------

    fn launch(&mut self) {
        self.generation += 1;
        self.last_launch = Some(Instant::now());
        self.phase = Phase::Starting;
        self.say(State::Starting);
        self.urgent = Arc::new(Notify::new());
        if !self.waiting.is_empty() {
            self.urgent.notify_one();
        }
        let known = if self.config.era == EraChoice::Auto { self.era } else { None };
        let starting = start::start(
            self.config.clone(),
            known,
            self.around.clone(),
            self.urgent.clone(),
            self.cancel_start.clone(),
        );
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
                if let Phase::Ready(ready) = &mut self.phase {
                    ready.dirty = true;
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
        if self.era != Some(greeting.era) {
            self.era = Some(greeting.era);
            let (source, edition) = (self.config.id.clone(), self.around.edition);
            let event = SourceEvent::Greeted { source, edition, era: greeting.era };
            let _ = self.around.events.send(event).await;
        }
        let link = running.link.clone();
        if greeting.era == Era::Modern {
            link.listen();
        }
        self.follow(&link, running.gone);
        let _ = link.subscribers.set(self.around.subscribers.clone());
        let wanted = self.around.subscribers.uris(self.config.id.as_str());
        let logs = greeting.era == Era::Legacy && greeting.note.offer.abilities.logging;
        link.logs.store(logs, Ordering::Relaxed);
        if let Some(level) = self.around.subscribers.level() {
            link.set_log_level(level);
        }
        match greeting.era {
            Era::Legacy => wanted.iter().for_each(|uri| link.subscribe(&wanted, Some(uri), None)),
            Era::Modern => link.subscribe(&wanted, None, None),
        }
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.clone());
        self.waiting.submit(&link);
        let ready = Ready::new(link, running.pid, greeting);
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

    /// A start or a first listing failed, and whoever waited for it is told.
    fn failed(&mut self, error: CallError) {
        self.down(error);
        if let Phase::Down { error, .. } = &self.phase {
            self.waiting.fail_all(error);
        }
    }

    /// The source is down until the next try.
    fn down(&mut self, mut error: CallError) {
        self.failures += 1;
        let exponent = self.failures.saturating_sub(1).min(16);
        let wait = BACKOFF_FIRST.saturating_mul(1 << exponent).min(BACKOFF_MAX).mul_f64(0.8 + 0.4 * fastrand::f64());
        tracing::warn!(source = %self.config.id, why = %error.message, hint = %error.hint, failures = self.failures, "source failed");
        let cause = format!("{} ({})", error.message, error.hint);
        let wait = if error.kind == ErrorKind::NeedsAuth { wait.max(AUTH_RETRY) } else { wait };
        self.say(match error.kind {
            ErrorKind::NeedsAuth => State::NeedsAuth { reason: cause },
            _ => State::Unreachable { cause, next_try: SystemTime::now() + wait },
        });
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if !matches!(error.kind, ErrorKind::Cancelled | ErrorKind::NeedsAuth) {
            error.kind = ErrorKind::Unavailable;
        }
        let retry = format!("; it is tried again in {:.0} s", wait.as_secs_f32().ceil());
        error.hint.push_str(&retry);
        self.phase = Phase::Down { error, retry_at: Instant::now() + wait };
    }

    fn gone(&mut self, gone: Gone) {
        let uptime = match &self.phase {
            Phase::Ready(ready) => ready.uptime(),
            _ => Duration::ZERO,
        };
        let stopping = matches!(self.phase, Phase::Stopping);
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if uptime >= RECOVERED {
            self.failures = 0;
        }
        // A script that ends after its answer has done nothing wrong, however soon that was.
        let done = gone.clean && (uptime >= LIST_GAP || gone.answered);
        if stopping || done {
            let note = (!stopping).then(|| format!("{}; it is started again when it is called", gone.error.message));
            self.say(State::Dormant { note });
            self.phase = Phase::Idle;
        } else {
            // Calls that came in since go with the next launch, not down with this one.
            self.down(gone.error);
        }
        if !self.waiting.is_empty() {
            self.wanted();
        }
    }

    // -- listing ------------------------------------------------------------------------------------------------------

    /// Reads the list if it must be read and is not being read.
    fn look_after_list(&mut self) {
        let Phase::Ready(ready) = &mut self.phase else { return };
        if !ready.begin_list() {
            return;
        }
        let (link, note, start_timeout) = (ready.link.clone(), ready.note.clone(), self.config.start_timeout);
        let (inner, generation) = (self.inner.clone(), self.generation);
        self.around.tracker.spawn(async move {
            let listing = relist::list(&link, note, start_timeout).await.map(Box::new);
            let _ = inner.send(Inner::Listed(generation, listing)).await;
        });
    }

    async fn listed(&mut self, listing: Result<Box<Listing>, CallError>) {
        let Phase::Ready(ready) = &mut self.phase else { return };
        ready.listing = false;
        let outcome = match listing {
            Ok(listing) => {
                let changed = self.digest.as_ref() != Some(&listing.digest);
                ready.listed(&listing, changed);
                if changed {
                    self.digest = Some(listing.digest.clone());
                    let (seen, in_force) = oneshot::channel();
                    let (source, edition) = (self.config.id.clone(), self.around.edition);
                    let event = SourceEvent::Listed { source, edition, listing, seen };
                    if self.around.events.send(event).await.is_ok() {
                        let _ = in_force.await;
                    }
                }
                Ok(())
            }
            Err(error) if self.digest.is_none() => {
                // Without any list it is of no use: told as a failure, and tried again as one.
                ready.link.stop.cancel();
                self.generation += 1;
                return self.failed(error);
            }
            Err(error) => {
                ready.oddity = Some(format!("{}; the last good list is kept", error.message));
                Err(error)
            }
        };
        let Phase::Ready(ready) = &self.phase else { return };
        self.say(ready.state());
        self.waiting.answer(&outcome);
    }

    // -- time ---------------------------------------------------------------------------------------------------------

    fn tick(&mut self) {
        let now = Instant::now();
        self.next_tick = now + TICK;
        self.waiting.expire(now);
        match &mut self.phase {
            Phase::Down { retry_at, .. } if *retry_at <= now => self.launch(),
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
    fn finish(mut self, mut asks: mpsc::Receiver<Ask>) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let farewell = self.ending.error(self.config.id.as_str());
        if let Phase::Ready(ready) = &self.phase {
            if let Some(farewell) = &farewell {
                ready.link.shut(farewell);
            }
            ready.link.stop.cancel();
        }
        asks.close();
        while let Ok(ask) = asks.try_recv() {
            match ask {
                Ask::Call(call) => self.waiting.add_call(call),
                Ask::List(reply) => self.waiting.add_asker(reply),
                Ask::Forget => {}
            }
        }
        while let Ok(result) = self.results.try_recv() {
            if let Inner::Started(_, Ok(started)) = result {
                started.running.link.stop.cancel();
            }
        }
        let with_relay = || {
            let text = format!("source `{}` is being stopped with the relay", self.config.id);
            CallError::new(ErrorKind::Cancelled, text, "call again once the relay is up")
        };
        self.waiting.fail_all(&farewell.unwrap_or_else(with_relay));
        // A start under way is broken off, and what is being stopped takes no longer than at the end of the relay.
        self.around.shutdown.cancel();
    }
}
