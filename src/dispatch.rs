//! The data plane: which source's tool a call means, and whether it may be made. Reads snapshots only.
//! It never changes the world; where a refusal might be out of date it has the source listed again first.

use std::collections::BTreeMap;

use futures::future::join_all;

use crate::call::{CallError, ErrorKind};
use crate::catalog::{Drawer, Entry, Toolset};
use crate::config::{CallLimits, Pin, SourceConfig, Unlisted};
use crate::name::{ExposedName, RESERVED, SEPARATOR, SourceId, ToolName, bare};
use crate::policy::{Policy, Verdict};
use crate::snapshot::{Snapshot, Snapshots};
use crate::source::{Source, State};

/// How many similar tools a refusal names.
const SIMILAR: usize = 3;

/// Where a call goes.
pub struct Route {
    pub source: Source,
    pub tool: ToolName,
    pub limits: CallLimits,
}

/// What a client asks for, as it put it.
#[derive(Debug, Clone)]
pub enum Asked {
    /// A directly exposed name.
    Direct(String),
    /// Through `call_tool`; the source may be left out where it is unambiguous.
    Dispatched { source: Option<String>, tool: String },
    /// It could not be read, for this reason.
    Unreadable(CallError),
}

/// Why a call that was let pass before may not be made by now.
pub fn barred(snapshot: &Snapshot, source: &str, tool: &str) -> Option<CallError> {
    let asked = Asked::Dispatched { source: Some(source.to_owned()), tool: tool.to_owned() };
    match resolve(snapshot, &asked) {
        Resolved::Refused(error) if error.kind == ErrorKind::Withheld => Some(error),
        _ => None,
    }
}

/// What a snapshot says about a call.
pub enum Resolved {
    Route(Route),
    /// The answer needs more than this snapshot holds.
    NotYet(NotYet),
    Refused(CallError),
}

/// What has to happen before the answer is sure.
pub enum NotYet {
    /// Remembered listings are still being read.
    Load,
    /// The source must be listed (again); without that, this is the answer.
    List(Box<Source>, CallError),
}

/// Looks a call up in a snapshot.
pub fn resolve(snapshot: &Snapshot, asked: &Asked) -> Resolved {
    match asked {
        Asked::Direct(name) => resolve_direct(snapshot, name),
        Asked::Dispatched { source, tool } => match (source, meant(snapshot, tool)) {
            (Some(source), tool) => resolve_named(snapshot, source, tool),
            (None, tool) => resolve_bare(snapshot, tool),
        },
        Asked::Unreadable(error) => Resolved::Refused(error.clone()),
    }
}

/// Looks a call up, waiting for what is missing: the one way for everything that [`resolve`] cannot answer at once.
pub async fn settle(snapshots: &Snapshots, asked: &Asked) -> Result<Route, CallError> {
    let mut settled = settle_all(snapshots, std::slice::from_ref(asked)).await;
    settled.pop().expect("BUG: each has its answer")
}

/// The same for several at once, in their order. All sources that have to be listed are at the same time, and each is once.
pub async fn settle_all(snapshots: &Snapshots, asked: &[Asked]) -> Vec<Result<Route, CallError>> {
    let mut listed: BTreeMap<SourceId, Result<(), CallError>> = BTreeMap::new();
    let mut settled: Vec<Option<Result<Route, CallError>>> = asked.iter().map(|_| None).collect();
    loop {
        let snapshot = snapshots.now();
        let (mut wanted, mut waiting, mut to_load) = (BTreeMap::new(), Vec::new(), false);
        for (place, (asked, settled)) in asked.iter().zip(&mut settled).enumerate() {
            if settled.is_some() {
                continue;
            }
            let answer = match resolve(&snapshot, asked) {
                Resolved::Route(route) => Ok(route),
                Resolved::Refused(error) => Err(error),
                Resolved::NotYet(NotYet::Load) => {
                    to_load = true;
                    continue;
                }
                Resolved::NotYet(NotYet::List(source, refusal)) => match listed.get(&source.id) {
                    Some(Ok(())) => Err(refusal),
                    Some(Err(failure)) => Err(failure.clone()),
                    None => {
                        waiting.push((place, source.id.clone()));
                        wanted.insert(source.id.clone(), *source);
                        continue;
                    }
                },
            };
            *settled = Some(answer);
        }
        drop(snapshot);
        if to_load {
            snapshots.loaded().await;
        } else if wanted.is_empty() {
            return settled.into_iter().flatten().collect();
        }
        let listings = wanted.into_iter().map(|(id, source)| async move { (id, source.list().await) });
        listed.extend(join_all(listings).await);
        // Why it failed is the answer, whatever has become of the source meanwhile.
        for (place, source) in waiting {
            if let Some(Err(failure)) = listed.get(&source) {
                settled[place] = Some(Err(failure.clone()));
            }
        }
    }
}

