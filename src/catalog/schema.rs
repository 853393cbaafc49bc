//! Owns what must be known about a tool's schemas: whether an input schema can be shown as it is or after a repair, whether
//! an output schema may be shown, and where a local reference leads. It does not validate values.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::wire::raw::{self, Kind, Members};

/// The input schema of a tool that takes anything, or nothing.
pub(crate) const OPEN_INPUT: &str = r#"{"type":"object","properties":{}}"#;
/// How deep a schema is searched for references.
const DEPTH_MAX: usize = 48;

/// How many references are looked up one by one; what goes beyond is taken for sound.
const LOOKUPS_MAX: usize = 256;

/// Members whose values map names to schemas.
const NAMED_SCHEMAS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Members whose values are data, never schemas.
const DATA: &[&str] = &["const", "enum", "default", "examples", "example", "required"];

/// What becomes of an input schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Keep,
    /// The same meaning in a form that every client takes.
    Repaired(String),
    /// No tool can be shown with it; the reason.
    Impossible(&'static str),
}

/// Judges the root of an input schema: MCP wants an object with `type: "object"`, and some clients `properties` too.
pub(crate) fn judge_input(schema: Option<&str>) -> Input {
    let Some(text) = schema else { return Input::Repaired(OPEN_INPUT.to_owned()) };
    if text == "false" {
        return Input::Impossible("its inputSchema is `false`, which takes no arguments at all");
    }
    let Some(members) = Members::of(text) else { return Input::Repaired(OPEN_INPUT.to_owned()) };
    let is_object = match members.get("type") {
        None => false,
        Some("\"object\"") => true,
        Some(other) => match named_types(other) {
            Some(types) if !types.iter().any(|name| name == "object") => {
                return Input::Impossible("the root of its inputSchema is not an object");
            }
            _ => false,
        },
    };
    let has_properties = members.get("properties").is_some_and(|value| raw::kind(value) == Kind::Object);
    let has_required = members.get("required").is_none_or(|value| raw::kind(value) == Kind::Array);
    if is_object && has_properties && has_required {
        return Input::Keep;
    }
    Input::Repaired(repair(text, &members, is_object, has_properties, has_required))
}

/// The type names of a `type` member; `None` when it is neither a string nor a list of strings.
fn named_types(value: &str) -> Option<Vec<Cow<'_, str>>> {
    match raw::kind(value) {
        Kind::Text => Some(vec![raw::string(value)?]),
        Kind::Array => raw::elements(value)?.into_iter().map(raw::string).collect(),
        _ => None,
    }
}

fn repair(text: &str, members: &Members, is_object: bool, has_properties: bool, has_required: bool) -> String {
    let mut edit = Edit::new(text, members);
    if !is_object {
        edit.set("type", "\"object\"");
    }
    if !has_properties {
        edit.set("properties", "{}");
    }
    if !has_required {
        edit.remove("required");
    }
    edit.finish()
}

/// Who may see an output schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Everyone,
    /// Clients of 2026-07-28 and later, which allow any root.
    ModernOnly,
    /// Nobody; the reason.
    Nobody(&'static str),
}

/// Judges an output schema: an illegal one makes strict clients drop every tool of the list.
pub(crate) fn judge_output(text: &str) -> Output {
    let Some(members) = Members::of(text) else { return Output::Nobody("its outputSchema is no schema") };
    if members.get("properties").is_some_and(|value| raw::kind(value) != Kind::Object) {
        return Output::Nobody("the `properties` of its outputSchema are no object");
    }
    if has_dangling_reference(text) {
        return Output::Nobody("its outputSchema refers to a definition that it lacks");
    }
    if members.get("type") == Some("\"object\"") { Output::Everyone } else { Output::ModernOnly }
}

/// Whether a reference into the schema itself leads nowhere.
pub(crate) fn has_dangling_reference(root: &str) -> bool {
    if !root.contains("$ref") && !root.contains("\\u0") {
        return false;
    }
    let mut known = definitions(root);
    let mut lookups = 0;
    let mut dangling = false;
    visit(root, DEPTH_MAX, &mut |members| {
        let Some(target) = members.text("$ref").filter(|target| target.starts_with('#')) else { return };
        if lookups < LOOKUPS_MAX && !known.contains(&*target) {
            lookups += 1;
            dangling |= resolve(root, &target).is_none() && !is_anchor(root, &target);
            known.insert(target.into_owned());
        }
    });
    dangling
}

/// The references to all definitions at the root whose names need no escapes.
fn definitions(root: &str) -> HashSet<String> {
    let members = Members::of(root).unwrap_or_default();
    let mut found = HashSet::new();
    for key in ["$defs", "definitions"] {
        let named = members.get(key).and_then(Members::of).unwrap_or_default();
        let plain = named.0.iter().filter(|member| !member.key.contains(['/', '~', '%']));
        found.extend(plain.map(|member| format!("#/{key}/{}", member.key)));
    }
    found
}

