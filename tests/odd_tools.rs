//! A source whose tools are odd in every way that clients check, behind the relay, with real clients in front of it: each
//! tool is listed, for one that is not would be the end of the whole list.

#![allow(clippy::unwrap_used)]

#[path = "support/peer.rs"]
mod peer;
#[path = "support/relay.rs"]
mod support;

use peer::{CLIENTS, client, names};
use serde_json::{Value, json};
use support::{Place, Relay, eventually, source};

/// Those that clients list, and would not call: their schemas are compiled then.
const UNCALLED: &[&str] = &[
    r#""outputSchema":{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}}}"#,
    r#""outputSchema":{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}"#,
    r#""outputSchema":{"$schema":"http://nowhere/x","type":"object"}"#,
    r#""outputSchema":{"type":"object","properties":{"b":{"$ref":"http://json-schema.org/draft-07/schema#"}}}"#,
    r#""outputSchema":{"type":"object","dependentRequired":{"a":"b"}}"#,
];

/// What each odd tool has beside its name and, unless it is given, an input schema.
const ODD: &[&str] = &[
    r#""description":7"#,
    r#""description":null"#,
    r#""title":5"#,
    r#""title":null"#,
    r#""annotations":[]"#,
    r#""annotations":null"#,
    r#""annotations":{"readOnlyHint":"yes"}"#,
    r#""annotations":{"title":5,"destructiveHint":null,"idempotentHint":1,"openWorldHint":"no"}"#,
    r#""_meta":5"#,
    r#""_meta":null"#,
    r#""icons":"x""#,
    r#""icons":null"#,
    r#""icons":[{"src":5}]"#,
    r#""icons":[{"src":"a","sizes":"48x48"}]"#,
    r#""icons":[{"src":"a","theme":"blue"}]"#,
    r#""execution":{"taskSupport":"maybe"}"#,
    r#""execution":"now""#,
    r#""execution":null"#,
    r#""inputSchema":{"type":"object","properties":{"a":5}}"#,
    r#""inputSchema":{"type":"object","properties":{"a":null,"b":true,"c":false,"d":[]}}"#,
    r#""inputSchema":{"type":"object","properties":{},"required":["a",5]}"#,
    r#""inputSchema":{"type":"object","properties":{},"required":"a""#,
    r#""inputSchema":null"#,
    r#""outputSchema":null"#,
    r#""outputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}"#,
    r#""outputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"(?i)x"}}}"#,
    r#""outputSchema":{"type":"object","patternProperties":{"[":{}}}"#,
    r#""outputSchema":{"type":"object","properties":{"a":true}}"#,
    r#""outputSchema":{"type":"object","properties":{"a":5}}"#,
    r#""outputSchema":{"type":"object","required":"a"}"#,
    r#""outputSchema":{"type":"object","required":["a",5]}"#,
    r#""outputSchema":{"type":"object","properties":{"a":{"type":"strnig"}}}"#,
    r#""outputSchema":{"type":"object","properties":{"a":{"exclusiveMinimum":true}}}"#,
    r#""outputSchema":{"type":"object","anyOf":{}}"#,
    r##""outputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}"##,
    r#""outputSchema":{"type":"object","properties":{"a":{"$ref":"other.json"}}}"#,
    r##""outputSchema":{"type":"object","properties":{"a":{"nullable":true,"allOf":[{"$ref":"#/$defs/A"}]}},"$defs":{"A":{}}}"##,
    r#""outputSchema":{"type":"object","properties":{"a":{"nullable":"yes","type":"string"}}}"#,
    r#""outputSchema":{"id":"http://example.org/result","type":"object","properties":{}}"#,
    r##""outputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}"##,
    r##""outputSchema":{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}"##,
    r##""outputSchema":{"type":"object","properties":{"a":{"$id":"http://x/sub","properties":{"q":{"$ref":"#/$defs/A"}}}},"$defs":{"A":{}}}"##,
    r#""outputSchema":{"type":"object","dependencies":{"a":{"type":"any"}}}"#,
    r#""outputSchema":{"type":"object","dependencies":[]}"#,
    r#""outputSchema":{"type":"object","properties":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}"#,
    r##""outputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/100%"}},"$defs":{"100%":{}}}"##,
    r##""outputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/C#"}},"$defs":{"C#":{}}}"##,
    r#""outputSchema":{"type":"object","$id":5}"#,
    r#""outputSchema":{"type":"object","properties":{"a":{"$anchor":"9 x"}}}"#,
    r##""outputSchema":{"type":"object","$id":"#foo","properties":{"a":{"$ref":"#foo"}}}"##,
    r#""outputSchema":{"type":"object","properties":{"a":{"format":"date","formatMinimum":5}}}"#,
    r#""outputSchema":{"type":"object","$id":"Result","properties":{"a":{"type":"string"}}}"#,
    r#""outputSchema":{"type":"object","$id":"Result","properties":{"a":{"type":"number"}}}"#,
    r#""outputSchema":{"type":"object","properties":{"a":{"$id":"Result"}}}"#,
];

