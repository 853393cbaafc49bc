//! Sessions of legacy clients over HTTP: how they begin and end, which statuses say so, and what can be taken up again.

#![allow(clippy::unwrap_used)]

#[path = "support/http.rs"]
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Client, Connection, Event, Front, Place, eventually, source};

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

fn front() -> Front {
    Front::start("", &[source("fix", &[], "")])
}

/// C14-A01: what is asked for is spoken where it can be, else the newest before 2026-07-28.
#[test]
fn every_revision_is_negotiated() {
    let front = front();
    for (asked, want) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let mut client = front.client(None);
        assert_eq!(client.greet(asked)["protocolVersion"], want, "{asked}");
        assert!(client.call("fix", "echo", json!({"n": asked})).text().contains(asked));
    }
    front.finish();
}

/// C14-A02, C14-A03: a client need not have said `initialized`, and need not repeat the revision; but not say nonsense.
#[test]
fn order_and_version_header_are_taken_leniently() {
    let front = front();
    let answer = front.post(&["MCP-Protocol-Version: 2025-11-25"], INITIALIZE);
    let session = format!("Mcp-Session-Id: {}", answer.head.header("mcp-session-id").unwrap());
    for more in [None, Some("MCP-Protocol-Version: 2025-11-25"), Some("MCP-Protocol-Version: 2025-06-18")] {
        let headers: Vec<&str> = [session.as_str()].into_iter().chain(more).collect();
        for (body, status) in [
            (PING, 200),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, 200),
            (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}"#, 200),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, 202),
            (r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, 202),
        ] {
            let answer = front.post(&headers, body);
            assert_eq!(answer.head.status, status, "{more:?} {body}: {}", answer.body);
            assert_eq!(answer.body.is_empty(), status == 202, "{}", answer.body);
        }
    }
    for bad in ["banana", "2024-01-01", ""] {
        let answer = front.post(&[&session, &format!("MCP-Protocol-Version: {bad}")], PING);
        assert_eq!(answer.head.status, 400, "{bad}: {}", answer.body);
        let said = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains("MCP-Protocol-Version") && said.contains("2025-06-18"), "{bad}: {said}");
        // Without a session it may be one of any era.
        let answer = front.post(&[&format!("MCP-Protocol-Version: {bad}")], PING);
        assert_eq!((answer.head.status, answer.error_code()), (400, -32022), "{bad}: {}", answer.body);
        let data = &answer.json()["error"]["data"];
        assert_eq!((&data["requested"], &data["supported"][0]), (&json!(bad), &json!("2026-07-28")));
    }
    front.finish();
}

/// C18-A03, C18-A04: whoever comes with a session that is not there any more is told so that it can begin again.
#[test]
fn lost_sessions_are_404_and_missing_ones_400() {
    let front = Front::start("", &[source("fix", &[], ""), "[http]\nsession_idle_secs = 1\n".to_owned()]);
    let ended = front.greeted(None);
    let session = |client: &Client| format!("Mcp-Session-Id: {}", client.session.as_deref().unwrap());
    let ask = |method: &str, header: &str| {
        let answer = front.ask(method, "/mcp", &[header], if method == "POST" { PING } else { "" });
        assert!(answer.head.status == 200 || answer.json()["error"]["message"].is_string(), "{}", answer.body);
        answer.head.status
    };
    assert_eq!(ask("DELETE", &session(&ended)), 200);
    let idle = front.greeted(None);
    eventually("the session expires", || ask_quietly(&front, &session(&idle)) == 404);
    let unknown = "Mcp-Session-Id: 0123456789abcdef0123456789abcdef".to_owned();
    for header in [session(&ended), session(&idle), unknown, "Mcp-Session-Id: x".to_owned()] {
        for method in ["POST", "GET", "DELETE"] {
            assert_eq!(ask(method, &header), 404, "{method} {header}");
        }
        let again = front.post(&[&header], INITIALIZE);
        assert_eq!(again.head.status, 200);
        assert!(!header.contains(again.head.header("mcp-session-id").unwrap()));
    }
    assert_eq!(front.post(&[], PING).head.status, 400);
    for method in ["GET", "DELETE", "PUT", "HEAD", "PATCH"] {
        let answer = front.ask(method, "/mcp", &[], "");
        assert_eq!(answer.head.status, 405, "{method}");
        assert!(answer.head.header("allow").unwrap().contains("POST"));
    }
    // A session that somebody listens to or asks in is not idle.
    let mut busy = front.greeted(None);
    let mut stream = busy.listen(None);
    stream.head();
    busy.call("fix", "sleep", json!({"ms": 3000}));
    assert_eq!(busy.request("ping", json!({})).raw("result"), Some("{}"));
    front.finish();
}

