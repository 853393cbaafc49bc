//! How long a source may take to start: a first installation is let go on while it is at work, and nothing else is.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::{Place, Relay, command, eventually, fixture};

/// A source that runs `script` before it becomes the fixture.
fn after(id: &str, script: &str, settings: &str) -> String {
    let script = format!("{script}; exec \"$0\" --name {id}");
    command(id, "sh", &["-c", &script, fixture().to_str().unwrap()], &format!("start = \"at-start\"\n{settings}"))
}

/// Writes to stderr for so many fifths of a second, as a launcher does that downloads.
fn chatter(fifths: usize) -> String {
    format!("n=0; while [ $n -lt {fifths} ]; do n=$((n+1)); echo \"fetched package $n\" >&2; sleep 0.2; done")
}

#[test]
fn a_first_installation_goes_on_as_long_as_it_speaks() {
    let mut relay = Relay::greeted("", &[after("new", &chatter(40), "start_timeout_secs = 2")]);
    let asked = relay.ask_call("new", "echo", json!({"n": 1}));
    relay.await_status("new", "starting");
    let mut told = String::new();
    eventually("its work is told", || {
        let line = relay.status("new");
        assert_eq!(line["status"], "starting", "{line}");
        told = line["reason"].as_str().unwrap_or_default().to_owned();
        told.contains("fetched package")
    });
    assert!(told.starts_with("at work for ") && told.contains("installation"), "{told}");
    assert_eq!(relay.answer(&asked).structured(), json!({"n": 1}));
    assert_eq!(relay.await_status("new", "ready")["reason"], json!(null));
    relay.finish();
}

#[test]
fn work_without_a_word_counts_as_well() {
    let script = "end=$(($(date +%s) + 6)); while [ $(date +%s) -lt $end ]; do :; done";
    let mut relay = Relay::greeted("", &[after("built", script, "start_timeout_secs = 2")]);
    assert_eq!(relay.call("built", "echo", json!({"n": 1})).structured(), json!({"n": 1}));
    relay.finish();
}

/// Starts a source, and gives what is told when it is given up, and how long that took.
#[track_caller]
fn given_up(script: &str, settings: &str) -> (String, Duration) {
    let place = Place::new();
    let start = Instant::now();
    let mut relay = Relay::greeted_in(&place, "", &[after("late", script, settings)]);
    let line = relay.await_status("late", "unreachable");
    let took = start.elapsed();
    eventually("its processes are gone", || place.processes(relay.pid()).len() <= 1);
    relay.finish();
    (line["reason"].as_str().unwrap().to_owned(), took)
}

#[test]
fn silence_is_given_up_after_the_timeout() {
    let (reason, took) = given_up("echo 'now I wait' >&2; sleep 600", "start_timeout_secs = 2\nmax_start_secs = 600");
    for told in ["within 2 s of its last sign of work", "now I wait", "`start_timeout_secs`"] {
        assert!(reason.contains(told), "{told}: {reason}");
    }
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

#[test]
fn endless_talk_is_given_up_in_the_end() {
    let (reason, took) = given_up(&chatter(100_000), "start_timeout_secs = 2\nmax_start_secs = 4");
    for told in ["within 4 s, though it was at work", "fetched package", "`max_start_secs`"] {
        assert!(reason.contains(told), "{told}: {reason}");
    }
    assert!(took >= Duration::from_secs(4), "{took:?}");
}
