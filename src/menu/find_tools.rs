//! `find_tools`: searches and pages the catalog, in small answers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::scope::Scope;
use super::{Context, first_listing, json, read, text};
use crate::call::{CallError, ErrorKind};
use crate::catalog::drift::Drift;
use crate::catalog::is_stop_word;
use crate::catalog::listing::Fingerprint;
use crate::catalog::search::Index;
use crate::catalog::{Catalog, Entry, Toolset, Withheld};
use crate::config::Exposure;
use crate::defect;
use crate::snapshot::{Change, Snapshot};
use crate::source::{Source, State};

pub const SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string"},"source":{"type":"string"},"category":{"type":"string"},"tools":{"type":"array","items":{"type":"string"}},"limit":{"type":"integer","minimum":1,"maximum":50},"cursor":{"type":"string"},"detail":{"type":"string","enum":["brief","signature","full"],"default":"signature"}}}"#;
/// The JSON of the description is no longer than this.
const DESCRIPTION_MAX: usize = 1100;
/// Matches in one reply, if the client does not say.
const LIMIT: usize = 8;
const LIMIT_MAX: usize = 50;
/// A reply's matches take no more than this, in bytes: about 1,000 tokens. `full` has no such bound.
const REPLY_MAX: usize = 4_000;
/// How many unavailable sources and withheld tools are told.
const TOLD: usize = 5;
/// Characters of a description in a reply.
const LINE_MAX: usize = 160;
/// Characters of a reason, so that there is room for what to do.
const REASON_MAX: usize = 240;

pub fn description(snapshot: &Snapshot) -> String {
    let mut text = "Finds tools in all toolsets, opened or not; call what it finds with call_tool. Query: verb + object + system, \
                    e.g. \"create issue github\". Without a query it pages through everything; `tools` [\"source/tool\"] with \
                    detail full gives schemas. Covers:"
        .to_owned();
    text::append_toolsets(&mut text, snapshot, DESCRIPTION_MAX, "; ");
    text
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    Brief,
    #[default]
    Signature,
    Full,
}

#[derive(Deserialize)]
struct Arguments {
    query: Option<String>,
    #[serde(alias = "toolset")]
    source: Option<String>,
    category: Option<String>,
    tools: Option<Vec<String>>,
    limit: Option<usize>,
    cursor: Option<String>,
    #[serde(default)]
    detail: Detail,
}

impl Arguments {
    /// A short form of what is searched for: pages of one search have it in common.
    fn question(&self) -> String {
        let mut hash = Fingerprint::new();
        for text in [&self.query, &self.source, &self.category] {
            hash.text(text.as_deref().unwrap_or_default().trim());
        }
        for tool in self.tools.iter().flatten() {
            hash.text(tool);
        }
        hash.bytes()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// One tool in a reply.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolLine<'a> {
    source: &'a str,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'a str>,
    /// The name under which it can be called directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lossy: bool,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    read_only: bool,
    /// It is not what sources.lock says; the note tells how.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Box<RawValue>>,
    /// What is left out or mended where the tool is shown directly, since clients would not take it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<String>,
}

impl<'a> ToolLine<'a> {
    fn new(catalog: &'a Catalog, entry: &'a Entry, detail: Detail) -> Self {
        let sheet = entry.read();
        let view = sheet.view();
        let signature = (detail != Detail::Brief).then(|| view.signature());
        let full = detail == Detail::Full;
        let (input, output) = if full { view.schemas() } else { ("".into(), None) };
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok();
        let drift = catalog.toolset(entry.source.as_str()).and_then(|toolset| toolset.drift(entry.tool.as_str()));
        Self {
            source: entry.source.as_str(),
            tool: entry.tool.as_str(),
            category: catalog.category_of(entry),
            name: None,
            lossy: signature.as_ref().is_some_and(|signature| signature.lossy),
            signature: signature.map(|signature| signature.text),
            description: match full.then(|| view.description()).flatten() {
                Some(description) => description.into_owned(),
                None => crate::redact::one_line(&view.first_line(), LINE_MAX),
            },
            score: None,
            enabled: None,
            read_only: entry.read_only,
            changed: drift.is_some(),
            note: drift.map(Drift::note),
            input_schema: if full { raw(&input) } else { None },
            output_schema: output.and_then(raw),
            repairs: if full { view.repairs() } else { Vec::new() },
        }
    }

