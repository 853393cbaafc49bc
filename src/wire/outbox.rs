//! Owns the way out of one connection: frames are queued whole and in order, and one task writes them.
//! It does not know what a frame says; whoever queues too much is told to wait.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::busy_poll;

/// Pieces from this size on are shared with the writer instead of copied into its buffer.
const SHARE_FROM: usize = 16 * 1024;
/// The part of the room that is left to what is not urgent.
const CALM: usize = 64;
/// The most pieces of one vectored write.
const SLICES: usize = 16;
/// The most that is written at once: while a pipe is written to it cannot be read, so whoever writes a large message in one
/// go makes its reader wait for all of it.
const WRITE_MAX: usize = 128 * 1024;

/// How much of a frame is copied: all but what is shared.
fn copied(pieces: &[Piece<'_>]) -> usize {
    let lengths = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.len(),
        Piece::Slice(_, start, end) => Some(end - start).filter(|len| *len < SHARE_FROM).unwrap_or(0),
    });
    lengths.sum()
}

/// A part of a frame.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    Text(&'a str),
    /// A range of a message; shared where it is large.
    Slice(&'a Bytes, usize, usize),
}

/// One frame on its own, for connections that are no byte stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// The frame's text, in parts; no line end in it and none behind it.
    pub parts: Vec<Bytes>,
    pub role: Role,
}

/// What a frame is to the request it belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// Progress, news, a log line: nobody waits for it.
    #[default]
    Notice,
    /// What the client has to answer, or need not any more.
    Question,
    Result,
    Error,
}

impl Role {
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Result | Self::Error)
    }
}

impl Frame {
    pub fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Bytes::is_empty)
    }

    /// The whole text in one piece.
    pub fn into_bytes(mut self) -> Bytes {
        match self.parts.len() {
            1 => self.parts.remove(0),
            _ => self.parts.concat().into(),
        }
    }
}

/// What a connection is made of, and what becomes of a frame too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One stream of lines. Producers look for room, or wait for it.
    Lines,
    /// Frames apart. Producers look for room.
    Frames,
    /// The answers to one client's requests. It is closed with the last of them. Nobody waits for one client of many: when
    /// it does not read, the notices that come meanwhile are dropped, and the answers are there when it reads again.
    Answers,
    /// What a client listens for until that is answered. It is closed when the client does not read: it listens anew then,
    /// while a change that was dropped would be missed for good.
    Listening,
    /// News for a client that may not be there. The oldest are dropped.
    News,
}

/// The connection takes no more frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

#[derive(Default)]
struct Queue {
    ready: VecDeque<Bytes>,
    tail: BytesMut,
    /// Frames apart, in all shapes but lines.
    frames: VecDeque<Frame>,
    /// Bytes queued or being written.
    bytes: usize,
    /// Those of them that are questions.
    asked: usize,
    /// Answers still to come, where that is known.
    awaited: usize,
    /// Notices were dropped.
    lossy: bool,
    closed: bool,
}

