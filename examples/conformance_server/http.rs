//! The streamable HTTP front: one endpoint for both eras, on loopback. It also lets a tool hang up its own answer's stream.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use futures::StreamExt;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::server::Server;

/// What a client is told to wait before it comes back for the rest of a stream.
const RETRY: Duration = Duration::from_millis(500);
/// Pages that may call a server on loopback.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// Ends the stream of the answer to one HTTP request, as a proxy with a time limit would.
#[derive(Clone)]
struct HangUp(CancellationToken);

/// Ends the stream on which the answer would go. Gives false over stdio, where there is none.
pub fn hang_up(context: &RequestContext<RoleServer>) -> bool {
    let stream = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<HangUp>());
    stream.inspect(|stream| stream.0.cancel()).is_some()
}

async fn with_hang_up(mut request: Request, next: Next) -> Response {
    let end = CancellationToken::new();
    request.extensions_mut().insert(HangUp(end.clone()));
    let (head, body) = next.run(request).await.into_parts();
    let body = body.into_data_stream().take_until(end.cancelled_owned());
    Response::from_parts(head, Body::from_stream(body))
}

pub async fn serve(server: Server, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config = SessionConfig::default();
    sessions.session_config.sse_retry = Some(RETRY);
    let config = StreamableHttpServerConfig::default().with_sse_retry(Some(RETRY)).with_allowed_origins(ORIGINS);
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions.into(), config);
    let router = axum::Router::new().route_service("/mcp", service).layer(from_fn(with_hang_up));
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
