//! Owns the reading of a source's whole lists, page by page: tools, and what it offers besides.
//! It does not judge or name anything.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::link::Link;
use crate::call::{CallError, ErrorKind};
use crate::catalog::offer::{self, CacheHint, Item, items};
use crate::catalog::{Listing, Rejected, ServerNote, Unread};
use crate::protocol::{self, Era, headers};
use crate::wire::{Object, quoted};

/// The most pages of one list.
const PAGES_MAX: usize = 1000;
/// The most tools of one source.
const ITEMS_MAX: usize = 100_000;
/// The most pages without a single tool, one after another.
const EMPTY_PAGES_MAX: usize = 20;
/// How long one page may take, if the source's start may not take less.
const PAGE_TIME: Duration = Duration::from_secs(60);
/// How long the tools wait for what there is besides.
const SOON: Duration = Duration::from_secs(1);
/// How long these may take where they are known from before.
const AGAIN: Duration = Duration::from_secs(15);

/// One of a source's lists.
#[derive(Clone, Copy)]
struct List {
    method: &'static str,
    /// The member of the result that holds the items.
    items: &'static str,
}

const TOOLS: List = List { method: "tools/list", items: "tools" };
const PROMPTS: List = List { method: "prompts/list", items: "prompts" };
const RESOURCES: List = List { method: "resources/list", items: "resources" };
const TEMPLATES: List = List { method: "resources/templates/list", items: "resourceTemplates" };
const SKILLS: List = List { method: "skills/list", items: "skills" };

struct Page {
    items: Vec<Box<str>>,
    /// What must not be used of it.
    rejected: Vec<Rejected>,
    next: Next,
    hint: Option<CacheHint>,
}

/// What a page says of the one after it.
enum Next {
    Nothing,
    Cursor(String),
    /// There is one, and its cursor cannot be read.
    Unreadable,
}

/// All pages of a list.
struct Whole {
    items: Vec<Box<str>>,
    rejected: Vec<Rejected>,
    /// Why it may lack some.
    incomplete: Option<String>,
    /// What it lacks is on a page that failed, and comes when that does not.
    failed: bool,
    /// What all pages say of how long it holds.
    hint: Option<CacheHint>,
}

/// What was read.
pub struct Read {
    pub listing: Listing,
    /// What it has besides tools and could not be read, and why.
    pub lacks: Option<String>,
    /// The rest is still being read.
    pub more: bool,
}

/// Reads all lists, and gives them to `tell` together; or, where the others are long in coming, the tools first. Without the
/// others a source is still of use. What is `known` of it already is kept for those that do not come, so that they have less
/// time then: other tools wait for them.
pub async fn read<T: Future<Output = ()>>(
    link: &Link,
    note: ServerNote,
    start_timeout: Duration,
    known: bool,
    tell: impl Fn(Result<Box<Read>, CallError>) -> T,
) {
    let limit = start_timeout.min(PAGE_TIME);
    let Whole { items: tools, rejected, incomplete, failed, .. } = match whole(link, TOOLS, limit).await {
        Ok(tools) => tools,
        Err(error) => return tell(Err(error)).await,
    };
    let rest = besides(link, note.clone(), if known { limit.min(AGAIN) } else { limit });
    tokio::pin!(rest);
    let (note, unread, lacks) = tokio::select! {
        biased;
        done = &mut rest => done,
        () = tokio::time::sleep(SOON) => {
            let lacks = Some("what it has besides tools is still being read".to_owned());
            let unread = Unread { tools: failed, prompts: true, resources: true, templates: true, skills: true };
            let mut listing = Listing::beside(rejected.clone(), tools.iter().cloned(), note, incomplete.clone());
            listing.unread = unread;
            tell(Ok(Box::new(Read { listing, lacks, more: true }))).await;
            rest.await
        }
    };
    let mut listing = Listing::beside(rejected, tools, note, incomplete);
    listing.unread = Unread { tools: failed, ..unread };
    tell(Ok(Box::new(Read { listing, lacks, more: false }))).await;
}

/// Reads the tools alone, for what else depends on them.
pub async fn tools(link: &Link, limit: Duration) -> Result<(), CallError> {
    whole(link, TOOLS, limit).await.map(drop)
}

