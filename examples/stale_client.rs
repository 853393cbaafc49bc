//! A client that reads the tool list exactly once, as some real clients do, and still reaches every tool.
//!
//! It starts `toolrelay serve`, lists the tools, finds one that is not in the list, opens its toolset, ignores the
//! changed list, and calls the tool through `call_tool`. Each step is printed.
//!
//! ```text
//! cargo build && cargo run --example stale_client -- --config examples/sources.toml \
//!     --source notes --tool add_note --arguments '{"title":"milk"}'
//! ```
//!
//! The relay is the program in `TOOLRELAY_BIN`, or else `toolrelay` beside the directory of the examples.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;
use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, ContentBlock, JsonObject, ProtocolVersion};
use rmcp::service::{RoleClient, RunningService};
use rmcp::{Peer, ServiceExt};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the walk-through is about.
struct Args {
    config: PathBuf,
    source: String,
    tool: String,
    arguments: JsonObject,
}

impl Args {
    fn parse(mut rest: impl Iterator<Item = String>) -> Outcome<Args> {
        let (mut config, mut source, mut tool, mut arguments) = (None, None, None, JsonObject::new());
        while let Some(flag) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("`{flag}` needs a value"))?;
            match flag.as_str() {
                "--config" => config = Some(value.into()),
                "--source" => source = Some(value),
                "--tool" => tool = Some(value),
                "--arguments" => {
                    arguments = serde_json::from_str(&value)
                        .map_err(|fault| format!("`--arguments` takes a JSON object: {fault}"))?;
                }
                _ => return Err(format!("unknown flag `{flag}`").into()),
            }
        }
        Ok(Args {
            config: config.ok_or("`--config FILE` is missing")?,
            source: source.ok_or("`--source ID` is missing")?,
            tool: tool.ok_or("`--tool NAME` is missing")?,
            arguments,
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let args = Args::parse(std::env::args().skip(1))?;
    let (mut relay, session) = connect(&args).await?;
    let walked = walk(&session, &args).await;
    session.cancel().await?;
    relay.wait().await?;
    walked
}

async fn connect(args: &Args) -> Outcome<(Child, RunningService<RoleClient, ClientConfig>)> {
    let binary = relay_binary()?;
    println!("$ {} serve --config {}", binary.display(), args.config.display());
    let mut relay = Command::new(&binary)
        .arg("serve")
        .arg("--config")
        .arg(&args.config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|fault| format!("cannot start `{}`: {fault}", binary.display()))?;
    let (Some(stdout), Some(stdin)) = (relay.stdout.take(), relay.stdin.take()) else {
        return Err("the relay has no pipes".into());
    };
    let client = ClientConfig::default().with_protocol_version(ProtocolVersion::V_2025_11_25);
    let session = client.serve((stdout, stdin)).await?;
    if let Some(peer) = session.peer_info() {
        let name = peer.server_info.as_ref().map_or("someone", |info| info.name.as_str());
        println!("connected to {name}, protocol {}\n", peer.protocol_version);
    }
    Ok((relay, session))
}

async fn walk(relay: &Peer<RoleClient>, args: &Args) -> Outcome<()> {
    println!("1. tools/list, for the first and the last time:");
    let listed: Vec<String> = relay.list_all_tools().await?.into_iter().map(|tool| tool.name.into_owned()).collect();
    listed.iter().for_each(|name| println!("     {name}"));
    let known = listed.iter().any(|name| *name == args.tool || name.ends_with(&format!("__{}", args.tool)));
    println!("   `{}` is {}in it.\n", args.tool, if known { "" } else { "not " });

    println!("2. find_tools:");
    show(&call(relay, "find_tools", json!({ "query": args.tool, "source": args.source })).await?);

    println!("3. enable_toolset; a client that listened would now list again, this one does not:");
    show(&call(relay, "enable_toolset", json!({ "toolset": args.source })).await?);

    println!("4. call_tool, which was in the list from the start:");
    let through = json!({ "source": args.source, "tool": args.tool, "arguments": args.arguments });
    let result = call(relay, "call_tool", through).await?;
    show(&result);
    match result.is_error {
        Some(true) => Err(format!("`{}/{}` answered with an error", args.source, args.tool).into()),
        _ => Ok(()),
    }
}

async fn call(relay: &Peer<RoleClient>, tool: &'static str, arguments: Value) -> Outcome<CallToolResult> {
    println!("   {tool} {arguments}");
    let Value::Object(arguments) = arguments else { return Err("arguments are an object".into()) };
    Ok(relay.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await?)
}

fn show(result: &CallToolResult) {
    if result.is_error == Some(true) {
        println!("   an error:");
    }
    for block in &result.content {
        match block {
            ContentBlock::Text(text) => text.text.lines().for_each(|line| println!("     {line}")),
            _ => println!("     (not text)"),
        }
    }
    println!();
}

/// `target/debug/examples/stale_client` stands one directory below `target/debug/toolrelay`.
fn relay_binary() -> Outcome<PathBuf> {
    if let Some(binary) = std::env::var_os("TOOLRELAY_BIN") {
        return Ok(binary.into());
    }
    let own = std::env::current_exe()?;
    let built = own.parent().and_then(|examples| examples.parent()).ok_or("the example stands nowhere")?;
    Ok(built.join(format!("toolrelay{}", std::env::consts::EXE_SUFFIX)))
}
