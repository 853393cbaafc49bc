//! Owns the one way in which JSON of a source is written where it is compared and reviewed: members sorted, blanks set,
//! characters that cannot be seen escaped. It does not judge what the JSON means.
//!
//! Lists stay in their order, and numbers as they were written: 1 and 1.0 are two things here. Of members of one name all are kept,
//! in their order, since readers differ in which of them they take.

use std::fmt::Write as _;

use crate::wire::raw::{self, Kind, Members};

/// What lies deeper stays as it was written: no schema needs it, and reading it must not take a stack without end.
const DEPTH_MAX: usize = 64;
/// Blanks of one more level.
const STEP: usize = 2;

/// A JSON value, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Keys as they are written.
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    /// Anything without parts, and what lies too deep.
    Plain(String),
}

impl Node {
    /// Reads the text of a JSON value.
    pub fn read(text: &str) -> Self {
        Self::read_at(text, 0)
    }

    fn read_at(text: &str, depth: usize) -> Self {
        let plain = || Self::Plain(text.trim().to_owned());
        match raw::kind(text) {
            Kind::Text => Self::Plain(raw::string(text).map_or_else(|| text.to_owned(), |text| quoted(&text))),
            Kind::Object if depth < DEPTH_MAX => {
                let Some(Members(members)) = Members::of(text) else { return plain() };
                let member = |member: &raw::Member<'_>| {
                    let key = raw::string(member.key_raw).map_or_else(|| member.key_raw.to_owned(), |key| quoted(&key));
                    (key, Self::read_at(member.value, depth + 1))
                };
                let mut members: Vec<_> = members.iter().map(member).collect();
                members.sort_by(|(a, _), (b, _)| a.cmp(b));
                Self::Object(members)
            }
            Kind::Array if depth < DEPTH_MAX => match raw::elements(text) {
                Some(elements) => Self::Array(elements.iter().map(|text| Self::read_at(text, depth + 1)).collect()),
                None => plain(),
            },
            _ => plain(),
        }
    }

    /// The value in one line.
    pub fn line(&self) -> String {
        let mut out = String::new();
        self.write_line(&mut out);
        out
    }

    fn write_line(&self, out: &mut String) {
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    let gap = if at == 0 { "" } else { ", " };
                    let _ = write!(out, "{gap}{key}: ");
                    value.write_line(out);
                }
                out.push('}');
            }
            Self::Array(elements) => {
                out.push('[');
                for (at, value) in elements.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    value.write_line(out);
                }
                out.push(']');
            }
        }
    }

    /// The value over as many lines as it takes so that each part of it is on one line of `width` characters, or is broken
    /// up; it begins at `indent`.
    pub fn lines(&self, width: usize, indent: usize) -> String {
        let mut out = String::new();
        self.write_lines(&mut out, width, indent);
        out
    }

    fn write_lines(&self, out: &mut String, width: usize, indent: usize) {
        let line = self.line();
        let is_small = indent + line.chars().count() <= width;
        let (open, close) = match self {
            Self::Object(members) if !is_small && !members.is_empty() => ('{', '}'),
            Self::Array(elements) if !is_small && !elements.is_empty() => ('[', ']'),
            _ => return out.push_str(&line),
        };
        out.push(open);
        let inner = indent + STEP;
        let begin = |out: &mut String, at: usize| {
            let _ = write!(out, "{}\n{:inner$}", if at == 0 { "" } else { "," }, "");
        };
        match self {
            Self::Plain(_) => {}
            Self::Object(members) => {
                for (at, (key, value)) in members.iter().enumerate() {
                    begin(out, at);
                    let _ = write!(out, "{key}: ");
                    value.write_lines(out, width, inner);
                }
            }
            Self::Array(elements) => {
                for (at, value) in elements.iter().enumerate() {
                    begin(out, at);
                    value.write_lines(out, width, inner);
                }
            }
        }
        let _ = write!(out, "\n{:indent$}{close}", "");
    }
}

/// A text as JSON, with escapes for every character that a reader would not see.
pub fn quoted(text: &str) -> String {
    let quoted = raw::quote(text);
    if !quoted.chars().any(is_unseen) {
        return quoted;
    }
    let mut out = String::with_capacity(2 * quoted.len());
    for c in quoted.chars() {
        if is_unseen(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character leaves no mark, or turns the direction of others: instructions to a model have been hidden in such.
pub(super) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_members_and_blanks_do_not_matter() {
        let check = |text: &str, want: &str| assert_eq!(Node::read(text).line(), want, "{text}");
        check(r#"{ "b":1 ,"a":[ 2,1 ]}"#, r#"{"a": [2, 1], "b": 1}"#);
        check(r#"{"a":"\u0061\/","\u0061":1e400,"B":{}}"#, r#"{"B": {}, "a": "a/", "a": 1e400}"#);
        check(r#"["\ud800", 1.0, [], null]"#, r#"["\ud800", 1.0, [], null]"#);
        check("\"a\u{200b}\u{e0041}\u{7f}é\"", r#""a\u200b\udb40\udc41\u007fé""#);
    }

    #[test]
    fn what_is_written_reads_as_the_same() {
        let deep = format!("{}1{}", "[ ".repeat(500), "]".repeat(500));
        for text in [r#"{"z":{"y":["x",{"w":"v"}]},"a":""}"#, "{}", "[]", "5", &deep] {
            let node = Node::read(text);
            for width in [0, 10, 1000] {
                assert_eq!(Node::read(&node.lines(width, 4)), node, "{text}");
            }
        }
    }

    #[test]
    fn what_fits_stays_on_a_line() {
        let node = Node::read(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#);
        let want = "{\n    \"properties\": {\"a\": {\"type\": \"string\"}},\n    \"type\": \"object\"\n  }";
        assert_eq!(node.lines(50, 2), want);
    }
}
