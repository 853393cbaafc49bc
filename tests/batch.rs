//! Batches: calls made together, each with its own outcome; how they are seen after, cancelled and forgotten.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{AT_ONCE, Place, Relay, eventually, source};

const META_ONLY: &str = "exposure = \"meta-only\"";
const CANCELLED: &str = "notifications/cancelled";

/// One call of a batch.
fn call(source: &str, tool: &str, arguments: Value) -> Value {
    json!({"source": source, "tool": tool, "arguments": arguments})
}

/// So many calls that outlast every test.
fn sleepers(count: usize) -> Vec<Value> {
    (0..count).map(|_| call("fix", "sleep", json!({"ms": 600_000}))).collect()
}

#[track_caller]
fn batch(relay: &mut Relay, arguments: Value) -> Value {
    relay.call_direct("batch_call", arguments).structured()
}

#[track_caller]
fn status(relay: &mut Relay, arguments: Value) -> Value {
    relay.call_direct("batch_status", arguments).structured()
}

/// The statuses of a batch's calls, in their order.
fn statuses(batch: &Value) -> Vec<&str> {
    let results = batch["results"].as_array().unwrap();
    for (at, line) in results.iter().enumerate() {
        assert_eq!(line["index"], at, "{batch}");
    }
    results.iter().map(|line| line["status"].as_str().unwrap()).collect()
}

/// The calls that the source `fix` has got.
fn calls(place: &Place) -> usize {
    place.journal_count("fix.journal", "tools/call")
}

#[test]
fn failures_stay_where_they_are() {
    let sources = [
        source("fix", &[], "deny = [\"big\"]\ntool.sleep = { call_timeout_secs = 1 }"),
        source("other", &["--tools", "write"], ""),
        source("mortal", &[], ""),
    ];
    let mut relay = Relay::greeted(META_ONLY, &sources);
    let done = batch(
        &mut relay,
        json!({"calls": [
            call("fix", "echo", json!({"n": 0})),
            call("fix", "eecho", json!({})),
            call("fix", "sleep", json!({"ms": 600_000})),
            call("fix", "tool_error", json!({"text": "no disk"})),
            call("fix", "fail", json!({"code": -32050, "message": "own error", "data": {"x": 1}})),
            call("fix", "fail", json!({"code": -32602, "message": "`path` is missing"})),
            call("mortal", "die", json!({"code": 3})),
            call("fix", "big", json!({"bytes": 1})),
            call("nowhere", "echo", json!({})),
            {"source": "fix"},
            "no object",
            {"tool": "other/write", "arguments": "{\"as\": \"text\"}"},
            call("other", "sleep", json!({"ms": 300})),
        ]}),
    );
    assert_eq!((&done["status"], &done["done"], &done["total"]), (&json!("done"), &json!(13), &json!(13)), "{done}");
    let failed = "failed";
    let expected =
        ["done", failed, failed, failed, failed, failed, failed, failed, failed, failed, failed, "done", "done"];
    assert_eq!(statuses(&done), expected, "{done}");
    let line = |at: usize| &done["results"][at];
    let kinds: Vec<_> = (0..13).filter_map(|at| line(at)["error"]["kind"].as_str()).collect();
    let want = [
        "unknown_tool",
        "timed_out",
        "source_error",
        "invalid_arguments",
        "exited",
        "withheld",
        "unknown_source",
        "invalid_arguments",
        "invalid_arguments",
    ];
    assert_eq!(kinds, want, "{done}");
    // What a source says itself stays its own: a result that is an error, a JSON-RPC error with its data.
    assert_eq!(line(3)["result"], json!({"content": [{"type": "text", "text": "no disk"}], "isError": true}));
    assert_eq!(line(4)["error"]["sourceError"], json!({"code": -32050, "message": "own error", "data": {"x": 1}}));
    assert_eq!(line(5)["error"]["inputSchema"]["required"], json!(["code", "message"]));
    assert_eq!(line(1)["error"]["similar"][0], "echo");
    assert_eq!(line(10)["error"]["message"], "this call cannot be read: it is no JSON object");
    assert_eq!(line(0)["result"]["structuredContent"], json!({"n": 0}));
    assert_eq!(line(11)["result"]["structuredContent"], json!({"as": "text"}));
    // Each has its own time.
    let took = |at: usize| line(at)["tookMs"].as_u64().unwrap();
    assert!((900..20_000).contains(&took(2)) && took(12) >= 300, "{done}");
    assert!((0..13).all(|at| line(at)["tookMs"].is_u64()), "{done}");
    assert!(done.get("next").is_none());
    relay.finish();
}

