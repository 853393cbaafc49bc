//! `toolrelay check`: every fault of the configuration, and with `--connect` whether its sources start.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::progress::Progress;
use super::table::counted;
use super::{Common, Failure, connect, matched, output, relayed, setup};
use crate::config::{Config, Fault, Pin, Unreadable};
use crate::pins::{self, Unusable};

#[derive(clap::Args)]
pub struct Arguments {
    /// Start every enabled source as well, and tell how that went
    #[arg(long)]
    connect: bool,
}

/// A fault or a warning as `--json` prints it.
#[derive(Serialize)]
struct FaultLine<'a> {
    severity: &'static str,
    file: String,
    #[serde(skip_serializing_if = "is_nowhere")]
    line: usize,
    #[serde(skip_serializing_if = "is_nowhere")]
    column: usize,
    /// Empty where the file is no TOML.
    key: &'a str,
    cause: &'a str,
    hint: &'a str,
}

fn is_nowhere(place: &usize) -> bool {
    *place == 0
}

/// What `check --connect --json` prints.
#[derive(Serialize)]
struct Report<'a> {
    faults: Vec<FaultLine<'a>>,
    warnings: Vec<FaultLine<'a>>,
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
    let warnings: Vec<Fault> = config.warnings.iter().cloned().chain(unpinned(&file, &config)).collect();
    if !common.json {
        output::text(&told(&file, &config))?;
        output::text(&warned(&file, &warnings))?;
    }
    let faulty = faulty(&file, &config);
    if !arguments.connect {
        if common.json {
            let faults = config.faults.iter().map(FaultLine::from);
            output::json(&faults.chain(warnings.iter().map(FaultLine::warning)).collect::<Vec<_>>())?;
        }
        return faulty;
    }
    let faults = config.faults.clone();
    let connected = relayed::with(config, &progress, async |relay, progress| {
        let sources = connect::all(relay, progress).await;
        let outcome = connect::outcome(&sources);
        let unmatched = matched::none(relay, &file).await;
        if common.json {
            let faults = faults.iter().map(FaultLine::from).collect();
            let warnings = warnings.iter().chain(&unmatched).map(FaultLine::warning).collect();
            output::json(&Report { faults, warnings, sources })?;
        } else {
            output::text(&connect::table(&sources))?;
            output::text(&warned(&file, &unmatched))?;
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

/// The warnings, as the faults are told.
fn warned(file: &Path, warnings: &[Fault]) -> String {
    warnings.iter().fold(String::new(), |mut text, Fault { line, key, cause, hint, .. }| {
        let place = if *line == 0 { String::new() } else { format!(":{line}") };
        let _ = writeln!(text, "{}{place}: {key}: warning: {cause}\n    hint: {hint}", file.display());
        text
    })
}

/// That the tools cannot be held against the lock, where they should be.
fn unpinned(file: &Path, config: &Config) -> Option<Fault> {
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
    let (file, key, cause) = (file.to_owned(), "relay.pin".to_owned(), format!("{so}: {error}"));
    Some(Fault { file, line: 0, column: 0, key, cause, hint: error.hint().to_owned() })
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
        let file = file.display().to_string();
        Self { severity: "fault", file, line: *line, column: *column, key, cause, hint }
    }
}

impl<'a> FaultLine<'a> {
    fn warning(fault: &'a Fault) -> Self {
        Self { severity: "warning", ..Self::from(fault) }
    }
}

impl<'a> From<&'a Unreadable> for FaultLine<'a> {
    fn from(error: &'a Unreadable) -> Self {
        let Unreadable { file, line, column, cause, hint } = error;
        let file = file.display().to_string();
        Self { severity: "fault", file, line: *line, column: *column, key: "", cause, hint }
    }
}
