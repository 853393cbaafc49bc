//! One call's life: its limits, its place in the queue, its cancelling, and answers that come when nobody waits.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use support::{AT_ONCE, Place, Relay, eventually, source};

/// The calls in a source's journal, by tool, and the ids that were cancelled.
fn journal(place: &Place, name: &str) -> (Vec<(String, String)>, Vec<String>) {
    let (mut calls, mut cancelled) = (Vec::new(), Vec::new());
    for line in place.lines(name) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let params = &message["params"];
        match message["method"].as_str() {
            Some("tools/call") => calls.push((message["id"].to_string(), params["name"].as_str().unwrap().to_owned())),
            Some("notifications/cancelled") => cancelled.push(params["requestId"].to_string()),
            _ => {}
        }
    }
    (calls, cancelled)
}

#[test]
fn a_call_without_a_sign_ends_at_its_limit() {
    let place = Place::new();
    let settings = "call_timeout_secs = 1\nmax_call_secs = 3\ntool.burst = { call_timeout_secs = 2 }";
    let mut relay = Trial::start_in(&place, "", &[place.journaled("fix", &[], settings), source("other", &[], "")]);
    relay.call("fix", "echo", json!({}));
    let start = Instant::now();
    let (kind, text) = relay.call("fix", "sleep", json!({"ms": 60_000})).failure();
    assert_eq!(kind, "timed_out");
    assert!(text.contains("gave no sign for 1 s") && text.contains("`call_timeout_secs`"), "{text}");
    assert!((1.0..2.5).contains(&start.elapsed().as_secs_f32()), "{:?}", start.elapsed());
    eventually("the source is told", || journal(&place, "fix.journal").1.len() == 1);
    let (calls, cancelled) = journal(&place, "fix.journal");
    assert_eq!(cancelled, [calls.last().unwrap().0.clone()]);

    // Progress starts the limit anew, whether or not the client's token is passed on to somebody who looks.
    let sleep = |ms: u32, steps: u32| json!({"name": "fix__sleep", "arguments": {"ms": ms, "progress": steps}, "_meta": {"progressToken": 1}});
    assert_eq!(relay.request("tools/call", sleep(2000, 7)).text(), "slept 2000 ms");
    assert_eq!(relay.noticed("notifications/progress"), 7);
    let start = Instant::now();
    let (kind, text) = relay.request("tools/call", sleep(60_000, 240)).failure();
    assert_eq!(kind, "timed_out");
    assert!(text.contains("hard maximum of 3 s") && text.contains("`max_call_secs`"), "{text}");
    assert!((3.0..4.5).contains(&start.elapsed().as_secs_f32()), "{:?}", start.elapsed());
    assert_eq!(relay.call("fix", "count", json!({})).structured()["initialize"], 1);
    relay.finish();
}

#[test]
fn late_and_double_answers_are_dropped() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("fix", &[], "call_timeout_secs = 1")]);
    assert_eq!(relay.call("fix", "late", json!({"ms": 100})).text(), "first answer");
    // The fixture does not sleep on after a cancel, so a stray answer is written by hand, for the call before it.
    let last = journal(&place, "fix.journal").0.pop().unwrap().0;
    let stray = format!("{{\"jsonrpc\":\"2.0\",\"id\":{last},\"result\":{{\"stray\":true}}}}\n");
    let unknown =
        "{\"jsonrpc\":\"2.0\",\"id\":999999,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}\n";
    let own = "{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[],\"own\":true}}";
    let file = place.write("lines", format!("{stray}{unknown}{own}\n{own}"));
    for _ in 0..3 {
        assert_eq!(relay.call("fix", "raw_line", json!({"file": file})).result()["own"], true);
    }
    relay.listen(Duration::from_millis(300));
    assert_eq!(relay.call("fix", "echo", json!({"n": 1})).structured(), json!({"n": 1}));
    assert_eq!(relay.call("fix", "string_id", json!({})).text(), "answered under a string id");
    relay.finish();
}

