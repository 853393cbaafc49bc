//! What holds whatever fault goes on: a relay with a healthy source beside faulty ones, and the six standing assertions.
//!
//! 1. The healthy source, `list_sources`, `tools/list` and `ping` answer at once ([`Standing::holds`]).
//! 2. Each request is answered exactly once, in whole lines of JSON ([`Relay::see_out`]).
//! 3. A faulty source stays listed, in a state that is known and with a reason where it is down ([`Standing::holds`]).
//! 4. No secret is told in an answer or in the log ([`Relay::forbidden`]).
//! 5. The relay ends in time, leaves no process, and holds no more descriptors and threads than its sources need.
//! 6. The tools of the healthy source are listed in the same bytes and the same order throughout ([`Standing::holds`]).
//!
//! [`Trial`] is such a relay on stdio; one over HTTP is in `standing_http.rs`. `tests/faults_index.rs` counts the cases whose
//! tests are held to them.

#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{AT_ONCE, PATIENCE, Place, Relay, Reply, eventually};

/// The value of `STANDING_SECRET` in the relay's environment; the healthy source gets it, and nobody may tell it.
pub const SECRET: &str = "standing-secret-0b5e55ed";
/// What the fixture complains of with `--exit-at-once`.
pub const COMPLAINT: &str = "sk-live-abcdef1234567890";

/// Descriptors that one source may hold: three pipes, a process, and what a call adds for a while.
const DESCRIPTORS_EACH: usize = 8;
/// Threads may come and go with blocking work; not one for each source or call.
const THREADS_MORE: usize = 24;

/// Somebody who asks a relay: the client of a relay on stdio, or one of many over HTTP.
pub trait Asks {
    fn asks(&mut self, method: &str, params: Value) -> Reply;
}

impl Asks for Relay {
    #[track_caller]
    fn asks(&mut self, method: &str, params: Value) -> Reply {
        self.request(method, params)
    }
}

/// What is to stay as it is, whichever way the relay is asked.
pub struct Standing {
    pid: u32,
    faulty: Vec<String>,
    /// Whether the tools are in `tools/list`; where they are not, `find_tools` gives them.
    is_eager: bool,
    /// The bytes of each tool that no fault concerns, as they were at first.
    unaffected: Vec<String>,
    base: (usize, usize),
}

impl Standing {
    /// To begin with, the healthy source being ready.
    #[track_caller]
    pub fn begin(asker: &mut impl Asks, pid: u32, faulty: &[String]) -> Self {
        let base = possessions_of(pid);
        let mut standing = Self { pid, faulty: ids_in(faulty), is_eager: true, unaffected: Vec::new(), base };
        standing.unaffected = standing.listed(asker);
        if standing.unaffected.is_empty() {
            standing.is_eager = false;
            standing.unaffected = standing.listed(asker);
        }
        assert!(standing.unaffected.len() > 15, "{}", standing.unaffected.len());
        standing.holds(asker);
        standing
    }

    /// Assertions 1, 3 and 6.
    #[track_caller]
    pub fn holds(&self, asker: &mut impl Asks) {
        let echo = json!({"source": "healthy", "tool": "echo", "arguments": {"a": 1}});
        let echoed = at_once("a call of the healthy source", || call(asker, "call_tool", &echo));
        assert_eq!(echoed.structured(), json!({"a": 1}));
        at_once("ping", || asker.asks("ping", json!({}))).result();
        let sources = at_once("list_sources", || call(asker, "list_sources", &json!({}))).structured();
        for id in &self.faulty {
            is_told(&sources, id);
        }
        let listed = at_once("tools/list", || self.listed(asker));
        assert!(listed == self.unaffected, "the list of unaffected tools is another");
    }

    /// What of assertion 5 can be seen while it runs: descriptors and threads are no more than the sources need.
    #[track_caller]
    pub fn is_modest(&self) {
        let (descriptors, threads) = possessions_of(self.pid);
        let (most, many) = (self.most_descriptors(), self.base.1 + THREADS_MORE);
        assert!(descriptors <= most, "{descriptors} descriptors, {} at first", self.base.0);
        assert!(threads <= many, "{threads} threads, {} at first", self.base.1);
    }

    pub fn most_descriptors(&self) -> usize {
        self.base.0 + DESCRIPTORS_EACH * (self.faulty.len() + 1)
    }

    /// The tools of the healthy source, each as it was written. (The relay's own describe the sources, so they may change.)
    #[track_caller]
    fn listed(&self, asker: &mut impl Asks) -> Vec<String> {
        let list = asker.asks("tools/list", json!({}));
        if self.is_eager {
            return tools_in(list.raw("result").unwrap_or_else(|| panic!("{}", list.line)), "tools");
        }
        let found = call(asker, "find_tools", &json!({"source": "healthy", "detail": "full", "limit": 50}));
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(found.raw("result").unwrap()).unwrap();
        tools_in(members["structuredContent"].get(), "matches")
    }
}

