//! Owns `sources.toml`: what the file says, whether it is right, and the checked [`Config`] the rest of the program runs on.
//! It starts nothing and does no I/O of its own: variables, files and commands are reached through a [`Lookup`].
//!
//! `${...}` works in every string of a source, in a single pass: a value is never expanded again. `command`, `args`, `env`
//! and `cwd`, and what HTTP sources have in their place, are looked at when the file is checked (commands of `${cmd:...}` are not run then) and expanded anew for each
//! launch; every other string is expanded when the file is checked, from variables alone. Words of a fixed set are no
//! such strings. A `~/` written at the start of `command`, `cwd`, an argument or `state_dir` is the home folder.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::name::SourceId;

/// A configuration that has been checked. Faulty sources are in it as [`SourceEntry::Misconfigured`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub relay: RelayConfig,
    pub http: HttpConfig,
    /// Sorted by id.
    pub sources: Vec<SourceEntry>,
    /// Sorted by id; those with faults are left out, and their tools stay in the drawers of their sources.
    pub toolsets: Vec<ToolsetConfig>,
    /// Every fault of the file, in file order; those of a source are also told in its entry.
    pub faults: Vec<Fault>,
    /// What works and is hardly meant, in file order.
    pub warnings: Vec<Fault>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayConfig {
    pub exposure: Exposure,
    /// `source/tool` globs of the tools shown in every exposure.
    pub always_visible: Vec<String>,
    /// The control-plane tools to show instead of the exposure's own set; empty = the exposure's own.
    pub menu: Vec<String>,
    /// `None`: the platform's state directory.
    pub state_dir: Option<PathBuf>,
    /// Whether drawers opened over stdio are remembered across runs.
    pub remember: bool,
    /// The longest message on any hop, in bytes.
    pub max_message_bytes: usize,
    /// How many sources may be starting at once.
    pub max_starting: usize,
    /// How many tools a client's list may have before it is warned of; 0 = any number.
    pub warn_tools: usize,
    /// How long a client may take to answer what a source asks it during a call.
    pub ask_timeout: Duration,
    pub pin: Pin,
    /// Beside the configuration file, and named after it: `sources.lock`.
    pub lock: PathBuf,
}

/// What a tool gets that differs from the lock, or is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// Nothing: the lock is not looked at.
    Off,
    /// A mark, if there is a lock.
    Warn,
    /// It is withheld; without a lock, every tool.
    Enforce,
}

/// Where clients connect over HTTP, and who may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    pub listen: SocketAddr,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    /// How long a session is kept that nobody uses.
    pub session_idle: Duration,
    /// Sorted by id; those with faults are left out.
    pub credentials: Vec<Credential>,
    /// Nobody connects without a credential.
    pub is_guarded: bool,
}

/// `[credential.ID]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// As a source's id is.
    pub id: SourceId,
    pub token_sha256: [u8; 32],
    pub grant: Grant,
}

/// Without the digest of its token.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("id", &self.id).field("grant", &self.grant).finish_non_exhaustive()
    }
}

/// What a credential may see and call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Globs of sources; `None` = all.
    pub sources: Option<Vec<String>>,
    pub read_only: bool,
    /// `source/tool` globs; empty = everything.
    pub allow: Vec<String>,
    /// `source/tool` globs; deny wins.
    pub deny: Vec<String>,
    pub exposure: Option<Exposure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Exposure {
    /// A menu that opens drawers.
    Toolsets,
    /// A search that activates what it finds.
    Progressive,
    /// A search, and loading of named tools.
    Lazy,
    /// A search and the dispatcher; nothing more ever appears.
    MetaOnly,
    /// Every permitted tool.
    Eager,
}

impl Exposure {
    pub const ALL: &'static [Self] = &[Self::Toolsets, Self::Progressive, Self::Lazy, Self::MetaOnly, Self::Eager];

    /// The name in `sources.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Toolsets => "toolsets",
            Self::Progressive => "progressive",
            Self::Lazy => "lazy",
            Self::MetaOnly => "meta-only",
            Self::Eager => "eager",
        }
    }

    /// The exposure so named.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|exposure| exposure.name() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceEntry {
    Usable(Box<SourceConfig>),
    Misconfigured(BadSource),
}

/// A source entry with faults: listed, never started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSource {
    pub id: SourceId,
    pub name: String,
    pub provider: String,
    pub summary: Option<String>,
    /// By `url` or `command`, if one of them is there.
    pub transport: Option<&'static str>,
    /// One sentence that names the key, the cause and the remedy of each fault.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceConfig {
    pub id: SourceId,
    pub name: String,
    pub provider: String,
    pub summary: Option<String>,
    pub enabled: bool,
    pub reach: Reach,
    pub start: Start,
    /// `None` = never stopped for being idle.
    pub idle_stop: Option<Duration>,
    /// How long a start may go without a sign of work, and take in all.
    pub start_timeout: Duration,
    pub max_start: Duration,
    pub limits: CallLimits,
    pub max_in_flight: usize,
    pub isolation: Isolation,
    /// The prefix of directly exposed names; empty = bare names.
    pub prefix: String,
    pub unlisted: Unlisted,
    pub rules: ToolRules,
    pub era: EraChoice,
    /// A hash over what `${file:...}` came to in `reach` when that counted last: at the start, and at a hangup.
    pub files: String,
    /// A hash over what makes this the same source (command, args, env and folder, or url, headers and token, with what their
    /// variables come to): the key under which its listing and its era are remembered.
    pub fingerprint: String,
}

