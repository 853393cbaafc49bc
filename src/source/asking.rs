//! Owns what a source asks of clients: whose call a question belongs to, and which calls wait so that this can be told.
//! What a client is asked and how is its session's affair.
//!
//! Over one connection a source does not say for which of its calls it asks. The relay never guesses among clients:
//!
//! 1. A question belongs to the call whose stream it came on (HTTP), or to the only client that has calls in flight.
//! 2. Once a source has asked anything, calls of several clients are not in flight together: a call waits its turn until
//!    those of another client are over, and its client is told so. A parked call (its modern client is away with the
//!    question) counts as well: only calls of the same principal go on beside it. Of requests of modern clients, those of one
//!    principal take turns from when one of them has asked something, or it could not be told which of them had.
//! 3. A first question that comes while calls of several clients are in flight waits until one client's are left, for that
//!    could not be told when they were sent.
//! 4. As many questions waiting as there are calls would wait for ever. If these are all of one client, whose they are is
//!    known, and which call is meant is not: it is asked them all together, during the oldest.
//! 5. If they are not, if one of these calls does not end with an answer (the question may be that one's), or if the wait
//!    grows too long, what waits is refused.
//! 6. Which of one legacy client's calls is meant makes no difference to the client: the question is open until the last of
//!    those that it may be for has ended, and none of them comes to a limit meanwhile.
//! 7. A source may go on with a call that ended unanswered, and ask for that one. Until it has answered it, or long after,
//!    a question that could be for it as well waits for a moment and is refused then, unless both are of one client, or
//!    the one that ended had none (as in a batch) and both are of one principal.
//!
//! An instance of one session has one client: its calls wait for each other only where rule 2 says so of one principal's,
//! and what it asks before it has any (as servers do that ask for roots when they start) waits for the first one.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::in_flight::{Pending, Table};
use super::link::Link;
use crate::call::{Question, Rooted, Who};
use crate::protocol::Era;
use crate::wire::{Message, Object, Piece};

/// How long a question may wait until it can be told whose it is.
const UNCLEAR_MAX: Duration = Duration::from_secs(30);
/// How long one waits that may belong to a call which ended unanswered: what heeds that a call is off has answered it soon.
const HAUNTED_MAX: Duration = Duration::from_secs(3);
/// How many questions may wait for the next call of an instance's session, or for one that ended to be answered.
const EARLY_MAX: usize = 16;
/// How long after it was told that a client's roots are others a source may ask for them outside of a call.
const ROOTS_WINDOW: Duration = Duration::from_secs(10);

const HAUNTED: &str =
    "a call of another client ended unanswered, and the question may belong to that one; try again later";
const UNCLEAR: &str = "calls of several clients are in flight, and which of them is meant cannot be told; try again";

/// A client whose roots are others now.
pub struct Moved {
    at: Instant,
    who: Who,
    client: Weak<dyn Rooted>,
}

impl Link {
    /// What a source asks: of the relay itself, or of the client of a call in flight.
    pub(super) fn answer(&self, message: &Message, of: Option<u64>) {
        let method = message.method_name();
        if method == "ping" {
            let id = message.id_text().unwrap_or("null");
            let _ = self.outbox.send(&[
                Piece::Text("{\"jsonrpc\":\"2.0\",\"id\":"),
                Piece::Text(id),
                Piece::Text(",\"result\":{}}"),
            ]);
            return;
        }
        let question = Question::new(&self.source, message.clone(), self.outbox.clone());
        if !matches!(&*method, "sampling/createMessage" | "elicitation/create" | "roots/list") {
            return question.refuse(&format!("there is no method `{method}` here"));
        }
        let mut table = self.lock();
        table.opens(&question);
        if let Some(id) = of {
            return match table.call(id) {
                Some(call) => call.back.ask(question),
                None => question.refuse(NOBODY),
            };
        }
        let Some(question) = table.hand_over(question) else { return };
        if table.sole && table.one_in_flight().is_ok() {
            // It asks before the first call has reached it.
            return match table.unclear.len() < EARLY_MAX {
                true => table.unclear.push((question, Instant::now())),
                false => question.refuse(NOBODY),
            };
        }
        if table.one_in_flight().is_ok() {
            // It may be for a call that has ended.
            return match table.unclear.len() < EARLY_MAX {
                true => table.unclear.push((question, Instant::now())),
                false => question.refuse(HAUNTED),
            };
        }
        // From now on it is always known whom it asks.
        (table.asks, table.one_at_a_time) = (true, true);
        tracing::info!(source = self.source, %method, "several calls could be meant; they take turns from now on");
        table.unclear.push((question, Instant::now()));
        if table.unclear.len() >= table.running {
            // Each call may be waiting for its answer, and none would ever end.
            table.ask_one_client();
            table.clear_up(false);
        }
    }

