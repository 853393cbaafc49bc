//! The five exposures: what each shows at first, what of it grows, and that all of them can do everything.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{AT_ONCE, Place, Relay, command, source};

const CHANGED: &str = "notifications/tools/list_changed";
/// The most that the relay's own tools may take in `tools/list`, in bytes: about 1,500 tokens.
const MENU_MAX: usize = 6_000;
/// Real clients cut the instructions, and each description, here.
const CUT: usize = 2_048;

/// Each exposure with its menu.
const EXPOSURES: &[(&str, &[&str])] = &[
    ("toolsets", &["list_sources", "list_toolsets", "enable_toolset", "disable_toolset", "find_tools", "call_tool"]),
    ("progressive", &["find_tools", "call_tool"]),
    ("lazy", &["find_tools", "load_tools", "call_tool", "batch_call", "batch_status"]),
    ("meta-only", &["find_tools", "call_tool", "batch_call", "batch_status"]),
    ("eager", &["list_sources", "find_tools", "call_tool"]),
];

/// The standing tools of the fixture, in the order in which they are listed.
const STANDING: [&str; 18] = [
    "ask",
    "big",
    "burst",
    "count",
    "cwd",
    "die",
    "echo",
    "env",
    "fail",
    "late",
    "ping_me",
    "raw",
    "raw_line",
    "sleep",
    "stderr",
    "stop_reading",
    "string_id",
    "tool_error",
];

fn relay_lines(exposure: &str) -> String {
    format!("exposure = {exposure:?}")
}

#[test]
fn each_shows_what_it_should() {
    let place = Place::new();
    let sources = [
        source("a", &["--tools", "x,y"], "deny = [\"y\"]\ntool.echo = { hidden = true }"),
        source("b", &["--tools", "x"], "prefix = \"bee\""),
    ];
    for (exposure, menu) in EXPOSURES {
        for visible in [false, true] {
            let core = if visible { "always_visible = [\"b/x\", \"a/y\"]" } else { "" };
            let mut relay = Relay::greeted_in(&place, &format!("{}\n{core}", relay_lines(exposure)), &sources);
            // With both known, the list is what it stays.
            relay.call("a", "x", json!({}));
            relay.call("b", "x", json!({}));
            let mut want: Vec<String> = menu.iter().map(|name| (*name).to_owned()).collect();
            if *exposure == "eager" {
                let shown = STANDING.iter().filter(|name| **name != "echo").map(|name| format!("a__{name}"));
                let mut all: Vec<_> = shown.chain(["a__x".to_owned()]).collect();
                all.extend(STANDING.iter().map(|name| format!("bee__{name}")).chain(["bee__x".to_owned()]));
                all.sort();
                want.extend(all);
            } else if visible {
                want.push("bee__x".to_owned());
            }
            assert_eq!(relay.names(), want, "{exposure}, always_visible: {visible}");
            relay.finish();
        }
    }
}

/// What grows in which exposure: by opening, by searching, by loading; nothing else does.
#[test]
fn lists_grow_only_by_what_is_meant_to_grow_them() {
    for (exposure, menu) in EXPOSURES.iter().filter(|(exposure, _)| *exposure != "eager") {
        let mut relay =
            Relay::greeted(&relay_lines(exposure), &[source("a", &["--tools", "make_note"], "summary = \"Notes.\"")]);
        relay.call("a", "echo", json!({}));
        let found = relay.call_direct("find_tools", json!({"query": "make note", "limit": 1})).structured();
        assert_eq!(found["matches"][0]["tool"], "make_note", "{found}");
        let activated = *exposure == "progressive";
        assert_eq!(found["matches"][0]["enabled"], activated, "{exposure}");
        assert_eq!(found["matches"][0].get("name").is_some(), activated, "{exposure}");
        let more: &[&str] = if activated { &["a__make_note"] } else { &[] };
        assert_eq!(relay.names(), [menu, more].concat(), "{exposure}");
        // Paging through everything, or asking for a schema, opens nothing.
        relay.call_direct("find_tools", json!({}));
        relay.call_direct("find_tools", json!({"tools": ["a/echo"], "detail": "full"}));
        relay.call("a", "make_note", json!({}));
        assert_eq!(relay.names(), [menu, more].concat(), "{exposure}");
        relay.listen(Duration::from_millis(1200));
        assert_eq!(relay.noticed(CHANGED), usize::from(activated), "{exposure}");
        relay.finish();
    }
}

