//! Owns the reading of mistyped words: which known stems a word in no vocabulary may stand for. It does not decide which
//! words are mistyped.

use std::borrow::Cow;

use super::dictionary::Dictionary;
use super::tokens::QueryWord;
use super::vocabulary::Vocabulary;

/// Shorter words are taken as they are.
const WORD_MIN: usize = 4;
/// From here on two slips are forgiven.
const LONG: usize = 8;
/// How many readings a word has.
const READINGS_MAX: usize = 3;
/// How many letters a stem may lack that the word has, or have more than it.
const ENDING_MAX: usize = 4;
/// What a reading is worth by the number of slips. One slip costs nothing, as the word is in no vocabulary.
const WORTHS: [f32; 3] = [1.0, 1.0, 0.7];

/// The stems that a word may stand for, best first, each with its worth; those of the index before all others.
pub(super) fn readings(word: &QueryWord, terms: &Dictionary, vocabulary: &Vocabulary) -> Vec<(String, f32)> {
    if word.word.len() < WORD_MIN || !word.word.bytes().all(|c| c.is_ascii_lowercase()) {
        return Vec::new();
    }
    let known = best(word, terms.sketches(), |number| terms.text(number).into());
    if known.is_empty() { best(word, vocabulary.sketches(), |place| vocabulary.stem(place).into()) } else { known }
}

fn best<'a>(word: &QueryWord, sketches: &[Sketch], stem: impl Fn(u32) -> Cow<'a, str>) -> Vec<(String, f32)> {
    let mut least = if word.word.len() >= LONG { 2 } else { 1 };
    let own = (Sketch::of(&word.word), Sketch::of(&word.stem));
    let mut found: Vec<(usize, bool, bool, Cow<str>)> = Vec::new();
    for (sketch, number) in sketches.iter().zip(0..) {
        if !own.0.may_be(*sketch, least) && !own.1.may_be(*sketch, least) {
            continue;
        }
        let stem = stem(number);
        if let Some(slips) = slips(word, &stem, least) {
            least = slips;
            // Letters that changed places are the commonest slip, and the first letter is seldom wrong.
            let is_mixed = is_anagram(&stem, &word.word) || is_anagram(&stem, &word.stem);
            let starts = stem.as_bytes()[0] != word.word.as_bytes()[0];
            found.push((slips, !is_mixed, starts, stem));
        }
    }
    found.sort_unstable();
    let rank = |&(slips, is_mixed, starts, _): &(usize, bool, bool, Cow<str>)| (slips, is_mixed, starts);
    let best = found.first().map(rank);
    found.retain(|reading| Some(rank(reading)) == best);
    found.into_iter().take(READINGS_MAX).map(|(slips, .., stem)| (stem.into_owned(), WORTHS[slips])).collect()
}

fn is_anagram(a: &str, b: &str) -> bool {
    let sorted = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    a.len() == b.len() && sorted(a) == sorted(b)
}

/// In how many places a known stem differs from a word or its stem, if in no more than `most`. A stem that only goes on
/// where the word ends counts as one slip.
fn slips(word: &QueryWord, known: &str, most: usize) -> Option<usize> {
    if known.len() + 1 < WORD_MIN {
        return None;
    }
    if known.len() <= word.word.len() + ENDING_MAX && known.starts_with(&word.word) {
        return Some(1);
    }
    let distance = |other: &str| match known.len().abs_diff(other.len()) {
        less if less <= most => strsim::osa_distance(other, known),
        more => more,
    };
    Some(distance(&word.word).min(distance(&word.stem))).filter(|&slips| slips <= most)
}

/// Which letters a word has, and its length: enough to tell that most words are not meant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sketch(u32);

impl Sketch {
    const LETTERS: u32 = (1 << 27) - 1;

    pub fn of(word: &str) -> Self {
        let letters = word.bytes().fold(0_u32, |letters, c| letters | 1 << (c & 31));
        Self((letters & Self::LETTERS) | (word.len().min(31) as u32) << 27)
    }

    /// False only where a word of the other sketch neither goes on where this one's ends nor is within so many slips.
    fn may_be(self, other: Self, most: usize) -> bool {
        let (own_length, length) = (self.0 >> 27, other.0 >> 27);
        let (own, letters) = (self.0 & Self::LETTERS, other.0 & Self::LETTERS);
        // Each slip changes at most two letters.
        let is_near = own_length.abs_diff(length) as usize <= most && (own ^ letters).count_ones() as usize <= 2 * most;
        is_near || (own & !letters == 0 && length > own_length && length <= own_length + ENDING_MAX as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::query_words;
    use super::*;

    #[test]
    fn slips_are_forgiven() {
        let mut terms = Dictionary::default();
        for stem in ["search", "repositori", "delet", "calendar", "calend", "file", "issu", "log"] {
            terms.insert(stem);
        }
        for (word, expected) in [
            ("serach", &["search"][..]),
            ("searhc", &["search"]),
            ("seach", &["search"]),
            ("repostiory", &["repositori"]),
            ("reposotories", &["repositori"]),
            ("deelte", &["delet"]),
            ("isseu", &["issu"]),
            ("calender", &["calend"]),
            ("repos", &["repo"]),
            ("lgo", &[]),
            ("qqqqq", &[]),
            ("查询用户", &[]),
        ] {
            let words = query_words(word);
            let found = readings(&words[0], &terms, Vocabulary::embedded());
            let stems: Vec<_> = found.iter().map(|(stem, _)| stem.as_str()).collect();
            assert_eq!(stems, expected, "{word}");
        }
    }

    #[test]
    fn words_that_no_tool_has_are_read_too() {
        let words = query_words("weathre");
        let found = readings(&words[0], &Dictionary::default(), Vocabulary::embedded());
        assert!(found.iter().any(|(stem, _)| stem == "weather"), "{found:?}");
    }
}