fn odd_tools() -> (String, usize) {
    let tools: Vec<_> = (0..)
        .zip(ODD.iter().chain(UNCALLED))
        .map(|(n, odd)| {
            let closed = odd.matches('{').count() - odd.matches('}').count();
            let schema = if odd.contains("inputSchema") { "" } else { r#","inputSchema":{"type":"object"}"# };
            format!("{{\"name\":\"odd_{n}\",{odd}{}{schema}}}", "}".repeat(closed))
        })
        .collect();
    let good = (0..5).map(|n| {
        format!(r#"{{"name":"good_{n}","inputSchema":{{"type":"object"}},"outputSchema":{{"type":"object","properties":{{"a":{{"pattern":"^a$"}}}}}}}}"#)
    });
    let tools: Vec<_> = tools.into_iter().chain(good).collect();
    (format!("[{}]", tools.join(",")), tools.len())
}

#[test]
fn no_odd_tool_costs_a_real_client_the_list() {
    let place = Place::new();
    let (tools, count) = odd_tools();
    let file = place.write("tools.json", tools);
    let sources = [source("odd", &["--tools-json", &file], "")];
    let eager = "exposure = \"eager\"";
    // The list is learnt once, so that every client has it from the start.
    let mut relay = Relay::greeted_in(&place, eager, &sources);
    eventually("all are listed", || relay.names().len() == count + 3);
    // Nor does it cost the relay's own replies anything.
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "odd", "detail": "full"})).structured();
    assert_eq!(opened["tools"].as_array().unwrap().len(), count);
    let (mut found, mut cursor) = (0, Value::Null);
    while found < count {
        let page = json!({"detail": "full", "limit": 50, "cursor": cursor});
        let page = relay.call_direct("find_tools", page).structured();
        found += page["matches"].as_array().unwrap().len();
        cursor = page["nextCursor"].clone();
        assert!(found == count || cursor.is_string(), "{found} of {count}");
    }
    relay.finish();
    let config = place.config(eager, &sources);
    let calls =
        json!([{"name": "odd__odd_0", "arguments": {"a": "1"}}, {"name": "odd__odd_25", "arguments": {"a": "x"}}]);
    let uncalled =
        (0..UNCALLED.len()).map(|n| json!({"name": format!("odd__odd_{}", ODD.len() + n), "arguments": {"a": ["x"]}}));
    let calls: Value = calls.as_array().unwrap().iter().cloned().chain(uncalled).collect();
    for (script, mode, protocol) in CLIENTS {
        let seen = client(script, mode, &peer::relay(&config), &[], &calls);
        for n in 0..UNCALLED.len() {
            assert_eq!(seen["results"][2 + n]["structuredContent"], json!({"a": ["x"]}), "{script} {mode} {n}: {seen}");
        }
        assert_eq!(seen["protocol"], *protocol, "{script} {mode}: {seen}");
        assert_eq!(names(&seen["tools"]).len(), count + 3, "{script} {mode}: {seen}");
        assert_eq!(seen["results"][0]["structuredContent"], json!({"a": "1"}), "{script} {mode}: {seen}");
        assert_eq!(seen["results"][1]["structuredContent"], json!({"a": "x"}), "{script} {mode}: {seen}");
    }
}

/// Programs that cut a text within an emoji write half of it. The words around it are shown and found all the same.
#[test]
fn half_a_character_hides_no_text() {
    let place = Place::new();
    let cut = r#""description":"Translates invoices \ud83d""#;
    let title = r#""annotations":{"title":"Weather \udc00 map"}"#;
    let inner =
        r#""inputSchema":{"type":"object","properties":{"x":{"type":"string","description":"Barometer \ud83d"}}}"#;
    let tools = format!(
        r#"[{{"name":"one",{cut},"inputSchema":{{"type":"object"}}}},{{"name":"two",{title},{inner}}},{{"name":"three","inputSchema":{{"type":"object"}}}}]"#
    );
    let file = place.write("tools.json", &tools);
    let mut relay = Relay::greeted_in(&place, "exposure = \"eager\"", &[source("a", &["--tools-json", &file], "")]);
    let opened = relay.call_direct("enable_toolset", json!({"toolset": "a"})).structured();
    assert_eq!(opened["tools"][0]["description"], "Translates invoices \u{fffd}", "{opened}");
    let described: Vec<_> = opened["tools"].as_array().unwrap().iter().map(|tool| &tool["description"]).collect();
    assert!(described.iter().any(|text| *text == "Weather \u{fffd} map"), "{opened}");
    for (query, tool) in [("invoices", "one"), ("weather", "two"), ("barometer", "two")] {
        let found = relay.call_direct("find_tools", json!({"query": query})).structured();
        assert_eq!(found["matches"][0]["tool"], tool, "{query}: {found}");
    }
    // In a query it is searched for with the rest; in a name it stands for nothing.
    let id = relay.ask_raw("tools/call", r#"{"name":"find_tools","arguments":{"query":"invoices \ud83d"}}"#);
    assert_eq!(relay.answer(&id).structured()["matches"][0]["tool"], "one");
    let id = relay.ask_raw("tools/call", r#"{"name":"find_tools","arguments":{"source":"a\ud83d"}}"#);
    let (kind, text) = relay.answer(&id).failure();
    assert!(kind == "invalid_arguments" && text.contains("`source` is to be a string of whole characters"), "{text}");
    // Strict clients drop a list with such a text; what stands within a schema is the source's own, and stays.
    let list = relay.list();
    for shown in ["Translates invoices \u{fffd}", "Weather \u{fffd} map", r"Barometer \ud83d"] {
        assert!(list.contains(shown), "{list}");
    }
    relay.finish();
}
