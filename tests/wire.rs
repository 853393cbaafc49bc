//! The bytes: whatever a source or a client may send arrives as it was sent, and what cannot be read costs only itself.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::cell::RefCell;
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use standing::Trial;
use support::{AT_ONCE, Relay, source};

/// A relay before one fixture `fix`, with a client that has shaken hands.
fn relay(settings: &str) -> Relay {
    Relay::greeted(settings, &[source("fix", &[], "summary = \"Misbehaves as told.\"")])
}

/// The same with the standing assertions.
fn trial() -> Trial {
    Trial::start(&[source("fix", &[], "summary = \"Misbehaves as told.\"")])
}

fn cases(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

fn blank() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "", " ", "\t", "\r", "  "])
}

fn text() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "content",
        "é",
        "漢字",
        "🙂",
        "\u{2028}",
        "\u{feff}",
        "\u{7f}",
        "/",
        "\\/",
        "\\n",
        "\\u0000",
        "\\ud800",
        "\\udc00\\ud800",
        "\\\"",
        "\\\\",
        "\\u00e9",
        "@ID@",
        "</script>",
        "'",
        "{",
        "\"id\\\":1",
    ];
    // The last piece would end the string: keep it legal.
    let pieces: Vec<_> = pieces.iter().map(|piece| piece.replace("\"id", "\\\"id")).collect();
    prop::collection::vec(prop::sample::select(pieces), 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

fn key() -> impl Strategy<Value = String> {
    let known =
        ["content", "isError", "structuredContent", "_meta", "resultType", "type", "text", "id", "result", "Id"];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(|key| format!("\"{key}\"")), text()]
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::vec((blank(), key(), blank(), value, blank()), 0..5).prop_map(|members| {
        let members = members.iter().map(|(a, key, b, value, c)| format!("{a}{key}{b}:{c}{value}{b}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    })
}

/// Any JSON text, laid out in any way, duplicate keys and numbers out of every range included.
fn value() -> impl Strategy<Value = String> {
    let number = prop::sample::select(vec![
        "0",
        "-0",
        "1",
        "1.0",
        "30",
        "1e3",
        "1E+3",
        "1e400",
        "-1e-400",
        "0.10",
        "9007199254740993",
        "18446744073709551616",
        "123456789012345678901234567890",
        "1.7976931348623157e309",
    ]);
    let word = prop::sample::select(vec!["true", "false", "null"]);
    let leaf = prop_oneof![number.prop_map(str::to_owned), word.prop_map(str::to_owned), text()];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let array = prop::collection::vec((blank(), inner.clone()), 0..5).prop_map(|items| {
            let items = items.iter().map(|(blank, item)| format!("{blank}{item}{blank}"));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        });
        prop_oneof![array, object(inner)]
    })
}

/// An object of any shape that says it is a block of a type that nobody knows.
fn strange_block() -> impl Strategy<Value = String> {
    object(value()).prop_map(|text| {
        let members = text[..text.len() - 1].to_owned();
        let comma = if members == "{" { "" } else { "," };
        format!("{members}{comma}\"type\":\"strange\"}}")
    })
}

#[test]
fn results_arrive_byte_for_byte() {
    let relay = RefCell::new(relay(""));
    let checked = cases(150).run(&(strange_block(), value(), any::<bool>()), |(block, more, last)| {
        let (content, more) = (format!("\"content\":[{block}]"), format!("\"x\":{more}"));
        let text = if last { format!("{{{more},{content}}}") } else { format!("{{{content},{more}}}") };
        let mut relay = relay.borrow_mut();
        let file = relay.place.write("result.json", &text);
        for reply in [
            relay.call_direct("fix__raw", json!({"result_file": file})),
            relay.call("fix", "raw", json!({"result_file": file})),
        ] {
            let id = reply.raw("id").unwrap();
            prop_assert_eq!(&reply.line, &format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}}", id, text));
        }
        Ok(())
    });
    checked.unwrap();
    relay.into_inner().finish();
}

/// What is no result of a tool is given the list of contents that it has to have; of what came no byte is lost.
#[test]
fn results_of_no_legal_shape_lose_nothing() {
    let relay = RefCell::new(relay(""));
    let object = (value(), blank(), value()).prop_map(|(a, blank, b)| {
        let members = format!("\"a\":{a},\"b\"{blank}:{blank}{b}");
        (format!("{{{members}}}"), format!(",{members}"))
    });
    let other = value().prop_filter("an object", |text| !text.starts_with('{')).prop_map(|text| (text, String::new()));
    let checked = cases(100).run(&prop_oneof![object, other], |(text, rest)| {
        let blocks = match &*text {
            "null" => String::new(),
            // A text is shown as it is, anything else as its JSON.
            said if said.starts_with('"') => format!("{{\"type\":\"text\",\"text\":{said}}}"),
            said => format!("{{\"type\":\"text\",\"text\":{}}}", serde_json::to_string(said).unwrap()),
        };
        let mut relay = relay.borrow_mut();
        let file = relay.place.write("result.json", &text);
        let reply = relay.call_direct("fix__raw", json!({"result_file": file}));
        prop_assert_eq!(reply.raw("result").unwrap(), format!("{{\"content\":[{}]{}}}", blocks, rest));
        Ok(())
    });
    checked.unwrap();
    relay.into_inner().finish();
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let relay = RefCell::new(relay(""));
    let checked = cases(150).run(&object(value()), |text| {
        let mut relay = relay.borrow_mut();
        let direct = relay.ask_raw("tools/call", &format!("{{\"name\":\"fix__echo\",\"arguments\":{text}}}"));
        let inner = format!("{{\"arguments\":{text},\"tool\":\"echo\",\"source\":\"fix\"}}");
        let dispatched = relay.ask_raw("tools/call", &format!("{{\"arguments\":{inner},\"name\":\"call_tool\"}}"));
        for id in [direct, dispatched] {
            let reply = relay.answer(&id);
            let end = format!("\"structuredContent\":{text}}}}}");
            prop_assert!(reply.line.ends_with(&end), "{} does not end in {}", reply.line, end);
        }
        Ok(())
    });
    checked.unwrap();
    relay.into_inner().finish();
}

#[test]
fn depth_has_no_limit() {
    let mut relay = relay("");
    let deep = format!("{{\"a\":{}1{}}}", "[{\"b\":".repeat(20_000), "}]".repeat(20_000));
    let result = format!("{{\"content\":[],\"x\":{deep}}}");
    let file = relay.place.write("deep.json", &result);
    let reply = relay.call_direct("fix__raw", json!({"result_file": file}));
    assert!(reply.raw("result") == Some(&result));
    let id = relay.ask_raw("tools/call", &format!("{{\"name\":\"fix__echo\",\"arguments\":{deep}}}"));
    assert!(relay.answer(&id).line.ends_with(&format!("{deep}}}}}")));
    relay.finish();
}

#[test]
fn a_source_may_write_its_answer_in_pieces() {
    let mut relay = relay("");
    let result = r#"{"content":[{"type":"text","text":"漢字🙂 and \ud83d\ude42"}]}"#;
    let file = relay.place.write("line.json", format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{result}}}"));
    for chunk in [1, 3, 7] {
        let reply = relay.call("fix", "raw_line", json!({"file": file, "chunk": chunk, "pause_ms": 1}));
        assert_eq!(reply.raw("result"), Some(result));
    }
    relay.finish();
}

