//! `enable_toolset`: opens a drawer, and tells at once what is in it.

use serde::{Deserialize, Serialize};

use super::{Context, ToolsetLine, json, read, text, toolset};
use crate::call::CallError;
use crate::catalog::{Catalog, Withheld};
use crate::menu::find_tools::{Detail, ToolLine};
use crate::snapshot::Change;

pub const SCHEMA: &str = r#"{"type":"object","properties":{"toolset":{"type":"string"},"detail":{"type":"string","enum":["brief","signature","full"],"default":"signature"}},"required":["toolset"]}"#;
/// The JSON of the description is no longer than this.
const DESCRIPTION_MAX: usize = 1700;

pub fn description(catalog: &Catalog) -> String {
    let mut text =
        "Opens a toolset: its tools join your tool list, and the reply has their names and arguments, to be called \
                    at once (also through call_tool). Toolsets:"
            .to_owned();
    text::append_toolsets(&mut text, catalog, DESCRIPTION_MAX, "; ");
    text
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "source", alias = "name", alias = "id")]
    toolset: String,
    #[serde(default)]
    detail: Detail,
}

#[derive(Serialize)]
struct Reply<'a> {
    toolset: ToolsetLine<'a>,
    tools: Vec<ToolLine<'a>>,
    withheld: &'a [Withheld],
    next: String,
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let Arguments { toolset: id, detail } = read("enable_toolset", arguments)?;
    let snapshot = context.control.snapshots.loaded().await;
    let found = toolset(&snapshot, &id)?;
    let source = snapshot.source(found.id.as_str()).expect("BUG: every toolset has its source");
    if let Some(error) = source.refusal() {
        return Err(error);
    }
    if !found.is_listed() {
        // Nothing is known of it yet: an open drawer has to show what is in it.
        source.list().await?;
    }
    context.control.open(context.principal, Change::Open(found.id.clone())).await;
    let snapshot = context.control.snapshots.now();
    let found = toolset(&snapshot, found.id.as_str())?;
    let entries = found.entries.iter().filter(|entry| !entry.hidden);
    let tools = entries.map(|entry| ToolLine::opened(&snapshot, entry, detail)).collect();
    let reply = Reply {
        toolset: ToolsetLine::new(&snapshot, context.principal, found),
        tools,
        withheld: &found.withheld,
        next: format!(
            "call a tool by its `name` if your tool list shows it by now, else call_tool {{\"source\":\"{}\",\"tool\":..,\"arguments\":{{..}}}}",
            found.id
        ),
    };
    Ok(json(&reply))
}
