//! A client's conversation: handshakes of both eras, what passes between them, progress, and its end.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::Trial;
use support::{AT_ONCE, END, Place, Relay, Reply, command, eventually, source};

const MODERN: &str = "2026-07-28";

/// `_meta` of a modern client, with `more`.
fn meta(more: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    meta
}

#[track_caller]
fn modern(relay: &mut Relay, method: &str, mut params: Value) -> Reply {
    params["_meta"] = meta(json!({}));
    relay.request(method, params)
}

#[test]
fn every_legacy_revision_is_spoken() {
    let place = Place::new();
    let mut relay = Relay::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    for (asked, want) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let result = relay.request("initialize", json!({"protocolVersion": asked, "capabilities": {}})).result();
        assert_eq!(result["protocolVersion"], want, "{asked}");
        // Of a source that has never been listed it is not known what it has besides tools.
        let all = json!({
            "tools": {"listChanged": true}, "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true}, "completions": {}, "logging": {},
        });
        assert_eq!(result["capabilities"], all);
        assert_eq!(result["serverInfo"]["name"], "toolrelay");
        assert!(result["instructions"].as_str().unwrap().contains("fix"));
    }
    // Who only asks who is there starts nothing.
    assert_eq!(relay.request("ping", json!({})).raw("result"), Some("{}"));
    assert_eq!(modern(&mut relay, "server/discover", json!({})).result()["supportedVersions"][0], MODERN);
    relay.listen(Duration::from_millis(300));
    assert!(place.lines("fix.journal").is_empty() && relay.notices.is_empty());
    relay.finish();
}

#[test]
fn the_first_messages_may_come_in_one_write() {
    for size in [usize::MAX, 13] {
        let place = Place::new();
        let slow = source("slow", &["--start-delay-ms", "1500"], "");
        let mut relay =
            Trial::ungreeted(&place, Trial::command(&place, "exposure = \"toolsets\"", std::slice::from_ref(&slow)));
        let start = Instant::now();
        let ids = [relay.new_id(), relay.new_id(), relay.new_id()];
        let params = r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#;
        let all = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"initialize\",\"params\":{params}}}\n\
             {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n\
             {{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}}\n\
             {{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\",\"params\":null}}\n",
            ids[0], ids[1], ids[2]
        );
        for piece in all.as_bytes().chunks(size.min(all.len())) {
            relay.send_bytes(piece);
        }
        assert_eq!(relay.answer(&ids[0]).result()["protocolVersion"], "2025-06-18");
        let lists = [relay.answer(&ids[1]), relay.answer(&ids[2])];
        assert_eq!(lists[0].raw("result"), lists[1].raw("result"));
        assert_eq!(lists[0].result()["tools"].as_array().unwrap().len(), 6);
        assert!(start.elapsed() < Duration::from_millis(1400), "{:?}", start.elapsed());
        Trial::of(relay, &[slow]).finish();
    }
}

#[test]
fn no_source_need_be_up() {
    let sources = [command("gone", "/nonexistent/program", &[], ""), source("mute", &["--mute"], "")];
    let mut relay = Relay::start("", &sources);
    let start = Instant::now();
    relay.greet();
    assert_eq!(relay.names().len(), 6);
    assert!(start.elapsed() < AT_ONCE);
    // A search waits for the first listing, once, and not for long.
    let found = relay.call_direct("find_tools", json!({"query": "anything"})).structured();
    assert_eq!((&found["total"], found["unavailable"].as_array().unwrap().len()), (&json!(0), 2));
    assert!(start.elapsed() < Duration::from_secs(3) + AT_ONCE);
    let again = Instant::now();
    assert_eq!(relay.call_direct("find_tools", json!({"query": "anything"})).structured()["total"], 0);
    assert!(again.elapsed() < AT_ONCE);
    assert_eq!(relay.request("resources/list", json!({})).result(), json!({"resources": []}));
    for (method, code) in [("resources/read", -32602), ("nonsense", -32601), ("tools/call", -32602)] {
        assert_eq!(relay.request(method, json!({})).error_code(), code, "{method}");
    }
    let unknown = relay.call_direct("gone__tool", json!({}));
    assert_eq!(unknown.failure().0, "unavailable");
    assert_eq!(relay.call_direct("no_such_tool", json!({})).error_code(), -32602);
    assert_eq!(relay.request("tools/list", json!({"cursor": "x"})).error_code(), -32602);
    relay.finish();
}

