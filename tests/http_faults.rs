//! Sources over HTTP that fail: sessions that are forgotten, streams that break, refusals, pages, redirects. Each failure
//! is mended where that is safe, else told with what to do, and never repeated in a storm.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::{Trial, possessions};
use support::{Place, Relay, eventually};
use web::{SESSION, Seen, Web};

const CALLED: &str = "tools/call";

fn is_call(seen: &Seen) -> bool {
    seen.rpc() == CALLED
}

/// A source that answers its first calls as told, and then as usual.
fn failing(times: usize, how: impl Fn(&Seen, &mut web::Out) + Send + Sync + 'static) -> Web {
    let left = AtomicUsize::new(times);
    Web::start(web::legacy, move |seen, out| {
        let fails =
            is_call(seen) && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails {
            how(seen, out);
        }
        fails
    })
}

/// A source whose session can be lost: then it refuses every request of the old one in this way.
fn forgetful(how: fn(&Seen, &mut web::Out)) -> (Web, Arc<AtomicBool>) {
    let lost = Arc::new(AtomicBool::new(false));
    let is_lost = lost.clone();
    let web = Web::start(web::legacy, move |seen, out| match seen.rpc().as_str() {
        "initialize" if is_lost.load(Ordering::SeqCst) => {
            assert_eq!(seen.header("mcp-session-id"), None);
            let result =
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web"}});
            let reply = json!({"jsonrpc": "2.0", "id": seen.id(), "result": result});
            out.json(200, &[("mcp-session-id", "session-of-the-second-life")], &reply);
            true
        }
        _ if is_lost.load(Ordering::SeqCst) && seen.header("mcp-session-id") == Some(SESSION) => {
            how(seen, out);
            true
        }
        _ => false,
    });
    (web, lost)
}

#[track_caller]
fn check_forgotten(how: fn(&Seen, &mut web::Out)) {
    let (web, lost) = forgetful(how);
    let mut relay = Trial::start(&[web.source("web", "")]);
    relay.call("web", "echo", json!({}));
    eventually("its list was read", || web.posts("tools/list").len() == 1);
    lost.store(true, Ordering::SeqCst);
    let ids: Vec<_> = (0..10).map(|number| relay.ask_call("web", "echo", json!({"n": number}))).collect();
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(relay.answer(id).structured(), json!({"n": number}));
    }
    // One new session for all of them, begun in order, and the list read again.
    assert_eq!(web.posts("initialize").len(), 2);
    assert_eq!(web.posts("notifications/initialized").len(), 2);
    let last = web.posts("notifications/initialized").pop().unwrap();
    assert_eq!(last.header("mcp-session-id"), Some("session-of-the-second-life"));
    eventually("its list is read again", || web.posts("tools/list").len() >= 2);
    assert_eq!(relay.status("web")["status"], "ready");
    relay.finish();
}

#[test]
fn a_session_forgotten_with_404_is_begun_again_by_one_of_ten_calls() {
    check_forgotten(|_, out| out.reply(404, &[], "Session not found"));
}

#[test]
fn a_session_forgotten_with_400_is_begun_again() {
    check_forgotten(|_, out| out.json(400, &[], &web::error(&Value::Null, -32000, "Bad Request: No valid session ID")));
}

#[test]
fn a_session_forgotten_with_an_error_in_an_answer_is_begun_again() {
    check_forgotten(|seen, out| out.json(200, &[], &web::error(&seen.id(), -32001, "Session not found")));
}

/// A release was made twice, because the words of a tool's error spoke of something that is not initialized.
#[test]
fn a_tools_own_error_is_passed_on_whatever_it_speaks_of() {
    let errors = [
        (200, -32000, "created release #1, but the CDN cache is not initialized"),
        (200, -32001, "moved 3 files, but the browser session is closed"),
        (200, -32600, "sent; the session id of the printer has changed"),
        (400, -32602, "argument `session id` of your bank account is wrong"),
        (400, -32000, "invalid session id"),
    ];
    for (status, code, message) in errors {
        for streams in [false, true] {
            let web = failing(1, move |seen, out| {
                let error = web::error(&seen.id(), code, message);
                if streams && status == 200 {
                    out.stream();
                    out.event(&error);
                    out.end_stream();
                } else {
                    out.json(status, &[], &error);
                }
            });
            let mut relay = Relay::greeted("", &[web.source("web", "")]);
            let answer = relay.call("web", "echo", json!({}));
            assert!(answer.line.contains(message), "{}", answer.line);
            assert_eq!((web.posts(CALLED).len(), web.posts("initialize").len()), (1, 1), "{message}");
            assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
            relay.finish();
        }
    }
}

