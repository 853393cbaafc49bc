//! Owns how the result of a call reads for people: texts as they are, everything else told in a line.
//! It never changes a text, and never reads a number.

use serde_json::value::RawValue;

use super::pretty::indented;
use crate::redact::one_line;
use crate::wire::Object;

/// The longest name or address in a line.
const NAME_MAX: usize = 200;

/// The text of a `tools/call` result.
pub fn told(result: &str) -> String {
    let Some(object) = Object::parse(result) else { return indented(result) };
    let content = object.get("content").and_then(|text| serde_json::from_str::<Vec<&RawValue>>(text).ok());
    let Some(content) = content else { return indented(object.get("structuredContent").unwrap_or(result)) };
    let blocks: Vec<Block> = content.iter().map(|raw| Block::read(raw.get())).collect();
    let has_text = blocks.iter().any(|block| matches!(block, Block::Text(_)));
    let mut parts: Vec<String> = blocks.into_iter().map(Block::told).collect();
    if let Some(structured) = object.get("structuredContent").filter(|_| !has_text) {
        parts.push(indented(structured));
    }
    if parts.is_empty() {
        return "(the result is empty)".to_owned();
    }
    parts.join("\n")
}

/// One block of content.
enum Block {
    Text(String),
    /// What it is, in a line.
    Note(String),
}

impl Block {
    fn read(raw: &str) -> Self {
        let Some(block) = Object::parse(raw) else {
            return Self::Note(format!("content, {} bytes of JSON", raw.len()));
        };
        let word = |name: &str| block.string(name).map(|text| one_line(&text, NAME_MAX));
        let kind = word("type").unwrap_or_else(|| "content".to_owned());
        let size = |object: &Object<'_>, name: &str| object.get(name).map_or(0, |text| text.len().saturating_sub(2));
        match kind.as_str() {
            "text" => match block.string("text") {
                Some(text) => Self::Text(text.into_owned()),
                None => Self::Note(format!("text, {} bytes of JSON", raw.len())),
            },
            "image" | "audio" => {
                let media = word("mimeType").map(|media| format!(" {media}")).unwrap_or_default();
                Self::Note(format!("{kind}{media}, {} bytes of base64", size(&block, "data")))
            }
            "resource_link" => {
                let about = ["name", "uri", "mimeType"].into_iter().filter_map(word).collect::<Vec<_>>().join(" ");
                Self::Note(format!("resource link {about}"))
            }
            "resource" => {
                let inner = block.get("resource").and_then(Object::parse);
                let Some(inner) = inner else { return Self::Note(format!("resource, {} bytes of JSON", raw.len())) };
                let about = ["uri", "mimeType"].into_iter().filter_map(|name| inner.string(name));
                let about = about.map(|text| one_line(&text, NAME_MAX)).collect::<Vec<_>>().join(" ");
                let held = if inner.get("blob").is_some() { "bytes of base64" } else { "bytes of text" };
                Self::Note(format!("resource {about}, {} {held}", size(&inner, "blob") + size(&inner, "text")))
            }
            _ => Self::Note(format!("{kind}, {} bytes of JSON", raw.len())),
        }
    }

    fn told(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Note(note) => format!("[{note}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_read_well() {
        let check = |result: &str, want: &str| assert_eq!(told(result), want, "{result}");
        check(r#"{"content":[{"type":"text","text":"a\tb\n"},{"type":"text","text":"c"}]}"#, "a\tb\n\nc");
        check(r#"{"content":[{"type":"text","text":"t"}],"structuredContent":{"n":1}}"#, "t");
        check(r#"{"content":[],"structuredContent":{"n":1e400}}"#, "{\n  \"n\": 1e400\n}");
        check(r#"{"structuredContent":{}}"#, "{}");
        check(r#"{"content":[]}"#, "(the result is empty)");
        check(r#"{"other":12345678901234567890}"#, "{\n  \"other\": 12345678901234567890\n}");
        check("7", "7");
    }

    #[test]
    fn other_blocks_are_told_in_a_line() {
        for (block, want) in [
            (r#"{"type":"image","mimeType":"image/png","data":"AAAA"}"#, "[image image/png, 4 bytes of base64]"),
            (r#"{"type":"audio","data":"AA"}"#, "[audio, 2 bytes of base64]"),
            (r#"{"type":"resource_link","uri":"x:y","name":"n"}"#, "[resource link n x:y]"),
            (r#"{"type":"resource","resource":{"uri":"x:y","text":"abc"}}"#, "[resource x:y, 3 bytes of text]"),
            (r#"{"type":"resource"}"#, "[resource, 19 bytes of JSON]"),
            (r#"{"type":"hologram\n","x":1e400}"#, "[hologram, 31 bytes of JSON]"),
            (r#"{"type":"text","text":7}"#, "[text, 24 bytes of JSON]"),
            ("3", "[content, 1 bytes of JSON]"),
        ] {
            assert_eq!(told(&format!(r#"{{"content":[{block}]}}"#)), want, "{block}");
        }
    }
}
