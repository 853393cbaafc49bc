//! Reads labelled sets: folders with `tools.jsonl` {source, name, ..}, `queries.jsonl` {id, query, mode, gold, scope?} and,
//! where sources have summaries, `sources.jsonl` {source, title, summary}. Each set has a catalog of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::RawValue;
use toolrelay::catalog::{Catalog, Index, Listing, ServerNote, Toolset, ToolsetSpec};
use toolrelay::config::ToolRules;
use toolrelay::name::{SOURCE_ID_MAX, SourceId};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// One set, indexed.
pub struct Set {
    pub name: String,
    pub queries: Vec<Value>,
    pub index: Index,
    catalog: Catalog,
    ids: BTreeMap<String, SourceId>,
    names: BTreeMap<SourceId, String>,
}

/// The folders of a folder that hold sets, sorted.
pub fn folders(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut sets = entries.map(|entry| Ok(entry?.path())).collect::<Outcome<Vec<_>>>()?;
    sets.retain(|set| set.join("queries.jsonl").is_file() && set.join("tools.jsonl").is_file());
    sets.sort();
    if sets.is_empty() {
        return Err(format!("{} holds no folder with tools.jsonl and queries.jsonl", dir.display()).into());
    }
    Ok(sets)
}

impl Set {
    pub fn read(folder: &Path) -> Outcome<Self> {
        let (catalog, ids) = catalog(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self {
            name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            queries: rows(&folder.join("queries.jsonl"))?,
            index: Index::build(&catalog),
            names: ids.iter().map(|(name, id)| (id.clone(), name.clone())).collect(),
            catalog,
            ids,
        })
    }

    /// The best tools for a query, as source and name.
    pub fn rank(&self, query: &str, scope: Option<&str>, limit: usize) -> Vec<(&str, &str)> {
        let scope = scope.map(|scope| self.ids.get(scope).map_or("", SourceId::as_str));
        let (hits, _) = self.index.find_page(query, scope, 0, limit);
        let entries = hits.iter().map(|hit| &self.catalog.toolsets[hit.toolset as usize].entries[hit.entry as usize]);
        entries.map(|entry| (self.names[&entry.source].as_str(), entry.tool.as_str())).collect()
    }
}

/// The catalog of a set, and the id that each source has in it.
fn catalog(set: &Path) -> Outcome<(Catalog, BTreeMap<String, SourceId>)> {
    let mut tools: BTreeMap<String, Vec<Box<str>>> = BTreeMap::new();
    for line in fs::read_to_string(set.join("tools.jsonl"))?.lines().filter(|line| !line.trim().is_empty()) {
        let tool: BTreeMap<&str, &RawValue> = serde_json::from_str(line)?;
        let source = tool.get("source").ok_or("a tool has no source")?;
        tools.entry(serde_json::from_str(source.get())?).or_default().push(line.into());
    }
    let mut notes: BTreeMap<String, Value> = BTreeMap::new();
    if set.join("sources.jsonl").is_file() {
        for row in rows(&set.join("sources.jsonl"))? {
            notes.insert(row["source"].as_str().unwrap_or_default().to_owned(), row);
        }
    }
    let rules = ToolRules::default();
    let (mut toolsets, mut ids, mut taken) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for (source, raws) in tools {
        let id = source_id(&source, &mut taken)?;
        let note = notes.get(&source);
        let text = |key: &str| note.and_then(|note| note[key].as_str()).filter(|text| !text.is_empty());
        let spec = ToolsetSpec {
            id: &id,
            name: text("title").unwrap_or(&source),
            provider: id.as_str(),
            summary: text("summary"),
            prefix: id.as_str(),
            rules: &rules,
        };
        toolsets.push(Toolset::build(&spec, &Listing::new(raws, ServerNote::default(), None)).into());
        ids.insert(source, id);
    }
    Ok((Catalog::build(toolsets), ids))
}

/// A source's name as an id: its letters and digits in lower case, with a number where two are the same.
fn source_id(name: &str, taken: &mut BTreeSet<String>) -> Outcome<SourceId> {
    let plain: String = name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    let plain = if plain.is_empty() { "source" } else { plain };
    let mut id = plain[..plain.len().min(SOURCE_ID_MAX)].to_owned();
    let mut number = 1;
    while !taken.insert(id.clone()) {
        number += 1;
        let end = format!("-{number}");
        id = format!("{}{end}", &plain[..plain.len().min(SOURCE_ID_MAX - end.len())]);
    }
    Ok(SourceId::new(&id)?)
}

fn rows(path: &Path) -> Outcome<Vec<Value>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| Ok(serde_json::from_str(line)?)).collect()
}
