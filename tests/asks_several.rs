//! Sources that work on several calls at once, over one connection: whose their questions and log lines are, and how long what is
//! asked stays open.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use support::{Client, Connection, Front, Place, eventually};
use web::Web;

const A: &str = "a-0123456789abcdef-01234";
const B: &str = "b-0123456789abcdef-01234";

/// A call that asks these things once `file` is there.
fn ask(place: &Place, file: &str, messages: &[&str]) -> Value {
    let question = |message: &&str| json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object"}}});
    let questions: Vec<Value> = messages.iter().map(question).collect();
    json!({"name": "asker__ask_many", "arguments": {"questions": questions, "after": place.path(file)}})
}

fn start(place: &std::sync::Arc<Place>) -> Front {
    let tables = [
        place.journaled("asker", &["--sociable"], ""),
        format!("[credential.a]\ntoken = {A:?}\n[credential.b]\ntoken = {B:?}\n"),
    ];
    let front = Front::start_in(place, "exposure = \"eager\"", &tables);
    front.client(Some(A)).request("tools/call", json!({"name": "asker__echo", "arguments": {}})).result();
    front
}

fn legacy(front: &Front, token: &str) -> Client {
    let mut client = front.client(Some(token));
    client.greet_able("2025-11-25", json!({"elicitation": {}}));
    client
}

/// A call on its way: its id, and the stream of its answer.
struct Begun {
    id: Value,
    stream: Connection,
    is_open: bool,
}

/// Begins a call and waits until its source has it.
fn begin(place: &Place, client: &mut Client, params: Value) -> Begun {
    let before = place.journal_count("asker.journal", "tools/call");
    let (body, headers) = client.request_text("tools/call", params);
    let id = serde_json::from_str::<Value>(&body).unwrap()["id"].clone();
    let stream = client.begin(&headers, &body);
    eventually("the source has the call", || place.journal_count("asker.journal", "tools/call") == before + 1);
    Begun { id, stream, is_open: false }
}

impl Begun {
    /// The answer, which is a stream of its own only if something comes before it.
    fn answer(&mut self) -> Value {
        if self.is_open {
            return self.next();
        }
        let answer = self.stream.whole();
        if !answer.head.is_stream() {
            return answer.json();
        }
        let mut data = answer.body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok());
        data.next_back().expect("an answer")
    }

    /// The next message on the stream.
    fn next(&mut self) -> Value {
        if !std::mem::replace(&mut self.is_open, true) {
            assert!(self.stream.head().is_stream());
        }
        loop {
            let event = self.stream.event().expect("one more message");
            if let Ok(message) = serde_json::from_str(&event.data) {
                return message;
            }
        }
    }
}

fn say(client: &mut Client, message: &Value) {
    let (head, _) = client.exchange(&[], &message.to_string());
    assert_eq!(head.status, 202);
}

fn cancel(client: &mut Client, call: &Begun) {
    say(client, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call.id}}));
}

fn accept(client: &mut Client, question: &Value) {
    say(client, &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}));
}

fn is_asked_at_once(place: &Place, client: &mut Client) {
    place.write("at once", "");
    let mut asking = begin(place, client, ask(place, "at once", &["whose?"]));
    let question = asking.next();
    accept(client, &question);
    assert_eq!(asking.next()["result"]["structuredContent"]["answers"][0]["result"]["action"], "accept");
}

/// A source may go on with a call that its client took back: another credential's client was asked for it, and approved it.
#[test]
fn no_client_is_asked_for_a_call_that_another_took_back() {
    let place = Place::new();
    let front = start(&place);
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let taken_back = begin(&place, &mut a, ask(&place, "a", &["delete the mailbox of a?"]));
    cancel(&mut a, &taken_back);
    eventually("the source is told", || place.journal_count("asker.journal", "notifications/cancelled") == 1);
    let mut asking = begin(&place, &mut b, ask(&place, "b", &["of b?"]));
    place.write("a", "");
    let refused = || place.lines("asker.journal").iter().any(|line| line.contains("a call of another client ended"));
    eventually("the question is refused", refused);
    // With that the source answers the call that was taken back, and whose its next question is, is known.
    place.write("b", "");
    let question = asking.next();
    assert_eq!(question["params"]["message"], "[asker] of b?");
    accept(&mut b, &question);
    assert_eq!(asking.next()["result"]["structuredContent"]["answers"][0]["result"]["action"], "accept");
    front.finish();
}

