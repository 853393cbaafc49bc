//! Owns one tool of the catalog: its source's own JSON and how it is shown. Whatever can be read from that JSON is read when
//! it is asked for, so that 50,000 entries cost little more than their text.

use std::borrow::Cow;
use std::time::Duration;

use super::schema::{self, Edit, Input, Output};
use super::signature::Signature;
use super::text::{LINE_MAX, first_sentence, single_line};
use crate::name::{ExposedName, SourceId, ToolName};
use crate::wire::raw::{self, Kind, Members};

/// One tool that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub source: SourceId,
    /// The tool's name as its source spells it.
    pub tool: ToolName,
    /// The name under which it is shown, unless two names meet: see [`Catalog::exposed_name`](super::Catalog::exposed_name).
    pub name: ExposedName,
    /// The tool's JSON object exactly as its source wrote it.
    pub raw: Box<str>,
    /// Whether it only reads, as far as the policy can tell.
    pub read_only: bool,
    /// It may be called, and is shown nowhere.
    pub hidden: bool,
    /// Whether it can be shown directly; `false` when its input schema fits no client. It can be called all the same.
    pub direct: bool,
    /// The configuration's description, where it replaces the source's.
    pub description: Option<Box<str>>,
    /// The configuration's limit for one call without progress.
    pub call_timeout: Option<Duration>,
}

impl Entry {
    /// The tool as clients see it: its source's JSON with the exposed name, every other byte as it came, save for what would
    /// make a client drop the whole list (see [`repairs`](Self::repairs)) and an overridden description.
    pub fn exposed_json(&self, modern: bool) -> String {
        self.exposed_json_as(&self.name, modern)
    }

    /// [`exposed_json`](Self::exposed_json) under another name.
    pub fn exposed_json_as(&self, name: &ExposedName, modern: bool) -> String {
        let Some(members) = Members::of(&self.raw) else { return self.raw.to_string() };
        let name = raw::quote(name.as_str());
        let description = self.description.as_deref().map(raw::quote);
        let input = schema::judge_input(members.get("inputSchema"));
        let mut edit = Edit::new(&self.raw, &members);
        edit.set("name", &name);
        if let Some(description) = &description {
            edit.set("description", description);
        }
        match &input {
            Input::Keep => {}
            Input::Repaired(schema) => edit.set("inputSchema", schema),
            Input::Impossible(_) => edit.set("inputSchema", schema::OPEN_INPUT),
        }
        match members.get("outputSchema").map(schema::judge_output) {
            None | Some(Output::Everyone) => {}
            Some(Output::ModernOnly) if modern => {}
            Some(Output::ModernOnly | Output::Nobody(_)) => edit.remove("outputSchema"),
        }
        edit.finish()
    }

    /// What is changed or left out when the tool is shown, one sentence each; empty for a tool that is shown as it came.
    pub fn repairs(&self) -> Vec<String> {
        let members = self.members();
        let mut found = Vec::new();
        match schema::judge_input(members.get("inputSchema")) {
            Input::Keep => {}
            Input::Repaired(_) => found.push("its inputSchema is shown as an object with `properties`".to_owned()),
            Input::Impossible(reason) => found.push(reason.to_owned()),
        }
        match members.get("outputSchema").map(schema::judge_output) {
            None | Some(Output::Everyone) => {}
            Some(Output::ModernOnly) => {
                found.push("its outputSchema is left out for older clients: no object".to_owned())
            }
            Some(Output::Nobody(reason)) => found.push(format!("{reason}, so it is left out")),
        }
        found
    }

