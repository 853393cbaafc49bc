//! Owns the changing of single members of a JSON object, every other byte of which stays as it is. It does not know what they
//! mean.

use std::borrow::Cow;

use crate::wire::raw::{self, Members};

/// Changes single members of an object and leaves every other byte as it is.
pub(crate) struct Edit<'a> {
    text: &'a str,
    members: &'a Members<'a>,
    /// What becomes of each member.
    changes: Vec<Fate<'a>>,
    added: Vec<(&'static str, Cow<'a, str>)>,
}

/// What becomes of a member: it is left out, or has another key, or another value.
#[derive(Clone, Default)]
struct Fate<'a> {
    is_removed: bool,
    key: Option<&'static str>,
    value: Option<Cow<'a, str>>,
}

impl<'a> Edit<'a> {
    pub fn new(text: &'a str, members: &'a Members<'a>) -> Self {
        Self { text, members, changes: vec![Fate::default(); members.0.len()], added: Vec::new() }
    }

    /// Gives every member of that key the value, or adds one at the end.
    pub fn set(&mut self, key: &'static str, value: impl Into<Cow<'a, str>>) {
        let value = value.into();
        let places = self.places(key);
        if places.is_empty() {
            self.added.push((key, value));
        } else {
            places.into_iter().for_each(|at| self.set_at(at, value.clone()));
        }
    }

    /// Gives the member at that place the value.
    pub fn set_at(&mut self, at: usize, value: impl Into<Cow<'a, str>>) {
        self.changes[at].value = Some(value.into());
        self.changes[at].is_removed = false;
    }

    /// Gives the member at that place another key.
    pub fn rename_at(&mut self, at: usize, key: &'static str) {
        self.changes[at].key = Some(key);
    }

    /// Removes every member of that key.
    pub fn remove(&mut self, key: &'static str) {
        self.places(key).into_iter().for_each(|at| self.remove_at(at));
    }

    /// Removes the member at that place.
    pub fn remove_at(&mut self, at: usize) {
        self.changes[at].is_removed = true;
    }

    fn places(&self, key: &str) -> Vec<usize> {
        self.members.0.iter().zip(0..).filter(|(member, _)| member.key == key).map(|(_, at)| at).collect()
    }

    pub fn finish(self) -> String {
        let text = self.text;
        let start = |part: &str| raw::offset(text, part);
        let end = |part: &str| raw::offset(text, part) + part.len();
        let mut out = String::with_capacity(text.len() + 64);
        let mut last_end = None;
        let mut is_first = true;
        let members = &self.members.0;
        out.push_str(members.first().map_or("{", |first| &text[..start(first.key_raw)]));
        for (member, fate) in members.iter().zip(&self.changes) {
            let gap_start = last_end.unwrap_or_else(|| start(member.key_raw));
            last_end = Some(end(member.value));
            if fate.is_removed {
                continue;
            }
            if !is_first {
                out.push_str(&text[gap_start..start(member.key_raw)]);
            }
            match fate.key {
                Some(key) => out.push_str(&raw::quote(key)),
                None => out.push_str(member.key_raw),
            }
            out.push_str(&text[end(member.key_raw)..start(member.value)]);
            out.push_str(fate.value.as_deref().unwrap_or(member.value));
            is_first = false;
        }
        for (key, value) in &self.added {
            if !is_first {
                out.push(',');
            }
            out.push_str(&raw::quote(key));
            out.push(':');
            out.push_str(value);
            is_first = false;
        }
        out.push_str(last_end.map_or("}", |end| &text[end..]));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_keep_every_other_byte() {
        let text = r#"{ "a" : 1 , "b":2,  "c":3 }"#;
        let members = Members::of(text).unwrap();
        let edited = |change: &dyn Fn(&mut Edit)| {
            let mut edit = Edit::new(text, &members);
            change(&mut edit);
            edit.finish()
        };
        assert_eq!(edited(&|_| {}), text);
        assert_eq!(edited(&|e| e.set("b", "[]")), r#"{ "a" : 1 , "b":[],  "c":3 }"#);
        assert_eq!(edited(&|e| e.remove("a")), r#"{ "b":2,  "c":3 }"#);
        assert_eq!(edited(&|e| e.remove("c")), r#"{ "a" : 1 , "b":2 }"#);
        assert_eq!(edited(&|e| ["a", "b"].into_iter().for_each(|key| e.remove(key))), r#"{ "c":3 }"#);
        assert_eq!(edited(&|e| ["a", "b", "c"].into_iter().for_each(|key| e.remove(key))), "{  }");
        assert_eq!(edited(&|e| e.rename_at(1, "n")), r#"{ "a" : 1 , "n":2,  "c":3 }"#);
        assert_eq!(edited(&|e| e.set("d", "4")), r#"{ "a" : 1 , "b":2,  "c":3,"d":4 }"#);
    }
}
