//! Edits of a running relay's configuration, and what tests look at afterwards.

#![allow(dead_code, clippy::unwrap_used)]

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Place, Relay, eventually};

pub const RELOADED: &str = "configuration reloaded";
pub const KEPT: &str = "configuration cannot be used, the running one is kept";

/// How often the relay said something on stderr.
pub fn told(relay: &Relay, what: &str) -> usize {
    relay.stderr().matches(what).count()
}

/// Writes the configuration in place, and waits until it is in force.
#[track_caller]
pub fn edit(relay: &Relay, settings: &str, sources: &[String]) {
    let before = told(relay, RELOADED);
    relay.place.config(settings, sources);
    eventually("it is reloaded", || told(relay, RELOADED) > before);
}

/// The same at once, by a hangup.
#[track_caller]
pub fn edit_now(relay: &Relay, settings: &str, sources: &[String]) {
    let before = told(relay, RELOADED);
    relay.place.config(settings, sources);
    relay.signal(Signal::HUP);
    eventually("it is reloaded", || told(relay, RELOADED) > before);
}

/// A relay's command line with other arguments than usual.
pub fn serve(place: &Place, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolrelay"));
    command.args(["serve", "--log", "debug"]).args(args).env("TMPDIR", place.path("").trim_end_matches('/'));
    command.env_remove("TOOLRELAY_CONFIG").env_remove("TOOLRELAY_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The processes of the source that was started with `--name ID`.
pub fn pids(relay: &Relay, id: &str) -> Vec<u32> {
    let wanted = format!("--name\0{id}\0");
    let is_its = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&wanted)
    };
    relay.place.processes(relay.pid()).into_iter().filter(is_its).collect()
}

#[track_caller]
pub fn pid(relay: &Relay, id: &str) -> u32 {
    match pids(relay, id)[..] {
        [pid] => pid,
        ref other => panic!("{id}: {other:?}\n{}", relay.stderr()),
    }
}

/// The ids in `list_sources`.
pub fn ids(relay: &mut Relay) -> Vec<String> {
    let listed = relay.call_direct("list_sources", json!({})).structured();
    let sources = listed["sources"].as_array().unwrap().iter();
    sources.map(|source| source["id"].as_str().unwrap().to_owned()).collect()
}

/// Starts a call that takes as long as it is let, and waits until the source has it.
#[track_caller]
pub fn ask_slow(relay: &mut Relay, id: &str, ms: u64) -> String {
    let journal = format!("{id}.journal");
    let before = relay.place.journal_count(&journal, "tools/call");
    let asked = relay.ask_call(id, "sleep", json!({"ms": ms}));
    let place = relay.place.clone();
    eventually("the source has the call", || place.journal_count(&journal, "tools/call") > before);
    asked
}
