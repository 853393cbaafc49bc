//! Owns the batches: calls made together, each with its own outcome, kept for a while after they are done.
//! A batch belongs to a principal, not to a connection. Each of its calls takes the same path as any other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{CallError, ErrorKind, Tenant, Ticket};
use crate::defect;
use crate::dispatch::{self, Asked, NotYet, Resolved};
use crate::name::SourceId;
use crate::perform::{Performed, perform};
use crate::snapshot::{Principal, Snapshot, Snapshots};

use super::lanes::{Lanes, Turn};

/// How long a finished batch is kept.
pub const KEPT: Duration = Duration::from_secs(3600);
/// The most calls of one batch.
pub const CALLS_MAX: usize = 200;
/// The most batches of one principal; the oldest finished ones make room.
const BATCHES_MAX: usize = 100;

/// One call of a batch.
pub struct Item {
    pub asked: Asked,
    /// The text of an object.
    pub arguments: String,
}

/// What has become of one call.
#[derive(Debug, Clone)]
pub enum Outcome {
    Waiting,
    Running,
    /// The source's own result; whether it says that it is an error.
    Done {
        result: Box<RawValue>,
        is_error: bool,
        took: Duration,
    },
    Failed {
        error: CallError,
        took: Duration,
    },
    Cancelled,
}

/// A batch seen from outside.
pub struct Report {
    pub id: String,
    pub cancelled: bool,
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// How many calls are over.
    pub fn done(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !matches!(outcome, Outcome::Waiting | Outcome::Running)).count()
    }
}

/// A batch whose id nobody has been told yet: dropped before it is [`told`](Self::told), it cancels the batch, which nobody
/// could see after.
pub struct Untold(Option<Arc<Batch>>);

impl Untold {
    pub fn told(mut self) {
        self.0 = None;
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        if let Some(batch) = &self.0 {
            batch.take_back("the request for the batch was cancelled");
        }
    }
}

struct Batch {
    principal: Principal,
    state: Mutex<State>,
    changed: Notify,
    cancel: CancellationToken,
    tenant: Option<Tenant>,
    /// One a call, in their order.
    tickets: Vec<Arc<Ticket>>,
}

struct State {
    outcomes: Vec<Outcome>,
    /// When the last call was over.
    finished: Option<Instant>,
    begun: Instant,
}

