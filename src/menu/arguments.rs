//! Owns the reading of the arguments of the relay's own tools, and what is said of those that cannot be read.
//! Which there are is told by each tool's input schema alone.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::call::{CallError, ErrorKind};
use crate::wire::raw::{self, Kind};
use crate::wire::{Object, quoted, unquoted};

/// What models write for `toolset` as well.
const FOR_TOOLSET: &[&str] = &["source", "name", "id"];
/// What is searched for is no name: half a character in it costs no more than itself.
const QUERY: &str = "query";

/// Reads the arguments of one of the relay's own tools, as models send them: absent, null, an object, or its text.
pub fn read<T: DeserializeOwned>(name: &str, arguments: Option<&str>) -> Result<T, CallError> {
    let own = super::MENU.iter().find(|own| own.name == name).expect("BUG: only its own tools are read");
    read_as(arguments, own.schema).map_err(|why| {
        let mut failure = CallError::new(
            ErrorKind::InvalidArguments,
            format!("the arguments of `{name}` cannot be read: {why}"),
            "send an object that fits the tool's input schema",
        );
        failure.tool = Some(name.to_owned());
        failure.input_schema = serde_json::value::RawValue::from_string(own.schema.to_owned()).ok();
        failure
    })
}

fn read_as<T: DeserializeOwned>(arguments: Option<&str>, schema: &str) -> Result<T, String> {
    let text = match arguments {
        None | Some("null" | "\"\"") => "{}".into(),
        Some(text) => unquoted(text).unwrap_or(text.into()),
    };
    let object = Object::parse(&text).ok_or("they are no JSON object")?;
    let root = Object::parse(schema).expect("BUG: a schema of its own is an object");
    let known = Object::parse(root.get("properties").unwrap_or("{}")).expect("BUG: properties are an object");
    let is_known = |key: &str| known.get(key).is_some() || known.get("toolset").is_some() && FOR_TOOLSET.contains(&key);
    if let Some(stray) = object.members.iter().find(|member| !is_known(&member.key)) {
        let keys: Vec<_> = known.members.iter().map(|member| format!("`{}`", member.key)).collect();
        let keys = if keys.is_empty() { "it takes none".to_owned() } else { format!("known are {}", keys.join(", ")) };
        return Err(format!("there is no `{}`; {keys}", stray.key));
    }
    let required = root.get("required").and_then(raw::elements).unwrap_or_default();
    let is_required = |key: &str| required.contains(&&*quoted(if known.get(key).is_none() { "toolset" } else { key }));
    let meant = as_meant(&object, &known, is_required);
    serde_json::from_str(&meant).map_err(|error| {
        let object = Object::parse(&meant).expect("BUG: what is meant is an object");
        complaint(&error.to_string(), &object, &known)
    })
}

/// The schema of an argument.
fn schema_of<'a>(known: &Object<'a>, key: &str) -> &'a str {
    known.get(key).or_else(|| known.get("toolset")).unwrap_or("{}")
}

