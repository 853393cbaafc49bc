//! Owns who is told when a resource changes or a page has been visited, clients by source and URI or id, and from which level
//! on anybody wants log lines. Where each session has an instance of its own of a source, it is of that one that it speaks.
//! It does not talk to sources or clients itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call::Whose;
use crate::protocol;
use crate::wire::{Message, Object};

/// Tells one client that a resource has changed: with the params of the source's notification, and what its URI has behind the
/// one that the client has subscribed to.
pub type Tell = Arc<dyn Fn(&Object<'_>, &str) + Send + Sync>;
/// Tells one client that a page has been visited.
pub type Visited = Arc<dyn Fn() + Send + Sync>;

type ByOwner = Vec<(u64, Tell)>;

/// What can be subscribed to: a resource of a source, in the instance of somebody.
type Key = (String, Whose, String);

/// All subscriptions to resources, seen from the instances of one tenant, or from what all clients share. Cheap to clone.
#[derive(Clone)]
pub struct Subscribers {
    whose: Whose,
    resources: Arc<Mutex<BTreeMap<Key, ByOwner>>>,
    levels: Arc<Mutex<Levels>>,
    pages: Arc<Mutex<VecDeque<Page>>>,
}

/// What a client that has said nothing of log lines is taken to want of them once another has, as its place in
/// [`protocol::LOG_LEVELS`]: `info`.
pub const UNSAID: usize = 1;

/// From which level on log lines are wanted.
#[derive(Default)]
struct Levels {
    /// By whose wish it is, and whose instances it is for; `None` of one that has said nothing.
    wishes: BTreeMap<(u64, Whose), Option<usize>>,
    /// Somebody has said something: before that sources send what they send by themselves.
    said: bool,
}

/// How many pages are remembered that clients were asked to visit.
const PAGES_MAX: usize = 1024;

/// A page that a client was asked to visit.
struct Page {
    source: String,
    whose: Whose,
    id: String,
    owner: u64,
    tell: Visited,
}

impl Default for Subscribers {
    fn default() -> Self {
        let (resources, levels, pages) = Default::default();
        Self { whose: Whose::Everybody, resources, levels, pages }
    }
}

/// A subscription that nobody has any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    pub source: String,
    pub uri: String,
}

impl Subscribers {
    /// The same, seen from the instances of somebody.
    pub fn of(&self, whose: Whose) -> Self {
        Self { whose, ..self.clone() }
    }

    fn key(&self, source: &str, uri: &str) -> Key {
        (source.to_owned(), self.whose, uri.to_owned())
    }

    fn pages(&self) -> MutexGuard<'_, VecDeque<Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a client was asked to visit a page, by the id that its source gave it.
    pub fn expect_visit(&self, source: &str, id: &str, owner: u64, tell: Visited) {
        let mut pages = self.pages();
        pages.retain(|page| page.source != source || page.whose != self.whose || page.id != id);
        if pages.len() >= PAGES_MAX {
            pages.pop_front();
        }
        pages.push_back(Page { source: source.to_owned(), whose: self.whose, id: id.to_owned(), owner, tell });
    }

    /// Passes on `notifications/elicitation/complete` of a source, to whom the page was shown.
    pub fn visited(&self, source: &str, message: &Message) {
        let params = message.params_text().and_then(Object::parse);
        let Some(id) = params.and_then(|params| params.string("elicitationId").map(|id| id.into_owned())) else {
            return;
        };
        let mut pages = self.pages();
        let found = pages.iter().position(|page| page.source == source && page.whose == self.whose && page.id == id);
        let page = found.and_then(|place| pages.remove(place));
        drop(pages);
        if let Some(page) = page {
            (page.tell)();
        }
    }

    fn levels(&self) -> MutexGuard<'_, Levels> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes from which level on an owner wants log lines of these instances, and of what all clients share, as its place in
    /// [`protocol::LOG_LEVELS`].
    pub fn set_level(&self, owner: u64, level: usize) {
        let mut levels = self.levels();
        levels.said = true;
        levels.wishes.insert((owner, self.whose), Some(level));
    }

