//! Many clients at once, over HTTP and over several relays on stdio: every answer is right and belongs to its call.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::time::Duration;

use serde_json::json;
use support::{Front, Place, Relay, source};

const CLIENTS: usize = 64;
const CALLS: usize = 1000;
/// So many relays on stdio, each with its own sources; together they make as many calls.
const RELAYS: usize = 4;

fn sources() -> Vec<String> {
    ["one", "two", "three", "four"].map(|id| source(id, &["--name", id], "")).to_vec()
}

const IDS: [&str; 4] = ["one", "two", "three", "four"];

#[test]
fn sixty_four_clients_over_http() {
    let front = Front::start("", &sources());
    for id in IDS {
        front.client(None).call(id, "echo", json!({}));
    }
    std::thread::scope(|scope| {
        for at in 0..CLIENTS {
            // Half of them of each era, on one connection each.
            let mut client = if at % 2 == 0 { front.greeted(None) } else { front.client(None) };
            scope.spawn(move || {
                for n in 0..CALLS {
                    let said = format!("{at}.{n}");
                    let text = client.call(IDS[(at + n) % 4], "echo", json!({"said": said})).text();
                    assert_eq!(text, format!("{{\"said\":\"{said}\"}}"));
                }
            });
        }
    });
    front.finish();
}

#[test]
fn several_relays_over_stdio() {
    std::thread::scope(|scope| {
        for at in 0..RELAYS {
            scope.spawn(move || {
                let mut relay = Relay::greeted_in(&Place::new(), "", &sources());
                for id in IDS {
                    relay.call(id, "echo", json!({}));
                }
                let total = CLIENTS * CALLS / RELAYS;
                let in_flight = CLIENTS / RELAYS;
                let mut asked = std::collections::VecDeque::new();
                for n in 0..total {
                    if asked.len() == in_flight {
                        check(&mut relay, asked.pop_front().unwrap());
                    }
                    let said = format!("{at}.{n}");
                    let id = relay.ask_call(IDS[n % 4], "echo", json!({"said": said}));
                    asked.push_back((id, said));
                }
                while let Some(one) = asked.pop_front() {
                    check(&mut relay, one);
                }
                relay.finish();
            });
        }
    });
}

fn check(relay: &mut Relay, (id, said): (String, String)) {
    let answer = relay.answer_within(&id, Duration::from_secs(60));
    assert_eq!(answer.text(), format!("{{\"said\":\"{said}\"}}"));
}