/// The name without blanks around it, unless a tool has them in its own name.
fn meant<'a>(snapshot: &Snapshot, tool: &'a str) -> &'a str {
    let is_own = |name: &ToolName| name.as_str().trim() != name.as_str() && tool.ends_with(name.as_str());
    let has = |toolset: &Toolset| {
        let mut names = toolset.entries.iter().map(|entry| &entry.tool);
        names.any(is_own) || toolset.withheld.iter().any(|withheld| is_own(&withheld.tool))
    };
    match tool.trim() {
        bare if bare.len() < tool.len() && !snapshot.catalog.toolsets.iter().any(|toolset| has(toolset)) => bare,
        _ => tool,
    }
}

fn resolve_direct(snapshot: &Snapshot, name: &str) -> Resolved {
    if let Some(entry) = snapshot.catalog.by_exposed(name) {
        return route(snapshot, entry);
    }
    if !snapshot.catalog.is_loaded() {
        return Resolved::NotYet(NotYet::Load);
    }
    if let Some(error) = withheld_direct(snapshot, name) {
        return Resolved::Refused(error);
    }
    let mut error = CallError::new(
        ErrorKind::UnknownTool,
        format!("there is no tool `{name}`"),
        format!("see {}, and call what it finds through `call_tool`", snapshot.way_to_search("")),
    );
    error.tool = Some(name.to_owned());
    let owned =
        snapshot.catalog.toolsets.iter().filter(|toolset| !toolset.prefix.is_empty()).find_map(|toolset| {
            Some((toolset.id.as_str(), name.strip_prefix(&toolset.prefix)?.strip_prefix(SEPARATOR)?))
        });
    let Some((source, tool)) = owned else {
        error.similar = snapshot.catalog.similar_tools("", name);
        // It may be a bare name of a source that has never been listed.
        return match never_listed_bare(snapshot, name) {
            Some(source) => missing(source, error),
            None => Resolved::Refused(error),
        };
    };
    let config = snapshot.source_config(source);
    if config.is_some_and(|config| config.unlisted == Unlisted::Forward) {
        return resolve_named(snapshot, source, tool);
    }
    if let Some(error) = withheld_by_name(snapshot, source, tool) {
        return Resolved::Refused(error);
    }
    let similar = snapshot.catalog.similar_tools(source, tool);
    let entries = similar.iter().filter_map(|tool| snapshot.catalog.find(source, tool));
    error.similar = entries.map(|entry| snapshot.catalog.exposed_name(entry).to_string()).collect();
    // A source that has this prefix may have got the tool since it was last listed.
    missing(snapshot.source(source).expect("BUG: every toolset has its source"), error)
}

/// The source whose tools have bare names, where nobody knows them yet and this may be one.
fn never_listed_bare<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Source> {
    let bare = snapshot.catalog.toolsets.iter().find(|toolset| toolset.prefix.is_empty())?;
    let may_have = !bare.is_listed() && withheld_by_name(snapshot, bare.id.as_str(), name).is_none();
    snapshot.source(bare.id.as_str()).filter(|source| may_have && source.refusal().is_none())
}

/// Why the tool that would be shown under a name is not.
fn withheld_direct(snapshot: &Snapshot, name: &str) -> Option<CallError> {
    let mut toolsets = snapshot.catalog.toolsets.iter().filter(|toolset| name.starts_with(&toolset.prefix));
    toolsets.find_map(|toolset| {
        let named = |tool: &ToolName| ExposedName::of(&toolset.id, &toolset.prefix, tool).as_str() == name;
        let found = toolset.withheld.iter().find(|withheld| named(&withheld.tool))?;
        Some(refused(toolset.id.as_str(), found.tool.as_str(), &found.reason))
    })
}

/// A credential's rules hold for a name whether the source has such a tool or not, and need not start it to say so.
fn withheld_by_name(snapshot: &Snapshot, source: &str, tool: &str) -> Option<CallError> {
    let reason = snapshot.granted.as_ref()?.refusal_by_name(source, tool)?;
    Some(refused(source, tool, &reason))
}

