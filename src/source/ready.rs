//! Owns what is known of one running source: how long it has been up, when it was listed, when it should be looked at
//! again or stopped. It decides by the clock alone, and does nothing itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::State;
use super::handshake::Greeting;
use super::link::Link;
use super::relist::Read;
use crate::call::CallError;
use crate::catalog::ServerNote;

/// At least this long between two listings.
pub const LIST_GAP: Duration = Duration::from_secs(1);
/// A listing this fresh is not repeated before a name is refused, unless the source was called meanwhile.
const LIST_FRESH: Duration = Duration::from_secs(3);
/// The first and the longest wait for a look at the list after calls (real servers change it without a word).
const LOOK_FIRST: Duration = Duration::from_secs(10);
const LOOK_MAX: Duration = Duration::from_secs(640);

/// A running source.
pub struct Ready {
    pub link: Arc<Link>,
    pub note: ServerNote,
    since: Instant,
    pid: Option<u32>,
    version: String,
    /// What is odd about its lists, if anything.
    oddity: Option<String>,
    /// It may have tools that are not in its list.
    lacks_tools: bool,
    /// A listing is being read.
    pub listing: bool,
    /// It must be listed again.
    pub dirty: bool,
    listed_at: Option<Instant>,
    list_began: Option<Instant>,
    /// The wait for the next look after calls.
    look_after: Duration,
    /// It is listed at all.
    lists: bool,
}

/// What is to be done about a running source now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Nothing,
    List,
    /// It has been idle for too long.
    Rest,
}

impl Ready {
    pub fn new(link: Arc<Link>, pid: Option<u32>, greeting: Greeting, lists: bool) -> Self {
        Self {
            link,
            note: greeting.note,
            since: Instant::now(),
            pid,
            version: greeting.version,
            oddity: None,
            lacks_tools: false,
            listing: false,
            dirty: lists,
            listed_at: None,
            list_began: None,
            look_after: LOOK_FIRST,
            lists,
        }
    }

    pub fn state(&self) -> State {
        State::Ready {
            pid: self.pid,
            version: self.version.clone(),
            note: self.oddity.clone(),
            lacks_tools: self.lacks_tools,
            listed: self.listed_at.is_some(),
        }
    }

    pub fn uptime(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether its list is as good as new.
    pub fn is_fresh(&self) -> bool {
        let listed = self.listed_at.is_some_and(|at| at.elapsed() < LIST_FRESH);
        // A call may have changed the list since, and whoever asks may know of it.
        let used = self.list_began.is_none_or(|began| self.link.used_since(began));
        listed && !used && !self.dirty && !self.listing
    }

    /// Begins a listing if one is wanted, none is under way, and the last is long enough ago.
    pub fn begin_list(&mut self) -> bool {
        let rested = self.list_began.is_none_or(|began| began.elapsed() >= LIST_GAP);
        if !self.dirty || self.listing || !rested {
            return false;
        }
        (self.dirty, self.listing, self.list_began) = (false, true, Some(Instant::now()));
        if let Some(news) = self.link.take_news() {
            (self.note, self.version) = (news.note, news.version);
        }
        true
    }

    /// Takes note of what was read; while nothing changes, the looks become rarer.
    pub fn listed(&mut self, read: &Read, changed: bool) {
        self.listed_at = Some(Instant::now());
        self.listing = read.more;
        self.lacks_tools = read.listing.incomplete.is_some();
        let told: Vec<_> = [&read.listing.incomplete, &read.lacks].into_iter().flatten().cloned().collect();
        self.oddity = (!told.is_empty()).then(|| told.join("; "));
        self.look_after = if changed { LOOK_FIRST } else { (self.look_after * 2).min(LOOK_MAX) };
    }

    /// Its list could not be read again.
    pub fn not_listed(&mut self, error: &CallError) {
        self.listing = false;
        // It is looked at again when it has been called once more, not every second.
        self.listed_at = Some(Instant::now());
        self.lacks_tools = true;
        self.oddity = Some(format!("{}; the last good list is kept", error.message));
    }

    /// What is due at `now`.
    pub fn due(&mut self, now: Instant, idle_stop: Option<Duration>) -> Due {
        let used = self.link.idle_since();
        let looked = self.listed_at.unwrap_or(self.since);
        let after_calls = self.lists && used.is_some_and(|used| used > looked);
        if after_calls && now.saturating_duration_since(looked) >= self.look_after {
            self.dirty = true;
        }
        let last = used.unwrap_or(self.since).max(self.since);
        let rested = idle_stop.is_some_and(|limit| now.saturating_duration_since(last) >= limit);
        match (self.listing, self.dirty) {
            (false, true) => Due::List,
            (false, false) if rested => Due::Rest,
            _ => Due::Nothing,
        }
    }
}
