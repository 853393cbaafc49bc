//! Owns what a credential may see and call: which sources, and which of their tools, prompts and resources, with the
//! sentence that says why not. It judges what the source's own rules have let pass, and knows no token.

use wildmatch::WildMatch;

use super::{Glob, Offered};
use crate::config::Grant;
use crate::name::SourceId;

/// A glob over `source/name`.
#[derive(Debug, Clone)]
struct PairGlob {
    written: String,
    source: WildMatch,
    name: Glob,
}

impl PairGlob {
    fn new(written: &str) -> Self {
        let (source, name) = written.split_once('/').unwrap_or((written, "*"));
        Self { written: written.to_owned(), source: WildMatch::new(source), name: Glob::new(name) }
    }

    fn matches(&self, source: &str, tool: &str) -> bool {
        self.source.matches(source) && self.name.matches(tool)
    }
}

/// The rules of one credential, ready to judge.
#[derive(Debug, Clone)]
pub struct Granted {
    credential: SourceId,
    /// `None`: all.
    sources: Option<Vec<WildMatch>>,
    read_only: bool,
    allow: Vec<PairGlob>,
    deny: Vec<PairGlob>,
}

impl Granted {
    pub fn new(credential: &SourceId, grant: &Grant) -> Self {
        let globs = |written: &Vec<String>| written.iter().map(|glob| PairGlob::new(glob)).collect();
        Self {
            credential: credential.clone(),
            sources: grant.sources.as_ref().map(|globs| globs.iter().map(|glob| WildMatch::new(glob)).collect()),
            read_only: grant.read_only,
            allow: globs(&grant.allow),
            deny: globs(&grant.deny),
        }
    }

    /// Whether it is as if there were no rules.
    pub fn is_everything(&self) -> bool {
        self.sources.is_none() && !self.chooses_tools()
    }

