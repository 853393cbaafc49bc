//! `toolrelay tokens`: what a model reads of the configured sources, listed directly and through the relay. It counts what
//! clients are really sent; sources never listed are listed first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::progress::Progress;
use super::relayed;
use super::table::{Table, counted};
use super::tool_lines::{self, Unavailable};
use super::{Common, Failure, output, setup};
use crate::catalog::Catalog;
use crate::config::{Config, Exposure};
use crate::menu::{self, Context};
use crate::relay::Relay;
use crate::snapshot::{Core, Principal, Snapshot};
use crate::wire::quoted;

/// The tokenizer, approximately. The tool lists of eighteen real servers have 3.5 to 4.8 bytes a token of o200k, together
/// 4.1.
const BYTES_PER_TOKEN: usize = 4;
const TOKENIZER: &str = "approximate: 4 bytes of JSON a token";
/// The most searches that are tried: the first lines of so many tools, spread over the catalog.
const SEARCHES: usize = 100;

/// A size as it is told.
#[derive(Serialize, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    bytes: usize,
    tokens: usize,
}

impl Cost {
    fn of(bytes: usize) -> Self {
        Self { bytes, tokens: bytes.div_ceil(BYTES_PER_TOKEN) }
    }
}

/// The middle and the largest of several costs.
#[derive(Serialize)]
struct Spread {
    tried: usize,
    median: Cost,
    max: Cost,
}

impl Spread {
    fn of(mut sizes: Vec<usize>) -> Self {
        sizes.sort_unstable();
        let at = |place: usize| Cost::of(sizes.get(place).copied().unwrap_or_default());
        Self { tried: sizes.len(), median: at(sizes.len() / 2), max: at(sizes.len().saturating_sub(1)) }
    }
}

