//! Owns the part of the catalog that a search is about: a source, a toolset, a category, or all of it. And what a query
//! names as a whole: a category, or a toolset of the configuration, whose tools then come first. It does not rank.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::call::{CallError, ErrorKind};
use crate::catalog::category::is_same;
use crate::catalog::{Catalog, Drawer, Hit, Toolset, Withheld};
use crate::config::keys::CATEGORY_MAX;
use crate::snapshot::Snapshot;

use super::drawers::source_named;

/// How many categories an error names.
const NAMED: usize = 20;

/// The source or the toolset that a search is about.
pub enum Place<'a> {
    Source(&'a Arc<Toolset>),
    Drawer(&'a Drawer),
}

impl<'a> Place<'a> {
    /// By id, then by name; a source before a toolset.
    pub fn read(snapshot: &'a Snapshot, named: Option<&str>) -> Result<Option<Self>, CallError> {
        let Some(named) = named.map(str::trim).filter(|named| !named.is_empty()) else { return Ok(None) };
        let catalog = &snapshot.catalog;
        let by_id = catalog.toolset(named).map(Self::Source).or_else(|| catalog.drawer(named).map(Self::Drawer));
        let source = || source_named(catalog, named).and_then(|id| catalog.toolset(id)).map(Self::Source);
        let drawer =
            || catalog.drawers().iter().find(|drawer| drawer.name.eq_ignore_ascii_case(named)).map(Self::Drawer);
        by_id.or_else(source).or_else(drawer).map(Some).ok_or_else(|| {
            let text = format!("there is no source or toolset `{named}`");
            let mut error = CallError::new(ErrorKind::UnknownSource, text, snapshot.where_places_are()).at(named, None);
            error.similar = catalog.similar_drawers(named);
            error
        })
    }

    /// The sources it is made of.
    pub fn toolsets(&self, snapshot: &'a Snapshot) -> Vec<&'a Arc<Toolset>> {
        match self {
            Self::Source(toolset) => vec![toolset],
            Self::Drawer(drawer) => snapshot.catalog.sources_of(drawer).collect(),
        }
    }
}

/// What a search is about.
pub struct Scope<'a> {
    catalog: &'a Catalog,
    place: Option<Place<'a>>,
    category: Option<&'a str>,
}

impl<'a> Scope<'a> {
    pub fn read(snapshot: &'a Snapshot, place: Option<&str>, category: Option<&'a str>) -> Result<Self, CallError> {
        let category = category.map(str::trim).filter(|category| !category.is_empty());
        let scope = Self { catalog: &snapshot.catalog, place: Place::read(snapshot, place)?, category };
        let known = || scope.toolsets().flat_map(|toolset| toolset.categories.names());
        match category {
            Some(category) if !known().any(|name| is_same(name, category)) => {
                let known: BTreeSet<&str> = known().collect();
                let names: Vec<&str> = known.iter().copied().take(NAMED).collect();
                let hint = match known.len() {
                    0 => "none of these tools has a category; leave it out".to_owned(),
                    _ => format!("there are {}", names.join(", ")),
                };
                let text = format!("there is no category `{category}`");
                Err(CallError::new(ErrorKind::InvalidArguments, text, hint))
            }
            _ => Ok(scope),
        }
    }

    /// The sources that it is about.
    pub fn toolsets(&self) -> impl Iterator<Item = &'a Toolset> {
        let catalog = self.catalog;
        let chosen: Vec<&'a Toolset> = match self.place {
            None => catalog.toolsets.iter().map(AsRef::as_ref).collect(),
            Some(Place::Source(toolset)) => vec![toolset],
            Some(Place::Drawer(drawer)) => catalog.sources_of(drawer).map(AsRef::as_ref).collect(),
        };
        chosen.into_iter()
    }

    /// The one source that it is about.
    pub fn source(&self) -> Option<&'a str> {
        let mut toolsets = self.place.as_ref().map(|_| self.toolsets())?;
        let first = toolsets.next()?.id.as_str();
        toolsets.next().is_none().then_some(first)
    }

    /// Whether it is about a tool.
    pub fn holds(&self, toolset: &Toolset, position: usize) -> bool {
        let in_place = match self.place {
            None => true,
            Some(Place::Source(chosen)) => chosen.id == toolset.id,
            Some(Place::Drawer(drawer)) => *self.catalog.drawer_of(&toolset.entries[position]) == drawer.id,
        };
        let is_of = |wanted| toolset.categories.of(position).is_some_and(|category| is_same(category, wanted));
        in_place && self.category.is_none_or(is_of)
    }

    /// Whether [`arrange`](Self::arrange) leaves all hits as they are.
    pub fn keeps_order(&self, query: &str) -> bool {
        self.category.is_none() && !matches!(self.place, Some(Place::Drawer(_))) && self.named(query).is_empty()
    }

    /// Those of the hits that it is about, after the tools of what the query names as a whole.
    pub fn arrange(&self, query: &str, hits: Vec<Hit>) -> Vec<Hit> {
        let toolset = |hit: &Hit| &*self.catalog.toolsets[hit.toolset as usize];
        let mut hits = hits;
        if self.category.is_some() || matches!(self.place, Some(Place::Drawer(_))) {
            hits.retain(|hit| self.holds(toolset(hit), hit.entry as usize));
        }
        let mut named: BTreeMap<(u32, u32), f32> = self.named(query).into_iter().map(|place| (place, 0.0)).collect();
        if named.is_empty() {
            return hits;
        }
        let lead = hits.first().map_or(0.0, |best| best.score) + 1.0;
        hits.retain(|hit| match named.get_mut(&(hit.toolset, hit.entry)) {
            Some(score) => {
                *score = hit.score;
                false
            }
            None => true,
        });
        let mut first: Vec<Hit> =
            named.into_iter().map(|((toolset, entry), score)| Hit { toolset, entry, score: score + lead }).collect();
        first.sort_by(|a, b| b.score.total_cmp(&a.score));
        first.extend(hits);
        first
    }

    /// The places of the tools whose category, or whose toolset of the configuration, the query names as a whole.
    fn named(&self, query: &str) -> Vec<(u32, u32)> {
        let query = query.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
        if query.is_empty() || query.chars().count() > CATEGORY_MAX {
            return Vec::new();
        }
        let is_named = |drawer: &&Drawer| is_same(drawer.id.as_str(), query) || is_same(&drawer.name, query);
        let declared = |drawer: &&Drawer| self.catalog.toolset(drawer.id.as_str()).is_none();
        let drawer = self.catalog.drawers().iter().filter(declared).find(is_named);
        let mut places = Vec::new();
        for (toolset, at) in self.catalog.toolsets.iter().zip(0_u32..) {
            let category = toolset.categories.names().find(|name| is_same(name, query));
            if category.is_none() && drawer.is_none() {
                continue;
            }
            for (position, entry) in toolset.entries.iter().enumerate().filter(|(_, entry)| entry.is_for_models()) {
                let of_category = category.is_some() && toolset.categories.of(position) == category;
                let in_drawer = || drawer.is_some_and(|drawer| *self.catalog.drawer_of(entry) == drawer.id);
                if (of_category || in_drawer()) && self.holds(toolset, position) {
                    places.push((at, position as u32));
                }
            }
        }
        places
    }

    /// What is withheld in it.
    pub fn withheld(&self) -> Vec<(&'a Toolset, &'a Withheld)> {
        match self.place {
            Some(Place::Drawer(drawer)) => self.catalog.withheld_of(drawer).collect(),
            None => self.catalog.withheld().collect(),
            Some(Place::Source(_)) => {
                self.toolsets().flat_map(|of| of.withheld.iter().map(move |withheld| (of, withheld))).collect()
            }
        }
    }
}
