//! Owns the reading of the arguments of the relay's own tools, and what is said of those that cannot be read.
//! Which there are is told by each tool's input schema alone.

use serde::de::DeserializeOwned;

use crate::call::{CallError, ErrorKind};
use crate::wire::Object;
use crate::wire::raw::{self, Kind};

/// What models write for `toolset` as well.
const FOR_TOOLSET: &[&str] = &["source", "name", "id"];

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
        Some(text) => crate::wire::unquoted(text).unwrap_or(text.into()),
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
    serde_json::from_str(&text).map_err(|error| complaint(&error.to_string(), &object, &known))
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
        let schema = known.get(&member.key).or_else(|| known.get("toolset"))?;
        misfit(member.value, schema).map(|wanted| format!("`{}` is to be {wanted}", member.key))
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
        "string" => (kind == Kind::Text, "a string"),
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
    }

    const SCHEMA: &str = r#"{"type":"object","properties":{"toolset":{"type":"string"},"limit":{"type":"integer"},"tools":{"type":"array","items":{"type":"string"}},"cancel":{"type":"boolean"},"detail":{"enum":["brief","full"]}}}"#;

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
            (r#"{"toolset":"a","limit":"9"}"#, "`limit` is to be a whole number that is not negative"),
            (r#"{"toolset":"a","limit":-1}"#, "`limit` is to be a whole number that is not negative"),
            (r#"{"toolset":"a","limit":1.5}"#, "`limit` is to be a whole number that is not negative"),
            (r#"{"toolset":"a","tools":"b"}"#, "`tools` is to be a list, of strings only"),
            (r#"{"toolset":"a","tools":["b",5]}"#, "`tools` is to be a list, of strings only"),
            (r#"{"toolset":"a","cancel":"yes"}"#, "`cancel` is to be true or false"),
            (r#"{"toolset":"a","detail":"much"}"#, r#"`detail` is to be one of "brief", "full""#),
            (
                r#"{"toolset":"a","lmit":1}"#,
                "there is no `lmit`; known are `toolset`, `limit`, `tools`, `cancel`, `detail`",
            ),
        ] {
            assert_eq!(read_as::<Arguments>(Some(text), SCHEMA).unwrap_err(), why, "{text}");
        }
        assert!(read_as::<Arguments>(Some(r#""{\"name\":\"a\",\"limit\":null}""#), SCHEMA).is_ok());
        let none = read_as::<serde::de::IgnoredAny>(Some(r#"{"x":1}"#), r#"{"type":"object","properties":{}}"#);
        assert_eq!(none.unwrap_err(), "there is no `x`; it takes none");
    }
}
