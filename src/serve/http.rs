//! The HTTP front: one listener for all clients, from its first connection to its end.
//! It knows paths and who may come in; what is asked at the MCP endpoint is `endpoint`'s affair.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ALLOW, ORIGIN, VARY,
    WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answers::refuse;
use super::body::Incoming;
use super::endpoint::Endpoint;
use super::guard::{self, NotAllowed};
use crate::config::Config;
use crate::protocol::{self, headers};
use crate::session::Surroundings;
use crate::snapshot::Principal;

/// The path of the MCP endpoint.
pub const PATH: &str = "/mcp";
/// What all headers of a request may come to.
const HEADERS_LIMIT: usize = 64 * 1024;
/// How long a client may take to send them.
const HEADERS_TIME: Duration = Duration::from_secs(30);
/// The headers that a page of an allowed origin may send, besides those that repeat arguments.
const SENT_BY_PAGES: &str =
    "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id";
/// How often sessions are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How long requests in flight may still take when the relay is asked to end.
const DRAIN: Duration = Duration::from_secs(10);
/// How long the streams may take to end once everything in flight has been answered.
const LAST_WRITES: Duration = Duration::from_millis(500);
/// How long a listener that cannot accept waits: descriptors are freed by others.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the relay does not listen.
#[derive(Debug, thiserror::Error)]
pub enum CannotServe {
    #[error("nobody but this machine may connect without a credential, and {0} is open to others")]
    Unguarded(SocketAddr),
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, std::io::Error),
}

impl CannotServe {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unguarded(_) => "listen on 127.0.0.1, or write a `[credential.ID]` with a `token` into sources.toml",
            Self::Bind(..) => {
                "choose another address or port with --http or `listen` in [http]; port 0 takes a free one"
            }
        }
    }
}

/// A front that has its address, and serves nobody yet.
pub struct Front {
    listener: TcpListener,
    endpoint: Arc<Endpoint>,
}

impl Front {
    /// Takes the address, where it may.
    pub async fn bind(config: &Config, address: SocketAddr, around: Surroundings) -> Result<Self, CannotServe> {
        if !address.ip().is_loopback() && !config.http.is_guarded {
            return Err(CannotServe::Unguarded(address));
        }
        let listener = TcpListener::bind(address).await.map_err(|error| CannotServe::Bind(address, error))?;
        let bound = listener.local_addr().map_err(|error| CannotServe::Bind(address, error))?;
        let endpoint = Endpoint {
            around,
            config: config.http.clone(),
            bound,
            max_message: config.relay.max_message_bytes,
            sessions: Arc::default(),
        };
        Ok(Self { listener, endpoint: Arc::new(endpoint) })
    }

    pub fn address(&self) -> SocketAddr {
        self.endpoint.bound
    }

    /// Serves until `stop` is cancelled; what is in flight then may still be answered, until `hurry` is cancelled too.
    pub async fn serve(self, stop: CancellationToken, hurry: CancellationToken) {
        let Self { listener, endpoint } = self;
        endpoint.around.control.recall();
        let shared = (endpoint.clone(), stop.clone());
        let (graceful, connections) = (GracefulShutdown::new(), TaskTracker::new());
        let cut = CancellationToken::new();
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = tick.tick() => endpoint.sessions.expire(endpoint.config.session_idle),
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, shared.clone(), graceful.watcher(), cut.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "connection not accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        connections.close();
        let ending = async {
            settle(&endpoint, &hurry).await;
            let _ = tokio::time::timeout(LAST_WRITES, graceful.shutdown()).await;
        };
        ending.await;
        cut.cancel();
        connections.wait().await;
    }
}

/// Ends every session: what is in flight may be answered first.
async fn settle(endpoint: &Endpoint, hurry: &CancellationToken) {
    let left = endpoint.sessions.all();
    tokio::select! {
        _ = futures::future::join_all(left.iter().map(|session| session.drain(DRAIN))) => {}
        () = hurry.cancelled() => {}
    }
    for session in left {
        session.drain(Duration::ZERO).await;
        session.end();
        session.close();
    }
}

async fn connection(
    stream: TcpStream,
    shared: Shared,
    watcher: hyper_util::server::graceful::Watcher,
    cut: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIME)
        .max_buf_size(HEADERS_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(answer.with_state(shared)));
    tokio::select! {
        served = watcher.watch(served) => if let Err(error) = served {
            tracing::debug!(%error, "connection ended");
        },
        () = cut.cancelled() => {}
    }
}

type Shared = (Arc<Endpoint>, CancellationToken);

