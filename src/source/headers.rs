//! Owns the headers in which a modern HTTP source is told what a body says (SEP-2243): method, name, and the arguments
//! that its tools ask for. It sends nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::session::VERSION;
use crate::protocol;
use crate::wire::{Message, Object};

/// What a property's schema says when its value is wanted in a header.
pub const ANNOTATION: &str = "x-mcp-header";
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// The path to an argument, and the header that repeats it.
type Wanted = Vec<(Vec<String>, String)>;

/// The arguments that tools want in headers, learnt from the lists that came over this connection.
#[derive(Default)]
pub struct ParamHeaders(Mutex<BTreeMap<String, Wanted>>);

impl ParamHeaders {
    /// Takes note of a reply to `tools/list`.
    pub fn learn(&self, reply: &Message) {
        let Some(result) = reply.result.and_then(|span| Object::parse(reply.text(span))) else { return };
        let tools =
            result.get("tools").and_then(|tools| serde_json::from_str::<Vec<&serde_json::value::RawValue>>(tools).ok());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools.unwrap_or_default() {
            let Some(tool) = Object::parse(tool.get()) else { continue };
            let Some(name) = tool.string("name") else { continue };
            match tool.get("inputSchema").and_then(|schema| wanted(schema).ok()).filter(|wanted| !wanted.is_empty()) {
                Some(wanted) => drop(known.insert(name.into_owned(), wanted)),
                None => drop(known.remove(&*name)),
            }
        }
    }

    /// The headers of a request.
    pub fn of(&self, message: &Message) -> HeaderMap {
        let method = message.method_name();
        let mut headers = HeaderMap::new();
        headers.insert(VERSION, HeaderValue::from_static(protocol::MODERN));
        add(&mut headers, "mcp-method", &method);
        let params = message.params_text().and_then(Object::parse);
        let (Some(params), Some(member)) = (params, protocol::named_by(&method)) else { return headers };
        let Some(name) = params.string(member) else { return headers };
        add(&mut headers, "mcp-name", &name);
        if method != "tools/call" {
            return headers;
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let arguments = params.get("arguments").unwrap_or("{}");
        for (path, header) in known.get(&*name).into_iter().flatten() {
            if let Some(value) = value_at(arguments, path) {
                add(&mut headers, &format!("mcp-param-{header}"), &value);
            }
        }
        headers
    }
}

fn add(headers: &mut HeaderMap, name: &str, value: &str) {
    let sent = HeaderValue::from_str(&encoded(value));
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()), sent) {
        headers.insert(name, value);
    }
}

/// A value as it may stand in a header: as it is, or in Base64 where it could not or would be taken for that.
fn encoded(value: &str) -> String {
    let blank = |c: char| c == ' ' || c == '\t';
    let odd = value.starts_with(blank)
        || value.ends_with(blank)
        || value.chars().any(|c| !(' '..='~').contains(&c))
        || value.starts_with(ENCODED.0) && value.ends_with(ENCODED.1);
    if !odd {
        return value.to_owned();
    }
    format!("{}{}{}", ENCODED.0, base64::prelude::BASE64_STANDARD.encode(value), ENCODED.1)
}

/// The text of a plain value within an object.
fn value_at(object: &str, path: &[String]) -> Option<String> {
    let (last, before) = path.split_last()?;
    let mut text = object;
    for step in before {
        text = Object::parse(text)?.get(step)?;
    }
    let value = Object::parse(text)?.get(last)?;
    match value.as_bytes().first()? {
        b'"' => crate::wire::unquoted(value).map(|text| text.into_owned()),
        b'{' | b'[' | b'n' => None,
        _ => Some(value.to_owned()),
    }
}

/// The arguments that a tool wants in headers, or why what it says of them is invalid: then clients must not use it.
pub fn wanted(schema: &str) -> Result<Wanted, String> {
    // A schema is looked into only if it can have any.
    if memchr::memmem::find(schema.as_bytes(), ANNOTATION.as_bytes()).is_none() {
        return Ok(Wanted::new());
    }
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    if schema.get(ANNOTATION).is_some() || is_off_path(&schema, true) {
        return Err(format!("`{ANNOTATION}` stands where no property is"));
    }
    let mut found = Wanted::new();
    collect(&schema, &mut Vec::new(), &mut BTreeSet::new(), &mut found)?;
    Ok(found)
}

fn collect(
    schema: &Value,
    path: &mut Vec<String>,
    seen: &mut BTreeSet<String>,
    found: &mut Wanted,
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
            found.push((path.clone(), header.to_owned()));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(schema: &str) -> ParamHeaders {
        let headers = ParamHeaders::default();
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}}}"#);
        headers.learn(&Message::parse(line.into()).unwrap());
        headers
    }

    fn sent(headers: &ParamHeaders, name: &str, arguments: &str) -> Vec<String> {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
        );
        let headers = headers.of(&Message::parse(line.into()).unwrap());
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn a_call_says_in_headers_what_its_body_says() {
        let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
            "flag":{"type":"boolean","x-mcp-header":"Flag"},"plain":{"type":"string"}}}"#;
        let headers = learnt(schema);
        let mut got = sent(&headers, "t", r#"{"region":" é","deep":{"n":12},"flag":true,"plain":"x"}"#);
        got.sort();
        let want = [
            "mcp-method: tools/call",
            "mcp-name: t",
            "mcp-param-flag: true",
            "mcp-param-n: 12",
            "mcp-param-region: =?base64?IMOp?=",
            "mcp-protocol-version: 2026-07-28",
        ];
        assert_eq!(got, want);
        assert_eq!(sent(&headers, "t", r#"{"region":null,"deep":1}"#).len(), 3);
        assert_eq!(sent(&headers, "other", r#"{"region":"x"}"#).len(), 3);
    }

    #[test]
    fn other_requests_name_what_they_are_about() {
        for (method, params, want) in [
            ("prompts/get", r#"{"name":"p"}"#, Some("p")),
            ("resources/read", r#"{"uri":"file:///é"}"#, Some("=?base64?ZmlsZTovLy/DqQ==?=")),
            ("tasks/get", r#"{"taskId":"7"}"#, Some("7")),
            ("tools/list", "{}", None),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let headers = ParamHeaders::default().of(&Message::parse(line.into()).unwrap());
            assert_eq!(headers.get("mcp-name").map(|name| name.to_str().unwrap()), want, "{method}");
        }
    }

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
        }
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
            assert!(wanted(schema).is_err(), "{schema}");
        }
        for schema in ["{}", r#"{"default":{"x-mcp-header":1}}"#, r#"{"description":"x-mcp-header"}"#] {
            assert_eq!(wanted(schema), Ok(Vec::new()), "{schema}");
        }
    }
}
