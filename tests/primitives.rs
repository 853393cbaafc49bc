//! Prompts, resources, templates and completions of several sources: lists, names, routes, errors, memory, changes.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;
#[path = "support/talk.rs"]
mod talk;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Place, Relay, Reply, eventually};
use talk::{ERAS, Era, Talker, able};

/// Two sources that meet in one resource, one template and, with the same prefix, one prompt.
fn two(place: &Place, eras: [Era; 2]) -> Vec<String> {
    let common = ["--templates", "note://{id}/text", "--sociable", "--changing"];
    let flags = |own: &[&'static str], era: Era| {
        let mut flags = own.to_vec();
        flags.extend(common);
        flags.extend(["--era", era.word()]);
        flags
    };
    let zeta = flags(&["--prompts", "greet,bye", "--resources", "doc://same,zeta:one"], eras[0]);
    let alpha = flags(&["--prompts", "greet", "--resources", "doc://same,alpha:two"], eras[1]);
    vec![place.journaled("zeta", &zeta, ""), place.journaled("alpha", &alpha, "")]
}

fn start(place: &Arc<Place>, sources: [Era; 2], client: Era) -> Talker {
    let relay = Relay::start_in(place, "exposure = \"eager\"", &two(place, sources));
    Talker::new(relay, client, able())
}

fn keys(reply: &Reply, list: &str, member: &str) -> Vec<String> {
    let result = reply.result();
    let items = result[list].as_array().unwrap_or_else(|| panic!("{result}")).iter();
    items.map(|item| item[member].as_str().unwrap().to_owned()).collect()
}

/// The one text of a resource, and its URI.
fn read(talker: &mut Talker, uri: &str) -> (String, String) {
    let result = talker.request("resources/read", json!({"uri": uri})).result();
    let content = &result["contents"][0];
    assert_eq!(result["contents"].as_array().map(Vec::len), Some(1), "{result}");
    (content["uri"].as_str().unwrap().to_owned(), content["text"].as_str().unwrap().to_owned())
}

const RESOURCES: [&str; 4] = ["alpha:two", "doc://same", "toolrelay://zeta/doc://same", "zeta:one"];

fn check_lists(talker: &mut Talker) {
    let prompts = talker.request("prompts/list", json!({}));
    assert_eq!(keys(&prompts, "prompts", "name"), ["alpha__greet", "zeta__bye", "zeta__greet"]);
    assert_eq!(keys(&talker.request("resources/list", json!({})), "resources", "uri"), RESOURCES);
    let templates = talker.request("resources/templates/list", json!({}));
    let want = ["note://{id}/text", "toolrelay://zeta/note://{id}/text"];
    assert_eq!(keys(&templates, "resourceTemplates", "uriTemplate"), want);
    if talker.era == Era::Modern {
        let result = prompts.result();
        assert_eq!((&result["resultType"], &result["ttlMs"]), (&json!("complete"), &json!(0)));
        assert_eq!(result["cacheScope"], "private");
    } else {
        assert!(prompts.result().get("resultType").is_none());
    }
}

