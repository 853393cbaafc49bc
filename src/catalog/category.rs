//! Owns the category of each tool within its source: which kinds of tools there are, by name, and which tool is of which.
//! It does not search.
//!
//! # How a tool comes to its category
//!
//! In this order: the first category of the configuration, by name, with a glob that fits the tool's name; the tool's own
//! `_meta`: `category`, else the first key by name that ends in `/category`, else the first of `tags`, else the first of
//! `tags` in `fastmcp` or `_fastmcp`; else its name, if the names of the source group well.
//!
//! By its name a tool belongs to the first thing the name speaks of: the first word that is neither the vendor's (one with
//! which at least 4 of 5 names of the source begin) nor a verb, an article or the like. Singular and plural are one, named
//! as the tools name it, in the singular if any does: `unifi_list_clients` and `client_block` belong to `client`. Names
//! group well when the source has at least 12 tools, and the groups of at least 3 tools take in at least 3 of 5 of its
//! tools; smaller groups are none.

use std::collections::BTreeMap;

use super::glob::Glob;
use super::text::single_line;
use crate::config::ToolRules;
use crate::config::keys::CATEGORY_MAX;
use crate::policy;
use crate::wire::raw::{self, Kind, Members};

/// A source with fewer tools needs no categories made from names.
const TOOLS_MIN: usize = 12;
/// A group of fewer names is none.
const GROUP_MIN: usize = 3;
/// Of so many tools, groups have to take in that many.
const COVERED: (usize, usize) = (5, 3);
/// Of so many names, that many begin with the vendor's word.
const VENDOR: (usize, usize) = (5, 4);
/// Words that are no thing.
const FILLERS: &[&str] = &["a", "all", "an", "any", "by", "for", "from", "in", "my", "of", "on", "the", "to", "with"];
/// No category; also more than a source can have.
const NONE: u16 = u16::MAX;

/// The categories of one source's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Categories {
    /// Sorted; each has a tool.
    names: Box<[Box<str>]>,
    /// The category of each entry, by the entry's position; empty if no entry has one.
    of: Box<[u16]>,
}

