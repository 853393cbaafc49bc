//! Owns the look at what the rules of a source fit among what it lists, for `toolrelay check --connect`.
//! It judges no tool: `policy` does.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::Listing;
use crate::config::{Fault, SourceConfig, ToolRules};
use crate::policy::{Offered, Policy, Verdict};
use crate::relay::Relay;
use crate::source::State;

/// Each glob and each `tool.NAME` that fits nothing, of the sources that were listed to the end.
pub async fn none(relay: &Arc<Relay>, file: &Path) -> Vec<Fault> {
    let snapshot = relay.control.snapshots.now();
    let mut found = Vec::new();
    for (key, listing) in relay.listings().await {
        let Some(source) = snapshot.source(&key.id) else { continue };
        let is_whole = matches!(source.status().state, State::Ready { note: None, listed: true, .. });
        if let (true, Some(config)) = (is_whole, &source.config) {
            found.extend(of_source(config, &listing, file));
        }
    }
    found
}

fn of_source(config: &SourceConfig, listing: &Listing, file: &Path) -> Vec<Fault> {
    let rules = &config.rules;
    let warning = |key: String, what: &str, hint: String| Fault {
        file: file.to_owned(),
        line: 0,
        column: 0,
        key: format!("source.{}.{key}", config.id),
        cause: format!("{what} fits nothing that the source lists"),
        hint,
    };
    let rules_of = [("allow", &rules.allow), ("deny", &rules.deny)];
    let globs =
        rules_of.iter().flat_map(|(list, globs)| globs.iter().enumerate().map(move |(at, glob)| (list, at, glob)));
    let globs = globs.filter(|(.., glob)| !fits(glob, listing)).map(|(list, at, glob)| {
        let hint = "`*` is any text and `?` any character, and all else stands for itself; the names are those of \
                    `toolrelay tools`";
        warning(format!("{list}[{at}]"), &format!("`{glob}`"), hint.to_owned())
    });
    let tools = rules.tools.keys().filter(|name| listing.tools.iter().all(|tool| tool.name.as_str() != *name));
    let tools = tools.map(|name| {
        warning(
            format!("tool.{name}"),
            "it",
            format!("see the names of its tools with `toolrelay tools {}`", config.id),
        )
    });
    globs.chain(tools).collect()
}

/// Whether a glob is about anything at all.
fn fits(glob: &str, listing: &Listing) -> bool {
    let policy = Policy::new(&ToolRules { deny: vec![glob.to_owned()], ..ToolRules::default() });
    let offer = &listing.note.offer;
    let uris = offer.resources.iter().chain(&offer.templates).chain(&offer.skills);
    let mut offered = (offer.prompts.iter().map(|item| Offered::Prompt(&item.key)))
        .chain(uris.map(|item| Offered::Resource(&item.key)));
    listing.tools.iter().any(|tool| matches!(policy.judge_name(tool.name.as_str()), Verdict::Withheld { .. }))
        || offered.any(|offered| policy.refusal_of(offered).is_some())
}
