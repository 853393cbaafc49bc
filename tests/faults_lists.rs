//! Lists as gateways were reported to break them (pages: class C12, changes: C13, size and drift: C22), one test an item,
//! with the six standing assertions in each. Items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use support::{Place, Relay, command, eventually, source};

const EAGER: &str = "exposure = \"eager\"";
const CHANGED: &str = "notifications/tools/list_changed";

/// A small server in shell that gives these pages: the cursor (none: the first; `!`: that of another method) and the rest of the
/// answer's line. A `$n` in it counts the pages given. Of the cursors that fit, the last counts.
fn paged(id: &str, pages: &[(&str, String)]) -> String {
    let answer = |rest: &str| format!(r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,{}}}""#, rest.replace('"', "\\\""));
    let hello = answer(
        r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}"#,
    );
    let none = answer(r#""result":{"resources":[],"resourceTemplates":[]}"#);
    let call = answer(r#""result":{"content":[]}"#);
    let mut cases = String::new();
    for (cursor, rest) in pages.iter().rev() {
        let cursor = match (*cursor, cursor.strip_prefix('!')) {
            ("", _) => "*tools/list*".to_owned(),
            (_, Some(method)) => format!("*{method}*"),
            (cursor, None) => format!("*'\"cursor\":\"{cursor}'*"),
        };
        cases += &format!("{cursor}) n=$((n+1)); {};; ", answer(rest));
    }
    let script = format!(
        "n=0; while read -r line; do id=${{line#*\\\"id\\\":}}; id=${{id%%,*}}; case $line in \
         *'\"initialize\"'*) {hello};; *tools/call*) {call};; {cases} \
         *resources/*) {none};; esac; done"
    );
    // A dollar is written twice in `sources.toml`.
    command(id, "sh", &["-c", &script.replace('$', "$$")], "era = \"legacy\"")
}

fn page(tools: &[&str], next: Option<&str>) -> String {
    let tools: Vec<_> = tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    let next = next.map(|next| format!(",\"nextCursor\":\"{next}\"")).unwrap_or_default();
    format!("\"result\":{{\"tools\":{}{next}}}", Value::from(tools))
}

fn opened(relay: &mut Relay, id: &str) -> Vec<String> {
    let opened = relay.call_direct("enable_toolset", json!({"toolset": id})).structured();
    let tools = opened["tools"].as_array().unwrap().iter();
    tools.map(|line| line["tool"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn c12_a01_every_page_is_read() {
    let place = Place::new();
    let tools: Vec<_> = (0..25).map(|n| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}})).collect();
    let file = place.write("tools.json", Value::from(tools).to_string());
    let pages = [
        ("", page(&["first"], Some("a+b=/é"))),
        ("a+b=/é", page(&[], Some("after the empty one"))),
        ("after the empty one", page(&["last"], None)),
    ];
    let sources = [source("ten", &["--tools-json", &file, "--pages", "10"], ""), paged("gap", &pages)];
    let mut relay = Trial::start_in(&place, "", &sources);
    assert_eq!(opened(&mut relay, "ten").len(), 25);
    assert_eq!(opened(&mut relay, "gap"), ["first", "last"]);
    assert_eq!(relay.request("tools/list", json!({"cursor": "nonsense"})).error_code(), -32602);
    relay.finish();
}

#[test]
fn c12_a02_pages_without_end() {
    let unreadable =
        |cursor: &str| format!("{},\"nextCursor\":{cursor}}}", page(&["t1", "t2"], None).trim_end_matches('}'));
    let failing = "\"error\":{\"code\":-32603,\"message\":\"no third page\"}".to_owned();
    let sources = [
        paged("number", &[("", unreadable("2"))]),
        paged("half", &[("", unreadable("\"\\ud83d\""))]),
        paged("constant", &[("", page(&["t1"], Some("A"))), ("A", page(&["t1", "t2"], Some("A")))]),
        paged(
            "cycle",
            &[("", page(&["t1"], Some("A"))), ("A", page(&["t2"], Some("B"))), ("B", page(&["t1"], Some("A")))],
        ),
        paged("endless", &[("", page(&["t1", "t2"], Some("c$n"))), ("c", page(&[], Some("c$n")))]),
        paged("failing", &[("", page(&["t1"], Some("A"))), ("A", page(&["t2"], Some("B"))), ("B", failing)]),
        source("good", &[], ""),
    ];
    let mut relay = Trial::start(&sources);
    for id in ["constant", "cycle", "number", "half", "endless", "failing"] {
        let start = Instant::now();
        assert_eq!(opened(&mut relay, id), ["t1", "t2"], "{id}");
        assert!(start.elapsed() < Duration::from_secs(10), "{id}: {:?}", start.elapsed());
        let reason = relay.await_status(id, "ready")["reason"].clone();
        assert!(reason.as_str().is_some_and(|why| why.contains("its list of tools")), "{id}: {reason}");
        assert_eq!(relay.call(id, "t2", json!({})).result(), json!({"content": []}), "{id}");
        assert_eq!(relay.status(id)["withheld"], 0, "{id}: a page that came again is no tool listed twice");
    }
    assert_eq!(relay.call("good", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
}

/// An empty cursor on the last page means that there is no more: the page that comes for it is the first or the last one, or it
/// is refused. The source could not be locked, and its tools were told as withheld.
#[test]
fn c12_a02_an_empty_cursor_at_the_end() {
    let place = Place::new();
    let refused = "\"error\":{\"code\":-32602,\"message\":\"bad cursor\"}".to_owned();
    let last = ("2", page(&["t2"], Some("")));
    let sources = [
        paged("one", &[("", page(&["t1", "t2"], Some("")))]),
        paged("first", &[("", page(&["t1"], Some("2"))), last.clone()]),
        paged("last", &[("", page(&["t1"], Some("2"))), ("\"", last.1.clone()), last.clone()]),
        paged("refused", &[("", page(&["t1"], Some("2"))), ("\"", refused), last]),
    ];
    let file = place.config("pin = \"enforce\"", &sources);
    let locked = Command::new(env!("CARGO_BIN_EXE_toolrelay")).args(["lock", "--config", &file]).output().unwrap();
    assert!(locked.status.success(), "{locked:?}");
    let mut relay = Trial::start_in(&place, "", &sources);
    for id in ["one", "first", "last", "refused"] {
        assert_eq!(opened(&mut relay, id), ["t1", "t2"], "{id}");
        assert_eq!(relay.call(id, "t2", json!({})).result(), json!({"content": []}), "{id}");
        let line = relay.await_status(id, "ready");
        assert_eq!((&line["reason"], &line["withheld"]), (&Value::Null, &json!(0)), "{id}");
    }
    relay.finish();
}

/// A later page that failed once took the tools on it out of the list, and the next run told the rest as whole.
#[test]
fn c12_a02_a_later_page_that_fails_once() {
    let place = Place::new();
    let good = page(&["b"], None);
    let second = place.write("second", &good);
    let source = paged("s", &[("", page(&["a"], Some("2"))), ("2", format!("$(cat {second})"))]);
    let sources = std::slice::from_ref(&source);
    let mut relay = Trial::start_in(&place, EAGER, sources);
    let list = relay.list();
    assert!(list.contains("s__a") && list.contains("s__b"), "{list}");
    place.write("second", "\"error\":{\"code\":-32603,\"message\":\"try later\"}");
    let changed = relay.noticed(CHANGED);
    relay.call("s", "a", json!({}));
    let why = "page 2 of its list of tools failed";
    let (kind, text) = relay.call("s", "none", json!({})).failure();
    assert!(kind == "unknown_tool" && text.contains(why), "{text}");
    assert!(relay.status("s")["reason"].to_string().contains(why));
    assert_eq!(relay.list(), list, "what was listed before is kept");
    assert_eq!(relay.call("s", "b", json!({})).result(), json!({"content": []}));
    assert_eq!(relay.noticed(CHANGED), changed);
    relay.finish();

    let mut relay = Trial::start_in(&place, EAGER, sources);
    assert!(relay.list().contains("s__b"));
    let line = relay.status("s");
    assert!(line["status"] == "dormant" && line["reason"].to_string().contains(why), "{line}");
    place.write("second", &good);
    relay.call("s", "none", json!({})).failure();
    eventually("it is whole again", || relay.status("s")["reason"].is_null());
    relay.finish();
}

/// The same of resources, which nothing told.
#[test]
fn c12_a02_a_later_page_of_resources_that_fails_once() {
    let place = Place::new();
    let resources =
        |uri: &str, next: &str| format!("\"result\":{{\"resources\":[{{\"uri\":\"{uri}\",\"name\":\"x\"}}]{next}}}");
    let second = place.write("second", resources("x://2", ""));
    let (first, more) = (resources("x://1", ",\"nextCursor\":\"2\""), format!("$(cat {second})"));
    let source = paged("s", &[("", page(&["a"], None)), ("!resources/list", first), ("2", more)]);
    let mut relay = Trial::start_in(&place, "", &[source]);
    let uris =
        |relay: &mut Relay| relay.request("resources/list", json!({})).result()["resources"].as_array().unwrap().len();
    relay.call("s", "a", json!({}));
    eventually("both are listed", || uris(&mut relay) == 2);
    place.write("second", "\"error\":{\"code\":-32603,\"message\":\"try later\"}");
    relay.call("s", "a", json!({}));
    relay.call("s", "none", json!({})).failure();
    let why = "page 2 of its list of resources failed";
    eventually("it is told", || relay.status("s")["reason"].to_string().contains(why));
    assert_eq!(uris(&mut relay), 2);
    relay.finish();
}

/// Announced changes and opened toolsets: `a_changing_list_is_followed` in `tests/sources.rs`, `toolsets_open_and_close`
/// in `tests/catalog.rs`. Here a source comes back with other tools.
#[test]
fn c13_a01_a_source_that_comes_back_with_other_tools() {
    let place = Place::new();
    let tools = |names: &[&str]| {
        let tools: Vec<_> = names.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect();
        place.write("tools.json", Value::from(tools).to_string())
    };
    let file = tools(&["one", "two"]);
    let a = source("a", &["--tools-json", &file], "unlisted = \"forward\"");
    let mut relay = Trial::ungreeted(&place, Trial::command(&place, EAGER, std::slice::from_ref(&a)));
    assert_eq!(relay.greet()["capabilities"]["tools"]["listChanged"], true);
    let mut relay = Trial::of(relay, &[a]);
    assert!(relay.list().contains("a__two"));
    tools(&["one", "three"]);
    relay.notices.clear();
    relay.call("a", "die", json!({"code": 0}));
    eventually("it has ended", || relay.status("a")["status"] != "ready");
    assert_eq!(relay.call("a", "one", json!({"n": 1})).structured(), json!({"n": 1}));
    relay.await_notices("the change", |notices| !notices.is_empty());
    let list = relay.list();
    assert!(list.contains("a__three") && !list.contains("a__two"), "{list}");
    relay.listen(Duration::from_millis(1500));
    assert_eq!(relay.noticed(CHANGED), 1);
    relay.finish();
}

/// Changes that change nothing: `a_storm_of_changes_that_change_nothing_is_kept_from_the_client` in `tests/oddities.rs`.
/// Here a tool comes and goes twenty times a second.
#[test]
fn c13_a03_a_tool_that_comes_and_goes() {
    let mut relay = Trial::start_in(&Place::new(), EAGER, &[source("a", &["--changing"], "")]);
    relay.list();
    relay.notices.clear();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        relay.call("a", "grow", json!({}));
        relay.listen(Duration::from_millis(50));
        relay.call("a", "shrink", json!({}));
        relay.listen(Duration::from_millis(50));
    }
    relay.listen(Duration::from_millis(2500));
    let most = start.elapsed().as_secs() as usize + 1;
    assert!(relay.noticed(CHANGED) <= most, "{} in {:?}", relay.noticed(CHANGED), start.elapsed());
    relay.finish();
}

/// The tools of real servers: `real_catalogs_stay_within_the_budgets` in `tests/real_catalogs.rs`.
#[test]
fn c22_a01_fifteen_hundred_tools() {
    let place = Place::new();
    let sources: Vec<_> = (0..30)
        .map(|n| {
            let tools: Vec<_> = (0..50)
                .map(|m| json!({"name": format!("tool_{m}"), "description": format!("Does {m} of {n}."), "inputSchema": {}}))
                .collect();
            let file = place.write(&format!("s{n}.json"), Value::from(tools).to_string());
            source(&format!("s{n}"), &["--tools-json", &file], "")
        })
        .collect();
    let mut relay = Trial::start_in(&place, "exposure = \"toolsets\"", &sources);
    assert!(relay.list().len() < 8_000, "{}", relay.list().len());
    for n in [3, 17, 29] {
        let id = format!("s{n}");
        assert_eq!(opened(&mut relay, &id).len(), 50);
        let found = relay.call_direct("find_tools", json!({"query": "tool_49", "source": id})).structured();
        assert_eq!(found["matches"][0]["tool"], "tool_49", "{found}");
        assert_eq!(relay.call(&id, "tool_49", json!({"n": n})).structured(), json!({"n": n}));
    }
    // What was never opened is called all the same.
    assert_eq!(relay.call("s8", "tool_0", json!({"n": 8})).structured(), json!({"n": 8}));
    relay.finish();
}

/// A changed definition shows: the client is told, and the revision in `list_sources` is another.
#[test]
fn c22_a02_a_definition_that_changes() {
    let place = Place::new();
    let write = |rest: &str| place.write("tools.json", format!("[{{\"name\":\"t\",{rest}}}]"));
    let sources =
        [source("a", &["--tools-json", &write("\"description\":\"d\",\"inputSchema\":{}")], "unlisted = \"forward\"")];
    let mut relay = Trial::start_in(&place, EAGER, &sources);
    relay.list();
    let revision = |relay: &mut Relay| relay.call_direct("list_sources", json!({})).structured()["revision"].clone();
    let mut seen = vec![revision(&mut relay)];
    for rest in [
        "\"description\":\"other\",\"inputSchema\":{}",
        "\"description\":\"other\",\"inputSchema\":{\"required\":[\"a\"]}",
        "\"description\":\"other\",\"inputSchema\":{\"required\":[\"a\"]},\"annotations\":{\"destructiveHint\":true}",
    ] {
        write(rest);
        relay.notices.clear();
        relay.call("a", "die", json!({"code": 0}));
        eventually("it has ended", || relay.status("a")["status"] != "ready");
        relay.call("a", "t", json!({}));
        relay.await_notices("the change", |notices| !notices.is_empty());
        let now = revision(&mut relay);
        assert!(!seen.contains(&now), "{rest}");
        seen.push(now);
    }
    relay.finish();
}

/// A source with its schemas in hash maps writes their members in another order each time: models' caches are not to pay for it.
#[test]
fn c13_a05_the_order_of_members_is_no_change() {
    let place = Place::new();
    let write = |tools: &[&str]| place.write("tools.json", format!("[{}]", tools.join(",")));
    let known = r#""inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{}}},"description":"d"}"#;
    let other =
        r#"{"description":"d","inputSchema":{"properties":{"b":{},"a":{"type":"string"}},"type":"object"},"name":"t"}"#;
    let file = write(&[&format!("{{\"name\":\"t\",{known}")]);
    let sources = [source("a", &["--tools-json", &file], "unlisted = \"forward\"")];
    let mut relay = Trial::start_in(&place, EAGER, &sources);
    let shown = format!("{{\"name\":\"a__t\",{known}");
    assert!(relay.list().contains(&shown));
    write(&[other, r#"{"name":"u","inputSchema":{"type":"object","properties":{}}}"#]);
    relay.call("a", "die", json!({"code": 0}));
    eventually("it has ended", || relay.status("a")["status"] != "ready");
    relay.call("a", "t", json!({}));
    eventually("the new tool is listed", || relay.list().contains("a__u"));
    assert!(relay.list().contains(&shown), "{}", relay.list());
    relay.finish();
    // Nor does the memory of an earlier run make a difference.
    write(&[other]);
    let mut relay = Trial::start_in(&place, EAGER, &sources);
    assert!(relay.list().contains("a__u"));
    relay.call("a", "t", json!({}));
    eventually("the tool is gone", || !relay.list().contains("a__u"));
    assert!(relay.list().contains(&shown), "{}", relay.list());
    relay.finish();
}
