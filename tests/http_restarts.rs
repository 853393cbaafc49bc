//! Sources over HTTP that are restarted, rolled out or renewed while calls are in flight: what is under way goes on, and what
//! listens comes back.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;
#[path = "support/talk.rs"]
mod talk;
#[path = "support/web.rs"]
mod web;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::{Place, Relay, eventually};
use talk::{Era, Talker, able};
use web::{Out, Seen, Web};

const CALLED: &str = "tools/call";

fn is_slow(seen: &Seen) -> bool {
    seen.json()["params"]["arguments"]["slow"] == true
}

/// A call whose answer is held back until it may come.
#[derive(Clone, Default)]
struct Held(Arc<AtomicBool>);

impl Held {
    fn wait(&self) {
        eventually("the call may be answered", || self.0.load(Ordering::SeqCst));
    }

    fn release(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A source that closed its door for a graceful restart answered what it had, and all of that was lost with the first call
/// that came to the closed door.
#[test]
fn a_connection_that_is_refused_costs_no_call_in_flight() {
    let held = Held::default();
    let holds = held.clone();
    let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
        if is_slow(seen) {
            holds.wait();
        }
        // Each connection serves one request.
        if seen.rpc() == CALLED {
            out.json(200, &[("connection", "close")], &web::echoed(seen));
            out.close();
        }
        seen.rpc() == CALLED
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    relay.call("web", "echo", json!({}));
    let slow = relay.ask_call("web", "echo", json!({"slow": true}));
    let gone = relay.ask_call("web", "echo", json!({"slow": true}));
    eventually("they are under way", || web.posts(CALLED).len() == 3);
    web.close_door();
    // What is left of open connections is used up.
    let refused = |relay: &mut Relay| {
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert!(kind == "unavailable" && text.contains("the connection was refused"), "{text}");
        assert!(!text.contains("took effect"), "{text}");
    };
    eventually("the door is closed", || relay.call("web", "echo", json!({})).result()["isError"] == true);
    refused(&mut relay);
    relay.cancel(&gone);
    refused(&mut relay);
    held.release();
    assert_eq!(relay.answer(&slow).structured(), json!({"slow": true}));
    relay.await_status("web", "unreachable");
    relay.finish();
}

/// The same where the next door is opened before the last answer is there: the connection goes on.
#[test]
fn a_source_that_is_reached_again_is_not_left() {
    let held = Held::default();
    let holds = held.clone();
    let answers = move |seen: &Seen, out: &mut Out| {
        if is_slow(seen) {
            holds.wait();
        }
        if seen.rpc() == CALLED {
            out.json(200, &[("connection", "close")], &web::echoed(seen));
            out.close();
        }
        seen.rpc() == CALLED
    };
    let web = Web::start(web::legacy, answers.clone());
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    relay.call("web", "echo", json!({}));
    let slow = relay.ask_call("web", "echo", json!({"slow": true}));
    eventually("it is under way", || web.posts(CALLED).len() == 2);
    web.close_door();
    eventually("the door is closed", || relay.call("web", "echo", json!({})).result()["isError"] == true);
    let again = Web::start_at(web.port, web::legacy, answers);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    held.release();
    assert_eq!(relay.answer(&slow).structured(), json!({"slow": true}));
    assert_eq!(relay.call("web", "echo", json!({"a": 2})).structured(), json!({"a": 2}));
    assert_eq!((web.posts("initialize").len(), again.posts("initialize").len()), (1, 0));
    assert_eq!(relay.status("web")["status"], "ready");
    relay.finish();
}

/// A source whose stream, or subscription, ends as soon as it was open, and is refused in this way the next time.
#[track_caller]
fn check_opened_again(usual: fn(&Seen, &mut Out), refuse: fn(&Seen, &mut Out)) {
    let times = AtomicUsize::new(0);
    let web = Web::start(usual, move |seen: &Seen, out: &mut Out| {
        let listens = seen.method == "GET" || seen.rpc() == "subscriptions/listen";
        if listens {
            match times.fetch_add(1, Ordering::SeqCst) {
                1 => refuse(seen, out),
                time => {
                    out.stream();
                    out.chunk("id: there\nretry: 50\ndata:\n\n");
                    if time == 0 {
                        out.end_stream();
                    } else {
                        out.is_closed_within(support::PATIENCE);
                    }
                }
            }
        }
        listens
    });
    let relay = Relay::greeted("", &[web.source("web", "start = 'at-start'")]);
    let opened = || web.seen().iter().filter(|it| it.method == "GET" || it.rpc() == "subscriptions/listen").count();
    eventually("it is open again", || opened() == 3);
    relay.finish();
}

/// A roll-out behind an ingress, or a stream that still counted as open, ended what a source tells of itself for good.
#[test]
fn what_listens_is_opened_again_however_it_was_refused_meanwhile() {
    let ways: [fn(&Seen, &mut Out); 5] = [
        |_, out| out.reply(404, &[], "404 page not found"),
        |_, out| out.reply(409, &[], "Conflict: Only one SSE stream is allowed per session"),
        |_, out| out.json(400, &[], &web::error(&Value::Null, -32000, "Invalid event ID format")),
        |_, out| out.reply(405, &[], ""),
        |_, out| out.reply(200, &[("content-type", "text/html")], "<html></html>"),
    ];
    std::thread::scope(|scope| {
        for refuse in ways {
            scope.spawn(move || check_opened_again(web::legacy, refuse));
            scope.spawn(move || check_opened_again(web::modern, refuse));
        }
    });
}

/// It was asked for an id that it did not know any more, again and again.
#[test]
fn a_stream_is_opened_without_an_event_id_that_was_refused() {
    let web = Web::start(web::legacy, |seen: &Seen, out: &mut Out| {
        let is_get = seen.method == "GET";
        match seen.header("last-event-id") {
            Some(_) if is_get => out.reply(400, &[], "unknown event id"),
            None if is_get => {
                out.stream();
                out.chunk("id: there\nretry: 50\ndata:\n\n");
                out.end_stream();
            }
            _ => {}
        }
        is_get
    });
    let relay = Relay::greeted("", &[web.source("web", "start = 'at-start'")]);
    let ids = || {
        let gets = web.with_method("GET");
        gets.iter().map(|get| get.header("last-event-id").map(str::to_owned)).collect::<Vec<_>>()
    };
    eventually("it is open again", || ids().len() >= 3);
    assert_eq!(ids()[..3], [None, Some("there".to_owned()), None]);
    relay.finish();
}

/// The stream of a source that was restarted was never opened in its new session.
#[test]
fn a_session_that_is_begun_again_has_its_stream_again() {
    let second = Arc::new(AtomicBool::new(false));
    let restarted = second.clone();
    let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
        let now = if restarted.load(Ordering::SeqCst) { "session-of-the-second-life" } else { web::SESSION };
        match seen.rpc().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "web"}});
                out.json(
                    200,
                    &[("mcp-session-id", now)],
                    &json!({"jsonrpc": "2.0", "id": seen.id(), "result": result}),
                );
            }
            "server/discover" => return false,
            _ if seen.header("mcp-session-id") != Some(now) => {
                out.json(400, &[], &web::error(&Value::Null, -32000, "Bad Request: No valid session ID provided"));
            }
            _ if seen.method == "GET" => {
                out.stream();
                out.chunk(": here\n\n");
                if now == web::SESSION {
                    eventually("it is restarted", || restarted.load(Ordering::SeqCst));
                    out.close();
                } else {
                    out.is_closed_within(support::PATIENCE);
                }
            }
            _ => return false,
        }
        true
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    relay.call("web", "echo", json!({}));
    eventually("its stream is open", || web.with_method("GET").len() == 1);
    second.store(true, Ordering::SeqCst);
    eventually("its stream is refused", || web.with_method("GET").len() >= 2);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    eventually("its new stream is open", || {
        web.with_method("GET").iter().any(|get| get.header("mcp-session-id") == Some("session-of-the-second-life"))
    });
    relay.finish();
}

