//! Names and routing as gateways were reported to break them (class C08), one test an item, with the six
//! standing assertions in each.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use standing::Trial;
use support::{Place, Relay, command, eventually, source};

const EAGER: &str = "exposure = \"eager\"";

/// A source with these tools and nothing else.
fn only(place: &Place, id: &str, tools: &[&str], settings: &str) -> String {
    let tools: Vec<_> = tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    let file = place.write(&format!("{id}.json"), Value::from(tools).to_string());
    place.journaled(id, &["--tools-json", &file], settings)
}

/// The exposed name of each (source, tool).
fn exposed(relay: &mut Relay, ids: &[&str]) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for id in ids {
        let opened = relay.call_direct("enable_toolset", json!({"toolset": id})).structured();
        for line in opened["tools"].as_array().unwrap() {
            let text = |key: &str| line[key].as_str().unwrap().to_owned();
            found.insert((text("source"), text("tool")), text("name"));
        }
    }
    found
}

/// Calls each tool by its exposed name and through the dispatcher, and sees in the journals that the right one was called.
fn all_arrive(relay: &mut Relay, names: &BTreeMap<(String, String), String>) {
    let unique: BTreeSet<_> = names.values().collect();
    assert_eq!(unique.len(), names.len(), "{names:?}");
    for ((id, tool), name) in names {
        assert!((1..=64).contains(&name.len()), "{name}");
        assert!(name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-'), "{name}");
        let mark = json!({"id": id, "tool": tool});
        assert_eq!(relay.call_direct(name, mark.clone()).structured(), mark, "{name}");
        assert_eq!(relay.call(id, tool, mark.clone()).structured(), mark, "{id}/{tool}");
        let lines = relay.place.lines(&format!("{id}.journal"));
        let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let calls: Vec<_> = lines.filter(|line| line["method"] == "tools/call").collect();
        let last = &calls[calls.len() - 2..];
        assert!(last.iter().all(|call| call["params"]["name"] == **tool), "{id}/{tool}: {last:?}");
    }
}

#[test]
fn c08_a01_long_names_are_shortened() {
    let place = Place::new();
    let (sixty, whole, long) = ("a".repeat(60), "b".repeat(64), "c".repeat(200));
    let other = format!("{}d", "c".repeat(199));
    let id = "source-of-20-letters";
    let sources = [only(&place, id, &[&sixty, &whole, &long, &other], "")];
    let run = || {
        let mut relay = Trial::start_in(&place, EAGER, &sources);
        let names = exposed(&mut relay, &[id]);
        assert_eq!(names.len(), 4);
        all_arrive(&mut relay, &names);
        relay.finish();
        names
    };
    assert_eq!(run(), run());
}

#[test]
fn c08_a02_odd_characters_are_replaced_and_nothing_is_lost() {
    let place = Place::new();
    let odd = [
        "files.read",
        "a/b",
        "get users",
        "查询",
        "naïve",
        "x\ny",
        "7up",
        "",
        "twice",
        "twice",
        "delete ",
        "delete",
        " lead",
    ];
    let mut relay = Trial::start_in(&place, EAGER, &[only(&place, "odd", &odd, "")]);
    let names = exposed(&mut relay, &["odd"]);
    assert_eq!(names.len(), 11, "{names:?}");
    all_arrive(&mut relay, &names);
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "odd"})).structured();
    let withheld: Vec<_> = opened["withheld"].as_array().unwrap().iter().map(|one| one["tool"].clone()).collect();
    assert_eq!(withheld, [json!(""), json!("twice")]);
    relay.finish();
}

#[test]
fn c08_a03_the_same_name_on_two_sources() {
    let place = Place::new();
    let tools = ["search", "create_issue"];
    let sources = [only(&place, "one", &tools, ""), only(&place, "two", &tools, "")];
    let mut relay = Trial::start_in(&place, EAGER, &sources);
    let names = exposed(&mut relay, &["one", "two"]);
    assert_eq!(names.len(), 4);
    all_arrive(&mut relay, &names);
    let calls = place.journal_count("one.journal", "tools/call") + place.journal_count("two.journal", "tools/call");
    let (kind, text) = relay.call_direct("call_tool", json!({"tool": "search"})).failure();
    assert!(kind == "invalid_arguments" && text.contains("one/search, two/search"), "{text}");
    let after = place.journal_count("one.journal", "tools/call") + place.journal_count("two.journal", "tools/call");
    assert_eq!(calls, after);
    relay.finish();
}