/// A call that outlived its connection is use like any other: its client has the whole time to come back for the answer.
#[test]
fn a_session_is_idle_from_the_end_of_its_last_call() {
    let front = Front::start("", &[source("fix", &[], ""), "[http]\nsession_idle_secs = 5\n".to_owned()]);
    let (mut client, mut other) = (front.greeted(None), front.greeted(None));
    client.call("fix", "echo", json!({}));
    let mut stream = slow(&mut client, 6500, 0);
    stream.head();
    let prime = stream.event().unwrap();
    drop(stream);
    // When this one is answered, the other is too; a look at sessions comes every second.
    other.call("fix", "sleep", json!({"ms": 8000}));
    let mut again = client.listen(prime.id.as_deref());
    assert_eq!(again.head().status, 200);
    let answer = std::iter::from_fn(|| again.event()).find(|event| !event.data.is_empty()).unwrap();
    assert!(message(&answer)["result"].is_object(), "{answer:?}");
    front.finish();
}

/// Every look keeps a session alive, so there must be more than its time between two.
fn ask_quietly(front: &Front, session: &str) -> u16 {
    std::thread::sleep(Duration::from_millis(2500));
    front.post(&[session], PING).head.status
}

/// A restart forgets sessions; its clients are told and go on.
#[test]
fn a_restart_is_told_with_404() {
    let place = Place::new();
    let tables = [source("fix", &[], "")];
    let first = Front::start_in(&place, "", &tables);
    let session = format!("Mcp-Session-Id: {}", first.greeted(None).session.unwrap());
    first.finish();
    let second = Front::start_in(&place, "", &tables);
    assert_eq!(second.post(&[&session], PING).head.status, 404);
    assert_eq!(second.post(&[&session], INITIALIZE).head.status, 200);
    second.finish();
}

/// C18-A06: two sessions with the same ids in flight, one source: each gets what belongs to it.
#[test]
fn sessions_do_not_mix() {
    let front = front();
    let clients: Vec<Client> = (0..8).map(|_| front.greeted(None)).collect();
    std::thread::scope(|scope| {
        for (at, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                for n in 0..50 {
                    let said = format!("{at}:{n}");
                    assert!(client.call("fix", "echo", json!({"said": said})).text().contains(&said));
                }
                assert_eq!(client.notices, [] as [Value; 0]);
            });
        }
    });
    front.finish();
}

/// C18-A07: one source, one handshake, whoever calls.
#[test]
fn a_source_is_shared_by_all_sessions() {
    let place = Place::new();
    let front = Front::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    for _ in 0..3 {
        front.greeted(None).call("fix", "echo", json!({}));
        front.client(None).call("fix", "echo", json!({}));
    }
    assert_eq!(place.journal_count("fix.journal", "initialize"), 1);
    assert_eq!(place.journal_count("fix.journal", "tools/call"), 6);
    front.finish();
}

/// Asks for a slow call with progress, and gives the stream of it.
fn slow(client: &mut Client, ms: u64, progress: u64) -> Connection {
    let arguments = json!({"source": "fix", "tool": "sleep", "arguments": {"ms": ms, "progress": progress}});
    let params = json!({"name": "call_tool", "arguments": arguments, "_meta": {"progressToken": "p"}});
    let (text, headers) = client.request_text("tools/call", params);
    client.begin(&headers, &text)
}

fn message(event: &Event) -> Value {
    serde_json::from_str(&event.data).unwrap_or_default()
}

