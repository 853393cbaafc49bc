//! What the rules of sources and credentials say of prompts and resources: the same globs as for tools, on every path, before
//! anything reaches a source.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use serde_json::{Value, json};
use support::{Client, Front, Place, Relay, eventually};

fn credential(id: &str, rules: &str) -> String {
    format!("[credential.{id}]\ntoken = \"{id}-0123456789abcdef\"\n{rules}\n")
}

fn token(id: &str) -> String {
    format!("{id}-0123456789abcdef")
}

/// A source with prompts, resources and templates.
const FLAGS: [&str; 9] = [
    "--prompts",
    "get_x,ask",
    "--resources",
    "doc://open/a,doc://shut/b",
    "--templates",
    "doc://open/{id},file:///{+path}",
    "--tools",
    "get_tool,put_tool",
    "--sociable",
];

/// The names or URIs of a list.
fn keys(reply: Value, list: &str) -> Vec<String> {
    let items = reply[list].as_array().unwrap_or_else(|| panic!("{reply}")).iter();
    let key =
        |item: &Value| ["uri", "uriTemplate", "name"].iter().find_map(|key| item[key].as_str().map(str::to_owned));
    items.map(|item| key(item).unwrap()).collect()
}

fn lists(client: &mut Client) -> [Vec<String>; 3] {
    [("prompts/list", "prompts"), ("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")]
        .map(|(method, list)| keys(client.request(method, json!({})).result(), list))
}

fn completion(reference: Value) -> Value {
    json!({"ref": reference, "argument": {"name": "a", "value": ""}})
}

/// How many requests of a client a source got, of all kinds that rules are about.
fn sent(place: &Place) -> usize {
    let methods = ["prompts/get", "resources/read", "resources/subscribe", "completion/complete", "tools/call"];
    methods.iter().map(|method| place.journal_count("notes.journal", method)).sum()
}

#[test]
fn each_credential_sees_what_its_globs_leave() {
    let place = Place::new();
    let tables = [
        place.journaled("notes", &FLAGS, ""),
        credential("all", "read_only = true"),
        credential("tools", "allow = [\"notes/get_*\"]"),
        credential("open", "allow = [\"*/doc://open/*\"]"),
        credential("deny", "deny = [\"*/doc://shut/*\", \"*/ask\", \"notes/FILE:*\"]"),
        credential("other", "allow = [\"pay*/*\"]"),
        credential("whole", "deny = [\"notes/*\"]"),
    ];
    let front = Front::start_in(&place, "", &tables);
    let ids = ["all", "tools", "open", "deny", "other", "whole"];
    let mut clients = ids.map(|id| front.greeted(Some(&token(id))));
    eventually("the source is listed", || !lists(&mut clients[0])[0].is_empty());
    let (x, ask) = ("notes__get_x", "notes__ask");
    let (open, shut) = ("doc://open/a", "doc://shut/b");
    let (template, file) = ("doc://open/{id}", "file:///{+path}");
    let want: [[&[&str]; 3]; 6] = [
        // To get a prompt or to read a resource changes nothing.
        [&[ask, x], &[open, shut], &[template, file]],
        [&[x], &[], &[]],
        [&[], &[open], &[template]],
        [&[x], &[open], &[template]],
        [&[], &[], &[]],
        [&[], &[], &[]],
    ];
    for ((client, want), id) in clients.iter_mut().zip(want).zip(ids) {
        assert_eq!(
            lists(client),
            want.map(|list| list.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()),
            "{id}"
        );
    }
    front.finish();
}

