//! `sources.toml` edited while the relay serves: what was edited changes, and nothing else does.

#![allow(clippy::unwrap_used)]

#[path = "support/edits.rs"]
mod edits;
#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use edits::{RELOADED, ask_slow, edit, edit_now, ids, pid, pids, told};
use rustix::process::Signal;
use serde_json::{Value, json};
use standing::Trial;
use support::{Place, Relay, command, eventually, source};

const TOOLSETS: &str = "exposure = \"toolsets\"";
const CHANGED: &str = "notifications/tools/list_changed";

/// C07-A08: an added source was not found, a removed one lingered, and sources nobody had edited lost their connections.
#[test]
fn an_edit_touches_only_what_it_changed() {
    let place = Place::new();
    let entry = |id: &str, settings: &str| place.journaled(id, &[], settings);
    let mut relay = Trial::start_in(&place, TOOLSETS, &[entry("a", ""), entry("b", "")]);
    let now = |sources: &[String]| Trial::tables(&place, sources);
    relay.call_direct("enable_toolset", json!({"toolset": "b"}));
    let (kept, ended) = (ask_slow(&mut relay, "a", 3000), ask_slow(&mut relay, "b", 60_000));
    assert!(relay.names().iter().any(|name| name == "b__echo"));
    let (a, changed) = (pid(&relay, "a"), relay.noticed(CHANGED));

    edit(&relay, TOOLSETS, &now(&[entry("a", "# a comment"), entry("c", "")]));
    relay.faulty_are(&["a", "c"]);
    let (kind, text) = relay.answer(&ended).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("source `b` was removed from sources.toml"), "{text}");
    assert!(text.contains("whether the call took effect is not known"), "{text}");
    assert_eq!(ids(&mut relay), ["a", "c", "healthy"]);
    assert_eq!(relay.call("b", "echo", json!({})).failure().0, "unknown_source");
    assert_eq!(relay.call("c", "echo", json!({"x": 1})).structured(), json!({"x": 1}));
    eventually("b is gone", || pids(&relay, "b").is_empty());
    assert_eq!(relay.answer(&kept).result()["isError"], Value::Null, "untouched");
    assert_eq!(pid(&relay, "a"), a);
    assert!(!relay.names().iter().any(|name| name == "b__echo"));
    assert_eq!(relay.noticed(CHANGED), changed + 1, "the list changed once");
    relay.holds();

    let c = pid(&relay, "c");
    let ended = ask_slow(&mut relay, "a", 60_000);
    edit(&relay, TOOLSETS, &now(&[entry("a", "env = { FOO = \"bar\" }"), entry("c", "")]));
    let (kind, text) = relay.answer(&ended).failure();
    assert_eq!(kind, "cancelled");
    assert!(text.contains("source `a` was changed in sources.toml"), "{text}");
    assert_eq!(relay.call("a", "env", json!({})).structured()["FOO"], "bar");
    assert_ne!(pid(&relay, "a"), a);
    assert_eq!(pid(&relay, "c"), c);
    relay.finish();
}

