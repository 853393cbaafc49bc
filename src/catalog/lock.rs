//! Owns the form of `sources.lock`: which tools of which sources were accepted, each with its whole definition in plain
//! sight. It touches no file.
//!
//! It is JSON with one short block a tool: a hash to tell at a glance that something changed, and below it what models and
//! clients read of the tool, so that a reviewer sees in the file's own difference what changed, and `toolrelay lock --check`
//! can tell it on a machine that never saw the tool before. A description of several lines is a list of lines. All is sorted,
//! and nothing in it depends on when or where it was written. Of a tool whose texts hold a secret it has the hash alone.
//! Beside the tools stands what each source says of itself in one line (`summaries`); older files lack it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::definition::{Definition, Hash, Summary, known, text};
use super::json::{Node, quoted};
use crate::name::{SourceId, ToolName};
use crate::wire::raw::{self, Kind, Member, Members};

/// The form that this version writes and reads.
const VERSION: &str = "1";
/// What the file says of itself.
const ABOUT: &str = "Made by `toolrelay lock`: the tools as they were when they were accepted. `toolrelay lock --check` tells what differs.";
/// How long a line may be before a value is broken up.
const WIDTH: usize = 120;
/// The description, line by line.
const LINES: &str = "descriptionLines";

/// Stands in the place of a definition that may not be shown.
const UNSHOWN: &str = "unshown";
const WHY_UNSHOWN: &str = "it holds a value that the configuration gives to the source";

/// The tools of one source.
pub type Tools = BTreeMap<ToolName, Definition>;
/// Their hashes.
pub type Hashes = BTreeMap<ToolName, Hash>;

/// What is needed of one source to tell whether it is as it was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    pub tools: Hashes,
    /// Of the line that it says of itself.
    pub summary: Option<Hash>,
}

/// What was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    pub sources: BTreeMap<SourceId, Tools>,
    /// What sources say of themselves.
    pub summaries: BTreeMap<SourceId, Summary>,
}

/// Why a text is no lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct LockFault {
    /// From 1.
    pub line: usize,
    pub cause: String,
}

