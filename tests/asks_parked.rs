//! Calls to legacy sources that wait for their modern client: taken up once, by whom they belong to, and given up in the
//! end; and legacy clients that do not answer.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;
#[path = "support/talk.rs"]
mod talk;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use support::{Place, Relay, eventually};
use talk::{Era, Talker, able, wanted};

fn form(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object"}}})
}

fn call(questions: &[Value]) -> Value {
    json!({"name": "asker__ask_many", "arguments": {"questions": questions}})
}

fn accepted() -> Value {
    json!({"action": "accept", "content": {}})
}

fn talker(place: &Arc<Place>, relay: &str, source: Era, client: Era) -> Talker {
    let flags = ["--sociable", "--era", source.word()];
    let pid = place.path("asker.pid");
    let flags = [&flags[..], &["--pid-file", &pid]].concat();
    let relay =
        Relay::start_in(place, &format!("exposure = \"eager\"\n{relay}"), &[place.journaled("asker", &flags, "")]);
    Talker::new(relay, client, able())
}

/// The call taken up again with `answers`.
fn again(first: &Value, call: &Value, answers: Value) -> Value {
    let mut again = call.clone();
    again["requestState"] = first["requestState"].clone();
    again["inputResponses"] = answers;
    again
}

/// How often the source was told that a call is off.
fn cancelled(place: &Place) -> usize {
    place.journal_count("asker.journal", "notifications/cancelled")
}

#[test]
fn a_call_is_taken_up_once_and_with_the_same_request() {
    let place = Place::new();
    let mut talker = talker(&place, "", Era::Legacy, Era::Modern);
    let call = call(&[form("a"), form("b")]);
    let first = talker.request("tools/call", call.clone()).result();
    let both = json!({"input_1": accepted(), "input_2": accepted()});
    // None of these takes it up, and none of these uses it up.
    let mut other = again(&first, &call, both.clone());
    other["arguments"]["questions"][0]["params"]["message"] = "c".into();
    let mut renamed = again(&first, &call, both.clone());
    renamed["name"] = "asker__echo".into();
    let mut guessed = again(&first, &call, both.clone());
    guessed["requestState"] = format!("toolrelay-parked-{}", "0".repeat(32)).into();
    for bad in [
        other,
        renamed,
        guessed,
        again(&first, &call, json!("text")),
        again(&first, &call, json!({"input_1": "text", "input_2": accepted()})),
        again(&first, &call, json!([])),
    ] {
        let refused = talker.request("tools/call", bad);
        assert_eq!(refused.error_code(), -32602, "{}", refused.line);
    }
    // One answer: the other question is asked again, under a handle of its own.
    let half = talker.request("tools/call", again(&first, &call, json!({"input_2": accepted()})));
    let open = wanted(&half).unwrap();
    assert_eq!(open.as_object().unwrap().keys().collect::<Vec<_>>(), ["input_1"]);
    assert_eq!(talker.request("tools/call", again(&first, &call, both.clone())).error_code(), -32602);
    let done = talker.request("tools/call", again(&half.result(), &call, json!({"input_1": accepted()})));
    assert_eq!(done.structured()["answers"], json!([{"result": accepted()}, {"result": accepted()}]));
    for used in [&first, &half.result()] {
        let refused = talker.request("tools/call", again(used, &call, both.clone()));
        assert_eq!(refused.error_code(), -32602);
        assert!(refused.error()["message"].as_str().unwrap().contains("send the request again without it"));
    }
    assert_eq!(place.journal_count("asker.journal", "tools/call"), 1);
    assert_eq!(cancelled(&place), 0);
    talker.relay.finish();
}

