//! Processes as gateways were reported to mishandle them (slow starts: class C02, failing ones: C03, crashes: C04, leaks:
//! C05), one test an item, with the six standing assertions in each. Items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;
use standing::{Trial, possessions, resident};
use support::{AT_ONCE, PATIENCE, Place, Relay, command, eventually, fixture, source};
use web::Web;

const CHANGED: &str = "notifications/tools/list_changed";

/// A source that is a script of the shell, kept in the test's folder: `script` may change without a change of the source.
fn scripted(place: &Place, id: &str, script: &str, settings: &str) -> String {
    let path = place.write(&format!("{id}.sh"), script);
    command(id, "sh", &[&path], settings)
}

/// What a script does in the end: it becomes the fixture, with a journal `ID.journal`.
fn becomes(place: &Place, id: &str, flags: &str) -> String {
    format!("exec {} --name {id} --journal {} {flags}", fixture().display(), place.path(&format!("{id}.journal")))
}

#[test]
fn c02_a01_a_first_install_is_not_cut_by_the_limit_of_calls() {
    let place = Place::new();
    let (log, marker) = (place.path("launches"), place.path("installed"));
    let run = becomes(&place, "cold", "");
    let script = format!("echo x >> {log}; [ -e {marker} ] || {{ sleep 4; : > {marker}; }}; {run}");
    let cold = scripted(&place, "cold", &script, "call_timeout_secs = 1");
    let mut trial = Trial::start_in(&place, "", &[cold]);
    let first = trial.ask_call("cold", "echo", json!({"n": 1}));
    trial.holds();
    assert_eq!(trial.status("cold")["status"], "starting");
    // The call may give up; the start does not.
    let reply = trial.answer(&first).result();
    assert!(reply["isError"] == true || reply["structuredContent"] == json!({"n": 1}), "{reply}");
    trial.await_status("cold", "ready");
    assert_eq!(trial.call("cold", "echo", json!({"n": 2})).structured(), json!({"n": 2}));
    assert_eq!(place.lines("launches").len(), 1);
    assert!(trial.list().contains("cold__echo"));
    assert!(trial.noticed(CHANGED) >= 1);
    trial.finish();
}

#[test]
fn c02_a02_a_start_that_takes_too_long_names_the_setting_that_helps() {
    let place = Place::new();
    let script = format!("echo 'step 3 of 9' >&2; sleep 3; {}", becomes(&place, "built", ""));
    let built =
        |limit: u32| scripted(&place, "built", &script, &format!("start_timeout_secs = {limit}\nera = \"legacy\""));
    let mut trial = Trial::start_in(&place, "", &[built(1)]);
    let line = trial.await_status("built", "unreachable");
    for told in ["within 1 s", "`start_timeout_secs`", "step 3 of 9"] {
        assert!(line["reason"].as_str().unwrap().contains(told), "{told}: {line}");
    }
    trial.holds();
    place.config(&Trial::settings(""), &Trial::tables(&place, &[built(20)]));
    let start = Instant::now();
    eventually("the longer limit works", || {
        start.elapsed() > Duration::from_secs(1)
            && trial.call("built", "echo", json!({})).result()["structuredContent"] == json!({})
    });
    trial.finish();
}

#[test]
fn c02_a03_one_that_never_answers_delays_no_other() {
    let slow = (1..10).map(|n| source(&format!("s{n}"), &["--start-delay-ms", "1000"], "start = \"at-start\""));
    let mute = source("a0", &["--mute", "--ignore-eof"], "start = \"at-start\"");
    let faulty: Vec<_> = std::iter::once(mute).chain(slow).collect();
    let start = Instant::now();
    let mut trial = Trial::start(&faulty);
    for n in 1..10 {
        trial.await_status(&format!("s{n}"), "ready");
    }
    // One after another, behind the one that never answers, they would take its whole limit and nine seconds more.
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert_eq!(trial.status("a0")["status"], "starting");
    trial.finish();
}

#[test]
fn c02_a05_lists_do_not_wait_for_sources_that_cannot_be_reached() {
    // Takes connections and never says a word.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = |id: &str, url: &str| format!("[source.{id}]\nurl = \"{url}\"\nstart = \"at-start\"\n");
    let mut faulty: Vec<_> = (0..4).map(|n| source(&format!("good{n}"), &[], "start = \"at-start\"")).collect();
    faulty.push(url("deaf", &format!("http://{}/mcp", deaf.local_addr().unwrap())));
    faulty.push(url("refused", "http://127.0.0.1:9/mcp"));
    faulty.push(url("nowhere", "http://192.0.2.1/mcp"));
    faulty.push(source("mute", &["--mute"], "start = \"at-start\""));
    faulty.push(command("hanging", "sleep", &["600"], "start = \"at-start\""));
    let mut trial = Trial::start(&faulty);
    for n in 0..4 {
        trial.await_status(&format!("good{n}"), "ready");
    }
    trial.call_direct("find_tools", json!({"query": "echo"}));
    let mut times = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        trial.list();
        let found = trial.call_direct("find_tools", json!({"query": "echo"})).structured();
        assert!(!found["matches"].as_array().unwrap().is_empty());
        times.push(start.elapsed());
    }
    times.sort();
    assert!(times[10] < Duration::from_millis(300), "{times:?}");
    assert!(times[19] < AT_ONCE, "{times:?}");
    trial.finish();
}

