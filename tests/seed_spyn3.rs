//! Toolsets revealed on demand, as SPYN3 does it: source first, tool second. Its four failure cases, with real clients and
//! a raw one: the first turn, the stale client, the permission that does not fit, the source that is down.

#![allow(clippy::unwrap_used)]

#[path = "support/peer.rs"]
mod peer;
#[path = "support/relay.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use peer::{CLIENTS, client, names, relay};
use serde_json::{Value, json};
use support::{Place, Relay, command, eventually};

const MENU: [&str; 6] =
    ["list_sources", "list_toolsets", "enable_toolset", "disable_toolset", "find_tools", "call_tool"];
const CHANGED: &str = "notifications/tools/list_changed";

/// Four drawers of three providers: an open one, one that may only be read, one with a denied tool, one that is down.
fn drawers(place: &Place) -> Vec<String> {
    let file = place.write(
        "ledger.json",
        json!([
            {"name": "post_entry", "description": "Posts an entry to the ledger. Cannot be undone.",
             "inputSchema": {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}},
            {"name": "get_balance", "description": "The balance of an account.", "annotations": {"readOnlyHint": true},
             "inputSchema": {"type": "object", "properties": {"account": {"type": "string"},
                "currency": {"enum": ["EUR", "USD"], "default": "EUR"}}, "required": ["account"]}},
        ])
        .to_string(),
    );
    let crm = ["--tools", "create_contact,get_contact,delete_contact"];
    vec![
        place.journaled("tasks", &["--tools", "add_task"], "provider = \"wonder\"\nsummary = \"Tasks and reminders.\""),
        place.journaled(
            "ledger",
            &["--tools-json", &file],
            "provider = \"acme\"\nsummary = \"Bookings and balances.\"\nread_only = true",
        ),
        place.journaled("crm", &crm, "provider = \"acme\"\nsummary = \"Customers.\"\ndeny = [\"delete_*\"]"),
        command(
            "archive",
            support::fixture().to_str().unwrap(),
            &["--exit-at-once", "3"],
            "provider = \"museum\"\nsummary = \"Old documents.\"",
        ),
    ]
}

/// A folder with that configuration.
fn place() -> (Arc<Place>, String) {
    let place = Place::new();
    let sources = drawers(&place);
    let config = place.config("", &sources);
    (place, config)
}

/// Asks `name` for its structured content.
#[track_caller]
fn ask(relay: &mut Relay, name: &str, arguments: Value) -> Value {
    relay.call_direct(name, arguments).structured()
}

