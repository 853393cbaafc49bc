//! Owns what a source's table must be as a whole, and what the sources must be to each other.
//! It does not read single values: `read` does.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::name::{SOURCE_ID_MAX, SourceId};

use super::fault::{Fault, dotted, reason};
use super::keys::{OF_HTTP, OF_PROGRAMS, SOURCE};
use super::launch::has_arguments;
use super::read::{Reader, UNSENDABLE, UNSENDABLE_HINT};
use super::values::{Span, Values};
use super::{
    BadSource, CallLimits, EraChoice, Isolation, Launch, Pin, Reach, Remote, SourceConfig, SourceEntry, Start,
    ToolOverride, ToolRules, Transport, Unlisted,
};

/// What is written twice, by table and id: the key and where the second one is.
pub(super) type Repeated = BTreeMap<(&'static str, String), Vec<(String, Span)>>;

/// Which source has which prefix.
pub type Prefixes = BTreeMap<String, SourceId>;

/// A source on its way into the configuration.
struct Draft {
    id: SourceId,
    /// The section's name in the file.
    section: String,
    values: Values,
    /// Where a fault of its prefix is told.
    at: Span,
    faults: Vec<Fault>,
    /// `None` with a bad id, which takes no prefix from others.
    prefix: Option<String>,
}

/// Every source of the file, by id.
pub(super) fn all(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    repeated: &Repeated,
    held: &Prefixes,
) -> Vec<SourceEntry> {
    let mut drafts: Vec<_> =
        table.iter().map(|(name, value)| draft(reader, table, name, value.get_ref(), repeated)).collect();
    drafts.sort_by(|a, b| a.id.cmp(&b.id));
    tell_shared_prefixes(reader, &mut drafts, held);
    drafts.into_iter().map(|draft| draft.into_entry(reader)).collect()
}

fn draft(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    name: &Spanned<DeString<'_>>,
    value: &DeValue<'_>,
    repeated: &Repeated,
) -> Draft {
    let before = reader.faults.len();
    let written = name.get_ref().as_ref();
    let section = dotted("source", written);
    let id = SourceId::new(written);
    if let Err(bad) = &id {
        let hint = format!("rename the table, for example to `[source.{}]`", stand_in(written, table));
        reader.faults.add(&name.span(), &section, bad.to_string(), hint);
    }
    reader.tell_repeated(repeated, "source", written);
    let values = match value {
        DeValue::Table(table) => {
            reader.is_disabled = matches!(table.get("enabled").map(Spanned::get_ref), Some(DeValue::Boolean(false)));
            let values = reader.section(SOURCE, table, &section);
            whole(reader, &values, &section, &name.span());
            reader.unwise(&values, &section, written);
            reader.is_disabled = false;
            values
        }
        other => {
            let hint = "sources are tables named `[source.NAME]`".to_owned();
            reader.mistyped(&section, &name.span(), "a table", other, hint);
            Values::new(SOURCE)
        }
    };
    let prefix = id.as_ref().ok().and_then(|id| match values.written("prefix") {
        Some(_) => values.text("prefix"),
        None => Some(id.to_string()),
    });
    Draft {
        id: id.unwrap_or_else(|_| stand_in(written, table)),
        at: values.at("prefix").cloned().unwrap_or(name.span()),
        section,
        values,
        faults: reader.faults.since(before).to_vec(),
        prefix,
    }
}

impl Reader<'_> {
    /// What is written twice in the table of one source or toolset.
    pub(super) fn tell_repeated(&mut self, repeated: &Repeated, table: &'static str, id: &str) {
        for (key, at) in repeated.get(&(table, id.to_owned())).into_iter().flatten() {
            let cause = format!("`{key}` is written twice");
            self.faults.add(at, dotted(table, id), cause, "remove one of the two, or merge them");
        }
    }
}

/// A legal id under which a source with a bad one can be listed, apart from every other of the file.
fn stand_in(written: &str, table: &DeTable<'_>) -> SourceId {
    let plain = legal(written);
    let is_free = table.keys().all(|other| other.get_ref() == written || legal(other.get_ref()) != plain);
    if let Some(id) = SourceId::new(&plain).ok().filter(|_| is_free) {
        return id;
    }
    let digest: String = Sha256::digest(written).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let short = &plain[..plain.len().min(SOURCE_ID_MAX - 9)];
    let text = if short.is_empty() { format!("s-{digest}") } else { format!("{short}-{digest}") };
    SourceId::new(&text).expect("BUG: cut and cleaned to the rule of ids")
}

