//! Calls as gateways were reported to lose, repeat or cross them (handshake: class C14, cancelling and replay: C16, many at
//! once: C17, blinking sources: C13), one test an item, with the six standing assertions in each. Items held elsewhere:
//! `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/standing_http.rs"]
mod standing_http;
#[path = "support/http.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use standing_http::HttpTrial;
use support::{Client, Place, Relay, eventually, meta, source};

const CHANGED: &str = "notifications/tools/list_changed";
/// As the fixture's flag has them.
const ERAS: [&str; 2] = ["legacy", "modern"];

/// The messages that a source got, of one method.
fn got(place: &Place, id: &str, method: &str) -> Vec<Value> {
    let lines = place.lines(&format!("{id}.journal"));
    let messages = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.filter(|message| message["method"] == method).collect()
}

#[test]
fn c13_a04_what_blinks_stays_listed() {
    let mut trial = Trial::start(&[source("blinks", &["--tools", "extra"], "start = \"at-start\"")]);
    trial.await_status("blinks", "ready");
    eventually("it is listed", || trial.list().contains("blinks__extra"));
    trial.listen(Duration::from_millis(1200));
    let (list, told) = (trial.list(), trial.noticed(CHANGED));
    for _ in 0..3 {
        trial.call("blinks", "die", json!({"code": 1}));
        assert_eq!(trial.list(), list, "while it is away");
        trial.holds();
        trial.await_status("blinks", "ready");
        assert_eq!(trial.list(), list, "when it is back");
    }
    trial.listen(Duration::from_millis(1200));
    assert_eq!(trial.noticed(CHANGED), told);
    trial.finish();
}

