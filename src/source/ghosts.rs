//! Owns what is known of calls that ended without an answer, by a time limit or because they were taken back: the source may
//! still be at work on them, and ask something for them. It asks nobody.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::call::Who;

/// How long a source is taken to be at work on such a call. Many never answer one that was taken back, so without an end no
/// other client could be asked anything any more.
const AT_WORK: Duration = Duration::from_secs(300);
/// The same as seen by another client of the same principal: what is asked of the wrong one stays with one user.
const AT_WORK_FOR_OWNER: Duration = Duration::from_secs(30);
/// How many are remembered; the oldest are forgotten first.
const GHOSTS_MAX: usize = 1024;

/// The calls of one connection that ended without an answer, oldest first.
#[derive(Default)]
pub struct Ghosts(VecDeque<Ghost>);

struct Ghost {
    id: u64,
    whose: Option<Who>,
    /// The principal whose call it was, where that is known of a call that had no client to ask as well.
    owner: Option<u64>,
    since: Instant,
}

impl Ghosts {
    /// A call ends, and the source goes on with it for all that is known.
    pub fn add(&mut self, id: u64, whose: Option<Who>, owner: Option<u64>, now: Instant) {
        if self.0.len() >= GHOSTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Ghost { id, whose, owner, since: now });
    }

    /// The source has answered a call; `true` where it was one of these.
    pub fn answered(&mut self, id: u64) -> bool {
        let before = self.0.len();
        self.0.retain(|ghost| ghost.id != id);
        self.0.len() < before
    }

    /// Whether something that the source sent may belong to such a call of another client than this one. A call without a
    /// client, as of a batch, is taken for that of any client of its principal: nobody else could be asked for it.
    pub fn of_others(&mut self, whose: Option<Who>, now: Instant) -> bool {
        self.forget_old(now);
        self.0.iter().any(|ghost| {
            let is_owners = whose.is_some_and(|whose| ghost.owner == Some(whose.owner));
            let is_past = now.saturating_duration_since(ghost.since) >= AT_WORK_FOR_OWNER;
            !(is_owners && (is_past || ghost.whose.is_none())) && is_other(ghost.whose, whose)
        })
    }

    fn forget_old(&mut self, now: Instant) {
        while self.0.front().is_some_and(|ghost| now.saturating_duration_since(ghost.since) >= AT_WORK) {
            self.0.pop_front();
        }
    }
}

/// Whether two calls are of different clients. Each request of a modern client without a session has one of its own: those of
/// one principal are one client's.
fn is_other(one: Option<Who>, other: Option<Who>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => {
            one.owner != other.owner || (one.any_call || other.any_call) && one.client != other.client
        }
        (None, None) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(client: u64, owner: u64, any_call: bool) -> Option<Who> {
        Some(Who { client, owner, is_away: false, any_call })
    }

    #[test]
    fn clients_are_told_apart() {
        for (one, other, differ) in [
            (who(1, 1, true), who(1, 1, true), false),
            (who(1, 1, true), who(2, 1, true), true),
            (who(1, 1, true), who(1, 2, true), true),
            (who(1, 1, false), who(2, 1, false), false),
            (who(1, 1, false), who(2, 2, false), true),
            (who(1, 1, true), who(2, 1, false), true),
            (None, who(1, 1, true), true),
            (None, None, false),
        ] {
            assert_eq!((is_other(one, other), is_other(other, one)), (differ, differ), "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_ghost_lasts_until_it_is_answered_or_old() {
        let (mut ghosts, now) = (Ghosts::default(), Instant::now());
        ghosts.add(1, who(1, 1, true), Some(1), now);
        ghosts.add(2, who(2, 2, true), Some(2), now + Duration::from_secs(1));
        assert!(ghosts.of_others(who(2, 2, true), now) && ghosts.of_others(who(1, 1, true), now));
        assert!(!ghosts.answered(3) && ghosts.answered(1));
        assert!(!ghosts.of_others(who(2, 2, true), now) && ghosts.of_others(who(1, 1, true), now));
        assert!(ghosts.of_others(who(1, 1, true), now + AT_WORK));
        assert!(!ghosts.of_others(who(1, 1, true), now + AT_WORK + Duration::from_secs(1)));
        ghosts.add(4, who(4, 2, true), Some(2), now);
        let later = now + AT_WORK_FOR_OWNER;
        assert!(ghosts.of_others(who(5, 2, true), now) && !ghosts.of_others(who(5, 2, true), later));
        assert!(ghosts.of_others(who(5, 3, true), later));
        (0..2 * GHOSTS_MAX as u64).for_each(|id| ghosts.add(id, None, None, now));
        assert_eq!(ghosts.0.len(), GHOSTS_MAX);
    }

    #[test]
    fn a_ghost_of_no_client_is_any_clients_of_its_principal() {
        let (mut ghosts, now) = (Ghosts::default(), Instant::now());
        ghosts.add(1, None, Some(1), now);
        assert!(!ghosts.of_others(who(1, 1, true), now) && !ghosts.of_others(who(2, 1, false), now));
        assert!(ghosts.of_others(who(1, 2, true), now + AT_WORK_FOR_OWNER));
        ghosts.add(2, None, None, now);
        assert!(ghosts.of_others(who(1, 1, true), now));
    }
}
