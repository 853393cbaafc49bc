//! Owns the mending of an input schema below its root: what is none by JSON Schema 2020-12 is turned into what it was meant to
//! be, or left out where it only constrains. The source gets arguments as they are, and judges them by its own schema.

use std::collections::BTreeSet;

use super::edit::Edit;
use super::keywords::{
    COUNTS, DEPTH_MAX, NAMED_SCHEMAS, NUMBERS, SCHEMA_LISTS, SCHEMAS, TYPES, is_anchor_name, is_current_draft,
    is_name_list, named_types,
};
use super::mapped::{Change, Walk, mapped};
use super::references::{step_of, unescaped};
use crate::wire::raw::{self, Kind, Members};

/// The schema as 2020-12 has it, unless it is so already, and what was done for that, a sentence each.
pub(super) fn mended(root: &str) -> (Option<String>, Vec<String>) {
    let mut keys = BTreeSet::new();
    let mut has_tuples = false;
    let found = mapped(root, DEPTH_MAX, Walk::Schemas, &mut |_, members| {
        let judged = members.0.iter().zip(0..).filter_map(|(member, at)| {
            let change = remedy(&member.key, member.value, members)?;
            match change {
                Change::Renamed(_) => has_tuples = true,
                _ => _ = keys.insert(member.key.to_string()),
            }
            Some((at, change))
        });
        judged.collect()
    });
    let mut notes = Vec::new();
    if has_tuples {
        notes.push("each list in the `items` of its inputSchema is shown as `prefixItems`".to_owned());
    }
    if !keys.is_empty() {
        let keys = keys.into_iter().collect::<Vec<_>>().join("`, `");
        notes.push(format!(
            "the `{keys}` in its inputSchema had a value that JSON Schema 2020-12 does not know, so it is mended or left out"
        ));
    }
    let moved = found.as_deref().filter(|_| has_tuples).and_then(|found| with_moved_references(root, found));
    let found = moved.or(found);
    let plain = found.as_deref().and_then(without_dialect);
    if plain.is_some() {
        notes.push("its inputSchema is shown by 2020-12, so its `$schema` is left out".to_owned());
    }
    (plain.or(found), notes)
}

/// What was mended would say something else, or nothing, by the rules of an earlier draft.
fn without_dialect(root: &str) -> Option<String> {
    let members = Members::of(root)?;
    let is_other = members.text("$schema").is_some_and(|address| !is_current_draft(&address));
    let mut edit = Edit::new(root, &members);
    edit.remove("$schema");
    is_other.then(|| edit.finish())
}

/// References into lists that are now at another place lead there.
fn with_moved_references(before: &str, now: &str) -> Option<String> {
    mapped(now, DEPTH_MAX, Walk::Schemas, &mut |_, members| {
        let moved = |(member, at): (&raw::Member<'_>, usize)| {
            let target = raw::string(member.value).filter(|_| member.key == "$ref")?;
            let target = moved(before, &target)?;
            Some((at, Change::Value(raw::quote(&target))))
        };
        members.0.iter().zip(0..).filter_map(moved).collect()
    })
}

fn moved(root: &str, reference: &str) -> Option<String> {
    let mut at = root;
    let mut out = String::from("#");
    for step in reference.strip_prefix("#/")?.split('/') {
        let name = unescaped(step);
        let members = Members::of(at).unwrap_or_default();
        let is_tuple = members.get("items").is_some_and(|items| raw::kind(items) == Kind::Array);
        out.push('/');
        out.push_str(match &*name {
            "items" if is_tuple => "prefixItems",
            "additionalItems" if is_tuple => "items",
            _ => step,
        });
        at = step_of(at, &name)?;
    }
    (out != reference).then_some(out)
}

