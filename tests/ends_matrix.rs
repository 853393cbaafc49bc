//! Every way in which the relay can end, with every kind of source that might outlive it: how many processes of each are
//! left after two seconds. Prints the table.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{END, Front, PATIENCE, Place, Relay, command, eventually, fixture};

/// What is asked of the relay.
const WITHIN: Duration = Duration::from_secs(2);
/// Starts the fixture behind a daemon: forked twice, in a session of its own, without any pipe of the relay.
const DAEMON: &str = "(setsid sleep 600 </dev/null >/dev/null 2>&1 &); exec \"$0\" \"$@\"";
const STUBBORN_DAEMON: &str =
    "(setsid sh -c 'trap \"\" TERM; exec sleep 600' </dev/null >/dev/null 2>&1 &); exec \"$0\" \"$@\"";
const DAEMON_ON_PIPES: &str = "(setsid sleep 600 &); exec \"$0\" \"$@\"";

/// A kind of source: its name, the script around the fixture, the fixture's flags, how many processes it makes.
const KINDS: &[(&str, &str, &[&str], usize)] = &[
    ("plain", "exec \"$0\" \"$@\"", &[], 1),
    ("wrapper+grandchild", "\"$0\" \"$@\"; exit", &["--grandchild"], 3),
    ("ignores-eof+term", "exec \"$0\" \"$@\"", &["--ignore-eof", "--ignore-term", "--grandchild"], 2),
    ("daemon", DAEMON, &[], 2),
    ("daemon-ignores-term", STUBBORN_DAEMON, &[], 2),
    ("holds-pipes", DAEMON_ON_PIPES, &["--ignore-eof", "--grandchild"], 3),
];

fn sources() -> Vec<String> {
    let all = KINDS.iter().enumerate().map(|(n, (kind, script, flags, _))| {
        let fixture = fixture();
        let mut args = vec!["-c", script, fixture.to_str().unwrap()];
        args.extend(*flags);
        command(&format!("s{n}"), "sh", &args, &format!("start = \"at-start\"\nenv = {{ KIND = {kind:?} }}"))
    });
    all.collect()
}

/// How many processes of each kind run.
fn alive(place: &Place, relay: u32) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for pid in place.processes(relay) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let kind = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"KIND="));
        *found.entry(kind.map_or("other".into(), |kind| String::from_utf8_lossy(kind).into_owned())).or_default() += 1;
    }
    found
}

/// The relay's second process.
fn watchdog(relay: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{relay}/task/{relay}/children")).unwrap();
    let mut pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("watch-sources")
    };
    pids.find(is_it).expect("a watchdog")
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// What was seen of one way to end.
struct Row {
    way: &'static str,
    left: BTreeMap<String, usize>,
    /// When the last process was gone.
    took: Option<Duration>,
}

/// Starts one source of each kind, ends the relay by `end`, and counts.
fn row(way: &'static str, http: bool, end: impl FnOnce(&mut Relay)) -> Row {
    let place = Place::new();
    let mut relay = if http {
        let front = Front::start_in(&place, "", &sources());
        // Over HTTP nothing is started before there is a client that wants something.
        front.greeted(None).names();
        front.relay
    } else {
        Relay::greeted_in(&place, "", &sources())
    };
    let pid = relay.pid();
    let wanted: BTreeMap<String, usize> = KINDS.iter().map(|(kind, .., count)| (kind.to_string(), *count)).collect();
    let since = Instant::now();
    while relay.stderr().matches("source ready").count() < KINDS.len() {
        assert!(since.elapsed() < PATIENCE, "{way}: not all are ready:\n{}", relay.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    eventually(&format!("{way}: {wanted:?} run, not {:?}", alive(&place, pid)), || alive(&place, pid) == wanted);
    let start = Instant::now();
    end(&mut relay);
    let mut left = alive(&place, pid);
    while !left.is_empty() && start.elapsed() < WITHIN {
        std::thread::sleep(Duration::from_millis(20));
        left = alive(&place, pid);
    }
    let mut took = left.is_empty().then(|| start.elapsed());
    // On a machine that is busy with other tests everything takes longer, but it comes true.
    while took.is_none() && start.elapsed() < WITHIN + END {
        std::thread::sleep(Duration::from_millis(20));
        took = alive(&place, pid).is_empty().then(|| start.elapsed());
    }
    place.processes(pid).into_iter().for_each(|pid| signal(pid, Signal::KILL));
    Row { way, left, took }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("\n{:<34}", "processes left after 2 s");
    KINDS.iter().for_each(|(kind, ..)| write!(text, "  {kind}").unwrap());
    for row in rows {
        write!(text, "\n{:<34}", row.way).unwrap();
        for (kind, ..) in KINDS {
            write!(text, "  {:>width$}", row.left.get(*kind).unwrap_or(&0), width = kind.len()).unwrap();
        }
        match row.took {
            Some(took) => write!(text, "  all gone after {:.1} s", took.as_secs_f32()).unwrap(),
            None => text += "  not all",
        }
    }
    text + "\n"
}

#[test]
fn nothing_outlives_the_relay() {
    let by = |signal: Signal| move |relay: &mut Relay| relay.signal(signal);
    let mut rows = vec![
        row("stdio: end of input", false, Relay::close_stdin),
        row("stdio: SIGTERM", false, by(Signal::TERM)),
        row("stdio: SIGINT", false, by(Signal::INT)),
        row("stdio: SIGQUIT", false, by(Signal::QUIT)),
        row("stdio: SIGABRT, as of an abort", false, by(Signal::ABORT)),
        row("stdio: SIGILL, as of a crash", false, by(Signal::ILL)),
        row("stdio: SIGKILL", false, by(Signal::KILL)),
        row("HTTP: SIGTERM", true, by(Signal::TERM)),
        row("HTTP: SIGINT", true, by(Signal::INT)),
        row("HTTP: SIGQUIT", true, by(Signal::QUIT)),
        row("HTTP: SIGKILL", true, by(Signal::KILL)),
    ];
    let all_gone = rows.iter().all(|row| row.took.is_some());
    // The limit: whoever kills both leaves nobody to look. Sources end by their closed input or the kernel's SIGTERM.
    rows.push(row("SIGKILL of relay and watchdog", false, |relay| {
        signal(watchdog(relay.pid()), Signal::KILL);
        relay.signal(Signal::KILL);
    }));
    let text = table(&rows);
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    assert!(all_gone, "{text}");
    let both = &rows.last().unwrap().left;
    assert_eq!(both.get("plain"), None, "{text}");
}
