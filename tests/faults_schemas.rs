//! Schemas as gateways and clients were reported to break them (class C09), one test an item, with
//! the six standing assertions in each.
//!
//! A04 and A05 with real clients that compile the schemas: `tests/odd_tools.rs`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use serde_json::{Value, json};
use standing::Trial;
use support::{Place, Relay, source};

const EAGER: &str = "exposure = \"eager\"";

/// A relay in front of one source `a` with these tools, each the members beside its name; they are `t0`, `t1`, ..
fn relay(tools: &[&str]) -> (Trial, Value) {
    let place = Place::new();
    let tools: Vec<_> =
        (0..).zip(tools).map(|(n, rest)| format!("{{\"name\":\"t{n}\"{}{rest}}}", comma(rest))).collect();
    let file = place.write("tools.json", format!("[{}]", tools.join(",")));
    let a = place.journaled("a", &["--tools-json", &file], "");
    let mut relay = Trial::start_in(&place, EAGER, &[a]);
    let list = relay.list();
    (relay, serde_json::from_str(&list).unwrap())
}

fn comma(rest: &str) -> &str {
    if rest.is_empty() { "" } else { "," }
}

fn tool(list: &Value, n: usize) -> Option<&Value> {
    list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == format!("a__t{n}"))
}

/// Calls every tool, listed or not, and sees its arguments come back as structured content.
fn call_all(relay: &mut Relay, count: usize) {
    for n in 0..count {
        let mark = json!({"n": n});
        assert_eq!(relay.call("a", &format!("t{n}"), mark.clone()).structured(), mark, "t{n}");
    }
}

