//! Owns the reading of one stream of events of an HTTP source, at the pace that the source is read at.
//! What an event says is not its affair.

use std::time::Duration;

use reqwest::Response;

use super::http::Connection;
use super::pace::Pace;
use crate::wire::sse::{Event, SseReader, TooLong};

/// How long a stream that is left may take to end, so that its connection can be used again.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// Why a stream gives no more events.
#[derive(Debug)]
pub enum Over {
    Ended,
    BrokeOff(String),
    TooLong(TooLong),
}

/// The events of one stream.
pub struct Events<'a> {
    connection: &'a Connection,
    response: Response,
    reader: SseReader,
    /// Those that have come, the next one last.
    here: Vec<Event>,
    /// Of the read that they came with.
    pace: Option<Pace<'a>>,
    over: Option<Over>,
}

impl<'a> Events<'a> {
    pub fn of(connection: &'a Connection, response: Response) -> Self {
        let reader = SseReader::new(connection.max_message);
        Self { connection, response, reader, here: Vec::new(), pace: None, over: None }
    }

    /// The next event. The one before has been handled when this is called.
    pub async fn next(&mut self) -> Result<Event, Over> {
        if let Some(pace) = &mut self.pace {
            pace.line().await;
        }
        loop {
            if let Some(event) = self.here.pop() {
                return Ok(event);
            }
            self.rest().await;
            match self.over.take() {
                Some(over) => return Err(over),
                None => self.read().await,
            }
        }
    }

    /// Reads once.
    async fn read(&mut self) {
        let chunk = self.response.chunk().await;
        let fed = match &chunk {
            Ok(Some(chunk)) => self.reader.feed(chunk, &mut self.here),
            _ => self.reader.finish(&mut self.here),
        };
        self.here.reverse();
        self.pace = Some(Pace::new(&self.connection.link));
        self.over = match (fed, chunk) {
            (Err(too_long), _) => Some(Over::TooLong(too_long)),
            (Ok(()), Ok(Some(_))) => None,
            (Ok(()), Ok(None)) => Some(Over::Ended),
            (Ok(()), Err(error)) => Some(Over::BrokeOff(self.connection.target.told(&error))),
        };
    }

    /// What came with the last read has been handled.
    async fn rest(&mut self) {
        if let Some(pace) = self.pace.take() {
            pace.rest(None).await;
        }
    }

    /// Whether the event that was given last was cut off before its end, on a stream that can be taken up before it.
    pub fn is_torn(&self) -> bool {
        matches!(self.over, Some(Over::Ended | Over::BrokeOff(_))) && self.last_id().is_some()
    }

    /// Whether the next event has to be read first.
    pub fn is_drained(&self) -> bool {
        self.here.is_empty()
    }

    /// Nobody wants to know of more events.
    pub async fn leave(&mut self) {
        self.rest().await;
        let last = async { while matches!(self.response.chunk().await, Ok(Some(_))) {} };
        let _ = tokio::time::timeout(LAST_BYTES, last).await;
    }

    /// See [`SseReader::last_id`].
    pub fn last_id(&self) -> Option<&str> {
        self.reader.last_id()
    }

    /// See [`SseReader::retry`].
    pub fn retry(&self) -> Option<Duration> {
        self.reader.retry()
    }
}
