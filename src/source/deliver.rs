//! Owns what becomes of the bytes that an HTTP source sends: bodies and events are made into messages and given to the
//! link, in order. It sends nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::Response;

use super::events::{Events, Over};
use super::failures;
use super::http::Connection;
use super::refusal::{self, Complaint, Refusal};
use crate::call::CallError;
use crate::protocol::Era;
use crate::wire::sse::Event;
use crate::wire::{self, Kind, Message, Outbox, Unreadable};

/// How much of a refusal is read, and for how long.
const REFUSAL_MAX: usize = 1024 * 1024;
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// The request whose answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub id: u64,
    pub what: What,
    /// A complaint of this kind is acted on instead of passed on.
    pub acts_on: Option<Complaint>,
}

/// What is asked, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Initialize,
    List,
    /// A call, which may have effects: it is repeated only where it was certainly not carried out.
    Call,
    Other,
}

impl What {
    pub fn of(message: &Message) -> Self {
        match &*message.method_name() {
            "initialize" => Self::Initialize,
            "tools/list" => Self::List,
            "tools/call" | "tasks/update" | "tasks/cancel" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// What came of a piece of text.
#[derive(Default)]
pub struct Delivered {
    /// The answer to what was asked is in it.
    pub answered: bool,
    /// The source complains instead of answering; not passed on.
    pub complaint: Option<Complaint>,
    /// Why it is no message.
    pub stray: Option<String>,
    /// It is a message.
    spoke: bool,
    /// It may come from a source that is another one now.
    in_doubt: bool,
    outbox: Option<Arc<Outbox>>,
}

/// How a stream ended.
#[derive(Debug, Default)]
pub struct StreamEnd {
    pub answered: bool,
    pub complaint: Option<Complaint>,
    pub last_id: Option<String>,
    pub retry: Option<Duration>,
    /// Why it broke off; `None` where it just ended.
    pub broke: Option<String>,
    /// A message came.
    pub spoke: bool,
}

impl Connection {
    /// Takes one body or one event's data: a message, or a batch of them.
    pub async fn deliver(self: &Arc<Self>, text: BytesMut, asked: Option<Asked>) -> Delivered {
        let connection = self.clone();
        // What goes on from here is lines.
        let delivered = wire::handle(text.freeze(), move |text| connection.take(wire::one_line(text), asked)).await;
        if delivered.in_doubt {
            self.doubt_era();
        }
        if let Some(outbox) = &delivered.outbox {
            outbox.room().await;
        }
        delivered
    }

    fn take(&self, bytes: Bytes, asked: Option<Asked>) -> Delivered {
        match Message::parse(bytes) {
            Ok(message) => self.take_message(&message, asked),
            Err((Unreadable::NotUtf8, bytes)) => {
                // Better a replacement character than no answer at all.
                match Message::parse(String::from_utf8_lossy(&bytes).into_owned().into()) {
                    Ok(message) => self.take_message(&message, asked),
                    Err((why, _)) => Delivered { stray: Some(why.to_string()), ..Delivered::default() },
                }
            }
            Err((Unreadable::Batch, bytes)) => {
                let Ok(parts) = serde_json::from_slice::<Vec<&serde_json::value::RawValue>>(&bytes) else {
                    return Delivered { stray: Some(Unreadable::Batch.to_string()), ..Delivered::default() };
                };
                parts.iter().fold(Delivered::default(), |all, part| {
                    let Ok(message) = Message::parse(bytes.slice_ref(part.get().as_bytes())) else { return all };
                    let one = self.take_message(&message, asked);
                    Delivered {
                        answered: all.answered || one.answered,
                        complaint: all.complaint.or(one.complaint),
                        stray: None,
                        spoke: true,
                        in_doubt: all.in_doubt || one.in_doubt,
                        outbox: one.outbox.or(all.outbox),
                    }
                })
            }
            Err((why, _)) => Delivered { stray: Some(why.to_string()), ..Delivered::default() },
        }
    }

    fn take_message(&self, message: &Message, asked: Option<Asked>) -> Delivered {
        // An error without a name, on the way back of one request, is the answer to that.
        let named = asked.filter(|_| message.kind == Kind::Reply && message.id_text() == Some("null"));
        let named = named.and_then(|asked| refusal::named(message.text(message.error?), asked.id));
        let message = named.as_ref().unwrap_or(message);
        let ours = asked.filter(|asked| message.kind == Kind::Reply && message.number_id() == Some(asked.id));
        if let Some(asked) = ours {
            if let Some(complaint) = refusal::complaint(message).filter(|it| asked.acts_on == Some(*it)) {
                return Delivered { complaint: Some(complaint), ..Delivered::default() };
            }
            match asked.what {
                What::Initialize => self.session.note_version(message),
                What::List if self.link.era() == Era::Modern => self.params.learn(message),
                What::List | What::Call | What::Other => {}
            }
        }
        if message.kind == Kind::Request && is_for_client(&message.method_name()) {
            self.note_question(message, asked.map(|asked| asked.id));
        }
        let outbox = self.link.receive_for(message, asked.map(|asked| asked.id));
        let in_doubt = ours.is_some() && self.link.era() == Era::Modern && refusal::leaves_doubt(message);
        Delivered { answered: ours.is_some(), spoke: true, in_doubt, outbox, ..Delivered::default() }
    }

    /// Reads a stream of events to its end, or until what was asked is answered.
    pub async fn read_stream(
        self: &Arc<Self>,
        response: Response,
        asked: Option<Asked>,
    ) -> Result<StreamEnd, CallError> {
        let mut events = Events::of(self, response);
        let mut end = StreamEnd::default();
        loop {
            match events.next().await {
                // It comes once more when the stream is taken up again, which is not done for the answer.
                Ok(event) if events.is_torn() && self.link.era() == Era::Legacy && !is_answer(&event, asked) => {}
                Ok(event) => {
                    let delivered = self.take_event(event, asked).await;
                    end.spoke |= delivered.spoke;
                    end.answered |= delivered.answered;
                    end.complaint = end.complaint.take().or(delivered.complaint);
                }
                Err(Over::Ended) => break,
                Err(Over::BrokeOff(why)) => {
                    end.broke = Some(why);
                    break;
                }
                Err(Over::TooLong(why)) => {
                    let why = format!("{why}, more than `max_message_mib` of the relay allows");
                    return Err(failures::unreadable(&self.link.source, &why));
                }
            }
            if (end.answered || end.complaint.is_some()) && events.is_drained() {
                events.leave().await;
                break;
            }
        }
        end.last_id = events.last_id().map(str::to_owned);
        end.retry = events.retry();
        Ok(end)
    }

    /// Takes what an event says, if it is meant as a message.
    pub async fn take_event(self: &Arc<Self>, event: Event, asked: Option<Asked>) -> Delivered {
        if !matches!(event.name.as_str(), "" | "message") {
            return Delivered::default();
        }
        let mut delivered = self.deliver(event.data, asked).await;
        if let Some(why) = delivered.stray.take()
            && let Some(why) = self.link.noise.add(|| why)
        {
            tracing::warn!(count = self.link.noise.lines(), why, "event is no message, skipped");
        }
        delivered
    }

    /// Reads a body to its end.
    pub async fn read_body(&self, mut response: Response) -> Result<BytesMut, CallError> {
        let mut body = BytesMut::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > self.max_message => {
                    let limit = self.max_message;
                    let why = format!("it has more than the {limit} bytes that `max_message_mib` of the relay allows");
                    return Err(failures::unreadable(&self.link.source, &why));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return Ok(body),
                Err(error) => return Err(refusal::broke_off(&self.link.source, &self.target.told(&error))),
            }
        }
    }

    /// Reads as much of a refusal as is worth it: pages have no end that matters.
    pub async fn read_refusal(&self, mut response: Response) -> Refusal {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        let reading = async {
            while let (true, Ok(Some(chunk))) = (body.len() < REFUSAL_MAX, response.chunk().await) {
                body.extend_from_slice(&chunk);
            }
        };
        let _ = tokio::time::timeout(REFUSAL_TIME, reading).await;
        Refusal { status, headers, body }
    }
}

/// Whether a client is asked this, and not the relay.
fn is_for_client(method: &str) -> bool {
    matches!(method, "sampling/createMessage" | "elicitation/create" | "roots/list")
}

/// Whether an event is the answer to what was asked.
fn is_answer(event: &Event, asked: Option<Asked>) -> bool {
    let message = Message::parse(event.data.clone().freeze()).ok().filter(|message| message.kind == Kind::Reply);
    message.is_some_and(|message| message.number_id() == asked.map(|asked| asked.id))
}
