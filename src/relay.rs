//! The composition root: builds the relay (starting nothing), spawns it, and drains it at the end.
//! It handles no message itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, SourceEntry, Start};
use crate::control::{Control, World, key_of};
use crate::source::launch::{GRACE, GRACE_AT_EXIT};
use crate::source::{Known, Source, SourceEvent, Surroundings};
use crate::store::{Key, Recalled, Store};

/// How many events of sources may wait for the control plane.
const SOURCE_EVENTS: usize = 256;
/// How long the end may take in all, processes included.
const DRAIN: Duration = Duration::from_millis(1900);

/// A running relay.
pub struct Relay {
    pub config: Arc<Config>,
    pub control: Control,
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
    around: Surroundings,
    store: Store,
    /// Remembered listings not yet read.
    remembered: Mutex<Option<Vec<Key>>>,
    /// Sources nothing is remembered of.
    unknown: Mutex<Vec<Source>>,
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
        let (events, from_sources) = mpsc::channel::<SourceEvent>(SOURCE_EVENTS);
        let around = Surroundings {
            events,
            tracker: tracker.clone(),
            shutdown: shutdown.clone(),
            starting: Arc::new(Semaphore::new(config.relay.max_starting)),
            max_message: config.relay.max_message_bytes,
            grace: Arc::new(Mutex::new(GRACE)),
        };
        let (mut sources, mut unknown, mut keys) = (BTreeMap::new(), Vec::new(), Vec::new());
        for entry in &config.sources {
            let key = key_of(entry);
            let found = key.as_ref().and_then(|key| recalled.sources.iter().find(|(known, _)| known == key));
            let known =
                found.map(|(_, known)| Known { era: known.era, digest: known.digest.clone() }).unwrap_or_default();
            let listed = known.digest.is_some();
            let source = Source::spawn(entry, known, &around);
            match (entry, key) {
                (SourceEntry::Usable(config), Some(_)) if !listed || config.start == Start::AtStart => {
                    unknown.push(source.clone());
                }
                _ => {}
            }
            keys.extend(key_of(entry).filter(|_| listed));
            sources.insert(source.id.clone(), source);
        }
        let (world, control) = World::new(config.clone(), sources, &recalled, store.clone(), from_sources);
        tracker.spawn(world.run(shutdown.clone()));
        Arc::new(Relay {
            config,
            control,
            tracker,
            shutdown,
            around,
            store,
            remembered: Mutex::new(Some(keys)),
            unknown: Mutex::new(unknown),
        })
    }
}

impl Relay {
    /// Called with a client's first real request: reads the remembered listings, and lists sources never seen before, in
    /// the background. A client that only asks who is there starts nothing.
    pub fn wake(self: &Arc<Self>) {
        let Some(keys) = self.remembered.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let relay = self.clone();
        self.tracker.spawn(async move {
            let listings = if keys.is_empty() { Vec::new() } else { relay.store.load(keys).await };
            relay.control.recalled(listings).await;
        });
        for source in std::mem::take(&mut *self.unknown.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.tracker.spawn(async move {
                if let Err(error) = source.list().await {
                    tracing::debug!(source = %source.id, why = %error.message, "first listing failed");
                }
            });
        }
    }

    /// Ends everything: every process of every source is gone when this returns, or killed.
    pub async fn drain(&self) {
        *self.around.grace.lock().unwrap_or_else(PoisonError::into_inner) = GRACE_AT_EXIT;
        self.shutdown.cancel();
        self.tracker.close();
        let ended = async {
            self.tracker.wait().await;
            self.store.flush().await;
        };
        if tokio::time::timeout(DRAIN, ended).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
    }
}