fn resolve_named(snapshot: &Snapshot, source: &str, tool: &str) -> Resolved {
    let Some(toolset) = snapshot.catalog.toolset(source) else {
        if let Some(drawer) = snapshot.catalog.drawer(source) {
            return resolve_in_drawer(snapshot, drawer, tool);
        }
        // Models take the name that they are shown for the id.
        let called = |name: &str| name.eq_ignore_ascii_case(source);
        let mut named = snapshot.catalog.toolsets.iter().filter(|toolset| called(&toolset.name));
        if let (Some(only), None) = (named.next(), named.next()) {
            return resolve_named(snapshot, only.id.as_str(), tool);
        }
        let mut error = CallError::new(
            ErrorKind::UnknownSource,
            format!("there is no source `{source}`"),
            own_tool(tool).unwrap_or_else(|| snapshot.where_sources_are()),
        )
        .at(source, Some(tool));
        error.similar = snapshot.catalog.similar_drawers(source);
        return Resolved::Refused(error);
    };
    if !snapshot.catalog.is_loaded() {
        return Resolved::NotYet(NotYet::Load);
    }
    let handle = snapshot.source(source).expect("BUG: every toolset has its source");
    if let Some(error) = handle.refusal() {
        return Resolved::Refused(error.at(source, Some(tool)));
    }
    match lookup(snapshot, toolset, tool) {
        Found::Entry(entry) => route(snapshot, entry),
        Found::Withheld(error) => Resolved::Refused(error),
        Found::Nothing => unlisted(snapshot, handle, toolset, tool),
    }
}

/// A tool of a toolset of the configuration, given where a source should be: understood if only one source of it has such a
/// tool.
fn resolve_in_drawer(snapshot: &Snapshot, drawer: &Drawer, tool: &str) -> Resolved {
    if !snapshot.catalog.is_loaded() {
        return Resolved::NotYet(NotYet::Load);
    }
    let sources: Vec<&Toolset> = snapshot.catalog.sources_of(drawer).map(AsRef::as_ref).collect();
    if let [only] = sources[..] {
        return resolve_named(snapshot, only.id.as_str(), tool);
    }
    let (mut entries, mut withheld) = (Vec::new(), Vec::new());
    for toolset in &sources {
        match lookup(snapshot, toolset, tool) {
            Found::Entry(entry) if *snapshot.catalog.drawer_of(entry) == drawer.id => entries.push(entry),
            Found::Withheld(error) => withheld.push(error),
            Found::Entry(_) | Found::Nothing => {}
        }
    }
    let unknown = || {
        let text = format!("toolset `{}` has no tool `{tool}`", drawer.id);
        let hint = own_tool(tool).unwrap_or_else(|| snapshot.where_tools_are(drawer.id.as_str()));
        CallError::new(ErrorKind::UnknownTool, text, hint).at(drawer.id.as_str(), Some(tool))
    };
    let never = sources.iter().filter(|toolset| !toolset.is_listed());
    let mut never = never.filter_map(|toolset| snapshot.source(toolset.id.as_str()));
    match (&entries[..], withheld.pop(), never.find(|source| source.refusal().is_none())) {
        ([entry], ..) => route(snapshot, entry),
        ([], _, Some(source)) => missing(source, unknown()),
        ([], Some(error), None) => Resolved::Refused(error),
        ([], None, None) => {
            let near =
                sources.iter().map(|toolset| (toolset, snapshot.catalog.similar_tools(toolset.id.as_str(), tool)));
            let near = near.flat_map(|(of, tools)| tools.into_iter().map(move |tool| format!("{}/{tool}", of.id)));
            let mut error = unknown();
            error.similar = near.take(SIMILAR).collect();
            Resolved::Refused(error)
        }
        (several, ..) => Resolved::Refused(ambiguous(tool, several)),
    }
}

/// Several sources have the tool that was asked for.
fn ambiguous(tool: &str, entries: &[&Entry]) -> CallError {
    let mut error = CallError::new(
        ErrorKind::InvalidArguments,
        format!("several sources have a tool `{tool}`"),
        format!("say which one as `{}/{}`", entries[0].source, entries[0].tool),
    );
    error.tool = Some(tool.to_owned());
    error.similar = entries.iter().map(|entry| format!("{}/{}", entry.source, entry.tool)).collect();
    error
}

enum Found<'a> {
    Entry(&'a Entry),
    Withheld(CallError),
    Nothing,
}

