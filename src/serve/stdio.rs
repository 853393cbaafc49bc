//! The stdio front: one client on a pair of streams, from its first line to its end.
//! It ends with the client's input or when told to, and leaves the sources to the relay.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::session::{Session, Surroundings};
use crate::snapshot::Principal;
use crate::wire::{LineReader, Outbox};

/// How many bytes may wait for a slow client before its sources and its own requests wait too.
const OUTBOX_LIMIT: usize = 4 * 1024 * 1024;
/// How long answers are still given after the client closed its input.
const DRAIN: Duration = Duration::from_secs(10);
/// How long the last answers may take to be written.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Serves one client until it closes its input, stops reading, or `stop` is cancelled. Gives what is left to be done: the
/// last writes, for which nobody else need wait.
pub async fn serve(
    around: Surroundings,
    max_message: usize,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: CancellationToken,
) -> impl Future<Output = ()> {
    let outbox = Outbox::lines(OUTBOX_LIMIT);
    let session = Session::new(around.clone(), Principal::local(), outbox.clone());
    let mut writer = {
        let outbox = outbox.clone();
        tokio::spawn(async move { outbox.write_to(output).await })
    };
    let told = around.tracker.spawn(session.clone().tell_changes());
    let reading = read(&session, &outbox, LineReader::new(input, max_message));
    tokio::select! {
        () = reading => {
            tracing::debug!("client closed its input");
            tokio::select! {
                () = session.drain(DRAIN) => {}
                () = stop.cancelled() => session.drain(Duration::ZERO).await,
                _ = &mut writer => tracing::debug!("client does not read any more"),
            }
        }
        _ = &mut writer => tracing::debug!("client does not read any more"),
        () = stop.cancelled() => session.drain(Duration::ZERO).await,
    }
    told.abort();
    session.end();
    outbox.close();
    async move {
        if !writer.is_finished() {
            let _ = tokio::time::timeout(LAST_WRITES, writer).await;
        }
    }
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
