//! Prompts, resources, log lines and questions as gateways were reported to break them (class C21), one test an item, with
//! the six standing assertions in each. Items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/standing_http.rs"]
mod standing_http;
#[path = "support/http.rs"]
mod support;

use serde_json::{Value, json};
use standing::Trial;
use standing_http::HttpTrial;
use support::{Place, Relay, command, eventually, example, fixture, source};

const LISTS: [(&str, &str); 3] =
    [("prompts/list", "prompts"), ("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")];

/// A source that answers these methods with these results.
fn answering(place: &Place, id: &str, results: &[(&str, Value)], settings: &str) -> String {
    let mut flags = Vec::new();
    for (method, result) in results {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{result}}}");
        let file = place.write(&format!("{id}-{}.json", method.replace('/', "-")), line);
        flags.extend(["--reply".to_owned(), format!("{method}={file}")]);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    place.journaled(id, &flags, settings)
}

fn greeting(capabilities: Value) -> (&'static str, Value) {
    let info = json!({"name": "s", "version": "1"});
    ("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}))
}

/// What one of the lists holds under `key`.
fn listed(relay: &mut Relay, method: &str, member: &str, key: &str) -> Vec<String> {
    let result = relay.request(method, json!({})).result();
    let items = result[member].as_array().unwrap_or_else(|| panic!("{method}: {result}"));
    items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn c21_a01_a_capability_without_its_methods_costs_itself_only() {
    for era in ["legacy", "modern"] {
        let mut trial = Trial::start(&[source("boasts", &["--claims", "--era", era], "")]);
        trial.await_status("boasts", "ready");
        for (method, member) in LISTS {
            assert_eq!(trial.request(method, json!({})).result()[member], json!([]), "{era} {method}");
        }
        assert_eq!(trial.call("boasts", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        assert_eq!(trial.request("logging/setLevel", json!({"level": "info"})).result(), json!({}));
        // The source's own refusal, or the relay's; never silence.
        trial.request("resources/read", json!({"uri": "x:y"})).error();
        assert_eq!(trial.call("boasts", "echo", json!({"a": 2})).structured(), json!({"a": 2}));
        assert_eq!(trial.status("boasts")["status"], "ready");
        trial.finish();
    }
}

#[test]
fn c21_a02_a_source_without_tools_is_ready() {
    let flags = ["--toolless", "--prompts", "one,two", "--resources", "doc:a"];
    let mut trial = Trial::start(&[source("toolless", &flags, "")]);
    assert_eq!(trial.await_status("toolless", "ready")["tools"], 0);
    assert_eq!(listed(&mut trial, "prompts/list", "prompts", "name"), ["toolless__one", "toolless__two"]);
    assert_eq!(listed(&mut trial, "resources/list", "resources", "uri"), ["doc:a"]);
    trial.finish();
}

/// Whatever it answers to `tools/list`, which it never said it had.
#[test]
fn c21_a02_a_source_without_tools_may_refuse_to_list_them_in_any_way() {
    for code in [-32601, -32600, -32603, 1] {
        let place = Place::new();
        let refusal =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"error\":{{\"code\":{code},\"message\":\"no tools\"}}}}");
        let refused = format!("args = [\"--reply\", \"tools/list={}\", ", place.write("refusal.json", refusal));
        let results = [greeting(json!({"prompts": {}})), ("prompts/list", json!({"prompts": [{"name": "one"}]}))];
        let toolless = answering(&place, "toolless", &results, "").replace("args = [", &refused);
        let mut trial = Trial::start_in(&place, "", &[toolless]);
        assert_eq!(trial.await_status("toolless", "ready")["tools"], 0, "{code}");
        eventually("its prompt is listed", || {
            listed(&mut trial, "prompts/list", "prompts", "name") == ["toolless__one"]
        });
        trial.finish();
    }
}

#[test]
fn c21_a03_whatever_a_client_tries_it_gets_an_answer_it_can_use() {
    let mut trial = Trial::start(&[source("plain", &[], "")]);
    trial.await_status("plain", "ready");
    for (method, member) in LISTS {
        assert_eq!(trial.request(method, json!({})).result(), json!({member: []}), "{method}");
    }
    let completion = json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}});
    for (method, params, code) in [
        ("prompts/get", json!({"name": "x"}), -32602),
        ("resources/read", json!({"uri": "x:y"}), -32002),
        ("completion/complete", completion, -32602),
        ("tasks/list", json!({}), -32601),
        ("no/such/method", json!({}), -32601),
    ] {
        let error = trial.request(method, params).error();
        assert_eq!(error["code"], code, "{method}: {error}");
        assert!(error["message"].as_str().unwrap().len() > 5, "{method}: {error}");
    }
    assert_eq!(trial.request("logging/setLevel", json!({"level": "info"})).result(), json!({}));
    assert_eq!(trial.call("plain", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    trial.finish();
}

#[test]
fn c21_a04_the_same_uri_of_two_sources_leads_to_each() {
    let flags = ["--resources", "config://app", "--templates", "db://{table}", "--prompts", "ask"];
    let place = Place::new();
    let sources = [place.journaled("one", &flags, ""), place.journaled("two", &flags, "")];
    let mut trial = Trial::start_in(&place, "", &sources);
    let listed = trial.request("resources/list", json!({})).result();
    let uris: Vec<_> = listed["resources"].as_array().unwrap().iter().map(|item| item["uri"].clone()).collect();
    assert_eq!(uris, ["config://app", "toolrelay://two/config://app"]);
    for (uri, text) in [
        ("config://app", "one: config://app"),
        ("toolrelay://one/config://app", "one: config://app"),
        ("toolrelay://two/config://app", "two: config://app"),
        ("toolrelay://two/db://users", "two: db://users"),
    ] {
        let content = trial.request("resources/read", json!({"uri": uri})).result()["contents"][0].clone();
        assert_eq!((content["uri"].as_str(), content["text"].as_str()), (Some(uri), Some(text)));
    }
    // Neither lists it: nobody guesses.
    let error = trial.request("resources/read", json!({"uri": "config://other"})).error();
    let told = error["message"].as_str().unwrap();
    assert!(told.contains("`toolrelay://one/config://other` or `toolrelay://two/config://other`"), "{told}");
    for (name, text) in [("one__ask", "one: ask null"), ("two__ask", "two: ask null")] {
        let result = trial.request("prompts/get", json!({"name": name})).result();
        assert_eq!(result["messages"][0]["content"]["text"], text);
    }
    trial.finish();
}

/// A client that can be asked is asked, under an id of the relay's; the answer reaches the call that wanted it.
#[test]
fn c21_a05_a_question_reaches_the_client_of_its_call() {
    let place = Place::new();
    let faulty = [source("asks", &[], "")];
    let mut relay = Trial::ungreeted(&place, Trial::command(&place, "", &faulty));
    let client = json!({"name": "raw", "version": "1"});
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    relay.request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}),
    );
    relay.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut relay = Trial::of(relay, &faulty);
    relay.await_status("asks", "ready");
    for (method, answer) in [
        ("elicitation/create", json!({"action": "accept", "content": {"name": "Ada"}})),
        (
            "sampling/createMessage",
            json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}),
        ),
        ("roots/list", json!({"roots": []})),
    ] {
        let before = relay.notices.len();
        let call = relay.ask_call("asks", "ask", json!({"method": method}));
        let is_asked = |notices: &[support::Reply]| {
            notices[before..].iter().any(|notice| notice.raw("method") == Some(&format!("\"{method}\"")))
        };
        relay.await_notices(method, is_asked);
        // While the client thinks, everything else goes on.
        relay.holds();
        let question = relay.notices[before..].iter().find(|notice| notice.raw("id").is_some()).unwrap().clone();
        relay.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{answer}}}", question.raw("id").unwrap()));
        assert_eq!(relay.answer(&call).structured(), json!({"result": answer}), "{method}");
    }
    relay.finish();
}

