//! `toolrelay lock`: starts the sources, and accepts their tools as they are now; with `--check` only tells what differs.
//! What a lock looks like is known elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::progress::Progress;
use super::relayed::{self, Listed};
use super::table::{beside, counted};
use super::{Common, Failure, output, setup};
use crate::catalog::definition::{Definition, Summary};
use crate::catalog::drift::{Difference, differences};
use crate::catalog::lock::{Lock, Tools};
use crate::catalog::text::visible_name;
use crate::catalog::{Entry, Toolset};
use crate::config::{Pin, Reach, SystemLookup};
use crate::name::SourceId;
use crate::pins::{self, Unusable};
use crate::redact::one_line;
use crate::relay::Relay;
use crate::snapshot::Snapshot;
use crate::source::{Source, State};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only these sources; the lines of all others stay as they are [default: all]
    sources: Vec<String>,
    /// Tell what differs and write nothing; the exit code is 1 if anything does
    #[arg(long)]
    check: bool,
}

/// What is printed with `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    file: String,
    written: bool,
    #[serde(skip)]
    checked: bool,
    differs: bool,
    sources: Vec<SourceLine>,
    differences: Vec<DifferenceLine>,
}

/// How one source fared.
#[derive(Serialize)]
struct SourceLine {
    id: String,
    /// `listed`, or why it is not.
    state: &'static str,
    /// In the lock now, or with `--check` if it were written.
    tools: usize,
    /// Why its old lines are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip)]
    failed: bool,
}

#[derive(Serialize)]
struct DifferenceLine {
    source: String,
    /// None: what the source says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    locked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
    /// Why a tool is not offered any more, where its source still lists it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<MemberLine>,
    /// Nothing of its source was in the lock.
    #[serde(skip)]
    of_new_source: bool,
}

