//! `sources.toml` edited while the relay serves: what was edited changes, and nothing else does.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{AT_ONCE, PATIENCE, Place, Relay, eventually};

const CHANGED: &str = "notifications/tools/list_changed";
const RELOADED: &str = "configuration reloaded";
const KEPT: &str = "configuration cannot be used, the running one is kept";

/// How often the relay said something on stderr.
fn told(relay: &Relay, what: &str) -> usize {
    relay.stderr().matches(what).count()
}

/// Writes the configuration in place, and waits until it is in force.
#[track_caller]
fn edit(relay: &Relay, settings: &str, sources: &[String]) {
    let before = told(relay, RELOADED);
    relay.place.config(settings, sources);
    eventually("it is reloaded", || told(relay, RELOADED) > before);
}

/// The same at once, by a hangup.
#[track_caller]
fn edit_now(relay: &Relay, settings: &str, sources: &[String]) {
    let before = told(relay, RELOADED);
    relay.place.config(settings, sources);
    relay.signal(Signal::HUP);
    eventually("it is reloaded", || told(relay, RELOADED) > before);
}

/// A relay's command line with other arguments than usual.
fn serve(place: &Place, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolrelay"));
    command.args(["serve", "--log", "debug"]).args(args).env("TMPDIR", place.path("").trim_end_matches('/'));
    command.env_remove("TOOLRELAY_CONFIG").env_remove("TOOLRELAY_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The processes of the source that was started with `--name ID`.
fn pids(relay: &Relay, id: &str) -> Vec<u32> {
    let wanted = format!("--name\0{id}\0");
    let is_its = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&wanted)
    };
    relay.place.processes(relay.pid()).into_iter().filter(is_its).collect()
}

#[track_caller]
fn pid(relay: &Relay, id: &str) -> u32 {
    match pids(relay, id)[..] {
        [pid] => pid,
        ref other => panic!("{id}: {other:?}\n{}", relay.stderr()),
    }
}

/// The ids in `list_sources`.
fn ids(relay: &mut Relay) -> Vec<String> {
    let listed = relay.call_direct("list_sources", json!({})).structured();
    let sources = listed["sources"].as_array().unwrap().iter();
    sources.map(|source| source["id"].as_str().unwrap().to_owned()).collect()
}

/// Starts a call that takes as long as it is let, and waits until the source has it.
#[track_caller]
fn ask_slow(relay: &mut Relay, id: &str, ms: u64) -> String {
    let journal = format!("{id}.journal");
    let before = relay.place.journal_count(&journal, "tools/call");
    let asked = relay.ask_call(id, "sleep", json!({"ms": ms}));
    let place = relay.place.clone();
    eventually("the source has the call", || place.journal_count(&journal, "tools/call") > before);
    asked
}

/// C07-A08: an added source was not found, a removed one lingered, and sources nobody had edited lost their connections.
#[test]
fn an_edit_touches_only_what_it_changed() {
    let place = Place::new();
    let entry = |id: &str, settings: &str| place.journaled(id, &[], settings);
    let mut relay = Relay::greeted_in(&place, "", &[entry("a", ""), entry("b", "")]);
    relay.call_direct("enable_toolset", json!({"toolset": "b"}));
    let (kept, ended) = (ask_slow(&mut relay, "a", 3000), ask_slow(&mut relay, "b", 60_000));
    assert!(relay.names().iter().any(|name| name == "b__echo"));
    let (a, changed) = (pid(&relay, "a"), relay.noticed(CHANGED));

    edit(&relay, "", &[entry("a", "# a comment"), entry("c", "")]);
    let (kind, text) = relay.answer(&ended).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("source `b` was removed from sources.toml"), "{text}");
    assert!(text.contains("whether the call took effect is not known"), "{text}");
    assert_eq!(ids(&mut relay), ["a", "c"]);
    assert_eq!(relay.call("b", "echo", json!({})).failure().0, "unknown_source");
    assert_eq!(relay.call("c", "echo", json!({"x": 1})).structured(), json!({"x": 1}));
    eventually("b is gone", || pids(&relay, "b").is_empty());
    assert_eq!(relay.answer(&kept).result()["isError"], Value::Null, "untouched");
    assert_eq!(pid(&relay, "a"), a);
    assert!(!relay.names().iter().any(|name| name == "b__echo"));
    assert_eq!(relay.noticed(CHANGED), changed + 1, "the list changed once");

    let c = pid(&relay, "c");
    let ended = ask_slow(&mut relay, "a", 60_000);
    edit(&relay, "", &[entry("a", "env = { FOO = \"bar\" }"), entry("c", "")]);
    let (kind, text) = relay.answer(&ended).failure();
    assert_eq!(kind, "cancelled");
    assert!(text.contains("source `a` was changed in sources.toml"), "{text}");
    assert_eq!(relay.call("a", "env", json!({})).structured()["FOO"], "bar");
    assert_ne!(pid(&relay, "a"), a);
    assert_eq!(pid(&relay, "c"), c);
    relay.finish();
}

