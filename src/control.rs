//! Owns the world: which listings are in force, what the catalog is made of, which toolsets are open; one loop over events.
//! It carries no call and never waits for a source.

mod changes;
mod entries;
mod pinning;
mod reload;
mod spelling;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, Listing, Toolset};
use crate::config::{Config, SourceEntry, Start};
use crate::defect;
use crate::name::SourceId;
use crate::pins::Pins;
use crate::snapshot::{Change, Core, OpenByPrincipal, Principal, Snapshot, Snapshots, Views};
use crate::source::{Source, SourceEvent, Surroundings};
use crate::store::{Key, Recalled, Store};
use changes::Fixed;
pub use changes::starts_alike;
pub use entries::key_of;
use entries::{outline, remember, with_spec};
pub use reload::Reloaded;

/// How many events may wait: changes are rare, and whoever sends one may wait.
const EVENTS: usize = 256;

/// How long after the first use somebody may be kept waiting for sources that have never been listed.
pub const FIRST_LISTING: Duration = Duration::from_secs(3);
/// How often sources are looked at that are waited for.
const GLANCE: Duration = Duration::from_millis(100);

/// What the control plane is told and asked.
enum Event {
    /// The relay serves from now on.
    Begin,
    /// Somebody uses the relay.
    Wake,
    /// Somebody wants to know what is remembered.
    Recall,
    Source(SourceEvent),
    /// Listings of earlier runs have been read.
    Recalled(Vec<(Key, Listing)>),
    Open {
        principal: Principal,
        change: Change,
        done: oneshot::Sender<bool>,
    },
    /// The configuration was changed.
    Reload {
        config: Box<Config>,
        done: oneshot::Sender<Reloaded>,
    },
    /// The configuration was changed and cannot be used, for this reason.
    Keep(Arc<str>),
    /// `sources.lock` was changed.
    Relock {
        done: oneshot::Sender<()>,
    },
}

/// The way to the control plane. Cheap to clone.
#[derive(Clone)]
pub struct Control {
    events: mpsc::Sender<Event>,
    pub snapshots: Snapshots,
    /// When somebody first really used the relay.
    woken: Arc<OnceLock<Instant>>,
}

impl Control {
    /// Called once when the relay begins to serve: starts the sources that are wanted at the start.
    pub fn begin(&self) {
        let _ = self.events.try_send(Event::Begin);
    }

    /// Called with a client's first real request: reads the remembered listings, and lists sources never seen before, in
    /// the background. A client that only asks who is there starts nothing.
    pub fn wake(&self) {
        if self.woken.get().is_none() && self.events.try_send(Event::Wake).is_ok() {
            let _ = self.woken.set(Instant::now());
        }
    }

    /// Reads the remembered listings, and starts nothing.
    pub fn recall(&self) {
        let _ = self.events.try_send(Event::Recall);
    }

    /// How long the relay has been in use.
    pub fn awake_for(&self) -> Duration {
        self.woken.get().map(Instant::elapsed).unwrap_or_default()
    }

