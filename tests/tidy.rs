//! The house's rules that a machine can hold: floors, budgets, and that the version stands in the change log.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// From the ground up: a module may use those before it.
const FLOORS: &[&str] = &[
    "name", "defect", "limits", "trim", "pattern", "wire", "redact", "protocol", "config", "policy", "catalog", "call",
    "store", "pins", "source", "snapshot", "control", "dispatch", "perform", "menu", "session", "serve", "relay",
    "cli",
];
/// Neighbours that do not know each other all the same.
const STRANGERS: &[(&str, &str)] = &[("dispatch", "control")];
/// These know no tokio.
const PURE: &[&str] = &["name", "pattern", "catalog", "policy", "config"];
/// Lines of code of a file, tests not counted.
const FILE_MAX: usize = 460;
/// Lines of a function.
const FUNCTION_MAX: usize = 80;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folder`, with its text.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.insert(path, text);
        }
    }
    found
}

/// The module of a source file: the first part of its path below `src`.
fn module(path: &Path) -> String {
    let below = path.strip_prefix(root().join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// A file without its tests and comments.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn imports_point_downwards() {
    let mut faults = Vec::new();
    for (path, text) in files(&root().join("src")) {
        let own = module(&path);
        let Some(floor) = FLOORS.iter().position(|name| *name == own) else {
            assert!(["lib", "main"].contains(&own.as_str()), "`{own}` stands on no floor");
            continue;
        };
        let text = code(&text);
        for used in text.split("crate::").skip(1) {
            let name: String = used.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            let used = FLOORS.iter().position(|floor| *floor == name);
            if used.is_some_and(|used| used > floor) || STRANGERS.contains(&(own.as_str(), name.as_str())) {
                faults.push(format!("{} uses crate::{name}", path.display()));
            }
        }
        if PURE.contains(&own.as_str()) && text.contains("tokio") {
            faults.push(format!("{} knows tokio", path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_and_functions_are_short() {
    let mut faults = Vec::new();
    for (path, text) in files(&root().join("src")) {
        if path.file_name().unwrap() == "tests.rs" {
            continue;
        }
        let text = code(&text);
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() > FILE_MAX {
            faults.push(format!("{}: {} lines", path.display(), lines.len()));
        }
        for (name, length) in functions(&lines) {
            if length > FUNCTION_MAX {
                faults.push(format!("{}: fn {name} has {length} lines", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Names and lengths of functions: from the line of `fn` to the brace that closes at its depth, as rustfmt lays them out.
fn functions(lines: &[&str]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some((before, after)) = line.split_once("fn ") else { continue };
        let words = ["pub", "async", "const", "unsafe", "pub(crate)", "pub(super)"];
        if !before.split_whitespace().all(|word| words.contains(&word)) {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indent));
        let length = lines[start..].iter().position(|line| *line == closing).unwrap_or(0) + 1;
        let name = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        found.push((name, length));
    }
    found
}

#[test]
fn modules_say_what_they_own() {
    for (path, text) in files(&root().join("src")) {
        assert!(text.starts_with("//! "), "{} has no first sentence", path.display());
        assert!(path.file_name().unwrap() != "mod.rs", "{}: name it after its module", path.display());
    }
}

#[test]
fn the_version_stands_in_the_change_log() {
    let log = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let heading = format!("## [{}]", env!("CARGO_PKG_VERSION"));
    assert!(log.contains(&heading), "CHANGELOG.md has no heading `{heading}`");
}
