//! Owns who is told when a resource changes, clients by source and URI, and from which level on anybody wants log lines.
//! It does not talk to sources or clients itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol;
use crate::wire::{Message, Object};

/// Tells one client that the resource has changed.
pub type Tell = Arc<dyn Fn() + Send + Sync>;

type ByOwner = Vec<(u64, Tell)>;

/// All subscriptions to resources. Cheap to clone.
#[derive(Clone, Default)]
pub struct Subscribers(Arc<Mutex<BTreeMap<(String, String), ByOwner>>>, Arc<Mutex<BTreeMap<u64, usize>>>);

impl Subscribers {
    /// Notes from which level on an owner wants log lines, as its place in [`protocol::LOG_LEVELS`]. Gives the least level
    /// that anybody wants, if that is another now.
    pub fn set_level(&self, owner: u64, level: usize) -> Option<&'static str> {
        let mut levels = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        let before = levels.values().min().copied();
        levels.insert(owner, level);
        let now = levels.values().min().copied();
        now.filter(|_| now != before).map(|level| protocol::LOG_LEVELS[level])
    }

    /// The least level that anybody wants; `None` where nobody has said.
    pub fn level(&self) -> Option<&'static str> {
        let levels = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        levels.values().min().map(|level| protocol::LOG_LEVELS[*level])
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), ByOwner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.1.lock().unwrap_or_else(PoisonError::into_inner).remove(&owner);
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
