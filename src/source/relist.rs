//! Owns the reading of a source's whole tool list, page by page.
//! It does not judge or name the tools.

use std::collections::HashSet;
use std::time::Duration;

use super::headers;
use super::link::Link;
use crate::call::{CallError, ErrorKind};
use crate::catalog::{Listing, ServerNote};
use crate::protocol::{self, Era};
use crate::wire::{Object, quoted, unquoted};

/// The most pages of one list.
const PAGES_MAX: usize = 1000;
/// The most tools of one source.
const TOOLS_MAX: usize = 100_000;
/// The most pages without a single tool, one after another.
const EMPTY_PAGES_MAX: usize = 20;
/// How long one page may take, if the source's start may not take less.
const PAGE_TIME: Duration = Duration::from_secs(60);

struct Page {
    tools: Vec<Box<str>>,
    next: Option<String>,
}

/// Reads all pages. What was read before a failure on a later page is kept and marked incomplete.
pub async fn list(link: &Link, note: ServerNote, start_timeout: Duration) -> Result<Listing, CallError> {
    let mut tools = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    let mut empty = 0;
    let mut incomplete = None;
    for number in 1.. {
        let page = match page(link, cursor.as_deref(), start_timeout.min(PAGE_TIME)).await {
            Ok(page) => page,
            Err(error) if number > 1 => {
                incomplete = Some(format!("page {number} of its tool list failed: {}", error.message));
                break;
            }
            Err(error) => return Err(error),
        };
        empty = if page.tools.is_empty() { empty + 1 } else { 0 };
        tools.extend(page.tools);
        let Some(next) = page.next else { break };
        let why = if !seen.insert(next.clone()) {
            "the same cursor came twice"
        } else if number >= PAGES_MAX || tools.len() >= TOOLS_MAX || empty >= EMPTY_PAGES_MAX {
            "the list does not end"
        } else {
            cursor = Some(next);
            continue;
        };
        incomplete = Some(format!("its tool list was cut after {number} pages: {why}"));
        break;
    }
    if let Some(why) = &incomplete {
        tracing::warn!(source = link.source, why, "tool list incomplete");
    }
    Ok(Listing::new(tools, note, incomplete))
}

async fn page(link: &Link, cursor: Option<&str>, limit: Duration) -> Result<Page, CallError> {
    let mut members = Vec::new();
    members.extend(cursor.map(|cursor| format!("\"cursor\":{}", quoted(cursor))));
    if link.era() == Era::Modern {
        members.push(format!("\"_meta\":{}", protocol::modern_meta()));
    }
    let answer = link.request("tools/list", &format!("{{{}}}", members.join(",")));
    let message = match tokio::time::timeout(limit, answer).await {
        Ok(Ok(answer)) => answer?,
        Ok(Err(_)) | Err(_) => {
            let why = format!("it did not answer `tools/list` within {} s", limit.as_secs_f32());
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
        if code == protocol::METHOD_NOT_FOUND.to_string() {
            // A source without tools is a source all the same.
            return Ok(Page { tools: Vec::new(), next: None });
        }
        let text = object.as_ref().and_then(|error| error.string("message")).unwrap_or_default();
        let text = crate::redact::one_line(&crate::redact::mask(&text, &[]), 200);
        return Err(failed(link, format!("it answered `tools/list` with error {code}: {text}")));
    }
    let result = message.result.and_then(|span| Object::parse(message.text(span)));
    let listed = result.as_ref().and_then(|result| result.get("tools"));
    let tools = listed.and_then(|text| serde_json::from_str::<Vec<&serde_json::value::RawValue>>(text).ok());
    let Some(mut tools) = tools else {
        return Err(failed(link, "its answer to `tools/list` has no list of tools".to_owned()));
    };
    if link.era() == Era::Modern && link.is_over_http() {
        tools.retain(|tool| has_usable_headers(link, tool.get()));
    }
    let next = result.and_then(|result| unquoted(result.get("nextCursor")?).map(|next| next.into_owned()));
    Ok(Page { tools: tools.iter().map(|tool| tool.get().into()).collect(), next })
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