#[test]
fn c21_a06_log_lines_are_shown_from_the_level_that_is_wanted() {
    let place = Place::new();
    let logs = answering(
        &place,
        "logs",
        &[greeting(json!({"tools": {}, "logging": {}})), ("logging/setLevel", json!({}))],
        "",
    );
    let mut trial = Trial::start_in(&place, "", &[logs, source("silent", &[], "")]);
    trial.await_status("logs", "ready");
    trial.await_status("silent", "ready");
    trial.request("logging/setLevel", json!({"level": "warning"})).result();
    let line = |level: &str| {
        let params = json!({"level": level, "logger": "own", "data": format!("a line of {level}")});
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}).to_string()
    };
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[],\"n\":1}}";
    let levels = ["debug", "info", "warning", "error"].map(line).join("\n");
    let file = place.write("lines", format!("{levels}\n{answer}"));
    assert_eq!(trial.call("logs", "raw_line", json!({"file": file})).result()["n"], 1);
    trial.request("ping", json!({}));
    let told: Vec<String> = trial
        .notices
        .iter()
        .filter(|notice| notice.raw("method") == Some("\"notifications/message\""))
        .map(|notice| notice.params()["level"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told, ["warning", "error"]);
    trial.finish();
}

/// A ping is answered at once, before the handshake is over as well.
#[test]
fn c21_a07_pings_of_a_source_are_answered_at_any_time() {
    let place = Place::new();
    let result = greeting(json!({"tools": {}})).1;
    let script = format!(
        "read -r first; id=${{first#*\\\"id\\\":}}; id=${{id%%,*}}; echo '{{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}}'\n\
         read -r pong; case $pong in *'\"id\":\"p\",\"result\":{{}}'*) ;; *) echo \"no pong: $pong\" >&2; exit 9;; esac\n\
         printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{result}}}\\n' \"$id\"; exec {}",
        fixture().display()
    );
    let file = place.write("pings.sh", script);
    let mut trial = Trial::start_in(&place, "", &[command("pings", "sh", &[&file], "era = \"legacy\"")]);
    trial.await_status("pings", "ready");
    let long = trial.ask_call("pings", "sleep", json!({"ms": 500}));
    for _ in 0..5 {
        assert_eq!(trial.call("pings", "ping_me", json!({})).structured(), json!({"result": {}}));
    }
    assert_eq!(trial.answer(&long).text(), "slept 500 ms");
    trial.finish();
}

