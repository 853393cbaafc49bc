//! Meta-tools, as UniFi MCP has them: an index of the whole catalog, indirect calls, batches, and `load_tools` for clients
//! that read their list again. First the relay's own modes over UniFi's recorded tools, then UniFi's server itself behind
//! the relay, with what is odd about it: it answers calls of tools it does not list, and lists more after them.

#![allow(clippy::unwrap_used)]

#[path = "support/peer.rs"]
mod peer;
#[path = "support/relay.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peer::{CLIENTS, client, names, peers, relay};
use serde_json::{Value, json};
use support::{Place, Relay, command, replay, shared};

const CHANGED: &str = "notifications/tools/list_changed";
const LAZY: [&str; 5] = ["find_tools", "load_tools", "call_tool", "batch_call", "batch_status"];
/// A Python server on a busy machine, which looks for its controller in vain, takes its time.
const SLOW: Duration = Duration::from_secs(120);

/// The 209 tools of UniFi's eager mode, recorded.
fn recorded() -> PathBuf {
    shared("catalogs/unifi-network-eager.tools.json")
}

fn recorded_names() -> Vec<String> {
    let tools: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(recorded()).unwrap()).unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// A relay's settings and sources with all of them known, as after its first run.
fn known(place: &Place, exposure: &str) -> (String, Vec<String>) {
    let settings = "deny = [\"unifi_delete_*\"]\nsummary = \"UniFi networks: clients, devices, wireless.\"";
    let sources = vec![replay(place, "unifi", &recorded(), &[], settings)];
    (format!("exposure = {exposure:?}"), sources)
}

#[track_caller]
fn ask(relay: &mut Relay, name: &str, arguments: Value) -> Value {
    let id = relay.ask("tools/call", json!({"name": name, "arguments": arguments}));
    relay.answer_within(&id, SLOW).structured()
}

#[test]
fn each_mode_lists_what_it_should() {
    for (script, mode, protocol) in [CLIENTS[0], CLIENTS[1], CLIENTS[3]] {
        for (exposure, menu) in [
            ("eager", &["list_sources", "find_tools", "call_tool"][..]),
            ("lazy", &LAZY),
            ("meta-only", &["find_tools", "call_tool", "batch_call", "batch_status"]),
        ] {
            let place = Place::new();
            let (settings, sources) = known(&place, exposure);
            let config = place.config(&settings, &sources);
            let calls = json!([
                {"name": "find_tools", "arguments": {"query": "reboot a device", "limit": 3}},
                {"name": "call_tool", "arguments": {"source": "unifi", "tool": "unifi_reboot_device", "arguments": {"mac": "aa"}}},
            ]);
            let seen = client(script, mode, &relay(&config), &[], &calls);
            assert_eq!(seen["protocol"], protocol);
            let mut want: Vec<String> = menu.iter().map(|name| (*name).to_owned()).collect();
            if exposure == "eager" {
                let permitted = recorded_names().into_iter().filter(|name| !name.starts_with("unifi_delete_"));
                let mut permitted: Vec<_> = permitted.map(|name| format!("unifi__{name}")).collect();
                permitted.sort();
                want.extend(permitted);
            }
            assert_eq!(names(&seen["tools"]), want, "{script} {mode} {exposure}");
            assert_eq!(seen["results"][1]["structuredContent"], json!({"mac": "aa"}), "{seen}");
            assert_eq!(seen["listChanged"], 0, "{script} {mode} {exposure}");
        }
    }
}