#[test]
fn no_more_run_at_once_than_asked_for() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, META_ONLY, &[place.journaled("fix", &[], "")]);
    let begun = batch(&mut relay, json!({"calls": sleepers(7), "max_parallel": 3, "wait_ms": 0}));
    let id = begun["batch"].clone();
    assert_eq!((&begun["status"], &begun["done"]), (&json!("running"), &json!(0)));
    assert!(begun["next"].as_str().unwrap().contains(id.as_str().unwrap()));
    eventually("three run", || calls(&place) == 3);
    let seen = status(&mut relay, json!({"batch": id}));
    assert_eq!(statuses(&seen), ["running", "running", "running", "waiting", "waiting", "waiting", "waiting"]);
    // Cancelled: those that run are taken back from the source, the others never get there.
    let ended = status(&mut relay, json!({"batch": id, "cancel": true}));
    assert_eq!((&ended["status"], &ended["done"]), (&json!("cancelled"), &json!(7)));
    assert_eq!(statuses(&ended), ["cancelled"; 7]);
    eventually("the source was told", || place.journal_count("fix.journal", CANCELLED) == 3);
    assert_eq!(relay.call("fix", "echo", json!({"still": "there"})).structured(), json!({"still": "there"}));
    assert_eq!(calls(&place), 4);
    relay.finish();
}

#[test]
fn a_source_gets_no_more_than_it_may_have_in_flight() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, META_ONLY, &[place.journaled("fix", &[], "max_in_flight = 2")]);
    let naps: Vec<_> = (0..6).map(|_| call("fix", "sleep", json!({"ms": 200}))).collect();
    let start = Instant::now();
    let done = batch(&mut relay, json!({"calls": naps, "max_parallel": 64}));
    assert_eq!(statuses(&done), ["done"; 6], "{done}");
    assert!(start.elapsed() >= Duration::from_millis(600), "{:?}", start.elapsed());
    let begun = batch(&mut relay, json!({"calls": sleepers(5), "wait_ms": 0}));
    eventually("two run", || calls(&place) == 6 + 2);
    status(&mut relay, json!({"batch": begun["batch"], "cancel": true}));
    eventually("they were taken back", || place.journal_count("fix.journal", CANCELLED) == 2);
    relay.call("fix", "echo", json!({}));
    assert_eq!(calls(&place), 6 + 2 + 1, "what never ran was never sent");
    relay.finish();
}

#[test]
fn what_is_done_is_told_early_and_the_rest_later() {
    let mut relay = Relay::greeted(META_ONLY, &[source("fix", &[], ""), source("other", &["--tools", "write"], "")]);
    relay.call("other", "write", json!({}));
    relay.call("fix", "echo", json!({}));
    let start = Instant::now();
    let slow = [call("fix", "sleep", json!({"ms": 3_000})), call("other", "write", json!({"n": 1}))];
    let early = batch(&mut relay, json!({"calls": slow, "wait_ms": 1_000}));
    assert!(start.elapsed() < Duration::from_millis(2_500), "{:?}", start.elapsed());
    assert_eq!((&early["status"], &early["done"], &early["total"]), (&json!("running"), &json!(1), &json!(2)));
    assert_eq!(statuses(&early), ["running", "done"]);
    assert_eq!(early["results"][1]["result"]["structuredContent"], json!({"n": 1}));
    let late = status(&mut relay, json!({"batch": early["batch"], "wait_ms": 60_000}));
    assert_eq!((&late["status"], statuses(&late)), (&json!("done"), vec!["done", "done"]));
    assert_eq!(late["results"][0]["result"]["content"][0]["text"], "slept 3000 ms");
    assert_eq!(late["results"][1], early["results"][1]);
    // Asked again it says the same; cancelled when it is over, it stays what it was.
    assert_eq!(status(&mut relay, json!({"batch": early["batch"]})), late);
    assert_eq!(status(&mut relay, json!({"batch": early["batch"], "cancel": true})), late);
    let nothing = batch(&mut relay, json!({"calls": []}));
    assert_eq!((&nothing["status"], &nothing["total"]), (&json!("done"), &json!(0)));
    relay.finish();
}

