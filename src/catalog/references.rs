//! Owns where the references of a schema lead: by pointer, by anchor, and by the addresses that its parts give themselves. It
//! does not judge keywords.
//!
//! Clients keep one validator for each address (`$id`) over all tools that they know, and so two sources that happen to use
//! one address break each other. No client needs one: what refers to a part by its address can as well point at it.

use std::borrow::Cow;
use std::collections::HashMap;

use super::keywords::{DATA, DEPTH_MAX, NAMED_SCHEMAS, is_anchor_name, is_old_draft};
use super::mapped::{Change, Walk, mapped};
use crate::wire::raw::{self, Kind, Members};

/// How many references are looked up one by one; what goes beyond is taken for sound.
const LOOKUPS_MAX: usize = 256;
/// Members whose schemas hold for the same value as the schema they stand in.
const IN_PLACE: &[&str] = &["allOf", "anyOf", "if", "not", "oneOf"];
/// What addresses that name no host are relative to.
const NOWHERE: &str = "relative:///";

const DANGLING: &str = "its outputSchema refers to a definition that it lacks";
const ADDRESS: &str = "an `$id` or an anchor of its outputSchema is none, or two parts of it have the same";
const CYCLE: &str = "a reference of its outputSchema leads back to itself";
const TANGLED: &str = "its outputSchema refers across addresses in more ways than can be followed";

/// What keeps clients from following the references of a schema.
pub(super) fn fault(root: &str) -> Option<&'static str> {
    if !has_any(root) {
        return None;
    }
    let mut found = Parts::of(root);
    found.fault.or_else(|| found.follow())
}

/// The schema with no part that has an address, its references as pointers from its root; `None` for one without addresses.
pub(super) fn without_addresses(root: &str) -> Option<String> {
    if !root.contains("$id") && !root.contains("\\u00") {
        return None;
    }
    let mut found = Parts::of(root);
    if found.fault.is_some() || !found.has_addresses {
        return None;
    }
    let has_inner = found.resources.len() > 1;
    let nodes: HashMap<usize, usize> = found.nodes.iter().map(|node| (node.offset, node.resource)).collect();
    mapped(root, DEPTH_MAX, Walk::Everything, &mut |text, members| {
        let resource = nodes.get(&raw::offset(root, text)).copied().unwrap_or_default();
        let change = |(member, at): (&raw::Member<'_>, usize)| match &*member.key {
            "$id" => Some((at, Change::Remove)),
            "$anchor" | "$dynamicAnchor" if has_inner => Some((at, Change::Remove)),
            "$ref" => {
                let target = raw::string(member.value)?;
                let is_plain = resource == 0 && (target == "#" || target.starts_with("#/"));
                let Found::Part(part) = found.find(resource, &target) else { return None };
                (!is_plain).then(|| (at, Change::Value(raw::quote(&pointer_to(root, part)))))
            }
            _ => None,
        };
        members.0.iter().zip(0..).filter_map(change).collect()
    })
}

fn has_any(root: &str) -> bool {
    ["$ref", "$id", "$anchor", "$dynamicAnchor", "\\u00"].iter().any(|mark| root.contains(mark))
}

/// Where a reference leads.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Found<'a> {
    Part(&'a str),
    /// To a schema that every client knows.
    Known,
    /// Not looked up: there are too many.
    Unknown,
    Nowhere,
}

/// A schema that refers to another, or holds others for the same value.
struct Node<'a> {
    offset: usize,
    /// The part with an address that it stands in.
    resource: usize,
    reference: Option<Cow<'a, str>>,
    in_place: Vec<&'a str>,
}

/// What references of a schema can lead to.
struct Parts<'a> {
    root: &'a str,
    /// The root and every part with an address of its own.
    resources: Vec<(String, &'a str)>,
    anchors: HashMap<(usize, String), &'a str>,
    nodes: Vec<Node<'a>>,
    has_addresses: bool,
    is_dynamic: bool,
    knows_draft7: bool,
    looked_up: HashMap<(usize, String), Found<'a>>,
    lookups: usize,
    fault: Option<&'static str>,
}

impl<'a> Parts<'a> {
    fn of(root: &'a str) -> Self {
        let members = Members::of(root).unwrap_or_default();
        let mut parts = Self {
            root,
            resources: vec![(NOWHERE.to_owned(), root)],
            anchors: HashMap::new(),
            nodes: Vec::new(),
            has_addresses: false,
            is_dynamic: false,
            knows_draft7: members.text("$schema").is_some_and(|dialect| is_old_draft(&dialect)),
            looked_up: definitions(&members),
            lookups: 0,
            fault: None,
        };
        parts.gather(root, DEPTH_MAX, 0);
        if parts.is_dynamic && parts.resources.len() > 1 {
            parts.fault = parts.fault.or(Some(TANGLED));
        }
        parts
    }

