//! What sources write and do not read, as gateways were reported to fail on it (noise on stdout: class C01, pipes and sizes:
//! C06), one test an item, with the six standing assertions in each. Items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standing::{Trial, resident};
use support::{AT_ONCE, Place, command, eventually, fixture, source};

/// The pid of the source's process: it must stay the same where nothing should end it.
fn pids(trial: &Trial) -> Vec<u32> {
    let mut pids = trial.place.processes(trial.pid());
    pids.sort_unstable();
    pids
}

#[test]
fn c01_a01_banners_are_skipped_and_told() {
    let place = Place::new();
    let script = place.write(
        "banner.sh",
        format!("printf 'MyServer v1.2.3\\n\\033[32mready\\033[0m\\n'; exec {}", fixture().display()),
    );
    let mut trial = Trial::start_in(&place, "", &[command("banner", "sh", &[&script], "")]);
    assert_eq!(trial.call("banner", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    let before = pids(&trial);
    let line = "a plain line between two results\n";
    let file =
        place.write("line", format!("{line}{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{{\"content\":[],\"n\":1}}}}"));
    assert_eq!(trial.call("banner", "raw_line", json!({"file": file})).result()["n"], 1);
    assert_eq!(trial.call("banner", "echo", json!({"b": 2})).structured(), json!({"b": 2}));
    assert_eq!(pids(&trial), before);
    let told = trial.stderr();
    assert!(told.contains("is no message, skipped") && told.contains("MyServer v1.2.3"), "{told}");
    trial.finish();
}

#[test]
fn c01_a02_a_broken_line_ends_nothing() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[source("odd", &[], "")]);
    trial.call("odd", "echo", json!({}));
    let before = pids(&trial);
    for odd in ["\n", "\r\n", "   \n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"resu\n", "null\n", "\u{0}\n"] {
        let result = "{\"content\":[]}";
        let file = place.write("line", format!("{odd}{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{result}}}"));
        assert_eq!(trial.call("odd", "raw_line", json!({"file": file})).raw("result"), Some(result), "{odd:?}");
        trial.holds();
    }
    assert_eq!(pids(&trial), before);
    trial.finish();
}

#[test]
fn c01_a03_characters_arrive_whole_however_they_are_cut() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[source("cjk", &[], "")]);
    let answer = |text: &str| {
        let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}");
        (format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{result}}}"), result)
    };
    for (text, arguments) in [
        ("漢字🙂".to_owned(), json!({"chunk": 1, "pause_ms": 5})),
        ("漢字かな🙂".repeat(12_000), json!({"chunk": 4093, "pause_ms": 0})),
    ] {
        let (line, result) = answer(&text);
        let mut arguments = arguments;
        arguments["file"] = json!(place.write("line", line));
        let waiting = trial.ask_call("cjk", "raw_line", arguments);
        trial.holds();
        assert!(trial.answer(&waiting).raw("result") == Some(&result));
    }
    trial.finish();
}

#[test]
fn c01_a04_framed_messages_are_told_at_once() {
    let script =
        "read -r line; printf 'Content-Length: 36\\r\\n\\r\\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'; sleep 60";
    let start = Instant::now();
    let mut trial = Trial::start(&[command("framed", "sh", &["-c", script], "start = \"at-start\"")]);
    let line = trial.await_status("framed", "unreachable");
    assert!(line["reason"].as_str().unwrap().contains("one JSON message a line"), "{line}");
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    trial.finish();
}

#[test]
fn c01_a05_a_source_that_dies_of_its_encoding_says_so() {
    let mut trial = Trial::start(&[source("locale", &["--faults"], "env = { LC_ALL = \"C\" }")]);
    trial.call("locale", "echo", json!({}));
    let words = "UnicodeEncodeError: 'ascii' codec can't encode character '\\u2713' ✓";
    let start = Instant::now();
    let (kind, text) = trial.call("locale", "last_words", json!({"text": words, "code": 1})).failure();
    assert_eq!(kind, "exited");
    assert!(text.contains("UnicodeEncodeError") && text.contains('✓'), "{text}");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    trial.holds();
    assert_eq!(trial.call("locale", "echo", json!({"b": 1})).structured(), json!({"b": 1}));
    trial.finish();
}

