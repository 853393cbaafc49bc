//! Sources over HTTP as gateways were reported to suffer from them (sessions: class C18, the transport: C19, credentials:
//! C20), each fault beside a healthy source, with the six standing assertions in each. The faults one by one, in detail:
//! `tests/http_faults.rs`; items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use standing::Trial;
use support::Reply;
use web::{Out, SESSION, Seen, Web};

/// What a source does with one request.
type How = fn(&Seen, &mut Out);

const FAULTS: &[(&str, How)] = &[
    ("says nothing", |_, _| std::thread::sleep(Duration::from_secs(4))),
    ("hangs up", |_, out| out.close()),
    ("hangs up in the head", |_, out| {
        out.raw("HTTP/1.1 200 OK\r\ncontent-ty");
        out.close();
    }),
    ("hangs up in the body", |_, out| {
        out.raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"jsonrpc\"");
        out.close();
    }),
    ("is no HTTP", |_, out| {
        out.raw("SSH-2.0-OpenSSH_9.9\r\n");
        out.close();
    }),
    ("gives a page", |_, out| out.reply(200, &[("content-type", "text/html")], "<html>Log in</html>")),
    ("gives no JSON", |_, out| out.reply(200, &[("content-type", "application/json")], "not json")),
    ("gives somebody else's answer", |_, out| {
        out.json(200, &[], &json!({"jsonrpc": "2.0", "id": 999_999, "result": {"content": []}}));
    }),
    ("gives nothing", |_, out| out.reply(200, &[("content-type", "application/json")], "")),
    ("drips", |_, out| {
        out.raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n");
        for _ in 0..40 {
            out.raw(" ");
            std::thread::sleep(Duration::from_millis(100));
        }
        out.close();
    }),
    ("streams without an answer", |_, out| {
        out.stream();
        for _ in 0..2000 {
            out.chunk(": still here\n\nevent: ping\ndata: {}\n\n");
        }
        out.end_stream();
    }),
    ("floods with what nobody asked for", |_, out| {
        out.stream();
        let notice =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "debug", "data": "x"}});
        (0..5000).for_each(|_| out.event(&notice));
        out.end_stream();
    }),
    ("refuses", |_, out| out.reply(500, &[], "stack trace")),
    ("is not there", |_, out| out.reply(502, &[("content-type", "text/html")], "<html>Bad gateway</html>")),
];

