//! `toolrelay serve`: the relay on stdin and stdout, or over HTTP.

use std::io::IsTerminal;
use std::net::SocketAddr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tokio_util::sync::CancellationToken;

use super::reload::{self, Loader};
use super::{Common, Failure, setup};
use crate::config::{self, Exposure};
use crate::relay::Built;
use crate::serve::http::{CannotServe, Front, PATH};
use crate::serve::{pipes, stdio};

#[derive(clap::Args)]
pub struct Arguments {
    /// What the client sees at first, instead of what the configuration says
    #[arg(long, env = "TOOLRELAY_EXPOSURE", value_parser = exposures())]
    exposure: Option<Exposure>,
    /// Serve many clients over HTTP instead of one on stdin and stdout; without ADDR at `listen` of `[http]`, else
    /// 127.0.0.1:7420
    #[arg(long, value_name = "ADDR", num_args = 0..=1)]
    http: Option<Option<String>>,
}

/// The exposures, by the names they have in `sources.toml`.
fn exposures() -> impl TypedValueParser<Value = Exposure> {
    let names = PossibleValuesParser::new(Exposure::ALL.iter().map(|exposure| exposure.name()));
    names.map(|name| Exposure::named(&name).expect("BUG: only names of exposures are possible"))
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<(), Failure> {
    let _log = setup::start_log(common);
    let mut loader = Loader::new(common, arguments.exposure)?;
    let config = loader.read()?;
    loader.gave(&config);
    setup::log_faults(loader.file(), &config.faults, &config.warnings);
    let address = match &arguments.http {
        None => None,
        Some(None) => Some(config.http.listen),
        Some(Some(text)) => Some(config::address(text).ok_or_else(|| {
            let hint = "write an address and a port, as in `--http 127.0.0.1:7420`; port 0 takes a free one";
            Failure::usage(format!("`{text}` is no address with a port"), hint)
        })?),
    };
    let built = setup::build(config);
    let runtime = setup::runtime()?;
    let served = match address {
        None => runtime.block_on(over_stdio(built, loader)),
        Some(address) => runtime.block_on(over_http(built, loader, address)),
    };
    // Reading a terminal cannot be broken off.
    runtime.shutdown_background();
    served
}

async fn over_stdio(built: Built, loader: Loader) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    tokio::spawn(cancel_on_signal(stop.clone()));
    let hangups = setup::Hangups::default();
    let streams = pipes::input().and_then(|input| pipes::output().map(|output| (input, output)));
    let (input, output) = streams.map_err(|error| {
        Failure::run(
            format!("stdin or stdout cannot be used: {error}"),
            "start toolrelay from an MCP client, or with both piped",
        )
    })?;
    tokio::spawn(cancel_on_closed_output(stop.clone()));
    let relay = built.spawn();
    relay.control.begin();
    tokio::spawn(reload::follow(loader, relay.control.clone(), hangups));
    let max_message = relay.config.relay.max_message_bytes;
    let last_writes = stdio::serve(relay.surroundings(), max_message, input, pipes::input_closed(), output, stop).await;
    let (written, ()) = tokio::join!(last_writes, relay.drain());
    written.map_err(|error| {
        let hint = "what the client was to get is lost; look at where stdout leads to";
        Failure::run(format!("stdout cannot be written to: {error}"), hint)
    })
}

/// A first signal ends the relay once what is in flight is answered, a second one at once.
async fn over_http(built: Built, loader: Loader, address: SocketAddr) -> Result<(), Failure> {
    let (stop, hurry) = (CancellationToken::new(), CancellationToken::new());
    let hangups = setup::Hangups::default();
    // One that has closed already cannot be told from anything else.
    if std::io::stdin().is_terminal() {
        tokio::spawn(cancel_on_closed_terminal(stop.clone()));
    }
    let relay = built.spawn();
    let front = match Front::bind(&relay.config, address, relay.surroundings()).await {
        Ok(front) => front,
        Err(error) => {
            relay.drain().await;
            let (text, hint) = (error.to_string(), error.hint().to_owned());
            return Err(match error {
                CannotServe::Unguarded(_) => Failure::Config { error: text, hint },
                CannotServe::Bind(..) => Failure::run(text, hint),
            });
        }
    };
    tracing::info!("listening on http://{}{PATH}", front.address());
    relay.control.begin();
    tokio::spawn(reload::follow(loader, relay.control.clone(), hangups));
    let (first, second) = (stop.clone(), hurry.clone());
    tokio::spawn(async move {
        cancel_on_signal(first).await;
        cancel_on_signal(second).await;
    });
    front.serve(stop, hurry).await;
    relay.drain().await;
    Ok(())
}

/// Cancels `stop` when the client cannot be answered any more, though its end of the input is still open.
async fn cancel_on_closed_output(stop: CancellationToken) {
    pipes::output_closed().await;
    tracing::debug!("client does not read any more, ending");
    stop.cancel();
}

/// Cancels `stop` when the terminal closes in which the relay was started. It reads nothing there, and would not
/// notice otherwise: the hangup that comes with it is a wish to read the configuration.
async fn cancel_on_closed_terminal(stop: CancellationToken) {
    pipes::input_closed().await;
    tracing::info!("terminal closed, ending");
    stop.cancel();
}

/// Cancels `stop` at the first signal that asks the process to end.
async fn cancel_on_signal(stop: CancellationToken) {
    setup::ending_signal().await;
    tracing::info!("signal received, ending");
    stop.cancel();
}
