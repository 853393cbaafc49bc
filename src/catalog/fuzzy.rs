//! Owns the reading of mistyped words: which known stems a word in no vocabulary may stand for. It does not decide which
//! words are mistyped.

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
/// What a reading is worth by the number of slips.
const WORTHS: [f32; 3] = [0.9, 0.9, 0.7];

/// The stems that a word may stand for, best first, each with its worth; those of the index before all others.
pub(super) fn readings(word: &QueryWord, terms: &Dictionary, vocabulary: &Vocabulary) -> Vec<(String, f32)> {
    if word.word.len() < WORD_MIN || !word.word.bytes().all(|c| c.is_ascii_lowercase()) {
        return Vec::new();
    }
    let known = best(word, (0..terms.len() as u32).map(|term| terms.text(term)));
    if known.is_empty() { best(word, vocabulary.stems()) } else { known }
}

fn best<'a>(word: &QueryWord, stems: impl Iterator<Item = &'a str>) -> Vec<(String, f32)> {
    let mut least = if word.word.len() >= LONG { 2 } else { 1 };
    let letters = (letters(&word.word), letters(&word.stem));
    let mut found: Vec<(usize, bool, bool, &str)> = Vec::new();
    for stem in stems {
        if let Some(slips) = slips(word, letters, stem, least) {
            least = slips;
            // Letters that changed places are the commonest slip, and the first letter is seldom wrong.
            let is_mixed = is_anagram(stem, &word.word) || is_anagram(stem, &word.stem);
            found.push((slips, !is_mixed, stem.as_bytes()[0] != word.word.as_bytes()[0], stem));
        }
    }
    found.sort_unstable();
    let rank = |&(slips, is_mixed, starts, _): &(usize, bool, bool, &str)| (slips, is_mixed, starts);
    let best = found.first().map(rank);
    found.retain(|reading| Some(rank(reading)) == best);
    found.into_iter().take(READINGS_MAX).map(|(slips, .., stem)| (stem.to_owned(), WORTHS[slips])).collect()
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
fn slips(word: &QueryWord, letters_of: (u32, u32), known: &str, most: usize) -> Option<usize> {
    let (shortest, longest) = (word.stem.len().saturating_sub(most), word.word.len() + ENDING_MAX);
    if known.len() + 1 < WORD_MIN || !(shortest..=longest).contains(&known.len()) {
        return None;
    }
    if known.starts_with(&word.word) {
        return Some(1);
    }
    let own = letters(known);
    // Each slip changes at most two letters.
    let is_near = |other: u32| (own ^ other).count_ones() as usize <= 2 * most;
    let against = |other: &str, letters: u32| {
        let in_reach = known.len().abs_diff(other.len()) <= most && is_near(letters);
        in_reach.then(|| strsim::osa_distance(other, known)).filter(|&slips| slips <= most)
    };
    match (against(&word.word, letters_of.0), against(&word.stem, letters_of.1)) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Which letters a word has, as bits.
fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |letters, c| letters | 1 << (c & 31))
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