#[test]
fn c08_a04_no_two_tools_share_an_exposed_name() {
    let place = Place::new();
    let ids = ["acme_", "acme", "a", "a_b", "a__b"];
    let mut sources = vec![
        only(&place, "acme_", &["status"], ""),
        only(&place, "acme", &["_status"], ""),
        only(&place, "a", &["read-file", "read_file", "read.file", "read file", "b_c", "b__c", "_b__c"], ""),
        only(&place, "a_b", &["c"], ""),
        only(&place, "a__b", &["c", "_c"], ""),
    ];
    let mut all = BTreeSet::new();
    for _ in 0..2 {
        let fresh = Place::new();
        let mut relay = Trial::start_in(&fresh, EAGER, &sources);
        let names = exposed(&mut relay, &ids);
        assert_eq!(names.len(), 12);
        assert_eq!(names[&("a".to_owned(), "read-file".to_owned())], "a__read-file");
        assert_eq!(names[&("a".to_owned(), "read_file".to_owned())], "a__read_file");
        for (key, name) in &names {
            let mark = json!({"key": key});
            assert_eq!(relay.call_direct(name, mark.clone()).structured(), mark);
        }
        all.insert(names);
        relay.finish();
        sources.reverse();
    }
    assert_eq!(all.len(), 1);
}

#[test]
fn c08_a05_the_relays_own_names_stay_its_own() {
    let place = Place::new();
    let own = ["list_sources", "call_tool", "enable_toolset", "find_tools"];
    let sources = [only(&place, "bare", &own, "prefix = \"\""), only(&place, "plain", &own, "")];
    let mut relay = Trial::start_in(&place, EAGER, &sources);
    let names = exposed(&mut relay, &["bare", "plain"]);
    assert_eq!(names.len(), 8);
    assert!(names.values().all(|name| !own.contains(&name.as_str())), "{names:?}");
    all_arrive(&mut relay, &names);
    assert!(relay.call_direct("list_sources", json!({})).structured()["sources"].is_array());
    relay.finish();
}

#[test]
fn c08_a06_the_delimiter_may_stand_in_either_part() {
    let place = Place::new();
    let tools = ["x__y", "_z", "__", "y"];
    let ids = ["ha_prod", "a__b", "a-b", "a", "a__b__x"];
    let sources: Vec<_> = ids.iter().map(|id| only(&place, id, &tools, "")).collect();
    let mut relay = Trial::start_in(&place, EAGER, &sources);
    let names = exposed(&mut relay, &ids);
    assert_eq!(names.len(), ids.len() * tools.len());
    all_arrive(&mut relay, &names);
    relay.finish();
    // An id that is none is refused with the rule, and costs no other source anything.
    let dotted = command("\"a.b\"", "true", &[], "");
    let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_toolrelay"));
    let place = Place::new();
    let output = check.args(["check", "--config", &place.config("", &[dotted])]).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && said.contains("a.b"), "{said}");
    assert!(said.contains("letter") || said.contains("a-z"), "{said}");
}

#[test]
fn c08_a07_a_second_source_renames_nothing() {
    let place = Place::new();
    let first = only(&place, "first", &["search", "read.file"], "");
    let more = [source("second", &["--tools", "other"], ""), only(&place, "third", &["search", "read.file"], "")];
    let mut seen = BTreeSet::new();
    for count in [0, 1, 2, 0] {
        let sources: Vec<_> = [&first].into_iter().chain(&more[..count]).cloned().collect();
        let mut relay = Trial::start_in(&place, EAGER, &sources);
        eventually("it is listed", || relay.names().iter().any(|name| name.starts_with("first__")));
        seen.insert(exposed(&mut relay, &["first"]));
        relay.finish();
    }
    assert_eq!(seen.len(), 1);
}
