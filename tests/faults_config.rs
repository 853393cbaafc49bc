//! Environment, paths, configuration and reload as gateways were reported to break them (class C07), one test an item, with
//! the six standing assertions in each. Items held elsewhere: `tests/faults/index.tsv`.

#![allow(clippy::unwrap_used)]

#[path = "support/edits.rs"]
mod edits;
#[path = "support/standing.rs"]
mod standing;
#[path = "support/standing_http.rs"]
mod standing_http;
#[path = "support/http.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::Duration;

use edits::edit_now;
use serde_json::{Value, json};
use standing::{Trial, never_runs};
use standing_http::HttpTrial;
use support::{Place, command, eventually, fixture, source};
use web::Web;

/// A folder with a program `srv` in it: a link to the fixture.
fn program(place: &Place, folder: &str) -> String {
    let folder = place.path(folder);
    std::fs::create_dir_all(&folder).unwrap();
    symlink(fixture(), format!("{folder}/srv")).unwrap();
    folder
}

#[test]
fn c07_a01_programs_are_looked_for_where_the_source_has_them() {
    let place = Place::new();
    let folder = program(&place, "bin");
    let faulty = [
        command("bare", "srv", &[], &format!("env = {{ PATH = \"{folder}:/usr/bin:/bin\" }}")),
        command("relative", "./bin/srv", &[], ""),
        command("nowhere", "srv-of-nobody", &[], "env = { PATH = \"/only/here\" }\nstart = \"at-start\""),
    ];
    let mut trial = Trial::start_in(&place, "", &faulty);
    for id in ["bare", "relative"] {
        assert_eq!(trial.call(id, "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{id}");
    }
    let line = trial.await_status("nowhere", "unreachable");
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("srv-of-nobody") && reason.contains("/only/here"), "{reason}");
    trial.finish();
}

#[test]
fn c07_a02_variables_arrive_as_they_are_written() {
    let place = Place::new();
    let settings = "env = { FOO = \"bar\", EMPTY = \"\", PATH = \"${PATH}:/x/bin\", ONCE = \"${NESTED}\" }";
    let faulty = [source("some", &[], settings)];
    let mut run = Trial::command(&place, "", &faulty);
    run.env("NESTED", "${FOO} $HOME ~").env("OTHER_API_KEY", "other-secret-4711");
    let mut trial = Trial::spawn(&place, run, &faulty);
    trial.forbidden.push("other-secret-4711".to_owned());
    let found = trial.call("some", "env", json!({})).structured();
    let own = std::env::var("PATH").unwrap();
    assert_eq!(found["PATH"], format!("{own}:/x/bin"));
    assert_eq!((&found["FOO"], &found["EMPTY"]), (&json!("bar"), &json!("")));
    assert_eq!(found["ONCE"], "${FOO} $HOME ~", "a value is not expanded again");
    // Added to what every source gets, not put in its place; and no secret of the relay or of another source.
    assert!(found["HOME"].is_string());
    for name in ["OTHER_API_KEY", "STANDING_SECRET", "SECRET"] {
        assert_eq!(found[name], Value::Null, "{name}");
    }
    trial.finish();
}