/// Some sources offer nothing before they were told that the handshake is over.
#[test]
fn c14_a02_a_source_is_told_that_the_handshake_is_over_before_anything_else() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[place.journaled("strict", &[], "era = \"legacy\"")]);
    assert_eq!(trial.call("strict", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    let methods: Vec<String> = place
        .lines("strict.journal")
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["method"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(methods[..3], ["initialize", "notifications/initialized", "tools/list"], "{methods:?}");
    trial.finish();
}

#[test]
fn c16_a02_a_cancellation_reaches_the_source_in_every_era() {
    for era in ERAS {
        let place = Place::new();
        let mut trial = Trial::start_in(&place, "", &[place.journaled("fix", &["--era", era], "")]);
        trial.await_status("fix", "ready");
        let nap = json!({"ms": 30_000});
        let direct = json!({"name": "fix__sleep", "arguments": nap});
        let inner = json!({"name": "call_tool", "arguments": {"source": "fix", "tool": "sleep", "arguments": nap}});
        for (is_modern, mut call) in [(false, direct.clone()), (false, inner.clone()), (true, direct), (true, inner)] {
            if is_modern {
                call["_meta"] = meta();
            }
            let before = got(&place, "fix", "tools/call").len();
            let id = trial.ask("tools/call", call);
            eventually("it runs", || got(&place, "fix", "tools/call").len() == before + 1);
            trial.cancel(&id);
            let sent = got(&place, "fix", "tools/call").pop().unwrap()["id"].clone();
            eventually("the source is told", || {
                got(&place, "fix", "notifications/cancelled").iter().any(|told| told["params"]["requestId"] == sent)
            });
        }
        trial.finish();
    }
}

#[test]
fn c16_a03_progress_comes_under_the_clients_own_token_only() {
    let place = Place::new();
    let mut trial = HttpTrial::start_in(&place, "", &[place.journaled("fix", &[], "call_timeout_secs = 1")]);
    let run = |mut client: Client, token: Value| {
        std::thread::spawn(move || {
            let mut params = json!({"name": "fix__sleep", "arguments": {"ms": 2500, "progress": 9}});
            if !token.is_null() {
                params["_meta"] = json!({"progressToken": token});
            }
            let reply = client.request("tools/call", params);
            let progress = client.notices.iter().filter(|notice| notice["method"] == "notifications/progress");
            let tokens: Vec<Value> = progress.map(|notice| notice["params"]["progressToken"].clone()).collect();
            (reply, token, tokens)
        })
    };
    let clients = [
        run(trial.client(None), json!("t")),
        run(trial.greeted(None), json!(7)),
        run(trial.client(None), json!("t")),
        run(trial.greeted(None), Value::Null),
    ];
    trial.holds();
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
    trial.finish();
}

/// Whether it had an effect nobody knows, so it is for the client to decide.
#[test]
fn c16_a05_a_call_that_broke_off_is_not_made_again() {
    for era in ERAS {
        let place = Place::new();
        let mut trial = Trial::start_in(&place, "", &[place.journaled("frail", &["--faults", "--era", era], "")]);
        trial.await_status("frail", "ready");
        let calls = |tool: &str| {
            let called = got(&place, "frail", "tools/call");
            called.iter().filter(|call| call["params"]["name"] == *tool).count()
        };
        for round in 1..=2 {
            // `kill_self` is listed as one that writes, `sleep` as one that reads.
            let reads = trial.ask_call("frail", "sleep", json!({"ms": 60_000}));
            eventually("it runs", || calls("sleep") == round);
            let (kind, text) = trial.call("frail", "kill_self", json!({})).failure();
            assert_eq!(kind, "exited");
            assert!(text.contains("whether the call took effect is not known"), "{text}");
            assert_eq!(trial.answer(&reads).failure().0, "exited");
            eventually("it is back", || trial.call("frail", "echo", json!({})).result()["isError"] != true);
            assert_eq!((calls("sleep"), calls("kill_self")), (round, round), "{era}");
        }
        trial.finish();
    }
}

/// What a source says of a failure is no sign of a lost connection.
#[test]
fn c16_a06_an_ordinary_error_is_not_retried() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    trial.await_status("fix", "ready");
    let texts = ["connection refused", "timeout", "session not found", "ECONNRESET", "EPIPE", "please retry"];
    for text in texts {
        assert_eq!(trial.call("fix", "tool_error", json!({"text": text})).text(), text);
    }
    let codes = [-32000, -32001, -32600, -32601, -32603];
    for code in codes {
        let error = json!({"code": code, "message": "session not found"});
        assert_eq!(trial.call("fix", "fail", error.clone()).error(), error);
    }
    assert_eq!(place.journal_count("fix.journal", "tools/call"), texts.len() + codes.len());
    assert_eq!(place.journal_count("fix.journal", "initialize"), 1);
    trial.finish();
}

#[test]
fn c16_a07_nothing_is_sent_for_a_call_that_was_taken_back() {
    let cancelled = |id: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}")
    };
    let place = Place::new();
    let faulty = [place.journaled("deaf", &["--faults"], "")];
    let mut relay = Trial::ungreeted(&place, Trial::command(&place, "", &faulty));
    // The handshake cannot be taken back.
    let hello = relay.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    relay.send(&cancelled(&hello));
    assert_eq!(relay.answer(&hello).result()["protocolVersion"], "2025-11-25");
    relay.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut trial = Trial::of(relay, &faulty);
    trial.await_status("deaf", "ready");
    // Deaf to its cancellation, it answers all the same: that an answer comes would be a fault of the relay.
    let call = trial.ask_call("deaf", "busy", json!({"ms": 800}));
    eventually("it runs", || got(&place, "deaf", "tools/call").len() == 1);
    trial.cancel(&call);
    trial.holds();
    let done = trial.ask_call("deaf", "echo", json!({"n": 1}));
    assert_eq!(trial.answer(&done).structured(), json!({"n": 1}));
    // What was answered or never asked cannot be either, nor what is no id.
    for id in [done.as_str(), "4711", "\"x\"", "null", "{}"] {
        trial.send(&cancelled(id));
    }
    trial.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
    trial.listen(Duration::from_millis(500));
    assert_eq!(trial.call("deaf", "echo", json!({"n": 2})).structured(), json!({"n": 2}));
    assert_eq!(got(&place, "deaf", "notifications/cancelled").len(), 1);
    trial.finish();
}

