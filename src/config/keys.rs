//! Owns the keys of `sources.toml`: one table that says of each what it takes, its default, and what it does.
//! Validation, "did you mean" and the JSON Schema come from here; it reads nothing itself.

/// One key of a section.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub default: Standard,
    /// One line.
    pub doc: &'static str,
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string whose variables are expanded when the file is checked.
    Text,
    /// A folder; `~/` and variables are expanded, and a relative one starts at the file's folder.
    Folder,
    Bool,
    /// A whole number from `min` to `max`.
    Whole {
        min: u64,
        max: u64,
    },
    /// One of these words.
    Word {
        works: &'static [&'static str],
    },
    /// A list of these words that must have `must` unless it is empty.
    Words {
        works: &'static [&'static str],
        must: &'static str,
    },
    /// A list of globs over tool names.
    Globs,
    /// A list of `source/tool` globs.
    PairGlobs,
    /// A list of names, none empty.
    Names,
    /// A string expanded when the source is launched or connected to, where `~/` at the start is the home folder.
    Template,
    /// A string expanded when the source is connected to.
    Line,
    /// A table of strings expanded when the source is connected to: header to value.
    Headers,
    /// A list of strings expanded when the source is launched.
    Templates,
    /// A table of strings expanded when the source is launched: variable to value.
    Env,
    /// `true` for the whole environment, or a list of names of variables.
    Inherit,
    /// Empty, or 1 to 32 characters of `[A-Za-z0-9_-]`.
    Prefix,
    /// A table for each tool, with the keys of [`TOOL`].
    Tools,
    /// A table for each category, with the keys of [`CATEGORY`].
    Categories,
    /// Read by others than the table's reader.
    Anything,
}

/// The value of a key that is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standard {
    /// None; the key's line says what then happens.
    Unset,
    Bool(bool),
    Whole(u64),
    Word(&'static str),
    EmptyList,
    EmptyTable,
}

/// The longest time that can be set: a year, in seconds.
pub const SECS_MAX: u64 = 31_536_000;
/// The longest prefix of directly exposed names.
pub const PREFIX_MAX: usize = 32;
/// The longest name of a category, in characters.
pub const CATEGORY_MAX: usize = 40;

const SECS: Kind = Kind::Whole { min: 1, max: SECS_MAX };

const fn key(name: &'static str, kind: Kind, default: Standard, doc: &'static str) -> Key {
    Key { name, kind, default, doc }
}

/// The keys of `[relay]`.
pub static RELAY: &[Key] = &[
    key(
        "exposure",
        Kind::Word { works: &["toolsets", "progressive", "lazy", "meta-only", "eager"] },
        Standard::Word("toolsets"),
        "What clients see at first: `toolsets` (a menu that opens drawers), `progressive` (a search that activates what it \
         finds), `lazy` (a search, and loading of named tools), `meta-only` (a search and the dispatcher) or `eager` (every \
         permitted tool).",
    ),
    key(
        "always_visible",
        Kind::PairGlobs,
        Standard::EmptyList,
        "`source/tool` globs of the tools that are shown directly in every exposure.",
    ),
    key(
        "menu",
        Kind::Words { works: crate::name::RESERVED, must: "call_tool" },
        Standard::EmptyList,
        "Which of the relay's own tools to show; empty = those of the exposure. `call_tool` cannot be left out.",
    ),
    key(
        "state_dir",
        Kind::Folder,
        Standard::Unset,
        "Where the catalog is remembered; not set = the platform's state directory. Relative to this file.",
    ),
    key(
        "remember",
        Kind::Bool,
        Standard::Bool(false),
        "Whether the drawers opened over stdio stay open in the next run.",
    ),
    key(
        "max_message_mib",
        Kind::Whole { min: 1, max: 4096 },
        Standard::Whole(256),
        "The longest message taken from a client or a source, in MiB.",
    ),
    key(
        "max_starting",
        Kind::Whole { min: 1, max: 256 },
        Standard::Whole(8),
        "How many sources may be starting at once.",
    ),
    key(
        "warn_tools",
        Kind::Whole { min: 0, max: 100_000 },
        Standard::Whole(128),
        "How many tools a client's list may have before `enable_toolset` and `load_tools` warn of it; 0 = any number.",
    ),
    key(
        "ask_timeout_secs",
        SECS,
        Standard::Whole(300),
        "How long a client may take to answer what a source asks it during a call (input from its user, sampling, roots).",
    ),
    key(
        "pin",
        Kind::Word { works: &["off", "warn", "enforce"] },
        Standard::Word("warn"),
        "What a tool gets that is not what `toolrelay lock` accepted: `off` (nothing), `warn` (a mark, if there is a \
         sources.lock) or `enforce` (it is withheld until it is accepted, and without a sources.lock every tool is).",
    ),
];