/// Whether a reference names an anchor (`#name`) that the schema declares.
fn is_anchor(root: &str, target: &str) -> bool {
    let name = &target[1..];
    if name.is_empty() || name.starts_with('/') {
        return false;
    }
    let mut found = false;
    visit(root, DEPTH_MAX, &mut |members| {
        found |= ["$anchor", "$dynamicAnchor"].iter().any(|key| members.text(key).as_deref() == Some(name));
        found |= ["$id", "id"].iter().any(|key| members.text(key).as_deref() == Some(target));
    });
    found
}

/// Calls `see` with every object in the text that is a schema.
fn visit(text: &str, depth: usize, see: &mut dyn FnMut(&Members)) {
    if depth == 0 {
        return;
    }
    match raw::kind(text) {
        Kind::Object => {
            let Some(members) = Members::of(text) else { return };
            see(&members);
            for member in &members.0 {
                if NAMED_SCHEMAS.contains(&&*member.key) {
                    for named in Members::of(member.value).unwrap_or_default().0 {
                        visit(named.value, depth - 1, see);
                    }
                } else if !DATA.contains(&&*member.key) {
                    visit(member.value, depth - 1, see);
                }
            }
        }
        Kind::Array => raw::elements(text).unwrap_or_default().into_iter().for_each(|item| visit(item, depth - 1, see)),
        _ => {}
    }
}

/// What a local reference (`#`, `#/$defs/X`) points at.
pub(crate) fn resolve<'a>(root: &'a str, reference: &str) -> Option<&'a str> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.is_empty() {
        return Some(root);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(root, |at, step| {
        let step = percent_decoded(step).replace("~1", "/").replace("~0", "~");
        match raw::kind(at) {
            Kind::Object => Members::of(at)?.get(&step),
            Kind::Array => raw::elements(at)?.get(step.parse::<usize>().ok()?).copied(),
            _ => None,
        }
    })
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code.filter(|_| bytes[at] == b'%') {
            Some(code) => decoded.push(code),
            None => decoded.push(bytes[at]),
        }
        at += if bytes[at] == b'%' && code.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Changes single members of an object and leaves every other byte as it is.
pub(crate) struct Edit<'a> {
    text: &'a str,
    members: &'a Members<'a>,
    /// For each member its new value, or `None` inside for one that is removed.
    changes: Vec<Option<Option<&'a str>>>,
    added: Vec<(&'static str, &'a str)>,
}

impl<'a> Edit<'a> {
    pub fn new(text: &'a str, members: &'a Members<'a>) -> Self {
        Self { text, members, changes: vec![None; members.0.len()], added: Vec::new() }
    }

    /// Gives every member of that key the value, or adds one at the end.
    pub fn set(&mut self, key: &'static str, value: &'a str) {
        if !self.change(key, Some(value)) {
            self.added.push((key, value));
        }
    }

    /// Removes every member of that key.
    pub fn remove(&mut self, key: &'static str) {
        self.change(key, None);
    }

    fn change(&mut self, key: &str, value: Option<&'a str>) -> bool {
        let mut found = false;
        for (member, change) in self.members.0.iter().zip(&mut self.changes) {
            if member.key == key {
                *change = Some(value);
                found = true;
            }
        }
        found
    }

