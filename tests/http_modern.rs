//! Clients of 2026-07-28 over HTTP: each request by itself, its headers, statuses, and its end when the connection ends.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/standing_http.rs"]
mod standing_http;
#[path = "support/http.rs"]
mod support;

use serde_json::{Value, json};
use standing_http::HttpTrial;
use support::{Answer, Front, MODERN, Place, eventually, meta, source};

fn body(method: &str, params: Value) -> String {
    let mut params = params;
    if params.get("_meta").is_none() {
        params["_meta"] = meta();
    }
    json!({"jsonrpc": "2.0", "id": "r1", "method": method, "params": params}).to_string()
}

/// Posts with exactly these headers.
#[track_caller]
fn post(front: &Front, headers: &[&str], body: &str) -> Answer {
    let answer = front.post(headers, body);
    assert!(answer.head.header("mcp-session-id").is_none());
    answer
}

const VERSION: &str = "MCP-Protocol-Version: 2026-07-28";

/// It used to get no byte, ever.
#[test]
fn nobody_listens_without_taking_events() {
    let front = Front::start("", &[source("fix", &[], "")]);
    let mut client = front.client(None);
    let (text, mut headers) =
        client.request_text("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    headers.push("Accept: application/json".to_owned());
    let answer = client.begin(&headers, &text).whole();
    assert_eq!((answer.head.status, answer.error_code()), (406, -32600));
    assert!(answer.body.contains("text/event-stream") && !answer.json()["id"].is_null(), "{}", answer.body);
    front.finish();
}

#[test]
fn requests_stand_alone() {
    let front = HttpTrial::start(&[source("fix", &[], "")]);
    let mut client = front.client(None);
    let discovered = client.request("server/discover", json!({})).result();
    assert_eq!(discovered["supportedVersions"][0], MODERN);
    assert_eq!((&discovered["resultType"], &discovered["cacheScope"]), (&json!("complete"), &json!("private")));
    // C14-A05: without these a client of this revision drops all tools.
    let listed = client.request("tools/list", json!({})).result();
    assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(listed["resultType"], "complete");
    let echoed = client.call("fix", "echo", json!({"x": 1.0e2})).result();
    assert_eq!(echoed["resultType"], "complete");
    let (text, headers) = client.request_text("notifications/cancelled", json!({"requestId": 1}));
    let mut notice: Value = serde_json::from_str(&text).unwrap();
    notice.as_object_mut().unwrap().remove("id");
    assert_eq!(client.exchange(&headers, &notice.to_string()).0.status, 202);
    // A GET or DELETE without a session is nothing this revision knows.
    for method in ["GET", "DELETE"] {
        assert_eq!(front.ask(method, "/mcp", &[VERSION], "").head.status, 405);
    }
    front.finish();
}

#[test]
fn headers_must_say_what_the_body_says() {
    let front = Front::start("", &[source("fix", &[], "")]);
    let call = body("tools/call", json!({"name": "find_tools", "arguments": {}}));
    let list = body("tools/list", json!({}));
    let method = "Mcp-Method: tools/call";
    for (headers, body, code) in [
        (vec![VERSION, method, "Mcp-Name: find_tools"], &call, 0),
        (vec![VERSION, "mcp-METHOD:  tools/call ", "MCP-NAME: =?base64?ZmluZF90b29scw==?="], &call, 0),
        (vec![VERSION, "Mcp-Method: tools/list"], &list, 0),
        (vec![VERSION, method], &call, -32020),
        (vec![VERSION, "Mcp-Name: find_tools"], &call, -32020),
        (vec![VERSION, "Mcp-Method: tools/list", "Mcp-Name: find_tools"], &call, -32020),
        (vec![VERSION, "Mcp-Method: TOOLS/CALL", "Mcp-Name: find_tools"], &call, -32020),
        (vec![VERSION, method, "Mcp-Name: call_tool"], &call, -32020),
        (vec![VERSION, method, "Mcp-Name: find_tools", "Mcp-Name: find_tools"], &call, -32020),
        (vec![VERSION, method, "Mcp-Name: =?base64?!?="], &call, -32020),
        (vec![method, "Mcp-Name: find_tools"], &call, -32020),
        (vec!["MCP-Protocol-Version: 2025-11-25", method, "Mcp-Name: find_tools"], &call, -32020),
    ] {
        let answer = post(&front, &headers, body);
        match code {
            0 => assert_eq!((answer.head.status, answer.json()["result"].is_object()), (200, true), "{headers:?}"),
            code => {
                assert_eq!((answer.head.status, answer.error_code()), (400, code), "{headers:?}: {}", answer.body);
                assert_eq!(answer.json()["id"], "r1");
            }
        }
    }
    front.finish();
}

#[test]
fn errors_have_their_statuses() {
    let front = Front::start("", &[source("fix", &[], "")]);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut meta = meta();
        change(&mut meta);
        json!({"_meta": meta})
    };
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let future = "MCP-Protocol-Version: 2099-01-01";
    let unknown = "Mcp-Method: nothing/here";
    let list = "Mcp-Method: tools/list";
    for (headers, body, status, code) in [
        (vec![future, list], body("tools/list", with(&|meta| meta[version] = json!("2099-01-01"))), 400, -32022),
        (vec![VERSION, unknown], body("nothing/here", json!({})), 404, -32601),
        (vec![VERSION, list], body("tools/list", json!({"cursor": "x"})), 200, -32602),
        (
            vec![VERSION, list],
            body("tools/list", with(&|meta| drop(meta.as_object_mut().unwrap().remove(version)))),
            400,
            -32602,
        ),
        (
            vec![VERSION, list],
            body("tools/list", with(&|meta| drop(meta.as_object_mut().unwrap().remove(capabilities)))),
            400,
            -32602,
        ),
        (vec![VERSION, list], "{\"jsonrpc\":\"2.0\",\"id\":\"r1\",\"method\":".to_owned(), 400, -32700),
        (vec![VERSION, list], "[]".to_owned(), 400, -32600),
    ] {
        let answer = post(&front, &headers, &body);
        assert_eq!((answer.head.status, answer.error_code()), (status, code), "{body}: {}", answer.body);
        if code == -32022 {
            let data = &answer.json()["error"]["data"];
            assert_eq!((&data["supported"][0], &data["requested"]), (&json!(MODERN), &json!("2099-01-01")));
        }
    }
    // A source's own errors of these kinds have the status that goes with them, whichever way they came.
    for (code, told, status) in [
        (-32021, -32021, 400),
        (-32020, -32020, 400),
        (-32601, -32601, 404),
        (-32603, -32603, 200),
        // Two codes of earlier revisions, which 2026-07-28 has no more.
        (-32002, -32602, 200),
        (-32042, -32603, 200),
    ] {
        let inner = json!({"source": "fix", "tool": "fail", "arguments": {"code": code, "message": "no", "data": [1]}});
        let call = body("tools/call", json!({"name": "call_tool", "arguments": inner}));
        let answer = post(&front, &[VERSION, "Mcp-Method: tools/call", "Mcp-Name: call_tool"], &call);
        assert_eq!((answer.head.status, answer.error_code()), (status, told), "{}", answer.body);
        assert_eq!(answer.json()["error"]["data"], json!([1]));
    }
    front.finish();
}

