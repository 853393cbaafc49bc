//! Owns the shape of a tool's result: one that strict clients would refuse is given a legal shape, with nothing lost, because
//! the work was done. A large result in order is not looked into; what blocks of content have to be is told by
//! `block_shape`.

use std::borrow::Cow;

use serde_json::Value;

use super::block_shape::{Change, block, said, text_block};
use crate::wire::{Message, Object, quoted, raw, unquoted};

/// Members that say nothing of what the tool found out.
const BESIDE: &[&str] = &["content", "structuredContent", "isError", "_meta", "resultType", "ttlMs", "cacheScope"];
/// How most results begin that are in order.
const USUAL: [&str; 2] = ["{\"content\":[", "{\"resultType\":\"complete\",\"content\":["];
const STRUCTURED: &str = "\"structuredContent\"";
/// Bytes of a result up to which a look into it costs nothing that could be measured.
const SMALL: usize = 16 * 1024;
/// Where the small members of a large result stand: that many bytes before its end.
const TAIL: usize = 256;

/// The reply with its result in a legal shape; `None` where it is in order, or no result of a tool at all. Only up to
/// 2025-11-25 structured content has to be an object: `any` says that it may be anything.
pub fn mended_reply(reply: &Message, any: bool) -> Option<Message> {
    let place = reply.result?;
    // Programs that write out what they have not do so in results of any size.
    let by_glance = !reply.met.null;
    if by_glance && is_in_order(&reply.line[place.range()], any || !reply.met.structured) {
        return None;
    }
    let result = looked_into(reply.text(place), any, by_glance)?;
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", reply.id_text()?);
    Message::parse(line.into()).ok()
}

/// The same of a result by itself.
pub fn mended(result: &str, any: bool) -> Option<String> {
    if is_in_order(result.as_bytes(), any) { None } else { looked_into(result, any, true) }
}