    /// The description that is shown: the configuration's, else the source's.
    pub fn description(&self) -> Option<Cow<'_, str>> {
        match &self.description {
            Some(text) => Some(Cow::Borrowed(text)),
            None => self.members().text("description"),
        }
    }

    /// The display title: the tool's own, else that of its annotations.
    pub fn title(&self) -> Option<Cow<'_, str>> {
        let members = self.members();
        members.text("title").or_else(|| Members::of(members.get("annotations")?)?.text("title"))
    }

    /// The first sentence of the description as one line of at most 160 characters; the title where there is none.
    pub fn first_line(&self) -> String {
        let description = self.description().unwrap_or_default();
        let line = single_line(first_sentence(&description), LINE_MAX);
        if line.is_empty() { single_line(&self.title().unwrap_or_default(), LINE_MAX) } else { line }
    }

    /// The input schema as it is shown, and the output schema unless it is no schema at all; both JSON text.
    pub fn schemas(&self) -> (Cow<'_, str>, Option<&str>) {
        let members = self.members();
        let input = members.get("inputSchema");
        let shown = match schema::judge_input(input) {
            Input::Repaired(schema) => Cow::Owned(schema),
            Input::Keep | Input::Impossible(_) => Cow::Borrowed(input.unwrap_or(schema::OPEN_INPUT)),
        };
        let output = members.get("outputSchema").filter(|text| raw::kind(text) == Kind::Object);
        (shown, output)
    }

    /// The arguments in one line.
    pub fn signature(&self) -> Signature {
        Signature::of(&self.schemas().0)
    }

    pub(crate) fn members(&self) -> Members<'_> {
        Members::of(&self.raw).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(raw: &str) -> Entry {
        let source = SourceId::new("s").unwrap();
        let tool = ToolName::new("t");
        Entry {
            name: ExposedName::of(&source, "s", &tool),
            source,
            tool,
            raw: raw.into(),
            read_only: false,
            hidden: false,
            direct: true,
            description: None,
            call_timeout: None,
        }
    }

    #[test]
    fn only_the_name_is_changed() {
        let schema = r#"{"type":"object","properties":{"name":{"name":1,"name":2}},"x":1e400}"#;
        for (raw, shown) in [
            (r#"{"name":"t","inputSchema":%}"#, r#"{"name":"s__t","inputSchema":%}"#),
            (
                r#"{ "x-future":[1E5], "inputSchema" : %, "n\u0061me" : "\u0074" }"#,
                r#"{ "x-future":[1E5], "inputSchema" : %, "n\u0061me" : "s__t" }"#,
            ),
            (
                r#"{"name":"x","_meta":{"name":"t"},"inputSchema":%,"name":"t"}"#,
                r#"{"name":"s__t","_meta":{"name":"t"},"inputSchema":%,"name":"s__t"}"#,
            ),
        ] {
            assert_eq!(entry(&raw.replace('%', schema)).exposed_json(false), shown.replace('%', schema));
        }
    }

    #[test]
    fn schemas_are_repaired_only_when_they_must() {
        let base = r#"{"name":"s__t","inputSchema":{"type":"object","properties":{}}"#;
        for (raw, legacy, modern) in [
            (r#"{"name":"t"}"#, "}", "}"),
            (r#"{"name":"t","inputSchema":null}"#, "}", "}"),
            (r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":null}"#, "}", "}"),
            (
                r#"{"name":"t","inputSchema":{},"outputSchema":{"type":"array"}}"#,
                "}",
                r#","outputSchema":{"type":"array"}}"#,
            ),
            (r#"{"outputSchema":{"$ref":"\u0023/$defs/A"},"name":"t","inputSchema":true}"#, "}", "}"),
            (
                r#"{"name":"t","inputSchema":{},"outputSchema":{"type":"object"}}"#,
                r#","outputSchema":{"type":"object"}}"#,
                r#","outputSchema":{"type":"object"}}"#,
            ),
        ] {
            assert_eq!(entry(raw).exposed_json(false), format!("{base}{legacy}"), "{raw}");
            assert_eq!(entry(raw).exposed_json(true), format!("{base}{modern}"), "{raw}");
        }
    }

    #[test]
    fn descriptions_are_replaced_or_added() {
        let schema = r#""inputSchema":{"type":"object","properties":{}}"#;
        for (raw, shown) in [
            (
                format!(r#"{{"description":"old","name":"t",{schema}}}"#),
                format!(r#"{{"description":"n\"ew","name":"s__t",{schema}}}"#),
            ),
            (format!(r#"{{"name":"t",{schema}}}"#), format!(r#"{{"name":"s__t",{schema},"description":"n\"ew"}}"#)),
        ] {
            let mut entry = entry(&raw);
            entry.description = Some("n\"ew".into());
            assert_eq!(entry.exposed_json(true), shown);
            assert_eq!(entry.first_line(), "n\"ew");
        }
    }

    #[test]
    fn texts_come_from_the_tool() {
        let tool = entry(
            r#"{"name":"t","description":"Reads\n a file. More.","annotations":{"title":"Read"},"outputSchema":{"a":1}}"#,
        );
        assert_eq!(tool.first_line(), "Reads a file.");
        assert_eq!(tool.title().as_deref(), Some("Read"));
        assert_eq!(tool.schemas(), (Cow::Borrowed(schema::OPEN_INPUT), Some(r#"{"a":1}"#)));
        assert_eq!(tool.signature().text, "()");
        assert_eq!(tool.repairs().len(), 2);
        let bare = entry(r#"{"name":"t","title":"Top","outputSchema":true}"#);
        assert_eq!((bare.first_line().as_str(), bare.description(), bare.schemas().1), ("Top", None, None));
    }

    /// Members as any source may write them: a key and a JSON text.
    fn members() -> impl Strategy<Value = Vec<(String, String)>> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("1e400".to_owned()),
            Just("-0.0".to_owned()),
            Just(r#""\ud800\/""#.to_owned()),
            any::<u64>().prop_map(|number| format!("{number}000")),
            any::<String>().prop_map(|text| raw::quote(&text)),
        ];
        let value = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[ {} ]", items.join(" ,"))),
                prop::collection::vec(("name|a|\\PC{0,4}", inner), 0..4).prop_map(|items| {
                    let items: Vec<_> =
                        items.iter().map(|(key, value)| format!("{} :{value}", raw::quote(key))).collect();
                    format!("{{{}}}", items.join("\n,"))
                }),
            ]
        });
        prop::collection::vec(("x\\PC{0,6}", value), 0..6)
    }

    proptest! {
        #[test]
        fn every_other_byte_stays(members in members(), at in 0_usize..7, blanks in "[ \n\t]{0,3}") {
            let write = |name: &str| {
                let mut parts: Vec<_> = members.iter().map(|(key, value)| format!("{}:{blanks}{value}", raw::quote(key))).collect();
                parts.insert(at.min(parts.len()), format!("\"name\"{blanks}:\"{name}\""));
                parts.push(r#""inputSchema":{"type":"object","properties":{"name":{}}}"#.to_owned());
                format!("{{{blanks}{}{blanks}}}", parts.join(&format!(",{blanks}")))
            };
            prop_assert_eq!(entry(&write("t")).exposed_json(true), write("s__t"));
        }
    }
}