#[test]
fn one_at_a_time_is_one_at_a_time() {
    let place = Place::new();
    let mut relay =
        Relay::greeted_in(&place, "", &[place.journaled("serial", &[], "max_in_flight = 1"), source("other", &[], "")]);
    relay.call("serial", "echo", json!({}));
    relay.call("other", "echo", json!({}));
    let start = Instant::now();
    let ids: Vec<_> = (0..4).map(|_| relay.ask_call("serial", "sleep", json!({"ms": 200}))).collect();
    assert_eq!(relay.call("other", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert!(start.elapsed() < Duration::from_millis(200) + AT_ONCE / 4);
    let ends: Vec<_> = ids.iter().map(|id| relay.answer(id).at - start).collect();
    assert!(ends.is_sorted(), "{ends:?}");
    assert!(ends[3] >= Duration::from_millis(800), "{ends:?}");
    // One that is slow does not hold up a second one where there is room.
    let slow = relay.ask_call("other", "sleep", json!({"ms": 1500}));
    let start = Instant::now();
    relay.call("other", "echo", json!({}));
    assert!(start.elapsed() < Duration::from_millis(1000));
    relay.answer(&slow);
    relay.finish();
}

#[test]
fn a_call_that_waits_too_long_for_its_turn_is_not_sent() {
    let place = Place::new();
    let mut relay =
        Relay::greeted_in(&place, "", &[place.journaled("serial", &[], "max_in_flight = 1\ncall_timeout_secs = 2")]);
    relay.call("serial", "echo", json!({}));
    let params =
        json!({"name": "serial__sleep", "arguments": {"ms": 3500, "progress": 20}, "_meta": {"progressToken": 1}});
    let first = relay.ask("tools/call", params);
    let second = relay.ask_call("serial", "late", json!({"ms": 0}));
    let (kind, text) = relay.answer(&second).failure();
    assert_eq!(kind, "timed_out");
    assert!(text.contains("for its turn and was not sent") && text.contains("`max_in_flight`"), "{text}");
    assert_eq!(relay.answer(&first).text(), "slept 3500 ms");
    let (calls, cancelled) = journal(&place, "serial.journal");
    assert!(calls.iter().all(|(_, tool)| tool != "late") && cancelled.is_empty());
    relay.finish();
}

#[test]
fn a_cancelled_call_is_not_answered() {
    let place = Place::new();
    let sources = [place.journaled("serial", &[], "max_in_flight = 1"), place.journaled("wide", &[], "")];
    let mut relay = Trial::start_in(&place, "", &sources);
    relay.call("serial", "echo", json!({}));
    relay.call("wide", "echo", json!({}));
    // Waiting for its turn: the source never hears of it.
    let running = relay.ask_call("serial", "sleep", json!({"ms": 1000}));
    let queued = relay.ask_call("serial", "late", json!({"ms": 0}));
    relay.cancel(&queued);
    // Running, by the dispatcher and by name: the source is told, under its own id.
    let slow = json!({"name": "wide__sleep", "arguments": {"ms": 60_000}});
    let ids = [relay.ask_call("wide", "sleep", json!({"ms": 60_000})), relay.ask("tools/call", slow)];
    eventually("both run", || journal(&place, "wide.journal").0.len() == 3);
    for id in &ids {
        relay.cancel(id);
    }
    eventually("the source is told", || journal(&place, "wide.journal").1.len() == 2);
    let (calls, cancelled) = journal(&place, "wide.journal");
    assert_eq!(cancelled, calls[1..].iter().map(|(id, _)| id.clone()).collect::<Vec<_>>());
    assert_eq!(relay.answer(&running).text(), "slept 1000 ms");
    let (calls, cancelled) = journal(&place, "serial.journal");
    assert_eq!((calls.len(), cancelled.len()), (2, 0), "{calls:?}");
    // A cancel that comes too late, or for nothing, changes nothing.
    for id in [running.as_str(), "12345", "\"x\"", "null", "{}"] {
        relay.send(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}"
        ));
    }
    assert_eq!(relay.call("serial", "echo", json!({"n": 1})).structured(), json!({"n": 1}));
    relay.finish();
}

/// A client with two ways of writing JSON cancelled nothing.
#[test]
fn a_call_is_cancelled_however_its_id_is_escaped() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("fix", &[], "")]);
    for (at, (sent, cancelled)) in [(r#""A\u00e9""#, r#""\u0041é""#), (r#""a/b""#, r#""a\/b""#)].into_iter().enumerate()
    {
        let arguments = json!({"source": "fix", "tool": "sleep", "arguments": {"ms": 60_000}});
        relay.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{sent},"method":"tools/call","params":{{"name":"call_tool","arguments":{arguments}}}}}"#
        ));
        eventually("it runs", || journal(&place, "fix.journal").0.len() == at + 1);
        relay.cancel(cancelled);
        eventually("the source is told", || journal(&place, "fix.journal").1.len() == at + 1);
    }
    relay.finish();
}

#[test]
fn a_call_cancelled_before_its_source_is_up_is_not_sent() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("slow", &["--start-delay-ms", "1000"], "")]);
    // Listed first, so that the call waits at the source itself.
    relay.call_direct("enable_toolset", json!({"toolset": "slow"}));
    relay.call("slow", "die", json!({"code": 0}));
    let ids = [relay.ask_call("slow", "echo", json!({})), relay.ask_call("slow", "echo", json!({"second": true}))];
    relay.cancel(&ids[0]);
    assert_eq!(relay.answer(&ids[1]).structured(), json!({"second": true}));
    assert_eq!(journal(&place, "slow.journal").0.len(), 2);
    relay.finish();
}

/// Whoever asks for progress is told that the source is still starting, before it was ever listed and after.
#[test]
fn a_call_that_waits_for_a_start_says_so() {
    let mut relay = Relay::greeted("", &[source("slow", &["--start-delay-ms", "2300"], "")]);
    let asked = |token: &str| {
        json!({"name": "call_tool", "_meta": {"progressToken": token}, "arguments": {"source": "slow", "tool": "sleep",
            "arguments": {"ms": 50, "progress": 2}}})
    };
    for token in ["first", "second"] {
        let id = relay.ask("tools/call", asked(token));
        relay.answer(&id);
        let notices =
            relay.notices.iter().filter(|notice| notice.raw("params").is_some_and(|params| params.contains(token)));
        let progress: Vec<f64> = notices.map(|notice| notice.params()["progress"].as_f64().unwrap()).collect();
        assert!(progress.len() >= 4 && progress.is_sorted(), "{token}: {progress:?}");
        relay.call("slow", "die", json!({"code": 0}));
    }
    relay.finish();
}

