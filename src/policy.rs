//! Owns the decision who may see and call which tool of a source, who may have which of its prompts and resources, and the
//! sentence that says why not. It is pure, and it does not know where a call comes from or where it goes.
//!
//! # Which tools only read
//!
//! In this order: `tool.NAME.read_only`; the tool's annotations (`readOnlyHint: true` reads, unless `destructiveHint` is
//! true as well; `readOnlyHint: false` or `destructiveHint: true` writes); else its name. By its name a tool reads only
//! when no word of it is a known writing verb and its first verb-like word is a known reading verb: either its first
//! word (`get_user`), or a later one with something to read after it (`unifi_list_clients`). Words that are verbs or
//! things, such as `commit`, write unless they stand after the reading verb (`get_commit`), and not after an `and`
//! (`get_and_commit`). After that any word counts as one that writes, unless it is a reading verb or a plural
//! (`list_users_and_groups`). A name that says neither, such as `report`, counts as writing.

pub mod grant;
mod offered;
mod spelling;

use std::collections::BTreeMap;

use crate::config::{ToolOverride, ToolRules};
use offered::Glob;
pub use offered::Offered;

/// Verbs that do not change anything.
#[rustfmt::skip]
const READING: &[&str] = &[
    "analyse", "analyze", "browse", "check", "compare", "count", "describe", "diff", "discover", "echo", "enumerate",
    "estimate", "examine", "explain", "fetch", "find", "get", "inspect", "list", "lookup", "peek", "preview",
    "read", "retrieve", "search", "show", "summarise", "summarize", "view",
];

/// Verbs that change something, or may.
#[rustfmt::skip]
const WRITING: &[&str] = &[
    "abort", "accept", "acknowledge", "activate", "add", "adopt", "allow", "alter", "amend", "append", "apply",
    "approve", "archive", "assign", "attach", "authorize", "ban", "buy", "cancel", "clean", "clear", "click", "clone",
    "close", "complete", "configure", "confirm", "connect", "convert", "create", "deactivate", "delete", "demote",
    "deny", "deploy", "destroy", "detach", "disable", "disconnect", "dismiss", "download", "drag", "drop",
    "duplicate", "edit", "eject", "empty", "enable", "erase", "evaluate", "exec", "execute", "fill", "flush",
    "forget", "forward", "init", "insert", "install", "invoke", "join", "kick", "kill", "launch", "leave", "logout",
    "make", "migrate", "modify", "move", "mutate", "mute", "navigate", "notify", "nuke", "open", "overwrite", "park",
    "pause", "pay", "press", "promote", "prune", "publish", "purge", "put", "reboot", "rebuild", "refresh",
    "register", "reject", "reload", "remove", "rename", "reopen", "replace", "reset", "resize", "resolve", "restart",
    "restore", "resume", "retry", "revert", "revoke", "rollback", "rotate", "save", "scrub", "sell", "send", "set",
    "shutdown", "snooze", "spawn", "stop", "submit", "subscribe", "suspend", "swap", "terminate", "toggle", "touch",
    "trash", "truncate", "unarchive", "unassign", "unban", "unblock", "undo", "uninstall", "unlink", "unlock",
    "unmute", "unpin", "unpublish", "unregister", "unset", "unsubscribe", "update", "upgrade", "upload", "upsert",
    "wipe", "withdraw", "write",
];

/// Verbs that change something, but name a thing as well: `get_commit`, `list_pull_request_runs`.
#[rustfmt::skip]
const EITHER: &[&str] = &[
    "batch", "block", "book", "bulk", "call", "change", "charge", "commit", "copy", "end", "export", "fix", "force",
    "fork", "format", "grant", "import", "invite", "issue", "link", "load", "lock", "log", "login", "mark", "merge",
    "patch", "pin", "place", "play", "post", "pull", "purchase", "push", "record", "refund", "release", "reply",
    "request", "run", "schedule", "share", "sign", "split", "star", "start", "store", "switch", "sync", "tag",
    "transfer", "trigger", "type", "use", "vote",
];

