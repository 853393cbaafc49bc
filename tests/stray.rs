//! What sources write besides messages, and when: before the first one, between two, in front of one, and for ever.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use serde_json::json;
use standing::Trial;
use support::{Place, Relay, command, eventually, fixture, source};

/// A server that ends with code 0 after each answer, and writes one letter into `log` at each start.
fn script(log: &str) -> String {
    let answer = |result: &str| format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{result}}}\\n' \"$id\"");
    let greeting = answer(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
    );
    let list = answer(r#"{"tools":[{"name":"once","inputSchema":{"type":"object"}}]}"#);
    let call = answer(r#"{"content":[{"type":"text","text":"done"}]}"#);
    format!(
        "echo x >> {log}; while read -r line; do id=${{line#*\\\"id\\\":}}; id=${{id%%,*}}; case $line in \
         *'\"initialize\"'*) {greeting};; *'\"tools/list\"'*) {list};; *'\"tools/call\"'*) {call}; exit 0;; esac; done"
    )
}

#[test]
fn what_is_no_mcp_server_is_told_early() {
    let echo = command("echo", "cat", &[], "");
    let flood = command("flood", "yes", &[], "");
    let mut relay = Relay::greeted("", &[source("good", &[], ""), echo, flood]);
    for (id, told) in [("echo", "sends back what it is sent"), ("flood", "not one MCP message")] {
        let line = relay.await_status(id, "unreachable");
        assert!(line["reason"].as_str().unwrap().contains(told), "{line}");
    }
    assert_eq!(relay.call("good", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
}

#[test]
fn a_stray_line_costs_no_call_once_messages_flow() {
    let mut relay = Relay::greeted("", &[source("fix", &[], "")]);
    relay.call("fix", "echo", json!({}));
    let before = relay.place.processes(relay.pid());
    let waiting = relay.ask_call("fix", "sleep", json!({"ms": 300}));
    for stray in ["Content-Length: 20\n", "\u{1b}[0m", "data: "] {
        let text = format!("{stray}{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{{\"content\":[]}}}}");
        let file = relay.place.write("line", text);
        assert_eq!(
            relay.call("fix", "raw_line", json!({"file": file})).raw("result"),
            Some(r#"{"content":[]}"#),
            "{stray:?}"
        );
    }
    assert_eq!(relay.answer(&waiting).text(), "slept 300 ms");
    assert_eq!(relay.place.processes(relay.pid()), before);
    relay.finish();
}

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"n":1}}"#;

/// Lines of a log in JSON may carry the number of a call: they are no answers to it, whatever else stands in them.
/// Programs that write a message and its line end apart, from several threads, put two on one line.
#[test]
fn what_shares_its_line_with_a_message_costs_no_call() {
    let mut relay = Relay::greeted("", &[source("fix", &[], "")]);
    relay.call("fix", "echo", json!({}));
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"x"}}"#;
    let nobodys = r#"{"jsonrpc":"2.0","id":999999,"result":{"content":[]}}"#;
    let log = r#"{"level":"info","id":@ID@,"msg":"row saved"}"#;
    let cut = r#"{"jsonrpc":"2.0","id":999998,"result":{"jsonrpc":"2.0","id":@ID@,"result":{"content":["#;
    for (before, behind) in [
        (notice, ""),
        ("", notice),
        (nobodys, ""),
        ("", nobodys),
        (log, log),
        ("INFO {\"a\":1} ", " done"),
        ("", "\u{1b}[0m"),
        (nobodys, cut),
    ] {
        let text = format!("{before}{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{{\"content\":[]}}}}{behind}");
        let file = relay.place.write("line", text);
        let reply = relay.call("fix", "raw_line", json!({"file": file}));
        assert_eq!(reply.raw("result"), Some(r#"{"content":[]}"#), "{before:?} {behind:?}: {}", reply.line);
    }
    relay.finish();
}

#[test]
fn a_log_line_with_the_number_of_a_call_is_no_answer() {
    let mut relay = Trial::start(&[source("fix", &[], "")]);
    for line in [
        r#"{"level":"info","id":@ID@,"msg":"row saved"}"#,
        r#"{"level":"info","id":"@ID@","msg":"row saved"}"#,
        r#"{"level":"info","id":@ID@,"result":"ok","msg":"row saved"}"#,
        r#"{"time":1,"id":@ID@,"error":"cache miss"}"#,
        r#"{"time":1,"id":@ID@,"error":null}"#,
        r#"{"time":NaN,"id":@ID@,"result":"ok"}"#,
        r#"{"id":@ID@}"#,
    ] {
        let file = relay.place.write("line", format!("{line}\n{ANSWER}"));
        assert_eq!(relay.call("fix", "raw_line", json!({"file": file})).result()["n"], 1, "{line}");
    }
    // Some sources leave `jsonrpc` out.
    let file = relay.place.write("line", r#"{"id":@ID@,"result":{"content":[],"n":2}}"#);
    assert_eq!(relay.call("fix", "raw_line", json!({"file": file})).result()["n"], 2);
    relay.finish();
}

/// A source numbers its own requests; one that cannot be read is refused, and ends no call of the same number.
#[test]
fn a_request_that_cannot_be_read_is_refused_and_ends_no_call() {
    let place = Place::new();
    let mut relay = Trial::start_in(&place, "max_message_mib = 1", &[place.journaled("fix", &[], "")]);
    let long = "x".repeat(1_100_000);
    for (count, request) in [
        r#"{"jsonrpc":"2.0","id":@ID@,"method":"sampling/createMessage","params":{"temperature":NaN}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"sampling/createMessage","params":{"t":NaN},"id":@ID@}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":@ID@,"method":"sampling/createMessage","params":{"mes"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":@ID@,"method":"sampling/createMessage","params":{{"x":"{long}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","params":{{"x":"{long}"}},"method":"sampling/createMessage","id":@ID@}}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let file = place.write("line", format!("{request}\n{ANSWER}"));
        let cut = &request[..request.len().min(100)];
        assert_eq!(relay.call("fix", "raw_line", json!({"file": file})).result()["n"], 1, "{cut}");
        eventually("it is refused", || {
            place.lines("fix.journal").iter().filter(|line| line.contains("\"code\":-32600")).count() == count + 1
        });
    }
    relay.finish();
}

/// A terminal in between sends back what it is sent; the answers follow all the same.
#[test]
fn a_source_that_echoes_before_it_answers_is_understood() {
    let place = Place::new();
    let script =
        "exec 3>&1; while IFS= read -r line; do printf '%s\\n' \"$line\" >&3; printf '%s\\n' \"$line\"; done |";
    let script = place.write("echo.sh", format!("{script} {}", fixture().display()));
    let mut relay = Trial::start_in(&place, "", &[command("echo", "sh", &[&script], "")]);
    for n in 0..3 {
        assert_eq!(relay.call("echo", "echo", json!({"n": n})).structured(), json!({"n": n}));
    }
    relay.finish();
}

/// A script that ends after its answer has not failed: the next call starts it again, without a growing pause.
#[test]
fn a_source_that_ends_after_each_answer_is_started_for_each() {
    let place = Place::new();
    let log = place.path("starts");
    let once = command("once", "sh", &[&place.write("once.sh", script(&log))], "era = \"legacy\"");
    let mut relay = Trial::start_in(&place, "", &[once]);
    for n in 1..=5 {
        assert_eq!(relay.call("once", "once", json!({})).text(), "done", "call {n}");
        relay.await_status("once", "dormant");
    }
    assert_eq!(place.lines("starts").len(), 5);
    relay.finish();
}

#[test]
fn a_list_that_never_comes_is_told_within_the_time_of_a_start() {
    let greeting = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
    let script = format!("read -r line; printf '%s\\n' '{greeting}'; cat > /dev/null");
    let silent = command("silent", "sh", &["-c", &script], "era = \"legacy\"\nstart_timeout_secs = 1");
    let mut relay = Relay::greeted("", &[silent]);
    let (kind, text) = relay.call("silent", "x", json!({})).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("tools/list") && text.contains("start_timeout_secs"), "{text}");
    relay.finish();
}