/// C19-A03: events arrive when they are sent, and a stream that broke is taken up where it broke, to its end.
#[test]
fn a_broken_stream_is_taken_up_again() {
    let front = front();
    let mut client = front.greeted(None);
    client.call("fix", "echo", json!({}));
    let mut stream = slow(&mut client, 2000, 8);
    assert!(stream.head().is_stream());
    let prime = stream.event().unwrap();
    assert_eq!(prime.data, "");
    let first = stream.event().unwrap();
    assert_eq!(message(&first)["method"], "notifications/progress");
    drop(stream);
    let mut rest = Vec::new();
    let mut again = client.listen(first.id.as_deref());
    assert!(again.head().is_stream());
    while let Some(event) = again.event() {
        rest.push(event);
    }
    let rest: Vec<_> = rest.iter().filter(|event| !event.data.is_empty()).collect();
    let progress = |value: &Value| value["params"]["progress"].as_f64().unwrap();
    let steps: Vec<f64> = rest[..rest.len() - 1].iter().map(|event| progress(&message(event))).collect();
    assert!(steps.is_sorted() && steps[0] > progress(&message(&first)), "{steps:?}");
    assert_eq!(steps.len(), 7, "{steps:?}");
    assert!(message(rest[rest.len() - 1])["result"].is_object(), "{rest:?}");
    // Taken up once more, from the beginning: the answer is still there for a while.
    let mut whole = client.listen(prime.id.as_deref());
    whole.head();
    let mut count = 0;
    while let Some(event) = whole.event() {
        count += usize::from(!event.data.is_empty());
    }
    assert_eq!(count, 9);
    front.finish();
}

/// What cannot be taken up is refused: it used to be given the stream of news, where no answer ever comes, and which was taken
/// from whoever listened to it.
#[test]
fn events_that_were_never_sent_are_refused() {
    let front = front();
    let mut client = front.greeted(None);
    let mut news = client.listen(None);
    assert_eq!(news.head().status, 200);
    let prime = news.event().unwrap().id.unwrap();
    client.call("fix", "echo", json!({}));
    let mut stream = slow(&mut client, 500, 0);
    stream.head();
    let own = stream.event().unwrap().id.unwrap();
    while stream.event().is_some() {}
    let (number, _) = own.split_once('-').unwrap();
    let unsent = format!("{number}-99");
    for id in ["zzz", "999-4", "0-99", "-", "1", "99999999999999999999999-1", &unsent] {
        let answer = client.listen(Some(id)).whole();
        assert_eq!((answer.head.status, answer.error_code()), (400, -32600), "{id}: {}", answer.body);
        assert!(answer.body.contains("Last-Event-ID"), "{}", answer.body);
    }
    let answer = front.greeted(None).listen(Some(&own)).whole();
    assert_eq!(answer.head.status, 400, "another session's: {}", answer.body);
    // Whoever listens for news was left alone.
    news.reader.get_ref().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    while let Ok(event) = news.try_event() {
        assert!(event.is_some(), "the stream of news was ended");
    }
    for id in [&prime, &own, ""] {
        assert_eq!(client.listen(Some(id)).head().status, 200, "{id}");
    }
    front.finish();
}

/// A client whose connections all break: every answer is still there, however many later calls it read to their end.
#[test]
fn answers_that_nobody_has_read_are_kept() {
    let front = front();
    let mut client = front.greeted(None);
    client.call("fix", "echo", json!({}));
    let mut primes = Vec::new();
    for _ in 0..12 {
        let mut stream = slow(&mut client, 600, 0);
        assert!(stream.head().is_stream());
        primes.push(stream.event().unwrap().id.unwrap());
    }
    // When this one is answered, all before it are.
    client.call("fix", "sleep", json!({"ms": 900}));
    let mut read: Vec<_> = (0..10).map(|_| slow(&mut client, 500, 0)).collect();
    let read: Vec<_> = read
        .iter_mut()
        .map(|stream| {
            stream.head();
            let id = stream.event().unwrap().id.unwrap();
            while stream.event().is_some() {}
            id
        })
        .collect();
    slow(&mut client, 500, 0).head();
    for id in &primes {
        let mut stream = client.listen(Some(id));
        assert_eq!(stream.head().status, 200);
        assert_eq!(stream.event().unwrap().data, "");
        assert!(message(&stream.event().unwrap())["result"].is_object());
    }
    // What was read may be forgotten.
    assert_eq!(client.listen(Some(&read[0])).head().status, 400);
    front.finish();
}

