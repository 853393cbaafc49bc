//! Owns the batches: calls made together, each with its own outcome, and the work on them.
//! A batch belongs to a principal, not to a connection. Each of its calls takes the same path as any other. For how long it
//! is kept, and how much of it, `kept` says.

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

use super::kept::{BATCHES_MAX, Kept};
use super::lanes::{Lanes, Turn};

/// The most calls of one batch.
pub const CALLS_MAX: usize = 200;
/// How often it is looked after batches that have been kept for long enough, while there are any.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// One call of a batch.
pub struct Item {
    pub asked: Asked,
    /// The text of an object.
    pub arguments: String,
}

/// What has become of one call. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Outcome {
    Waiting,
    Running,
    /// The source's own result; whether it says that it is an error.
    Done {
        result: Arc<RawValue>,
        is_error: bool,
        took: Duration,
    },
    Failed {
        error: Arc<CallError>,
        took: Duration,
    },
    Cancelled,
}

impl Outcome {
    fn failed(error: CallError, took: Duration) -> Self {
        Self::Failed { error: Arc::new(error), took }
    }

    fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }

    /// How many bytes of a source's it holds.
    fn bytes(&self) -> usize {
        let length = |text: &Option<Box<RawValue>>| text.as_ref().map_or(0, |text| text.get().len());
        match self {
            Self::Done { result, .. } => result.get().len(),
            Self::Failed { error, .. } => error.message.len() + length(&error.cause) + length(&error.input_schema),
            Self::Waiting | Self::Running | Self::Cancelled => 0,
        }
    }

    /// What is told instead, where there is no room for it.
    fn too_large(self) -> Self {
        let text = format!("the result of {} bytes is too large to be kept with the batch", self.bytes());
        let hint = "the call itself was made; if it only reads, make it again by itself, or ask for less";
        let error = CallError::new(ErrorKind::Unavailable, text, hint);
        match self {
            Self::Done { took, .. } | Self::Failed { took, .. } => Self::failed(error, took),
            other => other,
        }
    }
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
        self.outcomes.iter().filter(|outcome| outcome.is_over()).count()
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
    id: String,
    state: Mutex<State>,
    changed: Notify,
    cancel: CancellationToken,
    tenant: Option<Tenant>,
    /// The number of its principal.
    owner: u64,
    /// One a call, in their order.
    tickets: Vec<Arc<Ticket>>,
}

struct State {
    outcomes: Vec<Outcome>,
    /// Whether the last call is over.
    is_over: bool,
    begun: Instant,
}

#[derive(Default)]
struct Shelf {
    kept: Kept<Arc<Batch>>,
    /// Whether a task looks after it.
    is_swept: bool,
}