#[derive(Serialize)]
struct MemberLine {
    member: &'static str,
    diff: String,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<(), Failure> {
    let progress = Progress::new(common.json);
    let _log = setup::start_command_log(common, &progress);
    let (file, mut config) = setup::load_config(common)?;
    if !config.faults.is_empty() {
        tracing::warn!(file = %file.display(), faults = config.faults.len(), "see `toolrelay check`");
    }
    let lock = config.relay.lock.clone();
    let was = match pins::read(&lock) {
        Ok(was) => was,
        Err(Unusable::Missing(_)) if !arguments.check => Lock::default(),
        Err(error) => return Err(Failure::run(format!("{}: {error}", lock.display()), error.hint())),
    };
    // To be accepted is what the sources offer, not what the last lock leaves of it.
    config.relay.pin = Pin::Off;
    relayed::with(config, &progress, async |relay, progress| {
        let (now, sources, differences) = compare(relay, &was, arguments, progress).await?;
        let written = !arguments.check && write(&lock, &now)?;
        let differs = !differences.is_empty();
        let checked = arguments.check;
        let report = Report { file: lock.display().to_string(), written, checked, differs, sources, differences };
        if common.json {
            output::json(&report)?;
        } else {
            output::text(&told(&report, &now))?;
        }
        outcome(&report)
    })
}

/// Writes the lock unless the file says that already; whether it did.
fn write(file: &Path, lock: &Lock) -> Result<bool, Failure> {
    let text = lock.text();
    if std::fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    let failed =
        |error| Failure::run(format!("{} cannot be written: {error}", file.display()), "make its folder writable");
    pins::write(file, &text).map(|()| true).map_err(failed)
}

/// What the lock would be, how each source fared, and what differs.
async fn compare(
    relay: &Arc<Relay>,
    was: &Lock,
    arguments: &Arguments,
    progress: &Progress,
) -> Result<(Lock, Vec<SourceLine>, Vec<DifferenceLine>), Failure> {
    let snapshot = relay.control.snapshots.loaded().await;
    let named = &arguments.sources;
    if let Some(unknown) = named.iter().find(|id| snapshot.source(id).is_none()) {
        return Err(relayed::no_source(&snapshot, unknown));
    }
    let is_meant = |id: &SourceId| named.is_empty() || named.iter().any(|name| name == id.as_str());
    let sources = snapshot.sources.values().filter(|source| is_meant(&source.id) && source.refusal().is_none());
    let listed = relayed::list(sources.cloned().collect(), progress).await;
    let listed: BTreeMap<_, _> = listed.into_iter().map(|listed| (listed.source.id.clone(), listed)).collect();
    let snapshot = relay.control.snapshots.now();
    let mut now = was.clone();
    if named.is_empty() {
        now.sources.retain(|id, _| snapshot.source(id.as_str()).is_some());
        now.summaries.retain(|id, _| snapshot.source(id.as_str()).is_some());
    }
    let mut lines = Vec::new();
    for toolset in snapshot.catalog.toolsets.iter().filter(|toolset| is_meant(&toolset.id)) {
        let source = snapshot.source(toolset.id.as_str()).expect("BUG: every toolset has its source");
        let mut line = SourceLine::new(source, listed.get(&toolset.id), !named.is_empty());
        if line.reason.is_none() {
            let secrets = secrets(source);
            now.sources.insert(toolset.id.clone(), tools(toolset, &secrets));
            now.summaries.remove(&toolset.id);
            now.summaries.extend(summary(toolset, &secrets).map(|summary| (toolset.id.clone(), summary)));
        }
        line.tools = now.sources.get(&toolset.id).map_or(0, BTreeMap::len);
        lines.push(line);
    }
    let found = differences(was, &now);
    let found = found.into_iter().map(|difference| DifferenceLine::new(difference, was, &snapshot)).collect();
    Ok((now, lines, found))
}

fn tools(toolset: &Toolset, secrets: &[String]) -> Tools {
    let definition = |entry: &Entry| {
        let whole = Definition::of(entry.tool.as_str(), &entry.raw.unpack());
        // The file is for others to read.
        if secrets.iter().any(|secret| whole.holds(secret)) { Definition::unshown(whole.hash) } else { whole }
    };
    toolset.entries.iter().map(|entry| (entry.tool.clone(), definition(entry))).collect()
}

fn summary(toolset: &Toolset, secrets: &[String]) -> Option<Summary> {
    let whole = toolset.said_summary()?;
    let is_secret = whole.text.as_ref().is_some_and(|text| secrets.iter().any(|secret| text.contains(secret)));
    Some(if is_secret { whole.unshown() } else { whole })
}

/// The values that the configuration gives to a source, in no way to be shown.
fn secrets(source: &Source) -> Vec<String> {
    let lookup = SystemLookup::new();
    let secrets = source.config.as_ref().and_then(|config| match &config.reach {
        Reach::Program(launch) => Some(launch.resolve(&lookup).ok()?.secrets),
        Reach::Http(remote) => Some(remote.resolve(&lookup).ok()?.secrets),
    });
    secrets.unwrap_or_default()
}

impl SourceLine {
    fn new(source: &Source, listed: Option<&Listed>, is_named: bool) -> Self {
        let state = source.status().state;
        let kept =
            |state, reason, hint, failed| Self { id: source.id.to_string(), state, tools: 0, reason, hint, failed };
        match (listed.map(|listed| &listed.outcome), &state) {
            (Some(Err(error)), _) => {
                let hint = relayed::remedy(error).to_owned();
                kept("unreachable", Some(error.message.clone()), Some(hint).filter(|hint| !hint.is_empty()), true)
            }
            // A list that may lack tools must not take them out of the lock.
            (Some(Ok(())), State::Ready { note, lacks_tools: true, .. }) => {
                kept("incomplete", note.clone(), None, true)
            }
            (Some(Ok(())), _) => kept("listed", None, None, false),
            (None, _) => {
                let failed = is_named || matches!(state, State::Misconfigured { .. });
                kept(state.name(), Some(state.reason().unwrap_or_default()), None, failed)
            }
        }
    }
}

impl DifferenceLine {
    fn new(difference: Difference, was: &Lock, snapshot: &Snapshot) -> Self {
        let Difference { source, tool, was: locked, now, members } = difference;
        let toolset = snapshot.catalog.toolset(source.as_str()).filter(|_| now.is_none());
        let reason =
            toolset.and_then(|toolset| toolset.withheld(tool.as_ref()?.as_str())).map(|found| found.reason.clone());
        Self {
            of_new_source: !was.sources.contains_key(&source),
            source: source.to_string(),
            change: match (locked, now) {
                _ if tool.is_none() => "changed",
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            },
            tool: tool.map(|tool| tool.to_string()),
            locked: locked.map(|hash| hash.to_string()),
            now: now.map(|hash| hash.to_string()),
            reason,
            members: members.into_iter().map(|(member, diff)| MemberLine { member, diff }).collect(),
        }
    }
}

impl Report {
    /// `1 added, 2 removed, 3 changed`
    fn counts(&self) -> String {
        let kinds = ["added", "removed", "changed"].map(|kind| {
            let count = self.differences.iter().filter(|line| line.change == kind).count();
            format!("{count} {kind}")
        });
        kinds.join(", ")
    }
}

fn told(report: &Report, now: &Lock) -> String {
    let mut text = String::new();
    let tools = now.sources.values().map(BTreeMap::len).sum();
    let whole = format!("{} of {}", counted(tools, "tool"), counted(now.sources.len(), "source"));
    let _ = match (report.written, report.differs) {
        (true, _) => writeln!(text, "{}: written, {whole}; {}", report.file, report.counts()),
        (false, false) => writeln!(text, "{}: nothing differs, {whole}", report.file),
        (false, true) => writeln!(text, "{}: differs; {}", report.file, report.counts()),
    };
    let mut new_sources: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &report.differences {
        if line.of_new_source {
            *new_sources.entry(&line.source).or_default() += 1;
        } else {
            append(&mut text, line);
        }
    }
    for (source, tools) in new_sources {
        let _ = writeln!(text, "+ {source}: {}, none of this source so far", counted(tools, "tool"));
    }
    for line in &report.sources {
        if let Some(reason) = &line.reason {
            let hint = line.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            let reason = one_line(&format!("{}{hint}", beside(&line.id, reason)), usize::MAX);
            let what = if report.checked { "not compared" } else { "kept as it was" };
            let _ = writeln!(text, "{what}: {} is {}: {reason}", line.id, line.state);
        }
    }
    text
}

fn append(text: &mut String, line: &DifferenceLine) {
    let mark = match line.change {
        "added" => '+',
        "removed" => '-',
        _ => '~',
    };
    let reason = line.reason.as_ref().map(|reason| format!(": withheld now, {reason}")).unwrap_or_default();
    let tool = line.tool.as_ref().map(|tool| format!("/{}", visible_name(tool))).unwrap_or_default();
    let name = format!("{}{tool}{reason}", line.source);
    let _ = writeln!(text, "{mark} {}", one_line(&name, usize::MAX));
    for member in &line.members {
        let _ = writeln!(text, "    {}:", member.member);
        for changed in member.diff.lines() {
            let _ = writeln!(text, "      {changed}");
        }
    }
}

fn outcome(report: &Report) -> Result<(), Failure> {
    let failed: Vec<_> =
        report.sources.iter().filter(|line| line.failed).map(|line| format!("`{}`", line.id)).collect();
    let (mut errors, mut hint) = (Vec::new(), "the reason and the remedy stand beside each");
    if !failed.is_empty() {
        let of = counted(report.sources.len(), "source");
        errors.push(format!("{} of {of} could not be listed: {}", failed.len(), failed.join(", ")));
    }
    if report.checked && report.differs {
        errors.insert(0, format!("what the sources offer is not what was accepted: {}", report.counts()));
        hint = "look at what differs, and accept it with `toolrelay lock`";
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::run(errors.join("; "), hint)) }
}