/// All batches. Cheap to clone.
#[derive(Clone)]
pub struct Batches {
    all: Arc<Mutex<BTreeMap<String, Arc<Batch>>>>,
    snapshots: Snapshots,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Batches {
    pub fn new(snapshots: Snapshots, tracker: TaskTracker, shutdown: CancellationToken) -> Self {
        Self { all: Arc::default(), snapshots, tracker, shutdown }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Batch>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a batch, `max_parallel` calls at a time; gives its id. Its calls go to the tenant's instances of sources. It is
    /// cancelled with the request for it, until that is answered.
    pub fn start(
        &self,
        principal: &Principal,
        tenant: Option<&Tenant>,
        items: Vec<Item>,
        max_parallel: usize,
    ) -> Result<(String, Untold), CallError> {
        self.make_room(principal)?;
        let id = crate::name::unguessable();
        let batch = Arc::new(Batch {
            principal: principal.clone(),
            state: Mutex::new(State {
                outcomes: vec![Outcome::Waiting; items.len()],
                finished: items.is_empty().then(Instant::now),
                begun: Instant::now(),
            }),
            changed: Notify::new(),
            cancel: self.shutdown.child_token(),
            tenant: tenant.cloned(),
            tickets: items.iter().map(|_| Arc::default()).collect(),
        });
        self.lock().insert(id.clone(), batch.clone());
        let snapshots = self.snapshots.seen_by(principal);
        self.tracker.spawn(batch.clone().run(items, max_parallel, snapshots));
        Ok((id, Untold(Some(batch))))
    }

    /// Forgets batches that have been finished for long, and the oldest finished ones of a principal that has too many.
    fn make_room(&self, principal: &Principal) -> Result<(), CallError> {
        let mut all = self.lock();
        all.retain(|_, batch| batch.lock().finished.is_none_or(|finished| finished.elapsed() < KEPT));
        let own = || all.iter().filter(|(_, batch)| batch.principal == *principal);
        if own().count() < BATCHES_MAX {
            return Ok(());
        }
        let oldest = own().filter_map(|(id, batch)| Some((batch.lock().finished?, id.clone()))).min();
        match oldest {
            Some((_, id)) => {
                all.remove(&id);
                Ok(())
            }
            None => {
                let text = format!("{BATCHES_MAX} batches are running already");
                Err(CallError::new(ErrorKind::Busy, text, "wait for one with batch_status, or cancel one"))
            }
        }
    }

    /// Waits until the batch is over, at most `wait`, and tells how it stands.
    pub async fn report(&self, principal: &Principal, id: &str, wait: Duration) -> Result<Report, CallError> {
        let batch = self.find(principal, id)?;
        let _ = tokio::time::timeout(wait, batch.finished()).await;
        let outcomes = batch.lock().outcomes.clone();
        Ok(Report { id: id.to_owned(), cancelled: batch.cancel.is_cancelled(), outcomes })
    }

    /// Cancels what of the batch is not over yet; a batch that is over stays as it is.
    pub fn cancel(&self, principal: &Principal, id: &str) -> Result<(), CallError> {
        self.find(principal, id)?.take_back("the batch was cancelled");
        Ok(())
    }

    fn find(&self, principal: &Principal, id: &str) -> Result<Arc<Batch>, CallError> {
        let found = self.lock().get(id).filter(|batch| batch.principal == *principal).cloned();
        let kept = found.filter(|batch| batch.lock().finished.is_none_or(|finished| finished.elapsed() < KEPT));
        kept.ok_or_else(|| {
            let text = format!("there is no batch `{id}`");
            let hint = "finished batches are kept for an hour, at most a hundred of them, and no longer than the relay \
                        runs; start it again with batch_call";
            CallError::new(ErrorKind::InvalidArguments, text, hint)
        })
    }
}

impl Batch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels what is not over yet.
    fn take_back(&self, why: &str) {
        if self.lock().finished.is_none() {
            self.cancel.cancel();
            // The last come first: those that run must not make room for those that wait for the same source.
            self.tickets.iter().rev().for_each(|ticket| ticket.cancel(Some(why)));
        }
    }

    fn set(&self, index: usize, outcome: Outcome) {
        self.note(|outcomes| outcomes[index] = outcome);
    }

    /// Of all that is not over.
    fn set_rest(&self, outcome: &Outcome) {
        let open = |one: &&mut Outcome| matches!(one, Outcome::Waiting | Outcome::Running);
        self.note(|outcomes| outcomes.iter_mut().filter(open).for_each(|one| *one = outcome.clone()));
    }

    fn note(&self, change: impl FnOnce(&mut [Outcome])) {
        let mut state = self.lock();
        change(&mut state.outcomes);
        let over = state.outcomes.iter().all(|outcome| !matches!(outcome, Outcome::Waiting | Outcome::Running));
        if over && state.finished.is_none() {
            state.finished = Some(Instant::now());
            tracing::debug!(calls = state.outcomes.len(), took = ?state.begun.elapsed(), "batch over");
        }
        drop(state);
        self.changed.notify_waiters();
    }

    async fn finished(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.lock().finished.is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Runs all of it, and notes what becomes of each call.
    async fn run(self: Arc<Self>, items: Vec<Item>, max_parallel: usize, snapshots: Snapshots) {
        let cancelled = self.cancel.clone();
        let calls = cancelled.run_until_cancelled(self.run_in_turns(items, max_parallel, &snapshots));
        if calls.await.is_none() {
            self.set_rest(&Outcome::Cancelled);
        }
    }

    async fn run_in_turns(self: &Arc<Self>, items: Vec<Item>, max_parallel: usize, snapshots: &Snapshots) {
        let mut lanes = Lanes::new(max_parallel);
        let snapshot = snapshots.loaded().await;
        for (index, item) in items.into_iter().enumerate() {
            let (source, most) = lane_of(&snapshot, &item.asked);
            lanes.add(source, most, index, item);
        }
        drop(snapshot);
        // Dropped, it ends what still runs.
        let mut running = JoinSet::new();
        let mut places = BTreeMap::new();
        loop {
            while let Some(Turn { index, call, lane }) = lanes.next() {
                self.set(index, Outcome::Running);
                let (batch, snapshots) = (self.clone(), snapshots.clone());
                let task = running.spawn(defect::contained(async move { batch.call(index, call, &snapshots).await }));
                places.insert(task.id(), (index, lane));
            }
            let (id, outcome) = match running.join_next_with_id().await {
                None => return,
                Some(Ok(ended)) => ended,
                Some(Err(error)) => (error.id(), broken()),
            };
            let (index, lane) = places.remove(&id).expect("BUG: every call has its place");
            lanes.give_back(lane);
            self.set(index, outcome);
        }
    }

    async fn call(&self, index: usize, item: Item, snapshots: &Snapshots) -> Outcome {
        let began = Instant::now();
        let (ticket, tenant) = (self.tickets[index].clone(), self.tenant.clone());
        match perform(snapshots, &item.asked, &item.arguments, ticket, tenant).await {
            Ok(Performed { result, is_error }) => Outcome::Done { result, is_error, took: began.elapsed() },
            Err(error) => Outcome::Failed { error, took: began.elapsed() },
        }
    }
}

/// The source whose turn a call waits for, and how many of its calls may run at once. What goes to none is refused at once.
fn lane_of(snapshot: &Snapshot, asked: &Asked) -> (Option<SourceId>, usize) {
    let source = match dispatch::resolve(snapshot, asked) {
        Resolved::Route(route) => route.source,
        Resolved::NotYet(NotYet::List(source, _)) => *source,
        Resolved::NotYet(NotYet::Load) | Resolved::Refused(_) => return (None, usize::MAX),
    };
    let most = source.config.as_ref().map_or(usize::MAX, |config| config.max_in_flight);
    (Some(source.id), most)
}

/// A call that ended by a fault of the relay's own.
fn broken() -> Outcome {
    let text = "toolrelay failed at this call";
    let error = CallError::new(ErrorKind::Unavailable, text, "please report it with the lines on stderr");
    Outcome::Failed { error, took: Duration::ZERO }
}
