//! Calls through the relay against the same calls direct, by direct name and by `call_tool`.

use std::process::Command;

use crate::peer::{Call, Peer};
use crate::report::{cpu_time, memory, mib, say, table, verdict};
use crate::rounds::{Figures, Round, Tries};
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
    if bench.quick { 7 } else { 21 }
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
    vec![case(1, 600, 1.5, None), case(16, 1600, 1.2, None), case(64, 3200, 1.2, Some(0.8))]
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
        rows.extend(compare(bench, case, rounds, &mut direct, &mut relay)?);
    }
    table(&["", "in flight", "p50", "p99", "calls/s", "relay CPU/call", "p50 to direct", "rate to direct"], &rows);
    let peak = memory(relay.pid(), "VmHWM");
    say(&format!("  peak memory of the relay: {}", verdict(&mib(peak), &mib(PEAK_BAR), peak < PEAK_BAR)));
    Ok(())
}

/// Calls under way, calls in all, and whether their answers are read.
type Size = (usize, usize, bool);

/// A round of calls to a process, made again where the host held it up.
pub fn round(bench: &Bench, peer: &mut Peer, call: &mut Call, (in_flight, count, reads): Size) -> Outcome<Round> {
    let mut tries = Tries::of(&bench.counted);
    loop {
        let before = cpu_time(peer.pid());
        let run = peer.calls(call, in_flight, count, reads)?;
        let cpu = cpu_time(peer.pid()).saturating_sub(before);
        if let Some(round) = tries.end(Round::of(run.latencies, run.total, cpu)) {
            return Ok(round);
        }
    }
}

fn row(way: &str, case: &Case, own: &Figures, direct: Option<&Figures>) -> Vec<String> {
    let mut row = vec![format!("{} {way}", case.title), case.in_flight.to_string()];
    row.extend(own.cells());
    if let Some(direct) = direct {
        row.extend([own.cpu(), own.p50_to(direct, case.p50_bar), own.rate_to(direct, case.rate_bar)]);
    }
    row
}

fn compare(
    bench: &Bench,
    case: &Case,
    rounds: usize,
    direct: &mut Peer,
    relay: &mut Peer,
) -> Outcome<Vec<Vec<String>>> {
    let mut straight = Call::new(case.tool, &case.arguments);
    direct.calls(&mut straight, case.in_flight, case.in_flight, case.reads)?;
    let mut named = straight.by_name(&format!("b__{}", case.tool), &case.arguments);
    let inner = format!("{{\"source\":\"bench\",\"tool\":\"{}\",\"arguments\":{}}}", case.tool, case.arguments);
    let mut dispatched = straight.by_name("call_tool", &inner);
    relay.calls(&mut named, case.in_flight, case.in_flight, case.reads)?;
    let size = (case.in_flight, case.count, case.reads);
    let mut figures = <[Figures; 3]>::default();
    for _ in 0..rounds {
        figures[0].add(round(bench, direct, &mut straight, size)?);
        figures[1].add(round(bench, relay, &mut named, size)?);
        figures[2].add(round(bench, relay, &mut dispatched, size)?);
    }
    let [direct, named, dispatched] = &figures;
    Ok(vec![
        row("direct", case, direct, None),
        row("by name", case, named, Some(direct)),
        row("call_tool", case, dispatched, Some(direct)),
    ])
}
