//! Real servers over HTTP behind the relay: the reference server from npm over both of its transports, the Python SDK's,
//! and rmcp's in either era.

#![allow(clippy::unwrap_used)]

#[path = "support/peer.rs"]
mod peer;
#[path = "support/relay.rs"]
mod support;

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ProgressNotificationParam, ServerCapabilities, ServerConfig};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{Json, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use support::{Relay, eventually};

/// A server of its own, ended with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(mut command: Command) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        command.env("PORT", port.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        eventually("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, port }
    }

    fn source(&self, path: &str, settings: &str) -> String {
        format!("[source.real]\nurl = \"http://127.0.0.1:{}{path}\"\n{settings}\n", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn everything(transport: &str) -> Server {
    let mut command = Command::new(peer::peers().join("node_modules/.bin/mcp-server-everything"));
    command.arg(transport);
    Server::start(command)
}

/// Calls, progress and cancellation, as the reference server has them.
#[track_caller]
fn check_everything(server: &Server, source: String) {
    let mut relay = Relay::greeted("", &[source]);
    assert_eq!(relay.call("real", "echo", json!({"message": "hi"})).text(), "Echo: hi");
    let ids: Vec<_> = (0..20).map(|n| relay.ask_call("real", "get-sum", json!({"a": n, "b": 1}))).collect();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(relay.answer(id).text(), format!("The sum of {n} and 1 is {}.", n + 1), "port {}", server.port);
    }
    let inner =
        json!({"source": "real", "tool": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 5}});
    let id = relay.ask("tools/call", json!({"name": "call_tool", "arguments": inner, "_meta": {"progressToken": 7}}));
    assert!(relay.answer(&id).text().starts_with("Long running operation completed"));
    assert_eq!(relay.noticed("notifications/progress"), 5);
    let id = relay.ask_call("real", "trigger-long-running-operation", json!({"duration": 60, "steps": 60}));
    relay.cancel(&id);
    assert_eq!(relay.call("real", "echo", json!({"message": "on"})).text(), "Echo: on");
    assert_eq!(relay.status("real")["status"], "ready");
    relay.finish();
}

#[test]
fn the_reference_server_over_streamable_http() {
    let server = everything("streamableHttp");
    check_everything(&server, server.source("/mcp", ""));
}

#[test]
fn the_reference_server_over_http_and_sse() {
    let server = everything("sse");
    check_everything(&server, server.source("/sse", "transport = 'sse'"));
    check_everything(&server, server.source("/sse", ""));
}

#[test]
fn the_reference_server_restarted_is_found_again() {
    let mut server = everything("streamableHttp");
    let mut relay = Relay::greeted("", &[server.source("/mcp", "")]);
    assert_eq!(relay.call("real", "echo", json!({"message": "1"})).text(), "Echo: 1");
    let _ = server.child.kill();
    let _ = server.child.wait();
    let mut again = Command::new(peer::peers().join("node_modules/.bin/mcp-server-everything"));
    again.arg("streamableHttp").env("PORT", server.port.to_string());
    server.child = again.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the server listens", || TcpStream::connect(("127.0.0.1", server.port)).is_ok());
    // The connections of before are dead, and so is the session.
    assert_eq!(relay.call("real", "echo", json!({"message": "2"})).text(), "Echo: 2");
    relay.finish();
}

const PYTHON: &str = r#"
import os
from mcp.server import MCPServer

server = MCPServer("py")

@server.tool()
def double(n: int) -> int:
    """Twice as much."""
    return 2 * n

server.run(transport="streamable-http", host="127.0.0.1", port=int(os.environ["PORT"]))
"#;

#[test]
fn the_python_sdk_in_either_era() {
    let mut command = Command::new(peer::peers().join(".venv/bin/python"));
    command.args(["-c", PYTHON]);
    let server = Server::start(command);
    for (era, version) in [("auto", "2026-07-28"), ("modern", "2026-07-28"), ("legacy", "2025-11-25")] {
        let source = server.source("/mcp", &format!("era = '{era}'"));
        let mut relay = Relay::greeted("", &[source]);
        assert_eq!(relay.call("real", "double", json!({"n": 21})).structured(), json!({"result": 42}), "{era}");
        assert_eq!(relay.status("real")["status"], "ready");
        assert!(relay.stderr().contains(&format!("version=\"{version}\"")), "{era}: {}", relay.stderr());
        relay.finish();
    }
}

#[derive(Deserialize, JsonSchema)]
struct Ask {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

#[derive(Serialize, JsonSchema)]
struct Told {
    region: String,
    count: u64,
}

#[derive(Clone)]
struct Counter(Arc<AtomicU64>);

#[tool_router]
impl Counter {
    #[tool(description = "Counts its calls, with progress.")]
    async fn count(
        &self,
        Parameters(Ask { region }): Parameters<Ask>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Told>, String> {
        if let Some(token) = context.meta.get_progress_token() {
            for step in 1..=3 {
                let progress = ProgressNotificationParam::new(token.clone(), f64::from(step));
                context.peer.notify_progress(progress).await.map_err(|fault| fault.to_string())?;
            }
        }
        Ok(Json(Told { region, count: self.0.fetch_add(1, Ordering::SeqCst) + 1 }))
    }
}

#[tool_handler]
impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

/// An rmcp server on a thread of its own, for as long as the process lives. Gives its address.
fn rmcp_server() -> String {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // A new one for each session, and in the modern era for each request.
            let fresh = || Ok(Counter(Arc::default()));
            let sessions = Arc::new(LocalSessionManager::default());
            let service = StreamableHttpService::new(fresh, sessions, StreamableHttpServerConfig::default());
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
            axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await.unwrap();
        });
    });
    told.recv().unwrap()
}

#[test]
fn rmcp_in_either_era() {
    let url = rmcp_server();
    for (era, version, counts) in [("auto", "2026-07-28", [1, 1]), ("legacy", "2025-11-25", [1, 2])] {
        let source = format!("[source.real]\nurl = {url:?}\nera = '{era}'\n");
        let mut relay = Relay::greeted("", &[source]);
        for count in counts {
            let inner = json!({"source": "real", "tool": "count", "arguments": {"region": "süd"}});
            let id = relay
                .ask("tools/call", json!({"name": "call_tool", "arguments": inner, "_meta": {"progressToken": 7}}));
            assert_eq!(relay.answer(&id).structured(), json!({"region": "süd", "count": count}), "{era}");
        }
        assert_eq!(relay.noticed("notifications/progress"), 6, "{era}");
        assert!(relay.stderr().contains(&format!("version=\"{version}\"")), "{}", relay.stderr());
        relay.finish();
    }
}
