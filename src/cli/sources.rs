//! `toolrelay sources`: what is known of every source. It starts none.

use super::table::Table;
use super::{Common, Failure, output, relayed};
use crate::catalog::Toolset;
use crate::menu;
use crate::snapshot::Snapshot;

pub fn run(common: &Common) -> Result<(), Failure> {
    relayed::run(common, async |relay, _| {
        let snapshot = relay.control.snapshots.loaded().await;
        if common.json {
            let json =
                menu::run(&relay.menu(), "list_sources", None).await.map_err(|error| relayed::refused(&error))?;
            output::lines(&json)?;
        } else {
            output::text(&table(&snapshot))?;
        }
        Ok(())
    })
}

fn table(snapshot: &Snapshot) -> String {
    if snapshot.catalog.toolsets.is_empty() {
        return "no sources: write one into sources.toml, [source.clock] with a `command` is enough\n".to_owned();
    }
    let header = ["id", "name", "provider", "state", "tools", "withheld", "read-only", "summary"];
    let mut table = Table::new(&header);
    for toolset in &snapshot.catalog.toolsets {
        table.row(row(snapshot, toolset));
    }
    table.text()
}

fn row(snapshot: &Snapshot, toolset: &Toolset) -> [String; 8] {
    let state = snapshot.source(toolset.id.as_str()).expect("BUG: every toolset has its source").status().state;
    let number = |count: usize| if toolset.is_listed() { count.to_string() } else { "-".to_owned() };
    let told = match state.reason() {
        Some(reason) => reason,
        None if !toolset.is_listed() && !has_summary(snapshot, toolset) => "not started yet".to_owned(),
        None => toolset.summary.clone(),
    };
    [
        toolset.id.to_string(),
        toolset.name.clone(),
        toolset.provider.clone(),
        state.name().to_owned(),
        number(toolset.count),
        number(toolset.withheld_count),
        if toolset.read_only { "yes" } else { "no" }.to_owned(),
        told,
    ]
}

/// Whether the configuration says what the source is for; if not, that is known only once it was started.
fn has_summary(snapshot: &Snapshot, toolset: &Toolset) -> bool {
    snapshot.source_config(toolset.id.as_str()).is_some_and(|config| config.summary.is_some())
}