/// Between the end of a token and the next one the stream was refused once, and was never opened again.
#[test]
fn what_listens_waits_for_the_credentials_of_now() {
    for (usual, is_modern) in [(web::legacy as fn(&Seen, &mut Out), false), (web::modern, true)] {
        let right = Arc::new(std::sync::Mutex::new("first-token-12345"));
        let (taken, open) = (right.clone(), Arc::new(AtomicBool::new(false)));
        let opens = open.clone();
        let web = Web::start(usual, move |seen: &Seen, out: &mut Out| {
            let given = seen.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
            let is_right = || given == Some(*taken.lock().unwrap());
            let listens = seen.method == "GET" || seen.rpc() == "subscriptions/listen";
            if !is_right() {
                out.reply(401, &[], "");
                return true;
            }
            if listens {
                out.stream();
                out.chunk(": here\n\n");
                opens.store(true, Ordering::SeqCst);
                while is_right() && !out.is_closed_within(std::time::Duration::from_millis(50)) {}
                out.close();
            }
            listens
        });
        let place = Place::new();
        place.write("token", "first-token-12345");
        let source = web.source("web", "auth = 'bearer'\ntoken = '${file:token}'\nstart = 'at-start'");
        let mut relay = Relay::greeted_in(&place, "", &[source]);
        let opened = || {
            let all = web.seen().into_iter();
            let all = all.filter(|it| it.method == "GET" || it.rpc() == "subscriptions/listen");
            all.filter_map(|it| it.header("authorization").map(str::to_owned)).collect::<Vec<_>>()
        };
        eventually("it is open", || open.load(Ordering::SeqCst));
        // A source whose listing is refused is left, and listens to nothing.
        eventually("it is listed", || relay.status("web")["tools"] != 0);
        *right.lock().unwrap() = "second-token-6789";
        eventually("it is refused", || opened().len() >= 2);
        place.write("token", "second-token-6789");
        // A modern source that refuses to be listed is connected to anew, when it is called.
        eventually("it is open again", || {
            let is_open = opened().iter().any(|it| it.ends_with("second-token-6789"));
            is_open || is_modern && relay.call("web", "echo", json!({})).line.is_empty()
        });
        assert!(opened().len() <= 4, "{:?}", opened());
        relay.finish();
    }
}

