//! `list_sources`: every source with its state, and why it is so.

use serde::{Deserialize, Serialize};

use super::{Context, json, read};
use crate::call::CallError;
use crate::catalog::Toolset;
use crate::catalog::drift::Drift;
use crate::snapshot::Snapshot;
use crate::source::State;

pub const SCHEMA: &str = r#"{"type":"object","properties":{}}"#;

/// How many tools of a source that differ from the lock are named.
const DRIFT_TOLD: usize = 5;

pub fn description(_: &Snapshot) -> String {
    "Every tool source with its state (ready, dormant, starting, unreachable, ..), why, and how many tools it has. Dormant \
     sources start when called."
        .to_owned()
}

#[derive(Deserialize)]
struct Arguments {}

#[derive(Serialize)]
struct Reply<'a> {
    revision: &'a str,
    /// Why the configuration in force is not what its file says now, and why the lock cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
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
    /// Left out where the configuration does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    /// How many run beside the one that is listed, where each session has an instance of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<usize>,
    tools: usize,
    withheld: usize,
    enabled: bool,
    read_only: bool,
    /// How many tools are not what sources.lock says, and the first of them.
    #[serde(skip_serializing_if = "is_none")]
    changed: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drift: Vec<DriftLine<'a>>,
    /// Whether what the source says of itself is not what sources.lock says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    summary_changed: bool,
}

/// A tool that is not what was accepted; hashes are cut short.
#[derive(Serialize)]
struct DriftLine<'a> {
    tool: &'a str,
    note: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    locked: Option<String>,
    now: String,
}

impl<'a> DriftLine<'a> {
    fn new(drift: &'a Drift) -> Self {
        let locked = drift.locked.map(|hash| hash.short());
        Self { tool: drift.tool.as_str(), note: drift.note(), locked, now: drift.now.short() }
    }
}

fn is_none(number: &usize) -> bool {
    *number == 0
}

/// Why what is remembered of a source may not be all of it; of one that runs, its state tells.
fn lacks(state: &State, toolset: &Toolset) -> Option<String> {
    let why =
        toolset.incomplete.as_ref().filter(|_| matches!(state, State::Dormant { .. } | State::Starting { .. }))?;
    Some(format!("when it was listed last, {why}"))
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
            reason: status.state.reason().or_else(|| lacks(&status.state, toolset)),
            since: humantime::format_rfc3339_seconds(status.since).to_string(),
            transport: snapshot.transport(id),
            instances: snapshot.source(id)?.instances(),
            tools: toolset.count,
            withheld: toolset.withheld_count,
            enabled: snapshot.is_source_open(context.principal, id) && snapshot.source(id)?.refusal().is_none(),
            read_only: toolset.read_only,
            changed: toolset.drift.len(),
            drift: toolset.drift.iter().take(DRIFT_TOLD).map(DriftLine::new).collect(),
            summary_changed: toolset.said.is_other(),
        })
    });
    let notices: Vec<&str> = [&snapshot.stale, &snapshot.unpinned].into_iter().flatten().map(AsRef::as_ref).collect();
    let (revision, notice) = (&snapshot.catalog.revision, Some(notices.join("; ")).filter(|text| !text.is_empty()));
    Ok(json(&Reply { revision, notice, sources: lines.collect() }))
}
