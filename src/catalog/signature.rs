//! Owns signatures: a tool's arguments in one line, such as `(day*: string date, state: "open"|"closed" = "open", limit: integer
//! 1..50)`.
//! A signature is for reading; nothing is ever validated against it.

use std::collections::HashMap;

use serde::Serialize;

use super::references::resolve;
use super::text::is_harmful;
use crate::wire::raw::{self, Kind, Members};

/// The longest signature, in characters.
pub const SIGNATURE_MAX: usize = 400;
/// The longest default value that is written out, in bytes.
const DEFAULT_MAX: usize = 32;
/// The longest single value of an enum, in bytes.
const VALUE_MAX: usize = 48;
/// How many values of an enum, or alternatives of a union, are written out.
const VALUES_MAX: usize = 12;
/// The same where room is short.
const VALUES_FEW: usize = 4;
/// The longest limit of a value that is written out, in bytes: `20250101`, `-180.5`, `date-time`. A longer number is none: it is
/// the largest that a program can hold.
const LIMIT_MAX: usize = 12;
/// How deep types may nest before `...` stands for the rest.
const DEPTH_MAX: usize = 8;
/// How many types one line may cost: a schema can be small and yet unfold without end.
const STEPS_MAX: usize = 4000;
/// How many references are looked up for one line.
const LOOKUPS_MAX: usize = 256;
/// Members that say more than a line can.
const BEYOND: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "$dynamicRef",
    "$recursiveRef",
];

/// A tool's arguments in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// At most [`SIGNATURE_MAX`] characters; `*` marks what is required, `...` what is left out.
    pub text: String,
    /// Whether the schema says more than the line. Limits of single values do not count: a `maximum` with its `minimum`, and
    /// `format`, stand there if there is room; others (`pattern`, `minLength`) never do.
    pub lossy: bool,
}

impl Signature {
    /// The signature of an input schema, given as JSON text.
    pub fn of(schema: &str) -> Self {
        let schema = schema.trim();
        for detail in [Detail::Limits, Detail::Full, Detail::Flat] {
            let mut writer = Writer::new(schema, detail);
            if let Some(text) = writer.root() {
                return Self::sealed(text, writer.lossy || detail == Detail::Flat);
            }
        }
        let mut writer = Writer::new(schema, Detail::Cut);
        Self::sealed(writer.root().unwrap_or_else(|| "(...)".to_owned()), true)
    }

    fn sealed(text: String, lossy: bool) -> Self {
        let text: String = text.chars().map(|c| if is_harmful(c) { ' ' } else { c }).collect();
        if !lossy || text.contains("...") {
            return Self { text, lossy };
        }
        let open = text.strip_suffix(')').unwrap_or(&text);
        let comma = if open == "(" { "" } else { ", " };
        Self { text: format!("{open}{comma}...)"), lossy }
    }
}

/// How much is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// All there is, and the limits of single values.
    Limits,
    Full,
    /// No members of nested objects, few values of enums.
    Flat,
    /// The same, and arguments are left out where the line is full.
    Cut,
}

impl Detail {
    fn is_full(self) -> bool {
        matches!(self, Self::Limits | Self::Full)
    }
}

struct Writer<'a> {
    root: &'a str,
    detail: Detail,
    lossy: bool,
    /// References looked up before.
    seen: HashMap<String, Option<&'a str>>,
    /// References being written: one that comes again is recursive.
    active: Vec<String>,
    /// How many nested objects are being written.
    objects: usize,
    /// How many types were written.
    steps: usize,
}

impl<'a> Writer<'a> {
    fn new(root: &'a str, detail: Detail) -> Self {
        Self { root, detail, lossy: false, seen: HashMap::new(), active: Vec::new(), objects: 0, steps: 0 }
    }

    /// The whole line, or `None` when it does not fit.
    fn root(&mut self) -> Option<String> {
        let Some(schema) = Members::of(self.root) else {
            self.lossy = true;
            return Some("(...)".to_owned());
        };
        let schema = self.followed(schema, 0);
        self.note_beyond(&schema);
        let mut parts = self.arguments(&schema, 0);
        if parts.is_empty() && ["anyOf", "oneOf", "allOf", "$ref"].iter().any(|key| schema.get(key).is_some()) {
            self.lossy = true;
            parts.push("...".to_owned());
        }
        // Room for the closing `, ...)`.
        let room = SIGNATURE_MAX - 8;
        let length = |parts: &[String]| parts.iter().map(|part| part.chars().count() + 2).sum::<usize>();
        if length(&parts) > room {
            if self.detail != Detail::Cut {
                return None;
            }
            let mut used = 0;
            parts.retain(|part| {
                used += part.chars().count() + 2;
                used <= room
            });
            parts.push("...".to_owned());
        }
        Some(format!("({})", parts.join(", ")))
    }

