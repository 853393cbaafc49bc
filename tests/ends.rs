//! The end of the relay, in every way it can come: nothing it started is left.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use standing::Trial;
use support::{AT_ONCE, END, Place, Relay, command, eventually, fixture, source};

/// Sources that do not go by themselves.
fn stubborn() -> Vec<String> {
    let kinds: [&[&str]; 5] = [
        &["--ignore-eof"],
        &["--ignore-term"],
        &["--ignore-eof", "--ignore-term"],
        &["--grandchild"],
        &["--ignore-eof", "--ignore-term", "--grandchild"],
    ];
    (0..10).map(|n| source(&format!("s{n}"), kinds[n % kinds.len()], "start = \"at-start\"")).collect()
}

/// Starts ten stubborn sources and ends the relay by `end`; nothing may be left, and 3 seconds must do.
#[track_caller]
fn check(name: &str, end: impl FnOnce(&mut Relay)) {
    let mut trial = Trial::start(&stubborn());
    for n in 0..10 {
        trial.await_status(&format!("s{n}"), "ready");
    }
    // Ten, the healthy one, and a grandchild each of four.
    assert_eq!(trial.place.processes(trial.pid()).len(), 15, "{name}");
    let took = trial.ended_by(end);
    assert!(took < END, "{name}: {took:?}");
}

#[test]
fn stubborn_sources_go_with_the_end_of_input() {
    check("end of input", Relay::close_stdin);
}

#[test]
fn stubborn_sources_go_with_a_signal() {
    // A hangup does not end it: it reads its configuration (`tests/reload_file.rs`).
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        check(&format!("{signal:?}"), |relay| relay.signal(signal));
    }
}

/// What cannot be caught: a second process sees the relay's end, and ends the groups of its sources.
#[test]
fn stubborn_sources_go_with_a_relay_that_is_killed() {
    let mut relay = Relay::greeted("", &stubborn());
    for n in 0..10 {
        relay.await_status(&format!("s{n}"), "ready");
    }
    let before = relay.place.processes(relay.pid()).len();
    assert_eq!(before, 14);
    relay.signal(Signal::KILL);
    relay.ended();
    let killed = Instant::now();
    eventually("no process is left", || relay.place.processes(relay.pid()).is_empty());
    assert!(killed.elapsed() < END, "{:?}", killed.elapsed());
}

#[test]
fn calls_in_flight_are_answered_when_the_relay_is_told_to_end() {
    let mut relay = Relay::greeted("", &[source("fix", &[], ""), source("slow", &["--start-delay-ms", "60000"], "")]);
    relay.call("fix", "echo", json!({}));
    let ids = [relay.ask_call("fix", "sleep", json!({"ms": 60_000})), relay.ask_call("slow", "echo", json!({}))];
    relay.await_status("slow", "starting");
    relay.signal(Signal::TERM);
    for id in &ids {
        assert_eq!(relay.answer(id).failure().0, "cancelled");
    }
    relay.finish();
}

/// A call that still waited for its turn has had no effect, and whoever asked may rely on that.
#[test]
fn calls_that_were_not_sent_are_told_so_at_the_end() {
    let slow = source("slow", &["--start-delay-ms", "60000"], "");
    let mut relay = Relay::greeted("", &[source("fix", &[], "max_in_flight = 1"), slow]);
    relay.call("fix", "echo", json!({}));
    let sent = relay.ask_call("fix", "sleep", json!({"ms": 60_000}));
    let mut unsent: Vec<_> = (0..8).map(|_| relay.ask_call("fix", "echo", json!({}))).collect();
    unsent.push(relay.ask_call("slow", "echo", json!({})));
    relay.await_status("slow", "starting");
    relay.signal(Signal::TERM);
    let (_, text) = relay.answer(&sent).failure();
    assert!(text.contains("whether it took effect is not known"), "{text}");
    for id in &unsent {
        let (_, text) = relay.answer(id).failure();
        assert!(text.contains("was not sent") && !text.contains("not known"), "{text}");
    }
    relay.finish();
}

