//! The HTTP front at its limits: what is refused, who is kept waiting, and how it ends.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/standing_http.rs"]
mod standing_http;
#[path = "support/http.rs"]
mod support;

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use standing_http::HttpTrial;
use support::{Client, Connection, END, Front, PATIENCE, Place, eventually, source};

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;

#[test]
fn what_is_no_request_of_mcp_is_refused_with_its_status() {
    let front = Front::start("", &[source("fix", &[], "")]);
    let session = format!("Mcp-Session-Id: {}", front.greeted(None).session.unwrap());
    for (method, path, header, body, status) in [
        ("POST", "/mcp", "Content-Type: text/plain", INITIALIZE, 415),
        ("POST", "/mcp", "Content-Type: application/json; charset=utf-8", INITIALIZE, 200),
        ("POST", "/mcp", "X: y", "", 400),
        ("POST", "/mcp", "X: y", "null", 400),
        ("POST", "/mcp", "X: y", "{\"jsonrpc\":\"2.0\"}", 400),
        ("POST", "/mcp", "X: y", "\u{0}", 400),
        ("PUT", "/mcp", &session, INITIALIZE, 405),
        ("GET", "/mcp", "Accept: text/event-stream", "", 405),
        ("POST", "/", "X: y", INITIALIZE, 404),
        ("POST", "/mcp/", "X: y", INITIALIZE, 404),
        ("GET", "/healthz", "X: y", "", 200),
    ] {
        let answer = front.ask(method, path, &[header], body);
        assert_eq!(answer.head.status, status, "{method} {path} {header} {body}: {}", answer.body);
        assert!(status == 200 || answer.json()["error"]["message"].is_string(), "{}", answer.body);
    }
    for accept in ["Accept: application/json", "Accept: text/event-stream;q=0, */*"] {
        let mut connection = front.connect();
        connection.send("GET", "/mcp", &[&session, accept], "");
        assert_eq!(connection.head().status, 406, "{accept}");
    }
    front.finish();
}

/// JSON may be written over many lines; a source takes one.
#[test]
fn pretty_printed_bodies_are_taken() {
    let front = Front::start("", &[source("fix", &[], "")]);
    let mut client = front.greeted(None);
    let inner = json!({"source": "fix", "tool": "echo", "arguments": {"a": [1, "two\nlines"], "b": {}}});
    let (text, _) = client.request_text("tools/call", json!({"name": "call_tool", "arguments": inner}));
    let value: Value = serde_json::from_str(&text).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    for body in [pretty.replace('\n', "\r\n"), format!("\r\n{pretty}\n\n")] {
        let (head, reply) = client.exchange(&[], &body);
        assert_eq!(head.status, 200);
        let text = reply.unwrap().text();
        assert!(text.contains("two\\nlines"), "{text}");
    }
    front.finish();
}

#[test]
fn sizes_have_limits() {
    let front = Front::start("max_message_mib = 1", &[source("fix", &[], "")]);
    let big = format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 20));
    // Told beforehand: refused before it is read.
    let mut told = front.connect();
    told.write(
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            big.len()
        )
        .as_bytes(),
    );
    let answer = told.whole();
    assert_eq!(answer.head.status, 413);
    assert!(answer.body.contains("max_message_mib"), "{}", answer.body);
    // Not told: refused as soon as it is too much.
    let mut chunked = front.connect();
    chunked.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    chunked.write(format!("{:x}\r\n{big}\r\n", big.len()).as_bytes());
    assert_eq!(chunked.whole().head.status, 413);
    let huge = format!("X-Huge: {}", "y".repeat(200 * 1024));
    let mut connection = front.connect();
    let text = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{huge}\r\nContent-Length: 2\r\n\r\n{{}}");
    let _ = connection.reader.get_mut().write_all(text.as_bytes());
    assert_eq!(connection.head().status, 431);
    assert_eq!(front.post(&[], INITIALIZE).head.status, 200);
    front.finish();
}