#[test]
fn what_is_withheld_is_refused_on_every_path_and_reaches_no_source() {
    let place = Place::new();
    let tables = [
        place.journaled("notes", &FLAGS, ""),
        credential("all", ""),
        credential(
            "some",
            "allow = [\"notes/get_*\", \"notes/doc://*\", \"notes/file:///a/*\"]\ndeny = [\"notes/doc://shut*\"]",
        ),
    ];
    let front = Front::start_in(&place, "", &tables);
    let (mut all, mut legacy) = (front.greeted(Some(&token("all"))), front.greeted(Some(&token("some"))));
    let mut modern = front.client(Some(&token("some")));
    eventually("the source is listed", || !lists(&mut all)[0].is_empty());
    let before = sent(&place);
    for (method, params) in [
        ("prompts/get", json!({"name": "notes__ask"})),
        ("completion/complete", completion(json!({"type": "ref/prompt", "name": "notes__ask"}))),
        ("completion/complete", completion(json!({"type": "ref/resource", "uri": "file:///{+path}"}))),
        ("completion/complete", completion(json!({"type": "ref/resource", "uri": "doc://shut/b"}))),
        ("resources/read", json!({"uri": "doc://shut/b"})),
        ("resources/read", json!({"uri": "DOC://Shut/b"})),
        ("resources/read", json!({"uri": "doc://shut/unlisted"})),
        ("resources/read", json!({"uri": "doc://open/../../shut/b"})),
        ("resources/read", json!({"uri": "doc://%73hut/b"})),
        ("resources/read", json!({"uri": "toolrelay://notes/doc://shut/b"})),
        ("resources/read", json!({"uri": "toolrelay://notes/other:x"})),
        ("resources/read", json!({"uri": "file:///etc/passwd"})),
        ("resources/read", json!({"uri": "file:///a/../etc/passwd"})),
        ("resources/read", json!({"uri": "file:///a/%2e%2e/etc/passwd"})),
        ("resources/subscribe", json!({"uri": "doc://shut/b"})),
    ] {
        for client in [&mut legacy, &mut modern] {
            if method == "resources/subscribe" && client.session.is_none() {
                continue;
            }
            let refused = client.request(method, params.clone());
            let code = if method.starts_with("prompts") || params["ref"]["name"].is_string() { -32602 } else { -32002 };
            let code = if client.session.is_none() { -32602 } else { code };
            assert_eq!(refused.error_code(), code, "{method} {params}: {}", refused.line);
            assert!(refused.line.contains("of credential `some`"), "{}", refused.line);
        }
    }
    assert_eq!(sent(&place), before);
    for (method, params) in [
        ("prompts/get", json!({"name": "notes__get_x"})),
        ("completion/complete", completion(json!({"type": "ref/resource", "uri": "doc://open/{id}"}))),
        ("resources/read", json!({"uri": "doc://open/a"})),
        ("resources/read", json!({"uri": "doc://open/17"})),
        ("resources/read", json!({"uri": "toolrelay://notes/file:///a/b"})),
        ("resources/subscribe", json!({"uri": "doc://open/a"})),
    ] {
        legacy.request(method, params.clone()).result();
        all.request(method, params).result();
    }
    assert!(all.request("resources/read", json!({"uri": "doc://shut/b"})).raw("result").is_some());
    front.finish();
}

/// The acknowledgement of a listening client names what it will be told of, and nothing that it may not have.
#[test]
fn nobody_listens_to_what_is_withheld() {
    let place = Place::new();
    let tables =
        [place.journaled("notes", &FLAGS, ""), credential("some", "allow = [\"notes/doc://open/*\", \"notes/touch\"]")];
    let front = Front::start_in(&place, "", &tables);
    let mut client = front.client(Some(&token("some")));
    eventually("the source is listed", || !lists(&mut client)[1].is_empty());
    let wanted = json!({"notifications": {"resourceSubscriptions": ["doc://open/a", "doc://shut/b"]}});
    let (text, headers) = client.request_text("subscriptions/listen", wanted);
    let mut stream = client.begin(&headers, &text);
    stream.head();
    let told = loop {
        let event = stream.event().unwrap();
        if event.data.contains("acknowledged") {
            break event.data;
        }
    };
    assert!(told.contains("doc://open/a") && !told.contains("shut"), "{told}");
    for uri in ["doc://shut/b", "doc://open/a"] {
        client.call("notes", "touch", json!({"uri": uri}));
    }
    let updated = loop {
        let event = stream.event().unwrap();
        if event.data.contains("resources/updated") {
            break event.data;
        }
    };
    assert!(updated.contains("doc://open/a"), "{updated}");
    front.finish();
}