/// The load flow: found, loaded, listed, called by name. One change, told once; what cannot be loaded is told too.
#[test]
fn chosen_tools_are_loaded_into_the_list() {
    for (script, mode, _) in CLIENTS {
        let place = Place::new();
        let (settings, sources) = known(&place, "lazy");
        let config = place.config(&settings, &sources);
        let wanted = json!({"tools": [
            "unifi/unifi_list_clients", "unifi/unifi_block_client", "unifi/unifi_list_client", "unifi/unifi_delete_network",
            "nowhere/x", "unifi/unifi_get_client_details",
        ]});
        let calls = json!([
            {"name": "find_tools", "arguments": {"query": "list the wireless clients"}},
            {"name": "load_tools", "arguments": wanted},
            {"name": "unifi__unifi_block_client", "arguments": {"mac_address": "aa:bb"}},
            {"name": "load_tools", "arguments": {"tools": ["unifi/unifi_nothing"]}},
        ]);
        let changed = [("WAIT_CHANGED", "1".to_owned()), ("SETTLE_MS", "1300".to_owned())];
        let seen = client(script, mode, &relay(&config), &changed, &calls);
        assert_eq!(names(&seen["tools"]), LAZY, "{script} {mode}");
        let reply = &seen["results"][1]["structuredContent"];
        let loaded: Vec<_> =
            reply["loaded"].as_array().unwrap().iter().map(|line| line["name"].as_str().unwrap()).collect();
        let direct = ["unifi__unifi_list_clients", "unifi__unifi_block_client", "unifi__unifi_get_client_details"];
        assert_eq!(loaded, direct, "{seen}");
        assert!(reply["loaded"][1]["signature"].as_str().unwrap().contains("mac_address*: string"), "{reply}");
        let failed: Vec<_> =
            reply["failed"].as_array().unwrap().iter().map(|line| (&line["tool"], &line["kind"])).collect();
        let want = json!([
            ["unifi/unifi_list_client", "unknown_tool"],
            ["unifi/unifi_delete_network", "withheld"],
            ["nowhere/x", "unknown_tool"],
        ]);
        assert_eq!(json!(failed), want, "{reply}");
        assert!(reply["failed"][0]["similar"].to_string().contains("unifi_list_clients"), "{reply}");
        assert_eq!(seen["results"][2]["structuredContent"], json!({"mac_address": "aa:bb"}));
        assert_eq!(seen["results"][3]["structuredContent"]["loaded"], json!([]));
        let mut listed = direct;
        listed.sort_unstable();
        assert_eq!(names(&seen["toolsAfter"]), [&LAZY[..], &listed].concat(), "{script} {mode}");
        assert_eq!(seen["listChanged"], 1, "{script} {mode}");
    }
}

/// A client that never reads its list again does all of it through the dispatcher, several at once in a batch.
#[test]
fn a_client_that_does_not_refresh_uses_the_dispatcher() {
    for (script, mode, _) in CLIENTS {
        let place = Place::new();
        let (settings, sources) = known(&place, "lazy");
        let config = place.config(&settings, &sources);
        let operation = |tool: &str, n: u32| json!({"source": "unifi", "tool": tool, "arguments": {"n": n}});
        let calls = json!([
            {"name": "load_tools", "arguments": {"tools": ["unifi/unifi_list_clients"]}},
            {"name": "call_tool", "arguments": operation("unifi_list_clients", 1)},
            {"name": "call_tool", "arguments": operation("unifi_list_devices", 2)},
            {"name": "batch_call", "arguments": {"calls": [
                operation("unifi_list_networks", 3), operation("unifi_nothing", 4), operation("unifi_list_wlans", 5),
            ]}},
            {"name": "batch_status", "arguments": {"batch": "none"}},
        ]);
        let seen = client(script, mode, &relay(&config), &[], &calls);
        let structured = |at: usize| &seen["results"][at]["structuredContent"];
        assert_eq!((structured(1), structured(2)), (&json!({"n": 1}), &json!({"n": 2})), "{seen}");
        let batch = structured(3);
        assert_eq!((&batch["status"], &batch["done"]), (&json!("done"), &json!(3)), "{batch}");
        let results = &batch["results"];
        assert_eq!(results[0]["result"]["structuredContent"], json!({"n": 3}));
        assert_eq!(results[1]["error"]["kind"], "unknown_tool");
        assert_eq!(results[2]["result"]["structuredContent"], json!({"n": 5}));
        assert_eq!(structured(4)["error"]["kind"], "invalid_arguments");
    }
}

