//! A client that sends bytes and reads lines: the built relay over real pipes, in a folder of its own.
//!
//! Two things are asserted for every test that ends with [`Relay::finish`]: each line of the relay is whole JSON and each
//! request was answered exactly once; and the relay ends with code 0 and leaves no process behind. Descendants are found
//! by `TMPDIR`, which is the test's own folder and which every source inherits.

#![allow(dead_code, unused_imports)]

mod place;
mod reply;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use place::{Place, command, eventually, example, fixture, replay, shared, source};
pub use reply::{Reply, start_of};

/// How long anything may take that should happen at once, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// What "at once" means where it is asserted.
pub const AT_ONCE: Duration = Duration::from_secs(2);
/// How long the relay may take to end.
pub const END: Duration = Duration::from_secs(3);

/// A running relay and its one client.
pub struct Relay {
    pub place: Arc<Place>,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Reply>,
    stderr: Arc<Mutex<Vec<u8>>>,
    last_id: u64,
    /// Asked and not yet answered, as written.
    open: BTreeSet<String>,
    answers: BTreeMap<String, Reply>,
    /// Notifications in the order they came, and requests of the relay.
    pub notices: Vec<Reply>,
    /// Texts that may stand in no line of the relay, nor in its log.
    pub forbidden: Vec<String>,
}

impl Relay {
    /// Starts the relay in a folder of its own; the client says nothing yet.
    pub fn start(relay: &str, sources: &[String]) -> Self {
        Self::start_in(&Place::new(), relay, sources)
    }

    pub fn start_in(place: &Arc<Place>, relay: &str, sources: &[String]) -> Self {
        Self::spawn(place, place.command(relay, sources))
    }