impl Queue {
    fn add_line(&mut self, pieces: &[Piece<'_>]) {
        self.tail.reserve(copied(pieces) + 1);
        for piece in pieces {
            match *piece {
                Piece::Text(text) => self.tail.extend_from_slice(text.as_bytes()),
                Piece::Slice(bytes, start, end) if end - start < SHARE_FROM => {
                    self.tail.extend_from_slice(&bytes[start..end]);
                }
                Piece::Slice(bytes, start, end) => {
                    let before = self.tail.split().freeze();
                    self.bytes += before.len() + (end - start);
                    self.ready.extend([before, bytes.slice(start..end)]);
                }
            }
        }
        self.tail.extend_from_slice(b"\n");
    }

    fn add_frame(&mut self, pieces: &[Piece<'_>], role: Role) {
        let mut frame = Frame { parts: Vec::with_capacity(1), role };
        let mut text = BytesMut::with_capacity(copied(pieces));
        for piece in pieces {
            match *piece {
                Piece::Text(part) => text.extend_from_slice(part.as_bytes()),
                Piece::Slice(bytes, start, end) if end - start < SHARE_FROM => {
                    text.extend_from_slice(&bytes[start..end]);
                }
                Piece::Slice(bytes, start, end) => {
                    frame.parts.push(text.split().freeze());
                    frame.parts.push(bytes.slice(start..end));
                }
            }
        }
        frame.parts.push(text.freeze());
        self.bytes += frame.len();
        if role == Role::Question {
            self.asked += frame.len();
        }
        self.frames.push_back(frame);
    }

    fn take_frame(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        if frame.role == Role::Question {
            self.asked -= frame.len();
        }
        Some(frame)
    }
}

/// The sending half of a connection, shared by all who write to it.
pub struct Outbox {
    queue: Mutex<Queue>,
    /// Wakes the writer.
    filled: Notify,
    /// Wakes those who wait for room.
    drained: Notify,
    /// Producers wait above this many queued bytes.
    limit: usize,
    shape: Shape,
    /// It has no room for anything but answers.
    mute: bool,
    /// How many follow what comes out.
    readers: AtomicUsize,
}

/// Somebody who follows what comes out, for as long as this lives.
pub struct Reading(Arc<Outbox>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Outbox {
    /// A stream of lines, for [`Outbox::write_to`].
    pub fn lines(limit: usize) -> Arc<Self> {
        Self::shaped(Shape::Lines, limit, 0, false)
    }

    /// Frames apart, for [`Outbox::next`].
    pub fn frames(limit: usize) -> Arc<Self> {
        Self::shaped(Shape::Frames, limit, 0, false)
    }

    /// The answers to so many requests and what belongs to them, for [`Outbox::next`].
    pub fn answers(limit: usize, requests: usize) -> Arc<Self> {
        Self::shaped(Shape::Answers, limit, requests, false)
    }

    /// The same where nothing but the answers can be sent: all else is dropped.
    pub fn only_answers(limit: usize, requests: usize) -> Arc<Self> {
        Self::shaped(Shape::Answers, limit, requests, true)
    }

    /// What a client listens for with one request, for [`Outbox::next`].
    pub fn listening(limit: usize) -> Arc<Self> {
        Self::shaped(Shape::Listening, limit, 1, false)
    }

    /// What a client may be told if it listens, for [`Outbox::next`].
    pub fn news(limit: usize) -> Arc<Self> {
        Self::shaped(Shape::News, limit, 0, false)
    }

    fn shaped(shape: Shape, limit: usize, awaited: usize, mute: bool) -> Arc<Self> {
        let queue = Mutex::new(Queue { awaited, ..Queue::default() });
        let (filled, drained, readers) = Default::default();
        Arc::new(Self { queue, filled, drained, limit, shape, mute, readers })
    }

    /// Whether nothing but answers can be sent on it.
    pub fn is_mute(&self) -> bool {
        self.mute
    }

    /// Notes that somebody follows what comes out.
    pub fn reading(self: &Arc<Self>) -> Reading {
        self.readers.fetch_add(1, Ordering::Relaxed);
        Reading(self.clone())
    }

    /// Whether anybody has said to follow what comes out.
    pub fn is_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues one frame, whole.
    pub fn send(&self, pieces: &[Piece<'_>]) -> Result<(), Closed> {
        self.queue(pieces, Role::Notice)
    }

    /// Queues what a client has to answer, or that it need not any more.
    pub fn ask(&self, text: &str) -> Result<(), Closed> {
        self.queue(&[Piece::Text(text)], Role::Question)
    }

    /// Queues the frame that answers a request, with a result or an error.
    pub fn answer(&self, pieces: &[Piece<'_>], role: Role) -> Result<(), Closed> {
        self.queue(pieces, role)
    }

    fn queue(&self, pieces: &[Piece<'_>], role: Role) -> Result<(), Closed> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(Closed);
        }
        let is_over = queue.bytes > self.limit;
        match (self.shape, role) {
            _ if self.mute && !role.is_answer() => return Ok(()),
            (Shape::Lines, _) => queue.add_line(pieces),
            (Shape::Answers, Role::Notice) if is_over => {
                self.note_loss(queue);
                return Ok(());
            }
            // Questions are dropped by nobody but who asks, and have a limit of their own: notices do not keep them away.
            (Shape::Answers, Role::Question) if queue.asked > self.limit => return Err(Closed),
            (Shape::Listening, _) if is_over => *queue = Queue { closed: true, ..Queue::default() },
            _ => queue.add_frame(pieces, role),
        }
        if self.shape == Shape::News {
            while queue.bytes > self.limit && queue.frames.len() > 1 {
                queue.take_frame();
            }
        }
        if role.is_answer() {
            self.count_answer(&mut queue);
        }
        drop(queue);
        busy_poll::note_sent();
        self.filled.notify_one();
        Ok(())
    }

    /// Notes that a notice is dropped, and tells it once.
    fn note_loss(&self, mut queue: MutexGuard<'_, Queue>) {
        let unread = queue.bytes;
        let is_known = std::mem::replace(&mut queue.lossy, true);
        drop(queue);
        if !is_known {
            tracing::warn!(
                unread,
                "a client does not read, progress and log lines of its request are dropped meanwhile"
            );
        }
    }

    /// One of the requests is not going to be answered.
    pub fn give_up_answer(&self) {
        self.count_answer(&mut self.lock());
        self.filled.notify_one();
    }

    fn count_answer(&self, queue: &mut Queue) {
        if matches!(self.shape, Shape::Answers | Shape::Listening) {
            queue.awaited = queue.awaited.saturating_sub(1);
            queue.closed |= queue.awaited == 0;
        }
    }

    /// The next frame; `None` when it is closed and nothing is left. To be called by one task at a time.
    pub async fn next(&self) -> Option<Frame> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(frame) = queue.take_frame() {
                    return Some(frame);
                }
                if queue.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Whether those who fill it wait for its reader.
    pub fn holds_up(&self) -> bool {
        self.shape == Shape::Lines
    }

    /// Queues one frame given as text.
    pub fn send_text(&self, text: &str) -> Result<(), Closed> {
        self.send(&[Piece::Text(text)])
    }

    /// Whether more is queued than should be.
    pub fn is_full(&self) -> bool {
        self.is_over(self.limit)
    }

    fn is_over(&self, limit: usize) -> bool {
        let queue = self.lock();
        !queue.closed && queue.bytes + queue.tail.len() > limit
    }

    /// Waits until there is room again (or nobody will read any more).
    pub async fn room(&self) {
        self.at_most(self.limit).await;
    }

    /// Waits until little is queued: what is not urgent leaves the room to what is.
    pub async fn rest(&self) {
        self.at_most(self.limit / CALM).await;
    }

    async fn at_most(&self, limit: usize) {
        while self.is_over(limit) {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if !self.is_over(limit) {
                return;
            }
            drained.await;
        }
    }

    /// Takes no more; the writer ends once it has written what is queued.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// How many bytes are queued or being written.
    pub fn queued(&self) -> usize {
        let queue = self.lock();
        queue.bytes + queue.tail.len()
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Writes what is queued until the outbox is closed and empty, or `io` fails. Closes the outbox when it returns.
    pub async fn write_to(&self, mut io: impl AsyncWrite + Unpin) -> io::Result<()> {
        let outcome = self.write_loop(&mut io).await;
        self.close();
        outcome
    }

    async fn write_loop(&self, io: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut batch = VecDeque::new();
        loop {
            let closed = {
                let mut queue = self.lock();
                std::mem::swap(&mut batch, &mut queue.ready);
                if !queue.tail.is_empty() {
                    let tail = queue.tail.split().freeze();
                    queue.bytes += tail.len();
                    batch.push_back(tail);
                }
                queue.closed
            };
            if batch.is_empty() {
                if closed {
                    return io.shutdown().await;
                }
                self.filled.notified().await;
                continue;
            }
            let size: usize = batch.iter().map(Bytes::len).sum();
            write_batch(io, &mut batch).await?;
            self.lock().bytes -= size;
            self.drained.notify_waiters();
        }
    }
}

async fn write_batch(io: &mut (impl AsyncWrite + Unpin), batch: &mut VecDeque<Bytes>) -> io::Result<()> {
    while let Some(first) = batch.front() {
        let written = if batch.len() == 1 || first.len() >= WRITE_MAX {
            io.write(&first[..first.len().min(WRITE_MAX)]).await?
        } else {
            let mut room = WRITE_MAX;
            let slices = batch.iter().take(SLICES).map(|bytes| {
                let part = &bytes[..bytes.len().min(room)];
                room -= part.len();
                IoSlice::new(part)
            });
            let slices: Vec<IoSlice<'_>> = slices.collect();
            io.write_vectored(&slices).await?
        };
        if written == 0 && !first.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let mut left = written;
        while let Some(first) = batch.front_mut() {
            let part = left.min(first.len());
            first.advance(part);
            left -= part;
            if !first.is_empty() {
                break;
            }
            batch.pop_front();
        }
    }
    io.flush().await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn frames_come_out_whole_and_in_order() {
        let outbox = Outbox::lines(1 << 20);
        let large = Bytes::from(vec![b'x'; 3 * SHARE_FROM]);
        outbox.send_text("one").unwrap();
        outbox.send(&[Piece::Text("<"), Piece::Slice(&large, 1, large.len()), Piece::Text(">")]).unwrap();
        outbox.send_text("three").unwrap();
        outbox.close();
        assert_eq!(outbox.send_text("four"), Err(Closed));
        let (near, mut far) = tokio::io::duplex(100);
        let mut read = Vec::new();
        let (written, _) = tokio::join!(outbox.write_to(near), far.read_to_end(&mut read));
        written.unwrap();
        let want = format!("one\n<{}>\nthree\n", "x".repeat(3 * SHARE_FROM - 1));
        assert!(read == want.as_bytes());
    }

    #[tokio::test]
    async fn producers_wait_for_a_slow_reader() {
        let outbox = Outbox::lines(10);
        outbox.send_text("0123456789").unwrap();
        assert!(outbox.is_full());
        let (near, mut far) = tokio::io::duplex(4);
        let read = async {
            let mut text = String::new();
            far.read_to_string(&mut text).await.unwrap();
            text
        };
        let produce = async {
            outbox.room().await;
            assert!(!outbox.is_full());
            outbox.close();
        };
        let (_, text, ()) = tokio::join!(outbox.write_to(near), read, produce);
        assert_eq!(text, "0123456789\n");
    }

    #[tokio::test]
    async fn answers_end_with_the_last_of_them() {
        let outbox = Outbox::answers(1 << 20, 2);
        let large = Bytes::from(vec![b'x'; 3 * SHARE_FROM]);
        outbox.send_text("progress").unwrap();
        outbox
            .answer(&[Piece::Text("<"), Piece::Slice(&large, 0, large.len()), Piece::Text(">")], Role::Result)
            .unwrap();
        assert!(!outbox.is_closed());
        outbox.give_up_answer();
        assert_eq!(outbox.send_text("late"), Err(Closed));
        assert_eq!(outbox.next().await.unwrap().into_bytes(), "progress");
        let answer = outbox.next().await.unwrap();
        assert_eq!(answer.role, Role::Result);
        assert_eq!(answer.into_bytes(), format!("<{}>", "x".repeat(large.len())));
        assert_eq!(outbox.next().await, None);
    }

    async fn drained(outbox: &Outbox) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(frame) = outbox.next().await {
            texts.push(String::from_utf8(frame.into_bytes().to_vec()).unwrap());
        }
        texts
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_loses_notices_and_no_answer() {
        let outbox = Outbox::answers(10, 2);
        outbox.send_text("12345678901").unwrap();
        outbox.send_text("one too many").unwrap();
        outbox.ask("which one?").unwrap();
        outbox.ask("and then?").unwrap();
        assert_eq!(outbox.ask("one question too many"), Err(Closed));
        outbox.answer(&[Piece::Text("the answer")], Role::Result).unwrap();
        for text in ["12345678901", "which one?"] {
            outbox.send_text("still too many").unwrap();
            assert_eq!(outbox.next().await.unwrap().into_bytes(), text);
        }
        outbox.ask("may I again?").unwrap();
        outbox.answer(&[Piece::Text("the other")], Role::Error).unwrap();
        assert_eq!(outbox.send_text("after"), Err(Closed));
        assert_eq!(drained(&outbox).await, ["and then?", "the answer", "may I again?", "the other"]);
        assert_eq!(outbox.queued(), 0);
    }

    #[tokio::test]
    async fn there_is_room_for_notices_again_when_the_client_has_read() {
        let outbox = Outbox::answers(10, 1);
        for text in ["12345678901", "dropped"] {
            outbox.send_text(text).unwrap();
        }
        outbox.next().await.unwrap();
        outbox.send_text("later").unwrap();
        outbox.answer(&[Piece::Text("the answer")], Role::Result).unwrap();
        assert_eq!(drained(&outbox).await, ["later", "the answer"]);
    }

    #[tokio::test]
    async fn one_that_listens_and_does_not_read_has_to_listen_anew() {
        let outbox = Outbox::listening(10);
        outbox.send_text("12345678901").unwrap();
        outbox.send_text("one too many").unwrap();
        assert_eq!(outbox.send_text("after"), Err(Closed));
        assert_eq!(outbox.next().await, None);
        let news = Outbox::news(10);
        for text in ["first", "second", "third"] {
            news.send_text(text).unwrap();
        }
        assert_eq!(news.next().await.unwrap().into_bytes(), "third");
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_lets_producers_go_on() {
        let outbox = Outbox::lines(1);
        outbox.send_text("to nobody").unwrap();
        let (near, far) = tokio::io::duplex(4);
        drop(far);
        assert!(outbox.write_to(near).await.is_err());
        outbox.room().await;
        assert!(outbox.is_closed());
    }
}
