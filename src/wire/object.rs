//! Owns the view of one JSON object's members with the text of each, and its rewriting member by member.
//! It keeps every byte of a member that it is not asked to change.

use std::borrow::Cow;

use super::raw::{Member, Members};

/// A JSON object, its members in their order.
#[derive(Debug, Clone)]
pub struct Object<'a> {
    pub text: &'a str,
    pub members: Vec<Member<'a>>,
}

impl<'a> Object<'a> {
    /// `None` when `text` is no JSON object.
    pub fn parse(text: &'a str) -> Option<Self> {
        Some(Self { text, members: Members::of(text)?.0 })
    }

    /// The value of the member so named; the last one if there are several.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.members.iter().rev().find(|member| member.key == name).map(|member| member.value)
    }

    /// A string member's value.
    pub fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        super::unquoted(self.get(name)?)
    }

    /// The first of `names` that stands here twice, or in another letter case: readers disagree on which of them counts.
    pub fn ambiguous(&self, names: &[&'static str]) -> Option<&'static str> {
        let is_so = |member: &&Member<'_>, name: &str| is_alike(member.key.as_bytes(), name.as_bytes());
        let count = |name: &str| self.members.iter().filter(|member| is_so(member, name)).count();
        names.iter().copied().find(|name| match count(name) {
            0 => false,
            1 => self.get(name).is_none(),
            _ => true,
        })
    }

    /// The object without the members that `keep` refuses, and with `more` in front, each a `"name":value` text.
    pub fn rewritten(&self, keep: impl Fn(&str) -> bool, more: &[&str]) -> String {
        let mut out = String::with_capacity(self.text.len() + 64);
        out.push('{');
        let kept = self.members.iter().filter(|member| keep(&member.key)).map(|member| member.text(self.text));
        for (place, member) in more.iter().copied().chain(kept).enumerate() {
            if place > 0 {
                out.push(',');
            }
            out.push_str(member);
        }
        out.push('}');
        out
    }
}

/// Whether readers that do not look at letter case may take one name for the other: those fold `ſ` and the sign for Kelvin, too.
pub fn is_alike(name: &[u8], own: &[u8]) -> bool {
    if name.is_ascii() {
        return name.eq_ignore_ascii_case(own);
    }
    let folded = String::from_utf8_lossy(name).replace('\u{17f}', "s").replace('\u{212a}', "k");
    folded.as_bytes().eq_ignore_ascii_case(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_text() {
        let text = r#" { "a" : 1e400 , "n\u0061me": "x", "\ud800": {} } "#;
        let object = Object::parse(text).unwrap();
        let names: Vec<_> = object.members.iter().map(|member| member.key.clone().into_owned()).collect();
        assert_eq!(names, ["a", "name", r#""\ud800""#]);
        assert_eq!(object.get("a"), Some("1e400"));
        assert_eq!(object.string("name").as_deref(), Some("x"));
        assert_eq!(object.rewritten(|name| name != "name", &["\"z\":0"]), r#"{"z":0,"a" : 1e400,"\ud800": {}}"#);
        assert_eq!(object.rewritten(|_| false, &[]), "{}");
    }

    #[test]
    fn doubles_are_told() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(Object::parse(text).unwrap().ambiguous(&["name", "arguments"]), want, "{text}");
        };
        check(r#"{"name":1,"arguments":2}"#, None);
        check(r#"{"name":1,"n\u0061me":2}"#, Some("name"));
        check(r#"{"name":1,"Name":2}"#, Some("name"));
        check(r#"{"name":1,"Arguments":2}"#, Some("arguments"));
    }

    #[test]
    fn other_values_are_no_objects() {
        for text in ["[]", "1", "", "{\"a\":}", "{} {}"] {
            assert!(Object::parse(text).is_none(), "{text}");
        }
    }
}
