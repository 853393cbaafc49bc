//! Owns what the table of a toolset must be, and what the toolsets must be to the sources and to each other.
//! It does not know which tools there are: that is the catalog's affair.

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use wildmatch::WildMatch;

use crate::name::SourceId;

use super::fault::{did_you_mean, dotted};
use super::keys::TOOLSET;
use super::read::Reader;
use super::source::{Repeated, legal};
use super::values::{Span, Values};
use super::{PairGlob, SourceEntry, ToolsetConfig};

/// How toolsets are written.
pub(super) const TABLES: &str = "toolsets are tables named `[toolset.NAME]`";
/// How many sources a hint names.
const NAMED: usize = 12;

/// Every toolset of the file without faults, by id.
pub(super) fn all(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    repeated: &Repeated,
    sources: &[SourceEntry],
) -> Vec<ToolsetConfig> {
    let mut drafts: Vec<_> = Vec::new();
    for (name, value) in table.iter() {
        let before = reader.faults.len();
        let values = read(reader, name, value.get_ref(), repeated, sources);
        drafts.push((name.get_ref().to_string(), values, before == reader.faults.len()));
    }
    drafts.sort_by(|a, b| a.0.cmp(&b.0));
    let mut toolsets = Vec::new();
    let mut earlier: Vec<(String, &Values)> = Vec::new();
    for (id, values, is_right) in &drafts {
        let before = reader.faults.len();
        earlier.push((dotted("toolset", id), values));
        reader.no_repetition(earlier.iter().map(|(path, values)| (path.clone(), *values)));
        if *is_right && before == reader.faults.len() {
            toolsets.extend(SourceId::new(id).ok().map(|id| toolset(id, values)));
        }
    }
    toolsets
}

fn read(
    reader: &mut Reader<'_>,
    name: &Spanned<DeString<'_>>,
    value: &DeValue<'_>,
    repeated: &Repeated,
    sources: &[SourceEntry],
) -> Values {
    let written = name.get_ref().as_ref();
    let section = dotted("toolset", written);
    match SourceId::new(written) {
        Ok(id) if sources.iter().any(|source| *source.id() == id) => {
            let hint = "rename the toolset: the source has one of that name already";
            reader.faults.add(&name.span(), &section, "a source has the same id", hint);
        }
        Ok(_) => {}
        Err(bad) => {
            let plain = Some(legal(written)).filter(|plain| SourceId::new(plain).is_ok());
            let hint = format!("rename the table, for example to `[toolset.{}]`", plain.as_deref().unwrap_or("desk"));
            let cause = bad.to_string().replace("a source id", "the id of a toolset");
            reader.faults.add(&name.span(), &section, cause, hint);
        }
    }
    reader.tell_repeated(repeated, "toolset", written);
    let DeValue::Table(table) = value else {
        reader.mistyped(&section, &name.span(), "a table", value, TABLES.to_owned());
        return Values::new(TOOLSET);
    };
    let values = reader.section(TOOLSET, table, &section);
    reader.some_globs(&values, &section, &name.span());
    known_sources(reader, &values, &section, sources);
    values
}

/// That each `source/name` glob of a list, if it spells its source out, names one that there is. One with a pattern in its
/// place may be about sources to come.
pub(super) fn spelled_sources(
    reader: &mut Reader<'_>,
    values: &Values,
    (section, key): (&str, &str),
    sources: &[SourceEntry],
    toolsets: &[ToolsetConfig],
) {
    let Some(at) = values.at(key) else { return };
    for (index, glob) in values.texts(key).iter().enumerate() {
        let (source, _) = parted(glob);
        if source.contains(['*', '?']) || sources.iter().any(|entry| entry.id().as_str() == source) {
            continue;
        }
        let path = format!("{}[{index}]", dotted(section, key));
        if toolsets.iter().any(|toolset| toolset.id.as_str() == source) {
            let cause = format!("`{source}` is a toolset, and the tools are judged by their sources");
            reader.faults.add(at, path, cause, "write the globs of the toolset's `tools`");
        } else {
            no_source(reader, at, path, source, sources);
        }
    }
}