#[test]
fn c09_a01_an_odd_root_costs_no_other_tool() {
    let odd = [
        r#""inputSchema":{"anyOf":[{"required":["a"]}]}"#,
        r#""inputSchema":{"oneOf":[{"type":"object"}]}"#,
        r#""inputSchema":{"allOf":[{"type":"object"}]}"#,
        r#""inputSchema":{"type":["object","null"]}"#,
        r#""inputSchema":true"#,
        r#""inputSchema":null"#,
        "",
        r#""inputSchema":{"type":"string"}"#,
    ];
    let good = [r#""inputSchema":{"type":"object","properties":{}}"#; 5];
    let all = [&odd[..], &good[..]].concat();
    let (mut relay, list) = relay(&all);
    for n in (0..all.len()).filter(|n| *n != 7) {
        let schema = &tool(&list, n).unwrap_or_else(|| panic!("t{n} is missing"))["inputSchema"];
        assert_eq!((&schema["type"], schema["properties"].is_object()), (&json!("object"), true), "t{n}");
    }
    assert_eq!(tool(&list, 0).unwrap()["inputSchema"]["anyOf"], json!([{"required": ["a"]}]));
    assert_eq!(tool(&list, 7), None);
    let told = relay.call_direct("enable_toolset", json!({"toolset": "a"})).structured();
    assert!(told["withheld"].to_string().contains("t7"), "{told}");
    assert_eq!(relay.status("a")["withheld"], 1);
    call_all(&mut relay, all.len());
    relay.finish();
}

#[test]
fn c09_a02_tools_without_arguments() {
    let (mut relay, list) = relay(&[
        r#""inputSchema":{}"#,
        r#""inputSchema":{"type":"object"}"#,
        r#""inputSchema":{"type":"object","properties":null}"#,
        r#""inputSchema":{"type":"object","required":null}"#,
    ]);
    for n in 0..4 {
        assert_eq!(tool(&list, n).unwrap()["inputSchema"], json!({"type": "object", "properties": {}}), "t{n}");
        for arguments in ["", ",\"arguments\":{}", ",\"arguments\":null"] {
            let direct = relay.ask_raw("tools/call", &format!("{{\"name\":\"a__t{n}\"{arguments}}}"));
            assert_eq!(relay.answer(&direct).result().get("isError"), None);
            let inner =
                format!("{{\"name\":\"call_tool\",\"arguments\":{{\"source\":\"a\",\"tool\":\"t{n}\"{arguments}}}}}");
            let inner = relay.ask_raw("tools/call", &inner);
            assert_eq!(relay.answer(&inner).structured(), json!({}));
        }
    }
    let calls = relay.place.lines("a.journal");
    let calls: Vec<Value> = calls.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for call in calls.iter().filter(|call| call["method"] == "tools/call") {
        assert!(call["params"]["arguments"].is_object() || call["params"].get("arguments").is_none(), "{call}");
    }
    relay.finish();
}

#[test]
fn c09_a03_references_keep_their_definitions() {
    let schema = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A","description":"kept"},"b":{"$ref":"#/definitions/B"}},"$defs":{"A":{"type":"object","properties":{"again":{"$ref":"#/$defs/A"}}}},"definitions":{"B":{"format":"uri"}},"patternProperties":{"^x-":{}},"if":{"required":["a"]},"then":{"required":["b"]},"unevaluatedProperties":false,"x-foo":[ 1.0 ]}"##;
    let (mut relay, _) = relay(&[&format!("\"inputSchema\":{schema}")]);
    assert!(relay.list().contains(schema));
    let full = relay.call_direct("find_tools", json!({"tools": ["a/t0"], "detail": "full"}));
    assert!(full.line.contains(schema), "{}", full.line);
    relay.finish();
}

#[test]
fn c09_a04_a_dangling_reference_costs_its_output_schema_only() {
    let input = r#""inputSchema":{"type":"object","properties":{"a":{}}}"#;
    let bad =
        format!(r##"{input},"outputSchema":{{"type":"object","properties":{{"x":{{"$ref":"#/$defs/Missing"}}}}}}"##);
    let tools: Vec<_> = (0..10).map(|n| if n < 2 { bad.as_str() } else { input }).collect();
    let (mut relay, list) = relay(&tools);
    for n in 0..10 {
        let tool = tool(&list, n).unwrap();
        assert_eq!(tool["inputSchema"], json!({"type": "object", "properties": {"a": {}}}));
        assert_eq!(tool.get("outputSchema"), None);
    }
    call_all(&mut relay, 10);
    relay.finish();
}

#[test]
fn c09_a05_an_invalid_output_schema_costs_itself_only() {
    let odd = [
        r#""outputSchema":{"type":"array","items":{}}"#,
        r#""outputSchema":{"type":"string"}"#,
        r#""outputSchema":{}"#,
        r#""outputSchema":null"#,
        r#""outputSchema":{"type":"object","properties":5}"#,
        r#""outputSchema":{"type":"object"}"#,
    ];
    let (mut relay, list) = relay(&odd);
    for n in 0..odd.len() {
        assert_eq!(tool(&list, n).unwrap().get("outputSchema").is_some(), n == 5, "t{n}");
    }
    call_all(&mut relay, odd.len());
    relay.finish();
}

#[test]
fn c09_a06_no_dialect_is_refused() {
    let dialects = [
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-04/schema#",
        "nonsense",
    ];
    let tools: Vec<_> = dialects
        .iter()
        .map(|dialect| {
            let schema = format!(r#"{{"$schema":"{dialect}","type":"object","properties":{{}}}}"#);
            format!(r#""inputSchema":{schema},"outputSchema":{schema}"#)
        })
        .collect();
    let tools: Vec<_> = tools.iter().map(String::as_str).collect();
    let (mut relay, list) = relay(&tools);
    for (n, dialect) in dialects.iter().enumerate() {
        let tool = tool(&list, n).unwrap();
        assert_eq!(tool["inputSchema"]["$schema"], *dialect);
        // What the TypeScript SDK's second version does not know would cost it every call.
        let shown = if n < 4 { json!(dialect) } else { Value::Null };
        assert_eq!((&tool["outputSchema"]["type"], &tool["outputSchema"]["$schema"]), (&json!("object"), &shown));
    }
    call_all(&mut relay, dialects.len());
    relay.finish();
}

#[test]
fn c09_a07_older_dialects_of_output_schemas() {
    let draft7 = r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/A"},"b":{"type":"array","items":[{},{}]}},"definitions":{"A":{"type":"integer"}}}"##;
    let draft4 = r#"{"type":"object","properties":{"a":{"minimum":0,"exclusiveMinimum":true}}}"#;
    let (mut relay, list) = relay(&[&format!("\"outputSchema\":{draft7}"), &format!("\"outputSchema\":{draft4}")]);
    assert_eq!(tool(&list, 0).unwrap()["outputSchema"], serde_json::from_str::<Value>(draft7).unwrap());
    // What the TypeScript SDK cannot compile would cost it the whole list.
    assert_eq!(tool(&list, 1).unwrap().get("outputSchema"), None);
    call_all(&mut relay, 2);
    relay.finish();
}

/// Clients keep one validator for each `$id` over all tools, and would hold one tool's results against another's schema.
#[test]
fn c09_one_address_in_two_output_schemas() {
    let of = |id: &str, property: &str| {
        format!(
            r##""outputSchema":{{"$id":"{id}","type":"object","properties":{{"{property}":{{"$ref":"{id}#/$defs/P"}}}},"$defs":{{"P":{{"type":"integer"}}}}}}"##
        )
    };
    let (mut relay, list) = relay(&[&of("Result", "a"), &of("Result", "b"), &of("http://h/other", "c")]);
    for (n, property) in ["a", "b", "c"].iter().enumerate() {
        let schema = json!({"type": "object", "properties": {*property: {"$ref": "#/$defs/P"}}, "$defs": {"P": {"type": "integer"}}});
        assert_eq!(tool(&list, n).unwrap()["outputSchema"], schema);
    }
    let full = relay.call_direct("find_tools", json!({"tools": ["a/t0"], "detail": "full"})).structured();
    assert!(full["matches"][0]["repairs"].to_string().contains("`$id`"), "{full}");
    call_all(&mut relay, 3);
    relay.finish();
}

/// Providers of models refuse every request with a tool whose input schema is none by JSON Schema 2020-12 (kintone's was one).
#[test]
fn c09_a01_an_input_schema_of_an_older_draft() {
    let (mut relay, list) = relay(&[
        r##""inputSchema":{"type":"object","properties":{"query":{"type":"array","items":[{"type":"object"}],"additionalItems":{"$ref":"#/properties/query/items/0"}}}}"##,
        r#""inputSchema":{"type":"object","properties":{"a":{"type":"any","required":true},"o":{"properties":{"x":"string"}}}}"#,
    ]);
    let query = json!({"type": "array", "prefixItems": [{"type": "object"}], "items": {"$ref": "#/properties/query/prefixItems/0"}});
    assert_eq!(tool(&list, 0).unwrap()["inputSchema"]["properties"]["query"], query);
    let second = json!({"a": {}, "o": {"properties": {"x": {}}}});
    assert_eq!(tool(&list, 1).unwrap()["inputSchema"]["properties"], second);
    let full = relay.call_direct("find_tools", json!({"tools": ["a/t0"], "detail": "full"})).structured();
    assert!(full["matches"][0]["repairs"].to_string().contains("prefixItems"), "{full}");
    call_all(&mut relay, 2);
    relay.finish();
}

/// What was mended in a tool is told to whoever looks at it in full.
#[test]
fn repairs_are_told() {
    let place = Place::new();
    let tools = json!([{"name": "odd", "description": 7, "inputSchema": {"type": "object"}}]);
    let file = place.write("tools.json", tools.to_string());
    let mut relay = Relay::greeted_in(&place, "", &[source("odd", &["--tools-json", &file], "")]);
    relay.call_direct("enable_toolset", json!({"toolset": "odd"}));
    let found = relay.call_direct("find_tools", json!({"tools": ["odd/odd"], "detail": "full"})).structured();
    assert!(found["matches"][0]["repairs"].to_string().contains("description"), "{found}");
    relay.finish();
}
