//! `toolrelay check`: every fault of the configuration, and with `--connect` whether its sources start.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::progress::Progress;
use super::table::counted;
use super::{Common, Failure, connect, output, relayed, setup};
use crate::config::{Config, Fault, Pin, Reach, SourceEntry, SystemLookup, Unreadable};
use crate::pins::{self, Unusable};

#[derive(clap::Args)]
pub struct Arguments {
    /// Start every enabled source as well, and tell how that went
    #[arg(long)]
    connect: bool,
}

/// A fault as `--json` prints it.
#[derive(Serialize)]
struct FaultLine<'a> {
    file: String,
    line: usize,
    column: usize,
    /// Empty where the file is no TOML.
    key: &'a str,
    cause: &'a str,
    hint: &'a str,
}

/// What `check --connect --json` prints.
#[derive(Serialize)]
struct Report<'a> {
    faults: Vec<FaultLine<'a>>,
    sources: Vec<connect::SourceLine>,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<(), Failure> {
    let progress = Progress::new(common.json);
    let _log = setup::start_command_log(common, &progress);
    let (file, config) = setup::read_config(common)?;
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            if common.json {
                output::json(&[FaultLine::from(&error)])?;
            }
            return Err(setup::unreadable(&error));
        }
    };
    if !common.json {
        output::text(&told(&file, &config))?;
        output::text(&cautions(&file, &config))?;
    }
    let faulty = faulty(&file, &config);
    if !arguments.connect {
        if common.json {
            output::json(&config.faults.iter().map(FaultLine::from).collect::<Vec<_>>())?;
        }
        return faulty;
    }
    let faults = config.faults.clone();
    let connected = relayed::with(config, &progress, async |relay, progress| {
        let lines = connect::all(relay, progress).await;
        let outcome = connect::outcome(&lines);
        if common.json {
            output::json(&Report { faults: faults.iter().map(FaultLine::from).collect(), sources: lines })?;
        } else {
            output::text(&connect::table(&lines))?;
        }
        outcome
    });
    faulty.and(connected)
}

/// The faults, one a line and its remedy below.
fn told(file: &Path, config: &Config) -> String {
    if config.faults.is_empty() {
        return format!("{}: {}, no faults\n", file.display(), counted(config.sources.len(), "source"));
    }
    config.faults.iter().fold(String::new(), |mut text, Fault { line, key, cause, hint, .. }| {
        let _ = writeln!(text, "{}:{line}: {key}: {cause}\n    hint: {hint}", file.display());
        text
    })
}

/// What works and is unwise, one a line.
fn cautions(file: &Path, config: &Config) -> String {
    let usable = config.sources.iter().filter_map(|entry| match entry {
        SourceEntry::Usable(source) if source.enabled => Some(source),
        _ => None,
    });
    let told = usable.filter_map(|source| {
        let Reach::Http(remote) = &source.reach else { return None };
        let caution = remote.caution(&SystemLookup::default())?;
        Some(format!("{}: source.{}: warning: {caution}\n", file.display(), source.id))
    });
    told.chain(unpinned(file, config)).collect()
}

/// That the tools cannot be held against the lock, where they should be.
fn unpinned(file: &Path, config: &Config) -> Option<String> {
    // What it would be without its fault is not known.
    if config.faults.iter().any(|fault| fault.key == "relay.pin") {
        return None;
    }
    let error = match (config.relay.pin, pins::read(&config.relay.lock)) {
        (Pin::Off, _) | (_, Ok(_)) | (Pin::Warn, Err(Unusable::Missing(_))) => return None,
        (_, Err(error)) => error,
    };
    let so =
        if config.relay.pin == Pin::Enforce { "no tool can be called" } else { "tools are not compared with the lock" };
    Some(format!("{}: relay.pin: warning: {so}: {error}; {}\n", file.display(), error.hint()))
}

fn faulty(file: &Path, config: &Config) -> Result<(), Failure> {
    if config.faults.is_empty() {
        return Ok(());
    }
    Err(Failure::Config {
        error: format!("{} has {}", file.display(), counted(config.faults.len(), "fault")),
        hint: "correct each as its hint says; until then a source with faults is not served".to_owned(),
    })
}

impl<'a> From<&'a Fault> for FaultLine<'a> {
    fn from(fault: &'a Fault) -> Self {
        let Fault { file, line, column, key, cause, hint } = fault;
        Self { file: file.display().to_string(), line: *line, column: *column, key, cause, hint }
    }
}

impl<'a> From<&'a Unreadable> for FaultLine<'a> {
    fn from(error: &'a Unreadable) -> Self {
        let Unreadable { file, line, column, cause, hint } = error;
        Self { file: file.display().to_string(), line: *line, column: *column, key: "", cause, hint }
    }
}