#[test]
fn a_client_may_write_its_messages_in_pieces_and_in_heaps() {
    let mut relay = relay("");
    let call = |id: &str| {
        let arguments = r#"{"text":"漢字🙂"}"#;
        let params = format!("{{\"name\":\"fix__echo\",\"arguments\":{arguments}}}");
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}\n")
    };
    let mut ids: Vec<String> = (0..30).map(|_| relay.new_id()).collect();
    let heap: String = ids.iter().map(|id| call(id)).collect();
    for piece in heap.as_bytes().chunks(97) {
        relay.send_bytes(piece);
    }
    let more: Vec<String> = (0..100).map(|_| relay.new_id()).collect();
    relay.send_bytes(more.iter().map(|id| call(id)).collect::<String>().as_bytes());
    let odd = relay.new_id();
    relay.send_bytes(format!("\n\r\n   \n{}\r\n\n", call(&odd).trim_end()).as_bytes());
    ids.extend(more);
    ids.push(odd);
    for id in ids {
        assert_eq!(relay.answer(&id).structured(), json!({"text": "漢字🙂"}));
    }
    // A line of blanks is no message, and the only one that is complained of.
    assert_eq!(relay.notices.len(), 0);
    relay.finish();
}

/// Windows programs put a byte order mark before their text. It went on to the source, which could not read the call.
#[test]
fn a_byte_order_mark_is_not_passed_on() {
    let mut relay = relay("");
    let id = relay.new_id();
    let params = r#"{"name":"fix__echo","arguments":{"a":1}}"#;
    relay.send(&format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}"));
    assert_eq!(relay.answer(&id).structured(), json!({"a": 1}));
    let file = relay.place.write("bom.json", "\u{feff} {\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[]}}");
    let reply = relay.call("fix", "raw_line", json!({"file": file}));
    assert_eq!(reply.raw("result"), Some(r#"{"content":[]}"#));
    relay.finish();
}

/// The one revision with batches: each message is taken, and judged, as if it had come alone.
#[test]
fn a_client_of_2025_03_26_may_send_batches() {
    let mut relay = Relay::start("", &[source("fix", &[], "deny = [\"die\"]")]);
    let client = json!({"name": "raw", "version": "1"});
    relay.request("initialize", json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client}));
    let (ping, denied, fine) = (relay.new_id(), relay.new_id(), relay.new_id());
    let call = |id: &str, tool: &str| {
        let arguments = json!({"source": "fix", "tool": tool, "arguments": {"code": 1}});
        let params = json!({"name": "call_tool", "arguments": arguments});
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
    };
    let (first, second) = (call(&denied, "die"), call(&fine, "echo"));
    relay.send(&format!(r#"[{{"jsonrpc":"2.0","id":{ping},"method":"ping"}},{first},{second}]"#));
    assert_eq!(relay.answer_to(&ping).raw("result"), Some("{}"));
    assert_eq!(relay.answer_to(&denied).failure().0, "withheld");
    assert_eq!(relay.answer_to(&fine).structured(), json!({"code": 1}));
    relay.send("[]");
    assert_eq!(relay.answer_to("null").error_code(), -32600);
    relay.send(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},"#);
    assert_eq!(relay.answer_to("null").error_code(), -32700);
    // A batch within a batch is no message, and what it holds is not taken.
    let (inner, outer) = (relay.new_id(), relay.new_id());
    let ping = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    relay.send(&format!("[[{}],{}]", ping(&inner), ping(&outer)));
    assert_eq!(relay.answer_to("null").error_code(), -32600);
    assert_eq!(relay.answer_to(&outer).raw("result"), Some("{}"));
    relay.send(&ping(&inner));
    assert_eq!(relay.answer_to(&inner).raw("result"), Some("{}"));
}

#[test]
fn unreadable_lines_are_answered_by_rule() {
    let mut relay = trial();
    for (line, code, id) in [
        ("hello", -32700, "null"),
        ("42", -32700, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":101,\"method\":\"ping\"", -32700, "101"),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"params\":{\"id\":1},\"id\":102,}", -32700, "102"),
        ("{\"jsonrpc\":\"2.0\",\"params\":{\"id\":1},\"method\":\"ping\"", -32700, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":\"x y\",\"method\":\"ping\",}", -32700, "\"x y\""),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, "null"),
        ("{}", -32600, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":103}", -32600, "103"),
        ("{\"jsonrpc\":\"2.0\",\"id\":104,\"method\":7}", -32600, "104"),
        ("{\"jsonrpc\":\"1.0\",\"id\":105,\"method\":\"ping\"}", -32600, "105"),
        ("{\"id\":106,\"method\":\"ping\"}", -32600, "106"),
        ("{\"jsonrpc\":\"2.0\",\"id\":107,\"method\":\"ping\",\"method\":\"ping\"}", -32600, "107"),
    ] {
        relay.send(line);
        assert_eq!(relay.answer_to(id).error_code(), code, "{line}");
    }
    relay.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":108,\"method\":\"\xb1\xe2\"}\n");
    assert_eq!(relay.answer_to("108").error_code(), -32700);
    // Replies and notifications to nobody are nobody's concern.
    relay.send(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    relay.send(r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#);
    assert_eq!(relay.request("ping", json!({})).raw("result"), Some("{}"));
    relay.finish();
}

#[test]
fn ids_come_back_as_they_were_written() {
    let mut relay = trial();
    for id in ["700", "\"700\"", "0", "-1", "\"\"", "\"a b\"", "9007199254740993", "1.5", "1e3", "\"\\u00e9\\ud800\""] {
        relay.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}"));
        assert_eq!(relay.answer_to(id).raw("result"), Some("{}"));
        let params = r#"{"name":"fix__echo","arguments":{}}"#;
        relay.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}"));
        assert_eq!(relay.answer_to(id).structured(), json!({}));
    }
    for id in ["null", "{}", "true", "[1]"] {
        relay.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}"));
        assert_eq!(relay.answer_to("null").error_code(), -32600, "{id}");
    }
    relay.finish();
}

