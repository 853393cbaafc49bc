//! Owns the view of the world at an instant that everyone reads: catalog, sources, and which toolsets are open.
//! It never changes; the control plane publishes a new one.

mod signpost;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::catalog::glob::PairGlob;
use crate::catalog::search::Index;
use crate::catalog::{Catalog, Drawer, Entry, Toolset};
use crate::config::{Config, Exposure, SourceConfig};
use crate::name::{SourceId, ToolName};
use crate::policy::grant::Granted;
use crate::source::{Source, State};
pub use view::Views;

/// Whose credential a request comes with: the unit that toolsets are opened for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(pub Arc<str>);

impl Principal {
    /// The local user, over stdio.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// Whoever connects over HTTP where no credential is asked for.
    pub fn anonymous() -> Self {
        Self("http".into())
    }

    /// The owner of a credential of the configuration.
    pub fn credential(id: &str) -> Self {
        Self(format!("credential:{id}").into())
    }

    /// A number that tells it from others, in this process.
    pub fn number(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether what it opens is remembered between runs: of the local user only if the configuration says so.
    pub fn is_remembered(&self, config: &Config) -> bool {
        config.relay.remember || *self != Self::local()
    }

    /// The id of its credential in the configuration, if it has one.
    pub fn credential_id(&self) -> Option<&str> {
        self.0.strip_prefix("credential:")
    }
}

/// Where the newest snapshot is always found, as one principal sees it. Cheap to clone.
#[derive(Clone)]
pub struct Snapshots {
    published: watch::Receiver<Arc<Snapshot>>,
    /// The credential of whoever looks; `None` sees the whole world.
    credential: Option<Arc<str>>,
}

impl Snapshots {
    pub fn new(published: watch::Receiver<Arc<Snapshot>>) -> Self {
        Self { published, credential: None }
    }

    /// The same, as a principal sees it.
    pub fn seen_by(&self, principal: &Principal) -> Self {
        Self { published: self.published.clone(), credential: principal.credential_id().map(Into::into) }
    }

    fn seen(&self, world: &Arc<Snapshot>) -> Arc<Snapshot> {
        match &self.credential {
            None => world.clone(),
            Some(credential) => world.seen_with(credential),
        }
    }

    /// The world as it is now.
    pub fn now(&self) -> Arc<Snapshot> {
        self.seen(&self.published.borrow())
    }

    /// Every new snapshot.
    pub fn watch(&self) -> Watching {
        Watching(self.clone())
    }

    /// A snapshot in which every remembered listing has been read.
    pub async fn loaded(&self) -> Arc<Snapshot> {
        let mut published = self.published.clone();
        match published.wait_for(|snapshot| snapshot.catalog.is_loaded()).await {
            Ok(snapshot) => self.seen(&snapshot),
            Err(_) => self.now(),
        }
    }
}

/// Sees each new snapshot, as one principal does.
pub struct Watching(Snapshots);

impl Watching {
    /// The newest, which is then no new one any more.
    pub fn borrow_and_update(&mut self) -> Arc<Snapshot> {
        let world = self.0.published.borrow_and_update().clone();
        self.0.seen(&world)
    }

    /// Waits for one that has not been seen; fails when there will be none any more.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.0.published.changed().await
    }
}

/// What is open to one principal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// Whole toolsets, by the ids of their drawers.
    pub toolsets: BTreeSet<SourceId>,
    /// Single tools, loaded by name or activated by a search.
    pub tools: BTreeSet<(SourceId, ToolName)>,
}

/// A change of what is open to a principal.
#[derive(Debug, Clone)]
pub enum Change {
    Open(SourceId),
    /// Closes a toolset, and single tools of it too: `catalog` knows which.
    Close(SourceId, Arc<Catalog>),
    Load(Vec<(SourceId, ToolName)>),
}

impl Opened {
    /// Makes a change; gives the names of what it opened or closed, as they are remembered.
    pub fn apply(&mut self, change: Change) -> Vec<String> {
        match change {
            Change::Open(id) => Vec::from_iter(self.toolsets.insert(id.clone()).then(|| id.to_string())),
            Change::Close(id, catalog) => {
                let is_in = |(source, tool): &(SourceId, ToolName)| {
                    catalog.drawer_of_name(source.as_str(), tool.as_str()) == Some(&id)
                };
                let mut closed: Vec<_> = self.tools.iter().filter(|tool| is_in(tool)).map(remembered).collect();
                self.tools.retain(|tool| !is_in(tool));
                closed.extend(self.toolsets.remove(&id).then(|| id.to_string()));
                closed
            }
            Change::Load(tools) => {
                let new = tools.into_iter().filter(|tool| self.tools.insert(tool.clone()));
                new.map(|tool| remembered(&tool)).collect()
            }
        }
    }

    /// Opens what was remembered under `name`, if its toolset or source is still there.
    pub fn recall(&mut self, name: &str, catalog: &Catalog) {
        match name.split_once('/') {
            None => self.toolsets.extend(catalog.drawer(name).map(|drawer| drawer.id.clone())),
            Some((source, tool)) => {
                let source = catalog.toolset(source).map(|toolset| toolset.id.clone());
                self.tools.extend(source.map(|source| (source, ToolName::new(tool))));
            }
        }
    }
}

/// How an open tool is remembered; a toolset is remembered by its id, which has no slash.
fn remembered((source, tool): &(SourceId, ToolName)) -> String {
    format!("{source}/{tool}")
}

