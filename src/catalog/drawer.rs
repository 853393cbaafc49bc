//! Owns the drawers: what a client opens and closes. Each source has one of its own unless the configuration puts its tools
//! elsewhere, and `[toolset.ID]` makes others, of parts of sources and of several together. It does not know what is open.
//!
//! Which drawers there are, their order and their texts follow from the configuration and from what the sources say of
//! themselves, never from their tools, so that a cold start tells the same as a loaded catalog.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use super::glob::{Glob, PairGlob};
use super::listing::Fingerprint;
use super::text::{LINE_MAX, single_line};
use super::{Catalog, Entry, Toolset, Withheld};
use crate::config::ToolsetConfig;
use crate::name::SourceId;

/// A toolset as clients know it.
#[derive(Debug)]
pub struct Drawer {
    pub id: SourceId,
    pub name: String,
    pub provider: String,
    /// One line of at most 160 characters.
    pub summary: String,
    /// Whether all of its sources are.
    pub read_only: bool,
    /// How many tools are shown when it is open; may be too low until everything is loaded.
    pub count: usize,
    /// How many tools of it are withheld; likewise.
    pub withheld_count: usize,
    /// The positions of the sources with tools in it; of those never listed, the ones that may have some.
    sources: Vec<u32>,
    /// Its categories and how many tools each has, counted when they are first asked for.
    categories: OnceLock<BTreeMap<Box<str>, usize>>,
}

/// All drawers, and which tool is in which.
#[derive(Debug, Default)]
pub(super) struct Drawers {
    /// Sorted by provider, then id.
    list: Vec<Drawer>,
    ids: HashMap<SourceId, u32>,
    /// Where the tools of each source are, by its position.
    homes: Vec<Home>,
    /// Whether every source has just its own drawer.
    plain: bool,
}

/// Where the tools of one source are; drawers by their positions.
#[derive(Debug)]
enum Home {
    Whole(u32),
    Parted {
        /// The first that fits has the tool.
        globs: Vec<(Glob, u32)>,
        /// The source's own drawer, which has all others.
        own: u32,
        /// The drawer of each entry.
        of: Box<[u32]>,
    },
}

impl Home {
    fn of_name(&self, tool: &str) -> u32 {
        match self {
            Self::Whole(drawer) => *drawer,
            Self::Parted { globs, own, .. } => {
                globs.iter().find(|(glob, _)| glob.matches(tool)).map_or(*own, |(_, drawer)| *drawer)
            }
        }
    }
}

/// A drawer of the configuration, ready to be asked.
struct Declared<'c> {
    config: &'c ToolsetConfig,
    globs: Vec<PairGlob>,
}

impl Drawers {
    /// Arranges the toolsets of a catalog, which are in its order already; `configs` are sorted by id.
    pub(super) fn arrange(toolsets: &[Arc<Toolset>], configs: &[ToolsetConfig]) -> Self {
        let declared: Vec<_> = configs.iter().map(Declared::new).collect();
        let rules: Vec<Vec<(Glob, usize)>> = toolsets.iter().map(|toolset| rules(&declared, toolset)).collect();
        let mut list: Vec<Drawer> = Vec::with_capacity(toolsets.len() + configs.len());
        list.extend(declared.iter().enumerate().map(|(at, declared)| declared.drawer(at, toolsets, &rules)));
        let owners = toolsets.iter().zip(&rules).zip(0_u32..).filter(|((_, rules), _)| !takes_all(rules));
        list.extend(owners.map(|((toolset, _), at)| own(toolset, at)));
        list.sort_by(|a, b| (&a.provider, &a.id).cmp(&(&b.provider, &b.id)));
        let ids: HashMap<SourceId, u32> = list.iter().zip(0..).map(|(drawer, at)| (drawer.id.clone(), at)).collect();
        let place = |config: usize| ids[&configs[config].id];
        let homes = toolsets.iter().zip(rules).map(|(toolset, rules)| {
            let globs: Vec<_> = rules.into_iter().map(|(glob, config)| (glob, place(config))).collect();
            home(toolset, globs, ids.get(&toolset.id).copied())
        });
        let homes = homes.collect();
        let mut drawers = Self { list, ids, homes, plain: configs.is_empty() };
        drawers.count(toolsets);
        drawers
    }

