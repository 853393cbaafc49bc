//! Owns the comparison of what sources offer with what was accepted: tool by tool while the relay runs, and whole locks for
//! people, with the words that changed. It does not decide which of them is right.

use std::fmt::Write as _;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use serde::{Deserialize, Serialize};

use super::definition::{Definition, Hash, MEMBERS, Summary, text};
use super::json::{Node, quoted};
use super::lock::{Lock, Pinned};
use super::packed::Packed;
use crate::name::{SourceId, ToolName};

/// Lines told before and after a changed one.
const LINES_AROUND: usize = 3;
/// Words and gaps told before and after changed ones.
const WORDS_AROUND: usize = 12;
/// How long a shortest difference is looked for; after that any will do. Texts of a sane size take microseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the tools of one source are held against.
#[derive(Debug, Clone, Copy)]
pub enum Pins<'a> {
    /// Nothing.
    Free,
    /// What the lock has of the source; `None` where it has nothing of it.
    Locked { pinned: Option<&'a Pinned>, enforce: bool },
    /// There is nothing to go by, and so no tool may be called; the reason.
    Closed(&'a str),
}

/// A tool that is not what was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    pub tool: ToolName,
    /// `None`: it is not in the lock.
    pub locked: Option<Hash>,
    pub now: Hash,
}

impl Drift {
    /// What is wrong with it.
    pub fn note(&self) -> &'static str {
        match self.locked {
            Some(_) => "differs from sources.lock",
            None => "is not in sources.lock",
        }
    }
}

/// What is known of the line that a source says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// It was not held against a lock, or the lock is silent about it.
    #[default]
    Unjudged,
    Accepted,
    /// It differs from the lock.
    Changed,
    /// It is not what was accepted, and is not shown for that.
    Withheld,
}

impl Said {
    /// Whether it is known not to be what was accepted.
    pub fn is_other(self) -> bool {
        matches!(self, Self::Changed | Self::Withheld)
    }
}

impl Pins<'_> {
    /// Judges the line that a source says of itself.
    pub fn judge_summary(&self, said: &str) -> Said {
        let (pinned, enforce) = match self {
            Self::Free => return Said::Unjudged,
            Self::Closed(_) => (None, true),
            Self::Locked { pinned, enforce } => (pinned.and_then(|pinned| pinned.summary), *enforce),
        };
        match pinned {
            _ if said.is_empty() => Said::Accepted,
            Some(hash) if hash == Summary::of(said).hash => Said::Accepted,
            _ if enforce => Said::Withheld,
            Some(_) => Said::Changed,
            None => Said::Unjudged,
        }
    }

    /// How a listed tool differs from what was accepted, and why it is withheld for that.
    pub fn judge(&self, source: &SourceId, tool: &ToolName, raw: &Packed) -> (Option<Drift>, Option<String>) {
        let (tools, enforce) = match self {
            Self::Free => return (None, None),
            Self::Closed(why) => return (None, Some((*why).to_owned())),
            Self::Locked { pinned, enforce } => (pinned.map(|pinned| &pinned.tools), *enforce),
        };
        let now = Definition::of(tool.as_str(), &raw.unpack()).hash;
        let locked = tools.and_then(|tools| tools.get(tool)).copied();
        if locked == Some(now) {
            return (None, None);
        }
        let drift = Drift { tool: tool.clone(), locked, now };
        let reason = enforce.then(|| {
            format!(
                "it {}: look at it with `toolrelay lock --check {source}`, accept it with `toolrelay lock {source}`",
                drift.note()
            )
        });
        (Some(drift), reason)
    }
}

/// A difference between two locks in one tool, or in what a source says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub source: SourceId,
    /// `None`: the source's own summary.
    pub tool: Option<ToolName>,
    pub was: Option<Hash>,
    pub now: Option<Hash>,
    /// Each member that changed and how; only of a tool that is in both.
    pub members: Vec<(&'static str, String)>,
}

