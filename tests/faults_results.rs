//! Results, errors and ids as gateways were reported to change or lose them (class C10, and C15 for ids), one test an item,
//! with the six standing assertions in each. Items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use serde_json::{Value, json};
use standing::Trial;
use support::{Place, eventually, source};
use web::Web;

/// Has the source answer with exactly this result, on each path.
fn delivered(trial: &mut Trial, result: &str) -> [String; 2] {
    let file = trial.place.write("result.json", result);
    [
        trial.call_direct("fix__raw", json!({"result_file": file})),
        trial.call("fix", "raw", json!({"result_file": file})),
    ]
    .map(|reply| reply.raw("result").unwrap().to_owned())
}

fn check_delivered(results: &[&str]) {
    let mut trial = Trial::start(&[source("fix", &[], "")]);
    trial.await_status("fix", "ready");
    for result in results {
        assert_eq!(delivered(&mut trial, result), [*result, *result]);
        // In a batch the result stands as it is among the others.
        let file = trial.place.path("result.json");
        let calls = json!([{"source": "fix", "tool": "raw", "arguments": {"result_file": file}}]);
        let batch = trial.call_direct("batch_call", json!({"calls": calls}));
        assert!(batch.line.contains(*result), "{result}: {}", batch.line);
    }
    trial.finish();
}

#[test]
fn c10_a01_structured_content_is_kept_beside_any_content() {
    check_delivered(&[
        r#"{"content":[],"structuredContent":{"a":1}}"#,
        r#"{"structuredContent":{"a":{"b":[null]}},"content":[{"type":"text","text":"x"}]}"#,
        r#"{"content":[{"type":"text","text":"x"}],"_meta":{"vendor/x":{"y":1}},"unknown":[1]}"#,
        r#"{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}],"structuredContent":{}}"#,
    ]);
}

/// The relay does not judge what a source answers by the schema that the source gave.
#[test]
fn c10_a02_results_that_break_their_own_schema_pass() {
    let place = Place::new();
    let tools = json!([{"name": "raw", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}]);
    let tools = place.write("tools.json", tools.to_string());
    // The fixture's own `raw` answers under this name too.
    let mut trial = Trial::start_in(&place, "", &[source("fix", &["--tools-json", &tools], "")]);
    trial.await_status("fix", "ready");
    for result in [
        r#"{"content":[],"structuredContent":{}}"#,
        r#"{"content":[{"type":"text","text":"no such id"}],"isError":true}"#,
        r#"{"content":[{"type":"text","text":"no structure at all"}]}"#,
        r#"{"content":[],"structuredContent":{"id":7}}"#,
    ] {
        assert_eq!(delivered(&mut trial, result), [result, result]);
    }
    trial.finish();
}

