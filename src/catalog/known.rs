//! Owns which stems of the vocabulary are terms of an index, so that what may stand for a word is found without its text.
//! What a term is, is not known here.

use super::dictionary::Dictionary;
use super::vocabulary::{Stem, Vocabulary};

/// Places in the vocabulary, each with its term.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Known {
    /// Sorted.
    places: Vec<u16>,
    terms: Vec<u32>,
}

impl Known {
    /// Looks up all terms; gives the stem of each as well.
    pub fn of(terms: &Dictionary, vocabulary: &Vocabulary) -> (Self, Vec<Option<Stem>>) {
        let stems: Vec<_> = (0..terms.len() as u32).map(|term| vocabulary.find(terms.text(term))).collect();
        let mut found: Vec<(u16, u32)> =
            stems.iter().zip(0..).filter_map(|(stem, term)| Some((stem.as_ref()?.place, term))).collect();
        found.sort_unstable();
        let (places, terms) = (found.iter().map(|one| one.0).collect(), found.iter().map(|one| one.1).collect());
        (Self { places, terms }, stems)
    }

    /// The term that the stem at a place is, if it is one.
    pub fn term(&self, place: u16) -> Option<u32> {
        self.places.binary_search(&place).ok().map(|at| self.terms[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_found_by_their_places() {
        let (mut terms, vocabulary) = (Dictionary::default(), Vocabulary::embedded());
        let words = ["weather", "xyzzyq", "delet", "invoic", "a-b"];
        let numbers = words.map(|word| terms.insert(word));
        let (known, stems) = Known::of(&terms, vocabulary);
        for ((word, number), stem) in words.iter().zip(numbers).zip(stems) {
            assert_eq!(stem, vocabulary.find(word));
            assert_eq!(stem.and_then(|stem| known.term(stem.place)), vocabulary.find(word).map(|_| number));
        }
        assert_eq!(known.term(vocabulary.find("remov").unwrap().place), None);
    }
}