    /// Counts what is in each drawer, and forgets sources that turn out to have nothing in one.
    fn count(&mut self, toolsets: &[Arc<Toolset>]) {
        let mut empty: Vec<(u32, u32)> = Vec::new();
        for ((home, toolset), at) in self.homes.iter().zip(toolsets).zip(0_u32..) {
            let (globs, own, of) = match home {
                Home::Whole(drawer) => {
                    let drawer = &mut self.list[*drawer as usize];
                    drawer.count += toolset.count;
                    drawer.withheld_count += toolset.withheld_count;
                    continue;
                }
                Home::Parted { globs, own, of } => (globs, own, of),
            };
            let mut here: BTreeMap<u32, usize> = globs.iter().map(|(_, drawer)| (*drawer, 0)).collect();
            for (entry, drawer) in toolset.entries.iter().zip(of) {
                *here.entry(*drawer).or_default() += 1;
                self.list[*drawer as usize].count += usize::from(entry.is_for_models());
            }
            for withheld in &toolset.withheld {
                let drawer = home.of_name(withheld.tool.as_str());
                *here.entry(drawer).or_default() += 1;
                self.list[drawer as usize].withheld_count += 1;
            }
            if toolset.loaded && toolset.is_listed() {
                empty.extend(
                    here.iter()
                        .filter(|(drawer, tools)| **tools == 0 && *drawer != own)
                        .map(|(drawer, _)| (*drawer, at)),
                );
            }
        }
        for (drawer, source) in empty {
            let sources = &mut self.list[drawer as usize].sources;
            // A drawer without any tool is told of by all that might have had some.
            if sources.len() > 1 {
                sources.retain(|other| *other != source);
            }
        }
        for drawer in &mut self.list {
            drawer.read_only = drawer.sources.iter().all(|at| toolsets[*at as usize].read_only);
        }
    }
}

impl<'c> Declared<'c> {
    fn new(config: &'c ToolsetConfig) -> Self {
        let globs = config.tools.iter().map(|glob| PairGlob::of(&glob.source, &glob.tool));
        Self { config, globs: globs.collect() }
    }

    fn drawer(&self, at: usize, toolsets: &[Arc<Toolset>], rules: &[Vec<(Glob, usize)>]) -> Drawer {
        let sources = rules.iter().zip(0_u32..).filter(|(rules, _)| rules.iter().any(|(_, config)| *config == at));
        let sources: Vec<u32> = sources.map(|(_, source)| source).collect();
        let Self { config, .. } = self;
        Drawer {
            id: config.id.clone(),
            name: config.name.clone(),
            provider: config.provider.clone(),
            summary: self.summary(&sources, toolsets),
            read_only: false,
            count: 0,
            withheld_count: 0,
            sources,
            categories: OnceLock::new(),
        }
    }

    /// The configuration's, else those of its sources.
    fn summary(&self, sources: &[u32], toolsets: &[Arc<Toolset>]) -> String {
        let given = single_line(self.config.summary.as_deref().unwrap_or_default(), LINE_MAX);
        if !given.is_empty() {
            return given;
        }
        let of = |at: &u32| &toolsets[*at as usize];
        match sources {
            [] => single_line(&self.config.name, LINE_MAX),
            [one] if !self.globs.iter().any(|glob| matches!(glob.tool, Glob::Any)) => {
                let globs: Vec<&str> = self.config.tools.iter().map(|glob| glob.tool.as_str()).collect();
                let source = of(one);
                let name = if source.name.is_empty() { source.id.as_str() } else { &source.name };
                single_line(&format!("{name} ({}): {}", globs.join(", "), source.summary), LINE_MAX)
            }
            several => {
                let summaries: Vec<&str> = several.iter().map(|at| of(at).summary.as_str()).collect();
                single_line(&summaries.join(" "), LINE_MAX)
            }
        }
    }
}