/// An id in flight was refused for calls, but `ping` and `tools/list` were answered under it.
#[test]
fn an_id_in_flight_is_refused() {
    let mut relay = trial();
    relay.call("fix", "echo", json!({}));
    let id = relay.ask_call("fix", "sleep", json!({"ms": 500}));
    for method in ["tools/call", "tools/list", "ping", "initialize"] {
        let params = r#"{"name":"fix__echo","arguments":{}}"#;
        relay.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"));
        assert_eq!(relay.answer_to(&id).error_code(), -32600, "{method}");
    }
    assert_eq!(relay.answer_to(&id).text(), "slept 500 ms");
    relay.finish();
}

#[test]
fn large_messages_pass_whole() {
    const SIZE: usize = 30 << 20;
    let mut relay = relay("");
    for kind in ["text", "structured"] {
        let reply = relay.call("fix", "big", json!({"bytes": SIZE, "kind": kind}));
        assert!(reply.line.len() > SIZE && reply.raw("result").unwrap().starts_with("{\"content\":["));
    }
    let text = "0123456789".repeat(SIZE / 10);
    let id =
        relay.ask_raw("tools/call", &format!("{{\"name\":\"fix__tool_error\",\"arguments\":{{\"text\":\"{text}\"}}}}"));
    assert!(relay.answer(&id).raw("result").unwrap().contains(&text));
    relay.finish();
}

