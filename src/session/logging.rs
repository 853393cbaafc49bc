//! Owns which log lines of sources a client wants to see (`logging/setLevel`, `_meta.logLevel`), and has legacy sources send
//! those that anybody wants. It does not know the lines.

use std::sync::Arc;

use super::offers::offers;
use super::{Exchange, Session};
use crate::call::Caller;
use crate::protocol;
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
        // Of what all clients share, the least that any of them wants; of its own instances, what it wants itself.
        let all = &self.around.subscribers;
        let own = all.of(self.tenant.whose());
        let before = (all.level(), own.level());
        own.set_level(owner, level);
        for (_, source, offer) in offers(&self.around.control.snapshots.now()) {
            let (before, now) = if source.is_isolated() { (before.1, own.level()) } else { (before.0, all.level()) };
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
            self.want_lines(super::subscriptions::owner(self), level);
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
