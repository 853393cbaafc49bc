//! The tools that answer by themselves: content of every kind, logging, progress, changes of lists. Those that ask are in
//! `inputs`, those that become tasks in `jobs`.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ResourceContents,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::world::{Change, World};
use crate::{ask, http, inputs, jobs};

type Context = RequestContext<RoleServer>;
type Called = Result<CallToolResponse, ErrorData>;

/// A picture of one red pixel, as PNG.
pub const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound of no length, as WAV.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
/// Between two notifications, so that a client can see them come one by one.
const STEP: Duration = Duration::from_millis(50);
/// From the end of the stream of `test_reconnection` to its answer, which the client has to come back for.
const AWAY: Duration = Duration::from_millis(1200);

pub fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

pub fn failed(why: &str) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(why)]).into()
}

/// A string among the arguments, or the given one.
pub fn argument<'a>(arguments: Option<&'a JsonObject>, name: &str, otherwise: &'a str) -> &'a str {
    arguments.and_then(|arguments| arguments.get(name)).and_then(Value::as_str).unwrap_or(otherwise)
}

pub async fn call(world: &World, call: CallToolRequestParams, context: &Context) -> Called {
    if let Some(content) = fixed(&call.name) {
        return Ok(CallToolResult::success(content).into());
    }
    match call.name.as_ref() {
        "test_error_handling" => Ok(failed("This tool intentionally returns an error for testing")),
        "test_tool_with_logging" | "test_logging_tool" => log(context).await,
        "test_tool_with_progress" => progress(context).await,
        "test_reconnection" => {
            // A stream that breaks in 2026-07-28 is lost, and the call with it.
            let hung_up = !ask::modern(context) && http::hang_up(context);
            tokio::time::sleep(AWAY).await;
            Ok(text(if hung_up {
                "Reconnection test completed."
            } else {
                "There is no stream here that could be taken up again."
            }))
        }
        "test_missing_capability" if !ask::declares(context, "sampling/createMessage") => {
            Err(ask::undeclared(json!({"sampling": {}})))
        }
        "test_missing_capability" => Ok(text("The client declared sampling.")),
        "test_trigger_tool_change" => {
            world.change(Change::Tools);
            Ok(text("The list of tools has changed."))
        }
        "test_trigger_prompt_change" => {
            world.change(Change::Prompts);
            Ok(text("The list of prompts has changed."))
        }
        "test_extra_tool" if world.extended(Change::Tools) => Ok(text("The extra tool was called.")),
        "test_custom_header" | "json_schema_2020_12_tool" => {
            Ok(text(format!("Called with {}", Value::Object(call.arguments.unwrap_or_default()))))
        }
        "greet" => Ok(text(format!("Hello, {}!", argument(call.arguments.as_ref(), "name", "World")))),
        name if inputs::NAMES.contains(&name) => inputs::call(world, &call, context).await,
        name if jobs::NAMES.contains(&name) => jobs::call(world, &call, context).await,
        name => Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None)),
    }
}

/// Content that is always the same.
fn fixed(name: &str) -> Option<Vec<ContentBlock>> {
    let embedded = |text: &str, uri: &str, kind: &str| {
        ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(kind))
    };
    Some(match name {
        "test_simple_text" => vec![ContentBlock::text("This is a simple text response for testing.")],
        "test_image_content" => vec![ContentBlock::image(PIXEL, "image/png")],
        "test_audio_content" => vec![ContentBlock::audio(SILENCE, "audio/wav")],
        "test_embedded_resource" => {
            vec![embedded("This is an embedded resource content.", "test://embedded-resource", "text/plain")]
        }
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PIXEL, "image/png"),
            embedded(r#"{"test":"data","value":123}"#, "test://mixed-content-resource", "application/json"),
        ],
        _ => return None,
    })
}

/// Three lines at `info`; none for a modern client that did not ask for them.
async fn log(context: &Context) -> Called {
    let wanted = !ask::modern(context) || context.meta.log_level().is_some();
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if wanted {
            let line = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
            context.peer.notify_logging_message(line.with_logger("conformance")).await.map_err(unsent)?;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(text("Tool with logging executed."))
}

async fn progress(context: &Context) -> Called {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let step = ProgressNotificationParam::new(token, done).with_total(100.0);
            context.peer.notify_progress(step).await.map_err(unsent)?;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(text("Tool with progress executed."))
}

fn unsent(fault: rmcp::ServiceError) -> ErrorData {
    ErrorData::internal_error(format!("a notification could not be sent: {fault}"), None)
}
