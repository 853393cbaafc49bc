//! The quickest source there is: what the benchmark puts behind the relay, so that it times the relay and nothing else.
//!
//! One thread, no JSON parser: the id is found by a scan that stops as soon as it can, and the answers lie ready.
//! Tools: `echo` (64 bytes of text), `text` and `structured` (a result of about `bytes` bytes).
//!
//! ```text
//! cargo run --release --example raw_echo
//! {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text","arguments":{"bytes":1048576}}}
//! ```

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::fd::AsFd;

/// Large enough that 64 small requests in flight are one read and one write.
const BUFFER_BYTES: usize = 256 * 1024;

const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw_echo","version":"1.0.0"}}"#;
const TOOLS: &str = r#"{"tools":[{"name":"echo","description":"64 bytes of text.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"text","description":"A text of so many bytes.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]},"annotations":{"readOnlyHint":true}},{"name":"structured","description":"Structured content of about so many bytes.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]},"annotations":{"readOnlyHint":true}}]}"#;
const ECHO: &str =
    r#"{"content":[{"type":"text","text":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}]}"#;
const NO_METHOD: &str = r#"{"code":-32601,"message":"Method not found"}"#;
const NO_TOOL: &str = r#"{"content":[{"type":"text","text":"unknown tool"}],"isError":true}"#;

fn main() -> io::Result<()> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, io::stdin().lock());
    // The descriptor itself: `Stdout` would look for newlines in all that goes through it.
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let mut built = Built::default();
    let mut line = Vec::with_capacity(BUFFER_BYTES);
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return output.flush();
        }
        answer(&line, &mut built, &mut output)?;
        if !input.buffer().contains(&b'\n') {
            output.flush()?;
        }
    }
}

fn answer(line: &[u8], built: &mut Built, output: &mut impl Write) -> io::Result<()> {
    let (Some(id), Some(method)) = (member(line, b"id"), member(line, b"method")) else { return Ok(()) };
    let (kind, body) = match method {
        b"\"tools/call\"" => ("result", called(line, built)),
        b"\"tools/list\"" => ("result", TOOLS),
        b"\"initialize\"" => ("result", INITIALIZE),
        b"\"ping\"" => ("result", "{}"),
        _ => ("error", NO_METHOD),
    };
    output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":")?;
    output.write_all(id)?;
    output.write_all(b",\"")?;
    output.write_all(kind.as_bytes())?;
    output.write_all(b"\":")?;
    output.write_all(body.as_bytes())?;
    output.write_all(b"}\n")
}

fn called<'a>(line: &[u8], built: &'a mut Built) -> &'a str {
    let params = member_start(line, b"params").unwrap_or_default();
    let structured = match member(params, b"name") {
        Some(b"\"echo\"") => return ECHO,
        Some(b"\"text\"") => false,
        Some(b"\"structured\"") => true,
        _ => return NO_TOOL,
    };
    let bytes = member_start(params, b"arguments").and_then(|arguments| member(arguments, b"bytes"));
    let bytes = bytes.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(64);
    built.get(bytes, structured)
}

/// Results built so far. A benchmark uses a handful of sizes.
#[derive(Default)]
struct Built(Vec<(usize, bool, String)>);

impl Built {
    fn get(&mut self, bytes: usize, structured: bool) -> &str {
        let known = self.0.iter().position(|(size, kind, _)| (*size, *kind) == (bytes, structured));
        let at = known.unwrap_or_else(|| {
            self.0.push((bytes, structured, build(bytes, structured)));
            self.0.len() - 1
        });
        &self.0[at].2
    }
}

fn build(bytes: usize, structured: bool) -> String {
    if !structured {
        return format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}", "x".repeat(bytes));
    }
    let mut rows = String::with_capacity(bytes + 128);
    let mut number = 0;
    while rows.len() < bytes {
        let comma = if number == 0 { "" } else { "," };
        let even = number % 2 == 0;
        let _ = write!(rows, "{comma}{{\"id\":{number},\"name\":\"row {number}\",\"ok\":{even},\"share\":0.125}}");
        number += 1;
    }
    format!("{{\"content\":[],\"structuredContent\":{{\"rows\":[{rows}]}}}}")
}

/// The value of an object's member, as its bytes.
fn member<'a>(object: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let value = member_start(object, key)?;
    Some(&value[..skip(value)])
}

/// What follows a member's colon: the value and all behind it. Nothing behind the key is looked at.
fn member_start<'a>(object: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut rest = object.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start();
    while rest.first() == Some(&b'"') {
        let end = skip(rest);
        let found = rest.get(1..end - 1) == Some(key);
        rest = rest[end..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        if found {
            return Some(rest);
        }
        rest = rest[skip(rest)..].trim_ascii_start().strip_prefix(b",")?.trim_ascii_start();
    }
    None
}

/// How many bytes the value at the start takes: a string, an object, an array or a bare word.
fn skip(value: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < value.len() {
        match value[at] {
            b'"' => at = string_end(value, at),
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at = (at + 1).min(value.len());
        if depth == 0 && matches!(value[at - 1], b'"' | b'}' | b']') {
            return at;
        }
    }
    at
}

/// The index of the quote that closes the string opened at `open`.
fn string_end(value: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < value.len() && value[at] != b'"' {
        at += if value[at] == b'\\' { 2 } else { 1 };
    }
    at.min(value.len() - 1)
}