/// The index: compact by default, of one source, of what a search means, with schemas on request.
#[test]
fn the_index_is_compact_and_whole() {
    let place = Place::new();
    let (settings, mut sources) = known(&place, "meta-only");
    sources.push(support::source("other", &["--tools", "x"], ""));
    let mut relay = Relay::greeted_in(&place, &settings, &sources);
    relay.call("unifi", "unifi_list_clients", json!({}));
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page =
            ask(&mut relay, "find_tools", json!({"source": "unifi", "detail": "brief", "limit": 50, "cursor": cursor}));
        assert!(page.to_string().len() <= 6_000, "{}", page.to_string().len());
        let lines = page["matches"].as_array().unwrap();
        assert!(lines.iter().all(|line| line.get("signature").is_none() && line.get("inputSchema").is_none()));
        seen.extend(lines.iter().map(|line| line["tool"].as_str().unwrap().to_owned()));
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    let mut want: Vec<_> = recorded_names().into_iter().filter(|name| !name.starts_with("unifi_delete_")).collect();
    want.sort();
    assert_eq!(seen, want);
    let full = ask(&mut relay, "find_tools", json!({"tools": ["unifi/unifi_block_client"], "detail": "full"}));
    assert_eq!(full["matches"][0]["inputSchema"]["type"], "object", "{full}");
    relay.finish();
}

/// UniFi's server in one of its own modes, as a source `unifi`; what is recorded of it in its place where it cannot run.
struct Unifi {
    mode: &'static str,
    real: bool,
}

