//! Owns the parts of JSON text as texts: the members of one object, the elements of one array. It never looks inside a
//! value it was not asked for; how a text is walked over is the concern of [`super::scan`].

use std::borrow::Cow;

use super::scan::{self, Keys};
pub(crate) use super::{quoted as quote, unquoted as string};

/// One member of an object, borrowed from its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Member<'a> {
    pub key: Cow<'a, str>,
    /// The key as it is written, with its quotes.
    pub key_raw: &'a str,
    pub value: &'a str,
}

impl<'a> Member<'a> {
    /// Key and value as they are written in `whole`, the text of the object.
    pub fn text(&self, whole: &'a str) -> &'a str {
        let end = offset(whole, self.value) + self.value.len();
        &whole[offset(whole, self.key_raw)..end]
    }
}

/// The members of one object in their written order, duplicates included.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Members<'a>(pub Vec<Member<'a>>);

impl<'a> Members<'a> {
    /// `None` when the text is not one JSON object.
    pub fn of(text: &'a str) -> Option<Self> {
        let mut found = Vec::new();
        let walked = scan::members(text.as_bytes(), Keys::Strict, |key, value| {
            let key_raw = &text[key.range()];
            let key = string(key_raw).unwrap_or(Cow::Borrowed(key_raw));
            found.push(Member { key, key_raw, value: &text[value.range()] });
        });
        walked.ok().map(|_| Self(found))
    }

    /// The value of a key; of duplicates the last, as most readers of JSON take it.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|member| member.key == key).map(|member| member.value)
    }

    /// The value of a key that is a string.
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key).and_then(string)
    }

    /// The same, to be shown or searched; see [`string_lossy`].
    pub fn text_lossy(&self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key).and_then(string_lossy)
    }

    /// The value of a key that is `true` or `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key) {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        }
    }
}

/// What a JSON string literal says, for texts that are shown or searched: U+FFFD stands for each half of a character (a lone
/// surrogate), as programs write that cut a text within an emoji. Never for names: two that differ could become one.
pub(crate) fn string_lossy(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.starts_with('"') {
        return None;
    }
    string(raw).or_else(|| serde_json::from_str(&without_halves(raw)).ok().map(Cow::Owned))
}

/// The literal with `\ufffd` for each lone surrogate.
fn without_halves(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        let (length, kept) = match code_unit(escape) {
            Some(0xD800..=0xDBFF) if matches!(code_unit(&escape[6..]), Some(0xDC00..=0xDFFF)) => (12, &escape[..12]),
            Some(0xD800..=0xDFFF) => (6, "\\ufffd"),
            Some(_) => (6, &escape[..6]),
            None => {
                let length = escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end);
                (length, &escape[..length])
            }
        };
        out.push_str(plain);
        out.push_str(kept);
        rest = &escape[length..];
    }
    out.push_str(rest);
    out
}

/// What an escape `\uXXXX` at the start of a text stands for.
fn code_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// What a JSON text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    Text,
    Number,
    Bool,
    Null,
}

/// The kind of a value by its first byte; the text must be a value without blanks around it.
pub(crate) fn kind(value: &str) -> Kind {
    match value.as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::Text,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

/// The elements of an array, or `None` when the text is not one.
pub(crate) fn elements(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let walked = scan::elements(text.as_bytes(), |value| found.push(&text[value.range()]));
    walked.ok().map(|_| found)
}

/// Where `part`, a slice of `whole`, starts in it.
pub(crate) fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Option<Vec<(String, &str)>> {
        Members::of(text).map(|m| m.0.into_iter().map(|m| (m.key.into_owned(), m.value)).collect())
    }

    #[test]
    fn members_keep_order_and_bytes() {
        let text =
            r#" { "b" : 1e400 , "n\u0061me":"\ud800","b":{"b":1,"b":2}, "\ud800":[ 12345678901234567890123 ] } "#;
        let expected = [
            ("b", "1e400"),
            ("name", r#""\ud800""#),
            ("b", r#"{"b":1,"b":2}"#),
            (r#""\ud800""#, "[ 12345678901234567890123 ]"),
        ];
        assert_eq!(pairs(text), Some(expected.map(|(key, value)| (key.to_owned(), value)).to_vec()));
        let members = Members::of(text).unwrap();
        assert_eq!(members.get("b"), Some(r#"{"b":1,"b":2}"#));
        assert_eq!(members.text("name"), None);
    }

    #[test]
    fn half_a_character_costs_no_text() {
        for (raw, want) in [
            (r#""a \ud83d""#, Some("a \u{fffd}")),
            (r#""\ude00 b\n""#, Some("\u{fffd} b\n")),
            (r#""\ud83d\ud83d\ude00é""#, Some("\u{fffd}\u{1f600}é")),
            (r#""\\ud83d \uD800\\""#, Some("\\ud83d \u{fffd}\\")),
            (r#""\u0061""#, Some("a")),
            ("\"plain\"", Some("plain")),
            (r#""\x""#, None),
            (r#""\ud8""#, None),
            ("5", None),
            ("null", None),
        ] {
            assert_eq!(string_lossy(raw).as_deref(), want, "{raw}");
        }
        assert_eq!(string(r#""a \ud83d""#), None);
    }

    #[test]
    fn depth_does_not_matter() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(pairs(&deep).unwrap().len(), 1);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "5", "[]", "{", "{}x", "{\"a\":}", "null", "\"{}\"", "{\"a\":1,}"] {
            assert_eq!(pairs(text), None, "{text}");
        }
        for text in ["", "5", "{}", "[", "[1,]"] {
            assert_eq!(elements(text), None, "{text}");
        }
        assert_eq!(elements("[ 1 ,{\"a\": 2}, null]"), Some(vec!["1", "{\"a\": 2}", "null"]));
    }
}
