//! Owns the shape of a tool's result: one that strict clients would refuse is given a legal shape, with nothing lost, because
//! the work was done. A result in order is not looked into.

use serde_json::Value;

use crate::wire::{Message, Object, quoted, raw, unquoted};

/// Members that say nothing of what the tool found out.
const BESIDE: &[&str] = &["content", "structuredContent", "isError", "_meta", "resultType", "ttlMs", "cacheScope"];
/// How most results begin that are in order.
const USUAL: [&str; 2] = ["{\"content\":[", "{\"resultType\":\"complete\",\"content\":["];
const STRUCTURED: &str = "\"structuredContent\"";

/// The reply with its result in a legal shape; `None` where it is in order, or no result of a tool at all. Only up to
/// 2025-11-25 structured content has to be an object: `any` says that it may be anything.
pub fn mended_reply(reply: &Message, any: bool) -> Option<Message> {
    let place = reply.result?;
    if is_in_order(&reply.line[place.range()], any || !reply.met.structured) {
        return None;
    }
    let result = mended(reply.text(place), any)?;
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", reply.id_text()?);
    Message::parse(line.into()).ok()
}

/// The same of a result by itself.
pub fn mended(result: &str, any: bool) -> Option<String> {
    if is_in_order(result.as_bytes(), any) {
        return None;
    }
    let Some(object) = Object::parse(result) else {
        let blocks = if result == "null" { Vec::new() } else { vec![said(result)] };
        return Some(format!("{{\"content\":[{}]}}", blocks.join(",")));
    };
    let kind = object.string("resultType");
    if kind.is_some_and(|kind| kind != "complete") || object.get("task").is_some() {
        return None;
    }
    let (content, structured) = (object.get("content"), object.get("structuredContent"));
    let is_kept = structured.is_none_or(|value| any || value.starts_with('{'));
    if is_kept && content.is_some_and(|content| content.starts_with('[')) {
        return None;
    }
    let mut blocks: Vec<String> = blocks(content);
    let shown = structured.filter(|value| if is_kept { blocks.is_empty() } else { *value != "null" });
    if let Some(value) = shown.filter(|value| !blocks.iter().any(|block| says(block, value))) {
        blocks.push(text_block(&quoted(value)));
    }
    if blocks.is_empty() && object.members.iter().any(|member| !BESIDE.contains(&&*member.key)) {
        blocks.push(said(result));
    }
    let keep = |name: &str| name != "content" && (is_kept || name != "structuredContent");
    Some(object.rewritten(keep, &[&format!("\"content\":[{}]", blocks.join(","))]))
}

/// Whether a result can be told to be in order without a look into it.
fn is_in_order(result: &[u8], any: bool) -> bool {
    USUAL.iter().any(|usual| result.starts_with(usual.as_bytes())) && (any || has_objects_only(result))
}

/// Whether each structured content in a text is an object; also those that stand deeper, which are rare.
fn has_objects_only(text: &[u8]) -> bool {
    memchr::memmem::find_iter(text, STRUCTURED).all(|at| {
        let rest = text[at + STRUCTURED.len()..].trim_ascii_start();
        // Not a key, but a string.
        let Some(value) = rest.strip_prefix(b":") else { return true };
        value.trim_ascii_start().starts_with(b"{")
    })
}

fn blocks(content: Option<&str>) -> Vec<String> {
    match content {
        None | Some("null") => Vec::new(),
        Some(list) if list.starts_with('[') => {
            raw::elements(list).unwrap_or_default().into_iter().map(str::to_owned).collect()
        }
        Some(one) if Object::parse(one).is_some_and(|block| block.string("type").is_some()) => vec![one.to_owned()],
        Some(other) => vec![said(other)],
    }
}

/// A value as a block of text: a string as it is, anything else as its JSON.
fn said(value: &str) -> String {
    if value.starts_with('"') { text_block(value) } else { text_block(&quoted(value)) }
}

/// A block of text, given as a JSON string.
fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{text}}}")
}

/// Whether a block says in text what this value is.
fn says(block: &str, value: &str) -> bool {
    let block = Object::parse(block);
    let text = block.and_then(|block| block.get("text").and_then(unquoted).map(std::borrow::Cow::into_owned));
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    text.is_some_and(|text| text == value || read(&text).is_some_and(|said| Some(said) == read(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_order_stays() {
        for result in [
            r#"{"content":[]}"#,
            r#"{"content":[{"type":"text","text":"\"structuredContent\":[1]"}],"structuredContent" : {"a":1}}"#,
            r#"{"isError":true,"content":[],"x":1}"#,
            r#"{"resultType":"complete","content":[],"structuredContent":{}}"#,
            r#"{"resultType":"input_required","inputRequests":{}}"#,
            r#"{"task":{"taskId":"1"}}"#,
            r#"{"content":[{"type":"text","text":"structuredContent"}],"structuredContent":{"structuredContent":[1]}}"#,
        ] {
            assert_eq!(mended(result, false), None, "{result}");
            assert_eq!(mended(result, true), None, "{result}");
        }
    }

    #[test]
    fn what_is_not_gets_a_legal_shape() {
        let text = |text: &str| text_block(&quoted(text));
        let check = |result: &str, any: bool, blocks: &[String], rest: &str| {
            let want = format!("{{\"content\":[{}]{rest}}}", blocks.join(","));
            assert_eq!(mended(result, any).as_deref(), Some(want.as_str()), "{result} {any}");
        };
        for any in [false, true] {
            check("{}", any, &[], "");
            check("null", any, &[], "");
            check("\"done\"", any, &[text("done")], "");
            check("[1,2]", any, &[text("[1,2]")], "");
            check(r#"{"content":null,"isError":false}"#, any, &[], r#","isError":false"#);
            check(r#"{"content":"t\u00e9"}"#, any, &[text_block("\"t\\u00e9\"")], "");
            check(r#"{"content":{"type":"text","text":"a"}}"#, any, &[text("a")], "");
            check(r#"{"content":{"a":1e400}}"#, any, &[text("{\"a\":1e400}")], "");
            check(r#"{"degrees":21}"#, any, &[text("{\"degrees\":21}")], ",\"degrees\":21");
            check(r#"{"structuredContent":{"a":1}}"#, any, &[text("{\"a\":1}")], ",\"structuredContent\":{\"a\":1}");
        }
        check(r#"{"structuredContent":[1,2]}"#, true, &[text("[1,2]")], ",\"structuredContent\":[1,2]");
        check(r#"{"structuredContent":[1,2]}"#, false, &[text("[1,2]")], "");
        check(r#"{"content":[],"structuredContent":null}"#, false, &[], "");
        let block = text("[1, 2]");
        check(&format!("{{\"content\":[{block}],\"structuredContent\":[1,2]}}"), false, &[block], "");
        check(r#"{"content":[],"structuredContent":"s"}"#, false, &[text("\"s\"")], "");
        assert_eq!(mended(r#"{"content":[],"structuredContent":[1]}"#, true), None);
    }
}
