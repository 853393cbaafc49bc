//! What sources ask of clients during calls, in all four pairs of eras: who is asked, what, how, and what comes of it.

#![allow(clippy::unwrap_used)]

#[path = "support/relay.rs"]
mod support;
#[path = "support/talk.rs"]
mod talk;

use serde_json::{Value, json};
use support::{Place, Relay, source};
use talk::{ERAS, Era, Talker, able, wanted};

const EAGER: &str = "exposure = \"eager\"";

fn sociable(place: &Place, era: Era) -> String {
    place.journaled("asker", &["--sociable", "--era", era.word()], "")
}

fn talker(place: &std::sync::Arc<Place>, source: Era, client: Era, capabilities: Value) -> Talker {
    let relay = Relay::start_in(place, EAGER, &[sociable(place, source)]);
    Talker::new(relay, client, capabilities)
}

fn form() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"method": "elicitation/create", "params": {"message": "Who are you?", "requestedSchema": schema}})
}

fn page() -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "url", "message": "Visit it.", "url": "https://pages.example/a", "elicitationId": "own-1",
    }})
}

fn sampling() -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": "Hello?"}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 9}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// An answer of the kind that the question wants.
fn fitting(question: &Value) -> Value {
    match question["method"].as_str().unwrap() {
        "elicitation/create" if question["params"]["mode"] == "url" => json!({"action": "accept"}),
        "elicitation/create" => json!({"action": "accept", "content": {"name": "Ada"}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "content": {"type": "text", "text": "Hi."}, "model": "m"})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///home/ada"}]}),
        other => panic!("asked for {other}"),
    }
}

fn direct(questions: &[Value], one_by_one: bool) -> Value {
    json!({"name": "asker__ask_many", "arguments": {"questions": questions, "one_by_one": one_by_one}})
}

fn dispatched(questions: &[Value], one_by_one: bool) -> Value {
    let arguments = json!({"questions": questions, "one_by_one": one_by_one});
    json!({"name": "call_tool", "arguments": {"source": "asker", "tool": "ask_many", "arguments": arguments}})
}

/// How a question looks to the client.
fn check_question(question: &Value, sent: &Value, client: Era) {
    assert_eq!(question["method"], sent["method"], "{question}");
    let mut want = sent["params"].clone();
    if sent["method"] == "elicitation/create" {
        want["message"] = format!("[asker] {}", sent["params"]["message"].as_str().unwrap()).into();
    }
    let mut got = question["params"].clone();
    if sent["params"]["mode"] == "url" {
        // Pages have ids up to 2025-11-25 only.
        let id = got.as_object_mut().unwrap().remove("elicitationId");
        assert_eq!(id.is_some(), client == Era::Legacy, "{question}");
        want.as_object_mut().unwrap().remove("elicitationId");
    }
    assert_eq!(got, want);
}

#[test]
fn every_question_is_asked_and_answered_in_every_cell() {
    for source in ERAS {
        for client in ERAS {
            let place = Place::new();
            let mut talker = talker(&place, source, client, able());
            for question in [form(), page(), sampling(), roots()] {
                // A modern source knows no ids of pages.
                let mut question = question;
                if source == Era::Modern {
                    question["params"].as_object_mut().unwrap().remove("elicitationId");
                }
                for call in [direct, dispatched] {
                    let talk = talker.talk(call(std::slice::from_ref(&question), false), 1, fitting);
                    assert_eq!(talk.asked.len(), 1, "{source:?} {client:?}: {}", talk.reply.line);
                    check_question(&talk.asked[0], &question, client);
                    assert_eq!(talk.answers(), json!([{"result": fitting(&question)}]), "{source:?} {client:?}");
                }
            }
            talker.relay.finish();
        }
    }
}