#[test]
fn lists_of_several_sources_are_one_and_lead_back() {
    for sources in [[Era::Legacy, Era::Modern], [Era::Modern, Era::Legacy]] {
        for client in ERAS {
            let place = Place::new();
            let mut talker = start(&place, sources, client);
            check_lists(&mut talker);
            let talker = &mut talker;
            // Each URI leads to the source that is meant, and is answered as it was asked for.
            for (uri, source, own) in [
                ("zeta:one", "zeta", "zeta:one"),
                ("alpha:two", "alpha", "alpha:two"),
                ("doc://same", "alpha", "doc://same"),
                ("toolrelay://zeta/doc://same", "zeta", "doc://same"),
                ("toolrelay://alpha/doc://same", "alpha", "doc://same"),
                ("note://7/text", "alpha", "note://7/text"),
                ("toolrelay://zeta/note://7/text", "zeta", "note://7/text"),
                // Listed nowhere: the only source with resources of that scheme.
                ("zeta:unlisted", "zeta", "zeta:unlisted"),
                ("toolrelay://zeta/any:thing", "zeta", "any:thing"),
            ] {
                assert_eq!(read(talker, uri), (uri.to_owned(), format!("{source}: {own}")), "{client:?}");
            }
            for (name, source, own) in [("alpha__greet", "alpha", "greet"), ("zeta__bye", "zeta", "bye")] {
                let params = json!({"name": name, "arguments": {"who": "Ada"}});
                let result = talker.request("prompts/get", params).result();
                assert_eq!(result["messages"][0]["content"]["text"], format!("{source}: {own} {{\"who\":\"Ada\"}}"));
            }
            for (reference, told) in [
                (json!({"type": "ref/prompt", "name": "zeta__greet"}), "zeta: greet who"),
                (json!({"type": "ref/resource", "uri": "note://{id}/text"}), "alpha: note://{id}/text who"),
                (
                    json!({"type": "ref/resource", "uri": "toolrelay://zeta/note://{id}/text"}),
                    "zeta: note://{id}/text who",
                ),
            ] {
                let params = json!({"ref": reference, "argument": {"name": "who", "value": "A"}});
                let result = talker.request("completion/complete", params).result();
                assert_eq!(result["completion"]["values"], json!([told]));
            }
        }
    }
}

#[test]
fn what_is_not_there_is_told_in_each_era() {
    for sources in [[Era::Legacy, Era::Legacy], [Era::Modern, Era::Modern]] {
        for client in ERAS {
            let place = Place::new();
            let mut talker = start(&place, sources, client);
            talker.request("resources/list", json!({})).result();
            let code = if client == Era::Modern { -32602 } else { -32002 };
            // Nobody's; two could be meant; a source says that it has it not; a source that there is not.
            for uri in ["strange:x", "doc://other", "zeta:missing", "toolrelay://nobody/x"] {
                let error = talker.request("resources/read", json!({"uri": uri}));
                assert!(error.error()["data"]["uri"].as_str().unwrap().ends_with(uri), "{}", error.line);
                if sources[0] == client || sources[0] == Era::Legacy || uri != "zeta:missing" {
                    assert_eq!(error.error_code(), code, "{uri}: {}", error.line);
                }
            }
            for (method, params) in [
                ("prompts/get", json!({"name": "greet"})),
                ("prompts/get", json!({})),
                ("resources/read", json!({"uri": 1})),
                ("resources/list", json!({"cursor": "nonsense"})),
                ("resources/list", json!({"cursor": "1000"})),
                ("completion/complete", json!({"ref": {"type": "ref/tool", "name": "x"}})),
            ] {
                assert_eq!(talker.request(method, params.clone()).error_code(), -32602, "{method} {params}");
            }
            let unsubscribable = json!({"uri": "strange:x"});
            if client == Era::Legacy {
                assert_eq!(talker.request("resources/subscribe", unsubscribable).error_code(), -32002);
            }
            talker.relay.finish();
        }
    }
}

#[test]
fn lists_are_remembered_and_answered_with_no_source_running() {
    let place = Place::new();
    let mut talker = start(&place, [Era::Legacy, Era::Modern], Era::Legacy);
    check_lists(&mut talker);
    talker.relay.finish();
    let before = ["zeta.journal", "alpha.journal"].map(|name| place.lines(name).len());
    let mut talker = start(&place, [Era::Legacy, Era::Modern], Era::Modern);
    check_lists(&mut talker);
    let after = ["zeta.journal", "alpha.journal"].map(|name| place.lines(name).len());
    assert_eq!(after, before);
    // A read starts the one source that it needs.
    assert_eq!(read(&mut talker, "zeta:one").1, "zeta: zeta:one");
    assert!(place.lines("zeta.journal").len() > before[0]);
    assert_eq!(place.lines("alpha.journal").len(), before[1]);
    talker.relay.finish();
}