#[test]
fn messages_over_the_limit_fail_alone() {
    let mut relay = relay("max_message_mib = 1");
    let before = relay.call("fix", "count", json!({})).structured();
    let (kind, text) = relay.call("fix", "big", json!({"bytes": 3 << 20})).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("max_message_mib"), "{text}");
    // Members in the order of the TypeScript SDK, with other ids inside.
    let rows = r#"{"id":1},"#.repeat(200_000);
    let line = format!("{{\"result\":{{\"content\":[],\"rows\":[{rows}0]}},\"jsonrpc\":\"2.0\",\"id\":@ID@}}");
    let file = relay.place.write("long.json", line);
    let (_, text) = relay.call("fix", "raw_line", json!({"file": file})).failure();
    assert!(text.contains("max_message_mib"), "{text}");
    let id = relay.new_id();
    let arguments = format!("{{\"id\":{},\"rows\":[{rows}0]}}", id.parse::<u64>().unwrap() + 1);
    for (head, tail) in [(format!("\"id\":{id},"), String::new()), (String::new(), format!(",\"id\":{id}"))] {
        let params = format!("{{\"name\":\"fix__echo\",\"arguments\":{arguments}}}");
        relay.send(&format!("{{{head}\"method\":\"tools/call\",\"params\":{params},\"jsonrpc\":\"2.0\"{tail}}}"));
        let error = relay.answer_to(&id).error();
        assert_eq!(error["code"], -32600);
        assert!(error["message"].as_str().unwrap().contains("max_message_mib"), "{error}");
    }
    let after = relay.call("fix", "count", json!({})).structured();
    assert_eq!(after["tools/call"].as_u64(), before["tools/call"].as_u64().map(|count| count + 3));
    assert_eq!(after["initialize"], 1);
    relay.finish();
}

