//! Owns what must be known about a tool's schemas: whether an input schema can be shown as it is or after a repair, whether
//! an output schema may be shown, and where a local reference leads. It does not validate values.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::pattern;
use crate::wire::raw::{self, Kind, Members};

/// The input schema of a tool that takes anything, or nothing.
pub(crate) const OPEN_INPUT: &str = r#"{"type":"object","properties":{}}"#;
const BAD_PATTERN: &str = "a `pattern` of its outputSchema is no regular expression for JavaScript";
const AS_OBJECT: &str = "its inputSchema is shown as an object with `properties`";
/// How deep a schema is searched for references.
const DEPTH_MAX: usize = 48;

/// How many references are looked up one by one; what goes beyond is taken for sound.
const LOOKUPS_MAX: usize = 256;

/// Members whose values map names to schemas.
const NAMED_SCHEMAS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Members whose values are data, never schemas.
const DATA: &[&str] = &["const", "enum", "default", "examples", "example", "required"];

/// Members whose value is one schema.
#[rustfmt::skip]
const SCHEMAS: &[&str] = &[
    "additionalItems", "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
];
/// Members whose value is a list of schemas.
const SCHEMA_LISTS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Members whose value is a number.
#[rustfmt::skip]
const NUMBERS: &[&str] = &[
    "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
    "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
];
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// What becomes of an input schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Keep,
    /// The same meaning in a form that every client takes, and what was done for it, a sentence each.
    Repaired(String, Vec<&'static str>),
    /// No tool can be shown with it; the reason.
    Impossible(&'static str),
}

/// Judges an input schema: MCP wants an object with `type: "object"`, some clients `properties` too, and the schema of
/// each property must be an object.
pub(crate) fn judge_input(schema: Option<&str>) -> Input {
    let open = || Input::Repaired(OPEN_INPUT.to_owned(), vec![AS_OBJECT]);
    let Some(text) = schema else { return open() };
    if text == "false" {
        return Input::Impossible("its inputSchema is `false`, which takes no arguments at all");
    }
    let Some(members) = Members::of(text) else { return open() };
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
    let properties = members.get("properties").and_then(|value| Some((value, Members::of(value)?)));
    let has_required = members.get("required").is_none_or(is_name_list);
    let mended = properties.as_ref().and_then(|(text, properties)| mended_properties(text, properties));
    let mut edit = Edit::new(text, &members);
    let mut notes = Vec::new();
    if !is_object {
        edit.set("type", "\"object\"");
    }
    if properties.is_none() {
        edit.set("properties", "{}");
    }
    if !is_object || properties.is_none() {
        notes.push(AS_OBJECT);
    }
    if let Some(mended) = &mended {
        edit.set("properties", mended);
        notes.push("what is no object among the `properties` of its inputSchema is shown as one");
    }
    if !has_required {
        edit.remove("required");
        notes.push("the `required` of its inputSchema is no list of names, so it is left out");
    }
    if notes.is_empty() { Input::Keep } else { Input::Repaired(edit.finish(), notes) }
}

/// The properties with an object for each schema that is none, if there is such a one.
fn mended_properties(text: &str, properties: &Members) -> Option<String> {
    let mut edit = Edit::new(text, properties);
    let mut found = false;
    for (at, member) in properties.0.iter().enumerate().filter(|(_, member)| raw::kind(member.value) != Kind::Object) {
        edit.set_at(at, if member.value == "false" { "{\"not\":{}}" } else { "{}" });
        found = true;
    }
    found.then(|| edit.finish())
}

/// Whether a value is a list of strings.
pub(crate) fn is_name_list(value: &str) -> bool {
    raw::elements(value).is_some_and(|items| items.into_iter().all(|item| raw::kind(item) == Kind::Text))
}

/// The type names of a `type` member; `None` when it is neither a string nor a list of strings.
fn named_types(value: &str) -> Option<Vec<Cow<'_, str>>> {
    match raw::kind(value) {
        Kind::Text => Some(vec![raw::string(value)?]),
        Kind::Array => raw::elements(value)?.into_iter().map(raw::string).collect(),
        _ => None,
    }
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
    if let Some(fault) = fault(text, DEPTH_MAX) {
        return Output::Nobody(fault);
    }
    if has_dangling_reference(text) {
        return Output::Nobody("its outputSchema refers to a definition that it lacks");
    }
    // Older clients want an object, and an object for each of its properties.
    let properties = members.get("properties").and_then(Members::of).unwrap_or_default();
    let has_objects = properties.0.iter().all(|member| raw::kind(member.value) == Kind::Object);
    if has_objects && members.get("type") == Some("\"object\"") { Output::Everyone } else { Output::ModernOnly }
}

/// What keeps clients from compiling a schema, as some do with every outputSchema as soon as they have the list.
fn fault(schema: &str, depth: usize) -> Option<&'static str> {
    if depth == 0 || matches!(schema, "true" | "false") {
        return None;
    }
    let Some(members) = Members::of(schema) else { return Some("a part of its outputSchema is no schema") };
    members.0.iter().find_map(|member| {
        let (key, value) = (&*member.key, member.value);
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
            "type" => named_types(value).is_some_and(|names| names.iter().all(|name| TYPES.contains(&&**name))),
            "pattern" | "format" | "$ref" => kind == Kind::Text,
            "required" => is_name_list(value),
            "enum" => raw::elements(value).is_some_and(|items| !items.is_empty()),
            "uniqueItems" => kind == Kind::Bool,
            "items" => matches!(kind, Kind::Object | Kind::Array | Kind::Bool),
            _ if NUMBERS.contains(&key) => kind == Kind::Number,
            _ if NAMED_SCHEMAS.contains(&key) => kind == Kind::Object,
            _ if SCHEMA_LISTS.contains(&key) => kind == Kind::Array,
            _ => true,
        };
        if !is_sound {
            return Some("a keyword of its outputSchema has a value that it cannot have");
        }
        match kind {
            Kind::Object if NAMED_SCHEMAS.contains(&key) => {
                Members::of(value)?.0.iter().find_map(|named| fault(named.value, depth - 1))
            }
            Kind::Array if key == "items" || SCHEMA_LISTS.contains(&key) => {
                raw::elements(value)?.into_iter().find_map(|item| fault(item, depth - 1))
            }
            _ if key == "items" || SCHEMAS.contains(&key) => fault(value, depth - 1),
            _ => None,
        }
    })
}