#[test]
fn long_lists_come_in_pages_on_both_sides() {
    let place = Place::new();
    let many: Vec<String> = (0..2300).map(|n| format!("many:{n:04}")).collect();
    let source = place.journaled("many", &["--resources", &many.join(","), "--pages", "400"], "");
    let relay = Relay::start_in(&place, "", &[source]);
    let mut talker = Talker::new(relay, Era::Legacy, able());
    let (mut all, mut cursor, mut sizes) = (Vec::new(), None, Vec::new());
    loop {
        let params = cursor.map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
        let reply = talker.request("resources/list", params);
        let page = keys(&reply, "resources", "uri");
        sizes.push(page.len());
        all.extend(page);
        match reply.result().get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    assert_eq!(sizes, [1000, 1000, 300]);
    assert_eq!(all, many);
    assert_eq!(place.journal_count("many.journal", "resources/list"), 6);
    talker.relay.finish();
}

#[test]
fn a_disabled_source_offers_nothing() {
    let place = Place::new();
    let mut sources = two(&place, [Era::Legacy, Era::Legacy]);
    sources[0].push_str("enabled = false\n");
    let mut talker = Talker::new(Relay::start_in(&place, "", &sources), Era::Legacy, able());
    assert_eq!(keys(&talker.request("resources/list", json!({})), "resources", "uri"), ["alpha:two", "doc://same"]);
    assert_eq!(keys(&talker.request("prompts/list", json!({})), "prompts", "name"), ["alpha__greet"]);
    assert_eq!(talker.request("resources/read", json!({"uri": "toolrelay://zeta/zeta:one"})).error_code(), -32002);
    assert_eq!(talker.request("prompts/get", json!({"name": "zeta__greet"})).error_code(), -32602);
    assert_eq!(place.lines("zeta.journal").len(), 0);
    talker.relay.finish();
}

#[test]
fn changed_lists_are_told_of_to_whom_they_concern() {
    for source in ERAS {
        for client in ERAS {
            let place = Place::new();
            let mut talker = start(&place, [source, source], client);
            for list in ["tools/list", "prompts/list", "resources/list"] {
                talker.request(list, json!({})).result();
            }
            let before = talker.relay.noticed("notifications/tools/list_changed");
            if client == Era::Modern {
                let wanted = json!({"promptsListChanged": true, "resourcesListChanged": true});
                talker.ask("subscriptions/listen", json!({"notifications": wanted}));
            }
            let calls = [
                ("prompt", "new", "notifications/prompts/list_changed", "prompts/list", "zeta__new"),
                ("resource", "new:one", "notifications/resources/list_changed", "resources/list", "new:one"),
            ];
            for (member, key, told, list, shown) in calls {
                let before = talker.relay.noticed(told);
                talker.request("tools/call", json!({"name": "zeta__offer", "arguments": {member: key}})).result();
                let quoted = format!("\"{told}\"");
                talker.relay.await_notices(told, |all| {
                    all.iter().filter(|one| one.raw("method") == Some(&quoted)).count() > before
                });
                assert!(
                    talker.request(list, json!({})).line.contains(&format!("\"{shown}\"")),
                    "{source:?} {client:?}"
                );
            }
            assert_eq!(talker.relay.noticed("notifications/tools/list_changed"), before);
            talker.relay.close_stdin();
            talker.relay.ended();
        }
    }
}

/// The first revision has completions, and no capability that says so.
#[test]
fn sources_of_the_first_revision_complete() {
    let place = Place::new();
    let flags = ["--prompts", "greet", "--version", "2024-11-05"];
    let relay = Relay::start_in(&place, "", &[place.journaled("old", &flags, "")]);
    let mut talker = Talker::new(relay, Era::Legacy, json!({}));
    assert_eq!(keys(&talker.request("prompts/list", json!({})), "prompts", "name"), ["old__greet"]);
    let about = json!({"type": "ref/prompt", "name": "old__greet"});
    let asked = json!({"ref": about, "argument": {"name": "who", "value": "x"}});
    let told = talker.request("completion/complete", asked).result();
    assert!(told["completion"]["values"][0].is_string(), "{told}");
    assert_eq!(place.journal_count("old.journal", "completion/complete"), 1);
    talker.relay.finish();
}

/// Where two sources have a resource of one URI, a link of the second leads to its own.
#[test]
fn links_lead_to_the_source_that_gave_them() {
    let place = Place::new();
    let link = |uri: &str| json!({"type": "resource_link", "uri": uri, "name": "n", "x": 1});
    let file =
        place.write("links.json", json!({"content": [link("doc://same"), link("zeta:one")], "y": 1e3}).to_string());
    for client in ERAS {
        let mut talker = start(&place, [Era::Legacy, Era::Modern], client);
        talker.request("resources/list", json!({})).result();
        for (source, shown) in [("alpha", "doc://same"), ("zeta", "toolrelay://zeta/doc://same")] {
            let call = json!({"name": format!("{source}__raw"), "arguments": {"result_file": file}});
            let result = talker.request("tools/call", call).result();
            assert_eq!((&result["content"][0], &result["y"]), (&link(shown), &json!(1e3)), "{source}");
            let uri = result["content"][1]["uri"].as_str().unwrap().to_owned();
            assert_eq!(uri, if source == "zeta" { "zeta:one" } else { "toolrelay://alpha/zeta:one" });
            assert_eq!(read(&mut talker, shown), (shown.to_owned(), format!("{source}: doc://same")));
        }
        talker.relay.finish();
    }
}

/// One that a template gives which both have led to the first.
#[test]
fn links_into_a_template_lead_to_the_source_that_gave_them() {
    let place = Place::new();
    let link = |uri: &str| json!({"type": "resource_link", "uri": uri, "name": "n"});
    let uris = ["t://x/1", "web://y", "none:z"];
    let file = place.write("links.json", json!({"content": uris.map(link)}).to_string());
    let tables = [
        place.journaled("one", &["--templates", "t://{x}/{y},web://{z}"], ""),
        place.journaled("two", &["--templates", "t://{x}/{y}"], ""),
    ];
    let mut relay = Relay::greeted_in(&place, "", &tables);
    relay.await_status("one", "ready");
    for (source, shown) in [("one", uris), ("two", ["toolrelay://two/t://x/1", "web://y", "none:z"])] {
        relay.await_status(source, "ready");
        let result = relay.call(source, "raw", json!({"result_file": file})).result();
        assert_eq!(result["content"], json!(shown.map(link)), "{source}");
        let read = relay.request("resources/read", json!({"uri": shown[0]})).result();
        assert_eq!(read["contents"][0]["text"], format!("{source}: t://x/1"), "{read}");
    }
    relay.finish();
}

/// The links of a prompt were left as they are, and led to the other source's resource.
#[test]
fn links_in_prompts_lead_to_the_source_that_gave_them() {
    let place = Place::new();
    let message = |uri: &str| {
        let link = json!({"type": "resource_link", "uri": uri, "name": "n"});
        [
            json!({"role": "user", "content": {"type": "text", "text": "Read:"}}),
            json!({"role": "user", "content": link}),
        ]
    };
    let result = json!({"messages": message("x:same")});
    let got = place.write("got", format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{result}}}"));
    let reply = format!("prompts/get={got}");
    let flags = ["--resources", "x:same", "--prompts", "p", "--reply", &reply];
    let tables = [place.journaled("one", &flags, ""), place.journaled("two", &flags, "")];
    let mut relay = Relay::greeted_in(&place, "", &tables);
    for (source, uri) in [("one", "x:same"), ("two", "toolrelay://two/x:same")] {
        relay.await_status(source, "ready");
        let got = relay.request("prompts/get", json!({"name": format!("{source}__p")})).result();
        assert_eq!(got["messages"], json!(message(uri)), "{source}");
    }
    relay.finish();
}