/// A session whose beginning was held up with 429 counted as begun, and every call in it was refused.
#[test]
fn a_session_is_begun_when_the_source_has_taken_note_of_it() {
    for (status, after) in [(429, "1"), (503, "0"), (400, "")] {
        let (second, held_up) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let (restarted, begun) = (second.clone(), AtomicBool::new(true));
        let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
            let now = if restarted.load(Ordering::SeqCst) { "session-of-the-second-life" } else { web::SESSION };
            match seen.rpc().as_str() {
                "initialize" => {
                    begun.store(false, Ordering::SeqCst);
                    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "web"}});
                    let reply = json!({"jsonrpc": "2.0", "id": seen.id(), "result": result});
                    out.json(200, &[("mcp-session-id", now)], &reply);
                }
                "server/discover" => return false,
                _ if seen.header("mcp-session-id") != Some(now) => out.reply(404, &[], ""),
                "notifications/initialized" if now != web::SESSION && held_up.fetch_add(1, Ordering::SeqCst) == 0 => {
                    out.reply(status, &[("retry-after", after)], "");
                }
                "notifications/initialized" => {
                    begun.store(true, Ordering::SeqCst);
                    return false;
                }
                "tools/call" | "tools/list" if !begun.load(Ordering::SeqCst) => {
                    out.json(200, &[], &web::error(&seen.id(), -32602, "before initialization was complete"));
                }
                _ => return false,
            }
            true
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        relay.call("web", "echo", json!({}));
        second.store(true, Ordering::SeqCst);
        if status == 400 {
            // It may begin one on a new connection.
            let (_, text) = relay.call("web", "echo", json!({})).failure();
            assert!(text.contains("nothing was done"), "{text}");
            eventually("it is connected to anew", || {
                relay.call("web", "echo", json!({})).result()["structuredContent"] == json!({})
            });
        }
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{status}");
        relay.finish();
    }
}

/// How something is refused.
type Refuse = fn(&mut Out);

