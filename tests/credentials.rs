//! What credentials may see and call over HTTP: each principal has a world of its own, on every path.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/standing_http.rs"]
mod standing_http;
#[path = "support/http.rs"]
mod support;

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use standing_http::HttpTrial;
use support::{Client, Event, Front, Place, Relay, eventually};

const READER: &str = "reader-0123456789abcdef";
const OPS: &str = "ops-0123456789abcdef-ops";

fn credential(id: &str, token: &str, rules: &str) -> String {
    format!("[credential.{id}]\ntoken = {token:?}\n{rules}\n")
}

/// Two sources and two credentials: one sees the reading tools of the first source, the other everything.
fn two_worlds(place: &Place) -> Vec<String> {
    vec![
        place.journaled("notes", &["--tools", "get_note,get_secret,put_note"], ""),
        place.journaled("payroll", &["--tools", "get_salary,put_salary"], "summary = \"Who earns what.\""),
        "[toolset.desk]\ntools = [\"notes/get_*\", \"payroll/get_*\"]\n".to_owned(),
        "[toolset.vault]\ntools = [\"payroll/put_*\"]\n".to_owned(),
        credential("reader", READER, "sources = [\"notes\"]\nread_only = true\ndeny = [\"*/get_secret\"]"),
        credential("ops", OPS, ""),
    ]
}

/// Both sources listed, as everybody waits for.
fn settled(client: &mut Client) {
    eventually("the sources are listed", || {
        let found = client.call_direct("find_tools", json!({})).structured();
        found["unavailable"] == json!([]) && found["total"].as_u64().unwrap() > 0
    });
}

#[track_caller]
fn refused(client: &mut Client, source: Option<&str>, tool: &str, kind: &str, says: &str) {
    let arguments = match source {
        Some(source) => json!({"source": source, "tool": tool, "arguments": {}}),
        None => json!({"tool": tool, "arguments": {}}),
    };
    let (got, text) = client.call_direct("call_tool", arguments).failure();
    assert_eq!(got, kind, "{text}");
    assert!(text.contains(says), "{text}");
}

