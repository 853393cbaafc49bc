//! Owns how toolsets are named and told by the relay's own tools. A toolset is a drawer of the catalog, of one source or
//! of several; it does not know what is listed of them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::call::{CallError, ErrorKind};
use crate::catalog::{Catalog, Drawer};
use crate::snapshot::{Principal, Snapshot};
use crate::source::{Source, State};

/// How many categories are told of one toolset.
const CATEGORIES_MAX: usize = 12;

/// A toolset as `list_toolsets`, `enable_toolset` and `disable_toolset` show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolsetLine<'a> {
    id: &'a str,
    provider: &'a str,
    status: &'static str,
    enabled: bool,
    read_only: bool,
    tools: usize,
    withheld: usize,
    summary: &'a str,
    /// How many tools are of each kind; the largest, if there are at least two.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    categories: BTreeMap<&'a str, usize>,
}

impl<'a> ToolsetLine<'a> {
    pub fn new(snapshot: &'a Snapshot, principal: &Principal, drawer: &'a Drawer) -> Self {
        Self {
            id: drawer.id.as_str(),
            provider: &drawer.provider,
            status: status(snapshot, drawer),
            enabled: snapshot.is_open(principal, drawer.id.as_str()) && is_usable(snapshot, drawer),
            read_only: drawer.read_only,
            tools: drawer.count,
            withheld: drawer.withheld_count,
            summary: &drawer.summary,
            categories: largest(snapshot.catalog.categories_of(drawer)),
        }
    }
}

fn largest(categories: &BTreeMap<Box<str>, usize>) -> BTreeMap<&str, usize> {
    if categories.len() < 2 {
        return BTreeMap::new();
    }
    let mut all: Vec<_> = categories.iter().map(|(name, count)| (&**name, *count)).collect();
    all.sort_by(|(a_name, a), (b_name, b)| b.cmp(a).then(a_name.cmp(b_name)));
    all.truncate(CATEGORIES_MAX);
    all.into_iter().collect()
}

/// A toolset is as usable as the most usable of its sources.
fn status(snapshot: &Snapshot, drawer: &Drawer) -> &'static str {
    let states = sources(snapshot, drawer).map(|source| source.status().state);
    let best = states.min_by_key(|state| match state {
        State::Ready { .. } => 0,
        State::Starting { .. } => 1,
        State::Dormant { .. } => 2,
        State::Unreachable { .. } => 3,
        State::NeedsAuth { .. } => 4,
        State::Misconfigured { .. } => 5,
        State::Disabled => 6,
    });
    best.map_or("dormant", |state| state.name())
}

/// Whether calls of any of its tools may be taken.
fn is_usable(snapshot: &Snapshot, drawer: &Drawer) -> bool {
    let mut sources = sources(snapshot, drawer).peekable();
    sources.peek().is_none() || sources.any(|source| source.refusal().is_none())
}

/// The sources of a toolset.
pub fn sources<'a>(snapshot: &'a Snapshot, drawer: &'a Drawer) -> impl Iterator<Item = &'a Source> {
    snapshot.catalog.sources_of(drawer).filter_map(|toolset| snapshot.source(toolset.id.as_str()))
}

/// The toolset of that id or name, or the only one with tools of the source so named; else an error that says which there
/// are.
pub fn drawer<'a>(snapshot: &'a Snapshot, named: &str) -> Result<&'a Drawer, CallError> {
    let (catalog, id) = (&snapshot.catalog, named.trim());
    let by_name = || catalog.drawers().iter().find(|drawer| drawer.name.eq_ignore_ascii_case(id));
    if let Some(found) = catalog.drawer(id).or_else(by_name) {
        return Ok(found);
    }
    let with = source_named(catalog, id).map(|source| catalog.drawers_with(source)).unwrap_or_default();
    match &with[..] {
        [only] => Ok(only),
        [] => {
            let error = unknown(format!("there is no toolset `{named}`"), &snapshot.where_toolsets_are());
            let mut error = error.at(named, None);
            error.similar = catalog.similar_drawers(id);
            Err(error)
        }
        several => {
            let text = format!("the tools of source `{id}` are in several toolsets");
            let mut error = unknown(text, "open one of those").at(named, None);
            error.similar = several.iter().map(|drawer| drawer.id.to_string()).collect();
            Err(error)
        }
    }
}

fn unknown(text: String, hint: &str) -> CallError {
    CallError::new(ErrorKind::UnknownSource, text, hint)
}

/// The id of the source of that id or name.
pub fn source_named<'a>(catalog: &'a Catalog, named: &str) -> Option<&'a str> {
    let by_name = || catalog.toolsets.iter().find(|toolset| toolset.name.eq_ignore_ascii_case(named));
    catalog.toolset(named).or_else(by_name).map(|toolset| toolset.id.as_str())
}
