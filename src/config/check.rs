//! Owns the way from the text of `sources.toml` to a [`Config`]: parsing, the top of the file, and `[relay]`.
//! What a single source must be is in `source`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Faults, Unreadable, before, did_you_mean, dotted, position};
use super::keys::{FOREIGN_TABLES, RELAY, TOP, names};
use super::lookup::Lookup;
use super::read::Reader;
use super::source::{self, Prefixes, Repeated};
use super::toolset;
use super::values::{Span, Values};
use super::{Config, Exposure, Pin, RelayConfig, http};

const SOURCE_TABLES: &str = "sources are tables named `[source.NAME]`";

/// Checks the text of a configuration file. `file` is named in faults, and its folder is where relative paths start.
///
/// Looks at variables and files, runs no command. All faults are found in one run; a source with faults costs no other.
pub fn check(text: &str, file: &Path, lookup: &dyn Lookup) -> Result<Config, Unreadable> {
    check_after(text, file, lookup, &Prefixes::new())
}

/// The same of a file that was read before: what `held` says of prefixes that sources have goes before what the file says anew.
pub fn check_after(text: &str, file: &Path, lookup: &dyn Lookup, held: &Prefixes) -> Result<Config, Unreadable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (tree, repeated) = parse(text, file)?;
    let base = folder_of(file);
    let faults = Faults::new(text, file.to_owned());
    let mut reader = Reader { faults, lookup, base: &base, is_disabled: false, pin: Pin::Warn };
    top(&mut reader, &tree);
    let values = relay_values(&mut reader, &tree);
    let relay = relay(&values, file);
    reader.pin = relay.pin;
    let sources = match tree.get("source").map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => source::all(&mut reader, table, &repeated, held),
        _ => Vec::new(),
    };
    let toolsets = match tree.get("toolset").map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => toolset::all(&mut reader, table, &repeated, &sources),
        _ => Vec::new(),
    };
    toolset::spelled_sources(&mut reader, &values, ("relay", "always_visible"), &sources, &toolsets);
    let mut http = http::http(&mut reader, &tree);
    if let Some(DeValue::Table(table)) = tree.get("credential").map(Spanned::get_ref) {
        // With faults in all of them, nobody may connect: never everybody.
        http.is_guarded = true;
        http.credentials = http::credentials(&mut reader, table, &repeated, (&sources, &toolsets));
    }
    http::tell_unguarded(&mut reader, &tree, &http);
    let (faults, warnings) = reader.faults.into_sorted();
    Ok(Config { relay, http, sources, toolsets, faults, warnings })
}

fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(Path::new(""));
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::path::absolute(here).unwrap_or_else(|_| here.to_owned())
}

/// The tree, and what is written twice. Repetition costs one source or toolset; anything else costs the file.
fn parse<'t>(text: &'t str, file: &Path) -> Result<(DeTable<'t>, Repeated), Unreadable> {
    let (tree, errors) = DeTable::parse_recoverable(text);
    let mut repeated: Repeated = BTreeMap::new();
    for error in errors {
        let at = error.span().unwrap_or(text.len()..text.len());
        let is_repetition = error.message() == "duplicate key" || error.message().starts_with("cannot extend value");
        let key = text.get(at.clone()).unwrap_or_default();
        match table_at(text, at.start).filter(|_| is_repetition) {
            Some(table) => repeated.entry(table).or_default().push((key.to_owned(), at)),
            None => return Err(unreadable(text, file, &at, is_repetition, error.message())),
        }
    }
    for found in repeated.values_mut() {
        whole_tables_only(text, found);
    }
    Ok((tree.into_inner(), repeated))
}

/// Where a whole table is repeated, its keys are too: telling the table is enough.
fn whole_tables_only(text: &str, found: &mut Vec<(String, Span)>) {
    let in_header =
        |at: &Span| before(text, at.start).rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with('['));
    if found.iter().any(|(_, at)| in_header(at)) {
        found.retain(|(_, at)| in_header(at));
    }
}

/// The source or toolset in whose table an offset is, going by the headers.
fn table_at(text: &str, offset: usize) -> Option<(&'static str, String)> {
    let line_start = before(text, offset).rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[line_start..].find('\n').map_or(text.len(), |at| line_start + at);
    for line in text[..line_end].lines().rev().filter(|line| line.trim_start().starts_with('[')) {
        let Ok(header) = DeTable::parse(line.trim_end()) else { continue };
        let (name, value) = header.get_ref().iter().next()?;
        let table = ["source", "toolset", "credential"].into_iter().find(|table| name.get_ref() == table)?;
        let (id, _) = value.get_ref().as_table()?.iter().next()?;
        return Some((table, id.get_ref().to_string()));
    }
    None
}

