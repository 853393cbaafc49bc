//! The main job, step by step, as an editor and its model would do it: list the drawers, open one, call a tool in it and a
//! tool in another, and what that costs against listing everything.
//!
//! ```text
//! make demo
//! ```
//!
//! Speaks the protocol by hand, one JSON line at a time, so that what it counts is what really crosses the wire.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Model tokenizers take about four bytes of JSON for a token.
const BYTES_PER_TOKEN: usize = 4;

/// A relay and the two ends of its wire.
struct Relay {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    ids: u64,
}

impl Relay {
    fn start(config: &str, exposure: &str) -> Outcome<Self> {
        let mut child = Command::new(binary()?)
            .args(["serve", "--config", config, "--exposure", exposure, "--log", "warn"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let mut relay = Self { child, input, output: BufReader::new(output), ids: 0 };
        relay.request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"}}),
        )?;
        writeln!(relay.input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(relay)
    }

    /// The answer's result, and the bytes of its line.
    fn request(&mut self, method: &str, params: Value) -> Outcome<(Value, usize)> {
        self.ids += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        self.input.flush()?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err("the relay ended".into());
            }
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == self.ids {
                return match message.get("error") {
                    Some(error) => Err(format!("{method}: {error}").into()),
                    None => Ok((message["result"].clone(), line.len())),
                };
            }
            println!("   <- {}", message["method"].as_str().unwrap_or("?"));
        }
    }

    fn call(&mut self, name: &str, arguments: Value) -> Outcome<(Value, usize)> {
        println!("\n-> {name} {arguments}");
        let (result, bytes) = self.request("tools/call", json!({"name": name, "arguments": arguments}))?;
        if result["isError"] == true {
            return Err(format!("{name}: {}", result["content"][0]["text"].as_str().unwrap_or("?")).into());
        }
        Ok((result, bytes))
    }

    fn stop(mut self) -> Outcome<()> {
        drop(self.input);
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the relay ended with {status}").into()) }
    }
}

fn main() -> Outcome<()> {
    let config = std::env::args().nth(1).unwrap_or_else(|| "sources.toml".to_owned());
    let began = Instant::now();
    let mut relay = Relay::start(&config, "toolsets")?;
    println!("The relay answered `initialize` {:.0} ms after its start.", began.elapsed().as_secs_f64() * 1e3);
    let (listed, _) = relay.request("tools/list", json!({}))?;
    let menu = listed["tools"].as_array().ok_or("no tools")?.clone();
    println!("tools/list shows {} tools:", menu.len());
    for tool in &menu {
        println!("   {}", tool["name"].as_str().unwrap_or("?"));
    }

    let (toolsets, _) = relay.call("list_toolsets", json!({}))?;
    for toolset in toolsets["structuredContent"]["toolsets"].as_array().ok_or("no toolsets")? {
        let text = |name: &str| toolset[name].as_str().unwrap_or("?").to_owned();
        println!("   {:12} {:>3} tools  {:9} {}", text("id"), toolset["tools"], text("status"), text("summary"));
    }

    let (opened, _) = relay.call("enable_toolset", json!({"toolset": "notes"}))?;
    for tool in opened["structuredContent"]["tools"].as_array().ok_or("no tools")? {
        let text = |name: &str| tool[name].as_str().unwrap_or("?").to_owned();
        println!("   {}{}  {}", text("name"), text("signature"), text("description"));
    }

    let (result, _) = relay.call("notes__add_note", json!({"title": "Groceries", "body": "bread and milk"}))?;
    println!("   {}", result["content"][0]["text"].as_str().unwrap_or("?"));
    let (found, find_bytes) = relay.call("find_tools", json!({"query": "add two numbers"}))?;
    let best = &found["structuredContent"]["matches"][0];
    println!("   best match: {}/{}", best["source"].as_str().unwrap_or("?"), best["tool"].as_str().unwrap_or("?"));
    let through = json!({"source": best["source"], "tool": best["tool"], "arguments": {"a": 19, "b": 23}});
    let (result, _) = relay.call("call_tool", through)?;
    println!("   {}", result["content"][0]["text"].as_str().unwrap_or("?"));
    relay.stop()?;
    costs(&config, &json!(menu), find_bytes / 2)
}

/// What the model pays for the menu, against all tools listed directly.
fn costs(config: &str, menu: &Value, find: usize) -> Outcome<()> {
    let mut eager = Relay::start(config, "eager")?;
    let (all, _) = eager.request("tools/list", json!({}))?;
    eager.stop()?;
    let own = menu.as_array().map(Vec::as_slice).unwrap_or_default();
    let direct: Vec<&Value> = all["tools"]
        .as_array()
        .ok_or("no tools")?
        .iter()
        .filter(|tool| !own.iter().any(|own| own["name"] == tool["name"]))
        .collect();
    let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN);
    let (all_bytes, menu_bytes) = (json!(direct).to_string().len(), menu.to_string().len());
    println!("\nWhat the model reads, at about {BYTES_PER_TOKEN} bytes a token:");
    println!("   all {:>3} tools listed directly {:>7} tokens", direct.len(), tokens(all_bytes));
    println!("   the menu of {:>2}               {:>7} tokens", own.len(), tokens(menu_bytes));
    println!("   one search                   {:>7} tokens", tokens(find));
    Ok(())
}

/// The relay, built beside the examples.
fn binary() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    let built = own.parent().and_then(|examples| examples.parent()).ok_or("the example stands nowhere")?;
    Ok(built.join(format!("toolrelay{}", std::env::consts::EXE_SUFFIX)))
}
