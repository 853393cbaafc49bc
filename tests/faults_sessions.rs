//! Sessions of clients over HTTP as gateways were reported to refuse, lose, mix or leak them (their beginning: class C14, the
//! rest: C18), one test an item, with the six standing assertions in each: another client looks on meanwhile. What each status and header says, in detail:
//! `tests/http_sessions.rs`; items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/standing_http.rs"]
mod standing_http;
#[path = "support/http.rs"]
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use standing::possessions;
use standing_http::HttpTrial;
use support::{Client, Place, eventually, source};

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

fn session(client: &Client) -> String {
    format!("Mcp-Session-Id: {}", client.session.as_deref().unwrap())
}

/// Every look keeps a session alive, so more than its second goes by before the next one.
fn is_gone_by_now(trial: &HttpTrial, session: &str) -> bool {
    let status = trial.post(&[session], PING).head.status;
    if status != 404 {
        std::thread::sleep(Duration::from_millis(2500));
    }
    status == 404
}

/// What is asked for is spoken where it can be, else the newest of its era; sessions of all of them go side by side.
#[test]
fn c14_a01_every_revision_is_negotiated() {
    let mut trial = HttpTrial::start(&[source("fix", &[], "")]);
    let asked = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01", "2099-01-01", "2026-07-28"];
    let mut clients = Vec::new();
    for asked in asked {
        let mut client = trial.client(None);
        let newest = if ("2024-11-05".."2026").contains(&asked) { asked } else { "2025-11-25" };
        assert_eq!(client.greet(asked)["protocolVersion"], newest, "{asked}");
        clients.push(client);
    }
    trial.holds();
    for (client, asked) in clients.iter_mut().zip(asked) {
        assert!(client.call("fix", "echo", json!({"n": asked})).text().contains(asked));
    }
    trial.finish();
}

/// A client need not have said `initialized`, and need not repeat the revision; but not say nonsense.
#[test]
fn c14_a03_the_order_and_the_version_header_are_taken_leniently() {
    let mut trial = HttpTrial::start(&[source("fix", &[], "")]);
    let answer = trial.post(&[], INITIALIZE);
    let session = format!("Mcp-Session-Id: {}", answer.head.header("mcp-session-id").unwrap());
    let list = r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#;
    for more in [None, Some("MCP-Protocol-Version: 2025-11-25"), Some("MCP-Protocol-Version: 2025-06-18")] {
        let headers: Vec<&str> = [session.as_str()].into_iter().chain(more).collect();
        assert_eq!(trial.post(&headers, PING).json()["result"], json!({}), "{more:?}");
        assert!(trial.post(&headers, list).json()["result"]["tools"].is_array(), "{more:?}");
    }
    for bad in ["banana", "2024-01-01", ""] {
        let answer = trial.post(&[&session, &format!("MCP-Protocol-Version: {bad}")], PING);
        assert_eq!(answer.head.status, 400, "{bad}: {}", answer.body);
        trial.holds();
    }
    trial.finish();
}

