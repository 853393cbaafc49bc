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

/// A modern source that asked for input without a question or a state that can be read was sent the call ten times more.
#[test]
fn a_malformed_answer_that_asks_is_told_and_not_sent_back() {
    for client in [Era::Legacy, Era::Modern] {
        let place = Place::new();
        let mut talker = talker(&place, Era::Modern, client, &[]);
        let mut asks = |mut asking: Value| {
            asking["resultType"] = "input_required".into();
            let file = place.write("result", asking.to_string());
            let before = place.journal_count("asker.journal", "tools/call");
            let reply = talker.request("tools/call", json!({"name": "asker__raw", "arguments": {"result_file": file}}));
            (reply, place.journal_count("asker.journal", "tools/call") - before)
        };
        for (asking, fault) in [
            (json!({}), "it has neither `inputRequests` nor `requestState`"),
            (json!({"inputRequests": null, "requestState": null}), "it has neither `inputRequests` nor `requestState`"),
            (json!({"inputRequests": {}}), "its `inputRequests` is empty, and it has no `requestState`"),
            (json!({"inputRequests": [form("sure?")]}), "its `inputRequests` is no object"),
            (json!({"inputRequests": "x", "requestState": "s"}), "its `inputRequests` is no object"),
            (json!({"requestState": {"a": 1}}), "its `requestState` is no string"),
            (json!({"inputRequests": {"k": form("sure?")}, "requestState": 1}), "its `requestState` is no string"),
        ] {
            let (reply, calls) = asks(asking.clone());
            let (kind, text) = reply.failure();
            assert_eq!((kind.as_str(), calls), ("unavailable", 1), "{asking}: {text}");
            let want = format!("source `asker` asked for input, but its answer cannot be read: {fault}");
            assert!(text.contains(&want) && text.contains("report this to the authors"), "{text}");
        }
        // What can be read goes on as before; `null` is as good as nothing.
        let (reply, calls) = asks(json!({"inputRequests": null, "requestState": "s"}));
        let result = reply.result();
        match client {
            Era::Legacy => assert!(calls == 11 && reply.failure().1.contains("more than 10 times"), "{result}"),
            Era::Modern => {
                assert!(result["requestState"].is_string() && result.get("inputRequests").is_none(), "{result}");
                let (reply, _) = asks(json!({"inputRequests": {"k": form("sure?")}, "requestState": null}));
                let (result, want) = (reply.result(), json!({"k": form("[asker] sure?")}));
                assert!(result["inputRequests"] == want && result.get("requestState").is_none(), "{result}");
            }
        }
        talker.relay.finish();
    }
}

/// SDKs take a question back when their own timer runs out: the client was asked on, and its answer went nowhere.
#[test]
fn a_question_that_its_source_takes_back_is_asked_no_more() {
    for client in [Era::Legacy, Era::Modern] {
        let place = Place::new();
        let mut talker = talker(&place, Era::Legacy, client, &[]);
        let call = json!({"name": "asker__ask_many", "arguments": {"questions": [form("one"), form("two")]}});
        let id = talker.ask("tools/call", call.clone());
        let first = match client {
            Era::Legacy => talker.await_question(2),
            Era::Modern => talker.relay.answer(&id).result(),
        };
        let taken_back =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "fixture-asker-1"}});
        let lines = format!("{taken_back}\n{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{{\"content\":[]}}}}");
        let file = place.write("taken back", lines);
        talker.request("tools/call", json!({"name": "asker__raw_line", "arguments": {"file": file}})).result();
        if client == Era::Legacy {
            talker.relay.await_notices("the question is taken back", |all| {
                all.iter().any(|one| one.raw("method") == Some("\"notifications/cancelled\""))
            });
            let told = talker.relay.notices.iter().find(|one| one.raw("method") == Some("\"notifications/cancelled\""));
            assert_eq!(told.unwrap().params()["requestId"], talker.questions()[0]["id"]);
            assert_eq!(first["params"]["message"], "[asker] two");
            talker.relay.cancel(&id);
        } else {
            let mut again = call;
            again["requestState"] = first["requestState"].clone();
            again["inputResponses"] = json!({});
            let open = wanted(&talker.request("tools/call", again)).unwrap();
            assert_eq!(open.as_object().unwrap().keys().collect::<Vec<_>>(), ["input_2"]);
        }
        talker.relay.finish();
        // It waits for no answer, and gets none.
        assert!(!place.lines("asker.journal").iter().any(|line| line.contains("\"id\":\"fixture-asker-1\"")));
    }
}