/// The ids of the sources in these tables of a configuration.
fn ids_in(tables: &[String]) -> Vec<String> {
    let ids = tables.iter().filter_map(|table| table.split_once("[source.")?.1.split_once(']'));
    ids.map(|(id, _)| id.to_owned()).collect()
}

#[track_caller]
fn call(asker: &mut impl Asks, name: &str, arguments: &Value) -> Reply {
    asker.asks("tools/call", json!({"name": name, "arguments": arguments}))
}

/// Those of the healthy source in a list of tools.
fn tools_in(text: &str, member: &str) -> Vec<String> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap();
    let tools: Vec<&RawValue> = serde_json::from_str(members[member].get()).unwrap();
    let is_healthy = |tool: &&&RawValue| {
        let tool: Value = serde_json::from_str(tool.get()).unwrap();
        tool["source"] == "healthy" || tool["name"].as_str().is_some_and(|name| name.starts_with("healthy__"))
    };
    tools.iter().filter(is_healthy).map(|tool| tool.get().to_owned()).collect()
}

/// A relay on stdio with faulty sources, looked at as a test goes on. One that is not seen out by [`Trial::finish`] or
/// [`Trial::ended_by`] fails its test.
pub struct Trial {
    relay: Relay,
    standing: Standing,
    is_over: bool,
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
        Self::command_logged(place, settings, faulty, "debug")
    }

    /// The same, with another level of the log.
    pub fn command_logged(place: &Place, settings: &str, faulty: &[String], level: &str) -> Command {
        let mut command = place.command_logged(&Self::settings(settings), &Self::tables(place, faulty), level);
        command.env("STANDING_SECRET", SECRET);
        command
    }

    /// The same with a command line, or an environment, that the test made.
    pub fn spawn(place: &Arc<Place>, command: Command, faulty: &[String]) -> Self {
        let mut relay = Self::ungreeted(place, command);
        relay.greet();
        Self::of(relay, faulty)
    }

    /// A relay whose client has not said anything; what becomes of it is looked at from [`Trial::of`] on.
    pub fn ungreeted(place: &Arc<Place>, command: Command) -> Relay {
        let mut relay = Relay::spawn(place, command);
        relay.forbidden = vec![SECRET.to_owned(), COMPLAINT.to_owned()];
        relay
    }

    /// Of a relay whose client has shaken hands in its own way.
    pub fn of(mut relay: Relay, faulty: &[String]) -> Self {
        relay.await_status("healthy", "ready");
        let pid = relay.pid();
        let standing = Standing::begin(&mut relay, pid, faulty);
        Self { relay, standing, is_over: false }
    }

    /// The sources are others from now on, as after an edit.
    pub fn faulty_are(&mut self, ids: &[&str]) {
        self.standing.faulty = ids.iter().map(|&id| id.to_owned()).collect();
    }

    /// To be called while the fault goes on.
    #[track_caller]
    pub fn holds(&mut self) {
        self.standing.holds(&mut self.relay);
        self.standing.is_modest();
    }

    /// All six at the end.
    #[track_caller]
    pub fn finish(self) {
        self.ended_by(Relay::close_stdin);
    }

    /// The same where the relay is ended in another way, with code 0 all the same. Gives how long that took.
    #[track_caller]
    pub fn ended_by(mut self, end: impl FnOnce(&mut Relay)) -> Duration {
        self.is_over = true;
        self.holds();
        end(&mut self.relay);
        self.relay.see_out()
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        assert!(self.is_over || std::thread::panicking(), "a trial that was not seen out");
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

/// A relay that does not come to run: of the six there are left that its output is no message and tells no secret, that it
/// ends in time with a failure, and that it leaves no process. Gives what it said.
#[track_caller]
pub fn never_runs(place: &Place, mut command: Command) -> String {
    command.env("STANDING_SECRET", SECRET);
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = start.elapsed();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code().is_some_and(|code| code != 0), "{:?}: {said}", output.status);
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert!(!said.contains(SECRET) && !said.contains(COMPLAINT), "{said}");
    eventually("nothing is left", || place.processes(0).is_empty());
    said
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
    possessions_of(relay.pid())
}

pub fn possessions_of(pid: u32) -> (usize, usize) {
    let count = |of: &str| std::fs::read_dir(format!("/proc/{pid}/{of}")).unwrap().count();
    (count("fd"), count("task"))
}

/// Resident kilobytes of the relay.
pub fn resident(relay: &Relay) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
