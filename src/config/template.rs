//! Owns `${...}`: how it is written, and how a string becomes its value in a single pass.
//! It does not decide which strings are expanded when; values are never expanded again.

use std::fmt;
use std::path::{Path, PathBuf};

use super::lookup::{ExpandError, Expanded, Lookup, Problem};

/// Shorter values are no secrets: masking them would garble unrelated text.
pub(super) const SECRET_MIN_CHARS: usize = 6;
const FORMS: &str =
    "the forms are `${VAR}`, `${VAR:-default}`, `${file:PATH}` and `${cmd:COMMAND ARGS}`; `$$` is a dollar";

/// A string as written in the file, with its references found.
///
/// `${VAR}`, `${VAR:-default}` (if not set or empty), `${file:PATH}`, `${cmd:COMMAND ARGS}` (no shell), `$$` = a dollar;
/// any other `$` stays.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    raw: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Var { name: String, default: Option<String> },
    File(PathBuf),
    Command(Vec<String>),
}

/// Why a string is no template. Told as it is written, so no value is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    #[error("`${{` is not closed")]
    Unclosed,
    #[error("`${{{0}}}` names nothing")]
    Empty(String),
    #[error("`${{{0}}}` is not a reference")]
    Unknown(String),
    #[error("a `${{` inside of `${{...}}` is not expanded")]
    Nested,
    #[error("the quotes in `${{cmd:...}}` are not closed")]
    Quotes,
}

impl BadTemplate {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unclosed => "add the `}`, or write `$${` for the two characters themselves".to_owned(),
            Self::Unknown(inner) if inner.starts_with("env:") => format!("write `${{{}}}`", &inner[4..]),
            Self::Unknown(inner) if inner.starts_with("input:") => {
                "nobody is asked here: write `${VARIABLE}` and set it in the environment that starts the relay, or `${file:PATH}`"
                    .to_owned()
            }
            Self::Empty(_) | Self::Unknown(_) => FORMS.to_owned(),
            Self::Nested => "write a plain default, or a variable of its own".to_owned(),
            Self::Quotes => "close the quotes of the command's arguments".to_owned(),
        }
    }
}

impl Template {
    /// Finds the references of `raw`; relative paths in them start at `base`.
    pub fn parse(raw: &str, base: &Path) -> Result<Self, BadTemplate> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = raw;
        while let Some(at) = rest.find('$') {
            text.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(tail) = after.strip_prefix('$') {
                text.push('$');
                rest = tail;
            } else if let Some(tail) = after.strip_prefix('{') {
                let end = closing(tail)?;
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(reference(&tail[..end], base)?);
                rest = &tail[end + 1..];
            } else {
                text.push('$');
                rest = after;
            }
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { raw: raw.to_owned(), parts })
    }

    /// A template that stands for exactly this text.
    pub fn literal(text: &str) -> Self {
        let parts = if text.is_empty() { Vec::new() } else { vec![Part::Text(text.to_owned())] };
        Self { raw: text.replace('$', "$$"), parts }
    }

    /// The text as written.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The value, with commands run.
    pub fn expand(&self, lookup: &dyn Lookup) -> Result<Expanded, ExpandError> {
        self.with_home(None, lookup)
    }

    /// As [`Self::expand`], where a `~/` written at the start is the home folder.
    pub fn expand_path(&self, lookup: &dyn Lookup) -> Result<Expanded, ExpandError> {
        let home = if self.starts_at_home() { Some(home(lookup).map_err(unplaced)?) } else { None };
        self.with_home(home, lookup)
    }

    /// Whether a `~/` is written at the start.
    pub(super) fn starts_at_home(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Text(text)) if text == "~" || text.starts_with("~/"))
    }

    /// Whether a file or a command is referred to.
    pub(super) fn has_more_than_variables(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::File(_) | Part::Command(_)))
    }

    pub(super) fn has_commands(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Command(_)))
    }

    /// Whether all of it is one reference, for which no default is written.
    pub(super) fn is_one_reference(&self) -> bool {
        matches!(&self.parts[..], [Part::Var { default: None, .. } | Part::File(_) | Part::Command(_)])
    }

    /// What the files hold that are referred to.
    pub(super) fn files(&self, lookup: &dyn Lookup) -> Vec<String> {
        let files = self.parts.iter().filter(|part| matches!(part, Part::File(_)));
        files.map(|part| part.value(lookup).unwrap_or_default()).collect()
    }

    /// Everything that would keep it from being expanded now, as far as can be told without running a command.
    pub(super) fn problems(&self, is_path: bool, lookup: &dyn Lookup) -> Vec<Problem> {
        let no_home = is_path && self.starts_at_home() && lookup.home().is_none();
        let parts = self.parts.iter().filter(|part| !matches!(part, Part::Command(_)));
        no_home
            .then_some(Problem::NoHome)
            .into_iter()
            .chain(parts.filter_map(|part| part.value(lookup).err()))
            .collect()
    }

    /// What it comes to as far as variables and the home folder tell: what is not set, files and commands stay as they are
    /// written, after a character that no value has. With `is_path`, a `~/` at the start is the home folder.
    pub(super) fn outcome(&self, is_path: bool, lookup: &dyn Lookup) -> String {
        let home = if is_path && self.starts_at_home() { lookup.home() } else { None };
        let parts = self.parts.iter().enumerate().map(|(at, part)| match (part, &home) {
            (Part::Text(text), Some(home)) if at == 0 => format!("{}{}", home.to_string_lossy(), &text[1..]),
            (Part::File(path), _) => format!("\0file:{}\0", path.display()),
            (Part::Command(argv), _) => format!("\0cmd:{}\0", argv.join("\0")),
            (Part::Var { name, .. }, _) => part.value(lookup).unwrap_or_else(|_| format!("\0{name}\0")),
            (Part::Text(text), _) => text.clone(),
        });
        parts.collect()
    }

    fn with_home(&self, home: Option<String>, lookup: &dyn Lookup) -> Result<Expanded, ExpandError> {
        let mut value = String::with_capacity(self.raw.len());
        let mut secrets = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let text = part.value(lookup).map_err(unplaced)?;
            match &home {
                Some(home) if at == 0 => {
                    value.push_str(home);
                    value.push_str(&text[1..]);
                }
                _ => value.push_str(&text),
            }
            if part.is_secret(lookup) && text.chars().count() >= SECRET_MIN_CHARS && !secrets.contains(&text) {
                secrets.push(text);
            }
        }
        Ok(Expanded { value, secrets })
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?})", self.raw)
    }
}