#[test]
fn several_questions_come_at_once_or_in_rounds() {
    let questions = [form(), sampling(), roots()];
    let want = json!([
        {"result": fitting(&questions[0])}, {"result": fitting(&questions[1])}, {"result": fitting(&questions[2])},
    ]);
    for source in ERAS {
        for client in ERAS {
            let place = Place::new();
            let mut talker = talker(&place, source, client, able());
            for (one_by_one, rounds) in [(false, 1), (true, 3)] {
                for call in [direct, dispatched] {
                    let talk = talker.talk(call(&questions, one_by_one), 3, fitting);
                    assert_eq!(talk.answers(), want, "{source:?} {client:?}");
                    if client == Era::Modern {
                        assert_eq!(talk.rounds, rounds, "{source:?} {client:?}");
                    }
                }
            }
            talker.relay.finish();
        }
    }
}

/// A modern source is told what the client of this very call can do, no more and no less.
#[test]
fn what_a_client_can_do_is_mirrored_with_each_call() {
    for client in ERAS {
        let place = Place::new();
        let capabilities = json!({"sampling": {"tools": {}}, "elicitation": {"form": {}}});
        let mut talker = talker(&place, Era::Modern, client, capabilities.clone());
        let called = |place: &Place| {
            let line = place.lines("asker.journal").into_iter().rfind(|line| line.contains("tools/call")).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone()
        };
        talker.request("tools/call", json!({"name": "asker__echo", "arguments": {}})).result();
        assert_eq!(called(&place), capabilities);
        if client == Era::Modern {
            talker.capabilities = json!({});
            talker.request("tools/call", json!({"name": "asker__echo", "arguments": {}})).result();
            assert_eq!(called(&place), json!({}));
        }
        talker.relay.finish();
    }
}

#[test]
fn a_client_is_not_asked_what_it_cannot_do() {
    for client in ERAS {
        let place = Place::new();
        // Asked together, so that the second is asked while the first waits already.
        let mut talker = talker(&place, Era::Legacy, client, json!({"elicitation": {}}));
        let talk = talker.talk(direct(&[form(), sampling(), roots(), page()], false), 1, fitting);
        assert_eq!((talk.asked.len(), &talk.asked[0]["method"]), (1, &json!("elicitation/create")));
        let answers = talk.answers();
        assert_eq!(answers[0]["result"], fitting(&form()));
        for (place, name) in [(1, "sampling"), (2, "roots"), (3, "elicitation.url")] {
            let text = answers[place]["error"]["message"].as_str().unwrap().to_owned();
            assert!(text.contains(&format!("has not declared the capability `{name}`")), "{text}");
        }
        talker.relay.finish();
    }
    // A modern source that asks all the same gets its legacy client a reason.
    let place = Place::new();
    let mut talker = talker(&place, Era::Modern, Era::Legacy, json!({}));
    let (kind, text) = talker.request("tools/call", direct(&[form()], false)).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("source `asker` needs input") && text.contains("capability `elicitation`"), "{text}");
    talker.relay.finish();
}

/// A client that comes back with less than before is not asked what it cannot do any more.
#[test]
fn what_is_open_is_refused_to_a_client_that_can_do_less_now() {
    let place = Place::new();
    let mut talker = talker(&place, Era::Legacy, Era::Modern, able());
    let call = direct(&[form(), sampling()], false);
    let first = talker.request("tools/call", call.clone());
    let keys: Vec<String> = wanted(&first).unwrap().as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["input_1", "input_2"]);
    talker.capabilities = json!({"elicitation": {}});
    let mut again = call;
    again["requestState"] = first.result()["requestState"].clone();
    again["inputResponses"] = json!({"input_1": fitting(&form()), "stray": {}});
    let answers = talker.request("tools/call", again).structured()["answers"].clone();
    assert_eq!(answers[0]["result"], fitting(&form()));
    assert!(answers[1]["error"]["message"].as_str().unwrap().contains("`sampling`"), "{answers}");
    talker.relay.finish();
}