/// A client that gives a call up may use its id again, before what the call waited for has come.
#[test]
fn c15_a03_an_id_that_is_used_again_gets_its_own_answer() {
    let place = Place::new();
    let sources = [source("late", &["--mute"], "start_timeout_secs = 2"), source("good", &[], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    relay.await_status("good", "ready");
    let ask = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": "same", "method": method, "params": params}).to_string()
    };
    let call = |source: &str, tool: &str, arguments: Value, meta: Value| {
        let inner = json!({"source": source, "tool": tool, "arguments": arguments});
        ask("tools/call", json!({"name": "call_tool", "arguments": inner, "_meta": meta}))
    };
    let taken_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"same"}}"#;
    // What waits for the first listing of a source that will not come up.
    for first in [
        call("late", "echo", json!({}), json!({"progressToken": "old"})),
        ask("resources/read", json!({"uri": "late:x"})),
    ] {
        relay.send(&first);
        relay.send(taken_back);
    }
    relay.send(&call("good", "sleep", json!({"ms": 4000}), json!({})));
    assert_eq!(relay.answer_to("\"same\"").text(), "slept 4000 ms");
    assert_eq!(relay.noticed("notifications/progress"), 0);
    relay.finish();
}

#[test]
fn c17_a01_a_slow_call_holds_up_nothing() {
    let mut trial = Trial::start(&[source("slow", &["--faults"], ""), source("stuck", &["--faults"], "")]);
    trial.await_status("slow", "ready");
    trial.await_status("stuck", "ready");
    let ids =
        [trial.ask_call("slow", "sleep", json!({"ms": 4000})), trial.ask_call("stuck", "busy", json!({"ms": 4000}))];
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < Duration::from_secs(3) {
        let before = Instant::now();
        assert_eq!(trial.call("slow", "echo", json!({"n": 1})).structured(), json!({"n": 1}));
        assert_eq!(trial.call("healthy", "echo", json!({"n": 1})).structured(), json!({"n": 1}));
        trial.call_direct("find_tools", json!({"query": "echo"}));
        times.push(before.elapsed());
        trial.holds();
        trial.listen(Duration::from_millis(50));
    }
    times.sort();
    assert!(times[times.len() / 2] < Duration::from_millis(200), "{times:?}");
    assert_eq!(trial.answer(&ids[0]).text(), "slept 4000 ms");
    assert_eq!(trial.answer(&ids[1]).text(), "was busy");
    trial.finish();
}

#[test]
fn c17_a02_many_first_calls_start_one_process() {
    for (era, hello) in [("legacy", "initialize"), ("modern", "server/discover")] {
        let place = Place::new();
        let lazy = place.journaled("lazy", &["--start-delay-ms", "2000", "--era", era], "");
        let mut trial = Trial::start_in(&place, "", &[lazy]);
        let ids: Vec<_> = (0..20).map(|n| trial.ask_call("lazy", "echo", json!({"n": n}))).collect();
        trial.holds();
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(trial.answer(id).structured(), json!({"n": n}));
        }
        assert_eq!(got(&place, "lazy", hello).len(), 1);
        trial.finish();
    }
}

/// A source that is really serial: everybody gets through, or is told what was waited for.
#[test]
fn c17_a03_many_calls_of_a_serial_source() {
    let place = Place::new();
    let settings = "max_in_flight = 1\ncall_timeout_secs = 3";
    let mut trial = Trial::start_in(&place, "", &[place.journaled("serial", &["--faults"], settings)]);
    trial.await_status("serial", "ready");
    let ids: Vec<_> = (0..12).map(|_| trial.ask_call("serial", "busy", json!({"ms": 500}))).collect();
    trial.holds();
    let (mut done, mut told) = (0, 0);
    for id in &ids {
        let reply = trial.answer(id);
        if reply.result()["isError"] == true {
            let (kind, text) = reply.failure();
            assert_eq!(kind, "timed_out");
            assert!(text.contains("for its turn and was not sent") && text.contains("`max_in_flight`"), "{text}");
            told += 1;
        } else {
            done += 1;
        }
    }
    assert!(done >= 4 && done + told == 12, "{done} done, {told} told");
    // What was told to be not sent was not sent.
    assert_eq!(place.journal_count("serial.journal", "tools/call"), done);
    trial.finish();
}