/// Fills in what there is besides the tools, and tells what could not be read and why.
async fn besides(link: &Link, mut note: ServerNote, limit: Duration) -> (ServerNote, Unread, Option<String>) {
    let offer = &mut note.offer;
    let (has_prompts, has_resources) = (offer.abilities.prompts, offer.abilities.resources);
    let has_skills = offer.abilities.skills().is_some();
    let (prompts, resources, templates, skills) = futures::join!(
        offered(link, PROMPTS, "name", has_prompts, limit),
        offered(link, RESOURCES, "uri", has_resources, limit),
        offered(link, TEMPLATES, "uriTemplate", has_resources, limit),
        offered(link, SKILLS, "uri", has_skills, limit),
    );
    let lacks: Vec<_> =
        [&prompts, &resources, &templates, &skills].into_iter().filter_map(|it| it.lacks.clone()).collect();
    let unread = Unread {
        tools: false,
        prompts: prompts.failed,
        resources: resources.failed,
        templates: templates.failed,
        skills: skills.failed,
    };
    (offer.prompts, offer.resources, offer.templates) = (prompts.items, resources.items, templates.items);
    (offer.skills, offer.skills_hint) = (skills.items, skills.hint);
    (note, unread, (!lacks.is_empty()).then(|| lacks.join("; ")))
}

/// A list besides the tools.
#[derive(Default)]
struct Offered {
    items: Vec<Item>,
    hint: Option<CacheHint>,
    /// Why it could not be read, or not all of it.
    lacks: Option<String>,
    /// As in [`Whole`].
    failed: bool,
}

async fn offered(link: &Link, list: List, key: &str, has: bool, limit: Duration) -> Offered {
    if !has {
        return Offered::default();
    }
    match whole(link, list, limit).await {
        Ok(whole) => {
            let items = items(whole.items.iter().map(|raw| &**raw), key);
            Offered { items, hint: whole.hint, lacks: whole.incomplete, failed: whole.failed }
        }
        Err(error) => {
            let own = format!("source `{}`: ", link.source);
            let why = error.message.strip_prefix(&own).unwrap_or(&error.message);
            // Where the source ends, that is told by itself.
            if link.is_closed() || link.stop.is_cancelled() {
                tracing::debug!(source = link.source, method = list.method, why, "list not read");
            } else {
                tracing::warn!(source = link.source, method = list.method, why, "list not read");
            }
            let lacks = Some(format!("`{}` could not be read: {why}", list.method));
            Offered { lacks, failed: true, ..Offered::default() }
        }
    }
}

/// All pages of a list. What was read before a failure on a later page is kept and marked incomplete.
async fn whole(link: &Link, list: List, limit: Duration) -> Result<Whole, CallError> {
    let mut found = Found::default();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    let mut empty = 0;
    let (mut incomplete, mut failed, mut hint) = (None, false, None);
    for number in 1.. {
        let page = match page(link, list, cursor.as_deref(), limit).await {
            Ok(page) => page,
            Err(error) if number > 1 => {
                incomplete = Some(format!("page {number} of its list of {} failed: {}", list.items, error.message));
                failed = true;
                break;
            }
            Err(error) => return Err(error),
        };
        if cursor.as_deref() == Some("") && found.has_page(&page.items) {
            // By an empty cursor it meant that there is no more.
            break;
        }
        hint = if number == 1 { page.hint } else { page.hint.and_then(|of_page| hint.map(|hint| of_page.and(hint))) };
        empty = if page.items.is_empty() && page.rejected.is_empty() { empty + 1 } else { 0 };
        found.add(page.items, page.rejected);
        let why = match page.next {
            Next::Nothing => break,
            Next::Unreadable => "its `nextCursor` is no text that can be read",
            Next::Cursor(next) if !seen.insert(next.clone()) => "the same cursor came twice",
            Next::Cursor(_) if number >= PAGES_MAX || found.items.len() >= ITEMS_MAX || empty >= EMPTY_PAGES_MAX => {
                "the list does not end"
            }
            Next::Cursor(next) => {
                cursor = Some(next);
                continue;
            }
        };
        incomplete = Some(format!("its list of {} was cut after page {number}: {why}", list.items));
        break;
    }
    if let Some(why) = &incomplete {
        tracing::warn!(source = link.source, why, "list incomplete");
        found.drop_repeats();
    }
    Ok(Whole { items: found.items, rejected: found.rejected, incomplete, failed, hint })
}

/// What the pages of a list had so far.
#[derive(Default)]
struct Found {
    items: Vec<Box<str>>,
    rejected: Vec<Rejected>,
    /// Where the second page begins, and the last one.
    second: Option<usize>,
    last: usize,
}

impl Found {
    fn add(&mut self, items: Vec<Box<str>>, rejected: Vec<Rejected>) {
        self.last = self.items.len();
        self.items.extend(items);
        self.rejected.extend(rejected);
        self.second.get_or_insert(self.items.len());
    }

