//! Owns the real [`Lookup`]: the environment, the file system and programs of this machine.
//! What a file holds or a command says never gets into an error.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::Lookup;

/// A secret is short; more than this is the wrong file.
const FILE_MAX_BYTES: u64 = 64 * 1024;
/// A password store may ask its agent; longer than this is a prompt that nobody sees.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// How often to look whether a command is still wanted.
const COMMAND_LOOK: Duration = Duration::from_millis(50);
/// How often to look whether a command that has closed its output has ended.
const COMMAND_POLL: Duration = Duration::from_millis(5);

/// Who sees to it that a command ends with whoever wants its value.
pub trait Oversight: Send + Sync {
    /// A command is about to begin: the variable by which it and what it starts are known, and a value that no other has.
    fn begins(&self) -> (&'static str, String);
    /// It runs as this process group.
    fn runs(&self, group: u32);
    /// Whether its value is still wanted.
    fn is_wanted(&self) -> bool;
    /// The command with this mark is over: `done`, or ended before that.
    fn is_over(&self, mark: &str, group: Option<u32>, done: bool);
}

/// This machine. Its `command` blocks for up to 30 s.
#[derive(Clone)]
pub struct SystemLookup {
    command_limit: Duration,
    oversight: Option<Arc<dyn Oversight>>,
}

impl SystemLookup {
    pub fn new() -> Self {
        Self { command_limit: COMMAND_LIMIT, oversight: None }
    }

    /// One whose commands are looked after.
    pub fn overseen(oversight: Arc<dyn Oversight>) -> Self {
        Self { oversight: Some(oversight), ..Self::new() }
    }
}

impl Default for SystemLookup {
    fn default() -> Self {
        Self::new()
    }
}

impl Lookup for SystemLookup {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
        if !about.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
        text_of(file).map_err(|error| error.to_string())
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn command(&self, argv: &[String]) -> Result<String, String> {
        let (program, args) = argv.split_first().ok_or_else(|| "it names no program".to_owned())?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let Some(oversight) = &self.oversight else {
            let child = command.spawn().map_err(|error| error.to_string())?;
            crate::limits::put_back_in(child.id());
            return output_of(child, self.command_limit, || true).0;
        };
        let (variable, mark) = oversight.begins();
        command.env(variable, &mark);
        let (group, output, done) = match command.spawn() {
            Ok(child) => {
                let group = child.id();
                crate::limits::put_back_in(group);
                oversight.runs(group);
                let (output, done) = output_of(child, self.command_limit, || oversight.is_wanted());
                (Some(group), output, done)
            }
            Err(error) => (None, Err(error.to_string()), true),
        };
        oversight.is_over(&mark, group, done);
        output
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
    }

    fn folder(&self) -> Option<PathBuf> {
        std::env::current_dir().ok()
    }

    fn vars(&self) -> Vec<(String, String)> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        std::env::vars_os().filter_map(text).collect()
    }
}

/// Why what was read is no value.
#[derive(Debug, thiserror::Error)]
enum NoText {
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("it has more than 64 KiB")]
    TooLong,
    #[error("it is not UTF-8 text")]
    NotUtf8,
}

fn text_of(from: impl Read) -> Result<String, NoText> {
    let mut bytes = Vec::new();
    from.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(NoText::TooLong);
    }
    // The error of the conversion holds the bytes, which may be secret.
    let Ok(mut text) = String::from_utf8(bytes) else {
        return Err(NoText::NotUtf8);
    };
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok(text)
}

/// What a command prints, and whether it ended by itself.
fn output_of(mut child: Child, limit: Duration, is_wanted: impl Fn() -> bool) -> (Result<String, String>, bool) {
    let output = read_all(&mut child, Instant::now() + limit, &is_wanted);
    // It may have ended itself, and what it started holds its output.
    let done = output.is_some() && matches!(child.try_wait(), Ok(Some(_)));
    if !done {
        kill(&mut child);
    }
    let why = || match is_wanted() {
        true => format!("it, or what it started, did not end its output within {} s", limit.as_secs_f32()),
        false => "it was broken off".to_owned(),
    };
    (output.unwrap_or_else(|| Err(why())), done)
}