/// A tool of one source, in whichever way its name is put: as the source spells it, with the source in front, or as it
/// is exposed.
fn lookup<'a>(snapshot: &'a Snapshot, toolset: &'a Toolset, tool: &str) -> Found<'a> {
    if let Some(entry) = toolset.entry(tool) {
        return Found::Entry(entry);
    }
    let source = toolset.id.as_str();
    let bare = bare(tool, source, &toolset.prefix);
    if let Some(entry) = bare.and_then(|bare| toolset.entry(bare)) {
        return Found::Entry(entry);
    }
    if let Some(entry) = snapshot.catalog.by_exposed(tool).filter(|entry| entry.source == toolset.id) {
        return Found::Entry(entry);
    }
    for name in [Some(tool), bare].into_iter().flatten() {
        if let Some(withheld) = toolset.withheld(name) {
            return Found::Withheld(refused(source, name, &withheld.reason));
        }
    }
    Found::Nothing
}

/// What to do, where a source is asked for a tool that is the relay's own.
fn own_tool(tool: &str) -> Option<String> {
    let is_own = RESERVED.contains(&tool);
    is_own.then(|| format!("`{tool}` is a tool of the relay itself: call it by this name, not as one of a source"))
}

fn refused(source: &str, tool: &str, reason: &str) -> CallError {
    CallError::new(
        ErrorKind::Withheld,
        format!("tool `{tool}` of source `{source}` is withheld: {reason}"),
        match reason.contains("`toolrelay lock") {
            true => "use another tool, or ask the user to look at the change and to accept it",
            false => {
                "it cannot be called with this configuration; use another tool, or ask the user to change sources.toml"
            }
        },
    )
    .at(source, Some(tool))
}

/// A tool's name as its source is to get it: without the source in front of it, unless its own tools are named so.
fn as_sent<'a>(toolset: &Toolset, tool: &'a str, bare: &'a str) -> &'a str {
    let front = &tool[..tool.len() - bare.len()];
    let is_own = !front.is_empty() && toolset.entries.iter().any(|entry| entry.tool.as_str().starts_with(front));
    if is_own { tool } else { bare }
}

/// A tool that the source has not listed, neither under this name nor without the source in front of it.
fn unlisted(snapshot: &Snapshot, source: &Source, toolset: &Toolset, tool: &str) -> Resolved {
    let bare = bare(tool, toolset.id.as_str(), &toolset.prefix).filter(|rest| !rest.is_empty()).unwrap_or(tool);
    let tool = as_sent(toolset, tool, bare);
    // Whichever of the two names the source goes by, the rules hold.
    if let Some(error) = [bare, tool].iter().find_map(|name| withheld_by_name(snapshot, source.id.as_str(), name)) {
        return Resolved::Refused(error);
    }
    let config = source.config.as_ref().expect("BUG: a source without refusal has a configuration");
    let forward = config.unlisted == Unlisted::Forward;
    if forward && snapshot.config.relay.pin == Pin::Enforce {
        let reason = "it is not listed, so it cannot be held against sources.lock, and `pin` is `enforce`";
        return missing(source, refused(source.id.as_str(), tool, reason));
    }
    if forward && toolset.is_listed() {
        for name in [bare, tool] {
            if let Verdict::Withheld { reason } = judge_unlisted(snapshot, config, name) {
                return Resolved::Refused(refused(source.id.as_str(), name, &reason));
            }
        }
        return Resolved::Route(Route { source: source.clone(), tool: ToolName::new(tool), limits: config.limits });
    }
    let lacks = match source.status().state {
        State::Ready { lacks_tools: true, note, .. } => note,
        _ => toolset.incomplete.clone(),
    };
    let lacks = lacks.map(|why| format!(" in its list, which may lack some: {why}")).unwrap_or_default();
    let mut error = CallError::new(
        ErrorKind::UnknownTool,
        format!("source `{}` has no tool `{tool}`{lacks}", source.id),
        own_tool(tool).unwrap_or_else(|| snapshot.where_tools_are(source.id.as_str())),
    )
    .at(source.id.as_str(), Some(tool));
    error.similar = snapshot.catalog.similar_tools(source.id.as_str(), tool);
    missing(source, error)
}

/// The source's rules, and then those of the credential.
fn judge_unlisted(snapshot: &Snapshot, config: &SourceConfig, tool: &str) -> Verdict {
    let verdict = Policy::new(&config.rules).judge_name(tool);
    let Verdict::Allowed { read_only, .. } = verdict else { return verdict };
    let granted = snapshot.granted.as_ref();
    let reason = granted.and_then(|granted| granted.refusal_unlisted(config.id.as_str(), tool, read_only));
    reason.map_or(verdict, |reason| Verdict::Withheld { reason })
}