/// A legacy source has no states: what is no handle of the relay's had the tool run once more, and reached the source.
#[test]
fn a_state_of_nobody_runs_no_tool() {
    let place = Place::new();
    let mut talker = talker(&place, "", Era::Legacy, Era::Modern);
    let call = call(&[form("a")]);
    let answers = json!({"input_1": accepted()});
    // The source need not run yet.
    let early = talker.request("tools/call", again(&json!({"requestState": "garbage"}), &call, answers.clone()));
    assert_eq!((early.error_code(), place.journal_count("asker.journal", "tools/call")), (-32602, 0), "{}", early.line);
    let first = talker.request("tools/call", call.clone()).result();
    let handle = first["requestState"].as_str().unwrap();
    for state in [
        json!(format!("x{handle}")),
        json!(handle.to_uppercase()),
        json!(format!("{handle} ")),
        json!("garbage"),
        json!(""),
        json!(5),
        json!({"a": 1}),
    ] {
        let mut dispatched =
            json!({"name": "call_tool", "arguments": {"source": "asker", "tool": "echo", "arguments": {}}});
        dispatched["requestState"] = state.clone();
        let foreign = json!({"requestState": state});
        for bad in [again(&foreign, &call, answers.clone()), dispatched] {
            let refused = talker.request("tools/call", bad);
            assert_eq!(refused.error_code(), -32602, "{}", refused.line);
            assert!(refused.error()["message"].as_str().unwrap().contains("send the request again without it"));
        }
    }
    let done = talker.request("tools/call", again(&first, &call, answers));
    assert_eq!(done.structured()["answers"], json!([{"result": accepted()}]));
    assert_eq!(place.journal_count("asker.journal", "tools/call"), 1);
    talker.relay.finish();
}

#[test]
fn a_call_whose_client_does_not_come_back_is_given_up() {
    let place = Place::new();
    let mut talker = talker(&place, "ask_timeout_secs = 1", Era::Legacy, Era::Modern);
    let call = call(&[form("a")]);
    let first = talker.request("tools/call", call.clone()).result();
    eventually("the source is told", || cancelled(&place) == 1);
    let late = talker.request("tools/call", again(&first, &call, json!({"input_1": accepted()})));
    assert_eq!(late.error_code(), -32602);
    // The source is told that the call is off before its question is refused: it must not go on without the answer.
    let at = |text: &str| place.lines("asker.journal").iter().position(|line| line.contains(text));
    eventually("the question is refused", || at("the client did not answer").is_some());
    assert!(at("notifications/cancelled") < at("the client did not answer"));
    talker.relay.finish();
}

#[test]
fn a_legacy_client_that_does_not_answer_is_not_waited_for_longer() {
    for source in [Era::Legacy, Era::Modern] {
        let place = Place::new();
        let mut talker = talker(&place, "ask_timeout_secs = 1", source, Era::Legacy);
        let id = talker.ask("tools/call", call(&[form("a")]));
        let question = talker.await_question(1);
        let reply = talker.relay.answer(&id);
        assert!(reply.line.contains("the client did not answer within 1 s"), "{}", reply.line);
        let told =
            talker.relay.notices.iter().find(|notice| notice.raw("method") == Some("\"notifications/cancelled\""));
        assert_eq!(told.unwrap().params()["requestId"], question["id"]);
        // Too late.
        talker.answer(&question, "result", &accepted());
        let talk = talker.talk(call(&[form("b")]), 1, |_| accepted());
        assert_eq!(talk.answers(), json!([{"result": accepted()}]));
        talker.relay.finish();
    }
}

#[test]
fn a_source_that_dies_while_its_call_waits_is_told_of_when_the_client_comes_back() {
    let place = Place::new();
    let mut talker = talker(&place, "", Era::Legacy, Era::Modern);
    let call = call(&[form("a")]);
    let first = talker.request("tools/call", call.clone()).result();
    let pid: i32 = place.lines("asker.pid")[0].parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually("the relay sees it", || talker.relay.stderr().contains("source ended"));
    let (kind, text) = talker.request("tools/call", again(&first, &call, json!({"input_1": accepted()}))).failure();
    assert!(kind == "exited" && text.contains("whether the call took effect is not known"), "{kind}: {text}");
    let talk = talker.talk(call, 1, |_| accepted());
    assert_eq!(talk.answers(), json!([{"result": accepted()}]));
    talker.relay.finish();
}

