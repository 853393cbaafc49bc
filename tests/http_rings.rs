//! C07-A14 over HTTP: relays that are sources of themselves, alone or by way of each other. What each lists of the other grew
//! with every look.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Client, Front, Place, eventually, source};

fn own() -> String {
    source("own", &[], "")
}

fn start(place: &Arc<Place>) -> Front {
    Front::start_in(place, "exposure = \"eager\"", &[own()])
}

/// Adds a source that is a relay.
fn point(from: &Front, id: &str, to: &Front) {
    let table = format!("[source.{id}]\nurl = \"http://{}/mcp\"\n", to.address);
    from.relay.place.config("exposure = \"eager\"", &[own(), table]);
    from.relay.signal(rustix::process::Signal::HUP);
    eventually("it is reloaded", || from.relay.stderr().contains("configuration reloaded"));
}

fn status(client: &mut Client, id: &str) -> Value {
    let listed = client.call_direct("list_sources", json!({})).structured();
    listed["sources"].as_array().unwrap().iter().find(|line| line["id"] == id).unwrap().clone()
}

fn tools(client: &mut Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({})).result();
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn is_told(line: &Value) -> bool {
    line["status"] == "unreachable" && line["reason"].as_str().unwrap().contains("this relay is asked by itself")
}

#[test]
fn a_relay_that_is_its_own_source_is_told_so() {
    let place = Place::new();
    let front = start(&place);
    let mut client = front.greeted(None);
    let before = tools(&mut client);
    point(&front, "self", &front);
    eventually("it is told", || is_told(&status(&mut client, "self")));
    assert_eq!(tools(&mut client), before);
    assert_eq!(
        client.request("tools/call", json!({"name": "own__echo", "arguments": {}})).result()["isError"],
        Value::Null
    );
    front.finish();
}

#[test]
fn relays_that_are_sources_of_each_other_do_not_grow() {
    let places = [Place::new(), Place::new()];
    let [one, two] = [start(&places[0]), start(&places[1])];
    let mut clients = [one.greeted(None), two.greeted(None)];
    let alone = tools(&mut clients[0]).len();
    point(&one, "two", &two);
    eventually("it is listed", || tools(&mut clients[0]).len() > alone);
    let one_step = tools(&mut clients[0]);
    point(&two, "one", &one);
    eventually("it is told", || is_told(&status(&mut clients[1], "one")));
    assert_eq!(status(&mut clients[0], "two")["status"], "ready");
    // Lists are read again at most once a second, when somebody looks.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        assert_eq!(tools(&mut clients[0]), one_step);
        assert_eq!(tools(&mut clients[1]).len(), alone);
        std::thread::sleep(Duration::from_millis(200));
    }
    let call = json!({"name": "two__own__echo", "arguments": {"x": 1}});
    assert_eq!(clients[0].request("tools/call", call).result()["isError"], Value::Null);
    one.finish();
    two.finish();
}