/// A client that sends all of its request before it reads gets to read why it is refused, whatever the reason.
#[test]
fn clients_that_send_first_read_why_they_are_refused() {
    let token = "[credential.me]\ntoken = \"0123456789abcdef0123456789abcdef\"\n";
    let front = Front::start("max_message_mib = 1", &[source("fix", &[], ""), token.to_owned()]);
    let known = "Authorization: Bearer 0123456789abcdef0123456789abcdef";
    let big = format!("{{\"x\":\"{}\"}}", "x".repeat(48 << 20));
    for (path, headers, status) in [
        ("/mcp", vec![known], 413),
        ("/mcp", vec![], 401),
        ("/elsewhere", vec![known], 404),
        ("/mcp", vec![known, "Host: evil.example"], 403),
        ("http://evil.example/mcp", vec![known], 403),
        ("/mcp", vec![known, "Content-Type: text/plain"], 415),
    ] {
        let mut connection = front.connect();
        connection.send("POST", path, &headers, &big);
        assert_eq!(connection.whole().head.status, status, "{path} {headers:?}");
        // What is left of the body is not taken for a request.
        connection.send("GET", "/healthz", &[], "");
        assert_eq!(connection.whole().head.status, 200, "after {path} {headers:?}");
    }
    front.finish();
}

/// C20-A07: a web page that made its own name lead here, and one that just tries.
#[test]
fn foreign_hosts_and_origins_stay_out() {
    let tables = [
        source("fix", &[], ""),
        "[http]\nallowed_hosts = [\"relay.example\"]\nallowed_origins = [\"https://app.example\"]\n".to_owned(),
    ];
    let place = Place::new();
    let front = HttpTrial::start_in(&place, "", &tables);
    let port = front.address.port();
    let own = format!("Host: 127.0.0.1:{port}");
    for (headers, status) in [
        (vec!["Host: evil.example"], 403),
        (vec!["Host: localhost.evil.example"], 403),
        (vec!["Host: 10.0.0.9"], 403),
        (vec!["Origin: http://evil.example"], 403),
        (vec!["Origin: null"], 403),
        (vec!["Origin: https://app.example.evil"], 403),
        (vec!["Origin: http://localhost:6274"], 200),
        (vec!["Origin: http://[::1]:6274"], 200),
        (vec!["Origin: https://app.example"], 200),
        (vec!["Host: relay.example:8443"], 200),
        (vec!["Host: [::1]:7"], 200),
        (vec![own.as_str()], 200),
    ] {
        let answer = front.post(&headers, INITIALIZE);
        assert_eq!(answer.head.status, status, "{headers:?}: {}", answer.body);
        let shown = answer.head.header("access-control-allow-origin");
        assert_eq!(shown.is_some(), status == 200 && headers[0].starts_with("Origin"), "{headers:?}");
        // The preflight of a page says the same.
        let answer = front.ask("OPTIONS", "/mcp", &headers, "");
        assert_eq!(answer.head.status, if status == 200 { 204 } else { 403 }, "{headers:?}");
    }
    front.finish();
}

/// A tool may say that its arguments are repeated in headers: a page must be able to send those, whatever their names.
#[test]
fn a_page_may_send_the_headers_of_arguments() {
    let front = Front::start("", &[source("fix", &[], "")]);
    let allowed = |headers: &[&str]| {
        let answer = front.ask("OPTIONS", "/mcp", headers, "");
        assert_eq!(answer.head.status, 204);
        answer.head.header("access-control-allow-headers").unwrap().to_owned()
    };
    let origin = "Origin: http://localhost:6274";
    let usual = allowed(&[origin]);
    let asked = "Access-Control-Request-Headers: content-type, Mcp-Param-Region,mcp-param-zone, x-own, mcp-param-a b,,mcp-param-";
    let more = allowed(&[origin, asked, "Access-Control-Request-Headers: mcp-param-second"]);
    assert_eq!(more, format!("{usual}, mcp-param-region, mcp-param-zone, mcp-param-, mcp-param-second"));
    assert_eq!(allowed(&[asked]), usual);
    let denied = front.ask("OPTIONS", "/mcp", &["Origin: http://evil.example", asked], "");
    assert_eq!((denied.head.status, denied.head.header("access-control-allow-headers")), (403, None));
    front.finish();
}

