//! `toolrelay serve`: the relay on stdin and stdout.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tokio_util::sync::CancellationToken;

use super::{Common, Failure, setup};
use crate::config::Exposure;
use crate::serve::{pipes, stdio};

#[derive(clap::Args)]
pub struct Arguments {
    /// What the client sees at first, instead of what the configuration says
    #[arg(long, env = "TOOLRELAY_EXPOSURE", value_parser = exposures())]
    exposure: Option<Exposure>,
}

/// The exposures, by the names they have in `sources.toml`.
fn exposures() -> impl TypedValueParser<Value = Exposure> {
    let names = PossibleValuesParser::new(Exposure::ALL.iter().map(|exposure| exposure.name()));
    names.map(|name| Exposure::named(&name).expect("BUG: only names of exposures are possible"))
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<(), Failure> {
    let _log = setup::start_log(common);
    let (file, mut config) = setup::load_config(common)?;
    setup::log_faults(&file, &config);
    if let Some(exposure) = arguments.exposure {
        config.relay.exposure = exposure;
    }
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
        tokio::spawn(cancel_on_closed_output(stop.clone()));
        let relay = built.spawn();
        let last_writes =
            stdio::serve(relay.surroundings(), relay.config.relay.max_message_bytes, input, output, stop).await;
        tokio::join!(last_writes, relay.drain());
        Ok(())
    });
    // Reading a terminal cannot be broken off.
    runtime.shutdown_background();
    served
}

/// Cancels `stop` when the client cannot be answered any more, though its end of the input is still open.
async fn cancel_on_closed_output(stop: CancellationToken) {
    pipes::output_closed().await;
    tracing::debug!("client does not read any more, ending");
    stop.cancel();
}

/// Cancels `stop` at the first signal that asks the process to end.
async fn cancel_on_signal(stop: CancellationToken) {
    setup::signal().await;
    tracing::info!("signal received, ending");
    stop.cancel();
}
