//! Owns the reading of a JSON text in one go, for those who look into all of it: each byte is seen once, however deep it
//! stands. The text is known to be JSON; of any other, a part is read, and no harm done.

use std::borrow::Cow;

use crate::wire::raw;

/// A place in a JSON text, at the start of a value or between two.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The first byte of the value that comes next, or what stands instead of one; 0 at the end.
    pub fn next(&mut self) -> u8 {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest.iter().position(|c| !matches!(c, b' ' | b'\t' | b'\n' | b'\r')).unwrap_or(rest.len());
        self.at += blanks;
        rest.get(blanks).copied().unwrap_or_default()
    }

    /// Goes over a value, and gives it if it is a string; as far as it is one, since texts are only searched here.
    pub fn string(&mut self) -> Option<Cow<'a, str>> {
        if self.next() != b'"' {
            self.skip();
            return None;
        }
        let start = self.at;
        self.skip_string();
        let quoted = &self.text[start..self.at];
        match quoted.get(1..quoted.len().saturating_sub(1)) {
            Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            _ => raw::string_lossy(quoted),
        }
    }

    /// Goes over a value; calls `see` for each member if it is an object, which is to go over the member's value.
    pub fn members(&mut self, mut see: impl FnMut(&str, &mut Self)) {
        if !self.enters(b'{') {
            return;
        }
        while self.next() == b'"' {
            let key = self.string().unwrap_or_default();
            if self.next() == b':' {
                self.at += 1;
            }
            see(&key, self);
            self.pass_comma();
        }
        self.leave(b'}');
    }

    /// Goes over a value; calls `see` for each element if it is an array, which is to go over the element.
    pub fn elements(&mut self, mut see: impl FnMut(&mut Self)) {
        if !self.enters(b'[') {
            return;
        }
        while !matches!(self.next(), b']' | b'}' | b':' | 0) {
            see(self);
            self.pass_comma();
        }
        self.leave(b']');
    }

    /// Goes over a value.
    pub fn skip(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.next() {
                0 => return,
                b'"' => self.skip_string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                _ => self.skip_word(),
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_string(&mut self) {
        self.at += 1;
        let bytes = self.text.as_bytes();
        while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[self.at..]) {
            self.at += found;
            if bytes[self.at] == b'"' {
                self.at += 1;
                return;
            }
            // What is escaped is one byte that closes nothing.
            self.at = (self.at + 2).min(bytes.len());
        }
        self.at = bytes.len();
    }

    /// Goes over a number, `true`, `false` or `null`.
    fn skip_word(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let ends = |c: &u8| matches!(c, b',' | b':' | b'}' | b']' | b'{' | b'[' | b'"' | b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
    }

    /// Whether the value opens so; any other is gone over.
    fn enters(&mut self, open: u8) -> bool {
        if self.next() == open {
            self.at += 1;
            return true;
        }
        self.skip();
        false
    }

    fn pass_comma(&mut self) {
        if self.next() == b',' {
            self.at += 1;
        }
    }

    fn leave(&mut self, close: u8) {
        if self.next() == close {
            self.at += 1;
        } else {
            self.at = self.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All keys and strings, in the order in which they stand.
    fn told(walk: &mut Walk, found: &mut Vec<String>) {
        match walk.next() {
            b'{' => walk.members(|key, walk| {
                found.push(key.to_owned());
                told(walk, found);
            }),
            b'[' => walk.elements(|walk| told(walk, found)),
            _ => found.extend(walk.string().map(Cow::into_owned)),
        }
    }

    fn all(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        told(&mut Walk::new(text), &mut found);
        found
    }

    #[test]
    fn everything_is_seen_once() {
        for (text, expected) in [
            (r#"{"a":{"b":["c",[],{},1e400,null,"d\"\\"]},"e":"f"}"#, &["a", "b", "c", "d\"\\", "e", "f"][..]),
            (" { \"a\" : [ 1 , \"\\u0062\" ] ,\n\"c\":-0.5 } ", &["a", "b", "c"]),
            (r#""x""#, &["x"]),
            ("", &[]),
            ("17", &[]),
        ] {
            assert_eq!(all(text), expected, "{text}");
        }
        let mut seen = Vec::new();
        Walk::new(r#"{"a":{"x":["}\""]},"b":[[1,2],"]"],"c":"y"}"#).members(|key, walk| {
            match key {
                "c" => seen.extend(walk.string().map(Cow::into_owned)),
                "a" => walk.elements(|_| panic!("`a` is no array")),
                _ => walk.skip(),
            }
            seen.push(key.to_owned());
        });
        assert_eq!(seen, ["a", "b", "y", "c"]);
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "[\\[\\]{}:,\"\\\\ a1é]{0,40}") {
            all(&text);
            Walk::new(&text).skip();
        }
    }
}
