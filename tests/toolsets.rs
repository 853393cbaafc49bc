//! Toolsets of chosen tools, and categories: what a client opens, finds and calls when the configuration splits a source
//! or puts several into one drawer.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{AT_ONCE, Place, Relay, eventually, source};

const CHANGED: &str = "notifications/tools/list_changed";
/// The most that the relay's own tools may take in `tools/list`.
const MENU_MAX: usize = 6_000;

/// A source with these tools alone, all of which echo.
fn listing(place: &Place, id: &str, tools: &[&str], settings: &str) -> String {
    let tool =
        |name: &&str| json!({"name": name, "description": format!("Does {name}."), "inputSchema": {"type": "object"}});
    let tools: Vec<_> = tools.iter().map(tool).collect();
    let file = place.write(&format!("{id}.json"), Value::from(tools).to_string());
    place.journaled(id, &["--tools-json", &file], settings)
}

const TOOLSETS: &str = r#"
[toolset.issues]
name = "Hub issues"
summary = "Issues of the hub."
tools = ["hub/*issue*"]
[toolset.desk]
tools = ["notes/*", "clock/*"]
"#;

/// A hub that is split, and two small sources that share a toolset.
fn sources(place: &Place) -> Vec<String> {
    let hub = ["issue_list", "issue_new", "delete_issue", "pull_list", "whoami"];
    let [notes, clock] = ["read", "write"].map(|tool| ["now", tool]);
    vec![
        listing(place, "hub", &hub, "summary = \"The hub.\"\ndeny = [\"delete_*\"]"),
        listing(place, "notes", &notes[1..], "summary = \"Notes.\"\nread_only = true"),
        listing(place, "clock", &clock[..1], "summary = \"The time.\""),
        TOOLSETS.to_owned(),
    ]
}

fn toolsets(relay: &mut Relay) -> Vec<Value> {
    relay.call_direct("list_toolsets", json!({})).structured()["toolsets"].as_array().unwrap().clone()
}

fn column(lines: &Value, name: &str) -> Vec<String> {
    lines.as_array().unwrap().iter().map(|line| line[name].as_str().unwrap_or_default().to_owned()).collect()
}

/// A relay that knows all of its sources.
fn known(place: &Arc<Place>, settings: &str) -> Relay {
    let mut relay = Relay::greeted_in(place, settings, &sources(place));
    relay.list();
    eventually("all are listed", || {
        let all = relay.call_direct("list_sources", json!({})).structured();
        all["sources"].as_array().unwrap().iter().all(|source| source["tools"] != 0)
    });
    relay
}