    /// The world as soon as `holds` says so, or so long after the first use as first listings are waited for.
    pub async fn once(&self, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut snapshots = self.snapshots.watch();
        let waiting = async {
            while !holds(&snapshots.borrow_and_update().clone()) {
                // A source may also fail without a listing, which changes no snapshot.
                let _ = tokio::time::timeout(GLANCE, snapshots.changed()).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_LISTING.saturating_sub(self.awake_for()), waiting).await;
        self.snapshots.now()
    }

    /// Opens or closes; tells whether that changed anything. The snapshot shows it when this returns.
    pub async fn open(&self, principal: &Principal, change: Change) -> bool {
        let (done, changed) = oneshot::channel();
        let event = Event::Open { principal: principal.clone(), change, done };
        self.events.send(event).await.is_ok() && changed.await.unwrap_or(false)
    }

    /// Puts another configuration in force; `None` once the relay ends. The snapshot shows it when this returns.
    pub async fn reload(&self, config: Config) -> Option<Reloaded> {
        let (done, reloaded) = oneshot::channel();
        self.events.send(Event::Reload { config: Box::new(config), done }).await.ok()?;
        reloaded.await.ok()
    }

    /// Tells why the configuration in force is not what its file says now, until the next reload.
    pub async fn keep(&self, why: &str) {
        let _ = self.events.send(Event::Keep(why.into())).await;
    }
}

impl Control {
    /// Has all tools held against the lock as it is now; `false` once the relay ends. The snapshot shows it when this returns.
    pub async fn relock(&self) -> bool {
        let (done, relocked) = oneshot::channel();
        self.events.send(Event::Relock { done }).await.is_ok() && relocked.await.is_ok()
    }
}

/// Everything the control plane owns.
pub struct World {
    config: Arc<Config>,
    sources: Arc<BTreeMap<SourceId, Source>>,
    toolsets: BTreeMap<SourceId, Arc<Toolset>>,
    open: OpenByPrincipal,
    /// What tools are held against.
    pins: Arc<Pins>,
    store: Store,
    publish: watch::Sender<Arc<Snapshot>>,
    events: mpsc::Receiver<Event>,
    /// For the world's own tasks to tell what they found.
    tell: mpsc::WeakSender<Event>,
    /// For sources that come while the relay runs; its edition is that of the configuration in force.
    around: Surroundings,
    /// Remembered listings not yet read.
    unread: Option<Vec<Key>>,
    /// To be started: when the relay is first used, sources nothing is remembered of; when it serves, those wanted at the start.
    unstarted: Vec<Source>,
    /// The relay serves, and sources that are wanted at the start are started as they come.
    begun: bool,
    /// Somebody uses the relay.
    awake: bool,
    /// Of the listing that each loaded toolset was built from.
    digests: BTreeMap<SourceId, String>,
    /// Toolsets that were taken over from another entry of the same program, perhaps another account's.
    borrowed: BTreeSet<SourceId>,
    /// What the relay started with and cannot change while it runs.
    first: Fixed,
    /// What of it was told to need a restart.
    told: Vec<&'static str>,
    /// Why the configuration is not what its file says.
    stale: Option<Arc<str>>,
    from_sources: mpsc::Receiver<SourceEvent>,
}

impl World {
    /// The world at the start: every toolset as it is remembered, in outline.
    pub fn new(
        config: Arc<Config>,
        sources: BTreeMap<SourceId, Source>,
        recalled: &Recalled,
        store: Store,
        around: Surroundings,
        from_sources: mpsc::Receiver<SourceEvent>,
    ) -> (Self, Control) {
        let (mut unread, mut unstarted) = (Vec::new(), Vec::new());
        let (mut toolsets, pins) = (BTreeMap::new(), Pins::new(&config.relay));
        for entry in &config.sources {
            let remembered = key_of(entry).and_then(|key| {
                recalled.sources.iter().find(|(known, _)| *known == key).map(|(_, remembered)| remembered)
            });
            let toolset = with_spec(entry, |spec| outline(spec, remembered, (config.relay.pin, &pins)));
            let listed = remembered.is_some_and(|remembered| remembered.digest.is_some());
            unread.extend(key_of(entry).filter(|_| listed));
            let at_start = matches!(entry, SourceEntry::Usable(config) if config.start == Start::AtStart);
            if let Some(source) = sources.get(&toolset.id).filter(|_| !listed || at_start) {
                unstarted.push(source.clone());
            }
            toolsets.insert(toolset.id.clone(), Arc::new(toolset));
        }
        let catalog = Catalog::arranged(toolsets.values().cloned().collect(), &config.toolsets);
        let mut open = OpenByPrincipal::new();
        for (principal, name) in &recalled.open {
            let principal = Principal(principal.as_str().into());
            if principal.is_remembered(&config) {
                open.entry(principal).or_default().recall(name, &catalog);
            }
        }
        let sources = Arc::new(sources);
        let snapshot = Snapshot {
            config: config.clone(),
            catalog: Arc::new(catalog),
            sources: sources.clone(),
            open: Arc::new(open.clone()),
            index: Arc::new(OnceLock::new()),
            stale: None,
            granted: None,
            views: Arc::new(Views::new(&config)),
            unpinned: None,
            core: Core::default(),
        };
        let (publish, snapshots) = watch::channel(Arc::new(snapshot));
        let (sender, events) = mpsc::channel(EVENTS);
        let tell = sender.downgrade();
        let world = Self {
            first: Fixed::of(&config),
            pins: Arc::new(pins),
            config,
            sources,
            toolsets,
            open,
            store,
            publish,
            events,
            tell,
            around,
            unread: Some(unread),
            unstarted,
            begun: false,
            awake: false,
            digests: BTreeMap::new(),
            borrowed: BTreeSet::new(),
            told: Vec::new(),
            stale: None,
            from_sources,
        };
        (world, Control { events: sender, snapshots: Snapshots::new(snapshots), woken: Arc::default() })
    }

