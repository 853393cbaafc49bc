//! Resources, prompts, requests of servers and capabilities as gateways were reported to break them (class C21), one test an
//! item.
//!
//! A05 (sampling, elicitation, roots): `tests/asks.rs`, `tests/asks_parked.rs`, `tests/asks_http.rs`. A06 (log lines):
//! `log_lines_go_to_whom_they_belong` in `tests/asks_http.rs` and `legacy_sources_send_the_log_lines_that_anybody_wants` in
//! `tests/primitives.rs`. A07 (ping): `questions_of_a_source_are_answered_by_the_relay` in `tests/calls.rs`.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use serde_json::{Value, json};
use support::{Front, Place, Relay, eventually, source};

const LISTS: [(&str, &str); 3] =
    [("prompts/list", "prompts"), ("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")];

#[test]
fn c21_a01_what_is_declared_and_missing_costs_no_tools() {
    for era in ["legacy", "modern"] {
        let mut relay = Relay::greeted("", &[source("claims", &["--claims", "--era", era], "")]);
        for (method, member) in LISTS {
            assert_eq!(relay.request(method, json!({})).result()[member], json!([]), "{era} {method}");
        }
        assert_eq!(relay.call("claims", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        assert_eq!(relay.status("claims")["status"], "ready");
        assert_eq!(relay.request("logging/setLevel", json!({"level": "info"})).result(), json!({}));
        // The source's own refusal, or the relay's; never silence.
        relay.request("resources/read", json!({"uri": "x:y"})).error();
        assert_eq!(relay.call("claims", "echo", json!({"a": 2})).structured(), json!({"a": 2}));
        relay.finish();
    }
}

#[test]
fn c21_a02_a_source_without_tools_is_a_source() {
    let sources = [source("bare", &["--toolless", "--prompts", "one,two", "--resources", "doc:a"], "")];
    let mut relay = Relay::greeted("", &sources);
    let prompts = relay.request("prompts/list", json!({})).result();
    let names: Vec<_> = prompts["prompts"].as_array().unwrap().iter().map(|prompt| prompt["name"].clone()).collect();
    assert_eq!(names, ["bare__one", "bare__two"]);
    assert_eq!(relay.request("resources/list", json!({})).result()["resources"][0]["uri"], "doc:a");
    relay.await_status("bare", "ready");
    relay.finish();
}

#[test]
fn c21_a03_what_no_source_has_is_empty_or_refused() {
    let mut relay = Relay::greeted("", &[source("tools", &[], "")]);
    for (method, member) in LISTS {
        assert_eq!(relay.request(method, json!({})).result(), json!({member: []}));
    }
    for (method, params, code) in [
        ("prompts/get", json!({"name": "x"}), -32602),
        ("resources/read", json!({"uri": "x:y"}), -32002),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}),
            -32602,
        ),
        ("skills/list", json!({}), -32601),
        ("tasks/list", json!({}), -32601),
    ] {
        assert_eq!(relay.request(method, params).error_code(), code, "{method}");
    }
    assert_eq!(relay.request("logging/setLevel", json!({"level": "info"})).result(), json!({}));
    assert_eq!(relay.call("tools", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
}

#[test]
fn c21_a04_a_uri_leads_to_no_wrong_source() {
    let flags = ["--resources", "config://app", "--templates", "db://{table}", "--prompts", "ask"];
    let place = Place::new();
    let sources = [place.journaled("one", &flags, ""), place.journaled("two", &flags, "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    let listed = relay.request("resources/list", json!({})).result();
    let uris: Vec<_> = listed["resources"].as_array().unwrap().iter().map(|item| item["uri"].clone()).collect();
    assert_eq!(uris, ["config://app", "toolrelay://two/config://app"]);
    for (uri, text) in [
        ("config://app", "one: config://app"),
        ("toolrelay://one/config://app", "one: config://app"),
        ("toolrelay://two/config://app", "two: config://app"),
        ("toolrelay://two/db://users", "two: db://users"),
    ] {
        let content = relay.request("resources/read", json!({"uri": uri})).result()["contents"][0].clone();
        assert_eq!((content["uri"].as_str(), content["text"].as_str()), (Some(uri), Some(text)));
    }
    // Neither lists it: nobody guesses.
    let error = relay.request("resources/read", json!({"uri": "config://other"})).error();
    let told = error["message"].as_str().unwrap();
    assert!(told.contains("`toolrelay://one/config://other` or `toolrelay://two/config://other`"), "{told}");
    for (name, text) in [("one__ask", "one: ask null"), ("two__ask", "two: ask null")] {
        let result = relay.request("prompts/get", json!({"name": name})).result();
        assert_eq!(result["messages"][0]["content"]["text"], text);
    }
    relay.finish();
}

#[test]
fn c21_a08_capabilities_are_those_of_all_sources() {
    for ids in [["a", "z"], ["z", "a"]] {
        let place = Place::new();
        let with = place.journaled(ids[0], &["--prompts", "p", "--resources", "r:1", "--start-delay-ms", "500"], "");
        let sources = [with, place.journaled(ids[1], &[], "")];
        let declared = |relay: &mut Relay| {
            let capabilities = relay.greet()["capabilities"].clone();
            ["tools", "prompts", "resources", "completions"].map(|name| capabilities[name].is_object())
        };
        // Before anything is known of them, and when all is.
        let mut relay = Relay::start_in(&place, "", &sources);
        assert_eq!(declared(&mut relay), [true; 4]);
        let prompts = relay.request("prompts/list", json!({})).result();
        assert_eq!(prompts["prompts"][0]["name"], format!("{}__p", ids[0]));
        relay.finish();
        let mut relay = Relay::start_in(&place, "", &sources);
        assert_eq!(declared(&mut relay), [true; 4]);
        relay.finish();
    }
}

/// Tasks are their principal's, and lead to the source that began them.
#[test]
fn c21_a09_tasks_lead_back_to_their_source_for_their_owner_only() {
    const A: &str = "a-0123456789abcdef-01234";
    const B: &str = "b-0123456789abcdef-01234";
    let place = Place::new();
    let server = support::example("conformance_server");
    let tables = [
        support::command("jobs", server.to_str().unwrap(), &[], "prefix = \"\"\nenv = { ERA = \"modern\" }"),
        place.journaled("other", &[], ""),
        format!("[credential.a]\ntoken = {A:?}\n[credential.b]\ntoken = {B:?}\n"),
    ];
    let front = Front::start_in(&place, "exposure = \"eager\"", &tables);
    let able =
        json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let ask = |token: &str, method: &str, mut params: Value| {
        let mut client = front.client(Some(token));
        params["_meta"] = able.clone();
        let task = params["taskId"].as_str().map(|task| format!("Mcp-Name: {task}"));
        let (body, mut headers) = client.request_text(method, params);
        headers.extend(task);
        client.exchange(&headers, &body).1.unwrap()
    };
    let listed = ask(A, "tools/list", json!({}));
    assert!(listed.line.contains("\"slow_compute\""), "{}", listed.line);
    let call = json!({"name": "slow_compute", "arguments": {"seconds": 1}});
    let begun = ask(A, "tools/call", call).result();
    assert_eq!(begun["resultType"], "task", "{begun}");
    let task = json!({"taskId": begun["taskId"]});
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        assert_eq!(ask(B, method, task.clone()).error_code(), -32602, "{method}");
    }
    eventually("the task is done", || ask(A, "tasks/get", task.clone()).result()["status"] == "completed");
    assert_eq!(ask(A, "tasks/get", json!({"taskId": "no-such-task"})).error_code(), -32602);
    // Who does not declare the extension is told that it has to.
    let mut plain = front.client(Some(A));
    let (body, mut headers) = plain.request_text("tasks/get", task.clone());
    headers.push(format!("Mcp-Name: {}", task["taskId"].as_str().unwrap()));
    assert_eq!(plain.exchange(&headers, &body).1.unwrap().error_code(), -32021);
    front.finish();
}
