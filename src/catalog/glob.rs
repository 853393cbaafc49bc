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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_form_says_what_wildmatch_says(glob in "[ab*?é]{0,5}", text in "[abé]{0,5}") {
            prop_assert_eq!(Glob::new(&glob).matches(&text), WildMatch::new(&glob).matches(&text));
        }
    }
}