fn unreadable(text: &str, file: &Path, at: &Span, is_repetition: bool, message: &str) -> Unreadable {
    let (line, column) = position(text, at.start);
    let (cause, hint) = if is_repetition {
        let key = text.get(at.clone()).unwrap_or_default();
        (format!("`{key}` is written twice"), "remove one of the two, or merge them")
    } else if text.trim_start().starts_with('{') {
        ("this is JSON, not TOML".to_owned(), SOURCE_TABLES)
    } else if NO_VALUE.iter().any(|start| message.starts_with(start)) {
        ("not TOML: this is no value".to_owned(), "write text in quotes, and `true` and `false` in small letters")
    } else {
        let hint = SYNTAX_HINTS.iter().find(|(part, _)| message.contains(part)).map_or(ANY_SYNTAX, |(_, hint)| hint);
        (format!("not TOML: {message}"), hint)
    };
    Unreadable { file: file.to_owned(), line, column, cause, hint: hint.to_owned() }
}

/// What the parser says of a word without quotes, going by its first letter.
const NO_VALUE: &[&str] = &[
    "invalid float",
    "invalid boolean",
    "invalid integer",
    "invalid date-time",
    "invalid value",
    "missing value for key",
    "string values must be quoted",
];
/// Remedies, by what the parser says.
const SYNTAX_HINTS: &[(&str, &str)] = &[
    ("unicode", "write a backslash twice, or put the text in single quotes"),
    ("escape", "write a backslash twice, or put the text in single quotes"),
    ("missing comma", "put a comma between two values"),
    ("extra comma", "take the comma out"),
    ("unclosed array", "close the list with `]`"),
    ("unclosed table", "close the name of the table with `]`, and put one with unusual characters in quotes"),
    ("unclosed inline table", "close the table with `}`"),
    ("basic string", "close the quotes on the same line"),
    ("literal string", "close the quotes on the same line"),
    ("key with no value", "write `key = value`"),
];
const ANY_SYNTAX: &str = "correct the TOML here or on the line before: text stands in quotes, a list in `[...]`, and each key on \
                          a line of its own";

/// The names at the top of the file, and that they are tables.
fn top(reader: &mut Reader<'_>, tree: &DeTable<'_>) {
    for (name, value) in tree.iter() {
        let word = name.get_ref().as_ref();
        let path = dotted("", word);
        match TOP.iter().find(|key| key.name == word) {
            Some(_) if !value.get_ref().is_table() => {
                let hint = match word {
                    "source" => SOURCE_TABLES,
                    "toolset" => toolset::TABLES,
                    "credential" => http::CREDENTIAL_TABLES,
                    "http" => "write `[http]` on a line of its own",
                    _ => "write `[relay]` on a line of its own",
                };
                reader.mistyped(&path, &name.span(), "a table", value.get_ref(), hint.to_owned());
            }
            Some(_) => {}
            None => {
                let hint = unknown_table(word, value.get_ref());
                let cause = if value.get_ref().is_table() { "unknown table" } else { "unknown key" };
                reader.faults.add(&name.span(), path, cause, hint);
            }
        }
    }
}

fn unknown_table(word: &str, value: &DeValue<'_>) -> String {
    let bare = word.to_ascii_lowercase().replace(['-', '_'], "");
    if FOREIGN_TABLES.contains(&bare.as_str()) {
        return SOURCE_TABLES.to_owned();
    }
    if !value.is_table() && RELAY.iter().any(|key| key.name == word) {
        return format!("`{word}` belongs into the table `[relay]`");
    }
    did_you_mean(word, "the tables are", &names(TOP))
}

fn relay_values(reader: &mut Reader<'_>, tree: &DeTable<'_>) -> Values {
    match tree.get("relay").map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => reader.section(RELAY, table, "relay"),
        _ => Values::new(RELAY),
    }
}

