//! Owns the instances of a source of which each session has its own: who has one, and how many of them run.
//! An instance is an actor like that of a shared source, with a process or a connection of its own; it is not listed. What
//! it does is its own affair.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::mpsc;

use super::Ask;
use super::door::Door;
use super::origin::Origin;
use crate::call::{CallError, ErrorKind, Tenant, Whose};
use crate::config::{Isolation, SourceConfig};

/// The instances of one source.
pub struct Instances {
    origin: Origin,
    /// The actor that is listed.
    lister: mpsc::WeakSender<Ask>,
    places: Places,
    all: Mutex<HashMap<Whose, (Tenant, Door)>>,
}

impl Instances {
    pub fn new(origin: Origin, lister: &mpsc::Sender<Ask>) -> Arc<Self> {
        let lister = lister.downgrade();
        Arc::new(Self { origin, lister, places: Places::default(), all: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Whose, (Tenant, Door)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of them run.
    pub fn running(&self) -> usize {
        self.places.0.load(Ordering::Relaxed)
    }

    /// The way to the tenant's instance, if it has one.
    pub fn known(&self, tenant: &Tenant) -> Option<Door> {
        self.lock().get(&tenant.whose()).map(|(_, door)| door.clone())
    }

    /// The way to the tenant's instance, which is made if need be; no process is started before it is called. `None` once
    /// the session or the source is over.
    pub fn of(self: &Arc<Self>, tenant: &Tenant) -> Option<Door> {
        let mut all = self.lock();
        if let Some((_, door)) = all.get(&tenant.whose()) {
            return Some(door.clone());
        }
        let over = self.origin.hold().filter(|_| !tenant.is_over())?;
        let whose = tenant.whose();
        let role = Role::Instance(Instance {
            lister: self.lister.clone(),
            places: self.places.clone(),
            place: None,
            is_of_session: matches!(tenant, Tenant::Session(_)),
        });
        let mut origin = self.origin.clone();
        origin.ending = origin.ending.of_session(tenant.over().cloned());
        origin.around.subscribers = origin.around.subscribers.of(whose);
        origin.around.tenant = Some(tenant.clone());
        let gone = Gone { all: Arc::downgrade(self), whose };
        // Nobody waits for its list.
        let (door, _) = origin.spawn(role, Some(String::new()), (gone, over));
        all.insert(whose, (tenant.clone(), door.clone()));
        Some(door)
    }
}

/// Held by an instance until its processes are gone: then it is forgotten.
struct Gone {
    all: Weak<Instances>,
    whose: Whose,
}

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            let forgotten = all.lock().remove(&self.whose);
            drop(forgotten);
        }
    }
}

/// What an actor is there for.
pub enum Role {
    /// It is listed, and takes the calls of all who have no instance of their own.
    Lister,
    Instance(Instance),
}

/// What an instance knows of the others.
pub struct Instance {
    lister: mpsc::WeakSender<Ask>,
    places: Places,
    /// Held while it runs.
    place: Option<Place>,
    is_of_session: bool,
}

impl Role {
    pub fn is_lister(&self) -> bool {
        matches!(self, Self::Lister)
    }

    /// Whether all its calls come from one session.
    pub fn is_of_session(&self) -> bool {
        matches!(self, Self::Instance(own) if own.is_of_session)
    }

    /// Makes sure of a place to run in: only so many instances have one at once.
    pub fn take_place(&mut self, config: &SourceConfig) -> Result<(), CallError> {
        if let (Self::Instance(own), Isolation::Session { max }) = (self, config.isolation)
            && own.place.is_none()
        {
            own.place = Some(own.places.take(max).ok_or_else(|| full(config.id.as_str(), max))?);
        }
        Ok(())
    }

    /// It does not run any more.
    pub fn leave_place(&mut self) {
        let _ = self.hand_over_place();
    }

    /// The place, to be held on.
    pub fn hand_over_place(&mut self) -> Option<Place> {
        match self {
            Self::Lister => None,
            Self::Instance(own) => own.place.take(),
        }
    }

    /// An instance says that its list has changed: so may have the one that is shown.
    pub fn tell_lister(&self) {
        if let Self::Instance(own) = self
            && let Some(lister) = own.lister.upgrade()
        {
            // With so many asks waiting it is listed anyhow.
            let _ = lister.try_send(Ask::Changed);
        }
    }
}

fn full(source: &str, max: usize) -> CallError {
    let text = format!("source `{source}` runs for {max} sessions already, as many as it may");
    let hint = "try again when another session has ended or was idle, or raise `max_instances` of the source";
    CallError::new(ErrorKind::Busy, text, hint).at(source, None)
}

/// Counts the instances that run.
#[derive(Clone, Default)]
struct Places(Arc<AtomicUsize>);

impl Places {
    fn take(&self, max: usize) -> Option<Place> {
        let room = |taken: usize| (taken < max).then_some(taken + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(Place(self.clone()))
    }
}

/// Counted as running while it lives.
pub struct Place(Places);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_places_as_there_may_be() {
        let places = Places::default();
        let taken: Vec<_> = (0..2).map_while(|_| places.take(2)).collect();
        assert!(taken.len() == 2 && places.take(2).is_none() && places.take(3).is_some());
        drop(taken);
        assert_eq!(places.0.load(Ordering::Relaxed), 0);
    }
}