/// The same where it is the call before it that ends the source.
#[test]
fn a_call_that_was_not_sent_is_told_so_when_its_source_crashes() {
    let mut relay = Relay::greeted("", &[source("fix", &["--faults"], "max_in_flight = 1")]);
    relay.call("fix", "echo", json!({}));
    let [crash, unsent] =
        [("kill_self", json!({})), ("echo", json!({}))].map(|(tool, given)| relay.ask_call("fix", tool, given));
    let (_, text) = relay.answer(&crash).failure();
    assert!(text.contains("whether the call took effect is not known"), "{text}");
    let (_, text) = relay.answer(&unsent).failure();
    assert!(text.contains("was not sent") && !text.contains("not known"), "{text}");
    relay.finish();
}

/// A source that was being stopped when the relay ended kept its long grace; only its launcher was killed in the end.
#[test]
fn what_is_being_stopped_already_goes_as_well() {
    let place = Place::new();
    let lingering =
        command("lingering", "sh", &["-c", "printf 'Content-Length: 2\\r\\n\\r\\n{}'; sleep 600; sleep 600"], "");
    let idle = place.journaled("idle", &["--ignore-eof", "--ignore-term", "--grandchild"], "idle_stop_secs = 1");
    let mut relay = Relay::greeted_in(&place, "", &[lingering, idle]);
    relay.list();
    relay.await_status("lingering", "unreachable");
    relay.call("idle", "echo", json!({}));
    eventually("the idle one is being stopped", || relay.stderr().contains("source idle, stopped"));
    relay.finish();
}

/// The last writes to a client that does not read came first, and only then the end of the sources.
#[test]
fn a_client_that_does_not_read_does_not_delay_the_end() {
    let place = Place::new();
    let stubborn = source("stubborn", &["--ignore-eof", "--ignore-term", "--grandchild"], "");
    let mut child = place.command("", &[stubborn, source("fix", &[], "")]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for id in 0..30 {
        let call = r#"{"name":"fix__big","arguments":{"bytes":1000000}}"#;
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{call}}}"#).unwrap();
    }
    eventually("all run", || place.processes(child.id()).len() == 3);
    let stdout = child.stdout.take().unwrap();
    eventually("answers wait to be read", || rustix::io::ioctl_fionread(&stdout).unwrap() >= 1_000_000);
    let start = Instant::now();
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(start.elapsed() < END, "{:?}", start.elapsed());
    eventually("nothing is left", || place.processes(child.id()).is_empty());
}

