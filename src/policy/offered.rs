//! Owns how prompts and resources are held against globs, so that no other spelling of a URI slips past one.
//! It does not know whose the globs are, and which spellings there are `spelling` says.

use wildmatch::WildMatch;

use super::spelling;

/// The longest URI that is held against globs, in bytes: a longer one would cost milliseconds and megabytes for each source
/// that is asked for it.
const URI_MAX: usize = 8 * 1024;

/// What a source offers besides tools, by its own name for it. Reading it changes nothing, so `read_only` is not about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered<'a> {
    Prompt(&'a str),
    /// A resource, a skill, a directory of one, or a template: by its URI.
    Resource(&'a str),
}

impl<'a> Offered<'a> {
    /// Why it is not held against any rule, which withholds it.
    pub fn beyond_judging(self) -> Option<String> {
        let is_too_long = matches!(self, Self::Resource(uri) if uri.len() > URI_MAX);
        is_too_long.then(|| format!("its URI is longer than {URI_MAX} bytes, too long to be held against the rules"))
    }

    /// It, ready to be held against globs.
    pub fn judged(self) -> Judged<'a> {
        match self {
            Self::Prompt(name) => Judged { name, is_listed: true, others: Vec::new(), careless: Vec::new() },
            Self::Resource(uri) => {
                let careless = spelling::careless(uri);
                Judged { name: uri, is_listed: false, others: spelling::others(uri, false), careless }
            }
        }
    }

    #[cfg(test)]
    pub fn is_denied_by(self, glob: &str) -> bool {
        self.judged().is_denied_by(&Glob::new(glob))
    }
}

/// A prompt or a resource with all its spellings.
#[derive(Debug)]
pub struct Judged<'a> {
    name: &'a str,
    /// Prompts are known by the names that their sources list; URIs need not be listed, and are spelled in many ways.
    is_listed: bool,
    /// What a source may take it for.
    others: Vec<String>,
    /// What a source that looks at a part only takes it for.
    careless: Vec<String>,
}

impl Judged<'_> {
    /// Whether a glob that withholds means it: one spelling is enough, and the letter case of a URI does not count.
    pub fn is_denied_by(&self, glob: &Glob) -> bool {
        if self.is_listed {
            return glob.matches(self.name);
        }
        let mut all = [self.name].into_iter().chain(self.others.iter().chain(&self.careless).map(String::as_str));
        all.any(|spelling| glob.denied.iter().any(|denied| denied.matches(spelling)))
    }

    /// Whether these globs let it pass: as it is written, and in all other spellings.
    pub fn is_allowed_by<'g>(&self, globs: impl Iterator<Item = &'g Glob> + Clone) -> bool {
        globs.clone().any(|glob| glob.matches(self.name))
            && self.others.iter().all(|spelling| globs.clone().any(|glob| glob.allows(spelling)))
    }
}

/// A glob of `allow` or `deny`.
#[derive(Debug, Clone)]
pub struct Glob {
    written: String,
    exact: WildMatch,
    /// What it is in the spellings that URIs are judged in.
    others: Vec<WildMatch>,
    /// All of it in any letter case. It keeps the name that is to log in: another's is not meant.
    denied: Vec<WildMatch>,
}

impl Glob {
    pub fn new(written: &str) -> Self {
        let keeping = spelling::others(written, true);
        let denied = [written].into_iter().chain(keeping.iter().map(String::as_str));
        Self {
            written: written.to_owned(),
            exact: WildMatch::new(written),
            others: spelling::others(written, false).iter().map(|glob| WildMatch::new(glob)).collect(),
            denied: denied.map(WildMatch::new_case_insensitive).collect(),
        }
    }

    pub fn written(&self) -> &str {
        &self.written
    }

    /// Whether it means this name as it is.
    pub fn matches(&self, name: &str) -> bool {
        self.exact.matches(name)
    }

    /// Whether it means this name, or one that differs in letter case alone.
    pub fn matches_any_case(&self, name: &str) -> bool {
        self.denied.first().is_some_and(|glob| glob.matches(name))
    }

