//! Real clients that are asked things by sources behind the relay: TypeScript v1 and v2 and Python, of both eras, with
//! sources of both eras, directly and through `call_tool`. They are installed by `make peers`.

#![allow(clippy::unwrap_used)]

#[path = "support/peer.rs"]
mod peer;

use std::path::Path;

use peer::{CLIENTS, client, peers, relay};
use serde_json::{Value, json};

fn answers() -> Value {
    json!({
        "elicitation/create": {"action": "accept", "content": {"name": "Ada", "color": "blue"}},
        "sampling/createMessage":
            {"role": "assistant", "content": {"type": "text", "text": "Paris."}, "model": "m", "stopReason": "endTurn"},
        "roots/list": {"roots": [{"uri": "file:///home/ada", "name": "home"}]},
    })
}

/// A configuration with one source; `more` are lines of its table.
fn config(folder: &Path, command: &Path, more: &str) -> String {
    let state = folder.join("state");
    let text = format!(
        "[relay]\nexposure = \"eager\"\nstate_dir = {state:?}\n[source.asker]\ncommand = {command:?}\n{more}\n"
    );
    let file = folder.join("sources.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Each call directly and through the dispatcher.
fn both(calls: &[(&str, Value)]) -> Value {
    let direct =
        calls.iter().map(|(tool, arguments)| json!({"name": format!("asker__{tool}"), "arguments": arguments}));
    let dispatched = calls.iter().map(|(tool, arguments)| {
        json!({"name": "call_tool", "arguments": {"source": "asker", "tool": tool, "arguments": arguments}})
    });
    direct.chain(dispatched).collect()
}

/// Runs the calls with every client; `check` sees each answer's text in the order of the calls.
fn with_every_client(config: &str, calls: &[(&str, Value)], check: impl Fn(&str, &str)) {
    for (script, mode, protocol) in CLIENTS {
        let environment = [("ANSWERS", answers().to_string())];
        let seen = client(script, mode, &relay(config), &environment, &both(calls));
        assert_eq!(seen["protocol"], *protocol, "{script} {mode}: {seen}");
        let results = seen["results"].as_array().unwrap();
        assert_eq!(results.len(), 2 * calls.len(), "{script} {mode}: {seen}");
        for (result, (tool, _)) in results.iter().zip(calls.iter().cycle()) {
            let content = result["content"].as_array().unwrap_or_else(|| panic!("{script} {mode} {tool}: {result}"));
            let texts: Vec<_> = content.iter().filter_map(|part| part["text"].as_str()).collect();
            eprintln!("{script} {mode} {tool}: {}", texts.join(" "));
            check(tool, &texts.join(" "));
        }
    }
}

#[test]
fn real_clients_answer_sources_of_both_eras() {
    let exe = std::env::current_exe().unwrap();
    let server = exe.parent().and_then(Path::parent).unwrap().join("examples/conformance_server");
    let calls = [
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_sampling",
    ]
    .map(|tool| (tool, json!({})));
    for era in ["legacy", "modern"] {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &server, &format!("env = {{ ERA = {era:?} }}"));
        with_every_client(&config, &calls, |tool, text| {
            let wanted: &[&str] = match tool {
                "test_input_required_result_elicitation" => &["Hello, Ada!"],
                "test_input_required_result_sampling" => &["Paris."],
                "test_input_required_result_list_roots" => &["file:///home/ada"],
                "test_input_required_result_multiple_inputs" => &["state-ok", "Ada", "Paris.", "file:///home/ada"],
                "test_input_required_result_multi_round" => &["Ada likes \"blue\"."],
                _ => &["LLM response: Paris."],
            };
            assert!(wanted.iter().all(|want| text.contains(want)), "{era} {tool}: {text}");
        });
    }
}

#[test]
fn real_clients_answer_a_real_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = peers().join("node_modules/.bin/mcp-server-everything");
    let config = config(folder.path(), &server, "args = [\"stdio\"]");
    let calls = [
        ("trigger-sampling-request", json!({"prompt": "The capital of France?", "maxTokens": 9})),
        ("trigger-elicitation-request", json!({})),
    ];
    with_every_client(&config, &calls, |tool, text| {
        let want = if tool == "trigger-sampling-request" { "Paris." } else { "Ada" };
        assert!(text.contains(want), "{tool}: {text}");
    });
}
