//! Subscriptions to resources: counted by URI over all clients, kept over restarts, told to whom they concern.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Client, Connection, Front, Place, eventually};

fn start(place: &Arc<Place>, era: &str) -> Front {
    let flags = ["--sociable", "--resources", "doc:a,doc:b", "--era", era];
    let tables = [place.journaled("docs", &flags, ""), place.journaled("other", &["--resources", "doc:a"], "")];
    let front = Front::start_in(place, "exposure = \"eager\"", &tables);
    front.client(None).request("resources/list", json!({})).result();
    front
}

fn touch(client: &mut Client, uri: &str) {
    client.request("tools/call", json!({"name": "docs__touch", "arguments": {"uri": uri}})).result();
}

/// A legacy client's stream of its own.
fn stream(client: &Client) -> Connection {
    let mut stream = client.listen(None);
    assert_eq!(stream.head().status, 200);
    stream
}

/// The URIs of the next notifications about resources, as many.
fn told(stream: &mut Connection, count: usize) -> Vec<String> {
    let mut uris = Vec::new();
    while uris.len() < count {
        let event = stream.event().expect("one more notification");
        let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
        if message["method"] == "notifications/resources/updated" {
            uris.push(message["params"]["uri"].as_str().unwrap().to_owned());
        }
    }
    uris
}

fn count(place: &Place, method: &str) -> usize {
    place.journal_count("docs.journal", method)
}

#[test]
fn legacy_sources_are_asked_once_for_each_uri() {
    let place = Place::new();
    let front = start(&place, "legacy");
    let (mut one, mut two) = (front.greeted(None), front.greeted(None));
    let (mut of_one, mut of_two) = (stream(&one), stream(&two));
    let want = |client: &mut Client, method: &str, uri: &str| client.request(method, json!({"uri": uri})).result();
    want(&mut one, "resources/subscribe", "doc:b");
    want(&mut two, "resources/subscribe", "doc:b");
    // The URI that two sources list is the first one's; the other's names its source.
    want(&mut two, "resources/subscribe", "doc:a");
    want(&mut two, "resources/subscribe", "doc:a");
    eventually("the source is asked", || count(&place, "resources/subscribe") == 2);
    touch(&mut one, "doc:b");
    assert_eq!((told(&mut of_one, 1), told(&mut of_two, 1)), (vec!["doc:b".to_owned()], vec!["doc:b".to_owned()]));
    want(&mut one, "resources/unsubscribe", "doc:b");
    touch(&mut one, "doc:b");
    touch(&mut one, "doc:a");
    assert_eq!(told(&mut of_two, 2), ["doc:b", "doc:a"]);
    assert_eq!(count(&place, "resources/unsubscribe"), 0);
    // A source that starts again is asked again, for what is still wanted.
    one.request("tools/call", json!({"name": "docs__die", "arguments": {"code": 1}})).result();
    touch(&mut one, "doc:b");
    assert_eq!(told(&mut of_two, 1), ["doc:b"]);
    assert_eq!(count(&place, "resources/subscribe"), 4);
    // The last one that goes takes the subscription with it.
    want(&mut two, "resources/unsubscribe", "doc:b");
    eventually("the source is told", || count(&place, "resources/unsubscribe") == 1);
    let headers = two.all_headers();
    let all: Vec<&str> = headers.iter().map(String::as_str).collect();
    assert!(front.ask("DELETE", "/mcp", &all, "").head.status < 300);
    eventually("the source is told", || count(&place, "resources/unsubscribe") == 2);
    // Of what the first one dropped it was told nothing more.
    touch(&mut one, "doc:b");
    want(&mut one, "resources/subscribe", "doc:a");
    touch(&mut one, "doc:a");
    assert_eq!(told(&mut of_one, 1), ["doc:a"]);
    front.finish();
}

/// A source that exited with code 0 was left alone until somebody called it, and its subscribers heard no more.
#[test]
fn a_source_that_ends_politely_is_started_again_for_its_subscribers() {
    let place = Place::new();
    let flags = ["--sociable", "--faults", "--resources", "doc:b", "--era", "legacy"];
    let front = Front::start_in(&place, "exposure = \"eager\"", &[place.journaled("docs", &flags, "")]);
    let mut client = front.greeted(None);
    client.request("resources/list", json!({})).result();
    let mut of_client = stream(&client);
    client.request("resources/subscribe", json!({"uri": "doc:b"})).result();
    eventually("the source is asked", || count(&place, "resources/subscribe") == 1);
    client.request("tools/call", json!({"name": "docs__farewell", "arguments": {}})).result();
    eventually("the next one is asked", || count(&place, "resources/subscribe") == 2);
    touch(&mut client, "doc:b");
    assert_eq!(told(&mut of_client, 1), ["doc:b"]);
    front.finish();
}

