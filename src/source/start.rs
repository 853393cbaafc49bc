//! Owns one start of a source: its turn, the launch, the greeting, and the account of a failure.
//! It does not decide whether to try again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::budget::{self, Spent};
use super::handshake::{self, Greeting, NoGreeting};
use super::http;
use super::launch;
use super::run::{self, Running};
use super::{Status, Surroundings};
use crate::call::{CallError, ErrorKind};
use crate::config::{EraChoice, Launch, Reach, Remote, SourceConfig, Transport};
use crate::protocol::Era;

/// How long one start may keep others waiting: a source that takes its time does not use the processor meanwhile.
const TURN: Duration = Duration::from_secs(5);
/// How long a launch waits for the end of the one before it: a little longer than that takes.
const SUCCESSION: Duration = Duration::from_secs(6);

/// What is told of a source that is started once more at once.
const WITHOUT_PROBE: &str = "started again without the probe";
const FROM_SCRATCH: &str = "started again, to ask for its era anew";

/// A source that is up.
pub struct Started {
    pub running: Running,
    pub greeting: Greeting,
}

/// What one start goes by, besides the source's configuration.
pub struct Terms {
    /// What was found out earlier.
    pub known: Option<Era>,
    /// Lets it pass the queue.
    pub urgent: Arc<Notify>,
    /// Ends the attempt.
    pub cancel: CancellationToken,
    /// The processes of these launches that are not gone yet; closed, so that it can be waited for.
    pub processes: TaskTracker,
    /// Where it tells that it is at work.
    pub publish: watch::Sender<Status>,
}

/// Starts the source.
pub async fn start(config: Arc<SourceConfig>, around: Surroundings, terms: Terms) -> Result<Started, CallError> {
    let Terms { known, urgent, cancel, processes, publish } = terms;
    let attempt =
        Attempt { config: &config, around: &around, cancel: &cancel, processes: &processes, publish: &publish };
    attempt.succeed().await.map_err(NoGreeting::error)?;
    let turn = tokio::select! {
        permit = around.starting.clone().acquire_owned() => permit.ok(),
        () = urgent.notified() => None,
        () = cancel.cancelled() => return Err(cancelled(&config)),
    };
    let _turn = Turn::hold(turn, &around);
    match &config.reach {
        Reach::Program(launch) => attempt.launched(launch, known).await.map_err(NoGreeting::error),
        Reach::Http(remote) => attempt.connected(remote, known).await.map_err(NoGreeting::error),
    }
}

/// One start, with what may end it.
struct Attempt<'a> {
    config: &'a SourceConfig,
    around: &'a Surroundings,
    cancel: &'a CancellationToken,
    processes: &'a TaskTracker,
    publish: &'a watch::Sender<Status>,
}

