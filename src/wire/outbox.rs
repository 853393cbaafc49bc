//! Owns the way out of one connection: frames are queued whole and in order, and one task writes them.
//! It does not know what a frame says; whoever queues too much is told to wait.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Pieces from this size on are shared with the writer instead of copied into its buffer.
const SHARE_FROM: usize = 16 * 1024;
/// The most pieces of one vectored write.
const SLICES: usize = 16;

/// A part of a frame.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    Text(&'a str),
    /// A range of a message; shared where it is large.
    Slice(&'a Bytes, usize, usize),
}

/// The connection takes no more frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

#[derive(Default)]
struct Queue {
    ready: VecDeque<Bytes>,
    tail: BytesMut,
    /// Bytes queued or being written.
    bytes: usize,
    closed: bool,
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
}

impl Outbox {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { queue: Mutex::default(), filled: Notify::new(), drained: Notify::new(), limit })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues one frame, whole; a newline is added.
    pub fn send(&self, pieces: &[Piece<'_>]) -> Result<(), Closed> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(Closed);
        }
        for piece in pieces {
            match *piece {
                Piece::Text(text) => queue.tail.extend_from_slice(text.as_bytes()),
                Piece::Slice(bytes, start, end) if end - start < SHARE_FROM => {
                    queue.tail.extend_from_slice(&bytes[start..end]);
                }
                Piece::Slice(bytes, start, end) => {
                    let before = queue.tail.split().freeze();
                    queue.bytes += before.len() + (end - start);
                    queue.ready.extend([before, bytes.slice(start..end)]);
                }
            }
        }
        queue.tail.extend_from_slice(b"\n");
        drop(queue);
        self.filled.notify_one();
        Ok(())
    }

    /// Queues one frame given as text.
    pub fn send_text(&self, text: &str) -> Result<(), Closed> {
        self.send(&[Piece::Text(text)])
    }

    /// Whether more is queued than should be.
    pub fn is_full(&self) -> bool {
        let queue = self.lock();
        !queue.closed && queue.bytes + queue.tail.len() > self.limit
    }

    /// Waits until there is room again (or nobody will read any more).
    pub async fn room(&self) {
        while self.is_full() {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if !self.is_full() {
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
        let written = if batch.len() == 1 {
            io.write(first).await?
        } else {
            let slices: Vec<IoSlice<'_>> = batch.iter().take(SLICES).map(|bytes| IoSlice::new(bytes)).collect();
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
        let outbox = Outbox::new(1 << 20);
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
        let outbox = Outbox::new(10);
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
    async fn a_reader_that_is_gone_lets_producers_go_on() {
        let outbox = Outbox::new(1);
        outbox.send_text("to nobody").unwrap();
        let (near, far) = tokio::io::duplex(4);
        drop(far);
        assert!(outbox.write_to(near).await.is_err());
        outbox.room().await;
        assert!(outbox.is_closed());
    }
}
