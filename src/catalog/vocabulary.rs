//! Owns the vocabulary of the search: which word stems may stand for which, and what each means as a short vector, from the
//! tables in `data/`. It lies in the binary as it is used, so that only the pages take up memory that are read; it does not
//! know what is searched.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use super::fuzzy::Sketch;

/// Written by `build.rs`, which also says how it is laid out.
static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vocabulary.bin"));
static EMBEDDED: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::of(TABLE));

/// How many counts stand in front, and the bytes of a block's head, of a stem's and of a relation.
const COUNTS: usize = 5;
const BLOCK_HEAD: usize = 10;
const STEM_HEAD: usize = 3;
const RELATION: usize = 3;
/// How many stems a block has, the last one perhaps fewer.
const BLOCK: usize = 16;
/// What says in a stem's head that it has a vector; the rest is how many relations it has.
const HAS_VECTOR: u8 = 128;
/// The length of all vectors; larger values were cut.
pub(super) const VECTOR_LENGTH: f32 = 254.0;

/// Word stems, what may stand for them, and what they mean.
#[derive(Debug)]
pub(super) struct Vocabulary {
    blocks: &'static [[u8; BLOCK_HEAD]],
    /// How many blocks have common stems, which come first.
    common: usize,
    stems: &'static [u8],
    relations: &'static [[u8; RELATION]],
    vectors: &'static [u8],
    dimensions: usize,
    /// Made when a mistyped word first comes.
    sketches: OnceLock<Vec<Sketch>>,
}

/// What is known of a stem.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stem {
    pub place: u16,
    /// The number of its vector, if it has one.
    pub vector: Option<u16>,
    relations: Range<u32>,
}

/// A block's stems as they are kept: how much each shares with the one before it, what follows, and its relations and
/// whether it has a vector.
struct Kept {
    bytes: &'static [u8],
    left: usize,
}

impl Iterator for Kept {
    type Item = (usize, &'static [u8], u8);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let ([shared, length, has], rest) = self.bytes.split_first_chunk::<STEM_HEAD>()?;
        let (own, rest) = rest.split_at(usize::from(*length));
        self.bytes = rest;
        Some((usize::from(*shared), own, *has))
    }
}

impl Vocabulary {
    /// The one in the binary.
    pub fn embedded() -> &'static Self {
        &EMBEDDED
    }

    fn of(table: &'static [u8]) -> Self {
        let (counts, rest) = table.split_at(4 * COUNTS);
        let count = |at: usize| number(&counts[4 * at..]);
        let (blocks, rest) = rest.split_at(BLOCK_HEAD * count(0));
        let (stems, rest) = rest.split_at(count(3));
        let (relations, vectors) = rest.split_at(RELATION * count(4));
        Self {
            blocks: blocks.as_chunks().0,
            common: count(1),
            stems,
            relations: relations.as_chunks().0,
            vectors,
            dimensions: count(2),
            sketches: OnceLock::new(),
        }
    }

    fn kept(&self, block: usize) -> Kept {
        Kept { bytes: &self.stems[number(&self.blocks[block])..], left: BLOCK }
    }

    /// What is known of a stem, if anything is.
    pub fn find(&self, stem: &str) -> Option<Stem> {
        let (common, others) = self.blocks.split_at(self.common);
        self.find_in(common, 0, stem.as_bytes()).or_else(|| self.find_in(others, self.common, stem.as_bytes()))
    }

    /// The same within some blocks, of which the first has that number.
    fn find_in(&self, blocks: &[[u8; BLOCK_HEAD]], first: usize, stem: &[u8]) -> Option<Stem> {
        let starts = |head: &[u8; BLOCK_HEAD]| {
            let start = number(head) + STEM_HEAD;
            &self.stems[start..start + usize::from(self.stems[start - 2])]
        };
        let at = blocks.partition_point(|head| starts(head) <= stem).checked_sub(1)?;
        let head = &blocks[at];
        let (mut relation, mut vector) = (number(&head[4..]) as u32, u16::from_le_bytes([head[8], head[9]]));
        // How much of the stem agrees with the one in hand.
        let mut agreed = 0;
        for ((shared, own, has), place) in self.kept(first + at).zip(((first + at) * BLOCK) as u16..) {
            let relations = relation..relation + u32::from(has & !HAS_VECTOR);
            if shared < agreed {
                return None;
            }
            if shared == agreed {
                agreed += own.iter().zip(&stem[agreed..]).take_while(|(a, b)| a == b).count();
                if agreed == stem.len() && shared + own.len() == stem.len() {
                    return Some(Stem { place, vector: (has & HAS_VECTOR > 0).then_some(vector), relations });
                }
            }
            relation = relations.end;
            vector += u16::from(has / HAS_VECTOR);
        }
        None
    }

    /// Calls `see` with each stem of a block.
    fn each_of(&self, block: usize, mut see: impl FnMut(&str)) {
        let mut text = Vec::new();
        for (shared, own, _) in self.kept(block) {
            text.truncate(shared);
            text.extend_from_slice(own);
            see(std::str::from_utf8(&text).unwrap_or_default());
        }
    }

    /// The stem at a place.
    pub fn stem(&self, place: u32) -> String {
        let (mut found, mut left) = (String::new(), place as usize % BLOCK);
        self.each_of(place as usize / BLOCK, |stem| {
            if left == 0 {
                found.push_str(stem);
            }
            left = left.wrapping_sub(1);
        });
        found
    }

    /// A sketch of each stem.
    pub fn sketches(&self) -> &[Sketch] {
        self.sketches.get_or_init(|| {
            let mut sketches = Vec::with_capacity(BLOCK * self.blocks.len());
            (0..self.blocks.len()).for_each(|block| self.each_of(block, |stem| sketches.push(Sketch::of(stem))));
            sketches
        })
    }

    /// The places of the stems that may stand for one, best first, each with its worth from 0 to 1.
    pub fn related(&self, stem: &Stem) -> impl Iterator<Item = (u16, f32)> {
        let Range { start, end } = stem.relations;
        let relations = &self.relations[start as usize..end as usize];
        relations.iter().map(|&[low, high, worth]| (u16::from_le_bytes([low, high]), f32::from(worth) / 100.0))
    }

    /// The number of values of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// A vector, one signed byte a value.
    pub fn vector(&self, number: u16) -> &[u8] {
        let start = usize::from(number) * self.dimensions;
        &self.vectors[start..start + self.dimensions]
    }
}