    /// Notes that an owner takes log lines, and has said nothing of them yet: no other's wish leaves it without any.
    pub fn takes_lines(&self, owner: u64) {
        self.levels().wishes.entry((owner, self.whose)).or_default();
    }

    /// An owner wants nothing any more.
    pub fn forget_level(&self, owner: u64) {
        self.levels().wishes.retain(|(other, _), _| *other != owner);
    }

    /// The least level that anybody wants; `None` where nobody has said.
    pub fn level(&self) -> Option<&'static str> {
        let levels = self.levels();
        let least = match self.whose {
            Whose::Everybody if !levels.said => None,
            Whose::Everybody => levels.wishes.values().map(|level| level.unwrap_or(UNSAID)).min(),
            own => levels.wishes.iter().filter(|((_, whose), _)| *whose == own).filter_map(|(_, level)| *level).min(),
        };
        least.map(|level| protocol::LOG_LEVELS[level])
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, ByOwner>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `true` when nobody had subscribed to this resource before.
    pub fn add(&self, source: &str, uri: &str, owner: u64, tell: Tell) -> bool {
        let mut table = self.lock();
        let owners = table.entry(self.key(source, uri)).or_default();
        let first = owners.is_empty();
        owners.retain(|(other, _)| *other != owner);
        owners.push((owner, tell));
        first
    }

    /// `true` when nobody is subscribed to this resource any more, and somebody was.
    pub fn remove(&self, source: &str, uri: &str, owner: u64) -> bool {
        let mut table = self.lock();
        let key = self.key(source, uri);
        let Some(owners) = table.get_mut(&key) else { return false };
        owners.retain(|(other, _)| *other != owner);
        owners.is_empty() && table.remove(&key).is_some()
    }

    /// The source tells nobody of this resource.
    pub fn remove_refused(&self, source: &str, uri: &str) {
        self.lock().remove(&self.key(source, uri));
    }

    /// Ends all subscriptions of an owner; gives the resources that nobody is subscribed to any more.
    pub fn remove_all(&self, owner: u64) -> Vec<Left> {
        self.forget_level(owner);
        self.pages().retain(|page| page.owner != owner);
        let mut table = self.lock();
        let mut left = Vec::new();
        table.retain(|key, owners| {
            owners.retain(|(other, _)| *other != owner);
            if owners.is_empty() {
                left.push(Left { source: key.0.clone(), uri: key.2.clone() });
            }
            !owners.is_empty()
        });
        left
    }

    /// The resources of a source that anybody is subscribed to.
    pub fn uris(&self, source: &str) -> Vec<String> {
        let table = self.lock();
        let own = table.keys().filter(|(of, whose, _)| of == source && *whose == self.whose);
        own.map(|(.., uri)| uri.clone()).collect()
    }

    /// Whether anybody is subscribed to a resource of a source.
    pub fn has_any(&self, source: &str) -> bool {
        let first = self.key(source, "");
        self.lock().range(first..).next().is_some_and(|((of, whose, _), _)| of == source && *whose == self.whose)
    }