/// The keys of `[source.ID]`.
pub static SOURCE: &[Key] = &[
    key("name", Kind::Text, Standard::Unset, "Short display name; not set = the id."),
    key("provider", Kind::Text, Standard::Unset, "Who is behind it; sorts the catalog. Not set = the id."),
    key("summary", Kind::Text, Standard::Unset, "One line that tells a model what the tools are good for."),
    key("enabled", Kind::Bool, Standard::Bool(true), "`false`: listed as disabled, never started."),
    key(
        "command",
        Kind::Template,
        Standard::Unset,
        "The program: a bare name is looked for in PATH, a relative path starts at this file's folder.",
    ),
    key(
        "args",
        Kind::Templates,
        Standard::EmptyList,
        "Its arguments, one string each; no shell is involved. `~/` at the start of one is the home folder.",
    ),
    key(
        "env",
        Kind::Env,
        Standard::EmptyTable,
        "Variables for it, on top of the safe minimum; `~/` is left as it is here.",
    ),
    key("cwd", Kind::Template, Standard::Unset, "Its working directory, relative to this file; not set = the relay's."),
    key(
        "inherit_env",
        Kind::Inherit,
        Standard::EmptyList,
        "Names of variables it gets beyond the safe minimum (PATH, HOME, LANG ...); `true` = all of them.",
    ),
    key("read_only", Kind::Bool, Standard::Bool(false), "Withhold every tool that may change something."),
    key(
        "allow",
        Kind::Globs,
        Standard::EmptyList,
        "Globs (`*` any text, `?` any character, nothing else) of what to offer: names of tools and prompts as the source has \
         them, URIs of resources and skills; empty = all.",
    ),
    key("deny", Kind::Globs, Standard::EmptyList, "The same of what to withhold; wins over `allow`."),
    key(
        "start",
        Kind::Word { works: &["on-demand", "at-start"] },
        Standard::Word("on-demand"),
        "When it is started: with the first call that needs it, or as soon as the relay serves.",
    ),
    key(
        "idle_stop_secs",
        Kind::Whole { min: 0, max: SECS_MAX },
        Standard::Whole(300),
        "Stop it after so many seconds without a call; 0 = never.",
    ),
    key(
        "start_timeout_secs",
        SECS,
        Standard::Whole(180),
        "How long its start may go without a sign of work (words on stderr; on Linux also processor time, bytes, processes); \
         each sign starts it anew, so a launcher may download first.",
    ),
    key("max_start_secs", SECS, Standard::Whole(1800), "How long its start may take in all, at work or not."),
    key(
        "call_timeout_secs",
        SECS,
        Standard::Whole(300),
        "How long a call may go without an answer; progress starts it anew.",
    ),
    key("max_call_secs", SECS, Standard::Whole(3600), "How long a call may take in all, progress or not."),
    key("max_in_flight", Kind::Whole { min: 1, max: 65_536 }, Standard::Whole(64), "How many calls it gets at once."),
    key(
        "isolation",
        Kind::Word { works: &["shared", "session"] },
        Standard::Word("shared"),
        "Whether all clients share it, or each session has a process (or an HTTP session) of its own.",
    ),
    key(
        "max_instances",
        Kind::Whole { min: 1, max: 4096 },
        Standard::Whole(16),
        "With `isolation = \"session\"`: how many of them may run at once. A call that would need one more is refused as busy.",
    ),
    key(
        "prefix",
        Kind::Prefix,
        Standard::Unset,
        "Directly shown tools are named PREFIX__tool; not set = the id, empty = bare names. No two sources have the same.",
    ),
    key(
        "unlisted",
        Kind::Word { works: &["refuse", "forward"] },
        Standard::Word("refuse"),
        "What becomes of a call to a tool that it does not list.",
    ),
    key(
        "era",
        Kind::Word { works: &["auto", "modern", "legacy"] },
        Standard::Word("auto"),
        "Which revisions of the protocol to speak: 2026-07-28 and later (`modern`), those before, or find out.",
    ),
    key("tool", Kind::Tools, Standard::EmptyTable, "What is different for single tools: `tool.NAME = { ... }`."),
    key(
        "category",
        Kind::Categories,
        Standard::EmptyTable,
        "What kinds of tools there are, for searching: `category.NAME = { tools = [globs] }`. A tool is in the first one by \
         name that fits; else in the one that the source tells, or that its name tells.",
    ),
    key("url", Kind::Line, Standard::Unset, "The address of a source that is reached over HTTP, instead of `command`."),
    key(
        "transport",
        Kind::Word { works: &["streamable-http", "sse"] },
        Standard::Unset,
        "How `url` is spoken to; not set = streamable HTTP, and `sse` (the transport of 2024-11-05) where that is refused.",
    ),
    key(
        "headers",
        Kind::Headers,
        Standard::EmptyTable,
        "Headers sent to `url` with every request: name to value. What clients send is never passed on.",
    ),
    key(
        "auth",
        Kind::Word { works: &["none", "bearer"] },
        Standard::Word("none"),
        "`bearer`: send `token` to `url` as `Authorization: Bearer`.",
    ),
    key("token", Kind::Line, Standard::Unset, "The token of `auth = \"bearer\"`, best as `${VAR}` or `${file:...}`."),
    key(
        "ca_file",
        Kind::Template,
        Standard::Unset,
        "A PEM file of certificates to trust for `url` beside the system's, relative to this file.",
    ),
    key(
        "proxy",
        Kind::Line,
        Standard::Unset,
        "The proxy on the way to `url`; not set = HTTPS_PROXY, HTTP_PROXY and NO_PROXY count. Loopback is reached without one.",
    ),
    key(
        "connect_timeout_secs",
        Kind::Whole { min: 1, max: 600 },
        Standard::Whole(10),
        "How long a connection to `url` may take to come about.",
    ),
];

