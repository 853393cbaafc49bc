//! What sources ask of clients over HTTP: never of another one's client, and of each in its own way.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Client, Connection, Front, Place, eventually};

const EAGER: &str = "exposure = \"eager\"";
const A: &str = "a-0123456789abcdef-01234";
const B: &str = "b-0123456789abcdef-01234";

fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

fn ask(message: &str) -> Value {
    let question =
        json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object"}}});
    json!({"name": "asker__ask_many", "arguments": {"questions": [question]}})
}

fn accepted(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn tables(place: &Place, era: &str) -> Vec<String> {
    vec![
        place.journaled("asker", &["--sociable", "--era", era], ""),
        format!("[credential.a]\ntoken = {A:?}\n[credential.b]\ntoken = {B:?}\n"),
    ]
}

fn start(place: &Arc<Place>, era: &str) -> Front {
    let front = Front::start_in(place, EAGER, &tables(place, era));
    front.client(Some(A)).request("tools/call", json!({"name": "asker__echo", "arguments": {}})).result();
    front
}

/// Params of a modern client that can be asked everything.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": able()});
    params
}

fn legacy(front: &Front, token: &str) -> Client {
    let mut client = front.client(Some(token));
    client.greet_able("2025-11-25", able());
    client
}

/// The answer of a call, message by message.
struct Stream {
    connection: Connection,
    begun: bool,
}

/// Begins a call and leaves its stream open.
fn begin(client: &mut Client, params: Value) -> Stream {
    let (body, headers) = client.request_text("tools/call", params);
    Stream { connection: client.begin(&headers, &body), begun: false }
}

/// The next message of a stream.
fn next(stream: &mut Stream) -> Value {
    if !std::mem::replace(&mut stream.begun, true) {
        let head = stream.connection.head();
        assert!(head.is_stream(), "{head:?}");
    }
    loop {
        let event = stream.connection.event().expect("one more message");
        if let Ok(message) = serde_json::from_str(&event.data) {
            return message;
        }
    }
}

fn reply(client: &mut Client, question: &Value, answer: &Value) {
    let body = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}).to_string();
    let (head, _) = client.exchange(&[], &body);
    assert_eq!(head.status, 202);
}

#[test]
fn a_waiting_call_is_its_principals_alone() {
    let place = Place::new();
    let front = start(&place, "legacy");
    let (mut a, mut b) = (front.client(Some(A)), front.client(Some(B)));
    let first = a.request("tools/call", modern(ask("whose?"))).result();
    assert_eq!(first["resultType"], "input_required", "{first}");
    let mut again = modern(ask("whose?"));
    again["requestState"] = first["requestState"].clone();
    again["inputResponses"] = json!({"input_1": accepted("b")});
    assert_eq!(b.request("tools/call", again.clone()).error_code(), -32602);
    again["inputResponses"] = json!({"input_1": accepted("a")});
    // Any connection of its principal takes it up.
    let done = front.client(Some(A)).request("tools/call", again.clone());
    assert_eq!(done.structured()["answers"], json!([{"result": accepted("a")}]));
    assert_eq!(a.request("tools/call", again).error_code(), -32602);
    assert_eq!(place.journal_count("asker.journal", "tools/call"), 2);
    front.finish();
}

/// A modern source keeps what it knows in a state, and sees one client only: the relay sees to it whose that is.
#[test]
fn a_sources_state_is_its_principals_alone() {
    let place = Place::new();
    let front = start(&place, "modern");
    let (mut a, mut b) = (front.client(Some(A)), front.client(Some(B)));
    let first = a.request("tools/call", modern(ask("whose?"))).result();
    assert_eq!(first["inputRequests"]["q0"]["params"]["message"], "[asker] whose?", "{first}");
    let state = first["requestState"].as_str().unwrap().to_owned();
    let mut again = modern(ask("whose?"));
    again["inputResponses"] = json!({"q0": accepted("a")});
    let calls = place.journal_count("asker.journal", "tools/call");
    for (is_a, state) in [(false, state.clone()), (true, "[]".to_owned()), (true, state.replace("-[", "-[ "))] {
        again["requestState"] = state.into();
        let client = if is_a { &mut a } else { &mut b };
        assert_eq!(client.request("tools/call", again.clone()).error_code(), -32602);
    }
    assert_eq!(place.journal_count("asker.journal", "tools/call"), calls);
    again["requestState"] = state.into();
    let answers = a.request("tools/call", again.clone()).structured()["answers"].clone();
    assert_eq!(answers, json!([{"result": accepted("a")}]));
    let sent: Value = serde_json::from_str(&place.lines("asker.journal").pop().unwrap()).unwrap();
    assert_eq!(sent["params"]["requestState"], "[]");
    // Some clients write out what they have not.
    again["requestState"] = Value::Null;
    assert_eq!(a.request("tools/call", again).structured()["answers"], answers);
    front.finish();
}

