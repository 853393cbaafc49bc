//! A source that serves the recorded tool list of a real one, and echoes the arguments of whatever is called.
//!
//! Told to, it behaves like servers that list only some of their tools, answer calls of all, and list more after such a
//! call: without a word to a client of 2025-11-25 and before, with `list_changed` to one of 2026-07-28 that listens.
//!
//! ```text
//! cargo run --example replay -- --tools-json tools.json --listed load_tools --load-tool load_tools --unlisted-loads client
//! ```

#[allow(dead_code)]
#[path = "fixture/wire.rs"]
mod wire;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::value::RawValue;

use wire::{Message, Wire, notification_line, quote};

const HELP: &str = "\
replay: an MCP source that serves a recorded tool list and echoes calls (stdio, both eras)

  --tools-json FILE       a JSON array of tools, or an object with such an array as `tools`
  --name N                serverInfo.name (default: replay)
  --listed a,b,c          only these are listed at first; calls of the others work all the same
  --unlisted-loads GROUP  a call of a tool that is not listed lists it from then on, and if GROUP is a part of its name,
                          every other tool whose name has that part; may be given again
  --load-tool NAME        a call of this tool lists the tools that its argument `tools` names
  --era E                 legacy, modern or both (default)
  --journal FILE          append each received line
";

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
const CHANGED: &str = "notifications/tools/list_changed";
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// The checked command line.
struct Args {
    name: String,
    tools_json: String,
    listed: Option<BTreeSet<String>>,
    groups: Vec<String>,
    load_tool: Option<String>,
    legacy: bool,
    modern: bool,
    journal: Option<String>,
}

impl Args {
    fn parse(mut rest: impl Iterator<Item = String>) -> Result<Args, String> {
        let (mut name, mut tools_json, mut listed, mut groups) = ("replay".to_owned(), None, None, Vec::new());
        let (mut load_tool, mut era, mut journal) = (None, "both".to_owned(), None);
        while let Some(flag) = rest.next() {
            if flag == "--help" {
                return Err(HELP.to_owned());
            }
            let value = rest.next().ok_or_else(|| format!("`{flag}` needs a value"))?;
            match flag.as_str() {
                "--tools-json" => tools_json = Some(value),
                "--name" => name = value,
                "--listed" => {
                    listed = Some(value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect());
                }
                "--unlisted-loads" => groups.push(value),
                "--load-tool" => load_tool = Some(value),
                "--era" => era = value,
                "--journal" => journal = Some(value),
                _ => return Err(format!("unknown flag `{flag}`")),
            }
        }
        let (legacy, modern) = match era.as_str() {
            "both" => (true, true),
            "legacy" => (true, false),
            "modern" => (false, true),
            _ => return Err(format!("unknown era `{era}`")),
        };
        let tools_json = tools_json.ok_or("`--tools-json FILE` is missing")?;
        Ok(Args { name, tools_json, listed, groups, load_tool, legacy, modern, journal })
    }
}

/// One recorded tool: its name and its text as it stands in the file.
struct Tool {
    name: String,
    text: Box<RawValue>,
    listed: bool,
}

