//! Owns what must be known about a tool's schemas: whether an input schema can be shown as it is or after a repair, and whether
//! an output schema may be shown, and how. It does not validate values.

use super::edit::Edit;
use super::keywords::{self, is_name_list, named_types};
use super::mended_input;
use super::references;
use crate::wire::raw::{self, Kind, Members};

/// The input schema of a tool that takes anything, or nothing.
pub(crate) const OPEN_INPUT: &str = r#"{"type":"object","properties":{}}"#;
const AS_OBJECT: &str = "its inputSchema is shown as an object with `properties`";

/// What becomes of an input schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Keep,
    /// The same meaning in a form that every client takes, and what was done for it, a sentence each.
    Repaired(String, Vec<String>),
    /// No tool can be shown with it; the reason.
    Impossible(&'static str),
}

/// Why no tool can be shown with an input schema, if it is so.
pub(crate) fn impossible_input(schema: Option<&str>) -> Option<&'static str> {
    let text = schema?;
    if text == "false" {
        return Some("its inputSchema is `false`, which takes no arguments at all");
    }
    let types = Members::of(text)?.get("type").and_then(named_types)?;
    (!types.iter().any(|name| name == "object")).then_some("the root of its inputSchema is not an object")
}

/// Judges an input schema: MCP wants an object with `type: "object"`, some clients `properties` too, the schema of each
/// property must be an object, and models' providers refuse every request with one that is not of JSON Schema 2020-12.
pub(crate) fn judge_input(schema: Option<&str>) -> Input {
    if let Some(reason) = impossible_input(schema) {
        return Input::Impossible(reason);
    }
    let open = || Input::Repaired(OPEN_INPUT.to_owned(), vec![AS_OBJECT.to_owned()]);
    let Some(text) = schema else { return open() };
    let Some(members) = Members::of(text) else { return open() };
    let (root, mut notes) = mended_root(text, &members);
    let (whole, more) = mended_input::mended(root.as_deref().unwrap_or(text));
    notes.extend(more);
    match whole.or(root) {
        Some(schema) => Input::Repaired(schema, notes),
        None => Input::Keep,
    }
}

/// The schema with a root as clients want it, and what was done for that.
fn mended_root(text: &str, members: &Members<'_>) -> (Option<String>, Vec<String>) {
    let is_object = members.get("type") == Some("\"object\"");
    let properties = members.get("properties").and_then(|value| Some((value, Members::of(value)?)));
    let has_required = members.get("required").is_none_or(is_name_list);
    let mended = properties.as_ref().and_then(|(text, properties)| mended_properties(text, properties));
    let mut edit = Edit::new(text, members);
    let mut notes = Vec::new();
    if !is_object {
        edit.set("type", "\"object\"");
    }
    if properties.is_none() {
        edit.set("properties", "{}");
    }
    if !is_object || properties.is_none() {
        notes.push(AS_OBJECT.to_owned());
    }
    if let Some(mended) = &mended {
        edit.set("properties", mended);
        notes.push("what is no object among the `properties` of its inputSchema is shown as one".to_owned());
    }
    if !has_required {
        edit.remove("required");
        notes.push("the `required` of its inputSchema is no list of names, so it is left out".to_owned());
    }
    ((!notes.is_empty()).then(|| edit.finish()), notes)
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
    if let Some(fault) = keywords::fault(text).or_else(|| references::fault(text)) {
        return Output::Nobody(fault);
    }
    // Older clients want an object, and an object for each of its properties.
    let properties = members.get("properties").and_then(Members::of).unwrap_or_default();
    let has_objects = properties.0.iter().all(|member| raw::kind(member.value) == Kind::Object);
    if has_objects && members.get("type") == Some("\"object\"") { Output::Everyone } else { Output::ModernOnly }
}

