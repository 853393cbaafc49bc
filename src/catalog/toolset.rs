//! Owns a toolset: one source's tools as a drawer that can be opened, built from its listing and its rules, or remembered as
//! an outline. It does not know other sources; what happens when their names meet is the catalog's affair.

use serde::{Deserialize, Serialize};

use super::category::{Categories, Chosen};
use super::definition::Summary;
use super::drift::{Drift, Pins, Said};
pub use super::entry::Entry;
use super::listing::{Fingerprint, ListedTool, Listing, Rejected, ServerNote};
use super::schema::impossible_input;
use super::text::{LINE_MAX, first_sentence, single_line};
use crate::config::ToolRules;
use crate::name::{ExposedName, SourceId, ToolName};
use crate::policy::{Offered, Policy, ToolFacts, Verdict};
use crate::wire::raw::Members;

/// How many tool names a derived summary gives.
const HINT_NAMES: usize = 6;
/// The longest tool name that a summary gives, in characters.
const HINT_NAME_MAX: usize = 40;
/// Hex digits of a toolset's digest.
const DIGEST_HEX: usize = 32;

/// What the configuration says about a source, as far as its toolset depends on it.
#[derive(Debug, Clone, Copy)]
pub struct ToolsetSpec<'a> {
    pub id: &'a SourceId,
    pub name: &'a str,
    pub provider: &'a str,
    /// `None`: derived from what the source says about itself.
    pub summary: Option<&'a str>,
    /// The prefix of directly exposed names; empty = bare names.
    pub prefix: &'a str,
    pub rules: &'a ToolRules,
}

impl ToolsetSpec<'_> {
    /// A hash over everything in the configuration that decides which tools there are and how they look.
    pub fn rules_digest(&self) -> String {
        let mut hash = Fingerprint::new();
        hash.text(self.id.as_str()).text(self.prefix).flag(self.rules.read_only);
        for globs in [&self.rules.allow, &self.rules.deny] {
            hash.number(globs.len());
            globs.iter().for_each(|glob| {
                hash.text(glob);
            });
        }
        for (name, tool) in &self.rules.tools {
            hash.text(name).flag(tool.hidden).maybe(tool.description.as_deref());
            hash.text(&format!("{:?} {:?}", tool.read_only, tool.call_timeout));
        }
        for (name, globs) in &self.rules.categories {
            hash.text(name).number(globs.len());
            globs.iter().for_each(|glob| {
                hash.text(glob);
            });
        }
        hash.hex(DIGEST_HEX)
    }
}

/// Whether a tool is for a client's views alone: its `_meta.ui.visibility` names `app` and not `model`.
fn is_app_only(tool: &Members<'_>) -> bool {
    let ui = tool.get("_meta").and_then(Members::of).and_then(|meta| meta.get("ui").and_then(Members::of));
    let listed = ui.and_then(|ui| ui.get("visibility").and_then(crate::wire::raw::elements)).unwrap_or_default();
    listed.contains(&"\"app\"") && !listed.contains(&"\"model\"")
}

/// A tool that is not shown, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Withheld {
    /// Empty when the source gave no name.
    pub tool: ToolName,
    pub reason: String,
}

/// What is remembered of a toolset so that a cold start need not read the tools themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outline {
    pub note: ServerNote,
    pub tools: usize,
    pub withheld: usize,
    pub digest: String,
    pub tools_digest: String,
    /// The first few names, for a derived summary.
    pub tool_names_hint: Vec<String>,
    /// [`ToolsetSpec::rules_digest`] of the configuration it was made under.
    pub rules: String,
    /// As in [`Listing`].
    pub incomplete: Option<String>,
    /// Whether what the source says of itself was accepted.
    pub said: Said,
}

impl Outline {
    /// Whether it still describes the source under this configuration; if not, the listing must be read.
    pub fn fits(&self, spec: &ToolsetSpec<'_>) -> bool {
        self.rules == spec.rules_digest()
    }

    /// With what the source says of itself held against what is accepted now: that may have been taken back since.
    #[must_use]
    pub fn pinned(self, pins: Pins<'_>) -> Self {
        Self { said: pins.judge_summary(&said(&self.note)), ..self }
    }

    /// With what the source says of itself shown, as nothing need be accepted for that.
    #[must_use]
    pub fn unpinned(mut self) -> Self {
        if self.said == Said::Withheld {
            self.said = Said::Unjudged;
        }
        self
    }
}