/// The recorded tools of a file.
fn recorded(args: &Args) -> Result<Vec<Tool>, String> {
    #[derive(Deserialize)]
    struct Reply {
        tools: Vec<Box<RawValue>>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let file = &args.tools_json;
    let text = std::fs::read_to_string(file).map_err(|fault| format!("cannot read `{file}`: {fault}"))?;
    let fault = |fault: serde_json::Error| format!("`{file}` holds no list of tools: {fault}");
    // Texts, not values: what is served is what was recorded, byte for byte.
    let texts: Vec<Box<RawValue>> = match text.trim_start().starts_with('{') {
        true => serde_json::from_str::<Reply>(&text).map_err(fault)?.tools,
        false => serde_json::from_str(&text).map_err(fault)?,
    };
    let tool = |text: Box<RawValue>| {
        let Named { name } = serde_json::from_str(text.get()).map_err(fault)?;
        let listed = args.listed.as_ref().is_none_or(|listed| listed.contains(&name));
        Ok(Tool { name, text, listed })
    };
    texts.into_iter().map(tool).collect()
}

/// One run of the source.
struct Replay {
    args: Args,
    tools: Vec<Tool>,
    wire: Wire,
    /// Raw ids of the subscriptions that want to hear of tools.
    listeners: Vec<String>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Loaded {
    tools: Vec<String>,
}

impl Replay {
    fn take(&mut self, line: &[u8]) {
        let message: Message<'_> = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(fault) => return eprintln!("replay: not a message: {fault}"),
        };
        let (Some(id), Some(method)) = (message.id, &message.method) else { return };
        let params = message.params.map_or("{}", RawValue::get);
        let modern = *method != "initialize" && params.contains("io.modelcontextprotocol/protocolVersion");
        let known = if modern { self.args.modern } else { self.args.legacy };
        match &**method {
            _ if !known => self.wire.error(id, METHOD_NOT_FOUND, "Method not found", ""),
            "initialize" => self.wire.result(id, &self.introduction(LEGACY)),
            "server/discover" if modern => self.wire.result(id, &self.introduction(MODERN)),
            "ping" => self.wire.result(id, "{}"),
            "tools/list" => self.list(id, modern),
            "tools/call" => self.call(id, params, modern),
            "subscriptions/listen" if modern => self.listen(id, params),
            _ => self.wire.error(id, METHOD_NOT_FOUND, "Method not found", ""),
        }
    }

    /// What it says of itself; to a legacy client that its list never changes, as the servers it stands for do.
    fn introduction(&self, version: &str) -> String {
        let info = format!("{{\"name\":{},\"version\":\"1.0.0\"}}", quote(&self.args.name));
        match version {
            MODERN => format!(
                "{{\"resultType\":\"complete\",\"supportedVersions\":[\"{MODERN}\"],\"capabilities\":{{\"tools\":{{\"listChanged\":true}}}},\
                 \"ttlMs\":0,\"cacheScope\":\"private\",\"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{info}}}}}"
            ),
            _ => format!(
                "{{\"protocolVersion\":\"{version}\",\"capabilities\":{{\"tools\":{{\"listChanged\":false}}}},\"serverInfo\":{info}}}"
            ),
        }
    }

    fn list(&self, id: &RawValue, modern: bool) {
        let listed = self.tools.iter().filter(|tool| tool.listed).map(|tool| tool.text.get());
        let listed = listed.collect::<Vec<_>>().join(",");
        let more = if modern { ",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\"" } else { "" };
        self.wire.result(id, &format!("{{\"tools\":[{listed}]{more}}}"));
    }

    fn call(&mut self, id: &RawValue, params: &str, modern: bool) {
        let call: Call<'_> = match serde_json::from_str(params) {
            Ok(call) => call,
            Err(fault) => return self.wire.error(id, INVALID_PARAMS, &format!("Invalid params: {fault}"), ""),
        };
        if !self.tools.iter().any(|tool| tool.name == call.name) {
            let text = quote(&format!("Unknown tool: {}", call.name));
            return self
                .wire
                .result(id, &format!("{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"isError\":true}}"));
        }
        let arguments = call.arguments.map_or("{}", RawValue::get);
        let more = if modern { ",\"resultType\":\"complete\"" } else { "" };
        self.load(&call.name, arguments);
        self.wire.result(
            id,
            &format!(
                "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{arguments},\"isError\":false{more}}}",
                quote(arguments)
            ),
        );
    }

    /// Lists what a call makes it list.
    fn load(&mut self, called: &str, arguments: &str) {
        let named = match &self.args.load_tool {
            Some(tool) if tool == called => serde_json::from_str::<Loaded>(arguments).map(|loaded| loaded.tools),
            _ => Ok(Vec::new()),
        };
        let named = named.unwrap_or_default();
        let groups: Vec<_> = self.args.groups.iter().filter(|group| called.contains(*group)).collect();
        let unlisted = self.tools.iter().any(|tool| tool.name == called && !tool.listed);
        let mut changed = false;
        for tool in self.tools.iter_mut().filter(|tool| !tool.listed) {
            let with_called =
                unlisted && (tool.name == called || groups.iter().any(|group| tool.name.contains(*group)));
            if with_called || named.contains(&tool.name) {
                tool.listed = true;
                changed = true;
            }
        }
        if changed {
            for id in &self.listeners {
                let params = format!("{{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}}}");
                self.wire.write(notification_line(CHANGED, &params).as_bytes());
            }
        }
    }

    fn listen(&mut self, id: &RawValue, params: &str) {
        let wanted = params.contains("\"toolsListChanged\":true");
        let accepted = if wanted { "{\"toolsListChanged\":true}" } else { "{}" };
        let meta = format!("{{\"io.modelcontextprotocol/subscriptionId\":{}}}", id.get());
        let params = format!("{{\"_meta\":{meta},\"notifications\":{accepted}}}");
        self.wire.write(notification_line("notifications/subscriptions/acknowledged", &params).as_bytes());
        if wanted {
            self.listeners.push(id.get().to_owned());
        }
    }
}

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{}", fault.trim_end());
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<(), String> {
    let args = Args::parse(std::env::args().skip(1))?;
    let tools = recorded(&args)?;
    let open = |path: &String| -> io::Result<File> { OpenOptions::new().create(true).append(true).open(path) };
    let mut journal = args.journal.as_ref().map(open).transpose().map_err(|fault| format!("no journal: {fault}"))?;
    let wire = Wire::stdout(false, String::new()).map_err(|fault| format!("no stdout: {fault}"))?;
    let mut replay = Replay { args, tools, wire, listeners: Vec::new() };
    for line in io::stdin().lock().split(b'\n') {
        let line = line.map_err(|fault| format!("cannot read stdin: {fault}"))?;
        if let Some(journal) = &mut journal {
            let written = journal.write_all(&[&line[..], b"\n"].concat());
            written.map_err(|fault| format!("cannot write the journal: {fault}"))?;
        }
        if !line.trim_ascii().is_empty() {
            replay.take(&line);
        }
    }
    Ok(())
}