    /// The schema behind a root that is only a reference or an `allOf` of one.
    fn followed(&mut self, schema: Members<'a>, depth: usize) -> Members<'a> {
        if schema.get("properties").is_some() || depth > DEPTH_MAX {
            return schema;
        }
        let target = match schema.text("$ref") {
            Some(reference) => self.resolved(&reference),
            None => schema.get("allOf").and_then(single),
        };
        match target.and_then(Members::of) {
            Some(inner) => self.followed(inner, depth + 1),
            None => schema,
        }
    }

    fn resolved(&mut self, reference: &str) -> Option<&'a str> {
        if let Some(known) = self.seen.get(reference) {
            return *known;
        }
        let target = if self.seen.len() < LOOKUPS_MAX { resolve(self.root, reference) } else { None };
        self.seen.insert(reference.to_owned(), target);
        target
    }

    fn note_beyond(&mut self, schema: &Members) {
        let is_combined = schema.get("properties").is_some() || schema.get("type").is_some();
        let combos = ["anyOf", "oneOf", "allOf"].iter().any(|key| schema.get(key).is_some());
        self.lossy |= BEYOND.iter().any(|key| schema.get(key).is_some()) || (is_combined && combos);
    }

    /// The members of an object, the required ones first, both kinds in the schema's own order.
    fn arguments(&mut self, schema: &Members<'a>, depth: usize) -> Vec<String> {
        let required = schema.get("required").and_then(raw::elements).unwrap_or_default();
        let required = required.into_iter().filter(|name| raw::kind(name) == Kind::Text);
        let required: Vec<_> = required.map(|name| raw::string(name).unwrap_or(name.into())).collect();
        let properties = schema.get("properties").and_then(Members::of).unwrap_or_default().0;
        let mut must = Vec::new();
        let mut may = Vec::new();
        for property in &properties {
            let is_required = required.contains(&property.key);
            let list = if is_required { &mut must } else { &mut may };
            let mark = if is_required { "*" } else { "" };
            list.push(format!("{}{mark}: {}", key(&property.key), self.member_type(property.value, depth)));
        }
        for name in &required {
            if !properties.iter().any(|property| property.key == *name) {
                must.push(format!("{}*: any", key(name)));
            }
        }
        let extra =
            schema.get("additionalProperties").filter(|value| raw::kind(value) == Kind::Object && !is_open(value));
        if let Some(extra) = extra {
            may.push(format!("[key]: {}", self.type_of(extra, depth + 1)));
        }
        must.append(&mut may);
        must
    }

    /// A member's type with its default.
    fn member_type(&mut self, schema: &'a str, depth: usize) -> String {
        let text = self.type_of(schema, depth + 1);
        let default = Members::of(schema).and_then(|members| members.get("default"));
        match default.filter(|value| *value != "null") {
            None => text,
            Some(value) if value.len() <= DEFAULT_MAX => format!("{text} = {}", one_line(value)),
            Some(_) => {
                self.lossy = true;
                format!("{text} = ...")
            }
        }
    }

    fn type_of(&mut self, schema: &'a str, depth: usize) -> String {
        let Some(members) = Members::of(schema) else {
            self.lossy |= schema != "true";
            return "any".to_owned();
        };
        self.steps += 1;
        if depth > DEPTH_MAX || self.steps > STEPS_MAX {
            return self.rest();
        }
        if let Some(reference) = members.text("$ref") {
            return self.reference(&reference, depth);
        }
        self.note_beyond(&members);
        let text = if let Some(value) = members.get("const") {
            self.value(value)
        } else if let Some(values) = members.get("enum").and_then(raw::elements) {
            self.union_of(&values, |writer, value| writer.value(value))
        } else {
            self.plain_type(&members, depth)
        };
        if members.flag("nullable") == Some(true) && !text.split('|').any(|part| part == "null") {
            return format!("{text}|null");
        }
        text
    }

    fn reference(&mut self, reference: &str, depth: usize) -> String {
        let is_recursive = self.active.iter().any(|active| active == reference);
        let Some(target) = self.resolved(reference).filter(|_| !is_recursive) else { return self.rest() };
        self.active.push(reference.to_owned());
        let text = self.type_of(target, depth + 1);
        self.active.pop();
        text
    }

    /// A type that is neither a constant nor a list of values.
    fn plain_type(&mut self, members: &Members<'a>, depth: usize) -> String {
        match members.get("type") {
            Some(names) if raw::kind(names) == Kind::Array => {
                let names = raw::elements(names).unwrap_or_default();
                self.union_of(&names, |writer, name| {
                    writer.named_type(&raw::string(name).unwrap_or_default(), members, depth)
                })
            }
            Some(name) => self.named_type(&raw::string(name).unwrap_or_default(), members, depth),
            None if members.get("properties").is_some() => self.object(members, depth),
            None if members.get("items").is_some() || members.get("prefixItems").is_some() => {
                self.array(members, depth)
            }
            None => self.combined(members, depth),
        }
    }

    fn named_type(&mut self, name: &str, members: &Members<'a>, depth: usize) -> String {
        match name {
            "integer" | "number" if self.detail == Detail::Limits => format!("{name}{}", range(members)),
            "string" if self.detail == Detail::Limits => format!("{name}{}", format_of(members)),
            "string" | "integer" | "number" | "boolean" | "null" => name.to_owned(),
            "array" => self.array(members, depth),
            "object" => self.object(members, depth),
            _ => {
                self.lossy = true;
                "any".to_owned()
            }
        }
    }

