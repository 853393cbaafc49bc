//! Sources of which each session has an instance of its own, and what clients who share one do not do to each other.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Client, Connection, Front, Place, eventually};
use web::Web;

const EAGER: &str = "exposure = \"eager\"";
const APART: &str = "isolation = \"session\"";
const A: &str = "a-0123456789abcdef-01234";
const B: &str = "b-0123456789abcdef-01234";

fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

fn credentials() -> String {
    format!("[credential.a]\ntoken = {A:?}\n[credential.b]\ntoken = {B:?}\n")
}

fn tables(place: &Place, settings: &str) -> Vec<String> {
    let flags = ["--sociable", "--resources", "doc:a", "--era", "legacy"];
    vec![place.journaled("own", &flags, settings), credentials()]
}

fn start_with(place: &Arc<Place>, relay: &str, settings: &str) -> Front {
    let front = Front::start_in(place, &format!("{EAGER}\n{relay}"), &tables(place, settings));
    eventually("its tools are known", || front.client(Some(A)).names().contains(&"own__count".to_owned()));
    front
}

fn start(place: &Arc<Place>, settings: &str) -> Front {
    start_with(place, "", settings)
}

fn legacy(front: &Front, token: &str) -> Client {
    let mut client = front.client(Some(token));
    client.greet_able("2025-11-25", able());
    client
}

/// How many calls the process that a client gets has had, this one among them.
fn count(client: &mut Client) -> u64 {
    client.call_direct("own__count", json!({})).structured()["tools/call"].as_u64().unwrap()
}

/// What tells the process that a client gets from others.
fn launch(client: &mut Client) -> String {
    client.call_direct("own__env", json!({})).structured()["TOOLRELAY_LAUNCH"].as_str().unwrap().to_owned()
}

fn instances(client: &mut Client) -> u64 {
    let listed = client.call_direct("list_sources", json!({})).structured();
    let sources = listed["sources"].as_array().unwrap().clone();
    sources.iter().find(|source| source["id"] == "own").unwrap()["instances"].as_u64().unwrap()
}

fn end_session(front: &Front, client: &Client) {
    let headers = client.all_headers();
    let all: Vec<&str> = headers.iter().map(String::as_str).collect();
    assert!(front.ask("DELETE", "/mcp", &all, "").head.status < 300);
}

fn ask(message: &str) -> Value {
    let question =
        json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object"}}});
    json!({"name": "own__ask_many", "arguments": {"questions": [question]}})
}

fn accepted(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

/// Params of a modern client that can be asked everything.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": able()});
    params
}

fn answering(first: &Value, mut params: Value, answer: Value) -> Value {
    params["requestState"] = first["requestState"].clone();
    params["inputResponses"] = json!({"input_1": answer});
    params
}

/// The answer of a call, message by message.
struct Stream {
    connection: Connection,
    begun: bool,
}

fn begin(client: &mut Client, params: Value) -> Stream {
    let (body, headers) = client.request_text("tools/call", params);
    Stream { connection: client.begin(&headers, &body), begun: false }
}

/// A legacy client's stream of what belongs to no request.
fn listen(client: &Client) -> Stream {
    let mut connection = client.listen(None);
    assert_eq!(connection.head().status, 200);
    Stream { connection, begun: true }
}

/// The next message of a stream, as JSON; the whole answer where there is no stream.
fn next(stream: &mut Stream) -> Value {
    if !std::mem::replace(&mut stream.begun, true) {
        let head = stream.connection.head();
        if !head.is_stream() {
            let mut body = vec![0; head.header("content-length").unwrap().parse().unwrap()];
            std::io::Read::read_exact(&mut stream.connection.reader, &mut body).unwrap();
            return serde_json::from_slice(&body).unwrap();
        }
    }
    loop {
        let event = stream.connection.event().expect("one more message");
        if let Ok(message) = serde_json::from_str(&event.data) {
            return message;
        }
    }
}

/// The next message that says this.
fn next_that(stream: &mut Stream, holds: impl Fn(&Value) -> bool) -> Value {
    loop {
        let message = next(stream);
        if holds(&message) {
            return message;
        }
    }
}

fn reply(client: &mut Client, question: &Value, answer: &Value) {
    let body = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}).to_string();
    let (head, _) = client.exchange(&[], &body);
    assert_eq!(head.status, 202);
}

fn notify(client: &mut Client, method: &str) {
    let (head, _) = client.exchange(&[], &json!({"jsonrpc": "2.0", "method": method}).to_string());
    assert_eq!(head.status, 202);
}