/// Not in the catalog: the source is asked again before that is said, if it can be asked.
fn missing(source: &Source, error: CallError) -> Resolved {
    match source.refusal() {
        Some(refusal) => Resolved::Refused(refusal.at(source.id.as_str(), error.tool.as_deref())),
        None => Resolved::NotYet(NotYet::List(Box::new(source.clone()), error)),
    }
}

/// A tool without its source: `source/tool`, an exposed name, or a name that only one source has.
fn resolve_bare(snapshot: &Snapshot, tool: &str) -> Resolved {
    if !snapshot.catalog.is_loaded() {
        return Resolved::NotYet(NotYet::Load);
    }
    if let Some(entry) = snapshot.catalog.by_exposed(tool) {
        return route(snapshot, entry);
    }
    let named = snapshot.catalog.tools_named(tool);
    let front = by_id(snapshot, tool);
    // No source takes calls that are meant for another one by naming its tools so.
    let is_meant = |entry: &&Entry| {
        front.is_none_or(|(id, _)| entry.source.as_str() == id || snapshot.catalog.drawer_of(entry).as_str() == id)
    };
    match named.into_iter().filter(is_meant).collect::<Vec<_>>().as_slice() {
        [entry] => return route(snapshot, entry),
        [] => {}
        several => return Resolved::Refused(ambiguous(tool, several)),
    }
    if let Some((source, rest)) = front.or_else(|| by_prefix(snapshot, tool)) {
        return resolve_named(snapshot, source, rest);
    }
    let mut withheld = snapshot.catalog.toolsets.iter().filter_map(|toolset| Some((toolset, toolset.withheld(tool)?)));
    if let Some((toolset, found)) = withheld.next() {
        return Resolved::Refused(refused(toolset.id.as_str(), tool, &found.reason));
    }
    let mut error = CallError::new(
        ErrorKind::UnknownTool,
        format!("no source has a tool `{tool}`"),
        own_tool(tool)
            .unwrap_or_else(|| format!("give `source` and `tool` as {} shows them", snapshot.way_to_search(""))),
    );
    error.tool = Some(tool.to_owned());
    error.similar = snapshot.catalog.similar_tools("", tool);
    Resolved::Refused(error)
}

/// The source or toolset in front of a tool's name, by its id; of several the one that fits longest.
fn by_id<'a>(snapshot: &'a Snapshot, tool: &'a str) -> Option<(&'a str, &'a str)> {
    let sources = snapshot.catalog.toolsets.iter().map(|toolset| toolset.id.as_str());
    let ids = sources.chain(snapshot.catalog.drawers().iter().map(|drawer| drawer.id.as_str()));
    ids.filter_map(|id| Some((id, bare(tool, id, "")?))).min_by_key(|(_, rest)| rest.len())
}

/// The same by its prefix.
fn by_prefix<'a>(snapshot: &'a Snapshot, tool: &'a str) -> Option<(&'a str, &'a str)> {
    let toolsets = snapshot.catalog.toolsets.iter();
    let fits = toolsets.filter_map(|toolset| Some((toolset.id.as_str(), bare(tool, "", &toolset.prefix)?)));
    fits.min_by_key(|(_, rest)| rest.len())
}

fn route(snapshot: &Snapshot, entry: &Entry) -> Resolved {
    let source = snapshot.source(entry.source.as_str()).expect("BUG: every entry has its source");
    if let Some(error) = source.refusal() {
        return Resolved::Refused(error.at(entry.source.as_str(), Some(entry.tool.as_str())));
    }
    if snapshot.config.relay.pin == Pin::Enforce && !matches!(source.status().state, State::Ready { listed: true, .. })
    {
        // What is known of the tool is what it was before the source started, and it may be another one now.
        let text = format!("source `{}` was not listed since it started", source.id);
        let error = CallError::new(ErrorKind::Unavailable, text, "call again");
        return missing(source, error.at(entry.source.as_str(), Some(entry.tool.as_str())));
    }
    let config = source.config.as_ref().expect("BUG: a source without refusal has a configuration");
    let limits = match entry.call_timeout {
        Some(idle) => CallLimits { idle, total: config.limits.total.max(idle) },
        None => config.limits,
    };
    Resolved::Route(Route { source: source.clone(), tool: entry.tool.clone(), limits })
}
