//! Calls to one source while another one misbehaves, against the same calls before, in one run: how much of the one is to be
//! felt by the other, and what the relay needs for it.

use crate::peer::{Call, Peer, Run};
use crate::report::{memory, mib, quantile, say, table, time};
use crate::{Bench, Outcome};

const MIB: usize = 1024 * 1024;
/// A ratio of p99 that is fair on a machine with a core to spare.
const P99_BAR: f64 = 3.0;

/// One way to misbehave.
struct Kind {
    title: &'static str,
    /// The flags of the source.
    flags: &'static [&'static str],
    begin: Begin,
}

/// How it begins.
enum Begin {
    /// One call sets it off.
    Once(&'static str, &'static str),
    /// So many calls that get no answer soon.
    Open(usize, &'static str, String),
    /// One call of this kind is always under way.
    Steady(&'static str, String),
    /// The same, with calls that fail.
    Failing(&'static str),
}

fn kinds() -> Vec<Kind> {
    let kind = |title, flags, begin| Kind { title, flags, begin };
    let flood = || Begin::Once("flood", "{}");
    vec![
        kind("64 calls that take long, 400 that wait", &[], Begin::Open(464, "sleep", "{\"ms\":600000}".to_owned())),
        kind("never answers", &["--mute"], Begin::Open(200, "echo", "{}".to_owned())),
        kind("floods log lines", &["--flood", "log"], flood()),
        kind("floods torn lines", &["--flood", "halves"], flood()),
        kind("floods progress", &["--flood", "progress"], flood()),
        kind("floods garbage", &["--flood", "garbage"], flood()),
        kind("floods stderr", &["--flood", "stderr"], flood()),
        kind("storms list_changed", &["--flood", "changed"], flood()),
        kind("16 MiB results, one after another", &[], Begin::Steady("big", format!("{{\"bytes\":{}}}", 16 * MIB))),
        kind("64 MiB results, one after another", &[], Begin::Steady("big", format!("{{\"bytes\":{}}}", 64 * MIB))),
        kind("crashes again and again", &["--exit-after-ms", "5"], Begin::Failing("sleep")),
        kind("stops reading, 60 MiB wait", &[], Begin::Once("stop_reading", "{\"ms\":600000}")),
        kind("20,000 tools, being listed", &["--tools-json"], Begin::Once("t0", "{}")),
    ]
}

pub fn run(bench: &Bench) -> Outcome<()> {
    say("\nCalls to one source while another one misbehaves (fixture), 1 in flight");
    let count = if bench.quick { 1000 } else { 5000 };
    let mut rows = Vec::new();
    for (at, kind) in kinds().iter().enumerate() {
        rows.push(row(bench, at, kind, count)?);
    }
    table(&["", "p50 before", "p99", "p50 while", "p99", "p50 to before", "p99 to before", "peak memory"], &rows);
    say(&format!("  beside p99: whether it keeps the bar of {P99_BAR}x"));
    Ok(())
}

fn row(bench: &Bench, at: usize, kind: &Kind, count: usize) -> Outcome<Vec<String>> {
    let mut flags: Vec<String> = kind.flags.iter().map(ToString::to_string).collect();
    if flags == ["--tools-json"] {
        flags.push(many_tools(bench)?);
    }
    let program = bench.example("fixture");
    let sources = format!(
        "[source.good]\ncommand = {:?}\n[source.bad]\ncommand = {program:?}\nargs = {flags:?}\n",
        bench.example("raw_echo")
    );
    let mut relay = Peer::spawn(&mut bench.relay(&format!("isolation-{at}"), "", &sources)?)?;
    relay.greet()?;
    let mut good = Call::new("call_tool", &through("good", "echo", "{}"));
    relay.calls(&mut good, 1, count / 2, false)?;
    let before = relay.calls(&mut good, 1, count, false)?;
    let during = during(&mut relay, &kind.begin, &mut good, count)?;
    let peak = memory(relay.pid(), "VmHWM");
    relay.kill();
    Ok(cells(kind.title, before, during, peak))
}

/// The arguments of a call through the relay's dispatcher.
fn through(source: &str, tool: &str, arguments: &str) -> String {
    format!("{{\"source\":\"{source}\",\"tool\":\"{tool}\",\"arguments\":{arguments}}}")
}

fn during(relay: &mut Peer, begin: &Begin, good: &mut Call, count: usize) -> Outcome<Run> {
    match begin {
        Begin::Once(tool, arguments) => {
            let params = format!("{{\"name\":\"call_tool\",\"arguments\":{}}}", through("bad", tool, arguments));
            relay.ask("tools/call", &params)?;
            if *tool == "stop_reading" {
                let large = format!("{{\"text\":\"{}\"}}", "x".repeat(MIB));
                relay.leave(&Call::new("call_tool", &through("bad", "echo", &large)), 60)?;
            }
            relay.calls(good, 1, count, false)
        }
        Begin::Open(open, tool, arguments) => {
            relay.leave(&Call::new("call_tool", &through("bad", tool, arguments)), *open)?;
            relay.calls(good, 1, count, false)
        }
        Begin::Steady(tool, arguments) => {
            let mut large = Call::new("call_tool", &through("bad", tool, arguments));
            Ok(relay.beside(&mut large, good, count, 10)?.0)
        }
        Begin::Failing(tool) => {
            let mut failing = Call::new("call_tool", &through("bad", tool, "{\"ms\":600000}")).of_any_end();
            Ok(relay.beside(&mut failing, good, count, 10)?.0)
        }
    }
}

/// A file with a very long list of tools.
fn many_tools(bench: &Bench) -> Outcome<String> {
    let file = bench.folder.path().join("many_tools.json");
    let text = "Does what it says and nothing else. ".repeat(8);
    let tool = |n| format!("{{\"name\":\"t{n}\",\"description\":\"{text}\",\"inputSchema\":{{\"type\":\"object\"}}}}");
    let tools: Vec<String> = (0..20_000).map(tool).collect();
    std::fs::write(&file, format!("[{}]", tools.join(",")))?;
    Ok(file.display().to_string())
}

fn cells(title: &str, mut before: Run, mut during: Run, peak: u64) -> Vec<String> {
    let of = |run: &mut Run| [0.5, 0.99].map(|share| quantile(&mut run.latencies, share));
    let (before, during) = (of(&mut before), of(&mut during));
    let ratio = |at: usize| during[at].as_secs_f64() / before[at].as_secs_f64();
    let mut cells = vec![title.to_owned()];
    cells.extend([before[0], before[1], during[0], during[1]].map(time));
    cells.push(format!("{:.2}x", ratio(0)));
    cells.push(format!("{:.2}x {}", ratio(1), if ratio(1) <= P99_BAR { "ok" } else { "MISSED" }));
    cells.push(mib(peak));
    cells
}
