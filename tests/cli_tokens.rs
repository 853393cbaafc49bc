//! `toolrelay tokens` tells what clients are really sent.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "cli/bench.rs"]
mod bench;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use bench::Bench;
use serde_json::{Value, json};

const CONFIG: &str = r#"
[relay]
exposure = "lazy"
state_dir = "state"
remember = true
always_visible = ["one/echo"]
[source.one]
summary = "The first."
command = "FIXTURE"
args = ["--tools", "create_note,delete_note", "--name", "FOLDER"]
deny = ["delete_*"]
[source.two]
summary = "The second."
command = "FIXTURE"
args = ["--tools-json", "FOLDER/two.json"]
[source.gone]
command = "/nowhere/fixture"
"#;

const TWO: &str = r#"[{"name":"make","description":"Makes. Well.","inputSchema":{"type":"object","properties":{"what":{"type":"string"}}}}]"#;

/// The result of `method` as a client gets it from a relay in this exposure.
fn served(bench: &Bench, exposure: &str, method: &str) -> Value {
    let mut child =
        bench.command(&["serve", "--exposure", exposure, "--log", "off"]).stdin(Stdio::piped()).spawn().unwrap();
    let client =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let mut input = child.stdin.take().unwrap();
    for line in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ] {
        writeln!(input, "{line}").unwrap();
    }
    let wanted = if method == "initialize" { 1 } else { 2 };
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let found = messages.into_iter().find(|message| message["id"] == wanted).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    found["result"].clone()
}

fn tokens(bytes: usize) -> Value {
    json!({"bytes": bytes, "tokens": bytes.div_ceil(4)})
}

#[test]
fn what_is_told_is_what_clients_are_sent() {
    let bench = Bench::new(CONFIG);
    bench.write("two.json", TWO);
    let report = bench.run(&["tokens", "--json"]).exits(0).json();
    assert!(report["tokenizer"].as_str().unwrap().contains("4 bytes"));
    // All tools listed, by the bytes of the list itself: without the menu, those of each source.
    let menu = ["list_sources", "find_tools", "call_tool"];
    let eager = served(&bench, "eager", "tools/list");
    let direct: Vec<&Value> = eager["tools"].as_array().unwrap()[menu.len()..].iter().collect();
    let of = |source: &str| -> Vec<&Value> {
        direct.iter().copied().filter(|tool| tool["name"].as_str().unwrap().starts_with(source)).collect()
    };
    assert_eq!((&report["tools"], &report["direct"]), (&json!(direct.len()), &tokens(json!(direct).to_string().len())));
    let ids: Vec<_> = report["sources"].as_array().unwrap().iter().map(|line| line["source"].clone()).collect();
    assert_eq!(ids, ["one", "two"]);
    for line in report["sources"].as_array().unwrap() {
        let own = of(line["source"].as_str().unwrap());
        assert_eq!(line["tools"], own.len());
        assert_eq!(line["bytes"], json!(own).to_string().len());
    }
    for line in report["menu"].as_array().unwrap() {
        let exposure = line["exposure"].as_str().unwrap();
        assert_eq!(line["configured"], exposure == "lazy");
        let list = served(&bench, exposure, "tools/list");
        assert_eq!(line["listed"], tokens(list["tools"].to_string().len()), "{exposure}");
        let instructions = served(&bench, exposure, "initialize")["instructions"].as_str().unwrap().len();
        assert_eq!(line["instructions"], tokens(instructions), "{exposure}");
        assert!(line["menu"]["bytes"].as_u64() < line["listed"]["bytes"].as_u64(), "always_visible: {exposure}");
    }
    // Each tool was looked for, each toolset opened; and nothing of it is open now.
    assert_eq!((&report["search"]["tried"], &report["opening"]["tried"]), (&json!(direct.len()), &json!(2)));
    let listed = served(&bench, "lazy", "tools/list");
    assert_eq!(listed["tools"].as_array().unwrap().len(), 5 + 1);
    let through = "call_tool{\"source\":\"two\",\"tool\":\"make\",\"arguments\":}".len() - "two__make".len();
    assert_eq!(report["call"]["max"], tokens(through));
    assert_eq!(report["unavailable"][0]["source"], "gone");
}

#[test]
fn people_get_tables() {
    let bench = Bench::new(CONFIG);
    bench.write("two.json", TWO);
    bench
        .run(&["tokens"])
        .exits(0)
        .shows(&["SOURCE", "TOOLS", "BYTES", "TOKENS"])
        .shows(&["two", "1"])
        .shows(&["all", "20"])
        .shows(&["lazy *"])
        .shows(&["a search", "20 searches"])
        .shows(&["an opening", "2 toolsets"])
        .shows(&["a call through call_tool", "20 tools"])
        .shows(&["gone is unreachable"])
        .shows(&["4 bytes of JSON a token"]);
    let none = Bench::new("[relay]\nstate_dir = \"state\"\n");
    none.run(&["tokens"]).exits(0).shows(&["all", "0"]);
}
