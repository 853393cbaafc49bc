//! The tools that ask their user: once, several things at once, in rounds, with a sealed state. How one asks is in `ask`.

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::ask::{Answers, Questions, ask, declares, elicitation, form, roots, sampling};
use crate::calls::{argument, text};
use crate::world::World;

type Context = RequestContext<RoleServer>;
type Called = Result<CallToolResponse, ErrorData>;

pub const NAMES: &[&str] = &[
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_streaming_elicitation",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

pub async fn call(world: &World, call: &CallToolRequestParams, context: &Context) -> Called {
    let name = call.name.as_ref();
    match name {
        "test_input_required_result_multi_round" => in_rounds(world, call, context).await,
        "test_input_required_result_request_state"
        | "test_input_required_result_multiple_inputs"
        | "test_input_required_result_tampered_state" => with_state(world, call, context).await,
        _ => {
            let asked = ask(questions(name, call, context), call.input_responses.as_ref(), None, context).await?;
            Ok(asked.or_response().map_or_else(|response| *response, |answers| text(told(name, &answers))))
        }
    }
}

fn name_form(message: &str) -> Value {
    form(message, "name", "string")
}

/// What a tool asks in its first round.
fn questions(name: &str, call: &CallToolRequestParams, context: &Context) -> Questions {
    let arguments = call.arguments.as_ref();
    match name {
        "test_sampling" => vec![("reply", sampling(argument(arguments, "prompt", "Test prompt for sampling"), 100))],
        "test_elicitation" => {
            vec![("user", user_form(argument(arguments, "message", "Please provide your information")))]
        }
        "test_elicitation_sep1034_defaults" => vec![("defaults", defaults_form())],
        "test_elicitation_sep1330_enums" => vec![("choices", enums_form())],
        "test_input_required_result_sampling" => {
            vec![("capital_question", sampling("What is the capital of France?", 100))]
        }
        "test_input_required_result_list_roots" => vec![("client_roots", roots())],
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            vec![("confirm", form("Please confirm", "ok", "boolean"))]
        }
        "test_input_required_result_multiple_inputs" => vec![
            ("user_name", name_form("What is your name?")),
            ("greeting", sampling("Generate a greeting", 50)),
            ("client_roots", roots()),
        ],
        "test_input_required_result_capabilities" => {
            let all =
                [("user_name", name_form("What is your name?")), ("greeting", sampling("Generate a greeting", 50))];
            let askable = |(_, request): &(_, Value)| declares(context, request["method"].as_str().unwrap_or_default());
            all.into_iter().filter(askable).collect()
        }
        _ => vec![("user_name", name_form("What is your name?"))],
    }
}

/// The text once everything is answered.
fn told(name: &str, answers: &Answers) -> String {
    let field = |key: &str, pointer: &str| {
        let found = answers.get(key).and_then(|answer| answer.pointer(pointer)).and_then(Value::as_str);
        found.unwrap_or("nothing").to_owned()
    };
    match name {
        "test_sampling" => format!("LLM response: {}", field("reply", "/content/text")),
        "test_elicitation" => format!("User response: {}", json!(answers["user"])),
        "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
            let answer = answers.values().next().cloned().unwrap_or_default();
            format!("Elicitation completed: action={}, content={}", answer["action"], answer["content"])
        }
        "test_input_required_result_sampling" => field("capital_question", "/content/text"),
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            format!("Hello, {}!", field("user_name", "/content/name"))
        }
        _ => format!("Answers: {}", json!(answers)),
    }
}

/// The tools whose state has to come back as it was given.
async fn with_state(world: &World, call: &CallToolRequestParams, context: &Context) -> Called {
    let name = call.name.as_ref();
    opened(world, call)?;
    let state = sealed(world, name, "");
    let asked = ask(questions(name, call, context), call.input_responses.as_ref(), state, context).await?;
    Ok(match asked.or_response() {
        Ok(answers) => text(format!("state-ok. {}", told(name, &answers))),
        Err(response) => *response,
    })
}

/// What the state that came back holds: nothing at the start. An error when it is not this server's own, or another tool's.
fn opened(world: &World, call: &CallToolRequestParams) -> Result<Option<String>, ErrorData> {
    let Some(sealed) = &call.request_state else { return Ok(None) };
    let refused = |why: String| ErrorData::invalid_params(format!("the request state is refused: {why}"), None);
    let state = world.seals.open(sealed).map_err(|fault| refused(fault.to_string()))?;
    let state = String::from_utf8(state).map_err(|fault| refused(fault.to_string()))?;
    match state.strip_prefix(call.name.as_ref()).and_then(|rest| rest.strip_prefix(' ')) {
        Some(rest) => Ok(Some(rest.to_owned())),
        None => Err(refused("it belongs to another tool".to_owned())),
    }
}

fn sealed(world: &World, name: &str, rest: &str) -> Option<String> {
    Some(world.seals.seal(format!("{name} {rest}").as_bytes()))
}

/// Two questions, one after the other. The answer to the first travels in the state.
async fn in_rounds(world: &World, call: &CallToolRequestParams, context: &Context) -> Called {
    let first = vec![("step1", name_form("Step 1: What is your name?"))];
    let second = vec![("step2", form("Step 2: What is your favorite color?", "color", "string"))];
    let state = |rest: &str| sealed(world, &call.name, rest);
    let known = opened(world, call)?.filter(|rest| !rest.is_empty());
    let name = match known {
        Some(name) => name,
        None => match ask(first, call.input_responses.as_ref(), state(""), context).await?.or_response() {
            Ok(answers) => {
                answers["step1"].pointer("/content/name").and_then(Value::as_str).unwrap_or("nobody").to_owned()
            }
            Err(response) => return Ok(*response),
        },
    };
    let asked = ask(second, call.input_responses.as_ref(), state(&name), context).await?;
    Ok(match asked.or_response() {
        Ok(answers) => text(format!("{name} likes {}.", answers["step2"]["content"]["color"])),
        Err(response) => *response,
    })
}

fn user_form(message: &str) -> Value {
    let properties = json!({
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"}
    });
    elicitation(message, json!({"type": "object", "properties": properties, "required": ["username", "email"]}))
}

fn defaults_form() -> Value {
    let properties = json!({
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string", "description": "User status",
            "enum": ["active", "inactive", "pending"], "default": "active"
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": true}
    });
    elicitation("Please review the defaults", json!({"type": "object", "properties": properties, "required": []}))
}

fn enums_form() -> Value {
    let titled = |titles: [&str; 3]| -> Value {
        let values = ["value1", "value2", "value3"];
        values.iter().zip(titles).map(|(value, title)| json!({"const": value, "title": title})).collect()
    };
    let properties = json!({
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"])},
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled(["First Choice", "Second Choice", "Third Choice"])}}
    });
    elicitation("Please choose", json!({"type": "object", "properties": properties, "required": []}))
}