/// All batches. Cheap to clone.
#[derive(Clone)]
pub struct Batches {
    shelf: Arc<Mutex<Shelf>>,
    snapshots: Snapshots,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Batches {
    pub fn new(snapshots: Snapshots, tracker: TaskTracker, shutdown: CancellationToken) -> Self {
        Self { shelf: Arc::default(), snapshots, tracker, shutdown }
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
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
        let batch = Arc::new(Batch {
            id: crate::name::unguessable(),
            state: Mutex::new(State {
                outcomes: vec![Outcome::Waiting; items.len()],
                is_over: false,
                begun: Instant::now(),
            }),
            changed: Notify::new(),
            cancel: self.shutdown.child_token(),
            tenant: tenant.cloned(),
            owner: principal.number(),
            tickets: items.iter().map(|_| Arc::default()).collect(),
        });
        self.keep(principal, &batch)?;
        let snapshots = self.snapshots.seen_by(principal);
        self.tracker.spawn(self.clone().run(batch.clone(), items, max_parallel, snapshots));
        Ok((batch.id.clone(), Untold(Some(batch))))
    }

    fn keep(&self, principal: &Principal, batch: &Arc<Batch>) -> Result<(), CallError> {
        let mut shelf = self.lock();
        shelf.kept.expire(Instant::now());
        if !shelf.kept.add(&batch.id, principal, batch.clone()) {
            let text = format!("{BATCHES_MAX} batches are running already");
            return Err(CallError::new(ErrorKind::Busy, text, "wait for one with batch_status, or cancel one"));
        }
        if !std::mem::replace(&mut shelf.is_swept, true) {
            self.tracker.spawn(self.clone().sweep());
        }
        Ok(())
    }

    /// Forgets batches in time, until there are none.
    async fn sweep(self) {
        while self.shutdown.run_until_cancelled(tokio::time::sleep(SWEEP_EVERY)).await.is_some() {
            let mut shelf = self.lock();
            let forgot = shelf.kept.expire(Instant::now());
            shelf.is_swept = !shelf.kept.is_empty();
            let goes_on = shelf.is_swept;
            drop(shelf);
            if forgot {
                crate::trim::give_back();
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Waits until the batch is over, at most `wait`, and tells how it stands.
    pub async fn report(&self, principal: &Principal, id: &str, wait: Duration) -> Result<Report, CallError> {
        let batch = self.find(principal, id)?;
        let _ = tokio::time::timeout(wait, batch.over()).await;
        let outcomes = batch.lock().outcomes.clone();
        Ok(Report { id: id.to_owned(), cancelled: batch.cancel.is_cancelled(), outcomes })
    }

    /// Cancels what of the batch is not over yet; a batch that is over stays as it is.
    pub fn cancel(&self, principal: &Principal, id: &str) -> Result<(), CallError> {
        self.find(principal, id)?.take_back("the batch was cancelled");
        Ok(())
    }

    fn find(&self, principal: &Principal, id: &str) -> Result<Arc<Batch>, CallError> {
        let found = self.lock().kept.find(id, principal, Instant::now());
        found.ok_or_else(|| {
            let text = format!("there is no batch `{id}`");
            let hint = "finished batches are kept for an hour, at most a hundred of them and 64 MiB of results, and no \
                        longer than the relay runs; start it again with batch_call";
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
        if !self.lock().is_over {
            self.cancel.cancel();
            // The last come first: those that run must not make room for those that wait for the same source.
            self.tickets.iter().rev().for_each(|ticket| ticket.cancel(Some(why)));
        }
    }

    async fn over(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.lock().is_over {
                return;
            }
            changed.await;
        }
    }

    async fn call(&self, index: usize, item: Item, snapshots: &Snapshots) -> Outcome {
        let began = Instant::now();
        let (ticket, tenant) = (self.tickets[index].clone(), self.tenant.clone());
        match perform(snapshots, &item.asked, &item.arguments, ticket, tenant, self.owner).await {
            Ok(Performed { result, is_error }) => {
                Outcome::Done { result: result.into(), is_error, took: began.elapsed() }
            }
            Err(error) => Outcome::failed(error, began.elapsed()),
        }
    }
}

/// The work on one batch.
impl Batches {
    /// Runs all of it, and notes what becomes of each call.
    async fn run(self, batch: Arc<Batch>, items: Vec<Item>, max_parallel: usize, snapshots: Snapshots) {
        let cancelled = batch.cancel.clone();
        let calls = cancelled.run_until_cancelled(self.run_in_turns(&batch, items, max_parallel, &snapshots));
        if calls.await.is_none() {
            self.note(&batch, |outcomes| {
                outcomes.iter_mut().filter(|one| !one.is_over()).for_each(|one| *one = Outcome::Cancelled);
            });
        }
    }

    async fn run_in_turns(&self, batch: &Arc<Batch>, items: Vec<Item>, max_parallel: usize, snapshots: &Snapshots) {
        let mut lanes = Lanes::new(max_parallel);
        let snapshot = snapshots.loaded().await;
        for (index, item) in items.into_iter().enumerate() {
            let (source, most) = lane_of(&snapshot, &item.asked);
            lanes.add(source, most, index, item);
        }
        drop(snapshot);
        // Nothing may be in it.
        self.note(batch, |_| ());
        // Dropped, it ends what still runs.
        let mut running = JoinSet::new();
        let mut places = BTreeMap::new();
        loop {
            while let Some(Turn { index, call, lane }) = lanes.next() {
                self.note(batch, |outcomes| outcomes[index] = Outcome::Running);
                let (batch, snapshots) = (batch.clone(), snapshots.clone());
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
            let has_room = self.lock().kept.has_room(&batch.id, outcome.bytes());
            let outcome = if has_room { outcome } else { outcome.too_large() };
            self.note(batch, |outcomes| outcomes[index] = outcome);
        }
    }

    fn note(&self, batch: &Batch, change: impl FnOnce(&mut [Outcome])) {
        let mut state = batch.lock();
        change(&mut state.outcomes);
        let ends = !state.is_over && state.outcomes.iter().all(Outcome::is_over);
        if ends {
            state.is_over = true;
            tracing::debug!(calls = state.outcomes.len(), took = ?state.begun.elapsed(), "batch over");
        }
        drop(state);
        if ends {
            self.lock().kept.finished(&batch.id, Instant::now());
        }
        batch.changed.notify_waiters();
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
    Outcome::failed(error, Duration::ZERO)
}
