//! Owns the order in which a batch's calls get their places: sources take turns, so that a slow one never starves another.
//! It runs nothing.

use std::collections::VecDeque;

/// What waits for one source, or for none; `T` is one call.
struct Lane<K, T> {
    source: K,
    /// How many of its calls may hold a place.
    most: usize,
    held: usize,
    waiting: VecDeque<(usize, T)>,
}

/// The calls of a batch, by the source they go to.
pub struct Lanes<K, T> {
    lanes: Vec<Lane<K, T>>,
    /// Places that nobody holds.
    free: usize,
}

/// A call that has its place.
pub struct Turn<T> {
    pub index: usize,
    pub call: T,
    /// To be given back when the call is over.
    pub lane: usize,
}

impl<K: PartialEq, T> Lanes<K, T> {
    pub fn new(places: usize) -> Self {
        Self { lanes: Vec::new(), free: places }
    }

    /// Lets a call wait for its source, which has no more than `most` at a time.
    pub fn add(&mut self, source: K, most: usize, index: usize, call: T) {
        let at = self.lanes.iter().position(|lane| lane.source == source).unwrap_or_else(|| {
            self.lanes.push(Lane { source, most, held: 0, waiting: VecDeque::new() });
            self.lanes.len() - 1
        });
        self.lanes[at].waiting.push_back((index, call));
    }

    /// The next call, if there is a place: of the source that holds the fewest, and there the first.
    pub fn next(&mut self) -> Option<Turn<T>> {
        let open = self.lanes.iter().enumerate().filter(|(_, lane)| self.free > 0 && lane.held < lane.most);
        let ready = open.filter_map(|(at, lane)| Some((lane.held, lane.waiting.front()?.0, at)));
        let (_, index, at) = ready.min()?;
        let lane = &mut self.lanes[at];
        let (_, call) = lane.waiting.pop_front()?;
        lane.held += 1;
        self.free -= 1;
        Some(Turn { index, call, lane: at })
    }

    /// The place of a call that is over.
    pub fn give_back(&mut self, lane: usize) {
        self.lanes[lane].held -= 1;
        self.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls `waiting` for their sources, and how many each may have.
    fn lanes(places: usize, waiting: &str, most: usize) -> Lanes<char, ()> {
        let mut lanes = Lanes::new(places);
        waiting.chars().enumerate().for_each(|(index, source)| lanes.add(source, most, index, ()));
        lanes
    }

    fn turns(lanes: &mut Lanes<char, ()>) -> Vec<usize> {
        std::iter::from_fn(|| lanes.next()).map(|turn| turn.index).collect()
    }

    #[test]
    fn sources_take_turns() {
        assert_eq!(turns(&mut lanes(8, "ssssssssssssf", 64)), [0, 12, 1, 2, 3, 4, 5, 6]);
        assert_eq!(turns(&mut lanes(8, "ssssssssssssf", 1)), [0, 12]);
        assert_eq!(turns(&mut lanes(3, "aabbc", 64)), [0, 2, 4]);
        assert_eq!(turns(&mut lanes(1, "ab", 64)), [0]);
    }

    #[test]
    fn places_that_are_given_back_go_to_whoever_has_the_fewest() {
        let mut lanes = lanes(4, "sssssfffff", 64);
        assert_eq!(turns(&mut lanes), [0, 5, 1, 6]);
        // `s` hangs, and `f` goes on with the places it has.
        for next in [7, 8, 9] {
            lanes.give_back(1);
            assert_eq!(turns(&mut lanes), [next]);
        }
        lanes.give_back(1);
        assert_eq!(turns(&mut lanes), [2]);
        lanes.give_back(1);
        assert_eq!(turns(&mut lanes), [3]);
    }

    #[test]
    fn one_source_keeps_the_order_of_the_calls() {
        let mut lanes = lanes(1, "aaa", 64);
        for next in [0, 1, 2] {
            assert_eq!(turns(&mut lanes), [next]);
            lanes.give_back(0);
        }
        assert!(lanes.next().is_none());
    }
}
