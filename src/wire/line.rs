//! Owns the cutting of a byte stream into lines, of any length up to a limit.
//! It does not look inside a line.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The room for one read, which takes no more: what a pipe holds by default on Linux. Where it holds more, the other side
/// writes on meanwhile; whoever takes all at once makes it wait, and a long line takes half as long again.
const READ_ROOM: usize = 64 * 1024;
/// What is kept for the next lines at most.
const KEPT_MAX: usize = 1024 * 1024;
/// The most room that is made because the last long line was as long.
const USUAL_MAX: usize = 4 * 1024 * 1024;
/// How much of either end of a line that is over the limit is kept, to find the id in it.
const EDGE: usize = 4 * 1024;

/// What stands between two newlines.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole line without its end (`\n` or `\r\n`).
    Whole(Bytes),
    /// A line over the limit: its first and last bytes and its length; the rest was skipped.
    TooLong { head: Bytes, tail: Bytes, length: u64 },
}

struct Skipped {
    head: Bytes,
    tail: BytesMut,
    length: u64,
}

/// Cuts what `inner` gives into lines, without copying them.
pub struct LineReader<R> {
    inner: R,
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no newline.
    scanned: usize,
    /// The longest line, in bytes.
    limit: usize,
    skipped: Option<Skipped>,
    /// The length of the last long line, up to a limit: the next one may well be as long.
    usual: usize,
    ended: bool,
    total: u64,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub fn new(inner: R, limit: usize) -> Self {
        Self { inner, buffer: BytesMut::new(), scanned: 0, limit, skipped: None, usual: 0, ended: false, total: 0 }
    }

    /// The next line that is already here; `None` when more must be read first.
    pub fn buffered(&mut self) -> Option<Line> {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]).map(|at| at + self.scanned) else {
                self.scanned = self.buffer.len();
                return self.rest();
            };
            let mut line = self.buffer.split_to(at + 1);
            line.truncate(at);
            self.scanned = 0;
            if at >= READ_ROOM {
                self.usual = at.min(USUAL_MAX);
            }
            if let Some(skipped) = self.skipped.take() {
                return Some(skipped.end(&line));
            }
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if line.len() > self.limit {
                return Some(Skipped::start(&line).end(&[]));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Whole(line.freeze()));
            }
        }
    }

    /// What to do with a buffer that holds no newline.
    fn rest(&mut self) -> Option<Line> {
        if self.ended && !(self.buffer.is_empty() && self.skipped.is_none()) {
            let line = self.buffer.split();
            self.scanned = 0;
            return Some(match self.skipped.take() {
                Some(skipped) => skipped.end(&line),
                None => Line::Whole(line.freeze()),
            });
        }
        if let Some(skipped) = &mut self.skipped {
            skipped.add(&self.buffer);
            self.buffer.clear();
            self.scanned = 0;
        } else if self.buffer.len() > self.limit {
            self.skipped = Some(Skipped::start(&self.buffer));
            self.buffer = BytesMut::new();
            self.scanned = 0;
        }
        None
    }

    /// The longest line there may be, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many bytes have come of a line that has not ended.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// How many bytes have been read in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Reads once. `false` at the end of the stream. Safe to drop while it waits.
    pub async fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_MAX {
            self.buffer = BytesMut::new();
        }
        self.make_room();
        let read = self.inner.read_buf(&mut (&mut self.buffer).limit(READ_ROOM)).await?;
        self.ended = read == 0;
        self.total += read as u64;
        Ok(!self.ended)
    }

    /// A long line gets all at once what the last one took, so that it is hardly moved on its way in, and takes no more than
    /// it needs. For a longer one room is doubled when it is used up.
    fn make_room(&mut self) {
        let length = self.buffer.len();
        if length < READ_ROOM {
            // The place of the last line may be free again.
            if !self.buffer.try_reclaim(self.usual + READ_ROOM) {
                self.buffer.reserve(READ_ROOM);
            }
        } else if self.buffer.capacity() - length < READ_ROOM {
            let rest = (self.usual + READ_ROOM).saturating_sub(length);
            self.buffer.reserve(if rest < READ_ROOM { length } else { rest });
        }
    }

    /// The next line; `None` at the end of the stream. A last line without a newline counts.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.buffered() {
                return Ok(Some(line));
            }
            if !self.fill().await? {
                return Ok(self.buffered());
            }
        }
    }
}

