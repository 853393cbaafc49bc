//! Progressive disclosure, as zaileys-mcp does it, with its own recorded tools: a core set that is always there, and
//! `find_tools`, which activates what it finds, so that it can be called on the very next step.

#![allow(clippy::unwrap_used)]

#[path = "support/peer.rs"]
mod peer;
#[path = "support/relay.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use peer::{CLIENTS, client, names, relay};
use serde_json::{Value, json};
use support::{Place, Relay, eventually, replay, shared};

const CHANGED: &str = "notifications/tools/list_changed";
/// What zaileys itself shows at first besides its `find_tools`.
const CORE: [&str; 3] = ["wa/connection_status", "wa/send_text", "wa/list_chats"];
const MENU: [&str; 2] = ["find_tools", "call_tool"];
/// MENU and CORE as they are listed.
const FIRST: [&str; 5] = ["find_tools", "call_tool", "connection_status", "list_chats", "send_text"];

/// Lines of `[relay]`: the exposure, if it is set here, and the core set.
fn settings(exposure: Option<&str>) -> String {
    let exposure = exposure.map(|name| format!("exposure = {name:?}\n")).unwrap_or_default();
    format!("{exposure}always_visible = {CORE:?}")
}

fn whatsapp(place: &Place) -> Vec<String> {
    let tools = shared("catalogs/zaileys-full.tools.json");
    vec![replay(place, "wa", &tools, &[], "prefix = \"\"\nsummary = \"WhatsApp: chats, groups, channels.\"")]
}

/// A place whose relay knows the tools already, as after its first run.
fn known(exposure: Option<&str>) -> Arc<Place> {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, &settings(exposure), &whatsapp(&place));
    relay.call("wa", "me", json!({}));
    relay.finish();
    place
}

/// Two calls: one that finds, one of what was found. The client did nothing between them.
#[test]
fn what_is_found_is_called_on_the_next_step() {
    let place = known(Some("progressive"));
    let config = place.path("sources.toml");
    for (script, mode, protocol) in CLIENTS {
        place.write("wa.journal", "");
        let calls = json!([
            {"name": "find_tools", "arguments": {"query": "create a new group with participants"}},
            {"name": "group_create", "arguments": {"subject": "Hiking", "participants": ["628"]}},
        ]);
        let changed = [("WAIT_CHANGED", "1".to_owned()), ("SETTLE_MS", "1300".to_owned())];
        let seen = client(script, mode, &relay(&config), &changed, &calls);
        assert_eq!(seen["protocol"], *protocol);
        assert_eq!(names(&seen["tools"]), FIRST, "{script} {mode}");
        let found = seen["results"][0]["structuredContent"]["matches"].as_array().unwrap();
        let best = &found[0];
        assert_eq!((&best["tool"], &best["name"]), (&json!("group_create"), &json!("group_create")), "{seen}");
        assert!(found.len() > 1 && found.iter().all(|line| line["enabled"] == true), "{found:?}");
        assert_eq!(seen["results"][1]["structuredContent"], calls[1]["arguments"], "{script} {mode}");
        // Many tools joined the list, and that was one change.
        let mut want: Vec<_> = found.iter().map(|line| line["name"].as_str().unwrap()).collect();
        want.extend(FIRST);
        want.sort_unstable();
        want.dedup();
        let mut after = names(&seen["toolsAfter"]);
        after.sort_unstable();
        assert_eq!(after, want, "{script} {mode}");
        assert_eq!(seen["listChanged"], 1, "{script} {mode}");
        assert_eq!(place.journal_count("wa.journal", "tools/call"), 1);
    }
}

/// A group of tools is found by its name alone, as by a description.
#[test]
fn a_group_is_found_by_its_name() {
    let place = known(Some("progressive"));
    let mut relay = Relay::greeted_in(&place, &settings(Some("progressive")), &whatsapp(&place));
    assert_eq!(relay.names(), FIRST);
    let mut shown = FIRST.len();
    for group in ["community", "newsletter", "business"] {
        let found = relay.call_direct("find_tools", json!({"query": group, "limit": 3})).structured();
        let matches = found["matches"].as_array().unwrap();
        assert_eq!(matches.len(), 3, "{found}");
        for line in matches {
            let tool = line["tool"].as_str().unwrap();
            assert!(tool.starts_with(group), "{group}: {found}");
            assert_eq!(relay.call_direct(tool, json!({"of": group})).structured(), json!({"of": group}));
        }
        shown += 3;
        assert_eq!(relay.names().len(), shown);
    }
    // Found again, nothing is new, and nobody is told.
    relay.listen(Duration::from_millis(1200));
    let told = relay.noticed(CHANGED);
    assert!((1..=3).contains(&told), "{told}");
    relay.call_direct("find_tools", json!({"query": "community", "limit": 3}));
    relay.listen(Duration::from_millis(1200));
    assert_eq!((relay.noticed(CHANGED), relay.names().len()), (told, shown));
    relay.finish();
}