impl Lock {
    /// Reads the text of a lock file. The hash of each tool must be that of what stands below it: a file whose parts do not
    /// fit was not written by `toolrelay lock`, and what was reviewed in it is not what would be accepted.
    pub fn read(text: &str) -> Result<Self, LockFault> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let reader = Reader { text };
        let conflict = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
        if let Some(at) = text.lines().position(conflict) {
            return Err(LockFault { line: at + 1, cause: "a merge was left unfinished here".to_owned() });
        }
        if text.trim().is_empty() {
            return Err(LockFault { line: 1, cause: "it is empty".to_owned() });
        }
        let whole: &RawValue = serde_json::from_str(text)
            .map_err(|error| LockFault { line: error.line().max(1), cause: format!("not JSON: {error}") })?;
        let top = reader.object(whole.get(), "the file")?;
        reader.version(whole.get(), &top)?;
        let mut lock = Self::default();
        for member in &top.0 {
            match &*member.key {
                "about" | "version" => {}
                "sources" => {
                    for source in &reader.object(member.value, "`sources`")?.0 {
                        let id = SourceId::new(&source.key).map_err(|error| reader.fault(source.key_raw, error))?;
                        if lock.sources.insert(id, reader.tools(source)?).is_some() {
                            return Err(reader.fault(source.key_raw, format!("`{}` stands here twice", source.key)));
                        }
                    }
                }
                "summaries" => {
                    for source in &reader.object(member.value, "`summaries`")?.0 {
                        let id = SourceId::new(&source.key).map_err(|error| reader.fault(source.key_raw, error))?;
                        if lock.summaries.insert(id, reader.summary(source)?).is_some() {
                            return Err(reader.fault(source.key_raw, format!("`{}` stands here twice", source.key)));
                        }
                    }
                }
                other => return Err(reader.fault(member.key_raw, format!("`{other}` does not belong here"))),
            }
        }
        Ok(lock)
    }

    /// The text of the lock file; the same for the same tools.
    pub fn text(&self) -> String {
        let mut out = format!("{{\n  \"about\": {},\n  \"version\": {VERSION},\n  \"sources\": {{", quoted(ABOUT));
        for (at, (id, tools)) in self.sources.iter().enumerate() {
            let _ = write!(out, "{}\n    {}: {{", comma(at), quoted(id.as_str()));
            for (at, (name, tool)) in tools.iter().enumerate() {
                let _ = write!(out, "{}\n      {}: {{\n", comma(at), quoted(name.as_str()));
                let _ = write!(out, "        \"hash\": \"{}\"", tool.hash);
                if tool.is_unshown {
                    let _ = write!(out, ",\n        \"{UNSHOWN}\": {}", quoted(WHY_UNSHOWN));
                }
                for (key, value) in tool.members() {
                    let (key, value) = laid_out(key, value);
                    // The key stands before it on its first line.
                    let room = WIDTH.saturating_sub(key.len() + 4);
                    let _ = write!(out, ",\n        \"{key}\": {}", value.lines(room, 8));
                }
                out.push_str("\n      }");
            }
            out.push_str(if tools.is_empty() { "}" } else { "\n    }" });
        }
        out.push_str(if self.sources.is_empty() { "}" } else { "\n  }" });
        for (at, (id, summary)) in self.summaries.iter().enumerate() {
            let open = if at == 0 { ",\n  \"summaries\": {" } else { "," };
            let _ = write!(out, "{open}\n    {}: ", quoted(id.as_str()));
            match &summary.text {
                Some(text) => out.push_str(&quoted(text)),
                None => _ = write!(out, "{{\"hash\": \"{}\", \"{UNSHOWN}\": {}}}", summary.hash, quoted(WHY_UNSHOWN)),
            }
        }
        out.push_str(if self.summaries.is_empty() { "\n}\n" } else { "\n  }\n}\n" });
        out
    }

    /// What is needed to tell whether a source is as it was accepted.
    pub fn hashes(self) -> BTreeMap<SourceId, Pinned> {
        let of = |tools: Tools| tools.into_iter().map(|(name, tool)| (name, tool.hash)).collect();
        let pinned = |(id, tools)| {
            let summary = self.summaries.get(&id).map(|summary| summary.hash);
            (id, Pinned { tools: of(tools), summary })
        };
        self.sources.into_iter().map(pinned).collect()
    }
}

fn comma(at: usize) -> &'static str {
    if at == 0 { "" } else { "," }
}

/// A member as the file has it.
fn laid_out(key: &'static str, value: &Node) -> (&'static str, Node) {
    match text(value) {
        Some(lines) if key == "description" && lines.contains('\n') => {
            (LINES, Node::Array(lines.split('\n').map(|line| Node::Plain(quoted(line))).collect()))
        }
        _ => (key, value.clone()),
    }
}

