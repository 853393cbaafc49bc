//! Owns the catalog: all listings merged, named and sorted, with the names that lead back to their sources.
//! It is pure: it starts nothing, asks nobody, and gives the same bytes for the same listings whatever their order.

pub mod category;
pub mod definition;
mod dictionary;
pub mod drawer;
pub mod drift;
mod edit;
mod entry;
mod fuzzy;
pub mod glob;
mod indexing;
mod json;
mod keywords;
mod known;
pub mod listing;
pub mod lock;
mod mapped;
mod meaning;
mod mended_input;
mod mending;
pub mod mending_offers;
pub mod offer;
mod packed;
mod postings;
mod question;
mod references;
mod rerank;
mod schema;
pub mod search;
mod sequences;
pub mod signature;
mod similar;
pub mod text;
mod tokens;
pub mod toolset;
mod vocabulary;
mod walk;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use drawer::Drawer;
pub use entry::{Sheet, View};
pub use listing::{ListedTool, Listing, Rejected, ServerNote, Unread};
pub use packed::Packed;
pub use search::{Hit, Index};
pub use signature::Signature;
pub(crate) use tokens::is_stop_word;
pub use toolset::{Entry, Outline, Toolset, ToolsetSpec, Withheld};

use crate::config::ToolsetConfig;
use crate::name::{ExposedName, SEPARATOR, SourceId, ToolName};
use drawer::Drawers;
use listing::Fingerprint;

/// Hex digits of a revision.
const REVISION_HEX: usize = 16;

/// Where an entry stands: the toolset's position, and its own in there.
type Place = (u32, u32);

/// All sources' toolsets, sorted by provider, then id, and the drawers in which they are shown.
#[derive(Debug)]
pub struct Catalog {
    pub toolsets: Vec<Arc<Toolset>>,
    /// The position of each toolset, by id.
    ids: HashMap<SourceId, u32>,
    drawers: Drawers,
    /// The positions of the toolsets of which tools are withheld: most have none.
    withholding: Vec<u32>,
    /// Where each exposed name leads; hidden entries have one too.
    names: HashMap<ExposedName, Place>,
    /// The names of entries whose own name meets another's.
    widened: BTreeMap<SourceId, BTreeMap<ToolName, ExposedName>>,
    /// A content hash: equal for equal catalogs, whatever the order in which sources came and whether they are loaded.
    pub revision: String,
}

impl Catalog {
    /// Merges toolsets, one for each source id; each is a drawer.
    pub fn build(toolsets: Vec<Arc<Toolset>>) -> Self {
        Self::arranged(toolsets, &[])
    }

    /// Merges toolsets, one for each source id, and arranges them in drawers; `drawers` are sorted by id.
    pub fn arranged(mut toolsets: Vec<Arc<Toolset>>, drawers: &[ToolsetConfig]) -> Self {
        toolsets.sort_by(|a, b| (&a.provider, &a.id, &a.digest).cmp(&(&b.provider, &b.id, &b.digest)));
        let ids = toolsets.iter().zip(0..).map(|(toolset, at)| (toolset.id.clone(), at)).collect();
        let revision = revision(&toolsets, drawers);
        let drawers = Drawers::arrange(&toolsets, drawers);
        let is_withholding = |(toolset, at): (&Arc<Toolset>, u32)| (!toolset.withheld.is_empty()).then_some(at);
        let withholding = toolsets.iter().zip(0..).filter_map(is_withholding).collect();
        let mut catalog =
            Self { toolsets, ids, drawers, withholding, names: HashMap::new(), widened: BTreeMap::new(), revision };
        catalog.name_entries();
        catalog
    }

    /// Gives every entry a name of its own. Names are pure functions of source and tool, so they meet only where one source
    /// forges another's or two sources share a prefix.
    fn name_entries(&mut self) {
        let total = self.toolsets.iter().map(|toolset| toolset.entries.len()).sum();
        self.names.reserve(total);
        let mut losers = Vec::new();
        for (toolset, at) in self.toolsets.iter().zip(0_u32..) {
            for (entry, position) in toolset.entries.iter().zip(0_u32..) {
                let place = (at, position);
                let Some(&holder) = self.names.get(&entry.name) else {
                    self.names.insert(entry.name.clone(), place);
                    continue;
                };
                let keeps = rank(&self.toolsets, place) < rank(&self.toolsets, holder);
                if keeps {
                    self.names.insert(entry.name.clone(), place);
                }
                losers.push(if keeps { holder } else { place });
            }
        }
        losers.sort_by(|&a, &b| rank(&self.toolsets, a).cmp(&rank(&self.toolsets, b)));
        while let Some(place) = losers.pop() {
            losers.extend(self.widen(place));
        }
    }

