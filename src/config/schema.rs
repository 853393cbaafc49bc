//! Owns the JSON Schema of `sources.toml`, for editors. It only retells the table of keys.

use serde_json::{Map, Value, json};

use super::keys::{
    CATEGORY, CATEGORY_MAX, CREDENTIAL, HTTP, Key, Kind, OF_HTTP, OF_PROGRAMS, PREFIX_MAX, RELAY, SOURCE, Standard,
    TOOL, TOOLSET,
};

/// The JSON Schema (draft 2020-12) of `sources.toml`.
pub fn schema() -> Value {
    let mut source =
        section(SOURCE, "One source: a program that speaks MCP over stdio, or an address that does over HTTP.");
    source["oneOf"] = json!([{"required": ["command"]}, {"required": ["url"]}]);
    let needs =
        |keys: &[&str], what: &str| keys.iter().map(|key| ((*key).to_owned(), json!([what]))).collect::<Map<_, _>>();
    let mut needed = needs(OF_PROGRAMS, "command");
    needed.extend(needs(OF_HTTP, "url"));
    source["dependentRequired"] = Value::Object(needed);
    let is_bearer = json!({"properties": {"auth": {"const": "bearer"}}, "required": ["auth"]});
    source["if"] = is_bearer;
    source["then"] = json!({"required": ["token"]});
    source["else"] = json!({"properties": {"token": false}});
    let mut credential = section(CREDENTIAL, "Who may connect over HTTP, and what they may see.");
    credential["oneOf"] = json!([{"required": ["token"]}, {"required": ["token_sha256"]}]);
    let ids = json!({"pattern": "^[a-z0-9][a-z0-9_-]{0,31}$"});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "sources.toml",
        "description": "The sources of a toolrelay, and the relay itself.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "relay": section(RELAY, "The relay itself."),
            "source": {
                "description": "The sources by id.",
                "type": "object",
                "propertyNames": ids,
                "additionalProperties": {"$ref": "#/$defs/source"},
            },
            "toolset": {
                "description": "Toolsets of chosen tools by id.",
                "type": "object",
                "propertyNames": ids,
                "additionalProperties": {"$ref": "#/$defs/toolset"},
            },
            "http": section(HTTP, "Where clients connect over HTTP, with `serve --http`."),
            "credential": {
                "description": "Who may connect over HTTP, by id.",
                "type": "object",
                "propertyNames": ids,
                "additionalProperties": {"$ref": "#/$defs/credential"},
            },
        },
        "$defs": {
            "credential": credential,
            "source": source,
            "category": chosen(CATEGORY, "One kind of tools of a source."),
            "toolset": chosen(TOOLSET, "A toolset of chosen tools, of one source or several."),
            "tool": section(TOOL, "What is different for one tool of a source."),
        },
    })
}

fn section(keys: &[Key], description: &str) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    json!({
        "description": description,
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// A section that must say which tools it is for.
fn chosen(keys: &[Key], description: &str) -> Value {
    let mut section = section(keys, description);
    section["required"] = json!(["tools"]);
    section["properties"]["tools"]["minItems"] = json!(1);
    section["properties"]["tools"]["uniqueItems"] = json!(true);
    section
}

fn property(key: &Key) -> Value {
    let mut value = of_kind(key.kind);
    value["description"] = json!(key.doc);
    match key.default {
        Standard::Unset => {}
        Standard::Bool(default) => value["default"] = json!(default),
        Standard::Whole(default) => value["default"] = json!(default),
        Standard::Word(default) => value["default"] = json!(default),
        Standard::EmptyList => value["default"] = json!([]),
        Standard::EmptyTable => value["default"] = json!({}),
    }
    value
}

fn of_kind(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Folder | Kind::Template | Kind::Line => json!({"type": "string", "minLength": 1}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Whole { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Word { works, .. } => json!({"type": "string", "enum": works}),
        Kind::Words { works, must } => json!({
            "type": "array",
            "items": {"type": "string", "enum": works},
            "anyOf": [{"maxItems": 0}, {"contains": {"const": must}}],
        }),
        Kind::Globs | Kind::Names => json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
        Kind::PairGlobs => json!({"type": "array", "items": {"type": "string", "pattern": "^[^/]+/.+$"}}),
        Kind::Templates => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Env => json!({
            "type": "object",
            "propertyNames": {"pattern": "^[^=]+$"},
            "additionalProperties": {"type": "string"},
        }),
        Kind::Headers => json!({
            "type": "object",
            "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
            "additionalProperties": {"type": "string"},
        }),
        Kind::Inherit => json!({
            "oneOf": [
                {"type": "boolean"},
                {"type": "array", "items": {"type": "string", "pattern": "^[^=]+$"}},
            ],
        }),
        // A prefix with a variable in it can only be judged when the file is checked.
        Kind::Prefix => json!({
            "type": "string",
            "anyOf": [{"pattern": format!("^[A-Za-z0-9_-]{{0,{PREFIX_MAX}}}$")}, {"pattern": "\\$\\{"}],
        }),
        Kind::Tools => json!({"type": "object", "additionalProperties": {"$ref": "#/$defs/tool"}}),
        Kind::Categories => json!({
            "type": "object",
            "propertyNames": {"minLength": 1, "maxLength": CATEGORY_MAX},
            "additionalProperties": {"$ref": "#/$defs/category"},
        }),
        Kind::Anything => json!({}),
    }
}