/// A source that is in use is started anew by itself, and its tools stay in the list meanwhile.
#[test]
fn what_is_open_stays_open_when_its_source_changes() {
    let place = Place::new();
    let entry = |settings: &str| place.journaled("a", &["--start-delay-ms", "300"], settings);
    let mut relay = Relay::greeted_in(&place, "", &[entry("")]);
    relay.call_direct("enable_toolset", json!({"toolset": "a"}));
    relay.call("a", "echo", json!({}));
    let names = relay.names();
    assert!(names.iter().any(|name| name == "a__echo"));
    let old = pid(&relay, "a");
    edit(&relay, "", &[entry("env = { FOO = \"bar\" }")]);
    assert_eq!(relay.names(), names);
    eventually("it is started by itself", || pids(&relay, "a").iter().any(|pid| *pid != old));
    assert_eq!(relay.call_direct("a__env", json!({})).structured()["FOO"], "bar");
    assert_eq!(relay.names(), names);
    edit(&relay, "", &[place.journaled("other", &[], "")]);
    assert!(!relay.names().contains(&"a__echo".to_owned()));
    edit(&relay, "", &[entry("")]);
    assert_eq!(relay.names(), names, "the drawer is open when its source comes back");
    relay.finish();
}

/// Both would have wanted the same port or file.
#[test]
fn a_source_is_replaced_only_when_it_is_gone() {
    let place = Place::new();
    let entry = |settings: &str| place.journaled("a", &["--ignore-eof", "--ignore-term"], settings);
    let mut relay = Relay::greeted_in(&place, "", &[entry("")]);
    relay.call("a", "echo", json!({}));
    edit(&relay, "", &[entry("env = { FOO = \"bar\" }")]);
    let call = relay.ask_call("a", "env", json!({}));
    let start = Instant::now();
    let old = pid(&relay, "a");
    loop {
        let now = pids(&relay, "a");
        if !now.contains(&old) {
            break;
        }
        assert_eq!(now, [old]);
        assert!(start.elapsed() < Duration::from_secs(5), "stubborn for {:?}", start.elapsed());
    }
    assert_eq!(relay.answer(&call).structured()["FOO"], "bar");
    relay.finish();
}

#[test]
fn what_is_starting_goes_with_its_whole_group() {
    let place = Place::new();
    let slow = place.journaled("slow", &["--start-delay-ms", "60000", "--grandchild"], "");
    let good = place.journaled("good", &[], "");
    let mut relay = Relay::greeted_in(&place, "", &[slow, good.clone()]);
    relay.call("good", "echo", json!({}));
    let waiting = relay.ask_call("slow", "echo", json!({}));
    eventually("it starts", || place.processes(relay.pid()).len() == 3);
    edit(&relay, "", &[good]);
    let (_, text) = relay.answer(&waiting).failure();
    assert!(text.contains("source `slow` was removed from sources.toml"), "{text}");
    eventually("its group is gone", || place.processes(relay.pid()).len() == 1);
    relay.finish();
}