    /// The source takes a question back, wherever it waits by now.
    pub(super) fn taken_back(&self, message: &Message) {
        let params = message.params_text().and_then(Object::parse);
        let Some(id) = params.as_ref().and_then(|params| params.get("requestId")) else { return };
        let mut table = self.lock();
        let Some(withdrawn) = table.open.remove(id).and_then(|open| open.upgrade()) else { return };
        withdrawn.cancel();
        table.unclear.retain(|(question, _)| !question.withdrawn().is_cancelled());
    }

    /// Tells a legacy source that a client's roots are others now. It may ask for them outside of any call.
    pub(super) fn roots_changed(&self, of: &Arc<impl Rooted + 'static>, owner: u64) {
        if self.era() == Era::Modern {
            return;
        }
        let client = Arc::as_ptr(of).cast::<()>() as u64;
        let who = Who { client, owner, is_away: false, any_call: true };
        let weak = Arc::downgrade(of);
        let mut table = self.lock();
        table.still_moved();
        table.moved.retain(|moved| moved.who.client != client);
        table.moved.push(Moved { at: Instant::now(), who, client: weak });
        drop(table);
        self.notify("notifications/roots/list_changed", "");
    }
}

const NOBODY: &str = "no call is in flight whose client could be asked";

impl Table {
    /// A question can be taken back from now on.
    fn opens(&mut self, question: &Question) {
        if self.open.len() == self.open.capacity() {
            self.open.retain(|_, open| open.strong_count() > 0);
        }
        self.open.insert(question.id().into(), Arc::downgrade(question.withdrawn()));
    }

    /// Gives a question to the client that it is for. Gives it back while that could be one of several.
    fn hand_over(&mut self, question: Question) -> Option<Question> {
        if question.method() == "roots/list" && self.still_moved() {
            return self.ask_for_roots(question);
        }
        let Ok(id) = self.one_in_flight() else { return Some(question) };
        if self.sole && self.call(id).is_none() || self.is_haunted(id) {
            return Some(question);
        }
        self.ask(id, question);
        None
    }

    fn ask(&mut self, id: u64, mut question: Question) {
        question.others = self.requests_beside(id);
        match self.pending.get_mut(&id) {
            Some(Pending::Call { call, asked, .. }) => {
                *asked = true;
                self.asks = true;
                // Where it matters which call is meant, the next ones wait from now on, whether this one is over or not.
                self.one_at_a_time |= call.back.who().is_some_and(|who| !who.any_call);
                call.back.ask(question);
            }
            _ => question.refuse(NOBODY),
        }
    }

    /// Whether a client's roots are others since a moment ago.
    fn still_moved(&mut self) -> bool {
        self.moved.retain(|moved| moved.at.elapsed() < ROOTS_WINDOW && moved.client.strong_count() > 0);
        !self.moved.is_empty()
    }

