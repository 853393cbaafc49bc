//! When sources start: with the relay where that is wanted, else with the first call; and tools that are called by name before
//! their sources were ever listed.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::time::Instant;

use serde_json::json;
use support::{AT_ONCE, Front, Place, Relay, command, eventually, fixture};

fn is_started(place: &Place, id: &str) -> bool {
    !place.lines(&format!("{id}.journal")).is_empty()
}

/// Nobody has said a word, and the source runs; the other, which nobody has listed either, does not.
#[test]
fn a_source_starts_with_the_relay() {
    let place = Place::new();
    let tables = [place.journaled("early", &[], "start = \"at-start\""), place.journaled("late", &[], "")];
    let mut relay = Relay::start_in(&place, "", &tables);
    eventually("the source is listed", || place.journal_count("early.journal", "tools/list") > 0);
    relay.greet();
    assert_eq!(relay.call("early", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
    // It is known now, and so is the other one; all the same.
    let known = place.lines("late.journal").len();
    let greeted = || place.journal_count("early.journal", "initialize");
    let before = greeted();
    let relay = Relay::start_in(&place, "", &tables);
    eventually("the source runs again", || greeted() > before);
    assert_eq!(place.lines("late.journal").len(), known);
    relay.finish();
    let before = greeted();
    let front = Front::start_in(&place, "", &tables);
    eventually("the source runs once more", || greeted() > before);
    assert_eq!(place.lines("late.journal").len(), known);
    front.finish();
}

/// One that comes with another configuration starts then, also when no client has said a word.
#[test]
fn a_source_that_is_added_starts_at_once() {
    let place = Place::new();
    let (early, late) = (place.journaled("early", &[], "start = \"at-start\""), place.journaled("late", &[], ""));
    let mut relay = Relay::start_in(&place, "", &[]);
    // To ask who is there is no use of it.
    relay.request("server/discover", json!({}));
    place.config("", &[early, late]);
    relay.signal(rustix::process::Signal::HUP);
    eventually("the source is started", || is_started(&place, "early"));
    assert!(!is_started(&place, "late"));
    relay.finish();
}

#[test]
fn a_slow_start_delays_no_handshake() {
    let slow = |id: &str| support::source(id, &["--start-delay-ms", "20000"], "start = \"at-start\"");
    let mut relay = Relay::start("", &[slow("a"), slow("b"), slow("c")]);
    let start = Instant::now();
    relay.greet();
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    relay.finish();
}

/// The command line starts what it needs.
#[test]
fn commands_start_nothing_by_themselves() {
    let place = Place::new();
    let config = place.config("", &[place.journaled("early", &[], "start = \"at-start\"")]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_toolrelay"));
    let told = command.args(["sources", "--config", &config]).output().unwrap();
    assert!(told.status.success());
    assert!(!is_started(&place, "early"));
}

/// A bare name tells nothing of its source: the first listing of the one that has such names is waited for.
#[test]
fn a_bare_name_waits_for_the_first_listing() {
    let place = Place::new();
    let bare = place.journaled("bare", &["--start-delay-ms", "1500", "--tools", "mine"], "prefix = \"\"");
    let named = place.journaled("named", &["--start-delay-ms", "60000"], "");
    let mut relay = Relay::greeted_in(&place, "", &[bare.clone(), named.clone()]);
    // What names its source is not waited for.
    assert_eq!(relay.call_direct("mine", json!({"a": 1})).structured(), json!({"a": 1}));
    let unknown = relay.call_direct("nobodys", json!({}));
    assert!(unknown.error_code() == -32602 && unknown.line.contains("there is no tool `nobodys`"), "{}", unknown.line);
    relay.finish();
    // One that cannot be listed says so, as it does to a name with a prefix.
    let mut relay = Relay::greeted("", &[support::source("broken", &["--exit-at-once", "3"], "prefix = \"\"")]);
    let (kind, text) = relay.call_direct("mine", json!({})).failure();
    assert!(kind == "unavailable" && text.contains("source `broken`"), "{kind}: {text}");
    relay.finish();
}

/// A name that a credential may not call starts nothing, whosever it is.
#[test]
fn a_bare_name_that_is_withheld_waits_for_nobody() {
    let place = Place::new();
    let token = "reader-0123456789abcdef";
    let credential = format!("[credential.reader]\ntoken = {token:?}\ndeny = [\"bare/mine\"]\n");
    let bare = place.journaled("bare", &["--start-delay-ms", "60000", "--tools", "mine"], "prefix = \"\"");
    let front = Front::start_in(&place, "", &[bare, credential]);
    let start = Instant::now();
    assert_eq!(front.client(Some(token)).call_direct("mine", json!({})).error_code(), -32602);
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    front.finish();
}

/// The tools of one project were shown in another, where its entry says the same in other words or in another folder.
#[test]
fn what_is_remembered_is_of_this_project() {
    let place = Place::new();
    let folders = ["one", "two"].map(|name| place.path(name));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let script = format!("test \"$1 $PWD\" = 'a {}' && exec {} --tools own\nexit 1\n", folders[0], fixture().display());
    let script = place.write("source.sh", script);
    let source = [command("fix", "sh", &[&script, "${TF}"], "")];
    let relay = |value: &str, folder: &str| {
        let mut command = place.command("exposure = \"eager\"", &source);
        command.env("TF", value).current_dir(folder);
        let mut relay = Relay::spawn(&place, command);
        relay.greet();
        relay
    };
    let mut first = relay("a", &folders[0]);
    eventually("the source is listed", || first.names().iter().any(|name| name == "fix__own"));
    first.finish();
    for (value, folder, known) in [("a", &folders[0], true), ("b", &folders[0], false), ("a", &folders[1], false)] {
        let mut relay = relay(value, folder);
        assert_eq!(relay.names().iter().any(|name| name == "fix__own"), known, "{value} {folder}");
        relay.finish();
    }
}
