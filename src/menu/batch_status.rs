//! `batch_status`: how a batch stands; cancels it if asked to.

use std::time::Duration;

use serde::Deserialize;

use super::{Context, batch_call, read};
use crate::call::CallError;
use crate::snapshot::Snapshot;

pub const SCHEMA: &str = r#"{"type":"object","properties":{"batch":{"type":"string"},"cancel":{"type":"boolean"},"wait_ms":{"type":"integer","minimum":0,"maximum":300000}},"required":["batch"]}"#;
/// The longest wait for the rest.
const WAIT_MS_MAX: u64 = 300_000;
/// What is cancelled needs a moment to be over.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

pub fn description(_: &Snapshot) -> String {
    "How a batch stands, with the results so far; waits up to wait_ms for the rest, or cancels it.".to_owned()
}

#[derive(Deserialize)]
struct Arguments {
    batch: String,
    #[serde(default)]
    cancel: bool,
    #[serde(default)]
    wait_ms: u64,
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let Arguments { batch, cancel, wait_ms } = read("batch_status", arguments)?;
    let mut wait = Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
    if cancel {
        context.batches.cancel(context.principal, &batch)?;
        wait = wait.max(CANCEL_WAIT);
    }
    Ok(batch_call::reply(&context.batches.report(context.principal, &batch, wait).await?))
}