/// What is opened whole after it was opened bit by bit is nothing new, nor is a toolset without tools.
#[test]
fn a_toolset_that_adds_nothing_is_not_announced() {
    let place = Place::new();
    let tools =
        json!([{"name": "x", "inputSchema": {"type": "object"}}, {"name": "y", "inputSchema": {"type": "object"}}]);
    let two = place.write("two.json", tools.to_string());
    let none = place.write("none.json", "[]");
    let sources = [source("a", &["--tools-json", &two], ""), source("b", &["--tools-json", &none], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    // Both are listed then, and what the relay says of them stays what it is.
    relay.call_direct("enable_toolset", json!({"toolset": "b"}));
    relay.call_direct("disable_toolset", json!({"toolset": "b"}));
    relay.call("a", "x", json!({}));
    relay.list();
    let before = relay.noticed(CHANGED);
    relay.call_direct("load_tools", json!({"tools": ["a/x", "a/y"]}));
    let announced = |notices: &[support::Reply]| {
        let is_change = |notice: &&support::Reply| notice.raw("method").is_some_and(|method| method.contains(CHANGED));
        notices.iter().filter(is_change).count()
    };
    relay.await_notices("the loaded tools", |notices| announced(notices) > before);
    let names = relay.names();
    let before = relay.noticed(CHANGED);
    for toolset in ["a", "b"] {
        let opened = relay.call_direct("enable_toolset", json!({"toolset": toolset})).structured();
        assert_eq!(opened["toolset"]["enabled"], true);
    }
    relay.listen(Duration::from_millis(1200));
    assert_eq!((relay.noticed(CHANGED), relay.names()), (before, names));
    relay.call_direct("disable_toolset", json!({"toolset": "a"}));
    relay.await_notices("the closed toolset", |notices| announced(notices) > before);
    relay.finish();
}

#[test]
fn every_tool_of_the_relay_answers_in_every_exposure() {
    for (exposure, _) in EXPOSURES {
        let mut relay = Relay::greeted(&relay_lines(exposure), &[source("a", &["--tools", "x"], "")]);
        for (name, arguments, member) in [
            ("list_sources", json!({}), "sources"),
            ("list_toolsets", json!({}), "toolsets"),
            ("enable_toolset", json!({"toolset": "a"}), "tools"),
            ("disable_toolset", json!({"toolset": "a"}), "closed"),
            ("find_tools", json!({"query": "x"}), "matches"),
            ("load_tools", json!({"tools": ["a/x"]}), "loaded"),
            ("call_tool", json!({"source": "a", "tool": "x", "arguments": {"matches": 1}}), "matches"),
            ("batch_call", json!({"calls": [{"source": "a", "tool": "x"}]}), "results"),
        ] {
            let reply = relay.call_direct(name, arguments);
            let structured = reply.structured();
            assert!(structured.get(member).is_some(), "{exposure}: {name}: {structured}");
            assert_eq!(serde_json::from_str::<Value>(&reply.text()).unwrap(), structured, "{exposure}: {name}");
        }
        let begun = relay.call_direct("batch_call", json!({"calls": []})).structured();
        let seen = relay.call_direct("batch_status", json!({"batch": begun["batch"]})).structured();
        assert_eq!(seen, begun, "{exposure}");
        relay.finish();
    }
}

#[test]
fn the_menu_is_small_in_every_exposure() {
    let summary =
        "Repositories, \\\"pull requests\\\", issues, Ünïcödé and code search for the app's workspace, at length.";
    let off = format!("summary = \"{summary}\"\nenabled = false");
    for count in [3, 1000] {
        let place = Place::new();
        let sources: Vec<_> = (0..count).map(|n| source(&format!("source-number-{n}"), &[], &off)).collect();
        for (exposure, menu) in EXPOSURES {
            let mut seen = Vec::new();
            for _ in 0..2 {
                let mut relay = Relay::start_in(&place, &relay_lines(exposure), &sources);
                let start = Instant::now();
                let instructions = relay.greet()["instructions"].as_str().unwrap().to_owned();
                assert!(instructions.len() <= CUT, "{exposure}: {}", instructions.len());
                let list = relay.list();
                assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
                let tools: Value = serde_json::from_str(&list).unwrap();
                let tools = tools["tools"].as_array().unwrap();
                assert_eq!(tools.len(), menu.len());
                let bytes = json!(tools).to_string().len();
                assert!(bytes <= MENU_MAX && list.len() <= MENU_MAX, "{exposure} with {count}: {bytes} bytes");
                for tool in tools {
                    let description = tool["description"].as_str().unwrap();
                    assert!(description.len() <= CUT, "{exposure}: {} has {}", tool["name"], description.len());
                }
                // The tool that models meet first names the drawers.
                let finder = tools.iter().find(|tool| tool["name"] == "find_tools").unwrap();
                assert!(finder["description"].as_str().unwrap().contains("source-number-0: Repositories"));
                assert!(instructions.contains("source-number-0: Repositories"));
                seen.push((instructions, list));
                relay.finish();
            }
            assert_eq!(seen[0], seen[1], "{exposure}: the same catalog, the same bytes");
        }
    }
}

#[test]
fn loaded_tools_are_remembered_if_they_should_be() {
    let place = Place::new();
    let sources = [source("a", &["--tools", "x,y"], ""), source("b", &["--tools", "x"], "")];
    let menu = EXPOSURES[2].1;
    let run = |exposure: &str, remember: bool| {
        Relay::greeted_in(&place, &format!("{}\nremember = {remember}", relay_lines(exposure)), &sources)
    };
    let mut relay = run("lazy", true);
    let loaded = relay.call_direct("load_tools", json!({"tools": ["a/x", "b/x"]})).structured();
    assert_eq!(loaded["loaded"].as_array().unwrap().len(), 2, "{loaded}");
    assert_eq!(relay.names(), [menu, &["a__x", "b__x"]].concat());
    relay.finish();

    // Kept for the next run, whatever it shows besides; not looked at by one that remembers nothing.
    let mut relay = run("lazy", false);
    assert_eq!(relay.names(), menu);
    relay.finish();
    let mut relay = run("progressive", true);
    assert_eq!(relay.names(), [EXPOSURES[1].1, &["a__x", "b__x"]].concat());
    relay.finish();

    let mut relay = run("lazy", true);
    assert_eq!(relay.names(), [menu, &["a__x", "b__x"]].concat());
    assert_eq!(relay.call_direct("a__x", json!({"n": 1})).structured(), json!({"n": 1}));
    let closed = relay.call_direct("disable_toolset", json!({"toolset": "a"})).structured();
    assert_eq!(closed["closed"], 1, "{closed}");
    assert_eq!(relay.names(), [menu, &["b__x"]].concat());
    relay.finish();
    let mut relay = run("lazy", true);
    assert_eq!(relay.names(), [menu, &["b__x"]].concat());
    relay.finish();
}

/// A client took no more than its first 128 tools, and dropped others without a word.
#[test]
fn a_list_that_grows_too_long_is_told_with_numbers() {
    let place = Place::new();
    let names: Vec<String> = (0..30).map(|at| format!("t{at}")).collect();
    let tools = names.join(",");
    let sources = ["a", "b"].map(|id| source(id, &["--tools", &tools], ""));
    for (exposure, tool, arguments) in [
        ("toolsets", "enable_toolset", ["a", "b"].map(|id| json!({"toolset": id}))),
        (
            "lazy",
            "load_tools",
            ["a", "b"].map(|id| json!({"tools": (0..30).map(|at| format!("{id}/t{at}")).collect::<Vec<_>>()})),
        ),
    ] {
        for limit in [60, 0] {
            let settings = format!("{}\nwarn_tools = {limit}", relay_lines(exposure));
            let mut relay = Relay::greeted_in(&place, &settings, &sources);
            let warnings =
                arguments.clone().map(|arguments| relay.call_direct(tool, arguments).structured()["warning"].clone());
            let count = relay.names().len();
            assert!(count > 60, "{exposure}: {count}");
            assert_eq!(warnings[0], Value::Null, "{exposure}");
            match warnings[1].as_str() {
                Some(warning) => {
                    assert!(warning.contains(&format!(" {count} tools ")) && warning.contains(" 60 "), "{warning}");
                    assert!(limit > 0 && warning.contains("`warn_tools`"), "{warning}");
                }
                None => assert_eq!(limit, 0, "{exposure}: no warning with {count} tools"),
            }
            relay.finish();
        }
    }
}

/// Clients refuse names that are not in their list, so a model that was sent to one was sent nowhere.
#[test]
fn no_reply_sends_a_model_to_a_tool_that_it_has_not() {
    let sources = [source("a", &["--tools", "x,y"], ""), source("b", &[], "enabled = false")];
    let mut worlds: Vec<(String, &[&str])> =
        EXPOSURES.iter().map(|(exposure, menu)| (relay_lines(exposure), *menu)).collect();
    worlds
        .push(("exposure = \"lazy\"\nmenu = [\"call_tool\", \"find_tools\"]".to_owned(), &["find_tools", "call_tool"]));
    worlds.push(("menu = [\"call_tool\"]".to_owned(), &["call_tool"]));
    let everything: Vec<&str> = EXPOSURES.iter().flat_map(|(_, menu)| *menu).copied().collect();
    for (settings, menu) in worlds {
        let mut relay = Relay::start(&format!("warn_tools = 2\n{settings}"), &sources);
        let greeting = relay.greet().to_string();
        let hidden: Vec<&str> = everything.iter().filter(|own| !menu.contains(own)).copied().collect();
        let list = relay.list();
        let mut told = vec![greeting, list];
        let nothing = json!({"source": "a", "tool": "nothing"});
        for (own, arguments) in [
            ("call_tool", json!({"source": "nowhere", "tool": "x"})),
            ("call_tool", nothing.clone()),
            ("call_tool", json!({"tool": "nothing"})),
            ("call_tool", json!({"source": "a"})),
            ("find_tools", json!({"source": "nowhere"})),
            ("find_tools", json!({"category": "none"})),
            ("enable_toolset", json!({"toolset": "nowhere"})),
            ("enable_toolset", json!({"toolset": "a"})),
            ("load_tools", json!({"tools": ["a/x", "a/y", "a/nothing", "nowhere/x"]})),
            ("batch_call", json!({"calls": [nothing, {"source": "nowhere", "tool": "x"}]})),
        ] {
            if menu.contains(&own) {
                told.push(relay.call_direct(own, arguments).line);
            }
        }
        told.push(relay.request("tools/call", json!({"name": "a__nothing"})).line);
        for text in &told {
            // Named as a tool to be called by itself, not as one that `call_tool` reaches.
            let text = text.replace(r#"\\\"tool\\\":\\\"find_tools\\\""#, "").replace(r#"\"tool\":\"find_tools\""#, "");
            let named: Vec<_> = hidden.iter().filter(|own| text.contains(*own)).collect();
            assert!(named.is_empty(), "{settings}: {named:?} in {text}");
        }
        relay.finish();
    }
}

/// What a client is not shown it does not call: `call_tool` leads there as well.
#[test]
fn the_relays_own_tools_are_reached_through_the_dispatcher() {
    let sources = [source("a", &["--tools", "x,load_tools"], "")];
    let mut relay = Relay::greeted("menu = [\"call_tool\"]", &sources);
    let through = |tool: &str, arguments: Value| json!({"tool": tool, "arguments": arguments});
    relay.call("a", "x", json!({}));
    let found = relay.call_direct("call_tool", through("find_tools", json!({"tools": ["a/x"]}))).structured();
    assert_eq!((&found["total"], &found["matches"][0]["tool"]), (&json!(1), &json!("x")));
    assert_eq!(
        relay.call_direct("call_tool", through("list_sources", json!({}))).structured()["sources"][0]["id"],
        "a"
    );
    let refused = relay.call_direct("call_tool", through("find_tools", json!({"limit": "nine"}))).failure();
    assert!(refused.0 == "invalid_arguments" && refused.1.contains("`limit` is to be"), "{refused:?}");
    // A source's own tool of such a name is called with its source, and takes none of the relay's calls.
    let (_, text) = relay.call_direct("call_tool", through("load_tools", json!({"n": 1}))).failure();
    assert!(text.contains("the arguments of `load_tools` cannot be read"), "{text}");
    assert_eq!(relay.call("a", "load_tools", json!({"n": 1})).structured(), json!({"n": 1}));
    for (source, tool) in [(Value::Null, "call_tool"), (json!("a"), "find_tools"), (json!("toolrelay"), "find_tools")] {
        let (_, text) = relay.call_direct("call_tool", json!({"source": source, "tool": tool})).failure();
        assert!(text.contains("is a tool of the relay itself"), "{text}");
    }
    relay.finish();
}

/// Each tool waited for its source in turn, and each launched the one that hangs again.
#[test]
fn loading_asks_each_source_once_and_all_at_the_same_time() {
    let place = Place::new();
    let hang = |id: &str| {
        let script = format!("echo {id} >> {}; exec sleep 600", place.path("launched"));
        command(id, "sh", &["-c", &script], "start_timeout_secs = 2")
    };
    let sources = [hang("slow"), hang("stuck"), source("a", &["--tools", "x,y"], "")];
    let mut relay = Relay::greeted_in(&place, &relay_lines("lazy"), &sources);
    relay.call("a", "x", json!({}));
    relay.await_status("slow", "unreachable");
    relay.await_status("stuck", "unreachable");
    let before = place.lines("launched").len();
    let start = Instant::now();
    let asked = ["slow/a", "a/y", "slow/b", "stuck/c", "a/nothing", "slow/c", "a/x"];
    let told = relay.call_direct("load_tools", json!({"tools": asked})).structured();
    let took = start.elapsed();
    let names =
        |of: &str, name: &str| -> Vec<_> { told[of].as_array().unwrap().iter().map(|one| one[name].clone()).collect() };
    assert_eq!(names("loaded", "tool"), ["y", "x"], "{told}");
    assert_eq!(names("failed", "tool"), ["slow/a", "slow/b", "stuck/c", "a/nothing", "slow/c"]);
    assert_eq!(names("failed", "kind"), ["unavailable", "unavailable", "unavailable", "unknown_tool", "unavailable"]);
    assert_eq!(place.lines("launched").len(), before + 2, "each is launched once");
    assert!(took < Duration::from_secs(6), "{took:?}");
    relay.finish();
}

/// All of them said that they were enabled, and the one over HTTP that it was a program.
#[test]
fn what_cannot_be_used_is_not_told_to_be_enabled() {
    let web =
        |id: &str, more: &str| format!("[source.{id}]\nurl = \"https://mcp.example.org/mcp\"\nbogus = 1\n{more}\n");
    let sources = [
        source("ok", &["--tools", "x"], ""),
        source("off", &[], "enabled = false"),
        web("web", ""),
        web("old", "transport = \"sse\""),
        source("bad", &[], "bogus = 1"),
        "[source.none]\nsummary = \"x\"\n".to_owned(),
    ];
    let mut relay = Relay::greeted("exposure = \"eager\"", &sources);
    relay.call("ok", "x", json!({}));
    let told = relay.call_direct("list_sources", json!({})).structured();
    let told = told["sources"].as_array().unwrap();
    let lines: Vec<_> = told.iter().map(|line| json!([line["id"], line["enabled"], line.get("transport")])).collect();
    let want = json!([
        ["bad", false, "stdio"],
        ["none", false, null],
        ["off", false, "stdio"],
        ["ok", true, "stdio"],
        ["old", false, "sse"],
        ["web", false, "http"]
    ]);
    assert_eq!(json!(lines), want);
    let drawers = relay.call_direct("list_toolsets", json!({})).structured();
    let open = drawers["toolsets"].as_array().unwrap().iter().filter(|line| line["enabled"] == true);
    assert_eq!(open.map(|line| &line["id"]).collect::<Vec<_>>(), ["ok"]);
    // A tool is told once, in however many ways it is named, and the remedy of what is missing is not cut off.
    let twice = relay.call_direct("find_tools", json!({"tools": ["ok/x", "ok__x", "x", "nothing"]})).structured();
    assert_eq!((&twice["total"], &twice["unknown"]), (&json!(1), &json!(["nothing"])), "{twice}");
    relay.finish();
}

#[test]
fn the_remedy_of_what_is_unavailable_is_not_cut_off() {
    let path = "/somewhere".repeat(40);
    let absent = command("absent", "toolrelay-no-such-program", &[], &format!("env = {{ PATH = {path:?} }}"));
    let mut relay = Relay::greeted("", &[absent]);
    relay.await_status("absent", "unreachable");
    let told = relay.call_direct("find_tools", json!({"query": "read a file"})).structured();
    let reason = told["unavailable"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("was not found") && reason.contains("set PATH in the source's `env`"), "{reason}");
    assert!(relay.status("absent")["reason"].as_str().unwrap().contains(&path));
    relay.finish();
}

/// The glob was held against both names at once, and reached over the slash into another's tool.
#[test]
fn a_glob_of_the_core_set_does_not_reach_into_another_sources_tools() {
    let place = Place::new();
    let tools = place.write(
        "tools.json",
        r#"[{"name":"x/b","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}]"#,
    );
    let sources = ["a", "axe"].map(|id| source(id, &["--tools-json", &tools], ""));
    let mut relay = Relay::greeted("always_visible = [\"a*/b\"]\nmenu = [\"call_tool\"]", &sources);
    for id in ["a", "axe"] {
        relay.call(id, "b", json!({}));
    }
    assert_eq!(relay.names(), ["call_tool", "a__b", "axe__b"]);
    relay.finish();
}