/// `written` with only the characters that an id may have, at any length.
pub(super) fn legal(written: &str) -> String {
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let clean: String = written.to_ascii_lowercase().chars().map(|c| if is_legal(c) { c } else { '-' }).collect();
    clean.trim_matches(['-', '_']).to_owned()
}

/// How the keys of one source depend on each other.
fn whole(reader: &mut Reader<'_>, values: &Values, section: &str, header: &Span) {
    match (values.written("command"), values.written("url")) {
        (None, None) => {
            let hint = "write `command = \"...\"` with the program to start, or `url = \"https://...\"`";
            reader.faults.add(header, section, "it has neither `command` nor `url`", hint);
        }
        (Some(_), Some(url)) => {
            let hint = "remove one of the two";
            reader.faults.add(url, dotted(section, "url"), "a source has a `command` or a `url`, not both", hint);
        }
        (Some(_), None) => foreign_keys(reader, values, section, OF_HTTP, "url", "command"),
        (None, Some(_)) => foreign_keys(reader, values, section, OF_PROGRAMS, "command", "url"),
    }
    address(reader, values, section);
    program(reader, values, section);
    instances(reader, values, section);
    let category = dotted(section, "category");
    reader.no_repetition(values.tables("category").map(|(name, values)| (dotted(&category, name), values)));
    if let (Some(max), Some(at)) = (values.whole_if_set("max_call_secs"), values.at("max_call_secs")) {
        let tools = values.tables("tool").filter_map(|(name, tool)| {
            Some((tool.whole_if_set("call_timeout_secs")?, dotted(&dotted(section, "tool"), name)))
        });
        let own = values.whole_if_set("call_timeout_secs").map(|secs| (secs, section.to_owned()));
        for (secs, of) in own.into_iter().chain(tools).filter(|(secs, _)| *secs > max) {
            too_little(reader, at, &dotted(section, "max_call_secs"), max, secs, (&of, "call_timeout_secs"));
        }
    }
    if let (Some(max), Some(at)) = (values.whole_if_set("max_start_secs"), values.at("max_start_secs"))
        && let Some(secs) = values.whole_if_set("start_timeout_secs").filter(|secs| *secs > max)
    {
        too_little(reader, at, &dotted(section, "max_start_secs"), max, secs, (section, "start_timeout_secs"));
    }
}

/// A limit in all that is less than the one it contains, which stands in a section under a key.
fn too_little(reader: &mut Reader<'_>, at: &Span, limit: &str, max: u64, secs: u64, (of, key): (&str, &str)) {
    let cause = format!("{max} is less than the {secs} of {}", dotted(of, key));
    let hint = format!("write at least {secs}, or a shorter `{key}`");
    reader.faults.add(at, limit.to_owned(), cause, hint);
}

/// What a command and its folder must be, as far as nothing has to be run to know it.
fn program(reader: &mut Reader<'_>, values: &Values, section: &str) {
    if let (Some(cwd), Some(at), false) = (values.template("cwd"), values.at("cwd"), reader.is_disabled)
        && !cwd.has_commands()
        && cwd.expand_path(reader.lookup).is_ok_and(|cwd| cwd.value.is_empty())
    {
        reader.faults.add(at, dotted(section, "cwd"), "it names no folder", "write a path, or remove the key");
    }
    let (Some(template), Some(at)) = (values.template("command"), values.at("command")) else { return };
    let known = if template.has_commands() { None } else { template.expand_path(reader.lookup).ok() };
    let Some(command) = known.map(|known| known.value) else { return };
    if command.is_empty() {
        let hint = "write the program to start, as in `command = \"npx\"`";
        reader.faults.add(at, dotted(section, "command"), "the command is empty", hint);
    } else if !reader.is_disabled && has_arguments(&command, reader.base, reader.lookup) {
        let cause = "there are blanks in it, and no such file: the command is the program alone";
        let hint = "put the rest into `args`, as in `command = \"npx\"` and `args = [\"-y\", \"NAME\"]`";
        reader.faults.add(at, dotted(section, "command"), cause, hint);
    }
}