/// One source's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolset {
    pub id: SourceId,
    pub name: String,
    pub provider: String,
    /// One line of at most 160 characters.
    pub summary: String,
    /// The prefix of directly exposed names; empty = bare names.
    pub prefix: String,
    /// Whether the configuration withholds its write tools.
    pub read_only: bool,
    /// All tools that may be called, hidden ones too, sorted by tool name; empty unless `loaded`.
    pub entries: Vec<Entry>,
    /// Sorted by tool name; empty unless `loaded`.
    pub withheld: Vec<Withheld>,
    /// How many tools are withheld, loaded or not.
    pub withheld_count: usize,
    /// A hash over everything about the tools that can be seen; empty for a source never listed.
    pub digest: String,
    /// A hash over how the tools are shown, and nothing else of the source.
    pub tools_digest: String,
    /// How many tools are shown (hidden ones are not counted), loaded or not.
    pub count: usize,
    /// `false`: an outline; the entries have to be read from memory first.
    pub loaded: bool,
    /// Of each entry; none unless `loaded`.
    pub categories: Categories,
    /// The tools that are not what was accepted, withheld for that or only marked, sorted by tool name.
    pub drift: Vec<Drift>,
    /// Why the source may have more tools.
    pub incomplete: Option<String>,
    /// Whether what the source says of itself was accepted.
    pub said: Said,
    note: ServerNote,
    hint: Vec<String>,
    rules: String,
}

impl Toolset {
    /// Names and judges every tool of a listing.
    pub fn build(spec: &ToolsetSpec<'_>, listing: &Listing) -> Self {
        Self::pinned(spec, listing, Pins::Free)
    }

    /// The same, and holds each tool that the rules leave against what was accepted.
    pub fn pinned(spec: &ToolsetSpec<'_>, listing: &Listing, pins: Pins<'_>) -> Self {
        let mut drift = Vec::new();
        let (policy, chosen) = (Policy::new(spec.rules), Chosen::new(spec.rules));
        let mut entries = Vec::with_capacity(listing.tools.len());
        let mut withheld: Vec<Withheld> = listing.rejected.iter().map(Withheld::from).collect();
        for tool in &listing.tools {
            let judged = entry(spec, &policy, &chosen, tool).and_then(|found| {
                let (drifted, refusal) = pins.judge(spec.id, &tool.name, &tool.raw);
                drift.extend(drifted);
                refusal.map_or(Ok(found), Err)
            });
            match judged {
                Err(reason) => withheld.push(Withheld { tool: tool.name.clone(), reason }),
                Ok((entry, note, category)) => {
                    withheld.extend(note.map(|reason| Withheld { tool: tool.name.clone(), reason }));
                    entries.push((entry, category));
                }
            }
        }
        entries.sort_unstable_by(|(a, _), (b, _)| a.tool.cmp(&b.tool));
        let (entries, categories): (Vec<Entry>, Vec<_>) = entries.into_iter().unzip();
        let names = entries.iter().map(|entry| if entry.hidden { "" } else { entry.tool.as_str() });
        let categories = Categories::new(names.zip(categories).collect());
        withheld.sort_unstable();
        let visible = || entries.iter().filter(|entry| entry.is_for_models());
        let hint = visible().take(HINT_NAMES).map(|entry| single_line(entry.tool.as_str(), HINT_NAME_MAX)).collect();
        let outline = Outline {
            note: listing.note.clone(),
            tools: visible().count(),
            withheld: withheld.len(),
            digest: digest(&listing.digest, &entries, &withheld, spec.rules, &drift),
            tools_digest: digest(&listing.tools_digest, &entries, &withheld, spec.rules, &drift),
            tool_names_hint: hint,
            rules: spec.rules_digest(),
            incomplete: listing.incomplete.clone(),
            said: pins.judge_summary(&said(&listing.note)),
        };
        Self { entries, withheld, categories, drift, loaded: true, ..Self::outline(spec, &outline) }
    }

