//! What holds whatever fault goes on: a relay with a healthy source beside faulty ones, and the six standing assertions.
//!
//! 1. The healthy source, `list_sources`, `tools/list` and `ping` answer at once ([`Trial::holds`]).
//! 2. Each request is answered exactly once, in whole lines of JSON ([`Relay::finish`]).
//! 3. A faulty source stays listed, in a state that is known and with a reason where it is down ([`Trial::holds`]).
//! 4. No secret is told in an answer or in the log ([`Relay::forbidden`]).
//! 5. The relay ends in time, leaves no process, and holds no more descriptors and threads than its sources need.
//! 6. The tools of the healthy source are listed in the same bytes and the same order throughout ([`Trial::holds`]).

#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{AT_ONCE, Place, Relay};

/// The value of `STANDING_SECRET` in the relay's environment; the healthy source gets it, and nobody may tell it.
pub const SECRET: &str = "standing-secret-0b5e55ed";
/// What the fixture complains of with `--exit-at-once`.
const COMPLAINT: &str = "sk-live-abcdef1234567890";

/// Descriptors that one source may hold: three pipes, a process, and what a call adds for a while.
const DESCRIPTORS_EACH: usize = 8;
/// Threads may come and go with blocking work; not one for each source or call.
const THREADS_MORE: usize = 24;

/// A relay with faulty sources, looked at as a test goes on.
pub struct Trial {
    relay: Relay,
    faulty: Vec<String>,
    /// The bytes of each tool that no fault concerns, as they were at first.
    unaffected: Vec<String>,
    base: (usize, usize),
}

impl Trial {
    pub fn start(faulty: &[String]) -> Self {
        Self::start_in(&Place::new(), "", faulty)
    }

    /// In this folder; `settings` are further lines of `[relay]`.
    pub fn start_in(place: &Arc<Place>, settings: &str, faulty: &[String]) -> Self {
        Self::spawn(place, Self::command(place, settings, faulty), faulty)
    }

    /// The tables of the sources: the healthy one first.
    pub fn tables(place: &Place, faulty: &[String]) -> Vec<String> {
        let settings = "summary = \"Is well.\"\nenv = { SECRET = \"${STANDING_SECRET}\" }\nstart = \"at-start\"";
        let healthy = place.journaled("healthy", &[], settings);
        std::iter::once(healthy).chain(faulty.iter().cloned()).collect()
    }

    /// The lines of `[relay]`: everything is listed, unless the test wants another exposure.
    pub fn settings(more: &str) -> String {
        if more.contains("exposure") { more.to_owned() } else { format!("exposure = \"eager\"\n{more}") }
    }

    pub fn command(place: &Place, settings: &str, faulty: &[String]) -> Command {
        let mut command = place.command(&Self::settings(settings), &Self::tables(place, faulty));
        command.env("STANDING_SECRET", SECRET);
        command
    }

    /// The same with a command line, or an environment, that the test made.
    pub fn spawn(place: &Arc<Place>, command: Command, faulty: &[String]) -> Self {
        let mut relay = Relay::spawn(place, command);
        relay.forbidden = vec![SECRET.to_owned(), COMPLAINT.to_owned()];
        relay.greet();
        relay.await_status("healthy", "ready");
        let ids =
            faulty.iter().map(|table| table.split_once("[source.").unwrap().1.split_once(']').unwrap().0.to_owned());
        let (faulty, base) = (ids.collect(), possessions(&relay));
        let mut trial = Self { relay, faulty, unaffected: Vec::new(), base };
        trial.unaffected = trial.listed();
        assert!(trial.unaffected.len() > 15, "{}", trial.unaffected.len());
        trial.holds();
        trial
    }

    /// The sources are others from now on, as after an edit.
    pub fn faulty_are(&mut self, ids: &[&str]) {
        self.faulty = ids.iter().map(|&id| id.to_owned()).collect();
    }

    /// Assertions 1, 3 and 6, and what of 5 can be seen while it runs. To be called while the fault goes on.
    #[track_caller]
    pub fn holds(&mut self) {
        let echoed = at_once("a call of the healthy source", || self.relay.call("healthy", "echo", json!({"a": 1})));
        assert_eq!(echoed.structured(), json!({"a": 1}));
        at_once("ping", || self.relay.request("ping", json!({})));
        let sources = at_once("list_sources", || self.relay.call_direct("list_sources", json!({}))).structured();
        for id in &self.faulty {
            is_told(&sources, id);
        }
        let listed = at_once("tools/list", || self.listed());
        assert!(listed == self.unaffected, "the list of unaffected tools is another");
        let (descriptors, threads) = possessions(&self.relay);
        let (most, many) = (self.base.0 + DESCRIPTORS_EACH * (self.faulty.len() + 1), self.base.1 + THREADS_MORE);
        assert!(descriptors <= most, "{descriptors} descriptors, {} at first", self.base.0);
        assert!(threads <= many, "{threads} threads, {} at first", self.base.1);
    }

    /// All six at the end.
    #[track_caller]
    pub fn finish(mut self) {
        self.holds();
        self.relay.finish();
    }

    /// The tools of the healthy source, each as it was written. (The relay's own describe the sources, so they may change.)
    #[track_caller]
    fn listed(&mut self) -> Vec<String> {
        let list = self.relay.list();
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(&list).unwrap();
        let tools: Vec<&RawValue> = serde_json::from_str(members["tools"].get()).unwrap();
        let name =
            |tool: &RawValue| serde_json::from_str::<Value>(tool.get()).unwrap()["name"].as_str().unwrap().to_owned();
        let ours = tools.iter().filter(|tool| name(tool).starts_with("healthy__"));
        ours.map(|tool| tool.get().to_owned()).collect()
    }
}

impl Deref for Trial {
    type Target = Relay;

    fn deref(&self) -> &Relay {
        &self.relay
    }
}

impl DerefMut for Trial {
    fn deref_mut(&mut self) -> &mut Relay {
        &mut self.relay
    }
}

/// How often it is looked at whether something takes no time: a machine that is busy with other tests may hold up anything
/// once, but a fault of a source holds it up as long as it goes on.
const LOOKS: usize = 3;

/// What is asserted to take no time.
#[track_caller]
fn at_once<T>(what: &str, mut act: impl FnMut() -> T) -> T {
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        let done = act();
        times.push(start.elapsed());
        if start.elapsed() < AT_ONCE {
            return done;
        }
        assert!(times.len() < LOOKS, "{what} took {times:?}");
    }
}

/// A source that is listed truly: a known state, since when, and why where it is down.
#[track_caller]
fn is_told(sources: &Value, id: &str) {
    let mut lines = sources["sources"].as_array().unwrap().iter().filter(|line| line["id"] == id);
    let (Some(line), None) = (lines.next(), lines.next()) else { panic!("`{id}` is not there once: {sources}") };
    assert!(line["since"].is_string(), "{line}");
    let why = line["reason"].as_str().unwrap_or_default();
    match line["status"].as_str().unwrap() {
        "ready" | "starting" | "dormant" => {}
        "unreachable" | "misconfigured" | "disabled" | "needs_auth" => assert!(why.len() > 10, "{line}"),
        _ => panic!("an unknown state: {line}"),
    }
}

/// Descriptors and threads of the relay.
pub fn possessions(relay: &Relay) -> (usize, usize) {
    let count = |of: &str| std::fs::read_dir(format!("/proc/{}/{of}", relay.pid())).unwrap().count();
    (count("fd"), count("task"))
}

/// Resident kilobytes of the relay.
pub fn resident(relay: &Relay) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