/// Only what is called, read or got can be made again with answers: a completion was answered with questions.
#[test]
fn a_modern_client_is_asked_nothing_where_it_could_not_answer() {
    let about = json!({"type": "ref/prompt", "name": "asker__p"});
    let params = json!({"ref": about, "argument": {"name": "a", "value": ""}});
    let place = Place::new();
    // It asks, and does not wait for the answer.
    let lines = [
        json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}).to_string(),
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"completion":{"values":["v"]}}}"#.to_owned(),
    ];
    let file = place.write("legacy", lines.join("\n"));
    let reply = format!("completion/complete={file}");
    let mut talker = talker(&place, Era::Legacy, Era::Modern, &["--prompts", "p", "--reply", &reply]);
    talker.request("prompts/list", json!({})).result();
    let done = talker.request("completion/complete", params.clone());
    assert_eq!(done.result()["completion"]["values"], json!(["v"]), "{}", done.line);
    eventually("the question is refused", || {
        place.lines("asker.journal").iter().any(|line| line.contains("nobody can be asked during this request"))
    });
    talker.relay.finish();
    let place = Place::new();
    let wants = json!({"resultType": "input_required", "inputRequests": {"k": form("which?")}});
    let file = place.write("modern", format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{wants}}}"));
    let reply = format!("completion/complete={file}");
    let mut talker = self::talker(&place, Era::Modern, Era::Modern, &["--prompts", "p", "--reply", &reply]);
    talker.request("prompts/list", json!({})).result();
    let error = talker.request("completion/complete", params).error();
    assert_eq!(error["code"], -32603);
    assert!(error["message"].as_str().unwrap().contains("source `asker` asks for input"), "{error}");
    talker.relay.finish();
}

/// Who samples may take long, and tell how far it is: sources with tokens of their own, equal or not, heard nothing of it.
#[test]
fn progress_of_an_answer_reaches_whoever_asked() {
    let place = Place::new();
    let sources = ["one", "other"].map(|id| place.journaled(id, &["--sociable"], ""));
    let relay = Relay::start_in(&place, "exposure = \"eager\"", &sources);
    let mut talker = Talker::new(relay, Era::Legacy, able());
    let mut question = form("which?");
    question["params"]["_meta"] = json!({"progressToken": 7, "own": true});
    let calls = ["one", "other"].map(|id| {
        let call = json!({"name": format!("{id}__ask_many"), "arguments": {"questions": [question]}});
        talker.ask("tools/call", call)
    });
    talker.await_question(2);
    for (number, asked) in talker.questions().iter().enumerate() {
        let token = &asked["params"]["_meta"]["progressToken"];
        assert_eq!(asked["params"]["_meta"], json!({"progressToken": token, "own": true}));
        let params = json!({"progressToken": token, "progress": 1, "message": asked["params"]["message"]});
        talker.relay.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string());
        talker.answer(asked, "result", &json!({"action": "accept", "content": {}}));
        // The question is over.
        talker.relay.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string());
        assert_eq!(talker.questions().len(), 2, "{number}");
    }
    calls.iter().for_each(|call| drop(talker.relay.answer(call).result()));
    talker.relay.finish();
    for id in ["one", "other"] {
        let lines = place.lines(&format!("{id}.journal"));
        let told: Vec<Value> = lines
            .iter()
            .filter(|line| line.contains("notifications/progress"))
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["params"].clone())
            .collect();
        assert_eq!(told, [json!({"progressToken": 7, "progress": 1, "message": format!("[{id}] which?")})]);
    }
}