/// Whether a reference leads nowhere: to nothing in the schema itself, or out of it, where no client looks.
pub(crate) fn has_dangling_reference(root: &str) -> bool {
    if !root.contains("$ref") && !root.contains("\\u0") {
        return false;
    }
    let mut known = definitions(root);
    let mut lookups = 0;
    let mut dangling = false;
    visit(root, DEPTH_MAX, &mut |members| {
        let Some(target) = members.text("$ref") else { return };
        if lookups < LOOKUPS_MAX && !known.contains(&*target) {
            lookups += 1;
            dangling |= match target.starts_with('#') {
                true => resolve(root, &target).is_none() && !is_anchor(root, &target),
                false => !is_identified(root, &target),
            };
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

/// Whether a reference by address means a part of the schema that has this address, or the one that every client knows.
fn is_identified(root: &str, target: &str) -> bool {
    let address = target.split('#').next().unwrap_or_default();
    let mut found = address == "http://json-schema.org/draft-07/schema";
    visit(root, DEPTH_MAX, &mut |members| {
        found |= ["$id", "id"].iter().any(|key| {
            let id = members.text(key).unwrap_or_default();
            let before = id.trim_end_matches('#').strip_suffix(address);
            before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
        });
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

    /// Gives the member at that place the value.
    pub fn set_at(&mut self, at: usize, value: &'a str) {
        self.changes[at] = Some(Some(value));
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
        let repaired_to = |schema: Option<&str>, repaired: &str| match judge_input(schema) {
            Input::Repaired(found, notes) => assert!(found == repaired && !notes.is_empty(), "{schema:?}: {found}"),
            other => panic!("{schema:?}: {other:?}"),
        };
        for schema in [None, Some("null"), Some("true"), Some("5"), Some("[]"), Some("\"object\""), Some("{}")] {
            repaired_to(schema, OPEN_INPUT);
        }
        for (schema, repaired) in [
            (r#"{"type":"object"}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{ "type":"object","properties":null }"#, r#"{ "type":"object","properties":{} }"#),
            (r#"{"properties":{},"type":"object","required":null}"#, r#"{"properties":{},"type":"object"}"#),
            (r#"{"required":{}, "properties":{},"type":"object"}"#, r#"{"properties":{},"type":"object"}"#),
            (r#"{"properties":[],"type":["object","null"]}"#, r#"{"properties":{},"type":"object"}"#),
            (r#"{"type":null,"properties":{}}"#, r#"{"type":"object","properties":{}}"#),
            (
                r#"{"type":"object","properties":{"a":5, "b":{"c":7} ,"d":true,"e":false,"f":[],"g":null},"required":["b"]}"#,
                r#"{"type":"object","properties":{"a":{}, "b":{"c":7} ,"d":{},"e":{"not":{}},"f":{},"g":{}},"required":["b"]}"#,
            ),
            (r#"{"required":["a",5],"type":"object","properties":{}}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{"anyOf":[{"a":1}]}"#, r#"{"anyOf":[{"a":1}],"type":"object","properties":{}}"#),
            (
                r##"{"$ref":"#/$defs/A","$defs":{"A":{}}}"##,
                r##"{"$ref":"#/$defs/A","$defs":{"A":{}},"type":"object","properties":{}}"##,
            ),
        ] {
            repaired_to(Some(schema), repaired);
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
        check(
            r#"{"$id":"http://x/r.json","type":"object","items":[{"$ref":"a.json#/x"}],"$defs":{"a":{"$id":"http://x/a.json"}}}"#,
            Output::Everyone,
        );
        check(r#"{"type":"object","properties":{"a":{"$ref":"other.json"}}}"#, dangling);
        check(r#"{"type":"array"}"#, Output::ModernOnly);
        check(r#"{"type":"object","properties":{"a":true}}"#, Output::ModernOnly);
        check(r#"{"type":"object","x-foo":{"pattern":5},"properties":{"pattern":{"default":"("}}}"#, Output::Everyone);
        check(r#"{"type":"object","items":[{"pattern":"^\\d+$"}],"patternProperties":{"^a":{}}}"#, Output::Everyone);
        let bad = Output::Nobody(BAD_PATTERN);
        check(r#"{"type":"object","properties":{"a":{"pattern":"(?i)x"}}}"#, bad);
        check(r#"{"type":"object","anyOf":[{"items":{"patternProperties":{"[":{}}}}]}"#, bad);
        let keyword = Output::Nobody("a keyword of its outputSchema has a value that it cannot have");
        for part in [
            r#""required":["a",5]"#,
            r#""required":"a""#,
            r#""properties":{"a":{"type":"strnig"}}"#,
            r#""properties":{"a":{"exclusiveMinimum":true}}"#,
            r#""anyOf":{}"#,
            r#""items":{"enum":[]}"#,
            r#""not":{"format":7}"#,
        ] {
            check(&format!("{{\"type\":\"object\",{part}}}"), keyword);
        }
        check(r#"{"type":"object","properties":{"a":5}}"#, Output::Nobody("a part of its outputSchema is no schema"));
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
