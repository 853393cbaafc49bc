//! Ranks every query of a folder of labelled sets with the product's own ranker: `eval DIR OUT.jsonl`. What is written is
//! what `eval.py` scores.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[path = "../tests/retrieval/sets.rs"]
mod sets;

use sets::{Outcome, Set};

/// How many tools are written for a query.
const DEPTH: usize = 50;
/// Where the labelled sets are, and where the ranking goes, if it is not said.
const DIR: &str = "../shared/retrieval/dev";
const OUT: &str = "run.jsonl";

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.is_empty());
    let dir = arguments.next().unwrap_or_else(|| DIR.to_owned());
    let out = arguments.next().unwrap_or_else(|| OUT.to_owned());
    let folders = sets::folders(Path::new(&dir))?;
    let mut writer = BufWriter::new(fs::File::create(&out).map_err(|error| format!("{out}: {error}"))?);
    for folder in &folders {
        rank(folder, &mut writer)?;
    }
    Ok(writer.flush()?)
}

/// Ranks the queries of one set.
fn rank(folder: &Path, out: &mut impl Write) -> Outcome<()> {
    let set = Set::read(folder)?;
    let mut times: Vec<Duration> = Vec::new();
    for query in &set.queries {
        let start = Instant::now();
        let found = set.rank(query["query"].as_str().unwrap_or_default(), query["scope"].as_str(), DEPTH);
        times.push(start.elapsed());
        let ranking: Vec<Value> =
            found.into_iter().map(|(source, name)| json!({"source": source, "name": name})).collect();
        writeln!(out, "{}", json!({"id": query["id"], "ranking": ranking}))?;
    }
    times.sort_unstable();
    let part = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    let (name, tools, queries) = (&set.name, set.index.len(), set.queries.len());
    eprintln!("{name}: {tools} tools, {queries} queries, p50 {:.0?}, p99 {:.0?}", part(50), part(99));
    Ok(())
}
