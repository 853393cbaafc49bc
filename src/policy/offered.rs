//! Owns under which spellings prompts and resources are judged, so that no other spelling of a URI slips past a glob.
//! It does not know whose the globs are.

use std::borrow::Cow;

use wildmatch::WildMatch;

/// What a source offers besides tools, by its own name for it. Reading it changes nothing, so `read_only` is not about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered<'a> {
    Prompt(&'a str),
    /// A resource, a skill, a directory of one, or a template: by its URI.
    Resource(&'a str),
}

impl<'a> Offered<'a> {
    /// All spellings that the rules have to let pass: a source may take any of them for the same.
    pub fn spellings(self) -> Vec<Cow<'a, str>> {
        match self {
            Self::Prompt(name) => vec![name.into()],
            Self::Resource(uri) => {
                let mut all = vec![Cow::Borrowed(uri)];
                for is_path in [false, true] {
                    let plain = plain(uri, is_path);
                    if !all.iter().any(|known| *known == plain) {
                        all.push(plain.into());
                    }
                }
                all
            }
        }
    }

    /// Whether a glob that withholds means it. Prompts are known by the names that their sources list; URIs need not be
    /// listed, and their letter case does not count.
    pub fn is_denied_by(self, glob: &str) -> bool {
        let glob = match self {
            Self::Prompt(_) => WildMatch::new(glob),
            Self::Resource(_) => WildMatch::new_case_insensitive(glob),
        };
        self.spellings().iter().any(|spelling| glob.matches(spelling))
    }
}

/// A URI without its detours: escapes read (`%41` is `A`), `.`, `..` and doubled slashes of its path resolved. With `is_path`
/// what stands where a host does counts as the first part of the path, as servers take it that make one path of both.
fn plain(uri: &str, is_path: bool) -> String {
    let mut text = uri.to_owned();
    // What is escaped twice is read twice by careless servers.
    for _ in 0..3 {
        let read = unescaped(&text);
        if read == text {
            break;
        }
        text = read;
    }
    let text = text.replace('\\', "/");
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest.to_owned()),
        None => (String::new(), text),
    };
    let fixed = usize::from(!is_path || rest.starts_with('/'));
    let mut parts: Vec<&str> = Vec::new();
    for (place, part) in rest.split('/').enumerate() {
        match part {
            "" if place > 0 => {}
            "." => {}
            ".." => parts.truncate(parts.len().saturating_sub(1).max(fixed)),
            part => parts.push(part),
        }
    }
    let end = if rest.len() > 1 && rest.ends_with('/') { "/" } else { "" };
    format!("{scheme}{}{end}", parts.join("/"))
}

fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_lead_to_the_same() {
        for (uri, expected) in [
            ("file:///a/b", "file:///a/b"),
            ("file:///a/../b", "file:///b"),
            ("file:///../../b", "file:///b"),
            ("file:///a/./b//c/", "file:///a/b/c/"),
            ("file:///%61/%2e%2E/b", "file:///b"),
            ("file:///%252e%252e/b", "file:///b"),
            ("note://host/x%2Fy", "note://host/x/y"),
            ("skill://pdf", "skill://pdf"),
            ("doc:a%", "doc:a%"),
            ("a\\b", "a/b"),
        ] {
            assert_eq!(plain(uri, false), expected, "{uri}");
        }
        for (uri, expected) in [
            ("skill://pdf/../csv/x", "skill://csv/x"),
            ("skill://pdf/../../csv/x", "skill://csv/x"),
            ("file:///../../b", "file:///b"),
            ("skill://pdf/x", "skill://pdf/x"),
        ] {
            assert_eq!(plain(uri, true), expected, "{uri}");
        }
    }

    #[test]
    fn no_spelling_of_a_uri_slips_past() {
        for uri in ["file:///secret/x", "FILE:///Secret/x", "file:///a/../secret/x", "file:///%73ecret/x"] {
            assert!(Offered::Resource(uri).is_denied_by("file:///secret/*"), "{uri}");
        }
        assert!(!Offered::Resource("file:///secrets").is_denied_by("file:///secret/*"));
        assert!(Offered::Prompt("a").is_denied_by("a*") && !Offered::Prompt("A").is_denied_by("a*"));
    }
}
