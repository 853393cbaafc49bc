//! `load_tools`: puts chosen tools into the tool list, and says which it could not, and why.

use serde::{Deserialize, Serialize};

use super::find_tools::{Detail, ToolLine};
use super::{Context, crowd, json, read};
use crate::call::CallError;
use crate::dispatch::{self, Asked};
use crate::snapshot::{Change, Snapshot};

pub const SCHEMA: &str =
    r#"{"type":"object","properties":{"tools":{"type":"array","items":{"type":"string"}}},"required":["tools"]}"#;
/// The most tools of one request.
const TOOLS_MAX: usize = 100;

pub fn description(_: &Snapshot) -> String {
    "Puts tools into your tool list, each given as \"source/tool\"; the reply has their names and arguments. If your client \
     does not read its list again, use call_tool instead."
        .to_owned()
}

#[derive(Deserialize)]
struct Arguments {
    tools: Vec<String>,
}

#[derive(Serialize)]
struct Reply<'a> {
    loaded: Vec<ToolLine<'a>>,
    failed: Vec<Failed>,
    /// That the tool list has become very long.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    next: &'static str,
}

#[derive(Serialize)]
struct Failed {
    tool: String,
    kind: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    similar: Vec<String>,
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let Arguments { tools } = read("load_tools", arguments)?;
    let (mut wanted, mut failed) = (Vec::new(), Vec::new());
    let asked = tools.iter().take(TOOLS_MAX);
    let asked: Vec<_> = asked.map(|tool| Asked::Dispatched { source: None, tool: tool.clone() }).collect();
    let mut settled = dispatch::settle_all(&context.control.snapshots, &asked).await.into_iter();
    for tool in tools {
        let Some(settled) = settled.next() else {
            let reason = format!("one request loads at most {TOOLS_MAX} tools; ask for it in another");
            failed.push(Failed { tool, kind: "invalid_arguments", reason, similar: Vec::new() });
            continue;
        };
        match settled {
            Ok(route) => wanted.push((tool, route.source.id, route.tool)),
            Err(error) => {
                let reason = format!("{}; {}", error.message, error.hint);
                failed.push(Failed { tool, kind: error.kind.as_str(), reason, similar: error.similar.clone() });
            }
        }
    }
    let snapshot = context.control.snapshots.now();
    let (mut loaded, mut change) = (Vec::new(), Vec::new());
    for (tool, source, name) in wanted {
        match snapshot.catalog.find(source.as_str(), name.as_str()).filter(|entry| entry.direct) {
            Some(entry) => {
                loaded.push(ToolLine::opened(&snapshot, entry, Detail::Signature));
                change.push((source, name));
            }
            None => {
                let reason = "it cannot be shown directly; call it through call_tool".to_owned();
                failed.push(Failed { tool, kind: "withheld", reason, similar: Vec::new() });
            }
        }
    }
    context.control.open(context.principal, Change::Load(change)).await;
    let warning = crowd::warning(&context.control.snapshots.now(), context.principal);
    let next = "call a tool by its `name` if your tool list shows it by now, else through call_tool";
    Ok(json(&Reply { loaded, failed, warning, next }))
}