async fn answer(State((endpoint, stop)): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = Incoming::new(body);
    // Whether the relay runs is no secret, and who asks has seldom a credential.
    match parts.uri.path() {
        "/healthz" => return plain(StatusCode::OK, json!({"status": "ok"})),
        "/readyz" => return ready(&endpoint, &stop),
        _ => {}
    }
    let origin = parts.headers.get(ORIGIN).cloned();
    if parts.method == Method::OPTIONS {
        return match guard::admit_page(&endpoint.config, endpoint.bound, &parts.uri, &parts.headers) {
            Ok(()) => with_origin(preflight(&parts.headers), origin),
            Err(why) => not_admitted(&why),
        };
    }
    let principal = match guard::admit(&endpoint.config, endpoint.bound, &parts.uri, &parts.headers) {
        Ok(principal) => principal,
        Err(why) => return with_origin(not_admitted(&why), origin),
    };
    with_origin(route(&endpoint, &stop, &parts, body, principal).await, origin)
}

async fn route(
    endpoint: &Endpoint,
    stop: &CancellationToken,
    parts: &axum::http::request::Parts,
    body: Incoming,
    principal: Principal,
) -> Response {
    if parts.uri.path() != PATH {
        let text = format!("there is nothing at this path; the MCP endpoint is `{PATH}`");
        return refuse(StatusCode::NOT_FOUND, protocol::INVALID_REQUEST, &text);
    }
    if stop.is_cancelled() {
        let text = "the relay is ending: connect again in a moment";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, protocol::INTERNAL_ERROR, text);
    }
    if !endpoint.around.via.note(&parts.headers) {
        let text = "this relay is asked by itself, as its own source or by way of another relay, or was until lately: correct `url`";
        return refuse(StatusCode::LOOP_DETECTED, protocol::INVALID_REQUEST, text);
    }
    match parts.method {
        Method::POST => endpoint.post(parts, body, principal).await,
        Method::GET => endpoint.get(parts, &principal),
        Method::DELETE => endpoint.delete(parts, &principal),
        _ => {
            let text = "use POST, GET or DELETE here";
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, protocol::INVALID_REQUEST, text);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
            response
        }
    }
}

fn not_admitted(why: &NotAllowed) -> Response {
    let status = match why {
        NotAllowed::Host(_) | NotAllowed::Origin(_) => StatusCode::FORBIDDEN,
        NotAllowed::NoCredential | NotAllowed::BadCredential => StatusCode::UNAUTHORIZED,
    };
    let mut response = refuse(status, protocol::INVALID_REQUEST, &format!("{why}: {}", why.hint()));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"toolrelay\""));
    }
    response
}

/// What a page may send. Which arguments are repeated in headers the tools say, so whatever it names of these it may.
fn preflight(asked: &HeaderMap) -> Response {
    let lists = asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|list| list.to_str().ok());
    let named = lists.flat_map(|list| list.split(',')).filter_map(|name| name.trim().parse::<HeaderName>().ok());
    let arguments = named.filter(|name| asked.contains_key(ORIGIN) && name.as_str().starts_with(headers::PARAM));
    let allowed = arguments.fold(SENT_BY_PAGES.to_owned(), |all, name| format!("{all}, {name}"));
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, DELETE, OPTIONS")),
        (ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_str(&allowed).expect("BUG: names of headers fit into one")),
        (ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// What a browser wants to hear before it shows the answer to the page that asked.
fn with_origin(mut response: Response, origin: Option<HeaderValue>) -> Response {
    if let Some(origin) = origin.filter(|_| response.status() != StatusCode::FORBIDDEN) {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("mcp-session-id"));
        headers.insert(VARY, HeaderValue::from_static("origin, access-control-request-headers"));
    }
    response
}

fn ready(endpoint: &Endpoint, stop: &CancellationToken) -> Response {
    if stop.is_cancelled() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, json!({"status": "ending"}));
    }
    let snapshot = endpoint.around.control.snapshots.now();
    if !snapshot.catalog.is_loaded() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, json!({"status": "reading the remembered tool lists"}));
    }
    let mut states = std::collections::BTreeMap::<&str, usize>::new();
    for source in snapshot.sources.values() {
        *states.entry(source.status().state.name()).or_default() += 1;
    }
    plain(StatusCode::OK, json!({"status": "ready", "sources": states}))
}

fn plain(status: StatusCode, body: serde_json::Value) -> Response {
    let kind = (axum::http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (status, [kind], body.to_string()).into_response()
}
