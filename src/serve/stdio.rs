//! The stdio front: one client on a pair of streams, from its first line to its end.
//! It ends with the client's input or when told to, and leaves the sources to the relay.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::session::{Session, Surroundings};
use crate::snapshot::Principal;
use crate::wire::{LineReader, Outbox};

/// How many bytes may wait for a slow client before its sources and its own requests wait too.
const OUTBOX_LIMIT: usize = 4 * 1024 * 1024;
/// How long what the client sent is still read and answered after it closed its input.
const DRAIN: Duration = Duration::from_secs(10);
/// How long the last answers may take to be written.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Serves one client until it closes its input, stops reading, or `stop` is cancelled. That the input is `closed` may be
/// known before all of it is read. Gives what is left to be done: the last writes, for which nobody else need wait, and
/// which tell whether the client could be written to. That it has gone is no error.
pub async fn serve(
    around: Surroundings,
    max_message: usize,
    input: impl AsyncRead + Unpin,
    closed: impl Future<Output = ()>,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: CancellationToken,
) -> impl Future<Output = io::Result<()>> {
    let outbox = Outbox::lines(OUTBOX_LIMIT);
    let session = Session::new(around.clone(), Principal::local(), outbox.clone());
    let mut writer = {
        let outbox = outbox.clone();
        tokio::spawn(async move { outbox.write_to(output).await })
    };
    let told = around.tracker.spawn(session.clone().tell_changes());
    let mut written = None;
    let reading = read_all(&session, &outbox, LineReader::new(input, max_message), closed);
    tokio::select! {
        left = reading => {
            tracing::debug!("client closed its input");
            tokio::select! {
                () = session.drain(left) => {}
                () = stop.cancelled() => session.drain(Duration::ZERO).await,
                ended = &mut writer => written = Some(ended),
            }
        }
        ended = &mut writer => written = Some(ended),
        () = stop.cancelled() => session.drain(Duration::ZERO).await,
    }
    told.abort();
    session.end();
    outbox.close();
    async move {
        let written = match written {
            Some(written) => written,
            // What a client has not read by then it does not want.
            None => tokio::time::timeout(LAST_WRITES, writer).await.unwrap_or(Ok(Ok(()))),
        };
        match written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whether a client cannot be written to because it does not read any more.
fn is_gone(error: &io::Error) -> bool {
    tracing::debug!(%error, "client does not read any more");
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

/// Reads until the input ends, or has been `closed` for so long that nothing more of it is wanted: while a client does not
/// read, its end cannot be found by reading. Gives how long answers may still be given.
async fn read_all(
    session: &Arc<Session>,
    outbox: &Arc<Outbox>,
    reader: LineReader<impl AsyncRead + Unpin>,
    closed: impl Future<Output = ()>,
) -> Duration {
    let reading = read(session, outbox, reader);
    tokio::pin!(reading);
    tokio::select! {
        () = &mut reading => return DRAIN,
        () = closed => {}
    }
    let since = Instant::now();
    let _ = tokio::time::timeout(DRAIN, reading).await;
    DRAIN.saturating_sub(since.elapsed())
}

async fn read(session: &Arc<Session>, outbox: &Arc<Outbox>, mut reader: LineReader<impl AsyncRead + Unpin>) {
    loop {
        while let Some(line) = reader.buffered() {
            session.receive(line, outbox).await;
        }
        // A client that does not read its answers is not read either.
        outbox.room().await;
        match reader.fill().await {
            Ok(true) => {}
            Ok(false) => {
                while let Some(line) = reader.buffered() {
                    session.receive(line, outbox).await;
                }
                return;
            }
            Err(error) => return tracing::debug!(%error, "client's input ended"),
        }
    }
}
