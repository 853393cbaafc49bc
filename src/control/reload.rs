//! Owns the change from one configuration to another while the relay runs: what is kept, ended, spawned and built anew.
//! It reads no file; what differs is decided in `changes`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::changes::{Changes, Fate, needing_restart};
use super::{World, key_of, with_spec};
use crate::catalog::{Listing, Toolset};
use crate::config::{Config, Reach, SourceConfig, SourceEntry, Start};
use crate::name::SourceId;
use crate::pins::Pins;
use crate::source::{Farewell, Known, Source, State};
use crate::store::Key;

/// How long the memory may take to give listings. It does so at once, unless another relay writes to it.
const RECALL: Duration = Duration::from_millis(1000);

/// What a reload came to; each list is sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    pub added: Vec<SourceId>,
    pub removed: Vec<SourceId>,
    /// Ended and replaced.
    pub changed: Vec<SourceId>,
    /// Other settings for the same process.
    pub retuned: Vec<SourceId>,
    /// The faults or warnings of the configuration are not those of the one before.
    pub new_faults: bool,
    /// Keys and tables that differ from what holds until a restart, and were not named before.
    pub restart: Vec<&'static str>,
    /// Anything at all is different.
    pub differs: bool,
}

/// What is gathered on the way to the new world.
#[derive(Default)]
pub(super) struct Plan {
    sources: BTreeMap<SourceId, Source>,
    toolsets: BTreeMap<SourceId, Arc<Toolset>>,
    /// To be built from, as `rebuild` takes them.
    pub(super) listings: Vec<(SourceId, Listing, bool)>,
    /// As in the world.
    borrowed: BTreeSet<SourceId>,
    ended: Vec<(Source, Farewell)>,
    /// To be started by themselves.
    started: Vec<Source>,
    /// What is known of their tools is not all of it.
    pub(super) forgotten: Vec<Source>,
}

impl World {
    /// Puts a configuration in force. Sources whose entries say what they said are not touched.
    pub(super) async fn reload(&mut self, config: Config) -> Reloaded {
        let config = Arc::new(config);
        let changes = Changes::between(&self.config.sources, &config.sources);
        let lacking = needing_restart(&self.first, &config);
        let report = Reloaded {
            added: changes.with(Fate::Added),
            removed: changes.with(Fate::Removed),
            changed: changes.with(Fate::Replaced),
            retuned: changes.with(Fate::Retuned),
            new_faults: (&config.faults, &config.warnings) != (&self.config.faults, &self.config.warnings),
            restart: lacking.iter().copied().filter(|key| !self.told.contains(key)).collect(),
            differs: config != self.config,
        };
        self.told = lacking;
        let was_stale = self.stale.take().is_some();
        if !report.differs {
            if was_stale {
                self.publish(None);
            }
            return report;
        }
        self.around.edition += 1;
        let repinned = config.relay.pin != self.config.relay.pin;
        if repinned {
            self.pins = Arc::new(Pins::new(&config.relay));
        }
        let wanted = config.sources.iter().filter(|entry| repinned || changes.of(entry.id()) != Fate::Kept);
        let mut remembered = self.recalled_listings(wanted.filter_map(key_of).collect()).await;
        let mut plan = Plan { borrowed: self.borrowed.clone(), ..Plan::default() };
        for entry in &config.sources {
            let listing = key_of(entry).and_then(|key| remembered.remove(&key));
            match changes.of(entry.id()) {
                Fate::Kept => {
                    self.keep(entry.id(), &mut plan);
                    if repinned {
                        self.repin(entry, listing, &mut plan);
                    }
                }
                Fate::Retuned => self.retune(entry, listing, &mut plan),
                _ => self.replace(entry, listing, &mut plan),
            }
        }
        for id in &report.removed {
            plan.ended.extend(self.sources.get(id).map(|source| (source.clone(), Farewell::Removed)));
        }
        self.put_in_force(config, plan).await;
        report
    }

    /// The remembered listings of sources whose tools have to be looked at anew.
    pub(super) async fn recalled_listings(&self, keys: Vec<Key>) -> BTreeMap<Key, Listing> {
        if keys.is_empty() {
            return BTreeMap::new();
        }
        let loaded = tokio::time::timeout(RECALL, self.store.load(keys)).await;
        loaded.unwrap_or_default().into_iter().collect()
    }

    fn keep(&self, id: &SourceId, plan: &mut Plan) {
        let (source, toolset) = (&self.sources[id], &self.toolsets[id]);
        plan.sources.insert(id.clone(), source.clone());
        plan.toolsets.insert(id.clone(), toolset.clone());
    }

