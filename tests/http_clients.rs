//! Real clients over HTTP: what `make peers` installs, all of them on one relay that asks for a token.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

#[path = "support/peer.rs"]
mod peer;

use std::process::{Command, Stdio};

use peer::{CLIENTS, client, names, peers, said};
use serde_json::{Value, json};
use support::{Front, source};

const MENU: [&str; 6] =
    ["list_sources", "list_toolsets", "enable_toolset", "disable_toolset", "find_tools", "call_tool"];

fn token(at: usize) -> String {
    format!("token-of-client-number-{at}")
}

/// A credential for each client, so that what one opens is closed to the next.
fn front() -> Front {
    let credentials = (0..=CLIENTS.len() + 1).map(|at| format!("[credential.c{at}]\ntoken = {:?}\n", token(at)));
    let sources = [source("fix", &["--tools", "get_note"], ""), source("other", &[], "")];
    Front::start("", &sources.into_iter().chain(credentials).collect::<Vec<_>>())
}

#[test]
fn every_client_lists_opens_and_calls() {
    let front = front();
    let url = [format!("http://{}/mcp", front.address)];
    let call = |tool: &str, arguments: Value| {
        let arguments = json!({"source": "fix", "tool": tool, "arguments": arguments});
        json!({"name": "call_tool", "arguments": arguments})
    };
    let calls = json!([
        call("echo", json!({"said": "through the relay"})),
        call("sleep", json!({"ms": 1200, "progress": 3})),
        {"name": "enable_toolset", "arguments": {"toolset": "fix"}},
        {"name": "fix__get_note", "arguments": {"n": 7}},
        {"name": "call_tool", "arguments": {"source": "nowhere", "tool": "echo", "arguments": {}}},
        call("big", json!({"bytes": 1_000_000})),
    ]);
    for (at, (script, mode, protocol)) in CLIENTS.iter().enumerate() {
        let environment = [("TOKEN", token(at)), ("WAIT_CHANGED", "1".to_owned())];
        let seen = client(script, mode, &url, &environment, &calls);
        let who = format!("{script} {mode}: {seen:.2000}");
        assert_eq!(seen["protocol"], *protocol, "{who}");
        assert_eq!(seen["serverInfo"]["name"], "toolrelay", "{who}");
        assert_eq!(names(&seen["tools"]), MENU, "{who}");
        let results = seen["results"].as_array().unwrap();
        let text = |at: usize| results[at]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{who}"));
        assert_eq!(text(0), "{\"said\":\"through the relay\"}");
        assert!(results[1]["content"].is_array(), "{who}");
        assert_eq!(results[2]["structuredContent"]["toolset"]["enabled"], true, "{who}");
        assert_eq!(text(3), "{\"n\":7}");
        assert_eq!(results[4]["structuredContent"]["error"]["kind"], "unknown_source", "{who}");
        assert!(text(5).len() > 900_000, "{who}");
        let after = names(&seen["toolsAfter"]);
        assert!(after.contains(&"fix__get_note") && !after.contains(&"other__echo"), "{who}");
    }
    front.finish();
}

#[test]
fn a_wrong_token_is_told_to_every_client() {
    let front = front();
    let url = [format!("http://{}/mcp", front.address)];
    for (script, mode, _) in CLIENTS {
        let seen = client(script, mode, &url, &[("TOKEN", "no-such-token-anywhere".to_owned())], &json!([]));
        assert!(seen["error"].is_object() && seen["tools"] == json!([]), "{script} {mode}: {seen}");
    }
    front.finish();
}

#[test]
fn the_inspector_lists_and_calls() {
    let front = front();
    let home = tempfile::tempdir().unwrap();
    for (at, era) in ["legacy", "modern"].iter().enumerate() {
        let inspector = |arguments: &[&str]| -> Value {
            let header = format!("Authorization: Bearer {}", token(CLIENTS.len() + at));
            let output = Command::new(peers().join("node_modules/node/bin/node"))
                .arg(peers().join("node_modules/.bin/mcp-inspector"))
                .args(["--cli", &format!("http://{}/mcp", front.address), "--header", &header, "--protocol-era", era])
                .args(arguments)
                .env("HOME", home.path())
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", said(&output));
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
        };
        let listed = inspector(&["--method", "tools/list"]);
        let listed: Vec<_> =
            listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(listed, MENU);
        let arguments = ["source=fix", "tool=echo", "arguments={\"message\":\"hi\"}"];
        let call = ["--method", "tools/call", "--tool-name", "call_tool", "--tool-arg"];
        let called =
            inspector(&[&call[..], &[arguments[0], "--tool-arg", arguments[1], "--tool-arg", arguments[2]]].concat());
        assert_eq!(called["content"][0]["text"], "{\"message\":\"hi\"}", "{called}");
    }
    front.finish();
}