/// Over one connection a source cannot say whom it asks: where calls of several clients are in flight its question waits until
/// that is certain, and they take turns from then on.
#[test]
fn a_source_shared_by_two_clients_never_asks_the_wrong_one() {
    let place = Place::new();
    let front = start(&place, "legacy");
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let nap = json!({"name": "asker__sleep", "arguments": {"ms": 1500}});
    let mut napping = begin(&mut a, nap.clone());
    eventually("the nap is on", || place.journal_count("asker.journal", "tools/call") == 2);
    let mut asking = begin(&mut b, ask("who?"));
    assert_eq!(next(&mut napping)["result"]["content"][0]["text"], "slept 1500 ms");
    let question = next(&mut asking);
    reply(&mut b, &question, &accepted("b"));
    assert_eq!(next(&mut asking)["result"]["structuredContent"]["answers"], json!([{"result": accepted("b")}]));
    // From now on they do not meet.
    let mut napping = begin(&mut a, nap);
    eventually("the nap is on", || place.journal_count("asker.journal", "tools/call") == 4);
    let mut asking = begin(&mut b, ask("who?"));
    let question = next(&mut asking);
    assert_eq!(question["params"]["message"], "[asker] who?");
    assert_eq!(next(&mut napping)["result"]["content"][0]["text"], "slept 1500 ms");
    reply(&mut b, &question, &accepted("b"));
    assert_eq!(next(&mut asking)["result"]["structuredContent"]["answers"], json!([{"result": accepted("b")}]));
    assert!(a.notices.is_empty(), "{:?}", a.notices);
    front.finish();
}

#[test]
fn a_session_that_is_ended_takes_its_call_and_its_question_back() {
    let place = Place::new();
    let front = start(&place, "legacy");
    let mut a = legacy(&front, A);
    let mut asking = begin(&mut a, ask("who?"));
    let question = next(&mut asking);
    // Nobody but the client that is asked can answer.
    reply(&mut legacy(&front, B), &question, &accepted("b"));
    let headers = a.all_headers();
    let all: Vec<&str> = headers.iter().map(String::as_str).collect();
    assert!(front.ask("DELETE", "/mcp", &all, "").head.status < 300);
    eventually("the source is told", || place.journal_count("asker.journal", "notifications/cancelled") == 1);
    assert!(!place.lines("asker.journal").iter().any(|line| line.contains("\"b\"")));
    front.finish();
}

/// A page may be visited long after the call that asked for it: whoever it was shown to is told, and nobody else.
#[test]
fn who_was_asked_to_visit_a_page_is_told_that_it_was() {
    let place = Place::new();
    let front = start(&place, "legacy");
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let mut news = [&a, &b].map(|client| client.listen(None));
    news.iter_mut().for_each(|stream| assert_eq!(stream.head().status, 200));
    let page = |id: &str| json!({"mode": "url", "message": "Log in.", "url": "https://x.example", "elicitationId": id});
    let refusal = json!({"code": -32042, "message": "visit it", "data": {"elicitations": [page("of-a")]}});
    let failed = a.request("tools/call", json!({"name": "asker__fail", "arguments": refusal}));
    let mut named = refusal["data"].clone();
    named["elicitations"][0]["message"] = "[asker] Log in.".into();
    assert_eq!(failed.error()["data"], named);
    let question = json!({"method": "elicitation/create", "params": page("of-b")});
    let mut asking = begin(&mut b, json!({"name": "asker__ask_many", "arguments": {"questions": [question]}}));
    let asked = next(&mut asking);
    assert_eq!(asked["params"]["elicitationId"], "of-b");
    reply(&mut b, &asked, &json!({"action": "accept"}));
    assert_eq!(next(&mut asking)["result"]["structuredContent"]["answers"][0]["result"]["action"], "accept");
    for id in ["of-b", "of-a", "of-a", "of-nobody"] {
        let line =
            json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": id}});
        let text = format!("{line}\n{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{{\"content\":[]}}}}");
        let file = place.write("visited", text);
        b.request("tools/call", json!({"name": "asker__raw_line", "arguments": {"file": file}})).result();
    }
    for (stream, id) in news.iter_mut().zip(["of-a", "of-b"]) {
        let told = loop {
            let event = stream.event().expect("one more notification");
            if event.data.contains("elicitation/complete") {
                break serde_json::from_str::<Value>(&event.data).unwrap();
            }
        };
        assert_eq!(told["params"], json!({"elicitationId": id}));
    }
    assert!(b.notices.iter().all(|notice| notice["method"] != "notifications/elicitation/complete"), "{:?}", b.notices);
    front.finish();
}