#[test]
fn a_source_that_is_disabled_or_faulty_now_ends_and_comes_back() {
    let place = Place::new();
    let entry = |settings: &str| place.journaled("a", &[], settings);
    let mut relay = Relay::greeted_in(&place, "", &[entry("")]);
    for (line, status, why) in [
        ("enabled = false", "disabled", "was disabled in sources.toml"),
        ("idle_stop_sec = 9", "misconfigured", "idle_stop_secs"),
        ("env = { TOKEN = \"${file:token}\" }", "misconfigured", "token"),
    ] {
        let call = ask_slow(&mut relay, "a", 60_000);
        edit(&relay, "", &[entry(line)]);
        let (kind, text) = relay.answer(&call).failure();
        assert_eq!(kind, "unavailable");
        assert!(text.contains(why), "{text}");
        assert_eq!(relay.status("a")["status"], status);
        eventually("it is gone", || pids(&relay, "a").is_empty());
        assert_eq!(relay.call("a", "echo", json!({})).failure().0, "unavailable");
        if !line.contains("token") {
            edit(&relay, "", &[entry("")]);
        }
    }
    // What is written is the same as before; a hangup looks again at what it comes to.
    place.write("token", "tok-1234567890");
    let before = told(&relay, RELOADED);
    relay.signal(Signal::HUP);
    eventually("it is reloaded", || told(&relay, RELOADED) > before);
    assert_eq!(relay.call("a", "env", json!({})).structured()["TOKEN"], "tok-1234567890");
    relay.finish();
}

/// Rules, names and limits are the relay's own affair: the process stays, and so do its calls.
#[test]
fn rules_change_without_a_restart() {
    let place = Place::new();
    let entry = |settings: &str| place.journaled("a", &[], settings);
    let mut relay = Relay::greeted_in(&place, "", &[entry("")]);
    relay.call_direct("enable_toolset", json!({"toolset": "a"}));
    let kept = ask_slow(&mut relay, "a", 4000);
    let (old, all) = (pid(&relay, "a"), relay.names());

    edit(&relay, "", &[entry("deny = [\"ech*\"]\nsummary = \"Now with a summary.\"")]);
    assert_eq!(relay.call("a", "echo", json!({})).failure().0, "withheld");
    assert_eq!(relay.call_direct("a__echo", json!({})).failure().0, "withheld");
    let names = relay.names();
    assert!(!names.contains(&"a__echo".to_owned()) && names.contains(&"a__sleep".to_owned()), "{names:?}");
    assert_eq!(relay.status("a")["summary"], "Now with a summary.");

    edit(&relay, "", &[entry("prefix = \"z\"\ncall_timeout_secs = 1")]);
    assert!(relay.names().contains(&"z__echo".to_owned()));
    assert_eq!(relay.call("a", "echo", json!({"x": 1})).structured(), json!({"x": 1}));
    assert_eq!(relay.call("a", "sleep", json!({"ms": 30_000})).failure().0, "timed_out");

    edit(&relay, "", &[entry("")]);
    assert_eq!(relay.names(), all);
    assert_eq!(relay.answer(&kept).result()["isError"], Value::Null, "under the limits it came with");
    assert_eq!(pid(&relay, "a"), old);
    assert_eq!(place.journal_count("a.journal", "initialize"), 1);

    edit(&relay, "", &[entry("idle_stop_secs = 1")]);
    relay.await_status("a", "dormant");
    relay.finish();
}

/// Without a memory to read the whole list from, what is withheld is withheld at once all the same, and the rest is listed.
#[test]
fn rules_change_without_a_memory() {
    let place = Place::new();
    place.write("state", "no folder");
    let entry = |settings: &str| place.journaled("a", &[], settings);
    let mut relay = Relay::greeted_in(&place, "", &[entry("deny = [\"echo\"]")]);
    relay.call_direct("enable_toolset", json!({"toolset": "a"}));
    assert_eq!(relay.call("a", "env", json!({})).result()["isError"], Value::Null);
    assert_eq!(relay.call("a", "echo", json!({})).failure().0, "withheld");
    let old = pid(&relay, "a");
    edit(&relay, "", &[entry("deny = [\"sleep\"]")]);
    assert_eq!(relay.call("a", "sleep", json!({"ms": 1})).failure().0, "withheld");
    assert_eq!(relay.call("a", "echo", json!({"x": 1})).structured(), json!({"x": 1}));
    let names = relay.names();
    assert!(names.contains(&"a__echo".to_owned()) && !names.contains(&"a__sleep".to_owned()), "{names:?}");
    assert_eq!(pid(&relay, "a"), old);
    relay.finish();
}