/// Bodies and headers that come in drops are taken; those that stop coming are given up, and nobody waits for them.
#[test]
fn slow_senders_keep_nobody_waiting() {
    let front = Front::start("", &[source("fix", &[], "")]);
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        INITIALIZE.len()
    );
    let mut stalled = [head.as_str(), "POST /mcp HT"].map(|text| {
        let mut connection = front.connect();
        connection.write(text.as_bytes());
        connection.reader.get_ref().set_read_timeout(Some(3 * PATIENCE)).unwrap();
        connection
    });
    stalled[0].write(&INITIALIZE.as_bytes()[..20]);
    let mut quiet = front.greeted(None).listen(None);
    assert!(quiet.head().is_stream());
    let began = Instant::now();
    let mut slow = front.connect();
    for byte in head.bytes().chain(INITIALIZE.bytes()) {
        slow.write(&[byte]);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(slow.whole().head.status, 200);
    let mut client = front.greeted(None);
    while began.elapsed() < Duration::from_secs(5) {
        let asked = Instant::now();
        assert!(client.call("fix", "echo", json!({"a": 1})).text().contains("\"a\":1"));
        assert!(asked.elapsed() < PATIENCE / 4);
    }
    assert_eq!(stalled[0].whole().head.status, 408);
    assert!(stalled[1].closed());
    assert!(began.elapsed() < 2 * PATIENCE, "{:?}", began.elapsed());
    // A stream without news says now and then that it is alive, so that nobody on the way takes it for dead (C19-A03).
    let comments = std::iter::from_fn(|| quiet.line().ok()).filter(|line| line.starts_with(": "));
    assert_eq!(comments.take(2).count(), 2);
    front.finish();
}

fn resident(front: &Front) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", front.relay.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn begin_call(client: &mut Client, tool: &str, arguments: Value) -> Connection {
    begin_call_with(client, "p", tool, arguments)
}

/// Begins a call that reports `n` steps of 10 kB each: the client's own token makes them large.
fn begin_burst(client: &mut Client, n: u64) -> Connection {
    begin_call_with(client, &"p".repeat(10_000), "burst", json!({"n": n}))
}

fn begin_call_with(client: &mut Client, token: &str, tool: &str, arguments: Value) -> Connection {
    let inner = json!({"source": "fix", "tool": tool, "arguments": arguments});
    let params = json!({"name": "call_tool", "arguments": inner, "_meta": {"progressToken": token}});
    let (text, headers) = client.request_text("tools/call", params);
    client.begin(&headers, &text)
}

/// Clients that ask for much and read nothing, and ones that listen and never read: the others go on, and what waits for
/// the deaf ones stays within bounds.
#[test]
fn clients_that_stop_reading_harm_nobody() {
    let front = Front::start("", &[source("fix", &[], ""), source("calm", &[], "")]);
    let mut client = front.greeted(None);
    client.call("fix", "big", json!({"bytes": 4 << 20}));
    client.call("calm", "echo", json!({}));
    let before = resident(&front);
    let mut deaf = Vec::new();
    for _ in 0..6 {
        let mut other = front.greeted(None);
        deaf.push(begin_call(&mut other, "big", json!({"bytes": 4 << 20})));
        deaf.push(other.listen(None));
    }
    // More than one client may leave unread.
    let mut drowned = begin_burst(&mut front.greeted(None), 12_000);
    for n in 0..100 {
        assert!(client.call("calm", "echo", json!({"n": n})).text().contains(&format!("\"n\":{n}")));
    }
    // After everything that was asked of this source before.
    assert!(client.call("fix", "echo", json!({"last": 1})).text().contains("last"));
    let grown = resident(&front).saturating_sub(before);
    assert!(grown < (6 * 4 + 8) * 2 * 1024, "{grown} KiB");
    // Who left too much unread has got the beginning, and its answer when it reads again.
    assert!(drowned.head().is_stream());
    assert!(read_burst(&mut drowned, 12_000) > 100);
    drop(deaf);
    front.finish();
}

