//! The list of tools, with their schemas. What they do is in `calls`, `inputs` and `jobs`.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use crate::world::{Change, World};

/// Name and description of the tools that take nothing.
const PLAIN: &[(&str, &str)] = &[
    ("test_simple_text", "Returns a text."),
    ("test_image_content", "Returns a picture."),
    ("test_audio_content", "Returns a sound."),
    ("test_embedded_resource", "Returns an embedded resource."),
    ("test_multiple_content_types", "Returns a text, a picture and a resource."),
    ("test_tool_with_logging", "Logs three lines while it runs."),
    ("test_logging_tool", "Logs only for who asked for it."),
    ("test_error_handling", "Always fails."),
    ("test_tool_with_progress", "Reports progress three times."),
    ("test_reconnection", "Ends the stream of its answer before the answer."),
    ("test_missing_capability", "Refuses clients without sampling."),
    ("test_trigger_tool_change", "Adds or takes away a tool."),
    ("test_trigger_prompt_change", "Adds or takes away a prompt."),
    ("test_elicitation_sep1034_defaults", "Asks with a default for every kind of field."),
    ("test_elicitation_sep1330_enums", "Asks with every kind of choice."),
    ("test_streaming_elicitation", "Asks for a name."),
    ("test_input_required_result_elicitation", "Asks for a name."),
    ("test_input_required_result_sampling", "Asks the model for the capital of France."),
    ("test_input_required_result_list_roots", "Asks for the roots."),
    ("test_input_required_result_request_state", "Asks, with a state."),
    ("test_input_required_result_multiple_inputs", "Asks three things at once, with a state."),
    ("test_input_required_result_multi_round", "Asks twice, with a state."),
    ("test_input_required_result_tampered_state", "Asks, with a state that must come back as it was."),
    ("test_input_required_result_capabilities", "Asks what the client can be asked."),
    ("failing_job", "A task that ends with an error of the tool."),
    ("protocol_error_job", "A task that ends with an error of the protocol."),
    ("multi_input", "A task that asks two things at once."),
    ("test_tool_with_task", "Asks for a name, and then becomes a task."),
];

pub fn tools(world: &World) -> Vec<Tool> {
    let mut tools: Vec<_> = PLAIN.iter().map(|(name, text)| tool(name, text, json!({"type": "object"}))).collect();
    tools.extend([
        tool("test_sampling", "Asks the model.", fields(json!({"prompt": {"type": "string"}}), &["prompt"])),
        tool("test_elicitation", "Asks the user.", fields(json!({"message": {"type": "string"}}), &["message"])),
        tool("greet", "Says hello.", fields(json!({"name": {"type": "string"}}), &[])),
        tool(
            "slow_compute",
            "Takes its time, as a task if it may.",
            fields(json!({"seconds": {"type": "number"}, "label": {"type": "string"}}), &[]),
        ),
        tool("confirm_delete", "A task that asks.", fields(json!({"filename": {"type": "string"}}), &[])),
        tool(
            "test_custom_header",
            "Has an argument that goes along as a header.",
            fields(json!({"region": {"type": "string", "x-mcp-header": "Region"}}), &["region"]),
        ),
        tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", rich()),
    ]);
    if world.extended(Change::Tools) {
        tools.push(tool("test_extra_tool", "A tool that comes and goes.", json!({"type": "object"})));
    }
    tools
}

fn tool(name: &'static str, text: &'static str, schema: Value) -> Tool {
    let Value::Object(schema) = schema else { unreachable!("BUG: the schema of `{name}` is no object") };
    Tool::new::<_, _, JsonObject>(name, text, schema)
}

fn fields(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// Every keyword that a careless hop loses.
fn rich() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"}
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false
    })
}
