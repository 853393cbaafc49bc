//! The relay over HTTP, and raw clients of it: requests and answers on sockets as they are, so that a test can break off,
//! stall, or stop reading where it likes.

#![allow(dead_code, unused_imports)]

#[path = "relay.rs"]
mod relay;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use relay::{
    AT_ONCE, END, PATIENCE, Place, Relay, Reply, command, eventually, example, fixture, replay, source, start_of,
};

pub const MODERN: &str = "2026-07-28";
const ACCEPT: &str = "Accept: application/json, text/event-stream\r\n";

/// `_meta` of a modern client.
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A relay that serves over HTTP.
pub struct Front {
    pub relay: Relay,
    pub address: SocketAddr,
}

impl Front {
    pub fn start(relay: &str, tables: &[String]) -> Self {
        Self::start_in(&Place::new(), relay, tables)
    }

    /// In a folder that may have been another's; `relay` are lines of `[relay]`, `tables` all others.
    pub fn start_in(place: &Arc<Place>, relay: &str, tables: &[String]) -> Self {
        Self::spawn(place, place.command(relay, tables))
    }

    pub fn spawn(place: &Arc<Place>, mut command: Command) -> Self {
        command.args(["--http", "127.0.0.1:0"]);
        let relay = Relay::spawn(place, command);
        let mut address = None;
        eventually("the relay listens", || {
            let said = relay.stderr();
            address =
                said.split_once("listening on http://").and_then(|(_, rest)| rest.split_once("/mcp")?.0.parse().ok());
            address.is_some()
        });
        Self { relay, address: address.unwrap() }
    }

    pub fn connect(&self) -> Connection {
        Connection::watched(self.address, &self.relay.forbidden)
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut connection = self.connect();
        connection.send(method, path, headers, body);
        if method == "HEAD" {
            return Answer { head: connection.head(), body: String::new() };
        }
        connection.whole()
    }

    #[track_caller]
    pub fn post(&self, headers: &[&str], body: &str) -> Answer {
        self.ask("POST", "/mcp", headers, body)
    }

    /// A client of a legacy revision that has shaken hands.
    #[track_caller]
    pub fn greeted(&self, token: Option<&str>) -> Client {
        let mut client = self.client(token);
        client.greet("2025-11-25");
        client
    }

    /// A client without a session: a modern one, as long as it does not greet.
    pub fn client(&self, token: Option<&str>) -> Client {
        let headers = token.map(|token| format!("Authorization: Bearer {token}")).into_iter().collect();
        let forbidden = self.relay.forbidden.clone();
        let address = self.address;
        Client { address, headers, session: None, last_id: 0, connection: None, notices: Vec::new(), forbidden }
    }

    /// Asks the relay to end and sees it out.
    #[track_caller]
    pub fn finish(mut self) {
        self.relay.signal(rustix::process::Signal::TERM);
        self.relay.see_out();
        assert!(self.relay.notices.is_empty(), "on stdout, where nobody reads: {:?}", self.relay.notices);
    }
}

/// The head of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub head: Head,
    pub body: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {:?}", self.body, self.head))
    }

    #[track_caller]
    pub fn error_code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", self.body))
    }
}

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub id: Option<String>,
    pub data: String,
}

