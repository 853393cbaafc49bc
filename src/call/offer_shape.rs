//! Owns the shape of what `prompts/get` and `resources/read` give: a result that strict clients would refuse is given a legal
//! shape, with nothing lost that it says. A large result that begins as most do, and has no `null`, is not looked into.

use std::borrow::Cow;
use std::sync::Arc;

use super::block_shape::{Change, block, changed, is_text, said};
use super::shape::mended_meta;
use crate::wire::{Message, Object, quoted, raw};

/// Bytes of a result up to which a look into it costs nothing that could be measured.
const SMALL: usize = 16 * 1024;

/// What the result of a request has to be.
#[derive(Debug, Clone)]
pub enum OfferShape {
    Messages,
    /// Contents of a resource, whose URI is given as the client wrote it: a JSON string.
    Contents(Arc<str>),
}

impl OfferShape {
    /// The reply with its result in a legal shape; `None` where it has one, or is an error.
    pub fn mended_reply(&self, reply: &Message) -> Option<Message> {
        let result = self.mended(reply.text(reply.result?), !reply.met.null)?;
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", reply.id_text()?);
        Message::parse(line.into()).ok()
    }

    /// `by_glance`: a large one that begins as most do is not looked into.
    fn mended(&self, result: &str, by_glance: bool) -> Option<String> {
        let list = self.list();
        if by_glance && result.len() > SMALL && result.starts_with(&format!("{{\"{list}\":[{{")) {
            return None;
        }
        let Some(object) = Object::parse(result) else {
            return Some(format!("{{\"{list}\":{}}}", self.items(result)));
        };
        if object.string("resultType").is_some_and(|kind| kind != "complete") || object.get("task").is_some() {
            return None;
        }
        let mut changes: Vec<Change> = Vec::new();
        match object.get(list) {
            Some(all) if self.is_in_order(all) => {}
            Some(all) => changes.push((list, Some(self.items(all)))),
            None if is_silent(&object, &["description", "resultType", "ttlMs", "cacheScope"]) => {
                changes.push((list, Some("[]".to_owned())));
            }
            None => changes.push((list, Some(self.items(&quoted(result))))),
        }
        changes.extend(mended_meta(&object));
        let description = object.get("description").filter(|_| matches!(self, Self::Messages));
        if let Some(text) = description.filter(|text| !is_text(text)) {
            changes.push(("description", (text != "null").then(|| quoted(text))));
        }
        changed(&object, &changes)
    }

    fn list(&self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Contents(_) => "contents",
        }
    }

    fn is_in_order(&self, list: &str) -> bool {
        let is_good = |text: &str| matches!(&self.parts(text)[..], [Cow::Borrowed(_)]);
        raw::elements(list).is_some_and(|all| all.into_iter().all(is_good))
    }

    /// The list that a value stands for.
    fn items(&self, value: &str) -> String {
        let all = raw::elements(value).unwrap_or_else(|| vec![value]);
        let all: Vec<_> = all.into_iter().flat_map(|text| self.parts(text)).collect();
        format!("[{}]", all.join(","))
    }

    /// What one element stands for: borrowed, it is in order.
    fn parts<'a>(&self, text: &'a str) -> Vec<Cow<'a, str>> {
        match self {
            _ if text == "null" => Vec::new(),
            Self::Messages => messages(text),
            Self::Contents(uri) => vec![contents(text, uri)],
        }
    }
}

