//! Owns "did you mean": which names of the catalog are close to one that is not in it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Catalog;
use crate::policy::words;

/// How many suggestions are made.
const SUGGESTIONS: usize = 3;
/// Names less alike than this are not suggested.
const LIKENESS_MIN: f64 = 0.5;
/// Longer texts are compared by their beginning only.
const COMPARED_MAX: usize = 128;

impl Catalog {
    /// Up to three tools whose names are close to one that the source does not have. When there is no such source either,
    /// they are looked for in all sources and given as `source/tool`.
    pub fn similar_tools(&self, source: &str, tool: &str) -> Vec<String> {
        if let Some(toolset) = self.toolset(source) {
            let visible = toolset.entries.iter().filter(|entry| entry.is_for_models());
            return closest(tool, visible.map(|entry| (entry.tool.as_str(), entry.tool.to_string())));
        }
        let visible = self.entries().filter(|entry| entry.is_for_models());
        closest(tool, visible.map(|entry| (entry.tool.as_str(), format!("{}/{}", entry.source, entry.tool))))
    }

    /// Up to three ids of toolsets or sources close to one that is not there.
    pub fn similar_drawers(&self, id: &str) -> Vec<String> {
        let drawers =
            self.drawers().iter().flat_map(|drawer| [drawer.id.as_str(), &drawer.name].map(|name| (name, &drawer.id)));
        let sources = self.toolsets.iter().map(|toolset| (toolset.id.as_str(), &toolset.id));
        closest(id, drawers.chain(sources).map(|(name, id)| (name, id.to_string())))
    }

    /// Up to three source ids close to one that is not there.
    pub fn similar_sources(&self, id: &str) -> Vec<String> {
        let ids = self.toolsets.iter().map(|toolset| (toolset.id.as_str(), toolset.id.to_string()));
        let names = self.toolsets.iter().map(|toolset| (toolset.name.as_str(), toolset.id.to_string()));
        closest(id, ids.chain(names))
    }
}

/// The candidates most like the wanted name, best first, then by name.
fn closest<'a>(wanted: &str, candidates: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
    let wanted: String = wanted.chars().take(COMPARED_MAX).collect();
    let wanted_words: BTreeSet<String> = words(&wanted).map(str::to_lowercase).collect();
    let wanted = wanted.to_lowercase();
    let mut found: Vec<(Reverse<u64>, String)> = candidates
        .filter_map(|(name, shown)| {
            let likeness = likeness(&wanted, &wanted_words, name);
            (likeness >= LIKENESS_MIN).then_some((Reverse((likeness * 1e6) as u64), shown))
        })
        .collect();
    found.sort_unstable();
    let mut names: Vec<String> = Vec::new();
    for (_, name) in found {
        if !names.contains(&name) {
            names.push(name);
        }
        if names.len() == SUGGESTIONS {
            break;
        }
    }
    names
}

/// From 0 to 1: the better of spelling and shared words.
fn likeness(wanted: &str, wanted_words: &BTreeSet<String>, name: &str) -> f64 {
    let lower: String = name.chars().take(COMPARED_MAX).collect::<String>().to_lowercase();
    let (short, long) = (wanted.len().min(lower.len()), wanted.len().max(lower.len()));
    let spelling = if 2 * short >= long { strsim::normalized_damerau_levenshtein(wanted, &lower) } else { 0.0 };
    let names_words: BTreeSet<String> = words(name).map(str::to_lowercase).collect();
    let shared = names_words.intersection(wanted_words).count();
    let total = names_words.len() + wanted_words.len();
    let by_words = if total == 0 { 0.0 } else { 2.0 * shared as f64 / total as f64 };
    spelling.max(by_words)
}
