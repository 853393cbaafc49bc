//! Owns the view of the world at an instant that everyone reads: catalog, sources, and which toolsets are open.
//! It never changes; the control plane publishes a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::catalog::search::Index;
use crate::catalog::{Catalog, Entry};
use crate::config::{Config, Exposure, SourceConfig};
use crate::name::{SourceId, ToolName};
use crate::source::Source;

/// Whose credential a request comes with: the unit that toolsets are opened for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(pub Arc<str>);

impl Principal {
    /// The local user, over stdio.
    pub fn local() -> Self {
        Self("local".into())
    }
}

/// Where the newest snapshot is always found. Cheap to clone.
#[derive(Clone)]
pub struct Snapshots(watch::Receiver<Arc<Snapshot>>);

impl Snapshots {
    pub fn new(published: watch::Receiver<Arc<Snapshot>>) -> Self {
        Self(published)
    }

    /// The world as it is now.
    pub fn now(&self) -> Arc<Snapshot> {
        self.0.borrow().clone()
    }

    /// A receiver of every new snapshot.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.0.clone()
    }

    /// A snapshot in which every remembered listing has been read.
    pub async fn loaded(&self) -> Arc<Snapshot> {
        let mut published = self.0.clone();
        match published.wait_for(|snapshot| snapshot.catalog.is_loaded()).await {
            Ok(snapshot) => snapshot.clone(),
            Err(_) => self.now(),
        }
    }
}

/// What is open to one principal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// Whole toolsets.
    pub toolsets: BTreeSet<SourceId>,
    /// Single tools, loaded by name or activated by a search.
    pub tools: BTreeSet<(SourceId, ToolName)>,
}

/// A change of what is open to a principal.
#[derive(Debug, Clone)]
pub enum Change {
    Open(SourceId),
    /// Closes a toolset, and single tools of it too.
    Close(SourceId),
    Load(Vec<(SourceId, ToolName)>),
}

impl Opened {
    /// Makes a change; gives the names of what it opened or closed, as they are remembered.
    pub fn apply(&mut self, change: Change) -> Vec<String> {
        match change {
            Change::Open(id) => Vec::from_iter(self.toolsets.insert(id.clone()).then(|| id.to_string())),
            Change::Close(id) => {
                let single: Vec<_> = self.tools.iter().filter(|(source, _)| *source == id).map(remembered).collect();
                self.tools.retain(|(source, _)| *source != id);
                let mut closed = single;
                closed.extend(self.toolsets.remove(&id).then(|| id.to_string()));
                closed
            }
            Change::Load(tools) => {
                let new = tools.into_iter().filter(|tool| self.tools.insert(tool.clone()));
                new.map(|tool| remembered(&tool)).collect()
            }
        }
    }

    /// Opens what was remembered under `name`, if its source is still there.
    pub fn recall(&mut self, name: &str, known: impl Fn(&str) -> Option<SourceId>) {
        let (source, tool) = name.split_once('/').map_or((name, None), |(source, tool)| (source, Some(tool)));
        match (known(source), tool) {
            (Some(id), None) => drop(self.toolsets.insert(id)),
            (Some(id), Some(tool)) => drop(self.tools.insert((id, ToolName::new(tool)))),
            (None, _) => {}
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
}

impl Snapshot {
    /// Whether all tools of a toolset are shown to the principal.
    pub fn is_open(&self, principal: &Principal, toolset: &str) -> bool {
        self.config.relay.exposure == Exposure::Eager
            || self.open.get(principal).is_some_and(|open| open.toolsets.contains(toolset))
    }

    /// Whether a tool was opened to the principal by itself.
    pub fn is_loaded(&self, principal: &Principal, entry: &Entry) -> bool {
        self.open.get(principal).is_some_and(|open| {
            !open.tools.is_empty() && open.tools.contains(&(entry.source.clone(), entry.tool.clone()))
        })
    }

    /// Whether a tool is shown in every exposure.
    pub fn is_always_visible(&self, entry: &Entry) -> bool {
        let globs = &self.config.relay.always_visible;
        !globs.is_empty() && {
            let name = format!("{}/{}", entry.source, entry.tool);
            globs.iter().any(|glob| wildmatch::WildMatch::new(glob).matches(&name))
        }
    }

    /// Whether the principal can call the tool by a name of its own in its tool list.
    pub fn is_shown(&self, principal: &Principal, entry: &Entry) -> bool {
        let opened = self.is_open(principal, entry.source.as_str()) || self.is_loaded(principal, entry);
        entry.direct && !entry.hidden && (opened || self.is_always_visible(entry))
    }

    pub fn source(&self, id: &str) -> Option<&Source> {
        self.sources.get(id)
    }

    pub fn source_config(&self, id: &str) -> Option<&Arc<SourceConfig>> {
        self.source(id)?.config.as_ref()
    }
}
