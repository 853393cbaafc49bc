//! Owns what the first process of a container has to do besides its own work: it is made the parent of whatever lost its own,
//! and has to see their ends, or they stay for ever as zombies. So there it runs the relay as another process, passes on the
//! signals that are for it, and ends with its exit code. Everywhere else it does nothing.

/// The exit code, when the process was the first one and the relay has run and ended as its child.
#[cfg(unix)]
pub fn stand_in() -> Option<i32> {
    if std::process::id() != 1 {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
    runtime.block_on(process::stand_in()).ok()
}

#[cfg(not(unix))]
pub fn stand_in() -> Option<i32> {
    None
}

#[cfg(unix)]
mod process {
    use std::io::{self, IsTerminal};
    use std::process::Command;

    use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
    use tokio::signal::unix::{SignalKind, signal};

    /// Runs this program once more. Fails only when it could not be started.
    pub async fn stand_in() -> io::Result<i32> {
        // These come before the child, whose end or whose signals are not to be missed.
        let mut ends = signal(SignalKind::child())?;
        let (mut terminate, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let (mut interrupt, mut quit) = (signal(SignalKind::interrupt())?, signal(SignalKind::quit())?);
        // A terminal sends these two to the child as well.
        let at_terminal = io::stdin().is_terminal();
        let child = Command::new(std::env::current_exe()?).args(std::env::args_os().skip(1)).spawn()?;
        let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        loop {
            let passed = tokio::select! {
                _ = ends.recv() => match ended(child) {
                    Some(code) => return Ok(code),
                    None => continue,
                },
                _ = terminate.recv() => Signal::TERM,
                _ = hangup.recv() => Signal::HUP,
                _ = interrupt.recv(), if !at_terminal => Signal::INT,
                _ = quit.recv(), if !at_terminal => Signal::QUIT,
            };
            // Its end has not been taken note of, so its number is still its own.
            let _ = kill_process(child, passed);
        }
    }

    /// Takes note of every end there is; gives the exit code when one was that of `child`. One signal may stand for several.
    fn ended(child: Pid) -> Option<i32> {
        let mut code = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == child {
                code = Some(code_of(status));
            }
        }
        code
    }

    /// As shells tell it.
    fn code_of(status: WaitStatus) -> i32 {
        status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(1)
    }
}
