//! Calls over HTTP: an ordinary source (notes, on rmcp) that serves HTTP itself, against the same program behind
//! `toolrelay serve --http`, as a child on stdio and as it is. One client for all, on one thread, a connection for each
//! call in flight. A relayed call is also held against the same call made directly in the way in which the relay makes it:
//! over stdio, or over HTTP in the revision that it speaks with the source.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peer::{Call, INITIALIZE, Peer};
use crate::report::{cpu_time, say, table};
use crate::rounds::{Figures, Round, Tries};
use crate::{Bench, Outcome, calls};

const META: &str = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
                    \"io.modelcontextprotocol/clientInfo\":{\"name\":\"bench\",\"version\":\"1\"},\
                    \"io.modelcontextprotocol/clientCapabilities\":{}}";
const BODY: &str = "0123456789abcdef0123456789abcdef";

/// A server over HTTP, and how it is called.
struct Server {
    child: Child,
    address: String,
    /// Lines of each request's head.
    headers: String,
    /// What stands in front of a tool's name.
    prefix: &'static str,
    modern: bool,
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM lets the relay end its sources; they end with their input in any case.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

impl Server {
    async fn start(command: &mut Command, prefix: &'static str, modern: bool, session: bool) -> Outcome<Self> {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut errors = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let address = loop {
            let mut line = String::new();
            if errors.read_line(&mut line)? == 0 {
                return Err("the server does not listen".into());
            }
            if let Some((_, rest)) = line.split_once("listening on http://") {
                break rest.split('/').next().unwrap_or_default().to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let mut server = Self { child, address, headers: String::new(), prefix, modern };
        if session {
            server.greet().await?;
        }
        Ok(server)
    }

    async fn greet(&mut self) -> Outcome<()> {
        let mut connection = Connection::open(&self.address).await?;
        let hello = format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{INITIALIZE}}}");
        let head = connection.ask(&self.request("initialize", "", &hello)).await?;
        let lines =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("mcp-session-id:").map(str::to_owned));
        self.headers =
            format!("Mcp-Session-Id: {}\r\nMCP-Protocol-Version: 2025-11-25\r\n", lines.ok_or("no session")?.trim());
        let ready = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
        connection.ask(&self.request("notifications/initialized", "", ready)).await?;
        Ok(())
    }

    fn request(&self, method: &str, name: &str, body: &str) -> Vec<u8> {
        let modern = match self.modern {
            true => format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n"),
            false => String::new(),
        };
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             {}{modern}Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.headers,
            body.len()
        )
        .into_bytes()
    }

    fn call(&self, tool: &str, arguments: &str, id: usize) -> Vec<u8> {
        let name = format!("{}{tool}", self.prefix);
        let meta = if self.modern { format!(",{META}") } else { String::new() };
        let params = format!("{{\"name\":\"{name}\",\"arguments\":{arguments}{meta}}}");
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}");
        self.request("tools/call", &name, &body)
    }

    /// A round of calls, made again where the host held it up.
    async fn round(&self, bench: &Bench, in_flight: usize, count: usize) -> Outcome<Round> {
        let mut tries = Tries::of(&bench.counted);
        loop {
            let before = cpu_time(self.child.id());
            let (latencies, total) = self.run(in_flight, count).await?;
            let cpu = cpu_time(self.child.id()).saturating_sub(before);
            if let Some(round) = tries.end(Round::of(latencies, total, cpu)) {
                return Ok(round);
            }
        }
    }

    /// Makes `count` calls, `in_flight` of them under way; gives the latencies and the time it all took.
    async fn run(&self, in_flight: usize, count: usize) -> Outcome<(Vec<Duration>, Duration)> {
        let mut connections = Vec::new();
        for _ in 0..in_flight {
            connections.push(Connection::open(&self.address).await?);
        }
        let began = Instant::now();
        let each = count / in_flight;
        let runs = connections.into_iter().enumerate().map(|(at, mut connection)| async move {
            let mut latencies = Vec::with_capacity(each);
            for n in 0..each {
                let id = 1 + at * each + n;
                let request = self.call("get_note", "{\"id\":1}", id);
                let sent = Instant::now();
                let answer = connection.ask(&request).await.map_err(|error| error.to_string())?;
                latencies.push(sent.elapsed());
                if !answer.contains(BODY) || !answer.contains(&format!("\"id\":{id},")) {
                    return Err(format!("call {id} is answered with {answer}"));
                }
            }
            Ok(latencies)
        });
        let runs = futures::future::try_join_all(runs).await?;
        Ok((runs.concat(), began.elapsed()))
    }
}

/// One connection, kept open.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a request and reads its answer to the end: head and body as they came.
    async fn ask(&mut self, request: &[u8]) -> Outcome<String> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        while !is_whole(&self.buffer)? {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the connection ended".into());
            }
        }
        Ok(String::from_utf8_lossy(&self.buffer).into_owned())
    }
}

