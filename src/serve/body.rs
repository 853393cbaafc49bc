//! Owns the reading of a request's body: how large it may be, how long it may take, and what is kept of one that is too large.
//! It does not know what stands in it.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;

use crate::protocol;

/// How long a body may pause on its way in.
const PAUSE: Duration = Duration::from_secs(30);
/// How much is kept of the beginning and of the end of a body that is too large: its id stands in one of them.
const EDGE: usize = 16 * 1024;
/// How many times the limit is read to come to the end of such a body.
const READ_ON: usize = 8;
/// How much of a body that nobody wants is read.
const SHED: usize = 1024 * 1024 * 1024;
/// How long such a body may pause.
const SHED_PAUSE: Duration = Duration::from_secs(2);

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("the message is larger than {mib} MiB, which `max_message_mib` in [relay] allows")]
    TooLarge { mib: usize, head: Bytes, tail: Bytes },
    #[error("the body broke off")]
    BrokeOff,
    #[error("the body paused for more than {} s", PAUSE.as_secs())]
    Paused,
}

impl Fault {
    /// The status and the code that tell it.
    pub fn codes(&self) -> (StatusCode, i64) {
        match self {
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, protocol::INVALID_REQUEST),
            Self::BrokeOff => (StatusCode::BAD_REQUEST, protocol::PARSE_ERROR),
            Self::Paused => (StatusCode::REQUEST_TIMEOUT, protocol::INVALID_REQUEST),
        }
    }
}

/// A body on its way in. What is left of it when this goes is read on and dropped, so that a client that first sends all of
/// it gets to read why it was refused.
pub struct Incoming(Option<BodyDataStream>);

impl Incoming {
    pub fn new(body: Body) -> Self {
        Self(Some(body.into_data_stream()))
    }

    /// The whole body. One that is too large is read no further, unless its `end` is wanted too.
    pub async fn read(mut self, headers: &HeaderMap, limit: usize, end: bool) -> Result<Bytes, Fault> {
        let told = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if !end && told.is_some_and(|length| length > limit) {
            return Err(too_large(limit, &[], Bytes::new()));
        }
        let mut whole = BytesMut::with_capacity(told.unwrap_or(0).min(1024 * 1024));
        while let Some(chunk) = self.next().await? {
            whole.extend_from_slice(&chunk);
            if whole.len() > limit {
                let tail = if end { self.last(&whole, READ_ON * limit).await } else { Bytes::new() };
                return Err(too_large(limit, &whole, tail));
            }
        }
        Ok(whole.freeze())
    }

    /// The next chunk of what is left; there is none any more after a fault.
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(chunks) = &mut self.0 else { return Ok(None) };
        let next = next(chunks, PAUSE).await;
        if !matches!(next, Ok(Some(_))) {
            self.0 = None;
        }
        next
    }

    /// Reads on, and gives the last of it; nothing where it does not end.
    async fn last(&mut self, begun: &[u8], mut most: usize) -> Bytes {
        let mut tail = BytesMut::from(&begun[begun.len().saturating_sub(EDGE)..]);
        while let Ok(Some(chunk)) = self.next().await {
            let Some(left) = most.checked_sub(chunk.len()) else { return Bytes::new() };
            most = left;
            tail.extend_from_slice(&chunk);
            tail.advance(tail.len().saturating_sub(EDGE));
        }
        tail.freeze()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(chunks) = self.0.take().filter(|chunks| !chunks.is_end_stream()) {
            tokio::spawn(shed(chunks));
        }
    }
}

async fn next(chunks: &mut BodyDataStream, pause: Duration) -> Result<Option<Bytes>, Fault> {
    let next = tokio::time::timeout(pause, chunks.next()).await.map_err(|_| Fault::Paused)?;
    next.transpose().map_err(|_| Fault::BrokeOff)
}

/// Reads a body and drops it, up to a bound.
async fn shed(mut chunks: BodyDataStream) {
    let mut left = SHED;
    while let Ok(Some(chunk)) = next(&mut chunks, SHED_PAUSE).await {
        let Some(less) = left.checked_sub(chunk.len()) else { return };
        left = less;
    }
}

fn too_large(limit: usize, whole: &[u8], tail: Bytes) -> Fault {
    let head = Bytes::copy_from_slice(&whole[..whole.len().min(EDGE)]);
    Fault::TooLarge { mib: limit / (1024 * 1024), head, tail }
}
