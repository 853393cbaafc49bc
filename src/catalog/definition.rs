//! Owns a tool's definition as it is pinned: the members by which models and clients know the tool, in one form, and a hash
//! over them. It does not know what a lock is.
//!
//! `_meta`, `icons` and members that no revision of the protocol has are not in it: servers put build numbers and dates there.

use std::borrow::Cow;
use std::fmt;

use super::json::{Node, quoted};
use super::listing::Fingerprint;
use crate::wire::raw::{self, Members};

/// What a definition is made of besides the name, in this order.
pub const MEMBERS: &[&str] = &["title", "description", "annotations", "inputSchema", "outputSchema"];

/// A hash over a tool's definition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Reads what `Display` writes.
    pub fn read(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        for (at, byte) in bytes.iter_mut().enumerate().filter(|_| is_hex) {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        is_hex.then_some(Self(bytes))
    }

    /// The first digits, enough for people to tell two apart.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// One tool's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// In the order of [`MEMBERS`]; one that the source wrote twice is here twice.
    members: Vec<(&'static str, Node)>,
    pub hash: Hash,
    /// Only the hash is known.
    pub is_unshown: bool,
}

impl Definition {
    /// The definition in a tool's JSON.
    pub fn of(name: &str, raw: &str) -> Self {
        let Members(found) = Members::of(raw).unwrap_or_default();
        let known = found.iter().filter_map(|member| Some((known(&member.key)?, Node::read(member.value))));
        Self::new(name, known.collect())
    }

    pub fn new(name: &str, mut members: Vec<(&'static str, Node)>) -> Self {
        members.sort_by_key(|(key, _)| MEMBERS.iter().position(|known| known == key));
        let mut hash = Fingerprint::new();
        hash.text(name).number(members.len());
        for (key, value) in &members {
            hash.text(key).text(&value.line());
        }
        Self { members, hash: Hash(hash.bytes()), is_unshown: false }
    }

    /// A definition that may not be shown.
    pub fn unshown(hash: Hash) -> Self {
        Self { members: Vec::new(), hash, is_unshown: true }
    }

    /// Whether a text stands in it.
    pub fn holds(&self, text: &str) -> bool {
        let escaped = quoted(text);
        self.members.iter().any(|(_, value)| value.line().contains(&escaped[1..escaped.len() - 1]))
    }

    pub fn members(&self) -> impl Iterator<Item = (&'static str, &Node)> {
        self.members.iter().map(|(key, value)| (*key, value))
    }

    /// The values of a member; more than one only where a source wrote it twice.
    pub fn values(&self, key: &str) -> Vec<&Node> {
        self.members().filter(|(known, _)| *known == key).map(|(_, value)| value).collect()
    }
}

/// What a source says of itself in one line, as it is pinned: models read it in the relay's menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// `None`: it may not be shown.
    pub text: Option<String>,
    pub hash: Hash,
}

impl Summary {
    pub fn of(text: &str) -> Self {
        let mut hash = Fingerprint::new();
        hash.text("summary").text(text);
        Self { text: Some(text.to_owned()), hash: Hash(hash.bytes()) }
    }

    /// The same, not to be shown.
    #[must_use]
    pub fn unshown(self) -> Self {
        Self { text: None, ..self }
    }
}

/// The member of that name, if it belongs to a definition.
pub fn known(key: &str) -> Option<&'static str> {
    MEMBERS.iter().copied().find(|known| *known == key)
}

/// What a value says, if it is a text.
pub fn text(value: &Node) -> Option<Cow<'_, str>> {
    match value {
        Node::Plain(raw) => raw::string(raw),
        Node::Object(_) | Node::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_follows_what_models_and_clients_read() {
        let base = r#"{"name":"t","description":"d","inputSchema":{"type":"object","properties":{}}}"#;
        let hash = |raw: &str| Definition::of("t", raw).hash;
        for same in [
            r#" { "inputSchema":{"properties":{},  "type":"object"},"description":"\u0064","name":"t"}"#,
            r#"{"name":"t","description":"d","inputSchema":{"type":"object","properties":{}},"_meta":{"build":7}}"#,
        ] {
            assert_eq!(hash(same), hash(base), "{same}");
        }
        let others = [
            r#"{"name":"t","inputSchema":{"type":"object","properties":{}}}"#,
            r#"{"name":"t","description":"d ","inputSchema":{"type":"object","properties":{}}}"#,
            r#"{"name":"t","description":"x","description":"d","inputSchema":{"type":"object","properties":{}}}"#,
            r#"{"name":"t","title":"d","inputSchema":{"type":"object","properties":{}}}"#,
            r#"{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{}}}}"#,
            r#"{"name":"t","description":"d","inputSchema":{"type":"object","properties":{}},"outputSchema":{}}"#,
            r#"{"name":"t","description":"d","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}"#,
        ];
        let hashes: std::collections::BTreeSet<_> = others.iter().map(|raw| hash(raw)).chain([hash(base)]).collect();
        assert_eq!(hashes.len(), others.len() + 1);
        assert_ne!(Definition::of("u", base).hash, hash(base));
        assert_eq!(Hash::read(&hash(base).to_string()), Some(hash(base)));
    }

    #[test]
    fn other_texts_are_no_hashes() {
        let good = "0123456789abcdef".repeat(4);
        assert!(Hash::read(&good).is_some());
        for bad in ["", "00", &good.to_uppercase(), &format!("{good}0"), &"é".repeat(32)] {
            assert_eq!(Hash::read(bad), None, "{bad}");
        }
    }
}
