//! Owns the reading of a source's whole lists, page by page: tools, and what it offers besides.
//! It does not judge or name anything.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::headers;
use super::link::Link;
use crate::call::{CallError, ErrorKind};
use crate::catalog::offer::{self, CacheHint, Item, items};
use crate::catalog::{Listing, ServerNote};
use crate::protocol::{self, Era};
use crate::wire::{Object, quoted};

/// The most pages of one list.
const PAGES_MAX: usize = 1000;
/// The most tools of one source.
const ITEMS_MAX: usize = 100_000;
/// The most pages without a single tool, one after another.
const EMPTY_PAGES_MAX: usize = 20;
/// How long one page may take, if the source's start may not take less.
const PAGE_TIME: Duration = Duration::from_secs(60);

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
    next: Option<String>,
    hint: Option<CacheHint>,
}

/// All pages of a list.
struct Whole {
    items: Vec<Box<str>>,
    /// Why it may lack some.
    incomplete: Option<String>,
    /// What all pages say of how long it holds.
    hint: Option<CacheHint>,
}

/// Reads all pages. What was read before a failure on a later page is kept and marked incomplete.
pub async fn list(link: &Link, mut note: ServerNote, start_timeout: Duration) -> Result<Listing, CallError> {
    let limit = start_timeout.min(PAGE_TIME);
    let tools = whole(link, TOOLS, limit).await?;
    if note.offer.abilities.prompts {
        note.offer.prompts = besides(link, PROMPTS, "name", limit).await.0;
    }
    if note.offer.abilities.resources {
        note.offer.resources = besides(link, RESOURCES, "uri", limit).await.0;
        note.offer.templates = besides(link, TEMPLATES, "uriTemplate", limit).await.0;
    }
    if note.offer.abilities.skills().is_some() {
        (note.offer.skills, note.offer.skills_hint) = besides(link, SKILLS, "uri", limit).await;
    }
    Ok(Listing::new(tools.items, note, tools.incomplete))
}

/// A list besides the tools: without it the source is still of use.
async fn besides(link: &Link, list: List, key: &str, limit: Duration) -> (Vec<Item>, Option<CacheHint>) {
    match whole(link, list, limit).await {
        Ok(whole) => (items(whole.items.iter().map(|raw| &**raw), key), whole.hint),
        Err(error) => {
            tracing::debug!(source = link.source, method = list.method, why = %error.message, "list not read");
            (Vec::new(), None)
        }
    }
}

async fn whole(link: &Link, list: List, limit: Duration) -> Result<Whole, CallError> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    let mut empty = 0;
    let (mut incomplete, mut hint) = (None, None);
    for number in 1.. {
        let page = match page(link, list, cursor.as_deref(), limit).await {
            Ok(page) => page,
            Err(error) if number > 1 => {
                incomplete = Some(format!("page {number} of its list of {} failed: {}", list.items, error.message));
                break;
            }
            Err(error) => return Err(error),
        };
        hint = if number == 1 { page.hint } else { page.hint.and_then(|of_page| hint.map(|hint| of_page.and(hint))) };
        empty = if page.items.is_empty() { empty + 1 } else { 0 };
        found.extend(page.items);
        let Some(next) = page.next else { break };
        let why = if !seen.insert(next.clone()) {
            "the same cursor came twice"
        } else if number >= PAGES_MAX || found.len() >= ITEMS_MAX || empty >= EMPTY_PAGES_MAX {
            "the list does not end"
        } else {
            cursor = Some(next);
            continue;
        };
        incomplete = Some(format!("its list of {} was cut after {number} pages: {why}", list.items));
        break;
    }
    if let Some(why) = &incomplete {
        tracing::warn!(source = link.source, why, "list incomplete");
    }
    Ok(Whole { items: found, incomplete, hint })
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
        if may_refuse || code == protocol::METHOD_NOT_FOUND.to_string() {
            // A source without tools is a source all the same.
            return Ok(Page { items: Vec::new(), next: None, hint: None });
        }
        let text = object.as_ref().and_then(|error| error.string("message")).unwrap_or_default();
        let text = crate::redact::one_line(&crate::redact::mask(&text, &[]), 200);
        return Err(failed(link, format!("it answered `{method}` with error {code}: {text}")));
    }
    let result = message.result.and_then(|span| Object::parse(message.text(span)));
    let listed = result.as_ref().and_then(|result| result.get(list.items));
    let items = listed.and_then(|text| serde_json::from_str::<Vec<&serde_json::value::RawValue>>(text).ok());
    let Some(mut items) = items else {
        return Err(failed(link, format!("its answer to `{method}` has no list of {}", list.items)));
    };
    if method == TOOLS.method && link.era() == Era::Modern && link.is_over_http() {
        items.retain(|tool| has_usable_headers(link, tool.get()));
    }
    let next = result.as_ref().and_then(|result| result.string("nextCursor").map(|next| next.into_owned()));
    let hint = result.as_ref().and_then(|result| {
        let ttl_ms = result.get("ttlMs")?.parse().ok()?;
        Some(CacheHint { ttl_ms, public: result.string("cacheScope").as_deref() == Some("public") })
    });
    Ok(Page { items: items.iter().map(|tool| tool.get().into()).collect(), next, hint })
}

/// A tool that asks for headers in an invalid way must not be used over HTTP (SEP-2243).
fn has_usable_headers(link: &Link, tool: &str) -> bool {
    let Some(tool) = Object::parse(tool) else { return true };
    let wrong = tool.get("inputSchema").and_then(|schema| headers::wanted(schema).err());
    if let Some(why) = &wrong {
        let name = tool.string("name").unwrap_or_default();
        tracing::warn!(source = link.source, tool = &*name, why, "tool left out");
    }
    wrong.is_none()
}

fn failed(link: &Link, why: String) -> CallError {
    CallError::new(
        ErrorKind::Unavailable,
        format!("source `{}`: {why}", link.source),
        "report this to the authors of the source; it is asked again after a while",
    )
    .at(&link.source, None)
}
