//! `call_tool`: the dispatcher. Here its arguments are read, as leniently as is safe; the call itself takes the same path
//! as a direct one.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::call::{CallError, ErrorKind, written_arguments};
use crate::catalog::Entry;
use crate::dispatch::{self, Asked, Resolved};
use crate::snapshot::Snapshot;
use crate::wire::raw::{self, Kind};
use crate::wire::{Object, unquoted};

pub const SCHEMA: &str = r#"{"type":"object","properties":{"source":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"}},"required":["source","tool"]}"#;

pub fn description(snapshot: &Snapshot) -> String {
    let shown: Vec<&str> = ["find_tools", "enable_toolset"].into_iter().filter(|own| snapshot.shows(own)).collect();
    let shown = match &shown[..] {
        [] => String::new(),
        [one] => format!(" ({one} shows it)"),
        several => format!(" ({} show it)", several.join(" and ")),
    };
    format!(
        "Calls any tool of any source, opened or not, in your tool list or not, and gives its own result. `arguments` is the \
         object that the tool itself takes{shown}."
    )
}

/// What models write for the members, where those are not there.
const SAID_FOR: &[(&str, &[&str])] = &[
    ("source", &["server", "toolset"]),
    ("tool", &["name", "tool_name"]),
    ("arguments", &["args", "params", "parameters", "input"]),
];

/// What is to be called, read from the dispatcher's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner<'a> {
    pub source: Option<String>,
    pub tool: String,
    /// The text of an object; a part of the message where it can be. `None`: there are none.
    pub arguments: Option<Cow<'a, str>>,
    /// Under which other name the arguments were given.
    given_as: Option<&'static str>,
}

impl Inner<'_> {
    /// The relay's own tool that is meant: one without a source, whatever sources name their tools. Clients do not call what
    /// they are not shown, so this is their way to it.
    pub fn own(&self) -> Option<&str> {
        let tool = self.tool.trim();
        (self.source.is_none() && tool != super::CALL_TOOL && super::is_own(tool)).then_some(tool)
    }
}

/// Reads the dispatcher's arguments. What cannot be read is refused before anything goes to a source, with the input
/// schema of the tool that was meant where that is known.
pub fn read<'a>(snapshot: &Snapshot, arguments: Option<&'a str>) -> Result<Inner<'a>, CallError> {
    let inner = parse(arguments).map_err(|mut error| {
        if let Some((source, tool)) = error.source.clone().zip(error.tool.clone()) {
            let source = Some(source).filter(|source| !source.is_empty());
            match target(snapshot, source, tool) {
                Some(entry) => return error.of(entry),
                None => error.source = None,
            }
        }
        error.tool = Some(super::CALL_TOOL.to_owned());
        error.input_schema = RawValue::from_string(SCHEMA.to_owned()).ok();
        error
    })?;
    if let Some(given_as) = inner.given_as {
        let asked = Asked::Dispatched { source: inner.source.clone(), tool: inner.tool.clone() };
        match dispatch::resolve(snapshot, &asked) {
            Resolved::Route(route) => {
                let entry = snapshot.catalog.find(route.source.id.as_str(), route.tool.as_str());
                // It may be an argument of its own that was not put into `arguments`.
                if let Some(entry) = entry.filter(|entry| may_take(entry, given_as)) {
                    return Err(stray(given_as).of(entry));
                }
            }
            // What the tool takes is not known.
            Resolved::NotYet(_) => return Err(stray(given_as)),
            Resolved::Refused(_) => {}
        }
    }
    if inner.arguments.as_deref().is_some_and(is_schema)
        && let Some(entry) = target(snapshot, inner.source.clone(), inner.tool.clone())
        // It may have arguments of its own by which it would be taken for one that was sent its schema.
        && !takes(entry, &["properties", "type"])
    {
        return Err(refused("the inner `arguments` are a schema instead of values").of(entry));
    }
    Ok(inner)
}

/// The tool that is meant.
fn target(snapshot: &Snapshot, source: Option<String>, tool: String) -> Option<&Entry> {
    match dispatch::resolve(snapshot, &Asked::Dispatched { source, tool }) {
        Resolved::Route(route) => snapshot.catalog.find(route.source.id.as_str(), route.tool.as_str()),
        Resolved::NotYet(_) | Resolved::Refused(_) => None,
    }
}

