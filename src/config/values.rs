//! Owns what a section of the file sets, with the defaults of the table of keys for what it does not.
//! It does not judge anything.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use super::InheritEnv;
use super::keys::{Key, Standard};
use super::template::Template;

pub(super) type Span = Range<usize>;

/// What a section sets. Keys with a fault are as if not written.
#[derive(Debug)]
pub(super) struct Values {
    keys: &'static [Key],
    found: BTreeMap<&'static str, (Value, Span)>,
    /// Where each known key stands, faulty or not.
    written: BTreeMap<&'static str, Span>,
}

#[derive(Debug)]
pub(super) enum Value {
    Bool(bool),
    Whole(u64),
    Text(String),
    Texts(Vec<String>),
    Folder(PathBuf),
    Template(Template),
    Templates(Vec<Template>),
    Env(BTreeMap<String, Template>),
    Inherit(InheritEnv),
    Tables(BTreeMap<String, Values>),
}

impl Values {
    pub(super) fn new(keys: &'static [Key]) -> Self {
        Self { keys, found: BTreeMap::new(), written: BTreeMap::new() }
    }

    pub(super) fn wrote(&mut self, name: &'static str, at: Span) {
        self.written.insert(name, at);
    }

    pub(super) fn set(&mut self, name: &'static str, value: Value, at: Span) {
        self.found.insert(name, (value, at));
    }

    /// Where a known key stands, faulty or not.
    pub(super) fn written(&self, name: &str) -> Option<&Span> {
        self.written.get(name)
    }

    /// Where the value of a key stands, if it is one.
    pub(super) fn at(&self, name: &str) -> Option<&Span> {
        self.found.get(name).map(|(_, at)| at)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        match (self.get(name), self.standard(name)) {
            (Some(Value::Bool(value)), _) => *value,
            (_, Standard::Bool(value)) => value,
            _ => false,
        }
    }

    pub(super) fn flag_if_set(&self, name: &str) -> Option<bool> {
        self.get(name).map(|_| self.flag(name))
    }

    pub(super) fn whole(&self, name: &str) -> u64 {
        match (self.get(name), self.standard(name)) {
            (Some(Value::Whole(value)), _) => *value,
            (_, Standard::Whole(value)) => value,
            _ => 0,
        }
    }

    pub(super) fn whole_if_set(&self, name: &str) -> Option<u64> {
        self.get(name).map(|_| self.whole(name))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match (self.get(name), self.standard(name)) {
            (Some(Value::Text(value)), _) => Some(value.clone()),
            (_, Standard::Word(value)) => Some(value.to_owned()),
            _ => None,
        }
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        match self.get(name) {
            Some(Value::Texts(values)) => values.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn folder(&self, name: &str) -> Option<PathBuf> {
        match self.get(name) {
            Some(Value::Folder(path)) => Some(path.clone()),
            _ => None,
        }
    }

    pub(super) fn template(&self, name: &str) -> Option<Template> {
        match self.get(name) {
            Some(Value::Template(template)) => Some(template.clone()),
            _ => None,
        }
    }

    pub(super) fn templates(&self, name: &str) -> Vec<Template> {
        match self.get(name) {
            Some(Value::Templates(templates)) => templates.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn env(&self, name: &str) -> BTreeMap<String, Template> {
        match self.get(name) {
            Some(Value::Env(env)) => env.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub(super) fn inherit(&self, name: &str) -> InheritEnv {
        match self.get(name) {
            Some(Value::Inherit(inherit)) => inherit.clone(),
            _ => InheritEnv::Named(Vec::new()),
        }
    }

    pub(super) fn tables(&self, name: &str) -> impl Iterator<Item = (&str, &Values)> {
        let tables = match self.get(name) {
            Some(Value::Tables(tables)) => Some(tables),
            _ => None,
        };
        tables.into_iter().flatten().map(|(name, values)| (name.as_str(), values))
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.found.get(name).map(|(value, _)| value)
    }

    fn standard(&self, name: &str) -> Standard {
        self.keys.iter().find(|key| key.name == name).map_or(Standard::Unset, |key| key.default)
    }
}