/// Which globs over tool names apply to a source, up to the first that takes every tool.
fn rules(declared: &[Declared<'_>], toolset: &Toolset) -> Vec<(Glob, usize)> {
    let mut rules = Vec::new();
    for (at, declared) in declared.iter().enumerate() {
        for PairGlob { source, tool } in &declared.globs {
            if takes_all(&rules) {
                return rules;
            }
            if source.matches(toolset.id.as_str()) {
                rules.push((tool.clone(), at));
            }
        }
    }
    rules
}

fn takes_all(rules: &[(Glob, usize)]) -> bool {
    rules.iter().any(|(glob, _)| matches!(glob, Glob::Any))
}

/// The drawer that a source has by itself.
fn own(toolset: &Toolset, at: u32) -> Drawer {
    Drawer {
        id: toolset.id.clone(),
        name: toolset.name.clone(),
        provider: toolset.provider.clone(),
        summary: toolset.summary.clone(),
        read_only: toolset.read_only,
        count: 0,
        withheld_count: 0,
        sources: vec![at],
        categories: OnceLock::new(),
    }
}

fn home(toolset: &Toolset, globs: Vec<(Glob, u32)>, own: Option<u32>) -> Home {
    match (&globs[..], own) {
        ([(Glob::Any, drawer), ..], _) => Home::Whole(*drawer),
        ([], own) => Home::Whole(own.expect("BUG: a source without globs has its own drawer")),
        (globs_of, own) => {
            // Without a drawer of its own, the last glob takes every tool.
            let own = own.unwrap_or(globs_of[globs_of.len() - 1].1);
            let mut home = Home::Parted { globs, own, of: Box::default() };
            let places: Box<[u32]> = toolset.entries.iter().map(|entry| home.of_name(entry.tool.as_str())).collect();
            if let Home::Parted { of, .. } = &mut home {
                *of = places;
            }
            home
        }
    }
}

/// Adds to a revision what the configuration says about drawers.
pub(super) fn hash(hash: &mut Fingerprint, configs: &[ToolsetConfig]) {
    for config in configs {
        hash.text(config.id.as_str()).text(&config.name).text(&config.provider).maybe(config.summary.as_deref());
        for glob in &config.tools {
            hash.text(&glob.source).text(&glob.tool);
        }
    }
}

impl Catalog {
    /// All drawers, sorted by provider, then id.
    pub fn drawers(&self) -> &[Drawer] {
        &self.drawers.list
    }

    pub fn drawer(&self, id: &str) -> Option<&Drawer> {
        self.drawers.ids.get(id).map(|at| &self.drawers.list[*at as usize])
    }

    /// The id of the drawer in which an entry is.
    pub fn drawer_of<'a>(&'a self, entry: &'a Entry) -> &'a SourceId {
        if self.drawers.plain {
            return &entry.source;
        }
        let (source, tool) = (entry.source.as_str(), entry.tool.as_str());
        self.drawer_of_name(source, tool).unwrap_or(&entry.source)
    }

    /// The id of the drawer in which a source's tool is, or would be.
    pub fn drawer_of_name(&self, source: &str, tool: &str) -> Option<&SourceId> {
        let at = *self.ids.get(source)? as usize;
        let drawer = match &self.drawers.homes[at] {
            Home::Whole(drawer) => *drawer,
            home @ Home::Parted { of, .. } => match self.toolsets[at].position(tool) {
                Some(position) => of[position],
                None => home.of_name(tool),
            },
        };
        Some(&self.drawers.list[drawer as usize].id)
    }

    /// The sources that have tools in a drawer, or may have.
    pub fn sources_of<'a>(&'a self, drawer: &'a Drawer) -> impl Iterator<Item = &'a Arc<Toolset>> {
        drawer.sources.iter().map(|at| &self.toolsets[*at as usize])
    }

    /// The drawers with tools of a source, in the order of all.
    pub fn drawers_with(&self, source: &str) -> Vec<&Drawer> {
        let Some(at) = self.ids.get(source).copied() else { return Vec::new() };
        let mut places = match &self.drawers.homes[at as usize] {
            Home::Whole(drawer) => vec![*drawer],
            Home::Parted { globs, own, .. } => globs.iter().map(|(_, drawer)| *drawer).chain([*own]).collect(),
        };
        places.sort_unstable();
        places.dedup();
        let drawers = places.into_iter().map(|place| &self.drawers.list[place as usize]);
        drawers.filter(|drawer| drawer.sources.contains(&at)).collect()
    }

    /// A drawer's entries with their positions, hidden ones too, in the catalog's order.
    pub fn entries_of<'a>(&'a self, drawer: &'a Drawer) -> impl Iterator<Item = (&'a Toolset, usize)> {
        let own = self.drawers.ids.get(&drawer.id).copied().unwrap_or(u32::MAX);
        drawer.sources.iter().flat_map(move |at| {
            let (toolset, home) = (&*self.toolsets[*at as usize], &self.drawers.homes[*at as usize]);
            let is_in = move |position: usize| match home {
                Home::Whole(drawer) => *drawer == own,
                Home::Parted { of, .. } => of[position] == own,
            };
            (0..toolset.entries.len()).filter(move |position| is_in(*position)).map(move |position| (toolset, position))
        })
    }

    /// What is withheld of a drawer, with its source.
    pub fn withheld_of<'a>(&'a self, drawer: &'a Drawer) -> impl Iterator<Item = (&'a Toolset, &'a Withheld)> {
        let own = self.drawers.ids.get(&drawer.id).copied().unwrap_or(u32::MAX);
        drawer.sources.iter().flat_map(move |at| {
            let (toolset, home) = (&*self.toolsets[*at as usize], &self.drawers.homes[*at as usize]);
            let withheld = toolset.withheld.iter().filter(move |withheld| home.of_name(withheld.tool.as_str()) == own);
            withheld.map(move |withheld| (toolset, withheld))
        })
    }

    /// The category of an entry.
    pub fn category_of(&self, entry: &Entry) -> Option<&str> {
        let toolset = self.toolset(entry.source.as_str()).filter(|toolset| !toolset.categories.is_empty())?;
        toolset.categories.of(toolset.position(entry.tool.as_str())?)
    }

    /// How many tools of each category are shown of a drawer.
    pub fn categories_of<'a>(&'a self, drawer: &'a Drawer) -> &'a BTreeMap<Box<str>, usize> {
        drawer.categories.get_or_init(|| {
            let mut found = BTreeMap::new();
            if self.sources_of(drawer).all(|toolset| toolset.categories.is_empty()) {
                return found;
            }
            for (toolset, position) in self.entries_of(drawer) {
                if let Some(category) = toolset.categories.of(position) {
                    *found.entry(category.into()).or_default() += 1;
                }
            }
            found
        })
    }
}

#[cfg(test)]
#[path = "drawer_tests.rs"]
mod tests;