#[test]
fn c07_a04_references_mean_the_same_in_every_field() {
    let place = Place::new();
    let web = Web::start(web::legacy, |_, _| false);
    program(&place, "bin-tok");
    std::fs::create_dir(place.path("at-tok")).unwrap();
    let local = command(
        "local",
        "./bin-${TOK}/srv",
        &["--name", "${TOK} and ${TOK}, $${TOK}, ${TOOLRELAY_TEST_NOBODY:-default}"],
        "cwd = \"at-${TOK}\"\nenv = { E = \"<${TOK}>\" }",
    );
    let remote = format!(
        "[source.remote]\nurl = \"http://127.0.0.1:{}/mcp?of=${{TOK}}\"\nheaders = {{ X-Of = \"a ${{TOK}} b\" }}\n",
        web.port
    );
    let faulty = [local, remote];
    let mut run = Trial::command(&place, "", &faulty);
    run.env("TOK", "tok");
    let mut trial = Trial::spawn(&place, run, &faulty);
    assert_eq!(trial.call("local", "env", json!({})).structured()["E"], "<tok>");
    let cwd = trial.call("local", "cwd", json!({})).structured();
    assert!(cwd["cwd"].as_str().unwrap().ends_with("/at-tok"), "{cwd}");
    let named = trial.call_direct("list_toolsets", json!({})).structured().to_string();
    let arguments: Vec<String> = trial
        .place
        .processes(trial.pid())
        .iter()
        .map(|pid| {
            String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
        })
        .collect();
    assert!(arguments.iter().any(|line| line.contains("tok and tok, ${TOK}, default")), "{arguments:?} {named}");
    assert_eq!(trial.call("remote", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    let seen = &web.posts("tools/call")[0];
    assert_eq!((seen.path.as_str(), seen.header("x-of")), ("/mcp?of=tok", Some("a tok b")));
    trial.finish();
}

/// A literal `${NAME}`, or nothing, must never be sent as a credential.
#[test]
fn c07_a05_a11_a_variable_that_is_missing_costs_its_source_only() {
    let place = Place::new();
    let web = Web::start(web::legacy, |_, _| false);
    let header = |id: &str, value: &str| web.source(id, &format!("headers = {{ Authorization = \"Bearer {value}\" }}"));
    let token = |id: &str, value: &str| web.source(id, &format!("token = \"{value}\""));
    let faulty = [
        header("unset", "${TOOLRELAY_TEST_NOBODY}"),
        header("empty", "${TOOLRELAY_TEST_EMPTY}"),
        token("bearer", "${TOOLRELAY_TEST_NOBODY}"),
        token("nothing", "${TOOLRELAY_TEST_EMPTY}"),
    ];
    let mut run = Trial::command(&place, "", &faulty);
    run.env("TOOLRELAY_TEST_EMPTY", "");
    let mut trial = Trial::spawn(&place, run, &faulty);
    for (id, place_of_it, name) in [
        ("unset", "Authorization", "TOOLRELAY_TEST_NOBODY"),
        ("empty", "Authorization", ""),
        ("bearer", "token", "TOOLRELAY_TEST_NOBODY"),
        ("nothing", "token", ""),
    ] {
        let (kind, text) = trial.call(id, "echo", json!({})).failure();
        assert_eq!(kind, "unavailable", "{id}: {text}");
        let reason = trial.status(id)["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(place_of_it) && reason.contains(name), "{id}: {reason}");
    }
    assert!(web.seen().is_empty(), "{:?}", web.seen());
    edit_now(
        &trial,
        &Trial::settings(""),
        &Trial::tables(&place, &[header("unset", "${TOOLRELAY_TEST_NOBODY:-given}")]),
    );
    trial.faulty_are(&["unset"]);
    assert_eq!(trial.call("unset", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    assert!(
        web.seen().iter().all(|seen| seen.method != "POST" || seen.header("authorization") == Some("Bearer given"))
    );
    trial.finish();
}

#[test]
fn c07_a06_paths_start_at_home_or_at_the_file() {
    let place = Place::new();
    program(&place, "home/tools");
    std::fs::create_dir(place.path("home/data")).unwrap();
    std::fs::create_dir(place.path("beside")).unwrap();
    let faulty = [
        command("tilde", "~/tools/srv", &["--name", "~/data"], "cwd = \"~/data\""),
        command("beside", "./home/tools/srv", &[], "cwd = \"beside\""),
        command("lost", "./home/tools/srv", &[], "cwd = \"no/such/folder\"\nstart = \"at-start\""),
    ];
    let mut run = Trial::command(&place, "", &faulty);
    run.env("HOME", place.path("home")).current_dir("/");
    let mut trial = Trial::spawn(&place, run, &faulty);
    for (id, folder) in [("tilde", "home/data"), ("beside", "beside")] {
        let cwd = trial.call(id, "cwd", json!({})).structured();
        assert_eq!(cwd["cwd"], std::fs::canonicalize(place.path(folder)).unwrap().to_str().unwrap(), "{id}");
    }
    let line = trial.await_status("lost", "unreachable");
    assert!(line["reason"].as_str().unwrap().contains("no/such/folder"), "{line}");
    trial.finish();
}

#[test]
fn c07_a09_what_keeps_the_relay_from_starting_ends_it_at_once() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (address, told) in
        [(address.as_str(), address.as_str()), ("127.0.0.1:99999", "99999"), ("192.0.2.1:8080", "192.0.2.1")]
    {
        let place = Place::new();
        let mut run = Trial::command(&place, "", &[source("fix", &[], "start = \"at-start\"")]);
        run.args(["--http", address]);
        let said = never_runs(&place, run);
        assert!(said.contains(told), "{address}: {said}");
    }
}

#[test]
fn c07_a12_how_a_source_is_reached_is_read_from_what_is_written() {
    let place = Place::new();
    let web = Web::start(web::legacy, |_, _| false);
    let url = web.url("/mcp");
    let with = |id: &str, more: &str| format!("[source.{id}]\nurl = \"{url}\"\n{more}\n");
    let faulty = [
        with("only", ""),
        with("both", "command = \"true\""),
        "[source.neither]\nsummary = \"x\"\n".to_owned(),
        with("http", "transport = \"http\""),
        with("long", "transport = \"streamable-http\""),
        with("odd", "transport = \"carrier-pigeon\""),
        with("type", "type = \"streamable_http\""),
    ];
    let mut trial = Trial::start_in(&place, "", &faulty);
    assert_eq!(trial.call("only", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    for id in ["both", "neither", "http", "long", "odd", "type"] {
        // Taken or refused, but never passed over: whoever wrote it is told what is meant.
        let reply = trial.call(id, "echo", json!({"a": 1}));
        let line = trial.status(id);
        match line["status"].as_str().unwrap() {
            "ready" => assert_eq!(reply.structured(), json!({"a": 1}), "{id}"),
            status => {
                assert_eq!(status, "misconfigured", "{line}");
                let reason = line["reason"].as_str().unwrap();
                assert!(["url", "command", "transport", "type"].iter().any(|key| reason.contains(key)), "{line}");
            }
        }
    }
    for id in ["both", "neither", "odd"] {
        assert_eq!(trial.status(id)["status"], "misconfigured", "{id}");
    }
    trial.finish();
}

#[test]
fn c07_a13_a_reload_reaches_every_session() {
    let place = Place::new();
    let settings = "exposure = \"eager\"";
    let with = |tools: &str| [place.journaled("shared", &["--tools", tools], "start = \"at-start\"")];
    let mut front = HttpTrial::start_in(&place, settings, &with("before"));
    let mut clients: Vec<_> = (0..3).map(|_| front.greeted(None)).collect();
    for client in &mut clients {
        eventually("it is listed", || client.names().contains(&"shared__before".to_owned()));
    }
    let mut streams: Vec<_> = clients.iter().map(|client| client.listen(None)).collect();
    for stream in &mut streams {
        assert_eq!(stream.head().status, 200);
    }
    edit_now(&front.relay, settings, &Trial::tables(&place, &with("after")));
    front.holds();
    for (client, stream) in clients.iter_mut().zip(&mut streams) {
        while !stream.event().unwrap().data.contains("notifications/tools/list_changed") {}
        eventually("the new list", || client.names().contains(&"shared__after".to_owned()));
        assert_eq!(client.call("shared", "after", json!({"a": 1})).structured(), json!({"a": 1}));
    }
    assert_eq!(place.processes(front.relay.pid()).len(), 2);
    assert_eq!(place.journal_count("shared.journal", "initialize"), 2);
    front.finish();
}

#[test]
fn c07_a14_a_relay_that_starts_itself_is_stopped_however_it_is_written() {
    let place = Place::new();
    let (relay, config) = (env!("CARGO_BIN_EXE_toolrelay"), place.path("sources.toml"));
    symlink(relay, place.path("link")).unwrap();
    let script = format!("{relay} serve --config {config}; true");
    let faulty = [
        command("shell", "sh", &["-c", &script], "start = \"at-start\""),
        command("linked", &place.path("link"), &["serve", "--config", &config], "start = \"at-start\""),
    ];
    let run = Trial::command(&place, "max_starting = 2", &faulty);
    let mut relay = Trial::spawn(&place, run, &faulty);
    let mut most = 0;
    for _ in 0..20 {
        relay.listen(Duration::from_millis(250));
        most = most.max(place.processes(relay.pid()).len());
    }
    // Each level starts two: it ends where the depth does.
    assert!(most <= 70, "{most} processes");
    relay.finish();
}

#[test]
fn c07_a10_variables_are_added_to_what_every_source_gets() {
    let mut trial = Trial::start(&[source("one", &[], "env = { A = \"1\" }")]);
    let found = trial.call("one", "env", json!({})).structured();
    assert_eq!(found["A"], "1");
    for name in ["PATH", "HOME", "TMPDIR"] {
        assert_eq!(found[name].is_string(), std::env::var(name).is_ok() || name == "TMPDIR", "{name}");
    }
    trial.finish();
}
