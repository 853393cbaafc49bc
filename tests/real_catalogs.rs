//! The tool lists of real servers behind one relay: what the menu, a search and an opening cost of 2,200 tools.
//! The table that this prints stands in README.md.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Place, Relay, replay, shared};

const BYTES_PER_TOKEN: usize = 4;
/// Budgets, in tokens.
const SEARCH_MEDIAN: usize = 1_000;
const SEARCH_MAX: usize = 1_500;
/// In bytes.
const MENU_MAX: usize = 6_000;
/// Eighteen sources that start at once on a busy machine take a while.
const START: Duration = Duration::from_secs(60);

/// The recorded lists, sorted: id and file.
fn catalogs() -> Vec<(String, PathBuf)> {
    let folder = std::fs::read_dir(shared("catalogs")).unwrap().map(|entry| entry.unwrap().path());
    let recorded = folder.filter_map(|path| {
        let id = path.file_name()?.to_str()?.strip_suffix(".tools.json")?.to_owned();
        Some((id, path))
    });
    let mut found: Vec<_> = recorded.collect();
    found.sort();
    assert!(!found.is_empty(), "there are no tool lists in {}", shared("catalogs").display());
    found
}

/// The queries of the labelled sets over real servers.
fn queries() -> Vec<String> {
    let mut found = Vec::new();
    for set in ["realmcp", "realmcp_agent"] {
        let text = std::fs::read_to_string(shared(&format!("retrieval/dev/{set}/queries.jsonl"))).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        found.extend(lines.map(|line| line["query"].as_str().unwrap().to_owned()));
    }
    assert!(found.len() > 100, "only {} queries", found.len());
    found
}

/// A relay before all of them, that has listed them all.
fn relay(place: &std::sync::Arc<Place>, exposure: &str) -> Relay {
    let sources: Vec<_> = catalogs().iter().map(|(id, file)| replay(place, id, file, &[], "")).collect();
    let mut relay = Relay::greeted_in(place, &format!("exposure = {exposure:?}\nmax_starting = 32"), &sources);
    let start = std::time::Instant::now();
    loop {
        let listed = relay.call_direct("list_sources", json!({})).structured();
        if listed["sources"].as_array().unwrap().iter().all(|source| source["tools"] != 0) {
            return relay;
        }
        assert!(start.elapsed() < START, "not all are listed: {listed}");
        relay.listen(Duration::from_millis(50));
    }
}

/// The bytes of the list of the relay's own tools, or of those of the sources, and how many they are.
fn listed(relay: &mut Relay, own: bool) -> (usize, usize) {
    let id = relay.ask("tools/list", json!({}));
    let list = relay.answer_within(&id, START).result();
    let is_own = |tool: &&Value| !tool["name"].as_str().unwrap().contains("__");
    let tools: Vec<_> = list["tools"].as_array().unwrap().iter().filter(|tool| is_own(tool) == own).collect();
    (json!(tools).to_string().len(), tools.len())
}

/// The sizes' median and maximum, and which were tried.
fn spread(mut sizes: Vec<usize>) -> (usize, usize, usize) {
    sizes.sort_unstable();
    (sizes[sizes.len() / 2], sizes[sizes.len() - 1], sizes.len())
}

fn row(what: &str, bytes: usize) -> String {
    format!("| {what} | {bytes} | {} |\n", bytes.div_ceil(BYTES_PER_TOKEN))
}

#[test]
fn real_catalogs_stay_within_the_budgets() {
    let place = Place::new();
    let mut table = String::from("| what the model reads | bytes | tokens, about |\n|---|---:|---:|\n");
    let mut eager = relay(&place, "eager");
    let (everything, tools) = listed(&mut eager, false);
    eager.finish();
    assert!(tools > 2_000, "{tools}");
    table += &row(&format!("all {tools} tools of {} servers, listed directly", catalogs().len()), everything);

    for exposure in ["toolsets", "progressive", "lazy", "meta-only"] {
        let mut relay = relay(&place, exposure);
        let (menu, count) = listed(&mut relay, true);
        assert!(menu <= MENU_MAX, "{exposure}: {menu} bytes");
        table += &row(&format!("the menu, `{exposure}`: {count} tools"), menu);
        relay.finish();
    }

    let mut relay = relay(&place, "toolsets");
    // A reply holds its JSON twice, as structured content and as text; a client hands one of them to its model.
    let mut size = |name: &str, arguments: Value| -> (usize, Value) {
        let reply = relay.call_direct(name, arguments);
        (reply.text().len(), reply.structured())
    };
    let found = queries().into_iter().map(|query| {
        let (bytes, reply) = size("find_tools", json!({"query": query}));
        assert!(!reply["matches"].as_array().unwrap().is_empty(), "nothing found for {query}");
        bytes
    });
    let (median, max, tried) = spread(found.collect());
    assert!(median.div_ceil(BYTES_PER_TOKEN) <= SEARCH_MEDIAN, "median of find_tools: {median} bytes");
    assert!(max.div_ceil(BYTES_PER_TOKEN) <= SEARCH_MAX, "largest of find_tools: {max} bytes");
    table += &row(&format!("one `find_tools`, median of {tried} queries"), median);
    table += &row("one `find_tools`, the largest", max);

    let (bytes, _) = size("list_toolsets", json!({}));
    table += &row("`list_toolsets`", bytes);
    let opened = catalogs().into_iter().map(|(id, _)| {
        let (bytes, reply) = size("enable_toolset", json!({"toolset": id}));
        let direct: usize = reply["tools"].as_array().unwrap().len();
        assert!(direct > 0, "{id} opened empty");
        bytes
    });
    let (median, max, tried) = spread(opened.collect());
    table += &row(&format!("one `enable_toolset`, median of {tried} toolsets"), median);
    table += &row("one `enable_toolset`, the largest (515 tools)", max);
    relay.finish();
    eprintln!("{table}");
}
