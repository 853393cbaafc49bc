//! Sources that write their messages in a way of their own: understood where it can be, else told what is wrong with them.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::{Place, Relay, command, eventually, source};

const GREETING: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}"#;
const TOOLS: &str = r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#;

/// What a source does with `$id`, the id of what it was asked.
struct Odd {
    discover: String,
    initialize: String,
    call: String,
}

impl Default for Odd {
    fn default() -> Self {
        Self {
            discover: says(r#"{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n"#),
            initialize: says(&format!(r#"{{"jsonrpc":"2.0","id":%s,"result":{GREETING}}}\n"#)),
            call: says(r#"{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hi"}]}}\n"#),
        }
    }
}

/// Prints with the id in place of `%s`.
fn says(format: &str) -> String {
    format!("printf '{format}' \"$id\"")
}

impl Odd {
    fn table(&self, settings: &str) -> String {
        let Self { discover, initialize, call } = self;
        let list = says(&format!(r#"{{"jsonrpc":"2.0","id":%s,"result":{TOOLS}}}\n"#));
        let script = format!(
            "while IFS= read -r line; do id=$(printf '%s' \"$line\" | sed -n 's/.*\"id\":\\([0-9]*\\).*/\\1/p'); case $line in \
             *'\"server/discover\"'*) {discover} ;; *'\"initialize\"'*) {initialize} ;; *'\"tools/list\"'*) {list} ;; \
             *'\"tools/call\"'*) {call} ;; esac; done"
        );
        command("odd", "sh", &["-c", &script], settings)
    }

    fn start(&self, settings: &str) -> Relay {
        Relay::greeted("", &[self.table(settings)])
    }
}

#[test]
fn a_message_over_several_lines_is_put_together() {
    let odd = Odd {
        initialize: says(&format!("{{\\n  \"jsonrpc\": \"2.0\",\\n  \"id\": %s,\\n  \"result\": {GREETING}\\n}}\\n")),
        call: says(
            "banner\\n{\\n  \"jsonrpc\": \"2.0\",\\n  \"id\": %s,\\n  \"result\": {\\n    \"content\": [\\n      {\\n        \
             \"type\": \"text\",\\n        \"text\": \"a  b\"\\n      }\\n    ]\\n  }\\n}\\n",
        ),
        ..Odd::default()
    };
    let mut relay = odd.start("");
    for _ in 0..3 {
        assert_eq!(relay.call("odd", "echo", json!({})).text(), "a  b");
    }
    relay.finish();
}

#[test]
fn a_message_that_breaks_off_after_its_first_line_costs_no_other() {
    let odd = Odd { call: format!("printf '{{\\n'; {}", Odd::default().call), ..Odd::default() };
    let mut relay = odd.start("");
    for _ in 0..3 {
        assert_eq!(relay.call("odd", "echo", json!({})).text(), "hi");
    }
    relay.finish();
}

#[test]
fn a_source_that_refuses_the_newest_revision_is_asked_in_one_it_names() {
    let refusal = says(
        r#"{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2025-03-26","2024-11-05"],"requested":"2025-11-25"}}}\n"#,
    );
    let greeting = Odd::default().initialize.replace("2025-06-18", "2025-03-26");
    let initialize = format!("case $line in *2025-03-26*) {greeting} ;; *) {refusal} ;; esac");
    let mut relay = Odd { initialize, ..Odd::default() }.start("");
    assert_eq!(relay.call("odd", "echo", json!({})).text(), "hi");
    relay.finish();
    // One that names none that the relay speaks is told of as before.
    let initialize = refusal.replace("2025-03-26", "1999-01-01").replace("2024-11-05", "1999-01-02");
    let mut relay = Odd { initialize, ..Odd::default() }.start("");
    let (kind, text) = relay.call("odd", "echo", json!({})).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("refused `initialize`: Unsupported protocol version"), "{text}");
    relay.finish();
}

/// JSON-RPC 2.0, section 5: the id is null where the request's could not be read.
#[test]
fn an_error_without_an_id_ends_the_only_call_there_is() {
    let error = |code: i64| {
        let call =
            format!(r#"printf '{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"Parse error"}}}}\n'"#);
        Odd { call, ..Odd::default() }
    };
    let start = Instant::now();
    let mut relay = error(-32700).start("call_timeout_secs = 60");
    let reply = relay.call("odd", "echo", json!({}));
    assert_eq!(reply.error()["code"], -32700, "{reply:?}");
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
    relay.finish();
    // Another error may belong to a notification.
    let mut relay = error(-32601).start("call_timeout_secs = 1");
    assert_eq!(relay.call("odd", "echo", json!({})).failure().0, "timed_out");
    relay.finish();
}

#[test]
fn utf_16_is_told_at_once() {
    let wide = |text: &str| text.chars().map(|char| format!("{char}\\000")).collect::<String>();
    let says = format!("printf '\\377\\376{}\\n\\000'", wide(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    let odd = Odd { discover: says.clone(), initialize: says, ..Odd::default() };
    let mut relay = odd.start("start_timeout_secs = 60");
    let start = Instant::now();
    let (_, text) = relay.call("odd", "echo", json!({})).failure();
    assert!(text.contains("UTF-16"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
    relay.finish();
}

#[test]
fn what_a_mute_source_wrote_is_told_with_its_time_out() {
    let greeting = Odd::default().initialize.replace("\\n", "");
    let odd = Odd { discover: String::from(":"), initialize: greeting, ..Odd::default() };
    let mut relay = odd.start("start_timeout_secs = 5");
    let (_, text) = relay.call("odd", "echo", json!({})).failure();
    assert!(text.contains("did not answer the handshake") && text.contains("have no line end"), "{text}");
    relay.finish();
    let odd = Odd { call: "echo 'id is 7 and all is well'".to_owned(), ..Odd::default() };
    let mut relay = odd.start("call_timeout_secs = 1");
    let (kind, text) = relay.call("odd", "echo", json!({})).failure();
    assert_eq!(kind, "timed_out");
    assert!(text.contains("for example `id is 7 and all is well`"), "{text}");
    relay.finish();
}

/// Backends put the key that they were given into their errors, and programs into what they say of themselves.
#[test]
fn no_secret_is_told_of_what_a_source_says_while_it_starts() {
    const KEY: &str = "QwErTyPlainValue9911";
    let place = Place::new();
    let error =
        |what: &str| format!(r#"{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":-32000,"message":"{what} for {KEY}"}}}}"#);
    let hello = |version: &str, more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"protocolVersion":"{version}","capabilities":{{"tools":{{}},"prompts":{{}}}},"serverInfo":{{"name":"x"}}{more}}}}}"#
        )
    };
    let said = format!(r#","instructions":"Uses {KEY}. Bearer abcd1234efgh is an example.""#);
    let replies = [
        ("refuses", "initialize", error("no login")),
        ("dated", "initialize", hello(&format!("v {KEY}"), "")),
        ("tools", "tools/list", error("no tools")),
        ("prompts", "prompts/list", error("no prompts")),
        ("talks", "initialize", hello("2025-11-25", &said)),
    ];
    let settings = format!("env = {{ KEY = \"{KEY}\" }}\nstart = \"at-start\"");
    let mut sources: Vec<String> = Vec::new();
    for (id, method, reply) in &replies {
        let file = place.write(id, reply);
        sources.push(source(id, &["--prompts", "p", "--reply", &format!("{method}={file}")], &settings));
    }
    let mut relay = Relay::greeted_in(&place, "exposure = \"eager\"", &sources);
    for (id, status) in
        [("refuses", "unreachable"), ("dated", "unreachable"), ("tools", "unreachable"), ("talks", "ready")]
    {
        let line = relay.await_status(id, status);
        assert!(line["reason"].is_null() || line["reason"].as_str().unwrap().contains("***"), "{line}");
    }
    eventually("the prompts are asked for", || relay.status("prompts")["reason"].to_string().contains("***"));
    let summary = relay.status("talks")["summary"].clone();
    assert_eq!(summary, "Uses ***.", "{summary}");
    let told = [
        relay.call_direct("list_toolsets", json!({})).line,
        relay.call("tools", "echo", json!({})).line,
        relay.list(),
        relay.request("initialize", json!({})).line,
    ];
    for text in told {
        assert!(!text.contains(KEY), "{text}");
    }
    assert!(!relay.stderr().contains(KEY), "{}", relay.stderr());
    relay.finish();
}

/// It was told only that it exited.
#[test]
fn what_a_source_wrote_before_it_ended_is_told() {
    for (script, says) in [
        (
            "echo 'Error: missing API key FOO_KEY'; exit 1",
            "exited with code 1; meanwhile it wrote a line that is no message",
        ),
        (
            "printf 'Error: missing API key FOO_KEY'; exit 1",
            "exited with code 1; meanwhile it wrote a line that is no message",
        ),
        ("echo 'Error: missing API key FOO_KEY'; echo usage; exit 0", "meanwhile it wrote lines that are no messages"),
    ] {
        let mut relay = Relay::greeted("", &[command("odd", "sh", &["-c", script], "")]);
        let (_, text) = relay.call("odd", "echo", json!({})).failure();
        assert!(text.contains(says) && text.contains("for example `Error: missing API key FOO_KEY`"), "{text}");
        relay.finish();
    }
    // It is masked like all that a source says.
    let settings = "env = { FOO_KEY = \"a-secret-of-some-length\" }";
    let script = "echo \"bad key $FOO_KEY\"; exit 1";
    let mut relay = Relay::greeted("", &[command("odd", "sh", &["-c", script], settings)]);
    let (_, text) = relay.call("odd", "echo", json!({})).failure();
    assert!(text.contains("for example `bad key ") && !text.contains("a-secret"), "{text}");
    relay.finish();
}