/// One connection.
pub struct Connection {
    pub reader: BufReader<TcpStream>,
    /// What of the current chunk is still to be read; `None` before the first.
    chunk: Option<usize>,
    /// Texts that may stand in nothing that comes.
    forbidden: Vec<String>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(stream), chunk: None, forbidden: Vec::new() }
    }

    pub fn watched(address: SocketAddr, forbidden: &[String]) -> Self {
        Self { forbidden: forbidden.to_vec(), ..Self::open(address) }
    }

    #[track_caller]
    fn tells_nothing(&self, text: &str) {
        let told = self.forbidden.iter().find(|secret| text.contains(*secret));
        assert!(told.is_none(), "{told:?} was told: {}", start_of(text));
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &[&str], body: &str) {
        let has = |name: &str| headers.iter().any(|header| header.to_ascii_lowercase().starts_with(name));
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !has("host:") {
            text += "Host: localhost\r\n";
        }
        if !has("accept:") {
            text += ACCEPT;
        }
        if method == "POST" && !has("content-type:") {
            text += "Content-Type: application/json\r\n";
        }
        headers.iter().for_each(|header| text += &format!("{header}\r\n"));
        self.write(format!("{text}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    /// The next line as it comes over the wire, the sizes of chunks among them.
    pub fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.tells_nothing(&line);
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    #[track_caller]
    pub fn head(&mut self) -> Head {
        self.try_head().unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    pub fn try_head(&mut self) -> std::io::Result<Head> {
        let first = self.line()?;
        let status =
            first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{first}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        self.chunk = None;
        Ok(Head { status, headers })
    }

    #[track_caller]
    pub fn whole(&mut self) -> Answer {
        let head = self.head();
        let mut body = Vec::new();
        if let Some(length) = head.header("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.reader.read_exact(&mut body).unwrap();
        } else if head.header("transfer-encoding").is_some() {
            while let Some(byte) = self.byte().unwrap() {
                body.push(byte);
            }
        }
        let body = String::from_utf8(body).unwrap();
        self.tells_nothing(&body);
        Answer { head, body }
    }

    /// The next byte of a chunked body; `None` at its end.
    fn byte(&mut self) -> std::io::Result<Option<u8>> {
        while matches!(self.chunk, None | Some(0)) {
            if self.chunk == Some(0) {
                self.line()?;
            }
            let size = usize::from_str_radix(&self.line()?, 16).unwrap();
            if size == 0 {
                self.line()?;
                return Ok(None);
            }
            self.chunk = Some(size);
        }
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        self.chunk = self.chunk.map(|left| left - 1);
        Ok(Some(byte[0]))
    }

    /// The next event of a stream, comments left out; `None` when the stream ends.
    #[track_caller]
    pub fn event(&mut self) -> Option<Event> {
        self.try_event().unwrap_or_else(|error| panic!("no event: {error}"))
    }

    pub fn try_event(&mut self) -> std::io::Result<Option<Event>> {
        let (mut event, mut line, mut any) = (Event::default(), Vec::new(), false);
        loop {
            match self.byte()? {
                None => return Ok(None),
                Some(b'\n') => {
                    let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
                    self.tells_nothing(&text);
                    match text.split_once(':') {
                        None if any => return Ok(Some(event)),
                        Some(("id", id)) => (event.id, any) = (Some(id.trim().to_owned()), true),
                        Some(("data", data)) => (event.data, any) = (data.trim().to_owned(), true),
                        _ => {}
                    }
                }
                Some(byte) => line.push(byte),
            }
        }
    }

    /// Whether the other side has closed; waits for that.
    #[track_caller]
    pub fn closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// One MCP client.
pub struct Client {
    address: SocketAddr,
    /// Sent with every request.
    pub headers: Vec<String>,
    pub session: Option<String>,
    last_id: u64,
    /// Kept open from one request to the next.
    connection: Option<Connection>,
    /// What came before answers.
    pub notices: Vec<Value>,
    /// Texts that may stand in nothing it gets.
    forbidden: Vec<String>,
}

impl Client {
    /// The handshake; gives its result.
    #[track_caller]
    pub fn greet(&mut self, version: &str) -> Value {
        self.greet_able(version, json!({}))
    }

    /// The handshake of a client with capabilities.
    #[track_caller]
    pub fn greet_able(&mut self, version: &str, capabilities: Value) -> Value {
        let client = json!({"name": "raw", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
        self.last_id += 1;
        let body = json!({"jsonrpc": "2.0", "id": self.last_id, "method": "initialize", "params": params});
        let (head, reply) = self.exchange(&[], &body.to_string());
        self.session = Some(head.header("mcp-session-id").expect("a session").to_owned());
        let result = reply.expect("an answer").result();
        self.headers.push(format!("MCP-Protocol-Version: {}", result["protocolVersion"].as_str().unwrap()));
        let (head, _) = self.exchange(&[], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(head.status, 202);
        result
    }

    /// The headers of its requests.
    pub fn all_headers(&self) -> Vec<String> {
        let session = self.session.iter().map(|id| format!("Mcp-Session-Id: {id}"));
        self.headers.iter().cloned().chain(session).collect()
    }

    /// Sends a body on a connection and gives the connection, nothing read yet.
    pub fn begin(&self, more: &[String], body: &str) -> Connection {
        let mut connection = Connection::watched(self.address, &self.forbidden);
        let headers = self.all_headers();
        let all: Vec<&str> = headers.iter().chain(more).map(String::as_str).collect();
        connection.send("POST", "/mcp", &all, body);
        connection
    }

    /// Begins to listen with GET.
    pub fn listen(&self, last: Option<&str>) -> Connection {
        let mut connection = Connection::watched(self.address, &self.forbidden);
        let last = last.map(|id| format!("Last-Event-ID: {id}"));
        let headers: Vec<String> = self.all_headers().into_iter().chain(last).collect();
        let all: Vec<&str> = headers.iter().map(String::as_str).collect();
        connection.send("GET", "/mcp", &all, "");
        connection
    }

    /// The JSON of a request, and the headers that go with it in its era.
    pub fn request_text(&mut self, method: &str, mut params: Value) -> (String, Vec<String>) {
        self.last_id += 1;
        let mut headers = Vec::new();
        if self.session.is_none() {
            headers = vec![format!("MCP-Protocol-Version: {MODERN}"), format!("Mcp-Method: {method}")];
            let name = if method == "resources/read" { &params["uri"] } else { &params["name"] };
            headers.extend(name.as_str().map(|name| format!("Mcp-Name: {name}")));
            let mut all = meta();
            all.as_object_mut().unwrap().extend(params["_meta"].as_object().cloned().unwrap_or_default());
            params["_meta"] = all;
        }
        (json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}).to_string(), headers)
    }

    /// Posts, and waits for the answer of that request.
    #[track_caller]
    pub fn exchange(&mut self, more: &[String], body: &str) -> (Head, Option<Reply>) {
        let headers = self.all_headers();
        let all: Vec<&str> = headers.iter().chain(more).map(String::as_str).collect();
        let mut connection =
            self.connection.take().unwrap_or_else(|| Connection::watched(self.address, &self.forbidden));
        connection.send("POST", "/mcp", &all, body);
        let sent: Value = serde_json::from_str(body).unwrap();
        let head = connection.head();
        let reply = |line: String| Reply { line, at: Instant::now() };
        if !head.is_stream() {
            let length = head.header("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            connection.reader.read_exact(&mut body).unwrap();
            let body = String::from_utf8(body).unwrap();
            connection.tells_nothing(&body);
            self.connection = Some(connection);
            return (head, (length > 0).then(|| reply(body)));
        }
        let mut answer = None;
        while let Some(event) = connection.event() {
            let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
            if message.get("method").is_none() && message["id"] == sent["id"] {
                assert!(answer.is_none(), "answered twice: {}", start_of(&event.data));
                answer = Some(reply(event.data));
            } else {
                self.notices.push(message);
            }
        }
        self.connection = Some(connection);
        (head, answer)
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Reply {
        let (text, headers) = self.request_text(method, params);
        let (head, reply) = self.exchange(&headers, &text);
        reply.unwrap_or_else(|| panic!("no answer to {text}: {head:?}"))
    }

    #[track_caller]
    pub fn call_direct(&mut self, name: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({"name": name, "arguments": arguments}))
    }

    #[track_caller]
    pub fn call(&mut self, source: &str, tool: &str, arguments: Value) -> Reply {
        self.call_direct("call_tool", json!({"source": source, "tool": tool, "arguments": arguments}))
    }

    #[track_caller]
    pub fn names(&mut self) -> Vec<String> {
        let list = self.request("tools/list", json!({})).result();
        let tools = list["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}
