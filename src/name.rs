//! Owns the names: source ids, tool names, and the names under which tools are shown to clients.
//! It does not know what a catalog or a policy is; every function here is pure, but for the one that draws lots.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// A name that nobody can guess and that is nowhere else: 128 random bits in hexadecimal.
pub fn unguessable() -> String {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).expect("BUG: the system gives random numbers");
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The longest source id.
pub const SOURCE_ID_MAX: usize = 32;
/// The longest name that model APIs accept for a tool.
pub const EXPOSED_NAME_MAX: usize = 64;
/// Stands between the prefix and the tool in an exposed name.
pub const SEPARATOR: &str = "__";
/// What models put between a source and its tool.
const BETWEEN: [&str; 4] = ["/", SEPARATOR, ":", "."];
/// Hex digits of the suffix that tells changed names apart.
const SUFFIX_HEX: usize = 8;

/// The relay's own tool names, in every exposure, now and in later versions: a source can never take one.
pub const RESERVED: &[&str] = &[
    "list_sources",
    "list_toolsets",
    "enable_toolset",
    "disable_toolset",
    "find_tools",
    "load_tools",
    "call_tool",
    "batch_call",
    "batch_status",
];

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

name_type! {
    /// The id of a source: `[a-z0-9][a-z0-9_-]{0,31}`, the key of its table in `sources.toml`.
    SourceId
}
name_type! {
    /// A tool's name exactly as its source spells it; any text.
    ToolName
}
name_type! {
    /// A name shown to clients: 1 to 64 characters of `[A-Za-z0-9_-]` (SEP-986, and what model APIs accept).
    ExposedName
}

/// A tool's name without its source in front, where it begins with the source's id or its prefix: the one reading of
/// `source/tool`, `prefix__tool` and the like. What is there by its whole name is meant by it, so that is looked for first.
pub fn bare<'a>(tool: &'a str, id: &str, prefix: &str) -> Option<&'a str> {
    let of = |source: &str| {
        let rest = tool.strip_prefix(source).filter(|_| !source.is_empty())?;
        BETWEEN.iter().find_map(|between| rest.strip_prefix(between))
    };
    of(id).or_else(|| of(prefix))
}

/// Why a text is no source id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a source id: use 1 to 32 characters of a-z, 0-9, `_` and `-`, the first a letter or a digit")]
pub struct BadSourceId(pub String);

impl SourceId {
    pub fn new(text: &str) -> Result<Self, BadSourceId> {
        let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let bytes = text.as_bytes();
        let fits = (1..=SOURCE_ID_MAX).contains(&bytes.len());
        if fits && legal(bytes[0]) && bytes.iter().all(|&c| legal(c) || c == b'_' || c == b'-') {
            Ok(Self(text.into()))
        } else {
            Err(BadSourceId(text.to_owned()))
        }
    }
}

impl ToolName {
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }
}

impl ExposedName {
    /// The name under which `tool` of `source` is shown, a pure function of its arguments, so that no other source can
    /// change it. A name that is legal as it is stays; any other gets a suffix made from a hash of source and tool.
    pub fn of(source: &SourceId, prefix: &str, tool: &ToolName) -> Self {
        let plain =
            if prefix.is_empty() { tool.as_str().to_owned() } else { format!("{prefix}{SEPARATOR}{}", tool.as_str()) };
        if is_unmistakable(prefix, tool.as_str()) && is_legal(&plain) {
            return Self(plain.into());
        }
        Self::hashed(source, &plain, tool, SUFFIX_HEX)
    }

    /// A longer suffix, for the case that two names meet all the same (a source that forges one).
    pub fn widened(source: &SourceId, prefix: &str, tool: &ToolName) -> Self {
        let plain =
            if prefix.is_empty() { tool.as_str().to_owned() } else { format!("{prefix}{SEPARATOR}{}", tool.as_str()) };
        Self::hashed(source, &plain, tool, 4 * SUFFIX_HEX)
    }

