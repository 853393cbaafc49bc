//! Owns what is read from the headers of a request: which answers it takes, and what those of 2026-07-28 must say of its
//! body (SEP-2243).
//! It answers nothing.

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderValue};

use super::head::Head;
use crate::protocol;
use crate::protocol::headers::{METHOD, NAME, PARAM, Repeated, VERSION, decoded, repeated};
use crate::session::Refusal;
use crate::snapshot::Snapshot;
use crate::wire::unquoted;

/// Which kinds of answers a client takes.
#[derive(Clone, Copy)]
pub struct Accepts {
    pub json: bool,
    pub events: bool,
}

impl Accepts {
    /// A client that says nothing takes JSON.
    pub fn of(headers: &HeaderMap) -> Self {
        let (mut json, mut events) = (Wanted::default(), Wanted::default());
        let lists = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for item in lists.flat_map(|list| list.split(',')) {
            let mut parts = item.split(';').map(str::trim);
            let range = parts.next().unwrap_or_default();
            let is_wanted = !parts.any(is_zero);
            json.note(["*/*", "application/*", "application/json"], range, is_wanted);
            events.note(["*/*", "text/*", "text/event-stream"], range, is_wanted);
        }
        Accepts { json: json.wanted || !events.wanted, events: events.wanted }
    }
}

/// Whether one kind of answers is wanted, by the closest of what names it (RFC 9110, 12.5.1).
#[derive(Default)]
struct Wanted {
    closest: usize,
    wanted: bool,
}

impl Wanted {
    /// `ranges` have the closest last.
    fn note(&mut self, ranges: [&str; 3], range: &str, is_wanted: bool) {
        let Some(close) = ranges.iter().position(|name| range.eq_ignore_ascii_case(name)) else { return };
        if close > self.closest {
            *self = Self { closest: close, wanted: is_wanted };
        } else if close == self.closest {
            self.wanted |= is_wanted;
        }
    }
}

/// Whether a parameter says that its kind is not acceptable (RFC 9110, 12.4.2).
fn is_zero(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else { return false };
    name.trim().eq_ignore_ascii_case("q") && weight.trim().parse() == Ok(0.0)
}

/// What a header says without its parameters.
pub fn media_type(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Compares the headers with the message: each must be there once, and say the same.
pub async fn check(headers: &HeaderMap, head: &Head, snapshot: &Snapshot) -> Result<(), Refusal> {
    let header_version = required(headers, VERSION)?;
    if let Some(version) = head.version()
        && header_version != version
    {
        return Err(mismatch(format!(
            "header `MCP-Protocol-Version` says `{header_version}`, `_meta` says `{version}`"
        )));
    }
    let method = &head.method;
    let named = required(headers, METHOD)?;
    if named != *method {
        return Err(mismatch(format!("header `Mcp-Method` says `{named}`, the request `{method}`")));
    }
    let Some(name) = &head.name else { return Ok(()) };
    let named = required(headers, NAME)?;
    if decoded(&named).as_ref() != Some(name) {
        return Err(mismatch(format!("header `Mcp-Name` says `{named}`, the request `{name}`")));
    }
    if method == "tools/call" { arguments_repeated(headers, head, name, snapshot).await } else { Ok(()) }
}

fn mismatch(text: String) -> Refusal {
    let text = format!("{text}; the headers of a request repeat what its body says");
    Refusal { code: protocol::HEADER_MISMATCH, text, data: None }
}

/// The value of a header that must be there, once.
fn required(headers: &HeaderMap, name: &str) -> Result<String, Refusal> {
    match single(headers, name)? {
        Some(value) => Ok(value),
        None => Err(mismatch(format!("header `{name}` is missing"))),
    }
}

fn single(headers: &HeaderMap, name: &str) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("header `{name}` is there more than once")));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim_matches([' ', '\t']).to_owned())),
        Err(_) => Err(mismatch(format!("header `{name}` has characters that a header cannot carry"))),
    }
}