/// A verb after one of these is a second thing that the tool does: `get_and_lock`.
const JOINING: &[&str] = &["and", "n", "or", "then"];

/// What the policy needs to know about a listed tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolFacts<'a> {
    pub name: &'a str,
    /// `annotations.readOnlyHint`, if the source gives it.
    pub read_only_hint: Option<bool>,
    /// `annotations.destructiveHint`, if the source gives it.
    pub destructive_hint: Option<bool>,
}

/// What the policy says about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allowed {
        read_only: bool,
        /// It may be called, and is shown nowhere.
        hidden: bool,
    },
    Withheld {
        reason: String,
    },
}

/// The rules of one source, ready to judge.
#[derive(Debug, Clone)]
pub struct Policy {
    read_only: bool,
    allow: Vec<Glob>,
    deny: Vec<Glob>,
    tools: BTreeMap<String, ToolOverride>,
}

impl Policy {
    pub fn new(rules: &ToolRules) -> Self {
        Self {
            read_only: rules.read_only,
            allow: rules.allow.iter().map(|glob| Glob::new(glob)).collect(),
            deny: rules.deny.iter().map(|glob| Glob::new(glob)).collect(),
            tools: rules.tools.clone(),
        }
    }

    /// Judges a tool that its source lists.
    pub fn judge(&self, facts: &ToolFacts<'_>) -> Verdict {
        let reason = self.refusal(facts.name);
        let (read_only, ground) = self.reads(facts);
        let reason = reason.or_else(|| {
            (self.read_only && !read_only).then(|| format!("a write tool{ground}, and the source is read_only"))
        });
        match reason {
            Some(reason) => Verdict::Withheld { reason },
            None => Verdict::Allowed { read_only, hidden: self.tools.get(facts.name).is_some_and(|tool| tool.hidden) },
        }
    }

    /// Judges a tool of which only the name is known, because its source does not list it. A source may take such a name
    /// in another letter case than the one that is denied, so the case does not count against `deny`.
    pub fn judge_name(&self, name: &str) -> Verdict {
        if let Some(glob) = self.deny.iter().find(|glob| glob.matches_any_case(name)) {
            return Verdict::Withheld { reason: denied(glob) };
        }
        self.judge(&ToolFacts { name, read_only_hint: None, destructive_hint: None })
    }

    /// Why a prompt or a resource is withheld, if it is: the same globs, over its name or its URI.
    pub fn refusal_of(&self, offered: Offered<'_>) -> Option<String> {
        if self.allow.is_empty() && self.deny.is_empty() {
            return None;
        }
        if let Some(why) = offered.beyond_judging() {
            return Some(why);
        }
        let judged = offered.judged();
        if let Some(glob) = self.deny.iter().find(|glob| judged.is_denied_by(glob)) {
            return Some(denied(glob));
        }
        let is_allowed = self.allow.is_empty() || judged.is_allowed_by(self.allow.iter());
        (!is_allowed).then(|| "not in `allow`".to_owned())
    }

    fn refusal(&self, name: &str) -> Option<String> {
        if let Some(glob) = self.deny.iter().find(|glob| glob.matches(name)) {
            return Some(denied(glob));
        }
        let is_allowed = self.allow.is_empty() || self.allow.iter().any(|glob| glob.matches(name));
        (!is_allowed).then(|| "not in `allow`".to_owned())
    }

    /// Whether the tool only reads, and what says so if it does not.
    fn reads(&self, facts: &ToolFacts<'_>) -> (bool, &'static str) {
        if let Some(read_only) = self.tools.get(facts.name).and_then(|tool| tool.read_only) {
            return (read_only, " by its `read_only = false`");
        }
        match (facts.read_only_hint, facts.destructive_hint) {
            (_, Some(true)) | (Some(false), _) => (false, ""),
            (Some(true), _) => (true, ""),
            (None, _) => (reads_by_name(facts.name), " as far as its name tells"),
        }
    }
}

fn denied(glob: &Glob) -> String {
    format!("denied by `deny = [{:?}]`", glob.written())
}

