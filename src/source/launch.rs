//! Owns the start and the end of a source's process: pipes, process group, polite and forced stop.
//! It does not read the protocol.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::lacking::{Lacking, lacking};
use super::strays::{self, Mark};
use crate::config::{Launch, Lookup, Resolved};
#[cfg(target_os = "linux")]
use crate::limits;
use crate::redact::mask;

/// How many levels of relays may stand inside one another before a configuration that starts itself is stopped.
const DEPTH_MAX: u32 = 4;
/// Tells a relay how deep it stands.
pub const DEPTH_VARIABLE: &str = "TOOLRELAY_DEPTH";
/// The pipes' size: large results pass in fewer turns (2.5 times the throughput at 1 MiB).
#[cfg(target_os = "linux")]
const PIPE_SIZE: usize = 256 * 1024;

/// How long a process may take to end after its input was closed, and after it was asked to terminate.
#[derive(Debug, Clone, Copy)]
struct Grace {
    closed: Duration,
    terminated: Duration,
    /// For what is left of its group.
    swept: Duration,
}

/// The end of one source while the relay goes on.
const GRACE: Grace =
    Grace { closed: Duration::from_secs(3), terminated: Duration::from_secs(2), swept: Duration::from_millis(500) };
/// The end of everything: clients kill a relay that takes longer than about two seconds.
/// It also cuts short what is under way already.
const GRACE_AT_EXIT: Grace = Grace {
    closed: Duration::from_millis(700),
    terminated: Duration::from_millis(500),
    swept: Duration::from_millis(250),
};

/// Why a source could not be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("its settings cannot be filled in: {0}")]
    Settings(String),
    #[error("the command `{command}` was not found")]
    NotFound {
        command: String,
        /// `None` where it is looked for in one place.
        searched: Option<String>,
    },
    #[error("the command `{command}` cannot be started: `{interpreter}`, which its first line names, does not exist")]
    NoInterpreter { command: String, interpreter: String },
    #[error("the command `{command}` cannot be started: the loader that it was built for does not exist")]
    NoLoader { command: String },
    #[error("the working directory `{0}` does not exist")]
    NoDirectory(String),
    #[error("the command `{command}` cannot be started: {error}")]
    Refused { command: String, error: io::Error },
    #[error("toolrelay is running inside toolrelay inside toolrelay: this source seems to start the relay itself")]
    Recursion,
}

impl LaunchError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::Settings(_) => "set what is missing, or give it a default as in ${NAME:-default}",
            Self::NotFound { command, .. } if command.contains(char::is_whitespace) => {
                "write the program alone in `command`, and put the rest into `args`; if the blanks are its own, correct its path"
            }
            Self::NotFound { .. } => "install it, give its full path in `command`, or set PATH in the source's `env`",
            Self::NoInterpreter { interpreter, .. } if interpreter.ends_with("\\r") => {
                "save the script with Unix line ends: the carriage return counts as part of that name"
            }
            Self::NoInterpreter { .. } => {
                "install it, or correct that line; a virtual environment that was moved has to be made anew"
            }
            Self::NoLoader { .. } => "install a build of it that is for this system",
            Self::NoDirectory(_) => "create it, or correct `cwd`",
            Self::Refused { error, .. } => refusal_hint(error),
            Self::Recursion => "correct `command`, or give the inner relay a configuration of its own",
        };
        match self {
            // It is long, and what is cut off is the end.
            Self::NotFound { searched: Some(path), .. } => format!("{hint}; it was looked for in PATH={path}"),
            _ => hint.to_owned(),
        }
    }
}

/// What to do where the system refuses to start a program.
fn refusal_hint(error: &io::Error) -> &'static str {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        match Errno::from_io_error(error) {
            Some(Errno::MFILE) => {
                return "the relay may have no more files open: raise that limit (`ulimit -n`, `LimitNOFILE=`), or let sources rest sooner with `idle_stop_secs`";
            }
            Some(Errno::NFILE) => return "this system has as many files open as it can: end something else",
            Some(Errno::AGAIN) => {
                return "this user or container may have no more processes: raise that limit (`ulimit -u`, `TasksMax=`, `--pids-limit`), or end something else";
            }
            Some(Errno::NOMEM) => return "this system has no memory left: end something else",
            Some(Errno::TOOBIG) => return "its `args` and `env` are longer than the system takes: shorten them",
            Some(Errno::NOEXEC) => {
                return "it is no program for this machine, or a script without `#!` in its first line: name its interpreter in `command`";
            }
            _ => {}
        }
    }
    "check that `command` names a program and that it may be executed"
}