/// The message, or one for each block of its content: a message has no more than one.
fn messages(text: &str) -> Vec<Cow<'_, str>> {
    let of = |role: &str, block: &str| Cow::Owned(format!("{{\"role\":{role},\"content\":{block}}}"));
    let Some(object) = Object::parse(text) else { return vec![of("\"user\"", &said(text))] };
    let has_role = matches!(object.string("role").as_deref(), Some("user" | "assistant"));
    let role = object.get("role").filter(|_| has_role).unwrap_or("\"user\"");
    let content = object.get("content").filter(|content| *content != "null");
    let Some(content) = content else {
        let is_silent = is_silent(&object, &["role", "content"]);
        return if is_silent { Vec::new() } else { vec![of(role, &said(text))] };
    };
    let list = raw::elements(content);
    let is_kept = has_role && list.is_none();
    let one = |block: Cow<'_, str>| match block {
        Cow::Borrowed(_) if is_kept => Cow::Borrowed(text),
        block => {
            let changes = [("role", Some(role.to_owned())), ("content", Some(block.into_owned()))];
            changed(&object, &changes).map_or(Cow::Borrowed(text), Cow::Owned)
        }
    };
    list.unwrap_or_else(|| vec![content]).into_iter().filter_map(block).map(one).collect()
}

