//! Owns the walk over all schemas within a schema that changes some of their members and leaves every other byte. What is to be
//! changed is known elsewhere.

use super::edit::Edit;
use super::keywords::{DATA, NAMED_SCHEMAS, SCHEMA_LISTS, SCHEMAS};
use crate::wire::raw::{self, Kind, Members};

/// What becomes of a member.
pub(super) enum Change {
    Remove,
    /// Another value, which is then looked into as well.
    Value(String),
    Renamed(&'static str),
}

/// Where schemas are looked for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Walk {
    /// In members that have schemas by JSON Schema 2020-12 or an earlier one.
    Schemas,
    /// In all but data, as some clients do.
    Everything,
}

/// Tells what is to be changed in a schema: the places of members, and what becomes of them.
type Judge<'a> = dyn FnMut(&str, &Members<'_>) -> Vec<(usize, Change)> + 'a;

/// The schema with what `judge` says changed in it and in every schema within; `None` when that is nothing.
pub(super) fn mapped(text: &str, depth: usize, walk: Walk, judge: &mut Judge<'_>) -> Option<String> {
    match raw::kind(text) {
        _ if depth == 0 => None,
        Kind::Object => {
            let members = Members::of(text)?;
            let changes = judge(text, &members);
            let mut edit = Edit::new(text, &members);
            let mut has_changed = !changes.is_empty();
            let mut values = vec![None; members.0.len()];
            for (at, change) in changes {
                match change {
                    Change::Remove => {
                        edit.remove_at(at);
                        values[at] = Some(String::new());
                    }
                    Change::Value(value) => {
                        edit.set_at(at, value.clone());
                        values[at] = Some(value);
                    }
                    Change::Renamed(key) => edit.rename_at(at, key),
                }
            }
            for (at, member) in members.0.iter().enumerate() {
                let value = values[at].as_deref().unwrap_or(member.value);
                if let Some(inner) = member_mapped(&member.key, value, depth, walk, judge) {
                    edit.set_at(at, inner);
                    has_changed = true;
                }
            }
            has_changed.then(|| edit.finish())
        }
        Kind::Array => elements_mapped(text, depth, walk, judge),
        _ => None,
    }
}

fn member_mapped(key: &str, value: &str, depth: usize, walk: Walk, judge: &mut Judge<'_>) -> Option<String> {
    if !matches!(value.as_bytes().first(), Some(b'{' | b'[')) {
        return None;
    }
    if NAMED_SCHEMAS.contains(&key) {
        return named_mapped(value, depth, walk, judge);
    }
    let is_looked_into = match walk {
        Walk::Everything => !DATA.contains(&key),
        Walk::Schemas => key == "items" || SCHEMAS.contains(&key) || SCHEMA_LISTS.contains(&key),
    };
    if is_looked_into { mapped(value, depth - 1, walk, judge) } else { None }
}

fn named_mapped(text: &str, depth: usize, walk: Walk, judge: &mut Judge<'_>) -> Option<String> {
    let members = Members::of(text)?;
    let mut edit = Edit::new(text, &members);
    let mut has_changed = false;
    for (at, member) in members.0.iter().enumerate() {
        // Names may have lists beside them (`dependencies`), which are no schemas.
        let inner = (raw::kind(member.value) == Kind::Object).then(|| mapped(member.value, depth - 1, walk, judge));
        if let Some(inner) = inner.flatten() {
            edit.set_at(at, inner);
            has_changed = true;
        }
    }
    has_changed.then(|| edit.finish())
}

fn elements_mapped(text: &str, depth: usize, walk: Walk, judge: &mut Judge<'_>) -> Option<String> {
    let mut out = String::new();
    let mut end = 0;
    for element in raw::elements(text)? {
        if let Some(inner) = mapped(element, depth - 1, walk, judge) {
            let start = raw::offset(text, element);
            out.push_str(&text[end..start]);
            out.push_str(&inner);
            end = start + element.len();
        }
    }
    if end == 0 {
        return None;
    }
    out.push_str(&text[end..]);
    Some(out)
}
