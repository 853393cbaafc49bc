//! The tools that become tasks for a client that declared the extension. What a task is, the SDK knows.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, InputRequest,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskOptions};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::ask::{ask, form, undeclared};
use crate::calls::{argument, text};
use crate::world::World;

type Context = RequestContext<RoleServer>;
type Called = Result<CallToolResponse, ErrorData>;
type Done = Result<CallToolResult, TaskExit>;

pub const NAMES: &[&str] =
    &["slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input", "test_tool_with_task"];

/// How often a client may ask how it stands, in milliseconds.
const POLL: u64 = 100;
/// What a client without the extension may wait for in one go; for more it has to have it.
const AT_ONCE: Duration = Duration::from_secs(3);
/// How long the jobs take that fail.
const JOB: Duration = Duration::from_secs(1);

pub async fn call(world: &World, call: &CallToolRequestParams, context: &Context) -> Called {
    let arguments = call.arguments.clone().unwrap_or_default();
    let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or(1.0).clamp(0.0, 600.0);
    let seconds = Duration::from_secs_f64(seconds);
    let computed = format!("Computed {} in {seconds:?}", argument(Some(&arguments), "label", "nothing"));
    if !context.client_capabilities().is_some_and(|declared| declared.supports_tasks()) {
        if call.name != "slow_compute" || seconds > AT_ONCE {
            return Err(undeclared(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})));
        }
        tokio::time::sleep(seconds).await;
        return Ok(text(computed));
    }
    match call.name.as_ref() {
        "slow_compute" => Ok(spawn(world, |task| async move {
            tokio::select! {
                () = task.cancelled() => Err(TaskExit::Cancelled),
                () = tokio::time::sleep(seconds) => done(computed),
            }
        })),
        "failing_job" => Ok(spawn(world, |_| async {
            tokio::time::sleep(JOB).await;
            Ok(CallToolResult::error(vec![ContentBlock::text("The job failed, as it always does.")]))
        })),
        "protocol_error_job" => Ok(spawn(world, |_| async {
            tokio::time::sleep(JOB).await;
            Err(TaskExit::Error(ErrorData::internal_error("The job broke down, as it always does.", None)))
        })),
        "confirm_delete" => {
            let file = argument(Some(&arguments), "filename", "the file").to_owned();
            Ok(spawn(world, |task| async move {
                let answer = input(&task, "confirm", &format!("Delete {file}?"), "confirm", "boolean").await?;
                done(format!("Deletion of {file}: {}", answer["content"]["confirm"]))
            }))
        }
        "multi_input" => Ok(spawn(world, |task| async move {
            let (name, sure) = tokio::join!(
                input(&task, "name", "What is your name?", "name", "string"),
                input(&task, "sure", "Are you sure?", "confirm", "boolean"),
            );
            done(format!("Got {} and {}", name?["content"], sure?["content"]))
        })),
        _ => {
            let question = vec![("user_name", form("What is your name?", "name", "string"))];
            let answers = match ask(question, call.input_responses.as_ref(), None, context).await?.or_response() {
                Ok(answers) => answers,
                Err(response) => return Ok(*response),
            };
            let name = answers["user_name"]["content"]["name"].clone();
            Ok(spawn(world, |_| async move { done(format!("Hello, {name}, from a task.")) }))
        }
    }
}

fn done(said: String) -> Done {
    Ok(CallToolResult::success(vec![ContentBlock::text(said)]))
}

fn spawn<F>(world: &World, job: impl FnOnce(TaskContext) -> F) -> CallToolResponse
where
    F: Future<Output = Done> + Send + 'static,
{
    let options = TaskOptions::new().with_poll_interval_ms(POLL);
    CreateTaskResult::new(world.tasks.spawn(options, |task| Box::pin(job(task)))).into()
}

/// Asks in the midst of a task, and waits for the answer or the task's end.
async fn input(task: &TaskContext, key: &str, message: &str, field: &str, kind: &str) -> Result<Value, TaskExit> {
    let request: InputRequest = serde_json::from_value(form(message, field, kind))
        .map_err(|fault| TaskExit::Error(ErrorData::internal_error(fault.to_string(), None)))?;
    tokio::select! {
        () = task.cancelled() => Err(TaskExit::Cancelled),
        answer = task.request_input(key, request) => answer,
    }
}