/// That each glob names a source there is, or could name one.
fn known_sources(reader: &mut Reader<'_>, values: &Values, section: &str, sources: &[SourceEntry]) {
    let Some(at) = values.at("tools") else { return };
    for (index, glob) in values.texts("tools").iter().enumerate() {
        let (source, _) = parted(glob);
        let matcher = WildMatch::new(source);
        if sources.iter().any(|entry| matcher.matches(entry.id().as_str())) {
            continue;
        }
        let path = format!("{}[{index}]", dotted(section, "tools"));
        no_source(reader, at, path, source, sources);
    }
}

fn no_source(reader: &mut Reader<'_>, at: &Span, path: String, source: &str, sources: &[SourceEntry]) {
    let ids: Vec<&str> = sources.iter().map(|entry| entry.id().as_str()).collect();
    let hint = match did_you_mean(source, "", &ids) {
        near if near.starts_with("did") => near,
        _ if ids.is_empty() => "write a source first: a table named `[source.NAME]`".to_owned(),
        _ => did_you_mean("", "the sources are", &ids[..ids.len().min(NAMED)]),
    };
    let told = reader.faults.quoted(source);
    let cause = told.map_or("there is no such source".to_owned(), |told| format!("there is no source {told}"));
    reader.faults.add(at, path, cause, hint);
}

fn parted(glob: &str) -> (&str, &str) {
    glob.split_once('/').unwrap_or((glob, "*"))
}