/// The same, of a large content `by_glance` only.
fn looked_into(result: &str, any: bool, by_glance: bool) -> Option<String> {
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
    let beside = beside(&object);
    if is_kept && content.is_some_and(|content| has_good_blocks(content, by_glance)) && beside.is_empty() {
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
    let keep = |name: &str| {
        name != "content"
            && (is_kept || name != "structuredContent")
            && beside.iter().all(|(changed, _)| *changed != name)
    };
    let content = format!("\"content\":[{}]", blocks.join(","));
    let more: Vec<&str> =
        [content.as_str()].into_iter().chain(beside.iter().filter_map(|(_, text)| text.as_deref())).collect();
    Some(object.rewritten(keep, &more))
}

/// The members beside the content that no client takes as they are, each with its text in place of the bad one (`None`: it
/// is left out).
fn beside(object: &Object<'_>) -> Vec<(&'static str, Option<String>)> {
    let mut found = Vec::new();
    let of_meta = |(name, value): Change| (name, value.map(|value| format!("\"{name}\":{value}")));
    found.extend(mended_meta(object).map(of_meta));
    if let Some(flag) = object.get("isError").filter(|flag| !matches!(*flag, "true" | "false")) {
        let is_error = !matches!(unquoted(flag).as_deref().unwrap_or(flag), "false" | "False" | "0" | "");
        found.push(("isError", (flag != "null").then(|| format!("\"isError\":{is_error}"))));
    }
    found
}

/// The change of a `_meta` that is no object.
pub(super) fn mended_meta(object: &Object<'_>) -> Option<Change> {
    let meta = object.get("_meta").filter(|meta| !meta.starts_with('{'))?;
    Some(("_meta", (meta != "null").then(|| format!("{{\"value\":{meta}}}"))))
}

/// Whether a result can be told to be in order by a glance: a large one, by how it begins and ends.
fn is_in_order(result: &[u8], any: bool) -> bool {
    let content = USUAL.iter().find_map(|usual| result.strip_prefix(usual.as_bytes()));
    result.len() > SMALL
        && content.is_some_and(|content| matches!(content.trim_ascii_start().first(), Some(b'{' | b']')))
        && has_good_end(&result[result.len() - TAIL..])
        && (any || has_objects_only(result))
}

/// Whether nothing at the end of a result looks as if it were of a wrong type.
fn has_good_end(end: &[u8]) -> bool {
    let is_good = |name: &str, values: &[&str]| {
        memchr::memmem::find_iter(end, name).all(|at| {
            let rest = end[at + name.len()..].trim_ascii_start();
            let Some(value) = rest.strip_prefix(b":").map(<[u8]>::trim_ascii_start) else { return true };
            values.iter().any(|start| value.starts_with(start.as_bytes()))
        })
    };
    is_good("\"isError\"", &["true", "false"]) && is_good("\"_meta\"", &["{"])
}

/// Whether a content is a list of blocks that clients take; of a large one by glance, whether it begins so.
fn has_good_blocks(content: &str, by_glance: bool) -> bool {
    let Some(list) = content.strip_prefix('[') else { return false };
    if by_glance && list.len() > SMALL {
        return list.trim_start().starts_with(['{', ']']);
    }
    let is_good = |text: &str| matches!(block(text), Some(Cow::Borrowed(_)));
    raw::elements(content).is_some_and(|blocks| blocks.into_iter().all(is_good))
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
    let all = match content {
        None | Some("null") => Vec::new(),
        Some(list) if list.starts_with('[') => raw::elements(list).unwrap_or_default(),
        // One block without its list.
        Some(one) if Object::parse(one).is_some_and(|block| block.string("type").is_some()) => vec![one],
        Some(other) => return vec![said(other)],
    };
    all.into_iter().filter_map(block).map(Cow::into_owned).collect()
}

/// Whether a block says in text what this value is.
fn says(block: &str, value: &str) -> bool {
    let block = Object::parse(block);
    let text = block.and_then(|block| block.get("text").and_then(unquoted).map(std::borrow::Cow::into_owned));
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    // Numbers are read as far as a double goes.
    let is_exact = |text: &str| !text.as_bytes().split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > 15);
    let is_same = |text: &str| is_exact(value) && read(text).is_some_and(|said| Some(said) == read(value));
    text.is_some_and(|text| text == value || is_same(&text))
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

    /// Of a large result the beginning and the end are looked at, and all of it only where those are not in order.
    #[test]
    fn large_results_are_mended_where_it_shows() {
        let filler = text_block(&quoted(&"x".repeat(2 * SMALL)));
        let of = |blocks: &str, rest: &str| format!("{{\"content\":[{blocks}]{rest}}}");
        for rest in ["", ",\"isError\":false", ",\"_meta\":{\"isError\" : true}"] {
            assert_eq!(mended(&of(&filler, rest), false), None, "{rest}");
        }
        let strange = format!("{filler},5");
        assert_eq!(mended(&of(&strange, ""), false), None);
        for (blocks, rest, want) in [
            (&*filler, ",\"isError\":1", of(&filler, ",\"isError\":true")),
            (&filler, ",\"_meta\":null", of(&filler, "")),
            (&format!("\"a\",{filler}"), "", of(&format!("{},{filler}", text_block("\"a\"")), "")),
            (&strange, ",\"structuredContent\":5", of(&format!("{filler},{}", text_block("\"5\"")), "")),
        ] {
            assert!(mended(&of(blocks, rest), false) == Some(want), "{rest}");
        }
    }

    /// What strict clients refuse most often, at any size.
    #[test]
    fn what_says_nothing_is_left_out_of_large_results() {
        let text = quoted(&"x".repeat(2 * SMALL));
        let reply = |result: &str| {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}");
            Message::parse(line.into()).unwrap_or_else(|(why, _)| panic!("{why}"))
        };
        let mended = |result: &str| {
            let mended = mended_reply(&reply(result), true)?;
            Some(mended.text(mended.result?).to_owned())
        };
        let good = format!("{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}]}}");
        assert_eq!(mended(&good), None);
        for bad in [
            format!("{{\"content\":[{{\"type\":\"text\",\"text\":{text},\"annotations\":null,\"_meta\":null}}]}}"),
            format!("{{\"isError\":null,\"content\":[{{\"type\":\"text\",\"text\":{text}}}]}}"),
        ] {
            assert_eq!(mended(&bad).as_deref(), Some(&*good));
        }
    }

    #[test]
    fn what_stands_beside_the_content_is_mended() {
        for (bad, good) in [
            ("\"_meta\":5", ",\"_meta\":{\"value\":5}"),
            ("\"_meta\":null", ""),
            ("\"isError\":\"true\"", ",\"isError\":true"),
            ("\"isError\":\"false\"", ",\"isError\":false"),
            ("\"isError\":1", ",\"isError\":true"),
            ("\"isError\":0", ",\"isError\":false"),
            ("\"isError\":null", ""),
        ] {
            let want = format!("{{\"content\":[]{good}}}");
            for result in [format!("{{\"content\":[],{bad}}}"), format!("{{{bad},\"content\":[]}}")] {
                assert_eq!(mended(&result, true), Some(want.clone()), "{result}");
            }
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