/// The keys of `[source.ID]` that only programs have, and those that only HTTP sources have.
pub(super) static OF_PROGRAMS: &[&str] = &["args", "env", "cwd", "inherit_env"];
pub(super) static OF_HTTP: &[&str] =
    &["transport", "headers", "auth", "token", "ca_file", "proxy", "connect_timeout_secs"];

/// The keys of `tool.NAME` in a source.
pub static TOOL: &[Key] = &[
    key("read_only", Kind::Bool, Standard::Unset, "Whether it only reads, whatever it says of itself."),
    key("description", Kind::Text, Standard::Unset, "Shown instead of its own description."),
    key("hidden", Kind::Bool, Standard::Bool(false), "Withhold it."),
    key("call_timeout_secs", SECS, Standard::Unset, "As for the source; not set = the source's."),
];

/// The keys of `category.NAME` in a source.
pub static CATEGORY: &[Key] = &[key("tools", Kind::Globs, Standard::Unset, "Globs of its tools; at least one.")];

/// The keys of `[toolset.ID]`.
pub static TOOLSET: &[Key] = &[
    key("name", Kind::Text, Standard::Unset, "Short display name; not set = the id."),
    key("provider", Kind::Text, Standard::Unset, "Who is behind it; sorts the list of toolsets. Not set = the id."),
    key(
        "summary",
        Kind::Text,
        Standard::Unset,
        "One line that tells a model what the tools are good for; not set = put together from those of its sources.",
    ),
    key(
        "tools",
        Kind::PairGlobs,
        Standard::Unset,
        "`source/tool` globs of its tools; at least one. A tool is in the first toolset by id that fits, else in the one of \
         its source, which is left out when a glob such as `source/*` takes all.",
    ),
];