impl Categories {
    /// From each tool's name and the category that is known of it, in the order of the entries. A tool without a name here
    /// has no category.
    pub(super) fn new(mut tools: Vec<(&str, Option<String>)>) -> Self {
        let made = from_names(&tools.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for ((_, known), made) in tools.iter_mut().zip(made) {
            *known = known.take().or(made);
        }
        let mut places: BTreeMap<&str, u16> =
            tools.iter().filter_map(|(_, known)| Some((known.as_deref()?, NONE))).collect();
        places.values_mut().zip(0..NONE).for_each(|(place, at)| *place = at);
        if places.is_empty() {
            return Self::default();
        }
        let of =
            tools.iter().map(|(_, known)| known.as_deref().and_then(|name| places.get(name).copied()).unwrap_or(NONE));
        Self { of: of.collect(), names: places.keys().take(usize::from(NONE)).map(|name| Box::from(*name)).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The category of the entry at a position.
    pub fn of(&self, position: usize) -> Option<&str> {
        let at = *self.of.get(position)?;
        self.names.get(usize::from(at)).map(AsRef::as_ref)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }
}

/// Whether two names say the same: in any letter case, with `_`, `-` or a blank between words.
pub fn is_same(a: &str, b: &str) -> bool {
    let folded = |text: &'_ str| -> String {
        text.chars().flat_map(char::to_lowercase).map(|c| if matches!(c, '_' | '-') { ' ' } else { c }).collect()
    };
    let first = |text: &str| text.chars().next().map(|c| c.to_ascii_lowercase());
    // Most are told apart without a copy of either.
    let is_plain = a.is_ascii() && b.is_ascii();
    let may_be = !is_plain || (a.len() == b.len() && first(a) == first(b));
    may_be && folded(a) == folded(b)
}

/// What the configuration says about categories, ready to be asked.
pub(super) struct Chosen(Vec<(String, Vec<Glob>)>);

impl Chosen {
    pub(super) fn new(rules: &ToolRules) -> Self {
        let globs = |globs: &Vec<String>| globs.iter().map(|glob| Glob::new(glob)).collect();
        Self(rules.categories.iter().map(|(name, list)| (single_line(name, CATEGORY_MAX), globs(list))).collect())
    }

    /// The category of a tool as far as the configuration or the tool itself tells.
    pub(super) fn category(&self, tool: &str, members: &Members<'_>) -> Option<String> {
        let chosen = self.0.iter().find(|(_, globs)| globs.iter().any(|glob| glob.matches(tool)));
        chosen.map(|(name, _)| name.clone()).or_else(|| told(members))
    }
}

/// What the tool says about itself.
fn told(members: &Members<'_>) -> Option<String> {
    let meta = Members::of(members.get("_meta")?)?;
    let first_tag = |members: &Members<'_>| raw::elements(members.get("tags")?)?.first().and_then(|tag| line(tag));
    let vendor = || {
        let mut keys: Vec<&str> =
            meta.0.iter().map(|member| member.key.as_ref()).filter(|key: &&str| key.ends_with("/category")).collect();
        keys.sort_unstable();
        keys.into_iter().find_map(|key| line(meta.get(key)?))
    };
    let framework = || ["fastmcp", "_fastmcp"].into_iter().find_map(|key| first_tag(&Members::of(meta.get(key)?)?));
    meta.get("category").and_then(line).or_else(vendor).or_else(|| first_tag(&meta)).or_else(framework)
}

/// A JSON string as the name of a category.
fn line(text: &str) -> Option<String> {
    let text = (raw::kind(text) == Kind::Text).then(|| raw::string(text)).flatten()?;
    Some(single_line(&text, CATEGORY_MAX)).filter(|line| !line.is_empty())
}

/// The category that each name tells; none unless the names group well.
fn from_names(names: &[&str]) -> Vec<Option<String>> {
    let none = || vec![None; names.len()];
    let total = names.iter().filter(|name| !name.is_empty()).count();
    if total < TOOLS_MIN {
        return none();
    }
    let words: Vec<Vec<String>> =
        names.iter().map(|name| policy::words(name).map(str::to_lowercase).collect()).collect();
    let vendor = vendor(&words, total);
    let things: Vec<Option<String>> = words.iter().map(|words| thing(words, vendor)).collect();
    // The things of each group with how many tools speak of it so.
    let mut groups: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for thing in things.iter().flatten() {
        *groups.entry(singular(thing)).or_default().entry(thing).or_default() += 1;
    }
    groups.retain(|_, forms| forms.values().sum::<usize>() >= GROUP_MIN);
    let covered: usize = groups.values().flat_map(BTreeMap::values).sum();
    if groups.len() < 2 || covered * COVERED.0 < total * COVERED.1 {
        return none();
    }
    // The singular is the shorter form.
    let name = |thing: &String| Some((*groups.get(singular(thing))?.keys().min_by_key(|form| form.len())?).to_owned());
    things.iter().map(|thing| thing.as_ref().and_then(name)).collect()
}

/// The word with which most names begin.
fn vendor(words: &[Vec<String>], total: usize) -> Option<&str> {
    let mut firsts: BTreeMap<&str, usize> = BTreeMap::new();
    for words in words.iter().filter(|words| words.len() > 1) {
        *firsts.entry(&words[0]).or_default() += 1;
    }
    let (first, count) = firsts.into_iter().max_by_key(|(_, count)| *count)?;
    (count * VENDOR.0 >= total * VENDOR.1).then_some(first)
}

/// The first thing that a name speaks of.
fn thing(words: &[String], vendor: Option<&str>) -> Option<String> {
    let rest = match words {
        [first, rest @ ..] if Some(first.as_str()) == vendor => rest,
        all => all,
    };
    let is_thing = |at: usize, word: &str| {
        let is_verb = policy::is_verb(word, at == 0 && rest.len() > 1);
        !is_verb && !FILLERS.contains(&word) && word.chars().any(char::is_alphabetic)
    };
    rest.iter().enumerate().find(|(at, word)| is_thing(*at, word)).map(|(_, word)| word.clone())
}

/// What the singular and the plural of a word have in common.
fn singular(word: &str) -> &str {
    if word.len() < 3 || word.ends_with("ss") {
        return word;
    }
    let one = word.strip_suffix('s').unwrap_or(word);
    one.strip_suffix("ie").or_else(|| one.strip_suffix('y')).unwrap_or(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told_by(meta: &str) -> Option<String> {
        let raw = format!("{{\"name\":\"t\",\"_meta\":{meta}}}");
        told(&Members::of(&raw).unwrap())
    }

    #[test]
    fn a_tool_tells_its_category() {
        for (meta, expected) in [
            (r#"{"category":"Files","tags":["x"],"a/category":"y"}"#, Some("Files")),
            (r#"{"com.b/category":"b","com.a/category":"a","tags":["x"]}"#, Some("a")),
            (r#"{"category":7,"com.a/category":"a"}"#, Some("a")),
            (r#"{"tags":["first","second"]}"#, Some("first")),
            (r#"{"_fastmcp":{"tags":["x","y"]}}"#, Some("x")),
            (r#"{"fastmcp":{"tags":["x","y"]}}"#, Some("x")),
            (r#"{"category":" a \n b "}"#, Some("a b")),
            (r#"{"category":"  ","tags":[]}"#, None),
            (r#"{"tags":[1]}"#, None),
            ("[]", None),
        ] {
            assert_eq!(told_by(meta).as_deref(), expected, "{meta}");
        }
    }

    #[test]
    fn the_configuration_comes_first() {
        let mut rules = ToolRules::default();
        rules.categories.insert("b".to_owned(), vec!["get_*".to_owned()]);
        rules.categories.insert("a".to_owned(), vec!["*_a".to_owned()]);
        let chosen = Chosen::new(&rules);
        let raw = r#"{"name":"t","_meta":{"category":"told"}}"#;
        let members = Members::of(raw).unwrap();
        for (tool, expected) in [("get_a", "a"), ("get_b", "b"), ("x", "told")] {
            assert_eq!(chosen.category(tool, &members).as_deref(), Some(expected));
        }
    }

    fn groups(names: &[&str]) -> Vec<Option<String>> {
        from_names(names)
    }

    #[test]
    fn names_that_group_well_tell_categories() {
        let unifi = [
            "unifi_list_clients",
            "unifi_block_client",
            "unifi_get_client_details",
            "unifi_client_rename",
            "unifi_list_firewall_policies",
            "unifi_create_firewall_policy",
            "unifi_firewall_toggle",
            "unifi_get_networks",
            "unifi_network_update",
            "unifi_networks",
            "unifi_reboot",
            "unifi_list_vouchers",
        ];
        let told: Vec<_> = groups(&unifi).into_iter().map(Option::unwrap_or_default).collect();
        let expected = ["client"; 4].into_iter().chain(["firewall"; 3]).chain(["network"; 3]).chain([""; 2]);
        assert_eq!(told, expected.collect::<Vec<_>>());
        // Both forms of a word are one; a word that only looks like a plural stays.
        let forms = [
            "policies", "policy", "policies", "dns", "dns", "dns", "vouchers", "vouchers", "vouchers", "ad", "ads",
            "ads",
        ];
        let forms: Vec<_> = forms.iter().map(|thing| format!("list_{thing}")).collect();
        let told: Vec<_> = groups(&forms.iter().map(String::as_str).collect::<Vec<_>>())
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect();
        assert_eq!(told.join(" "), "policy policy policy dns dns dns vouchers vouchers vouchers ad ad ad");
        // Too few tools, too few in groups, only one group.
        assert!(groups(&unifi[..11]).iter().all(Option::is_none));
        let many: Vec<_> = (0..9).map(|at| format!("x{}", "abcdefghi".as_bytes()[at] as char)).collect();
        let loose: Vec<&str> = unifi[..6].iter().copied().chain(many.iter().map(String::as_str)).collect();
        assert!(groups(&loose).iter().all(Option::is_none));
        let one = ["list_clients"; 12];
        assert!(groups(&one).iter().all(Option::is_none));
    }

    #[test]
    fn things_are_told_from_verbs() {
        for (name, vendor, expected) in [
            ("create_pull_request", None, Some("pull")),
            ("pull_image", None, Some("image")),
            ("listIssues", None, Some("issues")),
            ("commit", None, Some("commit")),
            ("browser_click", Some("browser"), None),
            ("browser_tab_close", Some("browser"), Some("tab")),
            ("get_2_status", None, Some("status")),
            ("post_a_page", None, Some("page")),
            ("list_addresses", None, Some("addresses")),
            ("查询用户", None, Some("查询用户")),
            ("", None, None),
        ] {
            let words: Vec<String> = policy::words(name).map(str::to_lowercase).collect();
            assert_eq!(thing(&words, vendor).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn names_are_compared_loosely() {
        for (a, b, same) in [
            ("Pull Requests", "pull_requests", true),
            ("pull-requests", "PULL REQUESTS", true),
            ("issue", "issues", false),
            ("Öl", "öl", true),
            ("_a", "-A", false),
        ] {
            assert_eq!(is_same(a, b), same, "{a} {b}");
        }
    }

    #[test]
    fn entries_refer_to_sorted_names() {
        let known = |text: &str| Some(text.to_owned());
        let categories = Categories::new(vec![("a", known("z")), ("b", None), ("c", known("m")), ("d", known("z"))]);
        assert_eq!(categories.names().collect::<Vec<_>>(), ["m", "z"]);
        let of: Vec<_> = (0..5).map(|at| categories.of(at)).collect();
        assert_eq!(of, [Some("z"), None, Some("m"), Some("z"), None]);
        assert!(Categories::new(vec![("a", None)]).is_empty());
    }
}