/// What is active already is no match that would push another out: it is marked, and stays.
#[test]
fn the_core_stays_whatever_is_found_or_closed() {
    let place = known(Some("progressive"));
    let mut relay = Relay::greeted_in(&place, &settings(Some("progressive")), &whatsapp(&place));
    assert_eq!(relay.names(), FIRST);
    let found = relay.call_direct("find_tools", json!({"query": "send a text message", "limit": 5})).structured();
    assert!(found["matches"].as_array().unwrap().iter().any(|line| line["tool"] == "send_text"), "{found}");
    assert!(relay.names().len() > FIRST.len());
    relay.call_direct("disable_toolset", json!({"toolset": "wa"}));
    assert_eq!(relay.names(), FIRST);
    assert_eq!(relay.call_direct("send_text", json!({"to": "628"})).structured(), json!({"to": "628"}));
    relay.finish();
}

/// The other two strategies: everything at once, or an explicit list and nothing more.
#[test]
fn everything_or_an_explicit_list() {
    let place = known(Some("eager"));
    let recorded = std::fs::read_to_string(shared("catalogs/zaileys-full.tools.json")).unwrap();
    let recorded: Vec<Value> = serde_json::from_str(&recorded).unwrap();
    let mut relay = Relay::greeted_in(&place, &settings(Some("eager")), &whatsapp(&place));
    let mut want: Vec<_> = recorded.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    want.sort_unstable();
    assert_eq!(relay.names(), [&["list_sources", "find_tools", "call_tool"], &want[..]].concat());
    relay.finish();

    let explicit = format!("{}\nmenu = [\"call_tool\"]", settings(Some("meta-only")));
    let mut relay = Relay::greeted_in(&place, &explicit, &whatsapp(&place));
    let shown = [&["call_tool"], &FIRST[2..]].concat();
    assert_eq!(relay.names(), shown);
    relay.call_direct("find_tools", json!({"query": "create a group"}));
    assert_eq!(relay.names(), shown);
    assert_eq!(relay.call("wa", "group_create", json!({"n": 1})).structured(), json!({"n": 1}));
    relay.finish();
}

/// The strategy comes from the file, over it from the environment, over that from the command line.
#[test]
fn the_strategy_is_chosen_by_file_environment_and_flag() {
    let place = known(Some("progressive"));
    let menu_of = |relay: &mut Relay| -> Vec<String> {
        let own = ["list_sources", "list_toolsets", "enable_toolset", "disable_toolset", "find_tools", "load_tools"];
        let own = [&own[..], &["call_tool", "batch_call", "batch_status"]].concat();
        relay.names().into_iter().filter(|name| own.contains(&name.as_str())).collect()
    };
    const LAZY: [&str; 5] = ["find_tools", "load_tools", "call_tool", "batch_call", "batch_status"];
    const META: [&str; 4] = ["find_tools", "call_tool", "batch_call", "batch_status"];
    for (variable, flag, want) in [
        (None, None, &MENU[..]),
        (Some("lazy"), None, &LAZY[..]),
        (Some("lazy"), Some("meta-only"), &META[..]),
        (None, Some("lazy"), &LAZY[..]),
    ] {
        let mut command = place.command(&settings(Some("progressive")), &whatsapp(&place));
        command.env_remove("TOOLRELAY_EXPOSURE").envs(variable.map(|name| ("TOOLRELAY_EXPOSURE", name)));
        command.args(flag.iter().flat_map(|name| ["--exposure", name]));
        let mut relay = Relay::spawn(&place, command);
        relay.greet();
        assert_eq!(menu_of(&mut relay), want, "{variable:?} {flag:?}");
        relay.finish();
    }
    // A name that is none is refused, with those there are.
    let mut command = place.command("", &whatsapp(&place));
    let output = command.env("TOOLRELAY_EXPOSURE", "everything").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("progressive") && said.contains("meta-only"), "{said}");
    // With real clients: what passes their environment on to the relay chooses for them.
    let environment = [("TOOLRELAY_EXPOSURE", "toolsets".to_owned())];
    let config = place.config(&settings(Some("progressive")), &whatsapp(&place));
    let seen = client("client_v1.mjs", "", &relay(&config), &environment, &json!([]));
    assert_eq!(names(&seen["tools"])[..2], ["list_sources", "list_toolsets"]);
}

/// Every search of a long session together stays one list, told of at most once a second.
#[test]
fn a_burst_of_searches_is_told_once() {
    let place = known(Some("progressive"));
    let mut relay = Relay::greeted_in(&place, &settings(Some("progressive")), &whatsapp(&place));
    relay.names();
    let queries =
        ["mute a chat", "react to a message", "block a contact", "promote to group admin", "business catalog"];
    let ids: Vec<_> = queries
        .iter()
        .map(|query| relay.ask("tools/call", json!({"name": "find_tools", "arguments": {"query": query}})))
        .collect();
    for id in ids {
        assert!(relay.answer(&id).structured()["total"].as_u64() > Some(0));
    }
    relay.await_notices("the change", |notices| !notices.is_empty());
    let mut shown = relay.names();
    eventually("the list is as it stays", || {
        let now = relay.names();
        std::mem::replace(&mut shown, now.clone()) == now
    });
    relay.listen(Duration::from_millis(1300));
    assert!((1..=2).contains(&relay.noticed(CHANGED)), "{}", relay.noticed(CHANGED));
    relay.finish();
}