#[test]
fn a_relay_that_ends_tells_the_source_of_what_waits() {
    for client in [Era::Legacy, Era::Modern] {
        let place = Place::new();
        let mut talker = talker(&place, "", Era::Legacy, client);
        let id = talker.ask("tools/call", call(&[form("a")]));
        match client {
            Era::Modern => drop(talker.relay.answer(&id)),
            Era::Legacy => {
                talker.await_question(1);
                // The client's end of the line is the end of its call, which is answered all the same.
            }
        }
        talker.relay.finish();
        assert_eq!(cancelled(&place), 1, "{client:?}: {:?}", place.lines("asker.journal"));
    }
}

#[test]
fn a_cancelled_call_reaches_the_source_and_takes_the_question_back() {
    // Legacy with legacy: the question is open at the client.
    let place = Place::new();
    let mut talker = talker(&place, "", Era::Legacy, Era::Legacy);
    let id = talker.ask("tools/call", call(&[form("a")]));
    let question = talker.await_question(1);
    talker.relay.cancel(&id);
    eventually("the source is told", || cancelled(&place) == 1);
    talker.relay.await_notices("the question is taken back", |all| {
        all.iter().any(|one| {
            one.raw("method") == Some("\"notifications/cancelled\"") && one.params()["requestId"] == question["id"]
        })
    });
    talker.relay.finish();
    // A modern source, whose call is not in flight while its client is asked: nothing is sent again.
    let place = Place::new();
    let mut talker = self::talker(&place, "", Era::Modern, Era::Legacy);
    let id = talker.ask("tools/call", call(&[form("a")]));
    let question = talker.await_question(1);
    talker.relay.cancel(&id);
    talker.answer(&question, "result", &accepted());
    talker.request("tools/call", json!({"name": "asker__echo", "arguments": {}})).result();
    assert_eq!(place.journal_count("asker.journal", "tools/call"), 2);
    talker.relay.finish();
    // Taken up again and cancelled then: the source is told.
    let place = Place::new();
    let mut talker = self::talker(&place, "", Era::Legacy, Era::Modern);
    let call = json!({"name": "asker__ask_many", "arguments": {"questions": [form("a")], "then_ms": 30_000}});
    let first = talker.request("tools/call", call.clone()).result();
    let id = talker.ask("tools/call", again(&first, &call, json!({"input_1": accepted()})));
    eventually("the answer is there", || place.lines("asker.journal").iter().any(|line| line.contains("accept")));
    talker.relay.cancel(&id);
    eventually("the source is told", || cancelled(&place) == 1);
    talker.relay.finish();
}

/// The newest request is the one that is told how its call goes on, whether the first one had asked for that or not.
#[test]
fn progress_of_a_call_that_was_taken_up_has_the_newest_token() {
    let token = |token: Option<&str>| token.map_or(json!({}), |token| json!({"progressToken": token}));
    for tokens in [[Some("one"), Some("two")], [Some("one"), None], [None, Some("two")], [None, None]] {
        let place = Place::new();
        let mut talker = talker(&place, "", Era::Legacy, Era::Modern);
        let call = call(&[form("a")]);
        talker.meta = token(tokens[0]);
        let first = talker.request("tools/call", call.clone()).result();
        talker.meta = token(tokens[1]);
        let done = talker.request("tools/call", again(&first, &call, json!({"input_1": accepted()})));
        assert_eq!(done.structured()["answers"], json!([{"result": accepted()}]));
        let told = talker.relay.notices.iter().filter(|one| one.raw("method") == Some("\"notifications/progress\""));
        let told: Vec<Value> = told.map(|one| one.params()["progressToken"].clone()).collect();
        assert_eq!(told, tokens[1].map(|token| json!(token)).into_iter().collect::<Vec<_>>(), "{tokens:?}");
        talker.relay.finish();
    }
    // The call of a client that cannot be asked never waits for it, and its source is told of no progress that nobody wants.
    let place = Place::new();
    let mut talker = talker(&place, "", Era::Legacy, Era::Modern);
    talker.capabilities = json!({});
    talker.request("tools/call", json!({"name": "asker__echo", "arguments": {}})).result();
    assert!(!place.lines("asker.journal").iter().any(|line| line.contains("progressToken")));
    talker.relay.finish();
}

