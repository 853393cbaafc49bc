//! Combinations that real set-ups have: relays behind relays, launchers, storms, clients that are slow to read.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use standing::Trial;
use support::{AT_ONCE, Place, Relay, command, eventually, fixture, source};

const CHANGED: &str = "notifications/tools/list_changed";

/// A small server in shell: one line of answers for each line it reads, `$id` being the request's.
fn scripted(id: &str, on_list: &str, on_call: &str, settings: &str) -> String {
    let result = |result: &str| {
        format!(r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}}""#, result.replace('"', "\\\""))
    };
    let hello = result(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#,
    );
    let list = result(r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#);
    let call = result(r#"{"content":[]}"#);
    let script = format!(
        "while read -r line; do id=${{line#*\\\"id\\\":}}; id=${{id%%,*}}; case $line in \
         *'\"initialize\"'*) {hello};; *tools/list*) {list}; {on_list};; *tools/call*) {call}; {on_call};; esac; done"
    );
    // A dollar is written twice in `sources.toml`.
    command(id, "sh", &["-c", &script.replace('$', "$$")], &format!("era = \"legacy\"\n{settings}"))
}

#[test]
fn a_relay_behind_a_relay_passes_everything() {
    let place = Place::new();
    let inner = Place::new();
    inner.command("", &[source("fix", &[], "summary = \"Fixture.\"")]);
    let outer =
        command("inner", env!("CARGO_BIN_EXE_toolrelay"), &["serve", "--config", &inner.path("sources.toml")], "");
    let mut relay = Relay::greeted_in(&place, "", &[outer]);
    let file = place.write("result.json", r#"{ "z" : 1e400, "content":[], "_meta":{"vendor/x":1} }"#);
    let arguments = json!({"source": "fix", "tool": "raw", "arguments": {"result_file": file}});
    let reply = relay.call("inner", "call_tool", arguments);
    // Between the eras that the two relays speak, members are put in and taken out; none is written anew.
    assert_eq!(reply.raw("result"), Some(r#"{"z" : 1e400,"content":[],"_meta":{"vendor/x":1}}"#));
    let burst = json!({"source": "fix", "tool": "burst", "arguments": {"n": 50}});
    let inner_call = json!({"source": "inner", "tool": "call_tool", "arguments": burst});
    let params = json!({"name": "call_tool", "arguments": inner_call, "_meta": {"progressToken": "t"}});
    assert_eq!(relay.request("tools/call", params).text(), "burst of 50");
    assert_eq!(relay.noticed("notifications/progress"), 50);
    let (kind, _) = relay.call("inner", "call_tool", json!({"source": "nobody", "tool": "x"})).failure();
    assert_eq!(kind, "unknown_source");
    relay.finish();
}

/// A configuration that starts itself stops after a few levels.
#[test]
fn a_relay_that_starts_itself_is_stopped() {
    let place = Place::new();
    let own = command(
        "own",
        env!("CARGO_BIN_EXE_toolrelay"),
        &["serve", "--config", &place.path("sources.toml")],
        "start = \"at-start\"",
    );
    let mut relay = Relay::greeted_in(&place, "", &[own]);
    relay.list();
    relay.await_status("own", "ready");
    relay.listen(Duration::from_secs(2));
    assert!(place.processes(relay.pid()).len() <= 4, "{:?}", place.processes(relay.pid()));
    relay.finish();
}

#[test]
fn a_launcher_goes_with_what_it_launched() {
    for signal in [None, Some(Signal::TERM)] {
        let script = format!("{} --ignore-eof; true", fixture().display());
        let mut relay = Trial::start(&[command("wrapped", "sh", &["-c", &script], "")]);
        assert_eq!(relay.call("wrapped", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        match signal {
            None => relay.finish(),
            Some(signal) => {
                relay.ended_by(|relay| relay.signal(signal));
            }
        }
    }
}

#[test]
fn a_source_that_ends_after_each_answer_is_usable() {
    let place = Place::new();
    let count = place.path("launches");
    let mut relay =
        Relay::greeted_in(&place, "", &[scripted("once", "true", &format!("echo x >> {count}; exit 0"), "")]);
    for call in 0..2 {
        assert_eq!(relay.call("once", "t", json!({})).result(), json!({"content": []}), "{call}");
        eventually("it has ended", || relay.status("once")["status"] != "ready");
    }
    assert_eq!(place.lines("launches").len(), 2);
    relay.finish();
}

/// A source that says with every listing that its list has changed.
#[test]
fn a_storm_of_changes_that_change_nothing_is_kept_from_the_client() {
    let place = Place::new();
    let count = place.path("listings");
    let notice = r#"echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'"#;
    let storm = format!("echo x >> {count}; {notice}; {notice}; {notice}");
    let mut relay = Trial::start_in(&place, "exposure = \"eager\"", &[scripted("storm", &storm, "true", "")]);
    relay.list();
    relay.notices.clear();
    relay.listen(Duration::from_secs(4));
    assert_eq!(relay.noticed(CHANGED), 0);
    assert!(place.lines("listings").len() <= 7, "{}", place.lines("listings").len());
    relay.finish();
}

#[test]
fn tools_are_listed_as_their_source_wrote_them() {
    let place = Place::new();
    let rest = r#""title":"T","annotations":{"readOnlyHint":true,"x":1e400},"icons":[{"src":"data:,"}],"execution":{"taskSupport":"optional"},"_meta":{"ui/resourceUri":"ui://x"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":18446744073709551616}}},"x-future":[ 1 , 2.0]"#;
    let schema = r##""inputSchema":{"type":"object","properties":{"b":{},"a":{"$ref":"#/$defs/q"}},"$defs":{"q":{"const":"é\u00e9"}}}"##;
    let file = place.write("tools.json", format!("[{{{rest},\"name\":\"t\", {schema}}}]"));
    let mut relay = Relay::greeted_in(&place, "exposure = \"eager\"", &[source("a", &["--tools-json", &file], "")]);
    let list = relay.list();
    assert!(list.contains(&format!("{{{rest},\"name\":\"a__t\", {schema}}}")), "{list}");
    relay.finish();
}

#[test]
fn a_client_that_is_slow_to_read_gets_everything() {
    const CALLS: usize = 60;
    let place = Place::new();
    let mut child = place.command("", &[source("fix", &[], "max_in_flight = 8")]).spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    drop(child.stderr.take());
    for id in 0..CALLS {
        let call = r#"{"name":"fix__big","arguments":{"bytes":1000000}}"#;
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{call}}}"#).unwrap();
    }
    // Nobody reads for a while: what is kept for the client stays bounded.
    std::thread::sleep(Duration::from_millis(2500));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    let kilobytes: u64 = resident.trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 60_000, "{resident}");
    let mut lines = BufReader::new(stdout).lines();
    for _ in 0..CALLS {
        assert!(lines.next().unwrap().unwrap().len() > 1_000_000);
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn many_sources_are_all_there_soon() {
    let sources: Vec<_> =
        (0..22).map(|n| source(&format!("s{n:02}"), &["--start-delay-ms", &(n * 60).to_string()], "")).collect();
    let mut relay = Trial::start_in(&Place::new(), "exposure = \"toolsets\"", &sources);
    let start = Instant::now();
    assert_eq!(relay.names().len(), 6);
    assert!(start.elapsed() < AT_ONCE);
    for n in 0..22 {
        let line = relay.await_status(&format!("s{n:02}"), "ready");
        assert!(line["since"].is_string());
    }
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    relay.finish();
}
