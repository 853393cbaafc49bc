//! Owns the view of the world at an instant that everyone reads: catalog, sources, and which toolsets are open.
//! It never changes; the control plane publishes a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::catalog::search::Index;
use crate::config::{Config, SourceConfig};
use crate::name::SourceId;
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

/// What was open to whom.
pub type OpenToolsets = BTreeMap<Principal, BTreeSet<SourceId>>;

/// The world at an instant.
pub struct Snapshot {
    pub config: Arc<Config>,
    pub catalog: Arc<Catalog>,
    pub sources: Arc<BTreeMap<SourceId, Source>>,
    pub open: Arc<OpenToolsets>,
    /// The search index of this catalog, made when it is first wanted.
    pub index: Arc<OnceLock<Index>>,
}

impl Snapshot {
    pub fn is_open(&self, principal: &Principal, toolset: &str) -> bool {
        self.open.get(principal).is_some_and(|open| open.contains(toolset))
    }

    pub fn source(&self, id: &str) -> Option<&Source> {
        self.sources.get(id)
    }

    pub fn source_config(&self, id: &str) -> Option<&Arc<SourceConfig>> {
        self.source(id)?.config.as_ref()
    }
}