    fn hashed(source: &SourceId, plain: &str, tool: &ToolName, hex: usize) -> Self {
        let mut hash = Sha256::new();
        hash.update(source.as_str());
        hash.update([0]);
        hash.update(tool.as_str());
        let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let clean: String =
            plain.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect();
        let room = EXPOSED_NAME_MAX - hex - 1;
        Self(format!("{}_{}", &clean[..clean.len().min(room)], &digest[..hex]).into())
    }
}

/// Whether prefix and tool can be told apart again, and the result is none of the relay's own names.
///
/// A prefix without `__` that does not end in `_` ends at the first `__` of the joined name, so two different pairs of
/// such parts never give one name.
fn is_unmistakable(prefix: &str, tool: &str) -> bool {
    if prefix.is_empty() {
        return !tool.contains(SEPARATOR) && !RESERVED.contains(&tool);
    }
    !prefix.contains(SEPARATOR) && !prefix.ends_with('_') && !tool.is_empty()
}

fn is_legal(name: &str) -> bool {
    (1..=EXPOSED_NAME_MAX).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str, prefix: &str, tool: &str) -> String {
        ExposedName::of(&SourceId::new(source).unwrap(), prefix, &ToolName::new(tool)).to_string()
    }

    #[test]
    fn source_ids_are_checked() {
        for good in ["a", "github", "a__b", "0x", "a-b_c", &"a".repeat(32)] {
            assert_eq!(SourceId::new(good).map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "A", "_a", "-a", "a.b", "a b", "é", &"a".repeat(33)] {
            assert_eq!(SourceId::new(bad), Err(BadSourceId(bad.to_owned())));
        }
    }

    #[test]
    fn a_source_in_front_is_told_from_the_tool() {
        for (tool, expected) in [
            ("github/x", Some("x")),
            ("github__x", Some("x")),
            ("github:x", Some("x")),
            ("github.x", Some("x")),
            ("gh__x", Some("x")),
            ("gh/x", Some("x")),
            ("github/github/x", Some("github/x")),
            ("github/", Some("")),
            ("github", None),
            ("github_x", None),
            ("githubs/x", None),
            ("__x", None),
        ] {
            assert_eq!(bare(tool, "github", "gh"), expected, "{tool}");
        }
        assert_eq!(bare("__x", "github", ""), None);
    }

    #[test]
    fn legal_names_stay() {
        assert_eq!(shown("github", "github", "search"), "github__search");
        assert_eq!(shown("github", "", "search"), "search");
        assert_eq!(shown("github", "github", "call_tool"), "github__call_tool");
        assert_eq!(shown("a", "a", "_z"), "a___z");
    }

    #[test]
    fn other_names_get_a_suffix() {
        let long = "t".repeat(80);
        for (prefix, tool) in [
            ("a", "files.read"),
            ("a", "a/b"),
            ("a", "查询"),
            ("a", "naïve"),
            ("a", "x\ny"),
            ("a", ""),
            ("", ""),
            ("", "call_tool"),
            ("", "b__c"),
            ("a__b", "c"),
            ("a_", "c"),
            ("a", long.as_str()),
        ] {
            let name = shown("s", prefix, tool);
            assert!(is_legal(&name), "{name}");
            assert!(!RESERVED.contains(&name.as_str()), "{name}");
            assert_ne!(name, format!("{prefix}__{tool}"));
        }
    }

    #[test]
    fn no_two_pairs_share_a_name() {
        let pairs = [
            ("acme_", "status"),
            ("acme", "_status"),
            ("a", "read-file"),
            ("a", "read_file"),
            ("a", "read.file"),
            ("a", "read file"),
            ("a_b", "c"),
            ("a", "b_c"),
            ("a__b", "c"),
            ("a", "b__c"),
        ];
        let mut names: Vec<_> = pairs.iter().map(|(source, tool)| shown(source, source, tool)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), pairs.len());
    }
}
