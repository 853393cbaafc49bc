//! Owns how a fault is told: where it is, which key, why, and what to do about it.
//! It does not know what is right or wrong.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;

/// Something wrong in a configuration that could be read. Values that came from `${...}` are never in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {key}: {cause}; hint: {hint}", file.display())]
pub struct Fault {
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// Dotted, as it would be written: `source.github.args`.
    pub key: String,
    pub cause: String,
    pub hint: String,
}

/// The file is no TOML, so nothing in it can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {cause}", file.display())]
pub struct Unreadable {
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    pub cause: String,
    pub hint: String,
}

/// Line and column of a byte offset, both from 1.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = before(text, offset);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The text before a byte offset, or before the character that it is in.
pub(super) fn before(text: &str, offset: usize) -> &str {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Collects the faults of one file.
#[derive(Debug)]
pub(super) struct Faults<'a> {
    text: &'a str,
    file: PathBuf,
    told: Vec<Fault>,
    warned: Vec<Fault>,
}

impl<'a> Faults<'a> {
    pub(super) fn new(text: &'a str, file: PathBuf) -> Self {
        Self { text, file, told: Vec::new(), warned: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        at: &Range<usize>,
        key: impl Into<String>,
        cause: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let fault = self.fault(at, key.into(), cause.into(), hint.into());
        if !self.told.contains(&fault) {
            self.told.push(fault);
        }
    }

    /// Something that keeps nothing from running.
    pub(super) fn warn(
        &mut self,
        at: &Range<usize>,
        key: impl Into<String>,
        cause: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let warning = self.fault(at, key.into(), cause.into(), hint.into());
        if !self.warned.contains(&warning) {
            self.warned.push(warning);
        }
    }

    fn fault(&self, at: &Range<usize>, key: String, cause: String, hint: String) -> Fault {
        let (line, column) = position(self.text, at.start);
        Fault { file: self.file.clone(), line, column, key, cause, hint }
    }

    /// The text in ticks if it stands in the file as it is; a value that came from `${...}` is not told.
    pub(super) fn quoted(&self, text: &str) -> Option<String> {
        self.text.contains(text).then(|| format!("`{text}`"))
    }

    pub(super) fn len(&self) -> usize {
        self.told.len()
    }

    /// Those told since there were `from` of them.
    pub(super) fn since(&self, from: usize) -> &[Fault] {
        &self.told[from..]
    }

    /// The faults and the warnings, in file order.
    pub(super) fn into_sorted(self) -> (Vec<Fault>, Vec<Fault>) {
        (sorted(self.told), sorted(self.warned))
    }
}

pub(super) fn sorted(mut faults: Vec<Fault>) -> Vec<Fault> {
    faults.sort_by(|a, b| {
        (a.line, a.column, &a.key, &a.cause, &a.hint).cmp(&(b.line, b.column, &b.key, &b.cause, &b.hint))
    });
    faults
}

/// One sentence for the listing of a source: its key, cause and remedy, fault by fault.
pub(super) fn reason(faults: &[Fault], section: &str) -> String {
    let mut text = String::new();
    for fault in sorted(faults.to_vec()) {
        let key = fault.key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&fault.key);
        let gap = if text.is_empty() { "" } else { "; and " };
        let _ = write!(text, "{gap}line {}: {key}: {} (hint: {})", fault.line, fault.cause, fault.hint);
    }
    text
}

/// `key` below `section`, quoted where TOML wants it.
pub(super) fn dotted(section: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-');
    let part = if bare { key.to_owned() } else { format!("{key:?}") };
    if section.is_empty() { part } else { format!("{section}.{part}") }
}

/// The known word that `word` was most likely meant to be.
pub(super) fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let bare = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wanted = bare(word);
    let reach = (wanted.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&wanted, &bare(candidate)), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min()
        .map(|(_, candidate)| candidate)
}

/// "did you mean", or else everything there is.
pub(super) fn did_you_mean(word: &str, what: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{what} {}", listed(known)),
    }
}

/// `a`, `b` and `c`
pub(super) fn listed(words: &[&str]) -> String {
    let ticked: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match ticked.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => ticked.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        let text = "a\r\nüß=1\nlast";
        for (at, place) in [(0, (1, 1)), (3, (2, 1)), (4, (2, 1)), (7, (2, 3)), (10, (3, 1)), (99, (3, 5))] {
            assert_eq!(position(text, at), place, "{at}");
        }
    }

    #[test]
    fn near_words_are_found() {
        let known = ["args", "env", "read_only", "start_timeout_secs"];
        for (word, near) in [
            ("argz", Some("args")),
            ("readOnly", Some("read_only")),
            ("read-only", Some("read_only")),
            ("start_timeout", None),
            ("start_timeout_sec", Some("start_timeout_secs")),
            ("zzz", None),
        ] {
            assert_eq!(nearest(word, known), near, "{word}");
        }
    }

    #[test]
    fn keys_are_quoted_as_toml_wants() {
        assert_eq!(dotted("source", "git-hub_1"), "source.git-hub_1");
        assert_eq!(dotted("source", "Git Hub"), "source.\"Git Hub\"");
        assert_eq!(dotted("", "relay"), "relay");
    }
}
