//! Owns which batches are kept, for how long, and how much their results may take. It runs nothing and reads no clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::snapshot::Principal;

/// How long a finished batch is kept.
pub const KEPT: Duration = Duration::from_secs(3600);
/// The most batches of one principal; the oldest finished ones make room.
pub const BATCHES_MAX: usize = 100;
/// The most bytes of one batch's results: they are told all at once, and each twice (as text, and as what it says).
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// The most bytes of the results of one principal's batches; the oldest finished ones make room.
pub const PRINCIPAL_BYTES_MAX: usize = 64 << 20;

/// What is kept of one batch; `T` is the batch.
struct Place<T> {
    principal: Principal,
    batch: T,
    /// Of its results.
    bytes: usize,
    /// When its last call was over.
    finished: Option<Instant>,
}

/// All batches that are kept, by their ids.
pub struct Kept<T> {
    all: BTreeMap<String, Place<T>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { all: BTreeMap::new() }
    }
}

impl<T: Clone> Kept<T> {
    /// Takes a batch in; `false` where the principal has too many that are still running.
    pub fn add(&mut self, id: &str, principal: &Principal, batch: T) -> bool {
        if self.of(principal).count() >= BATCHES_MAX && !self.forget_oldest(principal, id) {
            return false;
        }
        let place = Place { principal: principal.clone(), batch, bytes: 0, finished: None };
        self.all.insert(id.to_owned(), place);
        true
    }

    pub fn find(&self, id: &str, principal: &Principal, now: Instant) -> Option<T> {
        let found = self.all.get(id).filter(|place| place.principal == *principal);
        found.filter(|place| !place.is_over_age(now)).map(|place| place.batch.clone())
    }

    /// Whether there is room for so many bytes more of a batch's results, which then are counted.
    pub fn has_room(&mut self, id: &str, bytes: usize) -> bool {
        let Some(place) = self.all.get(id) else { return false };
        let principal = place.principal.clone();
        if place.bytes + bytes > BATCH_BYTES_MAX {
            return false;
        }
        while self.of(&principal).map(|place| place.bytes).sum::<usize>() + bytes > PRINCIPAL_BYTES_MAX {
            if !self.forget_oldest(&principal, id) {
                return false;
            }
        }
        self.all.get_mut(id).expect("BUG: the batch itself is not forgotten").bytes += bytes;
        true
    }

    /// Notes that the last call of a batch is over.
    pub fn finished(&mut self, id: &str, now: Instant) {
        if let Some(place) = self.all.get_mut(id) {
            place.finished.get_or_insert(now);
        }
    }

    /// Forgets what has been finished for long; whether that was any.
    pub fn expire(&mut self, now: Instant) -> bool {
        let before = self.all.len();
        self.all.retain(|_, place| !place.is_over_age(now));
        self.all.len() < before
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn of<'a>(&'a self, principal: &'a Principal) -> impl Iterator<Item = &'a Place<T>> {
        self.all.values().filter(move |place| place.principal == *principal)
    }

    /// Forgets the oldest finished batch of a principal, but for one; `false` where there is none.
    fn forget_oldest(&mut self, principal: &Principal, but: &str) -> bool {
        let own = self.all.iter().filter(|(id, place)| place.principal == *principal && *id != but);
        let oldest = own.filter_map(|(id, place)| Some((place.finished?, id))).min().map(|(_, id)| id.clone());
        oldest.is_some_and(|id| self.all.remove(&id).is_some())
    }
}

impl<T> Place<T> {
    fn is_over_age(&self, now: Instant) -> bool {
        self.finished.is_some_and(|finished| now.saturating_duration_since(finished) >= KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Which of the batches `0..` are there.
    fn there(kept: &Kept<usize>, principal: &Principal, now: Instant) -> Vec<usize> {
        (0..200).filter_map(|id: usize| kept.find(&id.to_string(), principal, now)).collect()
    }

    #[test]
    fn results_have_a_budget_by_batch_and_by_principal() {
        let (now, own, other) = (Instant::now(), Principal::local(), Principal::anonymous());
        let mut kept = Kept::default();
        for id in 0..5 {
            assert!(kept.add(&id.to_string(), &own, id));
        }
        assert!(kept.add("9", &other, 9));
        assert!(kept.has_room("0", 10 * MIB) && kept.has_room("0", 6 * MIB));
        assert!(!kept.has_room("0", 1), "more than a batch may have");
        assert!(!kept.has_room("1", BATCH_BYTES_MAX + 1));
        for id in ["1", "2", "3"] {
            assert!(kept.has_room(id, BATCH_BYTES_MAX));
        }
        assert!(!kept.has_room("4", 1), "all that might make room are running");
        assert!(kept.has_room("9", BATCH_BYTES_MAX), "another principal's do not count");
        kept.finished("2", now);
        kept.finished("1", now + Duration::from_secs(1));
        kept.finished("4", now);
        assert!(kept.has_room("4", 1), "the oldest finished one makes room, not the batch itself");
        assert_eq!(there(&kept, &own, now), [0, 1, 3, 4]);
        assert_eq!(there(&kept, &other, now), [9]);
    }

    #[test]
    fn finished_batches_are_kept_for_an_hour_and_no_longer() {
        let (now, own) = (Instant::now(), Principal::local());
        let mut kept = Kept::default();
        assert!(kept.add("0", &own, 0) && kept.add("1", &own, 1));
        kept.finished("0", now);
        kept.finished("0", now + KEPT);
        let late = now + KEPT;
        assert_eq!(there(&kept, &own, late - Duration::from_millis(1)), [0, 1]);
        assert_eq!(there(&kept, &own, late), [1]);
        assert!(kept.expire(late) && !kept.expire(late) && !kept.is_empty());
        kept.finished("1", now);
        assert!(kept.expire(late) && kept.is_empty());
    }

    #[test]
    fn the_oldest_finished_batch_makes_room_for_a_new_one() {
        let (now, own) = (Instant::now(), Principal::local());
        let mut kept = Kept::default();
        assert!((0..BATCHES_MAX).all(|id| kept.add(&id.to_string(), &own, id)));
        assert!(!kept.add("100", &own, 100));
        kept.finished("7", now + Duration::from_secs(1));
        kept.finished("8", now);
        assert!(kept.add("100", &own, 100) && kept.find("7", &own, now).is_some());
        assert!(kept.find("8", &own, now).is_none() && kept.find("7", &Principal::anonymous(), now).is_none());
    }
}