/// Whether arguments look like what a tool's `inputSchema` does: some models send that back.
fn is_schema(text: &str) -> bool {
    text.contains("\"properties\"")
        && Object::parse(text).is_some_and(|object| {
            let properties = object.get("properties").and_then(Object::parse);
            object.get("type") == Some("\"object\"")
                && properties.is_some_and(|found| found.members.iter().all(|one| raw::kind(one.value) == Kind::Object))
        })
}

/// Whether a tool takes an argument of one of these names.
fn takes(entry: &Entry, names: &[&str]) -> bool {
    let schemas = entry.schemas();
    let properties = Object::parse(&schemas.0).and_then(|schema| Object::parse(schema.get("properties")?));
    properties.is_some_and(|found| names.iter().any(|name| found.get(name).is_some()))
}

/// Keywords of a schema's root by which it may take what its `properties` do not name.
#[rustfmt::skip]
const ELSEWHERE: &[&str] = &[
    "$dynamicRef", "$recursiveRef", "$ref", "allOf", "anyOf", "dependencies", "dependentSchemas", "if", "oneOf",
    "patternProperties",
];

/// Whether a tool may take an argument of this name, wherever its schema would say so.
fn may_take(entry: &Entry, name: &str) -> bool {
    let schemas = entry.schemas();
    let Some(schema) = Object::parse(&schemas.0) else { return true };
    let required = schema.get("required").and_then(raw::elements).unwrap_or_default();
    takes(entry, &[name])
        || ELSEWHERE.iter().any(|key| schema.get(key).is_some())
        || required.into_iter().any(|required| raw::string(required).as_deref() == Some(name))
}

fn parse(arguments: Option<&str>) -> Result<Inner<'_>, CallError> {
    let Some(raw) = arguments else { return Err(refused("`arguments` is missing")) };
    match unquoted(raw) {
        // A model that wrote the object as a text.
        Some(text) => read_object(&text)
            .map(|inner| Inner { arguments: inner.arguments.map(|text| Cow::Owned(text.into_owned())), ..inner }),
        None => read_object(raw),
    }
}

fn read_object(text: &str) -> Result<Inner<'_>, CallError> {
    let Some(object) = Object::parse(text) else { return Err(refused("it is no JSON object")) };
    let given = |name: &str| object.get(name).filter(|raw| *raw != "null");
    // The name under which a member is given: its own, else the only one of those that models write for it.
    let key = |name: &'static str| {
        let others = SAID_FOR.iter().find(|(own, _)| *own == name).map_or(&[][..], |(_, others)| others);
        let mut there = others.iter().copied().filter(|other| given(other).is_some());
        match (given(name), there.next(), there.next()) {
            (None, Some(other), None) => other,
            _ => name,
        }
    };
    let keys = [key("source"), key("tool"), key("arguments")];
    if let Some(name) = object.ambiguous(&["source", "tool", "arguments"]).or_else(|| object.ambiguous(&keys)) {
        return Err(refused(&format!("`{name}` stands there more than once, or in another letter case")));
    }
    let named = |name: &str| match given(name) {
        None => Ok(None),
        Some(raw) => match unquoted(raw) {
            Some(text) if !text.trim().is_empty() => Ok(Some(text.into_owned())),
            Some(_) => Ok(None),
            None => Err(refused(&format!("`{name}` is no string"))),
        },
    };
    // A tool's name may begin or end with a blank.
    let (source, tool) = (named(keys[0])?.map(|source| source.trim().to_owned()), named(keys[1])?);
    let Some(tool) = tool else { return Err(refused("`tool` is missing")) };
    let known = |name: &str| matches!(name, "source" | "tool" | "arguments") || keys.contains(&name);
    if let Some(found) = object.members.iter().map(|member| &member.key).find(|name| !known(name)) {
        return Err(stray(found));
    }
    let given_as = Some(keys[2]).filter(|key| *key != "arguments");
    let arguments = read_arguments(object.get(keys[2])).map_err(|why| match given_as {
        Some(given_as) => stray(given_as),
        // Which tool was meant is known; an empty source is one that was left out.
        None => refused(why).at(source.as_deref().unwrap_or_default(), Some(&tool)),
    })?;
    Ok(Inner { source, tool, arguments, given_as })
}

fn stray(name: &str) -> CallError {
    refused(&format!("`{name}` does not belong here; what the tool takes goes into `arguments`"))
}