    /// Takes events until the relay ends. Events that have come in together are answered by one snapshot.
    pub async fn run(mut self, shutdown: CancellationToken) {
        if self.pins.are_wanted() {
            let pins = self.pins.clone();
            self.around.tracker.spawn_blocking(move || pins.look());
        }
        loop {
            let first = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(event) = self.from_sources.recv() => Event::Source(event),
                Some(event) = self.events.recv() => event,
            };
            let mut batch = vec![first];
            while let Ok(event) = self.from_sources.try_recv() {
                batch.push(Event::Source(event));
            }
            while let Ok(event) = self.events.try_recv() {
                batch.push(event);
            }
            self.apply(batch).await;
        }
    }

    async fn apply(&mut self, batch: Vec<Event>) {
        let (mut listings, mut seen, mut opened, mut recalled) = (Vec::new(), Vec::new(), Vec::new(), false);
        let (mut reloads, mut relocks) = (Vec::new(), Vec::new());
        for event in batch {
            match event {
                Event::Begin => {
                    self.begun = true;
                    self.start_due();
                }
                Event::Wake => {
                    self.awake = true;
                    self.recall();
                    self.start_due();
                }
                Event::Recall => self.recall(),
                Event::Source(event) if !self.is_current(&event) => {}
                Event::Source(SourceEvent::Listed { source, listing, seen: told, .. }) => {
                    listings.push((source, *listing, true));
                    seen.push(told);
                }
                Event::Source(SourceEvent::Greeted { source, era, .. }) => {
                    if let Some(key) = self.entry(source.as_str()).and_then(key_of) {
                        self.store.keep_era(key, era);
                    }
                }
                Event::Recalled(found) => {
                    recalled = true;
                    self.take_recalled(found, &mut listings);
                }
                Event::Open { principal, change, done } => opened.push((done, self.open(&principal, change))),
                Event::Reload { config, done } => reloads.push((*config, done)),
                Event::Keep(why) => self.stale = Some(why),
                Event::Relock { done } => relocks.push(done),
            }
        }
        let relisted = recalled || !listings.is_empty();
        let is_told = self.publish.borrow().stale == self.stale;
        if relisted {
            self.rebuild(listings).await;
        } else if !is_told || opened.iter().any(|(_, changed)| *changed) {
            self.publish(None);
        }
        if recalled {
            self.around.tracker.spawn_blocking(crate::trim::give_back);
        }
        for told in seen {
            let _ = told.send(());
        }
        for (done, changed) in opened {
            let _ = done.send(changed);
        }
        for (config, done) in reloads {
            let _ = done.send(self.reload(config).await);
        }
        if !relocks.is_empty() {
            self.relock().await;
        }
        for done in relocks {
            let _ = done.send(());
        }
    }

    /// Whether an event comes from a source that is still in force, and not from an earlier one of the same id.
    fn is_current(&self, event: &SourceEvent) -> bool {
        let (SourceEvent::Listed { source, edition, .. } | SourceEvent::Greeted { source, edition, .. }) = event;
        self.sources.get(source).is_some_and(|source| source.edition == *edition)
    }

    fn recall(&mut self) {
        let Some(keys) = self.unread.take() else { return };
        let (store, tell) = (self.store.clone(), self.tell.clone());
        self.around.tracker.spawn(async move {
            let listings = if keys.is_empty() { Vec::new() } else { store.load(keys).await };
            if let Some(tell) = tell.upgrade() {
                let _ = tell.send(Event::Recalled(listings)).await;
            }
        });
    }

    /// Starts what is due: once the relay is used everything, before that what is wanted at the start.
    fn start_due(&mut self) {
        let at_start = |source: &Source| source.config.as_ref().is_some_and(|config| config.start == Start::AtStart);
        let (awake, begun) = (self.awake, self.begun);
        let due = self.unstarted.extract_if(.., |source| awake || begun && at_start(source));
        for source in due.collect::<Vec<_>>() {
            self.around.tracker.spawn(async move {
                if let Err(error) = source.list().await {
                    tracing::debug!(source = %source.id, why = %error.message, "first listing failed");
                }
            });
        }
    }

