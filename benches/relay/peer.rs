//! A process on a pair of pipes, and the leanest client there is for it: blocking, one thread, one write for all the
//! requests that are due. It counts and times; what the figures mean is for others to say.

use std::io::{Read, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;

/// The room for one read: a whole large answer, so that the client is never what holds it up.
const READ_ROOM: usize = 1024 * 1024;
/// Answers up to this size are compared byte for byte each time, longer ones once a run and else at their edges.
const COMPARED_WHOLE: usize = 4096;
const EDGE: usize = 64;
/// What every answer starts with; the id follows.
const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";

/// One kind of call: what stands before and behind the id.
pub struct Call {
    params: String,
    /// What has to stand behind the id of the answer; known from the first one.
    answer: Option<Vec<u8>>,
    /// Any answer will do.
    any: bool,
}

impl Call {
    /// A call of `tool` with `arguments`, the text of an object.
    pub fn new(tool: &str, arguments: &str) -> Self {
        Self { params: format!("{{\"name\":\"{tool}\",\"arguments\":{arguments}}}"), answer: None, any: false }
    }

    /// The same call under another name, with the same answer to be expected.
    pub fn by_name(&self, tool: &str, arguments: &str) -> Self {
        Self { answer: self.answer.clone(), ..Self::new(tool, arguments) }
    }

    /// The same call, whatever it is answered with.
    pub fn of_any_end(self) -> Self {
        Self { any: true, ..self }
    }

    fn append(&self, out: &mut Vec<u8>, id: u64) {
        let params = &self.params;
        let written =
            writeln!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}");
        written.expect("BUG: memory takes all");
    }

    fn check(&mut self, rest: &[u8], whole: bool) -> Outcome<()> {
        if self.any {
            return Ok(());
        }
        let Some(answer) = &self.answer else {
            if memchr::memmem::find(rest, b"\"isError\":true").is_some() || !rest.starts_with(b",\"result\"") {
                return Err(format!("{} is answered with {}", self.params, shown(rest)).into());
            }
            self.answer = Some(rest.to_vec());
            return Ok(());
        };
        let edge = EDGE.min(answer.len());
        let same = if whole || answer.len() <= COMPARED_WHOLE {
            rest == answer
        } else {
            rest.len() == answer.len()
                && rest[..edge] == answer[..edge]
                && rest[rest.len() - edge..] == answer[answer.len() - edge..]
        };
        if same { Ok(()) } else { Err(format!("{} is answered with {}", self.params, shown(rest)).into()) }
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned()
}

/// What a run of calls took.
pub struct Run {
    /// Of each call, in the order of the answers.
    pub latencies: Vec<Duration>,
    pub total: Duration,
}

/// A process that speaks MCP on its stdin and stdout.
pub struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    buffer: Vec<u8>,
    /// What of the buffer is filled and not yet taken, and how far it is known to hold no newline.
    filled: Range<usize>,
    scanned: usize,
    last_id: u64,
}