/// Whether a tool's name alone says that it only reads; see the module's text.
pub fn reads_by_name(name: &str) -> bool {
    let words: Vec<String> = words(name).map(str::to_lowercase).collect();
    let is_in = |list: &[&str], at: usize| words.get(at).is_some_and(|word| list.binary_search(&word.as_str()).is_ok());
    let is_second = |at: usize| at > 0 && is_in(JOINING, at - 1);
    // What else it does has to be known to read, or to be more of what it reads: `list_users_and_groups`.
    let is_more = |at: usize| words[at].ends_with('s') && !words[at].ends_with("ss") && !is_in(EITHER, at);
    let may_write = |at: usize| is_in(WRITING, at) || is_second(at) && !is_in(READING, at) && !is_more(at);
    if (0..words.len()).any(may_write) {
        return false;
    }
    let Some(verb) = (0..words.len()).find(|&at| is_in(READING, at) || is_in(EITHER, at)) else { return false };
    let is_stated = verb == 0 || verb + 1 < words.len();
    // To check something in or out changes it.
    let is_phrase = words[verb] == "check" && is_in(&["in", "out"], verb + 1);
    is_in(READING, verb) && is_stated && !is_phrase
}

/// Whether a word (lower case) is a verb; one that names a thing as well, such as `commit`, if it stands where a verb would.
pub fn is_verb(word: &str, in_its_place: bool) -> bool {
    let is_in = |list: &[&str]| list.binary_search(&word).is_ok();
    is_in(READING) || is_in(WRITING) || (in_its_place && is_in(EITHER)) || is_in(JOINING)
}

/// The words of a name or a text: cut at everything that is no letter or digit, between `aB` and `ABc`, and between
/// letters and digits.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).flat_map(Humps)
}

/// The words of a text without separators.
struct Humps<'a>(&'a str);