#[test]
fn c06_a01_stderr_is_drained_however_it_is_written() {
    let mut trial = Trial::start(&[source("loud", &["--faults"], "")]);
    trial.call("loud", "echo", json!({}));
    let memory = resident(&trial);
    for tool in ["stderr", "moan"] {
        for _ in 0..3 {
            let waiting = trial.ask_call("loud", tool, json!({"bytes": 5_000_000}));
            trial.holds();
            assert!(trial.answer(&waiting).result()["isError"] != true, "{tool}");
        }
    }
    assert!(resident(&trial) < memory + 30_000, "{} kB after {memory}", resident(&trial));
    trial.finish();
}

#[test]
fn c06_a02_a_source_that_does_not_read_holds_up_nobody() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[place.journaled("stalled", &[], "call_timeout_secs = 2")]);
    trial.call("stalled", "stop_reading", json!({"ms": 5000}));
    let start = Instant::now();
    let large = trial.ask_call("stalled", "echo", json!({"text": "x".repeat(1 << 20)}));
    let small = trial.ask_call("stalled", "echo", json!({}));
    let taken_back = trial.ask_call("stalled", "echo", json!({"n": "taken back"}));
    trial.cancel(&taken_back);
    trial.holds();
    for id in [&large, &small] {
        let (kind, text) = trial.answer(id).failure();
        assert_eq!(kind, "timed_out", "{text}");
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    // What was written half is finished, so that the next call is read as one.
    eventually("it reads again", || {
        trial.call("stalled", "echo", json!({"b": 2})).result()["structuredContent"] == json!({"b": 2})
    });
    trial.finish();
}

/// A source that swallows its input was dark for two days, as nobody had asked whether anything ever came from it.
#[test]
fn c06_a03_a_source_that_swallows_its_input_is_replaced() {
    let place = Place::new();
    let settings = "call_timeout_secs = 1";
    let mut trial = Trial::start_in(&place, "", &[place.journaled("eats", &["--faults"], settings)]);
    trial.call("eats", "echo", json!({}));
    let before = pids(&trial);
    assert_eq!(trial.call("eats", "eat", json!({})).failure().0, "timed_out");
    trial.holds();
    // One call that is slow is no sign of that, nor are two.
    assert_eq!(pids(&trial), before);
    for _ in 0..2 {
        assert_eq!(trial.call("eats", "echo", json!({})).failure().0, "timed_out");
    }
    eventually("it is told", || trial.stderr().contains("does not respond: 3 calls in a row"));
    eventually("it is replaced", || {
        trial.call("eats", "echo", json!({"b": 2})).result()["structuredContent"] == json!({"b": 2})
    });
    assert_eq!(place.journal_count("eats.journal", "initialize"), 2);
    trial.finish();
}

/// Calls that come to their limit are no sign of a source that is mute as long as another one may still be at work.
#[test]
fn c06_a03_a_source_at_work_on_a_long_call_is_not_replaced() {
    let place = Place::new();
    let settings = "call_timeout_secs = 1\ntool.busy = { call_timeout_secs = 30 }";
    let mut trial = Trial::start_in(&place, "", &[place.journaled("single", &["--faults"], settings)]);
    trial.call("single", "echo", json!({}));
    let long = trial.ask_call("single", "busy", json!({"ms": 6500}));
    for _ in 0..4 {
        assert_eq!(trial.call("single", "echo", json!({})).failure().0, "timed_out");
    }
    assert_eq!(trial.answer(&long).text(), "was busy");
    assert_eq!(place.journal_count("single.journal", "initialize"), 1);
    trial.finish();
}