/// Arguments whose schema says that a header repeats them.
async fn arguments_repeated(headers: &HeaderMap, head: &Head, name: &str, snapshot: &Snapshot) -> Result<(), Refusal> {
    let Some(entry) = snapshot.catalog.by_exposed(name) else { return Ok(()) };
    // Of a schema that wants headers in an invalid way no client can know which.
    let repeated = repeated(&entry.schemas().0).unwrap_or_default();
    if repeated.is_empty() {
        return Ok(());
    }
    let sent = |Repeated { header, .. }: &Repeated| {
        let sent = single(headers, &format!("{PARAM}{}", header.to_ascii_lowercase()))?;
        let not_base64 = || mismatch(format!("header `Mcp-Param-{header}` is not base64"));
        sent.map(|text| decoded(&text).ok_or_else(not_base64)).transpose()
    };
    let sent = repeated.iter().map(sent).collect::<Result<Vec<_>, _>>()?;
    let compare = move |repeated: &[Repeated], arguments: Vec<Option<&str>>| {
        repeated.iter().zip(sent).zip(arguments).try_for_each(|((Repeated { header, .. }, sent), argument)| {
            match (sent, argument) {
                (None, None) => Ok(()),
                (Some(sent), Some(argument)) if says(&sent, argument) => Ok(()),
                (None, Some(_)) => Err(mismatch(format!("header `Mcp-Param-{header}` is missing"))),
                (Some(_), _) => Err(mismatch(format!("header `Mcp-Param-{header}` differs from the argument"))),
            }
        })
    };
    head.with_values(repeated, compare).await
}

/// Whether a header says the same as the text of an argument.
fn says(sent: &str, argument: &str) -> bool {
    match argument.as_bytes().first() {
        Some(b'"') => unquoted(argument).is_some_and(|text| text == sent),
        Some(b't' | b'f') => argument == sent,
        Some(b'-' | b'0'..=b'9') => {
            let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
            argument == sent || number(sent).is_some_and(|sent| number(argument) == Some(sent))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_of_zero_says_no() {
        let check = |accept: &str, json: bool, events: bool| {
            let headers = [(ACCEPT, HeaderValue::from_str(accept).unwrap())].into_iter().collect();
            let accepts = Accepts::of(&headers);
            assert_eq!((accepts.json, accepts.events), (json, events), "{accept}");
        };
        check("application/json, text/event-stream", true, true);
        check("*/*", true, true);
        check("text/event-stream;q=0, application/json", true, false);
        check("application/json, Text/Event-Stream ; Q = 0.000", true, false);
        check("application/json;charset=utf-8;q=0.0,text/*", false, true);
        check("text/event-stream;q=0.001, application/json;q=1", true, true);
        // The closest that names it counts, wherever it stands.
        check("text/event-stream;q=0, */*", true, false);
        check("*/*;q=0.1, text/*;q=0", true, false);
        check("text/*;q=0, text/event-stream", false, true);
        // Who wants nothing that there is gets JSON, as who says nothing.
        check("*/*;q=0", true, false);
        check("text/html", true, false);
    }

    #[test]
    fn a_header_says_the_same_as_an_argument() {
        let same = [
            ("eu", "\"eu\""),
            ("\u{e4}", "\"\\u00e4\""),
            ("3", "3"),
            ("3", "3.0"),
            ("-1e3", "-1000"),
            ("true", "true"),
        ];
        for (sent, argument) in same {
            assert!(says(sent, argument), "{sent} {argument}");
        }
        let other =
            [("", "\"eu\""), ("4", "3"), ("inf", "1e400"), ("True", "true"), ("{}", "{}"), ("[1]", "[1]"), ("", "[]")];
        for (sent, argument) in other {
            assert!(!says(sent, argument), "{sent} {argument}");
        }
    }
}
