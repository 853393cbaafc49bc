//! Owns the texts about toolsets in descriptions and instructions: each named with its job, as far as there is room.
//! It says the same for the same catalog, whatever the sources are doing.

use crate::snapshot::Snapshot;

/// Room for `… and 1000 more, see list_toolsets`.
const REST: usize = 40;

/// Appends `id: job` of each toolset, each after `separator`, while the JSON of the whole stays within `max` bytes.
pub fn append_toolsets(text: &mut String, snapshot: &Snapshot, max: usize, separator: &str) {
    append(
        text,
        snapshot,
        max,
        separator,
        |id, summary| {
            if summary.is_empty() { id.to_owned() } else { format!("{id}: {summary}") }
        },
    );
}

/// Appends the ids alone.
pub fn append_ids(text: &mut String, snapshot: &Snapshot, max: usize) {
    append(text, snapshot, max, ", ", |id, _| id.to_owned());
}

fn append(text: &mut String, snapshot: &Snapshot, max: usize, separator: &str, line: impl Fn(&str, &str) -> String) {
    let drawers = snapshot.catalog.drawers();
    let mut size = json_size(text);
    let mut first = true;
    for (place, drawer) in drawers.iter().enumerate() {
        let part = line(drawer.id.as_str(), &drawer.summary);
        let joins = separator.starts_with([',', ';']);
        let lead = if std::mem::take(&mut first) && joins { " " } else { separator };
        let added = json_size(lead) + json_size(&part);
        let rest = if place + 1 < drawers.len() { REST } else { 0 };
        if size + added + rest > max {
            let all = if snapshot.shows("list_toolsets") { ", see list_toolsets" } else { "" };
            text.push_str(&format!(" … and {} more{all}", drawers.len() - place));
            return;
        }
        size += added;
        text.push_str(lead);
        text.push_str(&part);
    }
    if drawers.is_empty() {
        text.push_str(" none are configured (see sources.toml).");
    }
}

/// How many bytes `text` takes as a part of a JSON string.
fn json_size(text: &str) -> usize {
    crate::wire::quoted(text).len() - 2
}
