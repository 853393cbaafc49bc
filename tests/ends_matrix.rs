//! Every way in which the relay can end, with every kind of source that might outlive it: how many processes of each are
//! left after two seconds. Prints the table, with when the last one was gone.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::json;
use support::{Front, PATIENCE, Place, Relay, command, eventually, fixture};

/// What is asked of the relay, on a machine that runs what is due.
const WITHIN: Duration = Duration::from_secs(2);
/// Each step of an end may come as late as the clock of [`Lateness`] does: so many of them follow one another.
const STEPS: u32 = 4;
/// So long the last process is waited for, to tell how late it was.
const GIVEN_UP: Duration = Duration::from_secs(30);
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
    find_watchdog(relay).expect("a watchdog")
}

fn find_watchdog(relay: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{relay}/task/{relay}/children")).unwrap();
    let mut pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("watch-sources")
    };
    pids.find(is_it)
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// How late the machine runs what is due: a clock that should strike every 10 ms, and how much it missed in all.
struct Lateness {
    missed: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Lateness {
    fn start() -> Self {
        let (missed, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, ended) = (missed.clone(), over.clone());
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let due = Instant::now() + Duration::from_millis(10);
                std::thread::sleep(Duration::from_millis(10));
                counted.fetch_add(due.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
        });
        Self { missed, over }
    }