/// An argument that a tool's schema repeats in a header (SEP-2243).
#[test]
fn arguments_repeated_in_headers_are_compared() {
    let place = Place::new();
    let tool = json!([{"name": "at", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"}}}},
        {"name": "odd", "inputSchema": {"type": "object", "properties": {
        "n": {"type": "number", "x-mcp-header": "N"}}}}]);
    let file = place.write("tools.json", tool.to_string());
    let front = Front::start_in(&place, "exposure = \"eager\"", &[source("fix", &["--tools-json", &file], "")]);
    eventually("the tool is listed", || front.client(None).names().iter().any(|name| name == "fix__at"));
    let call = |arguments: Value| body("tools/call", json!({"name": "fix__at", "arguments": arguments}));
    let base = [VERSION, "Mcp-Method: tools/call", "Mcp-Name: fix__at"];
    for (more, arguments, status) in [
        (Some("Mcp-Param-Region: eu"), json!({"region": "eu"}), 200),
        (Some("Mcp-Param-Region: =?base64?w6Q=?="), json!({"region": "ä"}), 200),
        (None, json!({}), 200),
        (None, json!({"region": "eu"}), 400),
        (Some("Mcp-Param-Region: us"), json!({"region": "eu"}), 400),
        (Some("Mcp-Param-Region: eu"), json!({}), 400),
    ] {
        let headers: Vec<&str> = base.into_iter().chain(more).collect();
        let answer = post(&front, &headers, &call(arguments.clone()));
        assert_eq!(answer.head.status, status, "{more:?} {arguments}: {}", answer.body);
        assert!(status == 200 || answer.error_code() == -32020);
    }
    // A header that no tool may ask for is not missed.
    let call = body("tools/call", json!({"name": "fix__odd", "arguments": {"n": 1.5}}));
    let answer = post(&front, &[VERSION, "Mcp-Method: tools/call", "Mcp-Name: fix__odd"], &call);
    assert_eq!(answer.head.status, 200, "{}", answer.body);
    front.finish();
}

/// Closing the connection takes the call back, and nothing else does.
#[test]
fn a_modern_client_that_goes_away_cancels() {
    let place = Place::new();
    let mut front = HttpTrial::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    let mut client = front.client(None);
    client.call("fix", "echo", json!({}));
    let sleep = json!({"source": "fix", "tool": "sleep", "arguments": {"ms": 60_000}});
    let cancelled = || place.journal_count("fix.journal", "notifications/cancelled");
    for (round, accept) in [(1, None), (2, Some("Accept: application/json".to_owned()))] {
        let (text, headers) = client.request_text("tools/call", json!({"name": "call_tool", "arguments": sleep}));
        let headers: Vec<String> = headers.into_iter().chain(accept).collect();
        let mut waiting = client.begin(&headers, &text);
        eventually("the source has the call", || place.journal_count("fix.journal", "tools/call") == 1 + round);
        if round == 1 {
            assert!(waiting.head().is_stream());
        }
        assert_eq!(cancelled(), round - 1);
        front.holds();
        drop(waiting);
        eventually("the source is told", || cancelled() == round);
    }
    // A batch that it was not told of goes with it.
    let batch = json!({"name": "batch_call", "arguments": {"calls": [sleep, sleep], "max_parallel": 1}});
    let (text, headers) = client.request_text("tools/call", batch);
    let waiting = client.begin(&headers, &text);
    eventually("the source has the first call", || place.journal_count("fix.journal", "tools/call") == 4);
    drop(waiting);
    eventually("the source is told", || cancelled() == 3);
    assert!(client.call("fix", "echo", json!({"still": "here"})).text().contains("here"));
    assert_eq!(place.journal_count("fix.journal", "tools/call"), 5, "the second was never sent");
    front.finish();
}

#[test]
fn changes_come_over_a_subscription() {
    let front = Front::start("exposure = \"eager\"", &[source("fix", &["--changing"], "")]);
    let mut client = front.client(None);
    eventually("the tools are listed", || client.names().iter().any(|name| name == "fix__grow"));
    let listen = |client: &mut support::Client, wanted: Value| {
        let (text, headers) = client.request_text("subscriptions/listen", json!({"notifications": wanted}));
        let id = serde_json::from_str::<Value>(&text).unwrap()["id"].clone();
        let mut stream = client.begin(&headers, &text);
        assert!(stream.head().is_stream());
        let first: Value = serde_json::from_str(&stream.event().unwrap().data).unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        (stream, id)
    };
    let (mut told, id) = listen(&mut client, json!({"toolsListChanged": true}));
    let (mut quiet, _) = listen(&mut client, json!({}));
    client.call("fix", "grow", json!({}));
    let event = told.event().unwrap();
    let event: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(event["method"], "notifications/tools/list_changed");
    assert_eq!(event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    // It ends with the relay, with an answer.
    front.relay.signal(rustix::process::Signal::TERM);
    let last: Value = serde_json::from_str(&told.event().unwrap().data).unwrap();
    assert_eq!((&last["id"], last["result"].is_object()), (&id, true));
    assert_eq!(told.event(), None);
    let last: Value = serde_json::from_str(&quiet.event().unwrap().data).unwrap();
    assert!(last["result"].is_object(), "{last}");
    front.finish();
}

/// C20-A04, C20-A05: what a client sends about itself goes no further, and is not written down.
#[test]
fn credentials_of_a_client_go_no_further() {
    let place = Place::new();
    let token = "tok-0123456789abcdef-secret";
    let tables = [place.journaled("fix", &[], ""), format!("[credential.ci]\ntoken = {token:?}\n")];
    let command = HttpTrial::command_logged(&place, "", &tables, "trace");
    let front = HttpTrial::spawn(&place, command, &tables);
    let mut client = front.client(Some(token));
    client.headers.extend(["Cookie: c=tok-cookie", "X-Api-Key: tok-key"].map(str::to_owned));
    client.call("fix", "echo", json!({}));
    let environment = client.call("fix", "env", json!({})).line;
    let wrong = front.post(&["Authorization: Bearer tok-wrong"], "{}").body;
    let journal = place.lines("fix.journal").join("\n");
    let log = front.relay.stderr();
    for text in [&environment, &journal, &log, &wrong] {
        for secret in [token, "tok-cookie", "tok-key", "tok-wrong"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    front.finish();
}
