//! Owns what a source offers besides tools: prompts, resources, their templates, skills; each item's JSON as the source wrote it.
//! It does not judge or rename anything; an item that cannot be read is left out and costs no other.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::mending_offers::mended;
use crate::name::ToolName;
use crate::policy::Offered;
use crate::wire::raw::{Members, elements};
use crate::wire::unquoted;

/// The extension for skills (SEP-2640).
pub const SKILLS: &str = "io.modelcontextprotocol/skills";

/// What a source declared that it can do, besides tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Abilities {
    pub prompts: bool,
    pub resources: bool,
    pub subscribe: bool,
    pub completions: bool,
    pub logging: bool,
    /// The text of its extensions, if it has any.
    pub extensions: Option<String>,
}

/// A source has skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skills {
    /// It lists the directories of its skills as well.
    pub directory_read: bool,
}

impl Abilities {
    /// The extension for skills, as far as it is declared in full: their files are read as resources.
    pub fn skills(&self) -> Option<Skills> {
        let extensions = Members::of(self.extensions.as_deref().filter(|_| self.resources)?)?;
        let own = extensions.get(SKILLS).filter(|text| *text != "null")?;
        let directory_read = Members::of(own).and_then(|own| own.flag("directoryRead")) == Some(true);
        Some(Skills { directory_read })
    }
}

/// For how long a list holds, and for whom (SEP-2549).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheHint {
    pub ttl_ms: u64,
    pub public: bool,
}

impl CacheHint {
    /// What holds of lists that nothing is said of.
    pub const NONE: Self = Self { ttl_ms: 0, public: false };

    /// What holds of two lists as one.
    pub fn and(self, other: Self) -> Self {
        Self { ttl_ms: self.ttl_ms.min(other.ttl_ms), public: self.public && other.public }
    }
}

/// A prompt, a resource, a template or a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The prompt's name, the URI of the resource or of the skill's `SKILL.md`, or the template of URIs.
    pub key: String,
    /// The item's JSON object, on one line.
    pub raw: String,
}

/// What a source offers besides tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    pub abilities: Abilities,
    /// Sorted by name.
    pub prompts: Vec<Item>,
    /// Sorted by URI.
    pub resources: Vec<Item>,
    /// Sorted by template.
    pub templates: Vec<Item>,
    /// Sorted by URI.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Item>,
    /// What the source says of the list of its skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills_hint: Option<CacheHint>,
}

/// Reads the items of one list, by the member that they are told apart by.
pub fn items<'a>(raws: impl IntoIterator<Item = &'a str>, member: &str) -> Vec<Item> {
    let read = |raw: &str| {
        let members = Members::of(raw)?;
        let key = unquoted(members.get(member)?)?.into_owned();
        (!key.is_empty()).then(|| Item { key, raw: raw.replace(['\n', '\r'], " ") })
    };
    let mut items: Vec<Item> = raws.into_iter().filter_map(read).collect();
    items.sort_by(|a, b| (&a.key, &a.raw).cmp(&(&b.key, &b.raw)));
    items.dedup_by(|later, kept| later.key == kept.key);
    items
}

impl Offer {
    /// What is left of it where rules withhold some. A skill goes as a whole: without one of its files it is of no use, and
    /// its list of files tells of all.
    pub fn without(&self, is_withheld: impl Fn(Offered<'_>) -> bool) -> Self {
        let kept = |items: &[Item], is_kept: &dyn Fn(&Item) -> bool| {
            items.iter().filter(|item| is_kept(item)).cloned().collect::<Vec<_>>()
        };
        let is_read = |item: &Item| !is_withheld(Offered::Resource(&item.key));
        Self {
            abilities: self.abilities.clone(),
            prompts: kept(&self.prompts, &|item| !is_withheld(Offered::Prompt(&item.key))),
            resources: kept(&self.resources, &is_read),
            templates: kept(&self.templates, &is_read),
            skills: kept(&self.skills, &|item| {
                files(&item.raw).iter().chain([&item.key]).all(|uri| !is_withheld(Offered::Resource(uri)))
            }),
            skills_hint: self.skills_hint,
        }
    }

    /// Whether it lists this resource.
    pub fn lists(&self, uri: &str) -> bool {
        self.resources.binary_search_by(|item| item.key.as_str().cmp(uri)).is_ok()
    }

    /// Whether it lists this template.
    pub fn lists_template(&self, template: &str) -> bool {
        self.templates.binary_search_by(|item| item.key.as_str().cmp(template)).is_ok()
    }

    /// The first of its templates that gives this URI.
    pub fn fitting_template(&self, uri: &str) -> Option<&str> {
        self.templates.iter().map(|item| item.key.as_str()).find(|template| template_gives(template, uri))
    }

    /// Whether it has resources or templates of this URI's scheme.
    pub fn has_scheme(&self, uri: &str) -> bool {
        let Some((scheme, _)) = uri.split_once(':') else { return false };
        let mut keys = self.resources.iter().chain(&self.templates).map(|item| item.key.as_str());
        keys.any(|key| key.split_once(':').is_some_and(|(own, _)| own.eq_ignore_ascii_case(scheme)))
    }
}

impl Item {
    /// The JSON of a prompt, a resource or a template in a shape that strict clients take; `member` is the one that it is
    /// told apart by.
    pub fn shown(&self, member: &str) -> Cow<'_, str> {
        let mended = Members::of(&self.raw).and_then(|members| mended(&self.raw, &members, member));
        mended.map_or(Cow::Borrowed(&self.raw), Cow::Owned)
    }