/// A legacy client that goes away has not cancelled (2025-11-25, "Transports").
#[test]
fn a_legacy_client_that_goes_away_cancels_nothing() {
    let place = Place::new();
    let front = Front::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    let mut client = front.greeted(None);
    client.call("fix", "echo", json!({}));
    let mut stream = slow(&mut client, 1500, 0);
    assert!(stream.head().is_stream());
    let prime = stream.event().unwrap();
    drop(stream);
    let mut again = client.listen(prime.id.as_deref());
    again.head();
    let answer = std::iter::from_fn(|| again.event()).find(|event| !event.data.is_empty()).unwrap();
    assert!(message(&answer)["result"].is_object(), "{answer:?}");
    assert_eq!(place.journal_count("fix.journal", "notifications/cancelled"), 0);
    // What it cancels in words is cancelled, and the stream of it ends.
    let mut stream = slow(&mut client, 60_000, 0);
    stream.head();
    let (text, _) = client.request_text("ping", json!({}));
    let id = serde_json::from_str::<Value>(&text).unwrap()["id"].as_u64().unwrap() - 1;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    assert_eq!(client.exchange(&[], &cancel.to_string()).0.status, 202);
    while let Some(event) = stream.event() {
        assert_eq!(event.data, "");
    }
    eventually("the source is told", || place.journal_count("fix.journal", "notifications/cancelled") == 1);
    front.finish();
}

/// News that came while nobody listened is there for whoever comes back with the last id.
#[test]
fn news_are_taken_up_again() {
    let front = Front::start("exposure = \"eager\"", &[source("fix", &["--changing"], "")]);
    let mut client = front.greeted(None);
    eventually("the tools are listed", || client.names().iter().any(|name| name == "fix__grow"));
    let mut stream = client.listen(None);
    stream.head();
    stream.event();
    let grow = |client: &mut Client| drop(client.call("fix", "grow", json!({})));
    grow(&mut client);
    let first = stream.event().unwrap();
    assert_eq!(message(&first)["method"], "notifications/tools/list_changed");
    drop(stream);
    client.names();
    grow(&mut client);
    let listed = |client: &mut Client| client.request("tools/list", json!({})).line;
    // Asked for by another session, so that this one is not taken to know.
    let mut other = front.greeted(None);
    eventually("the second tool is there", || listed(&mut other).contains("grown_2"));
    let mut again = client.listen(first.id.as_deref());
    again.head();
    let next = std::iter::from_fn(|| again.event()).find(|event| !event.data.is_empty()).unwrap();
    assert_eq!(message(&next)["method"], "notifications/tools/list_changed");
    assert_ne!(next.id, first.id);
    // A second listener takes the first one's place.
    let mut second = client.listen(None);
    second.head();
    assert_eq!(std::iter::from_fn(|| again.event()).find(|event| !event.data.is_empty()), None);
    front.finish();
}