#[test]
fn a_source_is_split_and_two_share_a_toolset() {
    let place = Place::new();
    let mut relay = known(&place, "");
    let lines = toolsets(&mut relay);
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            json!([line["id"], line["status"], line["tools"], line["withheld"], line["readOnly"], line["summary"]])
        })
        .collect();
    assert_eq!(
        told,
        [
            json!(["desk", "ready", 2, 0, false, "The time. Notes."]),
            json!(["hub", "ready", 2, 0, false, "The hub."]),
            json!(["issues", "ready", 2, 1, false, "Issues of the hub."]),
        ]
    );
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "issues"})).structured();
    assert_eq!(
        (column(&opened["tools"], "tool"), &opened["toolset"]["id"]),
        (vec!["issue_list".into(), "issue_new".into()], &json!("issues"))
    );
    assert_eq!(
        (column(&opened["withheld"], "tool"), column(&opened["withheld"], "source")),
        (vec!["delete_issue".to_owned()], vec!["hub".to_owned()])
    );
    assert!(opened["next"].as_str().unwrap().contains(r#""source":"hub""#), "{opened}");
    let desk = relay.call_direct("enable_toolset", json!({"toolset": "Desk"})).structured();
    assert_eq!(column(&desk["tools"], "source"), ["clock", "notes"]);
    assert_eq!(column(&desk["tools"], "name"), ["clock__now", "notes__read"]);
    assert!(desk["next"].as_str().unwrap().contains("its source"), "{desk}");
    let names = relay.names()[6..].to_vec();
    assert_eq!(names, ["clock__now", "hub__issue_list", "hub__issue_new", "notes__read"]);
    // What is open of a source is told where sources are spoken of.
    let all = relay.call_direct("list_sources", json!({})).structured();
    let enabled: Vec<_> =
        all["sources"].as_array().unwrap().iter().map(|line| json!([line["id"], line["enabled"]])).collect();
    assert_eq!(enabled, [json!(["clock", true]), json!(["hub", false]), json!(["notes", true])]);
    assert_eq!(relay.call_direct("hub__issue_new", json!({"n": 1})).structured(), json!({"n": 1}));
    relay.finish();
}

#[test]
fn toolsets_open_close_and_are_remembered() {
    let place = Place::new();
    let mut relay = known(&place, "remember = true");
    relay.notices.clear();
    relay.call_direct("enable_toolset", json!({"toolset": "issues"}));
    relay.call_direct("enable_toolset", json!({"toolset": "issues"}));
    relay.await_notices("the change", |notices| !notices.is_empty());
    relay.listen(Duration::from_millis(1300));
    assert_eq!(relay.noticed(CHANGED), 1);
    relay.call_direct("enable_toolset", json!({"toolset": "hub"}));
    let names = relay.names();
    assert_eq!(names[6..], ["hub__issue_list", "hub__issue_new", "hub__pull_list", "hub__whoami"]);
    relay.finish();

    let mut relay = known(&place, "remember = true");
    assert_eq!(relay.names(), names);
    relay.call_direct("load_tools", json!({"tools": ["notes/read"]}));
    let closed = relay.call_direct("disable_toolset", json!({"toolset": "issues"})).structured();
    assert_eq!((&closed["closed"], &closed["toolset"]["enabled"]), (&json!(2), &json!(false)));
    assert_eq!(relay.names()[6..], ["hub__pull_list", "hub__whoami", "notes__read"]);
    // A single tool leaves with its toolset, which was not open as a whole.
    assert_eq!(relay.call_direct("disable_toolset", json!({"toolset": "desk"})).structured()["closed"], 1);
    assert_eq!(relay.names()[6..], ["hub__pull_list", "hub__whoami"]);
    // A source whose tools are all elsewhere is understood; one that does not exist is not.
    assert_eq!(relay.call_direct("enable_toolset", json!({"toolset": "notes"})).structured()["toolset"]["id"], "desk");
    let (kind, text) = relay.call_direct("enable_toolset", json!({"toolset": "isues"})).failure();
    assert!(kind == "unknown_source" && text.contains("issues"), "{text}");
    relay.finish();
}

#[test]
fn searches_and_calls_take_toolsets_too() {
    let place = Place::new();
    let mut relay = known(&place, "");
    let mut find = |arguments: Value| relay.call_direct("find_tools", arguments).structured();
    let names = |found: &Value| column(&found["matches"], "tool");
    assert_eq!(names(&find(json!({"source": "issues"}))), ["issue_list", "issue_new"]);
    assert_eq!(names(&find(json!({"source": "desk"}))), ["now", "read"]);
    // The source is all of the source.
    assert_eq!(names(&find(json!({"source": "hub"}))), ["issue_list", "issue_new", "pull_list", "whoami"]);
    let found = find(json!({"source": "issues", "query": "list delete"}));
    assert_eq!(
        (names(&found), column(&found["withheld"], "tool")),
        (vec!["issue_list".into()], vec!["delete_issue".into()])
    );
    // Named as a whole, its tools come first.
    assert_eq!(names(&find(json!({"query": "desk"}))), ["now", "read"]);
    assert_eq!(names(&find(json!({"query": "Hub-Issues"})))[..2], ["issue_list", "issue_new"]);
    let (kind, text) = relay.call_direct("find_tools", json!({"source": "desks"})).failure();
    assert!(kind == "unknown_source" && text.contains("desk"), "{text}");

    assert_eq!(relay.call("desk", "now", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(relay.call("desk", "notes/read", json!({"a": 2})).structured(), json!({"a": 2}));
    assert_eq!(relay.call("issues", "issue_new", json!({"a": 3})).structured(), json!({"a": 3}));
    let (kind, text) = relay.call("desk", "nwo", json!({})).failure();
    assert!(kind == "unknown_tool" && text.contains("toolset `desk`"), "{text}");
    assert_eq!(relay.call("issues", "delete_issue", json!({})).failure().0, "withheld");
    relay.finish();
}

#[test]
fn a_name_that_two_sources_of_a_toolset_have_is_not_guessed() {
    let place = Place::new();
    let sources = [
        listing(&place, "a", &["same", "one"], ""),
        listing(&place, "b", &["same"], ""),
        "[toolset.both]\ntools = [\"*/*\"]\n".to_owned(),
    ];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    relay.call("a", "one", json!({}));
    relay.call("b", "same", json!({}));
    let (kind, text) = relay.call("both", "same", json!({})).failure();
    assert!(kind == "invalid_arguments" && text.contains("a/same") && text.contains("b/same"), "{text}");
    assert_eq!(relay.call("both", "one", json!({"x": 1})).structured(), json!({"x": 1}));
    let lines = toolsets(&mut relay);
    assert_eq!((lines.len(), &lines[0]["tools"]), (1, &json!(3)));
    relay.finish();
}

/// One source that cannot be started does not keep the others of its toolset back.
#[test]
fn a_shared_toolset_opens_without_the_source_that_fails() {
    let place = Place::new();
    let sources = [
        listing(&place, "good", &["one"], ""),
        support::command("gone", "/nonexistent/program", &[], ""),
        source("off", &[], "enabled = false"),
        "[toolset.mixed]\ntools = [\"good/*\", \"gone/*\", \"off/*\"]\n[toolset.dead]\ntools = [\"gone/x\"]\n"
            .to_owned(),
    ];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "mixed"})).structured();
    assert_eq!(column(&opened["tools"], "name"), ["good__one"]);
    assert_eq!(column(&opened["unavailable"], "source"), ["gone", "off"]);
    assert_eq!(opened["toolset"]["status"], "ready");
    relay.finish();
}

