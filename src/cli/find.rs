//! `toolrelay find`: the search that clients have in `find_tools`, by the same code. Sources never listed are listed first.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::table::counted;
use super::tool_lines::{self, ToolLine, Unavailable, WithheldLine};
use super::{Common, Failure, output, relayed};
use crate::menu::{self, Context};

/// Matches, if it is not said how many.
const LIMIT: u16 = 8;

#[derive(clap::Args)]
pub struct Arguments {
    /// What to look for: verb, object, system, as in "create issue github"
    #[arg(required = true)]
    query: Vec<String>,
    /// Look in this source or toolset alone
    #[arg(long)]
    source: Option<String>,
    /// Only tools of this category
    #[arg(long, value_name = "NAME")]
    category: Option<String>,
    /// How many tools to show
    #[arg(long, default_value_t = LIMIT, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// How much to tell of each
    #[arg(long, default_value = "signature")]
    detail: Detail,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Detail {
    /// Name and description
    Brief,
    /// The arguments in a line as well
    Signature,
    /// The schemas as well
    Full,
}

/// The arguments of `find_tools`.
#[derive(Serialize)]
struct Wanted<'a> {
    query: &'a str,
    source: Option<&'a str>,
    category: Option<&'a str>,
    limit: usize,
    cursor: Option<String>,
    detail: Detail,
}

/// A reply of `find_tools`; its matches as they were written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    matches: Vec<Box<RawValue>>,
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    unavailable: Vec<Unavailable>,
    withheld: Vec<WithheldLine>,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<(), Failure> {
    relayed::run(common, async |relay, progress| {
        let place = arguments.source.as_deref();
        let snapshot = relay.control.snapshots.loaded().await;
        let only = place.filter(|id| snapshot.source(id).is_some());
        if let Some(id) = place.filter(|id| only.is_none() && snapshot.catalog.drawer(id).is_none()) {
            return Err(relayed::no_source(&snapshot, id));
        }
        relayed::known(relay, only, progress).await;
        let reply = find(&relay.menu(), arguments).await?;
        if common.json {
            output::json(&reply)?;
        } else {
            output::text(&told(&reply, arguments.detail))?;
        }
        Ok(())
    })
}

/// One reply is small, as it is made for models; so many are asked for as are wanted.
async fn find(context: &Context<'_>, arguments: &Arguments) -> Result<Reply, Failure> {
    let query = arguments.query.join(" ");
    let limit = usize::from(arguments.limit);
    let (mut matches, mut cursor) = (Vec::new(), None);
    loop {
        let (source, detail) = (arguments.source.as_deref(), arguments.detail);
        let category = arguments.category.as_deref();
        let wanted = Wanted { query: &query, source, category, limit: limit - matches.len(), cursor, detail };
        let wanted = serde_json::to_string(&wanted).expect("BUG: the arguments always serialize");
        let reply = menu::run(context, "find_tools", Some(&wanted)).await.map_err(|error| relayed::refused(&error))?;
        let mut reply: Reply = serde_json::from_str(&reply).expect("BUG: `find_tools` replies in its own shape");
        matches.append(&mut reply.matches);
        if reply.next_cursor.is_none() || matches.len() >= limit {
            return Ok(Reply { matches, ..reply });
        }
        cursor = reply.next_cursor;
    }
}

fn told(reply: &Reply, detail: Detail) -> String {
    let lines = reply.matches.iter().map(|raw| serde_json::from_str::<ToolLine>(raw.get()));
    let lines: Vec<_> = lines.map(|line| line.expect("BUG: `find_tools` replies in its own shape")).collect();
    let mut parts = match detail {
        _ if lines.is_empty() && reply.withheld.is_empty() => vec!["no tool fits\n".to_owned()],
        Detail::Full => vec![tool_lines::with_schemas(&lines), tool_lines::table(&[], &reply.withheld)],
        Detail::Brief | Detail::Signature => vec![tool_lines::table(&lines, &reply.withheld)],
    };
    if reply.total > lines.len() {
        parts.push(format!("{} of {}; see more with --limit\n", lines.len(), counted(reply.total, "tool")));
    }
    parts.push(tool_lines::absent(&reply.unavailable));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}
