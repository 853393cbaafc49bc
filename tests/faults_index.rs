//! The count of the fault suite: each of the 148 reported cases has a test of its kind, or one line that says why it cannot
//! occur here. Which, stands in `tests/faults/index.tsv`: the case's id, a tab, and `FILE::TEST` (several of them where a
//! case has several parts) or `impossible: WHY`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many cases each class has, from C01 on.
const CASES: [usize; 22] = [7, 6, 4, 8, 7, 6, 14, 7, 7, 11, 8, 2, 6, 6, 4, 7, 3, 9, 7, 7, 9, 3];
const ALL: usize = 148;

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Whether a file has a test of this name, and not just a function.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let head = format!("fn {name}()");
    lines.iter().enumerate().any(|(at, line)| {
        line.starts_with(&head)
            && lines[..at].iter().rev().take_while(|above| above.starts_with("#[")).any(|above| *above == "#[test]")
    })
}

/// What is wrong with where a case is held.
fn fault(held: &str) -> Option<String> {
    if let Some(why) = held.strip_prefix("impossible: ") {
        return (why.len() < 30).then(|| format!("`{why}` is no reason"));
    }
    let missing = held.split(' ').find(|test| {
        let Some((file, name)) = test.split_once("::") else { return true };
        let text = std::fs::read_to_string(tests().join(file)).unwrap_or_default();
        !has_test(&text, name)
    });
    missing.map(|test| format!("there is no test `{test}`"))
}

#[test]
fn every_case_is_held_by_a_test_or_cannot_occur() {
    let index = std::fs::read_to_string(tests().join("faults/index.tsv")).unwrap();
    let rows: Vec<(&str, &str)> = index.lines().map(|line| line.split_once('\t').unwrap()).collect();
    let wanted = CASES
        .iter()
        .zip(1..)
        .flat_map(|(&cases, class)| (1..=cases).map(move |case| format!("C{class:02}-A{case:02}")));
    let found: Vec<&str> = rows.iter().map(|row| row.0).collect();
    assert_eq!(found, wanted.collect::<Vec<_>>(), "each case has its row, in order");
    assert_eq!(found.len(), ALL);
    let faults: Vec<String> = rows.iter().filter_map(|(id, held)| Some(format!("{id}: {}", fault(held)?))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let impossible = rows.iter().filter(|row| row.1.starts_with("impossible")).count();
    let tests: BTreeSet<&str> =
        rows.iter().filter(|row| !row.1.starts_with("impossible")).flat_map(|row| row.1.split(' ')).collect();
    eprintln!(
        "{} of {ALL} cases: {} held by {} tests, {impossible} impossible",
        rows.len(),
        ALL - impossible,
        tests.len()
    );
}
