//! Owns the way by which requests came from relay to relay: each has a mark, and tells those of all it is asked through to the
//! sources that it asks. A relay that finds its own there is its own source, by whatever detour. It sends nothing itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// What carries the marks, separated by commas.
pub const HEADER: HeaderName = HeaderName::from_static("toolrelay-via");
/// How many marks are told. Whoever sends more is no relay, or stands behind more of them than is of use.
const MARKS_MAX: usize = 64;
/// The longest mark that is taken.
const MARK_MAX: usize = 32;
/// How long a relay is taken to stand before this one after its last request: one that was pointed elsewhere is soon forgotten.
const KEPT: Duration = Duration::from_secs(15 * 60);

/// The marks of this relay and of those before it. Cheap to clone.
#[derive(Clone)]
pub struct Via(Arc<Marks>);

struct Marks {
    own: String,
    /// What is told where there is none before it.
    alone: HeaderValue,
    /// Of those before it, each with when it was last seen.
    before: Mutex<BTreeMap<String, Instant>>,
}

impl Default for Via {
    fn default() -> Self {
        let own = crate::name::unguessable();
        let alone = header(&own);
        Self(Arc::new(Marks { own, alone, before: Mutex::default() }))
    }
}

fn header(marks: &str) -> HeaderValue {
    HeaderValue::from_str(marks).expect("BUG: marks are letters and digits")
}

impl Via {
    /// What every request to a source says.
    pub fn told(&self) -> HeaderValue {
        let before = self.0.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_empty() {
            return self.0.alone.clone();
        }
        let recent = before.iter().filter(|(_, seen)| seen.elapsed() < KEPT).map(|(mark, _)| mark.as_str());
        let marks: Vec<_> = std::iter::once(self.0.own.as_str()).chain(recent).take(MARKS_MAX).collect();
        header(&marks.join(","))
    }

    /// Takes note of the relays that a client's request came through; `false` when this one is among them.
    pub fn note(&self, headers: &HeaderMap) -> bool {
        let lists = headers.get_all(HEADER).iter().filter_map(|list| list.to_str().ok());
        let marks: Vec<_> = lists.flat_map(|list| list.split(',')).map(str::trim).take(MARKS_MAX).collect();
        if marks.contains(&self.0.own.as_str()) {
            return false;
        }
        let mut before = self.0.before.lock().unwrap_or_else(PoisonError::into_inner);
        if !marks.is_empty() {
            before.retain(|_, seen| seen.elapsed() < KEPT);
        }
        let is_mark =
            |mark: &&str| (1..=MARK_MAX).contains(&mark.len()) && mark.bytes().all(|byte| byte.is_ascii_alphanumeric());
        for mark in marks.into_iter().filter(is_mark) {
            if before.len() < MARKS_MAX || before.contains_key(mark) {
                before.insert(mark.to_owned(), Instant::now());
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of the one to the other; whether it is taken.
    fn asks(one: &Via, other: &Via) -> bool {
        other.note(&HeaderMap::from_iter([(HEADER, one.told())]))
    }

    #[test]
    fn a_ring_is_noticed_however_long() {
        for length in 1..5 {
            let ring: Vec<_> = (0..length).map(|_| Via::default()).collect();
            for number in 0..length - 1 {
                assert!(asks(&ring[number], &ring[number + 1]), "{length}: {number}");
            }
            assert!(!asks(&ring[length - 1], &ring[0]), "{length}");
        }
    }

    #[test]
    fn what_is_no_ring_is_let_through() {
        let [top, left, right, bottom] = [(); 4].map(|()| Via::default());
        for _ in 0..2 {
            for (one, other) in [(&top, &left), (&top, &right), (&left, &bottom), (&right, &bottom)] {
                assert!(asks(one, other));
            }
        }
        assert!(top.note(&HeaderMap::new()));
    }

    #[test]
    fn what_is_no_mark_goes_no_further() {
        let via = Via::default();
        let own = via.told();
        let odd = format!("a b,,\u{e9},{},\"", "x".repeat(33));
        assert!(via.note(&HeaderMap::from_iter([(HEADER, HeaderValue::from_bytes(odd.as_bytes()).unwrap())])));
        assert!(via.note(&HeaderMap::from_iter([(HEADER, HeaderValue::from_static("a b,,\"x"))])));
        assert_eq!(via.told(), own);
        for number in 0..200 {
            let mark = HeaderValue::from_str(&format!("m{number}")).unwrap();
            assert!(via.note(&HeaderMap::from_iter([(HEADER, mark)])));
        }
        assert_eq!(via.told().to_str().unwrap().split(',').count(), MARKS_MAX);
    }
}
