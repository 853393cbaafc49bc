//! Sources over HTTP that are restarted, rolled out or renewed while calls are in flight: what is under way goes on, and what
//! listens comes back.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use support::{Relay, eventually};
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