/// Asks once, answers with the client's own name, and sees that nobody else answered.
fn asked_once(client: &mut Client, name: &str) {
    let mut asking = begin(client, ask(name));
    let question = next(&mut asking);
    assert_eq!(question["params"]["message"], format!("[own] {name}"), "{question}");
    reply(client, &question, &accepted(name));
    let answers = next(&mut asking)["result"]["structuredContent"]["answers"].clone();
    assert_eq!(answers, json!([{"result": accepted(name)}]));
}

#[test]
fn each_session_has_a_process_of_its_own() {
    let place = Place::new();
    let front = start(&place, APART);
    let mut clients =
        [legacy(&front, A), legacy(&front, A), legacy(&front, B), front.client(Some(A)), front.client(Some(B))];
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!((0..=number).map(|_| count(client)).last(), Some(number as u64 + 1), "{number}");
    }
    let mut launches: Vec<String> = clients.iter_mut().map(launch).collect();
    launches.sort();
    launches.dedup();
    assert_eq!((launches.len(), instances(&mut clients[0])), (5, 5));
    // Clients without sessions share what their credential has.
    assert_eq!(count(&mut front.client(Some(B))), 7);
    // A batch is its session's.
    let batch = json!({"calls": [{"source": "own", "tool": "count", "arguments": {}}]});
    let done = clients[1].call_direct("batch_call", batch).structured();
    assert_eq!(done["results"][0]["result"]["structuredContent"]["tools/call"], 4, "{done}");
    // Prompts and resources are asked for where tools are called.
    clients[0].request("resources/read", json!({"uri": "doc:a"})).result();
    let counted = clients[0].call_direct("own__count", json!({})).structured();
    assert_eq!((&counted["tools/call"], &counted["resources/read"]), (&json!(3), &json!(1)));
    let all = place.processes(front.relay.pid()).len();
    end_session(&front, &clients[1]);
    eventually("its process is gone", || place.processes(front.relay.pid()).len() == all - 1);
    eventually("it does not count", || instances(&mut clients[0]) == 4);
    assert_eq!((count(&mut clients[0]), count(&mut clients[2])), (4, 5));
    let relay = front.relay.pid();
    front.finish();
    assert_eq!(place.processes(relay), [0; 0]);
}

#[test]
fn there_are_no_more_of_them_than_there_may_be() {
    let place = Place::new();
    let front = start(&place, &format!("{APART}\nmax_instances = 1\nidle_stop_secs = 2"));
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let mut napping = begin(&mut a, json!({"name": "own__sleep", "arguments": {"ms": 1000}}));
    eventually("the nap is on", || place.journal_count("own.journal", "tools/call") == 1);
    let (kind, text) = b.call_direct("own__count", json!({})).failure();
    assert!(
        kind == "busy" && text.contains("runs for 1 sessions") && text.contains("`max_instances`"),
        "{kind}: {text}"
    );
    assert_eq!(next(&mut napping)["result"]["content"][0]["text"], "slept 1000 ms");
    // One that is idle leaves its place, and so does one whose session ends.
    eventually("there is a place", || !b.call_direct("own__count", json!({})).line.contains("\"busy\""));
    assert_eq!(instances(&mut b), 1);
    end_session(&front, &b);
    eventually("there is a place", || !a.call_direct("own__count", json!({})).line.contains("\"busy\""));
    front.finish();
}

#[test]
fn none_of_them_outlives_a_relay_that_is_killed() {
    let place = Place::new();
    let front = start(&place, APART);
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    assert_eq!((count(&mut a), count(&mut b)), (1, 1));
    let relay = front.relay.pid();
    front.relay.signal(rustix::process::Signal::KILL);
    eventually("all are gone", || place.processes(relay).is_empty());
}

#[test]
fn one_that_dies_costs_the_others_nothing() {
    let place = Place::new();
    let front = start(&place, APART);
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    assert_eq!((count(&mut a), count(&mut b)), (1, 1));
    let (kind, _) = a.call_direct("own__die", json!({"code": 1})).failure();
    assert_eq!(kind, "exited");
    assert_eq!((count(&mut b), count(&mut a)), (2, 1));
    front.finish();
}

/// Two clients, each with questions of its own all the time.
#[test]
fn every_question_goes_to_its_own_client() {
    let place = Place::new();
    let front = start(&place, APART);
    std::thread::scope(|scope| {
        for (token, name) in [(A, "for a"), (B, "for b")] {
            let mut client = legacy(&front, token);
            scope.spawn(move || {
                for _ in 0..200 {
                    asked_once(&mut client, name);
                }
                assert!(client.notices.is_empty(), "{:?}", client.notices);
            });
        }
    });
    front.finish();
}

