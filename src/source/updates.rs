//! Owns who is told when a resource changes or a page has been visited, clients by source and URI or id, and from which level
//! on anybody wants log lines.
//! It does not talk to sources or clients itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol;
use crate::wire::{Message, Object};

/// Tells one client that the resource has changed.
pub type Tell = Arc<dyn Fn() + Send + Sync>;

type ByOwner = Vec<(u64, Tell)>;

/// All subscriptions to resources. Cheap to clone.
#[derive(Clone, Default)]
pub struct Subscribers {
    resources: Arc<Mutex<BTreeMap<(String, String), ByOwner>>>,
    levels: Arc<Mutex<BTreeMap<u64, usize>>>,
    pages: Arc<Mutex<VecDeque<Page>>>,
}

/// How many pages are remembered that clients were asked to visit.
const PAGES_MAX: usize = 1024;

/// A page that a client was asked to visit.
struct Page {
    source: String,
    id: String,
    owner: u64,
    tell: Tell,
}

impl Subscribers {
    fn pages(&self) -> MutexGuard<'_, VecDeque<Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a client was asked to visit a page, by the id that its source gave it.
    pub fn expect_visit(&self, source: &str, id: &str, owner: u64, tell: Tell) {
        let mut pages = self.pages();
        pages.retain(|page| page.source != source || page.id != id);
        if pages.len() >= PAGES_MAX {
            pages.pop_front();
        }
        pages.push_back(Page { source: source.to_owned(), id: id.to_owned(), owner, tell });
    }

    /// Passes on `notifications/elicitation/complete` of a source, to whom the page was shown.
    pub fn visited(&self, source: &str, message: &Message) {
        let params = message.params_text().and_then(Object::parse);
        let Some(id) = params.and_then(|params| params.string("elicitationId").map(|id| id.into_owned())) else {
            return;
        };
        let mut pages = self.pages();
        let found = pages.iter().position(|page| page.source == source && page.id == id);
        let page = found.and_then(|place| pages.remove(place));
        drop(pages);
        if let Some(page) = page {
            (page.tell)();
        }
    }

    /// Notes from which level on an owner wants log lines, as its place in [`protocol::LOG_LEVELS`]. Gives the least level
    /// that anybody wants, if that is another now.
    pub fn set_level(&self, owner: u64, level: usize) -> Option<&'static str> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let before = levels.values().min().copied();
        levels.insert(owner, level);
        let now = levels.values().min().copied();
        now.filter(|_| now != before).map(|level| protocol::LOG_LEVELS[level])
    }

    /// The least level that anybody wants; `None` where nobody has said.
    pub fn level(&self) -> Option<&'static str> {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        levels.values().min().map(|level| protocol::LOG_LEVELS[*level])
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), ByOwner>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `true` when nobody had subscribed to this resource before.
    pub fn add(&self, source: &str, uri: &str, owner: u64, tell: Tell) -> bool {
        let mut table = self.lock();
        let owners = table.entry((source.to_owned(), uri.to_owned())).or_default();
        let first = owners.is_empty();
        owners.retain(|(other, _)| *other != owner);
        owners.push((owner, tell));
        first
    }

    /// `true` when nobody is subscribed to this resource any more, and somebody was.
    pub fn remove(&self, source: &str, uri: &str, owner: u64) -> bool {
        let mut table = self.lock();
        let key = (source.to_owned(), uri.to_owned());
        let Some(owners) = table.get_mut(&key) else { return false };
        owners.retain(|(other, _)| *other != owner);
        owners.is_empty() && table.remove(&key).is_some()
    }

    /// Ends all subscriptions of an owner; gives the resources that nobody is subscribed to any more.
    pub fn remove_all(&self, owner: u64) -> Vec<(String, String)> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner).remove(&owner);
        self.pages().retain(|page| page.owner != owner);
        let mut table = self.lock();
        let mut left = Vec::new();
        table.retain(|key, owners| {
            owners.retain(|(other, _)| *other != owner);
            if owners.is_empty() {
                left.push(key.clone());
            }
            !owners.is_empty()
        });
        left
    }

    /// The resources of a source that anybody is subscribed to.
    pub fn uris(&self, source: &str) -> Vec<String> {
        self.lock().keys().filter(|(of, _)| of == source).map(|(_, uri)| uri.clone()).collect()
    }

    /// Whether anybody is subscribed to a resource of a source.
    pub fn has_any(&self, source: &str) -> bool {
        self.lock().range((source.to_owned(), String::new())..).next().is_some_and(|((of, _), _)| of == source)
    }

    /// Passes on `notifications/resources/updated` of a source.
    pub fn notice(&self, source: &str, message: &Message) {
        let uri = message.params_text().and_then(Object::parse).and_then(|params| params.string("uri"));
        let Some(uri) = uri else { return };
        let owners = self.lock().get(&(source.to_owned(), uri.into_owned())).cloned().unwrap_or_default();
        for (_, tell) in owners {
            tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_told_apart() {
        let all = Subscribers::default();
        let tell: Tell = Arc::new(|| {});
        assert!(all.add("a", "x", 1, tell.clone()));
        assert!(!all.add("a", "x", 2, tell.clone()) && !all.add("a", "x", 2, tell.clone()));
        assert!(all.add("b", "x", 1, tell));
        assert!(all.has_any("a") && !all.has_any("c") && all.uris("a") == ["x"]);
        assert!(!all.remove("a", "x", 1) && all.remove("a", "x", 2) && !all.remove("a", "x", 2));
        assert_eq!(all.remove_all(1), [("b".to_owned(), "x".to_owned())]);
    }
}
