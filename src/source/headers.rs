//! Owns the headers in which a modern HTTP source is told what a body says (SEP-2243): method, name, and the arguments
//! that its tools ask for. It sends nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::protocol;
use crate::protocol::headers::{self, METHOD, NAME, PARAM, Repeated, VERSION, encoded};
use crate::wire::{Message, Object};

/// The room that the headers of a message mostly take, besides those of arguments.
const HEADERS: usize = 6;

/// The arguments that tools want in headers, learnt from the lists that came over this connection.
#[derive(Default)]
pub struct ParamHeaders(Mutex<BTreeMap<String, Vec<Repeated>>>);

impl ParamHeaders {
    /// Takes note of a reply to `tools/list`.
    pub fn learn(&self, reply: &Message) {
        let Some(result) = reply.result.and_then(|span| Object::parse(reply.text(span))) else { return };
        let tools =
            result.get("tools").and_then(|tools| serde_json::from_str::<Vec<&serde_json::value::RawValue>>(tools).ok());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools.unwrap_or_default() {
            let Some(tool) = Object::parse(tool.get()) else { continue };
            let Some(name) = tool.string("name") else { continue };
            let wanted = tool.get("inputSchema").and_then(|schema| headers::repeated(schema).ok());
            match wanted.filter(|wanted| !wanted.is_empty()) {
                Some(wanted) => drop(known.insert(name.into_owned(), wanted)),
                None => drop(known.remove(&*name)),
            }
        }
    }

    /// The headers of a request.
    pub fn of(&self, message: &Message) -> HeaderMap {
        let method = message.method_name();
        let mut sent = HeaderMap::with_capacity(HEADERS);
        sent.insert(VERSION, HeaderValue::from_static(protocol::MODERN));
        add(&mut sent, HeaderName::from_static(METHOD), &method);
        let params = message.params_text().and_then(Object::parse);
        let (Some(params), Some(member)) = (params, protocol::named_by(&method)) else { return sent };
        let Some(name) = params.string(member) else { return sent };
        add(&mut sent, HeaderName::from_static(NAME), &name);
        if method != "tools/call" {
            return sent;
        }
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&*name).cloned().unwrap_or_default();
        let values = headers::values(params.get("arguments").unwrap_or("{}"), &wanted);
        for (Repeated { header, .. }, value) in wanted.iter().zip(values) {
            let name = HeaderName::from_bytes(format!("{PARAM}{header}").to_ascii_lowercase().as_bytes());
            if let (Some(value), Ok(name)) = (value.and_then(plain), name) {
                add(&mut sent, name, &value);
            }
        }
        sent
    }
}

fn add(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(&encoded(value)) {
        headers.insert(name, value);
    }
}

/// The text of a plain value.
fn plain(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'"' => crate::wire::unquoted(value).map(|text| text.into_owned()),
        b'{' | b'[' => None,
        _ => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(schema: &str) -> ParamHeaders {
        let headers = ParamHeaders::default();
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}}}"#);
        headers.learn(&Message::parse(line.into()).unwrap());
        headers
    }

    fn sent(headers: &ParamHeaders, name: &str, arguments: &str) -> Vec<String> {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
        );
        let headers = headers.of(&Message::parse(line.into()).unwrap());
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn a_call_says_in_headers_what_its_body_says() {
        let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
            "flag":{"type":"boolean","x-mcp-header":"Flag"},"plain":{"type":"string"}}}"#;
        let headers = learnt(schema);
        let mut got = sent(&headers, "t", r#"{"region":" é","deep":{"n":12},"flag":true,"plain":"x"}"#);
        got.sort();
        let want = [
            "mcp-method: tools/call",
            "mcp-name: t",
            "mcp-param-flag: true",
            "mcp-param-n: 12",
            "mcp-param-region: =?base64?IMOp?=",
            "mcp-protocol-version: 2026-07-28",
        ];
        assert_eq!(got, want);
        assert_eq!(sent(&headers, "t", r#"{"region":null,"deep":1}"#).len(), 3);
        assert_eq!(sent(&headers, "other", r#"{"region":"x"}"#).len(), 3);
    }

    #[test]
    fn other_requests_name_what_they_are_about() {
        for (method, params, want) in [
            ("prompts/get", r#"{"name":"p"}"#, Some("p")),
            ("resources/read", r#"{"uri":"file:///é"}"#, Some("=?base64?ZmlsZTovLy/DqQ==?=")),
            ("tasks/get", r#"{"taskId":"7"}"#, Some("7")),
            ("tools/list", "{}", None),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let headers = ParamHeaders::default().of(&Message::parse(line.into()).unwrap());
            assert_eq!(headers.get("mcp-name").map(|name| name.to_str().unwrap()), want, "{method}");
        }
    }
}