fn is_whole(answer: &[u8]) -> Outcome<bool> {
    let Some(end) = memchr::memmem::find(answer, b"\r\n\r\n") else { return Ok(false) };
    let head = std::str::from_utf8(&answer[..end])?.to_ascii_lowercase();
    let body = &answer[end + 4..];
    if head.contains("transfer-encoding: chunked") {
        return Ok(body.ends_with(b"0\r\n\r\n"));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    Ok(body.len() >= length.map_or(Ok(0), |length| length.trim().parse::<usize>())?)
}

/// Held against each of the others, with its bar.
fn row(title: &str, in_flight: usize, own: &Figures, to: &[(&Figures, f64)]) -> Vec<String> {
    let mut row = vec![title.to_owned(), in_flight.to_string()];
    row.extend(own.cells());
    row.push(own.cpu());
    row.extend(to.iter().map(|(direct, bar)| own.p50_to(direct, *bar)));
    row
}

/// How a source is asked on behalf of a way to call.
enum Asked {
    /// There is no relay in between.
    Direct,
    /// Over stdio.
    Child,
    /// Over HTTP, as in this one of the ways.
    As(usize),
}

const LEGACY: usize = 0;
const MODERN: usize = 1;

/// The ways to call, the first of which the others are held against. A source over HTTP is spoken to in 2026-07-28 unless its
/// era is configured, whatever the client speaks.
const WAYS: [(&str, Asked); 8] = [
    ("direct", Asked::Direct),
    ("direct, 2026-07-28", Asked::Direct),
    ("direct, no sessions", Asked::Direct),
    ("relayed, source over stdio", Asked::Child),
    ("relayed, 2026-07-28, source over stdio", Asked::Child),
    ("relayed, source over HTTP", Asked::As(MODERN)),
    ("relayed, 2026-07-28, source over HTTP", Asked::As(MODERN)),
    ("relayed, source over HTTP, era = legacy", Asked::As(LEGACY)),
];

pub fn run(bench: &Bench) -> Outcome<()> {
    say("\nCalls over HTTP, 64 B: an ordinary source (notes, on rmcp), itself and behind the relay");
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(compare(bench))
}

async fn compare(bench: &Bench) -> Outcome<()> {
    let program = bench.example("notes");
    let notes = |flags: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["--http", "127.0.0.1:0"]).args(flags);
        command
    };
    let child = format!("[source.b]\ncommand = {program:?}");
    let relay = |name: &str, entry: &str| -> Outcome<Command> {
        let over_stdio = bench.relay(name, "exposure = \"eager\"", entry)?;
        let mut command = Command::new(over_stdio.get_program());
        // It is the line at `info` that tells the address.
        command.args(["serve", "--log", "info", "--http", "127.0.0.1:0", "--config"]);
        command.args(over_stdio.get_args().last());
        Ok(command)
    };
    let direct = Server::start(&mut notes(&[]), "", false, true).await?;
    let reached = format!("[source.b]\nurl = \"http://{}/mcp\"", direct.address);
    let servers = [
        direct,
        Server::start(&mut notes(&[]), "", true, false).await?,
        Server::start(&mut notes(&["--plain"]), "", false, false).await?,
        Server::start(&mut relay("http", &child)?, "b__", false, true).await?,
        Server::start(&mut relay("http-modern", &child)?, "b__", true, false).await?,
        Server::start(&mut relay("http-http", &reached)?, "b__", false, true).await?,
        Server::start(&mut relay("http-http-modern", &reached)?, "b__", true, false).await?,
        Server::start(&mut relay("http-http-legacy", &format!("{reached}\nera = \"legacy\""))?, "b__", false, true)
            .await?,
    ];
    for (server, _) in servers.iter().zip(&WAYS).filter(|(_, (_, asked))| !matches!(asked, Asked::As(_))) {
        let note = format!("{{\"title\":\"a note\",\"body\":\"{BODY}\"}}");
        let added = Connection::open(&server.address).await?.ask(&server.call("add_note", &note, 0)).await?;
        if !added.contains("\"id\":1") {
            return Err(format!("no note was added: {added}").into());
        }
    }
    let mut child = Peer::spawn(&mut Command::new(&program))?;
    child.greet()?;
    child.ask(
        "tools/call",
        &format!("{{\"name\":\"add_note\",\"arguments\":{{\"title\":\"a note\",\"body\":\"{BODY}\"}}}}"),
    )?;
    let mut call = Call::new("get_note", "{\"id\":1}");
    let rounds = if bench.quick { 7 } else { 21 };
    let mut rows = Vec::new();
    for (in_flight, count, bar) in [(1, 400, 2.0), (64, 3200, 1.5)] {
        let mut figures = WAYS.map(|_| Figures::default());
        let mut over_stdio = Figures::default();
        // The first round warms up.
        for round in 0..=rounds {
            for (server, figures) in servers.iter().zip(&mut figures) {
                let made = server.round(bench, in_flight, count).await?;
                if round > 0 {
                    figures.add(made);
                }
            }
            let made = calls::round(bench, &mut child, &mut call, (in_flight, count, true))?;
            if round > 0 {
                over_stdio.add(made);
            }
        }
        for (at, (own, (way, asked))) in figures.iter().zip(WAYS).enumerate() {
            let as_asked = match asked {
                Asked::Direct => None,
                Asked::Child => Some(&over_stdio),
                Asked::As(way) => Some(&figures[way]),
            };
            let to: Vec<_> =
                (at > 0).then_some(&figures[LEGACY]).into_iter().chain(as_asked).map(|to| (to, bar)).collect();
            rows.push(row(way, in_flight, own, &to));
        }
        rows.push(row("direct, over stdio", in_flight, &over_stdio, &[]));
    }
    table(
        &["", "in flight", "p50", "p99", "calls/s", "CPU/call", "p50 to direct", "to direct as the source is asked"],
        &rows,
    );
    Ok(())
}
