//! Owns how much a source may be owed: answers to requests of its own that it has not read yet. One that asks on and on and
//! reads nothing is read no more itself, until it does. It knows nothing of calls, which have a limit of their own.

use super::link::Link;

/// From so many bytes on its answers are waited for.
const MOST: u64 = 1024 * 1024;
/// What an answer may have more than its request.
const MORE: u64 = 128;

/// What is owed to one source at the most.
#[derive(Default)]
pub struct Debt {
    /// What it had asked so far at the last look.
    asked: u64,
    owed: u64,
}

impl Debt {
    /// A line was taken. Whether the source has to read before the next one is.
    pub fn is_high(&mut self, link: &Link) -> bool {
        let asked = link.asked();
        if asked == self.asked {
            return false;
        }
        // No more is owed than waits to be written, calls among it: large arguments alone hold nobody up, for a source may
        // read them only when its own words have been taken.
        self.owed = (self.owed + (asked - self.asked)).min(link.outbox.queued() as u64);
        self.asked = asked;
        self.owed > MOST
    }
}

/// What a request of so many bytes costs.
pub fn cost(request: usize) -> u64 {
    request as u64 + MORE
}
