//! Owns the streams on which an HTTP source may speak unasked: the one of a legacy session, and the subscription of the
//! modern era. It opens them again when they are lost; messages go to the link.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Response};

use super::http::Connection;
use super::refusal;
use super::session::Session;
use super::target::{Trouble, Worn};
use crate::wire::Message;

/// The first and the longest wait before a stream is opened again.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(120);
/// A stream that lived this long was a good one: the next wait is the first again.
const GOOD: Duration = Duration::from_secs(30);
/// How often it is looked for other credentials than those that were refused, and how long: the refusal may have been wrong.
const CREDENTIALS_LOOK: Duration = Duration::from_secs(6);
const CREDENTIALS_MAX: Duration = Duration::from_secs(120);

/// Growing waits.
#[derive(Default)]
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
        self.target.send(Method::GET, &self.target.url, &headers, &Bytes::new()).await
    }
}

/// What a response means that is no stream.
enum Refused {
    /// There is none to be had.
    Absent,
    /// It may be had later, after so long if that is said.
    Later(Option<Duration>),
    /// It may be had with other credentials.
    Credentials,
}

impl Refused {
    /// One that was open before is lost, not absent, whatever is said of it.
    fn read(response: &Response, was_open: bool) -> Self {
        let later = || Self::Later(refusal::later(response.status(), response.headers()).flatten());
        match response.status().as_u16() {
            401 => Self::Credentials,
            _ if was_open => later(),
            408 | 409 | 425 | 429 => later(),
            501 => Self::Absent,
            500.. => later(),
            _ => Self::Absent,
        }
    }
}

/// Waits for other credentials than those that were refused.
async fn other_credentials(connection: &Connection, refused: &Arc<Worn>) {
    let began = Instant::now();
    while began.elapsed() < CREDENTIALS_MAX && !connection.target.renew(refused).await {
        tokio::time::sleep(CREDENTIALS_LOOK).await;
    }
}

/// Keeps the stream of a legacy session open. Most sources have none, which is fine.
pub async fn own_stream(connection: Arc<Connection>) {
    let mut own = OwnStream::default();
    loop {
        let session = connection.session.current();
        tokio::select! {
            () = own.listen(&connection, &session) => {}
            // Another session has a stream of its own, and may have one where there was none.
            _ = connection.session.past(session.epoch, Duration::MAX) => own = OwnStream { was_open: own.was_open, ..OwnStream::default() },
        }
    }
}

#[derive(Default)]
struct OwnStream {
    backoff: Backoff,
    last_id: Option<String>,
    was_open: bool,
}

impl OwnStream {
    /// Opens it, reads it to its end, and waits until it is to be opened again: for ever, where there is none.
    async fn listen(&mut self, connection: &Arc<Connection>, session: &Session) {
        connection.listens.send_replace(true);
        let (began, worn) = (Instant::now(), connection.target.worn());
        let mut wish = None;
        match connection.open_stream(session.headers(), self.last_id.as_deref()).await {
            Ok(response) if response.status().is_success() && refusal::is_stream(response.headers()) => {
                self.was_open = true;
                match connection.read_stream(response, None).await {
                    Ok(end) => {
                        wish = end.retry;
                        let has_moved = end.spoke || end.last_id.is_some() && end.last_id != self.last_id;
                        if has_moved && began.elapsed() >= AGAIN_FIRST {
                            // It wants to be polled.
                            self.backoff = Backoff::default();
                        }
                        self.last_id = end.last_id.or(self.last_id.take());
                    }
                    Err(error) => {
                        tracing::warn!(why = %error.message, "stream of its own broken off");
                        self.last_id = None;
                    }
                }
            }
            Ok(response) => {
                let status = response.status();
                tracing::debug!(status = status.as_u16(), "stream of its own refused");
                if status.is_client_error() && !matches!(status.as_u16(), 401 | 408 | 409 | 425 | 429) {
                    // What it refuses may be the place to go on from, which it does not know any more.
                    self.last_id = None;
                }
                let is_forgotten = self.was_open && session.id.is_some() && matches!(status.as_u16(), 404 | 410);
                if is_forgotten && self.backoff.0 > 0 {
                    // Twice is no moment's trouble of something in between. The next session has a stream of its own.
                    let _ = connection.renew(session.epoch, false, Duration::MAX).await;
                }
                match Refused::read(&response, self.was_open) {
                    Refused::Absent => {
                        connection.listens.send_replace(false);
                        std::future::pending().await
                    }
                    Refused::Later(after) => wish = after,
                    Refused::Credentials => other_credentials(connection, &worn).await,
                }
            }
            Err(trouble) => tracing::debug!(why = %trouble.error.message, "stream of its own not opened"),
        }
        self.backoff.wait(began, wish).await;
    }
}

/// The subscription of a modern source, for as long as it takes any. What changed while there was none is read again.
pub async fn subscribe(connection: &Arc<Connection>, message: &Message, id: u64) {
    let headers = connection.headers(message).await;
    let (began, worn) = (Instant::now(), connection.target.worn());
    let url = connection.target.url.clone();
    let is_of_resources = connection.link.listens_as(id);
    let was_open = &connection.subscribed[usize::from(is_of_resources)];
    let mut wish = None;
    match connection.target.send(Method::POST, &url, &headers, &message.line).await {
        Ok(response) if response.status().is_success() && refusal::is_stream(response.headers()) => {
            was_open.store(true, Ordering::Relaxed);
            if let Err(error) = connection.read_stream(response, None).await {
                tracing::warn!(why = %error.message, "subscription broken off");
            }
        }
        Ok(response) => match Refused::read(&response, was_open.load(Ordering::Relaxed)) {
            Refused::Absent => {
                return tracing::debug!(status = response.status().as_u16(), "source takes no subscription");
            }
            Refused::Later(after) => wish = after,
            Refused::Credentials => other_credentials(connection, &worn).await,
        },
        Err(trouble) => tracing::debug!(why = %trouble.error.message, "subscription not opened"),
    }
    let mut backoff = Backoff(connection.count_subscription(began.elapsed() >= GOOD));
    backoff.wait(began, wish).await;
    connection.link.listen_again(id);
}