/// The arguments as their schemas have them, without those that say nothing and need not be there.
fn as_meant(object: &Object, known: &Object, is_required: impl Fn(&str) -> bool) -> String {
    let said = |member: &&raw::Member| is_required(&member.key) || !is_blank(member.value);
    let members = object.members.iter().filter(said).map(|member| {
        let value = match unquoted(member.value) {
            None if member.key == QUERY => raw::string_lossy(member.value).map(|text| quoted(&text).into()),
            _ => value_as_meant(member.value, schema_of(known, &member.key)),
        };
        format!("{}:{}", member.key_raw, value.unwrap_or(Cow::Borrowed(member.value)))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Whether a value stands for none.
fn is_blank(value: &str) -> bool {
    value == "null" || unquoted(value).is_some_and(|text| text.trim().is_empty())
}

/// What models write for a value of this schema, as JSON has it: a number or a list as a text, a whole number with a
/// fraction of zero, one thing where a list of them is wanted. `None`: it stays what it is.
fn value_as_meant<'a>(value: &'a str, schema: &str) -> Option<Cow<'a, str>> {
    let schema = Object::parse(schema)?;
    let text = unquoted(value).map(|text| text.trim().to_owned());
    match schema.string("type")?.as_ref() {
        "integer" => whole(text.as_deref().unwrap_or(value)).map(|number| number.to_string().into()),
        "boolean" => {
            text.map(|text| text.to_lowercase()).filter(|text| text == "true" || text == "false").map(Cow::Owned)
        }
        // A list of one, where the one is wanted.
        "string" => match raw::elements(value).as_deref() {
            Some([one]) if raw::kind(one) == Kind::Text => Some((*one).to_owned().into()),
            _ => None,
        },
        "array" => {
            let of_texts = Object::parse(schema.get("items")?)?.get("type") == Some("\"string\"");
            let alone = |one: &str| match raw::kind(one) {
                Kind::Text => of_texts,
                Kind::Object => !of_texts && Object::parse(one).is_some(),
                _ => false,
            };
            match text {
                Some(list) if raw::elements(&list).is_some() => Some(list.into()),
                Some(one) if alone(&one) => Some(format!("[{one}]").into()),
                _ => alone(value).then(|| format!("[{value}]").into()),
            }
        }
        _ => None,
    }
}

/// A whole number that is not negative, however it is written.
fn whole(text: &str) -> Option<u64> {
    let is_whole = |number: &f64| number.is_finite() && *number >= 0.0 && number.fract() == 0.0;
    // What is too large for any limit is held to the limit.
    text.parse().ok().or_else(|| text.parse().ok().filter(is_whole).map(|number: f64| number as u64))
}

/// What is wrong with arguments whose keys are all known, in the words of the schema.
fn complaint(said: &str, object: &Object, known: &Object) -> String {
    let named = |prefix: &str| said.strip_prefix(prefix)?.strip_prefix(" field `")?.split('`').next();
    if let Some(name) = named("missing") {
        return format!("`{name}` is missing");
    }
    if let Some(name) = named("duplicate") {
        return format!("`{name}` stands there more than once");
    }
    let misfit = object.members.iter().find_map(|member| {
        misfit(member.value, schema_of(known, &member.key)).map(|wanted| format!("`{}` is to be {wanted}", member.key))
    });
    misfit.unwrap_or_else(|| "a value does not fit".to_owned())
}

/// What a value should be, if it is something else.
fn misfit(value: &str, schema: &str) -> Option<String> {
    let schema = Object::parse(schema)?;
    let kind = raw::kind(value);
    if let Some(choices) = schema.get("enum") {
        let choices = raw::elements(choices)?;
        return (!choices.contains(&value)).then(|| format!("one of {}", choices.join(", ")));
    }
    let (fits, wanted) = match schema.string("type")?.as_ref() {
        "string" if kind == Kind::Text => (unquoted(value).is_some(), "a string of whole characters"),
        "string" if kind == Kind::Array => (false, "one string, not a list of them: one at a time"),
        "string" => (false, "a string"),
        "boolean" => (kind == Kind::Bool, "true or false"),
        "object" => (kind == Kind::Object, "an object"),
        "integer" => (value.parse::<u64>().is_ok(), "a whole number that is not negative"),
        "array" => {
            let items = schema.get("items").unwrap_or("{}");
            let wrong = |item: &&str| misfit(item, items).is_some();
            (raw::elements(value).is_some_and(|found| !found.iter().any(wrong)), "a list")
        }
        _ => return None,
    };
    if fits {
        return None;
    }
    let each = schema.get("items").and_then(Object::parse).and_then(|items| items.string("type"));
    Some(each.map_or_else(|| wanted.to_owned(), |each| format!("{wanted}, of {each}s only")))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Arguments {
        #[serde(alias = "source", alias = "name", alias = "id")]
        toolset: String,
        limit: Option<usize>,
        tools: Option<Vec<String>>,
        #[serde(default)]
        cancel: bool,
        detail: Option<crate::menu::find_tools::Detail>,
        calls: Option<Vec<Box<serde_json::value::RawValue>>>,
        query: Option<String>,
    }

    const SCHEMA: &str = r#"{"type":"object","properties":{"toolset":{"type":"string"},"limit":{"type":"integer"},"tools":{"type":"array","items":{"type":"string"}},"cancel":{"type":"boolean"},"detail":{"enum":["brief","full"]},"calls":{"type":"array","items":{"type":"object"}},"query":{"type":"string"}},"required":["toolset"]}"#;

    #[test]
    fn what_models_send_is_understood() {
        for (text, meant) in [
            (r#"{"limit":1.0}"#, r#"{"limit":1}"#),
            (r#"{"limit":" 12 "}"#, r#"{"limit":12}"#),
            (r#"{"limit":2e1,"cancel":"True"}"#, r#"{"limit":20,"cancel":true}"#),
            (r#"{"tools":"fx/alpha"}"#, r#"{"tools":["fx/alpha"]}"#),
            (r#"{"tools":"[\"fx/alpha\", \"b\"]"}"#, r#"{"tools":["fx/alpha", "b"]}"#),
            (r#"{"tools":["a"]}"#, r#"{"tools":["a"]}"#),
            (r#"{"calls":"[{\"tool\":\"t\"}]"}"#, r#"{"calls":[{"tool":"t"}]}"#),
            (r#"{"calls":"{\"tool\":\"t\"}"}"#, r#"{"calls":[{"tool":"t"}]}"#),
            (r#"{"calls":{"tool":"t"}}"#, r#"{"calls":[{"tool":"t"}]}"#),
            (r#"{"toolset":["a"]}"#, r#"{"toolset":"a"}"#),
            (r#"{"toolset":["a","b"]}"#, r#"{"toolset":["a","b"]}"#),
            (r#"{"calls":"t"}"#, r#"{"calls":"t"}"#),
            (r#"{"query":"","cancel":null,"detail":" ","toolset":""}"#, r#"{"toolset":""}"#),
            (r#"{"query":"1.0","id":" x "}"#, r#"{"query":"1.0","id":" x "}"#),
        ] {
            let root = Object::parse(SCHEMA).unwrap();
            let known = Object::parse(root.get("properties").unwrap()).unwrap();
            assert_eq!(as_meant(&Object::parse(text).unwrap(), &known, |key| key == "toolset"), meant, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_in_the_words_of_json() {
        for (text, why) in [
            ("[]", "they are no JSON object"),
            ("\"{oops\"", "they are no JSON object"),
            ("5", "they are no JSON object"),
            ("{}", "`toolset` is missing"),
            (r#"{"toolset":"a","id":"b"}"#, "`toolset` stands there more than once"),
            (r#"{"toolset":7}"#, "`toolset` is to be a string"),
            (r#"{"id":null}"#, "`id` is to be a string"),
            (r#"{"toolset":["a","b"]}"#, "`toolset` is to be one string, not a list of them: one at a time"),
            (r#"{"toolset":"a","limit":"nine"}"#, "`limit` is to be a whole number that is not negative"),
            (r#"{"toolset":"a","limit":"inf"}"#, "`limit` is to be a whole number that is not negative"),
            (r#"{"toolset":"\ud83d"}"#, "`toolset` is to be a string of whole characters"),
            (r#"{"toolset":"a","tools":["\ud83d"]}"#, "`tools` is to be a list, of strings only"),
            (r#"{"toolset":"a","limit":-1}"#, "`limit` is to be a whole number that is not negative"),
            (r#"{"toolset":"a","limit":1.5}"#, "`limit` is to be a whole number that is not negative"),
            (r#"{"toolset":"a","tools":5}"#, "`tools` is to be a list, of strings only"),
            (r#"{"toolset":"a","tools":"[5]"}"#, "`tools` is to be a list, of strings only"),
            (r#"{"toolset":"a","tools":["b",5]}"#, "`tools` is to be a list, of strings only"),
            (r#"{"toolset":"a","cancel":"yes"}"#, "`cancel` is to be true or false"),
            (r#"{"toolset":"a","detail":"much"}"#, r#"`detail` is to be one of "brief", "full""#),
            (
                r#"{"toolset":"a","lmit":1}"#,
                "there is no `lmit`; known are `toolset`, `limit`, `tools`, `cancel`, `detail`, `calls`, `query`",
            ),
        ] {
            assert_eq!(read_as::<Arguments>(Some(text), SCHEMA).unwrap_err(), why, "{text}");
        }
        let long = read_as::<Arguments>(Some(r#"{"toolset":"a","query":"x\ud83d y","limit":1e30}"#), SCHEMA).unwrap();
        assert_eq!((long.query.as_deref(), long.limit), (Some("x\u{fffd} y"), Some(usize::MAX)));
        assert!(read_as::<Arguments>(Some(r#""{\"name\":\"a\",\"limit\":null}""#), SCHEMA).is_ok());
        let none = read_as::<serde::de::IgnoredAny>(Some(r#"{"x":1}"#), r#"{"type":"object","properties":{}}"#);
        assert_eq!(none.unwrap_err(), "there is no `x`; it takes none");
    }
}
