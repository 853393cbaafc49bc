//! Owns the shape of one block of content: what a strict client would refuse is put as text, or made whole, with nothing lost.
//! Blocks of types that it does not know stay as they are.

use std::borrow::Cow;

use crate::catalog::mending_offers::may_be;
use crate::wire::raw::{self, Kind};
use crate::wire::{Object, quoted};

/// How most blocks begin.
const PLAIN: &str = "{\"type\":\"text\",\"text\":\"";
/// What such a block has to be looked into for.
const SUSPECT: [&str; 3] = ["null", "\"annotations\"", "\"_meta\""];
/// Members that may be missing, and are none when they are null.
const OPTIONAL: &[&str] = &["annotations", "_meta", "title", "description", "size", "icons", "mimeType"];

/// The block in a legal shape, borrowed where it has one; `None` where there is none.
pub fn block(text: &str) -> Option<Cow<'_, str>> {
    if text == "null" {
        return None;
    }
    let has = |what: &str| memchr::memmem::find(text.as_bytes(), what.as_bytes()).is_some();
    let is_plain = text.starts_with(PLAIN) && !SUSPECT.iter().any(|what| has(what));
    if is_plain {
        return Some(Cow::Borrowed(text));
    }
    let Some(object) = Object::parse(text) else { return Some(Cow::Owned(said(text))) };
    Some(mended(&object).map_or(Cow::Borrowed(text), Cow::Owned))
}

fn mended(object: &Object<'_>) -> Option<String> {
    let is_text = |name: &str| has_text(object, name);
    let mut new: Vec<Change> = Vec::new();
    let kind = match object.get("type") {
        Some(kind) if self::is_text(kind) => object.string("type")?,
        _ if is_text("text") => {
            new.push(("type", Some("\"text\"".to_owned())));
            Cow::Borrowed("text")
        }
        _ => return Some(text_block(&quoted(object.text))),
    };
    let mut typed: &[&str] = &["_meta"];
    let is_whole = match &*kind {
        "text" if !is_text("text") => text(object).map(|text| new.push(("text", Some(text)))).is_some(),
        "text" => true,
        "image" | "audio" => is_text("data") && is_text("mimeType"),
        "resource_link" => {
            let name = object.get("uri").filter(|_| !is_text("name"));
            new.extend(name.map(|uri| ("name", Some(uri.to_owned()))));
            typed = OPTIONAL;
            is_text("uri")
        }
        "resource" => {
            let inner = object.get("resource").and_then(Object::parse);
            let mended = inner.as_ref().and_then(|inner| changed(inner, &left_out(inner, &["_meta", "mimeType"])));
            new.extend(mended.map(|inner| ("resource", Some(inner))));
            inner.is_some_and(|inner| {
                has_text(&inner, "uri") && ["text", "blob"].iter().any(|name| has_text(&inner, name))
            })
        }
        _ => return None,
    };
    if !is_whole {
        return Some(text_block(&quoted(object.text)));
    }
    new.extend(annotations(object));
    new.extend(left_out(object, typed));
    changed(object, &new)
}

/// The change of annotations that are none, or have members of a wrong type; roles and shares are not judged.
fn annotations(object: &Object<'_>) -> Option<Change> {
    let Some(own) = Object::parse(object.get("annotations")?) else { return Some(("annotations", None)) };
    let is_bad = |name: &str| {
        let Some(value) = own.get(name) else { return false };
        match (name, raw::kind(value)) {
            (_, Kind::Null) => true,
            ("audience", _) => !raw::elements(value).is_some_and(|roles| roles.into_iter().all(is_text)),
            ("priority", kind) => kind != Kind::Number,
            ("lastModified", kind) => kind != Kind::Text,
            _ => false,
        }
    };
    let any = own.members.iter().any(|member| is_bad(&member.key));
    any.then(|| ("annotations", Some(own.rewritten(|name| !is_bad(name), &[]))))
}

fn has_text(object: &Object<'_>, name: &str) -> bool {
    object.get(name).is_some_and(is_text)
}

/// Whether a value is a JSON string.
pub fn is_text(value: &str) -> bool {
    value.starts_with('"')
}

/// The text of a block of text that has none; `None` where it says something in another way.
fn text(object: &Object<'_>) -> Option<String> {
    match object.get("text") {
        None | Some("null") => {
            let says_nothing = |name: &str| matches!(name, "type" | "text" | "annotations" | "_meta");
            object.members.iter().all(|member| says_nothing(&member.key)).then(|| "\"\"".to_owned())
        }
        Some(other) => Some(quoted(other)),
    }
}

/// The optional members to leave out: those that are null, and of `typed` those of a wrong type.
fn left_out(object: &Object<'_>, typed: &[&str]) -> Vec<Change> {
    let is_bad = |name: &str, value: &str| {
        let is_unset = value == "null" && (name != "mimeType" || object.get("uri").is_some());
        is_unset || (typed.contains(&name) && !may_be(name, value))
    };
    let bad = OPTIONAL.iter().filter(|name| object.get(name).is_some_and(|value| is_bad(name, value)));
    bad.map(|name| (*name, None)).collect()
}