    fn gather(&mut self, text: &'a str, depth: usize, mut resource: usize) {
        if depth == 0 {
            return;
        }
        match raw::kind(text) {
            Kind::Object => {
                let Some(members) = Members::of(text) else { return };
                resource = self.enter(text, &members, resource);
                let reference = members.text("$ref");
                let in_place = in_place(&members);
                self.is_dynamic |= members.get("$dynamicRef").or(members.get("$recursiveRef")).is_some();
                if reference.is_some() || !in_place.is_empty() {
                    self.nodes.push(Node { offset: raw::offset(self.root, text), resource, reference, in_place });
                }
                for member in members.0 {
                    if NAMED_SCHEMAS.contains(&&*member.key) {
                        for named in Members::of(member.value).unwrap_or_default().0 {
                            self.gather(named.value, depth - 1, resource);
                        }
                    } else if !DATA.contains(&&*member.key) {
                        self.gather(member.value, depth - 1, resource);
                    }
                }
            }
            Kind::Array => {
                raw::elements(text)
                    .unwrap_or_default()
                    .into_iter()
                    .for_each(|item| self.gather(item, depth - 1, resource));
            }
            _ => {}
        }
    }

    /// Notes how a part can be referred to; gives the part with an address that its own parts stand in.
    fn enter(&mut self, text: &'a str, members: &Members<'a>, outer: usize) -> usize {
        let mut resource = outer;
        if let Some(id) = members.get("$id") {
            self.has_addresses = true;
            match raw::string(id) {
                None => self.fault = Some(ADDRESS),
                Some(id) => match id.split_once('#') {
                    // How draft-06 and draft-07 write an anchor.
                    Some(("", name)) if !name.is_empty() => self.anchor(resource, name, text),
                    Some((_, name)) if !name.is_empty() => self.fault = Some(ADDRESS),
                    found => resource = self.address(found.map_or(&*id, |(address, _)| address), text, outer),
                },
            }
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            match members.get(key).map(raw::string) {
                None => {}
                Some(Some(name)) => self.anchor(resource, &name, text),
                Some(None) => self.fault = Some(ADDRESS),
            }
        }
        resource
    }

    fn address(&mut self, address: &str, text: &'a str, outer: usize) -> usize {
        let Some(address) = joined(&self.resources[outer].0, address) else {
            self.fault = Some(ADDRESS);
            return outer;
        };
        if raw::offset(self.root, text) == 0 {
            self.resources[0].0 = address;
            return 0;
        }
        if address == self.resources[outer].0 {
            return outer;
        }
        if self.resources.iter().any(|(known, _)| *known == address) {
            self.fault = Some(ADDRESS);
        }
        self.resources.push((address, text));
        self.resources.len() - 1
    }

    fn anchor(&mut self, resource: usize, name: &str, text: &'a str) {
        let is_taken = self.anchors.insert((resource, name.to_owned()), text).is_some();
        if is_taken || !is_anchor_name(name) {
            self.fault = Some(ADDRESS);
        }
    }

    /// Follows all references; what is wrong with them.
    fn follow(&mut self) -> Option<&'static str> {
        let nodes = std::mem::take(&mut self.nodes);
        let places: HashMap<usize, usize> = nodes.iter().zip(0..).map(|(node, at)| (node.offset, at)).collect();
        let mut leads: Vec<Vec<usize>> = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let mut targets = node.in_place.clone();
            match node.reference.as_ref().map(|target| self.find(node.resource, target)) {
                Some(Found::Nowhere) => return Some(DANGLING),
                Some(Found::Part(part)) => targets.push(part),
                // Pointers from the root stay as they are; others would have to be written anew.
                Some(Found::Unknown) if self.resources.len() > 1 => return Some(TANGLED),
                _ => {}
            }
            let place = |part: &&str| places.get(&raw::offset(self.root, part)).copied();
            leads.push(targets.iter().filter_map(place).collect());
        }
        has_cycle(&leads).then_some(CYCLE)
    }

    fn find(&mut self, resource: usize, target: &str) -> Found<'a> {
        let key = (resource, target.to_owned());
        if let Some(found) = self.looked_up.get(&key) {
            return *found;
        }
        if self.lookups >= LOOKUPS_MAX {
            return Found::Unknown;
        }
        self.lookups += 1;
        let found = self.look_up(resource, target);
        self.looked_up.insert(key, found);
        found
    }

    fn look_up(&self, resource: usize, target: &str) -> Found<'a> {
        let (address, fragment) = target.split_once('#').unwrap_or((target, ""));
        let mut at = resource;
        if !address.is_empty() {
            let address = joined(&self.resources[resource].0, address).unwrap_or_default();
            match self.resources.iter().position(|(known, _)| *known == address) {
                Some(found) => at = found,
                None if self.knows_draft7 && is_old_draft(&address) => return Found::Known,
                None => return Found::Nowhere,
            }
        }
        if fragment.is_empty() {
            return Found::Part(self.resources[at].1);
        }
        let part = match fragment.starts_with('/') {
            true if fragment.contains('#') || !is_well_encoded(fragment) => None,
            true => resolve(self.resources[at].1, &format!("#{fragment}")),
            false => self.anchors.get(&(at, fragment.to_owned())).copied(),
        };
        part.map_or(Found::Nowhere, Found::Part)
    }
}