/// A source that asks `go on?` in its calls, and refuses the answer so often in this way.
fn asking(times: usize, refuse: Refuse) -> Web {
    let (left, answer) = (AtomicUsize::new(times), Arc::new(std::sync::Mutex::new(Value::Null)));
    Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
        if seen.rpc() == CALLED {
            let schema = json!({"type": "object", "properties": {}});
            let params = json!({"message": "go on?", "requestedSchema": schema});
            out.stream();
            out.event(&json!({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": params}));
            while answer.lock().unwrap().is_null() && !out.is_closed_within(std::time::Duration::from_millis(20)) {}
            let answer = answer.lock().unwrap().clone();
            out.event(
                &json!({"jsonrpc": "2.0", "id": seen.id(), "result": {"content": [], "structuredContent": answer}}),
            );
            out.end_stream();
            return true;
        }
        if seen.id() != "q-1" {
            return false;
        }
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            refuse(out);
        } else {
            *answer.lock().unwrap() = seen.json()["result"].clone();
            out.reply(202, &[], "");
        }
        true
    })
}

/// What the user had answered was lost where the source was busy, and the call went on until its time was over.
#[test]
fn an_answer_to_a_question_is_brought_or_ends_its_call() {
    let ways: [(usize, Refuse, bool); 4] = [
        (1, |out| out.reply(503, &[("retry-after", "1")], ""), true),
        (2, |out| out.reply(429, &[("retry-after", "0")], ""), true),
        (1, |out| out.reply(503, &[], ""), true),
        (usize::MAX, |out| out.reply(400, &[], "no such question"), false),
    ];
    for (number, (times, refuse, is_brought)) in ways.into_iter().enumerate() {
        let web = asking(times, refuse);
        let relay = Relay::start("", &[web.source("web", "")]);
        let mut talker = Talker::new(relay, Era::Legacy, able());
        let call = json!({"name": "call_tool", "arguments": {"source": "web", "tool": "echo", "arguments": {}}});
        let talk = talker.talk(call, 1, |_| json!({"action": "accept", "content": {}}));
        if is_brought {
            assert_eq!(talk.reply.structured(), json!({"action": "accept", "content": {}}), "{number}");
        } else {
            let (_, text) = talk.reply.failure();
            assert!(text.contains("no such question") && text.contains("took effect is not known"), "{text}");
        }
        talker.relay.finish();
    }
}

/// A source that ends its streams and is to be polled was given up after five polls without a word, and after the first that it
/// refused because it still took the stream for an open one.
#[test]
fn a_source_that_is_polled_may_take_its_time() {
    for refusal in [None, Some(409), Some(404), Some(408), Some(425)] {
        let polls = AtomicUsize::new(0);
        let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
            let Some(id) = seen.header("last-event-id") else {
                if seen.rpc() != CALLED {
                    return false;
                }
                out.stream();
                out.chunk(format!("id: at-{}\nretry: 20\ndata:\n\n", seen.id()));
                out.end_stream();
                return true;
            };
            let id: Value = serde_json::from_str(id.split('-').nth(1).unwrap()).unwrap();
            match (polls.fetch_add(1, Ordering::SeqCst), refusal) {
                (0, Some(status)) => out.reply(status, &[], "Conflict: Stream already has an active connection"),
                (8.., _) | (_, Some(_)) => {
                    let result = json!({"content": [], "structuredContent": {"late": true}});
                    out.stream();
                    out.event(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
                    out.end_stream();
                }
                (poll, None) => {
                    out.stream();
                    out.chunk(format!("id: at-{id}-{poll}\nretry: 20\ndata:\n\n"));
                    out.end_stream();
                }
            }
            true
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({})).structured(), json!({"late": true}), "{refusal:?}");
        assert_eq!(web.posts(CALLED).len(), 1);
        relay.finish();
    }
}