impl Part {
    fn value(&self, lookup: &dyn Lookup) -> Result<String, Problem> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Var { name, default } => match (lookup.var(name), default) {
                (Some(value), None) => Ok(value),
                (Some(value), Some(_)) if !value.is_empty() => Ok(value),
                (_, Some(default)) => Ok(default.clone()),
                (None, None) => Err(Problem::NotSet(name.clone())),
            },
            Self::File(path) => {
                let path = at_home(path, lookup)?;
                lookup.file(&path).map_err(|cause| Problem::File { path, cause })
            }
            Self::Command(argv) => {
                let mut argv = argv.clone();
                argv[0] = at_home(Path::new(&argv[0]), lookup)?.to_string_lossy().into_owned();
                lookup.command(&argv).map_err(|cause| Problem::Command { program: argv[0].clone(), cause })
            }
        }
    }

    /// A default stands in the file for all to read, so it is none.
    fn is_secret(&self, lookup: &dyn Lookup) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Var { name, default } => default.is_none() || lookup.var(name).is_some_and(|value| !value.is_empty()),
            Self::File(_) | Self::Command(_) => true,
        }
    }
}

fn unplaced(problem: Problem) -> ExpandError {
    ExpandError { key: String::new(), problem }
}

pub(super) fn home(lookup: &dyn Lookup) -> Result<String, Problem> {
    lookup.home().map(|home| home.to_string_lossy().into_owned()).ok_or(Problem::NoHome)
}

fn at_home(path: &Path, lookup: &dyn Lookup) -> Result<PathBuf, Problem> {
    match path.strip_prefix("~") {
        Ok(rest) => Ok(Path::new(&home(lookup)?).join(rest)),
        Err(_) => Ok(path.to_owned()),
    }
}

/// `path` from `base`, without the `.` parts.
pub(super) fn from_base(path: &str, base: &Path) -> PathBuf {
    base.join(path).components().collect()
}

/// As [`from_base`], but one that starts with `~/` stays, to be expanded later.
fn anchored(path: &str, base: &Path) -> PathBuf {
    if path.starts_with("~/") { PathBuf::from(path) } else { from_base(path, base) }
}

/// Whether a path leads through folders, as a bare name of a program does not.
pub(super) fn leads_somewhere(path: &str) -> bool {
    path.contains('/') || (cfg!(windows) && path.contains('\\'))
}

/// Where the `}` is that ends the reference at the start of `text`; quotes in a command hide one.
fn closing(text: &str) -> Result<usize, BadTemplate> {
    let is_command = text.starts_with("cmd:");
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"') | None, '\\') if is_command => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') if is_command => quote = Some(c),
            (None, '$') if text[at + 1..].starts_with('{') => return Err(BadTemplate::Nested),
            (None, '}') => return Ok(at),
            (None, _) => {}
        }
    }
    Err(if quote.is_some() { BadTemplate::Quotes } else { BadTemplate::Unclosed })
}

