//! Owns the way to what lies outside the file (variables, files, commands) and what can go wrong on it.
//! It reads nothing itself: [`super::SystemLookup`] does.

use std::path::{Path, PathBuf};

/// Where `${...}` gets its values.
pub trait Lookup {
    /// A variable of the relay's own environment; `None` if it is not set or no text.
    fn var(&self, name: &str) -> Option<String>;
    /// The text of a file without the line ends at its end, or why it cannot be read (never what is in it).
    fn file(&self, path: &Path) -> Result<String, String>;
    /// Whether there is a file.
    fn is_file(&self, path: &Path) -> bool;
    /// What a command prints without the line ends at its end, or why it failed (never what it printed).
    fn command(&self, argv: &[String]) -> Result<String, String>;
    /// The home folder.
    fn home(&self) -> Option<PathBuf>;
    /// The folder that programs start in where nothing says otherwise.
    fn folder(&self) -> Option<PathBuf>;
    /// The relay's whole environment.
    fn vars(&self) -> Vec<(String, String)>;
}

/// A string with its references replaced.
#[derive(Clone, PartialEq, Eq)]
pub struct Expanded {
    pub value: String,
    /// The values of 6 or more characters that came from a variable, a file or a command, for masking.
    pub secrets: Vec<String>,
}

impl std::fmt::Debug for Expanded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expanded").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

/// Why a string of a source could not be expanded. No value is ever in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct ExpandError {
    /// The key within the source: `env.TOKEN`; empty if it is not known.
    pub key: String,
    pub problem: Problem,
}

impl ExpandError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        self.problem.hint()
    }
}

/// What was wrong with a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("variable `{0}` is not set")]
    NotSet(String),
    #[error("file `{}` cannot be read: {cause}", path.display())]
    File { path: PathBuf, cause: String },
    #[error("command `{program}` failed: {cause}")]
    Command { program: String, cause: String },
    #[error("`~/` cannot be expanded, as there is no home folder")]
    NoHome,
    #[error("the command is empty")]
    EmptyCommand,
    #[error("the credential is empty{}", of(.0))]
    EmptyCredential(String),
}

fn of(reference: &str) -> String {
    if reference.is_empty() { String::new() } else { format!(": `{reference}` gives no text") }
}

impl Problem {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NotSet(name) if name.starts_with("workspaceFolder") => {
                "only editors know it: write the path, or a relative one, which starts at this file's folder".to_owned()
            }
            Self::NotSet(name) if name == "userHome" => "write `~/`, or `${HOME}`".to_owned(),
            Self::NotSet(name) => {
                format!(
                    "set `{name}` in the environment that starts the relay, or write `${{{name}:-...}}` with a default"
                )
            }
            Self::File { .. } => "put the file there, or correct the path in `${file:...}`".to_owned(),
            Self::Command { program, .. } => {
                format!("run the command by hand to see what it says, and check that `{program}` is installed")
            }
            Self::NoHome => "set HOME, or write the path in full".to_owned(),
            Self::EmptyCommand => "write the program to start, as in `command = \"npx\"`".to_owned(),
            Self::EmptyCredential(reference) if reference.is_empty() => {
                "write it, best as `${VARIABLE}`, or remove this key".to_owned()
            }
            Self::EmptyCredential(reference) => {
                format!("give `{reference}` a value, or remove this key")
            }
        }
    }
}