/// An output schema that may be shown, without what some clients refuse or take for another tool's, and what was done for
/// that; `None` for one that has nothing of that kind.
pub(crate) fn repaired_output(text: &str) -> (Option<String>, Vec<String>) {
    let members = Members::of(text).unwrap_or_default();
    let mut notes = Vec::new();
    let plain = keywords::has_unknown_dialect(&members).then(|| {
        notes.push("the `$schema` of its outputSchema is none that clients know, so it is left out".to_owned());
        let mut edit = Edit::new(text, &members);
        edit.remove("$schema");
        edit.finish()
    });
    let unaddressed = references::without_addresses(plain.as_deref().unwrap_or(text));
    if unaddressed.is_some() {
        notes.push("its outputSchema is shown without `$id`, by which clients take it for another tool's".to_owned());
    }
    (unaddressed.or(plain), notes)
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
    fn output_schemas_are_repaired() {
        for (schema, expected, notes) in [
            (
                r#"{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}"#,
                Some(r#"{"type":"object"}"#),
                1,
            ),
            (r#"{"$id":"a","$schema":"nonsense"}"#, Some("{}"), 2),
            (r#"{"$schema":"https://json-schema.org/draft/2019-09/schema#"}"#, None, 0),
            (r#"{"$schema":"http://json-schema.org/draft-06/schema"}"#, None, 0),
            (r#"{"$schema":5}"#, None, 0),
        ] {
            let (found, told) = repaired_output(schema);
            assert_eq!((found.as_deref(), told.len()), (expected, notes), "{schema}");
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
            r##"{"type":"object","items":{"$ref":"#here"},"definitions":{"a":{"$anchor":"here"}}}"##,
            Output::Everyone,
        );
        check(
            r#"{"$id":"http://x/r.json","type":"object","items":{"$ref":"a.json#/x"},"$defs":{"a":{"$id":"http://x/a.json","x":{}}}}"#,
            Output::Everyone,
        );
        check(
            r#"{"$id":"http://x/r.json","type":"object","items":{"$ref":"a.json#/x"},"$defs":{"a":{"$id":"http://x/a.json"}}}"#,
            dangling,
        );
        check(r#"{"type":"object","properties":{"a":{"$ref":"other.json"}}}"#, dangling);
        check(r#"{"type":"array"}"#, Output::ModernOnly);
        check(r#"{"type":"object","properties":{"a":true}}"#, Output::ModernOnly);
        check(r#"{"type":"object","x-foo":{"pattern":5},"properties":{"pattern":{"default":"("}}}"#, Output::Everyone);
        check(
            r#"{"type":"object","prefixItems":[{"pattern":"^\\d+$"}],"patternProperties":{"^a":{}}}"#,
            Output::Everyone,
        );
        let bad = Output::Nobody("a `pattern` of its outputSchema is no regular expression for JavaScript");
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
            r#""properties":{"a":{"nullable":true,"allOf":[{}]}}"#,
            r#""properties":{"a":{"type":"string","nullable":"yes"}}"#,
            r#""properties":{"a":{"type":["string","null"],"nullable":false}}"#,
            r#""dependencies":{"a":{"type":"any"}}"#,
            r#""dependencies":[]"#,
            r#""dependentRequired":{"a":"b"}"#,
            r#""properties":{"a":{"format":"date","formatMinimum":5}}"#,
            r#""properties":{"a":{"formatMinimum":"2020-01-01"}}"#,
            r#""not":{"$dynamicRef":"http://x/y"}"#,
        ] {
            check(&format!("{{\"type\":\"object\",{part}}}"), keyword);
        }
        for sound in [
            r#""properties":{"id":{"type":["string","null"],"nullable":true}}"#,
            r#""dependencies":{"a":["b"],"c":{}},"properties":{"a":{"format":"date","formatMinimum":"2020-01-01"}}"#,
            r#""$schema":"http://json-schema.org/draft-07/schema#","items":[{}]"#,
            r#""$schema":"https://json-schema.org/draft/2019-09/schema","items":[{}]"#,
            r#""$schema":"https://json-schema.org/draft/2020-12/schema","items":{}"#,
        ] {
            check(&format!("{{\"type\":\"object\",{sound}}}"), Output::Everyone);
        }
        let tuple = Output::Nobody("the `items` of its outputSchema are a list, as no schema of 2020-12 has it");
        check(r#"{"type":"object","properties":{"a":{"items":[{}]}}}"#, tuple);
        check(r#"{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","items":[{}]}"#, tuple);
        check(r#"{"type":"object","$schema":"http://json-schema.org/draft-04/schema#","items":[{}]}"#, tuple);
        let draft4 = Output::Nobody("its outputSchema has the keyword `id` of draft-04");
        check(r#"{"type":"object","properties":{"a":{"id":"x"}}}"#, draft4);
        check(r#"{"type":"object","properties":{"a":5}}"#, Output::Nobody("a part of its outputSchema is no schema"));
        check("{}", Output::ModernOnly);
        check(r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/Missing"}}}"##, dangling);
        check(r##"{"type":"array","items":{"$ref":"#/$defs/Missing"}}"##, dangling);
        for schema in ["null", "true", "5", "[]", r#"{"type":"object","properties":5}"#] {
            assert!(matches!(judge_output(schema), Output::Nobody(_)), "{schema}");
        }
    }
}