#[test]
fn c02_a06_what_is_remembered_is_listed_before_anything_is_up() {
    let place = Place::new();
    let quick = becomes(&place, "slow", "--tools unmistakable");
    let slow = scripted(&place, "slow", &quick, "start = \"at-start\"");
    let mut trial = Trial::start_in(&place, "", std::slice::from_ref(&slow));
    trial.await_status("slow", "ready");
    assert!(trial.list().contains("slow__unmistakable"));
    trial.finish();
    place.write("slow.sh", format!("sleep 4; {quick}"));
    let mut trial = Trial::start_in(&place, "", std::slice::from_ref(&slow));
    assert!(trial.list().contains("slow__unmistakable"));
    assert_eq!(trial.status("slow")["status"], "starting");
    let called = trial.ask_call("slow", "unmistakable", json!({"a": 1}));
    trial.holds();
    assert_eq!(trial.answer(&called).structured(), json!({"a": 1}));
    assert_eq!(trial.noticed(CHANGED), 0, "what came up is what was remembered");
    trial.finish();
    // A client that goes while everything is still being found out.
    for _ in 0..3 {
        let mut relay = Relay::greeted_in(&place, "", std::slice::from_ref(&slow));
        relay.list();
        relay.finish();
    }
}

#[test]
fn c03_a01_a_bad_entry_costs_only_itself() {
    let place = Place::new();
    let plain = Web::start(web::legacy, |_, _| false);
    let error =
        place.write("error.json", r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32603,"message":"no licence"}}"#);
    let reply = |method: &str| format!("{method}={error}");
    let faulty = [
        source("good1", &[], ""),
        source("good2", &[], ""),
        command("absent", "toolrelay-no-such-program", &[], ""),
        command("exits", "sh", &["-c", "echo 'no such module' >&2; exit 1"], ""),
        "[source.refused]\nurl = \"http://127.0.0.1:9/mcp\"\n".to_owned(),
        format!("[source.tls]\nurl = \"https://127.0.0.1:{}/mcp\"\n", plain.port),
        source("greets", &["--reply", &reply("initialize")], ""),
        source("lists", &["--reply", &reply("tools/list")], ""),
    ];
    let mut trial = Trial::start_in(&place, "", &faulty);
    for (id, told) in [
        ("absent", "was not found"),
        ("exits", "no such module"),
        ("refused", "refused"),
        ("tls", "tls handshake"),
        ("greets", "no licence"),
        ("lists", "no licence"),
    ] {
        let line = trial.await_status(id, "unreachable");
        assert!(line["reason"].as_str().unwrap().contains(told), "{told}: {line}");
        let (kind, text) = trial.call(id, "echo", json!({})).failure();
        assert_eq!(kind, "unavailable", "{id}: {text}");
        assert!(text.contains(id), "{id}: {text}");
    }
    for id in ["good1", "good2"] {
        assert_eq!(trial.call(id, "echo", json!({"a": 2})).structured(), json!({"a": 2}));
    }
    trial.finish();
}

#[test]
fn c03_a03_what_was_down_at_the_start_is_tried_again_unasked() {
    let place = Place::new();
    let log = place.path("launches");
    let run = becomes(&place, "third", "--tools unmistakable");
    let script = format!("echo x >> {log}; [ $(wc -l < {log}) -gt 2 ] || {{ echo 'not yet' >&2; exit 1; }}; {run}");
    let third = scripted(&place, "third", &script, "start = \"at-start\"\nera = \"legacy\"");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let late = format!("[source.late]\nurl = \"http://127.0.0.1:{port}/mcp\"\nstart = \"at-start\"\n");
    let mut trial = Trial::start_in(&place, "", &[third, late]);
    let line = trial.await_status("late", "unreachable");
    assert!(line["reason"].as_str().unwrap().contains("it is tried again in"), "{line}");
    let _web = Web::start_at(port, web::legacy, |_, _| false);
    trial.await_status("third", "ready");
    trial.await_status("late", "ready");
    trial.await_notices("the change", |notices| !notices.is_empty());
    let list = trial.list();
    assert!(list.contains("third__unmistakable") && list.contains("late__echo"), "{list}");
    assert_eq!(place.lines("launches").len(), 3);
    trial.finish();
}