    /// The toolset as far as remembered numbers tell; its entries are still to be read. What the source offers besides tools
    /// is judged anew.
    pub fn outline(spec: &ToolsetSpec<'_>, outline: &Outline) -> Self {
        let mut note = outline.note.clone();
        if !spec.rules.allow.is_empty() || !spec.rules.deny.is_empty() {
            let policy = Policy::new(spec.rules);
            note.offer = note.offer.without(|offered| policy.refusal_of(offered).is_some());
        }
        Self {
            id: spec.id.clone(),
            name: spec.name.to_owned(),
            provider: spec.provider.to_owned(),
            summary: summary(spec, outline),
            prefix: spec.prefix.to_owned(),
            read_only: spec.rules.read_only,
            entries: Vec::new(),
            withheld: Vec::new(),
            withheld_count: outline.withheld,
            digest: outline.digest.clone(),
            tools_digest: outline.tools_digest.clone(),
            count: outline.tools,
            loaded: false,
            categories: Categories::default(),
            drift: Vec::new(),
            incomplete: outline.incomplete.clone(),
            said: outline.said,
            note,
            hint: outline.tool_names_hint.clone(),
            rules: outline.rules.clone(),
        }
    }

    /// The toolset of a source that was never listed. It counts as loaded: there is nothing to read.
    pub fn unlisted(spec: &ToolsetSpec<'_>) -> Self {
        Self { loaded: true, ..Self::outline(spec, &Outline { rules: spec.rules_digest(), ..Outline::default() }) }
    }

    /// The toolset without those tools that `refusal` gives a reason for, by their names and whether they only read.
    /// `read_only`: all that write are among them. Nothing in it tells of a tool that is not shown.
    pub fn restricted(&self, read_only: bool, refusal: impl Fn(&str, bool) -> Option<String>) -> Self {
        let (mut entries, mut categories, mut withheld) = (Vec::new(), Vec::new(), self.withheld.clone());
        let mut drift = self.drift.clone();
        for (entry, position) in self.entries.iter().zip(0..) {
            match refusal(entry.tool.as_str(), entry.read_only) {
                Some(reason) => {
                    // What was remarked of it counts no more.
                    withheld.retain(|other| other.tool != entry.tool);
                    drift.retain(|other| other.tool != entry.tool);
                    withheld.push(Withheld { tool: entry.tool.clone(), reason });
                }
                None => {
                    entries.push(entry.clone());
                    categories.push(self.categories.of(position).map(str::to_owned));
                }
            }
        }
        withheld.sort_unstable();
        // Tools that need none get no category by their names here: the source's are kept.
        let categories = Categories::new(categories.into_iter().map(|category| ("", category)).collect());
        let is_known = self.loaded && self.is_listed();
        let mut part =
            Self { read_only: self.read_only || read_only, entries, withheld, categories, drift, ..self.clone() };
        part.summary = self.without_names();
        if is_known {
            part.count = part.entries.iter().filter(|entry| entry.is_for_models()).count();
            part.withheld_count = part.withheld.len();
            part.digest = part.own_digest();
            part.tools_digest = part.digest.clone();
        }
        part
    }