/// What a client gets for a line of a source.
enum Want {
    Result(&'static str),
    Error(&'static str),
    Failure(&'static str),
}

#[test]
fn broken_answers_end_their_call_at_once() {
    use Want::{Error, Failure, Result};
    let mut relay = trial();
    relay.call("fix", "echo", json!({}));
    let lines: &[(&[u8], Want)] = &[
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[],\"a\":\"\xb1\xe2\xba\xbb\"}}",
            Result("{\"content\":[],\"a\":\"\u{fffd}⺻\"}"),
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[{\"ty", Failure("cannot be read")),
        (b"{\"jsonrpc\":\"2.0\",\"id\":@ID@}", Failure("cannot be read")),
        (b"{\"result\":{\"id\":1,\"x\":[{\"id\":2}],},\"jsonrpc\":\"2.0\",\"id\":@ID@}", Failure("cannot be read")),
        (b"{\"id\":@ID@,\"result\":{\"content\":[],\"a\":1e400}}", Result("{\"content\":[],\"a\":1e400}")),
        (b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[]},\"error\":null}", Result("{\"content\":[]}")),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":null,\"error\":{\"code\":1,\"message\":\"no\"}}",
            Error("{\"code\":1,\"message\":\"no\"}"),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"error\":{\"code\":99999999999999999999,\"message\":\"no\"}}",
            Error("{\"code\":-32603,\"message\":\"no\",\"data\":{\"code\":99999999999999999999,\"message\":\"no\"}}"),
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"@ID@\",\"result\":{\"content\":[]}}", Result("{\"content\":[]}")),
        (b"{\"jsonrpc\":\"2.0\",\"id\":@ID@.0,\"result\":{\"content\":[]}}", Result("{\"content\":[]}")),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[]}}]", Result("{\"content\":[]}")),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{},\"result\":{\"content\":[],\"b\":2}}",
            Result("{\"content\":[],\"b\":2}"),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":\"text\"}",
            Result("{\"content\":[{\"type\":\"text\",\"text\":\"text\"}]}"),
        ),
    ];
    for (line, want) in lines {
        let name = String::from_utf8_lossy(line);
        let file = relay.place.write("line.json", line);
        let start = Instant::now();
        let reply = relay.call("fix", "raw_line", json!({"file": file}));
        assert!(start.elapsed() < AT_ONCE, "{name}: {:?}", start.elapsed());
        match want {
            Result(text) => assert_eq!(reply.raw("result"), Some(*text), "{name}"),
            Error(text) => assert_eq!(reply.raw("error"), Some(*text), "{name}"),
            Failure(part) => assert!(reply.failure().1.contains(part), "{name}: {}", reply.line),
        }
    }
    let file = relay.place.write("line.json", r#"{"jsonrpc":"2.0","id":@ID@,"error":"no"}"#);
    assert_eq!(relay.call("fix", "raw_line", json!({"file": file})).error_code(), -32603);
    assert_eq!(relay.call("fix", "count", json!({})).structured()["initialize"], 1);
    relay.finish();
}