/// Where `serve --http` listens if nothing is said.
pub const LISTEN: &str = "127.0.0.1:7420";

/// The keys of `[http]`.
pub static HTTP: &[Key] = &[
    key(
        "listen",
        Kind::Text,
        Standard::Word(LISTEN),
        "The address and port of `serve --http`. Anything but the loopback interface needs a `[credential.ID]`.",
    ),
    key(
        "allowed_hosts",
        Kind::Names,
        Standard::EmptyList,
        "Names that clients may reach the relay by, beyond those of the loopback interface and its own address; `*` = all.",
    ),
    key(
        "allowed_origins",
        Kind::Names,
        Standard::EmptyList,
        "Origins of web pages that may connect, as in `https://app.example`, beyond those of the loopback interface; `*` = all.",
    ),
    key(
        "session_idle_secs",
        Kind::Whole { min: 1, max: SECS_MAX },
        Standard::Whole(3600),
        "How long the session of a client is kept that neither asks nor listens.",
    ),
];

/// The keys of `[credential.ID]`.
pub static CREDENTIAL: &[Key] = &[
    key("token", Kind::Template, Standard::Unset, "What the client sends as `Authorization: Bearer TOKEN`."),
    key("token_sha256", Kind::Text, Standard::Unset, "The SHA-256 of the token instead, in hexadecimal."),
    key("sources", Kind::Globs, Standard::Unset, "Globs of the sources it may see; not set = all."),
    key("read_only", Kind::Bool, Standard::Bool(false), "Withhold every tool that may change something."),
    key(
        "allow",
        Kind::PairGlobs,
        Standard::EmptyList,
        "`source/name` globs of what it may see: names of tools and prompts, URIs of resources and skills; empty = all.",
    ),
    key("deny", Kind::PairGlobs, Standard::EmptyList, "The same of what to withhold; wins over `allow`."),
    key(
        "exposure",
        Kind::Word { works: &["toolsets", "progressive", "lazy", "meta-only", "eager"] },
        Standard::Unset,
        "What it sees at first; not set = as `[relay]` says.",
    ),
];

/// The tables at the top of the file.
pub static TOP: &[Key] = &[
    key("relay", Kind::Anything, Standard::EmptyTable, "The relay itself."),
    key("source", Kind::Anything, Standard::EmptyTable, "The sources, one table each: `[source.ID]`."),
    key("toolset", Kind::Anything, Standard::EmptyTable, "Toolsets of chosen tools, one table each: `[toolset.ID]`."),
    key("http", Kind::Anything, Standard::EmptyTable, "Where clients connect over HTTP, with `serve --http`."),
    key("credential", Kind::Anything, Standard::EmptyTable, "Who may connect over HTTP: `[credential.ID]`."),
];