/// What a command prints until it ends; `None` if it does not in time.
fn read_all(child: &mut Child, deadline: Instant, is_wanted: &impl Fn() -> bool) -> Option<Result<String, String>> {
    let Some(stdout) = child.stdout.take() else {
        return Some(Err("it has no output".to_owned()));
    };
    let (done, read) = mpsc::channel();
    // Ends with the output, at the latest when the command is killed.
    std::thread::spawn(move || done.send(text_of(stdout)));
    let output = loop {
        match read.recv_timeout(COMMAND_LOOK.min(deadline.saturating_duration_since(Instant::now()))) {
            Ok(Ok(output)) => break output,
            Ok(Err(error)) => return Some(Err(format!("its output is of no use: {error}"))),
            Err(_) if !is_wanted() || Instant::now() >= deadline => return None,
            Err(_) => {}
        }
    };
    while Instant::now() < deadline && is_wanted() {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Some(Ok(output)),
            Ok(Some(status)) => return Some(Err(format!("it ended with {status}"))),
            Ok(None) => std::thread::sleep(COMMAND_POLL),
            Err(error) => return Some(Err(error.to_string())),
        }
    }
    None
}

/// Ends a command and whatever it started, and waits for it.
fn kill(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn run(script: &str) -> Result<String, String> {
        let lookup = SystemLookup { command_limit: Duration::from_secs(20), ..SystemLookup::new() };
        lookup.command(&["sh", "-c", script].map(str::to_owned))
    }

    #[test]
    fn commands_give_their_output_or_a_reason_without_it() {
        for (script, result) in [
            ("echo value; echo noise >&2", Ok("value")),
            ("printf 'two\\nlines\\r\\n\\n'", Ok("two\nlines")),
            ("true", Ok("")),
            ("cat", Ok("")),
            ("echo secret; echo secret >&2; exit 3", Err("it ended with exit status: 3")),
            ("printf '\\377'", Err("its output is of no use: it is not UTF-8 text")),
            ("head -c 70000 /dev/zero", Err("its output is of no use: it has more than 64 KiB")),
        ] {
            assert_eq!(run(script), result.map(str::to_owned).map_err(str::to_owned), "{script}");
        }
        assert!(SystemLookup::new().command(&["/none/such".to_owned()]).is_err());
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let lookup = SystemLookup { command_limit: Duration::from_millis(200), ..SystemLookup::new() };
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        for script in ["echo $$ > F; sleep 60", "sleep 60 & echo $! > F; echo x", "echo $$ > F; exec >&-; sleep 60"] {
            let argv = ["sh", "-c", &script.replace('F', pid.to_str().unwrap())].map(str::to_owned);
            let why = "it, or what it started, did not end its output within 0.2 s";
            assert_eq!(lookup.command(&argv), Err(why.to_owned()), "{script}");
            // What it started goes as well; one that nobody has waited for yet has no command line any more.
            let line = format!("/proc/{}/cmdline", std::fs::read_to_string(&pid).unwrap().trim());
            let start = Instant::now();
            while std::fs::read(&line).is_ok_and(|line| !line.is_empty()) {
                assert!(start.elapsed() < Duration::from_secs(20), "{script}");
                std::thread::sleep(COMMAND_POLL);
            }
        }
    }

    #[test]
    fn files_give_their_text_or_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let lookup = SystemLookup::new();
        let path = folder.path().join("f");
        for (bytes, result) in [
            (&b"value\r\n\n"[..], Ok("value")),
            (b"", Ok("")),
            (b" two\nlines \n", Ok(" two\nlines ")),
            (b"\xff", Err("it is not UTF-8 text")),
            (&[b'x'; 64 * 1024 + 1], Err("it has more than 64 KiB")),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(lookup.file(&path), result.map(str::to_owned).map_err(str::to_owned));
        }
        assert_eq!(lookup.file(folder.path()), Err("it is not a regular file".to_owned()));
        assert!(lookup.file(&folder.path().join("none")).is_err());
    }
}
