//! One line of the relay, read as far as a test wants to.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;
use serde_json::value::RawValue;

/// One line of the relay.
#[derive(Debug, Clone)]
pub struct Reply {
    pub line: String,
    pub at: Instant,
}

impl Reply {
    /// A top-level member as it was written.
    pub fn raw(&self, member: &str) -> Option<&str> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(&self.line).unwrap();
        members.get(member).map(|raw| raw.get())
    }

    #[track_caller]
    fn member(&self, name: &str) -> Value {
        let Some(raw) = self.raw(name) else { panic!("no `{name}` in {}", start_of(&self.line)) };
        serde_json::from_str(raw).unwrap()
    }

    #[track_caller]
    pub fn result(&self) -> Value {
        self.member("result")
    }

    #[track_caller]
    pub fn params(&self) -> Value {
        self.member("params")
    }

    #[track_caller]
    pub fn error(&self) -> Value {
        self.member("error")
    }

    #[track_caller]
    pub fn error_code(&self) -> i64 {
        self.error()["code"].as_i64().unwrap()
    }

    /// The text of a tool's result.
    #[track_caller]
    pub fn text(&self) -> String {
        let result = self.result();
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}")).to_owned()
    }

    /// The structured content of a tool's result.
    #[track_caller]
    pub fn structured(&self) -> Value {
        let result = self.result();
        assert!(result["structuredContent"].is_object(), "{result}");
        result["structuredContent"].clone()
    }

    /// The kind of the relay's own failure, and what it says.
    #[track_caller]
    pub fn failure(&self) -> (String, String) {
        let result = self.result();
        let kind = result["structuredContent"]["error"]["kind"].as_str();
        let kind = kind.unwrap_or_else(|| panic!("no failure: {result}")).to_owned();
        assert_eq!(result["isError"], true, "{result}");
        (kind, self.text())
    }
}

pub fn start_of(line: &str) -> String {
    line.chars().take(300).collect()
}