/// Makes three calls of a source of which the last one ends it or closes its input, and reads no answer for longer than the
/// source gets after that. Gives the answers.
fn answers_read_late(tool: &str, arguments: Value) -> Vec<String> {
    let place = Place::new();
    let mut child = place.command("", &[place.journaled("fix", &["--faults", "--ignore-eof"], "")]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The first is more than waits for a client; the second keeps the third apart from the end of the first.
    let calls = [("big", json!({"bytes": 10_000_000})), ("big", json!({"bytes": 150_000})), (tool, arguments)];
    for (id, (tool, arguments)) in calls.iter().enumerate() {
        let params = json!({"name": "call_tool", "arguments": {"source": "fix", "tool": tool, "arguments": arguments}});
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#).unwrap();
    }
    eventually("all is read", || place.lines("fix.journal").iter().any(|line| line.contains(&format!("{tool:?}"))));
    // So long does the client take; the source had less.
    std::thread::sleep(Duration::from_millis(1500));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let answers = lines.take(calls.len()).map(Result::unwrap).collect();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    answers
}

#[track_caller]
fn is_good(answer: &str) {
    assert!(!answer.contains("isError") && answer.contains("\"content\""), "{}", support::start_of(answer));
}

/// What a source had left in its pipe when it ended was lost, with the answers in it, if the client held up its reading.
#[test]
fn the_last_answers_of_a_source_wait_for_a_slow_client() {
    answers_read_late("farewell", json!({})).iter().for_each(|answer| is_good(answer));
}

/// The same where it closes its input and lives on: it was ended before its answers were read.
#[test]
fn answers_of_a_source_that_closed_its_input_wait_for_a_slow_client() {
    let answers = answers_read_late("close", json!({"what": "stdin"}));
    answers[..2].iter().for_each(|answer| is_good(answer));
    assert!(answers[2].contains("closed its input"), "{}", answers[2]);
}

/// What others write who hold the pipe of an ended source open does not hold up its end.
#[test]
fn who_holds_the_pipe_of_an_ended_source_does_not_keep_it() {
    let flood = "while :; do echo 'a line that is no message, and long enough to fill what a pipe holds'; done";
    for (what, rest) in [("says nothing", "sleep 60"), ("floods", flood)] {
        let place = Place::new();
        let run = format!("{rest} & exec {} --faults", fixture().display());
        let mut relay = Relay::greeted_in(&place, "", &[command("held", "sh", &["-c", &run], "")]);
        relay.call("held", "echo", json!({}));
        let start = Instant::now();
        assert_eq!(relay.call("held", "last_words", json!({"text": "adieu", "code": 3})).failure().0, "exited");
        assert!(start.elapsed() < AT_ONCE, "{what}: {:?}", start.elapsed());
        relay.finish();
    }
}

/// Answers that went nowhere used to be lost without a word, and with the exit code of success.
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_takes_nothing_is_told() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = place.command("", &[source("fix", &[], "")]).stdout(full).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, r#"{{"jsonrpc":"2.0","id":1,"method":"ping"}}"#).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("error: stdout cannot be written to: No space left on device"), "{said}");
    drop(stdin);
    // A client that is gone is no error.
    let mut child = place.command("", &[source("fix", &[], "")]).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_source_that_is_starting_goes_as_well() {
    let sources = [
        source("mute", &["--mute", "--ignore-eof", "--grandchild"], ""),
        source("slow", &["--start-delay-ms", "60000"], ""),
    ];
    let relay = Trial::start(&sources);
    eventually("all run", || relay.place.processes(relay.pid()).len() == 4);
    relay.finish();
}

/// Ends the relay by `end` while a command that fills in settings runs, and what that has started; both must go.
#[track_caller]
fn check_command(name: &str, end: impl FnOnce(&mut Relay)) {
    let place = Place::new();
    let script = place.write("token.sh", "#!/bin/sh\nsetsid sleep 300 &\nsleep 300\n");
    let settings = format!("start = \"at-start\"\nenv = {{ TOKEN = \"${{cmd:sh {script}}}\" }}");
    let mut relay = Relay::greeted_in(&place, "", &[source("fix", &[], &settings)]);
    eventually("the command runs", || place.processes(relay.pid()).len() == 3);
    let begun = Instant::now();
    end(&mut relay);
    relay.exited();
    eventually(name, || place.processes(relay.pid()).is_empty());
    assert!(begun.elapsed() < END, "{name}: {:?}", begun.elapsed());
}

#[test]
fn commands_for_settings_go_as_well() {
    check_command("end of input", Relay::close_stdin);
    check_command("SIGTERM", |relay| relay.signal(Signal::TERM));
    check_command("SIGKILL", |relay| relay.signal(Signal::KILL));
}

/// What such a command leaves running, as password stores do with their agent, is meant to live on.
#[test]
fn what_a_command_for_settings_leaves_behind_is_left_alone() {
    let place = Place::new();
    let script = "#!/bin/sh\nsetsid sleep 300 > /dev/null 2>&1 &\necho secret\n";
    let script = place.write("token.sh", script);
    let settings = format!("env = {{ TOKEN = \"${{cmd:sh {script}}}\" }}");
    let mut relay = Relay::greeted_in(&place, "", &[source("fix", &[], &settings)]);
    assert_eq!(relay.call("fix", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.close_stdin();
    relay.exited();
    let left = place.processes(relay.pid());
    assert_eq!(left.len(), 1);
    let pid = rustix::process::Pid::from_raw(left[0].cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn an_end_before_the_beginning_is_fine() {
    Relay::start("", &stubborn()).finish();
    let mut relay = Relay::start("", &stubborn());
    relay.ask("initialize", json!({}));
    relay.ask("tools/list", json!({}));
    relay.finish();
}

/// Pipes and processes are given back, however often a source comes and goes.
#[test]
fn nothing_leaks_over_restarts() {
    let mut relay = Relay::greeted("", &[source("fix", &[], "")]);
    let descriptors = |relay: &Relay| std::fs::read_dir(format!("/proc/{}/fd", relay.pid())).unwrap().count();
    relay.call("fix", "echo", json!({}));
    let base = descriptors(&relay);
    for round in 0..2 {
        assert_eq!(relay.call("fix", "die", json!({"code": 1})).failure().0, "exited", "{round}");
        assert_eq!(relay.call("fix", "echo", json!({})).structured(), json!({}));
    }
    eventually("its descriptors are given back", || descriptors(&relay) <= base + 1);
    assert_eq!(relay.place.processes(relay.pid()).len(), 1);
    relay.finish();
}

/// How many descriptors the relay has open, how many threads, and how many children that ended and were not waited for.
fn held(relay: &Relay) -> [usize; 3] {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", relay.pid())).unwrap().count();
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", relay.pid())).unwrap();
    let is_zombie = |pid: &&str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
    };
    [count("fd"), count("task"), children.split_whitespace().filter(is_zombie).count()]
}

/// Reports of this field: 1,300 zombies, 2,018 processes, starts in storms.
#[test]
fn five_hundred_crashes_leave_nothing_and_come_in_turns() {
    const SOURCES: usize = 250;
    const AT_ONCE: usize = 5;
    let place = Place::new();
    let crashing = |n| {
        // A daemon is left behind by each.
        let script = "(setsid sleep 600 </dev/null >/dev/null 2>&1 &); sleep 0.05; exit 3";
        command(&format!("c{n}"), "sh", &["-c", script], "start = \"at-start\"")
    };
    let mut sources: Vec<String> = (0..SOURCES).map(crashing).collect();
    sources.push(source("fix", &[], ""));
    let mut relay = Relay::greeted_in(&place, &format!("max_starting = {AT_ONCE}"), &sources);
    relay.call("fix", "echo", json!({}));
    let (mut most, mut crashes) = (0, 0);
    while crashes < 500 {
        crashes = relay.stderr().matches("source failed").count();
        let leaders = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", relay.pid())).unwrap();
        // The watchdog and the good source are children as well.
        most = most.max(leaders.split_whitespace().count().saturating_sub(2));
        assert_eq!(relay.call("fix", "echo", json!({"crashes": crashes})).structured()["crashes"], crashes);
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("{crashes} crashes of {SOURCES} sources, at most {most} processes at once");
    // Those that have failed and are being ended count as well.
    assert!(most <= 10 * AT_ONCE, "{most}");
    relay.place.config("", &[source("fix", &[], "")]);
    relay.signal(Signal::HUP);
    eventually("the others are gone", || relay.place.processes(relay.pid()).len() == 1);
    eventually("what was held is given back", || {
        let [descriptors, threads, zombies] = held(&relay);
        descriptors < 40 && threads < 20 && zombies == 0
    });
    relay.finish();
}

/// A laptop that sleeps: everything stands still for a while, and goes on.
#[test]
fn a_relay_that_was_stopped_for_a_while_goes_on() {
    let place = Place::new();
    let crashing = command("crash", "sh", &["-c", "exit 3"], "start = \"at-start\"");
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("fix", &[], "idle_stop_secs = 60"), crashing]);
    relay.call("fix", "echo", json!({}));
    relay.await_status("crash", "unreachable");
    let before = held(&relay);
    let asked = relay.ask_call("fix", "sleep", json!({"ms": 1000}));
    eventually("the source has the call", || place.journal_count("fix.journal", "tools/call") > 1);
    relay.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(4));
    let failed = relay.stderr().matches("source failed").count();
    relay.signal(Signal::CONT);
    assert_eq!(relay.answer(&asked).text(), "slept 1000 ms");
    assert_eq!(relay.call("fix", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    // What was due in the meantime is done once, not as often as it was due.
    relay.listen(Duration::from_millis(500));
    assert!(relay.stderr().matches("source failed").count() <= failed + 1, "{}", relay.stderr());
    assert_eq!(place.journal_count("fix.journal", "initialize"), 1);
    assert!(held(&relay)[0] <= before[0] + 2);
    relay.finish();
}