/// Reads the stream of a burst of `n` to its end, which is the answer; gives how many steps were told of.
#[track_caller]
fn read_burst(stream: &mut Connection, n: u64) -> u64 {
    let (mut told, mut last, mut answer) = (0, 0, None);
    let lines = std::iter::from_fn(|| stream.line().ok().filter(|line| line != "0"));
    for line in lines {
        let Some(message) = line.strip_prefix("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok())
        else {
            continue;
        };
        assert!(answer.is_none(), "after the answer: {message}");
        match message["params"]["progress"].as_u64() {
            Some(step) => {
                assert!(step > last, "{step} after {last}");
                (told, last) = (told + 1, step);
            }
            None => answer = Some(message),
        }
    }
    let answer = answer.unwrap_or_else(|| panic!("no answer after {told} steps, the last of them {last}"));
    assert_eq!(answer["result"]["content"][0]["text"], format!("burst of {n}"));
    told
}

/// A client that was busy for a moment while its call reported much got neither the rest nor its answer.
#[test]
fn clients_that_stop_reading_for_a_moment_get_their_answers() {
    let place = Place::new();
    let front = Front::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    let (mut other, mut legacy, mut modern) = (front.greeted(None), front.greeted(None), front.client(None));
    let n = 4_000;
    let mut streams = [&mut legacy, &mut modern].map(|client| begin_burst(client, n));
    let mut broken = begin_burst(&mut legacy, n);
    eventually("all are in flight", || place.journal_count("fix.journal", "tools/call") == 3);
    // After everything that the bursts brought.
    assert!(other.call("fix", "echo", json!({"last": 1})).text().contains("last"));
    for stream in &mut streams {
        assert!(stream.head().is_stream());
        let told = read_burst(stream, n);
        assert!((100..n).contains(&told), "{told}");
    }
    // The same where the stream is taken up on another connection.
    assert!(broken.head().is_stream());
    let first = broken.event().unwrap().id.unwrap();
    drop(broken);
    let mut again = legacy.listen(Some(&first));
    assert!(again.head().is_stream());
    read_burst(&mut again, n);
    assert_eq!(front.relay.stderr().matches("a client does not read").count(), 3);
    front.finish();
}

/// One that says that it wants no events got a stream all the same.
#[test]
fn a_client_that_refuses_events_gets_json() {
    let front = Front::start("", &[source("fix", &[], "")]);
    for mut client in [front.greeted(None), front.client(None)] {
        client.headers.push("Accept: text/event-stream; Q=0.0, application/json".to_owned());
        let answer = begin_call(&mut client, "burst", json!({"n": 3})).whole();
        assert_eq!(answer.head.header("content-type"), Some("application/json"));
        assert_eq!(answer.json()["result"]["content"][0]["text"], "burst of 3");
    }
    front.finish();
}

/// A first signal lets what is in flight finish; all streams end; who comes later is told.
#[test]
fn a_signal_drains() {
    let front = Front::start("", &[source("fix", &[], "")]);
    let mut client = front.greeted(None);
    client.call("fix", "echo", json!({}));
    let mut news = client.listen(None);
    news.head();
    let mut idle = front.connect();
    let mut streamed = begin_call(&mut client, "sleep", json!({"ms": 1500}));
    assert!(streamed.head().is_stream());
    let mut modern = front.client(None);
    let mut quiet = begin_call(&mut modern, "sleep", json!({"ms": 1500}));
    let mut late = front.connect();
    let ready = front.ask("GET", "/readyz", &[], "");
    assert_eq!((ready.head.status, ready.json()["status"].clone()), (200, json!("ready")));
    front.relay.signal(Signal::TERM);
    eventually("nobody is let in any more", || std::net::TcpStream::connect(front.address).is_err());
    late.send("GET", "/readyz", &[], "");
    if let Ok(head) = late.try_head() {
        assert_eq!(head.status, 503);
    }
    let answer = std::iter::from_fn(|| streamed.event()).find(|event| event.data.contains("\"result\""));
    assert!(answer.is_some_and(|event| !event.data.contains("broke this request off")));
    let answer = quiet.whole().body;
    assert!(answer.contains("\"result\"") && !answer.contains("broke this request off"), "{answer}");
    while news.event().is_some() {}
    assert!(idle.closed());
    front.finish();
}

/// A second signal waits for nothing.
#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new();
    let front = Front::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    let mut client = front.greeted(None);
    client.call("fix", "echo", json!({}));
    let mut stream = begin_call(&mut client, "sleep", json!({"ms": 60_000}));
    stream.head();
    let mut json_only = front.greeted(None);
    json_only.headers.push("Accept: application/json".to_owned());
    let mut waiting = begin_call(&mut json_only, "sleep", json!({"ms": 60_000}));
    eventually("both are in flight", || place.journal_count("fix.journal", "tools/call") == 3);
    front.relay.signal(Signal::TERM);
    eventually("it has heard", || std::net::TcpStream::connect(front.address).is_err());
    let began = Instant::now();
    front.relay.signal(Signal::TERM);
    let answer = std::iter::from_fn(|| stream.event()).find(|event| event.data.contains("\"result\"")).unwrap();
    assert!(answer.data.contains("broke this request off"), "{answer:?}");
    assert!(waiting.whole().body.contains("broke this request off"));
    assert!(began.elapsed() < END);
    front.finish();
}

