//! Calls through the dispatcher as gateways were reported to break them (class C11), one test an item, with the
//! six standing assertions in each. Items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use support::{AT_ONCE, Place, Relay, eventually, source};

/// The arguments that a source was called with.
fn received(place: &Place, id: &str) -> Vec<Value> {
    let lines = place.lines(&format!("{id}.journal"));
    let messages = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls = messages.filter(|message| message["method"] == "tools/call");
    calls.map(|call| call["params"]["arguments"].clone()).collect()
}

#[test]
fn c11_a01_missing_arguments_are_never_null() {
    let place = Place::new();
    let mut relay = Trial::start_in(&place, "exposure = \"eager\"", &[place.journaled("a", &[], "")]);
    for params in ["null", "{}"] {
        let id = relay.ask_raw("tools/list", params);
        assert!(relay.answer(&id).result()["tools"].is_array(), "{params}");
    }
    let bare = relay.new_id();
    relay.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{bare},\"method\":\"tools/list\"}}"));
    assert!(relay.answer(&bare).result()["tools"].is_array());
    for arguments in ["", ",\"arguments\":null", ",\"arguments\":{}"] {
        for params in [
            format!("{{\"name\":\"a__count\"{arguments}}}"),
            format!("{{\"name\":\"call_tool\",\"arguments\":{{\"source\":\"a\",\"tool\":\"count\"{arguments}}}}}"),
        ] {
            let id = relay.ask_raw("tools/call", &params);
            assert_eq!(relay.answer(&id).result().get("isError"), None, "{params}");
        }
    }
    assert_eq!(received(&place, "a").len(), 6);
    assert!(!place.lines("a.journal").iter().any(|line| line.contains("\"arguments\":null")));
    relay.finish();
}

#[test]
fn c11_a02_texts_and_schemas_in_place_of_arguments() {
    let place = Place::new();
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let table = json!({"type": "object", "properties": {"properties": {"type": "object"}, "type": {}}});
    let tools = json!([
        {"name": "weather", "inputSchema": schema},
        {"name": "make_table", "inputSchema": table},
    ]);
    let file = place.write("tools.json", tools.to_string());
    let a = place.journaled("a", &["--tools-json", &file], "");
    let mut relay = Trial::start_in(&place, "exposure = \"meta-only\"", &[a]);
    assert_eq!(relay.call("a", "weather", json!("{\"city\":\"x\"}")).structured(), json!({"city": "x"}));
    for (tool, own, bad, told) in [
        ("weather", &schema, schema.clone(), "a schema instead of values"),
        ("weather", &schema, json!(schema.to_string()), "a schema instead of values"),
        ("weather", &schema, json!({"type": "object", "properties": {}}), "a schema instead of values"),
        ("weather", &schema, json!("not json"), "holds no JSON object"),
        ("weather", &schema, json!([1]), "no object"),
        ("make_table", &table, json!("not json"), "holds no JSON object"),
    ] {
        for source in [json!("a"), Value::Null] {
            let call = json!({"source": source, "tool": tool, "arguments": bad});
            let direct = relay.call_direct("call_tool", call.clone());
            assert_eq!(direct.failure().0, "invalid_arguments", "{bad}");
            let batch = relay.call_direct("batch_call", json!({"calls": [call]})).structured();
            for error in [&direct.structured()["error"], &batch["results"][0]["error"]] {
                assert_eq!(error["inputSchema"], *own, "{bad}");
                assert_eq!((&error["source"], &error["tool"]), (&json!("a"), &json!(tool)), "{bad}");
                assert!(error["message"].as_str().unwrap().contains(told), "{error}");
            }
        }
    }
    // A tool that takes just that is given it.
    assert_eq!(relay.call("a", "make_table", schema.clone()).structured(), schema);
    for (inner, told) in [
        (json!({"source": "a"}), "`tool` is missing"),
        (json!({"source": "a", "tool": "weather", "city": "x"}), "`city` does not belong here"),
    ] {
        let (kind, text) = relay.call_direct("call_tool", inner).failure();
        assert!(kind == "invalid_arguments" && text.contains(told), "{text}");
    }
    assert_eq!(received(&place, "a"), [json!({"city": "x"}), schema]);
    relay.finish();
}