/// The number that stands in the first bytes.
fn number(bytes: &[u8]) -> usize {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems() -> Vec<String> {
        let vocabulary = Vocabulary::embedded();
        let mut stems = Vec::new();
        (0..vocabulary.blocks.len()).for_each(|block| vocabulary.each_of(block, |stem| stems.push(stem.to_owned())));
        stems
    }

    #[test]
    fn every_stem_is_found_where_it_stands() {
        let vocabulary = Vocabulary::embedded();
        let stems = stems();
        let (common, others) = stems.split_at(BLOCK * vocabulary.common);
        assert!(common.len() > 1000 && others.len() > 10_000);
        assert!([common, others].iter().all(|part| part.is_sorted_by(|a, b| a < b)));
        let (mut relations, mut vectors) = (0, 0);
        for (stem, place) in stems.iter().zip(0..) {
            let found = vocabulary.find(stem).unwrap();
            assert_eq!((found.place, found.relations.start), (place, relations), "{stem}");
            assert!(found.vector.is_none_or(|vector| vector == vectors), "{stem}");
            assert_eq!(&vocabulary.stem(place.into()), stem);
            assert_eq!(vocabulary.sketches()[usize::from(place)], Sketch::of(stem));
            relations = found.relations.end;
            vectors += u16::from(found.vector.is_some());
        }
        assert_eq!(vocabulary.sketches().len(), stems.len());
        assert_eq!(relations as usize, vocabulary.relations.len());
        assert_eq!(usize::from(vectors) * vocabulary.dimensions, vocabulary.vectors.len());
    }

    #[test]
    fn other_words_are_not_found() {
        let stems = stems();
        let known: std::collections::BTreeSet<&str> = stems.iter().map(String::as_str).collect();
        let near =
            stems.iter().flat_map(|stem| [format!("{stem}a"), format!("{stem}\u{10FFFF}"), stem[1..].to_owned()]);
        for word in near.chain(["".to_owned(), "a\0".to_owned(), "\u{10FFFF}".to_owned()]) {
            assert_eq!(Vocabulary::embedded().find(&word).is_some(), known.contains(word.as_str()), "{word}");
        }
    }

    #[test]
    fn words_are_known_with_what_stands_for_them() {
        let vocabulary = Vocabulary::embedded();
        for (word, other) in [("delet", "remov"), ("remov", "delet"), ("repo", "repositori"), ("wifi", "wireless")] {
            let found = vocabulary.find(word).unwrap();
            let related: Vec<_> =
                vocabulary.related(&found).map(|(place, worth)| (vocabulary.stem(place.into()), worth)).collect();
            assert!(related.iter().any(|(stem, worth)| stem == other && *worth > 0.5), "{word}: {related:?}");
            assert!(related.is_sorted_by(|a, b| a.1 >= b.1) && related.iter().all(|&(_, worth)| worth < 1.0));
        }
    }

    #[test]
    fn like_words_have_like_vectors() {
        let vocabulary = Vocabulary::embedded();
        let vector = |stem: &str| vocabulary.vector(vocabulary.find(stem).unwrap().vector.unwrap());
        let near = |a: &str, b: &str| {
            let pairs = vector(a).iter().zip(vector(b));
            let dot: f32 = pairs.map(|(&a, &b)| f32::from(a.cast_signed()) * f32::from(b.cast_signed())).sum();
            dot / VECTOR_LENGTH / VECTOR_LENGTH
        };
        assert!((near("weather", "weather") - 1.0).abs() < 0.05);
        assert!(near("weather", "rain") > 0.5 && near("weather", "invoic") < 0.3);
    }
}
