//! Questions to the user of a client, in the way of the client's era. What is asked, and what follows, is the caller's affair.

use std::collections::BTreeMap;

use rmcp::model::{
    CallToolResponse, ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::calls::failed;

type Context = RequestContext<RoleServer>;

/// Key and request of each question, in the order in which a legacy client is asked.
pub type Questions = Vec<(&'static str, Value)>;
/// The results of the requests, by key.
pub type Answers = BTreeMap<String, Value>;

/// How it stands with some questions.
pub enum Asked {
    Answered(Answers),
    /// A modern client has to come back with answers.
    Open(InputRequiredResult),
    /// The client cannot be asked, or did not want to be.
    Refused(String),
}

/// A form with one field that has to be filled in.
pub fn form(message: &str, field: &str, kind: &str) -> Value {
    elicitation(message, json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]}))
}

pub fn elicitation(message: &str, schema: Value) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

pub fn sampling(prompt: &str, tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}})
}

pub fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

pub fn modern(context: &Context) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::NO_INITIALIZE)
}

/// Whether the client declared what a request needs, for this request or for its session.
pub fn declares(context: &Context, method: &str) -> bool {
    let Some(declared) = context.client_capabilities() else { return false };
    match method {
        "elicitation/create" => declared.elicitation.is_some(),
        "sampling/createMessage" => declared.sampling.is_some(),
        "roots/list" => declared.roots.is_some(),
        _ => false,
    }
}

/// The error for a client that did not declare a capability without which there is no answer.
pub fn undeclared(required: Value) -> ErrorData {
    match serde_json::from_value::<ClientCapabilities>(required) {
        Ok(required) => ErrorData::missing_required_client_capability(required),
        Err(fault) => ErrorData::internal_error(fault.to_string(), None),
    }
}

/// The capability that a request needs.
fn capability(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({"elicitation": {}}),
        "sampling/createMessage" => json!({"sampling": {}}),
        _ => json!({"roots": {}}),
    }
}

/// Asks what has not been answered yet. `state` goes along with the questions to a modern client.
pub async fn ask(
    questions: Questions,
    given: Option<&InputResponses>,
    state: Option<String>,
    context: &Context,
) -> Result<Asked, ErrorData> {
    let mut parsed = Vec::new();
    for (key, request) in questions {
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let request: InputRequest =
            serde_json::from_value(request).map_err(|fault| ErrorData::internal_error(fault.to_string(), None))?;
        parsed.push((key, method, request));
    }
    if !modern(context) {
        return Ok(ask_one_by_one(parsed, context).await);
    }
    let mut answers = Answers::new();
    let mut open = InputRequests::new();
    for (key, method, request) in parsed {
        match given.and_then(|given| given.get(key)) {
            Some(answer) if answer.is_object() => {
                answers.insert(key.to_owned(), answer.clone());
            }
            Some(answer) => {
                let text = format!("the answer `{key}` has to be an object, not `{answer}`");
                return Err(ErrorData::invalid_params(text, None));
            }
            None if !declares(context, &method) => return Err(undeclared(capability(&method))),
            None => {
                open.insert(key.to_owned(), request);
            }
        }
    }
    Ok(match open.is_empty() {
        true => Asked::Answered(answers),
        false => Asked::Open(InputRequiredResult::new(Some(open), state)),
    })
}

async fn ask_one_by_one(questions: Vec<(&str, String, InputRequest)>, context: &Context) -> Asked {
    let mut answers = Answers::new();
    for (key, method, request) in questions {
        if !declares(context, &method) {
            return Asked::Refused(format!("the client did not declare what `{method}` needs"));
        }
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            other => return Asked::Refused(format!("no way to ask a legacy client for {other:?}")),
        };
        match context.peer.send_request(request).await {
            Ok(answer) => {
                answers.insert(key.to_owned(), json!(answer));
            }
            Err(fault) => return Asked::Refused(format!("the client did not answer `{method}`: {fault}")),
        }
    }
    Asked::Answered(answers)
}

impl Asked {
    /// The answers; or, without them, what a tool gives back.
    pub fn or_response(self) -> Result<Answers, Box<CallToolResponse>> {
        match self {
            Self::Answered(answers) => Ok(answers),
            Self::Open(open) => Err(Box::new(open.into())),
            Self::Refused(why) => Err(Box::new(failed(&why))),
        }
    }
}
