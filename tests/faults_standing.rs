//! That the standing assertions can fail: each of the six is broken once, and the trial says so.

#![allow(clippy::unwrap_used)]

#[path = "support/edits.rs"]
mod edits;
#[path = "support/standing.rs"]
mod standing;
#[path = "support/standing_http.rs"]
mod standing_http;
#[path = "support/http.rs"]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use standing::Trial;
use standing_http::HttpTrial;
use support::{Connection, Place, eventually, source};

/// Sees that `act` fails, and of what.
#[track_caller]
fn fails(told: &str, act: impl FnOnce()) {
    let failure = catch_unwind(AssertUnwindSafe(act)).expect_err("it did not fail");
    let text = failure.downcast_ref::<String>().map(String::as_str).or(failure.downcast_ref::<&str>().copied());
    assert!(text.unwrap().contains(told), "{text:?}");
}

fn fix() -> [String; 1] {
    [source("fix", &[], "")]
}

#[test]
fn a_healthy_source_that_is_held_up_is_noticed() {
    let mut trial = Trial::start(&fix());
    let healthy = edits::pid(&trial, "healthy");
    kill_process(Pid::from_raw(healthy.cast_signed()).unwrap(), Signal::STOP).unwrap();
    fails("no answer to", || trial.holds());
    kill_process(Pid::from_raw(healthy.cast_signed()).unwrap(), Signal::CONT).unwrap();
    trial.finish();
}

#[test]
fn a_request_without_an_answer_and_an_answer_without_a_request_are_noticed() {
    let mut trial = Trial::start(&fix());
    trial.new_id();
    fails("never answered", || trial.finish());
    let mut trial = Trial::start(&fix());
    fails("an answer nobody waits for", || {
        trial.send(r#"{"jsonrpc":"2.0","id":"mine","method":"ping"}"#);
        trial.finish();
    });
}

#[test]
fn a_source_that_is_not_listed_is_noticed() {
    let mut trial = Trial::start(&fix());
    trial.faulty_are(&["fix", "nobody"]);
    fails("`nobody` is not there once", || trial.finish());
}

#[test]
fn a_secret_that_is_told_is_noticed() {
    let mut trial = Trial::start(&fix());
    fails("was told", || drop(trial.call("healthy", "env", json!({}))));
    fails("never answered", || trial.finish());
    let trial = HttpTrial::start(&fix());
    for mut client in [trial.client(None), trial.greeted(None)] {
        fails("was told", || drop(client.call("healthy", "env", json!({}))));
    }
    trial.finish();
}

#[test]
fn what_is_left_behind_or_held_is_noticed() {
    let place = Place::new();
    let trial = Trial::start_in(&place, "", &fix());
    let mut sleeper = Command::new("sleep");
    sleeper.arg("600").env("TMPDIR", place.path("").trim_end_matches('/')).stdin(Stdio::null());
    let mut left = sleeper.spawn().unwrap();
    fails("left behind", || trial.finish());
    let _ = left.kill();
    left.wait().unwrap();
    let trial = HttpTrial::start(&fix());
    let held: Vec<Connection> = (0..60).map(|_| trial.connect()).collect();
    fails("the descriptors are given back", || trial.finish());
    drop(held);
}

#[test]
fn another_list_of_unaffected_tools_is_noticed() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &fix());
    let mut tables = Trial::tables(&place, &fix());
    tables[0] += "deny = [\"count\"]\n";
    place.config(&Trial::settings(""), &tables);
    eventually("it is reloaded", || trial.stderr().contains("configuration reloaded"));
    fails("another", || trial.holds());
    fails("another", || trial.finish());
}