/// Reads parts of one text, and knows where they stand in it.
struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn fault(&self, at: &str, cause: impl ToString) -> LockFault {
        let before = &self.text[..raw::offset(self.text, at)];
        LockFault { line: before.matches('\n').count() + 1, cause: cause.to_string() }
    }

    fn object(&self, value: &'a str, what: &str) -> Result<Members<'a>, LockFault> {
        Members::of(value).ok_or_else(|| self.fault(value, format!("{what} is no JSON object")))
    }

    fn version(&self, whole: &str, top: &Members<'_>) -> Result<(), LockFault> {
        match top.get("version") {
            Some(VERSION) => Ok(()),
            Some(other) if other.parse::<u64>().is_ok() => {
                Err(self.fault(other, format!("version {other} is not known to this toolrelay, which reads {VERSION}")))
            }
            Some(other) => Err(self.fault(other, "`version` is no number")),
            None => Err(self.fault(whole, "`version` is missing")),
        }
    }

    fn tools(&self, source: &Member<'a>) -> Result<Tools, LockFault> {
        let mut tools = Tools::new();
        for tool in &self.object(source.value, &format!("source `{}`", source.key))?.0 {
            let definition = self.tool(tool)?;
            if tools.insert(ToolName::new(&*tool.key), definition).is_some() {
                return Err(self.fault(tool.key_raw, format!("`{}` stands here twice", tool.key)));
            }
        }
        Ok(tools)
    }

    fn tool(&self, tool: &Member<'a>) -> Result<Definition, LockFault> {
        let name = &tool.key;
        let (mut hash, mut members, mut is_unshown) = (None, Vec::new(), false);
        for member in &self.object(tool.value, &format!("tool `{name}`"))?.0 {
            match (&*member.key, known(&member.key)) {
                ("hash", _) => {
                    let read = raw::string(member.value).and_then(|text| Hash::read(&text));
                    hash = Some(read.ok_or_else(|| self.fault(member.value, "this is no hash"))?);
                }
                (UNSHOWN, _) => is_unshown = true,
                (LINES, _) => members.push(("description", self.joined(member.value)?)),
                (_, Some(key)) => members.push((key, Node::read(member.value))),
                (other, None) => {
                    return Err(self.fault(member.key_raw, format!("`{other}` does not belong to a tool")));
                }
            }
        }
        let hash = hash.ok_or_else(|| self.fault(tool.key_raw, format!("tool `{name}` has no `hash`")))?;
        if is_unshown && members.is_empty() {
            return Ok(Definition::unshown(hash));
        }
        let definition = Definition::new(name, members);
        if definition.hash != hash {
            let cause = format!("the hash of tool `{name}` is not that of what stands below it");
            return Err(self.fault(tool.key_raw, cause));
        }
        Ok(definition)
    }

    fn summary(&self, source: &Member<'a>) -> Result<Summary, LockFault> {
        if let Some(text) = raw::string(source.value) {
            return Ok(Summary::of(&text));
        }
        let hash = Members::of(source.value).and_then(|unshown| Hash::read(&unshown.text("hash")?));
        let fault =
            || self.fault(source.value, format!("the summary of `{}` is neither a text nor a hash", source.key));
        hash.map(|hash| Summary { text: None, hash }).ok_or_else(fault)
    }

    fn joined(&self, value: &'a str) -> Result<Node, LockFault> {
        let lines = raw::elements(value).filter(|lines| lines.iter().all(|line| raw::kind(line) == Kind::Text));
        let lines = lines.and_then(|lines| lines.into_iter().map(raw::string).collect::<Option<Vec<_>>>());
        let lines = lines.ok_or_else(|| self.fault(value, format!("`{LINES}` is no list of lines")))?;
        Ok(Node::Plain(quoted(&lines.join("\n"))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lock(sources: &[(&str, &[(&str, &str)])]) -> Lock {
        let tools = |tools: &[(&str, &str)]| {
            tools.iter().map(|(name, raw)| (ToolName::new(*name), Definition::of(name, raw))).collect()
        };
        let sources = sources.iter().map(|(id, of)| (SourceId::new(id).unwrap(), tools(of)));
        Lock { sources: sources.collect(), ..Lock::default() }
    }

    #[test]
    fn what_sources_say_stands_beside_their_tools() {
        let mut lock = lock(&[("a", &[]), ("b", &[])]);
        lock.summaries.insert(SourceId::new("a").unwrap(), Summary::of("Reads\u{200b} \"notes\"."));
        lock.summaries.insert(SourceId::new("b").unwrap(), Summary::of("Sends with hunter2.").unshown());
        let text = lock.text();
        let want = "    \"b\": {}\n  },\n  \"summaries\": {\n    \"a\": \"Reads\\u200b \\\"notes\\\".\",\n    \"b\": {\"hash\": \"";
        assert!(text.contains(want) && text.ends_with("\"}\n  }\n}\n") && !text.contains("hunter2"), "{text}");
        assert_eq!(Lock::read(&text), Ok(lock));
        assert!(Lock::read(&text.replace("\"hash\": \"", "\"hash\": \"0")).is_err());
    }

    #[test]
    fn a_tool_is_a_short_block() {
        let raw = r#"{"name":"add","description":"One.\nTwo.","inputSchema":{"type":"object"},"annotations":{}}"#;
        let lock = lock(&[("b", &[]), ("a", &[("add", raw)])]);
        let text = lock.text();
        let want = r#"  "version": 1,
  "sources": {
    "a": {
      "add": {
        "hash": "HASH",
        "descriptionLines": ["One.", "Two."],
        "annotations": {},
        "inputSchema": {"type": "object"}
      }
    },
    "b": {}
  }
}
"#;
        let hash = lock.sources["a"]["add"].hash.to_string();
        assert!(text.ends_with(&want.replace("HASH", &hash)), "{text}");
        assert_eq!(Lock::read(&text), Ok(lock.clone()));
        assert_eq!(Lock::read(&format!("\u{feff}{}", text.replace('\n', "\r\n"))).unwrap().text(), text);
        let mut unshown = lock.clone();
        let tool = unshown.sources.get_mut("a").and_then(|tools| tools.get_mut("add")).unwrap();
        *tool = Definition::unshown(tool.hash);
        let text = unshown.text();
        assert!(text.contains("\"unshown\": \"it holds") && !text.contains("One."), "{text}");
        assert_eq!(Lock::read(&text), Ok(unshown));
        let none = Lock::default();
        assert_eq!(Lock::read(&none.text()), Ok(none));
    }

    #[test]
    fn faults_name_line_and_cause() {
        let good = lock(&[("a", &[("t", r#"{"name":"t","description":"d"}"#)])]).text();
        let check = |text: &str, line: usize, cause: &str| {
            let fault = Lock::read(text).unwrap_err();
            assert!((fault.line, fault.cause.contains(cause)) == (line, true), "{fault}\n{text}");
        };
        check("", 1, "it is empty");
        check("[]", 1, "the file is no JSON object");
        check("{}", 1, "`version` is missing");
        check("{\n\"version\": 2}", 2, "version 2 is not known");
        check("{\n\"version\": \"1\"}", 2, "`version` is no number");
        check(&good[..good.len() - 4], good.lines().count() - 1, "not JSON");
        check(&good.replace("\"d\"", "\"D\""), 6, "the hash of tool `t` is not that of what stands below it");
        check(&good.replace("\"hash\": \"", "\"hash\": \"0"), 7, "this is no hash");
        check(&good.replace("\"description\"", "\"summary\""), 8, "`summary` does not belong to a tool");
        check(&good.replace("\"a\": {", "\"A\": {"), 5, "`A` is not a source id");
        check(&good.replace("\"version\": 1,", "\"version\": 1,\n\"x\": 1,"), 4, "`x` does not belong here");
        check(&good.replace("      \"t\"", "<<<<<<< ours\n      \"t\""), 6, "a merge was left unfinished");
        check(&good.replace("\"d\"", "\"d\", \"descriptionLines\": [1]"), 8, "no list of lines");
    }

    proptest! {
        #[test]
        fn whatever_a_source_writes_comes_back(name in ".*", text in ".*", lines in "[a-z\n\r\t\u{200b}\"]*", n in any::<f64>()) {
            let raw = serde_json::json!({
                "name": &name, "title": &text, "description": lines, "inputSchema": {&text: [n, {&lines: &name}]},
            });
            let lock = lock(&[("a", &[(&name, &raw.to_string())])]);
            prop_assert_eq!(Lock::read(&lock.text()), Ok(lock));
        }

        #[test]
        fn no_text_breaks_the_reader(text in "[\\[\\]{}:,\"a-z0-9\n ]*") {
            let _ = Lock::read(&text);
        }
    }
}