/// Case one: the first turn lists the drawers, opens one, and calls what the reply named, before any list was read again.
#[test]
fn the_first_turn_lists_opens_and_calls() {
    for (script, mode, protocol) in CLIENTS {
        let (place, config) = place();
        let calls = json!([
            {"name": "list_toolsets", "arguments": {}},
            {"name": "enable_toolset", "arguments": {"toolset": "ledger"}},
            {"name": "ledger__get_balance", "arguments": {"account": "rent"}},
        ]);
        let settings = [("WAIT_CHANGED", "1".to_owned()), ("SETTLE_MS", "1300".to_owned())];
        let seen = client(script, mode, &relay(&config), &settings, &calls);
        assert_eq!((&seen["protocol"], names(&seen["tools"])), (&json!(protocol), MENU.to_vec()), "{seen}");
        let drawers = &seen["results"][0]["structuredContent"]["toolsets"];
        let ids: Vec<_> = drawers.as_array().unwrap().iter().map(|line| line["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["crm", "ledger", "archive", "tasks"], "{script} {mode}");
        // Names and argument shapes come with the opening.
        let opened = &seen["results"][1]["structuredContent"];
        assert_eq!(opened["toolset"]["enabled"], true);
        let tool = &opened["tools"][0];
        assert_eq!(
            (&tool["name"], &tool["signature"]),
            (&json!("ledger__get_balance"), &json!("(account*: string, currency: \"EUR\"|\"USD\" = \"EUR\")"))
        );
        assert_eq!(seen["results"][2]["structuredContent"], json!({"account": "rent"}), "{seen}");
        assert_eq!(names(&seen["toolsAfter"]), [&MENU[..], &["ledger__get_balance"]].concat());
        // The Python SDK gives what one listener and one handler hear; it is one change all the same.
        assert_eq!(seen["listChanged"], 1, "{script} {mode}");
        assert_eq!(place.journal_count("ledger.journal", "tools/call"), 1);
    }
}

/// Case two: a client that read its list once reaches everything that was opened, or was not, through `call_tool`.
#[test]
fn a_stale_client_calls_through_the_dispatcher() {
    for (script, mode, _) in CLIENTS {
        let (_place, config) = place();
        let calls = json!([
            {"name": "find_tools", "arguments": {"query": "balance of an account"}},
            {"name": "enable_toolset", "arguments": {"toolset": "crm"}},
            {"name": "call_tool", "arguments": {"source": "crm", "tool": "create_contact", "arguments": {"name": "Ada"}}},
            {"name": "call_tool", "arguments": {"source": "tasks", "tool": "add_task", "arguments": {"title": "call Ada"}}},
            {"name": "disable_toolset", "arguments": {"toolset": "crm"}},
            {"name": "call_tool", "arguments": {"source": "crm", "tool": "get_contact", "arguments": {"name": "Ada"}}},
        ]);
        let seen = client(script, mode, &relay(&config), &[], &calls);
        assert_eq!(names(&seen["tools"]), MENU);
        assert!(seen.get("toolsAfter").is_none());
        let structured = |at: usize| &seen["results"][at]["structuredContent"];
        assert_eq!(structured(1)["toolset"]["enabled"], true, "{seen}");
        assert_eq!(structured(2), &json!({"name": "Ada"}));
        assert_eq!(structured(3), &json!({"title": "call Ada"}));
        assert_eq!(structured(4)["toolset"]["enabled"], false);
        assert_eq!(structured(5), &json!({"name": "Ada"}));
    }
}

/// Case three: what may not be called is counted, named and refused, and its source never hears of it.
#[test]
fn what_is_not_permitted_never_reaches_its_source() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &drawers(&place));
    for (drawer, tool, why) in [("ledger", "post_entry", "write tool"), ("crm", "delete_contact", "deny = [")] {
        let opened = ask(&mut relay, "enable_toolset", json!({"toolset": drawer}));
        let withheld = opened["withheld"].as_array().unwrap();
        let line = withheld.iter().find(|line| line["tool"] == tool).unwrap_or_else(|| panic!("{opened}"));
        assert!(line["reason"].as_str().unwrap().contains(why), "{line}");
        assert!(opened["tools"].as_array().unwrap().iter().all(|line| line["tool"] != tool));
        let toolsets = ask(&mut relay, "list_toolsets", json!({}));
        let told = toolsets["toolsets"].as_array().unwrap().iter().find(|line| line["id"] == drawer).unwrap().clone();
        assert_eq!((&told["withheld"], &told["readOnly"]), (&json!(withheld.len()), &json!(drawer == "ledger")));
        assert_eq!(relay.status(drawer)["withheld"], withheld.len());

        let direct = format!("{drawer}__{tool}");
        assert!(!relay.names().contains(&direct));
        let inner = json!({"source": drawer, "tool": tool, "arguments": {"amount": 1}});
        let refusals =
            [relay.call_direct("call_tool", inner.clone()), relay.call_direct(&direct, json!({"amount": 1}))];
        for refusal in refusals {
            let (kind, text) = refusal.failure();
            assert!(kind == "withheld" && text.contains(why) && text.contains("sources.toml"), "{text}");
        }
        let batch = ask(&mut relay, "batch_call", json!({"calls": [inner]}));
        assert_eq!(batch["results"][0]["error"]["kind"], "withheld", "{batch}");
        let loaded = ask(&mut relay, "load_tools", json!({"tools": [format!("{drawer}/{tool}")]}));
        assert_eq!(loaded["failed"][0]["kind"], "withheld", "{loaded}");
    }
    let found = ask(&mut relay, "find_tools", json!({"query": "post an entry to the ledger"}));
    assert!(found["withheld"].to_string().contains("post_entry"), "{found}");
    assert_eq!(relay.call("ledger", "get_balance", json!({"account": "x"})).structured(), json!({"account": "x"}));
    relay.finish();
    assert_eq!(place.journal_count("ledger.journal", "tools/call"), 1);
    assert_eq!(place.journal_count("crm.journal", "tools/call"), 0);
}