    pub fn spawn(place: &Arc<Place>, mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (stdout, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::with_capacity(1 << 20, stdout);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
                assert_eq!(line.pop(), Some(b'\n'), "the last line breaks off");
                let line = String::from_utf8(std::mem::take(&mut line)).unwrap();
                if sender.send(Reply { line, at: Instant::now() }).is_err() {
                    return;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let kept = stderr.clone();
        std::thread::spawn(move || {
            let mut chunk = [0; 8192];
            while let Ok(read @ 1..) = errors.read(&mut chunk) {
                kept.lock().unwrap().extend_from_slice(&chunk[..read]);
            }
        });
        let stdin = child.stdin.take();
        Self {
            place: place.clone(),
            child,
            stdin,
            lines,
            stderr,
            last_id: 0,
            open: BTreeSet::new(),
            answers: BTreeMap::new(),
            notices: Vec::new(),
            forbidden: Vec::new(),
        }
    }

    /// Starts the relay with a legacy client that has shaken hands.
    pub fn greeted(relay: &str, sources: &[String]) -> Self {
        Self::greeted_in(&Place::new(), relay, sources)
    }

    pub fn greeted_in(place: &Arc<Place>, relay: &str, sources: &[String]) -> Self {
        let mut relay = Self::start_in(place, relay, sources);
        relay.greet();
        relay
    }

    /// The legacy handshake.
    pub fn greet(&mut self) -> Value {
        let client = json!({"name": "raw", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let result = self.request("initialize", params).result();
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        result
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap()).into_owned()
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends one line.
    pub fn send(&mut self, line: &str) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.send_bytes(&bytes);
    }

    /// An id that was not used before; it must be answered.
    pub fn new_id(&mut self) -> String {
        self.last_id += 1;
        let id = self.last_id.to_string();
        self.open.insert(id.clone());
        id
    }

    /// Sends a request; `params` is JSON text. Gives its id.
    pub fn ask_raw(&mut self, method: &str, params: &str) -> String {
        let id = self.new_id();
        self.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"));
        id
    }

    pub fn ask(&mut self, method: &str, params: Value) -> String {
        self.ask_raw(method, &params.to_string())
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Reply {
        let id = self.ask(method, params);
        self.answer(&id)
    }

    /// Asks for a call through the dispatcher.
    pub fn ask_call(&mut self, source: &str, tool: &str, arguments: Value) -> String {
        let inner = json!({"source": source, "tool": tool, "arguments": arguments});
        self.ask("tools/call", json!({"name": "call_tool", "arguments": inner}))
    }

    /// Calls a tool through the dispatcher.
    #[track_caller]
    pub fn call(&mut self, source: &str, tool: &str, arguments: Value) -> Reply {
        let id = self.ask_call(source, tool, arguments);
        self.answer(&id)
    }

    /// Calls a tool by the name it has in the list: an opened one, or the relay's own.
    #[track_caller]
    pub fn call_direct(&mut self, name: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// Cancels a request; from now on an answer to it would be a fault.
    pub fn cancel(&mut self, id: &str) {
        self.open.remove(id);
        self.send(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}"
        ));
    }

    /// One more line of the relay, looked at and put where it belongs.
    fn take(&mut self, limit: Duration) -> Result<(), RecvTimeoutError> {
        let reply = self.lines.recv_timeout(limit)?;
        serde_json::from_str::<&RawValue>(&reply.line).unwrap_or_else(|e| panic!("{e}: {}", start_of(&reply.line)));
        let told = self.forbidden.iter().find(|text| reply.line.contains(*text));
        assert!(told.is_none(), "{told:?} was told: {}", start_of(&reply.line));
        match (reply.raw("id").map(str::to_owned), reply.raw("method")) {
            (Some(id), None) => {
                assert!(self.open.remove(&id), "an answer nobody waits for: {}", start_of(&reply.line));
                self.answers.insert(id, reply);
            }
            _ => self.notices.push(reply),
        }
        Ok(())
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub fn answer(&mut self, id: &str) -> Reply {
        self.answer_within(id, PATIENCE)
    }

    /// Waits for an answer that may take its time.
    #[track_caller]
    pub fn answer_within(&mut self, id: &str, patience: Duration) -> Reply {
        let start = Instant::now();
        loop {
            if let Some(reply) = self.answers.remove(id) {
                return reply;
            }
            if self.take(patience.saturating_sub(start.elapsed())).is_err() {
                panic!("no answer to {id}; the relay said:\n{}", self.stderr());
            }
        }
    }

    /// Waits for the next answer, whatever it answers; gives the id.
    #[track_caller]
    pub fn next_answer(&mut self) -> (String, Reply) {
        loop {
            if let Some(answered) = self.answers.pop_first() {
                return answered;
            }
            if self.take(PATIENCE).is_err() {
                panic!("no answer to any of {:?}; the relay said:\n{}", self.open, self.stderr());
            }
        }
    }

    /// Expects an answer to an id that was sent by hand.
    #[track_caller]
    pub fn answer_to(&mut self, id: &str) -> Reply {
        self.open.insert(id.to_owned());
        self.answer(id)
    }

    /// Takes what the relay sends for so long.
    pub fn listen(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.take(until.saturating_duration_since(Instant::now())) != Err(RecvTimeoutError::Timeout) {
            if Instant::now() >= until {
                return;
            }
        }
    }

    /// Waits until the notifications satisfy `holds`.
    #[track_caller]
    pub fn await_notices(&mut self, what: &str, mut holds: impl FnMut(&[Reply]) -> bool) {
        let start = Instant::now();
        while !holds(&self.notices) {
            assert!(self.take(PATIENCE.saturating_sub(start.elapsed())).is_ok(), "never came: {what}");
        }
    }

    /// How many notifications of a method came so far.
    pub fn noticed(&self, method: &str) -> usize {
        let quoted = format!("\"{method}\"");
        self.notices.iter().filter(|notice| notice.raw("method") == Some(&quoted)).count()
    }

    /// The line of `tools/list`.
    #[track_caller]
    pub fn list(&mut self) -> String {
        let reply = self.request("tools/list", json!({}));
        reply.raw("result").unwrap_or_else(|| panic!("{}", reply.line)).to_owned()
    }

    /// The names in `tools/list`.
    #[track_caller]
    pub fn names(&mut self) -> Vec<String> {
        let list: Value = serde_json::from_str(&self.list()).unwrap();
        let tools = list["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// What `list_sources` says of one source.
    #[track_caller]
    pub fn status(&mut self, id: &str) -> Value {
        let listed = self.call_direct("list_sources", json!({})).structured();
        let sources = listed["sources"].as_array().unwrap();
        sources.iter().find(|source| source["id"] == id).unwrap_or_else(|| panic!("no {id} in {listed}")).clone()
    }

    /// Waits until a source is in a state, and gives its line.
    #[track_caller]
    pub fn await_status(&mut self, id: &str, status: &str) -> Value {
        let start = Instant::now();
        loop {
            let line = self.status(id);
            if line["status"] == status {
                return line;
            }
            assert!(start.elapsed() < PATIENCE, "`{id}` never got `{status}`: {line}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends the relay a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the relay's end. Gives how it ended.
    #[track_caller]
    pub fn exited(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the relay does not end:\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the relay's end, and until none of its processes is left. Gives how it ended and how long that took.
    #[track_caller]
    pub fn ended(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let status = self.exited();
        let took = start.elapsed();
        let (place, pid) = (self.place.clone(), self.pid());
        while !place.processes(pid).is_empty() {
            assert!(start.elapsed() < took + END, "left behind: {:?}", place.processes(pid));
            std::thread::sleep(Duration::from_millis(20));
        }
        (status, took)
    }

    /// Closes the client's side and sees the relay out: every request answered, code 0, nothing left.
    #[track_caller]
    pub fn finish(mut self) {
        self.close_stdin();
        self.see_out();
    }

    /// The same where the end comes about in another way. Gives how long it took.
    #[track_caller]
    pub fn see_out(&mut self) -> Duration {
        let (status, took) = self.ended();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
        assert!(took < 2 * END, "the end took {took:?}");
        while self.take(PATIENCE).is_ok() {}
        assert!(self.open.is_empty(), "never answered: {:?}\n{}", self.open, self.stderr());
        let told = self.forbidden.iter().find(|text| self.stderr().contains(*text));
        assert!(told.is_none(), "{told:?} stands in the log");
        took
    }
}

impl Drop for Relay {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) && !std::thread::panicking() {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.place.processes(self.pid()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}