#[derive(Serialize)]
struct SourceLine {
    source: String,
    tools: usize,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MenuLine {
    exposure: &'static str,
    configured: bool,
    /// The relay's own tools.
    menu: Cost,
    /// The whole of `tools/list` at first: the menu, and what else is visible.
    listed: Cost,
    instructions: Cost,
}

#[derive(Serialize)]
struct Report {
    tokenizer: &'static str,
    tools: usize,
    /// All tools of all sources, listed directly.
    direct: Cost,
    sources: Vec<SourceLine>,
    menu: Vec<MenuLine>,
    /// One reply of `find_tools`.
    search: Spread,
    /// One reply of `enable_toolset`.
    opening: Spread,
    /// What `call_tool` adds to a call by the tool's own name.
    call: Spread,
    unavailable: Vec<Unavailable>,
}

pub fn run(common: &Common) -> Result<(), Failure> {
    let progress = Progress::new(common.json);
    let _log = setup::start_command_log(common, &progress);
    let (file, mut config) = setup::load_config(common)?;
    setup::log_faults(&file, &config.faults, &[]);
    let configured = config.relay.exposure;
    // Trying searches and openings must change nothing for the next run, and one try nothing for the next.
    (config.relay.exposure, config.relay.remember) = (Exposure::Toolsets, false);
    relayed::with(config, &progress, async |relay, progress| {
        let (snapshot, failed) = relayed::known(relay, None, progress).await;
        let unavailable = failed.iter().filter_map(|listed| {
            let reason = listed.outcome.as_ref().err()?.message.clone();
            Some(Unavailable { source: listed.source.id.to_string(), status: "unreachable".to_owned(), reason })
        });
        let report = report(relay, &snapshot, configured, unavailable.collect()).await?;
        if common.json {
            output::json(&report)?;
        } else {
            output::text(&told(&report))?;
        }
        Ok(())
    })
}

async fn report(
    relay: &Relay,
    snapshot: &Snapshot,
    configured: Exposure,
    unavailable: Vec<Unavailable>,
) -> Result<Report, Failure> {
    let catalog = &snapshot.catalog;
    let mut sources: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for entry in catalog.entries().filter(|entry| entry.direct && !entry.hidden) {
        sources.entry(entry.source.as_str()).or_default().push(catalog.exposed_json(entry, false).len());
    }
    let all: Vec<usize> = sources.values().flatten().copied().collect();
    let line = |(id, sizes): (&&str, &Vec<usize>)| SourceLine {
        source: (*id).to_owned(),
        tools: sizes.len(),
        cost: Cost::of(listed(sizes)),
    };
    let context = relay.menu();
    Ok(Report {
        tokenizer: TOKENIZER,
        tools: all.len(),
        direct: Cost::of(listed(&all)),
        sources: sources.iter().map(line).collect(),
        menu: Exposure::ALL.iter().map(|exposure| menu_line(snapshot, *exposure, configured)).collect(),
        search: searches(&context, catalog).await?,
        opening: openings(&context, catalog).await?,
        call: calls(catalog),
        unavailable,
    })
}

/// The bytes of a list of so large members.
fn listed(sizes: &[usize]) -> usize {
    sizes.iter().sum::<usize>() + sizes.len().saturating_sub(1) + "[]".len()
}

/// What a client would be shown at first in an exposure.
fn menu_line(snapshot: &Snapshot, exposure: Exposure, configured: Exposure) -> MenuLine {
    let mut config = Config::clone(&snapshot.config);
    config.relay.exposure = exposure;
    let world = Snapshot {
        config: Arc::new(config),
        catalog: snapshot.catalog.clone(),
        sources: snapshot.sources.clone(),
        open: snapshot.open.clone(),
        index: snapshot.index.clone(),
        stale: None,
        granted: None,
        views: snapshot.views.clone(),
        core: Core::default(),
        unpinned: None,
    };
    let own: Vec<usize> = menu::shown(&world).iter().map(String::len).collect();
    let local = Principal::local();
    let direct = world.catalog.entries().filter(|entry| world.is_shown(&local, entry));
    let direct = direct.map(|entry| world.catalog.exposed_json(entry, false).len());
    let all: Vec<usize> = own.iter().copied().chain(direct).collect();
    MenuLine {
        exposure: exposure.name(),
        configured: exposure == configured,
        menu: Cost::of(listed(&own)),
        listed: Cost::of(listed(&all)),
        instructions: Cost::of(menu::instructions(&world).len()),
    }
}

/// Searches for what some tools say of themselves.
async fn searches(context: &Context<'_>, catalog: &Catalog) -> Result<Spread, Failure> {
    let entries: Vec<_> = catalog.entries().filter(|entry| !entry.hidden).collect();
    let step = entries.len().div_ceil(SEARCHES).max(1);
    let mut sizes = Vec::new();
    for entry in entries.iter().step_by(step) {
        let arguments = json!({ "query": entry.first_line() }).to_string();
        sizes.push(reply(context, "find_tools", &arguments).await?);
    }
    Ok(Spread::of(sizes))
}

/// Opens every toolset that can be opened.
async fn openings(context: &Context<'_>, catalog: &Catalog) -> Result<Spread, Failure> {
    let mut sizes = Vec::new();
    for toolset in catalog.toolsets.iter().filter(|toolset| toolset.count > 0) {
        let arguments = json!({ "toolset": toolset.id.as_str() }).to_string();
        sizes.push(reply(context, "enable_toolset", &arguments).await?);
    }
    Ok(Spread::of(sizes))
}

async fn reply(context: &Context<'_>, tool: &str, arguments: &str) -> Result<usize, Failure> {
    let reply = menu::run(context, tool, Some(arguments)).await.map_err(|error| relayed::refused(&error))?;
    Ok(reply.len())
}

/// A call's result is the source's own either way; what is more is said in asking for it.
fn calls(catalog: &Catalog) -> Spread {
    let entries = catalog.entries().filter(|entry| !entry.hidden);
    let more = entries.map(|entry| {
        let through = format!(
            "call_tool{{\"source\":{},\"tool\":{},\"arguments\":}}",
            quoted(entry.source.as_str()),
            quoted(entry.tool.as_str())
        );
        through.len().saturating_sub(catalog.exposed_name(entry).as_str().len())
    });
    Spread::of(more.collect())
}

fn told(report: &Report) -> String {
    let number = |count: usize| count.to_string();
    let mut direct = Table::new(&["source", "tools", "bytes", "tokens"]);
    for line in &report.sources {
        direct.row([line.source.clone(), number(line.tools), number(line.cost.bytes), number(line.cost.tokens)]);
    }
    let all = report.direct;
    direct.row(["all".to_owned(), number(report.tools), number(all.bytes), number(all.tokens)]);
    let mut menu = Table::new(&["exposure", "menu", "tools/list at first", "instructions", "of direct"]);
    for line in &report.menu {
        let mark = if line.configured { " *" } else { "" };
        let share = 100.0 * line.listed.bytes as f64 / all.bytes.max(1) as f64;
        menu.row([
            format!("{}{mark}", line.exposure),
            number(line.menu.tokens),
            number(line.listed.tokens),
            number(line.instructions.tokens),
            format!("{share:.1} %"),
        ]);
    }
    let mut step = Table::new(&["step", "median", "largest", "of"]);
    for (name, spread, thing) in [
        ("a search", &report.search, "search"),
        ("an opening", &report.opening, "toolset"),
        ("a call through call_tool", &report.call, "tool"),
    ] {
        let of = match spread.tried {
            1 => counted(1, thing),
            tried if thing == "search" => format!("{tried} searches"),
            tried => counted(tried, thing),
        };
        step.row([name.to_owned(), number(spread.median.tokens), number(spread.max.tokens), of]);
    }
    let parts = [
        format!("Listed directly, as every client would without the relay:\n\n{}", direct.text()),
        format!("Through the relay, in tokens (* as configured):\n\n{}", menu.text()),
        format!("What each step adds, in tokens:\n\n{}", step.text()),
        tool_lines::absent(&report.unavailable),
        format!("Tokens are {}.\n", report.tokenizer),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}
