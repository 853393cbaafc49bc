//! Owns the facts of the protocol's revisions: versions, error codes, hop-owned `_meta` keys, and the relay's own identity.
//! It holds no state and no connection.

pub mod headers;

use crate::wire::{Object, quoted};

/// The revision without a handshake, with per-request `_meta` (SEP-2575).
pub const MODERN: &str = "2026-07-28";
/// The revisions with `initialize`, newest first.
pub const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The one revision with JSON-RPC batches.
pub const WITH_BATCHES: &str = "2025-03-26";
/// The one revision with completions that has no capability for them.
pub const WITHOUT_COMPLETIONS: &str = "2024-11-05";
/// What is offered to legacy sources, and answered to clients that ask for an unknown revision.
pub const LATEST_LEGACY: &str = LEGACY[0];

/// Whether a connection speaks 2026-07-28 or an earlier revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// `_meta` keys that belong to one hop and are never passed on (SEP-2575).
pub const META_PREFIX: &str = "io.modelcontextprotocol/";
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
pub const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// A header of a request is missing, or says something else than its body (SEP-2243).
pub const HEADER_MISMATCH: i64 = -32020;
/// The revision asked for is not spoken here; `data` has `supported` and `requested`.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// The client lacks what the request needs; `data` has `requiredCapabilities`.
pub const MISSING_CAPABILITY: i64 = -32021;
/// A resource that there is not, up to 2025-11-25.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A page must be visited first; `data` has `elicitations` (2025-11-25).
pub const URL_NEEDED: i64 = -32042;
/// The modern errors that tell a modern peer: header mismatch, missing capability, unsupported version.
pub const MODERN_ERRORS: &[i64] = &[-32020, -32021, -32022];

/// Which member of a request's params the header `Mcp-Name` repeats (SEP-2243).
pub fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// The levels of log lines (RFC 5424), the least urgent first.
pub const LOG_LEVELS: &[&str] = &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The relay's own name, as `serverInfo` and `clientInfo`.
pub fn implementation() -> String {
    format!("{{\"name\":\"toolrelay\",\"title\":\"toolrelay\",\"version\":{}}}", quoted(env!("CARGO_PKG_VERSION")))
}

/// [`implementation`], made once.
pub fn own_info() -> &'static str {
    static INFO: std::sync::LazyLock<String> = std::sync::LazyLock::new(implementation);
    &INFO
}

/// `_meta` of the relay's own requests to a modern source.
pub fn modern_meta() -> String {
    modern_meta_with("{}")
}

/// The same, with the text of what the relay can do for this request.
pub fn modern_meta_with(capabilities: &str) -> String {
    format!(
        "{{\"{META_VERSION}\":\"{MODERN}\",\"{META_CAPABILITIES}\":{capabilities},\"{META_CLIENT}\":{}}}",
        own_info()
    )
}

/// The `_meta` member of a result without what belongs to the hop, if there is any of that: the member's text, empty where
/// nothing is left of it.
pub fn meta_without_hop(result: &Object<'_>) -> Option<String> {
    let meta = result.get("_meta").and_then(Object::parse)?;
    let hop_owned = |name: &str| name.starts_with(META_PREFIX);
    if !meta.members.iter().any(|member| hop_owned(&member.key)) {
        return None;
    }
    let text = meta.rewritten(|name| !hop_owned(name), &[]);
    Some(if text == "{}" { String::new() } else { format!("\"_meta\":{text}") })
}
