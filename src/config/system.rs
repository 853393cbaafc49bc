//! Owns the real [`Lookup`]: the environment, the file system and programs of this machine.
//! What a file holds or a command says never gets into an error.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::Lookup;

/// A secret is short; more than this is the wrong file.
const FILE_MAX_BYTES: u64 = 64 * 1024;
/// A password store may ask its agent; longer than this is a prompt that nobody sees.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// How often to look whether a command that has closed its output has ended.
const COMMAND_POLL: Duration = Duration::from_millis(5);

/// This machine. Its `command` blocks for up to 30 s.
#[derive(Debug, Clone)]
pub struct SystemLookup {
    command_limit: Duration,
}

impl SystemLookup {
    pub fn new() -> Self {
        Self { command_limit: COMMAND_LIMIT }
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
        let child = command.spawn().map_err(|error| error.to_string())?;
        output_of(child, self.command_limit)
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

fn output_of(mut child: Child, limit: Duration) -> Result<String, String> {
    let deadline = Instant::now() + limit;
    let Some(stdout) = child.stdout.take() else {
        return Err("it has no output".to_owned());
    };
    let (done, read) = mpsc::channel();
    // Ends with the output, at the latest when the command is killed.
    std::thread::spawn(move || done.send(text_of(stdout)));
    let late = || format!("it did not end within {} s", limit.as_secs_f32());
    let output = match read.recv_timeout(limit) {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            kill(&mut child);
            return Err(format!("its output is of no use: {error}"));
        }
        Err(_) => {
            kill(&mut child);
            return Err(late());
        }
    };
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(output),
            Ok(Some(status)) => return Err(format!("it ended with {status}")),
            Ok(None) => std::thread::sleep(COMMAND_POLL),
            Err(error) => return Err(error.to_string()),
        }
    }
    kill(&mut child);
    Err(late())
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
        let lookup = SystemLookup { command_limit: Duration::from_secs(20) };
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
        let lookup = SystemLookup { command_limit: Duration::from_millis(200) };
        for script in ["sleep 60", "sleep 60 & echo x", "exec >&-; sleep 60"] {
            let argv = ["sh", "-c", script].map(str::to_owned);
            assert_eq!(lookup.command(&argv), Err("it did not end within 0.2 s".to_owned()), "{script}");
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