/// A launched process.
pub struct Launched {
    pub process: Process,
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
    /// Values that must not be shown.
    pub secrets: Vec<String>,
}

/// Fills in the settings and starts the process, in a process group of its own.
///
/// The process and all that come of it can be known by `mark`.
pub async fn launch(
    settings: &Launch,
    lookup: impl Lookup + Send + 'static,
    mark: Mark,
) -> Result<Launched, LaunchError> {
    let depth = std::env::var(DEPTH_VARIABLE).ok().and_then(|depth| depth.parse().ok()).unwrap_or(0_u32);
    if depth >= DEPTH_MAX {
        return Err(LaunchError::Recursion);
    }
    let wanted = settings.clone();
    let resolved = tokio::task::spawn_blocking(move || wanted.resolve(&lookup))
        .await
        .expect("BUG: filling in settings never panics")
        .map_err(|error| LaunchError::Settings(error.to_string()))?;
    if let Some(cwd) = resolved.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(LaunchError::NoDirectory(mask(&cwd.display().to_string(), &resolved.secrets)));
    }
    start(resolved, depth + 1, mark)
}

fn start(resolved: Resolved, depth: u32, mark: Mark) -> Result<Launched, LaunchError> {
    let mut command = Command::new(program(&resolved));
    command.args(&resolved.args).env_clear().envs(resolved.env.iter().map(|(name, value)| (name, value)));
    command.env(DEPTH_VARIABLE, depth.to_string()).env(strays::VARIABLE, mark.value());
    if let Some(cwd) = &resolved.cwd {
        command.current_dir(cwd);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    own_group(&mut command);
    let mut child = command.spawn().map_err(|error| refused(&resolved, error))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { unreachable!("BUG: all three pipes were asked for") };
    #[cfg(target_os = "linux")]
    {
        // Best effort: a user may have too many large pipes already.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdin, PIPE_SIZE);
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_SIZE);
    }
    Ok(Launched { process: Process::new(child, mark), stdin, stdout, stderr, secrets: resolved.secrets })
}

/// The program as the system wants it named. Windows finds only `.exe` by a bare name; `npx` and its like are `.cmd`.
#[cfg(windows)]
fn program(resolved: &Resolved) -> std::path::PathBuf {
    let path = resolved.env.iter().find(|(name, _)| name.eq_ignore_ascii_case("PATH")).map(|(_, value)| value);
    let cwd = resolved.cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    which::which_in(&resolved.command, path, cwd).unwrap_or_else(|_| resolved.command.clone().into())
}

#[cfg(not(windows))]
fn program(resolved: &Resolved) -> &str {
    &resolved.command
}

fn refused(resolved: &Resolved, error: io::Error) -> LaunchError {
    let command = mask(&resolved.command, &resolved.secrets);
    if error.kind() != io::ErrorKind::NotFound {
        return LaunchError::Refused { command, error };
    }
    let path = resolved.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
    match lacking(&resolved.command, path, resolved.cwd.as_deref().unwrap_or(Path::new("."))) {
        Some(Lacking::Interpreter(interpreter)) => {
            let interpreter = mask(&interpreter, &resolved.secrets).escape_debug().to_string();
            return LaunchError::NoInterpreter { command, interpreter };
        }
        Some(Lacking::Loader) => return LaunchError::NoLoader { command },
        None => {}
    }
    let searched = (!command.contains(std::path::MAIN_SEPARATOR)).then(|| path.to_owned());
    LaunchError::NotFound { command, searched }
}

