//! Sources that fail, dawdle, shout or change, beside one that is well: what the client sees of each.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use support::{AT_ONCE, Place, Relay, command, eventually, source};

const CHANGED: &str = "notifications/tools/list_changed";

/// A source that is well.
fn good() -> String {
    source("good", &[], "summary = \"Is well.\"")
}

/// What must work at once, whatever others are doing.
#[track_caller]
fn works_at_once(relay: &mut Relay) {
    let start = Instant::now();
    assert_eq!(relay.call("good", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert!(relay.list().contains("call_tool"));
    relay.request("ping", json!({}));
    relay.call_direct("list_sources", json!({}));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}

#[test]
fn bad_sources_are_explained_and_harm_no_other() {
    let sources = [
        good(),
        command("absent", "toolrelay-no-such-program", &[], ""),
        source("adrift", &[], "cwd = \"/nonexistent/folder\""),
        source("crashing", &["--exit-at-once", "3"], ""),
        command("framed", "sh", &["-c", "printf 'Content-Length: 2\\r\\n\\r\\n{}'; sleep 60"], ""),
        source("mute", &["--mute"], "start_timeout_secs = 1"),
        source("unset", &[], "env = { TOKEN = \"${TOOLRELAY_TEST_UNSET}\" }"),
        source("typo", &[], "comand = \"x\""),
        source("off", &[], "enabled = false"),
        command("stopping", "true", &[], ""),
        source("foreign", &["--version", "1999-01-01"], ""),
    ];
    let mut relay = Trial::start(&sources);
    works_at_once(&mut relay);
    for (id, status, told) in [
        ("absent", "unreachable", "`toolrelay-no-such-program` was not found"),
        ("adrift", "unreachable", "working directory `/nonexistent/folder` does not exist"),
        ("crashing", "unreachable", "exited with code 3; its last words on stderr: Error: API_TOKEN missing"),
        ("framed", "unreachable", "Content-Length"),
        ("mute", "unreachable", "`start_timeout_secs`"),
        ("unset", "misconfigured", "TOOLRELAY_TEST_UNSET"),
        ("typo", "misconfigured", "command"),
        ("off", "disabled", "enabled"),
        ("stopping", "unreachable", "exited with code 0"),
        ("foreign", "unreachable", "1999-01-01"),
    ] {
        let line = relay.await_status(id, status);
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.contains(told), "{id}: {reason}");
        let (kind, text) = relay.call(id, "echo", json!({})).failure();
        assert_eq!(kind, "unavailable", "{id}: {text}");
        assert!(text.contains(told) && text.contains(id), "{id}: {text}");
        if status != "disabled" {
            assert!(!reason.contains("sk-live") && !text.contains("sk-live"), "{text}");
        }
    }
    let absent = relay.call_direct("find_tools", json!({"query": "echo", "source": "crashing"})).structured();
    assert_eq!(absent["unavailable"][0]["status"], "unreachable");
    works_at_once(&mut relay);
    assert_eq!(relay.status("good")["status"], "ready");
    assert!(!relay.stderr().contains("sk-live"));
    relay.finish();
}

#[test]
fn a_noisy_source_is_understood() {
    let mut relay = Relay::greeted("", &[good(), source("noisy", &["--noisy"], "")]);
    for _ in 0..20 {
        assert_eq!(relay.call("noisy", "echo", json!({"a": "é"})).structured(), json!({"a": "é"}));
    }
    assert_eq!(relay.call("noisy", "stderr", json!({"bytes": 5_000_000})).text(), "written");
    works_at_once(&mut relay);
    assert!(relay.stderr().contains("is no message, skipped"));
    relay.finish();
}

#[test]
fn a_slow_start_holds_up_nobody_else() {
    let place = Place::new();
    let slow = place.journaled("slow", &["--start-delay-ms", "4000"], "start = \"at-start\"");
    let mut relay = Relay::greeted_in(&place, "", &[good(), slow]);
    works_at_once(&mut relay);
    assert_eq!(relay.status("slow")["status"], "starting");
    let waiting = relay.ask_call("slow", "echo", json!({"b": 2}));
    works_at_once(&mut relay);
    assert_eq!(relay.answer(&waiting).structured(), json!({"b": 2}));
    assert_eq!(place.journal_count("slow.journal", "initialize"), 1);
    relay.finish();
}

#[test]
fn many_first_calls_start_one_process() {
    let place = Place::new();
    let lazy = place.journaled("lazy", &["--start-delay-ms", "700"], "");
    let mut relay = Relay::greeted_in(&place, "", &[lazy]);
    let ids: Vec<_> = (0..20).map(|n| relay.ask_call("lazy", "echo", json!({"n": n}))).collect();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(relay.answer(id).structured(), json!({"n": n}));
    }
    assert_eq!(place.journal_count("lazy.journal", "initialize"), 1);
    assert_eq!(place.journal_count("lazy.journal", "notifications/initialized"), 1);
    relay.finish();
}

