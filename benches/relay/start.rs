//! The relay's start with a large memory and nothing running, what it takes up then, and how fast its own tools answer.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use toolrelay::catalog::toolset::{Toolset, ToolsetSpec};
use toolrelay::catalog::{Listing, ServerNote};
use toolrelay::config::{self, SourceEntry, SystemLookup};
use toolrelay::control::key_of;
use toolrelay::store::{Kept, Store};

use crate::peer::{Call, INITIALIZE, INITIALIZED, Peer, Run};
use crate::report::{memory, mib, quantile, say, time, verdict};
use crate::rounds::Tries;
use crate::{Bench, Outcome};

/// How large a tool of the generated listings is: the mean of what real servers list.
const TOOL_BYTES: usize = 1800;
/// How many calls of the relay's own tools a round has.
pub const ROUND: usize = 50;
const VERBS: [&str; 10] = ["create", "list", "get", "update", "delete", "search", "send", "export", "merge", "archive"];
const NOUNS: [&str; 20] = [
    "issue",
    "invoice",
    "message",
    "calendar",
    "customer",
    "deployment",
    "file",
    "ticket",
    "branch",
    "contact",
    "report",
    "order",
    "webhook",
    "dashboard",
    "policy",
    "secret",
    "image",
    "payment",
    "comment",
    "release",
];

/// A remembered world.
pub struct World {
    pub sources: usize,
    pub tools: usize,
}

/// How often it is started, and the bars it is measured against.
struct Bars {
    starts: usize,
    start: Duration,
    memory: u64,
}

impl World {
    pub fn of(sources: usize, tools: usize) -> Self {
        Self { sources, tools }
    }
}

pub fn run(bench: &Bench) -> Outcome<()> {
    let starts = if bench.quick { 10 } else { 30 };
    let bars = Bars { starts, start: Duration::from_millis(10), memory: 20_000_000 };
    measure(bench, &World::of(50, 5000), &bars)?;
    let starts = if bench.quick { 3 } else { 10 };
    let bars = Bars { starts, start: Duration::from_millis(250), memory: 150_000_000 };
    measure(bench, &World::of(1000, 50_000), &bars)
}

fn measure(bench: &Bench, world: &World, bars: &Bars) -> Outcome<()> {
    say(&format!("\nStart with {} sources and {} tools remembered, none running", world.sources, world.tools));
    let (file, marker) = remember(bench, world)?;
    let (mut first, mut both) = (Vec::new(), Vec::new());
    for _ in 0..bars.starts {
        first.push(start(bench, &file, false)?);
        both.push(start(bench, &file, true)?);
    }
    let median = |times: &mut Vec<Duration>| quantile(times, 0.5);
    let initialize = median(&mut first);
    let bar = Duration::from_millis(50);
    say(&format!("  to answered initialize: {}", verdict(&time(initialize), &time(bar), initialize < bar)));
    let answer = median(&mut both);
    let (answered, bar) = (time(answer), time(bars.start));
    say(&format!("  to answered initialize and tools/list: {}", verdict(&answered, &bar, answer <= bars.start)));
    tools(bench, &file, bars.memory)?;
    if marker.exists() {
        return Err("a source was started, though nobody called it".into());
    }
    say("  sources started: none");
    Ok(())
}

/// The time from the process's start to its answer.
fn start(bench: &Bench, file: &std::path::Path, list: bool) -> Outcome<Duration> {
    let mut text =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{INITIALIZE}}}\n").into_bytes();
    if list {
        text.extend_from_slice(INITIALIZED);
        text.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n");
    }
    let began = Instant::now();
    let mut relay = Peer::spawn(&mut bench.serve(file))?;
    relay.send(&text)?;
    let answers = relay.answers(1 + usize::from(list))?;
    let took = began.elapsed();
    let wanted = if list { "\"find_tools\"" } else { "\"serverInfo\"" };
    if answers.last().is_some_and(|answer| answer.contains(wanted)) {
        Ok(took)
    } else {
        Err(format!("the start is answered with {answers:?}").into())
    }
}

/// Memory, and the relay's own tools.
fn tools(bench: &Bench, file: &std::path::Path, bar: u64) -> Outcome<()> {
    let mut relay = Peer::spawn(&mut bench.serve(file))?;
    relay.greet()?;
    relay.ask("tools/list", "{}")?;
    let began = Instant::now();
    relay.ask("tools/call", "{\"name\":\"list_toolsets\",\"arguments\":{}}")?;
    say(&format!("  to the first list_toolsets, all listings read: {}", time(began.elapsed())));
    let pid = relay.pid();
    let tell = |when: &str| {
        let (now, peak) = (memory(pid, "VmRSS"), memory(pid, "VmHWM"));
        let own = memory(pid, "RssAnon");
        let text = verdict(&mib(now), &mib(bar), now <= bar);
        say(&format!("  memory {when}: {text}, of which anonymous {}, peak {}", mib(own), mib(peak)));
    };
    tell("with the catalog loaded");
    let began = Instant::now();
    relay.ask("tools/call", "{\"name\":\"find_tools\",\"arguments\":{\"query\":\"create an invoice\"}}")?;
    say(&format!("  the first find_tools, which builds the index: {}", time(began.elapsed())));
    tell("with the index built");
    let rounds = if bench.quick { 4 } else { 20 };
    let mut times = timed(bench, rounds, |at| relay.calls(&mut Call::new("find_tools", &query(at)), 1, 1, false))?;
    tell_times("find_tools", &mut times, Duration::from_millis(2));
    let mut times = timed(bench, rounds, |_| relay.calls(&mut Call::new("list_toolsets", "{}"), 1, 1, false))?;
    tell_times("list_toolsets", &mut times, Duration::from_millis(5));
    tell("at the end");
    Ok(())
}