/// C07-A07: a file that cannot be read costs nothing that runs, and is told once.
#[test]
fn a_broken_file_keeps_what_runs() {
    let place = Place::new();
    let good = place.journaled("a", &[], "");
    let mut relay = Relay::greeted_in(&place, "", std::slice::from_ref(&good));
    relay.call("a", "echo", json!({}));
    let old = pid(&relay, "a");
    let file = place.path("sources.toml");
    for (number, (text, why)) in [
        (Some("[relay]\n[source.a\ncommand = 'x'\n"), "sources.toml:2:"),
        (Some(""), "is empty"),
        (None, "cannot be read"),
        (Some("{\"mcpServers\": {}}"), "this is JSON, not TOML"),
    ]
    .into_iter()
    .enumerate()
    {
        match text {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        eventually("it is told", || told(&relay, KEPT) == number + 1);
        let said = relay.stderr();
        let line = said.lines().rfind(|line| line.contains(KEPT)).unwrap();
        assert!(line.contains("WARN") && line.contains(why) && line.contains("hint="), "{line}");
        assert_eq!(relay.call("a", "echo", json!({"x": 1})).structured(), json!({"x": 1}));
        assert_eq!(pid(&relay, "a"), old);
        let listed = relay.call_direct("list_sources", json!({})).structured();
        assert!(listed["notice"].as_str().unwrap().contains(why), "{listed}");
        if let Some(text) = text {
            // Written again as it was: nothing new to tell.
            std::fs::write(&file, text).unwrap();
            relay.listen(Duration::from_millis(700));
            assert_eq!(told(&relay, KEPT), number + 1);
        }
    }
    edit(&relay, "", &[good, place.journaled("b", &[], "")]);
    assert_eq!(relay.call("b", "echo", json!({"x": 2})).structured(), json!({"x": 2}));
    assert_eq!(pid(&relay, "a"), old);
    assert_eq!(relay.call_direct("list_sources", json!({})).structured()["notice"], Value::Null);
    relay.finish();
}

/// The ways in which editors and tools save a file.
type Save = fn(&Path, &str);

/// Between the steps of one save.
const PAUSE: Duration = Duration::from_millis(30);
/// A save that takes longer, because the machine is busy, may be taken for two.
const ONE_SAVE: Duration = Duration::from_millis(200);

const SAVES: &[(&str, Save)] = &[
    ("in place", |file, text| std::fs::write(file, text).unwrap()),
    ("renamed over", |file, text| {
        std::fs::write(file.with_extension("tmp"), text).unwrap();
        std::fs::rename(file.with_extension("tmp"), file).unwrap();
    }),
    ("moved away and written", |file, text| {
        std::fs::rename(file, file.with_extension("toml~")).unwrap();
        std::fs::write(file, text).unwrap();
        std::fs::remove_file(file.with_extension("toml~")).unwrap();
    }),
    ("deleted, and made again later", |file, text| {
        std::fs::remove_file(file).unwrap();
        std::thread::sleep(PAUSE);
        std::fs::write(file, text).unwrap();
    }),
    ("emptied, and written in pieces", |file, text| {
        use std::io::Write;
        let mut open = std::fs::File::create(file).unwrap();
        // Each piece is good TOML, and none says what the whole says.
        for piece in text.split_inclusive("\n\n") {
            std::thread::sleep(PAUSE);
            open.write_all(piece.as_bytes()).unwrap();
        }
    }),
    ("cut within a string, and written to its end", |file, text| {
        let half = text.rfind('"').unwrap();
        std::fs::write(file, &text[..half]).unwrap();
        std::thread::sleep(PAUSE);
        std::fs::write(file, text).unwrap();
    }),
    ("linked to another file", |file, text| {
        let other = file.with_file_name("elsewhere.toml");
        std::fs::write(&other, text).unwrap();
        std::fs::remove_file(file).unwrap();
        std::os::unix::fs::symlink(&other, file).unwrap();
    }),
    ("in place, through the link", |file, text| {
        assert!(file.is_symlink());
        std::fs::write(file, text).unwrap();
    }),
    ("the target renamed over", |file, text| {
        let target = std::fs::read_link(file).unwrap();
        std::fs::write(target.with_extension("tmp"), text).unwrap();
        std::fs::rename(target.with_extension("tmp"), target).unwrap();
    }),
];

#[test]
fn however_a_file_is_saved_it_is_reloaded_once() {
    let place = Place::new();
    let kept = place.journaled("kept", &[], "");
    let mut relay = Relay::greeted_in(&place, "", std::slice::from_ref(&kept));
    relay.call("kept", "echo", json!({}));
    let (old, file) = (pid(&relay, "kept"), place.path("sources.toml"));
    let scratch = Place::new();
    for (number, (how, save)) in SAVES.iter().enumerate() {
        let (id, state) = (format!("s{number}"), place.path("state"));
        let added = place.journaled(&id, &[], "summary = \"added\"");
        let text = format!("[relay]\nstate_dir = {state:?}\n\n{kept}\n{added}");
        scratch.write("text", &text);
        let (reloads, faults) = (told(&relay, RELOADED), told(&relay, KEPT));
        let saved = Instant::now();
        save(Path::new(&file), &text);
        let is_one = saved.elapsed() < ONE_SAVE;
        eventually(how, || told(&relay, RELOADED) > reloads && ids(&mut relay) == ["kept", &id]);
        assert!(saved.elapsed() < AT_ONCE + AT_ONCE, "{how}: {:?}", saved.elapsed());
        assert_eq!(relay.call(&id, "echo", json!({"x": 1})).structured(), json!({"x": 1}), "{how}");
        assert!(!is_one || told(&relay, RELOADED) == reloads + 1, "{how}: {}", relay.stderr());
        assert!(!is_one || told(&relay, KEPT) == faults, "{how}: {}", relay.stderr());
        assert_eq!(pid(&relay, "kept"), old, "{how}");
    }
    relay.finish();
}

/// Kubernetes mounts a configuration as a link into a folder that is itself a link, and swaps the inner one.
#[test]
fn a_folder_that_is_swapped_behind_links_is_noticed() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    let a = place.journaled("a", &[], "");
    let command = place.command("", std::slice::from_ref(&a));
    for folder in ["..one", "..two"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    std::fs::rename(place.path("sources.toml"), place.path("..one/sources.toml")).unwrap();
    symlink("..one", place.path("..data")).unwrap();
    symlink("..data/sources.toml", place.path("sources.toml")).unwrap();
    let mut relay = Relay::spawn(&place, command);
    relay.greet();
    relay.call("a", "echo", json!({}));
    let old = pid(&relay, "a");
    let state = place.path("state");
    let text = format!("[relay]\nstate_dir = {state:?}\n{a}{}", place.journaled("b", &[], ""));
    place.write("..two/sources.toml", text);
    symlink("..two", place.path("..data_tmp")).unwrap();
    std::fs::rename(place.path("..data_tmp"), place.path("..data")).unwrap();
    std::fs::remove_dir_all(place.path("..one")).unwrap();
    eventually("it is reloaded", || told(&relay, RELOADED) == 1);
    assert_eq!(relay.call("b", "echo", json!({"x": 1})).structured(), json!({"x": 1}));
    assert_eq!(pid(&relay, "a"), old);
    relay.finish();
}

/// A deployment that points a link at another folder.
#[test]
fn a_folder_that_is_a_link_may_lead_elsewhere() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    let a = place.journaled("a", &[], "");
    place.config("", std::slice::from_ref(&a));
    for folder in ["one", "two"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    std::fs::rename(place.path("sources.toml"), place.path("one/sources.toml")).unwrap();
    symlink("one", place.path("current")).unwrap();
    let mut relay = Relay::spawn(&place, serve(&place, &["--config", &place.path("current/sources.toml")]));
    relay.greet();
    let state = place.path("state");
    let text = format!("[relay]\nstate_dir = {state:?}\n{a}{}", place.journaled("b", &[], ""));
    place.write("two/sources.toml", text);
    symlink("two", place.path("next")).unwrap();
    std::fs::rename(place.path("next"), place.path("current")).unwrap();
    eventually("it is reloaded", || told(&relay, RELOADED) == 1);
    assert_eq!(ids(&mut relay), ["a", "b"]);
    relay.finish();
}

#[test]
fn rapid_edits_settle_on_the_last_one() {
    let place = Place::new();
    let entry = |number: usize| place.journaled("a", &[], &format!("summary = \"edit {number}\""));
    let mut relay = Relay::greeted_in(&place, "", &[entry(0)]);
    relay.call("a", "echo", json!({}));
    let old = pid(&relay, "a");
    let start = Instant::now();
    for number in 1..=20 {
        place.config("", &[entry(number)]);
        std::thread::sleep(Duration::from_millis(45));
    }
    assert!(start.elapsed() < Duration::from_secs(2), "the machine is too busy for this test");
    eventually("it is reloaded", || told(&relay, RELOADED) > 0);
    let place = relay.place.clone();
    let begun = Instant::now();
    while relay.status("a")["summary"] != "edit 20" {
        assert!(begun.elapsed() < AT_ONCE, "{}", relay.stderr());
    }
    relay.listen(Duration::from_millis(600));
    assert!(told(&relay, RELOADED) <= 4, "{}", relay.stderr());
    assert_eq!(relay.status("a")["summary"], "edit 20");
    assert_eq!(pid(&relay, "a"), old);
    assert_eq!(place.journal_count("a.journal", "initialize"), 1);
    relay.finish();
}

/// It used to end the relay. A terminal that closes still does: its end of the input is closed with it.
#[test]
fn a_hangup_reloads() {
    let place = Place::new();
    let entry = |settings: &str| place.journaled("a", &[], settings);
    let mut relay = Relay::greeted_in(&place, "", &[entry("")]);
    relay.signal(Signal::HUP);
    eventually("it is told", || told(&relay, "configuration is unchanged") == 1);
    let kept = ask_slow(&mut relay, "a", 1000);
    edit_now(&relay, "", &[entry("summary = \"new\"")]);
    assert_eq!(relay.status("a")["summary"], "new");
    assert_eq!(relay.answer(&kept).result()["isError"], Value::Null);
    // What cannot be used is told each time it is asked for.
    for number in 1..=2 {
        place.write("sources.toml", "[relay");
        relay.signal(Signal::HUP);
        eventually("it is told", || told(&relay, KEPT) >= number);
    }
    assert_eq!(relay.call("a", "echo", json!({"x": 1})).structured(), json!({"x": 1}));
    relay.finish();
}

/// Opens a terminal for a program, closes it when the program has answered, and tells how that ended.
const TERMINAL: &str = r#"
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
os.write(fd, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
seen = b""
while b'"result"' not in seen:
    seen += os.read(fd, 4096)
os.close(fd)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
"#;

#[test]
fn a_terminal_that_closes_ends_the_relay() {
    let place = Place::new();
    let config = place.config("", &[]);
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL, env!("CARGO_BIN_EXE_toolrelay"), "serve", "--log", "off", "--config", &config]);
    let start = Instant::now();
    let output = python.stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn settings_of_the_relay_hold_at_once_or_are_told_to_need_a_restart() {
    let place = Place::new();
    let sources = [place.journaled("a", &[], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    relay.await_status("a", "ready");
    let names = relay.names();
    assert!(!names.contains(&"a__echo".to_owned()));
    edit(&relay, "always_visible = [\"a/echo\"]", &sources);
    relay.await_notices("the list changed", |notices| notices.iter().any(|notice| notice.line.contains(CHANGED)));
    assert!(relay.names().contains(&"a__echo".to_owned()));
    edit(&relay, "exposure = \"eager\"", &sources);
    assert!(relay.names().contains(&"a__sleep".to_owned()));
    edit(&relay, "menu = [\"call_tool\"]", &sources);
    assert_eq!(relay.names(), ["call_tool"]);

    let warnings = |relay: &Relay, key: &str| {
        let said = relay.stderr();
        let is_one =
            |line: &&str| line.contains("only at the start of the relay") && line.contains(&format!("{key:?}"));
        said.lines().filter(is_one).count()
    };
    edit(&relay, "max_message_mib = 1\nmax_starting = 2", &sources);
    edit(&relay, "max_message_mib = 1\nmax_starting = 2\nexposure = \"lazy\"", &sources);
    assert_eq!((warnings(&relay, "max_message_mib"), warnings(&relay, "max_starting")), (1, 1), "{}", relay.stderr());
    assert_eq!(relay.call("a", "echo", json!({"x": "y".repeat(2 << 20)})).result()["isError"], Value::Null);
    edit(&relay, "", &sources);
    assert_eq!(relay.names(), names);
    assert_eq!(warnings(&relay, "max_message_mib"), 1);
    relay.finish();
}

#[test]
fn what_the_command_line_says_holds_over_reloads() {
    let place = Place::new();
    let sources = [place.journaled("a", &[], "")];
    let mut command = place.command("", &sources);
    command.args(["--exposure", "eager"]);
    let mut relay = Relay::spawn(&place, command);
    relay.greet();
    relay.await_status("a", "ready");
    edit(&relay, "exposure = \"lazy\"\nremember = true", &sources);
    assert!(relay.names().contains(&"a__echo".to_owned()));
    relay.finish();
}

#[test]
fn drawers_change_with_the_file() {
    let place = Place::new();
    let source = place.journaled("a", &[], "");
    let drawer = |globs: &str| format!("[toolset.desk]\ntools = [{globs}]\n");
    let mut relay = Relay::greeted_in(&place, "", std::slice::from_ref(&source));
    relay.await_status("a", "ready");
    let old = pid(&relay, "a");
    edit(&relay, "", &[source.clone(), drawer("\"a/echo\"")]);
    relay.call_direct("enable_toolset", json!({"toolset": "desk"}));
    let directly = |relay: &mut Relay| {
        let names = relay.names();
        names.into_iter().filter(|name| name.starts_with("a__")).collect::<Vec<_>>()
    };
    assert_eq!(directly(&mut relay), ["a__echo"]);
    edit(&relay, "", &[source.clone(), drawer("\"a/echo\", \"a/env\"")]);
    assert_eq!(directly(&mut relay), ["a__echo", "a__env"]);
    edit(&relay, "", &[source]);
    assert_eq!(directly(&mut relay), [""; 0]);
    assert_eq!(pid(&relay, "a"), old);
    relay.finish();
}

/// It was looked for in the current directory, and has no folder in its name.
#[test]
fn a_file_that_was_found_is_watched_too() {
    let place = Place::new();
    let a = place.journaled("a", &[], "");
    place.config("", std::slice::from_ref(&a));
    let mut command = serve(&place, &[]);
    command.current_dir(place.path(""));
    let mut relay = Relay::spawn(&place, command);
    relay.greet();
    edit(&relay, "", &[a, place.journaled("b", &[], "")]);
    assert_eq!(ids(&mut relay), ["a", "b"]);
    relay.finish();
}

/// Descriptors, threads and processes of a relay.
fn possessions(relay: &Relay) -> (usize, usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", relay.pid())).unwrap().count();
    (count("fd"), count("task"), relay.place.processes(relay.pid()).len())
}

#[test]
fn nothing_leaks_over_two_hundred_reloads() {
    let place = Place::new();
    let entries = |number: usize| {
        let mut entries = vec![place.journaled("kept", &[], &format!("summary = \"edit {number}\""))];
        entries.push(place.journaled("changed", &[], &format!("env = {{ EDIT = \"{number}\" }}")));
        entries.extend((number % 2 == 1).then(|| place.journaled("fleeting", &[], "")));
        entries
    };
    let settled = |relay: &mut Relay, number: usize| {
        assert_eq!(relay.call("changed", "env", json!({})).structured()["EDIT"], number.to_string());
        assert_eq!(relay.call("kept", "echo", json!({})).structured(), json!({}));
    };
    let mut relay = Relay::greeted_in(&place, "", &entries(0));
    settled(&mut relay, 0);
    for number in 1..=2 {
        edit_now(&relay, "", &entries(number));
        settled(&mut relay, number);
    }
    let kept = pid(&relay, "kept");
    eventually("one process each", || possessions(&relay).2 == 2);
    // Threads of the pool go when they have nothing to do for a while.
    let base = possessions(&relay);
    for number in 3..=200 {
        edit_now(&relay, "", &entries(number));
        if number % 10 == 0 {
            settled(&mut relay, number);
        }
    }
    settled(&mut relay, 200);
    let is_back = |now: (usize, usize, usize)| now.0 <= base.0 + 1 && now.1 <= base.1 + 1 && now.2 == base.2;
    eventually("all is given back", || is_back(possessions(&relay)));
    assert_eq!(pid(&relay, "kept"), kept);
    assert_eq!(told(&relay, RELOADED), 200);
    relay.finish();
}

/// Nobody uses the relay yet: the file is read, and nothing is started.
#[test]
fn a_reload_before_the_first_use_starts_nothing() {
    let place: Arc<Place> = Place::new();
    let entry = |id: &str| place.journaled(id, &[], "");
    let mut relay = Relay::start_in(&place, "", &[entry("a")]);
    relay.request("ping", json!({}));
    edit_now(&relay, "", &[entry("b"), entry("c")]);
    relay.request("ping", json!({}));
    assert_eq!(place.processes(relay.pid()).len(), 0);
    relay.greet();
    relay.await_status("b", "ready");
    assert_eq!(ids(&mut relay), ["b", "c"]);
    relay.finish();
}