/// The relay's own tools tell of arguments they cannot read in the words of JSON, and take no key they do not know.
#[test]
fn c11_a02_arguments_of_the_relays_own_tools() {
    let mut relay = Trial::start(&[source("a", &[], "")]);
    for (tool, arguments, told) in [
        ("find_tools", json!({"query": "x", "lmit": 3}), "there is no `lmit`; known are `query`, `source`"),
        ("find_tools", json!({"limit": "many"}), "`limit` is to be a whole number"),
        ("find_tools", json!({"tools": 5}), "`tools` is to be a list"),
        ("find_tools", json!({"detail": "everything"}), "`detail` is to be one of \"brief\""),
        ("find_tools", json!([1]), ""),
        ("enable_toolset", json!({}), "`toolset` is missing"),
        ("enable_toolset", json!({"toolset": "a", "all": true}), "there is no `all`; known are `toolset`, `detail`"),
        ("list_sources", json!({"verbose": true}), "there is no `verbose`; it takes none"),
        ("load_tools", json!({"tools": [5]}), "`tools` is to be a list"),
        ("batch_call", json!({"calls": [], "max_parallel": -1}), "`max_parallel` is to be a whole number"),
        ("batch_status", json!({"batch": "b", "cancel": "yes"}), "`cancel` is to be true or false"),
    ] {
        let reply = relay.call_direct(tool, arguments.clone());
        for word in ["usize", "struct", "line 1", "column", "expected"] {
            assert!(told.is_empty() || !reply.text().contains(word), "{}", reply.text());
        }
        if told.is_empty() {
            assert_eq!(reply.error_code(), -32602);
            continue;
        }
        let (kind, text) = reply.failure();
        assert!(kind == "invalid_arguments" && text.contains(told), "{tool} {arguments}: {text}");
    }
    relay.finish();
}

/// Numbers and lists as texts, whole numbers with a fraction, one thing instead of a list, and blanks for what is left out.
#[test]
fn the_relays_own_tools_take_what_models_send() {
    let mut relay = Trial::start(&[source("a", &["--tools", "x,y"], "")]);
    let one = || json!({"source": "a", "tool": "x", "arguments": "null"});
    for (tool, arguments, same) in [
        ("find_tools", json!({"query": "x", "limit": 1.0}), json!({"query": "x", "limit": 1})),
        ("find_tools", json!({"query": "x", "limit": "1"}), json!({"query": "x", "limit": 1})),
        ("find_tools", json!({"query": "x", "limit": 0}), json!({"query": "x", "limit": 1})),
        ("find_tools", json!({"query": "x", "cursor": "", "detail": null}), json!({"query": "x"})),
        ("find_tools", json!({"tools": "a/x"}), json!({"tools": ["a/x"]})),
        ("find_tools", json!({"tools": "[\"a/x\",\"a/y\"]"}), json!({"tools": ["a/x", "a/y"]})),
        ("load_tools", json!({"tools": "a/x"}), json!({"tools": ["a/x"]})),
        ("load_tools", json!({"tools": "[\"a/y\"]"}), json!({"tools": ["a/y"]})),
        ("enable_toolset", json!({"toolset": "a", "detail": ""}), json!({"toolset": "a"})),
    ] {
        let got = relay.call_direct(tool, arguments.clone()).structured();
        assert_eq!(got, relay.call_direct(tool, same).structured(), "{tool} {arguments}");
    }
    for calls in [json!([one()]), json!(json!([one()]).to_string()), one()] {
        let arguments = json!({"calls": calls, "max_parallel": "2", "wait_ms": 2e4});
        let batch = relay.call_direct("batch_call", arguments).structured();
        assert_eq!((&batch["done"], &batch["results"][0]["status"]), (&json!(1), &json!("done")), "{calls}: {batch}");
    }
    relay.finish();
}

