//! Cancellation, progress, limits, replay and concurrency as gateways were reported to break them (classes C16 and C17), one
//! test an item.
//!
//! C16-A02 (a connection that is dropped): `a_modern_client_that_goes_away_cancels` in `tests/http_modern.rs`. C16-A04 (a
//! limit that progress does not move): `a_call_without_a_sign_ends_at_its_limit` in `tests/calls.rs`. C17-A03 (waiting for
//! a turn): `one_at_a_time_is_one_at_a_time` and `a_call_that_waits_too_long_for_its_turn_is_not_sent` there.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;
#[path = "support/talk.rs"]
mod talk;

use serde_json::{Value, json};
use support::{Client, Front, Place, Relay, eventually};
use talk::{ERAS, Era, Talker};

const EAGER: &str = "exposure = \"eager\"";

/// The messages that a source got, of one method.
fn got(place: &Place, id: &str, method: &str) -> Vec<Value> {
    let lines = place.lines(&format!("{id}.journal"));
    let messages = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.filter(|message| message["method"] == method).collect()
}

#[test]
fn c16_a01_a_cancelled_call_that_waits_is_never_sent() {
    let place = Place::new();
    let sources = [place.journaled("one", &[], "max_in_flight = 1"), place.journaled("two", &[], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    let first = relay.ask_call("one", "sleep", json!({"ms": 1500}));
    let other = relay.ask_call("two", "sleep", json!({"ms": 1500}));
    eventually("both run", || ["one", "two"].iter().all(|id| got(&place, id, "tools/call").len() == 1));
    let second = relay.ask_call("one", "echo", json!({}));
    relay.cancel(&second);
    assert_eq!(relay.answer(&first).text(), "slept 1500 ms");
    assert_eq!(relay.answer(&other).text(), "slept 1500 ms");
    assert_eq!(relay.call("one", "echo", json!({"last": 1})).structured(), json!({"last": 1}));
    assert_eq!(got(&place, "one", "tools/call").len(), 2);
    for id in ["one", "two"] {
        assert_eq!(got(&place, id, "notifications/cancelled").len(), 0, "{id}");
    }
    relay.finish();
}

#[test]
fn c16_a02_cancellation_reaches_the_source_in_every_cell() {
    for source in ERAS {
        for client in ERAS {
            let place = Place::new();
            let relay = Relay::start_in(&place, EAGER, &[place.journaled("a", &["--era", source.word()], "")]);
            let mut talker = Talker::new(relay, client, json!({}));
            let nap = json!({"ms": 30_000});
            for call in [
                json!({"name": "a__sleep", "arguments": nap}),
                json!({"name": "call_tool", "arguments": {"source": "a", "tool": "sleep", "arguments": nap}}),
            ] {
                let before = got(&place, "a", "tools/call").len();
                let id = talker.ask("tools/call", call);
                eventually("it runs", || got(&place, "a", "tools/call").len() == before + 1);
                talker.relay.cancel(&id);
                let sent = got(&place, "a", "tools/call").pop().unwrap()["id"].clone();
                eventually("the source is told", || {
                    got(&place, "a", "notifications/cancelled").iter().any(|told| told["params"]["requestId"] == sent)
                });
            }
            talker.relay.finish();
        }
    }
}

#[test]
fn c16_a03_progress_comes_under_the_clients_own_token_only() {
    let place = Place::new();
    let front = Front::start_in(&place, EAGER, &[place.journaled("a", &[], "call_timeout_secs = 1")]);
    let run = |mut client: Client, token: Value| {
        std::thread::spawn(move || {
            let mut params = json!({"name": "a__sleep", "arguments": {"ms": 2500, "progress": 9}});
            if !token.is_null() {
                params["_meta"] = json!({"progressToken": token});
            }
            let reply = client.request("tools/call", params);
            let tokens: Vec<Value> =
                client.notices.iter().map(|notice| notice["params"]["progressToken"].clone()).collect();
            (reply, token, tokens)
        })
    };
    let clients = [
        run(front.client(None), json!("t")),
        run(front.greeted(None), json!(7)),
        run(front.client(None), json!("t")),
        run(front.greeted(None), Value::Null),
    ];
    for client in clients {
        let (reply, token, tokens) = client.join().unwrap();
        if token.is_null() {
            // Without progress nothing shows that it goes on.
            assert_eq!((reply.failure().0.as_str(), tokens.len()), ("timed_out", 0));
        } else {
            assert_eq!(reply.text(), "slept 2500 ms");
            assert_eq!(tokens, vec![token; 9]);
        }
    }
    front.finish();
}

#[test]
fn c16_a05_a_call_of_unknown_outcome_is_never_repeated() {
    for era in ERAS {
        let place = Place::new();
        let mut relay = Relay::greeted_in(&place, "", &[place.journaled("a", &["--era", era.word()], "")]);
        let (kind, text) = relay.call("a", "die", json!({"code": 3})).failure();
        assert!(kind == "exited" && text.contains("whether the call took effect is not known"), "{text}");
        assert_eq!(relay.call("a", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        let names: Vec<_> = got(&place, "a", "tools/call").iter().map(|call| call["params"]["name"].clone()).collect();
        assert_eq!(names, ["die", "echo"]);
        relay.finish();
    }
}

#[test]
fn c16_a06_errors_of_a_tool_are_no_failures_of_the_connection() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("a", &[], "")]);
    let texts = ["connection refused", "timeout", "session not found", "EPIPE"];
    for text in texts {
        let result = relay.call("a", "tool_error", json!({"text": text})).result();
        assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!(text)));
    }
    for code in [-32000, -32001, -32600, -32601, -32603] {
        let reply = relay.call("a", "fail", json!({"code": code, "message": "session not found"}));
        assert_eq!(reply.error_code(), code);
    }
    assert_eq!(got(&place, "a", "tools/call").len(), texts.len() + 5);
    assert_eq!(got(&place, "a", "initialize").len(), 1);
    relay.finish();
}

