//! Owns the second process that ends the sources when the relay is killed and can do so itself no more.
//! It is started with the first source, and does nothing as long as the relay lives. One that is ended from outside is
//! started again.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::strays::{self, Mark};

/// The hidden command under which the relay's own program is the watchdog.
pub const COMMAND: &str = "watch-sources";
/// How long process groups have to end when they are asked to, before they are killed.
const TERMINATED: Duration = Duration::from_millis(500);
/// What left the groups has what is left of this at the end of the relay, which clients do not wait for any longer.
const END: Duration = Duration::from_millis(1600);
/// But at least this.
const TERMINATED_LEAST: Duration = Duration::from_millis(150);
/// How often the watchdog is started again in one run: something that ends it each time will go on doing so.
const RESTARTS_MAX: u32 = 20;
/// How often it is looked whether they have.
#[cfg(unix)]
const PACE: Duration = Duration::from_millis(20);

/// The way to the watchdog. Cheap to clone.
#[derive(Clone, Default)]
pub struct Watchdog(Arc<Watched>);

#[derive(Default)]
struct Watched {
    post: Mutex<Post>,
    /// What all processes of this run are known by.
    mark: Mark,
    launches: AtomicU64,
    ending: AtomicBool,
}

/// The watchdog's place, and what it has to know.
#[derive(Default)]
struct Post {
    state: State,
    /// What it was told that still holds: groups as `+GROUP`, marks as `=MARK`.
    watched: BTreeSet<String>,
    restarts: u32,
}

#[derive(Default)]
enum State {
    #[default]
    Unborn,
    Watching(Child),
    /// It could not be started; the relay does without.
    Missing,
}

impl Watchdog {
    /// What the processes of the next launch are known by.
    pub fn next_mark(&self) -> Mark {
        self.0.mark.launch(self.0.launches.fetch_add(1, Ordering::Relaxed))
    }

    /// From now on this process group ends with the relay, however that ends.
    pub fn watch(&self, group: u32) {
        self.0.add(format!("+{group}"));
    }

    /// This process group is gone.
    pub fn forget(&self, group: u32) {
        self.0.remove(&format!("+{group}"));
    }

    /// From now on what has this mark ends with the relay.
    pub fn watch_mark(&self, mark: &Mark) {
        self.0.add(format!("={}", mark.value()));
    }

    /// What has this mark may live on.
    pub fn forget_mark(&self, mark: &Mark) {
        self.0.remove(&format!("={}", mark.value()));
    }

    /// The relay ends, and [`Watchdog::end`] will be called.
    pub fn begin_end(&self) {
        self.0.ending.store(true, Ordering::Relaxed);
    }

    pub fn is_ending(&self) -> bool {
        self.0.ending.load(Ordering::Relaxed)
    }

    /// Ends the watchdog, when no source is left, and before it what left the sources' groups; the end of the relay has
    /// taken `spent` so far. Blocks until they are gone.
    pub fn end(&self, spent: Duration) {
        let grace = END.saturating_sub(spent).clamp(TERMINATED_LEAST, TERMINATED);
        let state = std::mem::replace(&mut self.0.lock().state, State::Missing);
        let is_told = match state {
            State::Unborn => true,
            State::Watching(mut child) => {
                let told = child.stdin.take().map(|mut pipe| writeln!(pipe, "~{}", grace.as_millis()));
                let _ = child.wait();
                told.is_some_and(|told| told.is_ok())
            }
            State::Missing => false,
        };
        if !is_told {
            strays::end(std::slice::from_ref(&self.0.mark), grace);
        }
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, what: String) {
        let mut post = self.lock();
        post.watched.insert(what.clone());
        match post.state {
            State::Unborn => self.start(&mut post),
            _ => self.tell(&mut post, &what),
        }
    }

    fn remove(self: &Arc<Self>, what: &str) {
        let mut post = self.lock();
        if post.watched.remove(what) {
            self.tell(&mut post, &format!("-{what}"));
        }
    }

    fn tell(self: &Arc<Self>, post: &mut Post, line: &str) {
        if let State::Watching(child) = &mut post.state
            && let Some(pipe) = &mut child.stdin
            && writeln!(pipe, "{line}").is_err()
        {
            self.start_again(post);
        }
    }