#[test]
fn c03_a04_a_call_tries_a_source_that_is_down() {
    let place = Place::new();
    let (log, broken) = (place.path("launches"), place.path("broken"));
    let script = format!(
        "echo x >> {log}; [ ! -e {broken} ] || {{ echo 'no disk' >&2; exit 1; }}; {}",
        becomes(&place, "b", "")
    );
    let mut trial = Trial::start_in(&place, "", &[scripted(&place, "b", &script, "era = \"legacy\"")]);
    trial.call("b", "echo", json!({}));
    place.write("broken", "");
    assert_eq!(trial.call("b", "die", json!({"code": 1})).failure().0, "exited");
    eventually("it has failed some times", || place.lines("launches").len() >= 4);
    let (kind, text) = trial.call("b", "echo", json!({})).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("no disk") && text.contains("tried again in"), "{text}");
    trial.holds();
    std::fs::remove_file(&broken).unwrap();
    let before = place.lines("launches").len();
    let start = Instant::now();
    loop {
        // Some may come while it is left in peace, and are told how long; the others share one launch.
        let ids: Vec<_> = (0..10).map(|n| trial.ask_call("b", "echo", json!({"n": n}))).collect();
        let good = ids.iter().filter(|id| trial.answer(id).result()["isError"] != true).count();
        if good == 10 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(7), "no call brought it back: {good}");
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(place.lines("launches").len(), before + 1);
    trial.finish();
}

#[test]
fn c04_a02_calls_on_a_source_that_dies_end_at_once() {
    for (how, arguments, told) in [
        ("kill_self", json!({}), "signal 9"),
        ("last_words", json!({"text": "out of memory", "code": 137}), "out of memory"),
        ("close", json!({"what": "stdout"}), "closed its output"),
    ] {
        let place = Place::new();
        let mut trial =
            Trial::start_in(&place, "", &[place.journaled("frail", &["--faults"], "call_timeout_secs = 300")]);
        trial.call("frail", "echo", json!({}));
        let mut ids: Vec<_> = (0..3).map(|_| trial.ask_call("frail", "sleep", json!({"ms": 60_000}))).collect();
        eventually("all run", || {
            place.lines("frail.journal").iter().filter(|line| line.contains("\"sleep\"")).count() == 3
        });
        let start = Instant::now();
        ids.push(trial.ask_call("frail", how, arguments));
        for id in &ids {
            let (kind, text) = trial.answer(id).failure();
            assert_eq!(kind, "exited", "{how}: {text}");
            for part in ["`frail`", told, "whether the call took effect is not known"] {
                assert!(text.contains(part), "{how}: {part}: {text}");
            }
        }
        assert!(start.elapsed() < AT_ONCE, "{how}: {:?}", start.elapsed());
        trial.holds();
        assert_eq!(trial.call("frail", "echo", json!({"back": 1})).structured(), json!({"back": 1}));
        let calls = place.journal_count("frail.journal", "tools/call");
        assert_eq!(calls, 6, "{how}: no call is repeated");
        trial.finish();
    }
}

