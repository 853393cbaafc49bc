//! Owns the trial start of every source, for `toolrelay check --connect`.
//! It does not look at the configuration's faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::Failure;
use super::progress::Progress;
use super::relayed::{self, Listed};
use super::table::{Table, beside, counted};
use crate::call::ErrorKind;
use crate::relay::Relay;
use crate::snapshot::Snapshot;
use crate::source::{Source, State};

/// How one source fared.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceLine {
    id: String,
    state: &'static str,
    /// The revision of the protocol that it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    tools: usize,
    withheld: usize,
    /// From the request to start it to its listing; none for a source that is not to be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// Why it is in that state, if that needs saying.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip)]
    failed: bool,
}

/// Starts every source that may be started, all at once, and lists it.
pub async fn all(relay: &Arc<Relay>, progress: &Progress) -> Vec<SourceLine> {
    let snapshot = relay.control.snapshots.loaded().await;
    let usable = snapshot.sources.values().filter(|source| source.refusal().is_none()).cloned().collect();
    let listed = relayed::list(usable, progress).await;
    let listed: BTreeMap<_, _> = listed.into_iter().map(|listed| (listed.source.id.clone(), listed)).collect();
    let snapshot = relay.control.snapshots.now();
    let sources = snapshot.catalog.toolsets.iter().filter_map(|toolset| snapshot.source(toolset.id.as_str()));
    sources.map(|source| SourceLine::new(&snapshot, source, listed.get(&source.id))).collect()
}

impl SourceLine {
    fn new(snapshot: &Snapshot, source: &Source, listed: Option<&Listed>) -> Self {
        let id = source.id.as_str();
        let toolset = snapshot.catalog.toolset(id);
        let state = source.status().state;
        let line = Self {
            id: id.to_owned(),
            state: state.name(),
            revision: None,
            tools: toolset.map_or(0, |toolset| toolset.count),
            withheld: toolset.map_or(0, |toolset| toolset.withheld_count),
            seconds: listed.map(|listed| (listed.took.as_secs_f64() * 100.0).round() / 100.0),
            reason: state.reason(),
            hint: None,
            failed: matches!(state, State::Misconfigured { .. }),
        };
        match (listed.map(|listed| &listed.outcome), state) {
            // It may be tried again already; what counts is how this start went.
            (Some(Err(error)), _) => Self {
                state: if error.kind == ErrorKind::NeedsAuth { "needs_auth" } else { "unreachable" },
                reason: Some(error.message.clone()),
                hint: Some(relayed::remedy(error).to_owned()),
                failed: true,
                ..line
            },
            (_, State::Ready { version, .. }) => Self { revision: Some(version), ..line },
            _ => line,
        }
    }

    fn why(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{}{hint}", beside(&self.id, self.reason.as_deref().unwrap_or_default()))
    }
}

pub fn table(lines: &[SourceLine]) -> String {
    let mut table = Table::new(&["id", "state", "revision", "tools", "withheld", "seconds", "reason"]);
    for line in lines {
        table.row([
            line.id.clone(),
            line.state.to_owned(),
            line.revision.clone().unwrap_or_else(|| "-".to_owned()),
            line.tools.to_string(),
            line.withheld.to_string(),
            line.seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2}")),
            line.why(),
        ]);
    }
    table.text()
}

/// A failure if any source failed.
pub fn outcome(lines: &[SourceLine]) -> Result<(), Failure> {
    let failed: Vec<_> = lines.iter().filter(|line| line.failed).map(|line| format!("`{}`", line.id)).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let error = format!("{} of {} failed: {}", failed.len(), counted(lines.len(), "source"), failed.join(", "));
    Err(Failure::run(error, "the reason and the remedy stand beside each"))
}