/// What an instance for each session asks of the other keys.
fn instances(reader: &mut Reader<'_>, values: &Values, section: &str) {
    let is_apart = is(values, "isolation", "session");
    if let (false, Some(at)) = (is_apart, values.written("max_instances")) {
        let hint = "write `isolation = \"session\"` beside it, or remove it";
        reader.faults.add(at, dotted(section, "max_instances"), "all clients share the one instance there is", hint);
    }
    if let (true, Pin::Enforce, Some(at)) = (is_apart, reader.pin, values.at("isolation")) {
        let cause =
            "with `pin = \"enforce\"` only tools that were looked at may be called, and each instance has its own";
        let hint = "write `isolation = \"shared\"`, or another `pin` in [relay]";
        reader.faults.add(at, dotted(section, "isolation"), cause, hint);
    }
}

/// Keys that mean nothing beside the other way to reach a source.
fn foreign_keys(reader: &mut Reader<'_>, values: &Values, section: &str, keys: &[&str], theirs: &str, own: &str) {
    for key in keys {
        if let Some(at) = values.written(key) {
            let cause = format!("it belongs to a source with a `{theirs}`; this one has a `{own}`");
            reader.faults.add(at, dotted(section, key), cause, "remove it");
        }
    }
}

/// What an HTTP source's keys must be to each other.
fn address(reader: &mut Reader<'_>, values: &Values, section: &str) {
    for key in ["url", "proxy"] {
        let (Some(url), Some(at)) = (values.template(key), values.at(key)) else { continue };
        if url.has_commands() || reader.is_disabled {
            continue;
        }
        if let Some(cause) = url.expand(reader.lookup).ok().and_then(|url| super::remote::refused_url(&url.value)) {
            let hint = match key {
                "url" => "write it in full, as in `https://example.org/mcp`",
                _ => "write it in full, as in `http://proxy.example.org:3128`",
            };
            reader.faults.add(at, dotted(section, key), cause, hint);
        }
    }
    match (is(values, "auth", "bearer"), values.written("token"), values.at("auth")) {
        (true, None, Some(at)) => {
            let hint = "write `token = \"${VARIABLE}\"`";
            reader.faults.add(at, dotted(section, "auth"), "there is no `token`", hint);
        }
        (false, Some(at), _) if values.written("command").is_none() => {
            let hint = "write `auth = \"bearer\"` beside it, or remove it";
            reader.faults.add(at, dotted(section, "token"), "nothing tells how to send it", hint);
        }
        _ => {}
    }
    let two = values.env("headers").keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    if let (true, true, Some(at)) = (two, is(values, "auth", "bearer"), values.at("headers")) {
        let cause = "`Authorization` is set here and by `auth = \"bearer\"`";
        reader.faults.add(at, dotted(section, "headers"), cause, "remove one of the two");
    }
    if let (Some(token), Some(at), false) = (values.template("token"), values.at("token"), reader.is_disabled)
        && !token.has_commands()
        && let Ok(expanded) = token.expand(reader.lookup)
    {
        if expanded.value.trim().is_empty() {
            let problem = super::Problem::EmptyCredential(token.raw().to_owned());
            reader.faults.add(at, dotted(section, "token"), problem.to_string(), problem.hint());
        } else if !super::remote::is_sendable(&expanded.value) {
            reader.faults.add(at, dotted(section, "token"), UNSENDABLE, UNSENDABLE_HINT);
        }
    }
}

/// Direct names must tell sources apart. Of those with one prefix, the one that had it before keeps it, so that nobody's tools
/// get into the place of others; else the one whose id it is, else the first by id. The rest are at fault.
fn tell_shared_prefixes(reader: &mut Reader<'_>, drafts: &mut [Draft], held: &Prefixes) {
    let mut owners: BTreeMap<String, (u8, SourceId)> = BTreeMap::new();
    for draft in drafts.iter() {
        let Some(prefix) = &draft.prefix else { continue };
        let rank = match () {
            () if held.get(prefix) == Some(&draft.id) => 0,
            () if draft.id.as_str() == prefix => 1,
            () => 2,
        };
        let claim = (rank, draft.id.clone());
        let owner = owners.entry(prefix.clone()).or_insert_with(|| claim.clone());
        *owner = claim.min(owner.clone());
    }
    for draft in drafts {
        let Some((_, owner)) = draft.prefix.as_ref().and_then(|prefix| owners.get(prefix)) else { continue };
        if *owner == draft.id {
            continue;
        }
        let before = reader.faults.len();
        let cause = format!("source `{owner}` has the same prefix");
        reader.faults.add(&draft.at, dotted(&draft.section, "prefix"), cause, "give one of the two another `prefix`");
        draft.faults.extend_from_slice(reader.faults.since(before));
    }
}