/// What is open to whom.
pub type OpenByPrincipal = BTreeMap<Principal, Opened>;

/// The world at an instant.
pub struct Snapshot {
    pub config: Arc<Config>,
    pub catalog: Arc<Catalog>,
    pub sources: Arc<BTreeMap<SourceId, Source>>,
    pub open: Arc<OpenByPrincipal>,
    /// The search index of this catalog, made when it is first wanted.
    pub index: Arc<OnceLock<Index>>,
    /// Why the configuration in force is not what its file says now: that one cannot be used.
    pub stale: Option<Arc<str>>,
    /// What the owner of a credential may see and call, where this is what that one sees.
    pub granted: Option<Arc<Granted>>,
    /// What each credential sees of this catalog.
    pub views: Arc<Views>,
    /// That tools cannot be held against the lock, and why.
    pub unpinned: Option<Arc<str>>,
    /// Which tools are shown in every exposure.
    pub core: Core,
}

/// The configuration's `always_visible`, read when it is first wanted.
#[derive(Debug, Clone, Default)]
pub struct Core(Arc<OnceLock<Vec<PairGlob>>>);

impl Snapshot {
    /// Whether all tools of a toolset, given by its drawer's id, are shown to the principal.
    pub fn is_open(&self, principal: &Principal, toolset: &str) -> bool {
        self.config.relay.exposure == Exposure::Eager
            || self.open.get(principal).is_some_and(|open| open.toolsets.contains(toolset))
    }

    /// Whether all that a source has to show is shown to the principal, opened with its drawers or one by one.
    pub fn is_whole_open(&self, principal: &Principal, source: &str) -> bool {
        let Some(toolset) = self.catalog.toolset(source).filter(|toolset| toolset.count > 0) else { return false };
        // Of one that is still to be read from memory it is only known which drawers are open.
        let mut shows = toolset.entries.iter().filter(|entry| entry.direct && !entry.hidden).peekable();
        self.is_source_open(principal, source)
            || (shows.peek().is_some() && shows.all(|entry| self.is_shown(principal, entry)))
    }

    /// Whether all drawers that a source has tools in are open to the principal.
    pub fn is_source_open(&self, principal: &Principal, source: &str) -> bool {
        if self.config.toolsets.is_empty() {
            return self.is_open(principal, source);
        }
        let drawers = self.catalog.drawers_with(source);
        !drawers.is_empty() && drawers.iter().all(|drawer| self.is_open(principal, drawer.id.as_str()))
    }

    /// Whether any tool of a source may be shown to the principal: with many sources, most have none.
    pub fn may_show(&self, principal: &Principal, toolset: &Toolset) -> bool {
        let is_open = |drawer: &&Drawer| self.is_open(principal, drawer.id.as_str());
        let has_loaded = |open: &Opened| open.tools.iter().any(|(source, _)| *source == toolset.id);
        !self.config.relay.always_visible.is_empty()
            || self.open.get(principal).is_some_and(has_loaded)
            || self.catalog.drawers_with(toolset.id.as_str()).iter().any(is_open)
    }

    /// Whether a tool was opened to the principal by itself.
    pub fn is_loaded(&self, principal: &Principal, entry: &Entry) -> bool {
        self.open.get(principal).is_some_and(|open| {
            !open.tools.is_empty() && open.tools.contains(&(entry.source.clone(), entry.tool.clone()))
        })
    }

    /// Whether a tool is shown in every exposure.
    pub fn is_always_visible(&self, entry: &Entry) -> bool {
        let written = &self.config.relay.always_visible;
        let globs = || written.iter().map(|glob| PairGlob::new(glob)).collect();
        let (source, tool) = (entry.source.as_str(), entry.tool.as_str());
        !written.is_empty() && self.core.0.get_or_init(globs).iter().any(|glob| glob.matches(source, tool))
    }

    /// Whether the principal can call the tool by a name of its own in its tool list.
    pub fn is_shown(&self, principal: &Principal, entry: &Entry) -> bool {
        let opened =
            self.is_open(principal, self.catalog.drawer_of(entry).as_str()) || self.is_loaded(principal, entry);
        entry.direct && !entry.hidden && (opened || self.is_always_visible(entry))
    }

    /// Whether a source has never been listed and may yet be, by itself.
    pub fn awaits(&self, toolset: &Toolset) -> bool {
        let state = || self.source(toolset.id.as_str()).map(|source| source.status().state);
        !toolset.is_listed()
            && matches!(state(), Some(State::Starting { .. } | State::Ready { .. } | State::Dormant { note: None }))
    }

    /// Whether any source has never been listed and may yet be.
    pub fn awaits_any(&self) -> bool {
        self.catalog.toolsets.iter().any(|toolset| self.awaits(toolset))
    }

    pub fn source(&self, id: &str) -> Option<&Source> {
        self.sources.get(id)
    }

    /// The name of a source's transport, also where its entry is faulty, if that tells.
    pub fn transport(&self, id: &str) -> Option<&'static str> {
        let at = self.config.sources.binary_search_by(|entry| entry.id().as_str().cmp(id)).ok()?;
        self.config.sources[at].transport()
    }

    pub fn source_config(&self, id: &str) -> Option<&Arc<SourceConfig>> {
        self.source(id)?.config.as_ref()
    }
}