/// C08-A07: an added source with the prefix of a running one ended that one and its calls, and got the calls of its names.
#[test]
fn an_added_source_takes_no_prefix_of_a_running_one() {
    let place = Place::new();
    let eager = "exposure = \"eager\"";
    let entry = |id: &str, settings: &str| place.journaled(id, &[], settings);
    let mut relay = Relay::greeted_in(&place, eager, &[entry("notes", "prefix = \"shared\""), entry("own", "")]);
    relay.call("notes", "echo", json!({}));
    let (kept, notes) = (ask_slow(&mut relay, "notes", 2000), pid(&relay, "notes"));
    let newcomers = [entry("archive", "prefix = \"shared\""), entry("bold", "prefix = \"own\"")];
    let both = [entry("notes", "prefix = \"shared\""), entry("own", "")];
    edit(&relay, eager, &[both.to_vec(), newcomers.to_vec()].concat());
    for (id, other) in [("archive", "notes"), ("bold", "own")] {
        let status = relay.status(id);
        assert_eq!(status["status"], "misconfigured");
        let reason = status["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(&format!("source `{other}` has the same prefix")), "{reason}");
    }
    assert_eq!(relay.answer(&kept).result()["isError"], Value::Null, "untouched");
    assert_eq!(relay.call_direct("shared__echo", json!({"x": 1})).structured(), json!({"x": 1}));
    assert_eq!(pid(&relay, "notes"), notes);
    assert_eq!(place.journal_count("archive", "tools/call") + place.journal_count("bold", "tools/call"), 0);
    // Who gives it up gives it away.
    edit(&relay, eager, &[vec![entry("notes", "")], newcomers.to_vec()].concat());
    assert_ne!(relay.status("archive")["status"], "misconfigured");
    relay.finish();
}

/// The README says so of SIGHUP, and a running source kept the old value. An edit still touches no other source.
#[test]
fn a_hangup_looks_again_at_files() {
    let place = Place::new();
    place.write("pw", "first-value\n");
    let a = place.journaled("a", &[], "env = { FOO = \"${file:pw}\" }");
    let b = place.journaled("b", &[], "");
    let mut relay = Relay::greeted_in(&place, "", &[a.clone(), b.clone()]);
    let foo = |relay: &mut Relay| relay.call("a", "env", json!({})).structured()["FOO"].as_str().unwrap().to_owned();
    assert_eq!(foo(&mut relay), "first-value");
    relay.call("b", "echo", json!({}));
    let (old, other) = (pid(&relay, "a"), pid(&relay, "b"));
    place.write("pw", "second-value\n");
    edit(&relay, "", &[a.clone(), b.clone(), place.journaled("c", &[], "")]);
    assert_eq!((foo(&mut relay), pid(&relay, "a")), ("first-value".to_owned(), old));
    let before = told(&relay, RELOADED);
    relay.signal(Signal::HUP);
    eventually("it is reloaded", || told(&relay, RELOADED) > before);
    assert_eq!(foo(&mut relay), "second-value");
    assert_eq!(pid(&relay, "b"), other);
    let unchanged = "configuration is unchanged";
    relay.signal(Signal::HUP);
    eventually("nothing differs", || told(&relay, unchanged) > 0);
    relay.finish();
}

/// A source that an edit had enabled was ended by the next hangup, with its calls, though nothing had changed.
#[test]
fn a_hangup_leaves_alone_what_an_edit_has_started() {
    let place = Place::new();
    place.write("pw", "first-value\n");
    let entry = |settings: &str| place.journaled("a", &[], &format!("env = {{ FOO = \"${{file:pw}}\" }}\n{settings}"));
    let mut relay = Relay::greeted_in(&place, "", &[entry("enabled = false")]);
    for settings in ["", "max_in_flight = 7"] {
        place.write("pw", format!("value-{settings}\n"));
        edit(&relay, "", &[entry(settings)]);
        let call = ask_slow(&mut relay, "a", 3000);
        let (old, before) = (pid(&relay, "a"), told(&relay, "configuration is unchanged"));
        relay.signal(Signal::HUP);
        eventually("nothing differs", || told(&relay, "configuration is unchanged") > before);
        assert_eq!(relay.answer(&call).result()["isError"], Value::Null);
        assert_eq!(pid(&relay, "a"), old);
    }
    relay.finish();
}

/// What one account is offered filled the gaps in the list of the account that took its place, and was remembered as its.
#[test]
fn another_account_is_not_shown_what_the_one_before_had() {
    let place = Place::new();
    let told = |answer: &str| place.write("prompts", format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,{answer}}}"));
    let file = told(r#""result":{"prompts":[{"name":"p"}]}"#);
    let reply = format!("prompts/list={file}");
    let of = |account: &str| {
        let env = format!("env = {{ ACCOUNT = \"{account}\" }}");
        [source("fix", &["--prompts", "p", "--reply", &reply], &env)]
    };
    let mut relay = Relay::greeted_in(&place, "", &of("a"));
    let has = |relay: &mut Relay| relay.request("prompts/list", json!({})).line.contains("fix__p");
    let lacks = |relay: &mut Relay| {
        relay.call("fix", "echo", json!({}));
        relay.status("fix")["reason"].as_str().is_some_and(|reason| reason.contains("no database"))
    };
    eventually("it is listed", || has(&mut relay));
    told(r#""error":{"code":-32603,"message":"no database"}"#);
    edit(&relay, "", &of("b"));
    eventually("the other is listed", || lacks(&mut relay));
    assert!(!has(&mut relay));
    relay.finish();
    let mut relay = Relay::greeted_in(&place, "", &of("b"));
    assert!(!has(&mut relay));
    eventually("it is listed again", || lacks(&mut relay));
    assert!(!has(&mut relay));
    // The account before is remembered as it was.
    edit(&relay, "", &of("a"));
    eventually("the first is listed again", || lacks(&mut relay));
    assert!(has(&mut relay));
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

/// Who gave up what had been withheld meanwhile was told of it again once it was not.
#[test]
fn what_is_withheld_can_be_unsubscribed_from() {
    let place = Place::new();
    let entry = |settings: &str| [place.journaled("a", &["--sociable", "--resources", "doc:a"], settings)];
    let mut relay = Relay::greeted_in(&place, "", &entry(""));
    relay.await_status("a", "ready");
    relay.request("resources/subscribe", json!({"uri": "doc:a"})).result();
    edit(&relay, "", &entry("deny = [\"doc:a\"]"));
    assert_eq!(relay.request("resources/read", json!({"uri": "doc:a"})).error_code(), -32002);
    relay.request("resources/unsubscribe", json!({"uri": "doc:a"})).result();
    eventually("the source is told", || place.journal_count("a.journal", "resources/unsubscribe") == 1);
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
    assert_eq!(
        (warnings(&relay, "relay.max_message_mib"), warnings(&relay, "relay.max_starting")),
        (1, 1),
        "{}",
        relay.stderr()
    );
    assert_eq!(relay.call("a", "echo", json!({"x": "y".repeat(2 << 20)})).result()["isError"], Value::Null);
    edit(&relay, "", &sources);
    assert_eq!(relay.names(), names);
    assert_eq!(warnings(&relay, "relay.max_message_mib"), 1);
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
    let place = Place::new();
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

/// What is remembered of a source fits the settings that it gets before anybody has read it.
#[test]
fn a_reload_before_the_first_use_reads_the_memory_anew() {
    let place = Place::new();
    let entry = |id: &str, settings: &str| place.journaled(id, &[], settings);
    let mut relay = Relay::greeted_in(&place, "", &[entry("a", ""), entry("b", ""), entry("c", "")]);
    for id in ["a", "b", "c"] {
        relay.await_status(id, "ready");
    }
    relay.finish();

    let mut relay = Relay::start_in(&place, "exposure = \"eager\"", &[entry("a", ""), entry("b", ""), entry("c", "")]);
    relay.request("ping", json!({}));
    let now = [entry("a", "deny = [\"echo\"]"), entry("c", "summary = \"Still known.\"")];
    edit_now(&relay, "exposure = \"eager\"", &now);
    relay.greet();
    let names = relay.names();
    for (name, is_there) in [("a__env", true), ("a__echo", false), ("b__echo", false), ("c__echo", true)] {
        assert_eq!(names.contains(&name.to_owned()), is_there, "{name}: {names:?}");
    }
    assert_eq!(relay.status("c")["summary"], "Still known.");
    assert_eq!(relay.status("a")["withheld"], 1);
    assert!(place.processes(relay.pid()).is_empty(), "all of it was remembered");
    relay.finish();
}

/// A source that cannot even be started, added while another is in use, once brought the whole program down.
#[test]
fn bad_sources_that_are_added_harm_no_other() {
    let place = Place::new();
    let good = place.journaled("good", &[], "");
    let mut relay = Trial::start_in(&place, "", std::slice::from_ref(&good));
    let kept = ask_slow(&mut relay, "good", 2000);
    let bad = [
        command("absent", "toolrelay-no-such-program", &[], ""),
        command("adrift", "true", &[], "cwd = \"/nonexistent/folder\""),
        command("framed", "sh", &["-c", "printf 'Content-Length: 2\\r\\n\\r\\n{}'; sleep 60"], ""),
        command("Bad Id", "true", &[], ""),
    ];
    let now = |sources: &[String]| Trial::tables(&place, sources);
    edit(&relay, &Trial::settings(""), &now(&[std::slice::from_ref(&good), &bad[..3]].concat()));
    for (id, told) in [("absent", "was not found"), ("adrift", "does not exist"), ("framed", "Content-Length")] {
        let line = relay.await_status(id, "unreachable");
        assert!(line["reason"].as_str().unwrap().contains(told), "{line}");
    }
    relay.faulty_are(&["good", "absent", "adrift", "framed"]);
    relay.holds();
    relay.faulty_are(&["good", "bad-id"]);
    edit(&relay, &Trial::settings(""), &now(&[good, bad[3].replace("Bad Id", "\"Bad Id\"")]));
    assert_eq!(ids(&mut relay), ["bad-id", "good", "healthy"]);
    assert_eq!(relay.status("bad-id")["status"], "misconfigured");
    assert_eq!(relay.answer(&kept).result()["isError"], Value::Null);
    eventually("two are left", || place.processes(relay.pid()).len() == 2);
    relay.finish();
}

/// C11-A05: a call that waits for its turn is not sent once it has been forbidden, whichever way it came.
#[test]
fn a_rule_holds_for_calls_that_wait() {
    let place = Place::new();
    let flags = ["--tools", "drop_x", "--prompts", "drop_p", "--resources", "x:drop"];
    let entry = |settings: &str| [place.journaled("a", &flags, &format!("max_in_flight = 1\n{settings}"))];
    let mut relay = Relay::greeted_in(&place, "", &entry(""));
    relay.call("a", "echo", json!({})).result();
    let first = ask_slow(&mut relay, "a", 4000);
    let waiting = relay.ask_call("a", "drop_x", json!({}));
    let item = json!({"source": "a", "tool": "drop_x", "arguments": {}});
    let batch =
        relay.ask("tools/call", json!({"name": "batch_call", "arguments": {"calls": [item], "wait_ms": 20_000}}));
    let about = json!({"ref": {"type": "ref/prompt", "name": "a__drop_p"}, "argument": {"name": "who", "value": ""}});
    let others = [
        relay.ask("resources/read", json!({"uri": "x:drop"})),
        relay.ask("prompts/get", json!({"name": "a__drop_p"})),
        relay.ask("completion/complete", about),
    ];
    edit_now(&relay, "", &entry("deny = [\"drop_*\", \"x:*\"]"));
    let (kind, text) = relay.call("a", "drop_x", json!({})).failure();
    assert_eq!(kind, "withheld", "{text}");
    assert_eq!(relay.answer(&first).result()["isError"], Value::Null);
    let (kind, text) = relay.answer(&waiting).failure();
    assert!(kind == "withheld" && text.contains("deny = ["), "{text}");
    let outcome = relay.answer(&batch).structured();
    assert_eq!(outcome["results"][0]["error"]["kind"], "withheld", "{outcome}");
    for id in others {
        let reply = relay.answer(&id);
        assert!(reply.error()["message"].as_str().unwrap().contains("is withheld: "), "{}", reply.line);
    }
    let sent = place.lines("a.journal").iter().filter(|line| line.contains("drop")).count();
    assert_eq!(sent, 0);
    relay.finish();
}