impl Draft {
    fn into_entry(self, reader: &Reader<'_>) -> SourceEntry {
        let values = &self.values;
        let name = values.text("name").unwrap_or_else(|| self.id.to_string());
        let provider = values.text("provider").unwrap_or_else(|| self.id.to_string());
        let summary = values.text("summary");
        let (Some(reach), true) = (reach(values, reader), self.faults.is_empty()) else {
            let reason = reason(&self.faults, &self.section);
            let sse = is(values, "transport", "sse");
            let http = values.at("url").map(|_| if sse { "sse" } else { "http" });
            let transport = http.or_else(|| values.at("command").map(|_| "stdio"));
            return SourceEntry::Misconfigured(BadSource { id: self.id, name, provider, summary, transport, reason });
        };
        let idle_stop = values.whole("idle_stop_secs");
        let (start_timeout, max_start) = start_limits(values);
        SourceEntry::Usable(Box::new(SourceConfig {
            name,
            provider,
            summary,
            enabled: values.flag("enabled"),
            fingerprint: reach.fingerprint(reader.lookup),
            files: if values.flag("enabled") { reach.files(reader.lookup) } else { String::new() },
            reach,
            start: if is(values, "start", "at-start") { Start::AtStart } else { Start::OnDemand },
            idle_stop: (idle_stop > 0).then(|| Duration::from_secs(idle_stop)),
            start_timeout,
            max_start,
            limits: limits(values),
            max_in_flight: usize::try_from(values.whole("max_in_flight")).unwrap_or(usize::MAX),
            isolation: isolation(values),
            prefix: self.prefix.unwrap_or_else(|| self.id.to_string()),
            unlisted: if is(values, "unlisted", "forward") { Unlisted::Forward } else { Unlisted::Refuse },
            rules: rules(values),
            era: match values.text("era").as_deref() {
                Some("modern") => EraChoice::Modern,
                Some("legacy") => EraChoice::Legacy,
                _ => EraChoice::Auto,
            },
            id: self.id,
        }))
    }
}

pub(super) fn reach(values: &Values, reader: &Reader<'_>) -> Option<Reach> {
    if let Some(url) = values.template("url") {
        return Some(Reach::Http(Remote {
            url,
            transport: match values.text("transport").as_deref() {
                Some("streamable-http") => Transport::StreamableHttp,
                Some("sse") => Transport::Sse,
                _ => Transport::Auto,
            },
            headers: values.env("headers"),
            token: values.template("token"),
            ca_file: values.template("ca_file"),
            proxy: values.template("proxy"),
            connect_timeout: Duration::from_secs(values.whole("connect_timeout_secs")),
            base: reader.base.to_owned(),
        }));
    }
    Some(Reach::Program(Launch {
        command: values.template("command")?,
        args: values.templates("args"),
        env: values.env("env"),
        inherit_env: values.inherit("inherit_env"),
        cwd: values.template("cwd"),
        base: reader.base.to_owned(),
    }))
}

fn is(values: &Values, key: &str, word: &str) -> bool {
    values.text(key).as_deref() == Some(word)
}

/// Of the two limits, the one that is not written gives way.
fn limits(values: &Values) -> CallLimits {
    let (mut idle, mut total) = (values.whole("call_timeout_secs"), values.whole("max_call_secs"));
    if values.at("max_call_secs").is_none() {
        let tools = values.tables("tool").filter_map(|(_, tool)| tool.whole_if_set("call_timeout_secs"));
        total = tools.fold(total.max(idle), u64::max);
    } else {
        idle = idle.min(total);
    }
    CallLimits { idle: Duration::from_secs(idle), total: Duration::from_secs(total) }
}

fn isolation(values: &Values) -> Isolation {
    match is(values, "isolation", "session") {
        true => Isolation::Session { max: usize::try_from(values.whole("max_instances")).unwrap_or(usize::MAX) },
        false => Isolation::Shared,
    }
}

