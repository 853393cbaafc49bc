//! `sources.toml` and `sources.schema.json` at the top of the repository: they must tell the truth about every key.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolrelay::config::keys::{CATEGORY, Key, RELAY, SOURCE, TOOL, TOOLSET};
use toolrelay::config::{Config, Reach, SourceConfig, SourceEntry, SystemLookup, check, schema};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn checked(text: &str) -> Config {
    check(text, &path("sources.toml"), &SystemLookup::new()).unwrap()
}

/// The reference with every unused setting taken into use.
fn with_all_settings() -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => format!("{setting}\n"),
        _ => format!("{line}\n"),
    };
    text("sources.toml").lines().map(line).collect()
}

fn as_json(toml: &str) -> Value {
    toml::from_str(toml).unwrap()
}

fn schema_complaints(instance: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    validator.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_reference_has_no_faults() {
    for (text, exact) in [(text("sources.toml"), true), (with_all_settings(), false)] {
        let config = checked(&text);
        assert_eq!(config.faults, []);
        let ids: Vec<_> = config.sources.iter().map(|entry| entry.id().as_str()).collect();
        let remote = if exact { &[][..] } else { &["tracker"] };
        assert_eq!(ids, [&["clock", "everything", "filesystem", "memory", "notes"], remote].concat());
        for entry in &config.sources {
            let SourceEntry::Usable(source) = entry else { panic!("{entry:?}") };
            assert!(source.summary.is_some() && source.name != source.id.as_str() && source.enabled);
            assert!(!exact || resolves(source), "{}", source.id);
        }
    }
}

fn resolves(source: &SourceConfig) -> bool {
    match &source.reach {
        Reach::Program(launch) => launch.resolve(&SystemLookup::new()).is_ok(),
        Reach::Http(remote) => remote.resolve(&SystemLookup::new()).is_ok(),
    }
}

#[test]
fn the_reference_starts_from_any_folder() {
    let config = checked(&text("sources.toml"));
    for id in ["notes", "clock", "filesystem"] {
        let source = config.sources.iter().find(|entry| entry.id().as_str() == id);
        let Some(SourceEntry::Usable(source)) = source else { panic!("{source:?}") };
        let Reach::Program(launch) = &source.reach else { panic!("{source:?}") };
        let resolved = launch.resolve(&SystemLookup::new()).unwrap();
        assert_eq!(resolved.cwd, Some(PathBuf::from(env!("CARGO_MANIFEST_DIR"))), "{id}");
    }
}

#[test]
fn the_reference_shows_every_key() {
    let shown = as_json(&with_all_settings());
    let missing = |keys: &'static [Key], sections: &[&str]| -> Vec<&str> {
        let sections: Vec<_> = sections.iter().map(|section| shown.pointer(section).unwrap()).collect();
        let absent = keys.iter().filter(|key| sections.iter().all(|section| section.get(key.name).is_none()));
        absent.map(|key| key.name).collect()
    };
    assert_eq!(missing(RELAY, &["/relay"]), [""; 0]);
    assert_eq!(missing(SOURCE, &["/source/notes", "/source/tracker"]), [""; 0]);
    assert_eq!(missing(TOOL, &["/source/notes/tool/search"]), [""; 0]);
    assert_eq!(missing(CATEGORY, &["/source/notes/category/writing"]), [""; 0]);
    assert_eq!(missing(TOOLSET, &["/toolset/desk"]), [""; 0]);
}

#[test]
fn the_schema_accepts_the_reference() {
    for text in [text("sources.toml"), with_all_settings()] {
        assert_eq!(schema_complaints(&as_json(&text)), [""; 0]);
    }
}

#[test]
fn the_schema_and_the_check_refuse_the_same() {
    for line in [
        "unknown = 1",
        "url = 'https://x'",
        "args = 'x'",
        "args = [1]",
        "allow = ['']",
        "env = { A = 1 }",
        "env = { 'A=B' = '' }",
        "inherit_env = 'A'",
        "inherit_env = ['']",
        "max_in_flight = 0",
        "idle_stop_secs = -1",
        "start = 'never'",
        "prefix = 'a.b'",
        "tool.x.y = 1",
        "tool.x.hidden = 'yes'",
        "tool = []",
        "headers = {}",
        "token = 'x'",
        "[source.b]\nurl = 'https://x'\nargs = []",
        "[source.b]\nurl = 'https://x'\ntransport = 'http'",
        "[source.b]\nurl = 'https://x'\nauth = 'bearer'",
        "[source.b]\nurl = 'https://x'\ntoken = 'x'",
        "[source.b]\nurl = 'https://x'\nheaders = { 'a b' = 'x' }",
        "[relay]\npin = 'on'",
        "[relay]\nexposure = 'lasy'",
        "[relay]\nmenu = ['find_tools']",
        "[relay]\nalways_visible = ['x']",
        "category.x = {}",
        "category.x.tools = []",
        "category.''.tools = ['x']",
        "[toolset.b]",
        "[toolset.b]\ntools = []",
        "[toolset.b]\ntools = ['x']",
        "[toolset.B]\ntools = ['a/x']",
        "[toolset.b]\ntools = ['a/x']\nsource = 'a'",
        "[http]\nport = 1",
        "[http]\nallowed_hosts = ['']",
        "[credential.x]",
        "[credential.x]\ntoken = '0123456789abcdef'\nsource = 'a'",
        "[source.A]\ncommand = 'x'",
        "[source.b]",
        "[source.b]\ncommand = ''",
    ] {
        let text = format!("[source.a]\ncommand = 'x'\n{line}\n");
        assert!(!checked(&text).faults.is_empty(), "{line}");
        assert!(!schema_complaints(&as_json(&text)).is_empty(), "{line}");
    }
    for line in [
        "",
        "inherit_env = true",
        "prefix = ''",
        "[source.b]\nurl = 'https://x'",
        "[source.b]\nurl = 'https://x'\nauth = 'bearer'\ntoken = 'x'\nheaders = { Host = 'x' }\nca_file = 'x'",
        "[relay]\nmenu = []",
        "tool.'a.b' = {}",
        "[toolset.b]\ntools = ['a/*']",
    ] {
        let text = format!("[source.a]\ncommand = 'x'\n{line}\n");
        assert_eq!(checked(&text).faults, [], "{line}");
        assert_eq!(schema_complaints(&as_json(&text)), [""; 0], "{line}");
    }
}

#[test]
fn the_checked_in_schema_is_the_current_one() {
    let stored: Value = serde_json::from_str(&text("sources.schema.json")).unwrap_or_default();
    assert!(stored == schema(), "sources.schema.json is out of date; run `toolrelay schema > sources.schema.json`");
}
