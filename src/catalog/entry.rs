//! Owns one tool of the catalog: its source's own JSON and how it is shown. Whatever can be read from that JSON is read when
//! it is asked for, so that 50,000 entries cost little more than their text, which is kept packed.

use std::borrow::Cow;
use std::time::Duration;

use super::edit::Edit;
use super::mending::mended;
use super::packed::Packed;
use super::schema::{self, Input, Output};
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
    pub raw: Packed,
    /// Whether it only reads, as far as the policy can tell.
    pub read_only: bool,
    /// It may be called, and is shown nowhere.
    pub hidden: bool,
    /// It is for the views that a client shows (MCP Apps, SEP-1865), and no model is told of it.
    pub app_only: bool,
    /// Whether it can be shown directly; `false` when its input schema fits no client. It can be called all the same.
    pub direct: bool,
    /// The configuration's description, where it replaces the source's.
    pub description: Option<Box<str>>,
    /// The configuration's limit for one call without progress.
    pub call_timeout: Option<Duration>,
}

impl Entry {
    /// Whether a model may be told of it.
    pub fn is_for_models(&self) -> bool {
        !self.hidden && !self.app_only
    }

    /// The tool's own JSON, of which a [`View`] is then taken.
    pub fn read(&self) -> Sheet<'_> {
        Sheet { entry: self, text: self.raw.unpack() }
    }

    /// The tool as clients see it: its source's JSON with the exposed name, every other byte as it came, save for what would
    /// make a client drop the whole list (see [`repairs`](View::repairs)) and an overridden description.
    pub fn exposed_json(&self, modern: bool) -> String {
        self.exposed_json_as(&self.name, modern)
    }

    /// [`exposed_json`](Self::exposed_json) under another name.
    pub fn exposed_json_as(&self, name: &ExposedName, modern: bool) -> String {
        self.read().exposed_json(name, modern)
    }

    /// See [`View::first_line`].
    pub fn first_line(&self) -> String {
        self.read().view().first_line()
    }

    /// See [`View::schemas`].
    pub fn schemas(&self) -> (String, Option<String>) {
        let sheet = self.read();
        let (input, output) = sheet.view().schemas();
        (input.into_owned(), output.map(str::to_owned))
    }
}

/// A tool's JSON, unpacked for as long as something is read from it.
#[derive(Debug)]
pub struct Sheet<'a> {
    entry: &'a Entry,
    text: String,
}

/// What a sheet says, its members looked up once: for those who read more than one thing from it.
#[derive(Debug)]
pub struct View<'a> {
    entry: &'a Entry,
    members: Members<'a>,
}

impl Sheet<'_> {
    pub fn view(&self) -> View<'_> {
        View { entry: self.entry, members: Members::of(&self.text).unwrap_or_default() }
    }

    fn exposed_json(&self, name: &ExposedName, modern: bool) -> String {
        let Some(members) = Members::of(&self.text) else { return self.text.clone() };
        let name = raw::quote(name.as_str());
        let description = self.entry.description.as_deref().map(raw::quote);
        let input = schema::judge_input(members.get("inputSchema"));
        let mended = mended(&members);
        let mut edit = Edit::new(&self.text, &members);
        edit.set("name", &name);
        for (key, value, _) in &mended {
            match value {
                Some(value) => edit.set(key, value),
                None => edit.remove(key),
            }
        }
        if let Some(description) = &description {
            edit.set("description", description);
        }
        match &input {
            Input::Keep => {}
            Input::Repaired(schema, _) => edit.set("inputSchema", schema),
            Input::Impossible(_) => edit.set("inputSchema", schema::OPEN_INPUT),
        }
        let output = members.get("outputSchema");
        match output.map(schema::judge_output) {
            Some(Output::Nobody(_)) => edit.remove("outputSchema"),
            Some(Output::ModernOnly) if !modern => edit.remove("outputSchema"),
            _ => {
                if let Some(schema) = output.and_then(|text| schema::repaired_output(text).0) {
                    edit.set("outputSchema", schema);
                }
            }
        }
        edit.finish()
    }
}

impl<'a> View<'a> {
    /// What is changed or left out when the tool is shown, one sentence each; empty for a tool that is shown as it came.
    pub fn repairs(&self) -> Vec<String> {
        let members = &self.members;
        let overridden = |key: &str| key == "description" && self.entry.description.is_some();
        let mended = mended(members).into_iter().filter(|(key, ..)| !overridden(key));
        let mut found: Vec<_> = mended.map(|(_, _, note)| note).collect();
        match schema::judge_input(members.get("inputSchema")) {
            Input::Keep => {}
            Input::Repaired(_, notes) => found.extend(notes),
            Input::Impossible(reason) => found.push(reason.to_owned()),
        }
        let output = members.get("outputSchema");
        match output.map(schema::judge_output) {
            None | Some(Output::Everyone) => {}
            Some(Output::ModernOnly) => {
                found.push("its outputSchema is left out for older clients, which want an object of objects".to_owned())
            }
            Some(Output::Nobody(reason)) => {
                found.push(format!("{reason}, so it is left out"));
                return found;
            }
        }
        found.extend(output.into_iter().flat_map(|text| schema::repaired_output(text).1));
        found
    }