    /// Whether it may have some of what a source offers and not other.
    pub fn chooses_tools(&self) -> bool {
        self.read_only || !self.allow.is_empty() || !self.deny.is_empty()
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether a source is there at all.
    pub fn sees(&self, source: &str) -> bool {
        self.sources.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(source)))
    }

    /// Why a listed tool is withheld, if it is.
    pub fn refusal(&self, source: &str, tool: &str, read_only: bool) -> Option<String> {
        let denied = self.deny.iter().find(|glob| glob.matches(source, tool));
        denied.map(|glob| self.denied(glob)).or_else(|| self.beyond(source, tool, read_only))
    }

    /// Why a tool that its source does not list is withheld. The letter case does not count against `deny`.
    pub fn refusal_unlisted(&self, source: &str, tool: &str, read_only: bool) -> Option<String> {
        let is_denied = |glob: &&PairGlob| glob.source.matches(source) && glob.name.matches_any_case(tool);
        let denied = self.deny.iter().find(is_denied);
        denied.map(|glob| self.denied(glob)).or_else(|| self.beyond(source, tool, read_only))
    }

    /// [`refusal_unlisted`](Self::refusal_unlisted) as far as the name alone tells, before the source has been asked.
    pub fn refusal_by_name(&self, source: &str, tool: &str) -> Option<String> {
        self.refusal_unlisted(source, tool, true)
    }

    /// Why a prompt or a resource is withheld, if it is, whether the source lists it or not.
    pub fn refusal_of(&self, source: &str, offered: Offered<'_>) -> Option<String> {
        if self.allow.is_empty() && self.deny.is_empty() {
            return None;
        }
        if let Some(why) = offered.beyond_judging() {
            return Some(why);
        }
        let judged = offered.judged();
        let is_denied = |glob: &&PairGlob| glob.source.matches(source) && judged.is_denied_by(&glob.name);
        if let Some(glob) = self.deny.iter().find(is_denied) {
            return Some(self.denied(glob));
        }
        let allow = self.allow.iter().filter(|glob| glob.source.matches(source)).map(|glob| &glob.name);
        let is_allowed = self.allow.is_empty() || judged.is_allowed_by(allow);
        (!is_allowed).then(|| self.not_allowed())
    }

    fn denied(&self, glob: &PairGlob) -> String {
        format!("denied by `deny = [{:?}]` of credential `{}`", glob.written, self.credential)
    }

    fn not_allowed(&self) -> String {
        format!("not in `allow` of credential `{}`", self.credential)
    }

    fn beyond(&self, source: &str, tool: &str, read_only: bool) -> Option<String> {
        let is_allowed = self.allow.is_empty() || self.allow.iter().any(|glob| glob.matches(source, tool));
        if !is_allowed {
            return Some(self.not_allowed());
        }
        (self.read_only && !read_only)
            .then(|| format!("a write tool, and credential `{}` is read_only", self.credential))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(sources: Option<&[&str]>, read_only: bool, allow: &[&str], deny: &[&str]) -> Granted {
        let globs = |list: &[&str]| list.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
        let grant =
            Grant { sources: sources.map(globs), read_only, allow: globs(allow), deny: globs(deny), exposure: None };
        Granted::new(&SourceId::new("ci").unwrap(), &grant)
    }

    fn check(granted: &Granted, name: &str, read_only: bool, expected: Option<&str>) {
        let (source, tool) = name.split_once('/').unwrap();
        assert_eq!(granted.refusal(source, tool, read_only).as_deref(), expected, "{name}");
    }

    #[test]
    fn globs_are_parted_at_the_first_slash() {
        let some = granted(None, false, &["git*/*", "notes/a/b"], &["*/delete_*"]);
        check(&some, "github/get", false, None);
        check(&some, "notes/a/b", false, None);
        check(&some, "notes/git/x", false, Some("not in `allow` of credential `ci`"));
        check(&some, "github/delete_x", true, Some("denied by `deny = [\"*/delete_*\"]` of credential `ci`"));
        let unlisted = some.refusal_by_name("github", "DELETE_x");
        assert_eq!(unlisted.as_deref(), Some("denied by `deny = [\"*/delete_*\"]` of credential `ci`"));
        check(&some, "github/DELETE_x", true, None);
    }

    #[test]
    fn prompts_and_resources_are_judged_by_the_same_globs() {
        let some = granted(None, true, &["notes/get_*", "notes/doc://open/*", "all/*"], &["*/doc://open/x*"]);
        for (source, offered, expected) in [
            ("notes", Offered::Prompt("get_x"), None),
            ("notes", Offered::Prompt("ask"), Some("not in `allow` of credential `ci`")),
            ("all", Offered::Prompt("put_x"), None),
            ("notes", Offered::Resource("doc://open/a"), None),
            ("notes", Offered::Resource("doc://open/../shut/a"), Some("not in `allow` of credential `ci`")),
            (
                "all",
                Offered::Resource("DOC://open/x1"),
                Some("denied by `deny = [\"*/doc://open/x*\"]` of credential `ci`"),
            ),
            ("other", Offered::Resource("doc://open/a"), Some("not in `allow` of credential `ci`")),
        ] {
            assert_eq!(some.refusal_of(source, offered).as_deref(), expected, "{source} {offered:?}");
        }
    }

    #[test]
    fn a_uri_that_is_too_long_to_be_judged_is_withheld_by_any_rule() {
        let uri = |length: usize| format!("file:///{}", "%41/../\\".repeat(length))[..length].to_owned();
        let (long, longer) = (uri(8 * 1024), uri(8 * 1024 + 1));
        let said = "its URI is longer than 8192 bytes, too long to be held against the rules";
        for some in [granted(None, false, &["*/*"], &[]), granted(None, false, &[], &["other/*"])] {
            assert_eq!(some.refusal_of("notes", Offered::Resource(&long)), None);
            assert_eq!(some.refusal_of("notes", Offered::Resource(&longer)).as_deref(), Some(said));
            assert_eq!(some.refusal_of("notes", Offered::Prompt(&longer)), None);
        }
        assert_eq!(granted(None, true, &[], &[]).refusal_of("notes", Offered::Resource(&longer)), None);
    }

    #[test]
    fn writing_is_withheld_and_sources_are_hidden() {
        let reader = granted(Some(&["a", "b*"]), true, &[], &[]);
        check(&reader, "a/x", true, None);
        check(&reader, "a/x", false, Some("a write tool, and credential `ci` is read_only"));
        assert_eq!(["a", "b2", "c"].map(|source| reader.sees(source)), [true, true, false]);
        assert!(!reader.is_everything() && reader.chooses_tools());
        assert!(granted(None, false, &[], &[]).is_everything());
        assert!(!granted(Some(&[]), false, &[], &[]).sees("a"));
    }
}