/// Nor are many that come to their limit at once, of which none was answered but others were since.
#[test]
fn c06_a03_a_source_that_answered_meanwhile_is_not_replaced() {
    let place = Place::new();
    let mut trial = Trial::start_in(&place, "", &[place.journaled("partly", &[], "call_timeout_secs = 1")]);
    let lost: Vec<String> = (0..8).map(|_| trial.ask_call("partly", "sleep", json!({"ms": 600_000}))).collect();
    assert_eq!(trial.call("partly", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    for id in &lost {
        assert_eq!(trial.answer(id).failure().0, "timed_out");
    }
    assert_eq!(trial.call("partly", "echo", json!({"b": 2})).structured(), json!({"b": 2}));
    assert_eq!(place.journal_count("partly.journal", "initialize"), 1);
    trial.finish();
}

#[test]
fn c06_a04_why_a_start_failed_is_told_cleanly() {
    let flood =
        "i=0; while [ $$i -lt 500 ]; do echo \"line $$i of many that nobody wants to read\" >&2; i=$$((i+1)); done";
    let words = "printf '\\033[31mError:\\033[0m API_TOKEN missing (got sk-live-abcdef1234567890)\\a\\n' >&2";
    let script = format!("{flood}; {words}; exit 1");
    let mut trial =
        Trial::start(&[command("keyless", "sh", &["-c", &script], "start = \"at-start\"\nera = \"legacy\"")]);
    let line = trial.await_status("keyless", "unreachable");
    let (_, text) = trial.call("keyless", "x", json!({})).failure();
    for told in [line["reason"].as_str().unwrap(), &text] {
        assert!(told.contains("exited with code 1") && told.contains("API_TOKEN missing"), "{told}");
        assert!(told.len() < 4000 && !told.chars().any(|c| c.is_control() && c != '\n'), "{told:?}");
    }
    trial.finish();
}

#[test]
fn c06_a05_large_lists_and_results_pass_and_leave_nothing() {
    let place = Place::new();
    let property =
        |n: usize| format!("\"property_{n}\":{{\"type\":\"string\",\"description\":\"{}\"}}", "d".repeat(70));
    let properties = (0..26).map(property).collect::<Vec<_>>().join(",");
    let schema = format!("{{\"type\":\"object\",\"properties\":{{{properties}}}}}");
    let tool = |n: usize| format!("{{\"name\":\"tool_{n:04}\",\"inputSchema\":{schema}}}");
    let tools = place.write("tools.json", format!("[{}]", (0..2000).map(tool).collect::<Vec<_>>().join(",")));
    assert!(schema.len() > 2900);
    let faulty = [source("many", &["--tools-json", &tools], ""), source("large", &[], "")];
    // What a client lists in one go is measured elsewhere.
    let settings = "exposure = \"progressive\"\nalways_visible = [\"healthy/*\"]";
    let mut trial = Trial::start_in(&place, settings, &faulty);
    trial.await_status("many", "ready");
    eventually("it is listed", || trial.status("many")["tools"] == 2000);
    assert_eq!(trial.call("many", "tool_1999", json!({"property_0": "x"})).structured(), json!({"property_0": "x"}));
    let memory = resident(&trial);
    let image = "iVBORw0KGgo".repeat(800_000);
    let result = format!("{{\"content\":[{{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"{image}\"}}]}}");
    let file = place.write("image.json", &result);
    for _ in 0..3 {
        let waiting = trial.ask_call("large", "raw", json!({"result_file": file}));
        assert!(trial.answer(&waiting).raw("result") == Some(&result));
        let waiting = trial.ask_call("large", "big", json!({"bytes": 30_000_000}));
        assert!(trial.answer(&waiting).line.len() > 30_000_000);
    }
    eventually("the memory is given back", || resident(&trial) < memory + 60_000);
    trial.finish();
}

#[test]
fn c06_a06_nothing_is_cut_without_a_sign() {
    let mut trial = Trial::start(&[source("sizes", &[], "")]);
    let sizes = [9_900, 10_100, 65_535, 65_536, 65_537, 1 << 20];
    for size in sizes {
        for result in [
            trial.call("sizes", "big", json!({"bytes": size})).result(),
            trial.call_direct("sizes__big", json!({"bytes": size})).result(),
        ] {
            assert_eq!(result["content"][0]["text"].as_str().unwrap().len(), size);
        }
    }
    let calls: Vec<Value> =
        (0..20).map(|n| json!({"source": "sizes", "tool": "big", "arguments": {"bytes": sizes[n % 5]}})).collect();
    let batch = trial.call_direct("batch_call", json!({"calls": calls})).result();
    let text = batch.to_string();
    assert!(text.len() > 20 * 9_900, "{}", text.len());
    // A description that is too long for a page is marked where it ends, and is whole where it is asked for.
    let place = Place::new();
    let long = format!("Finds needles{}", " and very long words about needles".repeat(400));
    let tools = json!([{"name": "needle", "description": long, "inputSchema": {"type": "object"}}]).to_string();
    let tools = place.write("tools.json", tools);
    let mut second = Trial::start_in(&place, "", &[source("wordy", &["--tools-json", &tools], "")]);
    second.await_status("wordy", "ready");
    let found = second.call_direct("find_tools", json!({"query": "needle"})).structured();
    let told = found["matches"][0].to_string();
    assert!(told.contains('…'), "{told}");
    let whole = second.call_direct("find_tools", json!({"query": "needle", "detail": "full"})).structured();
    assert!(whole["matches"][0].to_string().contains(long.trim()), "{whole}");
    second.finish();
    trial.finish();
}