    /// Passes on `notifications/resources/updated` of a source: to those who subscribed to the resource, and to those who
    /// subscribed to one that it lies below, to each once, by the nearest.
    pub fn notice(&self, source: &str, message: &Message) {
        let Some(params) = message.params_object() else { return };
        let Some(uri) = params.string("uri") else { return };
        let ends = uri.rmatch_indices('/').flat_map(|(at, _)| [at + 1, at]);
        let mut found: Vec<(u64, Tell, usize)> = Vec::new();
        let table = self.lock();
        for end in [uri.len()].into_iter().chain(ends) {
            for (owner, tell) in table.get(&self.key(source, &uri[..end])).into_iter().flatten() {
                if found.iter().all(|(other, ..)| other != owner) {
                    found.push((*owner, tell.clone(), end));
                }
            }
        }
        drop(table);
        for (_, tell, end) in found {
            tell(&params, &uri[end..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_is_told_to_those_above() {
        let (all, told) = (Subscribers::default(), Arc::new(Mutex::new(Vec::new())));
        for (uri, owner) in
            [("dir:", 1), ("dir:/a", 1), ("dir:/a/b", 1), ("dir:/c/", 1), ("dir:/a", 2), ("dir:/c/d", 3)]
        {
            let told = told.clone();
            let tell: Tell = Arc::new(move |_, below| told.lock().unwrap().push(format!("{owner} {uri} {below}")));
            all.add("s", uri, owner, tell);
        }
        for uri in ["dir:/a/b", "dir:/a/b/c/d", "dir:/ab", "dir:/c/d", "dir", "other:/a"] {
            let params =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#);
            all.notice("s", &Message::parse(params.into()).unwrap_or_else(|(why, _)| panic!("{why}")));
        }
        let each = ["1 dir:/a/b ", "2 dir:/a /b", "1 dir:/a/b /c/d", "2 dir:/a /b/c/d", "1 dir: /ab"];
        assert_eq!(*told.lock().unwrap(), [&each[..], &["3 dir:/c/d ", "1 dir:/c/ d"]].concat());
    }

    #[test]
    fn the_first_and_the_last_are_told_apart() {
        let all = Subscribers::default();
        let tell: Tell = Arc::new(|_, _| {});
        assert!(all.add("a", "x", 1, tell.clone()));
        assert!(!all.add("a", "x", 2, tell.clone()) && !all.add("a", "x", 2, tell.clone()));
        assert!(all.add("b", "x", 1, tell.clone()));
        assert!(all.has_any("a") && !all.has_any("c") && all.uris("a") == ["x"]);
        assert!(!all.remove("a", "x", 1) && all.remove("a", "x", 2) && !all.remove("a", "x", 2));
        assert!(all.add("c", "x", 2, tell.clone()) && !all.add("c", "x", 3, tell.clone()));
        all.remove_refused("c", "x");
        assert!(!all.has_any("c") && all.add("c", "x", 3, tell) && all.remove("c", "x", 3));
        assert_eq!(all.remove_all(1), [Left { source: "b".to_owned(), uri: "x".to_owned() }]);
    }

    #[test]
    fn who_has_said_nothing_of_log_lines_has_a_wish_once_another_has() {
        let all = Subscribers::default();
        let (one, other) = (all.of(Whose::Session(1)), all.of(Whose::Session(2)));
        one.takes_lines(1);
        other.takes_lines(2);
        assert_eq!((all.level(), one.level()), (None, None));
        for (said, least) in [("emergency", "info"), ("debug", "debug")] {
            let level = protocol::LOG_LEVELS.iter().position(|level| *level == said).unwrap();
            one.set_level(1, level);
            one.takes_lines(1);
            assert_eq!((all.level(), one.level(), other.level()), (Some(least), Some(said), None));
        }
        one.forget_level(1);
        assert_eq!((all.level(), one.level()), (Some("info"), None));
    }

    #[test]
    fn instances_are_told_apart() {
        let (all, tell): (_, Tell) = (Subscribers::default(), Arc::new(|_, _| {}));
        let own = all.of(Whose::Session(1));
        assert!(own.add("a", "x", 1, tell.clone()) && all.add("a", "y", 2, tell));
        assert_eq!((own.uris("a"), all.uris("a")), (vec!["x".to_owned()], vec!["y".to_owned()]));
        assert!(own.has_any("a") && !all.of(Whose::Session(2)).has_any("a"));
        own.set_level(1, 3);
        all.of(Whose::Principal(1)).set_level(2, 1);
        assert_eq!((own.level(), all.level()), (Some(protocol::LOG_LEVELS[3]), Some(protocol::LOG_LEVELS[1])));
        assert_eq!(own.remove_all(1).len(), 1);
        assert!(!own.has_any("a") && own.level().is_none() && all.has_any("a"));
    }
}