impl Peer {
    pub fn spawn(command: &mut Command) -> Outcome<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("BUG: both pipes were asked for")
        };
        let buffer = vec![0; 2 * READ_ROOM];
        Ok(Self { child, input: Some(input), output, buffer, filled: 0..0, scanned: 0, last_id: 0 })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send(&mut self, bytes: &[u8]) -> Outcome<()> {
        Ok(self.input.as_mut().expect("BUG: the input is open").write_all(bytes)?)
    }

    /// A line that has been read already.
    fn buffered(&mut self) -> Option<Range<usize>> {
        let at = memchr::memchr(b'\n', &self.buffer[self.scanned..self.filled.end]);
        let Some(at) = at.map(|at| at + self.scanned) else {
            self.scanned = self.filled.end;
            return None;
        };
        let line = self.filled.start..at;
        self.filled.start = at + 1;
        self.scanned = at + 1;
        Some(line)
    }

    fn fill(&mut self) -> Outcome<()> {
        if self.filled.is_empty() {
            (self.filled, self.scanned) = (0..0, 0);
        } else if self.filled.end + READ_ROOM > self.buffer.len() && self.filled.start > 0 {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.scanned -= self.filled.start;
            self.filled = 0..self.filled.len();
        }
        if self.filled.end + READ_ROOM > self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        match self.output.read(&mut self.buffer[self.filled.end..])? {
            0 => Err("the process closed its output".into()),
            read => {
                self.filled.end += read;
                Ok(())
            }
        }
    }

    /// The next answer's id and what follows it; notifications are passed over.
    fn answer(&mut self) -> Outcome<(u64, Range<usize>)> {
        loop {
            match self.buffered() {
                Some(line) => {
                    if let Some(answer) = self.split(line)? {
                        return Ok(answer);
                    }
                }
                None => self.fill()?,
            }
        }
    }

    /// The id of an answer and what follows it; `None` for a notification.
    fn split(&self, line: Range<usize>) -> Outcome<Option<(u64, Range<usize>)>> {
        let text = &self.buffer[line.clone()];
        let Some(rest) = text.strip_prefix(HEAD) else {
            let is_notification = text.starts_with(b"{\"jsonrpc\":\"2.0\",\"method\"");
            return if is_notification { Ok(None) } else { Err(format!("no answer: {}", shown(text)).into()) };
        };
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let id = std::str::from_utf8(&rest[..digits])?.parse()?;
        Ok(Some((id, line.start + HEAD.len() + digits..line.end)))
    }

    /// One request, and its whole answer.
    pub fn ask(&mut self, method: &str, params: &str) -> Outcome<String> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n").as_bytes(),
        )?;
        loop {
            let (answered, rest) = self.answer()?;
            if answered == id {
                return Ok(String::from_utf8_lossy(&self.buffer[rest]).into_owned());
            }
        }
    }

    /// The next answers, to whatever was asked.
    pub fn answers(&mut self, count: usize) -> Outcome<Vec<String>> {
        let mut answers = Vec::new();
        while answers.len() < count {
            let (_, rest) = self.answer()?;
            answers.push(String::from_utf8_lossy(&self.buffer[rest]).into_owned());
        }
        Ok(answers)
    }

    /// Makes calls whose answers nobody waits for.
    pub fn leave(&mut self, call: &Call, count: usize) -> Outcome<()> {
        for _ in 0..count {
            let mut text = Vec::new();
            self.last_id += 1;
            call.append(&mut text, self.last_id);
            self.send(&text)?;
        }
        Ok(())
    }

    /// Ends the process at once; what it has started goes with it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// The handshake of the legacy era.
    pub fn greet(&mut self) -> Outcome<()> {
        let answer = self.ask("initialize", INITIALIZE)?;
        if !answer.contains("\"serverInfo\"") {
            return Err(format!("initialize is answered with {answer}").into());
        }
        self.send(INITIALIZED)
    }

    /// Makes `count` calls, always `in_flight` of them under way. With `reads` each answer is read into a JSON tree, as
    /// clients do; without, only its id is looked at.
    pub fn calls(&mut self, call: &mut Call, in_flight: usize, count: usize, reads: bool) -> Outcome<Run> {
        let first = self.last_id + 1;
        let mut sent: Vec<Instant> = Vec::with_capacity(count);
        let mut latencies = Vec::with_capacity(count);
        let mut due = in_flight.min(count);
        let mut text = Vec::new();
        let began = Instant::now();
        while latencies.len() < count {
            text.clear();
            for _ in 0..due {
                self.last_id += 1;
                call.append(&mut text, self.last_id);
            }
            sent.resize(sent.len() + due, Instant::now());
            self.send(&text)?;
            due = 0;
            self.fill()?;
            let now = Instant::now();
            while let Some(line) = self.buffered() {
                let Some((id, rest)) = self.split(line.clone())? else { continue };
                if reads {
                    std::hint::black_box(serde_json::from_slice::<serde_json::Value>(&self.buffer[line])?);
                }
                let since = id.checked_sub(first).and_then(|at| sent.get(usize::try_from(at).ok()?));
                let since = *since.ok_or("an answer to nothing")?;
                latencies.push(if reads { since.elapsed() } else { now - since });
                call.check(&self.buffer[rest], latencies.len() == 1)?;
                due += usize::from(sent.len() + due < count);
            }
        }
        Ok(Run { latencies, total: began.elapsed() })
    }

    /// Keeps one call of `steady` under way all the time, and times calls of `timed` beside it: `count` at least, and until
    /// `least` of the steady ones are answered. Gives the run and how many of those there were.
    pub fn beside(&mut self, steady: &mut Call, timed: &mut Call, count: usize, least: usize) -> Outcome<(Run, usize)> {
        let (mut latencies, mut answered) = (Vec::with_capacity(count), 0);
        let began = Instant::now();
        let start = |peer: &mut Self, call: &Call| {
            let mut text = Vec::new();
            peer.last_id += 1;
            call.append(&mut text, peer.last_id);
            peer.send(&text).map(|()| (peer.last_id, Instant::now()))
        };
        let mut steady_id = start(self, steady)?.0;
        let mut running = start(self, timed)?;
        while latencies.len() < count || answered < least {
            let (id, rest) = self.answer()?;
            if id == steady_id {
                answered += 1;
                steady.check(&self.buffer[rest], answered == 1)?;
                steady_id = start(self, steady)?.0;
            } else if id == running.0 {
                latencies.push(running.1.elapsed());
                timed.check(&self.buffer[rest], false)?;
                running = start(self, timed)?;
            }
        }
        let total = began.elapsed();
        // Both are still under way.
        for _ in 0..2 {
            self.answer()?;
        }
        Ok((Run { latencies, total }, answered))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.input = None;
        let _ = std::io::copy(&mut self.output, &mut std::io::sink());
        let _ = self.child.wait();
    }
}

pub const INITIALIZE: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}"#;
pub const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