/// Where a source is reached over HTTP the stream says whose call it is.
#[test]
fn a_source_over_http_may_ask_several_clients_at_once() {
    let place = Place::new();
    let server = support::example("conformance_server");
    let mut serving = Serving::start(&server);
    let tables = vec![
        format!("[source.asker]\nurl = {:?}\n", serving.url()),
        format!("[credential.a]\ntoken = {A:?}\n[credential.b]\ntoken = {B:?}\n"),
    ];
    let front = Front::start_in(&place, EAGER, &tables);
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let call = |message: &str| json!({"name": "asker__test_elicitation", "arguments": {"message": message}});
    let (mut of_a, mut of_b) = (begin(&mut a, call("for a")), begin(&mut b, call("for b")));
    let (ask_a, ask_b) = (next(&mut of_a), next(&mut of_b));
    assert_eq!(ask_a["params"]["message"], "[asker] for a");
    assert_eq!(ask_b["params"]["message"], "[asker] for b");
    reply(&mut b, &ask_b, &json!({"action": "accept", "content": {"username": "b", "email": "b@x.example"}}));
    reply(&mut a, &ask_a, &json!({"action": "decline"}));
    assert!(next(&mut of_a)["result"].to_string().contains("decline"));
    assert!(next(&mut of_b)["result"].to_string().contains("b@x.example"));
    front.finish();
}

/// The conformance server over HTTP, in the legacy revisions.
struct Serving {
    child: std::process::Child,
    address: Option<String>,
}

impl Serving {
    fn start(program: &std::path::Path) -> Self {
        let mut command = std::process::Command::new(program);
        command.args(["--http", "127.0.0.1:0"]).env("ERA", "legacy").stderr(std::process::Stdio::piped());
        Self { child: command.spawn().unwrap(), address: None }
    }