#[test]
fn modern_clients_listen_to_resources_of_modern_sources() {
    let place = Place::new();
    let front = start(&place, "modern");
    let mut client = front.client(None);
    let wanted = json!({"resourceSubscriptions": ["doc:b", "toolrelay://other/doc:a", "strange:x"]});
    let (body, headers) = client.request_text("subscriptions/listen", json!({"notifications": wanted}));
    let mut listening = client.begin(&headers, &body);
    assert!(listening.head().is_stream());
    let acknowledged: Value = serde_json::from_str(&listening.event().unwrap().data).unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let accepted = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*accepted, json!(["doc:b", "toolrelay://other/doc:a"]));
    eventually("the source is asked", || {
        place.lines("docs.journal").iter().any(|line| line.contains("\"resourceSubscriptions\":[\"doc:b\"]"))
    });
    touch(&mut client, "doc:a");
    touch(&mut client, "doc:b");
    let event: Value = serde_json::from_str(&listening.event().unwrap().data).unwrap();
    assert_eq!(event["params"]["uri"], "doc:b");
    let id = &acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], *id);
    // Whoever goes takes the subscription back.
    drop(listening);
    eventually("the source is told", || place.journal_count("docs.journal", "notifications/cancelled") == 1);
    front.finish();
}

/// Each of the URIs cost a subscription of its own, which the next one took back.
#[test]
fn a_modern_source_is_asked_once_for_all_that_a_client_wants() {
    let place = Place::new();
    let uris: Vec<String> = (0..20).map(|number| format!("doc:{number:02}")).collect();
    let flags = ["--sociable", "--resources", &uris.join(","), "--era", "modern"];
    let front = Front::start_in(&place, "exposure = \"eager\"", &[place.journaled("docs", &flags, "")]);
    let mut client = front.client(None);
    client.request("resources/list", json!({})).result();
    let begin = |client: &mut Client, uris: &[String]| {
        let wanted = json!({"resourceSubscriptions": uris});
        let (body, headers) = client.request_text("subscriptions/listen", json!({"notifications": wanted}));
        let mut listening = client.begin(&headers, &body);
        assert!(listening.head().is_stream());
        let accepted: Value = serde_json::from_str(&listening.event().unwrap().data).unwrap();
        assert_eq!(accepted["params"]["notifications"]["resourceSubscriptions"], json!(uris));
        listening
    };
    let listens = || count(&place, "subscriptions/listen");
    let lists = || count(&place, "resources/list");
    let before = (listens(), lists());
    let few = begin(&mut client, &uris[..2]);
    let mut all = begin(&mut client, &uris);
    touch(&mut client, "doc:19");
    assert!(all.event().unwrap().data.contains("doc:19"));
    assert_eq!((listens(), count(&place, "notifications/cancelled")), (before.0 + 2, 1));
    drop(all);
    eventually("the source is told", || count(&place, "notifications/cancelled") == 2);
    // What the other client still wants.
    let asked = place.lines("docs.journal").into_iter().rfind(|line| line.contains("resourceSubscriptions"));
    assert!(asked.unwrap().contains("[\"doc:00\",\"doc:01\"]"));
    drop(few);
    eventually("the source is told", || count(&place, "notifications/cancelled") == 3);
    assert_eq!((listens(), lists()), (before.0 + 3, before.1));
    front.finish();
}

/// What a source says of a subscription is what the client hears, and nobody is promised what does not come.
#[test]
fn refused_subscriptions_are_refused() {
    let place = Place::new();
    let error = json!({"code": -32602, "message": "cannot be watched", "data": [1]});
    let refusal = format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"error\":{error}}}");
    let reply = format!("resources/subscribe={}", place.write("refusal", refusal));
    let tables = [place.journaled("docs", &["--resources", "doc:a", "--reply", &reply], "")];
    let front = Front::start_in(&place, "", &tables);
    front.client(None).request("resources/list", json!({})).result();
    let mut client = front.greeted(None);
    // The first may come while the source is being started, and is asked for when it is up.
    client.request("tools/call", json!({"name": "docs__echo", "arguments": {}})).result();
    for _ in 0..2 {
        assert_eq!(client.request("resources/subscribe", json!({"uri": "doc:a"})).error(), error);
    }
    front.finish();
}

/// Whoever asked while the source still thought about another's subscription was told nothing, and so was everybody after.
#[test]
fn a_refused_subscription_is_asked_for_again_though_others_came_after_it() {
    let place = Place::new();
    let file = place.path("refusal");
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let reply = format!("resources/subscribe={file}");
    let tables = [place.journaled("docs", &["--resources", "doc:a", "--reply", &reply], "")];
    let front = Front::start_in(&place, "", &tables);
    front.client(None).request("resources/list", json!({})).result();
    front.client(None).request("tools/call", json!({"name": "docs__echo", "arguments": {}})).result();
    let error = json!({"code": -32602, "message": "cannot be watched"});
    let asked = json!({"uri": "doc:a"});
    let refused = |times: usize| {
        let mut client = front.greeted(None);
        let (body, headers) = client.request_text("resources/subscribe", asked.clone());
        let mut answer = client.begin(&headers, &body);
        eventually("the source is asked", || count(&place, "resources/subscribe") == times);
        if times == 1 {
            front.greeted(None).request("resources/subscribe", asked.clone()).result();
        }
        place.write("refusal", format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"error\":{error}}}"));
        assert_eq!(answer.whole().json()["error"], error);
    };
    refused(1);
    refused(2);
    front.finish();
}