impl Unifi {
    /// Its modes, and how many tools it lists in each at first.
    const MODES: [(&'static str, usize); 3] = [("eager", 209), ("lazy", 8), ("meta_only", 5)];

    /// What it lists at first, sorted; in `lazy` all of it, in `meta_only` but the last three.
    const META: [&'static str; 8] = [
        "unifi_batch",
        "unifi_batch_status",
        "unifi_execute",
        "unifi_get_support_bundle",
        "unifi_tool_index",
        "unifi_get_client_details",
        "unifi_get_incident_evidence",
        "unifi_load_tools",
    ];

    fn program() -> Option<PathBuf> {
        let folder = peers();
        assert!(folder.join(".stamp-unifi").exists(), "UniFi's server is not installed: run `make peers` first");
        let program = folder.join(".venv-unifi/bin/unifi-network-mcp");
        if !program.exists() {
            eprintln!("no Python of 3.13 or newer here: unifi-network-mcp is played from what is recorded of it");
        }
        program.exists().then_some(program)
    }

    fn source(&self, place: &Place, settings: &str) -> String {
        match Self::program().filter(|_| self.real) {
            Some(program) => self.program_source(&program, place, settings),
            None => self.replay_source(place, &[], settings),
        }
    }

    fn program_source(&self, program: &Path, place: &Place, settings: &str) -> String {
        let mode = self.mode;
        let variables = [("HOST", "127.0.0.1"), ("PORT", "9"), ("USERNAME", "u"), ("PASSWORD", "not-a-secret")];
        let variables = variables.iter().map(|(name, value)| format!("UNIFI_{name} = {value:?}"));
        let variables: Vec<_> = variables.chain([format!("UNIFI_TOOL_REGISTRATION_MODE = {mode:?}")]).collect();
        let settings = format!("cwd = {:?}\nenv = {{ {} }}\n{settings}", place.path("."), variables.join(", "));
        command("unifi", program.to_str().unwrap(), &[], &settings)
    }

    fn replay_source(&self, place: &Place, flags: &[&str], settings: &str) -> String {
        let mut tools: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(recorded()).unwrap()).unwrap();
        let listed = match self.mode {
            "eager" => return replay(place, "unifi", &recorded(), flags, settings),
            "lazy" => Self::META.join(","),
            _ => Self::META[..5].join(","),
        };
        let names = json!({"type": "array", "items": {"type": "string"}});
        tools.push(json!({"name": "unifi_load_tools", "description": "Loads tools.",
            "inputSchema": {"type": "object", "properties": {"tools": names}, "required": ["tools"]}}));
        let file = PathBuf::from(place.write("unifi.json", json!({"tools": tools}).to_string()));
        let own = ["--listed", &listed, "--load-tool", "unifi_load_tools", "--unlisted-loads", "_client"];
        replay(place, "unifi", &file, &[&own, flags].concat(), settings)
    }
}

/// How many tools the relay knows of the source.
fn known_tools(relay: &mut Relay) -> u64 {
    relay.status("unifi")["tools"].as_u64().unwrap()
}

/// Waits until the relay has seen that the source lists more than `before`; gives how many.
#[track_caller]
fn grown(relay: &mut Relay, before: u64) -> u64 {
    let start = Instant::now();
    loop {
        match known_tools(relay) {
            now if now > before => return now,
            _ => assert!(start.elapsed() < SLOW, "it never grew beyond {before}:\n{}", relay.stderr()),
        }
        relay.listen(Duration::from_millis(100));
    }
}

/// Calls through the dispatcher, with patience; the source's own result.
#[track_caller]
fn through(relay: &mut Relay, tool: &str, arguments: Value) -> (Value, usize) {
    let id = relay.ask_call("unifi", tool, arguments);
    let reply = relay.answer_within(&id, SLOW);
    (reply.result(), reply.line.len())
}

/// Every tool's name, page by page.
fn paged_names(relay: &mut Relay) -> Vec<String> {
    let (mut names, mut page) = (Vec::new(), json!({"detail": "brief", "limit": 50}));
    loop {
        let found = ask(relay, "find_tools", page.clone());
        let lines = found["matches"].as_array().unwrap();
        names.extend(lines.iter().map(|line| line["tool"].as_str().unwrap().to_owned()));
        match found.get("nextCursor") {
            Some(cursor) => page["cursor"] = cursor.clone(),
            None => return names,
        }
    }
}

/// UniFi in one of its modes, from the first listing to the calls of what it does not list.
fn behind_the_relay(unifi: &Unifi, at_first: usize, era: &str) {
    let place = Place::new();
    let source = unifi.source(&place, &format!("unlisted = \"forward\"\nera = {era:?}\nread_only = false"));
    let mut relay = Relay::greeted_in(&place, "exposure = \"lazy\"", &[source]);
    let opened = ask(&mut relay, "enable_toolset", json!({"toolset": "unifi", "detail": "brief"}));
    assert_eq!(opened["toolset"]["tools"], at_first);
    let mut listed = paged_names(&mut relay);
    listed.sort();
    assert_eq!(listed.len(), at_first, "{listed:?}");
    let mode = unifi.mode;
    if mode == "eager" {
        let mut want = recorded_names();
        want.sort();
        assert_eq!(listed, want);
    } else {
        let mut want = Unifi::META[..at_first].to_vec();
        want.sort_unstable();
        assert_eq!(listed, want);
    }
    // Known to the client, listed or not, called with or without its source in front, it is answered by the source itself.
    let (result, bytes) = through(&mut relay, "unifi_list_clients", json!({}));
    assert_eq!(result["isError"], false, "{mode}: {result}");
    assert!(bytes < 5_000, "{mode}: {bytes} bytes: what belongs to the hop is stripped");
    let id = relay.ask("tools/call", json!({"name": "unifi__unifi_list_clients", "arguments": {}}));
    assert_eq!(relay.answer_within(&id, SLOW).result()["isError"], false);
    if mode != "eager" {
        // It has loaded the whole module, without a word to a legacy client.
        let now = grown(&mut relay, at_first as u64);
        let found =
            ask(&mut relay, "find_tools", json!({"tools": ["unifi/unifi_block_client", "unifi/unifi_list_clients"]}));
        assert!(!found["matches"].as_array().unwrap().is_empty(), "{mode} with {now}: {found}");
        let loaded = ask(&mut relay, "load_tools", json!({"tools": ["unifi/unifi_list_clients"]}));
        assert_eq!(loaded["loaded"][0]["name"], "unifi__unifi_list_clients", "{loaded}");
    }
    // What the source does not know either, it says itself.
    let (unknown, _) = through(&mut relay, "unifi_no_such_tool", json!({}));
    assert!(unknown["isError"] == true && unknown["structuredContent"].get("error").is_none(), "{unknown}");
    if mode == "lazy" {
        let before = known_tools(&mut relay);
        let wanted = json!({"tools": ["unifi_list_networks", "unifi_list_wlans"]});
        assert_eq!(through(&mut relay, "unifi_load_tools", wanted).0["isError"], false);
        grown(&mut relay, before);
    }
    relay.finish();
}

#[test]
fn unifi_itself_eager() {
    behind_the_relay(&Unifi { mode: "eager", real: true }, Unifi::MODES[0].1, "auto");
}

#[test]
fn unifi_itself_lazy() {
    behind_the_relay(&Unifi { mode: "lazy", real: true }, Unifi::MODES[1].1, "auto");
}

/// In the handshake era it never says that its list has changed; the relay looks for itself.
#[test]
fn unifi_itself_lazy_and_silent() {
    behind_the_relay(&Unifi { mode: "lazy", real: true }, Unifi::MODES[1].1, "legacy");
}

#[test]
fn unifi_itself_meta_only() {
    behind_the_relay(&Unifi { mode: "meta_only", real: true }, Unifi::MODES[2].1, "auto");
}

/// What is recorded of it behaves the same way, also where the program runs: neither test says more than the other.
#[test]
fn unifi_as_recorded() {
    for (mode, at_first) in Unifi::MODES {
        for era in ["legacy", "modern"] {
            behind_the_relay(&Unifi { mode, real: false }, at_first, era);
        }
    }
}

/// A source that says when its list has changed is listed again at once; its client is told once.
#[test]
fn a_change_that_is_told_is_seen_at_once() {
    let place = Place::new();
    let unifi = Unifi { mode: "meta_only", real: false };
    let sources = [unifi.replay_source(&place, &["--era", "modern"], "unlisted = \"forward\"")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    ask(&mut relay, "enable_toolset", json!({"toolset": "unifi"}));
    relay.await_notices("the opening", |notices| !notices.is_empty());
    let before = relay.names().len();
    let start = Instant::now();
    through(&mut relay, "unifi_list_clients", json!({}));
    grown(&mut relay, 5);
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    relay.await_notices("the growth", |notices| notices.len() == 2);
    assert!(relay.names().len() > before);
    relay.listen(Duration::from_millis(1200));
    assert_eq!(relay.noticed(CHANGED), 2);
    relay.finish();
}

/// Without `unlisted = "forward"` an unlisted tool is refused, and so is one that may only be read by its name; neither
/// reaches the source.
#[test]
fn unlisted_tools_are_judged_too() {
    let unifi = Unifi { mode: "lazy", real: false };
    for (settings, tool, kind) in [
        ("", "unifi_list_clients", "unknown_tool"),
        ("unlisted = \"forward\"\nread_only = true", "unifi_block_client", "withheld"),
        ("unlisted = \"forward\"\ndeny = [\"*_client\"]", "unifi_block_client", "withheld"),
    ] {
        let place = Place::new();
        let mut relay = Relay::greeted_in(&place, "", &[unifi.replay_source(&place, &[], settings)]);
        relay.await_status("unifi", "ready");
        assert_eq!(relay.call("unifi", tool, json!({})).failure().0, kind, "{settings}");
        let direct = relay.call_direct(&format!("unifi__{tool}"), json!({}));
        match kind {
            "withheld" => assert_eq!(direct.failure().0, kind, "{settings}"),
            _ => assert_eq!(direct.error_code(), -32602, "{settings}"),
        }
        let calls = json!({"calls": [{"source": "unifi", "tool": tool}]});
        assert_eq!(ask(&mut relay, "batch_call", calls)["results"][0]["error"]["kind"], kind, "{settings}");
        relay.finish();
        assert_eq!(place.journal_count("unifi.journal", "tools/call"), 0, "{settings}");
    }
}
