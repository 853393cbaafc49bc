//! `enable_toolset`: opens a drawer, and tells at once what is in it.

use serde::{Deserialize, Serialize};

use super::drawers::{ToolsetLine, drawer, sources};
use super::find_tools::{Detail, ToolLine, Unavailable, WithheldLine};
use super::{Context, crowd, first_listing, json, read, text};
use crate::call::CallError;
use crate::catalog::Entry;
use crate::snapshot::{Change, Snapshot};

pub const SCHEMA: &str = r#"{"type":"object","properties":{"toolset":{"type":"string"},"detail":{"type":"string","enum":["brief","signature","full"],"default":"signature"}},"required":["toolset"]}"#;
/// The JSON of the description is no longer than this.
const DESCRIPTION_MAX: usize = 1700;

pub fn description(snapshot: &Snapshot) -> String {
    let mut text =
        "Opens a toolset: its tools join your tool list, and the reply has their names and arguments, to be called \
                    at once (also through call_tool). Toolsets:"
            .to_owned();
    text::append_toolsets(&mut text, snapshot, DESCRIPTION_MAX, "; ");
    text
}

/// The tools of a reply take no more than this, in bytes: about 5,000 tokens. Where they do not fit they are told briefly.
const REPLY_MAX: usize = 20_000;
/// Told briefly, they take no more than this; the rest is counted.
const BRIEF_MAX: usize = 30_000;

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "source", alias = "name", alias = "id")]
    toolset: String,
    #[serde(default)]
    detail: Detail,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The tools at the asked detail if there is room for that, else briefly, and as many as there is room for.
fn lines<'a>(snapshot: &'a Snapshot, entries: &[&'a Entry], detail: Detail) -> (Vec<ToolLine<'a>>, Detail) {
    let at = |detail| entries.iter().map(move |entry| ToolLine::opened(snapshot, entry, detail));
    let whole: Vec<_> = at(detail).collect();
    if detail == Detail::Full || whole.iter().map(|line| json(line).len()).sum::<usize>() <= REPLY_MAX {
        return (whole, detail);
    }
    let mut size = 0;
    let brief = at(Detail::Brief).take_while(|line| {
        size += json(line).len();
        size <= BRIEF_MAX
    });
    (brief.collect(), Detail::Brief)
}

#[derive(Serialize)]
struct Reply<'a> {
    toolset: ToolsetLine<'a>,
    tools: Vec<ToolLine<'a>>,
    /// How many more there are than the reply has room for.
    #[serde(skip_serializing_if = "is_zero")]
    omitted: usize,
    withheld: Vec<WithheldLine<'a>>,
    /// Sources of the toolset whose tools are missing here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unavailable: Vec<Unavailable<'a>>,
    /// That the tool list has become very long.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    next: String,
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let Arguments { toolset: id, detail } = read("enable_toolset", arguments)?;
    let snapshot = context.control.snapshots.loaded().await;
    let found = drawer(&snapshot, &id)?;
    // Where nothing is known of it yet: an open drawer has to show what is in it.
    first_listing::for_opening(&snapshot, found).await?;
    context.control.open(context.principal, Change::Open(found.id.clone())).await;
    let now = context.control.snapshots.now();
    let found = drawer(&now, found.id.as_str())?;
    let entries = now.catalog.entries_of(found).map(|(toolset, position)| &toolset.entries[position]);
    let entries: Vec<_> = entries.filter(|entry| entry.is_for_models()).collect();
    let (tools, detail) = lines(&now, &entries, detail);
    let mut of = now.catalog.sources_of(found);
    let source = match (of.next(), of.next()) {
        (Some(only), None) => format!("{:?}", only.id.as_str()),
        _ => "its source".to_owned(),
    };
    let reply = Reply {
        toolset: ToolsetLine::new(&now, context.principal, found),
        omitted: entries.len() - tools.len(),
        tools,
        withheld: now.catalog.withheld_of(found).map(WithheldLine::new).collect(),
        unavailable: Unavailable::among(&now, sources(&now, found)),
        warning: crowd::warning(&now, context.principal),
        next: format!(
            "{}call a tool by its `name` if your tool list shows it by now, else call_tool {{\"source\":{source},\"tool\":..,\"arguments\":{{..}}}}",
            if detail == Detail::Brief { "see a tool's arguments with find_tools; " } else { "" }
        ),
    };
    Ok(json(&reply))
}