/// What is to be done about a keyword.
fn remedy(key: &str, value: &str, members: &Members<'_>) -> Option<Change> {
    let kind = raw::kind(value);
    let is_sound = match key {
        "type" => {
            let is_known = |name: &String| TYPES.contains(&name.as_str());
            return remedy_of_list(value, |names| !names.is_empty() && names.iter().all(is_known));
        }
        "required" => return remedy_of_list(value, |_| kind == Kind::Array),
        "items" | "additionalItems" => return remedy_of_items(key, value, members),
        "exclusiveMinimum" | "exclusiveMaximum" => return remedy_of_bound(key, value, members),
        "examples" if kind != Kind::Array => return Some(Change::Value(format!("[{value}]"))),
        "enum" => kind == Kind::Array,
        "title" | "description" | "$comment" | "format" | "pattern" | "contentEncoding" | "contentMediaType" => {
            kind == Kind::Text
        }
        "$ref" | "$dynamicRef" | "$recursiveRef" | "$schema" => kind == Kind::Text,
        "$id" => raw::string(value).is_some_and(|id| !id.trim_end_matches('#').contains('#')),
        "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" => {
            raw::string(value).is_some_and(|name| is_anchor_name(&name))
        }
        "$vocabulary" => {
            Members::of(value).is_some_and(|named| named.0.iter().all(|named| raw::kind(named.value) == Kind::Bool))
        }
        "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => kind == Kind::Bool,
        "multipleOf" => value.parse().is_ok_and(|number: f64| number > 0.0),
        "dependentRequired" => {
            Members::of(value).is_some_and(|named| named.0.iter().all(|named| is_set_of_names(named.value)))
        }
        _ if COUNTS.contains(&key) => value.parse().is_ok_and(|number: f64| number >= 0.0 && number.fract() == 0.0),
        _ if NUMBERS.contains(&key) => kind == Kind::Number,
        _ if NAMED_SCHEMAS.contains(&key) => return remedy_of_named(key, value),
        _ if SCHEMA_LISTS.contains(&key) => is_schema_list(value),
        _ if SCHEMAS.contains(&key) => is_schema(value),
        _ => true,
    };
    (!is_sound).then_some(Change::Remove)
}

/// A list of names has each once; `type` may be a single one.
fn remedy_of_list(value: &str, is_sound: impl Fn(&[String]) -> bool) -> Option<Change> {
    let names: Vec<String> = named_types(value).unwrap_or_default().into_iter().map(String::from).collect();
    let is_list = raw::kind(value) == Kind::Array;
    let is_empty = raw::elements(value).is_some_and(|items| items.is_empty());
    if !is_sound(&names) || (names.is_empty() && !is_empty) {
        return Some(Change::Remove);
    }
    let mut seen = BTreeSet::new();
    let once: Vec<_> = names.iter().filter(|name| seen.insert(*name)).map(|name| raw::quote(name)).collect();
    (is_list && once.len() < names.len()).then(|| Change::Value(format!("[{}]", once.join(","))))
}

/// A list of schemas in `items` (before 2020-12) is `prefixItems`, and what it called `additionalItems` is `items`.
fn remedy_of_items(key: &str, value: &str, members: &Members<'_>) -> Option<Change> {
    let list = members.get("items").and_then(raw::elements);
    match (key, list) {
        ("items", Some(list)) if list.is_empty() || members.get("prefixItems").is_some() => Some(Change::Remove),
        ("items", Some(_)) => Some(if is_schema_list(value) { Change::Renamed("prefixItems") } else { Change::Remove }),
        ("items", None) => (!is_schema(value)).then_some(Change::Remove),
        (_, Some(_)) => Some(if is_schema(value) { Change::Renamed("items") } else { Change::Remove }),
        (_, None) => None,
    }
}

/// Draft-04 has a flag beside `minimum` that excludes it.
fn remedy_of_bound(key: &str, value: &str, members: &Members<'_>) -> Option<Change> {
    let bound = members.get(if key == "exclusiveMinimum" { "minimum" } else { "maximum" });
    match (value, bound.filter(|bound| raw::kind(bound) == Kind::Number)) {
        ("true", Some(bound)) => Some(Change::Value(bound.to_owned())),
        _ => (raw::kind(value) != Kind::Number).then_some(Change::Remove),
    }
}

/// Whatever is no schema among named ones is shown as one that takes anything.
fn remedy_of_named(key: &str, value: &str) -> Option<Change> {
    let Some(named) = Members::of(value) else { return Some(Change::Remove) };
    let is_sound = |value: &str| is_schema(value) || (key == "dependencies" && is_set_of_names(value));
    let mut edit = Edit::new(value, &named);
    let mut has_changed = false;
    for (at, _) in named.0.iter().enumerate().filter(|(_, member)| !is_sound(member.value)) {
        edit.set_at(at, "{}");
        has_changed = true;
    }
    has_changed.then(|| Change::Value(edit.finish()))
}

fn is_schema(value: &str) -> bool {
    matches!(raw::kind(value), Kind::Object | Kind::Bool)
}

fn is_schema_list(value: &str) -> bool {
    raw::elements(value).is_some_and(|items| !items.is_empty() && items.into_iter().all(is_schema))
}

