//! Owns the keywords of JSON Schema: which of them hold schemas, and what keeps clients from compiling one of the values that
//! an output schema gives them. It does not follow references.

use std::borrow::Cow;

use crate::pattern;
use crate::wire::raw::{self, Kind, Members};

/// How deep schemas are looked into.
pub(super) const DEPTH_MAX: usize = 48;

/// Members whose values map names to schemas.
pub(super) const NAMED_SCHEMAS: &[&str] =
    &["properties", "patternProperties", "$defs", "definitions", "dependencies", "dependentSchemas"];
/// Members whose values are data, never schemas.
pub(super) const DATA: &[&str] = &["const", "enum", "default", "examples", "example", "required"];
/// Members whose value is one schema.
#[rustfmt::skip]
pub(super) const SCHEMAS: &[&str] = &[
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
];
/// Members whose value is a list of schemas.
pub(super) const SCHEMA_LISTS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Members whose value is a whole number, zero or more.
#[rustfmt::skip]
pub(super) const COUNTS: &[&str] = &[
    "maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength", "minProperties",
];
/// Members whose value is any number.
pub(super) const NUMBERS: &[&str] = &["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"];
pub(super) const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];
/// Members that the TypeScript SDK's clients know beyond JSON Schema, each beside `format`.
const FORMAT_BOUNDS: &[&str] = &["formatExclusiveMaximum", "formatExclusiveMinimum", "formatMaximum", "formatMinimum"];

const PART: &str = "a part of its outputSchema is no schema";
const VALUE: &str = "a keyword of its outputSchema has a value that it cannot have";
const DRAFT4: &str = "its outputSchema has the keyword `id` of draft-04";
const BAD_PATTERN: &str = "a `pattern` of its outputSchema is no regular expression for JavaScript";
const TUPLE: &str = "the `items` of its outputSchema are a list, as no schema of 2020-12 has it";

/// Whether a value is a list of strings.
pub(crate) fn is_name_list(value: &str) -> bool {
    raw::elements(value).is_some_and(|items| items.into_iter().all(|item| raw::kind(item) == Kind::Text))
}

/// The type names of a `type` member; `None` when it is neither a string nor a list of strings.
pub(super) fn named_types(value: &str) -> Option<Vec<Cow<'_, str>>> {
    match raw::kind(value) {
        Kind::Text => Some(vec![raw::string(value)?]),
        Kind::Array => raw::elements(value)?.into_iter().map(raw::string).collect(),
        _ => None,
    }
}

/// Whether a text can be the name of an anchor.
pub(super) fn is_anchor_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_first) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

/// Whether an address is that of draft-07 or draft-06, which most clients take for one.
pub(super) fn is_old_draft(address: &str) -> bool {
    matches!(dialect(address), Some("draft-07/schema" | "draft-06/schema"))
}

/// Whether a schema names a `$schema` that some clients refuse.
pub(super) fn has_unknown_dialect(root: &Members<'_>) -> bool {
    let known = |address: &str| {
        matches!(dialect(address), Some("draft/2020-12/schema" | "draft/2019-09/schema")) || is_old_draft(address)
    };
    root.text("$schema").is_some_and(|address| !known(&address))
}

/// Whether an address is that of 2020-12.
pub(super) fn is_current_draft(address: &str) -> bool {
    dialect(address) == Some("draft/2020-12/schema")
}

fn dialect(address: &str) -> Option<&str> {
    let address = address.strip_suffix('#').unwrap_or(address);
    address.strip_prefix("http").map(|rest| rest.strip_prefix('s').unwrap_or(rest))?.strip_prefix("://json-schema.org/")
}

/// What keeps clients from compiling a schema, as some do with every outputSchema as soon as they have the list, and others
/// when the tool is called.
pub(super) fn fault(root: &str) -> Option<&'static str> {
    let declared = Members::of(root).and_then(|members| members.text("$schema").map(Cow::into_owned));
    let is_older = |address: &str| dialect(address) == Some("draft/2019-09/schema") || is_old_draft(address);
    Faults { has_tuples: declared.as_deref().is_some_and(is_older) }.of(root, DEPTH_MAX)
}