#[test]
fn c21_a08_prompts_are_there_whichever_source_comes_first_or_late() {
    for ids in [["a", "m", "z"], ["z", "m", "a"]] {
        let place = Place::new();
        let faulty = [
            place.journaled(ids[0], &["--prompts", "p", "--resources", "r:1"], ""),
            place.journaled(ids[1], &[], ""),
            place.journaled(ids[2], &["--prompts", "late", "--start-delay-ms", "1500"], ""),
        ];
        // Before anything is known of them, and when all is remembered.
        for _ in 0..2 {
            let mut relay = Trial::ungreeted(&place, Trial::command(&place, "", &faulty));
            let capabilities = relay.greet()["capabilities"].clone();
            for name in ["tools", "prompts", "resources", "completions"] {
                assert!(capabilities[name].is_object(), "{name}: {capabilities}");
            }
            let mut trial = Trial::of(relay, &faulty);
            eventually("both are listed", || listed(&mut trial, "prompts/list", "prompts", "name").len() == 2);
            let mut wanted = [format!("{}__p", ids[0]), format!("{}__late", ids[2])];
            wanted.sort();
            assert_eq!(listed(&mut trial, "prompts/list", "prompts", "name"), wanted);
            trial.finish();
        }
    }
}

/// What the relay does not declare it does not do by halves: calls are done at once, and tasks are refused.
#[test]
fn c21_a09_tasks_are_whole_or_not_there() {
    let place = Place::new();
    let tools = r#"[{"name":"long","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]"#;
    let tools = place.write("tools.json", tools);
    let mut trial = Trial::start_in(&place, "", &[source("works", &["--tools-json", &tools], "")]);
    trial.await_status("works", "ready");
    assert_eq!(trial.call("works", "long", json!({"a": 1})).structured(), json!({"a": 1}));
    for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
        let error = trial.request(method, json!({"taskId": "7"})).error();
        assert_eq!(error["code"], -32601, "{method}: {error}");
    }
    trial.finish();
    let mut relay = Relay::start("", &[]);
    assert_eq!(relay.greet()["capabilities"]["tasks"], Value::Null);
    relay.finish();
}

