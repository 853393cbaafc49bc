//! `sources.toml` as it is saved: however that happens the relay notices, and what cannot be used changes nothing.

#![allow(clippy::unwrap_used)]

#[path = "support/edits.rs"]
mod edits;
#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use edits::{KEPT, RELOADED, ask_slow, edit, edit_now, ids, pid, serve, told};
use rustix::process::Signal;
use serde_json::{Value, json};
use standing::Trial;
use support::{AT_ONCE, Place, Relay, eventually};

/// C07-A07: a file that cannot be read costs nothing that runs, and is told once.
#[test]
fn a_broken_file_keeps_what_runs() {
    let place = Place::new();
    let good = place.journaled("a", &[], "");
    let mut relay = Trial::start_in(&place, "", std::slice::from_ref(&good));
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
        relay.holds();
        if let Some(text) = text {
            // Written again as it was: nothing new to tell.
            std::fs::write(&file, text).unwrap();
            relay.listen(Duration::from_millis(700));
            assert_eq!(told(&relay, KEPT), number + 1);
        }
    }
    edit(&relay, &Trial::settings(""), &Trial::tables(&place, &[good, place.journaled("b", &[], "")]));
    relay.faulty_are(&["a", "b"]);
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
