//! What may be called, on every path and in every spelling; what cannot be called is told why, and no source hears of it.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;

use serde_json::{Value, json};
use support::{Place, Relay, source};

/// The tools that a source was called for.
fn called(place: &Place, id: &str) -> Vec<String> {
    let lines = place.lines(&format!("{id}.journal"));
    let messages = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls = messages.filter(|message| message["method"] == "tools/call");
    calls.map(|call| call["params"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn withheld_tools_are_withheld_on_every_path() {
    let tools = ["--tools", "delete_all,get_one,report,secret_key"];
    let place = Place::new();
    let sources = [
        place.journaled("denied", &tools, "deny = [\"delete_*\"]"),
        place.journaled("picked", &tools, "allow = [\"get_*\"]"),
        place.journaled("readonly", &tools, "read_only = true"),
    ];
    let mut relay = Relay::greeted_in(&place, "exposure = \"eager\"", &sources);
    let list = relay.list();
    for (source, tool, why) in [
        ("denied", "delete_all", "deny = ["),
        ("picked", "delete_all", "allow"),
        ("picked", "echo", "allow"),
        ("readonly", "delete_all", "a write tool"),
        ("readonly", "report", "a write tool"),
        ("readonly", "die", "a write tool"),
    ] {
        let direct = format!("{source}__{tool}");
        assert!(!list.contains(&format!("\"{direct}\"")), "{direct}");
        let escaped = tool.replacen('e', "\\u0065", 1);
        for spelled in [
            format!(r#"{{"source":"{source}","tool":"{tool}"}}"#),
            format!(r#"{{"source":"{source}","tool":"{escaped}","arguments":{{}}}}"#),
            format!(r#"{{"source":"{source}","tool":"{source}/{tool}"}}"#),
            format!(r#"{{"source":"{source}","tool":"{direct}"}}"#),
            format!(r#"{{"source":"{source}","tool":" {tool} "}}"#),
            format!(r#"{{"source":" {source}","tool":"{source}:{tool}"}}"#),
            format!(r#"{{"tool":"{source}/{tool}"}}"#),
            format!(r#"{{"tool":"{direct}","source":null}}"#),
            format!(r#""{{\"source\":\"{source}\",\"tool\":\"{tool}\"}}""#),
        ] {
            let id = relay.ask_raw("tools/call", &format!(r#"{{"name":"call_tool","arguments":{spelled}}}"#));
            let (kind, text) = relay.answer(&id).failure();
            assert_eq!(kind, "withheld", "{spelled}: {text}");
            assert!(text.contains(why), "{spelled}: {text}");
        }
        for spelled in [direct.clone(), direct.replacen('e', "\\u0065", 1)] {
            let id = relay.ask_raw("tools/call", &format!(r#"{{"name":"{spelled}","arguments":{{}}}}"#));
            let (kind, text) = relay.answer(&id).failure();
            assert!(kind == "withheld" && text.contains(why), "{spelled}: {text}");
        }
        // Read by somebody else in another way, these could mean it: they mean nothing here.
        for spelled in
            [tool.to_uppercase(), format!("../{source}/{tool}"), format!("{tool}\\u0000"), format!("{source}//{tool}")]
        {
            let id = relay.ask_raw(
                "tools/call",
                &format!(r#"{{"name":"call_tool","arguments":{{"source":"{source}","tool":"{spelled}"}}}}"#),
            );
            assert_eq!(relay.answer(&id).failure().0, "unknown_tool", "{spelled}");
        }
        let opened = relay.call_direct("enable_toolset", json!({"toolset": source})).structured();
        assert!(opened["withheld"].to_string().contains(&format!("\"tool\":\"{tool}\"")), "{opened}");
        assert!(opened["tools"].as_array().unwrap().iter().all(|line| line["tool"] != tool));
        let found =
            relay.call_direct("find_tools", json!({"query": tool.replace('_', " "), "source": source})).structured();
        assert!(found["matches"].as_array().unwrap().iter().all(|line| line["tool"] != tool), "{found}");
        assert!(found["withheld"].to_string().contains(tool), "{found}");
        assert!(relay.status(source)["withheld"].as_u64() > Some(0));
    }
    // A repeated or differently written member could be read in two ways.
    for params in [
        r#"{"name":"denied__echo","name":"denied__delete_all"}"#,
        r#"{"name":"denied__echo","Name":"denied__delete_all"}"#,
        r#"{"name":"denied__echo","arguments":{},"arguments":{"x":1}}"#,
        r#"{"name":"denied__echo","arguments":[]}"#,
        r#"{"name":7}"#,
        "[]",
    ] {
        let id = relay.ask_raw("tools/call", params);
        assert_eq!(relay.answer(&id).error_code(), -32602, "{params}");
    }
    for inner in [
        r#"{"source":"denied","tool":"echo","tool":"delete_all"}"#,
        r#"{"source":"denied","tool":"echo","Tool":"delete_all"}"#,
    ] {
        let id = relay.ask_raw("tools/call", &format!(r#"{{"name":"call_tool","arguments":{inner}}}"#));
        assert_eq!(relay.answer(&id).failure().0, "invalid_arguments", "{inner}");
    }
    assert_eq!(relay.call("picked", "get_one", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(called(&place, "denied"), [""; 0]);
    assert_eq!(called(&place, "readonly"), [""; 0]);
    assert_eq!(called(&place, "picked"), ["get_one"]);
    relay.finish();
}

#[test]
fn overrides_of_single_tools_hold() {
    let place = Place::new();
    let settings = "read_only = true\n\
        tool.delete_all = { read_only = true, description = \"Deletes nothing.\" }\n\
        tool.get_one = { read_only = false }\n\
        tool.get_key = { hidden = true }";
    let fix = place.journaled("fix", &["--tools", "delete_all,get_one,get_key"], settings);
    let mut relay = Relay::greeted_in(&place, "exposure = \"eager\"", &[fix]);
    let list = relay.list();
    assert!(list.contains(r#""name":"fix__delete_all","description":"Deletes nothing.""#), "{list}");
    assert_eq!(relay.call_direct("fix__delete_all", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(relay.call("fix", "get_one", json!({})).failure().0, "withheld");
    // Hidden: shown nowhere, called as ever.
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "fix"})).text();
    let found = relay.call_direct("find_tools", json!({"query": "get key"})).text();
    let all = relay.call_direct("find_tools", json!({"limit": 50, "detail": "brief"})).text();
    let named =
        relay.call_direct("find_tools", json!({"tools": ["fix/get_key", "get_key", "fix__get_key"]})).structured();
    let similar = relay.call("fix", "get_keys", json!({})).text();
    for text in [&list, &opened, &found, &all, &named["matches"].to_string(), &similar] {
        assert!(!text.contains("get_key\""), "{text}");
    }
    assert_eq!(relay.call("fix", "get_key", json!({"k": 1})).structured(), json!({"k": 1}));
    assert_eq!(relay.call_direct("fix__get_key", json!({"k": 2})).structured(), json!({"k": 2}));
    assert_eq!(called(&place, "fix"), ["delete_all", "get_key", "get_key"]);
    relay.finish();
}

#[test]
fn unlisted_tools_are_refused_or_forwarded() {
    let place = Place::new();
    let flags = ["--unlisted", "quiet,delete_quietly"];
    let forward = "unlisted = \"forward\"\ndeny = [\"delete_*\"]";
    let strict = "unlisted = \"forward\"\nread_only = true";
    let sources = [
        place.journaled("refuse", &flags, ""),
        place.journaled("forward", &flags, forward),
        place.journaled("strict", &flags, strict),
    ];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    let (kind, text) = relay.call("refuse", "quiet", json!({})).failure();
    assert!(kind == "unknown_tool" && text.contains("source `refuse` has no tool `quiet`"), "{text}");
    assert_eq!(relay.call("forward", "quiet", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(relay.call("forward", "delete_quietly", json!({})).failure().0, "withheld");
    // A source may take a name in another letter case than the one that is denied.
    assert_eq!(relay.call("forward", "Delete_Quietly", json!({})).failure().0, "withheld");
    assert_eq!(relay.call_direct("forward__DELETE_quietly", json!({})).failure().0, "withheld");
    assert_eq!(relay.call("strict", "quiet", json!({})).failure().0, "withheld");
    // What the source itself does not know is its own to say.
    assert!(relay.call("forward", "nonsense", json!({})).text().contains("unknown tool `nonsense`"));
    // The source's own name in front is none of the tool's, and hides none that is denied.
    for (name, n) in [("forward/quiet", 1), ("forward__quiet", 2), ("forward:quiet", 3), ("forward.quiet", 4)] {
        assert_eq!(relay.call("forward", name, json!({"n": n})).structured(), json!({"n": n}));
        let alone = relay.call_direct("call_tool", json!({"tool": name, "arguments": {"n": n}}));
        assert_eq!(alone.structured(), json!({"n": n}), "{name}");
    }
    for name in
        ["forward/delete_quietly", "forward__delete_quietly", "forward:delete_quietly", "forward.delete_quietly"]
    {
        assert_eq!(relay.call("forward", name, json!({})).failure().0, "withheld");
    }
    assert_eq!(called(&place, "refuse"), [""; 0]);
    assert_eq!(called(&place, "strict"), [""; 0]);
    let mut want = vec!["quiet"; 10];
    want[1] = "nonsense";
    assert_eq!(called(&place, "forward"), want);
    relay.finish();
}

/// What a tool itself takes was sent as all of its arguments, where its schema says so in other places than `properties`.
#[test]
fn the_dispatcher_takes_no_argument_of_a_tool_for_all_of_them() {
    let place = Place::new();
    let inner = r#"{"type":"object","properties":{"params":{"type":"object"}}}"#;
    let more = [
        format!(r##""$ref":"#/$defs/X","$defs":{{"X":{inner}}}"##),
        format!(r#""allOf":[{inner}]"#),
        format!(r#""anyOf":[{inner},{{}}]"#),
        format!(r#""oneOf":[{inner},{{"not":{{}}}}]"#),
        format!(r#""if":{{}},"then":{inner}"#),
        format!(r#""dependentSchemas":{{"a":{inner}}}"#),
        r#""patternProperties":{"^p":{}}"#.to_owned(),
        r#""required":["params"]"#.to_owned(),
        r#""properties":{"q":{},"params":{}}"#.to_owned(),
        r#""properties":{"q":{}},"required":["q"]"#.to_owned(),
    ];
    let tools: Vec<_> = (0..)
        .zip(&more)
        .map(|(n, more)| format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object",{more}}}}}"#))
        .collect();
    let file = place.write("tools.json", format!("[{}]", tools.join(",")));
    let mut relay = Relay::greeted_in(&place, "", &[place.journaled("one", &["--tools-json", &file], "")]);
    relay.call("one", "t9", json!({"q": 1})).structured();
    for (n, more) in more.iter().enumerate() {
        let reply =
            relay.call_direct("call_tool", json!({"source": "one", "tool": format!("t{n}"), "params": {"q": 1}}));
        if n == 9 {
            assert_eq!(reply.structured(), json!({"q": 1}));
            continue;
        }
        let (kind, text) = reply.failure();
        assert_eq!(kind, "invalid_arguments", "{more}");
        assert!(text.contains("`params` does not belong here"), "{more}: {text}");
    }
    assert_eq!(called(&place, "one").len(), 2);
    relay.finish();
}

#[test]
fn the_dispatcher_takes_what_models_send() {
    let place = Place::new();
    let sources = [
        place.journaled("one", &["--tools", "mine,both"], "name = \"The One\""),
        place.journaled("two", &["--tools", "both"], ""),
    ];
    let mut relay = Relay::greeted_in(&place, "exposure = \"eager\"", &sources);
    relay.list();
    for (inner, want) in [
        (r#"{"source":"one","tool":"mine","arguments":{"a":1}}"#, r#"{"a":1}"#),
        (r#"{"source":"one","tool":"mine"}"#, "{}"),
        (r#"{"source":"one","tool":"mine","arguments":null}"#, "{}"),
        (r#"{"source":"one","tool":"mine","arguments":""}"#, "{}"),
        (r#"{"source":"one","tool":"mine","arguments":"{\"a\": 1e30}"}"#, r#"{"a": 1e30}"#),
        (r#"{"source":"one","tool":"one/mine","arguments":{}}"#, "{}"),
        (r#"{"tool":"one/mine","arguments":{"b":"é"}}"#, r#"{"b":"é"}"#),
        (r#"{"tool":"one__mine"}"#, "{}"),
        (r#"{"tool":"mine"}"#, "{}"),
        (r#"{"source":"one","tool":" mine\n"}"#, "{}"),
        (r#"{"name":"one__mine","arguments":{"a":2}}"#, r#"{"a":2}"#),
        (r#"{"server":"one","tool":"mine","args":{"a":3}}"#, r#"{"a":3}"#),
        (r#"{"source":"the one","tool":"mine","params":"{\"a\":4}"}"#, r#"{"a":4}"#),
        (r#""{\"source\":\"one\",\"tool\":\"mine\",\"arguments\":{\"c\":3}}""#, r#"{"c":3}"#),
    ] {
        let id = relay.ask_raw("tools/call", &format!(r#"{{"name":"call_tool","arguments":{inner}}}"#));
        let reply = relay.answer(&id);
        assert!(reply.line.ends_with(&format!("\"structuredContent\":{want}}}}}")), "{inner}: {}", reply.line);
    }
    let calls = called(&place, "one").len();
    for (inner, kind, told) in [
        (r#"{"source":"one"}"#, "invalid_arguments", "`tool` is missing"),
        (r#"{"source":"one","tool":"mine","arguments":[1]}"#, "invalid_arguments", "no object"),
        (r#"{"source":"one","tool":"mine","arguments":"{oops"}"#, "invalid_arguments", "no JSON object"),
        (r#"{"source":"one","tool":"mine","a":1}"#, "invalid_arguments", "`a` does not belong here"),
        (r#"{"tool":"mine","name":"mine"}"#, "invalid_arguments", "`name` does not belong here"),
        // It is an argument of the tool's own, outside of `arguments`.
        (r#"{"source":"one","tool":"ask","params":{}}"#, "invalid_arguments", "`params` does not belong here"),
        (r#"{"source":"on","tool":"mine"}"#, "unknown_source", "Similar: one"),
        (r#"{"source":"one","tool":"min"}"#, "unknown_tool", "Similar: mine"),
        (r#"{"tool":"both"}"#, "invalid_arguments", "one/both, two/both"),
        (r#"{"tool":"nothing_like_it"}"#, "unknown_tool", "no source has a tool"),
    ] {
        let id = relay.ask_raw("tools/call", &format!(r#"{{"name":"call_tool","arguments":{inner}}}"#));
        let (found, text) = relay.answer(&id).failure();
        assert_eq!(found, kind, "{inner}: {text}");
        assert!(text.contains(told), "{inner}: {text}");
    }
    let nothing = relay.ask_raw("tools/call", r#"{"name":"call_tool"}"#);
    assert_eq!(relay.answer(&nothing).failure().0, "invalid_arguments");
    let wrong = relay.call_direct("one__min", json!({}));
    assert_eq!(wrong.error_code(), -32602);
    assert!(wrong.line.contains("did you mean"), "{}", wrong.line);
    assert_eq!(called(&place, "one").len(), calls);
    assert_eq!(called(&place, "two"), [""; 0]);
    relay.finish();
}

#[test]
fn names_lead_where_they_say() {
    let sources = [
        source("odd", &["--bad-tools"], ""),
        source("bare", &["--bad-tools"], "prefix = \"\""),
        source("a", &["--tools", "b__c"], ""),
        source("a__b", &["--tools", "c,b__c"], ""),
    ];
    let mut relay = Relay::greeted("exposure = \"eager\"", &sources);
    let names = relay.names();
    let unique: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(names.iter().all(|name| (1..=64).contains(&name.len())), "{names:?}");
    // A source's own `call_tool` is a tool like any other; the bare name stays the relay's.
    assert_eq!(relay.call_direct("odd__call_tool", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(relay.call("bare", "call_tool", json!({"b": 2})).structured(), json!({"b": 2}));
    assert_eq!(relay.call_direct("call_tool", json!({"b": 2})).failure().0, "invalid_arguments");
    let long = format!("long_{}", "x".repeat(75));
    assert_eq!(relay.call("odd", &long, json!({"l": 1})).structured(), json!({"l": 1}));
    for id in ["odd", "bare", "a", "a__b"] {
        let opened = relay.call_direct("enable_toolset", json!({"toolset": id})).structured();
        for line in opened["tools"].as_array().unwrap() {
            let (tool, Some(name)) = (line["tool"].as_str().unwrap(), line["name"].as_str()) else { continue };
            assert!(names.iter().any(|shown| shown == name), "{name}");
            if tool.ends_with('c') || tool.starts_with("good") || tool.starts_with("long") || !tool.is_ascii() {
                let mark = json!({"source": id, "tool": tool});
                assert_eq!(relay.call_direct(name, mark.clone()).structured(), mark);
            }
        }
    }
    relay.finish();
}

/// Some readers take names that differ in letter case for one, others the first or the last of two: what such a reader might be told
/// beside what was judged goes to no source.
/// A source named its tool `notes/read`, and was called for what was meant for `notes`.
#[test]
fn no_source_takes_the_calls_of_another() {
    let place = Place::new();
    let taken = ["--tools", "notes/read,notes.read,notes:read,notes__read,notes/gone,own/x"];
    let sources = [place.journaled("a", &taken, ""), place.journaled("notes", &["--tools", "read,notes/read"], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    relay.call("a", "echo", json!({}));
    relay.call("notes", "echo", json!({}));
    for tool in ["notes/read", "notes.read", "notes:read", "notes__read"] {
        relay.call_direct("call_tool", json!({"tool": tool, "arguments": {}})).result();
        let call = json!({"calls": [{"tool": tool, "arguments": {}}]});
        relay.call_direct("batch_call", call).result();
        let loaded = relay.call_direct("load_tools", json!({"tools": [tool]})).structured();
        assert_eq!(loaded["loaded"][0]["source"], "notes", "{loaded}");
    }
    let (kind, text) = relay.call_direct("call_tool", json!({"tool": "notes/gone", "arguments": {}})).failure();
    assert_eq!(kind, "unknown_tool", "{text}");
    assert_eq!(called(&place, "a"), ["echo"]);
    // With its source in front it is meant, and so is what nobody else's id stands in front of.
    relay.call("a", "notes/read", json!({})).result();
    relay.call_direct("call_tool", json!({"tool": "own/x", "arguments": {}})).result();
    assert_eq!(called(&place, "a"), ["echo", "notes/read", "own/x"]);
    relay.finish();
}

#[test]
fn no_second_member_gets_past_the_rules() {
    let place = Place::new();
    let offers =
        ["--tools", "get_x,delete_x", "--prompts", "good,private", "--resources", "file:///open,file:///secret"];
    let rules = "deny = [\"delete_*\", \"private\", \"file:///secret\"]";
    let mut relay = Relay::greeted_in(&place, "exposure = \"eager\"", &[place.journaled("s", &offers, rules)]);
    relay.call("s", "get_x", json!({})).result();
    let before = place.lines("s.journal").len();
    for (more, method, params) in [
        (r#","Params":{"name":"delete_x"}"#, "tools/call", r#"{"name":"s__get_x"}"#),
        (r#","param\u017f":{"name":"delete_x"}"#, "tools/call", r#"{"name":"s__get_x"}"#),
        (r#","METHOD":"tools/call""#, "prompts/get", r#"{"name":"s__good"}"#),
        (r#","ID":1"#, "tools/call", r#"{"name":"s__get_x"}"#),
        ("", "tools/call", r#"{"name":"s__get_x","Name":"delete_x"}"#),
        ("", "resources/read", r#"{"uri":"file:///open","URI":"file:///secret"}"#),
        ("", "resources/read", r#"{"uri":"file:///secret","uri":"file:///open"}"#),
        ("", "prompts/get", r#"{"name":"s__good","Name":"private"}"#),
        ("", "prompts/get", r#"{"name":"s__good","Arguments":{},"arguments":{}}"#),
        ("", "completion/complete", r#"{"ref":{"type":"ref/prompt","name":"s__good"},"Ref":{},"argument":{}}"#),
        ("", "completion/complete", r#"{"ref":{"type":"ref/prompt","name":"s__good","NAME":"private"},"argument":{}}"#),
    ] {
        let id = relay.new_id();
        relay.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}{more}}}"#));
        let reply = relay.answer(&id);
        assert!([-32600, -32602].contains(&reply.error_code()), "{method} {params}{more}: {}", reply.line);
    }
    assert_eq!(place.lines("s.journal").len(), before);
    relay.finish();
}