#[test]
fn errors_and_nonsense_of_a_client_reach_the_source_as_errors() {
    for source in ERAS {
        let place = Place::new();
        let mut talker = talker(&place, source, Era::Legacy, able());
        let declined = json!({"code": -1, "message": "not now"});
        for (number, (member, value, says)) in [
            ("error", declined, "not now"),
            ("result", json!("text"), "no object"),
            ("result", Value::Null, "no object"),
        ]
        .into_iter()
        .enumerate()
        {
            let id = talker.ask("tools/call", direct(&[form()], false));
            let question = talker.await_question(number + 1);
            talker.answer(&question, member, &value);
            let reply = talker.relay.answer(&id);
            match source {
                Era::Legacy => {
                    let error = reply.structured()["answers"][0]["error"].to_string();
                    assert!(error.contains(says), "{error}");
                }
                Era::Modern => {
                    let (kind, text) = reply.failure();
                    assert!(kind == "cancelled" && text.contains(says) && text.contains("source `asker`"), "{text}");
                }
            }
            // Answered once more: dropped.
            talker.answer(&question, "result", &fitting(&form()));
        }
        assert_eq!(
            talker.request("tools/call", json!({"name": "asker__echo", "arguments": {"a": 1}})).structured(),
            json!({"a": 1})
        );
        talker.relay.finish();
    }
}

#[test]
fn a_batch_says_that_an_item_needs_input() {
    for source in ERAS {
        let place = Place::new();
        let mut talker = talker(&place, source, Era::Modern, able());
        let calls = json!([
            {"source": "asker", "tool": "ask_many", "arguments": {"questions": [form()]}},
            {"source": "asker", "tool": "echo", "arguments": {"a": 1}},
        ]);
        let call = json!({"name": "batch_call", "arguments": {"calls": calls, "wait_ms": 20_000}});
        let done = talker.request("tools/call", call).structured();
        let told = done["results"][0].to_string();
        let says = match source {
            Era::Legacy => "nobody can be asked during this call",
            Era::Modern => "asks for input, which it cannot be given here",
        };
        assert!(told.contains(says), "{told}");
        assert!(done["results"][1].to_string().contains("\\\"a\\\":1"), "{done}");
        talker.relay.finish();
    }
}

/// A legacy source that wants a page visited first says so by an error (-32042).
#[test]
fn a_page_that_has_to_be_visited_is_asked_of_modern_clients() {
    let pages = json!({"elicitations": [
        {"mode": "url", "message": "Log in.", "url": "https://login.example/x", "elicitationId": "e-1"},
    ]});
    let arguments = json!({"code": -32042, "message": "URL elicitation required", "data": pages});
    for call in [
        json!({"name": "asker__fail", "arguments": arguments}),
        json!({"name": "call_tool", "arguments": {"source": "asker", "tool": "fail", "arguments": arguments}}),
    ] {
        let place = Place::new();
        let mut talker = talker(&place, Era::Legacy, Era::Modern, able());
        let reply = talker.request("tools/call", call.clone());
        let params = json!({"mode": "url", "message": "[asker] Log in.", "url": "https://login.example/x"});
        assert_eq!(
            wanted(&reply).unwrap(),
            json!({"input_1": {"method": "elicitation/create", "params": params}}),
            "{}",
            reply.line
        );
        assert!(reply.result().get("requestState").is_none());
        talker.capabilities = json!({"elicitation": {"form": {}}});
        let refused = talker.request("tools/call", call.clone());
        assert_eq!(refused.error_code(), -32021);
        assert_eq!(refused.error()["data"]["requiredCapabilities"], json!({"elicitation": {"url": {}}}));
        talker.relay.finish();
        let place = Place::new();
        let mut talker = self::talker(&place, Era::Legacy, Era::Legacy, able());
        let reply = talker.request("tools/call", call);
        let mut named = pages.clone();
        named["elicitations"][0]["message"] = "[asker] Log in.".into();
        assert_eq!((reply.error_code(), &reply.error()["data"]), (-32042, &named));
        talker.relay.finish();
    }
}

