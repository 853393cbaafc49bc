//! Owns what all actors of one source are made of, and how one is spawned.
//! It does not decide how many there are.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use super::actor::Actor;
use super::door::{Door, Live};
use super::farewell::Ending;
use super::instances::Role;
use super::{State, Status, Surroundings};
use crate::config::SourceConfig;
use crate::protocol::Era;

/// How many calls and questions may wait for an actor: more than one client can have in flight.
const INBOX: usize = 1024;
/// How long the successor of a source waits for its end: a little longer than that takes. What still runs then has left
/// the source's process group and holds its pipes.
const SUCCESSION: Duration = Duration::from_secs(3);

/// What the actors of one source share.
#[derive(Clone)]
pub struct Origin {
    /// What its configuration says now.
    pub settings: Arc<watch::Sender<Arc<SourceConfig>>>,
    pub ending: Ending,
    pub around: Surroundings,
    /// The end of the source whose place it takes.
    pub after: Option<Ending>,
    /// What was found out of its era.
    pub era: Arc<Mutex<Option<Era>>>,
    /// The source is over once no actor holds this any more.
    over: Weak<DropGuard>,
}

impl Origin {
    /// What a new source is made of, and what its first actor holds.
    pub fn new(
        config: Arc<SourceConfig>,
        era: Option<Era>,
        around: &Surroundings,
        after: Option<Ending>,
    ) -> (Self, Arc<DropGuard>) {
        let ending = Ending::default();
        let over = Arc::new(ending.guard());
        let settings = Arc::new(watch::channel(config).0);
        let (around, era) = (around.clone(), Arc::new(Mutex::new(era)));
        (Self { settings, ending, around, after, era, over: Arc::downgrade(&over) }, over)
    }

    /// What a further actor holds; `None` once the source is over.
    pub fn hold(&self) -> Option<Arc<DropGuard>> {
        self.over.upgrade().filter(|_| !self.ending.is_wanted())
    }

    /// Spawns an actor; it starts no process by itself. `held` is dropped when its processes are gone.
    pub fn spawn(
        self,
        role: Role,
        digest: Option<String>,
        held: impl Send + 'static,
    ) -> (Door, watch::Receiver<Status>) {
        let (inbox, asks) = mpsc::channel(INBOX);
        let (publish, status) = watch::channel(Status::now(State::Dormant { note: None }));
        let live = Live::default();
        // All that belongs to this actor: it can be ended, and seen to its end, without the others.
        let (tracker, shutdown) = (TaskTracker::new(), self.around.shutdown.child_token());
        let own = Surroundings { tracker: tracker.clone(), shutdown: shutdown.clone(), ..self.around.clone() };
        let (outer, after) = (self.around.tracker.clone(), self.after.clone());
        let actor = Actor::new(self, own, role, digest, live.clone(), publish);
        outer.spawn(async move {
            let _held = held;
            if let Some(after) = after {
                tokio::select! {
                    () = after.over().cancelled() => {}
                    () = shutdown.cancelled() => {}
                }
            }
            let _place = actor.run(asks).await;
            tracker.close();
            let _ = tokio::time::timeout(SUCCESSION, tracker.wait()).await;
        });
        (Door { live, inbox }, status)
    }
}
