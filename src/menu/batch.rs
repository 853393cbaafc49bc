//! Owns the batches: calls made together, each with its own outcome, kept for a while after they are done.
//! A batch belongs to a principal, not to a connection. Each of its calls takes the same path as any other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{CallError, ErrorKind, Tenant, Ticket};
use crate::dispatch::Asked;
use crate::perform::{Performed, perform};
use crate::snapshot::{Principal, Snapshots};

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

    /// Starts a batch, `max_parallel` calls at a time; gives its id. Its calls go to the tenant's instances of sources.
    pub fn start(
        &self,
        principal: &Principal,
        tenant: Option<&Tenant>,
        items: Vec<Item>,
        max_parallel: usize,
    ) -> Result<String, CallError> {
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
        let places = Arc::new(Semaphore::new(max_parallel));
        for (index, item) in items.into_iter().enumerate() {
            let (batch, places, snapshots) = (batch.clone(), places.clone(), self.snapshots.seen_by(principal));
            self.tracker.spawn(async move {
                let outcome = tokio::select! {
                    // First: a place that a cancelled call leaves is none for the next.
                    biased;
                    () = batch.cancel.cancelled() => Outcome::Cancelled,
                    outcome = batch.run(index, item, &places, &snapshots) => outcome,
                };
                batch.set(index, outcome);
            });
        }
        Ok(id)
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
        let batch = self.find(principal, id)?;
        if batch.lock().finished.is_none() {
            batch.cancel.cancel();
            // The last come first: those that run must not make room for those that wait for the same source.
            batch.tickets.iter().rev().for_each(|ticket| ticket.cancel(Some("the batch was cancelled")));
        }
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

    fn set(&self, index: usize, outcome: Outcome) {
        let mut state = self.lock();
        state.outcomes[index] = outcome;
        let over = state.outcomes.iter().all(|outcome| !matches!(outcome, Outcome::Waiting | Outcome::Running));
        if over {
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

    async fn run(&self, index: usize, item: Item, places: &Semaphore, snapshots: &Snapshots) -> Outcome {
        let _place = places.acquire().await;
        let began = Instant::now();
        self.set(index, Outcome::Running);
        let (ticket, tenant) = (self.tickets[index].clone(), self.tenant.clone());
        match perform(snapshots, &item.asked, &item.arguments, ticket, tenant).await {
            Ok(Performed { result, is_error }) => Outcome::Done { result, is_error, took: began.elapsed() },
            Err(error) => Outcome::Failed { error, took: began.elapsed() },
        }
    }
}
