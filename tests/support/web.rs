//! An MCP server over HTTP by hand: real sockets, raw bytes, and as badly behaved as a test wants it.

#![allow(dead_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// One request that came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
    pub at: Instant,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method; empty where there is none.
    pub fn rpc(&self) -> String {
        self.json()["method"].as_str().unwrap_or_default().to_owned()
    }

    pub fn id(&self) -> Value {
        self.json()["id"].clone()
    }
}

/// A connection's bytes, encrypted or not.
trait Io: Read + Write {}

impl<T: Read + Write> Io for T {}

/// Both directions of it, used in turn by one thread.
#[derive(Clone)]
struct Shared(Rc<RefCell<Box<dyn Io>>>);

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

/// The way back of one connection.
pub struct Out {
    stream: TcpStream,
    io: Shared,
}

impl Out {
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        let mut io = self.io.0.borrow_mut();
        let _ = io.write_all(bytes.as_ref());
        let _ = io.flush();
    }

    /// A whole response.
    pub fn reply(&mut self, status: u16, headers: &[(&str, &str)], body: &str) {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.raw(format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()));
    }

    pub fn json(&mut self, status: u16, headers: &[(&str, &str)], body: &Value) {
        let headers = [&[("content-type", "application/json")], headers].concat();
        self.reply(status, &headers, &body.to_string());
    }

    /// The head of a stream of events, in chunks.
    pub fn stream(&mut self) {
        self.raw(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n",
        );
    }

    /// A piece of the stream.
    pub fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let mut whole = format!("{:x}\r\n", bytes.len()).into_bytes();
        whole.extend_from_slice(bytes);
        whole.extend_from_slice(b"\r\n");
        self.raw(whole);
    }

    pub fn event(&mut self, data: &Value) {
        self.chunk(format!("data: {data}\n\n"));
    }

    pub fn end_stream(&mut self) {
        self.raw("0\r\n\r\n");
    }

    pub fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Whether the other side has closed, looked at for so long.
    pub fn is_closed_within(&mut self, time: Duration) -> bool {
        let _ = self.stream.set_read_timeout(Some(time));
        let closed = matches!(self.stream.read(&mut [0; 16]), Ok(0));
        let _ = self.stream.set_read_timeout(None);
        closed
    }
}

/// A running server. It listens until the test ends.
pub struct Web {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
}

impl Web {
    /// Serves what `handler` does; where it gives false, `usual` answers.
    pub fn start(
        usual: fn(&Seen, &mut Out),
        handler: impl Fn(&Seen, &mut Out) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::start_at(0, usual, handler)
    }

    /// The same at a port that was free before.
    pub fn start_at(
        port: u16,
        usual: fn(&Seen, &mut Out),
        handler: impl Fn(&Seen, &mut Out) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(port, None, usual, handler)
    }

    /// The same over TLS.
    pub fn start_tls(
        tls: Arc<ServerConfig>,
        usual: fn(&Seen, &mut Out),
        handler: impl Fn(&Seen, &mut Out) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(0, Some(tls), usual, handler)
    }

    fn start_with(
        port: u16,
        tls: Option<Arc<ServerConfig>>,
        usual: fn(&Seen, &mut Out),
        handler: impl Fn(&Seen, &mut Out) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, handler, stopped) = (seen.clone(), Arc::new(handler), stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (kept, handler, tls) = (kept.clone(), handler.clone(), tls.clone());
                std::thread::spawn(move || converse(stream, tls, &kept, usual, &*handler));
            }
        });
        Self { port, seen, stop }
    }

    /// A source that is reached here; `settings` are further lines of its table.
    pub fn source(&self, id: &str, settings: &str) -> String {
        format!("[source.{id}]\nurl = \"{}\"\n{settings}\n", self.url("/mcp"))
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Takes no more connections; those that are open go on.
    pub fn close_door(&self) {
        self.stop.store(true, Ordering::SeqCst);
        while TcpStream::connect(("127.0.0.1", self.port)).is_ok() {}
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests with this JSON-RPC method.
    pub fn posts(&self, rpc: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.rpc() == rpc).collect()
    }

    /// The requests with this HTTP method.
    pub fn with_method(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method == method).collect()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn converse(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    kept: &Mutex<Vec<Seen>>,
    usual: fn(&Seen, &mut Out),
    handler: &dyn Fn(&Seen, &mut Out) -> bool,
) {
    let plain = stream.try_clone().unwrap();
    let io: Box<dyn Io> = match tls {
        Some(tls) => Box::new(StreamOwned::new(ServerConnection::new(tls).unwrap(), plain)),
        None => Box::new(plain),
    };
    let io = Shared(Rc::new(RefCell::new(io)));
    let mut reader = BufReader::new(io.clone());
    let mut out = Out { stream, io };
    while let Some(seen) = read_request(&mut reader) {
        kept.lock().unwrap().push(seen.clone());
        if !handler(&seen, &mut out) {
            usual(&seen, &mut out);
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Seen> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { method, path, headers, body: String::from_utf8(body).unwrap(), at: Instant::now() })
}

pub const SESSION: &str = "session-0123456789";

/// The one tool.
pub fn tools() -> Value {
    json!([{"name": "echo", "description": "Gives back its arguments.", "inputSchema": {"type": "object"}}])
}

/// What `echo` answers to this call.
pub fn echoed(seen: &Seen) -> Value {
    let arguments = seen.json()["params"]["arguments"].clone();
    let content = json!([{"type": "text", "text": arguments.to_string()}]);
    json!({"jsonrpc": "2.0", "id": seen.id(), "result": {"content": content, "structuredContent": arguments}})
}

pub fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// A well-behaved source of 2025-11-25 with a session.
pub fn legacy(seen: &Seen, out: &mut Out) {
    let reply = |result: Value| json!({"jsonrpc": "2.0", "id": seen.id(), "result": result});
    match (seen.method.as_str(), seen.rpc().as_str()) {
        ("GET", _) => out.reply(405, &[], ""),
        ("DELETE", _) => out.reply(200, &[], ""),
        ("POST", "initialize") => {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "web", "version": "1"}});
            out.json(200, &[("Mcp-Session-Id", SESSION)], &reply(result));
        }
        ("POST", "server/discover") => out.json(400, &[], &error(&Value::Null, -32000, "Bad Request: no session")),
        ("POST", "tools/list") => out.json(200, &[], &reply(json!({"tools": tools()}))),
        ("POST", "tools/call") => out.json(200, &[], &echoed(seen)),
        _ => out.reply(202, &[], ""),
    }
}

/// A well-behaved source of 2026-07-28.
pub fn modern(seen: &Seen, out: &mut Out) {
    let reply = |result: Value| json!({"jsonrpc": "2.0", "id": seen.id(), "result": result});
    match (seen.method.as_str(), seen.rpc().as_str()) {
        ("POST", "server/discover") => {
            let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                "cacheScope": "private", "capabilities": {"tools": {"listChanged": true}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "web", "version": "1"}}});
            out.json(200, &[], &reply(result));
        }
        ("POST", "tools/list") => {
            let result = json!({"resultType": "complete", "tools": tools(), "ttlMs": 0, "cacheScope": "private"});
            out.json(200, &[], &reply(result));
        }
        ("POST", "tools/call") => {
            let mut answer = echoed(seen);
            answer["result"]["resultType"] = json!("complete");
            out.json(200, &[], &answer);
        }
        ("POST", _) => out.json(404, &[], &error(&seen.id(), -32601, "Method not found")),
        _ => out.reply(405, &[], ""),
    }
}
