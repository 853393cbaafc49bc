//! Owns globs that are asked for many names: `*` is any text, `?` any one character. It says the same as `wildmatch`.

use wildmatch::WildMatch;

/// A glob; the usual forms are told apart once, as a catalog asks them tens of thousands of times.
#[derive(Debug, Clone)]
pub enum Glob {
    Any,
    Exactly(Box<str>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
    Other(Box<WildMatch>),
}

impl Glob {
    pub fn new(text: &str) -> Self {
        let plain = |text: &str| !text.contains(['*', '?']);
        if !text.is_empty() && text.bytes().all(|c| c == b'*') {
            return Self::Any;
        }
        if plain(text) {
            return Self::Exactly(text.into());
        }
        match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (None, Some(start)) if plain(start) => Self::StartsWith(start.into()),
            (Some(end), None) if plain(end) => Self::EndsWith(end.into()),
            (Some(rest), Some(_)) if rest.strip_suffix('*').is_some_and(plain) => {
                Self::Contains(rest.trim_end_matches('*').into())
            }
            _ => Self::Other(Box::new(WildMatch::new(text))),
        }
    }

    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(whole) => text == &**whole,
            Self::StartsWith(start) => text.starts_with(&**start),
            Self::EndsWith(end) => text.ends_with(&**end),
            Self::Contains(part) => text.contains(&**part),
            Self::Other(glob) => glob.matches(text),
        }
    }
}

/// A glob over sources and one over their tools: neither reaches into the other's part.
#[derive(Debug, Clone)]
pub struct PairGlob {
    pub source: Glob,
    pub tool: Glob,
}

impl PairGlob {
    /// Of a `source/tool` as the configuration has it, parted at its first slash.
    pub fn new(written: &str) -> Self {
        let (source, tool) = written.split_once('/').unwrap_or((written, "*"));
        Self::of(source, tool)
    }

    pub fn of(source: &str, tool: &str) -> Self {
        Self { source: Glob::new(source), tool: Glob::new(tool) }
    }

    pub fn matches(&self, source: &str, tool: &str) -> bool {
        self.source.matches(source) && self.tool.matches(tool)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pair_is_parted_at_its_first_slash() {
        for (glob, source, tool, expected) in [
            ("a*/b", "a", "b", true),
            ("a*/b", "axe", "b", true),
            ("a*/b", "a", "x/b", false),
            ("a/x/*", "a", "x/b", true),
            ("*/b", "a/x", "b", true),
            ("a", "a", "anything", true),
        ] {
            assert_eq!(PairGlob::new(glob).matches(source, tool), expected, "{glob}: {source} {tool}");
        }
    }

    proptest! {
        #[test]
        fn every_form_says_what_wildmatch_says(glob in "[ab*?é]{0,5}", text in "[abé]{0,5}") {
            prop_assert_eq!(Glob::new(&glob).matches(&text), WildMatch::new(&glob).matches(&text));
        }
    }
}
