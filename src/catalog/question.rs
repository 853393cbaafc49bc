//! Owns what a query asks for in terms of an index: each of its words as a group of terms of which the best counts, and
//! its meaning. It does not know documents.

use super::dictionary::Dictionary;
use super::fuzzy;
use super::known::Known;
use super::meaning::Mean;
use super::postings::Postings;
use super::tokens::{QueryWord, query_words};
use super::vocabulary::{Stem, Vocabulary};

/// How many terms may stand for a word besides its own.
const RELATED_MAX: usize = 10;
/// How many words of a long query are widened by what may stand for them, and how many are read as mistyped.
const WIDENED_MAX: usize = 24;
const MISTYPED_MAX: usize = 6;
/// What the parts of a compound are worth where the compound itself is known.
const PART_WORTH: f32 = 0.5;
/// How rare a word is taken to be that no tool has, and how much rarity counts in the meaning of a query.
const UNKNOWN_RARITY: f32 = 4.0;

/// What a query asks for.
#[derive(Debug)]
pub(super) struct Question {
    /// One for each word that has any term in the index, in the order of the words.
    pub groups: Vec<Group>,
    pub meaning: Vec<i8>,
}

/// One word of a query: the terms that may stand for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub weight: f32,
    /// Whether the first member is the word itself, or the best reading of it.
    pub leads: bool,
    /// Each term once, with its share of the group's weight; never empty.
    pub members: Vec<(u32, f32)>,
}

impl Question {
    pub fn new(query: &str, terms: &Dictionary, known: &Known, postings: &Postings) -> Self {
        let words = query_words(query);
        let vocabulary = Vocabulary::embedded();
        let stems: Vec<_> = words.iter().map(|word| vocabulary.find(&word.stem)).collect();
        let reader = Reader { terms, known, vocabulary, words: &words, stems: &stems };
        Self { groups: reader.groups(), meaning: reader.meaning(postings) }
    }
}

struct Reader<'a> {
    terms: &'a Dictionary,
    known: &'a Known,
    vocabulary: &'static Vocabulary,
    words: &'a [QueryWord],
    /// What the vocabulary knows of each word.
    stems: &'a [Option<Stem>],
}

impl Reader<'_> {
    fn groups(&self) -> Vec<Group> {
        let counts = self.chosen();
        let mut mistyped = 0;
        let mut groups = Vec::new();
        for (at, word) in self.words.iter().enumerate().filter(|&(at, _)| counts[at]) {
            let own = self.terms.get(&word.stem);
            let mut members: Vec<(u32, f32)> = own.map(|term| (term, 1.0)).into_iter().collect();
            if groups.len() < WIDENED_MAX {
                self.add_related(&mut members, self.stems[at].as_ref(), 1.0);
            }
            // A rare word that nothing stands for may be a slip as well.
            let is_read = members.is_empty() && word.weight >= 1.0 && mistyped < MISTYPED_MAX;
            if is_read {
                mistyped += 1;
                self.add_readings(&mut members, word);
            }
            for part in &self.words[at - word.parts.min(at)..at] {
                self.offer(&mut members, self.terms.get(&part.stem), PART_WORTH);
            }
            if !members.is_empty() {
                groups.push(Group { weight: word.weight, leads: own.is_some() || is_read, members });
            }
        }
        groups
    }

    /// Which words count: of a compound and its parts the compound if it is known at all, else the parts.
    fn chosen(&self) -> Vec<bool> {
        let mut counts = vec![true; self.words.len()];
        for (at, word) in self.words.iter().enumerate().filter(|(_, word)| word.parts > 0) {
            if self.terms.get(&word.stem).is_some() || self.stems[at].is_some() {
                counts[at - word.parts.min(at)..at].fill(false);
            } else {
                counts[at] = false;
            }
        }
        counts
    }

    fn add_readings(&self, members: &mut Vec<(u32, f32)>, word: &QueryWord) {
        for (stem, share) in fuzzy::readings(word, self.terms, self.vocabulary) {
            self.offer(members, self.terms.get(&stem), share);
            self.add_related(members, self.vocabulary.find(&stem).as_ref(), share);
        }
    }

    fn add_related(&self, members: &mut Vec<(u32, f32)>, stem: Option<&Stem>, share: f32) {
        let mut room = RELATED_MAX;
        for (other, worth) in stem.into_iter().flat_map(|stem| self.vocabulary.related(stem)) {
            if room == 0 {
                return;
            }
            room -= usize::from(self.offer(members, self.known.term(other), share * worth));
        }
    }

    /// Adds a term or raises its share; false when there is none.
    fn offer(&self, members: &mut Vec<(u32, f32)>, term: Option<u32>, share: f32) -> bool {
        let Some(term) = term else { return false };
        match members.iter_mut().find(|member| member.0 == term) {
            Some(member) => member.1 = member.1.max(share),
            None => members.push((term, share)),
        }
        true
    }

    fn meaning(&self, postings: &Postings) -> Vec<i8> {
        let mut mean = Mean::new();
        for (word, stem) in self.words.iter().zip(self.stems) {
            let Some(vector) = stem.as_ref().and_then(|stem| stem.vector) else { continue };
            let rarity = self.terms.get(&word.stem).map_or(UNKNOWN_RARITY, |term| postings.idf(term));
            mean.add(vector, word.weight * rarity);
        }
        mean.take().collect()
    }
}