/// The references from the root to all definitions there whose names need no escapes.
fn definitions<'a>(members: &Members<'a>) -> HashMap<(usize, String), Found<'a>> {
    let mut found = HashMap::new();
    for key in ["$defs", "definitions"] {
        let named = members.get(key).and_then(Members::of).unwrap_or_default();
        let plain = named.0.into_iter().filter(|member| !member.key.contains(['/', '~', '%', '#']));
        found.extend(plain.map(|member| ((0, format!("#/{key}/{}", member.key)), Found::Part(member.value))));
    }
    found
}

/// The schemas within one that hold for the same value.
fn in_place<'a>(members: &Members<'a>) -> Vec<&'a str> {
    let found = members.0.iter().filter(|member| IN_PLACE.contains(&&*member.key));
    found.flat_map(|member| raw::elements(member.value).unwrap_or_else(|| vec![member.value])).collect()
}

/// Whether one can come back to where one was; `leads` tells for each place the next ones.
fn has_cycle(leads: &[Vec<usize>]) -> bool {
    let mut ways_in = vec![0_usize; leads.len()];
    leads.iter().flatten().for_each(|next| ways_in[*next] += 1);
    let mut free: Vec<usize> = (0..leads.len()).filter(|at| ways_in[*at] == 0).collect();
    let mut left = leads.len();
    while let Some(at) = free.pop() {
        left -= 1;
        for next in &leads[at] {
            ways_in[*next] -= 1;
            if ways_in[*next] == 0 {
                free.push(*next);
            }
        }
    }
    left > 0
}

/// An address, seen from a part that has one (RFC 3986, section 5).
fn joined(base: &str, address: &str) -> Option<String> {
    let base = reqwest::Url::parse(base).or_else(|_| reqwest::Url::parse(NOWHERE)).ok()?;
    if address.is_empty() {
        return Some(base.into());
    }
    base.join(address).or_else(|_| reqwest::Url::parse(address)).ok().map(String::from)
}

/// The pointer from the root to a part of it.
fn pointer_to(root: &str, part: &str) -> String {
    let wanted = raw::offset(root, part);
    let holds = |value: &str| {
        let start = raw::offset(root, value);
        (start..start + value.len()).contains(&wanted)
    };
    let (mut at, mut pointer) = (root, String::from("#"));
    while raw::offset(root, at) != wanted {
        let (step, next) = match raw::kind(at) {
            Kind::Object => {
                let members = Members::of(at).unwrap_or_default();
                let Some(member) = members.0.into_iter().find(|member| holds(member.value)) else { break };
                (encoded(&member.key), member.value)
            }
            _ => {
                let elements = raw::elements(at).unwrap_or_default();
                let Some(place) = elements.iter().position(|element| holds(element)) else { break };
                (place.to_string(), elements[place])
            }
        };
        pointer.push('/');
        pointer.push_str(&step);
        at = next;
    }
    pointer
}

/// A name as a step of a pointer in an address.
fn encoded(name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~$!&'()*+,;=:@".contains(c);
    name.chars().fold(String::new(), |mut out, c| {
        if plain(c) {
            out.push(c);
        } else {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        }
        out
    })
}

/// What a local reference (`#`, `#/$defs/X`) points at.
pub(crate) fn resolve<'a>(root: &'a str, reference: &str) -> Option<&'a str> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.is_empty() {
        return Some(root);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(root, |at, step| step_of(at, &unescaped(step)))
}

/// What a step of a pointer says.
pub(super) fn unescaped(step: &str) -> String {
    percent_decoded(step).unwrap_or(Cow::Borrowed(step)).replace("~1", "/").replace("~0", "~")
}

/// The part of a value that a step leads to.
pub(super) fn step_of<'a>(at: &'a str, step: &str) -> Option<&'a str> {
    match raw::kind(at) {
        Kind::Object => Members::of(at)?.get(step),
        Kind::Array => raw::elements(at)?.get(step.parse::<usize>().ok()?).copied(),
        _ => None,
    }
}

