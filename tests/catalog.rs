//! What is listed: the same bytes for the same sources, whatever they are doing, and a menu that stays small.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use support::{AT_ONCE, Place, Relay, eventually, source};

const EAGER: &str = "exposure = \"eager\"";
const CHANGED: &str = "notifications/tools/list_changed";
/// The most that the relay's own tools may take in `tools/list`.
const MENU_MAX: usize = 6_000;

#[test]
fn neither_order_nor_speed_changes_the_list() {
    let mut lists = BTreeSet::new();
    for turn in 0..3 {
        let place = Place::new();
        let mut sources = Vec::new();
        for (n, id) in ["a", "b", "c"].into_iter().enumerate() {
            let delay = (((n + turn) % 3) * 300).to_string();
            let flags = ["--shuffle", "--tools", "x,y", "--bad-tools", "--start-delay-ms", &delay];
            sources.push(place.journaled(id, &flags, &format!("provider = \"p{}\"", 3 - n)));
        }
        sources.rotate_left(turn);
        let mut relay = Trial::start_in(&place, EAGER, &sources);
        let list = relay.list();
        assert!(list.find("\"c__x\"").unwrap() < list.find("\"b__x\"").unwrap(), "sorted by provider");
        lists.insert(list.clone());
        relay.finish();
        // The next run has it from memory, and starts nobody for it.
        for journal in ["a", "b", "c"] {
            place.write(&format!("{journal}.journal"), "");
        }
        let mut relay = Trial::start_in(&place, EAGER, &sources);
        let start = Instant::now();
        assert!(relay.list() == list);
        assert!(start.elapsed() < AT_ONCE);
        relay.call_direct("find_tools", json!({"query": "extra tool"}));
        assert_eq!(relay.status("a")["status"], "dormant");
        relay.listen(Duration::from_millis(300));
        assert_eq!(relay.noticed(CHANGED), 0);
        for journal in ["a", "b", "c"] {
            assert!(place.lines(&format!("{journal}.journal")).is_empty(), "{journal}");
        }
        relay.finish();
    }
    assert_eq!(lists.len(), 1);
}

#[test]
fn a_source_that_blinks_changes_nothing() {
    let flags = ["--changing", "--shuffle"];
    let mut relay = Relay::greeted(EAGER, &[source("a", &flags, ""), source("b", &[], "")]);
    let list = relay.list();
    relay.notices.clear();
    relay.call("a", "die", json!({"code": 1}));
    assert!(relay.list() == list);
    relay.call("a", "echo", json!({}));
    assert!(relay.list() == list);
    relay.listen(Duration::from_millis(1500));
    assert_eq!(relay.noticed(CHANGED), 0);
    relay.finish();
}

