//! Owns the streams on which an HTTP source may speak unasked: the one of a legacy session, and the subscription of the
//! modern era. It opens them again when they are lost; messages go to the link.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Response};

use super::http::Connection;
use super::refusal;
use super::target::Trouble;
use crate::wire::Message;

/// The first and the longest wait before a stream is opened again.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(120);
/// A stream that lived this long was a good one: the next wait is the first again.
const GOOD: Duration = Duration::from_secs(30);

/// Growing waits.
struct Backoff(u32);

impl Backoff {
    async fn wait(&mut self, began: Instant, wish: Option<Duration>) {
        if began.elapsed() >= GOOD {
            self.0 = 0;
        }
        let own = AGAIN_FIRST.saturating_mul(1 << self.0.min(10)).min(AGAIN_MAX).mul_f64(0.8 + 0.4 * fastrand::f64());
        self.0 += 1;
        // A wish counts as long as it is kept to: a stream that ends at once must not be opened in a storm.
        let wait = match wish {
            Some(wish) if self.0 <= 3 => wish,
            Some(wish) => wish.max(own),
            None => own,
        };
        tokio::time::sleep(wait).await;
    }
}

impl Connection {
    /// A GET for a stream of events.
    pub async fn open_stream(&self, mut headers: HeaderMap, last_id: Option<&str>) -> Result<Response, Trouble> {
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok()) {
            headers.insert("last-event-id", id);
        }
        self.target.send(Method::GET, &self.target.url, headers, Bytes::new()).await
    }
}

/// Whether a refusal is one that may not last.
fn is_passing(response: &Response) -> bool {
    response.status().is_server_error() || response.status().as_u16() == 429
}

/// The stream of a legacy session. Most sources have none, which is fine.
pub async fn own_stream(connection: Arc<Connection>) {
    let mut backoff = Backoff(0);
    let mut last_id: Option<String> = None;
    loop {
        let began = Instant::now();
        let session = connection.session.current();
        let mut wish = None;
        match connection.open_stream(session.headers(), last_id.as_deref()).await {
            Ok(response) if response.status().is_success() => {
                if !refusal::is_stream(response.headers()) {
                    return tracing::debug!("source has no stream of its own");
                }
                let ended = tokio::select! {
                    ended = connection.read_stream(response, None) => ended,
                    _ = connection.session.past(session.epoch) => { last_id = None; continue }
                };
                match ended {
                    Ok(end) => {
                        wish = end.retry;
                        last_id = end.last_id.or(last_id);
                    }
                    Err(error) => return tracing::warn!(why = %error.message, "stream of its own given up"),
                }
            }
            Ok(response) if response.status().as_u16() == 404 && session.id.is_some() => {
                // The session is gone; the next call begins a new one.
                let _ = connection.session.past(session.epoch).await;
                last_id = None;
                continue;
            }
            Ok(response) if is_passing(&response) && response.status().as_u16() != 501 => {
                wish = refusal::later(response.status(), response.headers()).flatten();
            }
            Ok(response) => {
                return tracing::debug!(status = response.status().as_u16(), "source has no stream of its own");
            }
            Err(trouble) => tracing::debug!(why = %trouble.error.message, "stream of its own not opened"),
        }
        backoff.wait(began, wish).await;
    }
}

/// The subscription of a modern source, for as long as it takes any. What changed while there was none is read again.
pub async fn subscribe(connection: &Arc<Connection>, message: &Message, id: u64) {
    let headers = connection.headers(message).await;
    let began = Instant::now();
    let url = connection.target.url.clone();
    match connection.target.send(Method::POST, &url, headers, message.line.clone()).await {
        Ok(response) if response.status().is_success() => {
            if !refusal::is_stream(response.headers()) {
                return tracing::debug!("source takes no subscription");
            }
            if let Err(error) = connection.read_stream(response, None).await {
                return tracing::warn!(why = %error.message, "subscription given up");
            }
        }
        Ok(response) if is_passing(&response) => {}
        Ok(response) => {
            return tracing::debug!(status = response.status().as_u16(), "source takes no subscription");
        }
        Err(trouble) => tracing::debug!(why = %trouble.error.message, "subscription not opened"),
    }
    let mut backoff = Backoff(connection.count_subscription(began.elapsed() >= GOOD));
    backoff.wait(began, None).await;
    connection.link.listen_again(id);
}