    /// The toolset without those prompts and resources that are withheld.
    pub fn offering(mut self, is_withheld: impl Fn(Offered<'_>) -> bool) -> Self {
        self.note.offer = self.note.offer.without(is_withheld);
        self
    }

    /// The summary; one that was made of the names of tools, without them.
    fn without_names(&self) -> String {
        if self.hint.is_empty() {
            return self.summary.clone();
        }
        let title = title(&self.note, &self.name, &self.id);
        let derived = single_line(&format!("{title}: {}", self.hint.join(", ")), LINE_MAX);
        if derived == self.summary { single_line(title, LINE_MAX) } else { self.summary.clone() }
    }

    /// A digest over what there is to be seen of it, with no regard to what there is beside.
    fn own_digest(&self) -> String {
        let mut hash = Fingerprint::new();
        for entry in &self.entries {
            hash.text(entry.tool.as_str()).text(entry.name.as_str()).text(&entry.raw.unpack());
            hash.flag(entry.read_only).flag(entry.hidden).flag(entry.direct).maybe(entry.description.as_deref());
        }
        for drift in &self.drift {
            hash.text(drift.tool.as_str()).text(drift.note());
        }
        hash.hex(DIGEST_HEX)
    }

    /// Whether the source was ever listed.
    pub fn is_listed(&self) -> bool {
        !self.digest.is_empty()
    }

    /// What is to be remembered of it.
    pub fn to_outline(&self) -> Outline {
        Outline {
            note: self.note.clone(),
            tools: self.count,
            withheld: self.withheld_count,
            digest: self.digest.clone(),
            tools_digest: self.tools_digest.clone(),
            tool_names_hint: self.hint.clone(),
            rules: self.rules.clone(),
            incomplete: self.incomplete.clone(),
            said: self.said,
        }
    }

    /// What the source says of itself in one line, if it does: to be accepted with its tools.
    pub fn said_summary(&self) -> Option<Summary> {
        Some(said(&self.note)).filter(|said| !said.is_empty()).map(|said| Summary::of(&said))
    }

    /// What the source says about itself.
    pub fn note(&self) -> &ServerNote {
        &self.note
    }

    /// The position of a tool's entry, by its source's own name.
    pub fn position(&self, tool: &str) -> Option<usize> {
        self.entries.binary_search_by(|entry| entry.tool.as_str().cmp(tool)).ok()
    }

    /// The entry of a tool, by its source's own name.
    pub fn entry(&self, tool: &str) -> Option<&Entry> {
        self.position(tool).map(|at| &self.entries[at])
    }

    /// How a tool differs from what was accepted, if it does.
    pub fn drift(&self, tool: &str) -> Option<&Drift> {
        self.drift.binary_search_by(|drift| drift.tool.as_str().cmp(tool)).ok().map(|at| &self.drift[at])
    }

    /// Why a tool is withheld, if it is.
    pub fn withheld(&self, tool: &str) -> Option<&Withheld> {
        self.withheld.iter().find(|withheld| withheld.tool.as_str() == tool)
    }
}

impl From<&Rejected> for Withheld {
    fn from(rejected: &Rejected) -> Self {
        Self { tool: ToolName::new(rejected.name.as_deref().unwrap_or_default()), reason: rejected.reason.clone() }
    }
}

/// The entry of a listed tool, a remark if it cannot be shown directly, and its category as far as anybody tells it; or the
/// reason why it is withheld.
fn entry(
    spec: &ToolsetSpec<'_>,
    policy: &Policy,
    chosen: &Chosen,
    tool: &ListedTool,
) -> Result<(Entry, Option<String>, Option<String>), String> {
    let text = tool.raw.unpack();
    let members = Members::of(&text).unwrap_or_default();
    let annotations = members.get("annotations").and_then(Members::of).unwrap_or_default();
    let facts = ToolFacts {
        name: tool.name.as_str(),
        read_only_hint: annotations.flag("readOnlyHint"),
        destructive_hint: annotations.flag("destructiveHint"),
    };
    let (read_only, hidden) = match policy.judge(&facts) {
        Verdict::Allowed { read_only, hidden } => (read_only, hidden),
        Verdict::Withheld { reason } => return Err(reason),
    };
    let impossible = impossible_input(members.get("inputSchema")).filter(|_| !hidden);
    let remark = impossible.map(|reason| format!("{reason}: not shown directly, `call_tool` still calls it"));
    let over = spec.rules.tools.get(tool.name.as_str());
    let entry = Entry {
        source: spec.id.clone(),
        tool: tool.name.clone(),
        name: ExposedName::of(spec.id, spec.prefix, &tool.name),
        raw: tool.raw.clone(),
        read_only,
        hidden,
        app_only: is_app_only(&members),
        direct: remark.is_none() && !hidden,
        description: over.and_then(|over| over.description.as_deref()).map(Box::from),
        call_timeout: over.and_then(|over| over.call_timeout),
    };
    let category = if hidden { None } else { chosen.category(tool.name.as_str(), &members) };
    Ok((entry, remark, category))
}

fn digest(listing: &str, entries: &[Entry], withheld: &[Withheld], rules: &ToolRules, drift: &[Drift]) -> String {
    let mut hash = Fingerprint::new();
    hash.text(listing).number(entries.len());
    for entry in entries {
        hash.text(entry.tool.as_str()).text(entry.name.as_str());
        hash.flag(entry.read_only).flag(entry.hidden).flag(entry.direct).maybe(entry.description.as_deref());
    }
    for withheld in withheld {
        hash.text(withheld.tool.as_str()).text(&withheld.reason);
    }
    for (name, globs) in &rules.categories {
        hash.text(name).text(&globs.join("\n"));
    }
    for drift in drift {
        hash.text(drift.tool.as_str()).text(drift.note());
    }
    hash.hex(DIGEST_HEX)
}

/// One line that says what the source is for: the configuration's, else the first sentence of its instructions, else its
/// title and some tool names. Where the source says something that was not accepted, nothing of it.
fn summary(spec: &ToolsetSpec<'_>, outline: &Outline) -> String {
    let (note, hint) = (&outline.note, &outline.tool_names_hint);
    let given = single_line(spec.summary.unwrap_or_default(), LINE_MAX);
    if !given.is_empty() {
        return given;
    }
    if outline.said == Said::Withheld {
        return single_line(title(&ServerNote::default(), spec.name, spec.id), LINE_MAX);
    }
    let told = told(note);
    if !told.is_empty() {
        return told;
    }
    let title = title(note, spec.name, spec.id);
    if hint.is_empty() {
        return single_line(title, LINE_MAX);
    }
    single_line(&format!("{title}: {}", hint.join(", ")), LINE_MAX)
}

/// The first sentence of a source's instructions.
fn told(note: &ServerNote) -> String {
    single_line(first_sentence(note.instructions.as_deref().unwrap_or_default()), LINE_MAX)
}

/// What a source says of itself, as far as a summary tells it: the first sentence of its instructions, else its title.
fn said(note: &ServerNote) -> String {
    let told = told(note);
    if told.is_empty() { single_line(title_of(note), LINE_MAX) } else { told }
}

fn title_of(note: &ServerNote) -> &str {
    note.title.as_deref().filter(|title| !title.is_empty()).unwrap_or(&note.name)
}

fn title<'a>(note: &'a ServerNote, name: &'a str, id: &'a SourceId) -> &'a str {
    let title = [title_of(note), name];
    title.into_iter().find(|title| !title.is_empty()).unwrap_or(id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::lock::Pinned;
    use crate::config::ToolOverride;

    fn build(summary: Option<&str>, rules: &ToolRules, note: ServerNote, raws: &[&str]) -> (Toolset, Toolset) {
        let id = SourceId::new("acme").unwrap();
        let spec = ToolsetSpec { id: &id, name: "Acme", provider: "acme", summary, prefix: "acme", rules };
        let built = Toolset::build(&spec, &Listing::new(raws.iter().map(|&raw| raw.into()), note, None));
        assert!(built.to_outline().fits(&spec));
        let outlined = Toolset::outline(&spec, &built.to_outline());
        (built, outlined)
    }

    fn names(toolset: &Toolset) -> Vec<(&str, bool, bool, bool)> {
        toolset.entries.iter().map(|e| (e.name.as_str(), e.read_only, e.hidden, e.direct)).collect()
    }

    fn withheld(toolset: &Toolset) -> Vec<(&str, &str)> {
        toolset.withheld.iter().map(|w| (w.tool.as_str(), w.reason.as_str())).collect()
    }

    const RAWS: &[&str] = &[
        r#"{"name":"odd","inputSchema":{"type":"string"}}"#,
        r#"{"name":"get_a","annotations":{"readOnlyHint":true}}"#,
        r#"{"name":"put_a"}"#,
        r#"{"name":"secret","annotations":{"readOnlyHint":true,"title":7}}"#,
        r#"{"name":"get_a","x":1}"#,
        "{}",
    ];

    #[test]
    fn tools_are_judged_one_by_one() {
        let mut rules = ToolRules { deny: vec!["put_*".into()], ..ToolRules::default() };
        let secret = ToolOverride { hidden: true, description: Some("d".into()), ..ToolOverride::default() };
        rules.tools.insert("secret".into(), secret);
        let (built, outlined) = build(None, &rules, ServerNote::default(), RAWS);
        assert_eq!(
            names(&built),
            [
                ("acme__get_a", true, false, true),
                ("acme__odd", false, false, false),
                ("acme__secret", true, true, false),
            ]
        );
        assert_eq!(
            withheld(&built),
            [
                ("", "has no `name`"),
                ("get_a", "listed more than once, the first is kept"),
                ("odd", "the root of its inputSchema is not an object: not shown directly, `call_tool` still calls it"),
                ("put_a", "denied by `deny = [\"put_*\"]`"),
            ]
        );
        assert_eq!((built.count, built.withheld_count, built.loaded), (2, 4, true));
        assert_eq!(built.entry("secret").unwrap().description.as_deref(), Some("d"));
        assert_eq!((built.entry("put_a"), built.withheld("put_a").is_some()), (None, true));
        assert_eq!(built.summary, "Acme: get_a, odd");
        assert_eq!(
            Toolset { entries: built.entries.clone(), withheld: built.withheld.clone(), loaded: true, ..outlined },
            built
        );
    }

    #[test]
    fn summaries_are_given_or_derived() {
        let note = |title: Option<&str>, instructions: Option<&str>| ServerNote {
            name: "acme-mcp".into(),
            title: title.map(Into::into),
            version: None,
            instructions: instructions.map(Into::into),
            ..ServerNote::default()
        };
        let rules = ToolRules::default();
        for (given, note, expected) in [
            (Some("Mine\n\u{7}."), note(None, Some("Told.")), "Mine ."),
            (Some(" "), note(None, Some("\u{1b}Told  by\nit. More.")), "Told by it."),
            (None, note(Some("The Acme"), Some(" ")), "The Acme: a, b"),
            (None, note(None, None), "acme-mcp: a, b"),
        ] {
            let (built, outlined) = build(given, &rules, note, &[r#"{"name":"b"}"#, r#"{"name":"a"}"#]);
            assert_eq!((built.summary.as_str(), outlined.summary.as_str()), (expected, expected));
        }
    }

    #[test]
    fn what_a_source_says_is_shown_where_it_was_accepted() {
        let id = SourceId::new("acme").unwrap();
        let rules = ToolRules::default();
        let spec =
            ToolsetSpec { id: &id, name: "Acme", provider: "acme", summary: None, prefix: "acme", rules: &rules };
        let given = ToolsetSpec { summary: Some("Mine."), ..spec };
        for note in [
            ServerNote { instructions: Some("Evil.".into()), ..ServerNote::default() },
            ServerNote { title: Some("Evil.".into()), ..ServerNote::default() },
            ServerNote { name: "Evil.".into(), ..ServerNote::default() },
        ] {
            let listing = Listing::new([], note, None);
            let pins = Pins::Locked { pinned: None, enforce: true };
            let built = Toolset::pinned(&spec, &listing, pins);
            assert_eq!((built.summary.as_str(), built.said), ("Acme", Said::Withheld));
            assert_eq!(Toolset::pinned(&given, &listing, pins).summary, "Mine.");
            assert_eq!(built.restricted(true, |_, _| None).summary, "Acme");
            let free = Toolset::build(&spec, &listing);
            assert_eq!((free.summary.as_str(), free.said), ("Evil.", Said::Unjudged));
            let pinned = Pinned { summary: free.said_summary().map(|said| said.hash), ..Pinned::default() };
            let accepted = Pins::Locked { pinned: Some(&pinned), enforce: true };
            let shown = |outline: Outline| Toolset::outline(&spec, &outline).summary;
            for remembered in [&free, &built, &Toolset::pinned(&spec, &listing, accepted)] {
                assert_eq!(shown(remembered.to_outline().pinned(pins)), "Acme");
                assert_eq!(shown(remembered.to_outline().pinned(Pins::Closed("gone"))), "Acme");
                assert_eq!(shown(remembered.to_outline().pinned(accepted)), "Evil.");
                assert_eq!(shown(remembered.to_outline().unpinned()), "Evil.");
            }
        }
    }

    #[test]
    fn digests_follow_content_and_rules() {
        let of = |rules: &ToolRules, raws: &[&str]| build(None, rules, ServerNote::default(), raws).0.to_outline();
        let base = of(&ToolRules::default(), RAWS);
        let shuffled: Vec<_> = RAWS.iter().rev().copied().collect();
        assert_eq!(of(&ToolRules::default(), &shuffled), base);
        assert_ne!(of(&ToolRules::default(), &RAWS[1..]).digest, base.digest);
        let tight = of(&ToolRules { read_only: true, ..ToolRules::default() }, RAWS);
        assert_ne!((&tight.digest, &tight.rules), (&base.digest, &base.rules));
        let stored: Outline = serde_json::from_str(&serde_json::to_string(&base).unwrap()).unwrap();
        assert_eq!(stored, base);
    }

    #[test]
    fn unlisted_sources_have_nothing_to_read() {
        let id = SourceId::new("acme").unwrap();
        let rules = ToolRules { read_only: true, ..ToolRules::default() };
        let spec = ToolsetSpec { id: &id, name: "", provider: "p", summary: None, prefix: "", rules: &rules };
        let toolset = Toolset::unlisted(&spec);
        assert_eq!(
            (toolset.summary.as_str(), toolset.loaded, toolset.is_listed(), toolset.read_only),
            ("acme", true, false, true)
        );
    }
}