/// The hint said to use an argument that `load_tools` does not have.
#[test]
fn a_name_of_several_sources_is_told_apart_in_one_word() {
    let mut relay = Trial::start(&[source("a", &["--tools", "x"], ""), source("b", &["--tools", "x"], "")]);
    let reply = relay.call_direct("load_tools", json!({"tools": ["x"]})).structured();
    let reason = reply["failed"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("say which one as `a/x`") && !reason.contains("`source`"), "{reason}");
    let reply = relay.call_direct("load_tools", json!({"tools": ["a/x"]})).structured();
    assert_eq!(reply["loaded"][0]["name"], "a__x");
    let (_, text) = relay.call_direct("call_tool", json!({"tool": "x"})).failure();
    assert!(text.contains("say which one as `a/x`"), "{text}");
    assert_eq!(
        relay.call_direct("call_tool", json!({"tool": "a/x", "arguments": {"n": 1}})).structured(),
        json!({"n": 1})
    );
    relay.finish();
}

#[test]
fn c11_a03_what_is_shown_can_be_called_at_once() {
    for exposure in ["toolsets", "eager", "lazy", "meta-only", "progressive"] {
        let place = Place::new();
        let sources = [source("a", &["--tools", "first,second"], "")];
        // The first run learns the tools; in the second the source has not been started when it is called.
        for _ in 0..2 {
            let mut relay = Trial::start_in(&place, &format!("exposure = \"{exposure}\""), &sources);
            assert_eq!(relay.call("a", "first", json!({"n": 1})).structured(), json!({"n": 1}), "{exposure}");
            assert_eq!(relay.call_direct("a__second", json!({"n": 2})).structured(), json!({"n": 2}), "{exposure}");
            let call = json!({"source": "a", "tool": "second", "arguments": {"n": 3}});
            let batch = relay.call_direct("batch_call", json!({"calls": [call]})).structured();
            assert_eq!(batch["results"][0]["result"]["structuredContent"], json!({"n": 3}), "{exposure}");
            relay.finish();
        }
    }
}

#[test]
fn c11_a04_questions_are_read_by_words() {
    let place = Place::new();
    let mut tools: Vec<_> = (0..200)
        .map(|n| json!({"name": format!("filler_{n}"), "description": format!("Keeps shelf {n} tidy."), "inputSchema": {}}))
        .collect();
    tools.push(json!({"name": "list_pull_requests", "description": "Lists pull requests.", "inputSchema": {}}));
    tools.push(json!({"name": "create_issue", "description": "Opens a new issue.", "inputSchema": {}}));
    let file = place.write("tools.json", Value::from(tools).to_string());
    let mut relay = Trial::start_in(&place, "", &[source("hub", &["--tools-json", &file], "")]);
    relay.call("hub", "create_issue", json!({}));
    let mut first = |query: &str| {
        let find = |relay: &mut Relay| relay.call_direct("find_tools", json!({"query": query})).structured();
        let found = find(&mut relay);
        assert_eq!(find(&mut relay), found, "{query}");
        found["matches"][0]["tool"].as_str().unwrap_or_default().to_owned()
    };
    for query in ["list open pull requests", "pull requests list", "list_pull_requests", "lst pull requets"] {
        assert_eq!(first(query), "list_pull_requests", "{query}");
    }
    for query in ["create_issue", "create issue", "createIssue", "hub create issue"] {
        assert_eq!(first(query), "create_issue", "{query}");
    }
    for query in ["", " ", "hub"] {
        assert!(!first(query).is_empty(), "{query:?}");
    }
    first(&"word ".repeat(1000));
    first("(.*)+[\\");
    relay.finish();
}