/// Whatever a source does with one call, that call ends in time and names it, others feel nothing, and the next call works.
#[test]
fn c19_one_answer_that_is_none_costs_its_call_only() {
    let (send, take) = mpsc::channel::<How>();
    let take = std::sync::Mutex::new(take);
    let web = Web::start(web::legacy, move |seen, out| {
        if seen.rpc() != "tools/call" {
            return false;
        }
        let how = take.lock().unwrap().try_recv();
        how.is_ok_and(|how| {
            how(seen, out);
            true
        })
    });
    let mut trial = Trial::start(&[web.source("web", "call_timeout_secs = 1\nmax_call_secs = 2")]);
    assert_eq!(trial.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    for (name, how) in FAULTS {
        let before = web.posts("tools/call").len();
        send.send(*how).unwrap();
        let start = Instant::now();
        let call = trial.ask_call("web", "echo", json!({"n": name}));
        trial.holds();
        let (kind, text) = trial.answer(&call).failure();
        assert!(["timed_out", "unavailable", "exited"].contains(&kind.as_str()), "{name}: {kind}");
        assert!(text.contains("`web`") && text.len() > 30, "{name}: {text}");
        assert!(start.elapsed() < Duration::from_secs(5), "{name}: {:?}", start.elapsed());
        assert_eq!(web.posts("tools/call").len(), before + 1, "{name}: no call is repeated");
        assert_eq!(trial.call("web", "echo", json!({"after": name})).structured(), json!({"after": name}), "{name}");
    }
    trial.finish();
}

/// A source that is lost in any of these ways for good is told with the reason, tried again ever more rarely, and found again.
#[test]
fn c19_a_source_that_is_gone_is_told_and_found_again() {
    for (name, how) in
        FAULTS.iter().filter(|(name, _)| ["hangs up", "is no HTTP", "gives a page", "refuses"].contains(name))
    {
        let gone = Arc::new(AtomicBool::new(true));
        let (is_gone, how) = (gone.clone(), *how);
        let web = Web::start(web::legacy, move |seen, out| {
            let fails = is_gone.load(Ordering::SeqCst);
            if fails {
                how(seen, out);
            }
            fails
        });
        let mut trial = Trial::start(&[web.source("web", "start = \"at-start\"\nstart_timeout_secs = 5")]);
        let line = trial.await_status("web", "unreachable");
        assert!(line["reason"].as_str().unwrap().contains("it is tried again in"), "{name}: {line}");
        for _ in 0..10 {
            assert_eq!(trial.call("web", "echo", json!({})).failure().0, "unavailable", "{name}");
        }
        trial.holds();
        assert!(web.seen().len() < 30, "{name}: {} requests", web.seen().len());
        gone.store(false, Ordering::SeqCst);
        trial.await_status("web", "ready");
        assert_eq!(trial.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{name}");
        trial.finish();
    }
}

/// Ten calls find out together that the session is lost: one begins another, and all are answered.
#[test]
fn c18_a01_a_lost_session_is_begun_again_once() {
    let lost = Arc::new(AtomicBool::new(false));
    let is_lost = lost.clone();
    let web = Web::start(web::legacy, move |seen, out| {
        let old = seen.header("mcp-session-id") == Some(SESSION);
        if !is_lost.load(Ordering::SeqCst) || seen.method != "POST" {
            return false;
        }
        if seen.rpc() == "initialize" {
            let result =
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web"}});
            out.json(
                200,
                &[("mcp-session-id", "second")],
                &json!({"jsonrpc": "2.0", "id": seen.id(), "result": result}),
            );
            return true;
        }
        if old {
            out.reply(404, &[], "");
        }
        old
    });
    let mut trial = Trial::start(&[web.source("web", "")]);
    trial.call("web", "echo", json!({}));
    lost.store(true, Ordering::SeqCst);
    let ids: Vec<_> = (0..10).map(|n| trial.ask_call("web", "echo", json!({"n": n}))).collect();
    trial.holds();
    let answers: Vec<Reply> = ids.iter().map(|id| trial.answer(id)).collect();
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.structured(), json!({"n": n}));
    }
    assert_eq!(web.posts("initialize").len(), 2);
    trial.finish();
}

/// Credentials that are refused are told as that, and nobody goes on knocking.
#[test]
fn c20_a01_a02_refused_credentials_are_told_and_not_tried_in_a_circle() {
    for (status, told) in [(401, "401"), (403, "403")] {
        let web = Web::start(web::legacy, move |seen, out| {
            let refused = seen.method == "POST";
            if refused {
                out.reply(status, &[("www-authenticate", "Bearer error=\"invalid_token\"")], "");
            }
            refused
        });
        let settings = "auth = \"bearer\"\ntoken = \"${STANDING_SECRET}\"\nstart = \"at-start\"";
        let mut trial = Trial::start(&[web.source("guarded", settings)]);
        let (_, text) = trial.call("guarded", "echo", json!({})).failure();
        assert!(text.contains(told) && text.contains("token"), "{text}");
        for _ in 0..10 {
            trial.call("guarded", "echo", json!({})).failure();
        }
        trial.listen(Duration::from_millis(1500));
        let line = trial.status("guarded");
        assert!(["needs_auth", "unreachable"].contains(&line["status"].as_str().unwrap()), "{line}");
        assert!(line["reason"].as_str().unwrap().contains(told), "{line}");
        assert!(web.seen().len() <= 12, "{} requests", web.seen().len());
        trial.finish();
    }
}
