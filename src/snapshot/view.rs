//! Owns what each credential sees of the world: a world of its own, made of what its rules leave. Whoever reads that one
//! cannot show, find, name or call anything else. It does not know who asks.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::Snapshot;
use crate::catalog::glob::Glob;
use crate::catalog::search::Index;
use crate::catalog::{Catalog, Toolset};
use crate::config::{Config, Exposure, Grant, PairGlob, ToolsetConfig};
use crate::name::SourceId;
use crate::policy::grant::Granted;
use crate::source::Source;

/// What a credential with rules is told of a configuration that cannot be used: the reason may name what it does not see.
const STALE: &str = "the relay's configuration was changed and cannot be used; the one before is in force";

/// The same of a lock that cannot be used.
const UNPINNED: &str = "the relay's sources.lock cannot be used; its log says why";

/// The credentials' views of one catalog, each made when it is first wanted.
#[derive(Default)]
pub struct Views {
    /// By the credential's id.
    views: BTreeMap<SourceId, View>,
}

struct View {
    granted: Arc<Granted>,
    exposure: Option<Exposure>,
    made: OnceLock<Made>,
}

/// The parts of a snapshot that depend on the credential.
#[derive(Clone)]
struct Made {
    config: Arc<Config>,
    catalog: Arc<Catalog>,
    sources: Arc<BTreeMap<SourceId, Source>>,
    index: Arc<OnceLock<Index>>,
}

impl View {
    fn new(id: &SourceId, grant: &Grant) -> Self {
        Self { granted: Arc::new(Granted::new(id, grant)), exposure: grant.exposure, made: OnceLock::new() }
    }

    fn is_everything(&self) -> bool {
        self.exposure.is_none() && self.granted.is_everything()
    }

    fn make(&self, whole: &Made) -> Made {
        let mut made = whole.clone();
        if let Some(exposure) = self.exposure {
            let mut config = Config::clone(&whole.config);
            config.relay.exposure = exposure;
            made.config = Arc::new(config);
        }
        if !self.granted.is_everything() {
            made.catalog = Arc::new(restricted(&whole.catalog, &whole.config.toolsets, &self.granted));
            let sources = whole.sources.iter().filter(|(id, _)| self.granted.sees(id.as_str()));
            made.sources = Arc::new(sources.map(|(id, source)| (id.clone(), source.clone())).collect());
            made.index = Arc::default();
        }
        made
    }
}

impl Views {
    pub fn new(config: &Config) -> Self {
        let views = config.http.credentials.iter();
        Self { views: views.map(|known| (known.id.clone(), View::new(&known.id, &known.grant))).collect() }
    }

    /// The views of a newer catalog with the same credentials: they hold as they were at the start. Those that were in use
    /// are made at once.
    pub fn renewed(
        &self,
        config: &Arc<Config>,
        catalog: &Arc<Catalog>,
        sources: &Arc<BTreeMap<SourceId, Source>>,
    ) -> Self {
        let whole =
            Made { config: config.clone(), catalog: catalog.clone(), sources: sources.clone(), index: Arc::default() };
        let renewed = self.views.iter().map(|(id, old)| {
            let view = View { granted: old.granted.clone(), exposure: old.exposure, made: OnceLock::new() };
            if old.made.get().is_some() {
                view.made.get_or_init(|| view.make(&whole));
            }
            (id.clone(), view)
        });
        Self { views: renewed.collect() }
    }
}

impl Snapshot {
    /// The world as the owner of a credential sees it.
    pub fn seen_with(self: &Arc<Self>, credential: &str) -> Arc<Self> {
        let nobody;
        let view = match self.views.views.get(credential) {
            Some(view) if view.is_everything() => return self.clone(),
            Some(view) => view,
            // A credential that is not there any more sees nothing.
            None => {
                let id = SourceId::new(credential).expect("BUG: the id of a credential is one of the configuration");
                nobody = View::new(&id, &Grant { sources: Some(Vec::new()), ..Grant::default() });
                &nobody
            }
        };
        let whole = || Made {
            config: self.config.clone(),
            catalog: self.catalog.clone(),
            sources: self.sources.clone(),
            index: self.index.clone(),
        };
        let Made { config, catalog, sources, index } = view.made.get_or_init(|| view.make(&whole())).clone();
        let index = if view.granted.is_everything() { self.index.clone() } else { index };
        let granted = Some(view.granted.clone());
        Arc::new(Self {
            config,
            catalog,
            sources,
            index,
            granted,
            open: self.open.clone(),
            stale: self.stale.as_ref().map(|_| STALE.into()),
            unpinned: self.unpinned.as_ref().map(|_| UNPINNED.into()),
            views: Arc::default(),
            core: self.core.clone(),
        })
    }
}

/// What is left of a catalog.
fn restricted(catalog: &Catalog, drawers: &[ToolsetConfig], granted: &Granted) -> Catalog {
    let seen = catalog.toolsets.iter().filter(|toolset| granted.sees(toolset.id.as_str()));
    let toolsets: Vec<_> = seen.map(|toolset| part(toolset, granted)).collect();
    let is_seen = |glob: &PairGlob| {
        let source = Glob::new(&glob.source);
        toolsets.iter().any(|toolset| source.matches(toolset.id.as_str()))
    };
    let mut drawers = drawers.to_vec();
    // Neither a drawer nor its summary tells of a source that is not there.
    drawers.iter_mut().for_each(|drawer| drawer.tools.retain(is_seen));
    drawers.retain(|drawer| !drawer.tools.is_empty());
    Catalog::arranged(toolsets, &drawers)
}

fn part(toolset: &Arc<Toolset>, granted: &Granted) -> Arc<Toolset> {
    if !granted.chooses_tools() {
        return toolset.clone();
    }
    let source = toolset.id.as_str();
    let refusal = |tool: &str, read_only| granted.refusal(source, tool, read_only);
    let restricted = toolset.restricted(granted.is_read_only(), refusal);
    Arc::new(restricted.offering(|offered| granted.refusal_of(source, offered).is_some()))
}