    /// Gives an entry its longer name. Whoever forged that one as well has to give it up, and is returned.
    fn widen(&mut self, (at, position): Place) -> Option<Place> {
        let toolset = &self.toolsets[at as usize];
        let entry = &toolset.entries[position as usize];
        let name = ExposedName::widened(&toolset.id, &toolset.prefix, &entry.tool);
        let forger = self.names.insert(name.clone(), (at, position)).filter(|&forger| forger != (at, position));
        self.widened.entry(toolset.id.clone()).or_default().insert(entry.tool.clone(), name);
        forger.filter(|&place| !self.is_widened(place))
    }

    fn is_widened(&self, (at, position): Place) -> bool {
        let entry = &self.toolsets[at as usize].entries[position as usize];
        self.widened.get(&entry.source).is_some_and(|tools| tools.contains_key(&entry.tool))
    }

    /// The toolset of a source.
    pub fn toolset(&self, source: &str) -> Option<&Arc<Toolset>> {
        self.ids.get(source).map(|&at| &self.toolsets[at as usize])
    }

    /// The entry shown under a name; also one that may be called but is not shown.
    pub fn by_exposed(&self, name: &str) -> Option<&Entry> {
        self.names.get(name).map(|&(at, position)| &self.toolsets[at as usize].entries[position as usize])
    }

    /// The entry of a source's tool, by the source's own name for it.
    pub fn find(&self, source: &str, tool: &str) -> Option<&Entry> {
        self.toolset(source)?.entry(tool)
    }

    /// The entries of that name over all sources, for a call that leaves the source out.
    pub fn tools_named(&self, tool: &str) -> Vec<&Entry> {
        self.toolsets.iter().filter_map(|toolset| toolset.entry(tool)).collect()
    }

    /// The name under which an entry of this catalog is shown.
    pub fn exposed_name<'a>(&'a self, entry: &'a Entry) -> &'a ExposedName {
        self.widened.get(&entry.source).and_then(|tools| tools.get(&entry.tool)).unwrap_or(&entry.name)
    }

    /// An entry of this catalog as clients see it; see [`Entry::exposed_json`].
    pub fn exposed_json(&self, entry: &Entry, modern: bool) -> String {
        entry.exposed_json_as(self.exposed_name(entry), modern)
    }

    /// All tools that are withheld, in the catalog's order.
    pub fn withheld(&self) -> impl Iterator<Item = (&Toolset, &Withheld)> {
        let toolsets = self.withholding.iter().map(|&at| &*self.toolsets[at as usize]);
        toolsets.flat_map(|of| of.withheld.iter().map(move |withheld| (of, withheld)))
    }

    /// Whether every toolset's entries are at hand.
    pub fn is_loaded(&self) -> bool {
        self.toolsets.iter().all(|toolset| toolset.loaded)
    }

    /// All entries, hidden ones too, in the catalog's order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.toolsets.iter().flat_map(|toolset| &toolset.entries)
    }
}

/// Who keeps a name that two entries share: one that is shown, one whose name needed no change, the first by source and tool.
fn rank(toolsets: &[Arc<Toolset>], (at, position): Place) -> (Reverse<bool>, Reverse<bool>, &SourceId, &ToolName) {
    let toolset = &toolsets[at as usize];
    let entry = &toolset.entries[position as usize];
    let shown = entry.name.as_str();
    let is_plain = match toolset.prefix.as_str() {
        "" => shown == entry.tool.as_str(),
        prefix => shown.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(SEPARATOR)) == Some(entry.tool.as_str()),
    };
    (Reverse(entry.direct), Reverse(is_plain), &entry.source, &entry.tool)
}

fn revision(toolsets: &[Arc<Toolset>], drawers: &[ToolsetConfig]) -> String {
    let mut hash = Fingerprint::new();
    for toolset in toolsets {
        hash.text(toolset.id.as_str()).text(&toolset.provider).text(&toolset.name).text(&toolset.summary);
        hash.flag(toolset.read_only).number(toolset.count).number(toolset.withheld_count).text(&toolset.digest);
    }
    drawer::hash(&mut hash, drawers);
    hash.hex(REVISION_HEX)
}

#[cfg(test)]
mod tests;