fn reference(inner: &str, base: &Path) -> Result<Part, BadTemplate> {
    let empty = || BadTemplate::Empty(inner.to_owned());
    if let Some(path) = inner.strip_prefix("file:") {
        return if path.is_empty() { Err(empty()) } else { Ok(Part::File(anchored(path, base))) };
    }
    if let Some(line) = inner.strip_prefix("cmd:") {
        let mut argv = shlex::split(line).ok_or(BadTemplate::Quotes)?;
        let program = argv.first_mut().filter(|program| !program.is_empty()).ok_or_else(empty)?;
        if leads_somewhere(program) {
            *program = anchored(program, base).to_string_lossy().into_owned();
        }
        return Ok(Part::Command(argv));
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default.replace("$$", "$"))),
        None => (inner, None),
    };
    if name.is_empty() {
        return Err(empty());
    }
    let named = name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') && !name.as_bytes()[0].is_ascii_digit();
    if named { Ok(Part::Var { name: name.to_owned(), default }) } else { Err(BadTemplate::Unknown(inner.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fake::FakeLookup;

    fn expanded(raw: &str) -> Result<(String, Vec<String>), String> {
        let template = Template::parse(raw, Path::new("/conf")).map_err(|bad| bad.to_string())?;
        assert_eq!(template.raw(), raw);
        let Expanded { value, secrets } = template.expand_path(&lookup()).map_err(|error| error.to_string())?;
        Ok((value, secrets))
    }

    fn lookup() -> FakeLookup {
        FakeLookup::new(&[("A", "alpha"), ("TOKEN", "secret-token"), ("LOOP", "${TOKEN}"), ("EMPTY", ""), ("D", "$$")])
            .file("/conf/key", "from-a-file")
            .file("/home/u/key", "at-home")
            .command(&["pass", "show", "a b"], "from-a-command")
            .command(&["/conf/bin/pass"], "beside-the-file")
            .command(&["echo", "}"], "brace")
    }

    #[test]
    fn references_become_values_in_one_pass() {
        for (raw, value, secrets) in [
            ("", "", &[][..]),
            ("plain", "plain", &[]),
            ("${A}", "alpha", &[]),
            ("a${A}b${A}c", "aalphabalphac", &[]),
            ("${TOKEN}${TOKEN}", "secret-tokensecret-token", &["secret-token"]),
            ("${LOOP}", "${TOKEN}", &["${TOKEN}"]),
            ("${D}", "$$", &[]),
            ("${EMPTY}", "", &[]),
            ("${EMPTY:-other-default}", "other-default", &[]),
            ("${NONE:-other default: x}", "other default: x", &[]),
            ("${NONE:-}", "", &[]),
            ("${NONE:-$$5}", "$5", &[]),
            ("${TOKEN:-x}", "secret-token", &["secret-token"]),
            ("$$", "$", &[]),
            ("$${A}", "${A}", &[]),
            ("$$${A}", "$alpha", &[]),
            ("$", "$", &[]),
            ("$A $5 }{", "$A $5 }{", &[]),
            ("é${A}ü", "éalphaü", &[]),
            ("${file:key}", "from-a-file", &["from-a-file"]),
            ("${file:/conf/key}", "from-a-file", &["from-a-file"]),
            ("${file:~/key}", "at-home", &["at-home"]),
            ("x ${cmd:pass show 'a b'}", "x from-a-command", &["from-a-command"]),
            ("${cmd:./bin/pass}", "beside-the-file", &["beside-the-file"]),
            ("${cmd:echo '}'}", "brace", &[]),
            ("~/x/${A}", "/home/u/x/alpha", &[]),
            ("~", "/home/u", &[]),
            ("~user/x", "~user/x", &[]),
            ("a~/x", "a~/x", &[]),
        ] {
            let secrets = secrets.iter().map(|&secret| secret.to_owned()).collect();
            assert_eq!(expanded(raw), Ok((value.to_owned(), secrets)), "{raw}");
        }
    }

    #[test]
    fn what_cannot_be_expanded_is_named() {
        for (raw, told) in [
            ("${", "`${` is not closed"),
            ("x${A", "`${` is not closed"),
            ("${}", "`${}` names nothing"),
            ("${:-x}", "`${:-x}` names nothing"),
            ("${file:}", "`${file:}` names nothing"),
            ("${cmd:}", "`${cmd:}` names nothing"),
            ("${A-x}", "`${A-x}` is not a reference"),
            ("${1A}", "`${1A}` is not a reference"),
            ("${env:A}", "`${env:A}` is not a reference"),
            ("${A:-${B}}", "a `${` inside of `${...}` is not expanded"),
            ("${cmd:echo 'x}", "the quotes in `${cmd:...}` are not closed"),
            ("${NONE}", "variable `NONE` is not set"),
            ("${file:gone}", "file `/conf/gone` cannot be read: no such file"),
            ("${cmd:gone}", "command `gone` failed: no such command"),
        ] {
            assert_eq!(expanded(raw), Err(told.to_owned()), "{raw}");
        }
        assert_eq!(BadTemplate::Unknown("env:A".to_owned()).hint(), "write `${A}`");
    }

    #[test]
    fn a_literal_stands_for_itself() {
        for text in ["", "${A}", "$$ $", "~/x"] {
            let template = Template::literal(text);
            let parsed = Template::parse(template.raw(), Path::new("/conf")).unwrap();
            assert_eq!(template.expand(&lookup()).unwrap().value, text);
            assert_eq!(parsed.expand(&lookup()).unwrap().value, text);
        }
    }
}
