//! Owns the headers of MCP over HTTP: their names, which arguments they repeat, and how a value stands in one (SEP-2243).
//! It sends and compares nothing.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::wire::Object;

pub const VERSION: &str = "mcp-protocol-version";
pub const SESSION: &str = "mcp-session-id";
pub const METHOD: &str = "mcp-method";
pub const NAME: &str = "mcp-name";
/// What the names of headers begin with that repeat arguments.
pub const PARAM: &str = "mcp-param-";
/// What the schema of an argument says that a header repeats.
pub const ANNOTATION: &str = "x-mcp-header";
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// An argument that a header repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// Where it stands in the arguments.
    path: Vec<String>,
    /// As the schema has it: what comes behind [`PARAM`], in any letter case.
    pub header: String,
}

/// The arguments that a schema wants in headers, or why what it says of them is invalid: then clients must not use the tool.
pub fn repeated(schema: &str) -> Result<Vec<Repeated>, String> {
    // A schema is looked into only if it can have any.
    if memchr::memmem::find(schema.as_bytes(), ANNOTATION.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    if schema.get(ANNOTATION).is_some() || is_off_path(&schema, true) {
        return Err(format!("`{ANNOTATION}` stands where no property is"));
    }
    let mut found = Vec::new();
    collect(&schema, &mut Vec::new(), &mut BTreeSet::new(), &mut found)?;
    Ok(found)
}

/// Those of one property stand together, its own before those within.
fn collect(
    schema: &Value,
    path: &mut Vec<String>,
    seen: &mut BTreeSet<String>,
    found: &mut Vec<Repeated>,
) -> Result<(), String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(header) = property.get(ANNOTATION) {
            let at = path.join(".");
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            let header = header.as_str().filter(|header| !header.is_empty() && header.chars().all(token));
            let Some(header) = header else { return Err(format!("`{ANNOTATION}` of `{at}` is no name of a header")) };
            if !matches!(property.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
                return Err(format!(
                    "`{ANNOTATION}` of `{at}`, which is neither a string nor an integer nor a boolean"
                ));
            }
            if !seen.insert(header.to_ascii_lowercase()) {
                return Err(format!("`{ANNOTATION}` of `{at}` repeats `{header}`"));
            }
            found.push(Repeated { path: path.clone(), header: header.to_owned() });
        }
        collect(property, path, seen, found)?;
        path.pop();
    }
    Ok(())
}

/// Whether an annotation stands elsewhere than on a property that is reached through `properties` alone.
fn is_off_path(schema: &Value, on_path: bool) -> bool {
    let Some(members) = schema.as_object() else {
        return schema.as_array().is_some_and(|items| items.iter().any(|item| is_off_path(item, false)));
    };
    let any = |map: &Value, on_path| map.as_object().is_some_and(|map| map.values().any(|it| is_off_path(it, on_path)));
    members.iter().any(|(key, value)| match key.as_str() {
        ANNOTATION => !on_path,
        "properties" => any(value, on_path),
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => any(value, false),
        "default" | "const" | "enum" | "examples" | "dependentRequired" => false,
        _ => is_off_path(value, false),
    })
}

/// The texts of these in `arguments`; `None` for one that is not there, or null. Each object on the way is read once.
pub fn values<'a>(arguments: &'a str, repeated: &[Repeated]) -> Vec<Option<&'a str>> {
    let mut found = Vec::with_capacity(repeated.len());
    if !repeated.is_empty() {
        find(Some(arguments), 0, repeated, &mut found);
    }
    found
}

fn find<'a>(object: Option<&'a str>, depth: usize, repeated: &[Repeated], found: &mut Vec<Option<&'a str>>) {
    let object = object.and_then(Object::parse);
    for of_one in repeated.chunk_by(|one, next| one.path[depth] == next.path[depth]) {
        let value = object.as_ref().and_then(|object| object.get(&of_one[0].path[depth]));
        let value = value.filter(|value| *value != "null");
        let own = of_one.iter().take_while(|it| it.path.len() == depth + 1).count();
        found.extend(std::iter::repeat_n(value, own));
        if own < of_one.len() {
            find(value, depth + 1, &of_one[own..], found);
        }
    }
}

/// A value as it may stand in a header: as it is, or in Base64 where it could not or would be taken for that.
pub fn encoded(value: &str) -> String {
    let blank = |c: char| c == ' ' || c == '\t';
    let odd = value.starts_with(blank)
        || value.ends_with(blank)
        || value.chars().any(|c| !(' '..='~').contains(&c))
        || value.starts_with(ENCODED.0) && value.ends_with(ENCODED.1);
    if !odd {
        return value.to_owned();
    }
    format!("{}{}{}", ENCODED.0, BASE64_STANDARD.encode(value), ENCODED.1)
}

/// What a header's value says; `None` where it is no Base64 though it claims to be.
pub fn decoded(text: &str) -> Option<String> {
    match text.strip_prefix(ENCODED.0).and_then(|rest| rest.strip_suffix(ENCODED.1)) {
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_values_are_encoded() {
        for (value, want) in [
            ("plain value", "plain value"),
            ("", ""),
            ("é", "=?base64?w6k=?="),
            (" x", "=?base64?IHg=?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(encoded(value), want);
            assert_eq!(decoded(want).as_deref(), Some(value));
        }
    }

    #[test]
    fn values_that_a_header_cannot_carry_come_in_base64() {
        assert_eq!(decoded("plain").as_deref(), Some("plain"));
        assert_eq!(decoded("=?base64?w6Q=?=").as_deref(), Some("ä"));
        assert_eq!(decoded("=?base64?%?="), None);
    }

    #[test]
    fn invalid_annotations_are_told() {
        for schema in [
            r#"{"x-mcp-header":"A"}"#,
            r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
            r#"{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}"#,
            r#"{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}"#,
        ] {
            assert!(repeated(schema).is_err(), "{schema}");
        }
        for schema in ["{}", r#"{"default":{"x-mcp-header":1}}"#, r#"{"description":"x-mcp-header"}"#] {
            assert_eq!(repeated(schema), Ok(Vec::new()), "{schema}");
        }
    }

    #[test]
    fn arguments_are_found_by_their_annotation() {
        let schema = r#"{"properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "at":{"type":"object","properties":{
                "zone":{"type":"integer","x-mcp-header":"Zone"},
                "far":{"properties":{"off":{"type":"boolean","x-mcp-header":"Off"}}},
                "place":{"type":"string","x-mcp-header":"Place"}}},
            "rest":{}}}"#;
        let check = |arguments: &str, want: [Option<&str>; 4]| {
            let repeated = repeated(schema).unwrap();
            let found = values(arguments, &repeated);
            let of = |name: &str| found[repeated.iter().position(|it| it.header == name).unwrap()];
            assert_eq!(["Region", "Zone", "Off", "Place"].map(of), want, "{arguments}");
        };
        let all = r#"{"at":{"place":{},"far":{"off":true},"zone":3},"region":"eu"}"#;
        check(all, [Some("\"eu\""), Some("3"), Some("true"), Some("{}")]);
        check(r#"{"at":{"zone":null,"place":"x"}}"#, [None, None, None, Some("\"x\"")]);
        check(r#"{"at":null,"region":1}"#, [Some("1"), None, None, None]);
        check("7", [None; 4]);
    }
}
