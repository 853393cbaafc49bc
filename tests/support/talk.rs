//! Clients of both eras that are asked things during their calls, over one relay on stdio.

#![allow(dead_code)]

use serde_json::{Value, json};

use super::support::{Relay, Reply};

/// Which revision a client or a source speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

pub const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

impl Era {
    /// As the fixture's flag has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// Everything a client can be asked for.
pub fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// A client of the relay.
pub struct Talker {
    pub relay: Relay,
    pub era: Era,
    pub capabilities: Value,
    /// More members for `_meta`.
    pub meta: Value,
}

/// What came of a call: its answer, what was asked on the way, and in how many rounds.
pub struct Talk {
    pub reply: Reply,
    pub asked: Vec<Value>,
    pub rounds: usize,
}

impl Talk {
    /// The answers that the fixture's `ask_many` got.
    #[track_caller]
    pub fn answers(&self) -> Value {
        self.reply.structured()["answers"].clone()
    }
}

impl Talker {
    pub fn new(mut relay: Relay, era: Era, capabilities: Value) -> Self {
        if era == Era::Legacy {
            let client = json!({"name": "raw", "version": "1"});
            let params =
                json!({"protocolVersion": "2025-11-25", "capabilities": capabilities.clone(), "clientInfo": client});
            relay.request("initialize", params).result();
            relay.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        }
        Self { relay, era, capabilities, meta: json!({}) }
    }

    /// Params as its revision writes them.
    pub fn params(&self, mut params: Value) -> Value {
        let mut meta = self.meta.as_object().unwrap().clone();
        if self.era == Era::Modern {
            meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!("2026-07-28"));
            meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), json!({"name": "raw", "version": "1"}));
            meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), self.capabilities.clone());
        }
        if !meta.is_empty() {
            params["_meta"] = meta.into();
        }
        params
    }

    pub fn ask(&mut self, method: &str, params: Value) -> String {
        let params = self.params(params);
        self.relay.ask(method, params)
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Reply {
        let id = self.ask(method, params);
        self.relay.answer(&id)
    }

    /// The requests of the relay that came so far.
    pub fn questions(&self) -> Vec<Value> {
        let questions = self.relay.notices.iter().filter(|notice| notice.raw("id").is_some());
        questions.map(|question| serde_json::from_str(&question.line).unwrap()).collect()
    }

    /// Waits until so many questions came in all; gives the last one.
    #[track_caller]
    pub fn await_question(&mut self, count: usize) -> Value {
        self.relay.await_notices("a question", |all| all.iter().filter(|one| one.raw("id").is_some()).count() >= count);
        self.questions()[count - 1].clone()
    }

    /// Answers a question of the relay.
    pub fn answer(&mut self, question: &Value, member: &str, value: &Value) {
        self.relay.send(&json!({"jsonrpc": "2.0", "id": question["id"], member: value}).to_string());
    }

    /// Makes a call, and answers the `count` questions that are asked during it.
    #[track_caller]
    pub fn talk(&mut self, params: Value, count: usize, answer: impl Fn(&Value) -> Value) -> Talk {
        if self.era == Era::Modern {
            return self.talk_in_rounds(params, answer);
        }
        let before = self.questions().len();
        let id = self.ask("tools/call", params);
        let mut asked = Vec::new();
        for number in 1..=count {
            let question = self.await_question(before + number);
            self.answer(&question, "result", &answer(&question));
            asked.push(question);
        }
        Talk { reply: self.relay.answer(&id), asked, rounds: count }
    }

    #[track_caller]
    fn talk_in_rounds(&mut self, params: Value, answer: impl Fn(&Value) -> Value) -> Talk {
        let mut asked = Vec::new();
        let mut reply = self.request("tools/call", params.clone());
        for rounds in 0..20 {
            let Some(wanted) = wanted(&reply) else { return Talk { reply, asked, rounds } };
            let mut again = params.clone();
            let given = wanted.as_object().unwrap().iter().map(|(key, question)| (key.clone(), answer(question)));
            again["inputResponses"] = Value::Object(given.collect());
            if let Some(state) = reply.result().get("requestState") {
                again["requestState"] = state.clone();
            }
            asked.extend(wanted.as_object().unwrap().values().cloned());
            reply = self.request("tools/call", again);
        }
        panic!("the rounds do not end: {}", reply.line);
    }
}

/// The `inputRequests` of an answer that asks for input.
pub fn wanted(reply: &Reply) -> Option<Value> {
    let result: Value = serde_json::from_str(reply.raw("result")?).unwrap();
    (result["resultType"] == "input_required").then(|| result["inputRequests"].clone())
}