/// Whoever comes with the session of a relay that was started again is told, and goes on with a new one.
#[test]
fn c18_a03_a_restart_is_told_and_gone_on_from() {
    let place = Place::new();
    let tables = [source("fix", &[], "")];
    let mut old: Option<String> = None;
    for _ in 0..2 {
        let mut trial = HttpTrial::start_in(&place, "", &tables);
        if let Some(old) = &old {
            for method in ["POST", "GET", "DELETE"] {
                let answer = trial.ask(method, "/mcp", &[old], if method == "POST" { PING } else { "" });
                assert_eq!(answer.head.status, 404, "{method}: {}", answer.body);
                assert!(answer.json()["error"]["message"].is_string(), "{}", answer.body);
            }
            trial.holds();
            assert_eq!(trial.post(&[old], INITIALIZE).head.status, 200);
        }
        let mut client = trial.greeted(None);
        assert_eq!(client.call("fix", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
        old = Some(session(&client));
        drop(client);
        trial.finish();
    }
}

/// A session that has ended, one that has expired, and one that never was: each is told apart from a request without any.
#[test]
fn c18_a04_a_session_that_is_not_there_is_404_and_none_is_400() {
    let tables = [source("fix", &[], ""), "[http]\nsession_idle_secs = 1\n".to_owned()];
    let mut trial = HttpTrial::start(&tables);
    let ended = session(&trial.greeted(None));
    assert_eq!(trial.ask("DELETE", "/mcp", &[&ended], "").head.status, 200);
    let idle = session(&trial.greeted(None));
    eventually("the session expires", || is_gone_by_now(&trial, &idle));
    for lost in [&ended, &idle, "Mcp-Session-Id: 0123456789abcdef0123456789abcdef", "Mcp-Session-Id: x"] {
        let answer = trial.post(&[lost], PING);
        assert_eq!(answer.head.status, 404, "{lost}");
        assert!(answer.json()["error"]["message"].is_string(), "{}", answer.body);
        trial.holds();
        let again = trial.post(&[lost], INITIALIZE);
        assert_eq!(again.head.status, 200, "{lost}");
        assert!(!lost.contains(again.head.header("mcp-session-id").unwrap()));
    }
    assert_eq!(trial.post(&[], PING).head.status, 400);
    trial.finish();
}

/// Eight sessions with the same ids in flight at one source: each gets its own answers, and none another's progress.
#[test]
fn c18_a06_sessions_do_not_mix() {
    let mut trial = HttpTrial::start(&[source("fix", &[], "")]);
    let talk = |mut client: Client, at: usize| {
        for n in 0..30 {
            let said = json!({"said": format!("{at}:{n}")});
            assert_eq!(client.call("fix", "echo", said.clone()).structured(), said);
        }
        let params =
            json!({"name": "fix__sleep", "arguments": {"ms": 200, "progress": 3}, "_meta": {"progressToken": at}});
        assert_eq!(client.request("tools/call", params).text(), "slept 200 ms");
        let progress = client.notices.iter().filter(|notice| notice["method"] == "notifications/progress");
        let tokens: Vec<&Value> = progress.map(|notice| &notice["params"]["progressToken"]).collect();
        assert_eq!(tokens, [&json!(at); 3]);
    };
    let clients: Vec<Client> = (0..8).map(|_| trial.greeted(None)).collect();
    std::thread::scope(|scope| {
        for (at, client) in clients.into_iter().enumerate() {
            scope.spawn(move || talk(client, at));
        }
        trial.holds();
    });
    trial.finish();
}

/// One source, one handshake, whoever calls; and an end of one session is no end of the source.
#[test]
fn c18_a07_a_source_is_shared_by_all_sessions() {
    let place = Place::new();
    let mut trial = HttpTrial::start_in(&place, "", &[place.journaled("fix", &[], "")]);
    for n in 0..3 {
        let mut legacy = trial.greeted(None);
        assert_eq!(legacy.call("fix", "echo", json!({"n": n})).structured(), json!({"n": n}));
        assert_eq!(trial.ask("DELETE", "/mcp", &[&session(&legacy)], "").head.status, 200);
        trial.holds();
        assert_eq!(trial.client(None).call("fix", "echo", json!({"n": n})).structured(), json!({"n": n}));
    }
    assert_eq!(place.journal_count("fix.journal", "initialize"), 1);
    assert_eq!(place.journal_count("fix.journal", "tools/call"), 6);
    trial.finish();
}

/// Clients that vanish, with a stream open or without, ended or not, and requests that are refused, hold nothing.
#[test]
fn c18_a08_sessions_that_vanish_leave_nothing() {
    let mut trial = HttpTrial::start(&[source("fix", &[], ""), "[http]\nsession_idle_secs = 1\n".to_owned()]);
    let base = possessions(&trial.relay);
    let mut ids = Vec::new();
    for round in 0..4 {
        let mut held = Vec::new();
        for n in 0..30 {
            let mut client = trial.greeted(None);
            let stream = client.listen(None);
            assert_eq!(client.call("fix", "echo", json!({"n": n})).structured(), json!({"n": n}));
            if n % 3 == 0 {
                assert_eq!(trial.ask("DELETE", "/mcp", &[&session(&client)], "").head.status, 200);
            }
            assert_eq!(trial.ask("GET", "/mcp", &["Mcp-Session-Id: nobody"], "").head.status, 404);
            ids.push(session(&client));
            held.push((client, stream));
        }
        trial.holds();
        drop(held);
        eventually("what the clients held is given back", || possessions(&trial.relay).0 <= base.0 + 2);
        assert!(possessions(&trial.relay).1 <= base.1 + 24, "round {round}");
    }
    ids.iter().for_each(|id| eventually("the session expires", || is_gone_by_now(&trial, id)));
    trial.finish();
}
