//! `batch_call`: several calls at once, over several sources, each with its own outcome.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::batch::{CALLS_MAX, Item, Outcome, Report};
use super::{Context, call_tool, json, read};
use crate::call::{CallError, ErrorKind};
use crate::dispatch::Asked;
use crate::snapshot::Snapshot;

pub const SCHEMA: &str = r#"{"type":"object","properties":{"calls":{"type":"array","items":{"type":"object","properties":{"source":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"}},"required":["source","tool"]}},"max_parallel":{"type":"integer","minimum":1,"maximum":64},"wait_ms":{"type":"integer","minimum":0,"maximum":300000}},"required":["calls"]}"#;
/// Calls at a time, if the client does not say.
const PARALLEL: usize = 8;
const PARALLEL_MAX: usize = 64;
/// How long the reply waits for the calls, if the client does not say.
const WAIT_MS: u64 = 20_000;
const WAIT_MS_MAX: u64 = 300_000;

pub fn description(_: &Snapshot) -> String {
    "Calls several tools at once, each as call_tool does; one failure does not touch the others. Replies when all are done or \
     after wait_ms with what is done by then; see after the rest with batch_status."
        .to_owned()
}

#[derive(Deserialize)]
struct Arguments {
    calls: Vec<Box<RawValue>>,
    max_parallel: Option<usize>,
    wait_ms: Option<u64>,
}

pub async fn run(context: &Context<'_>, arguments: Option<&str>) -> Result<String, CallError> {
    let Arguments { calls, max_parallel, wait_ms } = read("batch_call", arguments)?;
    if calls.len() > CALLS_MAX {
        let text = format!("a batch of {} calls is too large", calls.len());
        let hint = format!("send at most {CALLS_MAX} at a time");
        return Err(CallError::new(ErrorKind::InvalidArguments, text, hint));
    }
    let snapshot = context.control.snapshots.now();
    let items = calls.iter().map(|call| item(&snapshot, call.get())).collect();
    let parallel = max_parallel.unwrap_or(PARALLEL).clamp(1, PARALLEL_MAX);
    let wait = Duration::from_millis(wait_ms.unwrap_or(WAIT_MS).min(WAIT_MS_MAX));
    let (id, untold) = context.batches.start(context.principal, context.tenant, items, parallel)?;
    let report = context.batches.report(context.principal, &id, wait).await?;
    untold.told();
    Ok(reply(&report))
}

/// One call, read as `call_tool` reads it. One that cannot be read fails alone.
fn item(snapshot: &Snapshot, text: &str) -> Item {
    match call_tool::read(snapshot, Some(text)) {
        Ok(inner) => Item {
            asked: Asked::Dispatched { source: inner.source, tool: inner.tool },
            arguments: inner.arguments.map_or_else(|| "{}".to_owned(), |text| text.into_owned()),
        },
        Err(error) => Item { asked: Asked::Unreadable(error), arguments: "{}".to_owned() },
    }
}

#[derive(Serialize)]
struct Reply<'a> {
    batch: &'a str,
    status: &'static str,
    done: usize,
    total: usize,
    results: Vec<Line<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    index: usize,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<RawValue>>,
}

/// A batch as `batch_call` and `batch_status` tell it: results in the order of the calls.
pub fn reply(report: &Report) -> String {
    let (done, total) = (report.done(), report.outcomes.len());
    let status = match (done == total, report.cancelled) {
        (_, true) => "cancelled",
        (true, false) => "done",
        (false, false) => "running",
    };
    let next = (done < total).then(|| format!("batch_status {{\"batch\":\"{}\"}} tells the rest", report.id));
    let results = report.outcomes.iter().enumerate().map(|(index, outcome)| line(index, outcome)).collect();
    json(&Reply { batch: &report.id, status, done, total, results, next })
}

fn line(index: usize, outcome: &Outcome) -> Line<'_> {
    let plain = |status| Line { index, status, took_ms: None, result: None, error: None };
    let ms = |took: &Duration| u64::try_from(took.as_millis()).ok();
    match outcome {
        Outcome::Waiting => plain("waiting"),
        Outcome::Running => plain("running"),
        Outcome::Cancelled => plain("cancelled"),
        Outcome::Done { result, is_error, took } => {
            let status = if *is_error { "failed" } else { "done" };
            Line { took_ms: ms(took), result: Some(result), ..plain(status) }
        }
        Outcome::Failed { error, took } => {
            let error = RawValue::from_string(error.to_json()).ok();
            Line { took_ms: ms(took), error, ..plain("failed") }
        }
    }
}