    pub fn finish(self) -> String {
        let text = self.text;
        let start = |part: &str| raw::offset(text, part);
        let end = |part: &str| raw::offset(text, part) + part.len();
        let mut out = String::with_capacity(text.len() + 64);
        let mut last_end = None;
        let mut is_first = true;
        let members = &self.members.0;
        out.push_str(members.first().map_or("{", |first| &text[..start(first.key_raw)]));
        for (member, change) in members.iter().zip(&self.changes) {
            let gap_start = last_end.unwrap_or_else(|| start(member.key_raw));
            last_end = Some(end(member.value));
            let value = match change {
                Some(None) => continue,
                Some(Some(value)) => *value,
                None => member.value,
            };
            if !is_first {
                out.push_str(&text[gap_start..start(member.key_raw)]);
            }
            out.push_str(&text[start(member.key_raw)..start(member.value)]);
            out.push_str(value);
            is_first = false;
        }
        for (key, value) in &self.added {
            if !is_first {
                out.push(',');
            }
            out.push_str(&raw::quote(key));
            out.push(':');
            out.push_str(value);
            is_first = false;
        }
        out.push_str(last_end.map_or("}", |end| &text[end..]));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_schemas_are_kept_repaired_or_refused() {
        let keep = |schema: &str| assert_eq!(judge_input(Some(schema)), Input::Keep, "{schema}");
        keep(r#"{"type":"object","properties":{}}"#);
        keep(r#"{"properties":{"a":{"$ref":"nowhere"}},"x-foo":1e400,"type":"object","required":[]}"#);
        let open = Input::Repaired(OPEN_INPUT.to_owned());
        for schema in [None, Some("null"), Some("true"), Some("5"), Some("[]"), Some("\"object\""), Some("{}")] {
            assert_eq!(judge_input(schema), open, "{schema:?}");
        }
        for (schema, repaired) in [
            (r#"{"type":"object"}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{ "type":"object","properties":null }"#, r#"{ "type":"object","properties":{} }"#),
            (r#"{"properties":{},"type":"object","required":null}"#, r#"{"properties":{},"type":"object"}"#),
            (r#"{"required":{}, "properties":{},"type":"object"}"#, r#"{"properties":{},"type":"object"}"#),
            (r#"{"properties":[],"type":["object","null"]}"#, r#"{"properties":{},"type":"object"}"#),
            (r#"{"type":null,"properties":{}}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{"anyOf":[{"a":1}]}"#, r#"{"anyOf":[{"a":1}],"type":"object","properties":{}}"#),
            (
                r##"{"$ref":"#/$defs/A","$defs":{"A":{}}}"##,
                r##"{"$ref":"#/$defs/A","$defs":{"A":{}},"type":"object","properties":{}}"##,
            ),
        ] {
            assert_eq!(judge_input(Some(schema)), Input::Repaired(repaired.to_owned()), "{schema}");
            assert_eq!(judge_input(Some(repaired)), Input::Keep, "{repaired}");
        }
        for schema in ["false", r#"{"type":"string"}"#, r#"{"type":["array","null"]}"#] {
            assert!(matches!(judge_input(Some(schema)), Input::Impossible(_)), "{schema}");
        }
    }

    #[test]
    fn output_schemas_are_judged() {
        let check = |schema: &str, expected: Output| assert_eq!(judge_output(schema), expected, "{schema}");
        let dangling = Output::Nobody("its outputSchema refers to a definition that it lacks");
        check(r#"{"type":"object"}"#, Output::Everyone);
        check(r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{}}}"##, Output::Everyone);
        check(
            r##"{"type":"object","properties":{"$ref":{"const":{"$ref":"#/x"}}},"default":{"$ref":"#/x"}}"##,
            Output::Everyone,
        );
        check(
            r##"{"type":"object","items":[{"$ref":"#here"}],"definitions":{"a":{"$anchor":"here"}}}"##,
            Output::Everyone,
        );
        check(r#"{"type":"array"}"#, Output::ModernOnly);
        check("{}", Output::ModernOnly);
        check(r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/Missing"}}}"##, dangling);
        check(r##"{"type":"array","items":{"$ref":"#/$defs/Missing"}}"##, dangling);
        for schema in ["null", "true", "5", "[]", r#"{"type":"object","properties":5}"#] {
            assert!(matches!(judge_output(schema), Output::Nobody(_)), "{schema}");
        }
    }

    #[test]
    fn pointers_are_followed() {
        let root = r#"{"$defs":{"a/b":{"~":[1,2]},"%":3},"é":4}"#;
        for (reference, target) in [
            ("#", Some(root)),
            ("#/$defs/a~1b/~0/1", Some("2")),
            ("#/%24defs/%25", Some("3")),
            ("#/%C3%A9", Some("4")),
            ("#/$defs/missing", None),
            ("#name", None),
            ("other.json#/x", None),
        ] {
            assert_eq!(resolve(root, reference), target, "{reference}");
        }
    }

    #[test]
    fn edits_keep_every_other_byte() {
        let text = r#"{ "a" : 1 , "b":2,  "c":3 }"#;
        let members = Members::of(text).unwrap();
        let edited = |change: &dyn Fn(&mut Edit)| {
            let mut edit = Edit::new(text, &members);
            change(&mut edit);
            edit.finish()
        };
        assert_eq!(edited(&|_| {}), text);
        assert_eq!(edited(&|e| e.set("b", "[]")), r#"{ "a" : 1 , "b":[],  "c":3 }"#);
        assert_eq!(edited(&|e| e.remove("a")), r#"{ "b":2,  "c":3 }"#);
        assert_eq!(edited(&|e| e.remove("c")), r#"{ "a" : 1 , "b":2 }"#);
        assert_eq!(edited(&|e| ["a", "b"].into_iter().for_each(|key| e.remove(key))), r#"{ "c":3 }"#);
        assert_eq!(edited(&|e| ["a", "b", "c"].into_iter().for_each(|key| e.remove(key))), "{  }");
        assert_eq!(edited(&|e| e.set("d", "4")), r#"{ "a" : 1 , "b":2,  "c":3,"d":4 }"#);
    }
}
