//! `disable_toolset`: closes a drawer again.

use serde::{Deserialize, Serialize};

use super::drawers::{ToolsetLine, drawer};
use super::{Context, json, read};
use crate::call::CallError;
use crate::snapshot::{Change, Snapshot};

pub const SCHEMA: &str = r#"{"type":"object","properties":{"toolset":{"type":"string"}},"required":["toolset"]}"#;

pub fn description(_: &Snapshot) -> String {
    "Closes an open toolset: its tools leave your tool list. call_tool still reaches them.".to_owned()
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "source", alias = "name", alias = "id")]
    toolset: String,
}

#[derive(Serialize)]
struct Reply<'a> {
    toolset: ToolsetLine<'a>,
    /// How many tools left the list.
    closed: usize,
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let Arguments { toolset: id } = read("disable_toolset", arguments)?;
    let snapshot = context.control.snapshots.loaded().await;
    let found = drawer(&snapshot, &id)?;
    let before = snapshot.catalog.entries_of(found).map(|(toolset, position)| &toolset.entries[position]);
    let closed = before.filter(|entry| snapshot.is_shown(context.principal, entry)).count();
    let change = Change::Close(found.id.clone(), snapshot.catalog.clone());
    let changed = context.control.open(context.principal, change).await;
    let now = context.control.snapshots.now();
    let found = drawer(&now, found.id.as_str())?;
    let closed = if changed { closed } else { 0 };
    Ok(json(&Reply { toolset: ToolsetLine::new(&now, context.principal, found), closed }))
}
