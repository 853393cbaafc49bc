//! Owns which log lines of sources a legacy client wants to see (`logging/setLevel`).
//! It does not know the lines.

use std::sync::Arc;

use super::{Exchange, Session};
use crate::call::Caller;
use crate::protocol;
use crate::wire::{Message, Object, quoted};

/// The levels of RFC 5424, the least urgent first.
const LEVELS: &[&str] = &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Whether a line of this level is shown from `least` on.
pub fn is_shown(level: &str, least: &str) -> bool {
    let rank = |name: &str| LEVELS.iter().position(|level| *level == name);
    rank(level).is_none_or(|rank_of_line| rank(least).is_none_or(|least| rank_of_line >= least))
}

impl Session {
    pub(super) fn set_log_level(&self, message: &Message, exchange: &Exchange) {
        let level = message.params_text().and_then(Object::parse).and_then(|params| {
            params.string("level").map(|level| level.into_owned()).filter(|level| LEVELS.contains(&level.as_str()))
        });
        let Some(level) = level else {
            let text = format!("`params.level` must be one of {}", LEVELS.join(", "));
            return exchange.error(protocol::INVALID_PARAMS, &text, None);
        };
        let mut state = self.lock();
        let known = state.caller.as_deref().cloned().unwrap_or_default();
        state.caller = Some(Arc::new(Caller { log_level: Some(quoted(&level).into()), ..known }));
        drop(state);
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