    /// As it stands in a toolset that was opened.
    pub fn opened(snapshot: &'a Snapshot, entry: &'a Entry, detail: Detail) -> Self {
        let name = entry.direct.then(|| snapshot.catalog.exposed_name(entry).as_str());
        Self { name, ..Self::new(&snapshot.catalog, entry, detail) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'a> {
    matches: Vec<ToolLine<'a>>,
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    unavailable: Vec<Unavailable<'a>>,
    withheld: Vec<WithheldLine<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
    /// What to do where nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A source whose tools may be missing, and why.
#[derive(Serialize)]
pub struct Unavailable<'a> {
    source: &'a str,
    status: &'static str,
    reason: String,
}

/// A tool that is withheld, and why.
#[derive(Serialize)]
pub struct WithheldLine<'a> {
    source: &'a str,
    tool: &'a str,
    reason: &'a str,
}

impl<'a> WithheldLine<'a> {
    pub fn new((toolset, withheld): (&'a Toolset, &'a Withheld)) -> Self {
        Self { source: toolset.id.as_str(), tool: withheld.tool.as_str(), reason: &withheld.reason }
    }
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let arguments: Arguments = read("find_tools", arguments)?;
    let snapshot = first_listing::for_search(context, arguments.source.as_deref()).await?;
    let scope = Scope::read(&snapshot, arguments.source.as_deref(), arguments.category.as_deref())?;
    let query = arguments.query.as_deref().map(str::trim).filter(|query| !query.is_empty());
    let mut unknown = Vec::new();
    let limit = arguments.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
    let (found, total) = match (&arguments.tools, query) {
        (Some(tools), _) if !tools.is_empty() => counted(named(&snapshot, tools, &mut unknown)),
        (_, Some(query)) => search(&snapshot, query, &scope, arguments.cursor.is_none().then_some(limit)).await,
        _ => counted(all(&scope)),
    };
    let question = arguments.question();
    let rest = match &arguments.cursor {
        Some(cursor) => after(&snapshot.catalog, &found, cursor, &question)?,
        None => &found,
    };
    let activating = snapshot.config.relay.exposure == Exposure::Progressive && query.is_some();
    let mut size = 0;
    let mut matches = Vec::new();
    for (entry, score) in rest.iter().take(limit) {
        let enabled = snapshot.is_shown(context.principal, entry) || (activating && entry.direct);
        let line = ToolLine {
            score: score.map(|score| (f64::from(score) * 100.0).round() / 100.0),
            enabled: Some(enabled),
            name: enabled.then(|| snapshot.catalog.exposed_name(entry).as_str()),
            ..ToolLine::new(&snapshot.catalog, entry, arguments.detail)
        };
        size += json(&line).len();
        if size > REPLY_MAX && !matches.is_empty() && arguments.detail != Detail::Full {
            break;
        }
        matches.push(line);
    }
    if activating {
        let found = rest[..matches.len()].iter().filter(|(entry, _)| entry.direct);
        let found = found.map(|(entry, _)| (entry.source.clone(), entry.tool.clone())).collect();
        context.control.open(context.principal, Change::Load(found)).await;
    }
    let more = matches.len() < rest.len();
    let next_cursor = rest.get(matches.len().wrapping_sub(1)).filter(|_| more);
    let next_cursor = next_cursor.map(|last| cursor_of(last, &question));
    let reply = Reply {
        total,
        next_cursor,
        unavailable: Unavailable::among(
            &snapshot,
            scope.toolsets().filter_map(|toolset| snapshot.source(toolset.id.as_str())),
        ),
        withheld: query.map(|query| withheld(query, &scope)).unwrap_or_default(),
        unknown,
        next: query.filter(|_| total == 0).map(|query| advice(query, &arguments)),
        matches,
    };
    Ok(json(&reply))
}

/// What to do after a query that found nothing.
fn advice(query: &str, arguments: &Arguments) -> String {
    let says_nothing = |word: &str| is_stop_word(&word.to_lowercase());
    let why = match crate::policy::words(query).all(says_nothing) {
        true => "the query has no word that says what a tool does",
        false => "no tool fits the query",
    };
    let narrowed = match (&arguments.source, &arguments.category) {
        (Some(_), _) => ", search without `source`",
        (None, Some(_)) => ", search without `category`",
        (None, None) => "",
    };
    format!(
        "{why}: say it in other words (verb + object + system){narrowed}, or leave `query` out to page through everything"
    )
}

type Found<'a> = Vec<(&'a Entry, Option<f32>)>;

fn all<'a>(scope: &Scope<'a>) -> Found<'a> {
    let entries =
        scope.toolsets().flat_map(|toolset| toolset.entries.iter().enumerate().map(move |found| (toolset, found)));
    let shown = entries.filter(|(toolset, (position, entry))| entry.is_for_models() && scope.holds(toolset, *position));
    shown.map(|(_, (_, entry))| (entry, None)).collect()
}

fn named<'a>(snapshot: &'a Snapshot, tools: &[String], unknown: &mut Vec<String>) -> Found<'a> {
    let mut found: Found<'a> = Vec::new();
    // One that is named in two ways is told once.
    let mut told = BTreeSet::new();
    for tool in tools {
        let split = tool.split_once('/').and_then(|(source, name)| snapshot.catalog.find(source, name));
        let entries = match split.or_else(|| snapshot.catalog.by_exposed(tool)) {
            Some(entry) => vec![entry],
            None => snapshot.catalog.tools_named(tool),
        };
        let mut entries = entries.into_iter().filter(|entry| entry.is_for_models()).peekable();
        if entries.peek().is_none() {
            unknown.push(tool.clone());
        }
        let new = entries.filter(|entry| told.insert((&entry.source, &entry.tool)));
        found.extend(new.map(|entry| (entry, None)));
    }
    found
}