impl Attempt<'_> {
    async fn launched(&self, launch: &Launch, known: Option<Era>) -> Result<Started, NoGreeting> {
        match self.launch_once(launch, known).await {
            Err(NoGreeting::ProbeBroke(error)) if self.probed(known) => {
                self.tell_again(&error, WITHOUT_PROBE);
                self.succeed().await?;
                self.launch_once(launch, Some(Era::Legacy)).await
            }
            Err(NoGreeting::Outdated(error)) => {
                self.tell_again(&error, FROM_SCRATCH);
                self.succeed().await?;
                // If that fails too, the first reason is the better one.
                self.launch_once(launch, None).await.map_err(|_| NoGreeting::Failed(error))
            }
            other => other,
        }
    }

    /// Waits until what was launched before is gone: both may want the same port or file.
    async fn succeed(&self) -> Result<(), NoGreeting> {
        tokio::select! {
            biased;
            _ = tokio::time::timeout(SUCCESSION, self.processes.wait()) => Ok(()),
            () = self.cancel.cancelled() => Err(NoGreeting::Failed(cancelled(self.config))),
        }
    }

    /// Whether the source was asked for its era first.
    fn probed(&self, known: Option<Era>) -> bool {
        self.config.era == EraChoice::Auto && known != Some(Era::Legacy)
    }

    fn tell_again(&self, error: &CallError, how: &str) {
        tracing::info!(source = %self.config.id, why = %error.message, "{how}");
    }

    async fn launch_once(&self, settings: &Launch, known: Option<Era>) -> Result<Started, NoGreeting> {
        let id = self.config.id.as_str();
        let launched = tokio::select! {
            launched = launch::launch(settings, self.around.lookup(), self.around.watchdog.next_mark()) => launched,
            () = self.cancel.cancelled() => return Err(NoGreeting::Failed(cancelled(self.config))),
        };
        let launched = launched.map_err(|error| {
            let text = format!("source `{id}` could not be launched: {error}");
            NoGreeting::Failed(CallError::new(ErrorKind::Unavailable, text, error.hint()).at(id, None))
        })?;
        let running = run::run(launched, id, self.config.max_in_flight, self.around, self.processes);
        self.greet(running, known).await
    }

    /// Over HTTP a source may have to be connected to up to three times: with the probe, without it, and over the
    /// transport of 2024-11-05.
    async fn connected(&self, remote: &Remote, known: Option<Era>) -> Result<Started, NoGreeting> {
        if remote.transport == Transport::Sse {
            return self.connect_once(remote, true, Some(Era::Legacy)).await.map_err(|refused| refused.why);
        }
        let mut refused = match self.connect_once(remote, false, known).await {
            Ok(started) => return Ok(started),
            Err(refused) => refused,
        };
        match &refused.why {
            NoGreeting::ProbeBroke(error) if refused.again && self.probed(known) => {
                self.tell_again(error, WITHOUT_PROBE);
                refused = match self.connect_once(remote, false, Some(Era::Legacy)).await {
                    Ok(started) => return Ok(started),
                    Err(refused) => refused,
                };
            }
            NoGreeting::Outdated(error) if refused.again => {
                self.tell_again(error, FROM_SCRATCH);
                // If that fails too, the first reason is the better one.
                if let Ok(started) = self.connect_once(remote, false, None).await {
                    return Ok(started);
                }
            }
            _ => {}
        }
        if refused.wants_old && remote.transport == Transport::Auto && self.config.era != EraChoice::Modern {
            tracing::info!(source = %self.config.id, "streamable HTTP is refused, HTTP+SSE is tried");
            let first = refused.why.error();
            let second = self.connect_once(remote, true, Some(Era::Legacy)).await;
            return second.map_err(|second| NoGreeting::Failed(either(first, second.why.error())));
        }
        Err(refused.why)
    }

    async fn connect_once(&self, remote: &Remote, old: bool, known: Option<Era>) -> Result<Started, Refused> {
        let final_one = |error| Refused { why: NoGreeting::Failed(error), again: false, wants_old: false };
        let running = tokio::select! {
            running = http::connect(self.config, remote, old, self.around) => running.map_err(final_one)?,
            () = self.cancel.cancelled() => return Err(final_one(cancelled(self.config))),
        };
        let connection = running.http.clone();
        self.greet(running, known).await.map_err(|why| Refused {
            // What ended the whole connection would end the next one too.
            again: !matches!(why, NoGreeting::Failed(_)) && connection.as_ref().is_some_and(|it| !it.has_ended()),
            wants_old: connection.is_some_and(|connection| connection.wants_old()),
            why,
        })
    }

    async fn greet(&self, running: Running, known: Option<Era>) -> Result<Started, NoGreeting> {
        let (config, began) = (self.config, Instant::now());
        let greeting = tokio::select! {
            greeting = handshake::greet(&running.link, config.era, known, self.around.tenant.as_ref()) => greeting,
            spent = budget::spent(&running, config, self.publish) => {
                let error = too_slow(config, &running, began, spent);
                let is_remembered = config.era == EraChoice::Auto && known == Some(Era::Legacy);
                // What was mute to the only thing it was asked may answer another.
                if spent == Spent::Idle && is_remembered { Err(NoGreeting::Outdated(error)) } else { Err(NoGreeting::Failed(error)) }
            }
            () = self.cancel.cancelled() => Err(NoGreeting::Failed(cancelled(config))),
        };
        match greeting {
            Ok(greeting) => Ok(Started { running, greeting }),
            Err(failure) => {
                running.link.stop.cancel();
                Err(failure)
            }
        }
    }
}

/// What is told where both transports came to nothing. Where there is no stream at all the first reason is the better one;
/// else the source speaks HTTP+SSE, and why that failed is what matters.
fn either(first: CallError, mut second: CallError) -> CallError {
    if second.hint.starts_with("correct `url`") {
        return first;
    }
    second.message = format!("{} (over HTTP+SSE; over streamable HTTP: {})", second.message, first.message);
    second
}

/// A connection that came to nothing, and what may be tried instead.
struct Refused {
    why: NoGreeting,
    /// Asked in another way it may do better.
    again: bool,
    wants_old: bool,
}

fn too_slow(config: &SourceConfig, running: &Running, began: Instant, spent: Spent) -> CallError {
    let (limit, of, key) = match spent {
        Spent::Idle if running.pid.is_none() => (config.start_timeout, "", "start_timeout_secs"),
        Spent::Idle => (config.start_timeout, " of its last sign of work", "start_timeout_secs"),
        Spent::Whole => (config.max_start, ", though it was at work", "max_start_secs"),
    };
    let done = if running.http.is_some() { "connected to" } else { "started" };
    let text = format!(
        "source `{}` was {done} but did not answer the handshake within {} s{of}{}{}",
        config.id,
        limit.as_secs_f32(),
        running.link.noise.told(began),
        running.tail.told()
    );
    let hint = format!("raise `{key}` of the source if it needs longer to start");
    CallError::new(ErrorKind::Unavailable, text, hint).at(config.id.as_str(), None)
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
