//! Packs the search vocabulary of `data/` into one compressed table that the binary embeds; see `data/README.md`.
//!
//! Layout, little endian: the number of stems (u32) and of dimensions (u32); for each stem, sorted, the end of its text
//! (u32), the end of its relations (u32) and its vector (u16, 65535 = none); all texts; all relations: the other stem
//! (u16) and how much of the stem's worth it has, in percent (u8); all vectors, one signed byte a dimension.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs, io};

use rust_stemmers::{Algorithm, Stemmer};

/// What a word in the same group of `concepts.txt` is worth beside the word itself, in percent.
const GROUP_WORTH: u8 = 80;
/// What a word is worth that is said to stand for another; and the other for it.
const MEANT_WORTH: u8 = 64;
const MEANING_WORTH: u8 = 24;
/// Nearness in percent from which on a neighbour is worth anything, and what one of 100 is worth.
const NEAR_MIN: f32 = 35.0;
const NEAR_WORTH: f32 = 80.0;
/// How many relations a stem has.
const RELATIONS_MAX: usize = 24;
const NO_VECTOR: u16 = u16::MAX;

/// For each stem the stems that may stand for it, with their worth in percent.
type Relations = BTreeMap<String, BTreeMap<String, u8>>;
type Vectors = BTreeMap<String, Vec<u8>>;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=build.rs");
    let read = |name: &str| fs::read_to_string(Path::new("data").join(name));
    let mut relations = Relations::new();
    add_concepts(&mut relations, &read("concepts.txt")?);
    add_neighbours(&mut relations, &read("neighbours.tsv")?);
    let vectors = vectors(&read("vectors.tsv")?);
    let packed = miniz_oxide::deflate::compress_to_vec(&pack(&relations, &vectors), 9);
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("vocabulary.bin"), packed)
}

fn add(relations: &mut Relations, stem: &str, other: &str, worth: u8) {
    if stem != other && worth > 0 {
        let known = relations.entry(stem.to_owned()).or_default().entry(other.to_owned()).or_default();
        *known = worth.max(*known);
    }
}

/// A line is a group of words of which each may stand for any other, or `word: others` that may stand for the word.
fn add_concepts(relations: &mut Relations, text: &str) {
    let stemmer = Stemmer::create(Algorithm::English);
    let stems = |words: &str| words.split_whitespace().map(|word| stemmer.stem(word).into_owned()).collect::<Vec<_>>();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some((word, others)) = line.split_once(": ") {
            let word = stemmer.stem(word);
            for other in stems(others) {
                add(relations, &word, &other, MEANT_WORTH);
                add(relations, &other, &word, MEANING_WORTH);
            }
        } else {
            let group = stems(line);
            for stem in &group {
                group.iter().for_each(|other| add(relations, stem, other, GROUP_WORTH));
            }
        }
    }
}

/// A line is a stem, and the stems near to it with their nearness in percent.
fn add_neighbours(relations: &mut Relations, text: &str) {
    for (stem, others) in text.lines().filter_map(|line| line.split_once('\t')) {
        for (other, near) in others.split(' ').filter_map(|other| other.rsplit_once(':')) {
            let near = near.parse::<f32>().unwrap_or_default().max(NEAR_MIN);
            add(relations, stem, other, (NEAR_WORTH * (near - NEAR_MIN) / (100.0 - NEAR_MIN)) as u8);
        }
    }
}

/// A line is a stem and its vector in base 64, one signed byte a dimension.
fn vectors(text: &str) -> Vectors {
    text.lines().filter_map(|line| line.split_once('\t')).map(|(stem, code)| (stem.to_owned(), decoded(code))).collect()
}

fn decoded(code: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut filled) = (Vec::new(), 0_u32, 0);
    for c in code.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        bits = (bits << 6) | u32::from(digit);
        filled += 6;
        if filled >= 8 {
            filled -= 8;
            bytes.push((bits >> filled) as u8);
        }
    }
    bytes
}

fn pack(relations: &Relations, vectors: &Vectors) -> Vec<u8> {
    let others = relations.values().flat_map(BTreeMap::keys);
    let stems: BTreeSet<&String> = relations.keys().chain(others).chain(vectors.keys()).collect();
    assert!(stems.len() < usize::from(u16::MAX), "more stems than a u16 can number");
    let places: BTreeMap<&String, u16> = stems.iter().copied().zip(0..).collect();
    let dimensions = vectors.values().next().map_or(0, Vec::len);
    assert!(vectors.values().all(|vector| vector.len() == dimensions), "vectors of different lengths");
    let (mut heads, mut texts, mut entries, mut values) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for stem in &stems {
        texts.extend_from_slice(stem.as_bytes());
        let mut related: Vec<_> = relations.get(*stem).into_iter().flatten().collect();
        related.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (other, worth) in related.into_iter().take(RELATIONS_MAX) {
            entries.extend_from_slice(&places[other].to_le_bytes());
            entries.push(*worth);
        }
        heads.extend_from_slice(&(texts.len() as u32).to_le_bytes());
        heads.extend_from_slice(&(entries.len() as u32 / 3).to_le_bytes());
        let row = vectors.get(*stem).map_or(NO_VECTOR, |_| (values.len() / dimensions) as u16);
        heads.extend_from_slice(&row.to_le_bytes());
        values.extend(vectors.get(*stem).into_iter().flatten());
    }
    let counts = [(stems.len() as u32).to_le_bytes(), (dimensions as u32).to_le_bytes()].concat();
    [counts, heads, texts, entries, values].concat()
}
