//! Owns the doubt whether a source of 2026-07-28 is one still, and how it is settled: by asking. It judges no refusal.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::CONTENT_TYPE;
use tracing::Instrument;

use super::http::Connection;
use super::refusal;
use crate::protocol;
use crate::wire::{Message, Object};

/// How long the answer may take, and how long it holds.
const ASKING: Duration = Duration::from_secs(5);
const HOLDS: Duration = Duration::from_secs(10);

/// How long one waits before it is asked once more.
const MOMENT: Duration = Duration::from_millis(1500);

/// What the source says to the question.
enum Answer {
    Yes,
    /// `surely`: in a message of its own.
    No {
        surely: bool,
    },
}

/// When the source was last asked.
#[derive(Default)]
pub struct Doubt(Mutex<Option<Instant>>);

impl Doubt {
    /// Whether it is time to ask.
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|at| at.elapsed() >= HOLDS);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

impl Connection {
    /// Whether the source has become one that does not speak the modern revision: it was refused in a way that others have
    /// too. Not so where it cannot be asked, or just was.
    pub async fn is_modern_no_more(self: &Arc<Self>) -> bool {
        if !self.doubt.is_due() {
            return false;
        }
        for again in [true, false] {
            match tokio::time::timeout(ASKING, self.discovers()).await.ok().flatten() {
                // What stands in between may say so for a moment.
                Some(Answer::No { surely: false }) if again => tokio::time::sleep(MOMENT).await,
                Some(Answer::No { .. }) => return true,
                _ => return false,
            }
        }
        false
    }

    /// Whether it answers as a modern source does; `None` where it does not say.
    async fn discovers(self: &Arc<Self>) -> Option<Answer> {
        let (id, meta) = (self.link.next_id(), protocol::modern_meta());
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"server/discover\",\"params\":{{\"_meta\":{meta}}}}}"
        );
        let message = Message::parse(text.into()).expect("BUG: the relay's own messages can be read");
        let sent = self.reach(&self.target.url, &self.headers(&message).await, &message.line).await;
        let response = sent.ok()?;
        let status = response.status();
        if !status.is_success() {
            // Others say that there is something in between, or that it is busy.
            // A page is of something in between, however long that lasts.
            let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            if kind.trim_start().to_ascii_lowercase().starts_with("text/html") {
                return None;
            }
            let says_no = matches!(status.as_u16(), 400 | 404 | 405 | 406 | 409 | 410 | 415 | 422 | 500 | 501);
            let is_message = says_no && self.first_reply(response).await.is_ok();
            return says_no.then_some(Answer::No { surely: is_message });
        }
        let reply = self.first_reply(response).await.ok();
        let is_modern = reply.is_some_and(|reply| offers_modern(&reply));
        Some(if is_modern { Answer::Yes } else { Answer::No { surely: true } })
    }

    /// The same where nobody waits for it: a source that is another one now is left.
    pub fn doubt_era(self: &Arc<Self>) {
        let connection = self.clone();
        let asking = async move {
            if connection.is_modern_no_more().await {
                let what = format!("does not speak {} any more", protocol::MODERN);
                connection.leave(refusal::changed(&connection.link.source, &what));
            }
        };
        self.spawn(asking.in_current_span());
    }
}

fn offers_modern(reply: &Message) -> bool {
    let result = reply.result.and_then(|span| Object::parse(reply.text(span)));
    let versions: Option<Vec<String>> =
        result.and_then(|result| serde_json::from_str(result.get("supportedVersions")?).ok());
    versions.is_some_and(|versions| versions.iter().any(|version| version == protocol::MODERN))
}