impl Skipped {
    fn start(bytes: &[u8]) -> Self {
        let head = Bytes::copy_from_slice(&bytes[..EDGE.min(bytes.len())]);
        let mut skipped = Self { head, tail: BytesMut::new(), length: 0 };
        skipped.add(bytes);
        skipped
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(EDGE)..]);
        let over = self.tail.len().saturating_sub(EDGE);
        self.tail.advance(over);
    }

    fn end(mut self, rest: &[u8]) -> Line {
        self.add(rest);
        Line::TooLong { head: self.head, tail: self.tail.freeze(), length: self.length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines of `chunks`, each chunk one read.
    fn lines(chunks: &[&[u8]], limit: usize) -> Vec<Line> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut mock = futures::executor::block_on(async { Vec::new() });
        mock.extend(chunks.iter().map(|chunk| chunk.to_vec()));
        runtime.block_on(async move {
            let (mut near, far) = tokio::io::duplex(7);
            let feed = async move {
                for chunk in mock {
                    tokio::io::AsyncWriteExt::write_all(&mut near, &chunk).await.unwrap();
                }
            };
            let collect = async move {
                let mut reader = LineReader::new(far, limit);
                let mut found = Vec::new();
                while let Some(line) = reader.next().await.unwrap() {
                    found.push(line);
                }
                found
            };
            futures::future::join(feed, collect).await.1
        })
    }

    fn whole(text: &str) -> Line {
        Line::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn lines_are_cut_wherever_reads_end() {
        assert_eq!(lines(&[b"{}\n{\"a\":1}\r\n"], 100), [whole("{}"), whole("{\"a\":1}")]);
        assert_eq!(lines(&["漢字".as_bytes(), "🙂\n\n\r\n \t\nx".as_bytes()], 100), [whole("漢字🙂"), whole("x")]);
        assert_eq!(lines(&[], 100), []);
    }

    /// The most room that is made for a line while it comes in, and the line.
    fn room(reader: &mut LineReader<Pipe<'_>>) -> (usize, Line) {
        let mut most = 0;
        loop {
            if let Some(line) = reader.buffered() {
                return (most, line);
            }
            assert!(futures::executor::block_on(reader.fill()).unwrap());
            most = most.max(reader.buffer.capacity());
        }
    }

    #[test]
    fn a_line_as_long_as_the_last_takes_no_more_room_than_it_needs() {
        const MIB: usize = 1024 * 1024;
        let line = |length: usize| [vec![b'x'; length], b"\n".to_vec()].concat();
        let stream = [line(MIB), line(MIB), line(MIB - 5), line(100), line(20 * MIB), line(100_000)].concat();
        let mut reader = LineReader::new(Pipe(&stream), usize::MAX);
        // All lines are kept, as if nobody had taken them yet.
        let all: [(usize, Line); 6] = std::array::from_fn(|_| room(&mut reader));
        let rooms = all.each_ref().map(|(most, _)| *most);
        let bars = [3 * MIB, MIB + 3 * READ_ROOM, MIB + 3 * READ_ROOM, MIB, 41 * MIB, 41 * MIB];
        assert!(rooms.iter().zip(bars).all(|(room, bar)| *room < bar), "{rooms:?}");
        let lengths = all.map(|(_, line)| if let Line::Whole(line) = line { line.len() } else { 0 });
        assert_eq!(lengths, [MIB, MIB, MIB - 5, 100, 20 * MIB, 100_000]);
    }

    /// Gives at most what a pipe holds at once.
    struct Pipe<'a>(&'a [u8]);

    impl AsyncRead for Pipe<'_> {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            room: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            let (now, later) = self.0.split_at(READ_ROOM.min(self.0.len()).min(room.remaining()));
            room.put_slice(now);
            self.0 = later;
            std::task::Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_line_over_the_limit_costs_only_itself() {
        let long = vec![b'x'; 50_000];
        let found = lines(&[b"a\n", &long, b"\nb\n"], 10_000);
        assert_eq!(found[0], whole("a"));
        assert_eq!(found[2], whole("b"));
        let Line::TooLong { head, tail, length } = &found[1] else { panic!("{found:?}") };
        assert_eq!((head.len(), tail.len(), *length), (EDGE, EDGE, 50_000));
        // One that came in whole with the last read is no shorter for that.
        let found = lines(&[b"abcd\nabc\n"], 3);
        let edge = Bytes::from_static(b"abcd");
        assert_eq!(found, [Line::TooLong { head: edge.clone(), tail: edge, length: 4 }, whole("abc")]);
    }
}