/// Its client never learnt the batch's id, so nobody could have cancelled it later.
#[test]
fn a_request_for_a_batch_that_is_cancelled_cancels_the_batch() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, META_ONLY, &[place.journaled("fix", &[], "")]);
    let arguments = json!({"calls": sleepers(5), "max_parallel": 2, "wait_ms": 60_000});
    let id = relay.ask("tools/call", json!({"name": "batch_call", "arguments": arguments}));
    eventually("two run", || calls(&place) == 2);
    relay.cancel(&id);
    eventually("they were taken back", || place.journal_count("fix.journal", CANCELLED) == 2);
    assert_eq!(relay.call("fix", "echo", json!({})).structured(), json!({}));
    assert_eq!(calls(&place), 3, "the others were never sent");
    relay.finish();
}

#[test]
fn a_batch_outlives_the_request_that_was_answered() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, META_ONLY, &[place.journaled("fix", &[], "")]);
    let naps: Vec<_> = (0..3).map(|_| call("fix", "sleep", json!({"ms": 400}))).collect();
    let arguments = json!({"calls": naps, "max_parallel": 1, "wait_ms": 0});
    let id = relay.ask("tools/call", json!({"name": "batch_call", "arguments": arguments}));
    let begun = relay.answer(&id).structured();
    relay.cancel(&id);
    let done = status(&mut relay, json!({"batch": begun["batch"], "wait_ms": 60_000}));
    assert_eq!(statuses(&done), ["done"; 3], "{done}");
    assert_eq!(place.journal_count("fix.journal", CANCELLED), 0);
    // One that still runs when the client goes does not hold the relay up, and leaves nothing behind.
    batch(&mut relay, json!({"calls": sleepers(2), "wait_ms": 0}));
    relay.finish();
}

/// A source that never answered held every place until its calls timed out, and the calls of the others waited.
#[test]
fn a_slow_source_starves_no_other() {
    for (most, running) in [(1, 1), (64, 4)] {
        let place = Place::new();
        let fix = place.journaled("fix", &[], &format!("max_in_flight = {most}"));
        let mut relay = Relay::greeted_in(&place, META_ONLY, &[fix, source("fast", &["--tools", "x"], "")]);
        let mut asked = sleepers(12);
        asked.extend((0..6).map(|_| call("fast", "x", json!({}))));
        let begun = batch(&mut relay, json!({"calls": asked, "max_parallel": 4, "wait_ms": 0}));
        let id = begun["batch"].clone();
        eventually("the fast ones are done", || status(&mut relay, json!({"batch": id}))["done"] == 6);
        eventually("the slow ones run", || calls(&place) == running);
        let seen = status(&mut relay, json!({"batch": id}));
        let slow = &statuses(&seen)[..12];
        assert!(slow[..running].iter().all(|status| *status == "running"), "{seen}");
        assert!(slow[running..].iter().all(|status| *status == "waiting"), "{seen}");
        assert_eq!(statuses(&seen)[12..], ["done"; 6]);
        let ended = status(&mut relay, json!({"batch": id, "cancel": true}));
        assert_eq!(statuses(&ended)[..12], ["cancelled"; 12]);
        relay.finish();
    }
}

