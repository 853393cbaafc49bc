//! Owns the way of what has no answer to an HTTP source: notifications, and answers to what the source asked. It waits for
//! a source that wants to be left alone, and ends the call whose question cannot be answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::HeaderMap;

use super::http::Connection;
use super::refusal::{self, Refusal};
use super::target::{Target, UNKNOWN_EFFECT};
use crate::call::CallError;
use crate::wire::{Kind, Message};

/// How long one try may take, and a notification altogether.
const NOTE: Duration = Duration::from_secs(10);
/// How often it is tried again, and the first wait where the source does not say how long; doubled each time.
const AGAIN_MAX: u32 = 3;
const AGAIN: Duration = Duration::from_secs(1);

/// The questions of a source that are not answered yet, by their ids: the calls that they belong to.
#[derive(Default)]
pub struct Questions(Mutex<HashMap<String, u64>>);

impl Questions {
    fn add(&self, question: &Message, call: u64) {
        if let Some(id) = question.id_text() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), call);
        }
    }

    fn take(&self, answer: &Message) -> Option<u64> {
        let id = answer.id_text().filter(|_| answer.kind == Kind::Reply)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}

/// Why something was not taken.
pub enum NotTaken {
    Refused(Box<Refusal>),
    Unreached(CallError),
    /// It may have been taken all the same.
    Unclear(CallError),
}

impl NotTaken {
    fn error(&self, target: &Target) -> CallError {
        match self {
            Self::Refused(refusal) => refusal.error(target),
            Self::Unreached(error) | Self::Unclear(error) => error.clone(),
        }
    }

    /// The same in words where a session was to begin with it.
    pub fn not_again(self, target: &Target) -> CallError {
        match self {
            Self::Refused(refusal) => refusal.not_again(target),
            Self::Unreached(error) | Self::Unclear(error) => error,
        }
    }
}

impl Connection {
    /// Takes note of what a source asks, and on the way back of which request, if that is known.
    pub fn note_question(&self, message: &Message, of: Option<u64>) {
        let call = of.or_else(|| self.link.lock().addressee(None).ok());
        if let Some(call) = call.filter(|call| self.link.is_awaited(*call)) {
            self.questions.add(message, call);
        }
    }

    /// Sends a notification, or an answer to something the source asked.
    pub async fn post_note(self: &Arc<Self>, message: &Message) {
        let call = self.questions.take(message);
        let patience = call.and_then(|call| self.link.patience(call)).unwrap_or(NOTE);
        let url = match &self.old {
            None => Ok(self.target.url.clone()),
            Some(old) => old.current().endpoint().await,
        };
        let taken = match &url {
            Ok(url) => self.bring(url, self.headers(message).await, message.line.clone(), patience).await,
            Err(error) => Err(NotTaken::Unreached(error.clone())),
        };
        let Err(why) = taken else { return };
        let error = why.error(&self.target);
        tracing::debug!(why = %error.message, "note not taken");
        if let Some(call) = call.filter(|_| !matches!(why, NotTaken::Unclear(_))) {
            // The source would wait for the answer as long as the call may take.
            let text =
                format!("what the client answered to source `{}` was not taken: {}", self.link.source, error.message);
            let failed = self.link.fail(call, CallError::new(error.kind, text, UNKNOWN_EFFECT));
            if let Some(outbox) = failed {
                outbox.room().await;
            }
        }
    }

    /// Posts what has no answer, again for as long as the source asks for time or is not there, within `limit` altogether.
    pub async fn bring(&self, url: &Url, headers: HeaderMap, body: Bytes, limit: Duration) -> Result<(), NotTaken> {
        let began = Instant::now();
        let mut tries = 0;
        loop {
            let sent = tokio::time::timeout(NOTE, self.reach(url, &headers, &body)).await;
            let (why, after) = match sent {
                Ok(Ok(response)) if response.status().is_success() => return Ok(()),
                Ok(Ok(response)) => {
                    let refusal = self.read_refusal(response).await;
                    let after = refusal.later();
                    (NotTaken::Refused(Box::new(refusal)), after)
                }
                Ok(Err(trouble)) if trouble.unreached => (NotTaken::Unreached(trouble.error), Some(None)),
                Ok(Err(trouble)) => (NotTaken::Unclear(trouble.error), None),
                Err(_) => {
                    let why = format!("it does not say within {} s that it took a message", NOTE.as_secs());
                    (NotTaken::Unclear(refusal::broke_off(&self.link.source, &why)), None)
                }
            };
            let Some(after) = after else { return Err(why) };
            let wait = after.unwrap_or(AGAIN * (1 << tries));
            if tries >= AGAIN_MAX || wait >= limit.saturating_sub(began.elapsed()) {
                return Err(why);
            }
            tokio::time::sleep(wait).await;
            tries += 1;
        }
    }
}