/// Whether every `%` of a pointer begins the code of a byte, and the bytes are text.
fn is_well_encoded(pointer: &str) -> bool {
    let is_code = |rest: &str| rest.get(..2).is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
    pointer.split('%').skip(1).all(is_code) && percent_decoded(pointer).is_some()
}

/// `None` where the bytes are no text; a `%` that begins no code stands for itself.
fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code.filter(|_| bytes[at] == b'%') {
            Some(code) => decoded.push(code),
            None => decoded.push(bytes[at]),
        }
        at += if bytes[at] == b'%' && code.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_followed() {
        let root = r#"{"$defs":{"a/b":{"~":[1,2]},"%":3},"é":4}"#;
        for (reference, target) in [
            ("#", Some(root)),
            ("#/$defs/a~1b/~0/1", Some("2")),
            ("#/%24defs/%25", Some("3")),
            ("#/%C3%A9", Some("4")),
            ("#/$defs/missing", None),
            ("#name", None),
            ("other.json#/x", None),
        ] {
            assert_eq!(resolve(root, reference), target, "{reference}");
        }
    }

    #[test]
    fn references_without_an_end_are_found() {
        let check = |schema: &str, expected: Option<&str>| assert_eq!(fault(schema), expected, "{schema}");
        for sound in [
            r##"{"properties":{"a":{"$ref":"#"}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"properties":{"b":{"$ref":"#/$defs/A"}}}}}"##,
            r##"{"anyOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/A"}],"$defs":{"A":{"allOf":[{"$ref":"#/$defs/B"}]},"B":{}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/Page%3CItem%3E"}},"$defs":{"Page<Item>":{}}}"##,
            r##"{"properties":{"a":{"$anchor":"x"},"b":{"$id":"y","$anchor":"x"}}}"##,
        ] {
            check(sound, None);
        }
        for endless in [
            r##"{"properties":{"a":{"$ref":"#/properties/a"}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}"##,
            r##"{"$defs":{"A":{"allOf":[{"title":"x","$ref":"#/$defs/A"}]}}}"##,
            r##"{"properties":{"a":{"$id":"sub","$ref":"#"}}}"##,
        ] {
            check(endless, Some(CYCLE));
        }
        for dangling in [
            r##"{"properties":{"a":{"$ref":"#/$defs/100%"}},"$defs":{"100%":{}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/%C3%28"}},"$defs":{"%C3%28":{}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/C#"}},"$defs":{"C#":{}}}"##,
            r##"{"properties":{"a":{"$id":"http://x/sub","properties":{"q":{"$ref":"#/$defs/A"}}}},"$defs":{"A":{}}}"##,
            r##"{"properties":{"a":{"$ref":"#b"}},"$defs":{"A":{"$id":"c","$anchor":"b"}}}"##,
            r#"{"properties":{"a":{"$ref":"http://json-schema.org/draft-07/schema#"}}}"#,
        ] {
            check(dangling, Some(DANGLING));
        }
        check(
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","not":{"$ref":"http://json-schema.org/draft-07/schema"}}"#,
            None,
        );
        for address in [
            r#"{"$id":5}"#,
            r#"{"$id":"a#b"}"#,
            r#"{"properties":{"a":{"$anchor":"9 x"}}}"#,
            r#"{"properties":{"a":{"$anchor":"x"},"b":{"$dynamicAnchor":"x"}}}"#,
            r#"{"properties":{"a":{"$id":"x"},"b":{"$id":"x"}}}"#,
        ] {
            check(address, Some(ADDRESS));
        }
    }

    #[test]
    fn parts_are_pointed_at_without_addresses() {
        for (schema, expected) in [
            (r##"{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{}}}"##, None),
            (
                r##"{"$id":"Result", "properties":{"$id":{"$ref":"#/$defs/A"},"b":{"$ref":"Result"}},"$defs":{"A":{}}}"##,
                Some(r##"{"properties":{"$id":{"$ref":"#/$defs/A"},"b":{"$ref":"#"}},"$defs":{"A":{}}}"##),
            ),
            (
                r##"{"$id":"http://h/r","items":{"$ref":"x#/$defs/a~1b%25"},"$defs":{"x":{"$id":"/x","$defs":{"a/b%":{"$ref":"#n"}},"not":{"$anchor":"n"}}}}"##,
                Some(
                    r##"{"items":{"$ref":"#/$defs/x/$defs/a~1b%25"},"$defs":{"x":{"$defs":{"a/b%":{"$ref":"#/$defs/x/not"}},"not":{}}}}"##,
                ),
            ),
        ] {
            assert_eq!(without_addresses(schema).as_deref(), expected, "{schema}");
            assert_eq!(fault(schema), None, "{schema}");
            assert_eq!(expected.and_then(fault), None, "{schema}");
        }
    }
}