/// Each `tools/list` waited three seconds, for as long as one source had not answered its first.
#[test]
fn eager_waits_once_for_a_source_that_does_not_answer() {
    let mut relay = Relay::greeted(EAGER, &[source("mute", &["--mute"], ""), source("good", &[], "")]);
    let start = Instant::now();
    let list = relay.list();
    assert!(list.contains("good__echo") && start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let start = Instant::now();
    assert!(relay.list() == list);
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    relay.finish();
}

/// A list of prompts that never comes kept all tools away, and nothing said what was missing.
#[test]
fn tools_do_not_wait_for_what_there_is_besides() {
    let flags = ["--tools", "a", "--prompts", "p", "--drop", "prompts/list"];
    let sources = [source("slow", &flags, "start_timeout_secs = 50"), source("gone", &flags, "start_timeout_secs = 2")];
    let mut relay = Relay::greeted("", &sources);
    for id in ["slow", "gone"] {
        let opened = relay.call_direct("enable_toolset", json!({"toolset": id})).structured();
        assert_eq!(opened["tools"][0]["tool"], "a", "{opened}");
    }
    assert!(relay.status("slow")["reason"].as_str().unwrap().contains("besides tools is still being read"));
    eventually("it is told what is missing", || {
        let line = relay.status("gone");
        assert_eq!(line["status"], "ready", "{line}");
        line["reason"].as_str().unwrap().contains("`prompts/list` could not be read: it did not answer")
    });
    relay.finish();
}

/// Prompts that could not be read again were forgotten, on disk as well.
#[test]
fn the_last_good_lists_are_kept() {
    let place = Place::new();
    let told = |answer: &str| place.write("prompts", format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,{answer}}}"));
    let file = told(r#""result":{"prompts":[{"name":"p"}]}"#);
    let reply = format!("prompts/list={file}");
    let sources = [source("fix", &["--prompts", "p", "--reply", &reply], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    let has = |relay: &mut Relay| relay.request("prompts/list", json!({})).line.contains("fix__p");
    eventually("it is listed", || has(&mut relay));
    told(r#""error":{"code":-32603,"message":"no database"}"#);
    relay.call("fix", "die", json!({"code": 1}));
    eventually("it is listed again", || {
        relay.call("fix", "echo", json!({}));
        relay.status("fix")["reason"].as_str().is_some_and(|reason| reason.contains("no database"))
    });
    assert!(has(&mut relay));
    relay.finish();
    let mut relay = Relay::greeted_in(&place, "", &sources);
    assert!(has(&mut relay));
    relay.finish();
}

#[test]
fn the_menu_stays_small() {
    let long = "summary = \"Repositories, \\\"pull requests\\\", issues, Ünïcödé and code search for the app's workspace, at length.\"";
    for count in [0, 3, 1000] {
        let off = format!("{long}\nenabled = false");
        let sources: Vec<_> = (0..count).map(|n| source(&format!("source-number-{n}"), &[], &off)).collect();
        for exposure in ["toolsets", "eager"] {
            let mut relay = Relay::start(&format!("exposure = \"{exposure}\""), &sources);
            let start = Instant::now();
            let instructions = relay.greet()["instructions"].as_str().unwrap().to_owned();
            assert!(instructions.len() <= 2048, "{}", instructions.len());
            let list = relay.list();
            assert!(list.len() <= MENU_MAX, "{exposure} with {count}: {} bytes", list.len());
            assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
            let all = relay.call_direct("list_toolsets", json!({})).structured();
            assert_eq!(all["toolsets"].as_array().unwrap().len(), count);
            relay.finish();
        }
    }
}

#[test]
fn toolsets_open_and_close() {
    let place = Place::new();
    let sources = [source("a", &["--tools", "x"], "summary = \"A.\""), source("b", &[], "summary = \"B.\"")];
    let run = |remember: bool| Relay::greeted_in(&place, &format!("remember = {remember}"), &sources);
    let menu = ["list_sources", "list_toolsets", "enable_toolset", "disable_toolset", "find_tools", "call_tool"];
    let mut relay = run(true);
    assert_eq!(relay.names(), menu);
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "a"})).structured();
    assert_eq!(opened["toolset"]["enabled"], true);
    let line = opened["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "x").unwrap().clone();
    assert_eq!((&line["name"], &line["source"]), (&json!("a__x"), &json!("a")));
    relay.await_notices("the change", |notices| !notices.is_empty());
    let names = relay.names();
    assert_eq!((names[..6].to_vec(), names.len()), (menu.map(str::to_owned).to_vec(), 6 + 19));
    // Opened twice is opened once; the other one stays closed.
    relay.call_direct("enable_toolset", json!("{\"toolset\": \"a\"}"));
    relay.listen(Duration::from_millis(1300));
    assert_eq!(relay.noticed(CHANGED), 1);
    assert!(
        relay
            .call_direct("list_toolsets", json!({}))
            .text()
            .contains(r#""id":"b","provider":"b","status":"ready","enabled":false"#)
    );
    relay.finish();

    let mut relay = run(true);
    assert_eq!(relay.names(), names);
    relay.finish();
    let mut relay = run(false);
    assert_eq!(relay.names(), menu);
    relay.finish();

    let mut relay = run(true);
    let closed = relay.call_direct("disable_toolset", json!({"toolset": "a"})).structured();
    assert_eq!((&closed["closed"], &closed["toolset"]["enabled"]), (&json!(19), &json!(false)));
    relay.await_notices("the change", |notices| !notices.is_empty());
    assert_eq!(relay.names(), menu);
    assert_eq!(relay.call_direct("a__x", json!({"still": "reachable"})).structured(), json!({"still": "reachable"}));
    assert_eq!(relay.call_direct("disable_toolset", json!({"toolset": "a"})).structured()["closed"], 0);
    let (kind, text) = relay.call_direct("enable_toolset", json!({"toolset": "aa"})).failure();
    assert!(kind == "unknown_source" && text.contains("Similar: a"), "{text}");
    assert_eq!(relay.call_direct("enable_toolset", json!({})).failure().0, "invalid_arguments");
    relay.finish();
    let mut relay = run(true);
    assert_eq!(relay.names(), menu);
    relay.finish();
}

#[test]
fn what_is_shown_can_be_chosen() {
    let sources = [source("a", &["--tools", "x,y"], ""), source("b", &["--tools", "x"], "prefix = \"\"")];
    let settings = "always_visible = [\"a/x\", \"b/ech*\"]\nmenu = [\"find_tools\", \"call_tool\"]";
    let mut relay = Relay::greeted(settings, &sources);
    relay.call("a", "x", json!({}));
    relay.call("b", "x", json!({}));
    eventually("both are listed", || relay.names() == ["find_tools", "call_tool", "a__x", "echo"]);
    // What is not shown works all the same.
    assert_eq!(relay.call_direct("list_sources", json!({})).structured()["sources"].as_array().unwrap().len(), 2);
    assert_eq!(relay.call_direct("x", json!({"b": 1})).structured(), json!({"b": 1}));
    relay.finish();
}

#[test]
fn find_tools_reaches_everything_once() {
    let place = Place::new();
    let tools: Vec<_> = (0..60)
        .map(|n| json!({"name": format!("tool/{n}:x"), "description": "Finds", "inputSchema": {"type": "object"}}))
        .collect();
    let file = place.write("tools.json", Value::from(tools).to_string());
    let sources = [
        source("z", &["--tools-json", &file], "provider = \"first\""),
        source("a", &["--bad-tools"], "provider = \"second\""),
    ];
    let mut relay = Relay::greeted_in(&place, EAGER, &sources);
    relay.list();
    for query in [None, Some("finds tool")] {
        for limit in [1, 7, 50] {
            let (mut seen, mut cursor, mut total, mut pages) = (Vec::new(), Value::Null, 0, 0);
            loop {
                let arguments = json!({"query": query, "limit": limit, "cursor": cursor});
                let reply = relay.call_direct("find_tools", arguments);
                let page = reply.structured();
                total = page["total"].as_u64().unwrap().max(total);
                let matches = page["matches"].as_array().unwrap();
                assert!(matches.len() <= limit && !matches.is_empty());
                seen.extend(matches.iter().map(|found| format!("{}/{}", found["source"], found["tool"])));
                pages += 1;
                match page.get("nextCursor") {
                    Some(next) => cursor = next.clone(),
                    None => break,
                }
            }
            let unique: BTreeSet<_> = seen.iter().collect();
            assert_eq!((unique.len(), seen.len() as u64), (seen.len(), total), "{query:?} by {limit} in {pages}");
            assert!(total >= 60);
            assert!(query.is_some() || seen[0].starts_with("\"z\""), "sorted by provider");
        }
    }
    assert_eq!(relay.call_direct("find_tools", json!({"cursor": "nonsense"})).failure().0, "invalid_arguments");
    // A page of another search would leave out what fits this one best.
    let begun = relay.call_direct("find_tools", json!({"query": "finds tool", "limit": 3})).structured();
    for other in [json!({}), json!({"query": "odd"}), json!({"query": "finds tool", "source": "z"})] {
        let mut asked = other.clone();
        asked["cursor"] = begun["nextCursor"].clone();
        let (kind, text) = relay.call_direct("find_tools", asked).failure();
        assert!(kind == "invalid_arguments" && text.contains("leave the cursor out"), "{other}: {text}");
    }
    let more = json!({"query": " finds tool ", "limit": 9, "detail": "brief", "cursor": begun["nextCursor"]});
    assert_eq!(relay.call_direct("find_tools", more).structured()["matches"].as_array().unwrap().len(), 9);
    let full =
        relay.call_direct("find_tools", json!({"tools": ["z/tool/7:x", "a/nothing"], "detail": "full"})).structured();
    assert_eq!(full["matches"][0]["inputSchema"]["type"], "object");
    assert_eq!(full["unknown"], json!(["a/nothing"]));
    relay.finish();
}

/// A page that ended with a tool that is gone by now ended the paging, where the tool was its source's last.
#[test]
fn paging_goes_on_where_a_tool_is_gone() {
    let settings = "provider = \"first\"\nallow = [\"gro*\", \"shrink\"]\ntool.shrink = { hidden = true }";
    let sources = [source("z", &["--changing"], settings), source("a", &[], "provider = \"second\"")];
    let mut relay = Relay::greeted(EAGER, &sources);
    relay.list();
    relay.call("z", "grow", json!({}));
    eventually("it has grown", || relay.list().contains("grown_1"));
    let page = relay.call_direct("find_tools", json!({"limit": 3})).structured();
    assert_eq!(page["matches"][2]["tool"], "grown_1");
    relay.call("z", "shrink", json!({}));
    eventually("it has shrunk", || !relay.list().contains("grown_1"));
    let next = json!({"limit": 1, "cursor": page["nextCursor"]});
    let page = relay.call_direct("find_tools", next).structured();
    assert_eq!((&page["matches"][0]["source"], &page["matches"][0]["tool"]), (&json!("a"), &json!("ask")));
    relay.finish();
}

/// A client that lists once and never again gets on with what the replies tell it.
#[test]
fn a_client_that_lists_once_can_do_everything() {
    let mut relay = Trial::start_in(
        &Place::new(),
        "exposure = \"toolsets\"",
        &[source("a", &["--tools", "make_note"], "summary = \"Notes.\""), source("b", &[], "")],
    );
    assert!(relay.names().contains(&"call_tool".to_owned()));
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "a"})).structured();
    let tool = opened["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "make_note").unwrap();
    assert!(tool["signature"].as_str().unwrap().starts_with('('));
    let reply = relay.call(tool["source"].as_str().unwrap(), tool["tool"].as_str().unwrap(), json!({"n": 1}));
    assert_eq!(reply.structured(), json!({"n": 1}));
    eventually("the other one is listed", || relay.status("b")["tools"] != 0);
    let found = relay.call_direct("find_tools", json!({"query": "sleep with progress", "source": "b"})).structured();
    let best = &found["matches"][0];
    assert_eq!((&best["tool"], &best["enabled"]), (&json!("sleep"), &json!(false)));
    assert!(best["signature"].as_str().unwrap().contains("ms*: integer"), "{best}");
    assert_eq!(relay.call("b", "sleep", json!({"ms": 1})).text(), "slept 1 ms");
    relay.finish();
}

/// A drawer of thousands of tools is opened without flooding the model: briefly, as far as there is room, and counted.
#[test]
fn a_huge_toolset_is_opened_within_bounds() {
    let place = Place::new();
    let tool = |n: usize| json!({"name": format!("tool_{n:04}"), "description": "Does something.", "inputSchema": {"type": "object"}});
    let file = place.write("tools.json", json!((0..3000).map(tool).collect::<Vec<_>>()).to_string());
    let mut relay = Relay::greeted_in(&place, "", &[source("huge", &["--tools-json", &file], "")]);
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "huge"}));
    assert!(opened.line.len() < 80_000, "{} bytes", opened.line.len());
    let told = opened.structured();
    let (shown, omitted) = (told["tools"].as_array().unwrap().len(), told["omitted"].as_u64().unwrap());
    assert_eq!(shown as u64 + omitted, told["toolset"]["tools"].as_u64().unwrap());
    assert!(shown > 100 && told["next"].as_str().unwrap().contains("find_tools"), "{shown}");
    assert_eq!(relay.names().len(), 6 + shown + omitted as usize);
    relay.finish();
}

/// An empty list of matches said neither why it was empty nor what to do.
#[test]
fn a_search_that_finds_nothing_says_what_to_do() {
    let mut relay = Relay::greeted("", &[source("fix", &["--tools", "alpha"], "")]);
    relay.call("fix", "alpha", json!({}));
    for (arguments, told) in [
        (json!({"query": "all"}), "no word that says what a tool does: say it in other words"),
        (json!({"query": "do it, please!"}), "no word that says"),
        (json!({"query": "zzyzx qwfpgj"}), "no tool fits the query: say it"),
        (json!({"query": "zzyzx", "source": "fix"}), "search without `source`, or leave `query` out"),
    ] {
        let found = relay.call_direct("find_tools", arguments.clone()).structured();
        assert_eq!(found["total"], 0, "{arguments}: {found}");
        assert!(found["next"].as_str().unwrap().contains(told), "{arguments}: {found}");
    }
    for arguments in [json!({"query": "alpha"}), json!({"tools": ["nothing"]}), json!({})] {
        assert!(relay.call_direct("find_tools", arguments).structured().get("next").is_none());
    }
    relay.finish();
}