    fn allows(&self, spelling: &str) -> bool {
        self.exact.matches(spelling) || self.others.iter().any(|glob| glob.matches(spelling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(uri: &str, glob: &str) -> bool {
        Offered::Resource(uri).judged().is_allowed_by([Glob::new(glob)].iter())
    }

    /// Each was read from the source that withheld it.
    #[test]
    fn no_spelling_of_a_denied_uri_slips_past() {
        for (glob, uris) in [
            ("file:///B\u{fc}ro/*", &["file:///Bu\u{308}ro/x", "file:///Bu%CC%88ro/x", "file:///B%C3%BCro/x"][..]),
            ("file:///Bu\u{308}ro/*", &["file:///Bu\u{308}ro/x", "file:///B\u{fc}ro/x"]),
            (
                "file:///secret/*",
                &[
                    "file:///secret/x",
                    "toolrelay://inner/file:///secret/x",
                    "ToolRelay://a/toolrelay://b/file:///a/%2e%2e/secret/x",
                    "FILE:///Secret/x",
                    "file:///a/../secret/x",
                    "file:///%73ecret/x",
                    "file:///%2573ecret/x",
                    "file://localhost/secret/b",
                    "file://LOCALHOST/secret/b",
                    "file://127.0.0.1/secret/b",
                    "file:/secret/b",
                    "file:secret/b",
                    "file:\\\\\\secret\\b",
                    "file:///sec\tret/b",
                    "file:///sec\r\nret/b",
                    "fi\tle:///secret/b",
                    " \u{1}file:///secret/b",
                    "file:///open/.\t./secret/b",
                    "file:///./secret/..\t/../b",
                    "file:///./secret/%252e%252e/../b",
                    "file:///./secret/..\\x/../b",
                    "/secret/b",
                    "//localhost/secret/b",
                    "\\secret\\b",
                    "URL:file:///secret/b",
                    "<URL:file:///secret/b>",
                    "file://u@localhost/secret/b",
                    "file://u:p@localhost:80/secret/b",
                    "file://:@/secret/b",
                    "file://localhost:/secret/b",
                    "file://u%40localhost/secret/b",
                    "toolrelay://inner/file://u@/secret/b",
                ][..],
            ),
            (
                "db://prod/*",
                &["db://u@prod/t", "db://u:p@prod/t", "DB://prod:/t", "db://@prod/t", "db://u@prod/x/../t"],
            ),
            ("pg://prod*", &["pg://u@prod/t", "pg://@prod/t"]),
            ("file:///secret/b", &["file:///secret/b#x", "file:///secret/b?x", "file:///secret/b/", "file:/secret/b/"]),
            ("file:///my%20secrets/*", &["file:///my secrets/a", "file:///my%20secrets/a", "file:///%6dy secrets/a"]),
            ("note://x/secret/*", &["note://x/open/%2\te%2e/secret/a", "note://x/%252\te./secret/a"]),
            ("note://my%20x/*", &["note://my x/a", "NOTE://my%20x/a", "note://m\ny x/a"]),
            (
                "http://h.example/sec/*",
                &[
                    "http://h.example:80/sec/a",
                    "http://h.example:080/sec/a",
                    "http://h.example:/sec/a",
                    "http://h.example%3A80/sec/a",
                    "http://u@h.example/sec/a",
                    "http://u:p@h.example/sec/a",
                    "http://h.example./sec/a",
                    "http://u@h.example.:80/sec/a",
                    "http:/h.example/sec/a",
                    "http:h.example/sec/a",
                    "http:////h.example/sec/a",
                    "http:\\\\h.example\\sec\\a",
                    "http://H.EXAMPLE/sec/a",
                    "http://h%2Eexample/sec/a",
                    "http://\u{ff48}.example/sec/a",
                    "http://h\u{3002}example/sec/a",
                    "http://h.exam\u{ad}ple/sec/a",
                    "http://h.example/s\tec/a",
                ],
            ),
            ("http://b\u{fc}cher.example/*", &["http://xn--bcher-kva.example/a", "http://B\u{dc}CHER.example/a"]),
            ("http://h.example:80/*", &["http://h.example/a", "http://h.example:80/a"]),
            ("http://127.0.0.1/*", &["http://0x7f.1/a", "http://2130706433/a"]),
            ("http://h.example/", &["http://h.example", "http://h.example/#x"]),
        ] {
            for uri in uris {
                assert!(Offered::Resource(uri).is_denied_by(glob), "{uri:?} {glob}");
            }
        }
    }

    #[test]
    fn what_is_not_meant_is_not_denied() {
        for (uri, glob) in [
            ("file:///secrets", "file:///secret/*"),
            ("file:///secret", "file:///secret/*"),
            ("file:///a", "file:///a?b"),
            ("http://h.example:81/sec/a", "http://h.example/sec/*"),
            ("http://h.example/x", "http://u@h.example/*"),
            ("note://x/y", "note://u@x/*"),
            ("note://x:81/y", "note://x/*"),
            ("lang://c#", "lang://c"),
            ("db:table/1?limit=2", "db:table/1"),
        ] {
            assert!(!Offered::Resource(uri).is_denied_by(glob), "{uri:?} {glob}");
        }
        assert!(Offered::Prompt("a").is_denied_by("a*") && !Offered::Prompt("A").is_denied_by("a*"));
    }

    #[test]
    fn what_is_allowed_is_so_in_all_spellings() {
        for (uri, glob) in [
            ("file:///open/a", "file:///open/*"),
            ("file:///open/{x}", "file:///open/*"),
            ("file:///open/a%20b", "file:///open/a%20b"),
            ("file:///open/a b", "file:///open/a?b"),
            ("file:///open/\u{fc}.txt", "file:///open/?.txt"),
            ("file:///open/u\u{308}.txt", "file:///open/u\u{308}.txt"),
            ("toolrelay://inner/note://a", "toolrelay://inner/*"),
            ("file:///open/\u{fc}.txt", "file:///open/\u{fc}.txt"),
            ("file:///open/100%", "file:///open/*"),
            ("file:///open/a b.txt?x#y", "file:*"),
            ("file://nas/share/a", "file://nas*"),
            ("http://h.example:80/a", "http://h.example:80/*"),
            ("https://u@h.example/a?b=c%20d", "https://u@h.example/*"),
            ("https://API.example", "https://API.example"),
            ("https://a.example/x", "https://*.example/*"),
            ("http://b\u{fc}cher.example/a", "http://b\u{fc}cher.example/*"),
            ("note://x", "note://x"),
            ("note://u@X:80/%41", "note://u@X:80/*"),
            ("db:table/1", "db:table/*"),
            ("skill://pdf/SKILL.md", "skill://pdf/*"),
            ("ui://view/main.html?a=b#c", "ui://*"),
            ("odd name", "odd*"),
        ] {
            assert!(is_allowed(uri, glob), "{uri:?} {glob}");
        }
        for (uri, glob) in [
            ("file:///open/.\t./secret/b", "file:///open/*"),
            ("file:///open/.\n./secret/b", "file:///open/*"),
            ("file:///open/..\t/secret", "file:///open/*"),
            ("file:///open/%2e.\t/secret", "file:///open/*"),
            ("file:///open/..%5csecret", "file:///open/*"),
            ("file:///open/%252e%252e/secret", "file:///open/*"),
            ("https://api.example@other.example/x", "https://api.example*"),
            ("https://api.example/pub/.\t./sec", "https://api.example/pub/*"),
            ("http://h.example/a", "http://h.example:80/*"),
            ("http://h.example/a", "http://u@h.example/*"),
            ("HTTP://h.example/a", "http://h.example/*"),
            ("note://open/../x", "note://open/*"),
        ] {
            assert!(!is_allowed(uri, glob), "{uri:?} {glob}");
        }
    }
}