    /// Whether the first page was the same, or the last one.
    fn has_page(&self, items: &[Box<str>]) -> bool {
        self.items[..self.second.unwrap_or(0)] == *items || self.items[self.last..] == *items
    }

    /// Pages that came round again are no tools listed twice.
    fn drop_repeats(&mut self) {
        let mut seen = HashSet::new();
        self.items.retain(|item| seen.insert(item.clone()));
        let mut seen = HashSet::new();
        self.rejected.retain(|item| seen.insert((item.name.clone(), item.reason.clone())));
    }
}

async fn page(link: &Link, list: List, cursor: Option<&str>, limit: Duration) -> Result<Page, CallError> {
    let mut members = Vec::new();
    members.extend(cursor.map(|cursor| format!("\"cursor\":{}", quoted(cursor))));
    if link.era() == Era::Modern {
        let own = match list.method {
            // The relay carries what it asks for.
            method if method == SKILLS.method => format!("{{\"extensions\":{{\"{}\":{{}}}}}}", offer::SKILLS),
            _ => "{}".to_owned(),
        };
        members.push(format!("\"_meta\":{}", protocol::modern_meta_with(&own)));
    }
    let method = list.method;
    let answer = link.request(method, &format!("{{{}}}", members.join(",")));
    let message = match tokio::time::timeout(limit, answer).await {
        Ok(Ok(answer)) => answer?,
        Ok(Err(_)) | Err(_) => {
            let why = format!("it did not answer `{method}` within {} s", limit.as_secs_f32());
            return Err(CallError::new(
                ErrorKind::Unavailable,
                format!("source `{}`: {why}", link.source),
                "raise `start_timeout_secs` of the source (up to 60) if it needs longer",
            )
            .at(&link.source, None));
        }
    };
    if let Some(error) = message.error {
        let object = Object::parse(message.text(error));
        let code = object.as_ref().and_then(|error| error.get("code")).unwrap_or("?").to_owned();
        let may_refuse =
            list.method == TOOLS.method && cursor.is_none() && !link.declares_tools.load(Ordering::Relaxed);
        // Who takes no empty cursor meant by it that there is no more.
        let is_over = cursor == Some("") && code == protocol::INVALID_PARAMS.to_string();
        if may_refuse || is_over || code == protocol::METHOD_NOT_FOUND.to_string() {
            // A source without tools is a source all the same.
            return Ok(Page { items: Vec::new(), rejected: Vec::new(), next: Next::Nothing, hint: None });
        }
        let text = object.as_ref().and_then(|error| error.string("message")).unwrap_or_default();
        let text = link.masked(&text, 200);
        return Err(failed(link, format!("it answered `{method}` with error {code}: {text}")));
    }
    let result = message.result.and_then(|span| Object::parse(message.text(span)));
    let listed = result.as_ref().and_then(|result| result.get(list.items));
    let items = listed.and_then(|text| serde_json::from_str::<Vec<&serde_json::value::RawValue>>(text).ok());
    let Some(mut items) = items else {
        return Err(failed(link, format!("its answer to `{method}` has no list of {}", list.items)));
    };
    let mut rejected = Vec::new();
    if method == TOOLS.method && link.era() == Era::Modern && link.is_over_http() {
        items.retain(|tool| match unusable_headers(tool.get()) {
            Some(tool) => {
                rejected.push(tool);
                false
            }
            None => true,
        });
    }
    let next = match result.as_ref().and_then(|result| Some((result, result.get("nextCursor")?))) {
        None | Some((_, "null")) => Next::Nothing,
        Some((result, _)) => {
            result.string("nextCursor").map_or(Next::Unreadable, |next| Next::Cursor(next.into_owned()))
        }
    };
    let hint = result.as_ref().and_then(|result| {
        let ttl_ms = result.get("ttlMs")?.parse().ok()?;
        Some(CacheHint { ttl_ms, public: result.string("cacheScope").as_deref() == Some("public") })
    });
    Ok(Page { items: items.iter().map(|tool| tool.get().into()).collect(), rejected, next, hint })
}

/// A tool that asks for headers in an invalid way must not be used over HTTP (SEP-2243).
fn unusable_headers(tool: &str) -> Option<Rejected> {
    let tool = Object::parse(tool)?;
    let reason = headers::repeated(tool.get("inputSchema")?).err()?;
    Some(Rejected { name: tool.string("name").map(Cow::into_owned), reason })
}

fn failed(link: &Link, why: String) -> CallError {
    CallError::new(
        ErrorKind::Unavailable,
        format!("source `{}`: {why}", link.source),
        "report this to the authors of the source; it is asked again after a while",
    )
    .at(&link.source, None)
}
