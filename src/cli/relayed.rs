//! Owns a relay's life around one command: built, asked, drained, whatever happens in between.
//! It does not know what the command asks.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::progress::Progress;
use super::{Common, Failure, setup};
use crate::call::{CallError, ErrorKind};
use crate::catalog::text::visible_name;
use crate::config::Config;
use crate::relay::Relay;
use crate::snapshot::Snapshot;
use crate::source::Source;

/// How many sources are named as being waited for.
const NAMED: usize = 3;

/// Reads the configuration, and does `work` beside a relay.
pub fn run(
    common: &Common,
    work: impl AsyncFnOnce(&Arc<Relay>, &Progress) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let progress = Progress::new(common.json);
    let _log = setup::start_command_log(common, &progress);
    let (file, config) = setup::load_config(common)?;
    if !config.faults.is_empty() {
        tracing::warn!(file = %file.display(), faults = config.faults.len(), "see `toolrelay check`");
    }
    with(config, &progress, work)
}

/// Does `work` beside a relay with its remembered listings; every process is gone when this returns.
pub fn with(
    config: Config,
    progress: &Progress,
    work: impl AsyncFnOnce(&Arc<Relay>, &Progress) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let built = setup::build(config);
    let runtime = setup::runtime()?;
    let outcome = runtime.block_on(async {
        let interrupted = std::pin::pin!(setup::signal());
        let relay = built.spawn();
        relay.control.recall();
        let outcome = tokio::select! {
            biased;
            () = interrupted => Err(Failure::run("interrupted by a signal", "")),
            outcome = work(&relay, progress) => outcome,
        };
        relay.drain().await;
        outcome
    });
    runtime.shutdown_background();
    outcome
}

/// How one source came to be listed, or not.
pub struct Listed {
    pub source: Source,
    pub outcome: Result<(), CallError>,
    pub took: Duration,
}

/// Has sources listed, all at once; the relay bounds how many start together.
pub async fn list(sources: Vec<Source>, progress: &Progress) -> Vec<Listed> {
    let ids = sources.iter().map(|source| source.id.to_string());
    let waiting: RefCell<BTreeSet<String>> = RefCell::new(ids.collect());
    let tell = || progress.say(format!("starting {}", named(&waiting.borrow())));
    tell();
    let each = sources.into_iter().map(|source| async {
        let began = Instant::now();
        let outcome = source.list().await;
        waiting.borrow_mut().remove(source.id.as_str());
        tell();
        Listed { source, outcome, took: began.elapsed() }
    });
    progress.during(join_all(each)).await
}

/// Lists the sources that never were, or only the one named; gives the world thereafter and what failed.
pub async fn known(relay: &Relay, only: Option<&str>, progress: &Progress) -> (Arc<Snapshot>, Vec<Listed>) {
    let snapshot = relay.control.snapshots.loaded().await;
    let unknown = snapshot.catalog.toolsets.iter().filter(|toolset| !toolset.is_listed());
    let unknown = unknown.filter(|toolset| only.is_none_or(|only| toolset.id.as_str() == only));
    let sources: Vec<_> = unknown
        .filter_map(|toolset| snapshot.source(toolset.id.as_str()))
        .filter(|source| source.refusal().is_none())
        .cloned()
        .collect();
    if sources.is_empty() {
        return (snapshot, Vec::new());
    }
    let failed = list(sources, progress).await.into_iter().filter(|listed| listed.outcome.is_err()).collect();
    (relay.control.snapshots.now(), failed)
}

/// A failed call or listing as the command line tells it.
pub fn refused(error: &CallError) -> Failure {
    Failure::run(crate::redact::one_line(&error.message, usize::MAX), hint(error))
}

/// What to do about a failure on the command line: the remedies are commands, not tools.
pub fn hint(error: &CallError) -> String {
    match (&error.similar[..], error.kind, &error.source) {
        ([], ErrorKind::UnknownSource, _) => "see `toolrelay sources`".to_owned(),
        ([], ErrorKind::UnknownTool, Some(source)) => format!("see `toolrelay tools {source}`"),
        ([], ..) => remedy(error).to_owned(),
        (similar, ..) => {
            let similar: Vec<_> = similar.iter().map(|name| visible_name(name)).collect();
            format!("did you mean `{}`?", similar.join("` or `"))
        }
    }
}

/// What to do about a failure, without what a relay that goes on would do about it itself.
pub fn remedy(error: &CallError) -> &str {
    error.hint.split("; it is tried again in ").next().unwrap_or_default()
}

/// That there is no source so named.
pub fn no_source(snapshot: &Snapshot, id: &str) -> Failure {
    let mut error = CallError::new(ErrorKind::UnknownSource, format!("there is no source `{id}`"), "");
    error.similar = snapshot.catalog.similar_sources(id);
    refused(&error)
}

fn named(ids: &BTreeSet<String>) -> String {
    let first = ids.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
