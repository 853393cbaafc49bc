//! `list_toolsets`: the drawers, each with its job in a line.

use serde::{Deserialize, Serialize};

use super::drawers::ToolsetLine;
use super::{Context, json, read, text};
use crate::call::CallError;
use crate::snapshot::Snapshot;

pub const SCHEMA: &str = r#"{"type":"object","properties":{}}"#;
/// The JSON of the description is no longer than this.
const DESCRIPTION_MAX: usize = 420;

pub fn description(snapshot: &Snapshot) -> String {
    let mut text =
        "All toolsets with what each is for, how many tools it has, and which are open. There are:".to_owned();
    text::append_ids(&mut text, snapshot, DESCRIPTION_MAX);
    text
}

#[derive(Deserialize)]
struct Arguments {}

#[derive(Serialize)]
struct Reply<'a> {
    revision: &'a str,
    toolsets: Vec<ToolsetLine<'a>>,
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let Arguments {} = read("list_toolsets", arguments)?;
    let snapshot = context.control.snapshots.loaded().await;
    let drawers = snapshot.catalog.drawers().iter();
    let lines = drawers.map(|drawer| ToolsetLine::new(&snapshot, context.principal, drawer));
    Ok(json(&Reply { revision: &snapshot.catalog.revision, toolsets: lines.collect() }))
}