/// What a task asks for was passed on as it came: past the rules for questions.
#[test]
fn what_a_task_asks_is_asked_as_anything_else() {
    let place = Place::new();
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    let task = json!({"taskId": "t", "status": "input_required", "ttlMs": null, "n": 1});
    let file = place.path("task");
    let reply = format!("tasks/get={file}");
    let mut talker = talker(&place, Era::Modern, Era::Modern, &["--reply", &reply]);
    let able = |own: Value| {
        let mut own = own;
        own["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        own
    };
    talker.capabilities = able(json!({"elicitation": {}}));
    let begun = json!({"resultType": "task", "taskId": "t", "status": "working"});
    let begun = place.write("begun", begun.to_string());
    talker.request("tools/call", json!({"name": "asker__raw", "arguments": {"result_file": begun}})).result();
    let mut says = |requests: Value, capabilities: Value| {
        let mut result = task.clone();
        result["resultType"] = "complete".into();
        result["inputRequests"] = requests;
        place.write("task", format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{result}}}"));
        talker.capabilities = able(capabilities);
        talker.request("tasks/get", json!({"taskId": "t"}))
    };
    let both = json!({"k": form("pay?"), "s": sampling});
    let told = says(both.clone(), json!({"elicitation": {}})).result();
    assert_eq!(told["inputRequests"], json!({"k": form("[asker] pay?")}));
    assert_eq!((&told["n"], &told["resultType"]), (&json!(1), &json!("complete")));
    let told = says(both.clone(), json!({"elicitation": {}, "sampling": {}})).result();
    assert_eq!(told["inputRequests"], json!({"k": form("[asker] pay?"), "s": sampling}));
    let error = says(both, json!({})).error();
    assert_eq!(error["code"], -32021, "{error}");
    assert_eq!(says(json!({}), json!({})).result()["inputRequests"], json!({}));
    talker.relay.finish();
}

/// Sources that many clients share are told of all that any client may be asked, tools within a question among it; the instance
/// of one session was told the same, and asked its client what that cannot.
#[test]
fn a_source_is_told_what_its_clients_may_be_asked() {
    let all = json!({
        "roots": {"listChanged": true},
        "sampling": {"tools": {}, "context": {}},
        "elicitation": {"form": {}, "url": {}},
    });
    let own = json!({"sampling": {"tools": {}}, "elicitation": {}});
    let declared = json!({"sampling": {"tools": {}}, "elicitation": {}, "experimental": {"x": {}}, "tasks": {}});
    for (settings, client, told) in [
        ("", Era::Legacy, vec![&all]),
        ("isolation = \"session\"", Era::Legacy, vec![&all, &own]),
        ("isolation = \"session\"", Era::Modern, vec![&all, &all]),
    ] {
        let place = Place::new();
        let source = place.journaled("asker", &["--sociable"], settings);
        let mut talker = Talker::new(Relay::start_in(&place, "", &[source]), client, declared.clone());
        let call = json!({"source": "asker", "tool": "echo", "arguments": {}});
        talker.request("tools/call", json!({"name": "call_tool", "arguments": call})).result();
        talker.relay.finish();
        let lines = place.lines("asker.journal").into_iter().filter(|line| line.contains("\"initialize\""));
        let mut got: Vec<Value> =
            lines.map(|line| serde_json::from_str::<Value>(&line).unwrap()["params"]["capabilities"].clone()).collect();
        // The one that is listed may be greeted after the instance.
        got.sort_by_key(|capabilities| capabilities.get("roots").is_none());
        assert_eq!(got.iter().collect::<Vec<_>>(), told, "{settings} {client:?}");
    }
}