#[test]
fn batches_belong_to_one_revision() {
    let front = front();
    let echo = |id: u64| {
        let inner = json!({"source": "fix", "tool": "echo", "arguments": {"n": id}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "call_tool", "arguments": inner}})
    };
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let batch = json!([echo(11), notice, {"jsonrpc": "2.0", "id": 12, "method": "ping"}, 5, echo(13)]).to_string();
    let mut old = front.client(None);
    old.greet("2025-03-26");
    let mut connection = old.begin(&[], &batch);
    let answer = connection.whole();
    assert_eq!(answer.head.status, 200);
    let messages: Vec<Value> = match answer.head.is_stream() {
        false => serde_json::from_str(&answer.body).unwrap(),
        true => {
            let lines = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
            lines.map(|line| serde_json::from_str(line).unwrap()).collect()
        }
    };
    let mut ids: Vec<String> = messages.iter().map(|message| message["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["11", "12", "13", "null"]);
    // An array is answered with an array, whatever is in it; a batch within one is no message.
    let ping = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    for (sent, want) in [
        (json!([ping(1)]), json!([[1, null]])),
        (json!([notice, ping(1), notice]), json!([[1, null]])),
        (json!([[ping(1), ping(2)], ping(3)]), json!([[null, -32600], [3, null]])),
        (json!([5]), json!([[null, -32600]])),
    ] {
        let answer = old.begin(&[], &sent.to_string()).whole();
        let answers = answer.json().as_array().unwrap_or_else(|| panic!("{sent}: {}", answer.body)).clone();
        let told: Vec<Value> = answers.iter().map(|one| json!([one["id"], one["error"]["code"]])).collect();
        assert_eq!((answer.head.status, json!(told)), (200, want), "{sent}: {}", answer.body);
    }
    assert_eq!(old.begin(&[], &json!([notice]).to_string()).whole().head.status, 202);
    for (text, code) in [("[]", -32600), (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},"#, -32700)] {
        let answer = old.begin(&[], text).whole();
        assert_eq!((answer.head.status, answer.error_code()), (400, code), "{text}");
    }
    for client in [front.greeted(None), front.client(None)] {
        let answer = client.begin(&[], &batch).whole();
        assert_eq!((answer.head.status, answer.error_code()), (400, -32600));
    }
    front.finish();
}

/// What the system says of a process: resident kilobytes, open descriptors, threads.
fn held(front: &Front) -> (u64, usize, u64) {
    let pid = front.relay.pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    (of("VmRSS:"), std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(), of("Threads:"))
}

/// C18-A08: sessions of clients that vanish, listeners that never close, and refused requests leave nothing behind.
#[test]
fn five_thousand_sessions_leave_nothing_behind() {
    let front = Front::start("", &[source("fix", &[], ""), "[http]\nsession_idle_secs = 6\n".to_owned()]);
    front.greeted(None).call("fix", "echo", json!({}));
    sessions(&front, 500);
    let base = held(&front);
    let ids = sessions(&front, 5000);
    for id in ids.iter().step_by(100) {
        assert_eq!(front.post(&[&format!("Mcp-Session-Id: {id}")], PING).head.status, 404);
    }
    let at_most = (base.0 + 6 * 1024, base.1 + 2, base.2 + 2);
    let mut now = held(&front);
    eventually("descriptors, threads and memory come back", || {
        now = held(&front);
        now.0 <= at_most.0 && now.1 <= at_most.1 && now.2 <= at_most.2
    });
    eprintln!("kB, descriptors, threads: {base:?}, and {now:?} after 5000 sessions");
    // However many clients there were, they had one source.
    assert_eq!(front.relay.place.processes(front.relay.pid()).len(), 1);
    front.finish();
}

/// So many clients begin a session and vanish; every fifth of them listens until then, and every tenth says that it goes. As
/// many requests are refused. Gives the sessions that nobody ended, when they have expired.
fn sessions(front: &Front, count: usize) -> Vec<String> {
    let descriptors = held(front).1;
    let (mut left, mut streams) = (Vec::with_capacity(count), Vec::new());
    for n in 0..count {
        let client = front.greeted(None);
        let id = client.session.clone().unwrap();
        if n % 5 == 0 {
            streams.push(client.listen(None));
        }
        match n % 10 {
            9 => assert_eq!(front.ask("DELETE", "/mcp", &[&format!("Mcp-Session-Id: {id}")], "").head.status, 200),
            _ => left.push(id),
        }
        let refused: (&str, &[&str]) = match n % 4 {
            0 => ("GET", &["Accept: text/plain"]),
            1 => ("GET", &["Mcp-Session-Id: nobody"]),
            2 => ("HEAD", &[]),
            _ => ("OPTIONS", &[]),
        };
        // A preflight is answered, and begins nothing either.
        assert_ne!(front.ask(refused.0, "/mcp", refused.1, "").head.status, 200, "{refused:?}");
        // Half open are up to this many at a time, and gone without a word.
        if streams.len() == 200 {
            streams.clear();
        }
    }
    drop(streams);
    // A session is idle from the end of its stream on, which the relay may notice later than the newest session has begun. So
    // more begin afterwards, enough of them for one look at each while they expire: a look keeps a session alive. When one
    // of these has expired, so have all that nobody has used since.
    eventually("the streams are gone", || held(front).1 <= descriptors + 2);
    let mut later: Vec<String> = (0..300).map(|_| front.greeted(None).session.clone().unwrap()).collect();
    while {
        let id = later.pop().expect("sessions expire");
        front.post(&[&format!("Mcp-Session-Id: {id}")], PING).head.status != 404
    } {
        std::thread::sleep(Duration::from_millis(50));
    }
    left
}
