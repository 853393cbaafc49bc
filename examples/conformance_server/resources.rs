//! The resources: two fixed ones, one to watch, a template, and the files of the skills. They never change.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::calls::PIXEL;
use crate::skills;

pub fn list() -> Vec<Resource> {
    let mut all = vec![
        Resource::new("test://static-text", "static-text")
            .with_description("A text that stays the same.")
            .with_mime_type("text/plain"),
        Resource::new("test://static-binary", "static-binary")
            .with_description("A picture that stays the same.")
            .with_mime_type("image/png"),
        Resource::new("test://watched-resource", "watched-resource")
            .with_description("A text to subscribe to.")
            .with_mime_type("text/plain"),
    ];
    all.extend(skills::resources());
    all
}

pub fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("test://template/{id}/data", "template-data")
            .with_description("Data of the given id.")
            .with_mime_type("application/json"),
    ]
}

pub fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let contents = match uri {
        "test://static-text" => {
            ResourceContents::text("This is the content of the static text resource.", uri).with_mime_type("text/plain")
        }
        "test://static-binary" => ResourceContents::blob(PIXEL, uri).with_mime_type("image/png"),
        "test://watched-resource" => {
            ResourceContents::text("This is the content of the watched resource.", uri).with_mime_type("text/plain")
        }
        _ => match (id, skills::read(uri)) {
            (_, Some(contents)) => contents,
            (Some(id), None) => {
                let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
            }
            (None, None) => return Err(ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})))),
        },
    };
    Ok(ReadResourceResult::new(vec![contents]))
}