#[test]
fn a_cold_start_tells_what_a_loaded_catalog_tells() {
    let place = Place::new();
    let texts = |relay: &mut Relay| (relay.greet()["instructions"].clone(), relay.list());
    let mut relay = known(&place, "");
    let list = relay.list();
    let revision = relay.call_direct("list_toolsets", json!({})).structured()["revision"].clone();
    relay.finish();
    for id in ["hub", "notes", "clock"] {
        place.write(&format!("{id}.journal"), "");
    }
    let mut relay = Relay::start_in(&place, "", &sources(&place));
    let cold = texts(&mut relay);
    assert_eq!(cold.1, list);
    assert_eq!(relay.call_direct("list_toolsets", json!({})).structured()["revision"], revision);
    assert_eq!(texts(&mut relay), cold);
    assert!(
        list.contains("issues: Issues of the hub.")
            && list.contains("desk: The time. Notes.")
            && !list.contains("notes:"),
        "{list}"
    );
    assert!(place.lines("hub.journal").is_empty());
    relay.finish();
}

#[test]
fn the_menu_stays_small_with_many_toolsets() {
    let long = "summary = \"Repositories, \\\"pull requests\\\", issues, Ünïcödé and code search for the app's workspace, at length.\"";
    let off = format!("{long}\nenabled = false");
    let mut sources: Vec<_> = (0..1000).map(|n| source(&format!("source-number-{n}"), &[], &off)).collect();
    for n in 0..50 {
        let split = format!("\"source-number-{n}/a*\", \"source-number-{n}/b*\"");
        let shared = format!("\"source-number-{n}?/*\"");
        let globs = if n % 2 == 0 { split } else { shared };
        sources.push(format!("[toolset.set-number-{n}]\n{long}\ntools = [{globs}]\n"));
    }
    let mut relay = Relay::start("", &sources);
    let start = Instant::now();
    let instructions = relay.greet()["instructions"].as_str().unwrap().to_owned();
    assert!(instructions.len() <= 2048, "{}", instructions.len());
    let list = relay.list();
    assert!(list.len() <= MENU_MAX, "{} bytes", list.len());
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    let ids: BTreeSet<String> = toolsets(&mut relay).iter().map(|line| line["id"].to_string()).collect();
    // Of 1,000 sources, 10 for each of 25 toolsets have none of their own (1 to 99 in tens; the first of each once).
    let shared: usize = (0..50).filter(|n| n % 2 == 1).map(|n| (0..1000).filter(|m| is_in(n, *m)).count()).sum();
    assert_eq!(ids.len(), 1000 + 50 - shared);
    relay.finish();
}

