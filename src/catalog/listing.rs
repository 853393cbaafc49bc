//! Owns a listing: what one source offers, each tool's JSON exactly as the source wrote it, sorted and hashed.
//! It does not judge or rename anything; a tool that cannot be read is set aside with a reason and costs no other.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::json::Node;
use super::offer::{Item, Offer};
use super::packed::Packed;
use super::text::{bounded_text, single_line};
use crate::name::ToolName;
use crate::wire::raw::{self, Kind, Members};

/// The longest instructions of a source that are kept, in bytes.
pub const INSTRUCTIONS_MAX: usize = 16 * 1024;
/// The longest name, title and version of a source, and name of a rejected tool, in characters.
const SHORT_MAX: usize = 120;
/// Hex digits of a listing's digest.
const DIGEST_HEX: usize = 32;

/// What a source says about itself in its handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerNote {
    pub name: String,
    pub title: Option<String>,
    pub version: Option<String>,
    /// At most [`INSTRUCTIONS_MAX`] bytes once [`cleaned`](Self::cleaned).
    pub instructions: Option<String>,
    /// What it offers besides tools.
    pub offer: Offer,
}

impl ServerNote {
    /// The note with bounded texts and without control characters.
    pub fn cleaned(self) -> Self {
        let short = |text: String| Some(single_line(&text, SHORT_MAX)).filter(|line| !line.is_empty());
        let long = |text: String| Some(bounded_text(&text, INSTRUCTIONS_MAX)).filter(|text| !text.trim().is_empty());
        Self {
            name: single_line(&self.name, SHORT_MAX),
            title: self.title.and_then(short),
            version: self.version.and_then(short),
            instructions: self.instructions.and_then(long),
            offer: self.offer,
        }
    }
}

/// One tool as its source wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTool {
    pub name: ToolName,
    /// The tool's JSON object, byte for byte.
    pub raw: Packed,
}

/// An item of a listing that is no usable tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rejected {
    pub name: Option<String>,
    pub reason: String,
}

/// Which lists could not be read, or not to their end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    pub templates: bool,
    pub skills: bool,
}

/// What one source offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by name; no two share one.
    pub tools: Vec<ListedTool>,
    pub note: ServerNote,
    /// Sorted.
    pub rejected: Vec<Rejected>,
    /// Why the list may lack tools (a later page failed, say).
    pub incomplete: Option<String>,
    /// What it and its note lack.
    pub unread: Unread,
    /// A hash over the tools, the rejects, the note and whether tools may be lacking, whatever the order in which the source listed them.
    pub digest: String,
    /// A hash over the tools and the rejects alone.
    pub tools_digest: String,
}

/// Why stored bytes are no listing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    #[error("stored listing is not UTF-8")]
    Encoding(#[from] std::str::Utf8Error),
    #[error("stored listing has no readable head: {0}")]
    Head(String),
    #[error("stored listing holds {found} tools where its head says {expected}")]
    Count { expected: usize, found: usize },
}

/// The first line of a stored listing.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    tools: usize,
    layout: Layout,
    rejected: Vec<Rejected>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Layout {
    /// One tool a line.
    Lines,
    /// One JSON array: for tools whose own text has line breaks.
    Array,
}

impl Listing {
    /// Sorts and checks what a source listed. Of tools that share a name the first in byte order is kept.
    pub fn new(raw_tools: impl IntoIterator<Item = Box<str>>, note: ServerNote, incomplete: Option<String>) -> Self {
        Self::beside(Vec::new(), raw_tools, note, incomplete)
    }

    /// The same, beside tools that were rejected already.
    pub fn beside(
        mut rejected: Vec<Rejected>,
        raw_tools: impl IntoIterator<Item = Box<str>>,
        note: ServerNote,
        incomplete: Option<String>,
    ) -> Self {
        let raw_tools: Vec<_> = raw_tools.into_iter().collect();
        let (tools, unusable) = sorted(raw_tools.iter().map(AsRef::as_ref));
        rejected.extend(unusable);
        Self::sealed(tools, rejected, note, incomplete)
    }

    fn sealed(
        tools: Vec<(ToolName, &str)>,
        mut rejected: Vec<Rejected>,
        note: ServerNote,
        incomplete: Option<String>,
    ) -> Self {
        rejected.sort_unstable();
        let note = note.cleaned();
        let (names, texts): (Vec<ToolName>, Vec<&str>) = tools.into_iter().unzip();
        let tools_digest = tools_digest(&texts, &rejected);
        let digest = digest(&tools_digest, &note, incomplete.is_some());
        let tools = names.into_iter().zip(Packed::all(&texts)).map(|(name, raw)| ListedTool { name, raw }).collect();
        Self { tools, note, rejected, incomplete, unread: Unread::default(), digest, tools_digest }
    }