/// How a source is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// A program of its own, over stdio.
    Program(Launch),
    /// An address, over HTTP.
    Http(Remote),
}

impl Reach {
    /// The transport's name: `stdio`, `http` (streamable HTTP), or `sse` (HTTP+SSE of 2024-11-05, if the configuration says so).
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Program(_) => "stdio",
            Self::Http(remote) if remote.transport == remote::Transport::Sse => "sse",
            Self::Http(_) => "http",
        }
    }

    /// A hash over what `${file:...}` comes to in it; empty where it has none.
    fn files(&self, lookup: &dyn Lookup) -> String {
        let templates: Vec<&Template> = match self {
            Self::Program(Launch { command, args, env, cwd, .. }) => {
                [command].into_iter().chain(args).chain(env.values()).chain(cwd).collect()
            }
            Self::Http(Remote { url, headers, token, ca_file, proxy, .. }) => {
                [url].into_iter().chain(headers.values()).chain(token).chain(ca_file).chain(proxy).collect()
            }
        };
        let mut print = launch::Fingerprint::default();
        let files: Vec<String> = templates.iter().flat_map(|template| template.files(lookup)).collect();
        files.iter().for_each(|text| print.add("file", text));
        if files.is_empty() { String::new() } else { print.done() }
    }

    fn fingerprint(&self, lookup: &dyn Lookup) -> String {
        match self {
            Self::Program(launch) => launch.fingerprint(lookup),
            Self::Http(remote) => remote.fingerprint(lookup),
        }
    }
}

/// How to launch a source over stdio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    pub command: Template,
    pub args: Vec<Template>,
    pub env: BTreeMap<String, Template>,
    pub inherit_env: InheritEnv,
    /// Absolute, or relative to `base`.
    pub cwd: Option<Template>,
    /// The folder of the configuration file: relative commands and working directories start here.
    pub base: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InheritEnv {
    /// The safe minimum and these.
    Named(Vec<String>),
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    OnDemand,
    AtStart,
}

/// Who shares a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// All clients.
    Shared,
    /// Nobody: each session has an instance of its own, and so many may run at once.
    Session { max: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlisted {
    Refuse,
    Forward,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraChoice {
    Auto,
    Modern,
    Legacy,
}

/// How long one call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Without progress; progress resets it.
    pub idle: Duration,
    /// The hard maximum.
    pub total: Duration,
}

/// What the configuration says about a source's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolRules {
    pub read_only: bool,
    /// Globs; empty = everything.
    pub allow: Vec<String>,
    /// Globs; deny wins.
    pub deny: Vec<String>,
    pub tools: BTreeMap<String, ToolOverride>,
    /// Globs of each category, by its name.
    pub categories: BTreeMap<String, Vec<String>>,
}

/// `tool.NAME = { .. }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverride {
    pub read_only: Option<bool>,
    pub description: Option<String>,
    pub hidden: bool,
    pub call_timeout: Option<Duration>,
}

/// `[toolset.ID]`: a drawer of chosen tools, apart from the one that each source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetConfig {
    /// As a source's id is, and no source's id.
    pub id: SourceId,
    pub name: String,
    pub provider: String,
    pub summary: Option<String>,
    /// Never empty.
    pub tools: Vec<PairGlob>,
}

/// A glob over `source/tool`, parted at its first slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairGlob {
    pub source: String,
    pub tool: String,
}

impl Config {
    /// Who has which prefix.
    pub fn prefixes(&self) -> Prefixes {
        let usable = self.sources.iter().filter_map(|entry| match entry {
            SourceEntry::Usable(source) => Some((source.prefix.clone(), source.id.clone())),
            SourceEntry::Misconfigured(_) => None,
        });
        usable.collect()
    }
}

impl SourceEntry {
    pub fn id(&self) -> &SourceId {
        match self {
            Self::Usable(source) => &source.id,
            Self::Misconfigured(source) => &source.id,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Usable(source) => &source.name,
            Self::Misconfigured(source) => &source.name,
        }
    }

    /// The name of its transport, if that is known.
    pub fn transport(&self) -> Option<&'static str> {
        match self {
            Self::Usable(source) => Some(source.reach.transport()),
            Self::Misconfigured(source) => source.transport,
        }
    }

    pub fn provider(&self) -> &str {
        match self {
            Self::Usable(source) => &source.provider,
            Self::Misconfigured(source) => &source.provider,
        }
    }

    pub fn summary(&self) -> Option<&str> {
        match self {
            Self::Usable(source) => source.summary.as_deref(),
            Self::Misconfigured(source) => source.summary.as_deref(),
        }
    }
}

pub use check::{check, check_after};
pub use fault::{Fault, Unreadable};
pub use http::address;
pub use launch::{Resolved, SAFE_ENV};
pub use lookup::{ExpandError, Expanded, Lookup, Problem};
pub use remote::{Remote, ResolvedRemote, Transport};
pub use schema::schema;
pub use source::Prefixes;
pub use system::{Oversight, SystemLookup};
pub use template::{BadTemplate, Template};

mod check;
#[cfg(test)]
pub(crate) mod fake;
mod fault;
mod http;
pub mod keys;
mod launch;
mod lookup;
mod read;
mod remote;
mod schema;
mod source;
mod system;
mod template;
#[cfg(test)]
mod tests;
mod toolset;
mod unwise;
mod values;