/// A client that has read one list has not read the other, however soon after a change it was.
#[test]
fn reading_one_list_hides_no_change_of_another() {
    let place = Place::new();
    let mut talker = start(&place, [Era::Legacy, Era::Legacy], Era::Legacy);
    for list in ["prompts/list", "resources/list"] {
        talker.request(list, json!({})).result();
    }
    let offer = |member: &str, key: &str| json!({"name": "zeta__offer", "arguments": {member: key}});
    // What comes soon after a notification is held back for a while; in that while the client reads.
    talker.request("tools/call", offer("prompt", "new")).result();
    talker.relay.await_notices("prompts", |all| all.iter().any(|one| one.line.contains("prompts/list_changed")));
    talker.request("tools/call", offer("resource", "new:one")).result();
    eventually("the change has come", || {
        talker.request("prompts/list", json!({})).result();
        talker.request("resources/read", json!({"uri": "new:one"})).raw("error").is_none()
    });
    talker.request("prompts/list", json!({})).result();
    talker.relay.await_notices("resources", |all| all.iter().any(|one| one.line.contains("resources/list_changed")));
    talker.relay.finish();
}

/// What a source speaks of in a result can be read of it, listed or not.
#[test]
fn what_a_source_speaks_of_can_be_read_of_it() {
    let place = Place::new();
    let link = json!({"content": [
        {"type": "resource_link", "uri": "unseen:doc", "name": "n"}, {"type": "resource_link", "uri": "doc://spoken", "name": "n"},
    ]});
    let file = place.write("link.json", link.to_string());
    let mut talker = start(&place, [Era::Legacy, Era::Modern], Era::Modern);
    for uri in ["unseen:doc", "doc://spoken"] {
        assert_eq!(talker.request("resources/read", json!({"uri": uri})).error_code(), -32602);
    }
    let call = json!({"name": "zeta__raw", "arguments": {"result_file": file}});
    assert_eq!(talker.request("tools/call", call).result()["content"], link["content"]);
    for uri in ["unseen:doc", "doc://spoken"] {
        assert_eq!(read(&mut talker, uri), (uri.to_owned(), format!("zeta: {uri}")));
    }
    talker.relay.finish();
}

