//! Sources that are reached over HTTP: both eras, the shapes of their answers, and what is sent along.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use support::{Relay, eventually};
use web::{Out, SESSION, Seen, Web};

const CALLED: &str = "tools/call";

fn usual(_: &Seen, _: &mut Out) -> bool {
    false
}

#[test]
fn a_legacy_source_has_a_session_from_the_first_message_to_the_last() {
    let web = Web::start(web::legacy, usual);
    let mut relay = Trial::start(&[web.source("web", "headers = { X-Own = 'of the source' }")]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(relay.status("web")["status"], "ready");
    relay.finish();
    let seen = web.seen();
    let told: Vec<_> = seen.iter().filter(|seen| seen.method == "POST").map(Seen::rpc).collect();
    assert_eq!(told[..3], ["server/discover", "initialize", "notifications/initialized"]);
    for seen in &seen {
        let early = ["server/discover", "initialize"].contains(&&*seen.rpc());
        let want = (!early).then_some(SESSION);
        assert_eq!(seen.header("mcp-session-id"), want, "{seen:?}");
        let version = match (early, &*seen.rpc()) {
            (true, "initialize") => None,
            (true, _) => Some("2026-07-28"),
            _ => Some("2025-11-25"),
        };
        assert_eq!(seen.header("mcp-protocol-version"), version, "{seen:?}");
        assert_eq!(seen.header("x-own"), Some("of the source"));
        assert!(seen.header("user-agent").unwrap().starts_with("toolrelay/"));
    }
    assert_eq!(seen.iter().filter(|seen| seen.method == "DELETE").count(), 1);
    assert_eq!(web.posts("initialize").len(), 1);
}

#[test]
fn a_legacy_source_may_do_without_a_session() {
    let web = Web::start(web::legacy, |seen, out| {
        let begins = seen.rpc() == "initialize";
        if begins {
            let result =
                json!({"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": {"name": "web"}});
            out.json(200, &[], &json!({"jsonrpc": "2.0", "id": seen.id(), "result": result}));
        }
        begins
    });
    let mut relay = Trial::start(&[web.source("web", "")]);
    for number in 0..3 {
        assert_eq!(relay.call("web", "echo", json!({"n": number})).structured(), json!({"n": number}));
    }
    relay.finish();
    assert!(web.seen().iter().all(|seen| seen.header("mcp-session-id").is_none()));
    assert!(web.posts(CALLED).iter().all(|seen| seen.header("mcp-protocol-version") == Some("2025-03-26")));
    assert_eq!((web.posts("initialize").len(), web.with_method("DELETE").len()), (1, 0));
}

#[test]
fn a_modern_source_is_told_in_headers_what_a_body_says() {
    let web = Web::start(web::modern, |seen, out| {
        if seen.rpc() != "tools/list" {
            return false;
        }
        let schema =
            |name: &str| json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": name}}});
        let tools =
            json!([{"name": "échos", "inputSchema": schema("Region")}, {"name": "bad", "inputSchema": schema("a b")}]);
        let result = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
        out.json(200, &[], &json!({"jsonrpc": "2.0", "id": seen.id(), "result": result}));
        true
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    let arguments = json!({"region": "süd"});
    // The list is read first, so that its wishes are known.
    assert!(relay.call_direct("find_tools", json!({"query": "échos", "source": "web"})).structured()["total"] == 1);
    assert_eq!(relay.call("web", "échos", arguments.clone()).structured(), arguments);
    // A tool that may not be used is told with the reason.
    assert_eq!(relay.status("web")["withheld"], 1);
    let (_, text) = relay.call("web", "bad", json!({})).failure();
    assert!(text.contains("x-mcp-header"), "{text}");
    relay.finish();
    let calls = web.posts(CALLED);
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(call.header("mcp-method"), Some(CALLED));
    assert_eq!(call.header("mcp-name"), Some("=?base64?w6ljaG9z?="));
    assert_eq!(call.header("mcp-param-region"), Some("=?base64?c8O8ZA==?="));
    for seen in web.seen() {
        assert_eq!(seen.header("mcp-session-id"), None);
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(seen.header("mcp-method"), Some(&*seen.rpc()));
        assert_eq!(seen.json()["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    }
    assert!(web.posts("initialize").is_empty() && web.with_method("DELETE").is_empty());
}

#[test]
fn what_a_tool_wants_in_headers_is_read_anew_when_it_has_changed() {
    let web = Web::start(web::modern, |seen, out| match (&*seen.rpc(), seen.header("mcp-param-new")) {
        ("tools/list", _) => {
            let schema = json!({"type": "object", "properties": {"a": {"type": "integer", "x-mcp-header": "New"}}});
            let tools = json!([{"name": "echo", "inputSchema": schema}]);
            let result = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
            out.json(200, &[], &json!({"jsonrpc": "2.0", "id": seen.id(), "result": result}));
            true
        }
        (CALLED, None) => {
            out.json(400, &[], &web::error(&seen.id(), -32020, "Mcp-Param-New is missing"));
            true
        }
        _ => false,
    });
    // The relay knows its tools from a first run, and calls before it has listed anything in the second.
    let place = support::Place::new();
    let sources = [web.source("web", "")];
    for run in 0..2 {
        let mut relay = Relay::greeted_in(&place, "", &sources);
        assert_eq!(relay.call("web", "echo", json!({"a": 7})).structured(), json!({"a": 7}), "run {run}");
        relay.finish();
    }
    assert!(web.posts(CALLED).iter().any(|call| call.header("mcp-param-new") == Some("7")));
    assert!(web.posts(CALLED).len() <= 4);
}

#[test]
fn a_modern_source_that_names_its_revisions_first_is_asked_again() {
    let asked = std::sync::atomic::AtomicBool::new(false);
    let web = Web::start(web::modern, move |seen, out| {
        let first = !asked.swap(true, std::sync::atomic::Ordering::SeqCst);
        if first {
            let mut refusal = web::error(&seen.id(), -32022, "Unsupported protocol version");
            refusal["error"]["data"] = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
            out.json(400, &[], &refusal);
        }
        first
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!((web.posts("server/discover").len(), web.posts("initialize").len()), (2, 0));
    relay.finish();
}

/// Answers the call with a stream of exactly these bytes, in pieces of `cut`.
fn streamed(shape: impl Fn(&str) -> String + Send + Sync + 'static, cut: usize) -> Web {
    Web::start(web::legacy, move |seen, out| {
        if seen.rpc() != CALLED {
            return false;
        }
        let stream = shape(&web::echoed(seen).to_string());
        out.stream();
        for piece in stream.as_bytes().chunks(cut) {
            out.chunk(piece);
        }
        out.end_stream();
        true
    })
}

#[track_caller]
fn check_stream(shape: fn(&str) -> String) {
    for cut in [1, 7, 100_000] {
        let web = streamed(shape, cut);
        let mut relay = Trial::start(&[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({"a": "é\n"})).structured(), json!({"a": "é\n"}), "{cut}");
        relay.finish();
    }
}

#[test]
fn streams_are_read_whatever_their_line_ends() {
    check_stream(|data| format!("data: {data}\n\n"));
    check_stream(|data| format!("\u{feff}event: message\r\nid: 1\r\ndata:{data}\r\n\r\n"));
    check_stream(|data| format!("data: {data}\r\r"));
}

#[test]
fn streams_are_read_with_all_that_is_around_a_message() {
    check_stream(|data| format!(": ping\n\nevent: ping\ndata: x\n\nid: 0\ndata:\n\ndata: {data}\n\n"));
    check_stream(|data| data.replace(',', ",\ndata: ").replacen('{', "data: {", 1) + "\n\n");
    check_stream(|data| format!("data: {data}"));
}

#[test]
fn an_answer_may_be_pretty_compressed_or_a_batch() {
    type Shape = fn(&Value) -> (String, bool);
    let shapes: [Shape; 3] = [
        |answer| (serde_json::to_string_pretty(answer).unwrap(), false),
        |answer| (format!("[{answer}]"), false),
        |answer| (answer.to_string(), true),
    ];
    for shape in shapes {
        let web = Web::start(web::legacy, move |seen, out| {
            if seen.rpc() != CALLED {
                return false;
            }
            let (text, compressed) = shape(&web::echoed(seen));
            if compressed {
                let body = gzip(text.as_bytes());
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n";
                out.raw(format!("{head}content-length: {}\r\n\r\n", body.len()));
                out.raw(body);
            } else {
                out.reply(200, &[("content-type", "application/json; charset=utf-8")], &text);
            }
            true
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({"a": [1, 2]})).structured(), json!({"a": [1, 2]}));
        relay.finish();
    }
}

/// The gzip form of a text.
fn gzip(text: &[u8]) -> Vec<u8> {
    let mut crc = !0_u32;
    for byte in text {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(miniz_oxide::deflate::compress_to_vec(text, 6));
    out.extend((!crc).to_le_bytes());
    out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    out
}

#[test]
fn megabytes_pass_both_ways_in_an_event_and_in_a_body() {
    for streams in [true, false] {
        let web = Web::start(web::legacy, move |seen, out| {
            let streams = streams && seen.rpc() == CALLED;
            if streams {
                out.stream();
                for piece in format!("data: {}\n\n", web::echoed(seen)).as_bytes().chunks(70_001) {
                    out.chunk(piece);
                }
                out.end_stream();
            }
            streams
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        let arguments = json!({"text": "é\n".repeat(2 << 20)});
        assert!(relay.call("web", "echo", arguments.clone()).structured() == arguments, "{streams}");
        relay.finish();
    }
}

#[test]
fn the_end_of_the_relay_waits_for_no_answer() {
    for server in [web::legacy as fn(&Seen, &mut Out), web::modern] {
        let web = Web::start(server, |seen, out| {
            let held = seen.rpc() == CALLED;
            if held {
                out.stream();
                out.is_closed_within(support::PATIENCE);
            }
            held
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        relay.ask_call("web", "echo", json!({}));
        eventually("the call is there", || !web.posts(CALLED).is_empty());
        relay.signal(rustix::process::Signal::TERM);
        let (_, took) = relay.ended();
        assert!(took < support::AT_ONCE, "{took:?}");
    }
}

#[test]
fn progress_comes_in_order_and_before_the_answer() {
    let web = Web::start(web::legacy, |seen, out| {
        if seen.rpc() != CALLED {
            return false;
        }
        let token = seen.json()["params"]["_meta"]["progressToken"].clone();
        out.stream();
        for progress in 1..=50 {
            let params = json!({"progressToken": token, "progress": progress});
            out.event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        out.event(&web::echoed(seen));
        out.end_stream();
        true
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    let inner = json!({"source": "web", "tool": "echo", "arguments": {}});
    let params = json!({"name": "call_tool", "arguments": inner, "_meta": {"progressToken": "mine"}});
    let id = relay.ask(CALLED, params);
    let answered = relay.answer(&id).at;
    let steps: Vec<_> =
        relay.notices.iter().filter(|notice| notice.raw("method") == Some("\"notifications/progress\"")).collect();
    let seen: Vec<_> = steps.iter().map(|notice| notice.params()["progress"].as_u64().unwrap()).collect();
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
    assert!(steps.iter().all(|notice| notice.at <= answered && notice.params()["progressToken"] == "mine"));
    relay.finish();
}

#[test]
fn no_call_waits_for_another() {
    const TIME: Duration = Duration::from_millis(700);
    let web = Web::start(web::legacy, |seen, _| {
        if seen.rpc() == CALLED {
            std::thread::sleep(TIME);
        }
        false
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    relay.call("web", "echo", json!({}));
    let start = Instant::now();
    let ids: Vec<_> = (0..50).map(|number| relay.ask_call("web", "echo", json!({"n": number}))).collect();
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(relay.answer(id).structured(), json!({"n": number}));
    }
    // One after another they would take 35 s, and in tens 3.5 s.
    assert!(start.elapsed() < TIME * 4, "{:?}", start.elapsed());
    assert_eq!(web.posts("initialize").len(), 1);
    relay.finish();
}

#[test]
fn a_cancelled_call_is_told_to_a_legacy_source_and_its_stream_is_closed_to_a_modern_one() {
    let closed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for (server, era) in [(web::legacy as fn(&Seen, &mut Out), "legacy"), (web::modern, "modern")] {
        let told = closed.clone();
        let web = Web::start(server, move |seen, out| {
            if seen.rpc() != CALLED {
                return false;
            }
            out.stream();
            out.chunk(": working\n\n");
            told.store(out.is_closed_within(support::PATIENCE), std::sync::atomic::Ordering::SeqCst);
            true
        });
        closed.store(false, std::sync::atomic::Ordering::SeqCst);
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        let id = relay.ask_call("web", "echo", json!({}));
        eventually("the call is there", || !web.posts(CALLED).is_empty());
        relay.cancel(&id);
        eventually("its stream is closed", || closed.load(std::sync::atomic::Ordering::SeqCst));
        let call = web.posts(CALLED)[0].id();
        let cancelled = web.posts("notifications/cancelled");
        if era == "legacy" {
            assert_eq!(cancelled[0].json()["params"]["requestId"], call);
        } else {
            assert!(cancelled.is_empty());
        }
        relay.finish();
    }
}

#[test]
fn a_legacy_source_may_speak_on_a_stream_of_its_own() {
    let web = Web::start(web::legacy, |seen, out| {
        if seen.method != "GET" {
            return false;
        }
        out.stream();
        out.event(&json!({"jsonrpc": "2.0", "id": "p1", "method": "ping"}));
        out.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        // It stays open, as such streams do.
        out.is_closed_within(support::PATIENCE);
        true
    });
    let mut relay = Relay::greeted("", &[web.source("web", "start = 'at-start'")]);
    relay.await_status("web", "ready");
    eventually("its ping is answered", || {
        web.seen().iter().any(|seen| seen.json() == json!({"jsonrpc": "2.0", "id": "p1", "result": {}}))
    });
    eventually("its list is read again", || web.posts("tools/list").len() >= 2);
    let get = &web.with_method("GET")[0];
    assert_eq!((get.header("mcp-session-id"), get.header("accept")), (Some(SESSION), Some("text/event-stream")));
    relay.finish();
}

#[test]
fn a_modern_source_tells_of_changes_on_a_subscription_that_is_opened_again() {
    let web = Web::start(web::modern, |seen, out| {
        if seen.rpc() != "subscriptions/listen" {
            return false;
        }
        let meta = json!({"io.modelcontextprotocol/subscriptionId": seen.id()});
        let accepted = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
        out.stream();
        out.event(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": accepted}));
        out.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}));
        out.close();
        true
    });
    let mut relay = Trial::start(&[web.source("web", "start = 'at-start'")]);
    relay.await_status("web", "ready");
    eventually("it is opened again", || web.posts("subscriptions/listen").len() >= 2);
    eventually("the list is read again", || web.posts("tools/list").len() >= 3);
    let ids: Vec<_> = web.posts("subscriptions/listen").iter().map(Seen::id).collect();
    assert_ne!(ids[0], ids[1]);
    relay.finish();
}

#[test]
fn an_idle_source_is_disconnected_and_connected_again() {
    let web = Web::start(web::legacy, usual);
    let mut relay = Relay::greeted("", &[web.source("web", "idle_stop_secs = 1")]);
    relay.call("web", "echo", json!({}));
    relay.await_status("web", "dormant");
    eventually("its session is ended", || web.with_method("DELETE").len() == 1);
    assert_eq!(relay.call("web", "echo", json!({"b": 2})).structured(), json!({"b": 2}));
    assert_eq!(web.posts("initialize").len(), 2);
    // The era is remembered: no second probe.
    assert_eq!(web.posts("server/discover").len(), 1);
    relay.finish();
}