    fn url(&mut self) -> String {
        use std::io::BufRead;
        let stderr = self.child.stderr.take().unwrap();
        let told = std::io::BufReader::new(stderr)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("listening on ").map(|(_, url)| url.trim().to_owned()));
        self.address = told;
        self.address.clone().expect("it says where it listens")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_burst_of_progress_comes_whole_and_in_order_over_http() {
    let place = Place::new();
    let front = start(&place, "legacy");
    for is_modern in [true, false] {
        let mut client = if is_modern { front.client(Some(A)) } else { legacy(&front, A) };
        for call in [
            json!({"name": "asker__burst", "arguments": {"n": 2000}}),
            json!({"name": "call_tool", "arguments": {"source": "asker", "tool": "burst", "arguments": {"n": 2000}}}),
        ] {
            let mut call = call;
            call["_meta"] = json!({"progressToken": "tok"});
            client.notices.clear();
            // The client reads to the answer; what comes after that would be seen in the next round.
            assert_eq!(client.request("tools/call", call).text(), "burst of 2000");
            let got: Vec<_> =
                client.notices.iter().map(|notice| notice["params"]["progress"].as_u64().unwrap()).collect();
            assert_eq!(got, (1..=2000).collect::<Vec<_>>());
            assert!(client.notices.iter().all(|notice| notice["params"]["progressToken"] == "tok"));
        }
    }
    front.finish();
}

#[test]
fn log_lines_go_to_whom_they_belong() {
    for era in ["legacy", "modern"] {
        let place = Place::new();
        let front = start(&place, era);
        let line = |level: &str| json!({"name": "asker__log", "arguments": {"level": level, "logger": "db", "data": {"a": 1}}});
        let lines = |client: &mut Client| {
            let own = std::mem::take(&mut client.notices);
            own.into_iter().filter(|notice| notice["method"] == "notifications/message").collect::<Vec<_>>()
        };
        // A modern client gets none unless it asks for them with the very request.
        let (mut a, mut b) = (front.client(Some(A)), legacy(&front, B));
        a.request("tools/call", line("error")).result();
        assert_eq!(lines(&mut a), [Value::Null; 0]);
        let mut wanted = line("error");
        wanted["_meta"] = json!({"io.modelcontextprotocol/logLevel": "warning"});
        a.request("tools/call", wanted.clone()).result();
        let params = json!({"level": "error", "logger": "asker/db", "data": {"a": 1}});
        assert_eq!(lines(&mut a).iter().map(|line| line["params"].clone()).collect::<Vec<_>>(), [params]);
        wanted["arguments"]["level"] = "info".into();
        a.request("tools/call", wanted).result();
        assert_eq!(lines(&mut a), [Value::Null; 0]);
        // A legacy client says it once; before that it gets what its source sends.
        b.request("tools/call", line("debug")).result();
        assert_eq!(lines(&mut b).len(), 1);
        b.request("logging/setLevel", json!({"level": "error"})).result();
        for level in ["debug", "warning", "error", "emergency"] {
            b.request("tools/call", line(level)).result();
        }
        let levels: Vec<_> = lines(&mut b).iter().map(|line| line["params"]["level"].clone()).collect();
        assert_eq!(levels, ["error", "emergency"]);
        assert_eq!(lines(&mut a), [Value::Null; 0]);
        assert_eq!(b.request("logging/setLevel", json!({"level": "loud"})).error_code(), -32602);
        front.finish();
    }
}

/// A client that takes nothing but JSON in answer to a call is asked where it listens, else not at all: its question used to
/// go nowhere, and everybody's calls of that source waited for the answer.
#[test]
fn a_client_that_takes_only_json_is_asked_where_it_listens() {
    for era in ["legacy", "modern"] {
        let place = Place::new();
        let front = start(&place, era);
        let mut client = legacy(&front, A);
        let json_only = ["Accept: application/json".to_owned()];
        let refused = |client: &mut Client| {
            let (text, _) = client.request_text("tools/call", ask("whose?"));
            let (head, reply) = client.exchange(&json_only, &text);
            assert!(!head.is_stream());
            let line = reply.unwrap().line;
            assert!(line.contains("takes no events"), "{line}");
        };
        refused(&mut client);
        legacy(&front, B).call_direct("asker__echo", json!({"n": 1})).result();
        let mut news = client.listen(None);
        news.head();
        let (text, _) = client.request_text("tools/call", ask("whose?"));
        let mut call = client.begin(&json_only, &text);
        let question = std::iter::from_fn(|| news.event())
            .find_map(|event| serde_json::from_str::<Value>(&event.data).ok().filter(|told| told["params"].is_object()))
            .unwrap();
        assert_eq!(question["params"]["message"], "[asker] whose?");
        reply(&mut client, &question, &accepted("me"));
        let answer = call.whole().json();
        assert_eq!(answer["result"]["structuredContent"]["answers"], json!([{"result": accepted("me")}]));
        front.finish();
    }
}

/// An answer that is refused is told to whoever asked.
#[test]
fn answers_that_cannot_be_taken_are_told_to_whoever_asked() {
    let place = Place::new();
    let front = Front::start_in(&place, "exposure = \"eager\"\nmax_message_mib = 1", &tables(&place, "legacy"));
    let mut client = legacy(&front, A);
    client.names();
    eventually("the tools are listed", || client.names().iter().any(|name| name == "asker__ask_many"));
    let long = "x".repeat(3 << 20);
    let spoilt = [
        (413, format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"content":{{"name":"{long}"}}}}}}"#)),
        (413, format!(r#"{{"result":{{"content":{{"name":"{long}"}}}},"jsonrpc":"2.0","id":@ID@}}"#)),
        (400, r#"{"jsonrpc":"2.0","id":@ID@,"result":{"action":"accept",}}"#.to_owned()),
        (400, r#"{"jsonrpc":"2.0","id":@ID@}"#.to_owned()),
    ];
    for (status, body) in spoilt {
        let mut call = begin(&mut client, ask("whose?"));
        let question = next(&mut call);
        let answer = client.begin(&[], &body.replace("@ID@", &question["id"].to_string())).whole();
        assert_eq!((answer.head.status, &answer.json()["id"]), (status, &Value::Null), "{}", answer.body);
        let told = next(&mut call)["result"]["structuredContent"]["answers"][0]["error"]["message"].clone();
        assert!(told.as_str().unwrap().contains("the answer of the client cannot be used"), "{told}");
    }
    // In a batch, where each member is counted.
    let mut old = front.client(Some(A));
    old.greet_able("2025-03-26", able());
    let mut call = begin(&mut old, ask("whose?"));
    let id = next(&mut call)["id"].clone();
    let answer = old.begin(&[], &json!([{"jsonrpc": "2.0", "id": id}]).to_string()).whole();
    assert_eq!((answer.head.status, answer.body.as_str()), (202, ""));
    assert!(next(&mut call).to_string().contains("the answer of the client cannot be used"));
    front.finish();
}