#[test]
fn what_a_credential_reads_tells_of_its_own_sources_only() {
    let place = Place::new();
    let front = Front::start_in(&place, "", &two_worlds(&place));
    let (mut reader, mut ops) = (front.client(Some(READER)), front.client(Some(OPS)));
    let greeting = reader.greet("2025-11-25").to_string();
    ops.greet("2025-06-18");
    settled(&mut ops);
    settled(&mut reader);
    let mut read = vec![greeting];
    read.push(reader.request("tools/list", json!({})).line);
    for (tool, arguments) in [
        ("list_sources", json!({})),
        ("list_toolsets", json!({})),
        ("find_tools", json!({})),
        ("find_tools", json!({"query": "get the salary from payroll", "limit": 50})),
        ("find_tools", json!({"query": "put salary"})),
        ("enable_toolset", json!({"toolset": "desk"})),
        ("disable_toolset", json!({"toolset": "desk"})),
        ("enable_toolset", json!({"toolset": "notes"})),
        ("load_tools", json!({"tools": ["notes/get_note"]})),
    ] {
        read.push(reader.call_direct(tool, arguments).line);
    }
    for text in &read {
        for hidden in ["payroll", "salary", "earns", "vault"] {
            assert!(!text.contains(hidden), "`{hidden}` in {text}");
        }
    }
    let sources = |client: &mut Client| client.call_direct("list_sources", json!({})).structured();
    let ids = |told: &Value| {
        let lines = told["sources"].as_array().unwrap().iter();
        lines.map(|line| line["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&sources(&mut reader)), ["notes"]);
    assert_eq!(sources(&mut reader)["sources"][0]["readOnly"], true);
    assert_eq!(ids(&sources(&mut ops)), ["notes", "payroll"]);
    let total = |client: &mut Client| client.call_direct("find_tools", json!({})).structured()["total"].clone();
    assert_eq!(total(&mut ops), 2 * 18 + 5);
    // Of the standing tools `die` writes.
    assert_eq!(total(&mut reader), 17 + 1);
    assert_eq!(
        ops.call_direct("find_tools", json!({"query": "salary"})).structured()["matches"][0]["source"],
        "payroll"
    );
    front.finish();
}

#[test]
fn what_a_credential_may_not_call_is_refused_on_every_path() {
    let place = Place::new();
    let front = Front::start_in(&place, "", &two_worlds(&place));
    let (mut reader, mut ops) = (front.greeted(Some(READER)), front.client(Some(OPS)));
    settled(&mut ops);
    let reader = &mut reader;
    refused(reader, Some("payroll"), "get_salary", "unknown_source", "there is no source `payroll`");
    refused(reader, Some("payrol"), "get_salary", "unknown_source", "there is no source `payrol`");
    refused(reader, Some("vault"), "put_salary", "unknown_source", "there is no source `vault`");
    refused(reader, None, "get_salary", "unknown_tool", "no source has a tool `get_salary`");
    refused(reader, None, "payroll/get_salary", "unknown_tool", "no source has");
    refused(reader, Some("notes"), "get_salary", "unknown_tool", "source `notes` has no tool");
    refused(reader, Some("desk"), "get_salary", "unknown_tool", "has no tool `get_salary`");
    refused(reader, Some("notes"), "put_note", "withheld", "a write tool, and credential `reader` is read_only");
    refused(reader, None, "put_note", "withheld", "credential `reader` is read_only");
    refused(reader, Some("desk"), "get_secret", "withheld", "`deny = [\"*/get_secret\"]` of credential `reader`");
    refused(reader, Some("notes"), "GET_SECRET", "withheld", "of credential `reader`");
    let (kind, text) = reader.call_direct("notes__put_note", json!({})).failure();
    assert_eq!((kind.as_str(), text.contains("credential `reader`")), ("withheld", true), "{text}");
    let unknown = reader.call_direct("payroll__get_salary", json!({}));
    assert_eq!(unknown.error_code(), -32602);
    assert!(!unknown.line.contains("did you mean"), "{}", unknown.line);
    let batch = json!({"calls": [
        {"source": "notes", "tool": "get_note", "arguments": {"a": 1}},
        {"source": "notes", "tool": "put_note", "arguments": {}},
        {"source": "payroll", "tool": "get_salary", "arguments": {}},
    ], "wait_ms": 20_000});
    let done = reader.call_direct("batch_call", batch.clone()).structured();
    let kinds = |done: &Value| {
        let results = done["results"].as_array().unwrap_or_else(|| panic!("{done}")).iter();
        results.map(|one| one["error"]["kind"].as_str().unwrap_or("none").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&done), ["none", "withheld", "unknown_source"]);
    // A batch is its principal's, and nobody else's.
    let id = json!({"batch": done["batch"]});
    assert_eq!(ops.call_direct("batch_status", id.clone()).failure().0, "invalid_arguments");
    assert_eq!(kinds(&reader.call_direct("batch_status", id).structured()).len(), 3);
    assert_eq!(kinds(&ops.call_direct("batch_call", batch).structured()), ["none", "none", "none"]);
    let loaded = json!({"tools": ["payroll/get_salary", "notes/put_note", "notes/get_note"]});
    let loaded = reader.call_direct("load_tools", loaded).structured();
    let failed: Vec<_> = loaded["failed"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(failed, ["unknown_tool", "withheld"]);
    for path in ["notes", "payroll"] {
        let sent = place.journal_count(&format!("{path}.journal"), "tools/call");
        assert_eq!(sent, if path == "notes" { 3 } else { 1 }, "{path}");
    }
    front.finish();
}

/// Prompts and resources are there as far as their sources are.
#[test]
fn prompts_and_resources_of_other_sources_are_not_there() {
    let place = Place::new();
    let server = support::example("conformance_server");
    let tables = [
        support::command("show", server.to_str().unwrap(), &[], ""),
        place.journaled("notes", &[], ""),
        credential("reader", READER, "sources = [\"notes\"]"),
        credential("ops", OPS, ""),
    ];
    let front = Front::start_in(&place, "", &tables);
    let (mut reader, mut ops) = (front.greeted(Some(READER)), front.greeted(Some(OPS)));
    settled(&mut ops);
    settled(&mut reader);
    for (method, member) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let count = |client: &mut Client| client.request(method, json!({})).result()[member].as_array().unwrap().len();
        assert!(count(&mut ops) > 0, "{method}");
        assert_eq!(count(&mut reader), 0, "{method}");
    }
    let prompt = ops.request("prompts/list", json!({})).result()["prompts"][0]["name"].clone();
    for (method, params, code) in [
        ("resources/read", json!({"uri": "test://static-text"}), -32002),
        ("resources/read", json!({"uri": "toolrelay://show/test://static-text"}), -32002),
        ("resources/subscribe", json!({"uri": "test://static-text"}), -32002),
        ("prompts/get", json!({"name": prompt}), -32602),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": "a", "value": ""}}),
            -32602,
        ),
    ] {
        assert_eq!(reader.request(method, params.clone()).error_code(), code, "{method} {params}");
    }
    assert!(ops.request("resources/read", json!({"uri": "test://static-text"})).result()["contents"].is_array());
    front.finish();
}

/// Nothing is started for a call that may not be made.
#[test]
fn a_forbidden_call_starts_no_source() {
    let place = Place::new();
    let tables = two_worlds(&place);
    let front = Front::start_in(&place, "", &tables);
    settled(&mut front.client(Some(OPS)));
    front.finish();
    let before = ["notes", "payroll"].map(|id| place.lines(&format!("{id}.journal")).len());
    let front = Front::start_in(&place, "", &tables);
    let mut reader = front.client(Some(READER));
    refused(&mut reader, Some("notes"), "put_note", "withheld", "read_only");
    refused(&mut reader, Some("payroll"), "get_salary", "unknown_source", "payroll");
    refused(&mut reader, Some("notes"), "Get_Secret", "withheld", "deny");
    assert!(reader.call_direct("notes__get_secret", json!({})).failure().0 == "withheld");
    let after = ["notes", "payroll"].map(|id| place.lines(&format!("{id}.journal")).len());
    assert_eq!(after, before);
    assert!(reader.call("notes", "get_note", json!({"a": 1})).text().contains("\"a\":1"));
    front.finish();
}

#[test]
fn rules_hold_for_tools_that_are_not_listed() {
    let place = Place::new();
    let tables = [
        place.journaled("fwd", &["--unlisted", "secret_x,put_x,get_x"], "unlisted = \"forward\""),
        credential("reader", READER, "read_only = true\ndeny = [\"fwd/secret_*\"]"),
        credential("ops", OPS, "allow = [\"fwd/e*\", \"fwd/secret_x\"]"),
    ];
    let front = Front::start_in(&place, "", &tables);
    let (mut reader, mut ops) = (front.client(Some(READER)), front.client(Some(OPS)));
    settled(&mut ops);
    for tool in ["secret_x", "Secret_X"] {
        refused(&mut reader, Some("fwd"), tool, "withheld", "deny");
    }
    refused(&mut reader, Some("fwd"), "put_x", "withheld", "a write tool, and credential `reader` is read_only");
    assert!(reader.call_direct("fwd__get_x", json!({"a": 1})).text().contains("\"a\":1"));
    refused(&mut ops, Some("fwd"), "get_x", "withheld", "not in `allow` of credential `ops`");
    assert!(ops.call("fwd", "secret_x", json!({"a": 1})).text().contains("\"a\":1"));
    front.finish();
}

#[test]
fn each_credential_has_its_own_exposure_and_drawers() {
    let place = Place::new();
    let mut tables = two_worlds(&place);
    tables.truncate(2);
    tables.push(credential("reader", READER, "exposure = \"eager\"\nallow = [\"*/get_*\"]"));
    tables.push(credential("ops", OPS, "exposure = \"meta-only\""));
    tables.push(credential("plain", "plain-0123456789abcdef", ""));
    let front =
        HttpTrial::start_in(&place, "exposure = \"toolsets\"\nalways_visible = [\"payroll/get_salary\"]", &tables);
    let (mut reader, mut ops) = (front.greeted(Some(READER)), front.greeted(Some(OPS)));
    let mut plain = front.client(Some("plain-0123456789abcdef"));
    let mut twin = front.greeted(Some("plain-0123456789abcdef"));
    settled(&mut plain);
    let mut all = reader.names();
    all.sort();
    let own = ["call_tool", "find_tools", "list_sources"];
    let direct = ["notes__get_note", "notes__get_secret", "payroll__get_salary"];
    assert_eq!(all, [&own[..], &direct].concat());
    let menu = ["find_tools", "call_tool", "batch_call", "batch_status"];
    assert_eq!(ops.names(), [&menu[..], &["payroll__get_salary"]].concat());
    assert_eq!(plain.names().len(), 7);
    plain.call_direct("enable_toolset", json!({"toolset": "notes"}));
    // The drawers are the principal's, not the connection's.
    assert_eq!((plain.names().len(), twin.names().len()), (7 + 21, 7 + 21));
    assert_eq!((ops.names().len(), reader.names().len()), (5, 6));
    let instructions = |token| front.client(Some(token)).greet("2025-11-25")["instructions"].to_string();
    assert!(
        instructions(OPS).contains("never listed") && instructions(READER).contains("tools are named SOURCE__tool")
    );
    front.finish();
}

/// The news that a client has got, up to the stream's next silence.
fn told(client: &Client, act: impl FnOnce()) -> Vec<Event> {
    let mut stream = client.listen(None);
    assert_eq!(stream.head().status, 200);
    // The first event says that the stream stands.
    assert_eq!(stream.event().unwrap().data, "");
    act();
    stream.reader.get_ref().set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    let mut events = Vec::new();
    while let Ok(Some(event)) = stream.try_event() {
        events.push(event);
    }
    events
}

#[test]
fn only_those_are_told_whose_list_changes() {
    let place = Place::new();
    let tables = [
        place.journaled("left", &["--changing"], ""),
        place.journaled("right", &[], ""),
        credential("a", READER, "sources = [\"left\"]"),
        credential("b", OPS, "sources = [\"right\"]"),
        credential("c", "third-0123456789abcdef", "allow = [\"left/g*\"]\ndeny = [\"left/grown_*\"]"),
    ];
    let front = HttpTrial::start_in(&place, "exposure = \"eager\"", &tables);
    let mut clients = [READER, OPS, "third-0123456789abcdef"].map(|token| front.greeted(Some(token)));
    for client in &mut clients {
        settled(client);
        client.names();
    }
    // What they were told of the first listing has gone by.
    for client in &clients {
        told(client, || {});
    }
    let before = clients[0].names().len();
    let [a, b, c] = &clients;
    let mut actor = front.client(Some(READER));
    let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
    let to_c = told(c, || to_b = told(b, || to_a = told(a, || drop(actor.call("left", "grow", json!({}))))));
    assert_eq!(to_a.len(), 1, "{to_a:?}");
    assert!(to_a[0].data.contains("notifications/tools/list_changed"), "{to_a:?}");
    assert_eq!((to_b, to_c), (vec![], vec![]));
    assert_eq!(clients[0].names().len(), before + 1);
    front.finish();
}

#[test]
fn opened_toolsets_are_remembered_by_credential() {
    let place = Place::new();
    let tables = two_worlds(&place);
    let front = Front::start_in(&place, "", &tables);
    let mut ops = front.client(Some(OPS));
    settled(&mut ops);
    ops.call_direct("enable_toolset", json!({"toolset": "vault"}));
    ops.call_direct("enable_toolset", json!({"toolset": "notes"}));
    ops.call_direct("load_tools", json!({"tools": ["payroll/get_salary"]}));
    ops.call_direct("disable_toolset", json!({"toolset": "notes"}));
    let names = ops.names();
    assert_eq!(names[6..], ["payroll__get_salary", "payroll__put_salary"]);
    front.finish();
    let front = Front::start_in(&place, "", &tables);
    assert_eq!(front.client(Some(OPS)).names(), names);
    assert_eq!(front.client(Some(READER)).names().len(), 6);
    front.finish();
    // The local user begins anew.
    let mut relay = Relay::greeted_in(&place, "", &tables);
    assert_eq!(relay.names().len(), 6);
    relay.finish();
}

/// What a credential sees follows the sources when the configuration is read again; its rules are those of the start.
#[test]
fn rules_hold_while_the_configuration_changes() {
    let place = Place::new();
    let notes = place.journaled("notes", &[], "");
    let ops = credential("ops", OPS, "");
    let front = Front::start_in(
        &place,
        "",
        &[notes.clone(), ops.clone(), credential("reader", READER, "sources = [\"notes*\"]")],
    );
    let (mut reader, mut ops_client) = (front.greeted(Some(READER)), front.greeted(Some(OPS)));
    let told = |client: &mut Client| client.call_direct("list_sources", json!({})).structured();
    let ids = |told: &Value| {
        let lines = told["sources"].as_array().unwrap().iter();
        lines.map(|line| line["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&told(&mut reader)), ["notes"]);
    let more = [place.journaled("notes2", &[], ""), place.journaled("payroll", &[], "")];
    let wider = credential("reader", READER, "sources = [\"*\"]");
    place.config("", &[notes, more[0].clone(), more[1].clone(), ops, wider]);
    front.relay.signal(rustix::process::Signal::HUP);
    eventually("the new sources are there", || ids(&told(&mut ops_client)) == ["notes", "notes2", "payroll"]);
    assert_eq!(ids(&told(&mut reader)), ["notes", "notes2"]);
    refused(&mut reader, Some("payroll"), "echo", "unknown_source", "payroll");
    assert!(reader.call("notes2", "echo", json!({"a": 1})).text().contains("\"a\":1"));
    eventually("a restart is asked for", || front.relay.stderr().contains("credential"));
    // Why a file cannot be used may name what a credential does not see.
    place.write("sources.toml", "[source.payroll]\ncommand = ");
    front.relay.signal(rustix::process::Signal::HUP);
    eventually("the file is told to be unusable", || told(&mut ops_client)["notice"].is_string());
    let notices = [&mut reader, &mut ops_client].map(|client| told(client)["notice"].as_str().unwrap().to_owned());
    assert!(!notices[0].contains("payroll") && !notices[0].contains("line"), "{}", notices[0]);
    assert!(notices[1].contains("cannot be used"), "{}", notices[1]);
    front.finish();
}

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;

#[test]
fn nobody_comes_in_without_a_token_that_is_known() {
    let place = Place::new();
    let digest = "83b8b6e0c2eb07bc3a52d1e4ff6dd2ab5ba5a4a25d3fd1ed0ad52d0cd9b9a3d0";
    let own = sha256(OPS);
    let tables = [
        place.journaled("notes", &[], ""),
        credential("reader", READER, ""),
        format!("[credential.hashed]\ntoken_sha256 = {own:?}\n[credential.other]\ntoken_sha256 = {digest:?}\n"),
    ];
    let front = Front::start_in(&place, "", &tables);
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    for (headers, status) in [
        (vec![], 401),
        (vec![bearer("wrong-0123456789abcdef")], 401),
        (vec![bearer(digest)], 401),
        (vec![format!("Authorization: Basic {READER}")], 401),
        (vec![format!("Authorization: {READER}")], 401),
        (vec![bearer(READER)], 200),
        (vec![format!("Authorization: bearer   {READER}")], 200),
        (vec![bearer(OPS)], 200),
    ] {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let answer = front.post(&headers, INITIALIZE);
        assert_eq!(answer.head.status, status, "{headers:?}: {}", answer.body);
        let challenge = answer.head.header("www-authenticate").map(|text| text.starts_with("Bearer"));
        assert_eq!(challenge, (status == 401).then_some(true), "{headers:?}");
        assert!(!answer.body.contains(READER) && !answer.body.contains(OPS), "{}", answer.body);
    }
    // A session is its principal's: for anybody else there is none.
    let mut stolen = front.greeted(Some(READER));
    stolen.headers[0] = bearer(OPS);
    let (text, _) = stolen.request_text("ping", json!({}));
    assert_eq!(stolen.exchange(&[], &text).0.status, 404);
    // Whether it runs is no secret.
    assert_eq!(front.ask("GET", "/healthz", &[], "").head.status, 200);
    let log = front.relay.stderr();
    assert!(!log.contains(READER) && !log.contains(OPS), "{log}");
    front.finish();
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A mistake in the only credential must not open the door to everybody.
#[test]
fn a_faulty_credential_locks_out() {
    let place = Place::new();
    for table in
        ["[credential.ci]\ntoken = \"short\"\n", "[credential]\n", "[credential.ci]\ntoken = \"${NOT_SET_HERE}\"\n"]
    {
        let front = Front::start_in(&place, "", &[place.journaled("notes", &[], ""), table.to_owned()]);
        for headers in [&[][..], &["Authorization: Bearer short"], &["Authorization: Bearer "]] {
            assert_eq!(front.post(headers, INITIALIZE).head.status, 401, "{table} {headers:?}");
        }
        front.finish();
    }
}

#[test]
fn only_this_machine_may_connect_without_a_credential() {
    let place = Place::new();
    let mut command = place.command("", &[]);
    let refused = command.args(["--http", "0.0.0.0:0"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("0.0.0.0:0") && said.contains("[credential.ID]"), "{said}");
}
