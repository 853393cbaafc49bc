//! Owns the step from the TOML tree to typed values, led by the table of keys: wrong types, unknown
//! keys. It does not know how keys depend on each other.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Faults, did_you_mean, dotted};
use super::keys::{CATEGORY, CATEGORY_MAX, FOREIGN, Key, Kind, PREFIX_MAX, Standard, TOOL, names};
use super::lookup::Lookup;
use super::template::{Template, from_base};
use super::values::{Span, Value, Values};
use super::{InheritEnv, Pin};

/// Of a header and of a token.
pub(super) const UNSENDABLE: &str = "no header can hold it, for there is a line end or another control character in it";
pub(super) const UNSENDABLE_HINT: &str = "write printable text on one line";

/// Reads sections and collects the faults.
pub(super) struct Reader<'a> {
    pub(super) faults: Faults<'a>,
    pub(super) lookup: &'a dyn Lookup,
    /// The folder of the file.
    pub(super) base: &'a Path,
    /// Whether what is read is never launched: then variables and files need not be there.
    pub(super) is_disabled: bool,
    /// As `[relay]` has it.
    pub(super) pin: Pin,
}

/// A key at its place.
struct Place<'k> {
    key: &'k Key,
    /// Dotted, with the section.
    path: String,
}

impl Reader<'_> {
    pub(super) fn section(&mut self, keys: &'static [Key], table: &DeTable<'_>, path: &str) -> Values {
        let mut values = Values::new(keys);
        for (name, value) in table.iter() {
            let Some(key) = keys.iter().find(|key| key.name == name.get_ref().as_ref()) else {
                self.unknown(keys, name, path);
                continue;
            };
            values.wrote(key.name, name.span());
            let place = Place { key, path: dotted(path, key.name) };
            if let Some(read) = self.value(&place, value) {
                values.set(key.name, read, value.span());
            }
        }
        values
    }

    fn unknown(&mut self, keys: &'static [Key], name: &Spanned<toml::de::DeString<'_>>, path: &str) {
        let word = name.get_ref().as_ref();
        let known = names(keys);
        let bare = word.to_ascii_lowercase().replace(['-', '_'], "");
        let foreign = FOREIGN.iter().find(|(foreign, _)| known.contains(&"command") && *foreign == bare);
        let hint = match foreign {
            Some((_, hint)) => (*hint).to_owned(),
            None => did_you_mean(word, "the keys here are", &known),
        };
        self.faults.add(&name.span(), dotted(path, word), "unknown key", hint);
    }

    fn value(&mut self, place: &Place<'_>, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        let at = value.span();
        match (place.key.kind, value.get_ref()) {
            (Kind::Bool, DeValue::Boolean(value)) => Some(Value::Bool(*value)),
            (Kind::Inherit, DeValue::Boolean(all)) => {
                Some(Value::Inherit(if *all { InheritEnv::All } else { InheritEnv::Named(Vec::new()) }))
            }
            (Kind::Whole { min, max }, DeValue::Integer(digits)) => {
                self.whole(place, &at, digits, min, max).map(Value::Whole)
            }
            (Kind::Word { works }, DeValue::String(word)) => self.word(place, &at, word, works),
            (Kind::Text, DeValue::String(text)) => self.text(&place.path, &at, text).map(Value::Text),
            (Kind::Prefix, DeValue::String(text)) => self.prefix(place, &at, text),
            (Kind::Folder, DeValue::String(text)) => self.folder(place, &at, text),
            (kind @ (Kind::Template | Kind::Line), DeValue::String(text)) => {
                self.template(&place.path, &at, text, kind == Kind::Template).map(Value::Template)
            }
            (Kind::Headers, DeValue::Table(table)) => self.headers(place, table),
            (
                Kind::Templates | Kind::Globs | Kind::PairGlobs | Kind::Names | Kind::Words { .. } | Kind::Inherit,
                DeValue::Array(items),
            ) => self.list(place, &at, items),
            (Kind::Env, DeValue::Table(table)) => self.env(place, table),
            (Kind::Tools, DeValue::Table(table)) => self.tables(place, table, TOOL, "hidden = true"),
            (Kind::Categories, DeValue::Table(table)) => self.tables(place, table, CATEGORY, "tools = [\"...\"]"),
            (kind, other) => {
                self.mistyped(&place.path, &at, kind.expected(), other, place.key.remedy());
                None
            }
        }
    }

    pub(super) fn mistyped(&mut self, path: &str, at: &Span, expected: &str, found: &DeValue<'_>, hint: String) {
        self.faults.add(at, path, format!("expected {expected}, found {}", told(found)), hint);
    }

    fn whole(
        &mut self,
        place: &Place<'_>,
        at: &Span,
        digits: &toml::de::DeInteger<'_>,
        min: u64,
        max: u64,
    ) -> Option<u64> {
        let value = i128::from_str_radix(digits.as_str(), digits.radix()).unwrap_or(i128::MAX);
        if (i128::from(min)..=i128::from(max)).contains(&value) {
            return u64::try_from(value).ok();
        }
        let standard = match place.key.default {
            Standard::Whole(standard) => format!("; the default is {standard}"),
            _ => String::new(),
        };
        let cause = if value < i128::from(min) { "the number is too small" } else { "the number is too large" };
        self.faults.add(at, &place.path, cause, format!("write a number from {min} to {max}{standard}"));
        None
    }

    fn word(&mut self, place: &Place<'_>, at: &Span, word: &str, works: &'static [&'static str]) -> Option<Value> {
        if works.contains(&word) {
            return Some(Value::Text(word.to_owned()));
        }
        if place.key.name == "auth" && word == "oauth" {
            let hint = "write `auth = \"bearer\"` with a `token` that you have from elsewhere";
            self.faults.add(at, &place.path, "OAuth is not in this version yet", hint);
            return None;
        }
        let cause = format!("`{word}` is none of its words");
        self.faults.add(at, &place.path, cause, did_you_mean(word, "the words are", works));
        None
    }

    /// The text of one of the names that users choose.
    fn text_of<'t>(&mut self, path: &str, name: &str, value: &'t Spanned<DeValue<'_>>) -> Option<&'t str> {
        let DeValue::String(text) = value.get_ref() else {
            let hint = format!("write `{} = \"...\"`", dotted("", name));
            self.mistyped(path, &value.span(), "a string", value.get_ref(), hint);
            return None;
        };
        Some(text)
    }

    fn headers(&mut self, place: &Place<'_>, table: &DeTable<'_>) -> Option<Value> {
        let before = self.faults.len();
        let mut headers = BTreeMap::new();
        for (name, value) in table.iter() {
            let path = dotted(&place.path, name.get_ref());
            let Some(text) = self.text_of(&path, name.get_ref(), value) else { continue };
            if let Some(cause) = super::remote::refused_header(name.get_ref()) {
                self.faults.add(&name.span(), &path, cause, "remove it, or use another name");
            }
            let Some(template) = self.template(&path, &value.span(), text, false) else { continue };
            self.literal_variable(&path, &value.span(), &template);
            let known =
                (!template.has_commands() && !self.is_disabled).then(|| template.expand(self.lookup).ok()).flatten();
            match known.map(|known| known.value.trim().to_owned()) {
                Some(known) if !super::remote::is_sendable(&known) => {
                    self.faults.add(&value.span(), &path, UNSENDABLE, UNSENDABLE_HINT);
                }
                Some(known) => {
                    if let Err(error) = super::remote::refuse_empty(&path, &template, &known) {
                        self.faults.add(&value.span(), &path, error.problem.to_string(), error.problem.hint());
                    }
                }
                None => {}
            }
            let twice = headers.keys().any(|there: &String| there.eq_ignore_ascii_case(name.get_ref()));
            if twice {
                self.faults.add(&name.span(), &path, "the header is written twice", "remove one of the two");
            }
            headers.insert(name.get_ref().to_string(), template);
        }
        (before == self.faults.len()).then_some(Value::Env(headers))
    }

    /// A string expanded now; files and commands are for what is expanded at the launch.
    fn text(&mut self, path: &str, at: &Span, text: &str) -> Option<String> {
        let template = self.parsed(path, at, text)?;
        if template.has_more_than_variables() {
            let hint = "write `${VAR}` or plain text; the other two work in command, args, env and cwd, \
                        and in url, headers, token, ca_file and proxy";
            self.faults.add(at, path, "`${file:...}` and `${cmd:...}` do not work here", hint);
            return None;
        }
        self.possible(&template, path, at, false).then_some(())?;
        template.expand(self.lookup).ok().map(|expanded| expanded.value)
    }

    /// A string expanded at the launch, which could be expanded now.
    fn template(&mut self, path: &str, at: &Span, text: &str, is_path: bool) -> Option<Template> {
        let template = self.parsed(path, at, text)?;
        if text.contains('\0') {
            self.faults.add(at, path, "there is a NUL character in it, which no program takes", "remove it");
            return None;
        }
        (self.is_disabled || self.possible(&template, path, at, is_path)).then_some(template)
    }

    fn parsed(&mut self, path: &str, at: &Span, text: &str) -> Option<Template> {
        Template::parse(text, self.base).map_err(|bad| self.faults.add(at, path, bad.to_string(), bad.hint())).ok()
    }

    /// Whether it can be expanded, as far as can be told without running a command.
    fn possible(&mut self, template: &Template, path: &str, at: &Span, is_path: bool) -> bool {
        let problems = template.problems(is_path, self.lookup);
        for problem in &problems {
            self.faults.add(at, path, problem.to_string(), problem.hint());
        }
        problems.is_empty()
    }

    fn prefix(&mut self, place: &Place<'_>, at: &Span, text: &str) -> Option<Value> {
        let prefix = self.text(&place.path, at, text)?;
        let legal = prefix.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-');
        if legal && prefix.len() <= PREFIX_MAX {
            return Some(Value::Text(prefix));
        }
        let hint = format!(
            "use 1 to {PREFIX_MAX} characters of A-Z, a-z, 0-9, `_` and `-`, or \"\" for names without a prefix"
        );
        self.faults.add(at, &place.path, "it cannot stand in the name of a tool", hint);
        None
    }

    fn folder(&mut self, place: &Place<'_>, at: &Span, text: &str) -> Option<Value> {
        let template = self.template(&place.path, at, text, true)?;
        if template.has_more_than_variables() {
            self.text(&place.path, at, text);
            return None;
        }
        let path = template.expand_path(self.lookup).ok()?.value;
        if path.is_empty() {
            self.faults.add(at, &place.path, "it names no folder", "write a path, or remove the key");
            return None;
        }
        Some(Value::Folder(from_base(&path, self.base)))
    }

    fn list(&mut self, place: &Place<'_>, at: &Span, items: &[Spanned<DeValue<'_>>]) -> Option<Value> {
        let before = self.faults.len();
        let mut texts = Vec::new();
        let mut templates = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{}[{index}]", place.path);
            let DeValue::String(text) = item.get_ref() else {
                self.mistyped(&path, &item.span(), "a string", item.get_ref(), "write it in quotes".to_owned());
                continue;
            };
            match place.key.kind {
                Kind::Templates => templates.extend(self.template(&path, &item.span(), text, true)),
                kind => texts.extend(self.item(kind, &path, &item.span(), text)),
            }
        }
        if let Kind::Words { must, .. } = place.key.kind
            && !texts.is_empty()
            && before == self.faults.len()
            && !texts.iter().any(|text| text == must)
        {
            let cause = format!("`{must}` is missing, without which tools that are not shown cannot be called");
            self.faults.add(at, &place.path, cause, format!("add \"{must}\" to the list"));
        }
        if before != self.faults.len() {
            return None;
        }
        Some(match place.key.kind {
            Kind::Templates => Value::Templates(templates),
            Kind::Inherit => Value::Inherit(InheritEnv::Named(texts)),
            _ => Value::Texts(texts),
        })
    }

    /// One string of a list.
    fn item(&mut self, kind: Kind, path: &str, at: &Span, text: &str) -> Option<String> {
        if let Kind::Words { works, .. } = kind {
            if !works.contains(&text) {
                let hint = did_you_mean(text, "the words are", works);
                self.faults.add(at, path, format!("`{text}` is none of its words"), hint);
            }
            return Some(text.to_owned());
        }
        let text = self.text(path, at, text)?;
        let wrong = match kind {
            Kind::Globs => text.is_empty().then_some(("the glob is empty", "write `*` for every tool, or remove it")),
            Kind::Names => text.trim().is_empty().then_some(("the name is empty", "write it, or remove it")),
            Kind::PairGlobs => match text.split_once('/') {
                Some((source, tool)) if !source.is_empty() && !tool.is_empty() => None,
                _ => Some(("the glob does not name a source and a tool", "write `source/tool`, as in `notes/search`")),
            },
            _ => {
                (!is_variable(&text)).then_some(("it is no name of a variable", "write names, without `=` and values"))
            }
        };
        if let Some((cause, hint)) = wrong {
            self.faults.add(at, path, cause, hint);
        }
        match kind {
            Kind::Globs => self.glob(path, at, &text),
            Kind::PairGlobs => self.glob(path, at, text.split_once('/').map_or(&*text, |(_, name)| name)),
            _ => {}
        }
        Some(text)
    }

    fn env(&mut self, place: &Place<'_>, table: &DeTable<'_>) -> Option<Value> {
        let before = self.faults.len();
        let mut env = BTreeMap::new();
        for (name, value) in table.iter() {
            let path = dotted(&place.path, name.get_ref());
            let Some(text) = self.text_of(&path, name.get_ref(), value) else { continue };
            if !is_variable(name.get_ref()) {
                self.faults.add(&name.span(), &path, "it is no name of a variable", "use a name without `=`");
            }
            let Some(template) = self.template(&path, &value.span(), text, false) else { continue };
            self.literal_variable(&path, &value.span(), &template);
            if !template.has_commands()
                && !self.is_disabled
                && let Ok(expanded) = template.expand(self.lookup)
                && let Some(problem) = super::launch::empty_credential(name.get_ref(), &template, &expanded.value)
            {
                self.faults.add(&value.span(), path, problem.to_string(), problem.hint());
            }
            env.insert(name.get_ref().to_string(), template);
        }
        (before == self.faults.len()).then_some(Value::Env(env))
    }

    /// A table for each name, with the same keys in each.
    fn tables(&mut self, place: &Place<'_>, table: &DeTable<'_>, keys: &'static [Key], example: &str) -> Option<Value> {
        let mut tables = BTreeMap::new();
        for (name, value) in table.iter() {
            let path = dotted(&place.path, name.get_ref());
            let DeValue::Table(table) = value.get_ref() else {
                let hint = format!("write `{} = {{ {example} }}`", dotted(place.key.name, name.get_ref()));
                self.mistyped(&path, &value.span(), "a table", value.get_ref(), hint);
                continue;
            };
            let values = self.section(keys, table, &path);
            if place.key.kind == Kind::Categories {
                self.category_name(&path, name);
                self.some_globs(&values, &path, &name.span());
            }
            tables.insert(name.get_ref().to_string(), values);
        }
        Some(Value::Tables(tables))
    }

    fn category_name(&mut self, path: &str, name: &Spanned<toml::de::DeString<'_>>) {
        let text = name.get_ref().as_ref();
        if text.trim().is_empty() || text.chars().count() > CATEGORY_MAX || text.chars().any(char::is_control) {
            let hint = format!("use 1 to {CATEGORY_MAX} characters, as in `category.search`");
            self.faults.add(&name.span(), path, "it is no name of a category", hint);
        }
    }

    /// That a section which stands for chosen tools chooses some.
    pub(super) fn some_globs(&mut self, values: &Values, path: &str, header: &Span) {
        match (values.written("tools"), values.at("tools")) {
            (None, _) => {
                self.faults.add(header, path, "it has no `tools`", "write `tools = [\"...\"]` with globs of its tools");
            }
            (Some(_), Some(at)) if values.texts("tools").is_empty() => {
                let hint = "write at least one glob, or remove the table";
                self.faults.add(at, dotted(path, "tools"), "the list is empty", hint);
            }
            _ => {}
        }
    }

    /// That no glob stands in a list twice, or in a later one: only the first would ever fit.
    pub(super) fn no_repetition<'v>(&mut self, sections: impl IntoIterator<Item = (String, &'v Values)>) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for (path, values) in sections {
            let Some(at) = values.at("tools") else { continue };
            let list = dotted(&path, "tools");
            for (index, glob) in values.texts("tools").into_iter().enumerate() {
                let own = format!("{list}[{index}]");
                if let Some(first) = seen.get(&glob) {
                    let told = self.faults.quoted(&glob).unwrap_or_else(|| "the same".to_owned());
                    self.faults.add(at, own, format!("{told} is written in `{first}` too"), "remove one of the two");
                } else {
                    seen.insert(glob, own);
                }
            }
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// A value's type, for "found ...".
pub(super) fn told(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::faults;

    fn check(line: &str, told: &str) {
        assert_eq!(faults(&format!("[source.a]\ncommand = 'x'\n{line}\n")), [format!("3: source.a.{told}")], "{line}");
    }

    #[test]
    fn wrong_types_are_told_with_the_remedy() {
        for (line, told) in [
            ("name = 3", "name: expected a string, found a whole number; hint: write `name = \"...\"`"),
            ("enabled = 'no'", "enabled: expected true or false, found a string; hint: write `enabled = false`"),
            ("args = 'a b'", "args: expected a list of strings, found a string; hint: write `args = [\"...\"]`"),
            ("args = ['a', 1]", "args[1]: expected a string, found a whole number; hint: write it in quotes"),
            ("env = ['A=1']", "env: expected a table of strings, found a list; hint: write `env = { NAME = \"...\" }`"),
            (
                "env.\"A b\" = 1",
                "env.\"A b\": expected a string, found a whole number; hint: write `\"A b\" = \"...\"`",
            ),
            ("env.\"A=b\" = ''", "env.\"A=b\": it is no name of a variable; hint: use a name without `=`"),
            (
                "inherit_env = 'A'",
                "inherit_env: expected a list of strings or `true`, found a string; hint: write `inherit_env = [\"NAME\"]`",
            ),
            (
                "inherit_env = ['A=1']",
                "inherit_env[0]: it is no name of a variable; hint: write names, without `=` and values",
            ),
            (
                "max_in_flight = '64'",
                "max_in_flight: expected a whole number, found a string; hint: write `max_in_flight = 64`",
            ),
            (
                "start_timeout_secs = 1.5",
                "start_timeout_secs: expected a whole number, found a fraction; hint: write `start_timeout_secs = 180`",
            ),
            (
                "tool = 1",
                "tool: expected a table, found a whole number; hint: write `tool = { NAME = { hidden = true } }`",
            ),
            ("tool.x = 1", "tool.x: expected a table, found a whole number; hint: write `tool.x = { hidden = true }`"),
            ("cwd = 2020-02-02", "cwd: expected a string, found a date; hint: write `cwd = \"...\"`"),
        ] {
            check(line, told);
        }
    }

    #[test]
    fn wrong_values_are_told_with_the_remedy() {
        for (line, told) in [
            (
                "call_timeout_secs = 0",
                "call_timeout_secs: the number is too small; hint: write a number from 1 to 31536000; the default is 300",
            ),
            (
                "max_in_flight = 99999999999999999999",
                "max_in_flight: the number is too large; hint: write a number from 1 to 65536; the default is 64",
            ),
            (
                "tool.x.call_timeout_secs = 0",
                "tool.x.call_timeout_secs: the number is too small; hint: write a number from 1 to 31536000",
            ),
            ("start = 'at_start'", "start: `at_start` is none of its words; hint: did you mean `at-start`?"),
            ("era = '2026'", "era: `2026` is none of its words; hint: the words are `auto`, `modern` and `legacy`"),
            ("allow = ['a', '']", "allow[1]: the glob is empty; hint: write `*` for every tool, or remove it"),
            (
                "prefix = 'a.b'",
                "prefix: it cannot stand in the name of a tool; hint: use 1 to 32 characters of A-Z, a-z, 0-9, `_` and \
                 `-`, or \"\" for names without a prefix",
            ),
            (
                "cwd = '${'",
                "cwd: `${` is not closed; hint: add the `}`, or write `$${` for the two characters themselves",
            ),
            ("cwd = '${env:T}'", "cwd: `${env:T}` is not a reference; hint: write `${T}`"),
            (
                "cwd = '${file:gone}'",
                "cwd: file `/conf/gone` cannot be read: no such file; hint: put the file there, or correct the path in \
                 `${file:...}`",
            ),
            (
                "name = '${cmd:date}'",
                "name: `${file:...}` and `${cmd:...}` do not work here; hint: write `${VAR}` or plain text; the other two \
                 work in command, args, env and cwd, and in url, headers, token, ca_file and proxy",
            ),
        ] {
            check(line, told);
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        for (line, told) in [
            ("commandd = 'x'", "commandd: unknown key; hint: did you mean `command`?"),
            ("readOnly = true", "readOnly: unknown key; hint: did you mean `read_only`?"),
            ("disabled = true", "disabled: unknown key; hint: write `enabled = false`"),
            ("workingDirectory = '.'", "workingDirectory: unknown key; hint: did you mean `cwd`?"),
            (
                "'a b' = 1",
                "\"a b\": unknown key; hint: the keys here are `name`, `provider`, `summary`, `enabled`, \
              `command`, `args`, `env`, `cwd`, `inherit_env`, `read_only`, `allow`, `deny`, `start`, `idle_stop_secs`, \
              `start_timeout_secs`, `max_start_secs`, `call_timeout_secs`, `max_call_secs`, `max_in_flight`, `isolation`, \
              `max_instances`, `prefix`, `unlisted`, `era`, `tool`, `category`, `url`, `transport`, `headers`, `auth`, `token`, `ca_file`, `proxy` and \
              `connect_timeout_secs`",
            ),
            ("tool.x.hiden = true", "tool.x.hiden: unknown key; hint: did you mean `hidden`?"),
            (
                "type = 'http'",
                "type: unknown key; hint: remove it: `command` or `url` tell which it is; write `transport = \"sse\"` for \
                 HTTP+SSE",
            ),
        ] {
            check(line, told);
        }
    }
}
