//! The count of the fault suite: each of the 148 reported cases has a test of its kind that is held to the six standing
//! assertions of `tests/support/standing.rs`, or one line that says why it cannot occur here. Which, stands in
//! `tests/faults/index.tsv`: the case's id, a tab, and `FILE::TEST` (several of them where a case has several parts) or
//! `impossible: WHY`. That a test is held to the assertions is read from its body, and from what it calls in its own file.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many cases each class has, from C01 on.
const CASES: [usize; 22] = [7, 6, 4, 8, 7, 6, 14, 7, 7, 11, 8, 2, 6, 6, 4, 7, 3, 9, 7, 7, 9, 3];
const ALL: usize = 148;
/// What holds a test to the assertions: a trial, of either front, which fails its test where it is not seen out; or, where
/// the fault is that no relay comes to run, `never_runs`.
const HOLD: [&str; 4] = ["Trial::start", "Trial::spawn(", "Trial::of(", "never_runs("];

/// The functions of a file as rustfmt lays them out, by name: whether it is a test, and its text.
struct File(BTreeMap<String, (bool, String)>);

impl File {
    fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(tests().join(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let heads = lines.iter().enumerate().filter_map(|(at, line)| {
            let rest = line.strip_prefix("fn ").or_else(|| line.strip_prefix("pub fn "))?;
            Some((at, rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()))
        });
        let function = |(at, name): (usize, String)| {
            let mut above = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
            let length = lines[at..].iter().position(|line| *line == "}").unwrap_or(0);
            (name, (above.any(|line| *line == "#[test]"), lines[at..=at + length].join("\n")))
        };
        Self(heads.map(function).collect())
    }

    fn has_test(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|(is_test, _)| *is_test)
    }

    /// Whether this function, or one of its file that it calls, is held to the standing assertions.
    fn is_held(&self, name: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut left = vec![name];
        while let Some(name) = left.pop() {
            let Some((_, text)) = self.0.get(name) else { continue };
            if !seen.insert(name) {
                continue;
            }
            if HOLD.iter().any(|mark| text.contains(mark)) {
                return true;
            }
            left.extend(self.0.keys().map(String::as_str).filter(|known| calls(text, known)));
        }
        false
    }
}

/// Whether a text calls a function of its own file: not a method, nor one of another module.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(&format!("{name}(")).any(|(at, _)| {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        !before.is_alphanumeric() && !['_', '.', ':'].contains(&before) && !text[..at].ends_with("fn ")
    })
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// What is wrong with where a case is held.
fn fault(files: &BTreeMap<&str, File>, held: &str) -> Option<String> {
    if let Some(why) = held.strip_prefix("impossible: ") {
        return (why.len() < 30).then(|| format!("`{why}` is no reason"));
    }
    let parts = |test: &'_ str| test.split_once("::").map(|(file, name)| (file.to_owned(), name.to_owned()));
    let has = |test: &&str, holds: fn(&File, &str) -> bool| {
        parts(test).is_some_and(|(file, name)| files.get(&*file).is_some_and(|file| holds(file, &name)))
    };
    if let Some(missing) = held.split(' ').find(|test| !has(test, File::has_test)) {
        return Some(format!("there is no test `{missing}`"));
    }
    let is_held = held.split(' ').any(|test| has(&test, File::is_held));
    (!is_held).then(|| format!("no test of it is held to the standing assertions: {held}"))
}

#[test]
fn every_case_is_held_by_a_test_under_the_standing_assertions_or_cannot_occur() {
    let index = std::fs::read_to_string(tests().join("faults/index.tsv")).unwrap();
    let rows: Vec<(&str, &str)> = index.lines().map(|line| line.split_once('\t').unwrap()).collect();
    let wanted = CASES
        .iter()
        .zip(1..)
        .flat_map(|(&cases, class)| (1..=cases).map(move |case| format!("C{class:02}-A{case:02}")));
    let found: Vec<&str> = rows.iter().map(|row| row.0).collect();
    assert_eq!(found, wanted.collect::<Vec<_>>(), "each case has its row, in order");
    assert_eq!(found.len(), ALL);
    let (impossible, possible): (Vec<(&str, &str)>, Vec<_>) =
        rows.iter().copied().partition(|row| row.1.starts_with("impossible"));
    let tests: BTreeSet<&str> = possible.iter().flat_map(|row| row.1.split(' ')).collect();
    let files: BTreeSet<&str> = tests.iter().filter_map(|test| Some(test.split_once("::")?.0)).collect();
    let files: BTreeMap<&str, File> = files.into_iter().map(|name| (name, File::read(name))).collect();
    let faults: Vec<String> =
        rows.iter().filter_map(|(id, held)| Some(format!("{id}: {}", fault(&files, held)?))).collect();
    assert!(faults.is_empty(), "{} of {ALL} cases:\n{}", faults.len(), faults.join("\n"));
    let why: Vec<String> = impossible.iter().map(|(id, why)| format!("{id}, {why}")).collect();
    eprintln!(
        "{ALL} cases: {} by tests under the standing assertions ({} tests of theirs in all), {} impossible here ({})",
        possible.len(),
        tests.len(),
        impossible.len(),
        why.join("; ")
    );
}
