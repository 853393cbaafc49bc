//! Owns the table of what is in flight on a connection: which calls, in which order they get a place, and to which of them
//! something belongs that the source sent. It sends nothing itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::asking::Moved;
use super::ghosts::Ghosts;
use crate::call::{Call, CallError, Question, Who};
use crate::wire::Message;

#[derive(Default)]
pub struct Table {
    pub last_id: u64,
    pub pending: HashMap<u64, Pending>,
    /// Calls that ended unanswered, which the source may still be at work on.
    pub ghosts: Ghosts,
    /// Calls that wait for a place, oldest first.
    pub queue: VecDeque<u64>,
    pub running: usize,
    pub last_used: Option<Instant>,
    /// When limits were last looked after.
    pub swept: Option<Instant>,
    /// Something was answered after the handshake.
    pub answered: bool,
    /// The process has ended; what it left is still being read.
    pub ending: bool,
    pub closed: Option<CallError>,
    /// It asks things of clients, and over one connection whose that is can only be told while calls of one are in flight.
    pub asks: bool,
    /// It could not be told once which call it asked for, or it has asked where that matters.
    pub one_at_a_time: bool,
    /// Whose calls it has been sent.
    pub owners: Owners,
    /// All calls come from one session.
    pub sole: bool,
    /// Questions that may be one of several clients', oldest first, and since when they wait.
    pub unclear: Vec<(Question, Instant)>,
    /// Questions that may be open still, by the source's own ids.
    pub open: HashMap<Box<str>, Weak<CancellationToken>>,
    /// Clients whose roots are others now.
    pub moved: Vec<Moved>,
}

/// Calls of several clients are in flight.
pub struct Several;

/// The principals whose calls a source has been sent over one connection.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    #[default]
    Nobody,
    One(u64),
    Several,
}

impl Owners {
    pub fn add(&mut self, owner: Option<u64>) {
        *self = match (*self, owner) {
            (Self::Nobody, Some(owner)) => Self::One(owner),
            (Self::One(own), Some(owner)) if own == owner => return,
            _ => Self::Several,
        };
    }
}

impl Table {
    pub fn call(&self, id: u64) -> Option<&Call> {
        match self.pending.get(&id) {
            Some(Pending::Call { call, .. }) => Some(call),
            _ => None,
        }
    }

    /// The call that something belongs to which the source sent: the only one in flight, or of several any one of the same
    /// client where that makes no difference. A call whose client has still to answer waits for that, and does not count,
    /// unless it is somebody else's. An id that leads to no call if there is none.
    pub fn addressee(&mut self, known: Option<u64>) -> Result<u64, Several> {
        if let Some(id) = known {
            return Ok(id);
        }
        let id = self.one_in_flight()?;
        if self.is_haunted(id) { Err(Several) } else { Ok(id) }
    }

    /// The same for a log line: where all calls in flight are of one client, any of them leads to who reads it. Newest first,
    /// for of a modern client's calls only some may want lines.
    pub fn readers(&mut self, of: Option<u64>) -> Result<Vec<u64>, Several> {
        if let Ok(id) = self.addressee(of) {
            return Ok(vec![id]);
        }
        let (_, newest) = self.ends(|_| true)?;
        if of.is_some() || self.is_haunted(newest) {
            return Err(Several);
        }
        let whose = self.call(newest).and_then(|call| call.back.who());
        let of_one = self.pending.iter().filter_map(|(id, entry)| match entry {
            Pending::Call { call, sent: true, .. } if call.back.who() == whose => Some(*id),
            _ => None,
        });
        let mut all: Vec<u64> = of_one.collect();
        all.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
        Ok(all)
    }

    /// The same for what came on no stream of a call: it may be late by any time, and is passed on only where all that the
    /// source has been sent is one principal's.
    pub fn stray_addressee(&mut self) -> Result<u64, Several> {
        if self.owners == Owners::Several { Err(Several) } else { self.addressee(None) }
    }