/// Whether `source-number-N?` fits the source's number.
fn is_in(n: usize, source: usize) -> bool {
    let (n, source) = (n.to_string(), source.to_string());
    source.len() == n.len() + 1 && source.starts_with(&n)
}

/// Tools with categories of each kind: by the configuration, by their `_meta`, by their names.
fn categorized(place: &Place) -> Vec<String> {
    let tool = |name: String, meta: Value| json!({"name": name, "description": "Does something.", "inputSchema": {"type": "object"}, "_meta": meta});
    let mut tools: Vec<_> = ["create", "list", "get", "delete", "rename"]
        .iter()
        .flat_map(|verb| {
            ["clients", "firewall_rule", "vouchers"].map(|thing| tool(format!("acme_{verb}_{thing}"), json!({})))
        })
        .collect();
    tools.push(tool("acme_told".to_owned(), json!({"com.acme/category": "Told"})));
    tools.push(tool("acme_tagged".to_owned(), json!({"tags": ["tagged", "x"]})));
    tools.push(tool("acme_reboot".to_owned(), json!({})));
    let file = place.write("acme.json", Value::from(tools).to_string());
    let settings = "category.danger.tools = [\"*_delete_*\"]\ntool.acme_list_clients.hidden = true";
    vec![source("acme", &["--tools-json", &file], settings), listing(place, "notes", &["client"], "")]
}

#[test]
fn categories_filter_lead_and_are_counted() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &categorized(&place));
    relay.call("acme", "acme_told", json!({}));
    relay.call("notes", "client", json!({}));
    let lines = toolsets(&mut relay);
    assert_eq!(
        lines[0]["categories"],
        json!({"Told": 1, "clients": 3, "danger": 3, "firewall": 4, "tagged": 1, "vouchers": 4})
    );
    assert!(lines[1].get("categories").is_none());
    let mut find = |arguments: Value| relay.call_direct("find_tools", arguments).structured();
    let names = |found: &Value| column(&found["matches"], "tool");
    let clients = ["acme_create_clients", "acme_get_clients", "acme_rename_clients"];
    let found = find(json!({"category": "clients"}));
    assert_eq!((names(&found), &found["total"]), (clients.map(str::to_owned).to_vec(), &json!(3)));
    assert_eq!(column(&found["matches"], "category"), ["clients"; 3]);
    assert_eq!(names(&find(json!({"category": "DANGER", "query": "firewall"}))), ["acme_delete_firewall_rule"]);
    // The exact name of a category leads, whatever else has that word.
    let lead = find(json!({"query": "clients", "limit": 50}));
    assert_eq!(names(&lead)[..3].iter().collect::<BTreeSet<_>>(), clients.map(str::to_owned).iter().collect());
    assert!(names(&lead).contains(&"client".to_owned()));
    let scores: Vec<_> =
        lead["matches"].as_array().unwrap().iter().map(|line| line["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    assert_eq!(names(&find(json!({"query": " \"told\" "})))[0], "acme_told");
    let (kind, text) = relay.call_direct("find_tools", json!({"category": "cleint"})).failure();
    assert!(kind == "invalid_arguments" && text.contains("firewall"), "{text}");
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "acme", "detail": "brief"})).structured();
    let reboot = opened["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "acme_reboot").unwrap();
    assert!(reboot.get("category").is_none() && opened["toolset"]["categories"]["clients"] == 3, "{opened}");
    relay.finish();
}