/// The same for a start: without a sign of work, and in all.
fn start_limits(values: &Values) -> (Duration, Duration) {
    let (mut idle, mut whole) = (values.whole("start_timeout_secs"), values.whole("max_start_secs"));
    match values.at("max_start_secs") {
        None => whole = whole.max(idle),
        Some(_) => idle = idle.min(whole),
    }
    (Duration::from_secs(idle), Duration::from_secs(whole))
}

fn rules(values: &Values) -> ToolRules {
    let tools = values.tables("tool").map(|(name, tool)| {
        let rule = ToolOverride {
            read_only: tool.flag_if_set("read_only"),
            description: tool.text("description"),
            hidden: tool.flag("hidden"),
            call_timeout: tool.whole_if_set("call_timeout_secs").map(Duration::from_secs),
        };
        (name.to_owned(), rule)
    });
    ToolRules {
        read_only: values.flag("read_only"),
        allow: values.texts("allow"),
        deny: values.texts("deny"),
        tools: tools.collect(),
        categories: values.tables("category").map(|(name, values)| (name.to_owned(), values.texts("tools"))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::fake::FakeLookup;
    use crate::config::tests::{faults, read};
    use crate::config::{CallLimits, SourceEntry};
    use crate::name::SourceId;

    #[test]
    fn a_source_is_checked_as_a_whole() {
        for (text, told) in [
            (
                "[source.a]\ncommand = 'x'\nmax_instances = 2",
                "3: source.a.max_instances: all clients share the one instance there is; hint: write `isolation = \
                 \"session\"` beside it, or remove it",
            ),
            (
                "[relay]\npin = 'enforce'\n[source.a]\ncommand = 'x'\nisolation = 'session'",
                "5: source.a.isolation: with `pin = \"enforce\"` only tools that were looked at may be called, and each \
                 instance has its own; hint: write `isolation = \"shared\"`, or another `pin` in [relay]",
            ),
            (
                "[source.a]",
                "1: source.a: it has neither `command` nor `url`; hint: write `command = \"...\"` with the program to start, \
                 or `url = \"https://...\"`",
            ),
            (
                "source.a = 'npx'",
                "1: source.a: expected a table, found a string; hint: sources are tables named `[source.NAME]`",
            ),
            (
                "[source.a]\ncommand = ''",
                "2: source.a.command: the command is empty; hint: write the program to start, as in `command = \"npx\"`",
            ),
            (
                "[source.a]\ncommand = 'x'\ncwd = ''",
                "3: source.a.cwd: it names no folder; hint: write a path, or remove the key",
            ),
            (
                "[source.a]\ncommand = '${EMPTY}'",
                "2: source.a.command: the command is empty; hint: write the program to start, as in `command = \"npx\"`",
            ),
            (
                "[source.a]\ncommand = 'x'\ncall_timeout_secs = 9\nmax_call_secs = 8",
                "4: source.a.max_call_secs: 8 is less than the 9 of source.a.call_timeout_secs; hint: write at least 9, or \
                 a shorter `call_timeout_secs`",
            ),
            (
                "[source.a]\ncommand = 'x'\ntool.t.call_timeout_secs = 9\nmax_call_secs = 8",
                "4: source.a.max_call_secs: 8 is less than the 9 of source.a.tool.t.call_timeout_secs; hint: write at \
                 least 9, or a shorter `call_timeout_secs`",
            ),
            (
                "[source.a]\ncommand = 'x'\nstart_timeout_secs = 9\nmax_start_secs = 8",
                "4: source.a.max_start_secs: 8 is less than the 9 of source.a.start_timeout_secs; hint: write at least 9, \
                 or a shorter `start_timeout_secs`",
            ),
            (
                "[source.b]\ncommand = 'x'\nprefix = ''\n[source.a]\ncommand = 'x'\nprefix = ''",
                "3: source.b.prefix: source `a` has the same prefix; hint: give one of the two another `prefix`",
            ),
            (
                "[source.b]\ncommand = 'x'\n[source.a]\ncommand = 'x'\nprefix = 'b'",
                "5: source.a.prefix: source `b` has the same prefix; hint: give one of the two another `prefix`",
            ),
        ] {
            assert_eq!(faults(text), [told], "{text}");
        }
        let told = "2: source.a.command: there are blanks in it, and no such file: the command is the program alone; hint: \
                    put the rest into `args`, as in `command = \"npx\"` and `args = [\"-y\", \"NAME\"]`";
        for command in ["npx -y foo", "npx -y ./foo", "./srv --port 3", "/bin/node x.js", "~/srv x", "${SPACED}"] {
            assert_eq!(faults(&format!("[source.a]\ncommand = '{command}'\n")), [told], "{command}");
        }
        for command in ["my srv", "./my srv", "/not/there yet/srv", "npx"] {
            assert_eq!(faults(&format!("[source.a]\ncommand = '{command}'\n")), [""; 0], "{command}");
        }
        assert_eq!(faults("[source.a]\ncommand = 'npx -y foo'\nenabled = false\n"), [""; 0]);
        let both = faults("[source.a]\ncommand = 'x'\nurl = 'https://x'\n");
        let told = "3: source.a.url: a source has a `command` or a `url`, not both; hint: remove one of the two";
        assert_eq!(both, [told]);
    }

    #[test]
    fn who_had_a_prefix_before_keeps_it() {
        let told = |text: &str, held: &[(&str, &str)]| -> Vec<String> {
            let held = held.iter().map(|(prefix, id)| ((*prefix).to_owned(), SourceId::new(id).unwrap()));
            let (file, lookup) = (Path::new("/conf/sources.toml"), FakeLookup::default());
            let config = crate::config::check_after(text, file, &lookup, &held.collect()).unwrap();
            config.faults.iter().map(|fault| fault.key.clone()).collect()
        };
        let both = "[source.a]\ncommand = 'x'\nprefix = 'p'\n[source.b]\ncommand = 'x'\nprefix = 'p'\n";
        assert_eq!(told(both, &[]), ["source.b.prefix"]);
        assert_eq!(told(both, &[("p", "b")]), ["source.a.prefix"]);
        assert_eq!(told(both, &[("q", "b"), ("p", "gone")]), ["source.b.prefix"]);
        let own = "[source.a]\ncommand = 'x'\nprefix = 'b'\n[source.b]\ncommand = 'x'\n";
        assert_eq!(told(own, &[]), ["source.a.prefix"]);
        assert_eq!(told(own, &[("b", "a")]), ["source.b.prefix"]);
    }

    #[test]
    fn an_http_source_is_checked_as_a_whole() {
        for (lines, told) in [
            ("args = ['x']", "args: it belongs to a source with a `command`; this one has a `url`; hint: remove it"),
            ("auth = 'bearer'", "auth: there is no `token`; hint: write `token = \"${VARIABLE}\"`"),
            (
                "token = 'x'",
                "token: nothing tells how to send it; hint: write `auth = \"bearer\"` beside it, or remove it",
            ),
            (
                "auth = 'oauth'",
                "auth: OAuth is not in this version yet; hint: write `auth = \"bearer\"` with a `token` that you have from \
                 elsewhere",
            ),
            (
                "headers = { mcp-session-id = 'x' }",
                "headers.mcp-session-id: the relay sets this header itself; hint: remove it, or use another name",
            ),
            (
                "headers = { A = \"a\\nb\" }",
                "headers.A: no header can hold it, for there is a line end or another control character in it; hint: write \
                 printable text on one line",
            ),
            (
                "headers = { A = '${LINES}' }",
                "headers.A: no header can hold it, for there is a line end or another control character in it; hint: write \
                 printable text on one line",
            ),
            (
                "headers = { A = \"\\u0000\" }",
                "headers.A: there is a NUL character in it, which no program takes; hint: remove it",
            ),
            ("headers = { A = 'x', a = 'y' }", "headers.a: the header is written twice; hint: remove one of the two"),
            (
                "transport = 'stdio'",
                "transport: `stdio` is none of its words; hint: the words are `streamable-http` and `sse`",
            ),
            ("proxy = 'p'", "proxy: it is no address; hint: write it in full, as in `http://proxy.example.org:3128`"),
            (
                "auth = 'bearer'\ntoken = ''",
                "token: the credential is empty; hint: write it, best as `${VARIABLE}`, or remove this key",
            ),
            (
                "headers = { Authorization = 'Bearer ${EMPTY}' }",
                "headers.Authorization: the credential is empty: `Bearer ${EMPTY}` gives no text; hint: give `Bearer \
                 ${EMPTY}` a value, or remove this key",
            ),
        ] {
            let line = 2 + lines.lines().count();
            assert_eq!(
                faults(&format!("[source.a]\nurl = 'https://x'\n{lines}\n")),
                [format!("{line}: source.a.{told}")]
            );
        }
        let told = "2: source.a.url: it does not start with http:// or https://; hint: write it in full, as in \
                    `https://example.org/mcp`";
        assert_eq!(faults("[source.a]\nurl = 'localhost:3000/mcp'\n"), [told]);
        let told =
            "3: source.a.headers: it belongs to a source with a `url`; this one has a `command`; hint: remove it";
        assert_eq!(faults("[source.a]\ncommand = 'x'\nheaders = {}\n"), [told]);
        let both = "auth = 'bearer'\ntoken = '${T}'\nheaders = { authorization = 'x' }";
        assert_eq!(faults(&format!("[source.a]\nurl = 'https://x'\n{both}\n")).len(), 1);
        assert_eq!(faults("[source.a]\nurl = 'https://x'\nauth = 'bearer'\ntoken = '${LINES}'\n").len(), 1);
        let all = "auth = 'bearer'\ntoken = '${T}'\nheaders = { Host = 'x', A = \"\u{e9}\\n\" }\nca_file = 'x'\nproxy = 'http://p:1'\n\
                   transport = 'sse'\nconnect_timeout_secs = 3";
        assert_eq!(faults(&format!("[source.a]\nurl = 'https://x'\n{all}\n")), [""; 0]);
    }

    #[test]
    fn a_disabled_source_needs_no_variables_yet() {
        let source = "[source.a]\ncommand = '${NONE}'\nargs = ['${file:gone}']\nenv = { TOKEN = '${EMPTY}' }\n";
        assert_eq!(faults(source).len(), 3);
        assert_eq!(faults(&format!("{source}enabled = false\n")), [""; 0]);
        assert_eq!(faults(&format!("{source}cwd = '${{}}'\nenabled = false\n")).len(), 1);
    }

    #[test]
    fn limits_that_are_not_written_give_way() {
        for (lines, idle, total) in [
            ("call_timeout_secs = 7200", 7200, 7200),
            ("max_call_secs = 60", 60, 60),
            ("tool.t.call_timeout_secs = 9000", 300, 9000),
            ("call_timeout_secs = 5\nmax_call_secs = 5", 5, 5),
        ] {
            let config = read(&format!("[source.a]\ncommand = 'x'\n{lines}\n"));
            let [SourceEntry::Usable(source)] = &config.sources[..] else { panic!("{config:?}") };
            let secs = |CallLimits { idle, total }: CallLimits| (idle.as_secs(), total.as_secs());
            assert_eq!(secs(source.limits), (idle, total), "{lines}");
        }
        for (lines, idle, whole) in [
            ("start_timeout_secs = 7200", 7200, 7200),
            ("max_start_secs = 60", 60, 60),
            ("start_timeout_secs = 5", 5, 1800),
            ("start_timeout_secs = 5\nmax_start_secs = 5", 5, 5),
        ] {
            let config = read(&format!("[source.a]\ncommand = 'x'\n{lines}\n"));
            let [SourceEntry::Usable(source)] = &config.sources[..] else { panic!("{config:?}") };
            assert_eq!((source.start_timeout.as_secs(), source.max_start.as_secs()), (idle, whole), "{lines}");
        }
    }

    #[test]
    fn a_source_with_a_bad_id_is_listed_under_one_of_its_own() {
        let ids = |names: &[&str]| -> Vec<String> {
            let text: String = names.iter().map(|name| format!("[source.{name:?}]\ncommand = 'x'\n")).collect();
            let config = read(&text);
            let mut ids: Vec<_> = config.sources.iter().map(|entry| entry.id().to_string()).collect();
            ids.dedup();
            ids
        };
        let long = "a".repeat(40);
        assert_eq!(ids(&["Git Hub"]), ["git-hub"]);
        assert_eq!(ids(&["GitHub", "github"]), ["github", "github-f911e414"]);
        assert_eq!(ids(&["GitHub", "GITHUB", "_", "é", &long, &format!("{long}b")]).len(), 6);
    }
}