fn is_set_of_names(value: &str) -> bool {
    is_name_list(value) && remedy_of_list(value, |_| true).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_shown() {
        for (schema, expected) in [
            (
                r##"{"properties":{"q":{"items":[{"a":1}, {"type":"any"}],"additionalItems":{"$ref":"#/properties/q/items/0"}}}}"##,
                r##"{"properties":{"q":{"prefixItems":[{"a":1}, {}],"items":{"$ref":"#/properties/q/prefixItems/0"}}}}"##,
            ),
            (
                r##"{"not":{"$ref":"#/items/0"},"items":[{"items":[true]}],"allOf":[{"$ref":"#/items/0/items/0"},{"$ref":"#/not"}]}"##,
                r##"{"not":{"$ref":"#/prefixItems/0"},"prefixItems":[{"prefixItems":[true]}],"allOf":[{"$ref":"#/prefixItems/0/prefixItems/0"},{"$ref":"#/not"}]}"##,
            ),
            (r#"{"items":[],"additionalItems":{"type":"string"}}"#, r#"{"items":{"type":"string"}}"#),
            (
                r#"{"a":1,"properties":{"a":{"type":"string", "required":true}}}"#,
                r#"{"a":1,"properties":{"a":{"type":"string"}}}"#,
            ),
            (r#"{"minimum":0,"exclusiveMinimum":true}"#, r#"{"minimum":0,"exclusiveMinimum":0}"#),
            (
                r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{}],"additionalItems":false}}}"#,
                r#"{"properties":{"a":{"prefixItems":[{}],"items":false}}}"#,
            ),
            (
                r#"{"maximum":0,"exclusiveMaximum":true,"$schema":"http://json-schema.org/draft-04/schema#"}"#,
                r#"{"maximum":0,"exclusiveMaximum":0}"#,
            ),
            (
                r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","items":[{}]}"#,
                r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{}]}"#,
            ),
            (r#"{"exclusiveMaximum":true,"exclusiveMinimum":false}"#, "{}"),
            (r#"{"properties":{"x":"string","y":false}}"#, r#"{"properties":{"x":{},"y":false}}"#),
            (r#"{"not":{"enum":"a", "required":["x","x","y"]}}"#, r#"{"not":{"required":["x","y"]}}"#),
            (r#"{"type":["string","string","null"],"not":{"type":[]}}"#, r#"{"type":["string","null"],"not":{}}"#),
            (r#"{"minLength":-1,"maxLength":1.5,"maxItems":2.0,"multipleOf":0}"#, r#"{"maxItems":2.0}"#),
            (r#"{"examples":"x","title":5,"description":{"en":"x"}}"#, r#"{"examples":["x"]}"#),
            (r#"{"anyOf":[],"oneOf":{},"allOf":[5],"not":"x","$defs":[]}"#, "{}"),
            (
                r#"{"dependencies":{"a":5,"b":["c"]},"dependentRequired":{"a":"b"}}"#,
                r#"{"dependencies":{"a":{},"b":["c"]}}"#,
            ),
            (
                r#"{"contentSchema":{"type":"any","items":[{"type":"number"}]},"$vocabulary":{"http://x/y":1}}"#,
                r#"{"contentSchema":{"prefixItems":[{"type":"number"}]}}"#,
            ),
            (r##"{"$id":"#a","$anchor":"9","$ref":5,"deprecated":"yes"}"##, "{}"),
        ] {
            let (found, notes) = mended(schema);
            assert_eq!(found.as_deref(), Some(expected), "{schema}");
            assert!(!notes.is_empty(), "{schema}");
            assert_eq!(mended(expected), (None, Vec::new()), "{expected}");
        }
    }

    #[test]
    fn what_is_sound_stays() {
        for schema in [
            r#"{"type":"object","properties":{"required":{"type":"boolean"},"items":{"enum":[]}},"required":[]}"#,
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":{}}}}"#,
            r#"{"contentSchema":true,"$vocabulary":{"http://x/y":false}}"#,
            r#"{"x-foo":{"type":"any"},"default":{"type":"any"},"const":{"items":[1]},"additionalItems":false}"#,
            r##"{"$ref":"#/nowhere","$id":"http://x/y#","maximum":1e400,"nullable":"yes","id":5,"prefixItems":[{}],"items":false}"##,
        ] {
            assert_eq!(mended(schema), (None, Vec::new()), "{schema}");
        }
    }
}
