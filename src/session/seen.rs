//! Owns what sources spoke of in their results, so that a later request for it finds its source: URIs of resources that they
//! need not list, and tasks. It does not route.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::call::Reply;
use crate::protocol::Era;
use crate::snapshot::Principal;
use crate::wire::Object;
use crate::wire::raw::elements;

/// How much of each kind is remembered for a principal.
const SEEN_MAX: usize = 4096;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<HashMap<Principal, Spoken>>>);

/// What was spoken of to one principal.
#[derive(Default)]
struct Spoken {
    resources: Latest,
    tasks: Latest,
}

impl Seen {
    /// The source that spoke of a resource, to this principal.
    pub fn source_of(&self, principal: &Principal, uri: &str) -> Option<String> {
        self.with(principal, |spoken| spoken.resources.source(uri))
    }

    /// The source that runs a task, for this principal.
    pub fn source_of_task(&self, principal: &Principal, task: &str) -> Option<String> {
        self.with(principal, |spoken| spoken.tasks.source(task))
    }

    fn with<T>(&self, principal: &Principal, work: impl FnOnce(&mut Spoken) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(all.entry(principal.clone()).or_default())
    }

    /// Takes note of what a result speaks of; `object` is the same result where it has been looked into already.
    pub fn note(&self, principal: &Principal, reply: &Reply, object: Option<&Object<'_>>, source: &str) {
        let task =
            object.filter(|object| reply.era == Era::Modern && object.string("resultType").as_deref() == Some("task"));
        if let Some(task) = task.and_then(|object| object.string("taskId")) {
            self.with(principal, |spoken| spoken.tasks.add(&task, source));
        }
        // Results can be large, and most have none.
        let Some(span) = reply.message.result.filter(|_| reply.message.met.resource_link) else { return };
        let read = if object.is_none() { Object::parse(reply.message.text(span)) } else { None };
        let Some(result) = object.or(read.as_ref()) else { return };
        let list = |name: &str| result.get(name).and_then(elements).unwrap_or_default().into_iter();
        let in_messages = list("messages").filter_map(|message| Object::parse(message)?.get("content"));
        let is_link = |part: &Object<'_>| part.string("type").as_deref() == Some("resource_link");
        let links = list("content").chain(in_messages).filter_map(Object::parse).filter(is_link);
        let uris = links.filter_map(|link| link.string("uri"));
        self.with(principal, |spoken| uris.for_each(|uri| spoken.resources.add(&uri, source)));
    }
}

/// Up to so many names, each with the source that spoke of it last; those longest not spoken of are forgotten first.
#[derive(Default)]
struct Latest {
    /// The source, and which entry of the order is the name's own.
    known: HashMap<Arc<str>, (u64, String)>,
    /// From the oldest on; names that were spoken of again stand here more than once.
    order: VecDeque<(u64, Arc<str>)>,
    last: u64,
}

impl Latest {
    fn source(&self, name: &str) -> Option<String> {
        self.known.get(name).map(|(_, source)| source.clone())
    }

    fn add(&mut self, name: &str, source: &str) {
        self.last += 1;
        let name = self.known.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone());
        self.known.insert(name.clone(), (self.last, source.to_owned()));
        self.order.push_back((self.last, name));
        if self.order.len() > 2 * SEEN_MAX {
            let known = &self.known;
            self.order.retain(|(at, name)| known.get(name).is_some_and(|(own, _)| own == at));
        }
        while self.known.len() > SEEN_MAX {
            let Some((at, name)) = self.order.pop_front() else { break };
            if self.known.get(&name).is_some_and(|(own, _)| *own == at) {
                self.known.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_spoken_of_longest_is_forgotten_first() {
        let mut latest = Latest::default();
        (0..SEEN_MAX).for_each(|n| latest.add(&n.to_string(), "a"));
        latest.add("0", "b");
        assert_eq!(latest.source("1").as_deref(), Some("a"));
        latest.add("new", "a");
        assert_eq!((latest.source("0").as_deref(), latest.source("1")), (Some("b"), None));
        (0..10 * SEEN_MAX).for_each(|_| latest.add("new", "a"));
        assert!(latest.order.len() <= 2 * SEEN_MAX);
        assert_eq!((latest.known.len(), latest.source("2").as_deref()), (SEEN_MAX, Some("a")));
    }

    #[test]
    fn principals_take_no_room_from_each_other() {
        let (seen, [one, other]) = (Seen::default(), ["one", "other"].map(Principal::credential));
        seen.with(&one, |spoken| spoken.tasks.add("t", "a"));
        seen.with(&one, |spoken| (0..2 * SEEN_MAX).for_each(|n| spoken.resources.add(&n.to_string(), "a")));
        seen.with(&other, |spoken| (0..2 * SEEN_MAX).for_each(|n| spoken.tasks.add(&n.to_string(), "b")));
        assert_eq!(seen.source_of_task(&one, "t").as_deref(), Some("a"));
        assert_eq!((seen.source_of_task(&other, "t"), seen.source_of(&other, "t")), (None, None));
    }
}
