//! Sources over HTTP: what is sent to where they say, which answers of theirs count, and how their words are told.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Relay, eventually};
use web::{Out, Seen, Web};

const CALLED: &str = "tools/call";
/// `me:literal-word-9` as it is sent.
const LOGIN: &str = "Basic bWU6bGl0ZXJhbC13b3JkLTk=";

/// A source whose calls are answered like this.
fn calls(how: impl Fn(&Seen, &mut Out) + Send + Sync + 'static) -> Web {
    Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
        let is_call = seen.rpc() == CALLED;
        if is_call {
            how(seen, out);
        }
        is_call
    })
}

/// What a call comes to that is answered like this.
#[track_caller]
fn told(settings: &str, how: impl Fn(&Seen, &mut Out) + Send + Sync + 'static) -> (String, String) {
    let web = calls(how);
    let mut relay = Relay::greeted("", &[web.source("web", settings)]);
    let failure = relay.call("web", "echo", json!({})).failure();
    relay.finish();
    failure
}

/// The login in `url` was lost where the source named the whole address, and only half of it without.
#[test]
fn the_login_goes_where_the_source_leads_within_its_origin() {
    let web = Web::start(web::legacy, |seen: &Seen, out: &mut Out| {
        let to = format!("http://{}/mcp/", seen.header("host").unwrap());
        match (seen.path.as_str(), seen.header("authorization")) {
            ("/mcp", _) => out.reply(307, &[("location", &to)], ""),
            (_, Some(LOGIN)) => return false,
            _ => out.reply(401, &[], ""),
        }
        true
    });
    let source = web.source("web", "").replace("http://", "http://me:literal-word-9@");
    let mut relay = Relay::greeted("", &[source]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
}

#[test]
fn the_login_goes_with_messages_beside_the_old_stream() {
    let (lines, told) = std::sync::mpsc::channel::<Value>();
    let (lines, told) = (std::sync::Mutex::new(lines), std::sync::Mutex::new(told));
    let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
        if seen.header("authorization") != Some(LOGIN) {
            out.reply(401, &[], "");
        } else if seen.method == "GET" {
            out.stream();
            out.chunk(format!("event: endpoint\ndata: http://{}/messages\n\n", seen.header("host").unwrap()));
            while let Ok(line) = told.lock().unwrap().recv() {
                out.event(&line);
            }
        } else {
            let result = match seen.rpc().as_str() {
                "initialize" => {
                    json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "web"}})
                }
                "tools/list" => json!({"tools": web::tools()}),
                _ => json!({"content": [], "structuredContent": {"a": 1}}),
            };
            if !seen.id().is_null() {
                let _ = lines.lock().unwrap().send(json!({"jsonrpc": "2.0", "id": seen.id(), "result": result}));
            }
            out.reply(202, &[], "");
        }
        true
    });
    let source = web.source("web", "transport = 'sse'").replace("http://", "http://me:literal-word-9@");
    let mut relay = Relay::greeted("", &[source]);
    assert_eq!(relay.call("web", "echo", json!({})).structured(), json!({"a": 1}));
    relay.finish();
}

/// A source that escapes what it says told the token that it was given.
#[test]
fn what_is_secret_is_masked_however_it_is_escaped() {
    let settings =
        "auth = 'bearer'\ntoken = 'lit/eral+Tok<9&en'\nheaders = { Cookie = 'sid=literal-cookie-9; theme=dark' }";
    for said in [
        r"lit\/eral+Tok<9&en",
        r"lit\u002Feral\u002bTok\u003C9\u0026en",
        "lit/eral+Tok&lt;9&amp;en",
        "lit/eral%2BTok%3C9%26en",
        "literal-cookie-9",
    ] {
        let body = format!("no: <{said}> in the dark");
        for status in [400, 200] {
            let body = body.clone();
            let (_, text) = told(settings, move |_, out| out.reply(status, &[("content-type", "text/plain")], &body));
            assert!(text.contains("no: <***> in the dark"), "{said} {text}");
        }
    }
}

/// The answer was thrown away, and the call waited for it until its time was over.
#[test]
fn an_answer_in_an_accepted_response_is_taken() {
    for streams in [false, true] {
        let web = Web::start(web::legacy, move |seen: &Seen, out: &mut Out| {
            if seen.method == "GET" {
                out.stream();
                out.chunk(": here\n\n");
                out.is_closed_within(support::PATIENCE);
            } else if seen.rpc() == CALLED && streams {
                let body = format!("data: {}\n\n", web::echoed(seen));
                out.reply(202, &[("content-type", "text/event-stream")], &body);
            } else if seen.rpc() == CALLED {
                out.json(202, &[], &web::echoed(seen));
            } else {
                return false;
            }
            true
        });
        let mut relay = Relay::greeted("", &[web.source("web", "start = 'at-start'")]);
        eventually("its stream is open", || web.with_method("GET").len() == 1);
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{streams}");
        relay.finish();
    }
}

/// What may have been carried out was told as a wrong `url`, or as a fault of the source alone.
#[test]
fn a_call_without_a_usable_answer_may_have_been_carried_out() {
    for (kind, body) in [("", ""), ("application/json", ""), ("text/plain", "OK"), ("application/json", "{\"ok\":tru")]
    {
        let (_, text) = told("", move |_, out| out.reply(200, &[("content-type", kind)], body));
        assert!(text.contains("whether the call took effect is not known"), "{kind} {body} {text}");
    }
}

/// Whatever spoke of a host was told as a refused name.
#[test]
fn refusals_are_told_with_what_helps() {
    let (kind, text) = told("", |_, out| out.reply(403, &[], "Your plan does not include hosted runners"));
    assert!(kind == "needs_auth" && !text.contains("headers = { Host"), "{text}");
    let (_, text) = told("", |_, out| out.reply(403, &[], "Invalid Host header: x"));
    assert!(text.contains("headers = { Host"), "{text}");
    let (_, text) = told("", |_, out| out.reply(302, &[("location", "/login?next=%2Fmcp")], ""));
    assert!(text.contains("HTTP 302") && text.contains("a login page: it wants credentials"), "{text}");
}

/// A date in one of the two older forms was no date, and a call was not tried again.
#[test]
fn a_source_says_in_any_form_of_a_date_when_to_ask_again() {
    let left = AtomicUsize::new(2);
    let web = calls(move |seen, out| {
        // Long gone: it may be asked at once.
        let dates = ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(left) => out.reply(503, &[("retry-after", dates[left - 1])], ""),
            Err(_) => out.json(200, &[], &web::echoed(seen)),
        }
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    let began = Instant::now();
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(web.posts(CALLED).len(), 3);
    relay.finish();
}