/// A user who declined was asked again and again, and the call was sent each time.
#[test]
fn a_page_that_nobody_wants_to_visit_ends_the_call() {
    let place = Place::new();
    let mut talker = talker(&place, Era::Legacy, Era::Modern, able());
    let pages = json!({"elicitations": [{"mode": "url", "message": "Log in.", "url": "https://login.example/x"}]});
    let arguments = json!({"code": -32042, "message": "URL elicitation required", "data": pages});
    let call = json!({"name": "asker__fail", "arguments": arguments});
    assert!(wanted(&talker.request("tools/call", call.clone())).is_some());
    let answered = |action: &str| {
        let mut again = call.clone();
        again["inputResponses"] = json!({"input_1": {"action": action}});
        again
    };
    for (action, says) in [("decline", "declined"), ("cancel", "cancelled")] {
        let (kind, text) = talker.request("tools/call", answered(action)).failure();
        assert!(kind == "cancelled" && text.contains(says) && text.contains("`asker`"), "{kind}: {text}");
    }
    assert_eq!(place.journal_count("asker.journal", "tools/call"), 1);
    // The call is made anew where the page was visited, and the source gets nothing that belongs to another revision.
    assert!(wanted(&talker.request("tools/call", answered("accept"))).is_some());
    assert_eq!(place.journal_count("asker.journal", "tools/call"), 2);
    assert_eq!(place.journal_count("asker.journal", "inputResponses"), 0);
    talker.relay.finish();
}

/// The error itself belongs to 2025-11-25, and no question is made of what is none.
#[test]
fn pages_that_cannot_be_visited_are_an_error_of_every_revision() {
    let place = Place::new();
    let mut talker = talker(&place, Era::Legacy, Era::Modern, able());
    for data in [Value::Null, json!({}), json!({"elicitations": []}), json!({"elicitations": [{}, 5]})] {
        let arguments = json!({"code": -32042, "message": "Log in.", "data": data});
        let error = talker.request("tools/call", json!({"name": "asker__fail", "arguments": arguments})).error();
        assert_eq!((&error["code"], &error["message"], &error["data"]), (&json!(-32603), &json!("Log in."), &data));
    }
    let pages = json!({"elicitations": [{"url": "https://login.example/x"}]});
    let arguments = json!({"code": -32042, "message": "Log in.", "data": pages});
    let reply = talker.request("tools/call", json!({"name": "asker__fail", "arguments": arguments}));
    let params = json!({"mode": "url", "message": "[asker] Log in.", "url": "https://login.example/x"});
    assert_eq!(wanted(&reply).unwrap()["input_1"]["params"], params);
    talker.relay.finish();
}

/// Tools within a question are a capability of their own, and a modern client is asked nothing that it has not declared either.
#[test]
fn no_source_of_any_era_asks_a_client_what_it_has_not_declared() {
    let mut with_tools = sampling();
    with_tools["params"]["tools"] = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
    for client in ERAS {
        let place = Place::new();
        let mut talker = talker(&place, Era::Legacy, client, able());
        let talk = talker.talk(direct(std::slice::from_ref(&with_tools), false), 0, fitting);
        let answers = talk.answers().to_string();
        assert!(answers.contains("has not declared the capability `sampling.tools`"), "{client:?}: {answers}");
        talker.relay.finish();
    }
    let place = Place::new();
    let mut talker = talker(&place, Era::Modern, Era::Legacy, able());
    let (_, text) = talker.request("tools/call", direct(std::slice::from_ref(&with_tools), false)).failure();
    assert!(text.contains("has not declared the capability `sampling.tools`"), "{text}");
    talker.relay.finish();
    let place = Place::new();
    let mut talker = self::talker(&place, Era::Modern, Era::Modern, able());
    for (capabilities, question, required) in [
        (able(), &with_tools, json!({"sampling": {"tools": {}}})),
        (json!({}), &form(), json!({"elicitation": {}})),
        (json!({"elicitation": {}}), &page(), json!({"elicitation": {"url": {}}})),
    ] {
        talker.capabilities = capabilities;
        let error = talker.request("tools/call", direct(std::slice::from_ref(question), false)).error();
        assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(-32021), &required), "{error}");
        assert!(error["message"].as_str().unwrap().contains("source `asker` needs input"), "{error}");
    }
    let strange = json!({"method": "foo/bar", "params": {}});
    let error = talker.request("tools/call", direct(&[strange], false)).error();
    assert!(error["message"].as_str().unwrap().contains("cannot be asked for `foo/bar`"), "{error}");
    talker.capabilities = json!({"sampling": {"tools": {}}});
    let talk = talker.talk(direct(&[with_tools], false), 1, fitting);
    assert_eq!(talk.answers()[0]["result"]["model"], "m");
    talker.relay.finish();
}

