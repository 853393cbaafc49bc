//! A folder with a configuration, in which the built program is run. After each run nothing of it may be left: no process,
//! no secret in what it printed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take that should take a moment.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long processes may outlive the program.
const AFTERMATH: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

/// The value of `${API_TOKEN}` in every configuration. The fixture complains of a token of another form.
pub const SECRET: &str = "correct-horse-battery-staple";

pub struct Bench {
    folder: TempDir,
}

/// What a run came to.
pub struct Ran {
    pub told: String,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Bench {
    /// A folder with `sources.toml`. `FIXTURE` and `FOLDER` in it become the paths.
    pub fn new(config: &str) -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let config = config.replace("FIXTURE", &fixture().display().to_string());
        bench.write("sources.toml", &config.replace("FOLDER", &bench.folder.path().display().to_string()));
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolrelay"));
        command.args(arguments).current_dir(self.folder.path()).env("API_TOKEN", SECRET);
        for name in ["TOOLRELAY_CONFIG", "TOOLRELAY_LOG", "TOOLRELAY_EXPOSURE", "NOT_SET"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.ended(self.command(arguments).spawn().unwrap(), arguments)
    }

    pub fn run_with(&self, arguments: &[&str], stdin: &str, variables: &[(&str, &str)]) -> Ran {
        let mut command = self.command(arguments);
        let mut child = command.envs(variables.iter().copied()).stdin(Stdio::piped()).spawn().unwrap();
        // A program that does not read it may be gone already.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        self.ended(child, arguments)
    }

    /// Waits for the end, and looks at what is left behind.
    pub fn ended(&self, child: Child, arguments: &[&str]) -> Ran {
        let output = child.wait_with_output().unwrap();
        let told = format!("toolrelay {}", arguments.join(" "));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        for printed in [&stdout, &stderr] {
            assert!(!printed.contains(SECRET), "{told}: a secret was printed: {printed}");
            assert!(!printed.contains('\u{1b}'), "{told}: colours without a terminal: {printed}");
        }
        eventually(AFTERMATH, || self.processes().is_empty(), || format!("{told} left {:?}", self.processes()));
        Ran { told, code: output.status.code().unwrap_or(-1), stdout, stderr }
    }

    /// The running processes that were given a path of this folder.
    pub fn processes(&self) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        command_lines().into_iter().filter(|line| line.contains(&folder)).collect()
    }

    /// Everything that the fixtures with this journal were sent.
    pub fn journal(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

impl Ran {
    /// Asserts the exit code; a run that succeeds has nothing to say on stderr.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}\n{}\n{}", self.told, self.stdout, self.stderr);
        assert!(code != 0 || self.stderr.is_empty(), "{}: {}", self.told, self.stderr);
        self
    }

    /// Asserts that stderr is one error with a hint, and that they say so much.
    #[track_caller]
    pub fn fails(&self, code: i32, error: &str, hint: &str) -> &Self {
        self.exits(code);
        let (first, second) = self.stderr.trim_end().split_once('\n').unwrap_or((self.stderr.trim_end(), ""));
        let is_right = first.starts_with("error: ") && first.contains(error);
        assert!(is_right && second.starts_with("hint: ") && second.contains(hint), "{}: {}", self.told, self.stderr);
        assert!(!second.contains('\n'), "{}: more than error and hint: {}", self.told, self.stderr);
        self
    }

    /// Asserts that a line of stdout has all of these, in this order.
    #[track_caller]
    pub fn shows(&self, words: &[&str]) -> &Self {
        let has_all = |line: &str| {
            let mut rest = line;
            words.iter().all(|word| match rest.find(word) {
                Some(at) => {
                    rest = &rest[at + word.len()..];
                    true
                }
                None => false,
            })
        };
        assert!(self.stdout.lines().any(has_all), "{}: no line with {words:?}:\n{}", self.told, self.stdout);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{}: {error}: {}", self.told, self.stdout))
    }
}

/// The example that plays the sources; cargo builds it for `cargo test`.
fn fixture() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.parent().and_then(Path::parent).unwrap();
    let fixture = profile.join("examples").join(format!("fixture{}", std::env::consts::EXE_SUFFIX));
    assert!(fixture.is_file(), "{} is missing: run `cargo build --example fixture`", fixture.display());
    fixture
}

fn command_lines() -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        let listed = Command::new("ps").args(["-A", "-o", "args="]).output().unwrap();
        return String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect();
    };
    let lines = processes.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

/// Waits until something holds.
#[track_caller]
pub fn eventually(patience: Duration, holds: impl Fn() -> bool, told: impl Fn() -> String) {
    let deadline = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < deadline, "{}", told());
        std::thread::sleep(POLL);
    }
}
