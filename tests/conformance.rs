//! The protocol's conformance suite: on the fixture alone, which shows that the fixture is sound, and with the relay in
//! between. What may fail is listed in `conformance/expected`, and the suite complains of entries that no longer fail.

#![allow(clippy::unwrap_used)]

#[path = "conformance/front.rs"]
mod front;
#[path = "conformance/suite.rs"]
mod suite;
#[path = "support/relay.rs"]
mod support;

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use front::{Era, Front, Reach, UnderTest};
use suite::Outcome;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// What answers, which revisions the fixture behind it serves, which requirements it is held to, and what may fail.
type Row = (Front, Era, &'static str, &'static str);

const STDIO: Front = Front::Relay(Reach::Stdio);
const HTTP: Front = Front::Relay(Reach::Http);

/// What may fail: nothing; with the relay at 2026-07-28 and a fixture that does not know it.
const NONE: &str = "none.yml";
const NEW_ON_OLD: &str = "relay-2026-07-28-legacy-fixture.yml";

#[rustfmt::skip]
const SERVERS: &[Row] = &[
    (Front::Fixture, Era::Dual, LEGACY, NONE),
    (Front::Fixture, Era::Dual, MODERN, NONE),
    (Front::Fixture, Era::Modern, MODERN, NONE),
    (Front::Fixture, Era::Legacy, LEGACY, NONE),
    (STDIO, Era::Dual, LEGACY, NONE),
    (STDIO, Era::Dual, MODERN, NONE),
    (STDIO, Era::Modern, LEGACY, NONE),
    (STDIO, Era::Modern, MODERN, NONE),
    (STDIO, Era::Legacy, LEGACY, NONE),
    (STDIO, Era::Legacy, MODERN, NEW_ON_OLD),
    (HTTP, Era::Dual, LEGACY, NONE),
    (HTTP, Era::Dual, MODERN, NONE),
    (HTTP, Era::Modern, LEGACY, NONE),
    (HTTP, Era::Modern, MODERN, NONE),
    (HTTP, Era::Legacy, LEGACY, NONE),
    (HTTP, Era::Legacy, MODERN, NEW_ON_OLD),
];

/// The client scenarios that are not about authorization, and the revision at which each is run.
#[rustfmt::skip]
const CLIENTS: &[(&str, &str)] = &[
    ("initialize", LEGACY),
    ("tools_call", LEGACY),
    ("elicitation-sep1034-client-defaults", LEGACY),
    ("sse-retry", LEGACY),
    ("json-schema-2020-12-preservation", LEGACY),
    ("tools_call", MODERN),
    ("request-metadata", MODERN),
    ("sep-2322-client-request-state", MODERN),
    ("http-standard-headers", MODERN),
    ("http-custom-headers", MODERN),
    ("http-invalid-tool-headers", MODERN),
    ("json-schema-ref-no-deref", MODERN),
    ("json-schema-2020-12-preservation", MODERN),
    ("sep-2640-client-no-prefetch", MODERN),
    ("sep-2640-client-verify-digest", MODERN),
    ("sep-2640-client-verify-size", MODERN),
    ("sep-2640-client-verify-frontmatter", MODERN),
];

/// The server scenarios about skills, which no revision requires.
const SKILLS: &[&str] = &["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"];

/// The suite measures times of some hundred milliseconds, so that two of it must not share the machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Tells what a run came to, also when the test passes; gives its faults.
fn tell(run: &str, outcome: Outcome) -> Vec<String> {
    let mut uncaptured = std::io::stderr();
    writeln!(uncaptured, "conformance {run}: {}", outcome.totals).unwrap();
    outcome.faults.into_iter().map(|fault| format!("{run}: {fault}")).collect()
}

#[test]
fn servers() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut faults = Vec::new();
    for (front, era, revision, expected) in SERVERS.iter() {
        let name = match front {
            Front::Fixture => "fixture",
            Front::Relay(Reach::Stdio) => "relay-stdio",
            Front::Relay(Reach::Http) => "relay-http",
        };
        let run = format!("{name}-{}-{revision}", era.name());
        let under_test = UnderTest::start(*front, *era);
        let outcome = suite::server(&run, &under_test.url, revision, expected);
        let found = tell(&run, outcome);
        if !found.is_empty() {
            let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance/{run}/relay.log"));
            std::fs::write(log, under_test.log()).unwrap();
        }
        faults.extend(found);
        under_test.stop();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn skills() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut faults = Vec::new();
    for (name, front) in [("fixture", Front::Fixture), ("relay-stdio", STDIO), ("relay-http", HTTP)] {
        let under_test = UnderTest::start(front, Era::Dual);
        for scenario in SKILLS.iter() {
            let run = format!("{name}-{scenario}");
            faults.extend(tell(&run, suite::extension(&run, &under_test.url, scenario, MODERN)));
        }
        under_test.stop();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn clients() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let script = suite::folder().join("client.mjs");
    let command = format!("'{}' '{}'", suite::node().display(), script.display());
    let relay = env!("CARGO_BIN_EXE_toolrelay");
    let mut faults = Vec::new();
    for (name, relay) in [("direct", None), ("relay", Some(relay))] {
        for (scenario, revision) in CLIENTS.iter() {
            let run = format!("client-{name}-{scenario}-{revision}");
            faults.extend(tell(&run, suite::client(&run, &command, relay, scenario, revision, NONE)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
