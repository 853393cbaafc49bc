//! Owns what a source offers besides tools: prompts, resources and their templates, each item's JSON as the source wrote it.
//! It does not judge or rename anything; an item that cannot be read is left out and costs no other.

use serde::{Deserialize, Serialize};

use crate::name::ToolName;
use crate::wire::raw::Members;
use crate::wire::unquoted;

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

/// A prompt, a resource or a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The prompt's name, the resource's URI, or the template of URIs.
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
    /// The prompt so named.
    pub fn prompt(&self, name: &str) -> Option<&Item> {
        self.prompts.iter().find(|item| item.key == name)
    }

    /// Whether it lists this resource.
    pub fn lists(&self, uri: &str) -> bool {
        self.resources.binary_search_by(|item| item.key.as_str().cmp(uri)).is_ok()
    }

    /// Whether one of its templates gives this URI.
    pub fn fits_template(&self, uri: &str) -> bool {
        self.templates.iter().any(|item| item.key == uri || template_gives(&item.key, uri))
    }

    /// Whether it has resources or templates of this URI's scheme.
    pub fn has_scheme(&self, uri: &str) -> bool {
        let Some((scheme, _)) = uri.split_once(':') else { return false };
        let mut keys = self.resources.iter().chain(&self.templates).map(|item| item.key.as_str());
        keys.any(|key| key.split_once(':').is_some_and(|(own, _)| own.eq_ignore_ascii_case(scheme)))
    }
}

impl Item {
    /// The name as one of a tool, for making a directly shown name of it.
    pub fn name(&self) -> ToolName {
        ToolName::new(self.key.as_str())
    }
}

/// Whether a URI may come from a template (RFC 6570): what stands outside of braces has to be there, in its order, and what
/// braces stand for is not empty and has no slash unless they say so (`{+x}`, `{/x*}`, `{?x}` and their like).
fn template_gives(template: &str, uri: &str) -> bool {
    let Some((head, rest)) = template.split_once('{') else { return template == uri };
    let Some(uri) = uri.strip_prefix(head) else { return false };
    let Some((expression, tail)) = rest.split_once('}') else { return false };
    let is_free = expression.starts_with(['+', '#', '/', '.', ';', '?', '&']);
    let least = usize::from(!expression.starts_with(['/', '.', ';', '?', '&', '#']));
    let most = if is_free { uri.len() } else { uri.find('/').unwrap_or(uri.len()) };
    (least..=most).any(|end| uri.is_char_boundary(end) && template_gives(tail, &uri[end..]))
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
        ] {
            assert_eq!(template_gives(template, uri), gives, "{template} {uri}");
        }
    }

    #[test]
    fn items_that_cannot_be_read_are_left_out() {
        let raws = ["{\"uri\":\"b\"}", "{\"uri\":1}", "[]", "{\"uri\":\"a\",\n\"x\":1}", "{\"uri\":\"b\",\"n\":2}"];
        let keys: Vec<_> = items(raws, "uri").into_iter().map(|item| item.key).collect();
        assert_eq!(keys, ["a", "b"]);
    }
}
