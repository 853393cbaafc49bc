//! Owns one start of a source: its turn, the launch, the greeting, and the account of a failure.
//! It does not decide whether to try again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::handshake::{self, Greeting, NoGreeting};
use super::launch;
use super::run::{self, Running};
use crate::call::{CallError, ErrorKind};
use crate::config::{EraChoice, SourceConfig, SystemLookup};
use crate::protocol::Era;

/// How long one start may keep others waiting: a source that takes its time does not use the processor meanwhile.
const TURN: Duration = Duration::from_secs(5);

/// A source that is up.
pub struct Started {
    pub running: Running,
    pub greeting: Greeting,
}

/// Starts the source. `urgent` lets it pass the queue; `cancel` ends the attempt.
pub async fn start(
    config: Arc<SourceConfig>,
    known: Option<Era>,
    around: Surroundings,
    urgent: Arc<Notify>,
    cancel: CancellationToken,
) -> Result<Started, CallError> {
    let turn = tokio::select! {
        permit = around.starting.clone().acquire_owned() => permit.ok(),
        () = urgent.notified() => None,
        () = cancel.cancelled() => return Err(cancelled(&config)),
    };
    let _turn = Turn::hold(turn, &around);
    match attempt(&config, known, &around, &cancel).await {
        Err(NoGreeting::ProbeBroke(error)) if config.era == EraChoice::Auto && known != Some(Era::Legacy) => {
            tracing::info!(source = %config.id, why = %error.message, "started again without the probe");
            attempt(&config, Some(Era::Legacy), &around, &cancel).await.map_err(reason)
        }
        other => other.map_err(reason),
    }
}

fn reason(failure: NoGreeting) -> CallError {
    match failure {
        NoGreeting::Failed(error) | NoGreeting::ProbeBroke(error) => error,
    }
}

async fn attempt(
    config: &SourceConfig,
    known: Option<Era>,
    around: &Surroundings,
    cancel: &CancellationToken,
) -> Result<Started, NoGreeting> {
    let id = config.id.as_str();
    let launched = tokio::select! {
        launched = launch::launch(&config.launch, SystemLookup::default()) => launched,
        () = cancel.cancelled() => return Err(NoGreeting::Failed(cancelled(config))),
    };
    let launched = launched.map_err(|error| {
        let text = format!("source `{id}` could not be launched: {error}");
        NoGreeting::Failed(CallError::new(ErrorKind::Unavailable, text, error.hint()).at(id, None))
    })?;
    let running = run::run(launched, id, config.max_in_flight, around);
    let greeting = tokio::select! {
        greeting = handshake::greet(&running.link, config.era, known) => greeting,
        () = tokio::time::sleep(config.start_timeout) => Err(NoGreeting::Failed(too_slow(config, &running))),
        () = cancel.cancelled() => Err(NoGreeting::Failed(cancelled(config))),
    };
    match greeting {
        Ok(greeting) => Ok(Started { running, greeting }),
        Err(failure) => {
            running.link.stop.cancel();
            Err(failure)
        }
    }
}

fn too_slow(config: &SourceConfig, running: &Running) -> CallError {
    let text = format!(
        "source `{}` was started but did not answer the handshake within {} s{}",
        config.id,
        config.start_timeout.as_secs_f32(),
        running.tail.told()
    );
    CallError::new(ErrorKind::Unavailable, text, "raise `start_timeout_secs` of the source if it needs longer to start")
        .at(config.id.as_str(), None)
}

fn cancelled(config: &SourceConfig) -> CallError {
    let text = format!("the start of source `{}` was broken off", config.id);
    CallError::new(ErrorKind::Cancelled, text, "call again: the source is started when it is needed")
        .at(config.id.as_str(), None)
}

/// A place among the sources that start, given back when dropped or after [`TURN`].
struct Turn {
    _done: Option<oneshot::Sender<()>>,
}

impl Turn {
    fn hold(permit: Option<OwnedSemaphorePermit>, around: &Surroundings) -> Self {
        let Some(permit) = permit else { return Self { _done: None } };
        let (done, ended) = oneshot::channel();
        around.tracker.spawn(async move {
            let _permit = permit;
            let _ = tokio::time::timeout(TURN, ended).await;
        });
        Self { _done: Some(done) }
    }
}