/// Calls that wait for their client leave their places to others; there may be so many of one client, and they all end.
#[test]
fn as_many_calls_wait_as_may_and_others_go_on() {
    let place = Place::new();
    let source = place.journaled("asker", &["--sociable"], "max_in_flight = 4");
    let mut talker = Talker::new(Relay::start_in(&place, "exposure = \"eager\"", &[source]), Era::Modern, able());
    let call = call(&[form("a")]);
    let mut first = Value::Null;
    for _ in 0..64 {
        let reply = talker.request("tools/call", call.clone());
        assert!(wanted(&reply).is_some(), "{}", reply.line);
        first = reply.result();
    }
    let refused = talker.request("tools/call", call.clone()).structured()["answers"][0]["error"].to_string();
    assert!(refused.contains("too many calls wait for their clients"), "{refused}");
    let echo = json!({"name": "asker__echo", "arguments": {"a": 1}});
    assert_eq!(talker.request("tools/call", echo).structured(), json!({"a": 1}));
    // One that is taken up makes room for another.
    let done = talker.request("tools/call", again(&first, &call, json!({"input_1": accepted()})));
    assert_eq!(done.structured()["answers"], json!([{"result": accepted()}]));
    assert!(wanted(&talker.request("tools/call", call)).is_some());
    talker.relay.finish();
    assert_eq!(cancelled(&place), 64);
}

/// A call that waits for its client costs no time; one that is taken up again has its time as before.
#[test]
fn waiting_for_the_client_is_not_call_time() {
    for client in [Era::Legacy, Era::Modern] {
        let place = Place::new();
        let source = place.journaled("asker", &["--sociable"], "call_timeout_secs = 1\nmax_call_secs = 1");
        let relay = Relay::start_in(&place, "exposure = \"eager\"", &[source]);
        let mut talker = Talker::new(relay, client, able());
        let call = call(&[form("a")]);
        let id = talker.ask("tools/call", call.clone());
        let question = match client {
            Era::Legacy => talker.await_question(1),
            Era::Modern => talker.relay.answer(&id).result(),
        };
        talker.relay.listen(std::time::Duration::from_millis(2500));
        let reply = match client {
            Era::Legacy => {
                talker.answer(&question, "result", &accepted());
                talker.relay.answer(&id)
            }
            Era::Modern => talker.request("tools/call", again(&question, &call, json!({"input_1": accepted()}))),
        };
        assert_eq!(reply.structured()["answers"], json!([{"result": accepted()}]));
        talker.relay.finish();
    }
}

/// Both calls of one client ask at once, and which asked what cannot be told: it is asked all the same, from then on in turns.
#[test]
fn calls_at_once_of_one_client_are_all_asked() {
    for settings in ["", "isolation = \"session\""] {
        let place = Place::new();
        let source = place.journaled("asker", &["--sociable"], settings);
        let relay = Relay::start_in(&place, "exposure = \"eager\"", &[source]);
        let mut talker = Talker::new(relay, Era::Modern, able());
        // In the first round nothing is known of the source yet.
        for round in 0..3 {
            let calls = ["a", "b"].map(|name| call(&[form(name)]));
            let ids = calls.clone().map(|call| talker.ask("tools/call", call));
            let mut open: BTreeMap<String, usize> = ids.into_iter().zip(0..).collect();
            let mut asked = Vec::new();
            while !open.is_empty() {
                let (id, reply) = talker.relay.next_answer();
                let which = open.remove(&id).unwrap();
                let Some(questions) = wanted(&reply) else {
                    assert_eq!(reply.structured()["answers"], json!([{"result": accepted()}]), "{settings} {round}");
                    continue;
                };
                let questions = questions.as_object().unwrap();
                let texts: Vec<Value> = questions.values().map(|one| one["params"]["message"].clone()).collect();
                assert!(round == 0 || texts == [["[asker] a", "[asker] b"][which]], "{settings} {round}: {texts:?}");
                asked.extend(texts);
                let answers = questions.keys().map(|key| (key.clone(), accepted())).collect();
                let again = again(&reply.result(), &calls[which], Value::Object(answers));
                open.insert(talker.ask("tools/call", again), which);
            }
            asked.sort_by_key(Value::to_string);
            assert_eq!(asked, ["[asker] a", "[asker] b"], "{settings} {round}");
        }
        talker.relay.finish();
    }
}
