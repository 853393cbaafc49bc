//! Owns the mending of what stands in a tool beside its schemas: members of a type that would make a strict client drop the
//! whole list. It changes nothing that such a client takes.

use super::edit::Edit;
use super::keywords::is_name_list;
use crate::wire::raw::{self, Kind, Members};

/// A member's name, and which values it may have.
type Check<'a> = (&'static str, &'a dyn Fn(&str) -> bool);

/// The members beside the schemas that would make a strict client drop the whole list: each with its value in place of the
/// bad one (`None`: it is left out) and a sentence for [`repairs`](super::View::repairs).
pub(super) fn mended(members: &Members<'_>) -> Vec<(&'static str, Option<String>, String)> {
    let mut found = Vec::new();
    for key in ["description", "title"] {
        found.extend(members.get(key).and_then(|value| mended_text(key, value)));
    }
    let mut leave_out = |key: &'static str, wanted: &str| {
        found.push((key, None, format!("its `{key}` is no {wanted}, so it is left out")));
    };
    let is_bad = |key: &str, is_good: &dyn Fn(&str) -> bool| members.get(key).is_some_and(|value| !is_good(value));
    if is_bad("_meta", &is_object) {
        leave_out("_meta", "object");
    }
    if is_bad("icons", &is_icons) {
        leave_out("icons", "list of icons");
    }
    let flag = |value: &str| raw::kind(value) == Kind::Bool;
    let support = |value: &str| matches!(raw::string(value).as_deref(), Some("forbidden" | "optional" | "required"));
    let inner: [(&'static str, &[Check]); 2] = [
        (
            "annotations",
            &[
                ("title", &is_legible),
                ("readOnlyHint", &flag),
                ("destructiveHint", &flag),
                ("idempotentHint", &flag),
                ("openWorldHint", &flag),
            ],
        ),
        ("execution", &[("taskSupport", &support)]),
    ];
    for (key, checks) in inner {
        let Some(text) = members.get(key) else { continue };
        let Some(object) = Members::of(text) else {
            found.push((key, None, format!("its `{key}` is no object, so it is left out")));
            continue;
        };
        let bad = |(name, is_good): &&Check| object.get(name).is_some_and(|value| !is_good(value));
        let bad: Vec<_> = checks.iter().filter(bad).map(|(name, _)| *name).collect();
        let title = object.get("title").filter(|_| key == "annotations").and_then(|value| mended_text("title", value));
        let title = title.and_then(|(_, title, note)| Some((title?, note)));
        let mut notes = Vec::new();
        let mut edit = Edit::new(text, &object);
        if let Some((title, note)) = &title {
            edit.set("title", title);
            notes.push(note.clone());
        }
        if !bad.is_empty() {
            bad.iter().for_each(|name| edit.remove(name));
            let left = bad.join("`, `");
            notes.push(format!("the `{left}` of its `{key}` has no value it can have, so it is left out"));
        }
        if !notes.is_empty() {
            found.push((key, Some(edit.finish()), notes.join("; ")));
        }
    }
    found
}

/// What stands in place of a text that a client might not take.
fn mended_text(key: &'static str, value: &str) -> Option<(&'static str, Option<String>, String)> {
    match raw::string_lossy(value) {
        Some(_) if is_text(value) => None,
        Some(text) => {
            let note = format!("its `{key}` holds half a character, and U+FFFD stands for it");
            Some((key, Some(raw::quote(&text)), note))
        }
        None => Some((key, None, format!("its `{key}` is no text, so it is left out"))),
    }
}

fn is_legible(value: &str) -> bool {
    raw::string_lossy(value).is_some()
}

pub(super) fn is_text(value: &str) -> bool {
    raw::string(value).is_some()
}

pub(super) fn is_object(value: &str) -> bool {
    raw::kind(value) == Kind::Object
}

pub(super) fn is_icons(value: &str) -> bool {
    raw::elements(value).is_some_and(|icons| icons.into_iter().all(is_icon))
}

fn is_icon(value: &str) -> bool {
    let Some(icon) = Members::of(value) else { return false };
    let is_good = |key: &str, is_good: &dyn Fn(&str) -> bool| icon.get(key).is_none_or(is_good);
    icon.get("src").is_some_and(is_text)
        && is_good("mimeType", &is_text)
        && is_good("sizes", &is_name_list)
        && is_good("theme", &|value| matches!(raw::string(value).as_deref(), Some("light" | "dark")))
}