    /// Listings of earlier runs fill only those toolsets that nothing newer has filled.
    fn take_recalled(&mut self, recalled: Vec<(Key, Listing)>, listings: &mut Vec<(SourceId, Listing, bool)>) {
        let mut forgotten = Vec::new();
        for (key, listing) in recalled {
            let is_meant = self.entry(&key.id).and_then(key_of).is_some_and(|current| current == key);
            let current = self.toolsets.get(key.id.as_str()).filter(|toolset| is_meant && !toolset.loaded);
            if let Some(toolset) = current {
                listings.push((toolset.id.clone(), listing, false));
            }
        }
        // What the memory promised and did not hold is as good as never listed.
        let config = self.config.clone();
        for entry in &config.sources {
            let id = entry.id();
            let promised = self.toolsets.get(id).is_some_and(|toolset| !toolset.loaded);
            if promised && !listings.iter().any(|(source, ..)| source == id) {
                self.toolsets.insert(id.clone(), Arc::new(with_spec(entry, Toolset::unlisted)));
                forgotten.extend(self.sources.get(id).cloned());
            }
        }
        for source in forgotten {
            self.around.tracker.spawn(async move { source.forget().await });
        }
    }

    fn open(&mut self, principal: &Principal, change: Change) -> bool {
        let open = !matches!(change, Change::Close(..));
        let changed = self.open.entry(principal.clone()).or_default().apply(change);
        if principal.is_remembered(&self.config) {
            for name in &changed {
                self.store.keep_open(&principal.0, name, open);
            }
        }
        !changed.is_empty()
    }

    fn entry(&self, id: &str) -> Option<&SourceEntry> {
        self.config.sources.iter().find(|entry| entry.id().as_str() == id)
    }

    /// Builds toolsets and catalog anew, on a thread of its own, and publishes them; `false` if that failed.
    async fn rebuild(&mut self, listings: Vec<(SourceId, Listing, bool)>) -> bool {
        let config = self.config.clone();
        let mut toolsets = self.toolsets.clone();
        let (store, sources, views) = (self.store.clone(), self.sources.clone(), self.publish.borrow().views.clone());
        let (pins, mut borrowed) = (self.pins.clone(), self.borrowed.clone());
        let mut known = self.known_listings(&listings).await;
        let built = defect::contained_apart(move || {
            pins.look();
            let mut digests = Vec::with_capacity(listings.len());
            for (id, listing, fresh) in listings {
                let listing = match known.remove(&id) {
                    Some(known) => listing.spelled_as(&known),
                    None => listing,
                };
                digests.push((id.clone(), listing.digest.clone()));
                let Some(entry) = config.sources.iter().find(|entry| *entry.id() == id) else { continue };
                // What is another entry's fills no gap in the first list of this one.
                let is_own = !(fresh && borrowed.remove(&id));
                let listing = match toolsets.get(&id).filter(|_| is_own) {
                    Some(last) => listing.keeping(&last.note().offer, || reload::raws(last)),
                    None => listing,
                };
                let toolset = with_spec(entry, |spec| Toolset::pinned(spec, &listing, pins.of(spec.id)));
                if !borrowed.contains(&id) {
                    remember(&store, entry, &toolset, &listing, fresh);
                }
                toolsets.insert(id, Arc::new(toolset));
            }
            let catalog = Arc::new(Catalog::arranged(toolsets.values().cloned().collect(), &config.toolsets));
            let views = views.renewed(&config, &catalog, &sources);
            (toolsets, borrowed, catalog, views, digests)
        })
        .await;
        match built {
            Some((toolsets, borrowed, catalog, views, digests)) => {
                self.borrowed = borrowed;
                self.digests.extend(digests);
                pinning::tell(&self.toolsets, &toolsets);
                self.toolsets = toolsets;
                self.publish(Some((catalog, views)));
                true
            }
            None => {
                tracing::error!("the catalog could not be built; the last one stays");
                false
            }
        }
    }

    fn publish(&self, built: Option<(Arc<Catalog>, Views)>) {
        let last = self.publish.borrow().clone();
        let (catalog, index, views) = match built {
            Some((catalog, views)) => (catalog, Arc::default(), Arc::new(views)),
            None => (last.catalog.clone(), last.index.clone(), last.views.clone()),
        };
        let snapshot = Snapshot {
            config: self.config.clone(),
            catalog,
            sources: self.sources.clone(),
            open: Arc::new(self.open.clone()),
            index,
            stale: self.stale.clone(),
            granted: None,
            views,
            unpinned: self.pins.notice(),
            core: Core::default(),
        };
        self.publish.send_replace(Arc::new(snapshot));
    }
}