#[test]
fn readiness_tells_how_the_sources_are() {
    let place = Place::new();
    let tables = [source("fix", &[], ""), source("gone", &["--exit-at-once", "3"], "")];
    let front = Front::start_in(&place, "", &tables);
    eventually("it is ready", || front.ask("GET", "/readyz", &[], "").head.status == 200);
    front.greeted(None).call("fix", "echo", json!({}));
    eventually("the states are told", || {
        let told = front.ask("GET", "/readyz", &[], "").json();
        told["sources"] == json!({"ready": 1, "unreachable": 1})
    });
    assert_eq!(front.ask("GET", "/healthz", &[], "").json(), json!({"status": "ok"}));
    front.finish();
}

/// Its params were walked several times where all others wait meanwhile: a large message held up every client for most of the
/// time that it took.
#[test]
fn a_large_message_holds_up_nobody() {
    let front = Front::start("exposure = \"eager\"", &[source("fix", &[], "")]);
    eventually("the tools are listed", || front.client(None).names().iter().any(|name| name == "fix__echo"));
    let mut large = front.client(None);
    let (text, headers) = large.request_text("tools/call", json!({"name": "nothing", "arguments": {"x": ["HERE"]}}));
    let text = text.replace("\"HERE\"", &vec![r#"{"k":[1,2,"abc"]}"#; 1 << 20].join(","));
    let mut small = front.client(None);
    small.call_direct("fix__echo", json!({}));
    std::thread::scope(|scope| {
        let began = Instant::now();
        let large = scope.spawn(move || {
            let mut connection = large.begin(&headers, &text);
            let answer = connection.whole();
            assert!(answer.body.contains("no tool `nothing`"), "{}", answer.body);
            began.elapsed()
        });
        let mut longest = Duration::ZERO;
        while !large.is_finished() {
            let began = Instant::now();
            small.call_direct("fix__echo", json!({}));
            longest = longest.max(began.elapsed());
        }
        let whole = large.join().unwrap();
        assert!(longest < whole / 4, "a small call took {longest:?}, the large one {whole:?}");
    });
    front.finish();
}