/// A question whose event was cut before its end was asked, and asked again when the stream was taken up before it.
#[test]
fn a_question_that_is_cut_off_is_asked_once() {
    let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let given = answers.clone();
    let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
        let params = json!({"message": "pay?", "requestedSchema": {"type": "object", "properties": {}}});
        let question = json!({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": params});
        if seen.rpc() == CALLED {
            out.stream();
            out.chunk(format!("id: {}\nretry: 20\ndata:\n\nid: 0\ndata: {question}\n", seen.id()));
            out.close();
        } else if let Some(id) = seen.header("last-event-id") {
            out.stream();
            if id != "0" {
                out.chunk(format!("id: 0-{id}\ndata: {question}\n\n"));
            }
            while given.lock().unwrap().is_empty() && !out.is_closed_within(std::time::Duration::from_millis(20)) {}
            let id: Value = serde_json::from_str(id).unwrap();
            out.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}));
            out.end_stream();
        } else if seen.id() == "q-1" {
            given.lock().unwrap().push(seen.json()["result"].clone());
            out.reply(202, &[], "");
        } else {
            return false;
        }
        true
    });
    let mut talker = Talker::new(Relay::start("", &[web.source("web", "")]), Era::Legacy, able());
    let call = json!({"name": "call_tool", "arguments": {"source": "web", "tool": "echo", "arguments": {}}});
    let talk = talker.talk(call, 1, |_| json!({"action": "accept", "content": {}}));
    assert_eq!(talk.reply.result()["content"], json!([]));
    assert_eq!((talker.questions().len(), answers.lock().unwrap().len()), (1, 1));
    talker.relay.finish();
}

/// A source that was put back to an older revision was recognized by words of a list only; with others every call failed for good.
#[test]
fn a_source_that_is_modern_no_more_is_found_out_in_whatever_words() {
    let ways: [fn(&Seen, &mut Out); 6] = [
        |_, out| out.json(400, &[], &web::error(&json!(""), -32600, "A valid session id is REQUIRED for this.")),
        |_, out| out.reply(404, &[], ""),
        |_, out| out.reply(422, &[], "{\"detail\":[{\"msg\":\"field required\"}]}"),
        |_, out| out.reply(500, &[], "no session"),
        |_, out| out.json(200, &[], &web::error(&Value::Null, -32002, "Server not initialized")),
        |seen, out| out.json(200, &[], &web::error(&seen.id(), -32602, "Request before initialization was complete")),
    ];
    for (number, how) in ways.into_iter().enumerate() {
        let turned = Arc::new(AtomicBool::new(false));
        let is_legacy = turned.clone();
        let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
            match (is_legacy.load(Ordering::SeqCst), seen.header("mcp-session-id"), seen.rpc().as_str()) {
                (false, ..) => web::modern(seen, out),
                (true, Some(_), _) | (true, None, "initialize") => return false,
                (true, None, _) => how(seen, out),
            }
            true
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        turned.store(true, Ordering::SeqCst);
        eventually("it is connected to anew", || {
            let reply = relay.call("web", "echo", json!({"b": 2}));
            reply.raw("result").is_some() && reply.result()["structuredContent"] == json!({"b": 2})
        });
        let calls = web.posts(CALLED).len();
        assert!(calls <= 4, "{number}: {calls}");
        relay.finish();
    }
}

