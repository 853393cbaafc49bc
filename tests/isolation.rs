//! One source misbehaves, and another one is called all the while: each of its calls is answered rightly and in time, what
//! waits is bounded, and the relay takes no more memory than is stated and gives it back. How much slower the calls become
//! is measured by `cargo bench --bench relay -- isolation`; here the figures are printed and bounded generously.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "support/edits.rs"]
mod edits;
#[path = "support/relay.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{PATIENCE, Place, Relay, eventually, source};

/// How long a call of the healthy source may take, on a machine that is busy with other tests.
const BOUND: Duration = Duration::from_secs(8);
/// How long half of the calls may take at most while the other source floods.
const MEDIAN: Duration = Duration::from_millis(100);
const MIB: u64 = 1024 * 1024;
/// What the relay may still hold when the other source is gone: what was in use is scattered.
const KEPT: u64 = 40 * MIB;
/// What a flood is at least, to be one.
const FLOOD: u64 = 2 * MIB;

/// A field of the relay's `/proc/PID/status`, in bytes.
fn memory(relay: &Relay, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// A healthy source `good` and another one, `bad`.
struct Pair {
    relay: Relay,
    base: u64,
    called: u64,
}

impl Pair {
    /// `flags` and `settings` are those of the bad source; it is not started yet.
    fn start(place: &Arc<Place>, flags: &[&str], settings: &str) -> Self {
        let flags = [&["--name", "bad"], flags].concat();
        let sources = [place.journaled("good", &[], "start = \"at-start\""), source("bad", &flags, settings)];
        // What each line of a flood says is not to be kept by this test.
        let mut relay = Relay::spawn(place, place.command_logged("", &sources, "info"));
        relay.greet();
        let mut pair = Self { relay, base: 0, called: 0 };
        pair.calls("before", 50);
        pair.base = memory(&pair.relay, "VmRSS");
        pair
    }

    /// Calls the healthy source so often, one call after another.
    fn calls(&mut self, when: &str, count: usize) {
        let mut took: Vec<Duration> = (0..count).map(|_| self.one_call()).collect();
        took.sort_unstable();
        let (p50, p99, longest) = (took[count / 2], took[count * 99 / 100], took[count - 1]);
        eprintln!("{when}: p50 {p50:?}, p99 {p99:?}, longest {longest:?}");
        assert!(longest < BOUND && p50 < MEDIAN, "{when}: {p50:?}, {longest:?}");
    }

    fn one_call(&mut self) -> Duration {
        self.called += 1;
        let (n, start) = (self.called, Instant::now());
        let reply = self.relay.call("good", "echo", json!({"n": n}));
        assert_eq!(reply.structured(), json!({"n": n}));
        self.relay.notices.clear();
        start.elapsed()
    }

    /// What the bad source has written, to stdout, stderr and files.
    fn poured(&self) -> u64 {
        let written = |pid: &u32| {
            let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok()).unwrap_or(0)
        };
        edits::pids(&self.relay, "bad").iter().map(written).sum()
    }

    /// The bad source goes; nothing of what it did stays. The relay may never have taken more than `mib` more than before.
    fn end(mut self, mib: u64) {
        let peak = memory(&self.relay, "VmHWM");
        eprintln!("base {} MiB, peak {} MiB", self.base / MIB, peak / MIB);
        assert!(peak < self.base + mib * MIB, "base {}, peak {peak}", self.base);
        self.relay.place.config("", &[self.relay.place.journaled("good", &[], "start = \"at-start\"")]);
        self.relay.signal(rustix::process::Signal::HUP);
        let start = Instant::now();
        while !edits::pids(&self.relay, "bad").is_empty() {
            assert!(start.elapsed() < 3 * PATIENCE, "the bad source stays:\n{}", self.relay.stderr());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.calls("after", 50);
        let (relay, most) = (&self.relay, self.base + KEPT);
        eventually("the memory comes back", || memory(relay, "VmRSS") < most);
        self.relay.finish();
    }
}

/// A source that pours something out from the first call on.
fn flooded(kind: &str, mib: u64) {
    let mut pair = Pair::start(&Place::new(), &["--flood", kind], "");
    assert_eq!(pair.relay.call("bad", "flood", json!({})).text(), "here it comes");
    let before = pair.poured();
    pair.calls(kind, 200);
    eventually("it is a flood", || pair.poured() > before + FLOOD);
    pair.end(mib);
}

#[test]
fn a_flood_of_log_lines() {
    flooded("log", 48);
}

#[test]
fn a_flood_of_progress() {
    flooded("progress", 48);
}

#[test]
fn a_flood_of_garbage() {
    flooded("garbage", 48);
}

/// Two threads write pieces of lines, as programs do that log without a lock: answers are torn as well. Each call of such a
/// source still ends, and the relay does when it is asked to.
#[test]
fn a_flood_of_torn_lines() {
    let mut pair = Pair::start(&Place::new(), &["--flood", "halves"], "call_timeout_secs = 2");
    // As long as it is under way, what is left of the lines goes to the client.
    let mut asked = vec![pair.relay.ask_call("bad", "sleep", json!({"ms": 600_000}))];
    assert_eq!(pair.relay.call("bad", "flood", json!({})).text(), "here it comes");
    let before = pair.poured();
    let mut asked_more = 0;
    eventually("it is a flood", || {
        if asked_more < 20 {
            asked.push(pair.relay.ask_call("bad", "echo", json!({"n": asked_more})));
            asked_more += 1;
        }
        pair.calls("torn lines", 10);
        asked_more == 20 && pair.poured() > before + FLOOD
    });
    for id in &asked {
        let result = pair.relay.answer(id).result();
        let kind = &result["structuredContent"]["error"]["kind"];
        assert!(result["isError"] != true || kind == "timed_out" || kind == "unavailable", "{result}");
    }
    pair.relay.finish();
}

#[test]
fn a_flood_on_stderr() {
    flooded("stderr", 48);
}

/// It reads none of the answers for a while. They queued without bound.
#[test]
fn a_flood_of_requests_whose_answers_are_not_read() {
    let place = Place::new();
    let mut pair = Pair::start(&place, &["--flood", "pings"], "");
    let again = place.path("again");
    eventually("it is listed", || {
        pair.relay.call("bad", "count", json!({})).structured()["tools/list"].as_u64() >= Some(1)
    });
    assert_eq!(pair.relay.call("bad", "flood", json!({"read_on_with": again})).text(), "here it comes");
    let mut last = pair.poured();
    eventually("it is held up", || {
        pair.calls("pings", 20);
        std::mem::replace(&mut last, pair.poured()) == last && last > FLOOD / 2
    });
    // That is answered by a thread that does not read.
    let asked = pair.relay.ask_call("bad", "sleep", json!({"ms": 1}));
    pair.calls("held up", 100);
    assert_eq!(pair.poured(), last, "it is read on");
    assert!(last < 4 * FLOOD, "{last} bytes are taken");
    place.write("again", "");
    let result = pair.relay.answer(&asked).result();
    assert!(result["isError"] != true, "{result}");
    pair.end(48);
}

/// It was read at less than 3 MB a second, and a program that logs more waited with its answers.
#[test]
fn one_that_logs_much_is_at_work() {
    let mut pair = Pair::start(&Place::new(), &[], "call_timeout_secs = 15");
    let asked = pair.relay.ask_call("bad", "stderr", json!({"bytes": 100 * MIB}));
    pair.calls("much on stderr", 20);
    assert_eq!(pair.relay.answer(&asked).text(), "written");
    pair.end(48);
}

#[test]
fn a_storm_of_changes() {
    flooded("changed", 48);
}

/// The lines are its client's, as long as it has a call under way.
#[test]
fn a_flood_of_log_lines_that_goes_to_the_client() {
    let mut pair = Pair::start(&Place::new(), &["--flood", "log"], "");
    let open = pair.relay.ask_call("bad", "sleep", json!({"ms": 600_000}));
    assert_eq!(pair.relay.call("bad", "flood", json!({})).text(), "here it comes");
    let before = pair.poured();
    pair.calls("log lines to the client", 100);
    eventually("it is a flood", || {
        pair.one_call();
        pair.poured() > before + FLOOD
    });
    pair.relay.cancel(&open);
    pair.end(96);
}

#[test]
fn one_that_is_slow_has_a_bounded_queue() {
    let mut pair = Pair::start(&Place::new(), &[], "");
    let asked: Vec<String> = (0..1500).map(|_| pair.relay.ask_call("bad", "sleep", json!({"ms": 600_000}))).collect();
    // 64 are sent, 1024 wait, and the others are refused.
    for id in &asked[1088..] {
        let (kind, text) = pair.relay.answer(id).failure();
        assert_eq!(kind, "busy", "{text}");
    }
    pair.calls("slow", 200);
    // Those that wait are told when it goes.
    pair.end(48);
}

#[test]
fn one_that_is_mute() {
    let mut pair = Pair::start(&Place::new(), &["--mute"], "");
    (0..200).for_each(|n| drop(pair.relay.ask_call("bad", "echo", json!({"n": n}))));
    pair.calls("mute", 200);
    pair.end(48);
}

#[test]
fn one_that_stops_reading_has_a_bounded_queue() {
    let mut pair = Pair::start(&Place::new(), &[], "");
    pair.relay.call("bad", "stop_reading", json!({"ms": 600_000}));
    let text = "x".repeat(MIB as usize);
    let asked: Vec<String> = (0..80).map(|_| pair.relay.ask_call("bad", "echo", json!({"text": text}))).collect();
    // 64 MiB and what the pipe holds are taken.
    for id in &asked[70..] {
        assert_eq!(pair.relay.answer(id).failure().0, "busy");
    }
    pair.calls("stops reading", 200);
    // What waits is kept once, however many places know of it.
    pair.end(160);
}

#[test]
fn huge_results() {
    let mut pair = Pair::start(&Place::new(), &[], "");
    for mib in [16, 16, 16, 32] {
        let asked = pair.relay.ask_call("bad", "big", json!({"bytes": mib * MIB}));
        pair.calls("huge results", 20);
        assert!(pair.relay.answer_within(&asked, 6 * PATIENCE).line.len() as u64 > mib * MIB);
    }
    pair.end(400);
}

#[test]
fn a_huge_list() {
    let place = Place::new();
    let described = "Does what it says and nothing else. ".repeat(8);
    let tools: Vec<_> = (0..10_000)
        .map(|n| json!({"name": format!("t{n}"), "description": described, "inputSchema": {"type": "object"}}))
        .collect();
    let file = place.write("tools.json", json!(tools).to_string());
    let mut pair = Pair::start(&place, &["--tools-json", &file], "");
    let asked = pair.relay.ask_call("bad", "t9999", json!({"n": 1}));
    pair.calls("huge list", 100);
    assert_eq!(pair.relay.answer_within(&asked, 6 * PATIENCE).structured(), json!({"n": 1}));
    pair.end(160);
}

#[test]
fn one_that_crashes_again_and_again() {
    let mut pair = Pair::start(&Place::new(), &["--exit-after-ms", "20"], "");
    let mut asked = Vec::new();
    for _ in 0..10 {
        asked.push(pair.relay.ask_call("bad", "sleep", json!({"ms": 60_000})));
        pair.calls("crash loop", 20);
    }
    for id in &asked {
        let (kind, text) = pair.relay.answer(id).failure();
        assert!(["exited", "unavailable"].contains(&kind.as_str()), "{kind}: {text}");
    }
    pair.end(48);
}