    fn combined(&mut self, members: &Members<'a>, depth: usize) -> String {
        if let Some(all) = members.get("allOf") {
            return match single(all) {
                Some(only) => self.type_of(only, depth + 1),
                None => self.rest(),
            };
        }
        let branches = members.get("anyOf").or_else(|| members.get("oneOf")).and_then(raw::elements);
        match branches {
            Some(branches) => self.union_of(&branches, |writer, branch| writer.type_of(branch, depth + 1)),
            None => "any".to_owned(),
        }
    }

    fn array(&mut self, members: &Members<'a>, depth: usize) -> String {
        if let Some(tuple) = members.get("prefixItems").or_else(|| members.get("items")).and_then(raw::elements) {
            let items: Vec<_> = tuple.iter().take(VALUES_FEW).map(|item| self.type_of(item, depth + 1)).collect();
            if tuple.len() > VALUES_FEW {
                return format!("[{}, {}]", items.join(", "), self.rest());
            }
            return format!("[{}]", items.join(", "));
        }
        let item = members.get("items").map_or_else(|| "any".to_owned(), |item| self.type_of(item, depth + 1));
        if is_compound(&item) { format!("({item})[]") } else { format!("{item}[]") }
    }

    /// An object: its members where it stands directly in the arguments, `{...}` deeper down.
    fn object(&mut self, members: &Members<'a>, depth: usize) -> String {
        let properties = members.get("properties").and_then(Members::of).unwrap_or_default();
        let extra = members.get("additionalProperties").filter(|value| raw::kind(value) == Kind::Object);
        if properties.0.is_empty() && extra.is_none_or(is_open) {
            return "object".to_owned();
        }
        if !self.detail.is_full() || self.objects >= 1 {
            return format!("{{{}}}", self.rest());
        }
        self.objects += 1;
        let parts = self.arguments(members, depth);
        self.objects -= 1;
        format!("{{{}}}", parts.join(", "))
    }

    /// The alternatives joined by `|`, each once.
    fn union_of(&mut self, items: &[&'a str], mut write: impl FnMut(&mut Self, &'a str) -> String) -> String {
        let most = if self.detail.is_full() { VALUES_MAX } else { VALUES_FEW };
        let mut parts: Vec<String> = Vec::new();
        let mut length = 0;
        for &item in items {
            if parts.len() == most || length > SIGNATURE_MAX {
                parts.push(self.rest());
                break;
            }
            let part = write(self, item);
            if !parts.contains(&part) {
                length += part.len();
                parts.push(part);
            }
        }
        if parts.is_empty() { "any".to_owned() } else { parts.join("|") }
    }

    fn value(&mut self, value: &str) -> String {
        if value.len() > VALUE_MAX { self.rest() } else { one_line(value) }
    }

    fn rest(&mut self) -> String {
        self.lossy = true;
        "...".to_owned()
    }
}

/// The only element of an array.
fn single(array: &str) -> Option<&str> {
    match raw::elements(array)?.as_slice() {
        [only] => Some(only),
        _ => None,
    }
}

/// Whether a schema of extra members is `{}`.
fn is_open(schema: &str) -> bool {
    Members::of(schema).is_some_and(|members| members.0.is_empty())
}

/// The numbers that are allowed, as ` 1..50`; a bound that is no plain number is left out.
fn range(members: &Members<'_>) -> String {
    let bound = |key| members.get(key).filter(|value| raw::kind(value) == Kind::Number && value.len() <= LIMIT_MAX);
    // A least number alone is nearly always 0 or 1, and says little.
    match bound("maximum") {
        None => String::new(),
        Some(most) => format!(" {}..{most}", bound("minimum").unwrap_or_default()),
    }
}

/// The form of a text, as ` date-time`, where it has a plain name.
fn format_of(members: &Members<'_>) -> String {
    let is_plain = |name: &str| name.len() <= LIMIT_MAX && name.bytes().all(|c| c.is_ascii_lowercase() || c == b'-');
    let name = members.text("format").filter(|name| !name.is_empty() && is_plain(name));
    name.map(|name| format!(" {name}")).unwrap_or_default()
}

/// Whether a type is made of alternatives, or of a type and its limits.
fn is_compound(text: &str) -> bool {
    let mut depth = 0;
    let mut is_quoted = false;
    let mut is_escaped = false;
    text.chars().any(|c| {
        match c {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '{' | '[' | '(' if !is_quoted => depth += 1,
            '}' | ']' | ')' if !is_quoted => depth -= 1,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        matches!(c, '|' | ' ') && depth == 0 && !is_quoted
    })
}

/// A JSON value without line breaks.
fn one_line(value: &str) -> String {
    if raw::kind(value) == Kind::Text {
        value.to_owned()
    } else {
        value.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// A member's name, quoted where it is no plain word. One with half a character is there as it is written, quotes and all.
fn key(name: &str) -> String {
    if raw::string(name).is_none() && raw::string_lossy(name).is_some() {
        return name.to_owned();
    }
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '.'));
    if is_plain && !name.is_empty() { name.to_owned() } else { raw::quote(name) }
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
