//! Owns a [`Lookup`] made of tables, for tests. It reaches nothing outside.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Lookup;

#[derive(Debug, Default)]
pub(crate) struct FakeLookup {
    vars: BTreeMap<String, String>,
    files: BTreeMap<PathBuf, String>,
    commands: BTreeMap<Vec<String>, String>,
    homeless: bool,
    folder: Option<PathBuf>,
}

impl FakeLookup {
    pub(crate) fn new(vars: &[(&str, &str)]) -> Self {
        let vars = vars.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { vars, ..Self::default() }
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.to_owned());
        self
    }

    pub(crate) fn command(mut self, argv: &[&str], output: &str) -> Self {
        self.commands.insert(argv.iter().map(|&arg| arg.to_owned()).collect(), output.to_owned());
        self
    }

    pub(crate) fn within(mut self, folder: &str) -> Self {
        self.folder = Some(folder.into());
        self
    }

    pub(crate) fn homeless(mut self) -> Self {
        self.homeless = true;
        self
    }
}

impl Lookup for FakeLookup {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        self.files.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn is_file(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    fn command(&self, argv: &[String]) -> Result<String, String> {
        self.commands.get(argv).cloned().ok_or_else(|| "no such command".to_owned())
    }

    fn home(&self) -> Option<PathBuf> {
        (!self.homeless).then(|| "/home/u".into())
    }

    fn folder(&self) -> Option<PathBuf> {
        self.folder.clone()
    }

    fn vars(&self) -> Vec<(String, String)> {
        self.vars.clone().into_iter().collect()
    }
}