fn counted(found: Found<'_>) -> (Found<'_>, usize) {
    let total = found.len();
    (found, total)
}

/// What the query finds, best first, and how much that is. With `first` only so many and one more are sorted out, where
/// that is the same.
async fn search<'a>(
    snapshot: &'a Snapshot,
    query: &str,
    scope: &Scope<'_>,
    first: Option<usize>,
) -> (Found<'a>, usize) {
    if snapshot.index.get().is_none() {
        let (catalog, index) = (snapshot.catalog.clone(), snapshot.index.clone());
        // On a thread of its own: a large catalog takes a while, and calls go on meanwhile.
        let built = defect::contained_apart(move || {
            index.get_or_init(|| Index::build(&catalog));
            crate::trim::give_back();
        });
        if built.await.is_none() {
            tracing::error!("search index could not be built");
        }
    }
    let Some(index) = snapshot.index.get() else { return (Vec::new(), 0) };
    let entry = |toolset: u32, entry: u32| &snapshot.catalog.toolsets[toolset as usize].entries[entry as usize];
    let (hits, total) = match first.filter(|_| scope.keeps_order(query)) {
        Some(first) => index.find_page(query, scope.source(), 0, first + 1),
        None => {
            let hits = scope.arrange(query, index.find(query, scope.source()));
            let total = hits.len();
            (hits, total)
        }
    };
    (hits.iter().map(|hit| (entry(hit.toolset, hit.entry), Some(hit.score))).collect(), total)
}

/// Says of which question a page is, and where it ended, by the tool itself: pages stay right when the catalog changes in
/// between.
fn cursor_of((entry, score): &(&Entry, Option<f32>), question: &str) -> String {
    format!("{question}:{:08x}:{}/{}", score.map_or(0, f32::to_bits), entry.source, entry.tool)
}

fn after<'a, 'b>(
    catalog: &Catalog,
    found: &'b Found<'a>,
    cursor: &str,
    question: &str,
) -> Result<&'b [(&'a Entry, Option<f32>)], CallError> {
    let refused = |text: &str, hint: &str| Err(CallError::new(ErrorKind::InvalidArguments, text, hint));
    let parts = cursor.split_once(':').and_then(|(of, place)| {
        let (bits, key) = place.split_once(':')?;
        Some((of, u32::from_str_radix(bits, 16).ok()?, key.split_once('/')?))
    });
    let Some((of, bits, (source, tool))) = parts else {
        let hint = "take `nextCursor` of the last reply, or leave it out";
        return refused("the cursor is none that `find_tools` gave", hint);
    };
    if of != question {
        let hint = "leave the cursor out, or send it with the same `query`, `source`, `category` and `tools` as before";
        return refused("the cursor belongs to another search", hint);
    }
    if let Some(at) = found.iter().position(|(entry, _)| entry.source.as_str() == source && entry.tool.as_str() == tool)
    {
        return Ok(&found[at + 1..]);
    }
    // The tool is gone: go on with what would have come after it.
    let place = |source: &str| catalog.toolset(source).map(|toolset| (toolset.provider.as_str(), toolset.id.as_str()));
    let gone = (place(source), tool);
    let at = found.iter().position(|(entry, score)| match score {
        Some(score) => *score < f32::from_bits(bits),
        None => (place(entry.source.as_str()), entry.tool.as_str()) > gone,
    });
    Ok(&found[at.unwrap_or(found.len())..])
}

impl<'a> Unavailable<'a> {
    /// Those of the sources whose tools are not known, or cannot be called.
    pub fn among(snapshot: &Snapshot, sources: impl Iterator<Item = &'a Source>) -> Vec<Self> {
        let absent = sources.filter_map(|source| {
            let state = source.status().state;
            let listed = snapshot.catalog.toolset(source.id.as_str()).is_some_and(|toolset| toolset.is_listed());
            let told = match &state {
                State::Ready { .. } => false,
                State::Dormant { .. } | State::Starting { .. } => !listed,
                _ => true,
            };
            told.then(|| Self {
                source: source.id.as_str(),
                status: state.name(),
                reason: crate::redact::one_line(
                    &state.reason().unwrap_or_else(|| "its tools are not known yet".into()),
                    REASON_MAX,
                ),
            })
        });
        absent.take(TOLD).collect()
    }
}

/// Withheld tools that the query seems to mean.
fn withheld<'a>(query: &str, scope: &Scope<'a>) -> Vec<WithheldLine<'a>> {
    let words = |text: &str| crate::policy::words(text).map(str::to_lowercase).collect::<BTreeSet<_>>();
    let wanted = words(query);
    let all = scope.withheld().into_iter();
    let mut found: Vec<_> = all
        .filter_map(|(toolset, withheld)| {
            let shared = words(withheld.tool.as_str()).intersection(&wanted).count();
            (shared > 0).then_some((usize::MAX - shared, toolset, withheld))
        })
        .collect();
    found.sort_by_key(|(rank, toolset, withheld)| (*rank, toolset.id.clone(), withheld.tool.clone()));
    found.into_iter().take(TOLD).map(|(_, toolset, withheld)| WithheldLine::new((toolset, withheld))).collect()
}
