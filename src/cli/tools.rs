//! `toolrelay tools`: all tools of all sources or of one, also those that are withheld. Sources never listed are listed first.

use std::collections::BTreeSet;

use serde::Serialize;

use super::relayed::{self, Listed};
use super::tool_lines::{self, ToolLine, Unavailable, WithheldLine};
use super::{Common, Failure, output};
use crate::catalog::Toolset;
use crate::catalog::category::is_same;
use crate::snapshot::Snapshot;

#[derive(clap::Args)]
pub struct Arguments {
    /// The source whose tools to list [default: all]
    source: Option<String>,
    /// Only tools of this category
    #[arg(long, value_name = "NAME")]
    category: Option<String>,
    /// Tell the whole description and the schemas of each tool
    #[arg(long)]
    schema: bool,
}

#[derive(Serialize)]
struct Report {
    revision: String,
    tools: Vec<ToolLine>,
    withheld: Vec<WithheldLine>,
    unavailable: Vec<Unavailable>,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<(), Failure> {
    relayed::run(common, async |relay, progress| {
        let only = arguments.source.as_deref();
        let snapshot = relay.control.snapshots.loaded().await;
        if let Some(id) = only {
            let source = snapshot.source(id).ok_or_else(|| relayed::no_source(&snapshot, id))?;
            source.refusal().map_or(Ok(()), |error| Err(relayed::refused(&error)))?;
        }
        let (snapshot, failed) = relayed::known(relay, only, progress).await;
        if let (Some(_), Some(Listed { outcome: Err(error), .. })) = (only, failed.first()) {
            return Err(relayed::refused(error));
        }
        let report = report(&snapshot, &failed, arguments);
        if let Some(category) = arguments.category.as_deref().filter(|_| report.tools.is_empty()) {
            return Err(no_category(&snapshot, only, category));
        }
        if common.json {
            output::json(&report)?;
        } else {
            output::text(&told(&report, arguments.schema))?;
        }
        Ok(())
    })
}

fn report(snapshot: &Snapshot, failed: &[Listed], arguments: &Arguments) -> Report {
    let toolsets = snapshot.catalog.toolsets.iter().map(AsRef::as_ref);
    let toolsets: Vec<&Toolset> =
        toolsets.filter(|toolset| arguments.source.as_ref().is_none_or(|only| toolset.id.as_str() == only)).collect();
    let wanted = arguments.category.as_deref();
    let is_wanted =
        |category: Option<&str>| wanted.is_none_or(|wanted| category.is_some_and(|category| is_same(category, wanted)));
    let tools = toolsets.iter().flat_map(|toolset| {
        let wanted = (0..toolset.entries.len()).filter(|position| is_wanted(toolset.categories.of(*position)));
        wanted.map(|position| ToolLine::new(toolset, position, arguments.schema))
    });
    let tools: Vec<_> = tools.collect();
    let withheld = toolsets.iter().flat_map(|toolset| toolset.withheld.iter().map(move |withheld| (toolset, withheld)));
    let withheld = withheld.filter(|_| wanted.is_none());
    // What can be called all the same has its remark already.
    let withheld = withheld.filter(|(toolset, withheld)| {
        toolset.entry(withheld.tool.as_str()).is_none_or(|entry| entry.direct || entry.hidden)
    });
    let withheld = withheld.map(|(toolset, withheld)| WithheldLine {
        source: toolset.id.to_string(),
        tool: withheld.tool.to_string(),
        reason: withheld.reason.clone(),
    });
    Report {
        revision: snapshot.catalog.revision.clone(),
        withheld: withheld.collect(),
        unavailable: toolsets.iter().filter_map(|toolset| unavailable(snapshot, toolset, failed)).collect(),
        tools,
    }
}

/// That there is no category so named.
fn no_category(snapshot: &Snapshot, only: Option<&str>, category: &str) -> Failure {
    let toolsets = snapshot.catalog.toolsets.iter();
    let toolsets = toolsets.filter(|toolset| only.is_none_or(|only| toolset.id.as_str() == only));
    let names: BTreeSet<&str> = toolsets.flat_map(|toolset| toolset.categories.names()).collect();
    let hint = match names.len() {
        0 => "none of these tools has a category".to_owned(),
        _ => format!("the categories are {}", names.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Failure::run(format!("there is no category `{category}`"), hint)
}

/// Why the tools of a source are not known.
fn unavailable(snapshot: &Snapshot, toolset: &Toolset, failed: &[Listed]) -> Option<Unavailable> {
    let source = snapshot.source(toolset.id.as_str())?;
    let failure = failed.iter().find(|listed| listed.source.id == source.id).and_then(|l| l.outcome.as_ref().err());
    let state = source.status().state;
    let (status, reason) = match (failure, source.refusal()) {
        (Some(error), _) => ("unreachable", error.message.clone()),
        (None, Some(error)) => (state.name(), state.reason().unwrap_or_else(|| error.message.clone())),
        (None, None) => return None,
    };
    Some(Unavailable { source: source.id.to_string(), status: status.to_owned(), reason })
}

fn told(report: &Report, schemas: bool) -> String {
    let Report { tools, withheld, unavailable, .. } = report;
    let listed = match schemas {
        true => [tool_lines::with_schemas(tools), tool_lines::table(&[], withheld)],
        false => [tool_lines::table(tools, withheld), String::new()],
    };
    let parts = listed.into_iter().chain([tool_lines::absent(unavailable)]).filter(|part| !part.is_empty());
    let text = parts.collect::<Vec<_>>().join("\n");
    if text.is_empty() { "no tools\n".to_owned() } else { text }
}