    /// The roots are those of the client that said so just now, if it is the only one that could be meant.
    fn ask_for_roots(&mut self, question: Question) -> Option<Question> {
        let others = self.one_in_flight().map(|id| self.call(id).and_then(|call| call.back.who()));
        let [moved] = &self.moved[..] else { return Some(question) };
        match others {
            Ok(who) if who.is_none_or(|who| who.client == moved.who.client) => {}
            _ => return Some(question),
        }
        if !self.sole && self.ghosts.of_others(Some(moved.who), Instant::now()) {
            question.refuse(HAUNTED);
            return None;
        }
        let client = moved.client.upgrade();
        self.moved.clear();
        match client {
            Some(client) => client.ask_for_roots(question),
            None => question.refuse(NOBODY),
        }
        None
    }

    /// A call has ended, and was `answered` or not: what waited for that goes to its client.
    pub fn clear_up(&mut self, answered: bool) {
        if !answered && (!self.sole || self.one_at_a_time) {
            return self.unclear.drain(..).for_each(|(question, _)| question.refuse(UNCLEAR));
        }
        for (question, since) in std::mem::take(&mut self.unclear) {
            if let Some(question) = self.hand_over(question) {
                self.unclear.push((question, since));
            }
        }
        self.ask_one_client();
    }

    /// As many questions wait as there are calls: if these are all of one client, it is asked them all during the oldest.
    fn ask_one_client(&mut self) {
        if self.unclear.is_empty() || self.unclear.len() < self.running {
            return;
        }
        if let Ok(id) = self.of_one_client()
            && self.call(id).is_some()
            && !self.is_haunted(id)
        {
            std::mem::take(&mut self.unclear).into_iter().for_each(|(question, _)| self.ask(id, question));
        }
    }

    /// Looks at what waits once more, for a client may have come back, and refuses what has waited for too long.
    pub fn look_after_unclear(&mut self, now: Instant) {
        self.clear_up(true);
        let is_haunted = self.one_in_flight().is_ok_and(|id| self.is_haunted(id));
        let (patience, why) = if is_haunted { (HAUNTED_MAX, HAUNTED) } else { (UNCLEAR_MAX, UNCLEAR) };
        let is_late = |since: Instant| now.saturating_duration_since(since) >= patience;
        let (late, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unclear).into_iter().partition(|(_, since)| is_late(*since));
        self.unclear = left;
        late.into_iter().for_each(|(question, _)| question.refuse(why));
    }

    /// Whether a call has to wait until those of other clients are over.
    pub fn is_kept_back(&self, id: u64) -> bool {
        let Some(call) = self.call(id).filter(|_| self.asks) else { return false };
        let own = call.back.who();
        self.sent().any(|(other, asked)| match (own, other) {
            (None, None) => false,
            (Some(own), Some(other)) if other.is_away => other.owner != own.owner,
            (Some(own), Some(other)) if own.any_call && other.any_call => other.client != own.client,
            (Some(own), Some(other)) if !own.any_call && !other.any_call && own.owner == other.owner => {
                asked || self.one_at_a_time
            }
            _ => !self.sole,
        })
    }

    /// Whether a call may have to do with the answer to a question: then it waits behind nobody.
    fn may_answer(&self, id: u64) -> bool {
        let own = self.call(id).and_then(|call| call.back.who());
        own.is_some_and(|own| self.sent().any(|(who, asked)| asked && who.is_some_and(|who| who.owner == own.owner)))
    }

    /// Whose the calls are that the source has, and whether they have asked something.
    fn sent(&self) -> impl Iterator<Item = (Option<Who>, bool)> {
        self.pending.values().filter_map(|entry| match entry {
            Pending::Call { call, sent: true, asked, .. } => Some((call.back.who(), *asked)),
            _ => None,
        })
    }

    /// Takes out the waiting call that may be sent now, in their order.
    pub fn next(&mut self, max_in_flight: usize) -> Option<u64> {
        if !self.has_room(max_in_flight) {
            return None;
        }
        let mut is_passed = false;
        let place = self.queue.iter().position(|id| {
            let is_kept_back = self.is_kept_back(*id);
            let goes = !is_kept_back && (!is_passed || self.may_answer(*id));
            is_passed |= is_kept_back;
            goes
        })?;
        self.queue.remove(place)
    }
}