    /// The same as [`Self::addressee`], whatever ended unanswered.
    pub fn one_in_flight(&self) -> Result<u64, Several> {
        self.ends(|who| who.any_call).map(|(_, newest)| newest)
    }

    /// The requests of the other calls of the same client that what belongs to this one may be meant for, newest first.
    pub fn requests_beside(&self, id: u64) -> Vec<Arc<str>> {
        let Some(whose) = self.call(id).and_then(|call| call.back.who()).filter(|who| who.any_call) else {
            return Vec::new();
        };
        let beside = self.pending.iter().filter_map(|(other, entry)| match entry {
            Pending::Call { call, sent: true, .. } if *other != id && call.back.who() == Some(whose) => {
                Some((*other, call.back.request()?))
            }
            _ => None,
        });
        let mut beside: Vec<(u64, Arc<str>)> = beside.collect();
        beside.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        beside.into_iter().map(|(_, request)| request).collect()
    }

    /// A call ends without an answer.
    pub fn leave(&mut self, id: u64) {
        if let Some(Pending::Call { call, sent: true, .. }) = self.pending.get(&id) {
            self.ghosts.add(id, call.back.who(), call.back.owner(), Instant::now());
        }
    }

    /// Whether what seems to belong to this call may be that of another client, whose call ended unanswered.
    pub fn is_haunted(&mut self, id: u64) -> bool {
        let Some(call) = self.call(id).filter(|_| !self.sole) else { return false };
        let whose = call.back.who();
        self.ghosts.of_others(whose, Instant::now())
    }

    /// The oldest call, if all that are in flight are of one client, whether it makes a difference which is meant or not.
    pub fn of_one_client(&self) -> Result<u64, Several> {
        self.ends(|_| true).map(|(oldest, _)| oldest)
    }

    /// The oldest and the newest call in flight, of several only if they are of one client that `any` of them does for.
    fn ends(&self, any: impl Fn(Who) -> bool) -> Result<(u64, u64), Several> {
        let running = self.pending.iter().filter_map(|(id, entry)| match entry {
            Pending::Call { call, sent: true, .. } => Some((*id, call.back.who())),
            _ => None,
        });
        // Of one session's calls, those of a batch have nobody to ask.
        let running = running.filter(|(_, who)| !self.sole || who.is_some());
        let is_away = |who: &Option<Who>| who.is_some_and(|who| who.is_away);
        let (away, here): (Vec<_>, Vec<_>) = running.partition(|(_, who)| is_away(who));
        let of = if here.is_empty() { &away } else { &here };
        let Some(&(id, first)) = of.first() else { return Ok((0, 0)) };
        let (mut oldest, mut newest) = (id, id);
        for (id, who) in &of[1..] {
            // Without a client, none of them can be asked, whichever is meant.
            let is_same = *who == first && who.is_none_or(&any);
            if !is_same {
                return Err(Several);
            }
            (oldest, newest) = (oldest.min(*id), newest.max(*id));
        }
        let owner = first.map(|who| who.owner);
        if away.iter().any(|(_, who)| who.map(|who| who.owner) != owner) { Err(Several) } else { Ok((oldest, newest)) }
    }

    pub fn has_room(&self, max_in_flight: usize) -> bool {
        if self.running < max_in_flight {
            return true;
        }
        // A call whose client is away leaves its place to others, save where the source takes one call only.
        if max_in_flight == 1 {
            return false;
        }
        let busy = |entry: &&Pending| match entry {
            Pending::Call { call, sent: true, .. } => !call.back.who().is_some_and(|who| who.is_away),
            _ => false,
        };
        self.pending.values().filter(busy).count() < max_in_flight
    }
}

pub enum Pending {
    Call {
        call: Box<Call>,
        since: Instant,
        heard: Instant,
        sent: bool,
        /// How many messages had come when it was sent.
        after: u64,
        /// It has asked its client something.
        asked: bool,
        /// How often its client was told that it waits.
        told: u32,
    },
    Own(oneshot::Sender<Result<Message, CallError>>),
}