/// What differs from one lock to the other, sorted.
pub fn differences(was: &Lock, now: &Lock) -> Vec<Difference> {
    let tools = |lock: &Lock| {
        let all = lock.sources.iter().flat_map(|(id, tools)| tools.keys().map(|tool| (id.clone(), tool.clone())));
        all.collect::<Vec<_>>()
    };
    let mut all = tools(was);
    all.extend(tools(now));
    all.sort();
    all.dedup();
    let found = all.into_iter().filter_map(|(source, tool)| {
        let of = |lock: &'_ Lock| lock.sources.get(&source).and_then(|tools| tools.get(&tool)).cloned();
        let (was, now) = (of(was), of(now));
        let hash = |side: &Option<Definition>| side.as_ref().map(|tool| tool.hash);
        let members = was.as_ref().zip(now.as_ref()).map(|(was, now)| changed_members(was, now)).unwrap_or_default();
        let tool = Some(tool);
        (hash(&was) != hash(&now)).then(|| Difference { was: hash(&was), now: hash(&now), members, source, tool })
    });
    let mut found: Vec<_> = found.chain(other_summaries(was, now)).collect();
    found.sort_by(|a, b| (&a.source, &a.tool).cmp(&(&b.source, &b.tool)));
    found
}

/// The sources of both locks that say something else of themselves.
fn other_summaries(was: &Lock, now: &Lock) -> impl Iterator<Item = Difference> {
    let in_both = now.sources.keys().filter(|id| was.sources.contains_key(*id));
    in_both.filter_map(|id| {
        let (was, now) = (was.summaries.get(id), now.summaries.get(id));
        let hash = |side: Option<&Summary>| side.map(|summary| summary.hash);
        let text = |side: Option<&Summary>| match side {
            Some(summary) => summary.text.clone(),
            None => Some(String::new()),
        };
        let told = text(was).zip(text(now)).map(|(was, now)| ("summary", by_words(&visible(&was), &visible(&now))));
        let (members, source) = (told.into_iter().collect(), id.clone());
        (hash(was) != hash(now)).then(|| Difference { source, tool: None, was: hash(was), now: hash(now), members })
    })
}

fn changed_members(was: &Definition, now: &Definition) -> Vec<(&'static str, String)> {
    let both = MEMBERS.iter().map(|key| (*key, was.values(key), now.values(key)));
    both.filter(|(_, was, now)| was != now).map(|(key, was, now)| (key, told(&was, &now))).collect()
}

/// How a member changed: the words of a text of one line, the lines of everything else.
fn told(was: &[&Node], now: &[&Node]) -> String {
    if let ([was], [now]) = (was, now)
        && let (Some(was), Some(now)) = (text(was), text(now))
    {
        let (was, now) = (visible(&was), visible(&now));
        return if was.contains('\n') || now.contains('\n') { by_lines(&was, &now) } else { by_words(&was, &now) };
    }
    let lines = |side: &[&Node]| side.iter().fold(String::new(), |text, node| text + &node.lines(0, 0) + "\n");
    by_lines(&lines(was), &lines(now))
}

/// A text with its line ends, and with escapes for what cannot be seen.
fn visible(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| quoted(line).replace("\\\"", "\"")).collect();
    lines.iter().map(|line| &line[1..line.len() - 1]).collect::<Vec<_>>().join("\n")
}

fn by_lines(was: &str, now: &str) -> String {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(was, now);
    let mut out = String::new();
    for (at, group) in diff.grouped_ops(LINES_AROUND).iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "  ..\n" });
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let mark = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let _ = writeln!(out, "{mark} {}", change.value().trim_end_matches('\n'));
        }
    }
    out
}