#[test]
fn c16_a07_what_is_cancelled_is_not_answered_and_nothing_else_is_touched() {
    let place = Place::new();
    let mut relay = Relay::start_in(&place, "", &[place.journaled("a", &[], "")]);
    // The handshake cannot be cancelled.
    let hello = relay.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    relay.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{hello}}}}}"#));
    assert_eq!(relay.answer(&hello).result()["protocolVersion"], "2025-11-25");
    relay.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let done = relay.ask_call("a", "echo", json!({"a": 1}));
    relay.answer(&done).result();
    // After the answer; of nobody's id; of the same number as another type; without an id.
    for id in [done.as_str(), "999", "\"1\"", "null", "{}"] {
        relay.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#));
    }
    relay.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
    // A source that answers all the same: `raw_line` has no ear for cancellation.
    let file = place.write("late.json", r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[]}}"#);
    let late = relay.ask_call("a", "raw_line", json!({"file": file, "chunk": 8, "pause_ms": 100}));
    eventually("it runs", || got(&place, "a", "tools/call").len() == 2);
    relay.cancel(&late);
    assert_eq!(relay.call("a", "echo", json!({"a": 2})).structured(), json!({"a": 2}));
    assert_eq!(got(&place, "a", "notifications/cancelled").len(), 1);
    relay.finish();
}

#[test]
fn c17_a01_a_slow_call_holds_nothing_up() {
    let place = Place::new();
    let sources = [place.journaled("a", &[], ""), place.journaled("b", &[], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    relay.call("b", "echo", json!({})).result();
    relay.call("a", "echo", json!({})).result();
    let slow = relay.ask_call("a", "sleep", json!({"ms": 4000}));
    eventually("it runs", || got(&place, "a", "tools/call").len() == 2);
    let mut others = vec![relay.ask_call("a", "echo", json!({})), relay.ask_call("b", "echo", json!({}))];
    for tool in ["list_sources", "find_tools"] {
        others.push(relay.ask("tools/call", json!({"name": tool, "arguments": {}})));
    }
    others.push(relay.ask("tools/list", json!({})));
    others.push(relay.ask("ping", json!({})));
    let last = others.iter().map(|id| relay.answer(id).at).max().unwrap();
    assert!(last < relay.answer(&slow).at);
    relay.finish();
}

#[test]
fn c17_a02_parallel_first_calls_start_one_process() {
    for era in ERAS {
        let place = Place::new();
        let source = place.journaled("a", &["--start-delay-ms", "1000", "--era", era.word()], "");
        let mut relay = Relay::greeted_in(&place, "", &[source]);
        let calls: Vec<_> = (0..20).map(|n| relay.ask_call("a", "echo", json!({"n": n}))).collect();
        for (n, id) in calls.iter().enumerate() {
            assert_eq!(relay.answer(id).structured(), json!({"n": n}));
        }
        let hellos = if era == Era::Legacy { "initialize" } else { "server/discover" };
        assert_eq!(got(&place, "a", hellos).len(), 1);
        relay.finish();
    }
}
