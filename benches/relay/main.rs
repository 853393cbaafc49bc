//! What the relay costs: calls through it against the same calls direct, its start, its memory, and what a large answer does
//! to small ones, and a source that misbehaves to the calls of another. All in one run, direct and relayed in turns, so that
//! a busy machine spoils no comparison; a round that the host of the machine held up is made again.
//!
//! `cargo bench --bench relay`, with `-- --quick` in a few minutes. A figure that misses its bar is marked and does
//! not fail the run; a wrong answer does.

mod beside;
mod calls;
mod http;
mod isolation;
mod peer;
mod report;
mod rounds;
mod search;
mod start;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// What there is to run, and how thoroughly.
pub struct Bench {
    pub quick: bool,
    /// Where the example programs are.
    examples: PathBuf,
    /// Where configurations and memories are written.
    pub folder: tempfile::TempDir,
    /// The rounds that were made.
    pub counted: rounds::Counted,
}

impl Bench {
    pub fn example(&self, name: &str) -> PathBuf {
        self.examples.join(name)
    }

    /// `toolrelay serve` with a configuration of this text; `name` keeps it apart from others.
    pub fn relay(&self, name: &str, relay: &str, sources: &str) -> Outcome<Command> {
        let file = self.folder.path().join(format!("{name}.toml"));
        let state = self.folder.path().join(name);
        std::fs::write(&file, format!("[relay]\nstate_dir = \"{}\"\n{relay}\n{sources}", state.display()))?;
        Ok(self.serve(&file))
    }

    /// `toolrelay serve` with this configuration.
    pub fn serve(&self, file: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolrelay"));
        command.args(["serve", "--log", "warn", "--config"]).arg(file);
        command
    }
}

type Part = fn(&Bench) -> Outcome<()>;

/// What can be run alone: `cargo bench --bench relay -- start`.
const PARTS: [(&str, Part); 8] = [
    ("small", calls::small),
    ("large", calls::large),
    ("notes", calls::notes),
    ("http", http::run),
    ("beside", beside::run),
    ("isolation", isolation::run),
    ("start", start::run),
    ("search", search::run),
];

fn main() -> Outcome<()> {
    let bench = Bench {
        quick: std::env::args().any(|argument| argument == "--quick"),
        examples: build_examples()?,
        folder: tempfile::tempdir()?,
        counted: rounds::Counted::default(),
    };
    report::say(&report::machine());
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|name| name == part);
    for (part, run) in PARTS {
        if wanted(part) {
            let before = report::processors();
            run(&bench)?;
            let share = 100.0 * report::withheld(&before);
            let counted = bench.counted.take();
            report::say(&format!("  processor time kept back by the host: {share:.1} % in all, {counted}"));
        }
    }
    report::say(&report::machine());
    Ok(())
}

/// Builds the example programs beside the relay: `cargo bench` alone does not.
fn build_examples() -> Outcome<PathBuf> {
    let relay = Path::new(env!("CARGO_BIN_EXE_toolrelay"));
    let profile = relay.parent().ok_or("the relay lies nowhere")?;
    let target = profile.parent().ok_or("the relay lies nowhere")?;
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--target-dir"])
        .arg(target)
        .args(["raw_echo", "notes", "fixture"].iter().flat_map(|name| ["--example", name]))
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .status()?;
    if status.success() { Ok(profile.join("examples")) } else { Err("the example programs cannot be built".into()) }
}