/// As `git diff --word-diff` tells it.
fn by_words(was: &str, now: &str) -> String {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_words(was, now);
    let mut out = String::new();
    let groups = diff.grouped_ops(WORDS_AROUND);
    for (at, group) in groups.iter().enumerate() {
        let starts_late = group.first().is_some_and(|op| op.old_range().start > 0 && op.new_range().start > 0);
        out.push_str(if at > 0 || starts_late { ".. " } else { "" });
        for op in group {
            let words = |tag: ChangeTag| {
                let of = diff.iter_changes(op).filter(move |change| change.tag() == tag);
                of.map(|change| change.value()).collect::<String>()
            };
            out.push_str(&words(ChangeTag::Equal));
            for (tag, open, close) in [(ChangeTag::Delete, "[-", "-]"), (ChangeTag::Insert, "{+", "+}")] {
                let words = words(tag);
                if !words.is_empty() {
                    let _ = write!(out, "{open}{words}{close}");
                }
            }
        }
        let ends_early = group.last().is_some_and(|op| op.new_range().end < diff.new_len());
        out.push_str(if ends_early { " .." } else { "" });
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn changed(was: &str, now: &str) -> Vec<(&'static str, String)> {
        changed_members(&Definition::of("t", was), &Definition::of("t", now))
    }

    #[test]
    fn words_and_lines_that_changed_are_told() {
        let check = |was: &str, now: &str, member: &str, want: &str| {
            assert_eq!(changed(was, now), [(member, want.to_owned())] as [(&str, String); 1]);
        };
        let long = "w ".repeat(40);
        check(
            r#"{"description":"Reads a note."}"#,
            r#"{"description":"Reads every note."}"#,
            "description",
            "Reads [-a-]{+every+} note.\n",
        );
        check(
            &format!(r#"{{"description":"{long}one {long}"}}"#),
            &format!(r#"{{"description":"{long}two {long}"}}"#),
            "description",
            &format!(".. {}[-one-]{{+two+}} {} ..\n", "w ".repeat(6), "w ".repeat(6).trim_end()),
        );
        check(
            r#"{"description":"a\nb"}"#,
            "{\"description\":\"a\\nb\\n\u{200b}c \\\"x\\\"\"}",
            "description",
            "  a\n- b\n+ b\n+ \\u200bc \"x\"\n",
        );
        check(
            r#"{"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}"#,
            r#"{"inputSchema":{"properties":{"a":{"type":"integer"}},"type":"object"}}"#,
            "inputSchema",
            "  {\n    \"properties\": {\n      \"a\": {\n-       \"type\": \"string\"\n+       \"type\": \"integer\"\n      }\n    },\n    \"type\": \"object\"\n",
        );
        check(r#"{}"#, r#"{"title":"T"}"#, "title", "+ \"T\"\n");
        assert_eq!(changed(r#"{"description":"a","x":1}"#, r#"{"x":2,"description":"\u0061"}"#), []);
    }

    /// Two long texts without a word in common are the worst that a source can do here.
    #[test]
    fn no_text_takes_long() {
        let texts = ["a", "b"].map(|mark| (0..100_000).map(|n| format!("{mark}{n} ")).collect::<String>());
        let raws = texts.map(|text| serde_json::json!({"description": text}).to_string());
        let began = std::time::Instant::now();
        assert_eq!(changed(&raws[0], &raws[1]).len(), 1);
        assert!(began.elapsed() < 20 * PATIENCE, "{:?}", began.elapsed());
    }

    #[test]
    fn only_what_was_accepted_passes() {
        let (source, tool) = (SourceId::new("s").unwrap(), ToolName::new("t"));
        let hash = Definition::of("t", r#"{"name":"t"}"#).hash;
        let hashes = BTreeMap::from([(tool.clone(), hash)]);
        let judge = |pins: Pins<'_>, raw: &str| {
            let (drift, reason) = pins.judge(&source, &tool, &raw.into());
            (drift.map(|drift| drift.note()), reason.map(|reason| reason.contains("`toolrelay lock s`")))
        };
        let (same, other) = (r#"{"name":"t"}"#, r#"{"name":"t","title":"x"}"#);
        let pinned = Pinned { tools: hashes, summary: Some(Summary::of("Notes.").hash) };
        let locked = |enforce| Pins::Locked { pinned: Some(&pinned), enforce };
        assert_eq!(judge(Pins::Free, other), (None, None));
        assert_eq!(judge(locked(true), same), (None, None));
        assert_eq!(judge(locked(false), other), (Some("differs from sources.lock"), None));
        assert_eq!(judge(locked(true), other), (Some("differs from sources.lock"), Some(true)));
        let unknown = Pins::Locked { pinned: None, enforce: true };
        assert_eq!(judge(unknown, same), (Some("is not in sources.lock"), Some(true)));
        assert_eq!(judge(Pins::Closed("why"), same), (None, Some(false)));
        for (pins, said, want) in [
            (Pins::Free, "Other.", Said::Unjudged),
            (locked(true), "Notes.", Said::Accepted),
            (locked(true), "", Said::Accepted),
            (locked(true), "Other.", Said::Withheld),
            (locked(false), "Other.", Said::Changed),
            (unknown, "Notes.", Said::Withheld),
            (Pins::Locked { pinned: None, enforce: false }, "Notes.", Said::Unjudged),
            (Pins::Closed("why"), "Notes.", Said::Withheld),
        ] {
            assert_eq!(pins.judge_summary(said), want, "{pins:?} {said}");
        }
    }
}