#[test]
fn a_source_that_dies_is_started_again() {
    let place = Place::new();
    let mut relay = Trial::start_in(&place, "", &[good(), place.journaled("frail", &["--tools", "extra"], "")]);
    let list = relay.call_direct("enable_toolset", json!({"toolset": "frail"}));
    assert!(list.structured()["tools"].to_string().contains("frail__extra"));
    let list = relay.list();
    let environment = |relay: &mut Relay| {
        let mut variables = relay.call("frail", "env", json!({})).result()["structuredContent"].clone();
        // Each launch is marked apart.
        variables.as_object_mut().unwrap().remove("TOOLRELAY_LAUNCH").unwrap();
        variables
    };
    let before = environment(&mut relay);
    for half in [false, true] {
        let bystander = relay.ask_call("frail", "sleep", json!({"ms": 60_000}));
        let (kind, text) = relay.call("frail", "die", json!({"code": 7, "half": half})).failure();
        assert_eq!(kind, "exited");
        for part in
            ["`frail`", "exited with code 7", "dying with 7 as asked", "whether the call took effect is not known"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(relay.answer(&bystander).failure().0, "exited");
        assert_ne!(relay.status("frail")["status"], "ready");
        // What was listed stays listed while it is away.
        assert_eq!(relay.list(), list);
        works_at_once(&mut relay);
        assert_eq!(relay.call("frail", "echo", json!({"back": half})).structured(), json!({"back": half}));
    }
    assert_eq!(environment(&mut relay), before);
    assert_eq!(place.journal_count("frail.journal", "initialize"), 3);
    let calls: Vec<_> = place.lines("frail.journal").into_iter().filter(|line| line.contains("\"die\"")).collect();
    assert_eq!(calls.len(), 2, "no call is repeated");
    relay.finish();
}

/// One that always fails is not launched once a call.
#[test]
fn a_failing_source_is_left_in_peace() {
    let place = Place::new();
    let log = place.path("launches");
    let failing = command("failing", "sh", &["-c", &format!("echo x >> {log}; exit 1")], "era = \"legacy\"");
    let mut relay = Relay::greeted_in(&place, "", &[good(), failing]);
    for _ in 0..30 {
        assert_eq!(relay.call("failing", "x", json!({})).failure().0, "unavailable");
    }
    works_at_once(&mut relay);
    assert!((1..=6).contains(&place.lines("launches").len()), "{}", place.lines("launches").len());
    relay.finish();
}

#[test]
fn an_idle_source_rests() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("rare", &[], "idle_stop_secs = 1")]);
    for starts in 1..=2 {
        assert_eq!(relay.call("rare", "echo", json!({})).structured(), json!({}));
        assert_eq!(relay.call("rare", "sleep", json!({"ms": 1500})).text(), "slept 1500 ms");
        relay.await_status("rare", "dormant");
        eventually("it is gone", || place.processes(relay.pid()).is_empty());
        assert_eq!(place.journal_count("rare.journal", "initialize"), starts);
        assert_eq!(relay.status("rare")["tools"], 18);
    }
    relay.finish();
}