/// A tool may speak of sessions as it likes: its source is asked what it speaks, and goes on.
#[test]
fn a_modern_source_that_speaks_of_sessions_is_not_left() {
    let web = Web::start(web::modern, |seen: &Seen, out: &mut Out| {
        let is_call = seen.rpc() == CALLED;
        if is_call {
            out.json(400, &[], &web::error(&Value::Null, -32602, "the browser session is not initialized"));
        }
        is_call
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    for _ in 0..3 {
        assert!(relay.call("web", "echo", json!({})).line.contains("the browser session is not initialized"));
    }
    assert_eq!((web.posts(CALLED).len(), web.posts("server/discover").len()), (3, 2));
    relay.finish();
}

/// A source that was upgraded under its connection kept the prompts that it had before, and a revision that nobody speaks was
/// taken for agreed.
#[test]
fn what_a_source_says_of_itself_is_read_again_with_a_new_session() {
    for version in ["2025-11-25", "2025-06-18", "2099-01-01", "2026-07-28"] {
        let second = Arc::new(AtomicBool::new(false));
        let restarted = second.clone();
        let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
            let is_new = restarted.load(Ordering::SeqCst);
            let (now, version, capabilities) = match is_new {
                false => (web::SESSION, "2025-11-25", json!({"tools": {}})),
                true => ("session-of-the-second-life", version, json!({"tools": {}, "prompts": {}})),
            };
            let reply = |result: Value| json!({"jsonrpc": "2.0", "id": seen.id(), "result": result});
            match seen.rpc().as_str() {
                "initialize" => {
                    let result = json!({"protocolVersion": version, "capabilities": capabilities,
                        "serverInfo": {"name": "web"}});
                    out.json(200, &[("mcp-session-id", now)], &reply(result));
                }
                "server/discover" => return false,
                _ if seen.header("mcp-session-id") != Some(now) => out.reply(404, &[], ""),
                _ if seen.header("mcp-protocol-version") != Some(version) => out.reply(400, &[], "which revision?"),
                "prompts/list" => out.json(200, &[], &reply(json!({"prompts": [{"name": "hello"}]}))),
                _ => return false,
            }
            true
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        relay.call("web", "echo", json!({}));
        assert_eq!(relay.request("prompts/list", json!({})).result()["prompts"], json!([]));
        second.store(true, Ordering::SeqCst);
        let wrong = match version {
            "2099-01-01" => "protocol revision `2099-01-01`, which toolrelay does not speak. use a version",
            "2026-07-28" => "protocol revision `2026-07-28`, which has no `initialize`. report this to the authors",
            _ => "",
        };
        if !wrong.is_empty() {
            let (_, text) = relay.call("web", "echo", json!({})).failure();
            assert!(text.contains(wrong), "{text}");
            relay.await_status("web", "unreachable");
        } else {
            assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
            eventually("its prompts are there", || {
                relay.request("prompts/list", json!({})).result()["prompts"][0]["name"] == "web__hello"
            });
            assert_eq!(web.posts("initialize").len(), 2);
        }
        relay.finish();
    }
}

/// A source that is started again, and refuses to begin a session this many times.
struct Restarting {
    web: Web,
    is_restarted: Arc<AtomicBool>,
}

fn restarting(refusals: usize, status: u16, after: Option<&'static str>) -> Restarting {
    let is_restarted = Arc::new(AtomicBool::new(false));
    let (is_new, refused) = (is_restarted.clone(), AtomicUsize::new(0));
    let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
        let now = "session-of-the-second-life";
        match seen.rpc().as_str() {
            _ if !is_new.load(Ordering::SeqCst) => return false,
            "initialize" if refused.fetch_add(1, Ordering::SeqCst) < refusals => {
                let after = after.map(|after| ("retry-after", after));
                out.reply(status, after.as_slice(), "starting");
            }
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "web"}});
                let reply = json!({"jsonrpc": "2.0", "id": seen.id(), "result": result});
                out.json(200, &[("mcp-session-id", now)], &reply);
            }
            CALLED if seen.header("mcp-session-id") == Some(now) => out.json(200, &[], &web::echoed(seen)),
            _ if seen.header("mcp-session-id") != Some(now) => out.reply(404, &[], ""),
            _ => return false,
        }
        true
    });
    Restarting { web, is_restarted }
}

/// Each call that found the session gone asked a source that was still starting for another one, and failed.
#[test]
fn a_session_is_begun_again_once_the_source_has_been_left_alone_for_as_long_as_it_says() {
    for (status, after) in [(503, Some("1")), (429, Some("1")), (429, None), (503, None)] {
        let Restarting { web, is_restarted } = restarting(1, status, after);
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        relay.call("web", "echo", json!({})).structured();
        is_restarted.store(true, Ordering::SeqCst);
        let ids: Vec<_> = (0..5).map(|n| relay.ask_call("web", "echo", json!({"n": n}))).collect();
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(relay.answer(id).structured(), json!({"n": n}), "{status} {after:?}");
        }
        let greetings = web.posts("initialize");
        assert_eq!(greetings.len(), 3, "{status} {after:?}");
        assert!(greetings[2].at - greetings[1].at >= Duration::from_secs(1), "{status} {after:?}");
        relay.finish();
    }
}

/// The same where a call has less time than the source wants: it is told so, and the source is left alone all the same.
#[test]
fn who_cannot_wait_for_a_session_is_told_when_there_may_be_one() {
    let Restarting { web, is_restarted } = restarting(usize::MAX, 503, Some("200"));
    let mut relay = Relay::greeted("", &[web.source("web", "call_timeout_secs = 20")]);
    relay.call("web", "echo", json!({})).structured();
    is_restarted.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert_eq!(kind, "busy", "{text}");
        assert!(text.contains("nothing was done; try again in "), "{text}");
    }
    assert_eq!(web.posts("initialize").len(), 2);
    relay.finish();
}
