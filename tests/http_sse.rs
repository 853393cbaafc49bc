//! Sources that speak HTTP+SSE, the transport of 2024-11-05: one stream for every answer, messages posted beside it.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use standing::Trial;
use support::{Relay, eventually};
use web::{Out, Seen, Web};

/// Answers of the stream that is open.
type Stream = Arc<Mutex<Option<Sender<Option<Value>>>>>;

/// A source of the old kind whose endpoint is told as `endpoint` has it, from its own address.
fn old(endpoint: impl Fn(&Seen) -> String + Send + Sync + 'static) -> (Web, Stream) {
    let stream = Stream::default();
    let open = stream.clone();
    let web = Web::start(
        |_, out| out.reply(404, &[], "no such path"),
        move |seen, out| match (seen.method.as_str(), seen.path.as_str()) {
            ("GET", "/mcp") => {
                let (sender, answers) = channel();
                *open.lock().unwrap() = Some(sender);
                out.stream();
                out.chunk(format!("event: endpoint\ndata: {}\n\n", endpoint(seen)));
                while let Ok(Some(answer)) = answers.recv() {
                    out.event(&answer);
                }
                out.close();
                true
            }
            ("POST", "/message?session=1") => {
                out.reply(202, &[], "Accepted");
                if let Some(answer) = answer(seen) {
                    let _ = open.lock().unwrap().as_ref().unwrap().send(Some(answer));
                }
                true
            }
            _ => false,
        },
    );
    (web, stream)
}