/// What is asked for one of a client's own calls is asked all the same.
#[test]
fn a_client_is_asked_though_it_took_another_call_back() {
    let place = Place::new();
    let front = start(&place);
    let mut a = legacy(&front, A);
    let taken_back = begin(&place, &mut a, ask(&place, "never", &[]));
    cancel(&mut a, &taken_back);
    eventually("the source is told", || place.journal_count("asker.journal", "notifications/cancelled") == 1);
    is_asked_at_once(&place, &mut a);
    place.write("never", "");
    front.finish();
}

/// A batch's call was taken for another client's: the only client of a source was asked nothing for minutes.
#[test]
fn a_client_is_asked_though_a_call_of_its_batch_was_taken_back() {
    let place = Place::new();
    let front = start(&place);
    let mut a = legacy(&front, A);
    let call = ask(&place, "never", &[]);
    let item = json!({"source": "asker", "tool": "ask_many", "arguments": call["arguments"]});
    let begun = a.call_direct("batch_call", json!({"calls": [item], "wait_ms": 100}));
    let id = begun.structured()["batch"].clone();
    a.call_direct("batch_status", json!({"batch": id, "cancel": true})).structured();
    eventually("the source is told", || place.journal_count("asker.journal", "notifications/cancelled") == 1);
    is_asked_at_once(&place, &mut a);
    place.write("never", "");
    front.finish();
}

/// Of one client's calls the newest was taken to ask: when that ended, the question was taken back.
#[test]
fn a_question_stays_open_until_the_last_call_it_may_be_for_has_ended() {
    let place = Place::new();
    let front = start(&place);
    let mut a = legacy(&front, A);
    let mut older = begin(&place, &mut a, ask(&place, "older", &["whose?"]));
    let mut newer = begin(&place, &mut a, ask(&place, "newer", &[]));
    place.write("older", "");
    let question = newer.next();
    assert_eq!(question["params"]["message"], "[asker] whose?");
    place.write("newer", "");
    // Its answer is the next message: nothing is taken back.
    assert_eq!(newer.next()["id"], newer.id);
    accept(&mut a, &question);
    assert_eq!(older.answer()["result"]["structuredContent"]["answers"][0]["result"]["action"], "accept");
    // With the last one it ends.
    let mut older = begin(&place, &mut a, ask(&place, "older", &["whose?"]));
    assert_eq!(older.next()["params"]["message"], "[asker] whose?");
    cancel(&mut a, &older);
    let told = older.next();
    assert_eq!(told["method"], "notifications/cancelled", "{told}");
    front.finish();
}

/// The time a client takes for its answer counted for all of its calls but the one that was taken to ask.
#[test]
fn no_call_that_may_have_asked_comes_to_its_limit_meanwhile() {
    let place = Place::new();
    let relay = "exposure = \"eager\"";
    let front = Front::start_in(&place, relay, &[place.journaled("asker", &["--sociable"], "call_timeout_secs = 1")]);
    let mut a = front.client(None);
    a.greet_able("2025-11-25", json!({"elicitation": {}}));
    eventually("the tools are listed", || a.names().iter().any(|name| name == "asker__ask_many"));
    place.write("at once", "");
    let mut older = begin(&place, &mut a, ask(&place, "older", &["whose?"]));
    let mut newer = begin(&place, &mut a, ask(&place, "at once", &["whose?"]));
    let question = newer.next();
    place.write("older", "");
    let other = newer.next();
    // Twice as long as each of them may take without its client.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(place.journal_count("asker.journal", "notifications/cancelled"), 0);
    accept(&mut a, &question);
    accept(&mut a, &other);
    for call in [&mut older, &mut newer] {
        let answer = call.answer();
        assert_eq!(answer["result"]["structuredContent"]["answers"][0]["result"]["action"], "accept", "{answer}");
    }
    front.finish();
}