/// An upgrade or a rollback left every call failed for good, while the source was told as `ready`.
#[test]
fn a_source_that_changes_its_era_costs_one_call() {
    for modern_first in [false, true] {
        let is_modern = Arc::new(AtomicBool::new(modern_first));
        let now = is_modern.clone();
        let web = Web::start(web::legacy, move |seen, out| {
            let asked = seen.header("mcp-protocol-version") == Some("2026-07-28");
            match (now.load(Ordering::SeqCst), asked, &*seen.rpc()) {
                (true, true, _) => web::modern(seen, out),
                (true, false, "initialize") => out.json(400, &[], &web::error(&seen.id(), -32022, "unsupported")),
                (true, false, _) => out.json(404, &[], &web::error(&Value::Null, -32001, "Session not found")),
                (false, true, _) => {
                    out.json(400, &[], &web::error(&Value::Null, -32000, "Bad Request: Server not initialized"));
                }
                (false, false, _) => return false,
            }
            true
        });
        let mut relay = Trial::start(&[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        is_modern.store(!modern_first, Ordering::SeqCst);
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert!(kind == "unavailable" && text.contains("HTTP 400") && text.contains("nothing was done"), "{text}");
        eventually("it is connected to anew", || {
            relay.call("web", "echo", json!({"b": 2})).result()["structuredContent"] == json!({"b": 2})
        });
        assert_eq!(relay.status("web")["status"], "ready");
        relay.finish();
    }
}

/// After an upgrade to a server that fails at what it does not know, every call failed for good.
#[test]
fn a_session_that_cannot_be_begun_again_in_whatever_way_costs_one_call() {
    let ways: [fn(&Seen, &mut web::Out); 6] = [
        |_, out| out.reply(500, &[], "oops"),
        |_, out| out.reply(501, &[], ""),
        |_, out| out.reply(503, &[], ""),
        |_, out| out.reply(415, &[], ""),
        |_, out| out.reply(200, &[("content-type", "text/html")], "<html></html>"),
        |_, out| out.close(),
    ];
    for (number, how) in ways.into_iter().enumerate() {
        let is_modern = Arc::new(AtomicBool::new(false));
        let now = is_modern.clone();
        let web = Web::start(web::legacy, move |seen, out| {
            let asked = seen.header("mcp-protocol-version") == Some("2026-07-28");
            match (now.load(Ordering::SeqCst), asked, &*seen.rpc()) {
                (false, ..) => return false,
                (true, true, _) => web::modern(seen, out),
                (true, false, "initialize") => how(seen, out),
                (true, false, _) => out.json(404, &[], &web::error(&Value::Null, -32001, "Session not found")),
            }
            true
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        is_modern.store(true, Ordering::SeqCst);
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert!(kind == "unavailable" && !text.contains("took effect"), "{number}: {text}");
        assert!(number == 5 || text.contains("nothing was done; call again"), "{number}: {text}");
        eventually("it is connected to anew", || {
            relay.call("web", "echo", json!({"b": 2})).result()["structuredContent"] == json!({"b": 2})
        });
        relay.finish();
    }
}

#[test]
fn a_source_that_forgets_every_session_is_not_asked_for_ever() {
    let web = failing(usize::MAX, |_, out| out.reply(404, &[], ""));
    let mut relay = Trial::start(&[web.source("web", "")]);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("HTTP 404"), "{text}");
    assert_eq!((web.posts(CALLED).len(), web.posts("initialize").len()), (2, 2));
    relay.finish();
}

#[test]
fn a_broken_stream_is_taken_up_where_it_broke() {
    let web = Web::start(web::legacy, |seen, out| match (seen.method.as_str(), seen.header("last-event-id")) {
        ("POST", _) if is_call(seen) => {
            out.stream();
            out.chunk(format!("id: at-{}\nretry: 300\ndata:\n\n", seen.id()));
            out.close();
            true
        }
        ("GET", Some(at)) => {
            let id: Value = serde_json::from_str(at.strip_prefix("at-").unwrap()).unwrap();
            out.stream();
            out.event(
                &json!({"jsonrpc": "2.0", "id": id, "result": {"content": [], "structuredContent": {"late": true}}}),
            );
            out.end_stream();
            true
        }
        _ => false,
    });
    let mut relay = Trial::start(&[web.source("web", "")]);
    assert_eq!(relay.call("web", "echo", json!({})).structured(), json!({"late": true}));
    let resumed: Vec<_> = web.seen().into_iter().filter(|seen| seen.header("last-event-id").is_some()).collect();
    let waited = resumed[0].at - web.posts(CALLED)[0].at;
    assert!((Duration::from_millis(300)..Duration::from_secs(2)).contains(&waited), "{waited:?}");
    assert_eq!((resumed.len(), resumed[0].header("mcp-session-id"), web.posts(CALLED).len()), (1, Some(SESSION), 1));
    relay.finish();
}

#[test]
fn a_source_that_is_busy_when_a_stream_is_taken_up_again_is_left_alone_for_as_long_as_it_says() {
    for status in [429, 503] {
        let busy = AtomicBool::new(true);
        let web =
            Web::start(web::legacy, move |seen, out| match (seen.method.as_str(), seen.header("last-event-id")) {
                ("POST", _) if is_call(seen) => {
                    out.stream();
                    out.chunk(format!("id: at-{}\nretry: 50\ndata:\n\n", seen.id()));
                    out.close();
                    true
                }
                ("GET", Some(_)) if busy.swap(false, Ordering::SeqCst) => {
                    out.reply(status, &[("retry-after", "1")], "");
                    true
                }
                ("GET", Some(at)) => {
                    let id: Value = serde_json::from_str(at.strip_prefix("at-").unwrap()).unwrap();
                    let result = json!({"content": [], "structuredContent": {"late": true}});
                    out.stream();
                    out.event(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
                    out.end_stream();
                    true
                }
                _ => false,
            });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({})).structured(), json!({"late": true}), "{status}");
        let resumed: Vec<_> = web.seen().into_iter().filter(|seen| seen.header("last-event-id").is_some()).collect();
        assert!(resumed[1].at - resumed[0].at >= Duration::from_secs(1), "{status}");
        assert_eq!((resumed.len(), web.posts(CALLED).len()), (2, 1));
        relay.finish();
    }
}

#[test]
fn an_error_without_a_name_is_the_answer_to_what_was_posted() {
    for streams in [false, true] {
        let web = failing(1, move |_, out| {
            let error = web::error(&Value::Null, -32603, "the quota of the day is used up");
            if streams {
                out.stream();
                out.event(&error);
                out.end_stream();
            } else {
                out.json(200, &[], &error);
            }
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        let error = relay.call("web", "echo", json!({})).error();
        assert_eq!(error, json!({"code": -32603, "message": "the quota of the day is used up"}), "{streams}");
        relay.finish();
    }
}

/// Some accept a request, and answer on the stream of the session.
#[test]
fn an_answer_may_come_on_the_stream_of_the_session() {
    for listens in [true, false] {
        let (send, take) = std::sync::mpsc::channel::<Value>();
        let (send, take) = (std::sync::Mutex::new(send), std::sync::Mutex::new(take));
        let web = Web::start(web::legacy, move |seen, out| match (seen.method.as_str(), is_call(seen)) {
            ("GET", _) if listens => {
                out.stream();
                out.chunk(": here\n\n");
                while let Ok(answer) = take.lock().unwrap().recv() {
                    out.event(&answer);
                }
                true
            }
            (_, true) => {
                out.reply(202, &[], "");
                send.lock().unwrap().send(web::echoed(seen)).unwrap();
                true
            }
            _ => false,
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        let answer = relay.call("web", "echo", json!({"a": 1}));
        if listens {
            assert_eq!(answer.structured(), json!({"a": 1}));
        } else {
            assert!(answer.failure().1.contains("HTTP 202 without a message"), "{}", answer.line);
        }
        assert_eq!(web.posts(CALLED).len(), 1);
        relay.finish();
    }
}

#[test]
fn a_call_whose_answer_breaks_off_is_not_repeated_and_says_so() {
    let breaks: [fn(&Seen, &mut web::Out); 4] = [
        |_, out| {
            out.stream();
            out.chunk("data: {\"jsonrpc\"");
            out.close();
        },
        |_, out| out.close(),
        |_, out| {
            out.raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\"");
            out.close();
        },
        |_, out| {
            out.stream();
            out.end_stream();
        },
    ];
    for (number, how) in breaks.into_iter().enumerate() {
        let web = failing(1, how);
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert_eq!(kind, "unavailable", "{number}: {text}");
        assert!(text.contains("whether the call took effect is not known"), "{number}: {text}");
        assert_eq!(web.posts(CALLED).len(), 1, "{number}");
        // The source is not lost for that.
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        relay.finish();
    }
}

/// A source that takes one token only, sent as it is now configured.
fn guarded(challenge: &'static str) -> Web {
    Web::start(web::legacy, move |seen, out| {
        let right = seen.header("authorization") == Some("Bearer the-right-token-7");
        if !right {
            out.reply(401, &[("www-authenticate", challenge)], "{\"error\":\"invalid_token\"}");
        }
        !right
    })
}

#[test]
fn a_refused_token_is_told_and_a_new_one_is_taken_without_a_restart() {
    let web = guarded("Bearer error=\"invalid_token\"");
    let place = Place::new();
    place.write("token", "the-wrong-token-6\n");
    let source = web.source("web", "auth = 'bearer'\ntoken = '${file:token}'");
    let mut relay = Relay::greeted_in(&place, "", &[source]);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert_eq!(kind, "needs_auth", "{text}");
    assert!(text.contains("HTTP 401") && text.contains("set a valid `token`"), "{text}");
    let status = relay.status("web");
    assert_eq!(status["status"], "needs_auth");
    assert!(status["reason"].as_str().unwrap().contains("`token`"), "{status}");
    // Whoever calls in a loop does not make the relay try in a loop.
    for _ in 0..20 {
        assert_eq!(relay.call("web", "echo", json!({})).failure().0, "needs_auth");
    }
    assert!(web.seen().len() <= 2, "{}", web.seen().len());
    place.write("token", "the-right-token-7\n");
    let start = Instant::now();
    while relay.call("web", "echo", json!({})).result()["isError"] == true {
        assert!(start.elapsed() < support::PATIENCE);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(relay.status("web")["status"], "ready");
    let log = relay.stderr();
    relay.finish();
    assert!(!log.contains("the-wrong-token-6") && !log.contains("the-right-token-7"), "{log}");
}

/// Each refused call took a thread of its own while the credentials were read anew, up to all there are.
#[test]
fn many_refused_calls_wait_for_new_credentials_without_a_thread_each() {
    let expired = Arc::new(AtomicBool::new(false));
    let is_expired = expired.clone();
    let web = Web::start(web::legacy, move |seen, out| {
        let right =
            if is_expired.load(Ordering::SeqCst) { "Bearer the-second-token" } else { "Bearer the-first-token" };
        let refuses = seen.header("authorization") != Some(right);
        if refuses {
            out.reply(401, &[], "");
        }
        refuses
    });
    let place = Place::new();
    let [log, used, given] = ["asked", "used", "given"].map(|name| place.path(name));
    let script = place.write(
        "token.sh",
        format!(
            "echo x >> {log}\n[ -e {used} ] || {{ echo the-first-token; exit; }}\n\
             until [ -e {given} ]; do sleep 0.05; done\necho the-second-token\n"
        ),
    );
    let source = web.source("web", &format!("auth = 'bearer'\ntoken = '${{cmd:sh {script}}}'"));
    let mut relay = Relay::greeted_in(&place, "", &[source]);
    relay.call("web", "echo", json!({}));
    place.write("used", "");
    expired.store(true, Ordering::SeqCst);
    let threads = possessions(&relay).1;
    let ids: Vec<_> = (0..60).map(|n| relay.ask_call("web", "echo", json!({"n": n}))).collect();
    eventually("all are refused", || web.posts(CALLED).len() == 61);
    eventually("new credentials are asked for", || place.lines("asked").len() == 2);
    // Others have what they need meanwhile.
    relay.call_direct("find_tools", json!({"query": "echo"}));
    assert!(possessions(&relay).1 <= threads + 6, "{} threads after {threads}", possessions(&relay).1);
    place.write("given", "");
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(relay.answer(id).structured(), json!({"n": n}));
    }
    assert_eq!(place.lines("asked").len(), 2);
    relay.finish();
}

#[test]
fn a_source_that_wants_oauth_or_a_token_says_so() {
    for (challenge, told) in [
        ("Bearer resource_metadata=\"https://x/.well-known/oauth-protected-resource\"", "it wants OAuth"),
        ("Bearer", "write `auth = \"bearer\"`"),
    ] {
        let web = guarded(challenge);
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert_eq!(kind, "needs_auth");
        assert!(text.contains("wants credentials (HTTP 401)") && text.contains(told), "{text}");
        relay.finish();
    }
}

#[test]
fn a_token_that_expires_under_way_leaves_the_tools_listed() {
    let expired = Arc::new(AtomicBool::new(false));
    let is_expired = expired.clone();
    let web = Web::start(web::legacy, move |_, out| {
        let refuses = is_expired.load(Ordering::SeqCst);
        if refuses {
            out.reply(401, &[], "");
        }
        refuses
    });
    let mut relay = Relay::greeted("", &[web.source("web", "auth = 'bearer'\ntoken = 'literal-token-5'")]);
    relay.call("web", "echo", json!({}));
    relay.call_direct("find_tools", json!({"query": "echo"}));
    expired.store(true, Ordering::SeqCst);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert_eq!(kind, "needs_auth", "{text}");
    relay.await_status("web", "needs_auth");
    let found = relay.call_direct("find_tools", json!({"query": "echo"})).structured();
    assert_eq!(found["total"], 1, "{found}");
    relay.finish();
}

/// Whatever else was in flight failed with one call whose credentials were refused.
#[test]
fn a_call_with_refused_credentials_costs_no_other_in_flight() {
    let (held, refused) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (is_held, is_refused) = (held.clone(), refused.clone());
    let web = Web::start(web::legacy, move |seen, out| {
        if seen.json()["params"]["arguments"]["slow"] == true {
            eventually("the call may be answered", || !is_held.load(Ordering::SeqCst));
            return false;
        }
        let refuses = is_call(seen) && is_refused.load(Ordering::SeqCst);
        if refuses {
            out.reply(401, &[], "");
        }
        refuses
    });
    let mut relay = Relay::greeted("", &[web.source("web", "auth = 'bearer'\ntoken = 'literal-token-5'")]);
    relay.call("web", "echo", json!({}));
    let slow = relay.ask_call("web", "echo", json!({"slow": true}));
    eventually("it is under way", || web.posts(CALLED).len() == 2);
    refused.store(true, Ordering::SeqCst);
    for _ in 0..10 {
        assert_eq!(relay.call("web", "echo", json!({})).failure().0, "needs_auth");
    }
    // Nobody goes on knocking meanwhile.
    assert_eq!(web.posts(CALLED).len(), 3);
    held.store(false, Ordering::SeqCst);
    assert_eq!(relay.answer(&slow).structured(), json!({"slow": true}));
    relay.await_status("web", "needs_auth");
    relay.finish();
}

/// A token that is changed where it is kept is taken by the first call that is refused with the old one.
#[test]
fn a_token_that_is_changed_under_way_costs_no_call() {
    let right = Arc::new(std::sync::Mutex::new("first-token-12345"));
    let taken = right.clone();
    let web = Web::start(web::legacy, move |seen, out| {
        let given = seen.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let refuses = given != Some(*taken.lock().unwrap());
        if refuses {
            out.reply(401, &[], &format!("not {given:?}"));
        }
        refuses
    });
    let place = Place::new();
    place.write("token", "first-token-12345\n");
    let source = web.source("web", "auth = 'bearer'\ntoken = '${file:token}'");
    let mut relay = Relay::greeted_in(&place, "", &[source]);
    relay.call("web", "echo", json!({}));
    for token in ["second-token-6789", "third-token-10111"] {
        *right.lock().unwrap() = token;
        place.write("token", token);
        let before = web.posts(CALLED).len();
        assert_eq!(relay.call("web", "echo", json!({"a": token})).structured(), json!({"a": token}));
        assert_eq!(web.posts(CALLED).len(), before + 2);
    }
    assert_eq!(web.posts("initialize").len(), 1);
    // What is refused for good is told, and what is secret is masked however often it has changed.
    *right.lock().unwrap() = "nobody-knows-it";
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert!(kind == "needs_auth" && !text.contains("third-token"), "{text}");
    relay.finish();
}

/// The same goes for the stream of the session, which is opened again without any call.
#[test]
fn a_stream_that_is_lost_after_its_token_has_changed_is_opened_again() {
    let (changed, opened) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let is_changed = changed.clone();
    let web = Web::start(web::legacy, move |seen, out| {
        let new = seen.header("authorization") == Some("Bearer second-token-6789");
        if is_changed.load(Ordering::SeqCst) && !new {
            out.reply(401, &[], "");
            return true;
        }
        if seen.method == "GET" {
            out.stream();
            out.chunk(": here\n\n");
            if opened.fetch_add(1, Ordering::SeqCst) == 0 {
                eventually("the token is changed", || is_changed.load(Ordering::SeqCst));
                out.close();
            } else {
                out.is_closed_within(support::PATIENCE);
            }
        }
        seen.method == "GET"
    });
    let place = Place::new();
    place.write("token", "first-token-12345\n");
    let source = web.source("web", "auth = 'bearer'\ntoken = '${file:token}'");
    let mut relay = Relay::greeted_in(&place, "", &[source]);
    relay.call("web", "echo", json!({}));
    eventually("its stream is open", || web.with_method("GET").len() == 1);
    place.write("token", "second-token-6789");
    changed.store(true, Ordering::SeqCst);
    eventually("it is open again", || {
        web.with_method("GET").iter().any(|get| get.header("authorization") == Some("Bearer second-token-6789"))
    });
    relay.finish();
}

#[test]
fn a_call_that_is_forbidden_costs_no_other() {
    let web = failing(1, |_, out| {
        out.reply(403, &[("www-authenticate", "Bearer error=\"insufficient_scope\"")], "insufficient scope: write");
    });
    let mut relay = Relay::greeted("", &[web.source("web", "auth = 'bearer'\ntoken = 'literal-token-5'")]);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert_eq!(kind, "needs_auth");
    assert!(text.contains("HTTP 403") && text.contains("insufficient scope: write"), "{text}");
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
}

#[test]
fn a_source_that_wants_to_be_left_alone_is() {
    let web = failing(1, |_, out| out.reply(429, &[("retry-after", "1")], "slow down"));
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    let calls = web.posts(CALLED);
    assert!(calls[1].at - calls[0].at >= Duration::from_secs(1));
    relay.finish();
    let web = failing(2, |_, out| out.reply(503, &[("retry-after", "0")], ""));
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(web.posts(CALLED).len(), 3);
    relay.finish();
    let web = failing(usize::MAX, |_, out| out.reply(429, &[("retry-after", "4000")], "quota"));
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert_eq!(kind, "busy");
    assert!(text.contains("HTTP 429") && text.contains("in 4000 s") && text.contains("nothing was done"), "{text}");
    assert_eq!(web.posts(CALLED).len(), 1);
    relay.finish();
}

#[test]
fn a_source_that_is_unavailable_without_a_word_is_asked_again_for_what_has_no_effect_only() {
    let left = AtomicUsize::new(2);
    let web = Web::start(web::legacy, move |seen, out| {
        let counted = ["initialize", CALLED].contains(&&*seen.rpc());
        let fails =
            counted && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails {
            out.reply(503, &[], "");
        }
        fails
    });
    let mut relay = Trial::start(&[web.source("web", "")]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(web.posts("initialize").len(), 3);
    relay.finish();
    let web = failing(1, |_, out| out.reply(503, &[], "upstream reset before headers"));
    let mut relay = Trial::start(&[web.source("web", "")]);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert!(kind == "unavailable" && text.contains("whether the call took effect is not known"), "{text}");
    assert_eq!(web.posts(CALLED).len(), 1);
    relay.finish();
}

#[test]
fn a_refusal_that_never_ends_ends_its_call_all_the_same() {
    let web = failing(1, |_, out| {
        out.raw("HTTP/1.1 500 X\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\n");
        out.chunk("<html>and so on");
        out.is_closed_within(support::PATIENCE);
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    let (_, text) = relay.call("web", "echo", json!({})).failure();
    assert!(text.contains("HTTP 500, with a web page"), "{text}");
    relay.finish();
}

#[test]
fn a_list_that_is_refused_for_its_headers_is_not_asked_for_in_a_circle() {
    let web = Web::start(web::modern, |seen, out| {
        let lists = seen.rpc() == "tools/list";
        if lists {
            out.json(400, &[], &web::error(&seen.id(), -32020, "header mismatch"));
        }
        lists
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    assert!(relay.call("web", "echo", json!({})).failure().1.contains("header mismatch"));
    assert!(web.posts("tools/list").len() <= 2, "{}", web.posts("tools/list").len());
    relay.finish();
}

/// What a call comes to when everything is answered like this: the kind and the text of the failure.
#[track_caller]
fn told(how: impl Fn(&Seen, &mut web::Out) + Send + Sync + 'static) -> (String, String) {
    let web = Web::start(web::legacy, move |seen, out| {
        how(seen, out);
        true
    });
    let mut relay = Relay::greeted("", &[web.source("web", "transport = 'streamable-http'")]);
    let failure = relay.call("web", "echo", json!({})).failure();
    assert!(web.seen().len() <= 4, "{}", web.seen().len());
    relay.finish();
    failure
}

#[test]
fn pages_are_told_as_pages() {
    let html = [("content-type", "text/html; charset=utf-8")];
    let (kind, text) = told(move |_, out| out.reply(200, &html, "<!DOCTYPE html><input type=password>"));
    assert_eq!(kind, "unavailable");
    assert!(text.contains("a login page instead of an MCP message"), "{text}");
    let (_, text) = told(move |_, out| out.reply(502, &html, "<html>Bad Gateway</html>"));
    assert!(text.contains("HTTP 502, with a web page"), "{text}");
    let (_, text) = told(|_, out| out.reply(404, &[], "no such path"));
    assert!(text.contains("HTTP 404") && text.contains("no such path") && text.contains("correct `url`"), "{text}");
    let (_, text) = told(|_, out| out.reply(403, &[], "Access is only allowed at localhost:3931"));
    assert!(text.contains("only allowed at localhost:3931") && text.contains("headers = { Host"), "{text}");
    let (_, text) = told(|_, out| out.reply(200, &[("content-type", "application/json")], "{\"ok\":tru"));
    assert!(text.contains("cannot be read"), "{text}");
}

#[test]
fn what_does_not_start_is_not_told_as_a_call_that_may_have_been_carried_out() {
    let ways: [fn(&Seen, &mut web::Out); 3] =
        [|_, out| out.reply(502, &[], ""), |_, out| out.reply(202, &[], ""), |_, out| out.close()];
    for how in ways {
        let (kind, text) = told(how);
        assert!(kind == "unavailable" && !text.contains("took effect"), "{text}");
    }
}

#[test]
fn redirects_are_followed_within_an_origin_only() {
    let web = Web::start(web::legacy, |seen, out| {
        let moved = seen.path == "/mcp";
        if moved {
            out.reply(307, &[("location", "/mcp/")], "");
        }
        moved
    });
    let mut relay = Trial::start(&[web.source("web", "headers = { X-Key = 'literal-secret-8' }")]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    let call = &web.posts(CALLED)[1];
    assert_eq!((call.path.as_str(), call.header("x-key")), ("/mcp/", Some("literal-secret-8")));
    relay.finish();
    let other = Web::start(web::legacy, |_, _| false);
    let there = other.url("/mcp?key=literal-secret-8");
    let (_, text) = told(move |_, out| out.reply(308, &[("location", &there)], ""));
    assert!(
        text.contains("to another origin") && text.contains(&other.url("/mcp")) && !text.contains("literal-secret"),
        "{text}"
    );
    assert!(other.seen().is_empty());
    let (_, text) = told(|_, out| out.reply(302, &[("location", "/login")], ""));
    assert!(text.contains("HTTP 302, which loses the request") && text.contains("/login"), "{text}");
}

#[test]
fn a_redirect_that_leads_to_itself_ends() {
    let web = Web::start(web::legacy, |_, out| {
        out.reply(307, &[("location", "/mcp")], "");
        true
    });
    let mut relay = Trial::start(&[web.source("web", "")]);
    let (_, text) = relay.call("web", "echo", json!({})).failure();
    assert!(text.contains("redirects more than 5 times"), "{text}");
    // Twelve requests an attempt, and not many attempts.
    assert!(web.seen().len() <= 48, "{}", web.seen().len());
    relay.finish();
}

#[test]
fn what_cannot_be_reached_is_told_with_the_reason() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let source = |id: &str, url: &str| format!("[source.{id}]\nurl = \"{url}\"\nconnect_timeout_secs = 3\n");
    let sources = [
        source("refused", &format!("http://user:literal-secret-8@127.0.0.1:{port}/mcp?key=literal-secret-9")),
        source("unknown", "http://no-such-host.invalid/mcp"),
    ];
    let mut relay = Relay::greeted("", &sources);
    let (kind, text) = relay.call("refused", "echo", json!({})).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains(&format!("127.0.0.1:{port}/mcp: the connection was refused")), "{text}");
    assert_eq!(relay.status("refused")["status"], "unreachable");
    let (_, text) = relay.call("unknown", "echo", json!({})).failure();
    assert!(text.contains("cannot be reached"), "{text}");
    let log = relay.stderr();
    assert!(!log.contains("literal-secret"), "{log}");
    relay.finish();
}

#[test]
fn a_source_that_comes_back_is_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let source = format!("[source.web]\nurl = \"http://127.0.0.1:{port}/mcp\"\n");
    let mut relay = Relay::greeted("", &[source]);
    assert_eq!(relay.call("web", "echo", json!({})).failure().0, "unavailable");
    let web = Web::start_at(port, web::legacy, |_, _| false);
    let start = Instant::now();
    while relay.call("web", "echo", json!({})).result()["isError"] == true {
        assert!(start.elapsed() < support::PATIENCE);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(web.posts("initialize").len(), 1);
    relay.finish();
}

#[test]
fn the_stream_of_its_own_is_optional_however_that_is_said() {
    for (status, body) in [(405, ""), (404, ""), (400, "no"), (501, ""), (200, "<html></html>")] {
        let web = Web::start(web::legacy, move |seen, out| {
            let is_get = seen.method == "GET";
            if is_get {
                let kind = if status == 200 { "text/html" } else { "text/plain" };
                out.reply(status, &[("content-type", kind)], body);
            }
            is_get
        });
        let mut relay = Trial::start(&[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{status}");
        relay.listen(Duration::from_millis(1500));
        assert_eq!(web.with_method("GET").len(), 1, "{status}");
        relay.finish();
    }
}

#[test]
fn a_stream_that_never_stays_open_is_not_opened_in_a_storm() {
    let web = Web::start(web::legacy, |seen, out| {
        let is_get = seen.method == "GET";
        if is_get {
            out.stream();
            out.end_stream();
        }
        is_get
    });
    let mut relay = Trial::start(&[web.source("web", "start = 'at-start'")]);
    relay.await_status("web", "ready");
    relay.listen(Duration::from_secs(4));
    assert!((2..=4).contains(&web.with_method("GET").len()), "{}", web.with_method("GET").len());
    relay.finish();
}

#[test]
fn an_answer_that_is_too_long_ends_its_call_only() {
    let shapes: [fn(&mut web::Out, &str); 2] = [
        |out, text| out.reply(200, &[("content-type", "application/json")], text),
        |out, text| {
            out.stream();
            out.chunk(format!("data: {text}\n\n"));
            out.end_stream();
        },
    ];
    for shape in shapes {
        let web = failing(1, move |seen, out| {
            let content = json!([{"type": "text", "text": "x".repeat(2 << 20)}]);
            shape(out, &json!({"jsonrpc": "2.0", "id": seen.id(), "result": {"content": content}}).to_string());
        });
        let mut relay = Relay::greeted("max_message_mib = 1", &[web.source("web", "")]);
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert_eq!(kind, "unavailable");
        assert!(text.contains("max_message_mib"), "{text}");
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        relay.finish();
    }
}

#[test]
fn a_call_that_gets_no_answer_ends_in_time_and_the_next_one_works() {
    let web = failing(1, |_, out| assert!(out.is_closed_within(support::PATIENCE)));
    let mut relay = Relay::greeted("", &[web.source("web", "call_timeout_secs = 1")]);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert_eq!(kind, "timed_out", "{text}");
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    eventually("the source is told", || web.posts("notifications/cancelled").len() == 1);
    relay.finish();
}

#[test]
fn a_source_that_does_not_let_its_session_go_does_not_hold_up_the_end() {
    let web = Web::start(web::legacy, |seen, out| {
        let ends = seen.method == "DELETE";
        if ends {
            out.is_closed_within(support::PATIENCE);
        }
        ends
    });
    let mut relay = Relay::greeted("", &[web.source("web", "")]);
    relay.call("web", "echo", json!({}));
    relay.close_stdin();
    let (status, took) = relay.ended();
    assert!(status.success() && took < support::AT_ONCE, "{took:?}");
    assert_eq!(web.with_method("DELETE").len(), 1);
}

#[test]
fn a_source_that_takes_connections_and_says_nothing_is_told() {
    let web = Web::start(web::legacy, |_, out| {
        out.is_closed_within(support::PATIENCE);
        true
    });
    let mut relay = Relay::greeted("", &[web.source("web", "start_timeout_secs = 1")]);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("was connected to but did not answer the handshake within 1 s"), "{text}");
    relay.finish();
}

#[test]
fn a_probe_that_is_answered_in_any_other_way_leads_to_initialize() {
    let answers: [fn(&Seen, &mut web::Out); 7] = [
        |_, out| out.reply(400, &[], ""),
        |_, out| out.reply(404, &[], "not found"),
        |_, out| out.reply(405, &[], ""),
        |_, out| out.reply(406, &[], ""),
        |_, out| out.reply(500, &[("content-type", "text/html")], "<html></html>"),
        |_, out| out.close(),
        |seen, out| out.json(200, &[], &json!({"jsonrpc": "2.0", "id": seen.id(), "result": {}})),
    ];
    for (number, how) in answers.into_iter().enumerate() {
        let web = Web::start(web::legacy, move |seen, out| {
            let probes = seen.rpc() == "server/discover";
            if probes {
                how(seen, out);
            }
            probes
        });
        let mut relay = Relay::greeted("", &[web.source("web", "")]);
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{number}");
        assert_eq!((web.posts("server/discover").len(), web.posts("initialize").len()), (1, 1), "{number}");
        relay.finish();
    }
}

#[test]
fn no_secret_is_told_at_any_level_of_the_log() {
    let secrets = ["header-secret-1", "token-secret-2", "login-secret-3", "query-secret-4", "path-secret-5"];
    let web = Web::start(web::legacy, move |seen, out| {
        // It tells everything it knows, as some do.
        let fails = is_call(seen);
        if fails {
            out.reply(500, &[], &format!("{} {seen:?}", secrets.join(" ")));
        }
        fails
    });
    let place = Place::new();
    place.write("path", "path-secret-5");
    let url = format!("http://login-secret-3:x@127.0.0.1:{}/${{file:path}}?k=query-secret-4", web.port);
    let auth = "auth = 'bearer'\ntoken = 'token-secret-2'\nheaders = { X-Api-Key = 'header-secret-1' }";
    let source = format!("[source.web]\nurl = \"{url}\"\n{auth}\n");
    let faulty = [source];
    let command = Trial::command_logged(&place, "", &faulty, "trace");
    let mut relay = Trial::spawn(&place, command, &faulty);
    let (_, text) = relay.call("web", "echo", json!({})).failure();
    assert!(text.contains("HTTP 500"), "{text}");
    let call = &web.posts(CALLED)[0];
    assert_eq!(
        (call.header("authorization"), call.header("x-api-key")),
        (Some("Bearer token-secret-2"), Some("header-secret-1"))
    );
    assert_eq!(call.path, "/path-secret-5?k=query-secret-4");
    let status = relay.status("web").to_string();
    let log = relay.stderr();
    relay.finish();
    for secret in secrets {
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        for form in [secret, &hex] {
            assert!(!text.contains(form) && !status.contains(form), "{form}: {text} {status}");
            assert!(!log.contains(form), "{form}: {log}");
        }
    }
}