/// The same where they share the source: once it is known that it asks, their calls take turns.
#[test]
fn every_question_goes_to_its_own_client_of_a_shared_source() {
    let place = Place::new();
    let front = start(&place, "");
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let mut asking = begin(&mut a, ask("for a"));
    let question = next(&mut asking);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| (0..200).for_each(|_| asked_once(&mut b, "for b")));
        reply(&mut a, &question, &accepted("for a"));
        assert_eq!(next(&mut asking)["result"]["structuredContent"]["answers"][0]["result"], accepted("for a"));
        (0..200).for_each(|_| asked_once(&mut a, "for a"));
        other.join().unwrap();
    });
    front.finish();
}

/// A modern client is away while its call waits; calls of others take their turn after it, and are asked themselves then.
#[test]
fn calls_wait_for_another_principals_parked_call() {
    for is_back in [true, false] {
        let place = Place::new();
        let patience = if is_back { 300 } else { 3 };
        let front = start_with(&place, &format!("ask_timeout_secs = {patience}"), "");
        let (mut a, mut b) = (front.client(Some(A)), legacy(&front, B));
        let first = a.request("tools/call", modern(ask("whose?"))).result();
        assert_eq!(first["resultType"], "input_required", "{first}");
        let mut call = ask("for b");
        call["_meta"] = json!({"progressToken": "b"});
        let mut asking = begin(&mut b, call);
        let waits = next(&mut asking);
        assert_eq!(waits["params"]["progressToken"], "b", "{waits}");
        assert!(waits["params"]["message"].as_str().unwrap().contains("another client"), "{waits}");
        // Its own principal goes on.
        assert_eq!(front.client(Some(A)).call_direct("own__echo", json!({"a": 1})).structured(), json!({"a": 1}));
        assert_eq!(place.journal_count("own.journal", "tools/call"), 2);
        if is_back {
            let done = a.request("tools/call", modern(answering(&first, ask("whose?"), accepted("a"))));
            assert_eq!(done.structured()["answers"], json!([{"result": accepted("a")}]));
        }
        let question = next_that(&mut asking, |message| message["method"] == "elicitation/create");
        assert_eq!(question["params"]["message"], "[own] for b");
        reply(&mut b, &question, &accepted("b"));
        let done = next_that(&mut asking, |message| message.get("result").is_some());
        assert_eq!(done["result"]["structuredContent"]["answers"], json!([{"result": accepted("b")}]));
        front.finish();
    }
}

#[test]
fn a_call_that_waited_in_vain_is_told_why() {
    let place = Place::new();
    let front = start(&place, "call_timeout_secs = 1");
    let (mut a, mut b) = (front.client(Some(A)), legacy(&front, B));
    a.request("tools/call", modern(ask("whose?"))).result();
    let (kind, text) = b.call_direct("own__count", json!({})).failure();
    assert!(kind == "timed_out" && text.contains("another client") && text.contains("isolation"), "{kind}: {text}");
    assert_eq!(place.journal_count("own.journal", "tools/call"), 1);
    front.finish();
}

#[test]
fn what_is_subscribed_to_and_logged_is_of_the_own_instance() {
    let place = Place::new();
    let front = start(&place, APART);
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let mut news = [listen(&a), listen(&b)];
    for client in [&mut a, &mut b] {
        client.request("resources/subscribe", json!({"uri": "doc:a"})).result();
    }
    eventually("both are asked", || place.journal_count("own.journal", "resources/subscribe") == 2);
    for (client, uri) in [(&mut a, "doc:a"), (&mut b, "doc:a")] {
        client.call_direct("own__touch", json!({"uri": uri})).result();
    }
    a.call_direct("own__touch", json!({"uri": "doc:a"})).result();
    // The marker ends what is looked at.
    let page = json!({"mode": "url", "message": "Log in.", "url": "https://x.example", "elicitationId": "same"});
    let refusal = json!({"code": -32042, "message": "visit it", "data": {"elicitations": [page]}});
    let done =
        json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "same"}});
    let visited =
        place.write("visited", format!("{done}\n{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{{\"content\":[]}}}}"));
    for client in [&mut a, &mut b] {
        client.call_direct("own__fail", refusal.clone()).error();
        client.call_direct("own__raw_line", json!({"file": visited})).result();
    }
    for (stream, wanted) in news.iter_mut().zip([2, 1]) {
        let mut updates = 0;
        while next(stream)["method"] != "notifications/elicitation/complete" {
            updates += 1;
        }
        assert_eq!(updates, wanted);
    }
    // Each sets the level of its own; nobody's is that of the other.
    a.request("logging/setLevel", json!({"level": "error"})).result();
    eventually("one is told", || place.journal_count("own.journal", "logging/setLevel") == 1);
    b.request("logging/setLevel", json!({"level": "error"})).result();
    eventually("so is the other", || place.journal_count("own.journal", "logging/setLevel") == 2);
    end_session(&front, &a);
    eventually("the subscription ends with the session", || {
        place.journal_count("own.journal", "resources/unsubscribe") == 1 && instances(&mut b) == 1
    });
    front.finish();
}