/// What other programs call these things, and the remedy.
pub(super) static FOREIGN: &[(&str, &str)] = &[
    ("cmd", "did you mean `command`?"),
    ("program", "did you mean `command`?"),
    ("arguments", "did you mean `args`?"),
    ("environment", "did you mean `env`?"),
    ("envs", "did you mean `env`?"),
    ("workingdirectory", "did you mean `cwd`?"),
    ("workdir", "did you mean `cwd`?"),
    ("directory", "did you mean `cwd`?"),
    ("disabled", "write `enabled = false`"),
    ("type", "remove it: `command` or `url` tell which it is; write `transport = \"sse\"` for HTTP+SSE"),
    ("httpurl", "did you mean `url`?"),
    ("serverurl", "did you mean `url`?"),
    ("endpoint", "did you mean `url`?"),
    ("httpheaders", "did you mean `headers`?"),
    ("envhttpheaders", "write `headers = { NAME = \"${VARIABLE}\" }`"),
    ("bearertoken", "write `auth = \"bearer\"` and `token = \"${VARIABLE}\"`"),
    ("bearertokenenvvar", "write `auth = \"bearer\"` and `token = \"${VARIABLE}\"`"),
    ("description", "did you mean `summary`?"),
    ("title", "did you mean `name`?"),
    ("timeout", "write `call_timeout_secs`, or `start_timeout_secs` for the start"),
    ("calltimeout", "write `call_timeout_secs`, in seconds"),
    ("starttimeout", "write `start_timeout_secs`, in seconds"),
    ("startuptimeoutsec", "write `start_timeout_secs`, in seconds"),
    ("tooltimeoutsec", "write `call_timeout_secs`, in seconds"),
    ("tools", "write `tool.NAME = { ... }` for one tool, `allow` and `deny` to choose among them"),
    ("alwaysallow", "the relay asks nobody; write `allow` and `deny` to choose the tools it offers"),
    ("autoapprove", "the relay asks nobody; write `allow` and `deny` to choose the tools it offers"),
    ("trust", "remove it: the relay asks nobody; write `allow`, `deny` or `read_only` to choose the tools it offers"),
    ("enabledtools", "did you mean `allow`?"),
    ("includetools", "did you mean `allow`?"),
    ("excludetools", "did you mean `deny`?"),
    (
        "envfile",
        "write each variable as `env = { NAME = \"${VARIABLE}\" }`, or a file with one value as `\"${file:PATH}\"`",
    ),
    ("envvars", "did you mean `inherit_env`?"),
    ("authorization", "write `auth = \"bearer\"` and `token = \"${VARIABLE}\"`"),
    ("authorizationtoken", "write `auth = \"bearer\"` and `token = \"${VARIABLE}\"`"),
    ("bearer", "write `auth = \"bearer\"` and `token = \"${VARIABLE}\"`"),
    ("disabledtools", "did you mean `deny`?"),
];

/// What other programs call the table of sources.
pub(super) static FOREIGN_TABLES: &[&str] = &["sources", "server", "servers", "mcp", "mcpserver", "mcpservers"];

pub(super) fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

impl Kind {
    /// For "expected ...".
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Text | Self::Folder | Self::Word { .. } | Self::Template | Self::Line | Self::Prefix => "a string",
            Self::Bool => "true or false",
            Self::Whole { .. } => "a whole number",
            Self::Words { .. } | Self::Globs | Self::PairGlobs | Self::Names | Self::Templates => "a list of strings",
            Self::Env | Self::Headers => "a table of strings",
            Self::Inherit => "a list of strings or `true`",
            Self::Tools | Self::Categories => "a table",
            Self::Anything => "nothing",
        }
    }

    /// A value as one would write it.
    fn example(self, default: Standard) -> String {
        match self {
            Self::Text | Self::Folder | Self::Template | Self::Line | Self::Prefix => "\"...\"".to_owned(),
            Self::Word { works, .. } => format!("{:?}", works[0]),
            Self::Bool => match default {
                Standard::Bool(value) => (!value).to_string(),
                _ => "true".to_owned(),
            },
            Self::Whole { min, .. } => match default {
                Standard::Whole(value) => value.to_string(),
                _ => min.max(30).to_string(),
            },
            Self::Words { must, .. } => format!("[{must:?}]"),
            Self::PairGlobs => "[\"source/tool\"]".to_owned(),
            Self::Globs | Self::Names | Self::Templates => "[\"...\"]".to_owned(),
            Self::Env | Self::Headers => "{ NAME = \"...\" }".to_owned(),
            Self::Inherit => "[\"NAME\"]".to_owned(),
            Self::Categories => "{ NAME = { tools = [\"...\"] } }".to_owned(),
            Self::Tools | Self::Anything => "{ NAME = { hidden = true } }".to_owned(),
        }
    }
}

impl Key {
    /// How to write it right.
    pub(super) fn remedy(&self) -> String {
        format!("write `{} = {}`", self.name, self.kind.example(self.default))
    }
}