    /// The process stays, and what may be seen of its tools is judged anew.
    fn retune(&self, entry: &SourceEntry, listing: Option<Listing>, plan: &mut Plan) {
        let SourceEntry::Usable(config) = entry else { return };
        let (id, old) = (&config.id, &self.toolsets[&config.id]);
        let source = self.sources[id].retuned(config);
        plan.sources.insert(id.clone(), source.clone());
        let begins_now = config.start == Start::AtStart
            && self.sources[id].config.as_ref().is_some_and(|old| old.start != config.start);
        plan.started.extend(begins_now.then(|| source.clone()));
        let toolset = with_spec(entry, |spec| {
            if old.is_listed() { Toolset::outline(spec, &old.to_outline()) } else { Toolset::unlisted(spec) }
        });
        let is_outline_enough = with_spec(entry, |spec| !old.loaded && old.to_outline().fits(spec));
        plan.toolsets.insert(id.clone(), Arc::new(toolset));
        if !old.is_listed() || is_outline_enough {
            return;
        }
        // The memory may hold less than was listed, when it could not be written.
        let newest = self.digests.get(id);
        let whole = listing.filter(|listing| newest.is_none_or(|digest| *digest == listing.digest));
        if whole.is_none() {
            plan.forgotten.push(source);
        }
        // What is withheld now is withheld at once. What was withheld so far is not at hand, and comes when it is listed.
        plan.listings.push((id.clone(), whole.unwrap_or_else(|| at_hand(old)), false));
    }

    /// A new source, in the place of another if there was one.
    fn replace(&self, entry: &SourceEntry, listing: Option<Listing>, plan: &mut Plan) {
        let id = entry.id();
        let old = self.sources.get(id);
        let known = Known { era: None, digest: listing.as_ref().map(|listing| listing.digest.clone()) };
        let source = Source::spawn(entry, known, &self.around, old);
        let ran = old.is_some_and(|old| matches!(old.status().state, State::Ready { .. } | State::Starting { .. }));
        let at_start = source.config.as_ref().is_some_and(|config| config.start == Start::AtStart);
        if source.refusal().is_none() && (ran || at_start || listing.is_none()) {
            plan.started.push(source.clone());
        }
        plan.ended.extend(old.map(|old| (old.clone(), farewell(entry))));
        plan.sources.insert(id.clone(), source);
        plan.toolsets.insert(id.clone(), Arc::new(with_spec(entry, Toolset::unlisted)));
        // A program that only gets another environment is taken to have the tools it had, until it is listed.
        let same = old.and_then(|old| Some((old.config.as_ref()?, source_config(entry)?)));
        let same = same.is_some_and(|(old, new)| is_same_server(&old.reach, &new.reach));
        let before = self.toolsets.get(id).filter(|before| same && before.is_listed() && before.loaded);
        let is_other = self.entry(id.as_str()).and_then(key_of) != key_of(entry);
        if listing.is_some() || before.is_none() {
            plan.borrowed.remove(id);
        } else if is_other {
            plan.borrowed.insert(id.clone());
        }
        let listing = listing.or_else(|| before.map(|before| at_hand(before)));
        plan.listings.extend(listing.map(|listing| (id.clone(), listing, false)));
    }

    async fn put_in_force(&mut self, config: Arc<Config>, plan: Plan) {
        self.config = config;
        self.sources = Arc::new(plan.sources);
        self.toolsets = plan.toolsets;
        self.borrowed = plan.borrowed;
        let keys: Vec<Key> = self.config.sources.iter().filter_map(key_of).collect();
        self.unread.iter_mut().for_each(|unread| unread.retain(|key| keys.contains(key)));
        let is_in_force = |sources: &BTreeMap<SourceId, Source>, source: &Source| {
            sources.get(&source.id).is_some_and(|current| current.edition == source.edition)
        };
        self.unstarted.retain(|source| is_in_force(&self.sources, source));
        self.unstarted.extend(plan.started);
        let sources = self.sources.clone();
        self.digests.retain(|id, _| sources.get(id).is_some_and(|source| source.edition != self.around.edition));
        if !self.rebuild(plan.listings).await {
            // The last catalog fits the last sources only: better one without these tools.
            self.rebuild(Vec::new()).await;
        }
        // Only now: whoever calls from here on finds the new sources.
        for (source, why) in plan.ended {
            source.end(why);
        }
        self.start_due();
        for source in plan.forgotten {
            self.around.tracker.spawn(async move { source.forget().await });
        }
        self.around.tracker.spawn_blocking(crate::trim::give_back);
    }
}

/// Whether two ways of reaching a source lead to the same one, though not with the same settings.
fn is_same_server(old: &Reach, new: &Reach) -> bool {
    match (old, new) {
        (Reach::Program(old), Reach::Program(new)) => (&old.command, &old.args) == (&new.command, &new.args),
        (Reach::Http(old), Reach::Http(new)) => old.url == new.url,
        _ => false,
    }
}

/// The tools of a toolset as their source listed them, as far as they are at hand.
pub(super) fn at_hand(toolset: &Toolset) -> Listing {
    Listing::new(raws(toolset), toolset.note().clone(), toolset.incomplete.clone())
}

/// The JSON of each tool.
pub(super) fn raws(toolset: &Toolset) -> Vec<Box<str>> {
    toolset.entries.iter().map(|entry| entry.raw.unpack().into_boxed_str()).collect()
}

fn source_config(entry: &SourceEntry) -> Option<&SourceConfig> {
    match entry {
        SourceEntry::Usable(config) if config.enabled => Some(config),
        _ => None,
    }
}

/// Why the source that an entry had so far is ended.
fn farewell(entry: &SourceEntry) -> Farewell {
    match entry {
        SourceEntry::Misconfigured(bad) => Farewell::Misconfigured(bad.reason.clone()),
        SourceEntry::Usable(config) if !config.enabled => Farewell::Disabled,
        SourceEntry::Usable(_) => Farewell::Changed,
    }
}
