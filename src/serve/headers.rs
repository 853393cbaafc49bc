//! Owns what the headers of a request of 2026-07-28 must say of its body (SEP-2243).
//! It answers nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use axum::http::HeaderMap;

use crate::protocol::{self, META_VERSION};
use crate::session::Refusal;
use crate::snapshot::Snapshot;
use crate::wire::{Message, Object};

pub const VERSION: &str = "mcp-protocol-version";
pub const SESSION: &str = "mcp-session-id";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
/// What the names of headers begin with that repeat arguments.
pub const PARAM: &str = "mcp-param-";
/// In the schema of an argument that a header repeats.
const ANNOTATION: &str = "x-mcp-header";

/// Compares the headers with the message: each must be there once, and say the same.
pub fn check(headers: &HeaderMap, message: &Message, snapshot: &Snapshot) -> Result<(), Refusal> {
    let params = message.params_text().and_then(Object::parse);
    let version = params.as_ref().and_then(|params| Object::parse(params.get("_meta")?)?.string(META_VERSION));
    let header_version = required(headers, VERSION)?;
    if let Some(version) = &version
        && header_version != *version
    {
        return Err(mismatch(format!(
            "header `MCP-Protocol-Version` says `{header_version}`, `_meta` says `{version}`"
        )));
    }
    let method = message.method_name();
    let named = required(headers, METHOD)?;
    if named != method {
        return Err(mismatch(format!("header `Mcp-Method` says `{named}`, the request `{method}`")));
    }
    let Some(member) = protocol::named_by(&method) else { return Ok(()) };
    let Some(name) = params.as_ref().and_then(|params| params.string(member)) else { return Ok(()) };
    let named = required(headers, NAME)?;
    if decoded(&named).as_deref() != Some(&*name) {
        return Err(mismatch(format!("header `Mcp-Name` says `{named}`, the request `{name}`")));
    }
    if method == "tools/call" {
        let arguments = params.as_ref().and_then(|params| params.get("arguments"));
        return arguments_repeated(headers, &name, arguments, snapshot);
    }
    Ok(())
}

fn mismatch(text: String) -> Refusal {
    let text = format!("{text}; the headers of a request repeat what its body says");
    Refusal { code: protocol::HEADER_MISMATCH, text, data: None }
}

/// The value of a header that must be there, once.
fn required(headers: &HeaderMap, name: &str) -> Result<String, Refusal> {
    match single(headers, name)? {
        Some(value) => Ok(value),
        None => Err(mismatch(format!("header `{name}` is missing"))),
    }
}

fn single(headers: &HeaderMap, name: &str) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("header `{name}` is there more than once")));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim_matches([' ', '\t']).to_owned())),
        Err(_) => Err(mismatch(format!("header `{name}` has characters that a header cannot carry"))),
    }
}

/// A header's value; one that a header cannot carry stands there in base64.
fn decoded(text: &str) -> Option<String> {
    match text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}

/// Arguments whose schema says that a header repeats them.
fn arguments_repeated(
    headers: &HeaderMap,
    name: &str,
    arguments: Option<&str>,
    snapshot: &Snapshot,
) -> Result<(), Refusal> {
    let Some(entry) = snapshot.catalog.by_exposed(name) else { return Ok(()) };
    let schemas = entry.schemas();
    if !schemas.0.contains(ANNOTATION) {
        return Ok(());
    }
    let schema: Value = serde_json::from_str(&schemas.0).unwrap_or_default();
    let arguments: Value = arguments.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut found = Vec::new();
    annotated(&schema, &arguments, &mut found);
    for (header, argument) in found {
        let sent = single(headers, &format!("{PARAM}{}", header.to_ascii_lowercase()))?;
        let sent = sent
            .map(|text| decoded(&text).ok_or_else(|| mismatch(format!("header `Mcp-Param-{header}` is not base64"))));
        let sent = sent.transpose()?;
        match (sent, argument) {
            (None, None) => {}
            (Some(sent), Some(argument)) if says(&sent, argument) => {}
            (None, Some(_)) => return Err(mismatch(format!("header `Mcp-Param-{header}` is missing"))),
            (Some(_), _) => return Err(mismatch(format!("header `Mcp-Param-{header}` differs from the argument"))),
        }
    }
    Ok(())
}

/// The annotated properties of a schema, also those of objects within, with their arguments.
fn annotated<'a>(schema: &'a Value, arguments: &'a Value, found: &mut Vec<(&'a str, Option<&'a Value>)>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        let argument = arguments.get(name).filter(|value| !value.is_null());
        if let Some(header) = property.get(ANNOTATION).and_then(Value::as_str) {
            found.push((header, argument));
        }
        annotated(property, argument.unwrap_or(&Value::Null), found);
    }
}

fn says(sent: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => text == sent,
        Value::Number(number) => {
            number.to_string() == sent || sent.parse::<f64>().is_ok_and(|sent| Some(sent) == number.as_f64())
        }
        Value::Bool(flag) => flag.to_string() == sent,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_a_header_cannot_carry_come_in_base64() {
        assert_eq!(decoded("plain").as_deref(), Some("plain"));
        assert_eq!(decoded("=?base64?w6Q=?=").as_deref(), Some("ä"));
        assert_eq!(decoded("=?base64?%?="), None);
    }

    #[test]
    fn arguments_are_found_by_their_annotation() {
        let schema = serde_json::json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "at": {"type": "object", "properties": {"zone": {"x-mcp-header": "Zone"}}},
            "rest": {}
        }});
        let arguments = serde_json::json!({"region": "eu", "at": {"zone": 3}});
        let mut found = Vec::new();
        annotated(&schema, &arguments, &mut found);
        found.sort_by_key(|(name, _)| *name);
        assert_eq!(found, [("Region", arguments.get("region")), ("Zone", arguments["at"].get("zone"))]);
        assert!(says("3", &arguments["at"]["zone"]) && says("eu", &arguments["region"]) && !says("", &Value::Null));
    }
}