    /// With what was known before in place of what could not be read.
    #[must_use]
    pub fn keeping(mut self, known: &Offer, tools: impl FnOnce() -> Vec<Box<str>>) -> Self {
        let unread = std::mem::take(&mut self.unread);
        let own = &mut self.note.offer;
        if unread.prompts {
            fill(&mut own.prompts, &known.prompts);
        }
        if unread.resources {
            fill(&mut own.resources, &known.resources);
        }
        if unread.templates {
            fill(&mut own.templates, &known.templates);
        }
        if unread.skills {
            own.skills_hint = known.skills_hint.filter(|_| own.skills.is_empty());
            fill(&mut own.skills, &known.skills);
        }
        if unread != Unread::default() {
            self.digest = digest(&self.tools_digest, &self.note, self.incomplete.is_some());
        }
        if unread.tools { self.with_more(&tools()) } else { self }
    }

    /// With those of the tools that it has not.
    fn with_more(self, tools: &[Box<str>]) -> Self {
        let (known, _) = sorted(tools.iter().map(AsRef::as_ref));
        let is_own = |name: &ToolName| self.tools.binary_search_by(|tool| tool.name.cmp(name)).is_ok();
        let more = known.into_iter().filter(|(name, _)| !is_own(name)).map(|(_, raw)| raw.into());
        let own = self.tools.iter().map(|tool| tool.raw.unpack().into_boxed_str());
        let raws: Vec<Box<str>> = own.chain(more).collect();
        Self::beside(self.rejected, raws, self.note, self.incomplete)
    }

    /// With the known text of each tool that says the same, its members in another order: whoever looks at bytes sees no
    /// change where there is none.
    #[must_use]
    pub fn spelled_as(self, known: &Self) -> Self {
        let mut has_changed = false;
        let mut text = |tool: &ListedTool| {
            let own = tool.raw.unpack();
            let at = known.tools.binary_search_by(|other| other.name.cmp(&tool.name));
            let known = at.ok().map(|at| known.tools[at].raw.unpack());
            let same = known.filter(|known| *known != own && Node::read(known) == Node::read(&own));
            has_changed |= same.is_some();
            same.unwrap_or(own)
        };
        let texts: Vec<String> = self.tools.iter().map(&mut text).collect();
        if !has_changed {
            return self;
        }
        let names = self.tools.into_iter().map(|tool| tool.name);
        let tools = names.zip(texts.iter().map(String::as_str)).collect();
        Self { unread: self.unread, ..Self::sealed(tools, self.rejected, self.note, self.incomplete) }
    }

    /// The tools and rejects as bytes to be stored; the note is stored apart.
    pub fn to_blob(&self) -> Vec<u8> {
        let texts: Vec<String> = self.tools.iter().map(|tool| tool.raw.unpack()).collect();
        let has_breaks = texts.iter().any(|text| text.contains('\n'));
        let layout = if has_breaks { Layout::Array } else { Layout::Lines };
        let head = Head { tools: self.tools.len(), layout, rejected: self.rejected.clone() };
        let mut blob = serde_json::to_vec(&head).expect("BUG: a listing's head is always JSON");
        blob.push(b'\n');
        let (open, between, close): (&[u8], u8, &[u8]) = match layout {
            Layout::Lines => (b"", b'\n', b""),
            Layout::Array => (b"[", b',', b"]"),
        };
        blob.extend_from_slice(open);
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                blob.push(between);
            }
            blob.extend_from_slice(text.as_bytes());
        }
        blob.extend_from_slice(close);
        blob
    }

    /// Reads what [`to_blob`](Self::to_blob) wrote.
    pub fn from_blob(blob: &[u8], note: ServerNote, incomplete: Option<String>) -> Result<Self, BlobError> {
        let text = std::str::from_utf8(blob)?;
        let (head, body) = text.split_once('\n').ok_or_else(|| BlobError::Head("no line break".to_owned()))?;
        let head: Head = serde_json::from_str(head).map_err(|error| BlobError::Head(error.to_string()))?;
        let raws: Vec<&str> = match head.layout {
            _ if head.tools == 0 => Vec::new(),
            Layout::Lines => body.split('\n').collect(),
            Layout::Array => raw::elements(body).unwrap_or_default(),
        };
        let (tools, rejected) = sorted(raws);
        if tools.len() != head.tools || !rejected.is_empty() {
            return Err(BlobError::Count { expected: head.tools, found: tools.len() });
        }
        Ok(Self::sealed(tools, head.rejected, note, incomplete))
    }
}