#[test]
fn a_source_that_does_not_read_hurts_only_itself() {
    let mut relay = Relay::greeted("", &[source("stalled", &[], "call_timeout_secs = 2"), source("other", &[], "")]);
    relay.call("other", "echo", json!({}));
    relay.call("stalled", "stop_reading", json!({"ms": 6000}));
    let large = json!({"text": "x".repeat(1 << 20)});
    let ids: Vec<_> = (0..3).map(|_| relay.ask_call("stalled", "tool_error", large.clone())).collect();
    let cancelled = relay.ask_call("stalled", "echo", json!({}));
    relay.cancel(&cancelled);
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(relay.call("other", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    }
    assert!(start.elapsed() < AT_ONCE);
    for id in &ids {
        assert_eq!(relay.answer(id).failure().0, "timed_out");
    }
    assert!(start.elapsed() < Duration::from_secs(5));
    eventually("it reads again", || {
        let reply = relay.call("stalled", "echo", json!({"b": 2})).result();
        reply["structuredContent"] == json!({"b": 2})
    });
    assert_eq!(relay.call("stalled", "count", json!({})).structured()["initialize"], 1);
    relay.finish();
}

/// A source may ask the client; the relay declares no capability for that, and says so at once.
#[test]
fn questions_of_a_source_are_answered_by_the_relay() {
    let mut relay = Relay::greeted("", &[source("fix", &[], "")]);
    assert_eq!(relay.call("fix", "ping_me", json!({})).structured(), json!({"result": {}}));
    for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
        let answer = relay.call("fix", "ask", json!({"method": method})).structured();
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    relay.finish();
}

/// Models write an object as a string now and then. Through the dispatcher that was understood, by name the source got a string.
#[test]
fn arguments_in_a_string_are_understood() {
    let place = Place::new();
    let mut relay = Trial::start_in(&place, "", &[place.journaled("fix", &["--prompts", "p"], "")]);
    relay.await_status("fix", "ready");
    let ask = |relay: &mut Trial, method: &str, params: &str| {
        let id = relay.ask_raw(method, params);
        relay.answer(&id)
    };
    for (arguments, got) in [
        (r#""{\"a\":1}""#, json!({"a": 1})),
        (r#"" {\n\"a\":1} ""#, json!({"a": 1})),
        (r#""""#, json!({})),
        ("null", json!({})),
        (r#"{"a":"{}"}"#, json!({"a": "{}"})),
    ] {
        let reply = ask(&mut relay, "tools/call", &format!(r#"{{"name":"fix__echo","arguments":{arguments}}}"#));
        assert_eq!(reply.structured(), got, "{arguments}");
    }
    for arguments in ["[]", "5", r#""[]""#, r#""text""#] {
        for (method, name) in [("tools/call", "fix__echo"), ("prompts/get", "fix__p")] {
            let reply = ask(&mut relay, method, &format!(r#"{{"name":"{name}","arguments":{arguments}}}"#));
            assert_eq!(reply.error_code(), -32602, "{method} {arguments}: {}", reply.line);
        }
    }
    for (params, want) in [
        (r#"{"name":"fix__p","arguments":null}"#, json!({"name": "p"})),
        (r#"{"arguments":null,"name":"fix__p"}"#, json!({"name": "p"})),
        (r#"{"name":"fix__p","arguments":"{\"a\":\"1\"}"}"#, json!({"name": "p", "arguments": {"a": "1"}})),
        (r#"{"name":"fix__p","arguments":{"a":"1"}}"#, json!({"name": "p", "arguments": {"a": "1"}})),
    ] {
        ask(&mut relay, "prompts/get", params);
        let line = place.lines("fix.journal").into_iter().rfind(|line| line.contains("prompts/get")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["params"], want, "{params}");
    }
    relay.finish();
}

/// Only a string or a number asks for progress.
#[test]
fn what_is_no_token_asks_for_no_progress() {
    let mut relay = Trial::start(&[source("fix", &[], "")]);
    relay.await_status("fix", "ready");
    let mut wanted = 0;
    for (token, asks) in [(json!(null), false), (json!(true), false), (json!({"a": 1}), false), (json!("t"), true)] {
        let arguments = json!({"ms": 40, "progress": 2});
        let params = json!({"name": "fix__sleep", "arguments": arguments, "_meta": {"progressToken": token}});
        assert_eq!(relay.request("tools/call", params).text(), "slept 40 ms");
        wanted += if asks { 2 } else { 0 };
        assert_eq!(relay.noticed("notifications/progress"), wanted, "{token}");
    }
    relay.finish();
}