/// Tasks are their principal's, and lead to the source that began them.
#[test]
fn c21_a09_tasks_lead_back_to_their_source_for_their_owner_only() {
    const A: &str = "a-0123456789abcdef-01234";
    const B: &str = "b-0123456789abcdef-01234";
    let place = Place::new();
    let server = example("conformance_server");
    let tables = [
        command("jobs", server.to_str().unwrap(), &[], "prefix = \"\"\nenv = { ERA = \"modern\" }"),
        place.journaled("other", &[], ""),
        format!("[credential.a]\ntoken = {A:?}\n[credential.b]\ntoken = {B:?}\n"),
    ];
    let mut trial = HttpTrial::start_in(&place, "", &tables);
    let able =
        json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let ask = |token: &str, method: &str, mut params: Value| {
        let mut client = trial.client(Some(token));
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
    let mut plain = trial.client(Some(A));
    let (body, mut headers) = plain.request_text("tasks/get", task.clone());
    headers.push(format!("Mcp-Name: {}", task["taskId"].as_str().unwrap()));
    assert_eq!(plain.exchange(&headers, &body).1.unwrap().error_code(), -32021);
    trial.holds();
    trial.finish();
}

/// One prompt with `"description":null`, which many servers in Python write, took the lists of all sources away from clients
/// that check what they read.
#[test]
fn an_item_of_no_legal_shape_costs_no_list() {
    let place = Place::new();
    let results = [
        greeting(json!({"prompts": {}, "resources": {}})),
        (
            "prompts/list",
            json!({"prompts": [{"name": "p", "description": null, "arguments": [{"x": 1}, {"name": "a"}]}]}),
        ),
        (
            "resources/list",
            json!({"resources": [{"uri": "x://1", "size": "5", "annotations": null, "_meta": {"k": null}}]}),
        ),
        (
            "resources/templates/list",
            json!({"resourceTemplates": [{"uriTemplate": "x://{a}", "name": "n", "mimeType": null}]}),
        ),
    ];
    let mut trial = Trial::start_in(&place, "", &[answering(&place, "odd", &results, ""), source("fine", &[], "")]);
    for id in ["odd", "fine"] {
        trial.await_status(id, "ready");
    }
    let wants = [
        json!([{"name": "odd__p", "arguments": [{"name": "a"}]}]),
        json!([{"uri": "x://1", "name": "x://1", "_meta": {"k": null}}]),
        json!([{"uriTemplate": "x://{a}", "name": "n"}]),
    ];
    for ((method, member), want) in LISTS.into_iter().zip(wants) {
        assert_eq!(trial.request(method, json!({})).result()[member], want, "{method}");
    }
    trial.finish();
}

/// A level that is none showed every line.
#[test]
fn an_unknown_level_of_log_lines_is_refused() {
    let mut trial = Trial::start(&[source("fix", &["--sociable"], "")]);
    trial.await_status("fix", "ready");
    let mut call = |level: Value| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/logLevel": level});
        let arguments = json!({"level": "warning", "data": "x"});
        let reply = trial.request("tools/call", json!({"name": "fix__log", "arguments": arguments, "_meta": meta}));
        let lines = trial.noticed("notifications/message");
        trial.notices.clear();
        (reply, lines)
    };
    for level in [json!("bogus"), json!(5), json!("Warning"), json!({})] {
        let (reply, lines) = call(level);
        assert_eq!((reply.error_code(), lines), (-32602, 0), "{}", reply.line);
        assert!(reply.error()["message"].as_str().unwrap().contains("emergency"), "{}", reply.line);
    }
    for (level, want) in [(json!("debug"), 1), (json!("error"), 0), (json!(null), 0), (json!("warning"), 1)] {
        let (reply, lines) = call(level);
        reply.result();
        assert_eq!(lines, want, "{}", reply.line);
    }
    trial.finish();
}

/// Where one client has several calls in flight at a source, a line is for it whichever call it belongs to.
#[test]
fn log_lines_of_parallel_calls_of_one_client_reach_it() {
    for era in ["legacy", "modern"] {
        let mut trial = Trial::start(&[source("fix", &["--sociable", "--era", era], "")]);
        trial.await_status("fix", "ready");
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/logLevel": "debug"});
        let call = |tool: &str, arguments: Value| json!({"name": format!("fix__{tool}"), "arguments": arguments, "_meta": meta});
        let slow = trial.ask("tools/call", call("sleep", json!({"ms": 3000})));
        trial.request("tools/call", call("log", json!({"level": "warning", "data": "x"}))).result();
        trial.answer(&slow).result();
        assert_eq!(trial.noticed("notifications/message"), 1, "{era}");
        // It may be the older one's, which wants lines, though the younger one wants none.
        let slow = trial.ask("tools/call", call("sleep", json!({"ms": 3000})));
        let mut quiet = call("log", json!({"level": "warning", "data": "x"}));
        quiet["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/logLevel");
        trial.request("tools/call", quiet).result();
        trial.answer(&slow).result();
        assert_eq!(trial.noticed("notifications/message"), 2, "{era}");
        trial.finish();
    }
}