    /// The description that is shown: the configuration's, else the source's.
    pub fn description(&self) -> Option<Cow<'a, str>> {
        match &self.entry.description {
            Some(text) => Some(Cow::Borrowed(text)),
            None => self.members.text_lossy("description"),
        }
    }

    /// The display title: the tool's own, else that of its annotations.
    pub fn title(&self) -> Option<Cow<'a, str>> {
        let own = self.members.text_lossy("title");
        own.or_else(|| Members::of(self.members.get("annotations")?)?.text_lossy("title"))
    }

    /// The first sentence of the description as one line of at most 160 characters; the title where there is none.
    pub fn first_line(&self) -> String {
        let description = self.description().unwrap_or_default();
        let line = single_line(first_sentence(&description), LINE_MAX);
        if line.is_empty() { single_line(&self.title().unwrap_or_default(), LINE_MAX) } else { line }
    }

    /// The input schema as it is shown, and the output schema unless it is no schema at all; both JSON text.
    pub fn schemas(&self) -> (Cow<'a, str>, Option<&'a str>) {
        let input = self.members.get("inputSchema");
        let shown = match schema::judge_input(input) {
            Input::Repaired(schema, _) => Cow::Owned(schema),
            Input::Keep | Input::Impossible(_) => Cow::Borrowed(input.unwrap_or(schema::OPEN_INPUT)),
        };
        let output = self.members.get("outputSchema").filter(|text| raw::kind(text) == Kind::Object);
        (shown, output)
    }

    /// The arguments in one line.
    pub fn signature(&self) -> Signature {
        Signature::of(&self.schemas().0)
    }

    /// A member of the tool's JSON.
    pub(crate) fn member(&self, key: &str) -> Option<&'a str> {
        self.members.get(key)
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
            app_only: false,
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

    /// One member of the wrong type made clients that check the list drop every tool in it.
    #[test]
    fn what_no_client_takes_is_left_out_and_nothing_else() {
        let base = r#""inputSchema":{"type":"object","properties":{}},"x-odd":[null, 1e400]"#;
        for (bad, shown) in [
            (r#""description":7"#, None),
            (r#""description":null"#, None),
            (r#""title":5"#, None),
            (r#""_meta":5"#, None),
            (r#""_meta":null"#, None),
            (r#""icons":"x""#, None),
            (r#""icons":null"#, None),
            (r#""icons":[{"src":5}]"#, None),
            (r#""icons":[{"src":"a","theme":"blue"}]"#, None),
            (r#""icons":[{"src":"a","sizes":"48x48"}]"#, None),
            (r#""execution":[]"#, None),
            (r#""execution":{"taskSupport":"maybe"}"#, Some(r#""execution":{}"#)),
            (r#""execution":{"taskSupport":null,"x":1}"#, Some(r#""execution":{"x":1}"#)),
            (r#""annotations":[]"#, None),
            (r#""annotations":null"#, None),
            (
                r#""annotations":{"readOnlyHint":"yes", "openWorldHint" : true,"title":5, "x":[ ]}"#,
                Some(r#""annotations":{"openWorldHint" : true, "x":[ ]}"#),
            ),
            (r#""outputSchema":{"type":"object","properties":{"a":{"pattern":"("}}}"#, None),
        ] {
            for raw in [format!("{{{bad},\"name\":\"t\",{base}}}"), format!("{{\"name\":\"t\",{bad}, {base}}}")] {
                let tool = entry(&raw);
                let (gone, kept) = (format!("{bad},"), shown.map(|shown| format!("{shown},")));
                let kept = kept.as_deref().unwrap_or_default();
                let shown = raw.replace(&gone, kept).replace("\"t\", \"", "\"t\",\"").replace("\"t\"", "\"s__t\"");
                let found = tool.exposed_json(false).replace("\"s__t\", \"", "\"s__t\",\"");
                assert_eq!(found, shown, "{raw}");
                let repairs = tool.read().view().repairs();
                assert_eq!(repairs.len(), 1, "{raw}: {repairs:?}");
            }
        }
        for good in [
            r#""icons":[{"src":"a","sizes":["1x1"],"theme":"dark","mimeType":"b","x":5}],"execution":{}"#,
            r#""annotations":{"readOnlyHint":false,"title":"","x":null},"_meta":{"a":null},"title":"","description":"""#,
        ] {
            let tool = entry(&format!("{{\"name\":\"t\",{good},{base}}}"));
            assert_eq!(tool.exposed_json(false), format!("{{\"name\":\"s__t\",{good},{base}}}"));
            assert_eq!(tool.read().view().repairs(), [""; 0]);
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
        let read = entry(
            r#"{"name":"t","description":"Reads\n a file. More.","annotations":{"title":"Read"},"outputSchema":{"a":1}}"#,
        );
        let sheet = read.read();
        let tool = sheet.view();
        assert_eq!(tool.first_line(), "Reads a file.");
        assert_eq!(tool.title().as_deref(), Some("Read"));
        assert_eq!(tool.schemas(), (Cow::Borrowed(schema::OPEN_INPUT), Some(r#"{"a":1}"#)));
        assert_eq!(tool.signature().text, "()");
        assert_eq!(tool.repairs().len(), 2);
        let bare = entry(r#"{"name":"t","title":"Top","outputSchema":true}"#);
        let sheet = bare.read();
        let bare = sheet.view();
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