#[cfg(unix)]
fn own_group(command: &mut Command) {
    command.process_group(0);
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    // SAFETY: between fork and exec only two system calls are made, which are safe to make there.
    unsafe {
        command.pre_exec(|| {
            // The kernel ends the source when the relay is killed. The relay launches from its main thread, which lives
            // as long as the process.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            limits::put_back()
        });
    }
}

#[cfg(not(unix))]
fn own_group(_: &mut Command) {}

/// Waits for a part of the grace, and for no more than the shorter one from when the relay is `ending`.
async fn lapse(ending: &CancellationToken, part: fn(&Grace) -> Duration) {
    tokio::select! {
        () = tokio::time::sleep(part(&GRACE)) => {}
        () = async {
            ending.cancelled().await;
            tokio::time::sleep(part(&GRACE_AT_EXIT)).await;
        } => {}
    }
}

/// A source's process and its group.
pub struct Process {
    child: Child,
    pid: u32,
    mark: Mark,
    status: Option<ExitStatus>,
}

impl Process {
    fn new(child: Child, mark: Mark) -> Self {
        let pid = child.id().unwrap_or(0);
        Self { child, pid, mark, status: None }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How the process ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Waits for the end. Safe to drop while it waits.
    pub async fn wait(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.wait().await.ok();
        }
        self.status
    }

    async fn wait_for(&mut self, ending: &CancellationToken, part: fn(&Grace) -> Duration) {
        tokio::select! {
            _ = self.wait() => {}
            () = lapse(ending, part) => {}
        }
    }

    /// Ends the process, whose input was closed already, and whatever is left of its group; sooner when the relay is
    /// `ending`.
    pub async fn stop(&mut self, ending: &CancellationToken) {
        self.wait_for(ending, |grace| grace.closed).await;
        if self.status.is_none() {
            self.signal_group(Ending::Terminate);
            self.wait_for(ending, |grace| grace.terminated).await;
        }
        self.sweep_group(ending).await;
        if self.status.is_none() {
            let _ = self.child.start_kill();
            self.wait().await;
        }
    }

    /// Ends what left the process's group.
    pub async fn end_strays(&self) {
        let mark = self.mark.clone();
        let _ = tokio::task::spawn_blocking(move || strays::end(&[mark], GRACE.swept)).await;
    }

    /// A leader that ended politely may have left others behind (`npx` and `sh -c` do).
    async fn sweep_group(&mut self, ending: &CancellationToken) {
        if self.status.is_some() {
            if !self.signal_group(Ending::Terminate) {
                return;
            }
            let emptied = async {
                while self.signal_group(Ending::Probe) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                () = emptied => return,
                () = lapse(ending, |grace| grace.swept) => {}
            }
        }
        self.signal_group(Ending::Kill);
    }

    /// Signals the whole group; `false` when nobody is left in it.
    #[cfg(unix)]
    fn signal_group(&self, ending: Ending) -> bool {
        use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
        let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        match ending {
            Ending::Terminate => kill_process_group(group, Signal::TERM).is_ok(),
            Ending::Kill => kill_process_group(group, Signal::KILL).is_ok(),
            Ending::Probe => test_kill_process_group(group).is_ok(),
        }
    }

    #[cfg(not(unix))]
    fn signal_group(&self, _: Ending) -> bool {
        false
    }
}

#[derive(Clone, Copy)]
#[cfg_attr(not(unix), allow(dead_code))]
enum Ending {
    Terminate,
    Kill,
    Probe,
}

/// How a process ended, for people.
pub fn describe(status: Option<ExitStatus>) -> String {
    #[cfg(unix)]
    if let Some(signal) = status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status)) {
        return format!("was ended by signal {signal}");
    }
    match status.and_then(|status| status.code()) {
        Some(code) => format!("exited with code {code}"),
        None => "ended".to_owned(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn what_the_system_has_no_more_of_is_no_fault_of_the_command() {
        let hint = |errno: Errno| LaunchError::Refused { command: "it".to_owned(), error: errno.into() }.hint();
        let usual = hint(Errno::ACCESS);
        assert_eq!(usual, "check that `command` names a program and that it may be executed");
        for errno in [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::TOOBIG, Errno::NOEXEC] {
            assert_ne!(hint(errno), usual, "{errno}");
        }
    }
}
