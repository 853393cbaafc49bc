//! The checks of the fuzz targets, run once over the corpus of each, and over bounded changes of it that are the same in
//! every run. `make fuzz` looks for more.

#![allow(clippy::unwrap_used)]

#[path = "../fuzz/checks.rs"]
mod checks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// How many changed copies of each file are checked.
const CHANGES: usize = 200;

/// The files of a corpus, sorted by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Bytes with a few of them replaced, doubled, dropped, or taken from another file.
fn changed(bytes: &[u8], other: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.usize(1..5) {
        let at = random.usize(0..bytes.len() + 1);
        let end = (at + random.usize(0..9)).min(bytes.len());
        match random.u8(0..5) {
            0 => drop(bytes.drain(at..end)),
            1 => drop(bytes.splice(at..end, [random.u8(..)])),
            2 => drop(bytes.splice(at..at, [*random.choice(b"\"\\{}[]:,\r\n 0.").unwrap()])),
            3 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            _ => {
                let from = random.usize(0..other.len() + 1);
                bytes.splice(at..end, other[from..(from + 12).min(other.len())].iter().copied());
            }
        }
    }
    bytes
}

#[track_caller]
fn check(target: &str, least: usize, holds: fn(&[u8])) {
    let files = corpus(target);
    assert!(files.len() >= least, "{} files in the corpus of {target}", files.len());
    let mut random = fastrand::Rng::with_seed(7);
    for (name, bytes) in &files {
        for round in 0..=CHANGES {
            let other = &random.choice(&files).unwrap().1;
            let bytes = if round == 0 { bytes.clone() } else { changed(bytes, other, &mut random) };
            if catch_unwind(AssertUnwindSafe(|| holds(&bytes))).is_err() {
                panic!("{target}, from {name}: {:?}", String::from_utf8_lossy(&bytes));
            }
        }
    }
}

#[test]
fn messages() {
    check("message", 20, checks::message);
}

#[test]
fn lines() {
    check("lines", 5, checks::lines);
}

#[test]
fn events() {
    check("sse", 9, checks::sse);
}

#[test]
fn configurations() {
    check("config", 8, checks::config);
}

#[test]
fn locks() {
    check("lock", 12, checks::lock);
}
