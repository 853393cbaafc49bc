//! Sources of every era and revision: each is understood at once, and what was found out is not asked again.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use standing::Trial;
use support::{Place, Relay, command, eventually, fixture};
use web::{Seen, Web};

/// Calls the source in two runs of the relay. Gives its journal's counts of probes and of `initialize` after each.
#[track_caller]
fn check(era: &str, within: Duration, want: [(usize, usize); 2]) {
    let place = Place::new();
    for counts in want {
        let mut relay = Trial::start_in(&place, "", &[place.journaled("fix", &["--era", era], "")]);
        let start = Instant::now();
        assert_eq!(relay.call("fix", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{era}");
        assert!(start.elapsed() < within, "{era}: {:?}", start.elapsed());
        assert!(relay.call_direct("find_tools", json!({"query": "echo"})).structured()["total"].as_u64() > Some(0));
        let seen = ["server/discover", "initialize"].map(|method| place.journal_count("fix.journal", method));
        assert_eq!((seen[0], seen[1]), counts, "{era}");
        relay.finish();
    }
}

const PROMPT: Duration = Duration::from_secs(2);
/// The probe is left unanswered for 3 seconds before `initialize` is sent behind it.
const PROBED: Duration = Duration::from_secs(6);

#[test]
fn legacy() {
    check("legacy", PROMPT, [(1, 1), (1, 2)]);
}

#[test]
fn modern() {
    check("modern", PROMPT, [(1, 0), (2, 0)]);
}

#[test]
fn silent_before_initialize() {
    check("silent", PROBED, [(1, 1), (1, 2)]);
}

#[test]
fn mute_on_the_probe() {
    check("mute-probe", PROBED, [(1, 1), (1, 2)]);
}

#[test]
fn late_with_the_probe() {
    check("late-probe", PROBED, [(1, 1), (1, 2)]);
}

#[test]
fn gone_with_the_probe() {
    check("exit-on-probe", PROMPT, [(1, 1), (1, 2)]);
}

#[test]
fn an_empty_result_for_the_probe() {
    check("empty-result", PROMPT, [(1, 1), (1, 2)]);
}

/// A source that was legacy and is modern now is understood without a change of the configuration.
#[test]
fn an_era_that_was_found_out_may_change() {
    let place = Place::new();
    let binary = fixture();
    for era in ["legacy", "modern", "legacy"] {
        // The same command each time, so that what is remembered is about it.
        let script = format!("#!/bin/sh\nexec {} --era {era}\n", binary.display());
        let path = place.write("source.sh", script);
        let mut relay = Relay::greeted_in(&place, "", &[command("fix", "sh", &[&path], "")]);
        assert_eq!(relay.call("fix", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{era}");
        eventually("the era is told", || relay.stderr().contains(&format!("era=\"{era}\"")));
        relay.finish();
    }
}

/// A source in `sh` that is of one era only; it says which in an answer, and takes `initialize` as `refusal` has it.
fn of_one_era(era: &str, refusal: &str) -> String {
    let answer = |result: &str| format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{result}}}\\n' \"$id\"");
    let list =
        answer(r#"{"resultType":"complete","tools":[{"name":"era","inputSchema":{"type":"object"}}],"ttlMs":0}"#);
    let call = answer(&format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{era}"}}]}}"#));
    let greeting = match era {
        "legacy" => answer(r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}"#),
        _ => answer(r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#),
    };
    let refused = "printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"no\"}}\\n' \"$id\"";
    let (initialize, discover) =
        if era == "legacy" { (greeting.as_str(), refused) } else { (refusal, greeting.as_str()) };
    format!(
        "while read -r line; do id=${{line#*\\\"id\\\":}}; id=${{id%%,*}}; case $line in *'\"initialize\"'*) {initialize};; \
         *'\"server/discover\"'*) {discover};; *'\"tools/list\"'*) {list};; *'\"tools/call\"'*) {call};; esac; done"
    )
}

/// A source that was legacy and is modern only by now is understood in the same start, however it takes `initialize`; what
/// was found out is remembered.
#[test]
fn an_era_that_has_ended_is_found_out_by_any_failure() {
    let codes = [-32601, -32600, -32602, -32000];
    let refusals = codes.map(|code| {
        format!(
            "printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{{\"code\":{code},\"message\":\"no\"}}}}\\n' \"$id\""
        )
    });
    for refusal in refusals.iter().map(String::as_str).chain(["exit 1", ":"]) {
        let place = Place::new();
        let path = place.path("source.sh");
        let sources = [command("one", "sh", &[&path], "start_timeout_secs = 1")];
        for (era, within) in [("legacy", PROMPT), ("modern", PROBED), ("modern", PROMPT)] {
            place.write("source.sh", of_one_era(era, refusal));
            let mut relay = Trial::start_in(&place, "", &sources);
            let start = Instant::now();
            assert_eq!(relay.call("one", "era", json!({})).text(), era, "{refusal}");
            assert!(start.elapsed() < within, "{refusal}: {:?}", start.elapsed());
            relay.finish();
        }
    }
}

/// A script that holds a lock while it runs, as others do a port: `body` runs only for who has it. Each launch is logged.
fn locked(place: &Place, body: &str) -> String {
    let (lock, log) = (place.path("lock"), place.path("launches"));
    let locked = format!("mkdir {lock} || {{ echo 'the lock is held' >&2; exit 1; }}");
    place.write("source.sh", format!("echo x >> {log}; {locked}; {body}\nrmdir {lock}\n"))
}

/// The second launch of a start came while the first still ended, and died of what that held.
#[test]
fn a_start_without_the_probe_waits_for_the_end_of_the_first() {
    let place = Place::new();
    let run = format!("{{ printf '%s\\n' \"$line\"; cat; }} | {}", fixture().display());
    let path =
        locked(&place, &format!("read -r line; case $line in *server/discover*) exec >&-; sleep 2;; *) {run};; esac"));
    let mut relay = Relay::greeted_in(&place, "", &[command("fix", "sh", &[&path], "")]);
    assert_eq!(relay.call("fix", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(place.lines("launches").len(), 2);
    relay.finish();
}

/// The same after a first listing that failed.
#[test]
fn a_further_try_waits_for_the_end_of_the_last() {
    let place = Place::new();
    let refused = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32603,"message":"not yet"}}"#;
    let (refused, first) = (place.write("refused", format!("{refused}\n")), place.path("first"));
    let run = fixture().display().to_string();
    let body = format!("if mkdir {first}; then {run} --reply tools/list={refused}; sleep 2; else {run}; fi");
    let path = locked(&place, &body);
    let mut relay = Relay::greeted_in(&place, "", &[command("fix", "sh", &[&path], "start = \"at-start\"")]);
    let failed = relay.await_status("fix", "unreachable");
    assert!(failed["reason"].as_str().unwrap().contains("not yet"), "{failed}");
    assert_eq!(relay.call("fix", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(place.lines("launches").len(), 2);
    relay.finish();
}

/// The same over HTTP, where a refusal need not be a message.
#[test]
fn an_era_that_has_ended_over_http_is_found_out_by_any_failure() {
    let refusals: [fn(&Seen, &mut web::Out); 4] = [
        |seen, out| out.json(404, &[], &web::error(&seen.id(), -32601, "Method not found")),
        |seen, out| out.json(200, &[], &web::error(&seen.id(), -32000, "no")),
        |_, out| out.reply(400, &[], ""),
        |_, _| std::thread::sleep(Duration::from_secs(4)),
    ];
    for (number, how) in refusals.into_iter().enumerate() {
        let is_modern = Arc::new(AtomicBool::new(false));
        let era = is_modern.clone();
        let web = Web::start(web::legacy, move |seen, out| {
            let is_modern = era.load(Ordering::Relaxed);
            match seen.rpc().as_str() {
                _ if !is_modern => return false,
                "initialize" => how(seen, out),
                _ => web::modern(seen, out),
            }
            true
        });
        let (place, sources) = (Place::new(), [web.source("web", "start_timeout_secs = 1")]);
        for modern in [false, true] {
            is_modern.store(modern, Ordering::Relaxed);
            let mut relay = Trial::start_in(&place, "", &sources);
            assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{number}");
            eventually("the era is told", || relay.stderr().contains("era=\"modern\"") == modern);
            relay.finish();
        }
    }
}

#[test]
fn an_era_may_be_prescribed() {
    let place = Place::new();
    let sources = [
        place.journaled("old", &["--era", "exit-on-probe"], "era = \"legacy\""),
        place.journaled("new", &["--era", "modern"], "era = \"modern\""),
        place.journaled("wrong", &["--era", "modern"], "era = \"legacy\""),
        place.journaled("older", &["--era", "legacy"], "era = \"modern\""),
    ];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    for id in ["old", "new"] {
        assert_eq!(relay.call(id, "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    }
    let (kind, text) = relay.call("wrong", "echo", json!({})).failure();
    assert!(kind == "unavailable" && text.contains("refused `initialize`"), "{text}");
    assert!(
        text.contains("`era = \"legacy\"` is set for this source: remove it, or write `era = \"modern\"`"),
        "{text}"
    );
    let (kind, text) = relay.call("older", "echo", json!({})).failure();
    assert!(kind == "unavailable" && text.contains("refused `server/discover`"), "{text}");
    assert!(
        text.contains("`era = \"modern\"` is set for this source: remove it, or write `era = \"legacy\"`"),
        "{text}"
    );
    assert_eq!(place.journal_count("old.journal", "server/discover"), 0);
    assert_eq!(place.journal_count("new.journal", "initialize"), 0);
    assert_eq!(place.journal_count("wrong.journal", "server/discover"), 0);
    relay.finish();
}

#[test]
fn every_legacy_revision_is_understood() {
    let place = Place::new();
    let versions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let sources = versions.map(|version| place.journaled(&format!("v{version}"), &["--version", version], ""));
    let mut relay = Trial::start_in(&place, "", &sources);
    for version in versions {
        assert_eq!(
            relay.call(&format!("v{version}"), "echo", json!({"v": version})).structured(),
            json!({"v": version})
        );
        eventually("the revision is told", || relay.stderr().contains(&format!("version=\"{version}\"")));
    }
    relay.finish();
}
