//! Many calls over twenty sources that misbehave at random, through one relay on stdio and one over HTTP: every call is
//! answered once, and rightly or with a true error; at the end nothing is held that was not held before. The short run is
//! part of the tests; `make soak` is the long one, with the release build.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Client, Front, Place, Relay, Reply, source};

/// Calls in all; `SOAK_CALLS` sets another number, `SOAK_SEED` the seed, `SOAK_SECS` when to stop early.
const CALLS: u64 = 20_000;
const SEED: u64 = 1;
const SECS: u64 = 30;
/// How many calls the client on stdio has in flight.
const IN_FLIGHT: usize = 48;
/// And of one source.
const IN_FLIGHT_EACH: usize = 4;
const HTTP_CLIENTS: u64 = 8;
/// How much larger the relay may be at the end than after its warm-up.
const GROWTH: u64 = 24 << 20;
/// How long everything may take to come to rest: sources that are idle are stopped, threads that are idle end.
const REST: Duration = Duration::from_secs(45);

/// What may go wrong with a source's calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing.
    Steady,
    /// It dies when it is told to, and its other calls with it.
    Mortal,
    /// Everything: it never comes up.
    Dead,
}

/// The twenty sources: kind and flags.
fn world() -> Vec<(Kind, Vec<&'static str>)> {
    let mut all = vec![
        (Kind::Dead, vec!["--exit-at-once", "3"]),
        (Kind::Dead, vec!["--mute"]),
        (Kind::Steady, vec!["--noisy"]),
        (Kind::Steady, vec!["--era", "modern"]),
        (Kind::Steady, vec!["--start-delay-ms", "700"]),
        (Kind::Steady, vec!["--changing", "--shuffle"]),
        (Kind::Steady, vec!["--ignore-term", "--grandchild"]),
        (Kind::Mortal, vec!["--ignore-eof", "--grandchild"]),
        (Kind::Mortal, vec!["--era", "modern"]),
        (Kind::Mortal, vec!["--noisy"]),
    ];
    all.extend((0..7).map(|_| (Kind::Steady, vec![])));
    all.extend((0..3).map(|_| (Kind::Mortal, vec![])));
    all
}

fn sources() -> Vec<String> {
    let one = |(n, (kind, flags)): (usize, &(Kind, Vec<&str>))| {
        let start = if *kind == Kind::Dead { 2 } else { 60 };
        let limits = format!("idle_stop_secs = 2\nstart_timeout_secs = {start}\nmax_in_flight = 16");
        source(&format!("s{n}"), flags, &limits)
    };
    world().iter().enumerate().map(one).collect()
}

/// A call, and what its answer must be.
struct Asked {
    source: usize,
    tool: &'static str,
    arguments: Value,
}

fn choose(random: &mut fastrand::Rng, tag: u64) -> Asked {
    let all = world();
    // The first two are the dead ones, which take their time to say so.
    let source = if random.u32(0..300) == 0 { random.usize(0..2) } else { random.usize(2..all.len()) };
    let (tool, arguments) = match random.u32(0..1000) {
        0..700 => ("echo", json!({"tag": tag})),
        700..800 => ("big", json!({"bytes": random.u32(1..20_000)})),
        800..860 => ("sleep", json!({"ms": random.u32(0..10)})),
        860..900 => ("tool_error", json!({"text": format!("error {tag}")})),
        900..940 => ("fail", json!({"code": -32_000 - i64::try_from(tag % 90).unwrap(), "message": format!("m{tag}")})),
        940..960 => ("late", json!({"ms": 5})),
        960..980 => ("stderr", json!({"bytes": 3000})),
        980..997 => ("burst", json!({"n": 10})),
        _ if all[source].0 == Kind::Mortal => ("die", json!({"code": tag % 3, "half": tag.is_multiple_of(2)})),
        _ => ("string_id", json!({})),
    };
    Asked { source, tool, arguments }
}

/// Looks at an answer; gives what it came to.
fn judge(asked: &Asked, reply: &Reply, modern: bool) -> &'static str {
    let kind = world()[asked.source].0;
    if let Some(error) = reply.raw("error") {
        let error: Value = serde_json::from_str(error).unwrap();
        assert_eq!(asked.tool, "fail", "{}", reply.line);
        // Two codes of earlier revisions are none of 2026-07-28.
        let code = match asked.arguments["code"].as_i64() {
            Some(-32002) if modern => json!(-32602),
            Some(-32042) if modern && !world()[asked.source].1.contains(&"modern") => json!(-32603),
            _ => asked.arguments["code"].clone(),
        };
        assert_eq!((&error["code"], &error["message"]), (&code, &asked.arguments["message"]), "{}", reply.line);
        return "its own error";
    }
    let result = reply.result();
    if let Some(failure) = result["structuredContent"]["error"]["kind"].as_str().filter(|_| result["isError"] == true) {
        let of = &result["structuredContent"]["error"]["source"];
        assert_eq!(*of, format!("s{}", asked.source), "{}", reply.line);
        return match (kind, failure) {
            (Kind::Mortal, "exited") => "exited",
            (Kind::Mortal | Kind::Dead, "unavailable") => "unavailable",
            (_, "busy") => "busy",
            _ => panic!("`{}` of s{} got {}", asked.tool, asked.source, reply.line),
        };
    }
    assert!(kind != Kind::Dead, "{}", reply.line);
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    match asked.tool {
        "echo" => assert_eq!(result["structuredContent"], asked.arguments),
        "big" => assert_eq!(text.len() as u64, asked.arguments["bytes"].as_u64().unwrap()),
        "sleep" => assert_eq!(text, format!("slept {} ms", asked.arguments["ms"])),
        "tool_error" => {
            assert_eq!((text, &result["isError"]), (asked.arguments["text"].as_str().unwrap(), &json!(true)))
        }
        "late" => assert_eq!(text, "first answer"),
        "stderr" => assert_eq!(text, "written"),
        "burst" => assert_eq!(text, "burst of 10"),
        "string_id" => assert_eq!(text, "answered under a string id"),
        other => panic!("`{other}` was answered: {}", reply.line),
    }
    "right"
}