/// The tools of a list, sorted by name, each with its JSON; and what is no usable tool.
fn sorted<'a>(raw_tools: impl IntoIterator<Item = &'a str>) -> (Vec<(ToolName, &'a str)>, Vec<Rejected>) {
    let mut tools: Vec<(ToolName, &str)> = Vec::new();
    let mut rejected = Vec::new();
    for raw in raw_tools {
        match read(raw) {
            Ok(tool) => tools.push(tool),
            Err(reject) => rejected.push(reject),
        }
    }
    tools.sort_unstable();
    tools.dedup_by(|(later, _), (kept, _)| {
        let same = later == kept;
        if same {
            rejected.push(reject(Some(later.as_str()), "listed more than once, the first is kept"));
        }
        same
    });
    (tools, rejected)
}

fn read(raw: &str) -> Result<(ToolName, &str), Rejected> {
    let raw = raw.trim_matches([' ', '\n', '\r', '\t']);
    let members = Members::of(raw).ok_or_else(|| {
        let is_json = serde_json::from_str::<&serde_json::value::RawValue>(raw).is_ok();
        reject(None, if is_json { "not an object" } else { "not valid JSON" })
    })?;
    let value = members.get("name").ok_or_else(|| reject(None, "has no `name`"))?;
    if raw::kind(value) != Kind::Text {
        return Err(reject(None, "its `name` is not a string"));
    }
    let name = raw::string(value).ok_or_else(|| reject(Some(value), "its `name` is not valid Unicode"))?;
    if name.is_empty() {
        return Err(reject(Some(""), "its `name` is empty"));
    }
    Ok((ToolName::new(&*name), raw))
}

fn reject(name: Option<&str>, reason: &str) -> Rejected {
    Rejected { name: name.map(|name| single_line(name, SHORT_MAX)), reason: reason.to_owned() }
}

fn tools_digest(tools: &[&str], rejected: &[Rejected]) -> String {
    let mut hash = Fingerprint::new();
    hash.number(tools.len());
    for tool in tools {
        hash.text(tool);
    }
    hash.number(rejected.len());
    for reject in rejected {
        hash.maybe(reject.name.as_deref()).text(&reject.reason);
    }
    hash.hex(DIGEST_HEX)
}

/// Adds those items whose keys are not there, and keeps the order.
fn fill(own: &mut Vec<Item>, known: &[Item]) {
    let read = own.len();
    let more = known.iter().filter(|item| own[..read].binary_search_by(|own| own.key.cmp(&item.key)).is_err());
    let more: Vec<Item> = more.cloned().collect();
    own.extend(more);
    own.sort_by(|a, b| a.key.cmp(&b.key));
}

fn digest(tools: &str, note: &ServerNote, may_lack: bool) -> String {
    let mut hash = Fingerprint::new();
    hash.text(tools).text(&note.name).maybe(note.title.as_deref());
    hash.maybe(note.version.as_deref()).maybe(note.instructions.as_deref());
    if may_lack {
        hash.flag(true);
    }
    if note.offer != Offer::default() {
        hash.text(&serde_json::to_string(&note.offer).expect("BUG: an offer always serializes"));
    }
    hash.hex(DIGEST_HEX)
}

/// A hash over parts that cannot run into each other: each text goes in with its length before it.
pub(crate) struct Fingerprint(Sha256);

impl Fingerprint {
    pub fn new() -> Self {
        Self(Sha256::new())
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len());
        self.0.update(text);
        self
    }

    pub fn maybe(&mut self, text: Option<&str>) -> &mut Self {
        self.flag(text.is_some()).text(text.unwrap_or_default())
    }

    pub fn number(&mut self, number: usize) -> &mut Self {
        self.0.update((number as u64).to_le_bytes());
        self
    }

    pub fn flag(&mut self, flag: bool) -> &mut Self {
        self.0.update([u8::from(flag)]);
        self
    }

    pub fn bytes(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// The first `digits` hex digits.
    pub fn hex(self, digits: usize) -> String {
        let mut text: String = self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        text.truncate(digits);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(raws: &[&str]) -> Listing {
        let note = ServerNote { name: "s".into(), ..ServerNote::default() };
        Listing::new(raws.iter().map(|&raw| Box::from(raw)), note, None)
    }

    fn raws(listing: &Listing) -> Vec<(&str, String)> {
        listing.tools.iter().map(|tool| (tool.name.as_str(), tool.raw.unpack())).collect()
    }

    fn rejects(listing: &Listing) -> Vec<(Option<&str>, &str)> {
        listing.rejected.iter().map(|reject| (reject.name.as_deref(), reject.reason.as_str())).collect()
    }

    #[test]
    fn one_bad_tool_costs_no_other() {
        let found = listing(&[
            r#"{"name":"b","inputSchema":{"maximum":1e400,"x":"\ud800","x":98765432109876543210}}"#,
            "5",
            "null",
            "{oops",
            "{}",
            r#"{"name":7}"#,
            r#"{"name":""}"#,
            r#"{"name":"\ud800"}"#,
            r#" {"n\u0061me":"\u0061"} "#,
            r#"{"name":"b","z":1}"#,
        ]);
        assert_eq!(
            raws(&found),
            [
                ("a", r#"{"n\u0061me":"\u0061"}"#.to_owned()),
                (
                    "b",
                    r#"{"name":"b","inputSchema":{"maximum":1e400,"x":"\ud800","x":98765432109876543210}}"#.to_owned()
                ),
            ]
        );
        assert_eq!(
            rejects(&found),
            [
                (None, "has no `name`"),
                (None, "its `name` is not a string"),
                (None, "not an object"),
                (None, "not an object"),
                (None, "not valid JSON"),
                (Some(""), "its `name` is empty"),
                (Some(r#""\ud800""#), "its `name` is not valid Unicode"),
                (Some("b"), "listed more than once, the first is kept"),
            ]
        );
    }

    #[test]
    fn order_does_not_matter_and_content_does() {
        let base = listing(&[r#"{"name":"a"}"#, r#"{"name":"b"}"#, "1"]);
        assert_eq!(listing(&["1", r#"{"name":"b"}"#, r#"{"name":"a"}"#]), base);
        assert_eq!(base.digest.len(), DIGEST_HEX);
        for other in [&[r#"{"name":"a"}"#, r#"{"name":"b"}"#][..], &[r#"{"name":"a"}"#, r#"{"name":"b" }"#, "1"]] {
            assert_ne!(listing(other).digest, base.digest);
        }
    }

    /// A source that keeps members in a hash map writes them in another order each time.
    #[test]
    fn the_order_of_members_is_no_change() {
        let known = listing(&[r#"{"name":"a","x":{"b":1,"c":[1,2]}}"#, r#"{"name":"b"}"#]);
        let shuffled = listing(&[r#"{"x":{"c":[1, 2],"b":1},"name":"\u0061"}"#, r#"{"name":"b"}"#]);
        assert_ne!(shuffled, known);
        assert_eq!(shuffled.clone().spelled_as(&known), known);
        for other in [r#"{"name":"a","x":{"b":1,"c":[2,1]}}"#, r#"{"name":"a","x":{"b":1.0,"c":[1,2]}}"#] {
            let other = listing(&[other, r#"{"name":"b"}"#]);
            assert_eq!(other.clone().spelled_as(&known), other);
        }
        let more = listing(&[r#"{"x":{"c":[1,2],"b":1},"name":"a"}"#, r#"{"name":"c"}"#]);
        let texts = more.spelled_as(&known);
        assert_eq!(raws(&texts)[0].1, raws(&known)[0].1);
        assert_eq!(raws(&texts)[1], ("c", r#"{"name":"c"}"#.to_owned()));
    }

    #[test]
    fn stored_listings_come_back_whole() {
        for raws in [
            &[][..],
            &["1"],
            &[r#"{"name":"a","x":"\n"}"#, r#"{"name":"b"}"#, "{}"],
            &["{\"name\":\"a\",\n\"x\":1}", r#"{"name":"b"}"#],
        ] {
            let before = listing(raws);
            assert_eq!(Listing::from_blob(&before.to_blob(), before.note.clone(), None), Ok(before));
        }
    }

    #[test]
    fn damaged_blobs_are_refused() {
        let blob = listing(&[r#"{"name":"a"}"#, r#"{"name":"b"}"#]).to_blob();
        let read = |bytes: &[u8]| Listing::from_blob(bytes, ServerNote::default(), None).unwrap_err();
        assert_eq!(read(&blob[..blob.len() - 3]), BlobError::Count { expected: 2, found: 1 });
        assert_eq!(read(b"{}"), BlobError::Head("no line break".into()));
        assert!(matches!(read(b"{}\n"), BlobError::Head(_)));
        assert!(matches!(read(b"\xff\n"), BlobError::Encoding(_)));
    }

    #[test]
    fn notes_are_bounded_and_harmless() {
        let note = ServerNote {
            name: "a\nb".into(),
            title: Some("\u{7}".into()),
            version: None,
            instructions: Some(format!("x\u{1b}\n{}", "é".repeat(INSTRUCTIONS_MAX))),
            ..ServerNote::default()
        };
        let clean = note.cleaned();
        assert_eq!((clean.name.as_str(), &clean.title), ("a b", &None));
        let text = clean.instructions.clone().unwrap();
        assert!(text.starts_with("x\né") && text.len() <= INSTRUCTIONS_MAX);
        assert_eq!(clean.clone().cleaned(), clean);
    }
}