    /// Starts it, and tells it all that it has to know.
    fn start(self: &Arc<Self>, post: &mut Post) {
        post.state = match launch(&self.mark, &post.watched) {
            Ok(mut child) => {
                self.notice_end(&mut child);
                State::Watching(child)
            }
            Err(error) => {
                tracing::warn!(%error, "watchdog cannot be started: sources may outlive a relay that is killed");
                State::Missing
            }
        };
    }

    /// It has been ended from outside: another one takes its place.
    fn start_again(self: &Arc<Self>, post: &mut Post) {
        if let State::Watching(mut child) = std::mem::replace(&mut post.state, State::Missing) {
            let how = child.kill().and_then(|()| child.wait());
            tracing::debug!(?how, "watchdog ended");
        }
        if self.ending.load(Ordering::Relaxed) {
            return;
        }
        post.restarts += 1;
        if post.restarts > RESTARTS_MAX {
            return tracing::warn!("watchdog is ended again and again: sources may outlive a relay that is killed");
        }
        tracing::warn!("watchdog is gone, started again");
        self.start(post);
    }

    /// Has its end noticed at once: its output, to which it never writes, ends with it.
    #[cfg(unix)]
    fn notice_end(self: &Arc<Self>, child: &mut Child) {
        use tokio::io::AsyncReadExt;
        let (watched, pid) = (Arc::downgrade(self), child.id());
        let Some(stdout) = child.stdout.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(mut stdout) = tokio::process::ChildStdout::from_std(stdout) else { return };
        runtime.spawn(async move {
            let _ = stdout.read(&mut [0]).await;
            let Some(watched) = watched.upgrade() else { return };
            let mut post = watched.lock();
            if matches!(&post.state, State::Watching(child) if child.id() == pid) {
                watched.start_again(&mut post);
            }
        });
    }

    #[cfg(not(unix))]
    fn notice_end(self: &Arc<Self>, _: &mut Child) {}
}

#[cfg(unix)]
fn launch(mark: &Mark, watched: &BTreeSet<String>) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt;
    // On Linux this is the running program even if its file has been replaced since.
    let own = std::path::Path::new("/proc/self/exe");
    let program = if own.exists() { own.to_owned() } else { std::env::current_exe()? };
    let mut command = Command::new(program);
    // A group of its own: what a terminal sends to the relay's group is not for it.
    command.arg(COMMAND).env_clear().current_dir("/").process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let Some(pipe) = &mut child.stdin {
        writeln!(pipe, "={}", mark.value())?;
        watched.iter().try_for_each(|what| writeln!(pipe, "{what}"))?;
    }
    Ok(child)
}

#[cfg(not(unix))]
fn launch(_: &Mark, _: &BTreeSet<String>) -> std::io::Result<Child> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "there are no process groups here"))
}

/// The watchdog's whole life: takes note of process groups until its input ends, which is when the relay has ended; ends
/// those that are left then, and what left them.
pub fn run(input: impl BufRead) {
    let (mut watched, mut grace) = (BTreeSet::new(), TERMINATED);
    for line in input.lines().map_while(Result::ok) {
        match line.split_at_checked(1) {
            Some(("~", millis)) => grace = millis.parse().map_or(grace, Duration::from_millis),
            Some(("-", what)) => drop(watched.remove(what)),
            Some(("+" | "=", _)) => drop(watched.insert(line)),
            _ => {}
        }
    }
    let groups = watched.iter().filter_map(|what| what.strip_prefix('+')?.parse().ok()).collect();
    let marks: Vec<_> = watched.iter().filter_map(|what| what.strip_prefix('=').map(Mark::told)).collect();
    end_all(&groups, &marks, grace);
}

#[cfg(unix)]
fn end_all(groups: &BTreeSet<i32>, marks: &[Mark], grace: Duration) {
    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
    let start = Instant::now();
    let left = || groups.iter().filter_map(|group| Pid::from_raw(*group));
    let send = |signal| left().filter(|group| kill_process_group(*group, signal).is_ok()).count();
    let asked = send(Signal::TERM);
    // Members of the groups are marked as well, so this waits for most of them.
    strays::end(marks, grace);
    if asked > 0 {
        while start.elapsed() < grace && left().any(|group| test_kill_process_group(group).is_ok()) {
            std::thread::sleep(PACE);
        }
        send(Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_all(_: &BTreeSet<i32>, _: &[Mark], _: Duration) {}
