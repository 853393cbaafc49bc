//! Owns what every command needs first: the configuration, the log, the runtime, the signals that end it.
//! It runs nothing.

use std::io::Write;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use tokio::runtime::{Builder, Runtime};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use super::progress::Progress;
use super::{Common, Failure, Level, output};
use crate::config::{self, Config, Fault, Prefixes, SystemLookup, Unreadable};
use crate::relay::Built;
use crate::wire::busy_poll::BusyPoll;

/// The file's name wherever it is looked for.
const FILE: &str = "sources.toml";
/// Who logs that a source failed.
const FAILURES: &str = "toolrelay::source::down";

/// How many lines of the log may wait for their reader. Their places are all made at the start, so they cost time and memory.
const LOG_LINES: usize = 4096;

/// Where the configuration is: as told, else in the current directory, else in the user's configuration directory.
pub fn find_config(common: &Common) -> Result<PathBuf, Failure> {
    if let Some(file) = &common.config {
        return Ok(file.clone());
    }
    let here = PathBuf::from(FILE);
    if here.is_file() {
        return Ok(here);
    }
    let home = etcetera::choose_base_strategy().ok().map(|base| base.config_dir().join("toolrelay").join(FILE));
    match home {
        Some(file) if file.is_file() => Ok(file),
        home => {
            let searched = home.map(|file| format!(" and no {}", file.display())).unwrap_or_default();
            Err(Failure::Config {
                error: format!("there is no configuration: no ./{FILE}{searched}"),
                hint: "name one with --config FILE, or write one: [source.clock] with a `command` is enough".to_owned(),
            })
        }
    }
}

/// Reads and checks the configuration. Faults of single entries are in it; only a file that cannot be read fails.
pub fn load_config(common: &Common) -> Result<(PathBuf, Config), Failure> {
    let (file, config) = read_config(common)?;
    Ok((file, config.map_err(|error| unreadable(&error))?))
}

/// The same, with the place of what makes the file unreadable.
pub fn read_config(common: &Common) -> Result<(PathBuf, Result<Config, Unreadable>), Failure> {
    let file = find_config(common)?;
    let config = check_file(&file, &Prefixes::new())?;
    Ok((file, config))
}

/// Reads and checks one file, as [`config::check_after`] does.
pub fn check_file(file: &Path, held: &Prefixes) -> Result<Result<Config, Unreadable>, Failure> {
    let fails = |error: &dyn std::fmt::Display, hint: &str| Failure::Config {
        error: format!("{} cannot be read: {error}", file.display()),
        hint: hint.to_owned(),
    };
    let bytes = std::fs::read(file).map_err(|error| fails(&error, "name another one with --config FILE"))?;
    // Without its mark, UTF-16 of English text is UTF-8 with a NUL in each pair.
    let is_wide = matches!(bytes[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..]);
    let told = if is_wide { "it seems to be UTF-16 text" } else { "it is not UTF-8 text" };
    let text = String::from_utf8(bytes).ok().filter(|_| !is_wide).ok_or_else(|| fails(&told, "save it as UTF-8"))?;
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Ok(config::check_after(&text, &absolute, &SystemLookup::new(), held))
}

/// That the file is no TOML.
pub fn unreadable(error: &Unreadable) -> Failure {
    Failure::Config { error: error.to_string(), hint: error.hint.clone() }
}

/// Makes the parts of a relay, with what earlier runs remember.
pub fn build(config: Config) -> Built {
    let own = config.relay.state_dir.clone();
    let directory = own.or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        let state = base.state_dir().unwrap_or_else(|| base.data_dir());
        Some(state.join("toolrelay"))
    });
    Built::new(config, directory)
}

/// Logs the faults and the warnings of a configuration that runs all the same.
pub fn log_faults(file: &Path, faults: &[Fault], warnings: &[Fault]) {
    for warning in warnings {
        tracing::warn!(%warning, "hardly meant in the configuration");
    }
    for fault in faults {
        tracing::warn!(%fault, "fault in the configuration");
    }
    if !faults.is_empty() {
        tracing::warn!(file = %file.display(), faults = faults.len(), "see `toolrelay check`");
    }
}

/// Starts the log of `serve` on stderr.
pub fn start_log(common: &Common) -> WorkerGuard {
    log(Targets::new().with_default(common.log.unwrap_or(Level::Info)), std::io::stderr())
}

/// Starts the log of any other command. Unless it is asked for, it does not tell what the command itself tells: that a
/// source failed.
pub fn start_command_log(common: &Common, progress: &Progress) -> WorkerGuard {
    let targets = Targets::new().with_default(common.log.unwrap_or(Level::Warn));
    let targets = if common.log.is_some() { targets } else { targets.with_target(FAILURES, Level::Error) };
    log(targets, progress.beside())
}

/// It never waits for a reader: what nobody reads is dropped.
fn log(targets: Targets, out: impl Write + Send + 'static) -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(LOG_LINES).finish(out);
    let colours = output::takes_colours(&std::io::stderr());
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours).with_target(false);
    tracing_subscriber::registry().with(layer.with_filter(targets)).init();
    guard
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// The runtime: one thread carries all messages, so that none waits for a wake-up of another; what takes long goes to
/// threads of its own.
pub fn runtime() -> Result<Runtime, Failure> {
    let mut builder = Builder::new_current_thread();
    let poll = BusyPoll::install(&mut builder);
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(|error| Failure::run(format!("the runtime cannot be started: {error}"), ""))?;
    if let Some(poll) = poll {
        runtime.spawn(poll.run());
    }
    Ok(runtime)
}

/// Waits for the first signal that asks a command to end.
pub async fn signal() {
    let mut hangups = Hangups::default();
    tokio::select! {
        () = ending_signal() => {}
        () = hangups.next() => {}
    }
}

/// Waits for the first signal that asks the process to end, whatever it does.
#[cfg(unix)]
pub async fn ending_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::quit()];
    let mut signals: Vec<_> = kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect();
    futures::future::select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
}

#[cfg(not(unix))]
pub async fn ending_signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Hangups (SIGHUP), which end the process no more once this is made. There are none on Windows.
pub struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Default for Hangups {
    fn default() -> Self {
        #[cfg(unix)]
        return Self { signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok() };
        #[cfg(not(unix))]
        Self {}
    }
}

impl Hangups {
    /// Waits for the next one.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
