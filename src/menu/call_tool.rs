//! `call_tool`: the dispatcher. Here its arguments are read, as leniently as is safe; the call itself takes the same path
//! as a direct one.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::call::{CallError, ErrorKind};
use crate::catalog::Catalog;
use crate::wire::{Object, unquoted};

pub const SCHEMA: &str = r#"{"type":"object","properties":{"source":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"}},"required":["source","tool"]}"#;

pub fn description(_: &Catalog) -> String {
    "Calls any tool of any source, opened or not, in your tool list or not, and gives its own result. `arguments` is the \
     object that the tool itself takes (find_tools and enable_toolset show it)."
        .to_owned()
}

/// What is to be called, read from the dispatcher's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner<'a> {
    pub source: Option<String>,
    pub tool: String,
    /// The text of an object; a part of the message where it can be. `None`: there are none.
    pub arguments: Option<Cow<'a, str>>,
}

/// Reads the dispatcher's arguments. What cannot be read is refused before anything goes to a source.
pub fn read(arguments: Option<&str>) -> Result<Inner<'_>, CallError> {
    let Some(raw) = arguments else { return Err(refused("`arguments` is missing")) };
    match unquoted(raw) {
        // A model that wrote the object as a text.
        Some(text) => read_object(&text)
            .map(|inner| Inner { arguments: inner.arguments.map(|text| Cow::Owned(text.into_owned())), ..inner }),
        None => read_object(raw),
    }
}

fn read_object(text: &str) -> Result<Inner<'_>, CallError> {
    let Some(object) = Object::parse(text) else { return Err(refused("`arguments` is no JSON object")) };
    if let Some(name) = object.ambiguous(&["source", "tool", "arguments"]) {
        return Err(refused(&format!("`{name}` stands there more than once, or in another letter case")));
    }
    let named = |name: &str| match object.get(name).filter(|raw| *raw != "null") {
        None => Ok(None),
        Some(raw) => match unquoted(raw) {
            Some(text) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
            Some(_) => Ok(None),
            None => Err(refused(&format!("`{name}` is no string"))),
        },
    };
    let (source, tool) = (named("source")?, named("tool")?);
    let Some(tool) = tool else { return Err(refused("`tool` is missing")) };
    let known = |name: &str| matches!(name, "source" | "tool" | "arguments");
    if let Some(stray) = object.members.iter().map(|member| &member.key).find(|name| !known(name)) {
        return Err(refused(&format!("`{stray}` does not belong here; what the tool takes goes into `arguments`")));
    }
    let arguments = read_arguments(object.get("arguments"))?;
    Ok(Inner { source, tool, arguments })
}

/// The inner arguments: absent, null, an object, or a text that holds one.
fn read_arguments(raw: Option<&str>) -> Result<Option<Cow<'_, str>>, CallError> {
    let Some(raw) = raw.filter(|raw| *raw != "null") else { return Ok(None) };
    if raw.starts_with('{') {
        return Ok(Some(Cow::Borrowed(raw)));
    }
    let text = unquoted(raw).ok_or_else(|| refused("the inner `arguments` is no object"))?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    match Object::parse(&text) {
        // A message is one line; the text of a string may hold more.
        Some(_) if !text.contains(['\n', '\r']) => Ok(Some(Cow::Owned(text.trim().to_owned()))),
        Some(object) => {
            let compact: Result<Box<RawValue>, _> = serde_json::from_str(object.text);
            let one_line = compact.map(|raw| raw.get().replace(['\n', '\r'], " "));
            one_line.map(|text| Some(Cow::Owned(text))).map_err(|error| refused(&error.to_string()))
        }
        None => Err(refused("the inner `arguments` is a string that holds no JSON object")),
    }
}

fn refused(why: &str) -> CallError {
    let mut error = CallError::new(
        ErrorKind::InvalidArguments,
        format!("this call cannot be read: {why}"),
        "send {\"source\": \"..\", \"tool\": \"..\", \"arguments\": {..}} with the tool's own arguments in `arguments`",
    );
    error.tool = Some(super::CALL_TOOL.to_owned());
    error.input_schema = RawValue::from_string(SCHEMA.to_owned()).ok();
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source, tool, arguments; or the complaint.
    fn check(text: &str, want: Result<(Option<&str>, &str, Option<&str>), &str>) {
        let got = read(Some(text));
        match (got, want) {
            (Ok(inner), Ok((source, tool, arguments))) => {
                assert_eq!((inner.source.as_deref(), inner.tool.as_str()), (source, tool), "{text}");
                assert_eq!(inner.arguments.as_deref(), arguments, "{text}");
            }
            (Err(error), Err(why)) => assert!(error.message.contains(why), "{text}: {}", error.message),
            (got, want) => panic!("{text}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn what_models_send_is_understood() {
        check(r#"{"source":"s","tool":"t","arguments":{"a":1e400}}"#, Ok((Some("s"), "t", Some(r#"{"a":1e400}"#))));
        check(r#"{"source":"s","tool":"t"}"#, Ok((Some("s"), "t", None)));
        check(r#"{"source":null,"tool":"s/t","arguments":null}"#, Ok((None, "s/t", None)));
        check(r#"{"source":"s","tool":"t","arguments":"{\"a\":1}"}"#, Ok((Some("s"), "t", Some(r#"{"a":1}"#))));
        check(r#"{"source":"s","tool":"t","arguments":""}"#, Ok((Some("s"), "t", None)));
        check(r#"{"source":"s","tool":"t","arguments":"{\n\"a\":1}"}"#, Ok((Some("s"), "t", Some(r#"{ "a":1}"#))));
        check(r#""{\"source\":\"s\",\"tool\":\"t\",\"arguments\":{}}""#, Ok((Some("s"), "t", Some("{}"))));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        check(r#"{"source":"s"}"#, Err("`tool` is missing"));
        check(r#"{"source":"s","tool":7}"#, Err("`tool` is no string"));
        check(r#"{"source":"s","tool":"t","arguments":"not json"}"#, Err("holds no JSON object"));
        check(r#"{"source":"s","tool":"t","arguments":[1]}"#, Err("is no object"));
        check(r#"{"source":"s","tool":"t","path":"x"}"#, Err("`path` does not belong here"));
        check(r#"{"tool":"a","tool":"b"}"#, Err("more than once"));
        check("[]", Err("no JSON object"));
        assert!(read(None).is_err());
    }
}
