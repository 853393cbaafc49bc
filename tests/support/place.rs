//! A test's own folder: the relay's configuration and state, what sources write, and which processes belong to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::PATIENCE;

/// Waits until `holds`; panics with `what` when it does not come true.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The path of the fixture, built beside the test.
pub fn fixture() -> PathBuf {
    example("fixture")
}

/// The path of an example, built beside the test.
pub fn example(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

/// A source that serves a recorded tool list, with the journal `ID.journal` in `place`.
pub fn replay(place: &Place, id: &str, tools: &Path, flags: &[&str], settings: &str) -> String {
    let journal = place.path(&format!("{id}.journal"));
    let mut all = vec!["--name", id, "--journal", &journal, "--tools-json", tools.to_str().unwrap()];
    all.extend(flags);
    command(id, example("replay").to_str().unwrap(), &all, settings)
}

/// The folder handed to this project beside its own: tool lists of real servers, labelled queries.
pub fn shared(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(name);
    assert!(path.exists(), "{} is missing: this test needs the folder `shared` beside the project's", path.display());
    path
}

/// A source that runs the fixture with `flags`; `settings` are further lines of its table.
pub fn source(id: &str, flags: &[&str], settings: &str) -> String {
    command(id, fixture().to_str().unwrap(), flags, settings)
}

/// A source that runs a command.
pub fn command(id: &str, command: &str, args: &[&str], settings: &str) -> String {
    format!("[source.{id}]\ncommand = {command:?}\nargs = {args:?}\n{settings}\n")
}

/// A folder for one test: configuration, state, journals.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { folder: tempfile::tempdir().unwrap() })
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// The lines of a file that a source writes; none when there is no file.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }

    /// How many messages of a method a source's journal holds.
    pub fn journal_count(&self, name: &str, method: &str) -> usize {
        let wanted = format!("\"method\":\"{method}\"");
        self.lines(name).iter().filter(|line| line.contains(&wanted)).count()
    }

    /// A fixture source with the journal `ID.journal`.
    pub fn journaled(&self, id: &str, flags: &[&str], settings: &str) -> String {
        let journal = self.path(&format!("{id}.journal"));
        let mut all = vec!["--name", id, "--journal", &journal];
        all.extend(flags);
        source(id, &all, settings)
    }

    /// Writes the configuration, and gives its path; `relay` are lines of `[relay]`.
    pub fn config(&self, relay: &str, sources: &[String]) -> String {
        let state = self.path("state");
        self.write("sources.toml", format!("[relay]\nstate_dir = {state:?}\n{relay}\n\n{}", sources.concat()))
    }

    /// The relay's command line for this configuration.
    pub fn command(&self, relay: &str, sources: &[String]) -> Command {
        self.command_logged(relay, sources, "debug")
    }

    /// The same, with another level of the log.
    pub fn command_logged(&self, relay: &str, sources: &[String], level: &str) -> Command {
        let config = self.config(relay, sources);
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolrelay"));
        command.args(["serve", "--config", &config, "--log", level]);
        command.env("TMPDIR", self.folder.path()).env_remove("TOOLRELAY_CONFIG").env_remove("TOOLRELAY_LOG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The processes whose `TMPDIR` is this folder, but for `relay` itself. One that has ended does not count.
    pub fn processes(&self, relay: u32) -> Vec<u32> {
        let mark = format!("TMPDIR={}", self.folder.path().display());
        let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| *pid != relay)
            .filter(|pid| {
                let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            })
            .collect()
    }
}