fn relay(values: &Values, file: &Path) -> RelayConfig {
    let mib = usize::try_from(values.whole("max_message_mib")).unwrap_or(usize::MAX);
    RelayConfig {
        exposure: values.text("exposure").and_then(|word| Exposure::named(&word)).unwrap_or(Exposure::Toolsets),
        always_visible: values.texts("always_visible"),
        menu: values.texts("menu"),
        state_dir: values.folder("state_dir"),
        remember: values.flag("remember"),
        max_message_bytes: mib.saturating_mul(1024 * 1024),
        max_starting: usize::try_from(values.whole("max_starting")).unwrap_or(usize::MAX),
        warn_tools: usize::try_from(values.whole("warn_tools")).unwrap_or(usize::MAX),
        pin: match values.text("pin").as_deref() {
            // A faulty word must not open what was closed.
            _ if values.written("pin").is_some() && values.at("pin").is_none() => Pin::Enforce,
            Some("off") => Pin::Off,
            Some("enforce") => Pin::Enforce,
            _ => Pin::Warn,
        },
        lock: file.with_extension("lock"),
        ask_timeout: Duration::from_secs(values.whole("ask_timeout_secs")),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Pin;
    use crate::config::tests::{faults, read};

    #[test]
    fn the_top_of_the_file_is_checked() {
        for (text, told) in [
            ("mcpServers = {}", "mcpServers: unknown table; hint: sources are tables named `[source.NAME]`"),
            ("[servers.a]\ncommand = 'x'", "servers: unknown table; hint: sources are tables named `[source.NAME]`"),
            ("[realy]", "realy: unknown table; hint: did you mean `relay`?"),
            ("[x]", "x: unknown table; hint: the tables are `relay`, `source`, `toolset`, `http` and `credential`"),
            ("exposure = 'eager'", "exposure: unknown key; hint: `exposure` belongs into the table `[relay]`"),
            ("relay = 1", "relay: expected a table, found a whole number; hint: write `[relay]` on a line of its own"),
            (
                "[[source]]\ncommand = 'x'",
                "source: expected a table, found a list; hint: sources are tables named `[source.NAME]`",
            ),
            (
                "toolset = []",
                "toolset: expected a table, found a list; hint: toolsets are tables named `[toolset.NAME]`",
            ),
            ("http = 1", "http: expected a table, found a whole number; hint: write `[http]` on a line of its own"),
            (
                "credential = 1",
                "credential: expected a table, found a whole number; hint: credentials are tables named `[credential.NAME]`",
            ),
        ] {
            assert_eq!(faults(text), [format!("1: {told}")], "{text}");
        }
    }

    #[test]
    fn a_fault_in_relay_costs_that_key_only() {
        for (line, told) in [
            (
                "menu = ['find_tools']",
                "menu: `call_tool` is missing, without which tools that are not shown cannot be called; hint: add \
                 \"call_tool\" to the list",
            ),
            (
                "menu = ['call_tool', 'find_tool']",
                "menu[1]: `find_tool` is none of its words; hint: did you mean `find_tools`?",
            ),
            (
                "always_visible = ['search']",
                "always_visible[0]: the glob does not name a source and a tool; hint: write `source/tool`, as in \
                 `notes/search`",
            ),
            (
                "max_message_mib = 4097",
                "max_message_mib: the number is too large; hint: write a number from 1 to 4096; the default is 256",
            ),
            ("state_dir = ''", "state_dir: it names no folder; hint: write a path, or remove the key"),
            ("exposure = 'eagre'", "exposure: `eagre` is none of its words; hint: did you mean `eager`?"),
        ] {
            let text = format!("[relay]\nremember = true\n{line}\n");
            assert_eq!(faults(&text), [format!("3: relay.{told}")], "{line}");
            let mut relay = read(&text).relay;
            assert!(std::mem::take(&mut relay.remember));
            assert_eq!(relay, read("").relay);
        }
        assert_eq!(faults("[relay]\nmenu = []\n"), [""; 0]);
    }

    #[test]
    fn a_faulty_pin_stays_closed() {
        for (line, pin) in [("", Pin::Warn), ("pin = 'off'", Pin::Off), ("pin = 'enforce'", Pin::Enforce)] {
            let config = read(&format!("[relay]\n{line}\n"));
            assert_eq!((config.relay.pin, config.faults.len()), (pin, 0), "{line}");
        }
        let text = "[relay]\npin = 'enforced'\n";
        assert_eq!(faults(text), ["2: relay.pin: `enforced` is none of its words; hint: did you mean `enforce`?"]);
        assert_eq!(read(text).relay.pin, Pin::Enforce);
        assert_eq!(read("[relay]\npin = true\n").relay.pin, Pin::Enforce);
    }
}
