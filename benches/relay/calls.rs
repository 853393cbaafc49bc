//! Calls through the relay against the same calls direct, by direct name and by `call_tool`.

use std::process::Command;
use std::time::Duration;

use crate::peer::{Call, Peer};
use crate::report::{against, cpu_time, median, memory, mib, quantile, say, table, time, verdict};
use crate::{Bench, Outcome};

const MIB: usize = 1024 * 1024;
/// The most memory the relay may ever have taken, in bytes.
const PEAK_BAR: u64 = 40_000_000;

/// One comparison.
struct Case {
    title: &'static str,
    tool: &'static str,
    arguments: String,
    in_flight: usize,
    /// Whether the client reads each answer into a JSON tree, as clients do, or only looks for its id.
    reads: bool,
    /// How many calls a round has.
    count: usize,
    /// The bar for the ratio of p50.
    p50_bar: f64,
    /// The bar for the ratio of calls a second, where there is one.
    rate_bar: Option<f64>,
}

fn rounds(bench: &Bench) -> usize {
    if bench.quick { 5 } else { 15 }
}

pub fn small(bench: &Bench) -> Outcome<()> {
    say("\nCalls over stdio: a source that answers at once (raw_echo)");
    let raw = Command::new(bench.example("raw_echo"));
    let mut cases = small_cases("echo", "{}", true);
    cases.extend(small_cases("echo", "{}", false));
    against_source(bench, "raw", raw, cases, rounds(bench))
}

pub fn large(bench: &Bench) -> Outcome<()> {
    say("\nLarge results: the same source");
    let raw = Command::new(bench.example("raw_echo"));
    against_source(bench, "large", raw, large_cases(bench.quick), rounds(bench).min(9))
}

pub fn notes(bench: &Bench) -> Outcome<()> {
    say("\nCalls over stdio: an ordinary source (notes, on rmcp)");
    let notes = Command::new(bench.example("notes"));
    against_source(bench, "notes", notes, small_cases("get_note", "{\"id\":1}", true), rounds(bench))
}

fn small_cases(tool: &'static str, arguments: &str, reads: bool) -> Vec<Case> {
    let case = |in_flight, count, p50_bar, rate_bar| Case {
        title: if reads { "64 B" } else { "64 B, unread" },
        reads,
        tool,
        arguments: arguments.to_owned(),
        in_flight,
        count,
        p50_bar,
        rate_bar,
    };
    vec![case(1, 1500, 1.5, None), case(16, 3200, 1.2, None), case(64, 6400, 1.2, Some(0.8))]
}

fn large_cases(quick: bool) -> Vec<Case> {
    let count = if quick { 16 } else { 48 };
    let case = |title, tool, in_flight, reads| Case {
        title,
        reads,
        tool,
        arguments: format!("{{\"bytes\":{MIB}}}"),
        in_flight,
        count,
        p50_bar: 2.0,
        rate_bar: None,
    };
    let read = [1, 4, 16]
        .into_iter()
        .flat_map(|n| [case("1 MiB text", "text", n, true), case("1 MiB structured", "structured", n, true)]);
    let unread =
        [case("1 MiB text, unread", "text", 1, false), case("1 MiB structured, unread", "structured", 1, false)];
    read.chain(unread).collect()
}

