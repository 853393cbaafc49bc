//! Owns the command line: what can be asked, where the configuration is found, and how a command fails.
//! One file a command; none of them knows another.

mod blocks;
mod call;
mod check;
mod completions;
mod connect;
mod find;
pub mod first;
mod lock;
mod matched;
mod output;
mod pretty;
mod progress;
mod relayed;
mod reload;
mod relock;
mod schema;
mod serve;
mod setup;
mod sources;
mod table;
mod tokens;
mod tool_lines;
mod tools;
mod watch;

use std::fmt;
use std::path::PathBuf;

use crate::source::watchdog;
use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// One MCP entry in front of many: an aggregating relay with toolsets that open on demand.
#[derive(Parser)]
#[command(name = "toolrelay", version, about, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Args)]
pub struct Common {
    /// The configuration [default: ./sources.toml, else toolrelay/sources.toml in the configuration directory]
    #[arg(long, short, global = true, env = "TOOLRELAY_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How much is logged on stderr
    #[arg(long, global = true, env = "TOOLRELAY_LOG", value_name = "LEVEL")]
    pub log: Option<Level>,
    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Subcommand)]
enum Command {
    /// Serve one client on stdin and stdout: the command for an editor's mcp.json
    Serve(serve::Arguments),
    /// Tell every fault of the configuration
    Check(check::Arguments),
    /// List the sources and what is known of them
    Sources,
    /// List the tools of all sources, or of one
    Tools(tools::Arguments),
    /// Search the tools of all sources
    Find(find::Arguments),
    /// Call a tool
    Call(call::Arguments),
    /// Accept the tools of the sources as they are now, into sources.lock; or tell what differs from it
    Lock(lock::Arguments),
    /// Tell what models read of the sources, listed directly and through the relay
    Tokens,
    /// Print the JSON Schema of sources.toml
    Schema,
    /// Print a script that completes the command line in a shell
    Completions(completions::Arguments),
    /// The relay's own second process, which ends the sources of a relay that was killed
    #[command(name = watchdog::COMMAND, hide = true)]
    WatchSources,
}

/// Why a command failed. The exit code tells scripts which kind it is.
#[derive(Debug)]
pub enum Failure {
    /// Exit 1: it failed at run time.
    Run { error: String, hint: String },
    /// Exit 2: it was called wrongly.
    Usage(String),
    /// Exit 3: the configuration cannot be used.
    Config { error: String, hint: String },
}

impl Failure {
    pub fn code(&self) -> i32 {
        match self {
            Self::Run { .. } => 1,
            Self::Usage(_) => 2,
            Self::Config { .. } => 3,
        }
    }

    pub fn run(error: impl fmt::Display, hint: impl Into<String>) -> Self {
        Self::Run { error: error.to_string(), hint: hint.into() }
    }

    pub fn usage(error: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Self::Usage(format!("error: {error}\nhint: {hint}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { error, hint } | Self::Config { error, hint } => {
                write!(f, "error: {error}")?;
                if hint.is_empty() { Ok(()) } else { write!(f, "\nhint: {hint}") }
            }
            Self::Usage(text) => f.write_str(text.trim_end()),
        }
    }
}

/// The command line. A variable that is set to nothing counts as not set, as it does in an editor's `"env": {"X": "${X}"}`.
fn grammar() -> clap::Command {
    let empty = |name: &str| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let mut command = Arguments::command();
    for (argument, variable) in [("config", "TOOLRELAY_CONFIG"), ("log", "TOOLRELAY_LOG")] {
        if empty(variable) {
            command = command.mut_arg(argument, |argument| argument.env(Resettable::Reset));
        }
    }
    if empty("TOOLRELAY_EXPOSURE") {
        let reset = |serve: clap::Command| serve.mut_arg("exposure", |argument| argument.env(Resettable::Reset));
        command = command.mut_subcommand("serve", reset);
    }
    command
}

/// Reads the arguments and runs the command.
pub fn run() -> Result<(), Failure> {
    let parsed = grammar().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            return output::text(&error.to_string());
        }
        Err(error) => return Err(Failure::Usage(error.to_string())),
    };
    let Arguments { common, command } = arguments;
    if common.json && matches!(command, Command::Serve(_) | Command::Completions(_)) {
        return Err(Failure::usage("this command has no `--json`", "leave it out"));
    }
    match command {
        Command::Serve(arguments) => serve::run(&common, &arguments)?,
        Command::Check(arguments) => check::run(&common, &arguments)?,
        Command::Sources => sources::run(&common)?,
        Command::Tools(arguments) => tools::run(&common, &arguments)?,
        Command::Find(arguments) => find::run(&common, &arguments)?,
        Command::Call(arguments) => call::run(&common, &arguments)?,
        Command::Lock(arguments) => lock::run(&common, &arguments)?,
        Command::Tokens => tokens::run(&common)?,
        Command::Schema => schema::run()?,
        Command::WatchSources => watchdog::run(std::io::stdin().lock()),
        Command::Completions(arguments) => completions::run(&arguments)?,
    }
    Ok(())
}