impl<'a> Iterator for Humps<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut rest = self.0.char_indices().peekable();
        let (_, mut last) = rest.next()?;
        let mut end = self.0.len();
        while let Some((at, c)) = rest.next() {
            let follows_lower = rest.peek().is_some_and(|&(_, next)| next.is_lowercase());
            let starts_word = c.is_uppercase() && (last.is_lowercase() || (last.is_uppercase() && follows_lower));
            if starts_word || c.is_numeric() != last.is_numeric() {
                end = at;
                break;
            }
            last = c;
        }
        let (word, after) = self.0.split_at(end);
        self.0 = after;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_that_is_too_long_to_be_judged_is_withheld_by_any_rule() {
        let uri = "x:".to_owned() + &"a".repeat(8 * 1024);
        let refusal = |allow: &[&str]| Policy::new(&rules(false, allow, &[])).refusal_of(Offered::Resource(&uri));
        assert!(refusal(&["*"]).unwrap().contains("longer than 8192 bytes"));
        assert_eq!(refusal(&[]), None);
    }

    fn rules(read_only: bool, allow: &[&str], deny: &[&str]) -> ToolRules {
        let globs = |list: &[&str]| list.iter().map(|&glob| glob.to_owned()).collect();
        ToolRules { read_only, allow: globs(allow), deny: globs(deny), ..ToolRules::default() }
    }

    fn check(rules: &ToolRules, name: &str, hints: [Option<bool>; 2], expected: Result<bool, &str>) {
        let facts = ToolFacts { name, read_only_hint: hints[0], destructive_hint: hints[1] };
        let found = match Policy::new(rules).judge(&facts) {
            Verdict::Allowed { read_only, hidden: false } => Ok(read_only),
            Verdict::Withheld { reason } => Err(reason),
            hidden => panic!("{hidden:?}"),
        };
        assert_eq!(found, expected.map_err(str::to_owned), "{name}");
    }

    #[test]
    fn lists_are_sorted_and_apart() {
        for list in [READING, WRITING, EITHER, JOINING] {
            assert!(list.is_sorted());
        }
        let mut all = [READING, WRITING, EITHER, JOINING].concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn globs_decide_and_deny_wins() {
        let none = [None, None];
        let open = rules(false, &[], &[]);
        check(&open, "delete_repo", none, Ok(false));
        let listed = rules(false, &["get_*", "delete_x"], &["delete_*", "*\"*"]);
        check(&listed, "get_repo", none, Ok(true));
        check(&listed, "Get_repo", none, Err("not in `allow`"));
        check(&listed, "delete_x", none, Err("denied by `deny = [\"delete_*\"]`"));
        check(&listed, "a\"b", none, Err("denied by `deny = [\"*\\\"*\"]`"));
    }

    #[test]
    fn annotations_come_before_the_name() {
        let tight = rules(true, &[], &[]);
        let annotated = "a write tool, and the source is read_only";
        let named = "a write tool as far as its name tells, and the source is read_only";
        check(&tight, "delete", [Some(true), None], Ok(true));
        check(&tight, "get", [Some(true), Some(true)], Err(annotated));
        check(&tight, "get", [Some(false), None], Err(annotated));
        check(&tight, "get", [None, Some(true)], Err(annotated));
        check(&tight, "get", [None, Some(false)], Ok(true));
        check(&tight, "frobnicate", [None, None], Err(named));
    }

    #[test]
    fn overrides_come_first() {
        let mut tight = rules(true, &[], &[]);
        let with = |read_only, hidden| ToolOverride { read_only, hidden, ..ToolOverride::default() };
        tight.tools.insert("run".into(), with(Some(true), true));
        tight.tools.insert("get".into(), with(Some(false), false));
        let policy = Policy::new(&tight);
        assert_eq!(policy.judge_name("run"), Verdict::Allowed { read_only: true, hidden: true });
        let reason = "a write tool by its `read_only = false`, and the source is read_only".to_owned();
        assert_eq!(policy.judge_name("get"), Verdict::Withheld { reason });
        assert_eq!(policy.judge_name("list_x"), Verdict::Allowed { read_only: true, hidden: false });
    }

    /// A source that takes `DELETE_x` for `delete_x` was sent it.
    #[test]
    fn unlisted_names_are_denied_in_any_case() {
        let policy = Policy::new(&rules(false, &[], &["delete_*", "Über_x"]));
        for name in ["delete_x", "Delete_X", "DELETE_", "über_X"] {
            assert!(matches!(policy.judge_name(name), Verdict::Withheld { .. }), "{name}");
        }
        assert_eq!(policy.judge_name("undelete_x"), Verdict::Allowed { read_only: false, hidden: false });
    }

    #[test]
    fn names_are_classified_conservatively() {
        for name in [
            "get_user",
            "get_issue",
            "get_pull_request",
            "unifi_get_log",
            "check_run",
            "listItems",
            "list_users_and_groups",
            "unifi_list_clients",
            "browser-get-tabs",
            "GET /search/person",
            "search",
            "echo",
        ] {
            assert!(reads_by_name(name), "{name}");
        }
        for name in [
            "",
            "run",
            "issue_list_x",
            "get_and_lock",
            "get_and_increment",
            "get_message_and_ack",
            "list_users_and_email",
            "read_or_process",
            "check_out_branch",
            "report",
            "get_and_delete",
            "search_and_replace",
            "wipe_list",
            "obliterate_list",
            "getOrCreateUser",
            "POST /list",
            "set_view",
            "查询",
            "browser_click",
            "execute_query",
            "query",
            "query_database",
            "GETandDELETE_x",
        ] {
            assert!(!reads_by_name(name), "{name}");
        }
    }

    #[test]
    fn words_end_at_borders() {
        for (text, expected) in [
            ("getHTTPResponse_v2", &["get", "HTTP", "Response", "v", "2"][..]),
            ("read-text.file", &["read", "text", "file"]),
            ("ABC", &["ABC"]),
            ("aB", &["a", "B"]),
            ("ÄpfelÖl 查询x", &["Äpfel", "Öl", "查询x"]),
            ("__", &[]),
        ] {
            assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
