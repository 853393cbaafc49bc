//! Prompts, resources, log lines and questions as gateways were reported to break them (class C21), one test an item, with
//! the six standing assertions in each. Items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use serde_json::{Value, json};
use standing::Trial;
use support::{Place, Relay, command, eventually, fixture, source};

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
    let place = Place::new();
    let all = json!({"tools": {}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {}});
    let mut trial = Trial::start_in(&place, "", &[answering(&place, "boasts", &[greeting(all)], "")]);
    trial.await_status("boasts", "ready");
    assert_eq!(trial.call("boasts", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    for (method, member) in [
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        assert_eq!(trial.request(method, json!({})).result()[member], json!([]), "{method}");
    }
    assert_eq!(trial.status("boasts")["status"], "ready");
    trial.finish();
}

#[test]
fn c21_a02_a_source_without_tools_is_ready() {
    let place = Place::new();
    let results = [
        greeting(json!({"prompts": {}, "resources": {}})),
        ("prompts/list", json!({"prompts": [{"name": "one"}, {"name": "two"}]})),
        ("resources/list", json!({"resources": [{"uri": "memo://a", "name": "a"}]})),
    ];
    let refusal = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32601,"message":"Method not found"}}"#;
    let refused = format!("args = [\"--reply\", \"tools/list={}\", ", place.write("refusal.json", refusal));
    let toolless = answering(&place, "toolless", &results, "").replace("args = [", &refused);
    let mut trial = Trial::start_in(&place, "", &[toolless]);
    let line = trial.await_status("toolless", "ready");
    assert_eq!(line["tools"], 0);
    eventually("the prompts are listed", || listed(&mut trial, "prompts/list", "prompts", "name").len() == 2);
    assert_eq!(listed(&mut trial, "resources/list", "resources", "uri"), ["memo://a"]);
    trial.finish();
}

#[test]
fn c21_a03_whatever_a_client_tries_it_gets_an_answer_it_can_use() {
    let mut trial = Trial::start(&[source("plain", &[], "")]);
    trial.await_status("plain", "ready");
    for (method, member) in [
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        assert_eq!(trial.request(method, json!({})).result()[member], json!([]), "{method}");
    }
    for (method, params) in [
        ("logging/setLevel", json!({"level": "info"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}),
        ),
        ("resources/read", json!({"uri": "memo://none"})),
        ("prompts/get", json!({"name": "none"})),
        ("no/such/method", json!({})),
    ] {
        let reply = trial.request(method, params);
        let is_result = reply.raw("result") == Some("{}");
        assert!(is_result || reply.error()["message"].as_str().unwrap().len() > 5, "{method}: {}", reply.line);
    }
    trial.finish();
}

#[test]
fn c21_a04_the_same_uri_of_two_sources_leads_to_each() {
    let place = Place::new();
    let with = |id: &str| {
        let results = [
            greeting(json!({"tools": {}, "prompts": {}, "resources": {}})),
            ("prompts/list", json!({"prompts": [{"name": "review"}]})),
            ("prompts/get", json!({"messages": [{"role": "user", "content": {"type": "text", "text": id}}]})),
            ("resources/list", json!({"resources": [{"uri": "config://app", "name": "app"}]})),
            ("resources/templates/list", json!({"resourceTemplates": [{"uriTemplate": "db://{t}", "name": "t"}]})),
            ("resources/read", json!({"contents": [{"uri": "config://app", "text": format!("of {id}")}]})),
        ];
        answering(&place, id, &results, "")
    };
    let mut trial = Trial::start_in(&place, "", &[with("one"), with("two")]);
    for id in ["one", "two"] {
        trial.await_status(id, "ready");
    }
    eventually("both are listed", || listed(&mut trial, "resources/list", "resources", "uri").len() == 2);
    let uris = listed(&mut trial, "resources/list", "resources", "uri");
    let mut contents: Vec<String> = Vec::new();
    for uri in &uris {
        let read = trial.request("resources/read", json!({"uri": uri})).result();
        contents.push(read["contents"][0]["text"].as_str().unwrap().to_owned());
    }
    contents.sort();
    assert_eq!(contents, ["of one", "of two"], "{uris:?}");
    let names = listed(&mut trial, "prompts/list", "prompts", "name");
    assert_eq!(names.len(), 2);
    for name in &names {
        let text =
            trial.request("prompts/get", json!({"name": name})).result()["messages"][0]["content"]["text"].clone();
        assert!(name.starts_with(text.as_str().unwrap()), "{name}: {text}");
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
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"n\":1}}";
    let levels = ["debug", "info", "warning", "error"].map(line).join("\n");
    let file = place.write("lines", format!("{levels}\n{answer}"));
    assert_eq!(trial.call("logs", "raw_line", json!({"file": file})).result(), json!({"n": 1}));
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
    let place = Place::new();
    let results =
        |name: &str| [greeting(json!({"prompts": {}})), ("prompts/list", json!({"prompts": [{"name": name}]}))];
    let faulty = [
        source("a-without", &[], ""),
        answering(&place, "b-with", &results("early"), ""),
        source("c-without", &[], ""),
        answering(&place, "d-late", &results("late"), "")
            .replace("args = [", "args = [\"--start-delay-ms\", \"1500\", "),
    ];
    let mut relay = Trial::ungreeted(&place, Trial::command(&place, "", &faulty));
    let greeted = relay.greet();
    for capability in ["tools", "prompts", "resources", "completions"] {
        assert!(greeted["capabilities"][capability].is_object(), "{capability}: {greeted}");
    }
    let mut relay = Trial::of(relay, &faulty);
    eventually("both are listed", || listed(&mut relay, "prompts/list", "prompts", "name").len() == 2);
    assert_eq!(listed(&mut relay, "prompts/list", "prompts", "name"), ["b-with__early", "d-late__late"]);
    relay.finish();
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