#[test]
fn every_page_is_read_and_no_loop_is_followed() {
    let sources = [
        source("paged", &["--pages", "5", "--tools", "last"], ""),
        source("endless", &["--pages", "5", "--page-loop"], ""),
        source("odd", &["--bad-tools"], ""),
    ];
    let mut relay = Relay::greeted("", &sources);
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "paged"})).structured();
    assert_eq!(opened["tools"].as_array().unwrap().len(), 19);
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "endless"})).structured();
    assert_eq!(opened["tools"].as_array().unwrap().len(), 18);
    assert!(
        relay.await_status("endless", "ready")["reason"]
            .as_str()
            .is_some_and(|why| why.contains("the list does not end"))
    );
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "odd"})).structured();
    for (tool, arguments) in
        [("good_5", json!({"x": 1})), ("dotted.name.v2", json!({})), ("搜索_笔记", json!({"é": 2}))]
    {
        assert_eq!(relay.call("odd", tool, arguments.clone()).structured(), arguments, "{tool}");
    }
    let withheld: Vec<_> = opened["withheld"].as_array().unwrap().iter().map(|line| line["tool"].to_string()).collect();
    for tool in ["\"good_1\"", "\"\""] {
        assert!(withheld.iter().any(|found| found == tool), "{tool}: {withheld:?}");
    }
    // Each shown name is one that clients take, and leads back to its tool.
    let tools = opened["tools"].as_array().unwrap().clone();
    assert!(tools.len() > 23);
    for tool in &tools {
        let Some(name) = tool["name"].as_str() else { continue };
        assert!(
            name.len() <= 64 && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-'),
            "{name}"
        );
    }
    let long = tools.iter().find(|tool| tool["tool"].as_str().unwrap().starts_with("long_")).unwrap();
    assert_eq!(relay.call_direct(long["name"].as_str().unwrap(), json!({"l": 1})).structured(), json!({"l": 1}));
    relay.finish();
}

#[test]
fn a_changing_list_is_followed() {
    let place = Place::new();
    let changing = place.journaled("moody", &["--changing"], "summary = \"Changes.\"");
    let mut relay = Trial::start_in(&place, "exposure = \"eager\"", &[good(), changing]);
    assert!(!relay.list().contains("grown_"));
    for (tool, here) in [("grow", true), ("shrink", false)] {
        let told = relay.noticed(CHANGED);
        relay.call("moody", tool, json!({}));
        relay.await_notices("the change", |notices| notices.len() > told);
        assert_eq!(relay.list().contains("moody__grown_1"), here, "{tool}");
        relay.listen(Duration::from_millis(1500));
        assert_eq!(relay.noticed(CHANGED), told + 1);
    }
    // Unannounced, it is found when it is called, also straight after the list was read.
    let grown = relay.call("moody", "grow_silently", json!({})).structured();
    assert_eq!(grown["tool"], "grown_2");
    assert_eq!(relay.call("moody", "grown_2", json!({"c": 3})).structured(), json!({"c": 3}));
    relay.call("moody", "grow_silently", json!({}));
    assert_eq!(relay.call_direct("moody__grown_3", json!({"c": 4})).structured(), json!({"c": 4}));
    assert!(relay.list().contains("moody__grown_3"));
    let (kind, text) = relay.call("moody", "grown_4", json!({})).failure();
    assert_eq!(kind, "unknown_tool");
    assert!(text.contains("grown_3"), "{text}");
    relay.finish();
}

#[test]
fn a_source_gets_the_safe_minimum_and_what_it_is_given() {
    let place = Place::new();
    let settings = "inherit_env = [\"TEST_GIVEN\"]\nenv = { OWN = \"${TEST_SECRET}!\", EMPTY = \"\", PRICE = \"$$5\" }\ncwd = \"here\"";
    std::fs::create_dir(place.path("here")).unwrap();
    let all = source("all", &[], "inherit_env = true");
    let mut run = place.command("", &[source("some", &[], settings), all]);
    run.env("TEST_SECRET", "sesame-of-the-test").env("TEST_GIVEN", "given").env("LC_ALL", "C.UTF-8");
    let mut relay = Relay::spawn(&place, run);
    relay.greet();
    let found = relay.call("some", "env", json!({})).structured();
    let known = |name: &str| toolrelay::config::SAFE_ENV.iter().any(|(safe, _)| *safe == name);
    let mut beyond = found.as_object().unwrap().clone();
    beyond.retain(|name, _| !known(name));
    // By this the relay knows the source's processes, whatever they become.
    assert!(beyond.remove("TOOLRELAY_LAUNCH").is_some_and(|mark| mark.as_str().unwrap().len() >= 18));
    let want = json!({"EMPTY": "", "OWN": "sesame-of-the-test!", "PRICE": "$5", "TEST_GIVEN": "given", "TOOLRELAY_DEPTH": "1"});
    assert_eq!(Value::from(beyond), want);
    assert_eq!(found["LC_ALL"], "C.UTF-8");
    assert!(found["PATH"].is_string());
    let cwd = relay.call("some", "cwd", json!({})).structured();
    assert_eq!(cwd["cwd"], std::fs::canonicalize(place.path("here")).unwrap().to_str().unwrap());
    assert_eq!(relay.call("all", "env", json!({})).structured()["TEST_SECRET"], "sesame-of-the-test");
    assert!(!relay.stderr().contains("sesame"));
    relay.finish();
}