/// Times so many rounds of calls, one after the other.
fn timed(bench: &Bench, rounds: usize, mut call: impl FnMut(usize) -> Outcome<Run>) -> Outcome<Vec<Duration>> {
    let mut times = Vec::new();
    for round in 0..rounds {
        let mut tries = Tries::of(&bench.counted);
        times.extend(loop {
            let runs: Vec<Run> = (round * ROUND..(round + 1) * ROUND).map(&mut call).collect::<Outcome<_>>()?;
            if let Some(runs) = tries.end(runs) {
                break runs.into_iter().flat_map(|run| run.latencies);
            }
        });
    }
    Ok(times)
}

/// The arguments of a search that differ from one to the next.
pub fn query(at: usize) -> String {
    let (verb, noun) = (VERBS[at % VERBS.len()], NOUNS[at % NOUNS.len()]);
    format!("{{\"query\":\"{verb} a {noun} for a customer with number {at}\"}}")
}

pub fn tell_times(tool: &str, times: &mut [Duration], bar: Duration) {
    let (middle, most) = (quantile(times, 0.5), quantile(times, 0.99));
    say(&format!("  {tool}: p50 {}, p99 {}", time(middle), verdict(&time(most), &time(bar), most <= bar)));
}

/// Writes a configuration and a memory in which every source has been listed. Gives the file, and one that is there as
/// soon as any source is started.
pub fn remember(bench: &Bench, world: &World) -> Outcome<(PathBuf, PathBuf)> {
    let folder = bench.folder.path().join(format!("world-{}", world.sources));
    fs::create_dir_all(&folder)?;
    let (file, marker, state) = (folder.join("sources.toml"), folder.join("started"), folder.join("state"));
    let mut text = format!("[relay]\nstate_dir = \"{}\"\n", state.display());
    for at in 0..world.sources {
        let noun = NOUNS[at % NOUNS.len()];
        let _ = write!(
            text,
            "[source.{noun}-{at}]\nprovider = \"acme {}\"\nsummary = \"Everything about each {noun} of tenant {at}.\"\n\
             command = \"touch\"\nargs = [{marker:?}]\n",
            at % 17
        );
    }
    fs::write(&file, &text)?;
    let config = config::check(&text, &file, &SystemLookup::new())?;
    let (store, _) = Store::open(&state)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for (entry, at) in config.sources.iter().zip(0..) {
        let (SourceEntry::Usable(source), Some(key)) = (entry, key_of(entry)) else {
            return Err("a source of the benchmark is misconfigured".into());
        };
        let spec = ToolsetSpec {
            id: &source.id,
            name: &source.name,
            provider: &source.provider,
            summary: source.summary.as_deref(),
            prefix: &source.prefix,
            rules: &source.rules,
        };
        let each = world.tools / world.sources;
        let note = ServerNote { name: source.id.to_string(), ..ServerNote::default() };
        let listing = Listing::new((0..each).map(|tool| tool_json(at * each + tool).into()), note, None);
        let outline = serde_json::to_string(&Toolset::build(&spec, &listing).to_outline())?;
        let (note, tools, digest) = (listing.note.clone(), listing.to_blob(), listing.digest);
        store.keep_listing(Kept { key, digest, outline, note, incomplete: None, tools });
        runtime.block_on(store.flush());
    }
    Ok((file, marker))
}

/// A tool of [`TOOL_BYTES`] bytes or a little more, with words that differ from tool to tool.
fn tool_json(number: usize) -> String {
    let word = |step: usize| NOUNS[(number * 7 + step * 3 + number / 20) % NOUNS.len()];
    let verb = VERBS[number % VERBS.len()];
    let mut json = format!(
        "{{\"name\":\"{verb}_{}_{number}\",\"description\":\"{verb} one {} of a {} by its number, with its {} where it has one. \
         Fails when the {} is locked; see the {} first.\",\"inputSchema\":{{\"type\":\"object\",\"properties\":{{",
        word(0),
        word(0),
        word(1),
        word(2),
        word(3),
        word(4),
    );
    let mut at = 0;
    while json.len() < TOOL_BYTES - 120 {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            json,
            "{comma}\"{}_{at}\":{{\"type\":\"string\",\"description\":\"The {} of the {} that the {} was made with, as \
             shown by list_{}\",\"enum\":[\"{}\",\"{}_{}\"]}}",
            word(at),
            word(at + 1),
            word(at + 2),
            word(at + 3),
            word(at + 4),
            word(at + 5),
            word(at + 6),
            number % 97,
        );
        at += 1;
    }
    let _ = write!(
        json,
        "}},\"required\":[\"{}_0\"]}},\"annotations\":{{\"readOnlyHint\":{}}}}}",
        word(0),
        number.is_multiple_of(3)
    );
    json
}
