//! Owns what becomes of the world when the lock is another one: every known tool is held against it anew. It reads no file;
//! what was accepted is in `pins`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reload::{Plan, at_hand};
use super::{World, key_of};
use crate::catalog::{Listing, Toolset};
use crate::config::{Pin, SourceEntry};
use crate::name::SourceId;
use crate::pins::Pins;

/// How many tools a line of the log names.
const NAMED: usize = 5;

impl World {
    /// Looks at the lock again.
    pub(super) async fn relock(&mut self) {
        self.pins = Arc::new(Pins::new(&self.config.relay));
        if self.config.relay.pin == Pin::Off {
            return;
        }
        let config = self.config.clone();
        let keys = config.sources.iter().filter_map(key_of).collect();
        let mut remembered = self.recalled_listings(keys).await;
        let mut plan = Plan::default();
        for entry in &config.sources {
            let listing = key_of(entry).and_then(|key| remembered.remove(&key));
            self.repin(entry, listing, &mut plan);
        }
        self.rebuild(plan.listings).await;
        for source in plan.forgotten {
            self.around.tracker.spawn(async move { source.forget().await });
        }
    }

    /// Has the tools of a source built again. Those that are only remembered will be built with what is accepted then.
    pub(super) fn repin(&self, entry: &SourceEntry, listing: Option<Listing>, plan: &mut Plan) {
        let id = entry.id();
        let Some(old) = self.toolsets.get(id).filter(|old| old.loaded && old.is_listed()) else { return };
        // The memory may hold less than was listed, when it could not be written.
        let newest = self.digests.get(id);
        let whole = listing.filter(|listing| newest.is_none_or(|digest| *digest == listing.digest));
        if whole.is_none() {
            plan.forgotten.extend(self.sources.get(id).cloned());
        }
        plan.listings.push((id.clone(), whole.unwrap_or_else(|| at_hand(old)), false));
    }
}

/// Tells on stderr of sources that say something else of themselves than was accepted.
fn tell_summaries(before: &BTreeMap<SourceId, Arc<Toolset>>, now: &BTreeMap<SourceId, Arc<Toolset>>) {
    for (id, toolset) in now.iter().filter(|(_, toolset)| toolset.said.is_other()) {
        let said = |toolset: &Toolset| (toolset.said, toolset.said_summary());
        if before.get(id).is_none_or(|before| said(before) != said(toolset)) {
            let hint = format!("look at it with `toolrelay lock --check {id}`, accept it with `toolrelay lock {id}`");
            tracing::warn!(source = id.as_str(), hint, "it says of itself what is not in sources.lock");
        }
    }
}

/// Tells on stderr of sources whose tools differ from the lock in another way than before.
pub(super) fn tell(before: &BTreeMap<SourceId, Arc<Toolset>>, now: &BTreeMap<SourceId, Arc<Toolset>>) {
    tell_summaries(before, now);
    for (id, toolset) in now.iter().filter(|(_, toolset)| !toolset.drift.is_empty()) {
        if before.get(id).is_some_and(|before| before.drift == toolset.drift) {
            continue;
        }
        let drift = &toolset.drift;
        let named = drift.iter().take(NAMED).map(|drift| {
            let locked = drift.locked.map_or_else(|| "new".to_owned(), |hash| hash.short());
            format!("{} ({locked} -> {})", crate::redact::one_line(drift.tool.as_str(), 80), drift.now.short())
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let is_withheld = drift.iter().any(|drift| toolset.entry(drift.tool.as_str()).is_none());
        let hint = format!("look at them with `toolrelay lock --check {id}`, accept them with `toolrelay lock {id}`");
        let (source, count) = (id.as_str(), drift.len());
        if is_withheld {
            tracing::warn!(
                source,
                count,
                tools = named,
                hint,
                "tools that are not in sources.lock as they are: withheld"
            );
        } else {
            tracing::warn!(source, count, tools = named, hint, "tools that are not in sources.lock as they are");
        }
    }
}