fn answer(seen: &Seen) -> Option<Value> {
    let result = match &*seen.rpc() {
        "initialize" => {
            json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old"}})
        }
        "tools/list" => json!({"tools": web::tools()}),
        "tools/call" => return Some(web::echoed(seen)),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": seen.id(), "result": result}))
}

fn relative(_: &Seen) -> String {
    "/message?session=1".to_owned()
}

fn absolute(seen: &Seen) -> String {
    format!("http://{}/message?session=1", seen.header("host").unwrap())
}

#[test]
fn a_source_of_the_old_kind_is_served_where_that_is_configured() {
    for endpoint in [relative as fn(&Seen) -> String, absolute] {
        let (web, _) = old(endpoint);
        let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        assert!(web.posts("server/discover").is_empty());
        let told: Vec<_> = web.with_method("POST").iter().map(Seen::rpc).collect();
        assert_eq!(told[..2], ["initialize", "notifications/initialized"]);
        assert!(web.seen().iter().all(|seen| seen.path != "/mcp" || seen.method == "GET"));
        relay.finish();
    }
}

#[test]
fn a_source_of_the_old_kind_is_found_out() {
    let (web, _) = old(relative);
    let mut relay = Trial::start(&[web.source("web", "")]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
    // One that is told to speak streamable HTTP is taken at its word.
    let (web, _) = old(relative);
    let mut relay = Trial::start(&[web.source("web", "transport = 'streamable-http'")]);
    let (_, text) = relay.call("web", "echo", json!({})).failure();
    assert!(text.contains("HTTP 404"), "{text}");
    assert!(web.with_method("GET").is_empty());
    relay.finish();
}

#[test]
fn messages_are_sent_to_no_other_origin() {
    let other = Web::start(web::legacy, |_, _| false);
    let there = other.url("/message");
    let (web, _) = old(move |_| there.clone());
    // Where the transport is found out by trying, why the second try failed is told as well.
    for settings in ["transport = 'sse'", ""] {
        let mut relay = Trial::start(&[web.source("web", settings)]);
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert_eq!(kind, "unavailable");
        assert!(text.contains("at another origin") && text.contains("refused"), "{text}");
        assert!(!text.contains("correct `url`"), "{text}");
        assert!(other.seen().is_empty());
        relay.finish();
    }
}

#[test]
fn a_lost_stream_ends_its_calls_and_the_next_one_connects_again() {
    let (web, stream) = old(relative);
    let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
    relay.call("web", "echo", json!({}));
    stream.lock().unwrap().as_ref().unwrap().send(None).unwrap();
    eventually("the loss is seen", || relay.status("web")["status"] != "ready");
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(web.with_method("GET").len(), 2);
    relay.finish();
}

#[test]
fn a_session_that_takes_no_messages_any_more_is_left() {
    let moved = Arc::new(std::sync::atomic::AtomicU32::new(1));
    let session = moved.clone();
    // Each stream has a session of its own, and only the last one's takes messages.
    let (web, _) = old(move |_| format!("/message?session={}", session.load(std::sync::atomic::Ordering::SeqCst)));
    let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
    moved.store(2, std::sync::atomic::Ordering::SeqCst);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert!(kind == "unavailable" && text.contains("HTTP 404"), "{text}");
    moved.store(1, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(web.with_method("GET").len(), 2);
    relay.finish();
}

/// A source of the old kind whose sessions can be forgotten: each stream is one, numbered from 1.
struct Forgetful {
    web: Web,
    /// The last session that is forgotten.
    forgotten: Arc<AtomicUsize>,
    streams: Arc<Mutex<Vec<Sender<Option<Value>>>>>,
    /// Answers that are held back.
    held: Arc<Mutex<Vec<Value>>>,
    /// The streams that were closed from the other side.
    left: Arc<Mutex<Vec<usize>>>,
    /// How many streams are refused yet.
    busy: Arc<AtomicUsize>,
}

fn forgetful() -> Forgetful {
    let forgotten = Arc::new(AtomicUsize::new(0));
    let streams: Arc<Mutex<Vec<Sender<Option<Value>>>>> = Arc::default();
    let held: Arc<Mutex<Vec<Value>>> = Arc::default();
    let left: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (is_forgotten, open, back, gone) = (forgotten.clone(), streams.clone(), held.clone(), left.clone());
    let (refused, busy) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let is_busy = busy.clone();
    let web = Web::start(
        |_, out| out.reply(404, &[], "no such path"),
        move |seen, out| {
            let is_stream = (seen.method.as_str(), seen.path.as_str()) == ("GET", "/mcp");
            let less = |left: usize| left.checked_sub(1);
            if is_stream && is_busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
                out.reply(503, &[("retry-after", "1")], "starting");
                return true;
            }
            if is_stream {
                let (sender, answers) = channel();
                open.lock().unwrap().push(sender);
                let number = open.lock().unwrap().len();
                out.stream();
                out.chunk(format!("event: endpoint\ndata: /message?session={number}\n\n"));
                loop {
                    match answers.recv_timeout(Duration::from_millis(50)) {
                        Ok(Some(answer)) => out.event(&answer),
                        Err(RecvTimeoutError::Timeout) if !out.is_closed_within(Duration::from_millis(1)) => {}
                        Err(RecvTimeoutError::Timeout) => break gone.lock().unwrap().push(number),
                        _ => break,
                    }
                }
                out.close();
                return true;
            }
            let number = seen.path.strip_prefix("/message?session=").and_then(|number| number.parse::<usize>().ok());
            let Some(number) = number.filter(|number| *number > is_forgotten.load(Ordering::SeqCst)) else {
                return false;
            };
            let arguments = seen.json()["params"]["arguments"].clone();
            if arguments["refusals"]
                .as_u64()
                .is_some_and(|times| refused.fetch_add(1, Ordering::SeqCst) < times as usize)
            {
                let after = arguments["after"].as_str().map(|after| ("retry-after", after));
                out.reply(arguments["status"].as_u64().unwrap() as u16, after.as_slice(), "not now");
                return true;
            }
            if arguments["bad"] == true {
                out.json(400, &[], &web::error(&seen.id(), -32602, "bad args"));
                return true;
            }
            if arguments["in_body"] == true {
                out.json(200, &[], &web::echoed(seen));
                return true;
            }
            out.reply(202, &[], "Accepted");
            match answer(seen) {
                Some(answer) if arguments["hold"] == true => back.lock().unwrap().push(answer),
                Some(answer) => open.lock().unwrap()[number - 1].send(Some(answer)).unwrap(),
                None => {}
            }
            true
        },
    );
    Forgetful { web, forgotten, streams, held, left, busy }
}

#[test]
fn a_forgotten_session_is_begun_again_and_costs_no_call() {
    let Forgetful { web, forgotten, streams, held, left, .. } = forgetful();
    let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
    relay.call("web", "echo", json!({}));
    let slow = relay.ask_call("web", "echo", json!({"hold": true}));
    eventually("it is under way", || held.lock().unwrap().len() == 1);
    forgotten.store(1, Ordering::SeqCst);
    let ids: Vec<_> = (0..10).map(|n| relay.ask_call("web", "echo", json!({"n": n}))).collect();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(relay.answer(id).structured(), json!({"n": n}));
    }
    assert_eq!((web.with_method("GET").len(), web.posts("initialize").len()), (2, 2));
    assert_eq!(web.posts("notifications/initialized").last().unwrap().path, "/message?session=2");
    // What the source was at work on may still come on the stream of before.
    let late = held.lock().unwrap().pop();
    streams.lock().unwrap()[0].send(late).unwrap();
    assert_eq!(relay.answer(&slow).structured(), json!({"hold": true}));
    eventually("nothing is kept that is of no use any more", || *left.lock().unwrap() == [1]);
    // If that ends first, the call says truly what is known of it, and the others go on.
    let lost = relay.ask_call("web", "echo", json!({"hold": true}));
    eventually("it is under way", || held.lock().unwrap().len() == 1);
    forgotten.store(2, Ordering::SeqCst);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    streams.lock().unwrap()[1].send(None).unwrap();
    let (kind, text) = relay.answer(&lost).failure();
    assert!(kind == "unavailable" && text.contains("whether the call took effect is not known"), "{text}");
    assert_eq!(relay.call("web", "echo", json!({"a": 2})).structured(), json!({"a": 2}));
    assert_eq!((web.with_method("GET").len(), relay.status("web")["status"].clone()), (3, json!("ready")));
    relay.finish();
}

#[test]
fn a_source_that_forgets_every_session_is_left() {
    let Forgetful { web, forgotten, .. } = forgetful();
    let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
    relay.call("web", "echo", json!({}));
    let before = web.posts("tools/call").len();
    forgotten.store(usize::MAX, Ordering::SeqCst);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert!(kind == "unavailable" && text.contains("HTTP 404"), "{text}");
    assert!(!text.contains("took effect") && !text.contains("correct `url`"), "{text}");
    assert_eq!(web.posts("tools/call").len(), before + 1);
    forgotten.store(0, Ordering::SeqCst);
    eventually("it is found again", || {
        relay.call("web", "echo", json!({"a": 1})).result()["structuredContent"] == json!({"a": 1})
    });
    relay.finish();
}

#[test]
fn a_source_that_wants_to_be_left_alone_is_asked_again_within_the_time_of_the_call() {
    for (status, after) in [(429, json!("1")), (503, json!("1")), (429, Value::Null)] {
        let web = forgetful().web;
        let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
        let arguments = json!({"refusals": 1, "status": status, "after": after});
        assert_eq!(relay.call("web", "echo", arguments.clone()).structured(), arguments);
        let calls = web.posts("tools/call");
        assert_eq!(calls.len(), 2);
        assert!(calls[1].at - calls[0].at >= Duration::from_secs(1));
        relay.finish();
    }
    // One that does not say that nothing was done is not, nor is one that wants more time than there is.
    for (status, after, kind) in [(503, Value::Null, "unavailable"), (429, json!("4000"), "busy")] {
        let web = forgetful().web;
        let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
        let call = relay.call("web", "echo", json!({"refusals": 1, "status": status, "after": after}));
        assert_eq!((call.failure().0.as_str(), web.posts("tools/call").len()), (kind, 1));
        relay.finish();
    }
}

/// A stream that was refused for a moment cost the calls that were to be answered on it.
#[test]
fn a_stream_is_opened_once_the_source_has_been_left_alone_for_as_long_as_it_says() {
    let Forgetful { web, forgotten, busy, .. } = forgetful();
    busy.store(1, Ordering::SeqCst);
    let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
    for life in 1..=2 {
        assert_eq!(relay.call("web", "echo", json!({"life": life})).structured(), json!({"life": life}));
        let opened = web.with_method("GET");
        assert_eq!((opened.len(), web.posts("initialize").len()), (2 * life, life));
        assert!(opened[2 * life - 1].at - opened[2 * life - 2].at >= Duration::from_secs(1));
        busy.store(1, Ordering::SeqCst);
        forgotten.store(life, Ordering::SeqCst);
    }
    relay.finish();
}

/// It was told in words of the relay's own that the source had refused the request.
#[test]
fn an_error_in_a_refusal_is_passed_on_as_it_is() {
    let web = forgetful().web;
    let mut relay = Relay::greeted("exposure = \"eager\"", &[web.source("web", "transport = 'sse'")]);
    relay.call("web", "echo", json!({})).structured();
    let error = relay.call_direct("web__echo", json!({"bad": true})).error();
    assert_eq!(error, json!({"code": -32602, "message": "bad args"}));
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
}

#[test]
fn a_call_that_is_taken_in_no_session_costs_no_other() {
    let Forgetful { web, streams, held, .. } = forgetful();
    let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
    relay.call("web", "echo", json!({}));
    let slow = relay.ask_call("web", "echo", json!({"hold": true}));
    eventually("it is under way", || held.lock().unwrap().len() == 1);
    let (kind, text) = relay.call("web", "echo", json!({"refusals": 2, "status": 404})).failure();
    assert!(kind == "unavailable" && text.contains("HTTP 404") && text.contains("nothing was done"), "{text}");
    assert!(!text.contains("connected to anew") && !text.contains("correct `url`"), "{text}");
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    let late = held.lock().unwrap().pop();
    streams.lock().unwrap()[0].send(late).unwrap();
    assert_eq!(relay.answer(&slow).structured(), json!({"hold": true}));
    assert_eq!((web.with_method("GET").len(), web.posts("initialize").len()), (2, 2));
    assert_eq!(relay.status("web")["status"], "ready");
    relay.finish();
}

#[test]
fn an_answer_may_stand_where_a_request_is_accepted() {
    let Forgetful { web, .. } = forgetful();
    let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
    assert_eq!(relay.call("web", "echo", json!({"in_body": true})).structured(), json!({"in_body": true}));
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
}

#[test]
fn what_is_no_stream_is_told() {
    type Answer = fn(&Seen, &mut Out);
    let answers: [(Answer, &str); 3] = [
        (|_, out| out.reply(200, &[("content-type", "text/html")], "<html></html>"), "a web page"),
        (|_, out| out.reply(404, &[], "nothing here"), "HTTP 404"),
        (|_, out| out.reply(401, &[], ""), "wants credentials"),
    ];
    for (how, told) in answers {
        let web = Web::start(how, |_, _| false);
        let mut relay = Relay::greeted("", &[web.source("web", "transport = 'sse'")]);
        let (_, text) = relay.call("web", "echo", json!({})).failure();
        assert!(text.contains(told), "{text}");
        relay.finish();
    }
}

/// What such a source sends that is no message was dropped without a word, and it could flood the relay with it.
#[test]
fn what_is_no_message_is_counted_and_told() {
    let web = Web::start(
        |_, out| out.reply(404, &[], "no such path"),
        |seen, out| match (seen.method.as_str(), seen.path.as_str()) {
            ("GET", "/mcp") => {
                out.stream();
                out.chunk("event: endpoint\ndata: /message?session=1\n\nevent: note\ndata: {\n\ndata: ready\n\n");
                let _ = out.is_closed_within(Duration::from_secs(20));
                true
            }
            ("POST", "/message?session=1") => {
                out.reply(202, &[], "Accepted");
                true
            }
            _ => false,
        },
    );
    let mut relay = Trial::start(&[web.source("web", "transport = 'sse'\nstart_timeout_secs = 1")]);
    let (_, text) = relay.call("web", "echo", json!({})).failure();
    assert!(text.contains("did not answer the handshake") && text.contains("a line that is no message"), "{text}");
    relay.finish();
}
