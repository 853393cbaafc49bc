//! `list_sources`: every source with its state, and why it is so.

use serde::{Deserialize, Serialize};

use super::{Context, json, read};
use crate::call::CallError;
use crate::catalog::Catalog;

pub const SCHEMA: &str = r#"{"type":"object","properties":{}}"#;

pub fn description(_: &Catalog) -> String {
    "Every tool source with its state (ready, dormant, starting, unreachable, ..), why, and how many tools it has. Dormant \
     sources start when called."
        .to_owned()
}

#[derive(Deserialize)]
struct Arguments {}

#[derive(Serialize)]
struct Reply<'a> {
    revision: &'a str,
    /// Why the configuration in force is not what its file says now.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<&'a str>,
    sources: Vec<SourceLine<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceLine<'a> {
    id: &'a str,
    name: &'a str,
    provider: &'a str,
    summary: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    since: String,
    transport: &'static str,
    tools: usize,
    withheld: usize,
    enabled: bool,
    read_only: bool,
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let Arguments {} = read("list_sources", arguments)?;
    let snapshot = context.control.snapshots.loaded().await;
    let lines = snapshot.catalog.toolsets.iter().filter_map(|toolset| {
        let id = toolset.id.as_str();
        let status = snapshot.source(id)?.status();
        Some(SourceLine {
            id,
            name: &toolset.name,
            provider: &toolset.provider,
            summary: &toolset.summary,
            status: status.state.name(),
            reason: status.state.reason(),
            since: humantime::format_rfc3339_seconds(status.since).to_string(),
            transport: "stdio",
            tools: toolset.count,
            withheld: toolset.withheld_count,
            enabled: snapshot.is_whole_open(context.principal, id),
            read_only: toolset.read_only,
        })
    });
    let (revision, notice) = (&snapshot.catalog.revision, snapshot.stale.as_deref());
    Ok(json(&Reply { revision, notice, sources: lines.collect() }))
}
