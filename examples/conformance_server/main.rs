//! A server that answers to every name the conformance suite calls: what stands at the far end in `tests/conformance.rs`.
//! It judges nothing itself; the suite does.
//!
//! ```text
//! conformance_server                         over stdio
//! conformance_server --http 127.0.0.1:0      over HTTP; prints `listening on http://127.0.0.1:PORT/mcp` on stderr
//! ```
//!
//! The environment variable `ERA` says which revisions it serves: `legacy` (to 2025-11-25), `modern` (2026-07-28 alone), or
//! `dual`, which is the default. What a tool has to ask its user goes in a request of its own to a legacy client, and in an
//! `input_required` result to a modern one.

#![expect(deprecated, reason = "logging and sampling are deprecated in the newest revision, and tested all the same")]

mod ask;
mod calls;
mod http;
mod inputs;
mod jobs;
mod listing;
mod prompts;
mod resources;
mod server;
mod skills;
mod world;

use std::error::Error;
use std::net::SocketAddr;

use rmcp::ServiceExt;

use server::Server;
use world::{Era, World};

fn address() -> Result<Option<SocketAddr>, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        ["--http", address] => Ok(Some(address.parse()?)),
        _ => Err(format!("expected `--http ADDRESS:PORT` or nothing, not `{}`", arguments.join(" ")).into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::new(World::new(Era::from_environment()?));
    match address()? {
        Some(address) => http::serve(server, address).await?,
        None => {
            server.serve(rmcp::transport::stdio()).await?.waiting().await?;
        }
    }
    Ok(())
}