/// What strict clients would refuse, or wait for in vain, gets a legal shape; what is in order passes byte for byte.
#[test]
fn what_is_got_and_read_has_a_legal_shape() {
    let place = Place::new();
    let (got, read) = (place.path("got"), place.path("read"));
    let replies = [format!("prompts/get={got}"), format!("resources/read={read}")];
    let flags = ["--prompts", "p", "--resources", "x:1", "--reply", &replies[0], "--reply", &replies[1]];
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("fix", &flags, "")]);
    relay.await_status("fix", "ready");
    let mut check = |method: &str, params: Value, file: &str, result: &str, want: &str| {
        place.write(file, format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{result}}}"));
        let reply = relay.request(method, params);
        assert_eq!(reply.raw("result"), Some(want), "{method} {result}");
    };
    let says = |text: &str| format!("{{\"role\":\"user\",\"content\":{{\"type\":\"text\",\"text\":\"{text}\"}}}}");
    let whole = format!("{{ \"x\":null, \"messages\":[ {} ]}}", says("a"));
    for (result, messages) in [
        ("null", String::new()),
        ("[]", String::new()),
        ("{}", String::new()),
        ("\"x\"", says("x")),
        (r#"{"messages":"hello","description":null}"#, says("hello")),
        (r#"{"messages":[{"role":"user","content":"hi"}]}"#, says("hi")),
        (r#"{"messages":[{"role":"user","content":["a","b"]}]}"#, format!("{},{}", says("a"), says("b"))),
    ] {
        let want = format!("{{\"messages\":[{messages}]}}");
        check("prompts/get", json!({"name": "fix__p"}), "got", result, &want);
    }
    check("prompts/get", json!({"name": "fix__p"}), "got", &whole, &whole);
    let whole = r#"{"contents":[ {"uri":"x:2", "blob":"aGk=","y":null} ] }"#;
    for (result, want) in [
        ("null", r#"{"contents":[]}"#),
        (r#"{"contents":null}"#, r#"{"contents":[]}"#),
        (r#"{"contents":{"uri":"x:1","text":"t"}}"#, r#"{"contents":[{"uri":"x:1","text":"t"}]}"#),
        (r#"{"contents":["t"]}"#, r#"{"contents":[{"uri":"x:1","text":"t"}]}"#),
        (r#"{"contents":[{"uri":"x:1","mimeType":null,"text":"t"}]}"#, r#"{"contents":[{"uri":"x:1","text":"t"}]}"#),
        (whole, whole),
    ] {
        check("resources/read", json!({"uri": "x:1"}), "read", result, want);
    }
    relay.finish();
}

#[test]
fn legacy_sources_send_the_log_lines_that_anybody_wants() {
    let place = Place::new();
    let mut talker = start(&place, [Era::Legacy, Era::Modern], Era::Legacy);
    talker.request("resources/list", json!({})).result();
    let levels = |place: &Place, id: &str| {
        let lines = place.lines(&format!("{id}.journal")).into_iter().filter(|line| line.contains("logging/setLevel"));
        let level = |line: String| serde_json::from_str::<Value>(&line).unwrap()["params"]["level"].clone();
        lines.map(level).collect::<Vec<_>>()
    };
    assert_eq!(levels(&place, "zeta"), [Value::Null; 0]);
    talker.request("logging/setLevel", json!({"level": "error"})).result();
    eventually("the source is told", || levels(&place, "zeta") == ["error"]);
    talker.request("logging/setLevel", json!({"level": "error"})).result();
    talker.request("logging/setLevel", json!({"level": "debug"})).result();
    eventually("the source is told", || levels(&place, "zeta") == ["error", "debug"]);
    // One that starts again is told at its start.
    talker.request("tools/call", json!({"name": "zeta__die", "arguments": {"code": 1}})).result();
    assert_eq!(read(&mut talker, "zeta:one").1, "zeta: zeta:one");
    assert_eq!(levels(&place, "zeta"), ["error", "debug", "debug"]);
    assert_eq!(levels(&place, "alpha"), [Value::Null; 0]);
    talker.relay.finish();
}

/// MCP Apps (SEP-1865): tools for views alone, and the views themselves.
#[test]
fn tools_of_apps_are_kept_from_models_and_can_be_called() {
    let place = Place::new();
    let both = json!({"ui": {"resourceUri": "ui://clock/view", "visibility": ["model", "app"], "csp": {"x": [1e3]}}});
    let tools = json!([
        {"name": "clock_show", "description": "Shows the clock.", "inputSchema": {"type": "object"}, "_meta": both},
        {"name": "clock_refresh", "description": "Refreshes the clock.", "inputSchema": {"type": "object"},
         "_meta": {"ui": {"resourceUri": "ui://clock/view", "visibility": ["app"]}, "ui/resourceUri": "ui://clock/view"}},
    ]);
    let file = place.write("tools.json", tools.to_string());
    let flags = ["--tools-json", &file, "--resources", "clock:time"];
    let relay = Relay::start_in(&place, "", &[place.journaled("clock", &flags, "prefix = \"\"")]);
    let mut talker = Talker::new(relay, Era::Legacy, able());
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    for arguments in
        [json!({"query": "refresh the clock"}), json!({"source": "clock"}), json!({"query": "clock_refresh"})]
    {
        let found = talker.request("tools/call", call("find_tools", arguments));
        assert!(found.line.contains("clock_show") && !found.line.contains("clock_refresh"), "{}", found.line);
    }
    let opened = talker.request("tools/call", call("enable_toolset", json!({"toolset": "clock"})));
    assert!(opened.line.contains("clock_show") && !opened.line.contains("clock_refresh"), "{}", opened.line);
    // The host finds it where it looks for it, unchanged, and keeps it from the model itself.
    let listed = talker.relay.list();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    for tool in tools.as_array().unwrap() {
        let shown = listed["tools"].as_array().unwrap().iter().find(|shown| shown["name"] == tool["name"]);
        assert_eq!(shown.unwrap()["_meta"], tool["_meta"]);
    }
    for called in [
        call("clock_refresh", json!({"a": 1})),
        call("call_tool", json!({"source": "clock", "tool": "clock_refresh", "arguments": {"a": 1}})),
    ] {
        assert_eq!(talker.request("tools/call", called).structured(), json!({"a": 1}));
    }
    assert_eq!(read(&mut talker, "ui://clock/view").1, "clock: ui://clock/view");
    talker.relay.finish();
}