#[test]
fn a_modern_client_needs_no_handshake() {
    let mut relay = Relay::start("exposure = \"eager\"", &[source("fix", &[], "summary = \"Fixture.\"")]);
    let list = modern(&mut relay, "tools/list", json!({})).result();
    assert_eq!(
        (&list["resultType"], &list["ttlMs"], &list["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private"))
    );
    assert!(list["tools"].as_array().unwrap().len() > 10);
    let discovered = relay.request("server/discover", json!({"_meta": meta(json!({}))})).result();
    assert_eq!(discovered["resultType"], "complete");
    assert_eq!(discovered["cacheScope"], "private");
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolrelay");
    let call = json!({"name": "fix__echo", "arguments": {"a": 1}});
    let result = modern(&mut relay, "tools/call", call.clone()).result();
    assert_eq!((&result["resultType"], &result["structuredContent"]), (&json!("complete"), &json!({"a": 1})));
    let own = modern(&mut relay, "tools/call", json!({"name": "list_sources"})).result();
    assert_eq!((&own["resultType"], &own["isError"]), (&json!("complete"), &json!(false)));
    let failed =
        modern(&mut relay, "tools/call", json!({"name": "call_tool", "arguments": {"source": "x", "tool": "y"}}));
    assert_eq!((failed.failure().0.as_str(), &failed.result()["resultType"]), ("unknown_source", &json!("complete")));

    for version in ["2025-11-25", "2099-01-01"] {
        let wrong = meta(json!({"io.modelcontextprotocol/protocolVersion": version}));
        let error = relay.request("tools/list", json!({"_meta": wrong})).error();
        assert_eq!(error["code"], -32022);
        assert_eq!(error["data"], json!({"supported": [MODERN], "requested": version}));
    }
    for (key, value) in
        [("clientCapabilities", Value::Null), ("clientCapabilities", json!([])), ("protocolVersion", json!(7))]
    {
        let wrong = meta(json!({format!("io.modelcontextprotocol/{key}"): value}));
        let mut params = call.clone();
        params["_meta"] = wrong;
        assert_eq!(relay.request("tools/call", params).error_code(), -32602, "{key}");
    }
    // A legacy client on the same relay gets its own shapes.
    let legacy = relay.request("tools/list", json!({})).result();
    assert_eq!(legacy.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
    relay.finish();
}

/// What a source of each era gets, and what a client of each era gets back.
#[test]
fn each_hop_keeps_its_own_and_passes_the_rest() {
    let place = Place::new();
    let sources = [place.journaled("old", &[], ""), place.journaled("new", &["--era", "modern"], "")];
    let mut relay = Relay::greeted_in(&place, "", &sources);
    let hop = r#""io.modelcontextprotocol/serverInfo":{"name":"x"}"#;
    let rest = r#""x-unknown":[1e400],"content":[],"structuredContent":{"z":1,"a":2}"#;
    let both =
        place.write("both.json", format!(r#"{{"resultType":"complete","_meta":{{{hop},"vendor/x":30.0}},{rest}}}"#));
    let plain = place.write("plain.json", format!(r#"{{"_meta":{{{hop}}},{rest}}}"#));
    let untyped = format!(r#"{{"_meta":{{"vendor/x":30.0}},{rest}}}"#);
    let typed = format!(r#"{{"resultType":"complete","_meta":{{"vendor/x":30.0}},{rest}}}"#);
    let bare = format!(r#"{{"resultType":"complete",{rest}}}"#);
    let verbatim = std::fs::read_to_string(&both).unwrap();
    for (source, file, is_modern, want) in [
        ("old", &both, false, &verbatim),
        ("old", &both, true, &typed),
        ("old", &plain, true, &bare),
        ("new", &both, false, &untyped),
        ("new", &both, true, &typed),
        ("new", &plain, true, &bare),
    ] {
        let params = json!({"name": format!("{source}__raw"), "arguments": {"result_file": file}});
        let reply =
            if is_modern { modern(&mut relay, "tools/call", params) } else { relay.request("tools/call", params) };
        assert_eq!(reply.raw("result"), Some(want.as_str()), "{source} {is_modern}");
    }
    for is_modern in [false, true] {
        for source in ["old", "new"] {
            let own = json!({"traceparent": "00-1-2-01", "vendor/k": {"n": 1}, "progressToken": "mine"});
            let meta = if is_modern { meta(own) } else { own };
            relay.request("tools/call", json!({"name": format!("{source}__echo"), "arguments": {}, "_meta": meta}));
            let line = place.lines(&format!("{source}.journal")).pop().unwrap();
            let sent: Value = serde_json::from_str(&line).unwrap();
            let got = sent["params"]["_meta"].as_object().unwrap();
            assert_eq!((&got["traceparent"], &got["vendor/k"]), (&json!("00-1-2-01"), &json!({"n": 1})));
            assert_eq!(got["progressToken"], sent["id"]);
            assert_eq!(got.len(), if source == "new" { 6 } else { 3 }, "{line}");
            if source == "new" {
                assert_eq!(got["io.modelcontextprotocol/protocolVersion"], MODERN);
                assert_eq!(got["io.modelcontextprotocol/clientInfo"]["name"], "raw");
                let able = if is_modern { json!({"elicitation": {}}) } else { json!({}) };
                assert_eq!(got["io.modelcontextprotocol/clientCapabilities"], able);
            }
        }
    }
    relay.finish();
}

#[test]
fn errors_of_a_source_pass_verbatim() {
    let mut relay = Relay::greeted("", &[source("fix", &[], "")]);
    let arguments = r#"{"code":-32042,"message":"open \u00fcrl","data":{"elicitations":[1e400]}}"#;
    let error = r#"{"code":-32042,"message":"open \u00fcrl","data":{"elicitations":[1e400]}}"#;
    let direct = relay.ask_raw("tools/call", &format!("{{\"name\":\"fix__fail\",\"arguments\":{arguments}}}"));
    let inner = format!("{{\"source\":\"fix\",\"tool\":\"fail\",\"arguments\":{arguments}}}");
    let dispatched = relay.ask_raw("tools/call", &format!("{{\"name\":\"call_tool\",\"arguments\":{inner}}}"));
    for id in [direct, dispatched] {
        assert_eq!(relay.answer(&id).raw("error"), Some(error));
    }
    let refused = json!({"code": -32602, "message": "`x` is missing"});
    assert_eq!(relay.call_direct("fix__fail", refused.clone()).error_code(), -32602);
    let told = relay.call("fix", "fail", refused);
    assert_eq!(told.failure().0, "invalid_arguments");
    assert_eq!(told.structured()["error"]["sourceError"], json!({"code": -32602, "message": "`x` is missing"}));
    assert_eq!(told.structured()["error"]["inputSchema"]["required"], json!(["code", "message"]));
    let result = relay.call("fix", "tool_error", json!({"text": "connection refused: timeout"})).result();
    assert_eq!(result, json!({"content": [{"type": "text", "text": "connection refused: timeout"}], "isError": true}));
    let count = relay.call("fix", "count", json!({})).structured();
    assert_eq!(count["tools/call"], 6);
    relay.finish();
}

#[test]
fn progress_keeps_its_token_and_its_order() {
    const COUNT: usize = 2000;
    let mut relay = Trial::start(&[source("fix", &[], "summary = \"Fixture.\"")]);
    for token in [Some("\"t\""), Some("7"), None] {
        let meta = token.map(|token| format!(",\"_meta\":{{\"progressToken\":{token}}}")).unwrap_or_default();
        for name in [
            r#""fix__burst","arguments":{"n":2000}"#,
            r#""call_tool","arguments":{"source":"fix","tool":"burst","arguments":{"n":2000}}"#,
        ] {
            let id = relay.ask_raw("tools/call", &format!("{{\"name\":{name}{meta}}}"));
            assert_eq!(relay.answer(&id).text(), format!("burst of {COUNT}"));
            // What came before the answer is all there is.
            let mut notices = std::mem::take(&mut relay.notices);
            notices.retain(|notice| notice.line.contains("notifications/progress"));
            assert_eq!(notices.len(), if token.is_some() { COUNT } else { 0 });
            for (notice, step) in notices.iter().zip(1..) {
                let token = token.unwrap();
                let want = format!(
                    "{{\"progressToken\":{token},\"progress\":{step},\"total\":{COUNT},\"message\":\"step {step} of {COUNT}\"}}"
                );
                assert_eq!(notice.raw("params"), Some(want.as_str()));
            }
        }
    }
    relay.listen(Duration::from_millis(100));
    assert_eq!(relay.noticed("notifications/progress"), 0);
    relay.finish();
}

#[test]
fn a_modern_client_hears_of_changes_where_it_listens() {
    const CHANGED: &str = "notifications/tools/list_changed";
    let sources = [source("fix", &["--changing"], "summary = \"Fixture.\"")];
    let mut relay = Relay::start("exposure = \"eager\"", &sources);
    modern(&mut relay, "tools/list", json!({}));
    let listen = |relay: &mut Relay, wanted: Value| {
        relay.ask("subscriptions/listen", json!({"notifications": wanted, "_meta": meta(json!({}))}))
    };
    let tools = listen(&mut relay, json!({"toolsListChanged": true}));
    let others = listen(&mut relay, json!({"promptsListChanged": true}));
    assert_eq!(modern(&mut relay, "subscriptions/listen", json!({})).error_code(), -32602);
    relay.await_notices("both acknowledged", |notices| notices.len() >= 2);
    for (notice, (id, accepted)) in relay
        .notices
        .iter()
        .zip([(&tools, json!({"toolsListChanged": true})), (&others, json!({"promptsListChanged": true}))])
    {
        let params: Value = serde_json::from_str(notice.raw("params").unwrap()).unwrap();
        assert_eq!(notice.raw("method"), Some("\"notifications/subscriptions/acknowledged\""));
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"].to_string(), *id);
        assert_eq!(params["notifications"], accepted);
    }
    relay.call("fix", "grow", json!({}));
    relay.await_notices("the change", |notices| notices.len() > 2);
    relay.listen(Duration::from_millis(1500));
    assert_eq!(relay.noticed(CHANGED), 1);
    let params = relay.notices[2].raw("params").unwrap();
    assert_eq!(params, format!("{{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{tools}}}}}"));
    let list = modern(&mut relay, "tools/list", json!({})).result().to_string();
    assert!(list.contains("fix__grown_1"));
    // Cancelled, it says no more; the other is answered at the end.
    relay.cancel(&tools);
    relay.call("fix", "grow", json!({}));
    relay.listen(Duration::from_millis(1500));
    assert_eq!(relay.noticed(CHANGED), 1);
    relay.finish();
}

#[test]
fn a_modern_source_that_needs_input_asks_a_modern_client() {
    let mut relay = Trial::start(&[source("new", &["--era", "modern"], "")]);
    let ask = json!({"name": "new__ask", "arguments": {"method": "elicitation/create"}});
    let asked = modern(&mut relay, "tools/call", ask.clone()).result();
    assert_eq!(asked["resultType"], "input_required");
    let mut again = ask.clone();
    again["inputResponses"] = json!({"answer": {"action": "accept", "content": {"name": "Ada"}}});
    again["requestState"] = asked["requestState"].clone();
    let result = modern(&mut relay, "tools/call", again.clone()).result();
    assert_eq!(result["structuredContent"], again["inputResponses"]);
    let (kind, text) = relay.request("tools/call", ask).failure();
    assert!(kind == "unavailable" && text.contains("needs input from the client"), "{text}");
    relay.finish();
}

#[test]
fn what_is_in_flight_at_the_end_is_answered() {
    let mut relay = Relay::greeted("", &[source("fix", &[], "")]);
    for _ in 0..40 {
        relay.ask_call("fix", "sleep", json!({"ms": 200}));
    }
    // Sees to it that each was answered, and to code 0.
    relay.finish();
}

/// Only the next write told the relay that nobody read its answers; without one it stayed.
#[test]
fn a_client_that_does_not_read_any_more_is_gone() {
    for says_more in [true, false] {
        let place = Place::new();
        let mut child = place.command("", &[source("fix", &[], "start = \"at-start\"")]).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n").unwrap();
        eventually("the source runs", || !place.processes(child.id()).is_empty());
        drop((child.stdout.take(), child.stderr.take()));
        let start = Instant::now();
        if says_more {
            stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n").unwrap();
        }
        let mut status = None;
        eventually("the relay ends", || {
            status = child.try_wait().unwrap();
            status.is_some() || start.elapsed() > 2 * END && child.kill().is_ok()
        });
        assert_eq!(status.and_then(|status| status.code()), Some(0), "says more: {says_more}");
        eventually("its source ends", || place.processes(child.id()).is_empty());
    }
}