#[test]
fn c11_a05_a_denied_tool_cannot_be_called() {
    let place = Place::new();
    let denied = place.journaled("a", &["--tools", "wipe.all"], "deny = [\"wipe*\"]");
    let mut relay = Trial::start_in(&place, "", &[denied]);
    relay.call_direct("enable_toolset", json!({"toolset": "a"}));
    relay.call_direct("disable_toolset", json!({"toolset": "a"}));
    for tool in ["wipe.all", "a/wipe.all", "a__wipe.all"] {
        assert_eq!(relay.call("a", tool, json!({})).failure().0, "withheld", "{tool}");
    }
    for tool in ["WIPE.ALL", "wipe_all"] {
        let kind = relay.call("a", tool, json!({})).failure().0;
        assert!(["withheld", "unknown_tool"].contains(&kind.as_str()), "{tool}: {kind}");
    }
    for name in ["a__wipe.all", "a__wipe_all", "wipe.all"] {
        let reply = relay.call_direct(name, json!({}));
        assert!(reply.raw("error").is_some() || reply.failure().0 == "withheld", "{name}");
    }
    let calls = json!([{"source": "a", "tool": "wipe.all"}, {"tool": "wipe.all"}]);
    let batch = relay.call_direct("batch_call", json!({"calls": calls})).structured();
    for result in batch["results"].as_array().unwrap() {
        assert_eq!(result["error"]["kind"], "withheld", "{batch}");
    }
    assert_eq!(received(&place, "a"), [json!(null); 0]);
    // Closed is not denied.
    assert_eq!(relay.call("a", "echo", json!({"e": 1})).structured(), json!({"e": 1}));
    relay.finish();
}

#[test]
fn c11_a06_a_batch_keeps_each_outcome_in_its_place() {
    let mut relay = Trial::start(&[source("a", &[], "call_timeout_secs = 1"), source("b", &[], "")]);
    let call =
        |source: &str, tool: &str, arguments: Value| json!({"source": source, "tool": tool, "arguments": arguments});
    let calls = json!([
        call("b", "echo", json!({"n": 0})),
        call("b", "no_such_tool", json!({})),
        call("a", "sleep", json!({"ms": 60_000})),
        call("b", "tool_error", json!({})),
        call("b", "echo", json!({"n": 4})),
        call("b", "die", json!({"code": 3})),
    ]);
    let batch = relay.call_direct("batch_call", json!({"calls": calls, "max_parallel": 1})).structured();
    let results = batch["results"].as_array().unwrap();
    let told: Vec<_> = results.iter().map(|one| (one["index"].clone(), one["error"]["kind"].clone())).collect();
    assert_eq!(told.iter().map(|(index, _)| index.as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(results[0]["result"]["structuredContent"], json!({"n": 0}));
    assert_eq!(told[1].1, "unknown_tool");
    assert_eq!(told[2].1, "timed_out");
    assert_eq!(results[3]["result"]["isError"], true);
    assert_eq!(results[4]["result"]["structuredContent"], json!({"n": 4}));
    assert_eq!(told[5].1, "exited");
    relay.finish();
}

#[test]
fn c11_a08_a_source_that_is_down_is_no_unknown_tool() {
    let place = Place::new();
    let good = [source("a", &["--tools", "known"], "")];
    let mut relay = Trial::start_in(&place, "", &good);
    relay.call("a", "known", json!({}));
    eventually("it is listed", || relay.status("a")["tools"] != 0);
    relay.finish();
    let mut relay = Trial::start_in(&place, "", &[source("a", &["--tools", "known"], "")]);
    let (kind, text) = relay.call("a", "knwn", json!({})).failure();
    assert!(kind == "unknown_tool" && text.contains("Similar: known"), "{text}");
    relay.finish();
    // From now on it ends as soon as it is started.
    let mut relay = Trial::start_in(&place, "", &[source("a", &["--tools", "known", "--exit-at-once", "7"], "")]);
    let start = Instant::now();
    for tool in ["known", "knwn"] {
        let (kind, text) = relay.call("a", tool, json!({})).failure();
        assert!(kind != "unknown_tool" && text.contains("source `a`"), "{tool}: {kind}: {text}");
    }
    assert!(start.elapsed() < AT_ONCE + Duration::from_secs(5));
    relay.finish();
}