/// A source that asks for roots when it starts gets those of the session that it is started for; one that is shared cannot.
#[test]
fn a_client_whose_roots_change_is_asked_for_them_again() {
    for (settings, early) in [(APART, 1), ("", 0)] {
        let place = Place::new();
        let flags = ["--sociable", "--rooted", "--resources", "doc:a", "--era", "legacy"];
        let front = Front::start_in(&place, EAGER, &[place.journaled("own", &flags, settings), credentials()]);
        eventually("its tools are known", || front.client(Some(A)).names().contains(&"own__count".to_owned()));
        let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
        // No source has asked this one.
        notify(&mut b, "notifications/roots/list_changed");
        // It is started without a call, and its question waits for one.
        a.request("resources/subscribe", json!({"uri": "doc:a"})).result();
        eventually("it runs", || place.journal_count("own.journal", "resources/subscribe") == 1);
        let roots = |uri: &str| json!({"roots": [{"uri": uri}]});
        let question = json!({"method": "roots/list", "params": {}});
        let mut asking = begin(&mut a, json!({"name": "own__ask_many", "arguments": {"questions": [question]}}));
        for _ in 0..early + 1 {
            let asked = next(&mut asking);
            assert_eq!(asked["method"], "roots/list", "{asked}");
            reply(&mut a, &asked, &roots("file:///one"));
        }
        let answers = next(&mut asking)["result"]["structuredContent"]["answers"].clone();
        assert_eq!(answers, json!([{"result": roots("file:///one")}]));
        let mut news = listen(&a);
        notify(&mut a, "notifications/roots/list_changed");
        let again = next_that(&mut news, |message| message["method"] == "roots/list");
        reply(&mut a, &again, &roots("file:///two"));
        eventually("the source has them", || {
            place.lines("own.journal").iter().any(|line| line.contains("file:///two"))
        });
        assert_eq!(place.journal_count("own.journal", "notifications/roots/list_changed"), 1, "{settings}");
        front.finish();
    }
}

#[test]
fn an_http_source_has_a_session_for_each() {
    let place = Place::new();
    let web = Web::start(web::legacy, |_, _| false);
    let front = Front::start_in(&place, EAGER, &[web.source("own", APART), credentials()]);
    eventually("its tools are known", || front.client(Some(A)).names().contains(&"own__echo".to_owned()));
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    for client in [&mut a, &mut b, &mut front.client(Some(A))] {
        for _ in 0..2 {
            assert_eq!(client.call_direct("own__echo", json!({"x": 1})).structured(), json!({"x": 1}));
        }
    }
    assert_eq!((web.posts("initialize").len(), instances(&mut a)), (4, 3));
    end_session(&front, &b);
    eventually("its session at the source is ended", || web.with_method("DELETE").len() == 1);
    front.finish();
    assert_eq!(web.with_method("DELETE").len(), 4);
}

/// A change of what they are ends them all; one of how many there may be ends none.
#[test]
fn a_reload_holds_for_all_of_them() {
    let place = Place::new();
    let front = start(&place, &format!("{APART}\nmax_instances = 2"));
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let before = [launch(&mut a), launch(&mut b)];
    let relay = |settings: &str, sources: &[String]| {
        let told = front.relay.stderr().matches("configuration reloaded").count();
        place.config(&format!("{EAGER}\n{settings}"), sources);
        eventually("it is reloaded", || front.relay.stderr().matches("configuration reloaded").count() > told);
    };
    relay("", &tables(&place, &format!("{APART}\nmax_instances = 1")));
    assert_eq!([launch(&mut a), launch(&mut b)], before);
    assert_eq!(front.client(Some(A)).call_direct("own__count", json!({})).failure().0, "busy");
    // A call in flight is told.
    let mut napping = begin(&mut a, json!({"name": "own__sleep", "arguments": {"ms": 60_000}}));
    eventually("the nap is on", || place.lines("own.journal").iter().any(|line| line.contains("60000")));
    relay("", &tables(&place, &format!("{APART}\nmax_instances = 3\nmax_in_flight = 9")));
    let told = next(&mut napping)["result"].to_string();
    assert!(told.contains("was changed in sources.toml"), "{told}");
    let after = [launch(&mut a), launch(&mut b)];
    assert!(before.iter().all(|launch| !after.contains(launch)) && after[0] != after[1]);
    relay("", &[credentials()]);
    eventually("all are gone", || place.processes(front.relay.pid()).is_empty());
    relay("", &tables(&place, ""));
    eventually("it is there again", || a.names().contains(&"own__count".to_owned()));
    assert_eq!(launch(&mut a), launch(&mut b));
    front.finish();
}