/// A source over HTTP says late, on the stream of its session, what it has to say of a call: the client got it whose call was in
/// flight by then.
#[test]
fn log_lines_on_no_stream_of_a_call_reach_nobody_but_the_only_principal() {
    let ((say, said), (pong, ponged)) = (channel::<Value>(), channel::<()>());
    let (said, ponged) = (Mutex::new(said), Mutex::new(ponged));
    let web = Web::start(web::legacy, move |seen, out| {
        match (seen.method.as_str(), seen.rpc().as_str()) {
            ("GET", _) => {
                out.stream();
                said.lock().unwrap().iter().for_each(|message| out.event(&message));
            }
            ("POST", "tools/call") => {
                let line = json!({"level": "error", "data": "of a call"});
                say.send(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": line})).unwrap();
                say.send(json!({"jsonrpc": "2.0", "id": "after it", "method": "ping"})).unwrap();
                // The line has been read by then.
                ponged.lock().unwrap().recv().unwrap();
                return false;
            }
            _ if seen.id() == "after it" => pong.send(()).unwrap(),
            _ => return false,
        }
        seen.method == "GET"
    });
    let tables = [web.source("web", ""), format!("[credential.a]\ntoken = {A:?}\n[credential.b]\ntoken = {B:?}\n")];
    let front = Front::start_in(&Place::new(), "", &tables);
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let lines = |client: &mut Client, batch: bool| {
        client.notices.clear();
        let call = json!({"source": "web", "tool": "echo", "arguments": {}});
        if batch {
            client.call_direct("batch_call", json!({"calls": [call], "wait_ms": 20_000})).result();
        } else {
            client.call_direct("call_tool", call).result();
        }
        client.notices.iter().filter(|notice| notice["method"] == "notifications/message").count()
    };
    assert_eq!([lines(&mut a, false), lines(&mut a, true), lines(&mut a, false)], [1, 0, 1]);
    assert_eq!([lines(&mut b, false), lines(&mut a, false)], [0, 0]);
    front.finish();
}

/// What one client wants to see of log lines, of a source that all share, changed what the others saw.
#[test]
fn a_client_that_has_said_nothing_of_log_lines_sees_what_it_saw() {
    let place = Place::new();
    let front = start(&place);
    let (mut a, mut b) = (legacy(&front, A), legacy(&front, B));
    let sees = |client: &mut Client| {
        client.notices.clear();
        for level in ["debug", "info", "emergency"] {
            client.request("tools/call", json!({"name": "asker__log", "arguments": {"level": level}})).result();
        }
        client.notices.iter().filter(|notice| notice["method"] == "notifications/message").count()
    };
    let told = |levels: &[&str]| {
        eventually("the source is told", || {
            let lines = place.lines("asker.journal").into_iter().filter(|line| line.contains("logging/setLevel"));
            let level = |line: String| serde_json::from_str::<Value>(&line).unwrap()["params"]["level"].clone();
            lines.map(level).collect::<Vec<_>>() == *levels
        });
    };
    // The fixture sends every line by itself, whatever it is told.
    assert_eq!([sees(&mut a), sees(&mut b)], [3, 3]);
    a.request("logging/setLevel", json!({"level": "emergency"})).result();
    told(&["info"]);
    assert_eq!([sees(&mut a), sees(&mut b)], [1, 3]);
    a.request("logging/setLevel", json!({"level": "debug"})).result();
    told(&["info", "debug"]);
    assert_eq!([sees(&mut a), sees(&mut b)], [3, 2]);
    let headers = a.all_headers();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    assert!(front.ask("DELETE", "/mcp", &headers, "").head.status < 300);
    told(&["info", "debug", "info"]);
    assert_eq!(sees(&mut b), 3);
    front.finish();
}