/// A call that was answered is done: it is delivered in a shape that strict clients take, and never made again.
#[test]
fn c10_a03_results_that_are_nearly_valid_are_results() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    trial.await_status("fix", "ready");
    let says = |text: &str| json!([{"type": "text", "text": text}]);
    let results = [
        (r#"{"structuredContent":{"a":1}}"#, json!({"content": says("{\"a\":1}"), "structuredContent": {"a": 1}})),
        (r#"{"structuredContent":[1,2]}"#, json!({"content": says("[1,2]")})),
        (r#"{"content":[],"structuredContent":null}"#, json!({"content": []})),
        (r#"{"content":null}"#, json!({"content": []})),
        (r#"{"content":"text"}"#, json!({"content": says("text")})),
        (
            r#"{"content":{"type":"text","text":"one"},"isError":true}"#,
            json!({"content": says("one"), "isError": true}),
        ),
        (r#"{"degrees":21}"#, json!({"content": says("{\"degrees\":21}"), "degrees": 21})),
        (
            r#"{"content":["plain",null,{"type":"text","text":5}]}"#,
            json!({"content": [says("plain")[0], says("5")[0]]}),
        ),
        (
            r#"{"content":[{},{"text":"hi"},{"type":null,"text":"a","_meta":[]}]}"#,
            json!({"content": [says("{}")[0], says("hi")[0], says("a")[0]]}),
        ),
        (
            r#"{"content":[{"type":"text","text":"a","annotations":{"audience":"user","priority":"1"}}]}"#,
            json!({"content": [{"type": "text", "text": "a", "annotations": {}}]}),
        ),
        (
            r#"{"content":[{"type":"resource_link","uri":"x:1","name":"n","size":"5","icons":[{}]}]}"#,
            json!({"content": [{"type": "resource_link", "uri": "x:1", "name": "n"}]}),
        ),
        (r#"{"content":[],"_meta":5}"#, json!({"content": [], "_meta": {"value": 5}})),
        (r#"{"content":[],"isError":"true"}"#, json!({"content": [], "isError": true})),
        ("{}", json!({"content": []})),
        ("null", json!({"content": []})),
        ("[1]", json!({"content": says("[1]")})),
    ];
    for (result, want) in &results {
        for delivered in delivered(&mut trial, result) {
            assert_eq!(serde_json::from_str::<Value>(&delivered).unwrap(), *want, "{result}");
        }
    }
    assert_eq!(place.journal_count("fix.journal", "tools/call"), 2 * results.len());
    // In a batch as well; there structured content may be anything.
    let file = place.write("result.json", r#"{"structuredContent":[1,2]}"#);
    let calls = json!([{"source": "fix", "tool": "raw", "arguments": {"result_file": file}}]);
    let batch = trial.call_direct("batch_call", json!({"calls": calls}));
    let legal = r#"{"content":[{"type":"text","text":"[1,2]"}],"structuredContent":[1,2]}"#;
    assert!(batch.line.contains(legal), "{}", batch.line);
    place.write("result.json", r#"{"content":["no"],"isError":1}"#);
    let batch = trial.call_direct("batch_call", json!({"calls": calls}));
    assert!(batch.line.contains(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#), "{}", batch.line);
    assert_eq!(batch.structured()["results"][0]["status"], "failed", "{}", batch.line);
    trial.finish();
}

#[test]
fn c10_a04_blocks_of_every_kind_stay_in_order() {
    check_delivered(&[concat!(
        r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},"#,
        r#"{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"},"#,
        r#"{"type":"resource","resource":{"uri":"file:///a","text":"t"}},"#,
        r#"{"type":"resource","resource":{"uri":"file:///b","blob":"aGk="}},"#,
        r#"{"type":"resource_link","uri":"file:///c","name":"c"},{"type":"text","text":"z"}]}"#
    )]);
}

#[test]
fn c10_a05_unknown_values_spoil_nothing() {
    check_delivered(&[
        r#"{"content":[{"type":"text","text":"a","annotations":{"audience":["developer"],"priority":2.5,"x":1}}]}"#,
        r#"{"content":[{"type":"video","uri":"v"},{"type":"text","text":"b"}],"isError":false}"#,
    ]);
    let place = Place::new();
    let tools = r#"[{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"mood":"blue"}},{"name":"u","inputSchema":{"type":"object"}}]"#;
    let tools = place.write("tools.json", tools);
    let mut trial = Trial::start_in(&place, "", &[source("hints", &["--tools-json", &tools], "")]);
    trial.await_status("hints", "ready");
    let list = trial.list();
    assert!(
        list.contains(r#""annotations":{"readOnlyHint":true,"mood":"blue"}"#) && list.contains("hints__u"),
        "{list}"
    );
    trial.finish();
}

#[test]
fn c10_a06_what_a_tool_says_of_itself_is_kept() {
    let place = Place::new();
    let rest = r#""title":"T","annotations":{"readOnlyHint":true},"icons":[{"src":"data:,"}],"_meta":{"a/b":1},"outputSchema":{"type":"object"},"x-future":{"y":[1]}"#;
    let schema = r#""inputSchema":{"type":"object","properties":{}},"description":"Does it.""#;
    let tools = place.write("tools.json", format!("[{{\"name\":\"t\",{schema},{rest}}}]"));
    let mut trial = Trial::start_in(&place, "", &[source("a", &["--tools-json", &tools], "")]);
    trial.await_status("a", "ready");
    let list = trial.list();
    assert!(list.contains(&format!("{{\"name\":\"a__t\",{schema},{rest}}}")), "{list}");
    trial.finish();
}

/// What a source says of itself is told of it, within bounds, and costs nothing when it is long or odd.
#[test]
fn c10_a07_instructions_of_sources_are_told() {
    let place = Place::new();
    let greeting = |text: &str| {
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "instructions": text,
            "serverInfo": {"name": "s", "version": "1"}});
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{result}}}");
        format!("initialize={}", place.write(&format!("{}.json", text.len()), head))
    };
    let (long, odd) =
        (format!("Searches the archive. {}", "x".repeat(50_000)), "Rings\u{7} the\u{1b}[31m bell.\nOften.");
    let faulty = [
        source("archive", &["--reply", &greeting(&long)], ""),
        source("bell", &["--reply", &greeting(odd)], ""),
        source("plain", &["--reply", &greeting("Counts sheep. And more.")], ""),
    ];
    let mut trial = Trial::start_in(&place, "", &faulty);
    for id in ["archive", "bell", "plain"] {
        trial.await_status(id, "ready");
    }
    for (id, told) in [("archive", "Searches the archive."), ("bell", "bell."), ("plain", "Counts sheep.")] {
        let summary = trial.status(id)["summary"].as_str().unwrap().to_owned();
        assert!(summary.contains(told.trim_end_matches('.')), "{id}: {summary}");
        assert!(summary.len() < 1000 && !summary.chars().any(char::is_control), "{id}: {summary:?}");
    }
    trial.finish();
}

#[test]
fn c10_a08_digits_stay_as_they_are() {
    let mut trial = Trial::start(&[source("fix", &[], "")]);
    trial.await_status("fix", "ready");
    let digits = r#"{"id":9007199254740993,"big":18446744073709551615,"huge":123456789012345678901234567890,"n":30,"f":30.0,"e":1e3}"#;
    let direct = trial.ask_raw("tools/call", &format!("{{\"name\":\"fix__echo\",\"arguments\":{digits}}}"));
    let call = format!("{{\"source\":\"fix\",\"tool\":\"echo\",\"arguments\":{digits}}}");
    let dispatched = trial.ask_raw("tools/call", &format!("{{\"name\":\"call_tool\",\"arguments\":{call}}}"));
    let batch = format!("{{\"name\":\"batch_call\",\"arguments\":{{\"calls\":[{call}]}}}}");
    let batched = trial.ask_raw("tools/call", &batch);
    for id in [direct, dispatched, batched] {
        let reply = trial.answer(&id);
        assert!(reply.line.contains(&format!("\"structuredContent\":{digits}")), "{}", reply.line);
    }
    check_delivered(&[r#"{"content":[],"_meta":{"n":123456789012345678901234567890,"f":30.0}}"#]);
    trial.finish();
}

/// Whose failure it is can be told from its shape.
#[test]
fn c10_a09_each_failure_is_reported_where_it_belongs() {
    let faulty = [source("fix", &[], "call_timeout_secs = 1"), source("down", &["--exit-at-once", "1"], "")];
    let mut trial = Trial::start(&faulty);
    trial.await_status("fix", "ready");
    trial.await_status("down", "unreachable");
    let kinds = [
        (trial.call("down", "echo", json!({})), "unavailable"),
        (trial.call("fix", "sleep", json!({"ms": 60_000})), "timed_out"),
        (trial.call("nobody", "echo", json!({})), "unknown_source"),
        (trial.call("fix", "ecko", json!({})), "unknown_tool"),
    ];
    for (reply, kind) in &kinds {
        let (found, text) = reply.failure();
        assert_eq!(&found, kind, "{text}");
        assert!(text.len() > 20, "{text}");
    }
    assert!(kinds[3].0.failure().1.contains("echo"), "{}", kinds[3].0.line);
    for code in [-32602, -32000, -32603] {
        let error = trial.call_direct("fix__fail", json!({"code": code, "message": "m", "data": [1]})).error();
        assert_eq!(error, json!({"code": code, "message": "m", "data": [1]}));
    }
    let own = trial.call("fix", "tool_error", json!({"text": "its own"})).result();
    assert_eq!(own, json!({"content": [{"type": "text", "text": "its own"}], "isError": true}));
    assert_eq!(trial.call_direct("fix__nothing", json!({})).error_code(), -32602);
    trial.finish();
}

#[test]
fn c10_a10_there_is_always_one_answer_and_it_says_something() {
    let refusing = Web::start(web::legacy, |seen, out| {
        let refused = seen.rpc() == "tools/call";
        if refused {
            out.reply(500, &[], "");
        }
        refused
    });
    let mut trial = Trial::start(&[refusing.source("web", ""), source("fix", &[], "")]);
    trial.await_status("fix", "ready");
    let (_, text) = trial.call("web", "echo", json!({})).failure();
    assert!(text.contains("`web`") && text.contains("500"), "{text}");
    // An empty message of a source is its own, and stays what it is; through the dispatcher as well.
    for reply in [
        trial.call_direct("fix__fail", json!({"code": -32000, "message": ""})),
        trial.call("fix", "fail", json!({"code": -32000, "message": ""})),
    ] {
        assert_eq!(reply.error(), json!({"code": -32000, "message": ""}));
    }
    let prefixed = "MCP error -32000: it failed";
    let error = trial.call("fix", "fail", json!({"code": -32000, "message": prefixed})).error();
    assert_eq!(error["message"], prefixed);
    trial.finish();
}

#[test]
fn c10_a11_codes_and_data_of_a_source_survive() {
    let mut trial = Trial::start(&[source("fix", &[], "")]);
    trial.await_status("fix", "ready");
    for error in [
        json!({"code": -32042, "message": "open this", "data": {"elicitations": [{"mode": "url", "url": "https://x"}]}}),
        json!({"code": -32002, "message": "not found", "data": {"uri": "file:///x"}}),
        json!({"code": 7, "message": "own"}),
    ] {
        assert_eq!(trial.call_direct("fix__fail", error.clone()).error(), error);
        assert_eq!(trial.call("fix", "fail", error.clone()).error(), error);
    }
    trial.finish();
}

/// Clients drop a message whose error is none by JSON-RPC, and wait for their answer until they give up.
#[test]
fn errors_of_no_legal_shape_are_answers() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[source("fix", &["--prompts", "p"], "")]);
    trial.await_status("fix", "ready");
    for (error, code, says) in [
        (r#"{"code":"ENOENT","message":"no such file"}"#, -32603, "no such file"),
        (r#"{"message":"boom"}"#, -32603, "boom"),
        (r#"{"code":-32000}"#, -32000, "without a message"),
        (r#"{"code":-32000,"message":null,"data":[1]}"#, -32000, "without a message"),
        (r#"{"code":1.5,"message":"x"}"#, -32603, "x"),
        ("{}", -32603, "without a message"),
        (r#""no""#, -32603, "\"no\""),
    ] {
        let file = place.write("line", format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"error\":{error}}}"));
        let arguments = json!({"file": file});
        for reply in [trial.call_direct("fix__raw_line", arguments.clone()), trial.call("fix", "raw_line", arguments)] {
            let told = reply.error();
            assert_eq!(told["code"], code, "{error}: {told}");
            assert!(told["message"].as_str().unwrap().contains(says), "{error}: {told}");
            let kept: Value = serde_json::from_str(error).unwrap();
            assert!(!kept.is_object() || told["data"] == kept || told["data"] == kept["data"], "{error}: {told}");
        }
    }
    trial.finish();
}

/// A source that writes every id as a string, that of a progress notification too.
#[test]
fn c15_a02_ids_in_the_other_type_are_understood() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[source("fix", &[], "")]);
    trial.await_status("fix", "ready");
    assert_eq!(trial.call("fix", "string_id", json!({})).text(), "answered under a string id");
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"@ID@","progress":1}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":"@ID@","result":{"content":[],"n":1}}"#;
    let file = place.write("lines", format!("{progress}\n{answer}"));
    let params = json!({"name": "fix__raw_line", "arguments": {"file": file}, "_meta": {"progressToken": "mine"}});
    assert_eq!(trial.request("tools/call", params).result()["n"], 1);
    let told: Vec<_> = trial.notices.iter().filter(|notice| notice.line.contains("notifications/progress")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].params()["progressToken"], "mine");
    trial.finish();
}

/// What comes too late, twice, or for nobody, is nobody's answer.
#[test]
fn c15_a04_late_answers_reach_nobody() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[source("fix", &["--faults"], "call_timeout_secs = 1")]);
    trial.await_status("fix", "ready");
    // Answers after two seconds, deaf to its cancellation.
    let late = trial.ask_call("fix", "busy", json!({"ms": 2000}));
    assert_eq!(trial.answer(&late).failure().0, "timed_out");
    eventually("the next call gets its own answer", || {
        let reply = trial.call("fix", "echo", json!({"own": true})).result();
        assert!(reply["isError"] == true || reply["structuredContent"] == json!({"own": true}), "{reply}");
        reply["isError"] != true
    });
    let unknown =
        "{\"jsonrpc\":\"2.0\",\"id\":999999,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{}}\n";
    let own = "{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[],\"n\":1}}";
    let file = place.write("lines", format!("{unknown}{own}\n{own}"));
    assert_eq!(trial.call("fix", "raw_line", json!({"file": file})).result()["n"], 1);
    assert_eq!(trial.call("fix", "echo", json!({"n": 2})).structured(), json!({"n": 2}));
    trial.finish();
}
