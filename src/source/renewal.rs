//! Owns the renewal of a session that an HTTP source has forgotten: one greeting at a time, however many requests wait for
//! it. It does not know how the transport of 2024-11-05 begins one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tracing::Instrument;

use super::http::Connection;
use super::post::wait;
use super::refusal;
use super::session::Session;
use crate::call::{CallError, ErrorKind};
use crate::protocol::headers::SESSION;

/// How long a new session may take to begin, apart from what the source wants to be left alone before.
const ANEW: Duration = Duration::from_secs(30);
/// How long a source is left alone at most, whatever it says.
const ALONE_MAX: Duration = Duration::from_secs(300);

/// Why a session did not begin, and how long the source wants to be left alone if it may be asked again.
struct NotBegun {
    error: CallError,
    later: Option<Option<Duration>>,
}

impl From<CallError> for NotBegun {
    fn from(error: CallError) -> Self {
        Self { error, later: None }
    }
}

impl Connection {
    /// Has the session renewed, unless somebody else has done so since `epoch`, for who has so much `patience`. What the source
    /// offers is then read again, unless it was in reading that (`of_list`) that the session was found gone: one that takes no
    /// list in any session is not asked for ever.
    pub async fn renew(self: &Arc<Self>, epoch: u64, of_list: bool, patience: Duration) -> Result<(), CallError> {
        if let Some(greeting) = self.session.claim(epoch) {
            let connection = self.clone();
            // A task of its own: the call that found the session gone may be cancelled, others wait too.
            let renewal = async move {
                tracing::info!("source has forgotten the session, a new one is begun");
                // Whoever waits for it was refused, and did nothing.
                let outcome = connection.begin_again(greeting).await.map_err(refusal::without_effect);
                let renewed = outcome.is_ok();
                connection.session.renewed(outcome);
                if renewed {
                    if !of_list {
                        connection.link.list_changed.notify_one();
                    }
                    connection.link.subscribe_again();
                }
            };
            self.spawn(renewal.in_current_span());
        }
        self.session.past(epoch, patience).await
    }

    /// Begins another session. A connection that cannot is of no use, unless its source asks for time only; with a stream that
    /// is forgotten it is of none even then.
    async fn begin_again(self: &Arc<Self>, greeting: Bytes) -> Result<Session, CallError> {
        let mut waits = 0;
        let error = loop {
            let NotBegun { error, later } = match self.begin_once(greeting.clone()).await {
                Ok(session) => return Ok(session),
                Err(why) => why,
            };
            let Some(after) = later else { break error };
            let after = after.map(|after| after.min(ALONE_MAX));
            if let Err(error) = self.wait_to_begin(Duration::MAX, after, waits, error).await {
                break error;
            }
            waits += 1;
        };
        if self.old.is_some() || error.kind != ErrorKind::Busy {
            self.leave(error.clone());
        }
        Err(error)
    }

    /// Waits as told before the source is asked for a session again, and lets whoever waits for that one know.
    pub async fn wait_to_begin(
        &self,
        patience: Duration,
        after: Option<Duration>,
        waits: u32,
        error: CallError,
    ) -> Result<(), CallError> {
        self.session.note_wait(wait(after, waits).min(ALONE_MAX), &error);
        self.wait_for_room(patience, after, waits, error).await
    }

    async fn begin_once(self: &Arc<Self>, greeting: Bytes) -> Result<Session, NotBegun> {
        let beginning = async {
            match &self.old {
                Some(old) => Ok(self.begin_anew(old, greeting).await?),
                None => self.initialize_again(greeting).await,
            }
        };
        tokio::time::timeout(ANEW, beginning).await.unwrap_or_else(|_| {
            let why = format!("begins no new session within {} s", ANEW.as_secs());
            Err(refusal::changed(&self.link.source, &why).into())
        })
    }

    async fn initialize_again(self: &Arc<Self>, greeting: Bytes) -> Result<Session, NotBegun> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self.post(&self.target.url, &headers, &greeting).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        if !status.is_success() {
            let refusal = self.read_refusal(response).await;
            return Err(NotBegun { error: refusal.not_again(&self.target), later: refusal.later() });
        }
        let reply = self.first_reply(response).await?;
        if reply.result.is_none() {
            return Err(refusal::not_again(&self.target, Some(&reply)).into());
        }
        self.link.greeted_again(&reply)?;
        let session = self.session.next(headers.get(SESSION), &reply);
        let mut headers = session.headers();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let note = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let begun = self.bring(&self.target.url, headers, note, ANEW).await;
        begun.map_err(|why| why.not_again(&self.target))?;
        Ok(session)
    }
}
