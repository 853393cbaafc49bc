//! Owns the waiting for sources of which nothing is known yet: how long a request is kept for them, and when not at all.
//! It starts none that would not be started anyway, but for a toolset that is opened.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::scope::Place;
use super::{Context, drawers};
use crate::call::CallError;
use crate::catalog::Drawer;
use crate::control::FIRST_LISTING;
use crate::snapshot::Snapshot;
use crate::source::Source;

/// The world for a search. With nothing listed at all, the first listing is awaited, until 3 s after the relay was first
/// used; in a source or toolset never listed, its own, for 3 s. Any other search waits for nothing: what is missing is told.
pub async fn for_search(context: &Context<'_>, place: Option<&str>) -> Result<Arc<Snapshot>, CallError> {
    let snapshot = context.control.snapshots.loaded().await;
    let Some(place) = Place::read(&snapshot, place)? else {
        let is_known = |snapshot: &Snapshot| snapshot.catalog.toolsets.iter().any(|toolset| toolset.is_listed());
        if is_known(&snapshot) || !snapshot.awaits_any() {
            return Ok(snapshot);
        }
        return Ok(context.control.once(|snapshot| is_known(snapshot) || !snapshot.awaits_any()).await);
    };
    let toolsets = place.toolsets(&snapshot);
    let awaited: Vec<_> = toolsets.iter().filter(|toolset| snapshot.awaits(toolset)).collect();
    if awaited.is_empty() || toolsets.iter().any(|toolset| toolset.is_listed()) {
        return Ok(snapshot);
    }
    let mut listings = listings(awaited.into_iter().filter_map(|toolset| snapshot.source(toolset.id.as_str())));
    let first = async { while let Some(Err(_)) = listings.next().await {} };
    let _ = tokio::time::timeout(FIRST_LISTING, first).await;
    Ok(context.control.snapshots.now())
}

/// Has the sources of a toolset that is to be opened listed, if they never were. One of them must be known in the end;
/// the others get 3 s more.
pub async fn for_opening(snapshot: &Snapshot, drawer: &Drawer) -> Result<(), CallError> {
    let usable = || drawers::sources(snapshot, drawer).filter(|source| source.refusal().is_none());
    let is_listed =
        |source: &Source| snapshot.catalog.toolset(source.id.as_str()).is_some_and(|toolset| toolset.is_listed());
    let mut known = usable().any(is_listed);
    let mut listings = listings(usable().filter(|source| !is_listed(source)));
    let mut failure = drawers::sources(snapshot, drawer).find_map(Source::refusal);
    while !known {
        match listings.next().await {
            Some(Ok(())) => known = true,
            Some(Err(error)) => failure = Some(error),
            None => return failure.map_or(Ok(()), Err),
        }
    }
    let others = async { while listings.next().await.is_some() {} };
    let _ = tokio::time::timeout(FIRST_LISTING, others).await;
    Ok(())
}

fn listings<'a>(
    sources: impl Iterator<Item = &'a Source>,
) -> FuturesUnordered<impl Future<Output = Result<(), CallError>>> {
    sources.map(|source| source.list()).collect()
}