#[test]
fn what_a_batch_is_no_more_is_told() {
    let mut relay = Relay::greeted(META_ONLY, &[source("fix", &["--tools", "x"], "")]);
    let (kind, text) = relay.call_direct("batch_status", json!({"batch": "0123"})).failure();
    assert!(kind == "invalid_arguments" && text.contains("`0123`") && text.contains("an hour"), "{text}");
    assert_eq!(relay.call_direct("batch_status", json!({})).failure().0, "invalid_arguments");
    assert_eq!(relay.call_direct("batch_call", json!({"calls": 7})).failure().0, "invalid_arguments");
    // The oldest finished one makes room for the hundred and first; the newest are all there.
    let one = || json!({"calls": [call("fix", "x", json!({}))]});
    let ids: Vec<_> = (0..101).map(|_| batch(&mut relay, one())["batch"].clone()).collect();
    assert_eq!(relay.call_direct("batch_status", json!({"batch": ids[0]})).failure().0, "invalid_arguments");
    for id in [&ids[1], &ids[100]] {
        assert_eq!(status(&mut relay, json!({"batch": id}))["status"], "done");
    }
    relay.finish();
}

#[test]
fn two_hundred_calls_and_not_one_more() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, META_ONLY, &[place.journaled("fix", &[], "")]);
    let many = |count: usize| -> Vec<_> { (0..count).map(|n| call("fix", "echo", json!({"n": n}))).collect() };
    let (kind, text) = relay.call_direct("batch_call", json!({"calls": many(201)})).failure();
    assert!(kind == "invalid_arguments" && text.contains("201") && text.contains("at most 200"), "{text}");
    assert_eq!(calls(&place), 0);
    let done = batch(&mut relay, json!({"calls": many(200), "max_parallel": 64}));
    assert_eq!((&done["done"], calls(&place)), (&json!(200), 200));
    for (at, line) in done["results"].as_array().unwrap().iter().enumerate() {
        assert_eq!(line["result"]["structuredContent"], json!({"n": at}));
    }
    relay.finish();
}

/// Results are the sources' own, so their bytes are too: blocks of every kind, unknown members, odd numbers and blanks.
#[test]
fn results_keep_their_bytes() {
    let place = Place::new();
    let results = [
        r#"{"content":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png","annotations":{"priority":1.0}}]}"#,
        r#"{ "content" : [ {"mimeType":"audio\/wav","type":"audio","data":"UklGRg=="} ], "x-big": 12345678901234567890123 }"#,
        r#"{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"AA==","x":1e400}},{"type":"resource_link","uri":"u:\u00e9","name":"n"}],"_meta":{"own":true}}"#,
        r#"{"content":[{"type":"hologram","beams":[-0.0,1E5]}],"structuredContent":{"a":1,"a":2},"isError":false}"#,
    ];
    let asked: Vec<_> = results
        .iter()
        .enumerate()
        .map(|(n, text)| call("fix", "raw", json!({"result_file": place.write(&format!("{n}.json"), text)})))
        .collect();
    let mut relay = Relay::greeted_in(&place, META_ONLY, &[source("fix", &[], "")]);
    let start = Instant::now();
    let reply = relay.call_direct("batch_call", json!({"calls": asked}));
    assert!(start.elapsed() < AT_ONCE * 5, "{:?}", start.elapsed());
    for text in results {
        assert!(reply.line.contains(&format!("\"result\":{text}")), "{text}\n{}", reply.line);
    }
    relay.finish();
}

/// Everything was kept, however much it was, and told again with every question.
#[test]
fn results_that_are_too_large_to_keep_fail_alone() {
    const BYTES: usize = 9 << 20;
    let mut relay = Relay::greeted_in(&Place::new(), META_ONLY, &[source("fix", &[], "")]);
    let big = || call("fix", "big", json!({"bytes": BYTES}));
    let asked = json!({"calls": [big(), big(), call("fix", "echo", json!({"n": 1}))], "max_parallel": 1});
    let done = batch(&mut relay, asked);
    assert_eq!((&done["status"], statuses(&done)), (&json!("done"), vec!["done", "failed", "done"]));
    assert!(done["results"][0]["result"]["content"][0]["text"].as_str().unwrap().len() >= BYTES);
    let error = &done["results"][1]["error"];
    let (message, hint) = (error["message"].as_str().unwrap(), error["hint"].as_str().unwrap());
    assert!(error["kind"] == "unavailable" && message.contains("too large to be kept"), "{error}");
    assert!(hint.contains("by itself"), "{error}");
    assert_eq!(done["results"][2]["result"]["structuredContent"], json!({"n": 1}));
    relay.finish();
}
