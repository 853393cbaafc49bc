//! What a search costs within the process: `find_tools` as a whole, from its arguments to the text of its reply, and the
//! making of the index.

use std::hint::black_box;
use std::time::{Duration, Instant};

use toolrelay::catalog::Index;
use toolrelay::config::{self, SystemLookup};
use toolrelay::menu;
use toolrelay::relay::{Built, Relay};

use crate::report::{own_time, quantile, say, time, verdict};
use crate::rounds::Tries;
use crate::start::{self, ROUND, World};
use crate::{Bench, Outcome};

/// How often the index is made.
const BUILDS: u32 = 5;

pub fn run(bench: &Bench) -> Outcome<()> {
    measure(bench, &World::of(1000, 50_000), Duration::from_millis(2), Some(Duration::from_secs(1)))?;
    measure(bench, &World::of(100, 10_000), Duration::from_millis(1), None)
}

fn measure(bench: &Bench, world: &World, call_bar: Duration, index_bar: Option<Duration>) -> Outcome<()> {
    say(&format!("\nSearch in process, {} sources and {} tools", world.sources, world.tools));
    let (file, _) = start::remember(bench, world)?;
    let text = std::fs::read_to_string(&file)?;
    let config = config::check(&text, &file, &SystemLookup::new())?;
    let state = config.relay.state_dir.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let relay = Built::new(config, state).spawn();
        relay.control.recall();
        let catalog = relay.control.snapshots.loaded().await.catalog.clone();
        if let Some(bar) = index_bar {
            // The first one reads the vocabulary into memory too.
            let before = own_time();
            let mut times: Vec<Duration> = (0..BUILDS)
                .map(|_| {
                    let began = Instant::now();
                    black_box(Index::build(&catalog));
                    began.elapsed()
                })
                .collect();
            let first = times[0];
            let own = (own_time() - before) / BUILDS;
            let text = format!("first {}, median {}", time(first), time(quantile(&mut times, 0.5)));
            let verdict = verdict(&text, &time(bar), first <= bar);
            say(&format!("  index build: {verdict}, of processor time {} on all threads", time(own)));
        }
        // The first call makes the index.
        let mut outcome = ask(&relay, 0).await.map(drop);
        let (mut times, mut own) = (Vec::new(), Duration::ZERO);
        for round in 0..if bench.quick { 10 } else { 100 } {
            let mut tries = Tries::of(&bench.counted);
            let (some, took) = loop {
                let (mut some, before) = (Vec::new(), own_time());
                for at in round * ROUND + 1..=(round + 1) * ROUND {
                    outcome = outcome.and(ask(&relay, at).await.map(|took| some.push(took)));
                }
                if let Some(round) = tries.end((some, own_time() - before)) {
                    break round;
                }
            };
            times.extend(some);
            own += took;
        }
        relay.drain().await;
        outcome?;
        start::tell_times("find_tools, whole call", &mut times, call_bar);
        let each = own / u32::try_from(times.len()).unwrap_or(u32::MAX);
        say(&format!("  of processor time {} a call", time(each)));
        Ok(())
    })
}

/// Searches once; gives how long that took.
async fn ask(relay: &Relay, at: usize) -> Outcome<Duration> {
    let query = start::query(at);
    let began = Instant::now();
    let reply = menu::run(&relay.menu(), "find_tools", Some(&query)).await;
    let took = began.elapsed();
    let reply = reply.map_err(|error| error.message.clone())?;
    if reply.starts_with("{\"matches\":[{") { Ok(took) } else { Err(format!("a search finds nothing: {reply}").into()) }
}