/// A part of a resource, which says its URI and has a text or a blob.
fn contents<'a>(text: &'a str, uri: &str) -> Cow<'a, str> {
    let Some(object) = Object::parse(text) else {
        let said = if is_text(text) { text.to_owned() } else { quoted(text) };
        return Cow::Owned(format!("{{\"uri\":{uri},\"text\":{said}}}"));
    };
    let is_bad = |name: &str| object.get(name).is_some_and(|value| !is_text(value));
    let mut changes: Vec<Change> = Vec::new();
    if !object.get("uri").is_some_and(is_text) {
        changes.push(("uri", Some(uri.to_owned())));
    }
    changes.extend(["mimeType", "blob"].into_iter().filter(|name| is_bad(name)).map(|name| (name, None)));
    changes.extend(mended_meta(&object));
    match object.get("text").filter(|text| *text != "null") {
        Some(text) if !is_text(text) => changes.push(("text", Some(quoted(text)))),
        Some(_) => {}
        None if object.get("blob").is_some_and(is_text) => {
            changes.extend(object.get("text").map(|_| ("text", None)));
        }
        None => {
            let is_silent = is_silent(&object, &["uri", "mimeType", "text"]);
            changes.push(("text", Some(if is_silent { "\"\"".to_owned() } else { quoted(object.text) })));
        }
    }
    changed(&object, &changes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Whether an object says nothing but this: null says nothing, and `_meta` nothing of the matter.
fn is_silent(object: &Object<'_>, known: &[&str]) -> bool {
    object.members.iter().all(|member| known.contains(&&*member.key) || member.key == "_meta" || member.value == "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents_shape() -> OfferShape {
        OfferShape::Contents("\"x:1\"".into())
    }

    /// What a result becomes; and that, once legal, it stays.
    fn check(shape: &OfferShape, result: &str, want: &str) {
        let got = shape.mended(result, true);
        assert_eq!(got.as_deref(), Some(want), "{result}");
        assert_eq!(shape.mended(want, true), None, "{want}");
    }

    #[test]
    fn what_is_in_order_stays() {
        for result in [
            r#"{"messages":[]}"#,
            r#"{ "messages" : [ {"role":"user","content":{"type":"text","text":"a"},"x":null} ],"description":"d" }"#,
            r#"{"messages":[{"content":{"type":"video","a":1e400},"role":"assistant"}],"y":null,"isError":5}"#,
            r#"{"resultType":"input_required","inputRequests":{}}"#,
        ] {
            assert_eq!(OfferShape::Messages.mended(result, true), None, "{result}");
        }
        for result in [
            r#"{"contents":[]}"#,
            r#"{"contents":[{"uri":"y:1","text":""}, {"blob":"aGk=","uri":"y:2","mimeType":"a/b","_meta":{}}]}"#,
            r#"{"resultType":"complete","ttlMs":5,"contents":[],"description":null}"#,
        ] {
            assert_eq!(contents_shape().mended(result, true), None, "{result}");
        }
        let large =
            |rest: &str| format!("{{\"contents\":[{{\"uri\":\"y:1\",\"text\":\"{}\"{rest}}}]}}", "a".repeat(2 * SMALL));
        assert!(contents_shape().mended(&large(",\"mimeType\":null"), true).is_none());
        assert!(contents_shape().mended(&large(""), false).is_none());
        assert!(contents_shape().mended(&large(",\"mimeType\":null"), false) == Some(large("")));
    }

    #[test]
    fn messages_get_a_legal_shape() {
        let says = |role: &str, text: &str| format!("{{\"role\":\"{role}\",\"content\":{}}}", said(&quoted(text)));
        let check = |result: &str, messages: &[String], rest: &str| {
            let want = format!("{{\"messages\":[{}]{rest}}}", messages.join(","));
            check(&OfferShape::Messages, result, &want);
        };
        for nothing in ["{}", "null", "[]", r#"{"messages":null}"#, r#"{"messages":[null,{"role":"user"}]}"#] {
            check(nothing, &[], "");
        }
        check("\"x\"", &[says("user", "x")], "");
        check(r#"{"messages":"hello"}"#, &[says("user", "hello")], "");
        check(r#"{"a":1}"#, &[says("user", "{\"a\":1}")], ",\"a\":1");
        check(r#"{"description":"d"}"#, &[], ",\"description\":\"d\"");
        check(r#"{"messages":[{"role":"assistant","content":"x"}]}"#, &[says("assistant", "x")], "");
        check(r#"{"messages":[{"role":"system","content":{"type":"text","text":"x"}}]}"#, &[says("user", "x")], "");
        check(
            r#"{"messages":{"role":"assistant","content":{"type":"text","text":"x"}}}"#,
            &[says("assistant", "x")],
            "",
        );
        let two = r#"{"messages":[{"role":"assistant","content":[{"type":"text","text":"x"},"y"]}]}"#;
        check(two, &[says("assistant", "x"), says("assistant", "y")], "");
        let unset = r#"{"messages":[{"role":"user","content":{"type":"text","text":"x","annotations":null}}]}"#;
        check(unset, &[says("user", "x")], "");
        check(
            r#"{"messages":[{"role":"assistant","text":"x"}]}"#,
            &[says("assistant", r#"{"role":"assistant","text":"x"}"#)],
            "",
        );
        super::tests::check(
            &OfferShape::Messages,
            r#"{"messages":[],"description":null,"_meta":null}"#,
            r#"{"messages":[]}"#,
        );
        super::tests::check(
            &OfferShape::Messages,
            r#"{"messages":[],"description":5}"#,
            r#"{"description":"5","messages":[]}"#,
        );
    }

    #[test]
    fn contents_get_a_legal_shape() {
        let check =
            |result: &str, contents: &str| check(&contents_shape(), result, &format!("{{\"contents\":[{contents}]}}"));
        for nothing in ["{}", "null", "[]", r#"{"contents":null}"#, r#"{"contents":[null],"_meta":null}"#] {
            check(nothing, "");
        }
        check("\"x\"", r#"{"uri":"x:1","text":"x"}"#);
        check(r#"{"contents":["x",5]}"#, r#"{"uri":"x:1","text":"x"},{"uri":"x:1","text":"5"}"#);
        check(r#"{"contents":{"uri":"y:1","text":"t"}}"#, r#"{"uri":"y:1","text":"t"}"#);
        for (bad, good) in [
            (r#"{"text":"t"}"#, r#"{"uri":"x:1","text":"t"}"#),
            (r#"{"uri":"y:1","text":5}"#, r#"{"text":"5","uri":"y:1"}"#),
            (r#"{"uri":"y:1","mimeType":null,"text":"t","blob":null,"_meta":null}"#, r#"{"uri":"y:1","text":"t"}"#),
            (r#"{"uri":"y:1","text":null,"blob":"aGk="}"#, r#"{"uri":"y:1","blob":"aGk="}"#),
            (r#"{"uri":"y:1"}"#, r#"{"text":"","uri":"y:1"}"#),
            (r#"{"uri":"y:1","blob":5}"#, r#"{"text":"{\"uri\":\"y:1\",\"blob\":5}","uri":"y:1"}"#),
        ] {
            check(&format!("{{\"contents\":[{bad}]}}"), good);
        }
    }
}
