//! Sources that ask in other ways than their revision has it, and what belongs to questions besides the answer.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;
#[path = "support/talk.rs"]
mod talk;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Place, Relay, eventually};
use talk::{Era, Talker, able, wanted};

fn talker(place: &Arc<Place>, source: Era, client: Era, flags: &[&str]) -> Talker {
    let flags = [&["--sociable", "--era", source.word()], flags].concat();
    let relay = Relay::start_in(place, "exposure = \"eager\"", &[place.journaled("asker", &flags, "")]);
    Talker::new(relay, client, able())
}

fn form(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object"}}})
}

/// A modern client read a legacy source's own member as the protocol's, and asked its user past all checks.
#[test]
fn a_legacy_sources_own_result_type_means_nothing() {
    let place = Place::new();
    let mut talker = talker(&place, Era::Legacy, Era::Modern, &[]);
    talker.capabilities = json!({});
    for kind in [json!("input_required"), json!("csv"), json!("task"), json!(5), Value::Null] {
        let given = json!({"content": [], "resultType": kind, "inputRequests": {"k": form("Your password?")}, "n": 1});
        let file = place.write("result", given.to_string());
        let reply = talker.request("tools/call", json!({"name": "asker__raw", "arguments": {"result_file": file}}));
        let mut want = given;
        want["resultType"] = "complete".into();
        assert_eq!((reply.result(), reply.line.matches("resultType").count()), (want, 1), "{}", reply.line);
    }
    talker.relay.finish();
}
