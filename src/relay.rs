//! The composition root: builds the relay (starting nothing), spawns it, and drains it at the end.
//! It handles no message itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::Listing;
use crate::config::Config;
use crate::control::{Control, World, key_of};
use crate::menu::{self, batch::Batches};
use crate::session;
use crate::snapshot::Principal;
use crate::source::updates::Subscribers;
use crate::source::via::Via;
use crate::source::watchdog::Watchdog;
use crate::source::{Known, Source, SourceEvent, Surroundings};
use crate::store::{Key, Recalled, Store};

/// How many events of sources may wait for the control plane.
const SOURCE_EVENTS: usize = 256;
/// How long the end may take in all, processes included.
const DRAIN: Duration = Duration::from_millis(2500);
/// How long tasks may take to end before what is left of the sources is ended without them.
const TASKS: Duration = Duration::from_millis(1800);

/// A running relay.
pub struct Relay {
    pub config: Arc<Config>,
    pub control: Control,
    batches: Batches,
    parked: session::Parked,
    seen: session::Seen,
    subscribers: Subscribers,
    via: Via,
    local: Principal,
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
    store: Store,
    watchdog: Watchdog,
}

/// A relay whose parts are made; nothing runs yet.
pub struct Built {
    config: Arc<Config>,
    store: Store,
    recalled: Recalled,
}

impl Built {
    /// Opens the memory. Without a usable state directory the relay runs without one.
    pub fn new(config: Config, state_dir: Option<PathBuf>) -> Self {
        let opened = state_dir.map(|directory| Store::open(&directory));
        let (store, recalled) = match opened {
            Some(Ok(opened)) => opened,
            Some(Err(error)) => {
                tracing::warn!(%error, hint = "set `state_dir` in [relay] to a writable folder", "nothing is remembered between runs");
                (Store::none(), Recalled::default())
            }
            None => (Store::none(), Recalled::default()),
        };
        Self { config: Arc::new(config), store, recalled }
    }

    /// Spawns the control plane and the sources' actors; starts no process.
    pub fn spawn(self) -> Arc<Relay> {
        let Self { config, store, recalled } = self;
        let (tracker, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let (watchdog, subscribers, via) = (Watchdog::default(), Subscribers::default(), Via::default());
        let (events, from_sources) = mpsc::channel::<SourceEvent>(SOURCE_EVENTS);
        let around = Surroundings {
            events,
            tracker: tracker.clone(),
            shutdown: shutdown.clone(),
            starting: Arc::new(Semaphore::new(config.relay.max_starting)),
            max_message: config.relay.max_message_bytes,
            watchdog: watchdog.clone(),
            edition: 0,
            via: via.clone(),
            subscribers: subscribers.clone(),
            tenant: None,
        };
        let mut sources = BTreeMap::new();
        let remembered: BTreeMap<_, _> = recalled.sources.iter().map(|(key, known)| (key, known)).collect();
        for entry in &config.sources {
            let key = key_of(entry);
            let found = key.as_ref().and_then(|key| remembered.get(key));
            let known = found.map(|known| Known { era: known.era, digest: known.digest.clone() }).unwrap_or_default();
            let source = Source::spawn(entry, known, &around, None);
            sources.insert(source.id.clone(), source);
        }
        let (world, control) = World::new(config.clone(), sources, &recalled, store.clone(), around, from_sources);
        tracker.spawn(world.run(shutdown.clone()));
        let batches = Batches::new(control.snapshots.clone(), tracker.clone(), shutdown.clone());
        Arc::new(Relay {
            config,
            batches,
            parked: session::Parked::default(),
            seen: session::Seen::default(),
            subscribers,
            via,
            local: Principal::local(),
            control,
            tracker,
            shutdown,
            store,
            watchdog,
        })
    }
}

impl Relay {
    /// The relay's own tools, for the local user.
    pub fn menu(&self) -> menu::Context<'_> {
        menu::Context { control: &self.control, batches: &self.batches, principal: &self.local, tenant: None }
    }

    /// What a front needs to serve clients.
    pub fn surroundings(&self) -> session::Surroundings {
        session::Surroundings {
            control: self.control.clone(),
            batches: self.batches.clone(),
            parked: self.parked.clone(),
            seen: self.seen.clone(),
            subscribers: self.subscribers.clone(),
            via: self.via.clone(),
            tracker: self.tracker.clone(),
            shutdown: self.shutdown.clone(),
        }
    }

    /// What each source listed last, with what is withheld of it, as far as the memory holds it.
    pub async fn listings(&self) -> Vec<(Key, Listing)> {
        self.store.load(self.config.sources.iter().filter_map(key_of).collect()).await
    }

    /// Ends everything: every process of every source is gone when this returns, or killed.
    pub async fn drain(&self) {
        self.parked.give_up_all("the relay is ending");
        let start = Instant::now();
        self.watchdog.begin_end();
        self.shutdown.cancel();
        self.tracker.close();
        let ended = async {
            if tokio::time::timeout(TASKS, self.tracker.wait()).await.is_err() {
                tracing::warn!("some tasks did not end in time");
            }
            let watchdog = self.watchdog.clone();
            let _ = tokio::task::spawn_blocking(move || watchdog.end(start.elapsed())).await;
            self.store.flush().await;
        };
        if tokio::time::timeout(DRAIN, ended).await.is_err() {
            tracing::warn!("the end took too long and was broken off");
        }
    }
}