#[test]
fn pages_of_a_category_hold_each_tool_once() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &categorized(&place));
    relay.call("acme", "acme_told", json!({}));
    for arguments in [
        json!({"category": "vouchers"}),
        json!({"query": "vouchers"}),
        json!({"category": "vouchers", "query": "acme"}),
    ] {
        let (mut seen, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let mut arguments = arguments.clone();
            arguments["cursor"] = cursor;
            arguments["limit"] = json!(2);
            let page = relay.call_direct("find_tools", arguments).structured();
            seen.extend(column(&page["matches"], "tool"));
            match page.get("nextCursor") {
                Some(next) => cursor = next.clone(),
                None => break assert_eq!(page["total"], seen.len(), "{page}"),
            }
        }
        let vouchers = seen[..4].iter().filter(|tool| tool.ends_with("vouchers") && !tool.contains("delete")).count();
        assert_eq!((vouchers, seen.iter().collect::<BTreeSet<_>>().len()), (4, seen.len()), "{seen:?}");
    }
    relay.finish();
}

#[test]
fn the_command_line_knows_categories() {
    let place = Place::new();
    let mut sources = categorized(&place);
    sources.push("[toolset.small]\ntools = [\"notes/*\"]\n".to_owned());
    place.command("", &sources);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolrelay"));
        command.args(arguments).args(["--config", &place.path("sources.toml"), "--log", "off"]);
        let output = command.env("TMPDIR", place.path("")).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, all, _) = run(&["tools"]);
    assert!(code == 0 && all.lines().next().unwrap().contains("CATEGORY") && all.contains("  firewall  "), "{all}");
    let (_, plain, _) = run(&["tools", "notes"]);
    assert!(!plain.contains("CATEGORY"), "{plain}");
    let (_, json, _) = run(&["tools", "--category", "clients", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(column(&report["tools"], "category"), ["clients"; 3]);
    let (code, _, error) = run(&["tools", "--category", "cleint"]);
    assert!(code == 1 && error.contains("no category `cleint`") && error.contains("firewall"), "{error}");
    let (_, found, _) = run(&["find", "delete", "--category", "danger", "--json"]);
    assert!(found.contains("acme_delete_vouchers") && !found.contains("acme_get_vouchers"), "{found}");
    let (code, found, _) = run(&["find", "client", "--source", "small", "--json"]);
    assert!(code == 0 && found.contains("\"notes\"") && !found.contains("acme"), "{found}");
    let (_, found, _) = run(&["find", "voucher", "--limit", "2"]);
    assert!(found.contains("CATEGORY") && found.matches("  vouchers  ").count() == 2, "{found}");
}

/// A search right after the start found nothing, as nothing was listed yet.
#[test]
fn a_first_search_waits_for_the_first_listing() {
    let place = Place::new();
    let sources =
        [source("slow", &["--start-delay-ms", "1000", "--tools", "frobnicate"], ""), source("mute", &["--mute"], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    let found = relay.call_direct("find_tools", json!({"query": "frobnicate"})).structured();
    assert_eq!(column(&found["matches"], "tool")[0], "frobnicate", "{found}");
    assert_eq!(column(&found["unavailable"], "source"), ["mute"]);
    // With something known, no search waits for the rest; one in a source that was never listed does, and not for long.
    let start = Instant::now();
    relay.call_direct("find_tools", json!({"query": "frobnicate"}));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let start = Instant::now();
    let found = relay.call_direct("find_tools", json!({"query": "frobnicate", "source": "mute"})).structured();
    assert_eq!((&found["total"], column(&found["unavailable"], "source")), (&json!(0), vec!["mute".to_owned()]));
    assert!((2..5).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    relay.finish();
}

#[test]
fn a_search_in_a_source_waits_for_that_source() {
    let sources =
        [source("quick", &[], ""), source("slow", &["--start-delay-ms", "1500", "--tools", "frobnicate"], "")];
    let mut relay = Relay::greeted("", &sources);
    relay.call("quick", "echo", json!({}));
    let found = relay.call_direct("find_tools", json!({"query": "frobnicate"})).structured();
    assert_eq!(column(&found["unavailable"], "source"), ["slow"]);
    let found = relay.call_direct("find_tools", json!({"query": "frobnicate", "source": "slow"})).structured();
    assert_eq!(column(&found["matches"], "tool")[0], "frobnicate", "{found}");
    relay.finish();
}