/// `allow` and `deny` of a source are the same for everybody, also for the local user.
#[test]
fn a_sources_own_rules_hold_for_prompts_and_resources() {
    let place = Place::new();
    let rules = "allow = [\"get_*\", \"doc://*\"]\ndeny = [\"doc://shut/*\"]\nread_only = true";
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("notes", &FLAGS, rules)]);
    let listed = |relay: &mut Relay, method: &str, list: &str| keys(relay.request(method, json!({})).result(), list);
    assert_eq!(listed(&mut relay, "prompts/list", "prompts"), ["notes__get_x"]);
    assert_eq!(listed(&mut relay, "resources/list", "resources"), ["doc://open/a"]);
    assert_eq!(listed(&mut relay, "resources/templates/list", "resourceTemplates"), ["doc://open/{id}"]);
    let before = sent(&place);
    for uri in ["doc://shut/b", "doc://SHUT/b", "file:///x", "toolrelay://notes/doc://shut/b"] {
        let refused = relay.request("resources/read", json!({"uri": uri}));
        assert!(refused.error_code() == -32002 && refused.line.contains("is withheld"), "{}", refused.line);
    }
    assert_eq!(relay.request("prompts/get", json!({"name": "notes__ask"})).error_code(), -32602);
    assert_eq!(sent(&place), before);
    relay.request("resources/read", json!({"uri": "doc://open/a"})).result();
    // They follow the configuration while it runs.
    place.config("", &[place.journaled("notes", &FLAGS, "deny = [\"*open*\", \"ask\"]")]);
    relay.signal(rustix::process::Signal::HUP);
    eventually("the new rules hold", || listed(&mut relay, "resources/list", "resources") == ["doc://shut/b"]);
    assert_eq!(listed(&mut relay, "prompts/list", "prompts"), ["notes__get_x"]);
    relay.finish();
    // And they hold for what is remembered.
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("notes", &FLAGS, "deny = [\"doc://*\"]")]);
    assert!(listed(&mut relay, "resources/list", "resources").is_empty());
    relay.finish();
}

/// `file://localhost/secret/b` and a tab within `secret` were read from a source that withholds `file:///secret/*`.
#[test]
fn no_spelling_of_a_uri_gets_past_the_rules() {
    let place = Place::new();
    for (rules, uris) in [
        (
            "deny = [\"file:///secret/*\", \"http://h.example/sec/*\"]",
            &[
                "file://localhost/secret/b",
                "file:/secret/b",
                "file:secret/b",
                "file:///sec\tret/b",
                "http://h.example:80/sec/a",
                "http://u@h.example/sec/a",
                "http://h.example./sec/a",
                "http:/h.example/sec/a",
                "http:\\\\h.example\\sec\\a",
                "http://h%2Eexample/sec/a",
            ][..],
        ),
        (
            "allow = [\"file:///open/*\"]",
            &[
                "file:///open/.\t./secret/b",
                "file:///open/.\n./secret/b",
                "file:///open/..\t/secret",
                "file:///open/%2e.\t/secret",
            ],
        ),
    ] {
        let mut relay = Relay::greeted_in(&place, "", &[place.journaled("notes", &FLAGS, rules)]);
        eventually("the source is listed", || {
            relay.request("resources/read", json!({"uri": "toolrelay://notes/file:///open/a"})).raw("result").is_some()
        });
        let before = sent(&place);
        for uri in uris {
            for uri in [(*uri).to_owned(), format!("toolrelay://notes/{uri}")] {
                let refused = relay.request("resources/read", json!({"uri": uri}));
                assert!(refused.line.contains("is withheld"), "{uri:?} {}", refused.line);
            }
        }
        assert_eq!(sent(&place), before);
        relay.finish();
    }
}
