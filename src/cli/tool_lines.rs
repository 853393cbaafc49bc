//! Owns how tools are printed: as rows of a table, or with their schemas. What `toolrelay tools` and `toolrelay find` share.
//! It does not choose them.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::pretty::indented;
use super::table::{Table, beside};
use crate::catalog::Toolset;
use crate::catalog::text::visible_name;
use crate::redact::one_line;

/// One tool, in the words of `find_tools`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolLine {
    pub source: String,
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
    pub description: String,
    pub read_only: bool,
    /// It may be called, and is shown to no client.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// It is not what sources.lock says; the note tells how.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why it cannot be shown directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize)]
pub struct WithheldLine {
    pub source: String,
    pub tool: String,
    pub reason: String,
}

/// A source whose tools may be missing.
#[derive(Serialize, Deserialize)]
pub struct Unavailable {
    pub source: String,
    pub status: String,
    pub reason: String,
}

impl ToolLine {
    /// Of the entry at a position of a source's tools.
    pub fn new(toolset: &Toolset, position: usize, schemas: bool) -> Self {
        let entry = &toolset.entries[position];
        let sheet = entry.read();
        let view = sheet.view();
        let signature = view.signature();
        let (input, output) = if schemas { view.schemas() } else { ("".into(), None) };
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok();
        let is_apart = !entry.direct && !entry.hidden;
        let remark = if is_apart { toolset.withheld(entry.tool.as_str()) } else { None };
        let drift = toolset.drift(entry.tool.as_str());
        Self {
            source: entry.source.to_string(),
            tool: entry.tool.to_string(),
            category: toolset.categories.of(position).map(str::to_owned),
            signature: Some(signature.text),
            lossy: signature.lossy,
            description: match view.description() {
                Some(description) if schemas => description.into_owned(),
                _ => view.first_line(),
            },
            read_only: entry.read_only,
            hidden: entry.hidden,
            changed: drift.is_some(),
            note: drift.map(|drift| drift.note().to_owned()),
            remark: remark.map(|withheld| withheld.reason.clone()),
            input_schema: if schemas { raw(&input) } else { None },
            output_schema: output.and_then(raw),
        }
    }

    /// The description with what is odd about the tool.
    fn told(&self) -> String {
        let mark = if self.hidden { "[hidden] " } else { "" };
        let remarks = [&self.note, &self.remark].into_iter().flatten();
        let remarks: String = remarks.map(|remark| format!(" [{remark}]")).collect();
        format!("{mark}{}{remarks}", self.description)
    }
}

/// Tools and withheld tools as a table, in the order given.
pub fn table(tools: &[ToolLine], withheld: &[WithheldLine]) -> String {
    if tools.is_empty() && withheld.is_empty() {
        return String::new();
    }
    let signed = tools.iter().any(|line| line.signature.is_some());
    let sorted = tools.iter().any(|line| line.category.is_some());
    let header = ["source", "tool", "category", "signature", "description"];
    let is_told = move |at: usize| (sorted || at != 2) && (signed || at != 3);
    let cells =
        |row: [String; 5]| row.into_iter().enumerate().filter(move |(at, _)| is_told(*at)).map(|(_, cell)| cell);
    let mut table = Table::new(&cells(header.map(str::to_owned)).collect::<Vec<_>>());
    for line in tools {
        let signature = line.signature.clone().unwrap_or_default();
        let category = line.category.clone().unwrap_or_default();
        table.row(cells([
            line.source.clone(),
            visible_name(&line.tool).into_owned(),
            category,
            signature,
            line.told(),
        ]));
    }
    for line in withheld {
        let name = if line.tool.is_empty() { "(no name)".to_owned() } else { visible_name(&line.tool).into_owned() };
        table.row(cells([
            line.source.clone(),
            name,
            String::new(),
            "-".to_owned(),
            format!("withheld: {}", line.reason),
        ]));
    }
    table.text()
}

/// Tools one below the other, with their whole descriptions and schemas.
pub fn with_schemas(tools: &[ToolLine]) -> String {
    let mut text = String::new();
    for (place, line) in tools.iter().enumerate() {
        let gap = if place == 0 { "" } else { "\n" };
        let name = visible_name(&line.tool);
        let head = format!("{}/{name}{}", line.source, line.signature.as_deref().unwrap_or_default());
        let _ = writeln!(text, "{gap}{}", one_line(&head, usize::MAX));
        for described in line.told().lines().filter(|described| !described.trim().is_empty()) {
            let _ = writeln!(text, "    {}", one_line(described, usize::MAX));
        }
        for (name, schema) in [("takes", &line.input_schema), ("gives", &line.output_schema)] {
            if let Some(schema) = schema {
                let _ = writeln!(text, "  {name} {}", indented(schema.get()).replace('\n', "\n  "));
            }
        }
    }
    text
}

/// What is missing, and why, one line each.
pub fn absent(unavailable: &[Unavailable]) -> String {
    unavailable.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(
            text,
            "{} is {}: {}",
            line.source,
            line.status,
            one_line(beside(&line.source, &line.reason), usize::MAX)
        );
        text
    })
}
