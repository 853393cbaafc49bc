//! Owns which log lines of sources a client wants to see (`logging/setLevel`, `_meta.logLevel`), and has legacy sources send
//! those that anybody wants. It does not know the lines.

use std::sync::Arc;

use super::offers::offers;
use super::subscriptions::owner;
use super::{Exchange, Session};
use crate::call::Caller;
use crate::protocol;
use crate::source::updates::{Subscribers, UNSAID};
use crate::wire::{Message, Object, quoted, unquoted};

/// Whose wish the log levels of single requests are: they have no end, so the least of them holds on.
const OF_REQUESTS: u64 = 0;

/// Whether a line of this level is shown from `least` on.
pub fn is_shown(level: &str, least: &str) -> bool {
    rank(level).is_none_or(|rank_of_line| rank(least).is_none_or(|least| rank_of_line >= least))
}

fn rank(name: &str) -> Option<usize> {
    protocol::LOG_LEVELS.iter().position(|level| *level == name)
}

/// Whether a request's word for the level that its client wants to see is one, or says that it wants none.
pub fn is_level(raw: &str) -> bool {
    raw == "null" || unquoted(raw).is_some_and(|level| rank(&level).is_some())
}

impl Session {
    /// Has the legacy sources that this client sees send what it wants to see of their log lines.
    fn want_lines(&self, owner: u64, level: usize) {
        self.change_levels(|own| own.set_level(owner, level));
    }

    /// A legacy client begins, which takes what there is of log lines.
    pub(super) fn takes_lines(self: &Arc<Self>) {
        self.change_levels(|own| own.takes_lines(owner(self)));
    }

    /// The client is gone: what it wanted to see of log lines holds no more.
    pub(super) fn takes_no_lines(self: &Arc<Self>) {
        self.change_levels(|own| own.forget_level(owner(self)));
    }

    /// Whether a client that has said nothing is shown a line of this level: all that its source sends by itself, and of what
    /// that sends for another client's wish as much as it would send by itself, most likely.
    pub(super) fn sees_unasked(&self, level: &str, source: &str) -> bool {
        let least = protocol::LOG_LEVELS[UNSAID];
        if is_shown(level, least) || self.around.subscribers.level().is_none_or(|wanted| is_shown(wanted, least)) {
            return true;
        }
        let snapshot = self.around.control.snapshots.now();
        let is_told = offers(&snapshot).any(|(_, of, offer)| of.id.as_str() == source && offer.abilities.logging);
        !is_told || snapshot.source(source).is_some_and(|of| of.is_isolated())
    }

    /// Changes what is wanted, and tells the sources for which it makes a difference.
    fn change_levels(&self, change: impl FnOnce(&Subscribers)) {
        // Of what all clients share, the least that any of them wants; of its own instances, what it wants itself.
        let all = &self.around.subscribers;
        let own = all.of(self.tenant.whose());
        let before = (all.level(), own.level());
        change(&own);
        let now = (all.level(), own.level());
        if now == before {
            return;
        }
        for (_, source, offer) in offers(&self.around.control.snapshots.now()) {
            let (before, now) = if source.is_isolated() { (before.1, now.1) } else { (before.0, now.0) };
            if offer.abilities.logging && now != before {
                now.into_iter().for_each(|least| source.set_log_level(&self.tenant, least));
            }
        }
    }

    /// A modern client wants to see log lines of this level during one request.
    pub(super) fn wants_lines_of(&self, level: &str) {
        let Some(level) = unquoted(level).as_deref().and_then(rank) else { return };
        let known = self.around.subscribers.of(self.tenant.whose()).level().and_then(rank);
        if known.is_none_or(|known| level < known) {
            self.want_lines(OF_REQUESTS, level);
        }
    }

    pub(super) fn set_log_level(self: &Arc<Self>, message: &Message, exchange: &Exchange) {
        let level = message.params_text().and_then(Object::parse).and_then(|params| {
            params.string("level").map(|level| level.into_owned()).filter(|level| rank(level).is_some())
        });
        let Some(level) = level else {
            let text = format!("`params.level` must be one of {}", protocol::LOG_LEVELS.join(", "));
            return exchange.error(protocol::INVALID_PARAMS, &text, None);
        };
        let mut state = self.lock();
        let known = state.caller.as_deref().cloned().unwrap_or_default();
        state.caller = Some(Arc::new(Caller { log_level: Some(quoted(&level).into()), ..known }));
        drop(state);
        if let Some(level) = rank(&level) {
            self.want_lines(owner(self), level);
        }
        exchange.result("{}");
    }
}

#[cfg(test)]
mod tests {
    use super::is_shown;

    #[test]
    fn lines_are_shown_from_a_level_on() {
        assert!(is_shown("error", "warning") && is_shown("warning", "warning") && !is_shown("info", "warning"));
        assert!(is_shown("strange", "warning"));
    }
}
