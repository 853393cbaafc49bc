//! Packs the search vocabulary of `data/` into one table that the binary embeds, and reads where it lies; see `data/README.md`.
//!
//! Layout, little endian: five counts (u32): of blocks, of those with common stems, of dimensions, of bytes of stems and of
//! relations. For each block of 16 stems, the last of which may have fewer, where its stems start and its first relation
//! (u32), and its first vector (u16). The stems, sorted within the common ones and within the others: how many bytes a stem
//! shares with the one before it in its block, and how many follow (u8); how many relations it has, and 128 more if it has a
//! vector (u8); the bytes that follow. The relations of each stem: the place of the other (u16), counted over all blocks, and
//! how much of the stem's worth it has, in percent (u8). The vectors, one signed byte a dimension. Common stems have places
//! of their own at the front, so that a search seldom touches more than the front of each part.

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
/// How many stems a block has.
const BLOCK: usize = 16;
/// What says that a stem has a vector.
const HAS_VECTOR: u8 = 128;

/// For each stem the stems that may stand for it, with their worth in percent.
type Relations = BTreeMap<String, BTreeMap<String, u8>>;
type Vectors = BTreeMap<String, Vec<u8>>;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=build.rs");
    let read = |name: &str| fs::read_to_string(Path::new("data").join(name));
    let mut relations = Relations::new();
    add_concepts(&mut relations, &read("concepts.txt")?);
    // What is written by hand is what tools are about.
    let common = relations.keys().cloned().collect();
    add_neighbours(&mut relations, &read("neighbours.tsv")?);
    let vectors = vectors(&read("vectors.tsv")?);
    let packed = pack(&relations, &vectors, &common);
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

fn pack(relations: &Relations, vectors: &Vectors, common: &BTreeSet<String>) -> Vec<u8> {
    let others = relations.values().flat_map(BTreeMap::keys);
    let all: BTreeSet<&String> = relations.keys().chain(others).chain(vectors.keys()).collect();
    assert!(all.len() < usize::from(u16::MAX), "more stems than a u16 can number");
    // Whole blocks of common ones; what is left of them stands with the others.
    let front: BTreeSet<&String> = common.iter().take(common.len() / BLOCK * BLOCK).collect();
    let stems: Vec<&String> = front.iter().copied().chain(all.difference(&front).copied()).collect();
    let places: BTreeMap<&String, u16> = stems.iter().copied().zip(0..).collect();
    let dimensions = vectors.values().next().map_or(0, Vec::len);
    assert!(vectors.values().all(|vector| vector.len() == dimensions), "vectors of different lengths");
    let (mut blocks, mut texts, mut entries, mut values) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for block in stems.chunks(BLOCK) {
        blocks.extend_from_slice(&number(texts.len()));
        blocks.extend_from_slice(&number(entries.len() / 3));
        blocks.extend_from_slice(&number(values.len() / dimensions)[..2]);
        let mut before = "";
        for &stem in block {
            let mut related: Vec<_> = relations.get(stem).into_iter().flatten().collect();
            related.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
            related.truncate(RELATIONS_MAX);
            let shared = before.bytes().zip(stem.bytes()).take_while(|(a, b)| a == b).count();
            let rest = &stem.as_bytes()[shared..];
            let vector = vectors.get(stem);
            assert!(stem.len() < usize::from(u8::MAX), "`{stem}` is too long");
            texts.extend_from_slice(&[shared as u8, rest.len() as u8]);
            texts.push(related.len() as u8 | vector.map_or(0, |_| HAS_VECTOR));
            texts.extend_from_slice(rest);
            for (other, worth) in related {
                entries.extend_from_slice(&places[other].to_le_bytes());
                entries.push(*worth);
            }
            values.extend(vector.into_iter().flatten());
            before = stem;
        }
    }
    let counts = [stems.len().div_ceil(BLOCK), front.len() / BLOCK, dimensions, texts.len(), entries.len() / 3];
    [counts.map(number).concat(), blocks, texts, entries, values].concat()
}

fn number(number: usize) -> [u8; 4] {
    (number as u32).to_le_bytes()
}
