//! Owns how long a start may take: a limit without a sign of work, and one in all. A launcher that downloads and builds a
//! source for the first time is not ended while it is at work. It starts and ends nothing itself.
//!
//! Signs of work are words on standard error and stray lines on standard output; on Linux also processor time, bytes read and
//! written, and processes of the launched one and those below it.

use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

use super::run::Running;
use super::{State, Status};
use crate::config::SourceConfig;

/// How often it is looked for signs of work, where the limit is not short.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks fit into a limit at least.
const LOOKS: u32 = 4;
/// A start that takes longer than this is told to be at work, if it is.
const ORDINARY: Duration = Duration::from_secs(3);

/// How a budget came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// There was no sign of work for as long as that may be.
    Idle,
    /// It was at work, and took as long as a start may take in all.
    Whole,
}

/// Waits until the start of `running` has taken as long as it may; says meanwhile that it is at work.
pub async fn spent(running: &Running, config: &SourceConfig, publish: &watch::Sender<Status>) -> Spent {
    let (began, since) = (Instant::now(), SystemTime::now());
    let (idle, whole) = (config.start_timeout, config.max_start);
    let Some(pid) = running.pid else {
        // Nothing is to be seen of a source at an address.
        tokio::time::sleep(idle).await;
        return Spent::Idle;
    };
    let (mut last, mut seen) = (began, work::Seen::default());
    loop {
        let rest = idle.saturating_sub(last.elapsed()).min(whole.saturating_sub(began.elapsed()));
        tokio::time::sleep(rest.min(LOOK).min(idle / LOOKS)).await;
        let told = running.tail.written() + running.link.noise.lines();
        if work::look(pid, told, &mut seen).await {
            last = Instant::now();
            if began.elapsed() >= ORDINARY {
                tell(publish, since, running);
            }
        }
        if began.elapsed() >= whole {
            return Spent::Whole;
        }
        if last.elapsed() >= idle {
            return Spent::Idle;
        }
    }
}

fn tell(publish: &watch::Sender<Status>, since: SystemTime, running: &Running) {
    publish.send_if_modified(|status| {
        if let State::Starting { at_work } = &mut status.state {
            *at_work = Some((since, running.tail.told()));
        }
        // Nothing waits for this: it is there for whoever asks.
        false
    });
}

mod work {
    //! What can be seen of the work of a process and of those below it.

    /// What was seen at the last look, and of what grows slowly at the last sign.
    #[derive(Debug, Default, Clone, PartialEq, Eq)]
    pub struct Seen {
        told: u64,
        /// The most processes ever seen.
        processes: usize,
        ticks: u64,
        bytes: u64,
    }

    /// Processor time between two looks that is a sign, in hundredths of a second: timers of a program that only waits take
    /// less.
    const TICKS: u64 = 2;
    /// Bytes since the last sign that are one.
    const BYTES: u64 = 64 * 1024;

    impl Seen {
        /// Takes note of what is seen `now`; whether it is a sign of work.
        pub fn note(&mut self, now: &Self) -> bool {
            let sign = now.told > self.told
                || now.processes > self.processes
                || now.ticks >= self.ticks + TICKS
                || now.bytes >= self.bytes + BYTES;
            let bytes = if sign { now.bytes } else { self.bytes };
            *self = Self { bytes, processes: self.processes.max(now.processes), ..now.clone() };
            sign
        }
    }

    /// Looks at a process once more; `told` counts what it has written.
    pub async fn look(pid: u32, told: u64, seen: &mut Seen) -> bool {
        let now = tokio::task::spawn_blocking(move || measure(pid)).await.unwrap_or_default();
        seen.note(&Seen { told, ..now })
    }

    #[cfg(not(target_os = "linux"))]
    fn measure(_: u32) -> Seen {
        Seen::default()
    }

    #[cfg(target_os = "linux")]
    fn measure(pid: u32) -> Seen {
        let mut all = Seen::default();
        let mut left = vec![pid];
        while let Some(pid) = left.pop() {
            let Some(ticks) = ticks(pid) else { continue };
            all.processes += 1;
            all.ticks += ticks;
            all.bytes += bytes(pid);
            // A fork bomb is not worth the time.
            if all.processes + left.len() < PROCESSES_MAX {
                left.extend(children(pid));
            }
        }
        all
    }

    /// So many processes of one source are looked at.
    #[cfg(target_os = "linux")]
    const PROCESSES_MAX: usize = 200;

    /// Processor time of a process and of its children that have ended.
    #[cfg(target_os = "linux")]
    fn ticks(pid: u32) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before may hold anything.
        let (_, fields) = stat.rsplit_once(") ")?;
        Some(fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum())
    }

    /// What a process has read and written, and its children that have ended.
    #[cfg(target_os = "linux")]
    fn bytes(pid: u32) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let of = |name| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or(0);
        of("rchar:") + of("wchar:")
    }

    #[cfg(target_os = "linux")]
    fn children(pid: u32) -> Vec<u32> {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
        let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
        lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_only_waits_shows_no_work() {
            let seen = |told, processes, ticks, bytes| Seen { told, processes, ticks, bytes };
            let mut known = Seen::default();
            assert!(known.note(&seen(0, 1, 0, 0)), "it is there");
            for (now, want) in [
                (seen(0, 1, 0, 0), false),
                (seen(1, 1, 0, 0), true),
                (seen(1, 1, 1, 0), false),
                (seen(1, 1, 2, 0), false),
                (seen(1, 1, 4, 0), true),
                (seen(1, 1, 4, BYTES - 1), false),
                (seen(1, 1, 4, BYTES), true),
                (seen(1, 1, 4, BYTES + 1), false),
                (seen(1, 2, 4, BYTES), true),
                (seen(1, 1, 3, 0), false),
                (seen(1, 2, 4, BYTES), false),
            ] {
                assert_eq!(known.note(&now), want, "{now:?}");
            }
        }

        #[cfg(target_os = "linux")]
        #[test]
        fn its_children_are_seen() {
            let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            let own = measure(std::process::id());
            assert!(own.processes >= 2 && own.bytes > 0, "{own:?}");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
