//! `toolrelay serve`: the relay on stdin and stdout.

use tokio_util::sync::CancellationToken;

use super::{Common, Failure, Level, setup};
use crate::serve::{pipes, stdio};

pub fn run(common: &Common) -> Result<(), Failure> {
    let _log = setup::start_log(common, Level::Info);
    let (file, config) = setup::load_config(common)?;
    setup::log_faults(&file, &config);
    let built = setup::build(config);
    let runtime = setup::runtime()?;
    let served = runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(cancel_on_signal(stop.clone()));
        let streams = pipes::input().and_then(|input| pipes::output().map(|output| (input, output)));
        let (input, output) = streams.map_err(|error| {
            Failure::run(
                format!("stdin or stdout cannot be used: {error}"),
                "start toolrelay from an MCP client, or with both piped",
            )
        })?;
        let relay = built.spawn();
        stdio::serve(relay.surroundings(), relay.config.relay.max_message_bytes, input, output, stop).await;
        relay.drain().await;
        Ok(())
    });
    // Reading a terminal cannot be broken off.
    runtime.shutdown_background();
    served
}

/// Cancels `stop` at the first signal that asks the process to end.
#[cfg(unix)]
async fn cancel_on_signal(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let mut signals: Vec<_> = kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect();
    futures::future::select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    tracing::info!("signal received, ending");
    stop.cancel();
}

#[cfg(not(unix))]
async fn cancel_on_signal(stop: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        stop.cancel();
    }
}