/// Case four: a source that is down stays where it was, with its state and the reason; nobody else notices.
#[test]
fn a_source_that_is_down_stays_listed() {
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &drawers(&place));
    let line = relay.await_status("archive", "unreachable");
    assert!(line["reason"].as_str().unwrap().contains("API_TOKEN missing (got ***)"), "{line}");
    assert!(line["since"].as_str().unwrap().ends_with('Z'));
    for ask in [json!({"toolset": "archive"}), json!({"toolset": "archive", "detail": "brief"})] {
        let (kind, text) = relay.call_direct("enable_toolset", ask).failure();
        assert!(kind == "unavailable" && text.contains("archive"), "{kind}: {text}");
    }
    let (kind, text) = relay.call("archive", "read", json!({})).failure();
    assert!(kind == "unavailable" && text.contains("archive"), "{kind}: {text}");
    let found = ask(&mut relay, "find_tools", json!({"query": "old documents"}));
    assert_eq!(found["unavailable"][0]["source"], "archive", "{found}");
    assert_eq!(relay.call("tasks", "add_task", json!({"n": 1})).structured(), json!({"n": 1}));
    let opened = ask(&mut relay, "enable_toolset", json!({"toolset": "tasks"}));
    assert_eq!(opened["toolset"]["status"], "ready");
    assert_eq!(relay.call_direct("tasks__add_task", json!({"n": 2})).structured(), json!({"n": 2}));
    relay.finish();
}

/// Sorted by provider and id: neither what was used last nor what is down or open moves a drawer.
#[test]
fn the_order_does_not_follow_use_or_health() {
    const ORDER: [&str; 4] = ["crm", "ledger", "archive", "tasks"];
    let place = Place::new();
    let mut relay = Relay::greeted_in(&place, "", &drawers(&place));
    relay.await_status("archive", "unreachable");
    eventually("all others are listed", || ["crm", "ledger", "tasks"].iter().all(|id| relay.status(id)["tools"] != 0));
    let ids = |listed: &Value, of: &str| -> Vec<String> {
        listed[of].as_array().unwrap().iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
    };
    let before = ask(&mut relay, "list_sources", json!({}));
    assert_eq!(ids(&before, "sources"), ORDER);
    relay.call("tasks", "add_task", json!({}));
    ask(&mut relay, "enable_toolset", json!({"toolset": "tasks"}));
    relay.call("tasks", "die", json!({"code": 1}));
    relay.call("crm", "get_contact", json!({}));
    let after = ask(&mut relay, "list_sources", json!({}));
    assert_eq!((ids(&after, "sources"), &after["revision"]), (ORDER.map(str::to_owned).to_vec(), &before["revision"]));
    let toolsets = ask(&mut relay, "list_toolsets", json!({}));
    assert_eq!((ids(&toolsets, "toolsets"), &toolsets["revision"]), (ids(&before, "sources"), &before["revision"]));
    // A drawer is told in routing facts: who, whose, reachable or not, open or not, what may be done, what it is for.
    let mut keys: Vec<_> = toolsets["toolsets"][0].as_object().unwrap().keys().cloned().collect();
    keys.sort();
    assert_eq!(keys, ["enabled", "id", "provider", "readOnly", "status", "summary", "tools", "withheld"]);
    // One that opens twice is told of once.
    relay.listen(Duration::from_millis(1200));
    assert_eq!(relay.noticed(CHANGED), 1);
    relay.finish();
}

/// The log tells source and tool as fields of their own, on every path, and arguments only at `trace`.
#[test]
fn the_log_tells_who_was_called_and_not_with_what() {
    for level in ["debug", "trace"] {
        let place = Place::new();
        let mut relay = Relay::spawn(&place, place.command_logged("", &drawers(&place), level));
        relay.greet();
        relay.call("crm", "create_contact", json!({"note": "violet-giraffe"}));
        relay.call_direct("tasks__add_task", json!({"note": "violet-giraffe", "token": "sk-live-abcdef1234567890"}));
        let calls = json!([{"source": "ledger", "tool": "get_balance", "arguments": {"account": "violet-giraffe"}}]);
        ask(&mut relay, "batch_call", json!({"calls": calls}));
        for called in ["source=crm tool=create_contact", "source=tasks tool=add_task", "source=ledger tool=get_balance"]
        {
            eventually("the call is logged", || relay.stderr().contains(&format!("call {called}")));
        }
        if level == "trace" {
            let told = || relay.stderr().matches("arguments=").count() == 3;
            eventually("the arguments are logged, each as a field", told);
        }
        let log = relay.stderr();
        assert_eq!(log.contains("violet-giraffe"), level == "trace", "{log}");
        assert!(!log.contains("abcdef1234567890"), "{log}");
        relay.finish();
    }
}