fn toolset(id: SourceId, values: &Values) -> ToolsetConfig {
    let glob = |glob: &String| {
        let (source, tool) = parted(glob);
        PairGlob { source: source.to_owned(), tool: tool.to_owned() }
    };
    ToolsetConfig {
        name: values.text("name").unwrap_or_else(|| id.to_string()),
        provider: values.text("provider").unwrap_or_else(|| id.to_string()),
        summary: values.text("summary"),
        tools: values.texts("tools").iter().map(glob).collect(),
        id,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{faults, read};

    const SOURCES: &str = "[source.notes]\ncommand = 'x'\n[source.clock]\ncommand = 'x'\n";

    fn check(text: &str, told: &[&str]) {
        assert_eq!(faults(&format!("{SOURCES}{text}")), told, "{text}");
    }

    #[test]
    fn toolsets_are_read_in_the_order_of_their_ids() {
        let config = read(&format!(
            "{SOURCES}[toolset.desk]\nname = 'Desk'\nprovider = 'me'\nsummary = 'S.'\ntools = ['notes/*', 'clock/a/b']\n\
             [toolset.all]\ntools = ['*/x']\n"
        ));
        assert_eq!(config.faults, []);
        let [all, desk] = &config.toolsets[..] else { panic!("{config:?}") };
        assert_eq!((all.id.as_str(), &*all.name, &*all.provider, &all.summary), ("all", "all", "all", &None));
        assert_eq!((desk.id.as_str(), &*desk.name, &*desk.provider), ("desk", "Desk", "me"));
        let globs: Vec<_> = desk.tools.iter().map(|glob| (&*glob.source, &*glob.tool)).collect();
        assert_eq!((globs, desk.summary.as_deref()), (vec![("notes", "*"), ("clock", "a/b")], Some("S.")));
    }

    #[test]
    fn faults_of_a_toolset_are_told_with_the_remedy() {
        for (text, told) in [
            (
                "[toolset.notes]\ntools = ['notes/*']",
                "5: toolset.notes: a source has the same id; hint: rename the toolset: the source has one of that name \
                 already",
            ),
            (
                "[toolset.\"My Desk\"]\ntools = ['notes/*']",
                "5: toolset.\"My Desk\": `My Desk` is not the id of a toolset: use 1 to 32 characters of a-z, 0-9, `_` and \
                 `-`, the first a letter or a digit; hint: rename the table, for example to `[toolset.my-desk]`",
            ),
            ("[toolset.a]", "5: toolset.a: it has no `tools`; hint: write `tools = [\"...\"]` with globs of its tools"),
            (
                "[toolset.a]\ntools = []",
                "6: toolset.a.tools: the list is empty; hint: write at least one glob, or remove the table",
            ),
            (
                "[toolset.a]\ntools = ['note/*']",
                "6: toolset.a.tools[0]: there is no source `note`; hint: did you mean `notes`?",
            ),
            (
                "[toolset.a]\ntools = ['notes/*', 'git*/*']",
                "6: toolset.a.tools[1]: there is no source `git*`; hint: the sources are `clock` and `notes`",
            ),
            (
                "[toolset.a]\ntools = ['notes']",
                "6: toolset.a.tools[0]: the glob does not name a source and a tool; hint: write `source/tool`, as in \
                 `notes/search`",
            ),
            (
                "[toolset.a]\ntools = ['notes/x', 'notes/x']",
                "6: toolset.a.tools[1]: `notes/x` is written in `toolset.a.tools[0]` too; hint: remove one of the two",
            ),
            (
                "[toolset.b]\ntools = ['notes/x']\n[toolset.a]\ntools = ['notes/x']",
                "6: toolset.b.tools[0]: `notes/x` is written in `toolset.a.tools[0]` too; hint: remove one of the two",
            ),
            (
                "[toolset.a]\ntools = ['notes/x']\nsumary = ''",
                "7: toolset.a.sumary: unknown key; hint: did you mean `summary`?",
            ),
            (
                "[toolset.a]\ntools = ['*/x', '${T}/x']",
                "6: toolset.a.tools[1]: there is no such source; hint: the sources are `clock` and `notes`",
            ),
            (
                "[toolset]\na = 'notes/*'",
                "6: toolset.a: expected a table, found a string; hint: toolsets are tables named `[toolset.NAME]`",
            ),
            (
                "[toolset.a]\ntools = ['notes/x']\n[toolset.a]\ntools = ['notes/y']",
                "7: toolset.a: `a` is written twice; hint: remove one of the two, or merge them",
            ),
        ] {
            check(text, &[told]);
            let config = read(&format!("{SOURCES}[toolset.z]\ntools = ['*/z']\n{text}"));
            let kept: Vec<_> = config.toolsets.iter().map(|toolset| toolset.id.as_str()).collect();
            assert!(kept.contains(&"z") && config.sources.len() == 2, "{text}");
            assert_eq!(kept.len(), if text.contains("toolset.b]") { 2 } else { 1 }, "{text}");
        }
        let alone =
            "2: toolset.a.tools[0]: there is no source `x`; hint: write a source first: a table named `[source.NAME]`";
        assert_eq!(faults("[toolset.a]\ntools = ['x/*']\n"), [alone]);
    }

    #[test]
    fn categories_choose_tools() {
        let check = |line: &str, told: &str| {
            let text = format!("[source.a]\ncommand = 'x'\n{line}\n");
            assert_eq!(faults(&text), [format!("3: source.a.category.{told}")], "{line}");
        };
        check(
            "category.x = 1",
            "x: expected a table, found a whole number; hint: write `category.x = { tools = [\"...\"] }`",
        );
        check("category.x = {}", "x: it has no `tools`; hint: write `tools = [\"...\"]` with globs of its tools");
        check(
            "category.x.tools = []",
            "x.tools: the list is empty; hint: write at least one glob, or remove the table",
        );
        check(
            "category.\" \".tools = ['a']",
            "\" \": it is no name of a category; hint: use 1 to 40 characters, as in `category.search`",
        );
        check(
            "category = { y = { tools = ['a'] }, x = { tools = ['a'] } }",
            "y.tools[0]: `a` is written in `source.a.category.x.tools[0]` too; hint: remove one of the two",
        );
        assert_eq!(faults("[source.a]\ncommand = 'x'\n[source.a.category.\"x y\"]\ntools = ['a', 'b*']\n"), [""; 0]);
    }
}
