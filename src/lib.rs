//! toolrelay: one MCP entry in front of many. It launches a person's MCP servers (its *sources*) or connects to them, keeps
//! their tool lists in one deterministic *catalog*, and shows a client a short menu instead of hundreds of schemas; a tool
//! is called by its own name once its *toolset* is open, and through `call_tool` always. A toolset is a drawer of the
//! catalog: a source's own, or one that the configuration makes of parts of sources and of several.
//!
//! # Layout
//!
//! From the top to the ground; imports point downwards only (`tests/tidy.rs` holds that).
//!
//! ```text
//! main       arguments -> run -> exit code
//! cli        one file a command; the only other place that prints
//! relay      composition root: build (starts nothing) -> spawn -> drain
//! serve      fronts: how clients' bytes come in and go out
//! session    one client: its era, its requests in flight, what it is told of changes
//! menu       the control-plane tools, one file a tool
//! perform    a call for somebody who waits: batches, the command line
//! dispatch   DATA PLANE: a snapshot and a call -> policy -> route, or the reason why not
//! control    CONTROL PLANE: owns the world; one loop over one event type; publishes snapshots
//! snapshot   the world at an instant: catalog, sources, open toolsets
//! source     one actor a source (and one a session, with `isolation = "session"`): launch or connection, handshake, states,
//!            listing; its live link
//! store      what is remembered between runs (SQLite)
//! pins       sources.lock on disk: read, written as a whole
//! call       one request in flight, with its own way back
//! catalog    pure: listings merged, named, sorted; drawers; categories; signatures; search; the lock's form
//! policy     pure: who may see and call what, and why not
//! config     sources.toml: one table of keys -> check -> Config
//! protocol   facts of the protocol's revisions
//! redact     masking of secrets
//! trim       memory given back
//! pattern    pure: which regular expressions clients take
//! wire       bytes: lines, messages seen from outside, frames
//! defect     what becomes of a panic
//! limits     how many files may be open at once
//! name       SourceId, ToolName, ExposedName
//! ```
//!
//! # Life of a call
//!
//! ```text
//! client == serve == session == dispatch ============== source == child
//!              ^         |  ^       | reads                | events (bounded)
//!              |         |  +--- snapshot <--- control <---+
//!              |         +- menu (list, open, find) -> control
//!              +- list_changed when what the client sees differs
//! ```
//!
//! A line from the client is parsed at its top level only ([`wire::Message`]); `tools/call` is read one level deeper, into
//! a [`call::CallRequest`] that knows the places of what has to change: the id, the name, the arguments of a dispatched
//! call, `_meta`. [`dispatch::resolve`] looks the name up in a snapshot. The source's [`source::link::Link`] gives the call
//! an id of its own and queues the patched bytes. The source's reply finds its call by that id, and goes back over the
//! call's [`call::ReturnPath`], again as it came but for the id. What has to wait (for memory to be read, for a source to
//! start or to be listed) waits in [`dispatch::settle`] or in the source's actor, never on this path.
//!
//! A source that is a program reads the link's bytes as a stream of lines. To one that is an address each message is a POST
//! of its own ([`source::http`]), and what comes back, as a body or on a stream of events, is given to the same link.
//!
//! All of this runs on one thread, so that no message waits for a wake-up of another; what takes long (large messages,
//! building the catalog, SQLite) goes to threads of its own.
//!
//! # Invariants
//!
//! - No message of a source or a client is ever parsed into a tree and written again on its way through.
//! - Nothing is sent to a source that [`dispatch`] has not routed; there is no second way in.
//! - A call ends exactly once: with a reply, a failure, or silence if its client cancelled it.
//! - What a source sent before its reply reaches the client before the reply.
//! - No front waits for a source to answer `initialize`, `server/discover` or `ping`, and none of them starts one.
//! - Nothing in a name or an order depends on which source came first.
//! - No process outlives the relay: each source has a group of its own, which is gone when [`relay::Relay::drain`] returns,
//!   and what left it ([`source::strays`]) as well.
//! - A configuration that is reloaded touches no source whose entry says what it said, and one that cannot be used nothing.
//! - A call that a source may have carried out is never sent a second time.
//! - A client is never asked what may be meant for another: the calls of several take turns on a source that asks, or each
//!   session has an instance of its own.
//! - A source gets its own configured headers and credentials and nothing of any client's, and no other origin gets them.
//! - With `pin = "enforce"` no tool can be called whose definition is not the one in sources.lock, whatever is wrong with that file.
//! - A panic that nobody makes good ends the process, and with it the sources; no part of the relay lives on without another.
//! - Only `cli` prints on stdout, and never while stdout is the wire.
//! - `catalog`, `policy`, `pattern`, `name` and `config` know no tokio; `control` and `dispatch` do not know each other.

pub mod call;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod control;
pub mod defect;
pub mod dispatch;
pub mod limits;
pub mod menu;
pub mod name;
pub mod pattern;
pub mod perform;
pub mod pins;
pub mod policy;
pub mod protocol;
pub mod redact;
pub mod relay;
pub mod serve;
pub mod session;
pub mod snapshot;
pub mod source;
pub mod store;
pub mod trim;
pub mod wire;