/// How often each outcome came.
type Counts = BTreeMap<&'static str, u64>;

fn add(to: &mut Counts, more: Counts) {
    more.into_iter().for_each(|(outcome, count)| *to.entry(outcome).or_default() += count);
}

/// `calls` calls on stdio, many in flight. That each is answered exactly once is the support's to see.
fn over_stdio(relay: &mut Relay, seed: u64, calls: u64, until: Instant) -> Counts {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut counts, mut waiting) = (Counts::new(), BTreeMap::new());
    let mut busy = [0_usize; 20];
    let mut tag = 0;
    loop {
        while tag < calls && waiting.len() < IN_FLIGHT && Instant::now() < until {
            let asked = choose(&mut random, tag);
            // Those that are down keep their callers waiting for some seconds, and may not take up all room.
            if busy[asked.source] == IN_FLIGHT_EACH {
                continue;
            }
            busy[asked.source] += 1;
            let id = relay.ask_call(&format!("s{}", asked.source), asked.tool, asked.arguments.clone());
            waiting.insert(id, asked);
            tag += 1;
        }
        if waiting.is_empty() {
            return counts;
        }
        let (id, reply) = relay.next_answer();
        let asked = waiting.remove(&id).unwrap();
        busy[asked.source] -= 1;
        *counts.entry(judge(&asked, &reply, false)).or_default() += 1;
        relay.notices.clear();
    }
}

fn over_http(client: &mut Client, seed: u64, calls: u64, until: Instant) -> Counts {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut counts = Counts::new();
    for tag in 0..calls {
        if Instant::now() >= until {
            break;
        }
        let asked = choose(&mut random, tag);
        let reply = client.call(&format!("s{}", asked.source), asked.tool, asked.arguments.clone());
        *counts.entry(judge(&asked, &reply, client.session.is_none())).or_default() += 1;
        client.notices.clear();
    }
    counts
}

/// What a relay holds: resident memory, descriptors, threads, and processes of its sources.
#[derive(Debug, Clone, Copy)]
struct Held {
    memory: u64,
    descriptors: usize,
    threads: usize,
    processes: usize,
}

fn held(relay: &Relay) -> Held {
    let pid = relay.pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    Held {
        memory: memory.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024,
        descriptors: count("fd"),
        threads: count("task"),
        processes: relay.place.processes(pid).len(),
    }
}

/// Waits until everything is at rest, and not above `base` where there is one.
fn rest(relay: &Relay, base: Option<Held>) -> Held {
    let since = Instant::now();
    loop {
        let now = held(relay);
        let is_back =
            base.is_none_or(|base| now.descriptors <= base.descriptors + 2 && now.threads <= base.threads + 2);
        // Those that never come up are tried again now and then.
        if now.processes == 0 && is_back {
            return now;
        }
        assert!(since.elapsed() < REST, "not at rest: {now:?} after {base:?}\n{}", relay.stderr());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn every_call_is_answered_and_nothing_is_kept() {
    let (calls, seed) = (number("SOAK_CALLS", CALLS), number("SOAK_SEED", SEED));
    let time = Duration::from_secs(number("SOAK_SECS", SECS));
    let started = |settings| {
        let place = Place::new();
        let command = place.command_logged(settings, &sources(), "info");
        (place, command)
    };
    let (place, command) = started("");
    let mut relay = Relay::spawn(&place, command);
    relay.greet();
    let (place, command) = started("");
    let front = Front::spawn(&place, command);
    let clients = || (0..HTTP_CLIENTS).map(|n| if n == 0 { front.client(None) } else { front.greeted(None) });
    // Every part is used once before what is held is looked at.
    let far = Instant::now() + time;
    over_stdio(&mut relay, !seed, 500, far);
    clients().for_each(|mut client| drop(over_http(&mut client, !seed, 60, far)));
    let bases = [rest(&relay, None), rest(&front.relay, None)];

    let start = Instant::now();
    let until = start + time;
    let mut counts = Counts::new();
    std::thread::scope(|scope| {
        let each = calls / 4 / HTTP_CLIENTS;
        let threads: Vec<_> = clients()
            .zip(1..)
            .map(|(mut client, n)| scope.spawn(move || over_http(&mut client, seed + n, each, until)))
            .collect();
        add(&mut counts, over_stdio(&mut relay, seed, calls - each * HTTP_CLIENTS, until));
        threads.into_iter().for_each(|thread| add(&mut counts, thread.join().unwrap()));
    });
    let took = start.elapsed();
    let ends = [rest(&relay, Some(bases[0])), rest(&front.relay, Some(bases[1]))];
    let all: u64 = counts.values().sum();
    let text = format!(
        "\nsoak: seed {seed}, {all} of {calls} calls over {} sources in {:.0} s: {counts:?}\n  stdio {:?}\n     -> {:?}\n  HTTP  {:?}\n     -> {:?}\n",
        world().len(),
        took.as_secs_f32(),
        bases[0],
        ends[0],
        bases[1],
        ends[1]
    );
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    for (base, end) in bases.iter().zip(&ends) {
        assert!(end.memory < base.memory + GROWTH, "{text}");
    }
    assert!(counts.get("right").is_some_and(|right| *right > all / 3), "{text}");
    relay.finish();
    front.finish();
}