    /// The name as one of a tool, for making a directly shown name of it.
    pub fn name(&self) -> ToolName {
        ToolName::new(self.key.as_str())
    }
}

/// The URIs of a skill's files, as far as it tells them.
pub fn files(skill: &str) -> Vec<String> {
    let skill = Members::of(skill).unwrap_or_default();
    let files = skill.get("resources").and_then(elements).unwrap_or_default();
    files.into_iter().filter_map(|file| Some(unquoted(Members::of(file)?.get("uri")?)?.into_owned())).collect()
}

/// Whether a URI may come from a template (RFC 6570): what stands outside of braces has to be there, in its order, and what
/// braces stand for is not empty and has no slash unless they say so (`{+x}`, `{/x*}`, `{?x}` and their like).
fn template_gives(template: &str, uri: &str) -> bool {
    let Some((head, mut rest)) = template.split_once('{') else { return template == uri };
    let Some(uri) = uri.strip_prefix(head) else { return false };
    // Where in the URI each part may end, whatever those before it stand for: no part is tried twice at one place.
    let mut ends = vec![false; uri.len() + 1];
    ends[0] = true;
    loop {
        let Some((expression, tail)) = rest.split_once('}') else { return false };
        let (literal, next) = tail.split_once('{').map_or((tail, None), |(literal, next)| (literal, Some(next)));
        ends = after_literal(&after_expression(&ends, expression, uri), literal, uri);
        match next {
            Some(next) if ends.contains(&true) => rest = next,
            Some(_) => return false,
            None => return ends[uri.len()],
        }
    }
}

/// Where what braces stand for may end, from where it may begin.
fn after_expression(starts: &[bool], expression: &str, uri: &str) -> Vec<bool> {
    let is_free = expression.starts_with(['+', '#', '/', '.', ';', '?', '&']);
    let may_be_empty = expression.starts_with(['/', '.', ';', '?', '&', '#']);
    let mut goes_on = false;
    let one = |(at, &starts): (usize, &bool)| {
        let ends = uri.is_char_boundary(at) && (goes_on || may_be_empty && starts);
        goes_on = (goes_on || starts) && (is_free || uri.as_bytes().get(at) != Some(&b'/'));
        ends
    };
    starts.iter().enumerate().map(one).collect()
}

fn after_literal(starts: &[bool], literal: &str, uri: &str) -> Vec<bool> {
    let mut ends = vec![false; starts.len()];
    for at in (0..starts.len()).filter(|at| starts[*at]) {
        if uri[at..].starts_with(literal) {
            ends[at + literal.len()] = true;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_gives_what_fits_it() {
        for (template, uri, gives) in [
            ("test://template/{id}/data", "test://template/1/data", true),
            ("test://template/{id}/data", "test://template//data", false),
            ("test://template/{id}/data", "test://template/a/b/data", false),
            ("file:///{+path}", "file:///a/b/c", true),
            ("note://{id}", "note://ä", true),
            ("note://{id}{?v}", "note://1?v=2", true),
            ("note://{id}{?v}", "note://1", true),
            ("note://all", "note://all", true),
            ("note://all", "note://al", false),
            ("note://{id", "note://{id", false),
            ("a:{x}{y}", "a:1", false),
            ("a:{x}{y}", "a:12", true),
            ("a:{x}{+y}!", "a:1/2!", true),
            ("a:{x}/{y}/", "a:1/2/", true),
            ("a:{x}/{y}/", "a:1//", false),
        ] {
            assert_eq!(template_gives(template, uri), gives, "{template} {uri}");
        }
        // Many ways to read it cost no more than one.
        let (template, uri) = (format!("a:{}!", "{+x}".repeat(200)), format!("a:{}", "b".repeat(5000)));
        assert!(!template_gives(&template, &uri) && template_gives(&template, &(uri + "!")));
    }

    #[test]
    fn skills_need_resources() {
        let extensions = format!("{{\"{SKILLS}\":{{\"directoryRead\":true}},\"x\":1}}");
        let able = |resources, extensions: &str| {
            Abilities { resources, extensions: Some(extensions.to_owned()), ..Abilities::default() }.skills()
        };
        assert_eq!(able(true, &extensions), Some(Skills { directory_read: true }));
        assert_eq!(able(true, &format!("{{\"{SKILLS}\":{{}}}}")), Some(Skills { directory_read: false }));
        assert_eq!([able(false, &extensions), able(true, "{\"x\":{}}")], [None, None]);
    }

    #[test]
    fn a_skill_is_withheld_with_any_of_its_files() {
        let skill = |key: &str, file: &str| Item {
            key: key.to_owned(),
            raw: format!("{{\"uri\":\"{key}\",\"resources\":[{{\"uri\":\"{key}\"}},{{\"uri\":\"{file}\"}}]}}"),
        };
        let skills = vec![skill("skill://a/SKILL.md", "skill://a/x"), skill("skill://b/SKILL.md", "skill://b/secret")];
        let offer = Offer { skills: skills.clone(), ..Offer::default() };
        assert_eq!(offer.without(|of| of.is_denied_by("*secret*")).skills, skills[..1]);
        assert_eq!(offer.without(|of| of.is_denied_by("skill://b/SKILL.md")).skills, skills[..1]);
    }

    #[test]
    fn items_that_cannot_be_read_are_left_out() {
        let raws = ["{\"uri\":\"b\"}", "{\"uri\":1}", "[]", "{\"uri\":\"a\",\n\"x\":1}", "{\"uri\":\"b\",\"n\":2}"];
        let keys: Vec<_> = items(raws, "uri").into_iter().map(|item| item.key).collect();
        assert_eq!(keys, ["a", "b"]);
    }
}
