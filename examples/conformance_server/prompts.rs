//! The prompts and the completion of their arguments. One of them asks its user first.

use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Prompt, PromptArgument, PromptMessage, ResourceContents, Role,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;

use crate::ask::{Asked, ask, form};
use crate::calls::{PIXEL, argument};
use crate::world::{Change, World};

/// What the completion knows, of any argument.
const WORDS: [&str; 4] = ["paris", "park", "party", "test"];

pub fn list(world: &World) -> Vec<Prompt> {
    let required = |name: &str, text: &str| PromptArgument::new(name).with_description(text).with_required(true);
    let prompt = |name: &str, text: &str, arguments: Vec<PromptArgument>| {
        Prompt::new(name, Some(text), (!arguments.is_empty()).then_some(arguments))
    };
    let mut prompts = vec![
        prompt("test_simple_prompt", "A prompt without arguments.", vec![]),
        prompt(
            "test_prompt_with_arguments",
            "A prompt with two arguments.",
            vec![required("arg1", "First test argument"), required("arg2", "Second test argument")],
        ),
        prompt(
            "test_prompt_with_embedded_resource",
            "A prompt with a resource in it.",
            vec![required("resourceUri", "URI of the resource to embed")],
        ),
        prompt("test_prompt_with_image", "A prompt with a picture in it.", vec![]),
        prompt("test_input_required_result_prompt", "A prompt that asks first.", vec![]),
    ];
    if world.extended(Change::Prompts) {
        prompts.push(prompt("test_extra_prompt", "A prompt that comes and goes.", vec![]));
    }
    prompts
}

pub async fn get(
    world: &World,
    request: GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let given = |name: &str| argument(request.arguments.as_ref(), name, "").to_owned();
    let says = |text: String| PromptMessage::new(Role::User, ContentBlock::text(text));
    let messages = match request.name.as_str() {
        "test_simple_prompt" => vec![says("This is a simple prompt for testing.".into())],
        "test_prompt_with_arguments" => {
            vec![says(format!("Prompt with arguments: arg1='{}', arg2='{}'", given("arg1"), given("arg2")))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = ResourceContents::text("Embedded resource content for testing.", given("resourceUri"));
            let resource = ContentBlock::resource(resource.with_mime_type("text/plain"));
            vec![PromptMessage::new(Role::User, resource), says("Please process the embedded resource above.".into())]
        }
        "test_prompt_with_image" => vec![
            PromptMessage::new(Role::User, ContentBlock::image(PIXEL, "image/png")),
            says("Please analyze the image above.".into()),
        ],
        "test_extra_prompt" if world.extended(Change::Prompts) => vec![says("The extra prompt was asked for.".into())],
        "test_input_required_result_prompt" => {
            let question = vec![("user_context", form("What context should the prompt use?", "context", "string"))];
            match ask(question, request.input_responses.as_ref(), None, context).await? {
                Asked::Answered(answers) => {
                    let answer = answers["user_context"].pointer("/content/context").and_then(Value::as_str);
                    vec![says(format!("Prompt with context: {}", answer.unwrap_or("none")))]
                }
                Asked::Open(open) => return Ok(open.into()),
                Asked::Refused(why) => return Err(ErrorData::internal_error(why, None)),
            }
        }
        name => return Err(ErrorData::invalid_params(format!("Unknown prompt: {name}"), None)),
    };
    Ok(GetPromptResult::new(messages).into())
}

pub fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let values = WORDS.iter().filter(|word| word.starts_with(&request.argument.value)).map(|word| (*word).to_owned());
    let found = CompletionInfo::with_all_values(values.collect());
    found.map(CompleteResult::new).map_err(|fault| ErrorData::internal_error(fault, None))
}
