//! Rounds of calls: which of them count, and what they say. It makes no calls.

use std::cell::Cell;
use std::time::Duration;

use crate::report::{against, median, processors, quantile, time, withheld};

/// The host of a virtual machine may keep processor time from it. A round in which it kept back more than this share says
/// more of the host than of what is measured, and is made again.
const WITHHELD_MAX: f64 = 0.02;
/// So often at most; then the one counts in which it kept back least.
const TRIES: u32 = 6;

/// How much of the processors' time was kept back in the rounds that count.
#[derive(Default)]
pub struct Counted {
    rounds: Cell<u32>,
    tries: Cell<u32>,
    withheld: Cell<f64>,
}

impl Counted {
    /// The rounds since this was last asked, in words.
    pub fn take(&self) -> String {
        let (rounds, tries) = (self.rounds.take(), self.tries.take());
        let share = 100.0 * self.withheld.take() / f64::from(rounds.max(1));
        format!("{share:.1} % in the {rounds} rounds that count, of {tries}")
    }
}

/// The tries of one round.
pub struct Tries<'a, T> {
    counted: &'a Counted,
    before: Vec<u64>,
    made: u32,
    best: Option<(f64, T)>,
}

impl<'a, T> Tries<'a, T> {
    pub fn of(counted: &'a Counted) -> Self {
        Self { counted, before: processors(), made: 0, best: None }
    }

    /// A try has just ended with this. Gives what counts, or nothing where the round is to be made again.
    pub fn end(&mut self, with: T) -> Option<T> {
        let share = withheld(&self.before);
        self.made += 1;
        if self.best.as_ref().is_none_or(|(least, _)| share < *least) {
            self.best = Some((share, with));
        }
        let (least, best) =
            self.best.take_if(|(least, _)| *least <= WITHHELD_MAX || self.made == TRIES).or_else(|| {
                self.before = processors();
                None
            })?;
        let Counted { rounds, tries, withheld } = self.counted;
        rounds.set(rounds.get() + 1);
        tries.set(tries.get() + self.made);
        withheld.set(withheld.get() + least);
        Some(best)
    }
}

/// What a round of calls took.
pub struct Round {
    p50: f64,
    p99: f64,
    /// Calls a second.
    rate: f64,
    /// What the process took of the processors, for one call.
    cpu: f64,
}

impl Round {
    pub fn of(mut latencies: Vec<Duration>, total: Duration, cpu: Duration) -> Self {
        let calls = latencies.len() as f64;
        let mut at = |share| quantile(&mut latencies, share).as_secs_f64();
        Self { p50: at(0.5), p99: at(0.99), rate: calls / total.as_secs_f64(), cpu: cpu.as_secs_f64() / calls }
    }
}

/// One way to call, over all rounds.
#[derive(Default)]
pub struct Figures(Vec<Round>);

impl Figures {
    pub fn add(&mut self, round: Round) {
        self.0.push(round);
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(&mut self.0.iter().map(of).collect::<Vec<_>>())
    }

    /// p50, p99 and the calls a second.
    pub fn cells(&self) -> [String; 3] {
        let rate = self.median(|round| round.rate);
        let rate = if rate < 10_000.0 { format!("{rate:.0}") } else { format!("{:.1}k", rate / 1e3) };
        [self.time(|round| round.p50), self.time(|round| round.p99), rate]
    }

    /// What the process took of the processors, for one call.
    pub fn cpu(&self) -> String {
        self.time(|round| round.cpu)
    }

    fn time(&self, of: impl Fn(&Round) -> f64) -> String {
        time(Duration::from_secs_f64(self.median(of)))
    }

    /// This p50 against another one, round by round, beside its bar.
    pub fn p50_to(&self, other: &Self, bar: f64) -> String {
        against(self.to(other, |round| round.p50), bar, false)
    }

    /// The calls a second against those of another one.
    pub fn rate_to(&self, other: &Self, bar: Option<f64>) -> String {
        let ratio = self.to(other, |round| round.rate);
        bar.map_or_else(|| format!("{ratio:.2}x"), |bar| against(ratio, bar, true))
    }

    fn to(&self, other: &Self, of: impl Fn(&Round) -> f64) -> f64 {
        median(&mut self.0.iter().zip(&other.0).map(|(own, other)| of(own) / of(other)).collect::<Vec<_>>())
    }
}