/// A source that still writes but reads no more cannot be told of a call, and cannot get one.
#[test]
fn c04_a02_a_source_that_closes_its_input_is_replaced() {
    let mut trial = Trial::start(&[source("frail", &["--faults", "--ignore-eof"], "call_timeout_secs = 300")]);
    trial.call("frail", "echo", json!({}));
    let start = Instant::now();
    let closing = trial.ask_call("frail", "close", json!({"what": "stdin"}));
    eventually("a call comes through again", || {
        let reply = trial.call("frail", "echo", json!({"n": 1})).result();
        reply["structuredContent"] == json!({"n": 1})
    });
    let (kind, text) = trial.answer(&closing).failure();
    assert_eq!(kind, "exited");
    assert!(text.contains("closed its input"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    trial.finish();
}

#[test]
fn c04_a03_what_exits_at_once_takes_nothing_along() {
    let faulty = [
        command("yes", "true", &[], ""),
        command("no", "false", &[], ""),
        command("shut", "sh", &["-c", "exec 0<&-; sleep 0.05; exit 3"], ""),
        source("reads", &["--exit-after-ms", "5", "--faults"], ""),
    ];
    let mut trial = Trial::start(&faulty);
    for _ in 0..5 {
        let big = json!({"text": "x".repeat(300_000)});
        let ids: Vec<_> = ["yes", "no", "shut", "reads"]
            .into_iter()
            .map(|id| (id, trial.ask_call(id, "echo", big.clone())))
            .collect();
        for (id, asked) in ids {
            let reply = trial.answer(&asked).result();
            assert!(reply["isError"] == true || id == "reads", "{id}: {reply}");
        }
    }
    for (id, told) in [("yes", "code 0"), ("no", "code 1"), ("shut", "code 3")] {
        let line = trial.await_status(id, "unreachable");
        assert!(line["reason"].as_str().unwrap().contains(told), "{line}");
    }
    trial.finish();
}

#[test]
fn c04_a04_a_busy_source_is_left_to_its_work() {
    let place = Place::new();
    let settings = "call_timeout_secs = 30\nidle_stop_secs = 1";
    let mut trial = Trial::start_in(&place, "", &[place.journaled("single", &["--faults"], settings)]);
    trial.call("single", "echo", json!({}));
    let long = trial.ask_call("single", "busy", json!({"ms": 5000}));
    let behind = trial.ask_call("single", "echo", json!({"n": 1}));
    for _ in 0..4 {
        trial.holds();
        assert_eq!(trial.status("single")["status"], "ready");
        trial.listen(Duration::from_millis(900));
    }
    assert_eq!(trial.answer(&long).text(), "was busy");
    assert_eq!(trial.answer(&behind).structured(), json!({"n": 1}));
    assert_eq!(place.journal_count("single.journal", "initialize"), 1);
    assert!(place.journal_count("single.journal", "tools/list") <= 2, "no list is read to see whether it lives");
    trial.finish();
}

#[test]
fn c04_a05_a_source_without_ping_lives() {
    let place = Place::new();
    let error =
        place.write("no.json", r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32601,"message":"Method not found"}}"#);
    let faulty = [
        place.journaled("silent", &["--drop", "ping"], ""),
        place.journaled("refusing", &["--reply", &format!("ping={error}")], ""),
    ];
    let mut trial = Trial::start_in(&place, "", &faulty);
    for round in 0..3 {
        for id in ["silent", "refusing"] {
            assert_eq!(trial.call(id, "echo", json!({"n": round})).structured(), json!({"n": round}));
        }
        trial.listen(Duration::from_millis(1000));
    }
    for id in ["silent", "refusing"] {
        assert_eq!(trial.status(id)["status"], "ready");
        assert_eq!(place.journal_count(&format!("{id}.journal"), "initialize"), 1);
    }
    trial.finish();
}

#[test]
fn c04_a07_a_source_that_always_crashes_is_started_ever_more_rarely() {
    let place = Place::new();
    let log = place.path("launches");
    let script = format!("echo x >> {log}; {}", becomes(&place, "loop", "--exit-after-ms 50"));
    let settings = "start = \"at-start\"\nera = \"legacy\"";
    let mut trial = Trial::start_in(&place, "", &[scripted(&place, "loop", &script, settings)]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        trial.listen(Duration::from_millis(250));
        let alive = place.processes(trial.pid()).len();
        assert!(alive <= 3, "{alive} processes");
    }
    trial.holds();
    for _ in 0..20 {
        let reply = trial.call("loop", "echo", json!({})).result();
        assert!(reply["isError"] == true || reply["structuredContent"] == json!({}), "{reply}");
    }
    // At 0, 1, 3, 7 and 15 s by itself, and one or two that the calls bring about.
    let launches = place.lines("launches").len();
    assert!((2..=8).contains(&launches), "{launches} launches");
    let line = trial.await_status("loop", "unreachable");
    assert!(line["reason"].as_str().unwrap().contains("it is tried again in"), "{line}");
    trial.finish();
}

#[test]
fn c05_a05_answers_in_flight_at_the_end_of_input_are_written() {
    let mut trial = Trial::start(&[source("slow", &[], "")]);
    trial.call("slow", "echo", json!({}));
    trial.ended_by(|relay| {
        let ids: Vec<_> = (0..40).map(|_| relay.ask_call("slow", "sleep", json!({"ms": 200}))).collect();
        relay.close_stdin();
        for id in &ids {
            assert_eq!(relay.answer(id).text(), "slept 200 ms");
        }
    });
}

#[test]
fn c05_a07_nothing_leaks_over_five_hundred_restarts() {
    let mut trial = Trial::start(&[source("fix", &["--faults"], "")]);
    let cycle = |trial: &mut Trial, n: u32| {
        assert_eq!(trial.call("fix", "echo", json!({"n": n})).structured(), json!({"n": n}));
        assert_eq!(trial.call("fix", "farewell", json!({})).text(), "farewell");
        // What is answered is done: no call may be sent to a process that is about to go.
        trial.await_status("fix", "dormant");
    };
    (0..10).for_each(|n| cycle(&mut trial, n));
    let (base, memory) = (possessions(&trial), resident(&trial));
    (0..500).for_each(|n| cycle(&mut trial, n));
    let start = Instant::now();
    while possessions(&trial).0 > base.0 + 1 || possessions(&trial).1 > base.1 + 2 {
        assert!(start.elapsed() < PATIENCE, "{:?} after {base:?}", possessions(&trial));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(resident(&trial) < memory + 8_000, "{} kB after {memory}", resident(&trial));
    trial.finish();
}