    fn so_far(&self) -> Duration {
        Duration::from_micros(self.missed.load(Ordering::Relaxed))
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// What was seen of one way to end.
struct Row {
    way: &'static str,
    left: BTreeMap<String, usize>,
    /// When the last process was gone.
    took: Option<Duration>,
    /// How late the machine was until then.
    late: Duration,
}

impl Row {
    /// Whether all were gone in time.
    fn is_in_time(&self) -> bool {
        self.took.is_some_and(|took| took <= WITHIN + STEPS * self.late)
    }
}

/// Starts one source of each kind, ends the relay by `end`, and counts.
fn row(way: &'static str, http: bool, end: impl FnOnce(&mut Relay)) -> Row {
    row_after(way, http, |_| {}, end)
}

/// The same, with something to be done before.
fn row_after(way: &'static str, http: bool, first: fn(&mut Relay), end: impl FnOnce(&mut Relay)) -> Row {
    let place = Place::new();
    let mut command = place.command("", &sources());
    // A thread of a panicking row must not find the memory of one that has ended.
    command.env("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0");
    let mut relay = if http {
        let front = Front::spawn(&place, command);
        // Over HTTP nothing is started before there is a client that wants something.
        front.greeted(None).names();
        front.relay
    } else {
        let mut relay = Relay::spawn(&place, command);
        relay.greet();
        relay
    };
    let pid = relay.pid();
    let wanted: BTreeMap<String, usize> = KINDS.iter().map(|(kind, .., count)| (kind.to_string(), *count)).collect();
    let since = Instant::now();
    while relay.stderr().matches("source ready").count() < KINDS.len() {
        assert!(since.elapsed() < PATIENCE, "{way}: not all are ready:\n{}", relay.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    eventually(&format!("{way}: {wanted:?} run, not {:?}", alive(&place, pid)), || alive(&place, pid) == wanted);
    first(&mut relay);
    let (late, start) = (Lateness::start(), Instant::now());
    end(&mut relay);
    let mut left = alive(&place, pid);
    while !left.is_empty() && start.elapsed() < WITHIN {
        std::thread::sleep(Duration::from_millis(20));
        left = alive(&place, pid);
    }
    let mut took = left.is_empty().then(|| start.elapsed());
    while took.is_none() && start.elapsed() < GIVEN_UP {
        std::thread::sleep(Duration::from_millis(20));
        took = alive(&place, pid).is_empty().then(|| start.elapsed());
    }
    let late = late.so_far();
    place.processes(pid).into_iter().for_each(|pid| signal(pid, Signal::KILL));
    Row { way, left, took, late }
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
            Some(took) => {
                let (took, late) = (took.as_secs_f32(), row.late.as_secs_f32());
                write!(text, "  all gone after {took:.2} s, the machine {late:.2} s late").unwrap();
            }
            None => text += "  not all",
        }
    }
    let slowest = rows.iter().filter_map(|row| Some((row.took?, row.way))).max();
    if let Some((took, way)) = slowest {
        write!(text, "\nthe slowest: {way}, {:.2} s", took.as_secs_f32()).unwrap();
    }
    text + "\n"
}

/// Has the relay crash of itself, whose first such signal only ends its own handler for overflows of the stack.
fn segfault(relay: &mut Relay) {
    eventually("it crashes", || {
        relay.signal(Signal::SEGV);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", relay.pid())).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
    });
}

/// Leaves the relay no memory for one more thread. A task that needs one panics then: that which reads a large result.
fn starve(relay: &mut Relay) {
    let (pid, start) = (relay.pid(), Instant::now());
    let idle = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().filter_map(Result::ok);
        let names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
        names.filter(|name| name.starts_with("tokio-")).count() == 0
    };
    // The threads it has are kept for ten seconds.
    while !idle() {
        assert!(start.elapsed() < 3 * PATIENCE, "threads that do nothing do not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")).unwrap();
    // Less than a thread needs.
    let most = 1024 * (size.parse::<u64>().unwrap() + 1024);
    let limits = Rlimit { current: Some(most), maximum: getrlimit(Resource::As).maximum };
    prlimit(Pid::from_raw(pid.cast_signed()), Resource::As, limits).unwrap();
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
        row("stdio: SIGSEGV", false, segfault),
        row("stdio: SIGKILL", false, by(Signal::KILL)),
        row("HTTP: SIGTERM", true, by(Signal::TERM)),
        row("HTTP: SIGINT", true, by(Signal::INT)),
        row("HTTP: SIGQUIT", true, by(Signal::QUIT)),
        row("HTTP: SIGABRT", true, by(Signal::ABORT)),
        row("HTTP: SIGSEGV", true, segfault),
        row("HTTP: SIGKILL", true, by(Signal::KILL)),
    ];
    // A watchdog that is ended is started again, and knows of all that there is.
    rows.push(row("SIGKILL of the watchdog, then of the relay", false, |relay| {
        for _ in 0..2 {
            let first = watchdog(relay.pid());
            signal(first, Signal::KILL);
            eventually("another watchdog", || find_watchdog(relay.pid()).is_some_and(|pid| pid != first));
        }
        relay.signal(Signal::KILL);
    }));
    #[cfg(target_env = "gnu")]
    rows.push(panicked());
    let in_time = rows.iter().all(Row::is_in_time);
    // The limit: whoever kills both leaves nobody to look. Sources end by their closed input or the kernel's SIGTERM.
    rows.push(row("SIGKILL of relay and watchdog", false, |relay| {
        signal(watchdog(relay.pid()), Signal::KILL);
        relay.signal(Signal::KILL);
    }));
    let text = table(&rows);
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    assert!(in_time, "{text}");
    let both = &rows.last().unwrap().left;
    assert_eq!(both.get("plain"), None, "{text}");
}

/// A panic of one task, which nobody would notice otherwise, ends the whole relay, and says so.
#[cfg(target_env = "gnu")]
fn panicked() -> Row {
    let mut said = None;
    let row = row_after("stdio: panic of a task", false, starve, |relay| {
        relay.ask_call("s0", "big", json!({"bytes": 2_500_000}));
        let status = relay.exited();
        eventually("the reason is told", || relay.stderr().contains("hint: please report it"));
        said = Some((status.code(), relay.stderr()));
    });
    let (code, said) = said.unwrap();
    assert_eq!(code, Some(101), "{said}");
    for told in ["error: a defect of toolrelay at ", "toolrelay and its sources end"] {
        assert!(said.contains(told), "{told}: {said}");
    }
    row
}