/// The inner arguments: absent, null, an object, or a text that holds one.
fn read_arguments(raw: Option<&str>) -> Result<Option<Cow<'_, str>>, &'static str> {
    let Some(raw) = raw.filter(|raw| *raw != "null") else { return Ok(None) };
    if raw.starts_with('{') {
        return Ok(Some(Cow::Borrowed(raw)));
    }
    let text = unquoted(raw).ok_or("the inner `arguments` is no object")?;
    let written =
        written_arguments(&text).map_err(|_| "the inner `arguments` is a string that holds no JSON object")?;
    Ok(written.map(Cow::Owned))
}

fn refused(why: &str) -> CallError {
    CallError::new(
        ErrorKind::InvalidArguments,
        format!("this call cannot be read: {why}"),
        "send {\"source\": \"..\", \"tool\": \"..\", \"arguments\": {..}} with the tool's own arguments in `arguments`",
    )
}

impl CallError {
    /// The failure of a call of that tool, with the input schema that its arguments should fit.
    fn of(self, entry: &Entry) -> Self {
        let mut error = self.at(entry.source.as_str(), Some(entry.tool.as_str()));
        error.input_schema = RawValue::from_string(entry.schemas().0).ok();
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source, tool, arguments; or the complaint.
    fn check(text: &str, want: Result<(Option<&str>, &str, Option<&str>), &str>) {
        let got = parse(Some(text));
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
        check(r#"{"source":"s","tool":"t","arguments":"null"}"#, Ok((Some("s"), "t", None)));
        check(r#"{"source":"s","tool":"t","arguments":"{\n\"a\":1}"}"#, Ok((Some("s"), "t", Some(r#"{ "a":1}"#))));
        check(r#"{"name":"a__x","arguments":{"b":1}}"#, Ok((None, "a__x", Some(r#"{"b":1}"#))));
        check(r#"{"server":"s","tool_name":"t","args":{}}"#, Ok((Some("s"), "t", Some("{}"))));
        check(r#"{"toolset":"s","tool":"t","params":"{\"a\":1}"}"#, Ok((Some("s"), "t", Some(r#"{"a":1}"#))));
        check(
            r#"{"source":null,"server":"s","tool":"t","arguments":null,"input":{}}"#,
            Ok((Some("s"), "t", Some("{}"))),
        );
        check(r#""{\"source\":\"s\",\"tool\":\"t\",\"arguments\":{}}""#, Ok((Some("s"), "t", Some("{}"))));
    }

    #[test]
    fn blanks_around_the_name_of_a_tool_belong_to_it() {
        check(r#"{"source":" s ","tool":"delete "}"#, Ok((Some("s"), "delete ", None)));
        check(r#"{"source":" ","tool":" "}"#, Err("`tool` is missing"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        check(r#"{"source":"s"}"#, Err("`tool` is missing"));
        check(r#"{"source":"s","tool":7}"#, Err("`tool` is no string"));
        check(r#"{"source":"s","tool":"t","arguments":"not json"}"#, Err("holds no JSON object"));
        check(r#"{"source":"s","tool":"t","arguments":[1]}"#, Err("is no object"));
        check(r#"{"source":"s","tool":"t","path":"x"}"#, Err("`path` does not belong here"));
        check(r#"{"tool":"a","tool":"b"}"#, Err("more than once"));
        check(r#"{"name":"a","name":"b"}"#, Err("more than once"));
        check(r#"{"tool":"a","name":"b"}"#, Err("`name` does not belong here"));
        check(r#"{"source":"a","server":"b","tool":"t"}"#, Err("`server` does not belong here"));
        check(r#"{"tool":"t","args":{},"params":{}}"#, Err("`args` does not belong here"));
        check(r#"{"tool":"t","arguments":{},"params":{}}"#, Err("`params` does not belong here"));
        check(r#"{"tool":"t","input":"some text"}"#, Err("`input` does not belong here"));
        check("[]", Err("no JSON object"));
        assert!(parse(None).is_err());
    }

    #[test]
    fn schemas_are_told_from_values() {
        for text in [
            r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#,
            r#"{"properties":{},"type":"object"}"#,
        ] {
            assert!(is_schema(text), "{text}");
        }
        for text in [
            r#"{"type":"object","properties":{"a":1}}"#,
            r#"{"properties":{}}"#,
            r#"{"a":{"type":"object","properties":{}}}"#,
            "{}",
        ] {
            assert!(!is_schema(text), "{text}");
        }
    }
}
