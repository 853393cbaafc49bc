//! Owns the vocabulary of the search: which word stems may stand for which, and what each means as a short vector, from the
//! tables in `data/`. It is embedded compressed and unpacked when it is first wanted; it does not know what is searched.

use std::cmp::Ordering;
use std::sync::{LazyLock, OnceLock};

use super::fuzzy::Sketch;
use crate::trim;

/// Written by `build.rs`, which also says how it is laid out.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vocabulary.bin"));
static EMBEDDED: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::unpacked(PACKED));

/// Bytes of the counts in front, of a stem's head, and of a relation.
const COUNTS: usize = 8;
const HEAD: usize = 10;
const RELATION: usize = 3;
const NO_VECTOR: u16 = u16::MAX;
/// The length of all vectors; larger values were cut.
pub(super) const VECTOR_LENGTH: f32 = 254.0;

/// Word stems, what may stand for them, and what they mean.
#[derive(Debug)]
pub(super) struct Vocabulary {
    bytes: Vec<u8>,
    count: usize,
    dimensions: usize,
    /// Where the stems' texts, their relations and their vectors start.
    texts: usize,
    relations: usize,
    vectors: usize,
    /// Made when a mistyped word first comes.
    sketches: OnceLock<Vec<Sketch>>,
}

impl Vocabulary {
    /// The one in the binary.
    pub fn embedded() -> &'static Self {
        &EMBEDDED
    }

    fn unpacked(packed: &'static [u8]) -> Self {
        let mut bytes = miniz_oxide::inflate::decompress_to_vec(packed).expect("BUG: the embedded vocabulary unpacks");
        bytes.shrink_to_fit();
        trim::let_go(packed);
        let mut own =
            Self { bytes, count: 0, dimensions: 0, texts: 0, relations: 0, vectors: 0, sketches: OnceLock::new() };
        own.count = own.number(0);
        own.dimensions = own.number(4);
        own.texts = COUNTS + HEAD * own.count;
        let (texts, relations) = own.ends(own.count);
        own.relations = own.texts + texts;
        own.vectors = own.relations + RELATION * relations;
        own
    }

    fn number(&self, at: usize) -> usize {
        let bytes = &self.bytes[at..at + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
    }

    fn short(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Where the texts and the relations of the first stems end.
    fn ends(&self, stems: usize) -> (usize, usize) {
        let Some(last) = stems.checked_sub(1) else { return (0, 0) };
        let head = COUNTS + HEAD * last;
        (self.number(head), self.number(head + 4))
    }

    fn text(&self, place: usize) -> &[u8] {
        &self.bytes[self.texts + self.ends(place).0..self.texts + self.ends(place + 1).0]
    }

    /// The place of a stem, if it is known at all.
    pub fn place(&self, stem: &str) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.text(middle).cmp(stem.as_bytes()) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The stem at a place.
    pub fn stem(&self, place: u32) -> &str {
        std::str::from_utf8(self.text(place as usize)).unwrap_or_default()
    }

    /// A sketch of each stem.
    pub fn sketches(&self) -> &[Sketch] {
        self.sketches.get_or_init(|| (0..self.count as u32).map(|place| Sketch::of(self.stem(place))).collect())
    }

    /// The stems that may stand for one, best first, each with its worth from 0 to 1.
    pub fn related(&self, stem: &str) -> impl Iterator<Item = (&str, f32)> {
        let range = self.place(stem).map_or(0..0, |place| self.ends(place).1..self.ends(place + 1).1);
        range.filter_map(|at| {
            let at = self.relations + RELATION * at;
            let other = std::str::from_utf8(self.text(self.short(at).into())).ok()?;
            Some((other, f32::from(self.bytes[at + 2]) / 100.0))
        })
    }

    /// The number of values of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The number of a stem's vector, if it has one.
    pub fn vector_number(&self, stem: &str) -> Option<u16> {
        let number = self.short(COUNTS + HEAD * self.place(stem)? + 8);
        (number != NO_VECTOR).then_some(number)
    }

    /// A vector, one signed byte a value.
    pub fn vector(&self, number: u16) -> &[u8] {
        let start = self.vectors + usize::from(number) * self.dimensions;
        &self.bytes[start..start + self.dimensions]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_with_what_stands_for_them() {
        let vocabulary = Vocabulary::embedded();
        assert!((0..vocabulary.count as u32).map(|place| vocabulary.stem(place)).is_sorted());
        assert_eq!(vocabulary.sketches().len(), vocabulary.count);
        for (word, other) in [("delet", "remov"), ("remov", "delet"), ("repo", "repositori"), ("wifi", "wireless")] {
            let related: Vec<_> = vocabulary.related(word).collect();
            assert!(related.iter().any(|&(stem, worth)| stem == other && worth > 0.5), "{word}: {related:?}");
            assert!(related.is_sorted_by(|a, b| a.1 >= b.1) && related.iter().all(|&(_, worth)| worth < 1.0));
        }
        for word in ["", "xyzzyq", "\u{10FFFF}"] {
            assert_eq!((vocabulary.place(word), vocabulary.related(word).count()), (None, 0));
            assert_eq!(vocabulary.vector_number(word), None);
        }
    }

    #[test]
    fn like_words_have_like_vectors() {
        let vocabulary = Vocabulary::embedded();
        let vector = |stem: &str| vocabulary.vector(vocabulary.vector_number(stem).unwrap());
        let near = |a: &str, b: &str| {
            let pairs = vector(a).iter().zip(vector(b));
            let dot: f32 = pairs.map(|(&a, &b)| f32::from(a.cast_signed()) * f32::from(b.cast_signed())).sum();
            dot / VECTOR_LENGTH / VECTOR_LENGTH
        };
        assert!((near("weather", "weather") - 1.0).abs() < 0.05);
        assert!(near("weather", "rain") > 0.5 && near("weather", "invoic") < 0.3);
    }
}
