//! Owns the pages that a legacy source wants visited before a call (`-32042`, up to 2025-11-25): how each client is told of them,
//! and what comes of its answer. The call itself is over by then, and is made anew.

use super::here::Here;
use crate::call::question::named;
use crate::call::{CallError, ErrorKind, Reply, error_shape};
use crate::protocol::{self, Era};
use crate::wire::{Object, quoted, raw};

/// What a client gets in place of the source's error.
pub enum Told {
    /// Questions, as the text of an object.
    Questions(String),
    /// The client cannot be asked.
    Cannot(super::asks::Lack),
    /// An error, as the text of an object.
    Error(String),
}

/// A legacy source that wants pages visited first says so by an error; a modern client reads that as questions, and never
/// gets the error. `None` where the reply is none of that, or goes as it is.
pub fn told(reply: &Reply, here: &Here, source: &str) -> Option<Told> {
    if reply.era != Era::Legacy {
        return None;
    }
    let error = Object::parse(reply.message.text(reply.message.error?))?;
    if error.get("code")? != protocol::URL_NEEDED.to_string() {
        return None;
    }
    let data = error.get("data").and_then(Object::parse);
    let pages = data.as_ref().and_then(|data| raw::elements(data.get("elicitations")?)).unwrap_or_default();
    if !here.exchange.modern {
        here.session.expects_visits(source, pages.iter().copied());
        return named_error(&error, data.as_ref()?, &pages, source).map(Told::Error);
    }
    let said = error.string("message").unwrap_or_else(|| "Visit this page.".into());
    let pages: Vec<String> = pages.into_iter().filter_map(|page| question(page, source, &said)).collect();
    if pages.is_empty() {
        return Some(Told::Error(error_shape::coded(&error, protocol::INTERNAL_ERROR)));
    }
    if let Some(lack) = pages.iter().find_map(|page| here.cannot("elicitation/create", page)) {
        return Some(Told::Cannot(lack));
    }
    let ask = |(number, page): (usize, &String)| {
        format!("\"input_{}\":{{\"method\":\"elicitation/create\",\"params\":{page}}}", number + 1)
    };
    let asked: Vec<String> = pages.iter().enumerate().map(ask).collect();
    Some(Told::Questions(format!("{{{}}}", asked.join(","))))
}

/// The params of a question of 2026-07-28 for a page; `None` where there is no page to visit.
fn question(page: &str, source: &str, said: &str) -> Option<String> {
    let page = Object::parse(page)?;
    page.string("url")?;
    let message = page.string("message").unwrap_or_else(|| said.into());
    let message = format!("\"message\":{}", quoted(&format!("[{source}] {message}")));
    let keep = |name: &str| !matches!(name, "mode" | "message" | "elicitationId");
    Some(page.rewritten(keep, &["\"mode\":\"url\"", &message]))
}

/// The error with the source's name in front of what the user is shown.
fn named_error(error: &Object<'_>, data: &Object<'_>, pages: &[&str], source: &str) -> Option<String> {
    let page = |text: &&str| {
        let named = Object::parse(text).map(|page| named(&page, "elicitation/create", source, |_| true));
        named.unwrap_or_else(|| (*text).to_owned())
    };
    let is_shown = |text: &&str| Object::parse(text).is_some_and(|page| page.string("message").is_some());
    if !pages.iter().any(is_shown) {
        return None;
    }
    let pages: Vec<String> = pages.iter().map(page).collect();
    let pages = format!("\"elicitations\":[{}]", pages.join(","));
    let data = format!("\"data\":{}", data.rewritten(|name| name != "elicitations", &[&pages]));
    Some(error.rewritten(|name| name != "data", &[&data]))
}

/// Why a call is not made anew, where the user did not want to visit its page.
pub fn declined(responses: &Object<'_>, source: &str) -> Option<CallError> {
    let mut answers = responses.members.iter().filter_map(|member| Object::parse(member.value));
    let word = answers.find_map(|answer| match &*answer.string("action")? {
        "decline" => Some("declined"),
        "cancel" => Some("cancelled"),
        _ => None,
    })?;
    let text = format!("the user {word} what source `{source}` wants to be visited first, so the call was not made");
    Some(CallError::new(ErrorKind::Cancelled, text, "call again if the user wants to"))
}
