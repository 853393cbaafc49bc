//! Small calls to one source while another one sends very large results to the same client.

use std::process::Command;

use crate::peer::{Call, Peer, Run};
use crate::report::{quantile, say, table, time};
use crate::{Bench, Outcome};

const LARGE: usize = 16 * 1024 * 1024;

pub fn run(bench: &Bench) -> Outcome<()> {
    say("\nSmall calls beside 16 MiB results of another source, on one connection");
    let count = if bench.quick { 300 } else { 2000 };
    let program = bench.example("raw_echo");
    let sources = format!("[source.a]\ncommand = {program:?}\n[source.b]\ncommand = {program:?}\n");
    let mut relay = Peer::spawn(&mut bench.relay("beside", "exposure = \"eager\"", &sources)?)?;
    relay.greet()?;
    relay.ask("tools/list", "{}")?;
    let arguments = format!("{{\"bytes\":{LARGE}}}");
    let mut large = Call::new("a__text", &arguments);
    let mut small = Call::new("b__echo", "{}");
    relay.calls(&mut large, 1, 2, false)?;
    let alone = relay.calls(&mut small, 1, count, false)?;
    let (beside, answered) = relay.beside(&mut large, &mut small, count, if bench.quick { 20 } else { 100 })?;
    let each = beside.total / u32::try_from(answered.max(1)).unwrap_or(u32::MAX);
    // The client's pipe carries one message after another: a small one waits for the large one before it, whoever sends it.
    let mut direct = Peer::spawn(&mut Command::new(program))?;
    let mut straight = Call::new("text", &arguments);
    let one = direct.calls(&mut straight, 1, if bench.quick { 10 } else { 40 }, false)?;
    table(
        &["", "p50", "p99", "max"],
        &[row("alone", alone), row("beside", beside), row("one 16 MiB result direct, for comparison", one)],
    );
    say(&format!("  {answered} large results beside, one every {}", time(each)));
    Ok(())
}

fn row(title: &str, mut run: Run) -> Vec<String> {
    let mut cells = vec![title.to_owned()];
    cells.extend([0.5, 0.99, 1.0].map(|share| time(quantile(&mut run.latencies, share))));
    cells
}