/// An answer that cannot be read is the asker's concern, and at once: it used to be answered itself, under an id that a request
/// of the client's could have, while its source waited for the answer.
#[test]
fn answers_that_cannot_be_read_are_told_to_whoever_asked() {
    let long = "x".repeat(1 << 20);
    let spoilt = |id: &Value| {
        [
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"accept","content":{{"name":"{long}"}}}}}}"#),
            format!(r#"{{"result":{{"action":"accept","content":{{"name":"{long}"}}}},"jsonrpc":"2.0","id":{id}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"accept",}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"#),
            format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
        ]
    };
    for source in ERAS {
        let place = Place::new();
        let relay = Relay::start_in(&place, "exposure = \"eager\"\nmax_message_mib = 1", &[sociable(&place, source)]);
        let mut talker = Talker::new(relay, Era::Legacy, able());
        for at in 0..5 {
            let call = talker.ask("tools/call", direct(&[form()], false));
            let question = talker.await_question(at + 1);
            assert!(question["id"].as_str().is_some_and(|id| id.starts_with("toolrelay-ask-")), "{question}");
            talker.relay.send(&spoilt(&question["id"])[at]);
            let line = talker.relay.answer(&call).line;
            assert!(line.contains("the answer of the client cannot be used"), "{at}: {line}");
        }
        // What is seen to be an answer is not answered, whatever it answers; what may be a request is.
        talker.relay.send(r#"{"jsonrpc":"2.0","id":"toolrelay-ask-1","result":{},}"#);
        talker.relay.send(r#"{"jsonrpc":"2.0","id":900,"result":{},}"#);
        talker.relay.send(r#"{"jsonrpc":"2.0","id":901,"params":{},}"#);
        assert_eq!(talker.relay.answer_to("901").error_code(), -32700);
        talker.relay.finish();
    }
}

/// What only modern clients know is a strange member where a legacy one writes it: the call goes on, and everything else with it.
#[test]
fn legacy_clients_that_write_modern_members_hold_nothing_up() {
    let place = Place::new();
    for era in ["legacy", "modern"] {
        let sources = [source("fix", &["--era", era], ""), source("other", &[], "")];
        let mut relay = Relay::greeted_in(&place, "", &sources);
        for (name, value) in
            [("requestState", json!("abc")), ("requestState", Value::Null), ("inputResponses", json!({}))]
        {
            let mut call = json!({"name": "fix__echo", "arguments": {"tag": 1}});
            call[name] = value.clone();
            assert_eq!(relay.request("tools/call", call).structured(), json!({"tag": 1}), "{era} {name} {value}");
            let mut inner =
                json!({"name": "call_tool", "arguments": {"source": "fix", "tool": "echo", "arguments": {"tag": 2}}});
            inner[name] = value;
            assert_eq!(relay.request("tools/call", inner).structured(), json!({"tag": 2}), "{era} {name}");
        }
        assert_eq!(relay.call("other", "echo", json!({"tag": 3})).structured(), json!({"tag": 3}));
        relay.finish();
    }
}