/// A member's value in place of the bad one; `None`: it is left out.
pub type Change = (&'static str, Option<String>);

/// The object with these changes; `None` where there are none.
pub fn changed(object: &Object<'_>, changes: &[Change]) -> Option<String> {
    let set = |(name, value): &Change| value.as_ref().map(|value| format!("\"{name}\":{value}"));
    let set: Vec<String> = changes.iter().filter_map(set).collect();
    let keep = |name: &str| changes.iter().all(|(changed, _)| *changed != name);
    (!changes.is_empty()).then(|| object.rewritten(keep, &set.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// A value as a block of text: a string as it is, anything else as its JSON.
pub fn said(value: &str) -> String {
    if is_text(value) { text_block(value) } else { text_block(&quoted(value)) }
}

/// A block of text, given as a JSON string.
pub fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{text}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_order_and_strange_ones_stay() {
        for text in [
            r#"{"type":"text","text":"null"}"#,
            r#"{ "text":"a", "type":"text","annotations":{"audience":["developer"],"priority":2.5} }"#,
            r#"{"type":"image","data":"aGk=","mimeType":"image/png","x":null}"#,
            r#"{"type":"resource","resource":{"uri":"file:///a","text":"t"}}"#,
            r#"{"type":"resource_link","uri":"file:///c","name":"c"}"#,
            r#"{"type":"video","annotations":null}"#,
            r#"{"type":"video","annotations":5,"_meta":[],"text":5,"a":1e400}"#,
            r#"{"type":"\ud800"}"#,
            r#"{"type":"text","text":"a","_meta":{"x":null},"annotations":{"audience":[],"priority":-1e400}}"#,
            r#"{"type":"text","text":"a","size":"5","annotations":{"lastModified":"now","x":5}}"#,
        ] {
            assert_eq!(block(text), Some(Cow::Borrowed(text)));
            assert!(matches!(block(text), Some(Cow::Borrowed(_))), "{text}");
        }
    }

    #[test]
    fn blocks_that_are_none_are_made_some() {
        let check = |text: &str, want: &str| assert_eq!(block(text).as_deref(), Some(want), "{text}");
        let text = |text: &str| text_block(&quoted(text));
        check("\"t\\u00e9\"", &text_block("\"t\\u00e9\""));
        check("5", &text("5"));
        check("[1, 2]", &text("[1, 2]"));
        check(r#"{"type":"text","text":5}"#, r#"{"text":"5","type":"text"}"#);
        check(r#"{"type":"text","text":{"a":"b"}}"#, r#"{"text":"{\"a\":\"b\"}","type":"text"}"#);
        check(r#"{"type":"text","text":null,"_meta":null}"#, r#"{"text":"","type":"text"}"#);
        check(r#"{"type":"text"}"#, r#"{"text":"","type":"text"}"#);
        check(r#"{"type":"text","text":"a","annotations":null,"_meta":null}"#, r#"{"type":"text","text":"a"}"#);
        check(r#"{"type":"resource_link","uri":"x:1"}"#, r#"{"name":"x:1","type":"resource_link","uri":"x:1"}"#);
        let inner = r#"{"type":"resource","resource":{"uri":"x:1","mimeType":null,"text":"t"}}"#;
        check(inner, r#"{"resource":{"uri":"x:1","text":"t"},"type":"resource"}"#);
        let unset = r#"{"type":"text","text":"a","annotations":{"audience":null,"priority":1}}"#;
        check(unset, r#"{"annotations":{"priority":1},"type":"text","text":"a"}"#);
        check(r#"{"text":"hi"}"#, r#"{"type":"text","text":"hi"}"#);
        check(r#"{"type":null,"text":"a","_meta":null}"#, r#"{"type":"text","text":"a"}"#);
        for lost in [
            "{}",
            r#"{"a":1e400}"#,
            r#"{"type":5,"text":5}"#,
            r#"{"type":"resource","resource":{"uri":"x:1"}}"#,
            r#"{"type":"text","content":"x"}"#,
            r#"{"type":"image","url":"x:1"}"#,
            r#"{"type":"audio","data":"aGk=","mimeType":null}"#,
            r#"{"type":"resource_link"}"#,
            r#"{"type":"resource","resource":"x:1"}"#,
        ] {
            check(lost, &text(lost));
        }
        assert_eq!(block("null"), None);
    }

    #[test]
    fn optional_members_of_a_wrong_type_are_left_out() {
        let check = |of: &dyn Fn(&str) -> String, bad: &[&str]| {
            for bad in bad {
                let text = of(&format!(",{bad}"));
                assert_eq!(block(&text).as_deref(), Some(&*of("")), "{text}");
            }
        };
        let any = ["\"_meta\":[]", "\"_meta\":\"x\"", "\"annotations\":\"x\"", "\"annotations\":[]"];
        check(&|rest| format!("{{\"type\":\"text\",\"text\":\"a\"{rest}}}"), &any);
        check(&|rest| format!("{{\"type\":\"image\",\"data\":\"\",\"mimeType\":\"a/b\"{rest}}}"), &any);
        let link = |rest: &str| format!("{{\"type\":\"resource_link\",\"uri\":\"x:1\",\"name\":\"n\"{rest}}}");
        check(&link, &any);
        check(
            &link,
            &["\"size\":\"5\"", "\"description\":5", "\"title\":[]", "\"mimeType\":[\"a\"]", "\"icons\":[{}]"],
        );
        let annotated = |rest: &str| format!("{{\"annotations\":{{\"x\":1{rest}}},\"type\":\"text\",\"text\":\"a\"}}");
        let bad = ["\"audience\":\"user\"", "\"audience\":[5]", "\"priority\":\"1\"", "\"lastModified\":5"];
        check(&annotated, &bad);
        let inner =
            |rest: &str| format!("{{\"resource\":{{\"uri\":\"x:1\",\"text\":\"t\"{rest}}},\"type\":\"resource\"}}");
        check(&inner, &["\"mimeType\":5", "\"_meta\":[]"]);
    }
}
