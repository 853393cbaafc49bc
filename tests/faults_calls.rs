//! Calls as gateways were reported to lose, repeat or cross them (handshake: class C14, cancelling and replay: C16, many at
//! once: C17, blinking sources: C13), one test an item, with the six standing assertions in each. Items held elsewhere:
//! `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use support::{Place, eventually, source};

const CHANGED: &str = "notifications/tools/list_changed";

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

/// Whether it had an effect nobody knows, so it is for the client to decide.
#[test]
fn c16_a05_a_call_that_broke_off_is_not_made_again() {
    let place = Place::new();
    let hints = ["{}", "{\"readOnlyHint\":true}", "{\"idempotentHint\":true}", "{\"destructiveHint\":true}"];
    let mut trial = Trial::start_in(&place, "", &[place.journaled("frail", &["--faults"], "")]);
    trial.await_status("frail", "ready");
    for (round, _) in hints.iter().enumerate() {
        // `kill_self` is listed as one that writes, `farewell`, `sleep` and `busy` as ones that read.
        let reads = trial.ask_call("frail", "sleep", json!({"ms": 60_000}));
        let calls = || place.lines("frail.journal").iter().filter(|line| line.contains("\"sleep\"")).count();
        eventually("it runs", || calls() == round + 1);
        let (kind, text) = trial.call("frail", "kill_self", json!({})).failure();
        assert_eq!(kind, "exited");
        assert!(text.contains("whether the call took effect is not known"), "{text}");
        assert_eq!(trial.answer(&reads).failure().0, "exited");
        eventually("it is back", || trial.call("frail", "echo", json!({})).result()["isError"] != true);
        assert_eq!(calls(), round + 1);
    }
    let kills = place.lines("frail.journal").iter().filter(|line| line.contains("\"kill_self\"")).count();
    assert_eq!(kills, hints.len());
    trial.finish();
}

/// What a source says of a failure is no sign of a lost connection.
#[test]
fn c16_a06_an_ordinary_error_is_not_retried() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    trial.await_status("fix", "ready");
    let texts = ["connection refused", "timeout", "session not found", "ECONNRESET", "please retry"];
    for text in texts {
        assert_eq!(trial.call("fix", "tool_error", json!({"text": text})).text(), text);
    }
    for code in [-32000, -32001, -32600, -32603] {
        let error = json!({"code": code, "message": "session not found"});
        assert_eq!(trial.call("fix", "fail", error.clone()).error(), error);
    }
    assert_eq!(place.journal_count("fix.journal", "tools/call"), texts.len() + 4);
    assert_eq!(place.journal_count("fix.journal", "initialize"), 1);
    trial.finish();
}

#[test]
fn c16_a07_nothing_is_sent_for_a_call_that_was_taken_back() {
    let mut trial = Trial::start(&[source("deaf", &["--faults"], "")]);
    trial.await_status("deaf", "ready");
    // Deaf to its cancellation, it answers all the same: that an answer comes would be a fault of the relay.
    let call = trial.ask_call("deaf", "busy", json!({"ms": 800}));
    trial.listen(Duration::from_millis(200));
    trial.cancel(&call);
    trial.holds();
    assert_eq!(trial.call("deaf", "echo", json!({"n": 1})).structured(), json!({"n": 1}));
    // What was answered, was never asked, or is the handshake cannot be taken back.
    for id in ["1", "4711", "\"x\""] {
        trial.send(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}"
        ));
    }
    trial.listen(Duration::from_millis(500));
    trial.finish();
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
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[place.journaled("lazy", &["--start-delay-ms", "3000"], "")]);
    let ids: Vec<_> = (0..20).map(|n| trial.ask_call("lazy", "echo", json!({"n": n}))).collect();
    trial.holds();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(trial.answer(id).structured(), json!({"n": n}));
    }
    assert_eq!(place.journal_count("lazy.journal", "initialize"), 1);
    trial.finish();
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
