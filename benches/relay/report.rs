//! What the figures are printed as, and what the system says of a process. It measures nothing itself.

use std::fs;
use std::io::Write;
use std::time::Duration;

/// One line of output; nobody is left to complain to when it cannot be written.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A table with its columns aligned: the first to the left, the others to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) {
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let all = || std::iter::once(&head).chain(rows);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    for row in all() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        say(&format!("  {}", cells.collect::<Vec<_>>().join("  ")));
    }
}

/// Processor, cores and kernel.
pub fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{}, {} cores, Linux {}, load {}",
        model.map_or("unknown processor", |(_, model)| model),
        std::thread::available_parallelism().map_or(0, usize::from),
        kernel.trim(),
        load.split_whitespace().next().unwrap_or("unknown"),
    )
}

/// What the processors did since the start of the machine, by kind, in ticks.
pub fn processors() -> Vec<u64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    line.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect()
}

/// The share of the processors' time that the host of this machine kept from it since `before`.
pub fn withheld(before: &[u64]) -> f64 {
    const WITHHELD: usize = 7;
    let since: Vec<_> = processors().iter().zip(before).map(|(now, then)| now.saturating_sub(*then)).collect();
    // What guests take is counted once more behind it.
    let all: u64 = since.iter().take(WITHHELD + 1).sum();
    since.get(WITHHELD).copied().unwrap_or(0) as f64 / all.max(1) as f64
}

/// A field of `/proc/PID/status` in bytes.
pub fn memory(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// How long the threads of a process have run.
pub fn cpu_time(pid: u32) -> Duration {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Duration::ZERO };
    let times = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

/// How long this process has run, on all of its threads, ended ones too; in steps of 10 ms.
pub fn own_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    Duration::from_millis(10 * fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>())
}

/// The value below which `share` of the values lie.
pub fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A time in the unit that suits it.
pub fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        0.0..100.0 => format!("{micros:.1} us"),
        100.0..10_000.0 => format!("{micros:.0} us"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

pub fn mib(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A figure beside its bar, and whether it keeps it.
pub fn against(value: f64, bar: f64, at_least: bool) -> String {
    let kept = if at_least { value >= bar } else { value <= bar };
    format!("{value:.2}x ({} {bar}x) {}", if at_least { ">=" } else { "<=" }, if kept { "ok" } else { "MISSED" })
}

/// The same for a figure whose text is given.
pub fn verdict(text: &str, bar: &str, kept: bool) -> String {
    format!("{text} (bar {bar}) {}", if kept { "ok" } else { "MISSED" })
}