struct Faults {
    /// Whether `items` may be a list.
    has_tuples: bool,
}

impl Faults {
    fn of(&self, schema: &str, depth: usize) -> Option<&'static str> {
        if depth == 0 || matches!(schema, "true" | "false") {
            return None;
        }
        let Some(members) = Members::of(schema) else { return Some(PART) };
        members.0.iter().find_map(|member| {
            let (key, value) = (&*member.key, member.value);
            self.of_value(key, value, &members).or_else(|| self.within(key, value, depth))
        })
    }

    /// What is wrong with the value of a keyword, apart from the schemas in it.
    fn of_value(&self, key: &str, value: &str, members: &Members<'_>) -> Option<&'static str> {
        let kind = raw::kind(value);
        let is_pattern = |text: Option<Cow<'_, str>>| text.is_some_and(|text| pattern::is_sound(&text));
        let is_sound = match key {
            "pattern" if kind == Kind::Text && !is_pattern(raw::string(value)) => return Some(BAD_PATTERN),
            "patternProperties" => {
                let named = Members::of(value).unwrap_or_default();
                if named.0.iter().any(|named| !is_pattern(raw::string(named.key_raw))) {
                    return Some(BAD_PATTERN);
                }
                kind == Kind::Object
            }
            "id" => return Some(DRAFT4),
            "type" => named_types(value).is_some_and(|names| names.iter().all(|name| TYPES.contains(&&**name))),
            "nullable" => is_nullable(value, members.get("type")),
            "pattern" | "format" | "$ref" => kind == Kind::Text,
            "$dynamicRef" | "$recursiveRef" => raw::string(value).is_some_and(|target| target.starts_with('#')),
            "required" => is_name_list(value),
            "dependentRequired" => {
                Members::of(value).is_some_and(|named| named.0.iter().all(|named| is_name_list(named.value)))
            }
            "enum" => raw::elements(value).is_some_and(|items| !items.is_empty()),
            "uniqueItems" | "$recursiveAnchor" => kind == Kind::Bool,
            "items" if kind == Kind::Array && !self.has_tuples => return Some(TUPLE),
            "items" => matches!(kind, Kind::Object | Kind::Array | Kind::Bool),
            _ if COUNTS.contains(&key) || NUMBERS.contains(&key) => kind == Kind::Number,
            _ if FORMAT_BOUNDS.contains(&key) => kind == Kind::Text && members.get("format").is_some(),
            _ if NAMED_SCHEMAS.contains(&key) => kind == Kind::Object,
            _ if SCHEMA_LISTS.contains(&key) => kind == Kind::Array,
            _ => true,
        };
        (!is_sound).then_some(VALUE)
    }

    /// What is wrong with the schemas in the value of a keyword.
    fn within(&self, key: &str, value: &str, depth: usize) -> Option<&'static str> {
        match raw::kind(value) {
            Kind::Object if NAMED_SCHEMAS.contains(&key) => {
                let named = Members::of(value)?.0.into_iter();
                let is_list = |value: &str| key == "dependencies" && raw::kind(value) == Kind::Array;
                named.filter(|named| !is_list(named.value)).find_map(|named| self.of(named.value, depth - 1))
            }
            Kind::Array if key == "items" || SCHEMA_LISTS.contains(&key) => {
                raw::elements(value)?.into_iter().find_map(|item| self.of(item, depth - 1))
            }
            _ if key == "items" || SCHEMAS.contains(&key) => self.of(value, depth - 1),
            _ => None,
        }
    }
}

/// Whether a `nullable` (OpenAPI) stands where clients take it: beside a `type` that it does not contradict.
fn is_nullable(value: &str, beside: Option<&str>) -> bool {
    let has_null = || beside.and_then(named_types).is_some_and(|names| names.iter().any(|name| name == "null"));
    beside.is_some() && (value == "true" || value == "false" && !has_null())
}