/// Runs cases against one source, direct and through one relay.
fn against_source(bench: &Bench, name: &str, mut source: Command, cases: Vec<Case>, rounds: usize) -> Outcome<()> {
    let entry = format!("[source.bench]\ncommand = {:?}\nprefix = \"b\"", source.get_program());
    let mut direct = Peer::spawn(&mut source)?;
    let mut relay = Peer::spawn(&mut bench.relay(name, "exposure = \"eager\"", &entry)?)?;
    direct.greet()?;
    relay.greet()?;
    relay.ask("tools/list", "{}")?;
    if name == "notes" {
        let note = "\"arguments\":{\"title\":\"a note\",\"body\":\"0123456789abcdef0123456789abcdef\"}";
        direct.ask("tools/call", &format!("{{\"name\":\"add_note\",{note}}}"))?;
        relay.ask("tools/call", &format!("{{\"name\":\"b__add_note\",{note}}}"))?;
    }
    let mut rows = Vec::new();
    for case in &cases {
        rows.extend(compare(case, rounds, &mut direct, &mut relay)?);
    }
    table(&["", "in flight", "p50", "p99", "calls/s", "relay CPU/call", "p50 to direct", "rate to direct"], &rows);
    let peak = memory(relay.pid(), "VmHWM");
    say(&format!("  peak memory of the relay: {}", verdict(&mib(peak), &mib(PEAK_BAR), peak < PEAK_BAR)));
    Ok(())
}

/// The figures of one way to call, over all rounds.
#[derive(Default)]
struct Figures {
    p50: Vec<Duration>,
    p99: Vec<Duration>,
    rate: Vec<f64>,
    cpu: Duration,
    calls: usize,
}

impl Figures {
    fn round(&mut self, peer: &mut Peer, call: &mut Call, case: &Case) -> Outcome<()> {
        let before = cpu_time(peer.pid());
        let mut run = peer.calls(call, case.in_flight, case.count, case.reads)?;
        self.cpu += cpu_time(peer.pid()).saturating_sub(before);
        self.calls += case.count;
        self.rate.push(case.count as f64 / run.total.as_secs_f64());
        self.p50.push(quantile(&mut run.latencies, 0.5));
        self.p99.push(quantile(&mut run.latencies, 0.99));
        Ok(())
    }

    fn row(&self, way: &str, case: &Case, direct: &Self) -> Vec<String> {
        let ratios =
            |own: &[f64], other: &[f64]| median(&mut own.iter().zip(other).map(|(a, b)| a / b).collect::<Vec<_>>());
        let seconds = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
        let rate = median(&mut self.rate.clone());
        let mut row = vec![
            format!("{} {way}", case.title),
            case.in_flight.to_string(),
            time(quantile(&mut self.p50.clone(), 0.5)),
            time(quantile(&mut self.p99.clone(), 0.5)),
            if rate < 10_000.0 { format!("{rate:.0}") } else { format!("{:.1}k", rate / 1e3) },
        ];
        if !std::ptr::eq(self, direct) {
            row.push(time(self.cpu / u32::try_from(self.calls).unwrap_or(u32::MAX)));
            row.push(against(ratios(&seconds(&self.p50), &seconds(&direct.p50)), case.p50_bar, false));
            let ratio = ratios(&self.rate, &direct.rate);
            row.push(case.rate_bar.map_or_else(|| format!("{ratio:.2}x"), |bar| against(ratio, bar, true)));
        }
        row
    }
}

fn compare(case: &Case, rounds: usize, direct: &mut Peer, relay: &mut Peer) -> Outcome<Vec<Vec<String>>> {
    let mut straight = Call::new(case.tool, &case.arguments);
    direct.calls(&mut straight, case.in_flight, case.in_flight, case.reads)?;
    let mut named = straight.by_name(&format!("b__{}", case.tool), &case.arguments);
    let inner = format!("{{\"source\":\"bench\",\"tool\":\"{}\",\"arguments\":{}}}", case.tool, case.arguments);
    let mut dispatched = straight.by_name("call_tool", &inner);
    relay.calls(&mut named, case.in_flight, case.in_flight, case.reads)?;
    let mut figures = <[Figures; 3]>::default();
    for _ in 0..rounds {
        figures[0].round(direct, &mut straight, case)?;
        figures[1].round(relay, &mut named, case)?;
        figures[2].round(relay, &mut dispatched, case)?;
    }
    let ways = figures.iter().zip(["direct", "by name", "call_tool"]);
    Ok(ways.map(|(own, way)| own.row(way, case, &figures[0])).collect())
}
