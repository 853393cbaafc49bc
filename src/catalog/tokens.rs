//! Owns the making of search terms from text: words, without the most common ones, reduced to their stems.
//! It does not know what is searched.

use rust_stemmers::{Algorithm, Stemmer};

use crate::policy::words;

/// Longer words are keys, hashes or encoded data, not language.
const WORD_MAX: usize = 48;
/// How much of a query is read, in bytes.
const QUERY_MAX: usize = 8 * 1024;
/// How many different terms of a query count.
const TERMS_MAX: usize = 64;
/// The weight of what is probably a value (quoted text, addresses, file names, numbers) beside that of other words.
const VALUE_WEIGHT: f32 = 0.3;

/// Words that say nothing about what a tool does; sorted.
const STOP_WORDS: &[&str] = &[
    "a", "about", "above", "after", "again", "all", "along", "already", "also", "although", "am", "an", "and", "any",
    "are", "as", "at", "be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can",
    "cannot", "could", "d", "did", "do", "does", "doing", "done", "down", "during", "each", "either", "else", "etc",
    "ever", "every", "few", "for", "from", "further", "given", "goes", "going", "had", "has", "have", "having", "he",
    "hello", "help", "her", "here", "hers", "hey", "hi", "him", "his", "how", "however", "i", "if", "in", "instead",
    "into", "is", "it", "its", "itself", "just", "kindly", "know", "let", "like", "ll", "m", "may", "maybe", "me",
    "might", "mine", "more", "most", "much", "must", "my", "myself", "need", "needs", "neither", "no", "nor", "not",
    "now", "of", "off", "ok", "on", "once", "one", "only", "onto", "or", "other", "others", "our", "ours", "out",
    "over", "own", "per", "please", "quite", "rather", "re", "really", "s", "same", "shall", "she", "should", "since",
    "so", "some", "such", "sure", "t", "than", "thank", "thanks", "that", "the", "their", "theirs", "them", "then",
    "there", "these", "they", "thing", "this", "those", "through", "thus", "to", "too", "under", "until", "up", "upon",
    "us", "using", "ve", "very", "via", "want", "wants", "was", "we", "were", "what", "whatever", "when", "whenever",
    "where", "whether", "which", "while", "who", "whom", "whose", "why", "will", "wish", "with", "within", "without",
    "would", "yes", "yet", "you", "your", "yours", "yourself",
];

/// Calls `see` with every word of the text in lower case, oversized ones left out; Chinese, Japanese and Korean text gives
/// its pairs of characters.
pub(crate) fn each_word(text: &str, mut see: impl FnMut(&str)) {
    let mut lower = String::new();
    for word in words(text) {
        if word.len() > WORD_MAX && word.is_ascii() {
            continue;
        }
        if word.is_ascii() {
            lower.clear();
            lower.push_str(word);
            lower.make_ascii_lowercase();
            see(&lower);
        } else {
            each_run(word, &mut see);
        }
    }
}

/// Splits a word into runs of CJK characters, given as pairs, and of others.
fn each_run(word: &str, see: &mut impl FnMut(&str)) {
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let is_cjk_run = is_cjk(first);
        let end = rest.find(|c| is_cjk(c) != is_cjk_run).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if is_cjk_run {
            each_pair(run, see);
        } else if run.len() <= WORD_MAX {
            see(&run.to_lowercase());
        }
    }
}

fn each_pair(run: &str, see: &mut impl FnMut(&str)) {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    if starts.len() == 2 {
        see(run);
    }
    for pair in starts.windows(3) {
        see(&run[pair[0]..pair[2]]);
    }
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{2FA1F}')
}

/// Whether a word says nothing about what a tool does.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// The stemmer of all terms.
pub(crate) fn stemmer() -> Stemmer {
    Stemmer::create(Algorithm::English)
}

/// The terms of a query with their weights, each once, in the order in which they come.
pub(crate) fn query_terms(query: &str) -> Vec<(String, f32)> {
    let end = (0..=QUERY_MAX.min(query.len())).rev().find(|&at| query.is_char_boundary(at)).unwrap_or_default();
    let query = &query[..end];
    let stemmer = stemmer();
    let mut terms: Vec<(String, f32)> = Vec::new();
    for (part, weight) in weighted_parts(query) {
        each_word(part, |word| {
            if is_stop_word(word) {
                return;
            }
            let is_number = word.bytes().all(|c| c.is_ascii_digit());
            let weight = if is_number { VALUE_WEIGHT } else { weight };
            let stem = stemmer.stem(word);
            if let Some((_, known)) = terms.iter_mut().find(|(term, _)| *term == *stem) {
                *known = known.max(weight);
            } else if terms.len() < TERMS_MAX {
                terms.push((stem.into_owned(), weight));
            }
        });
    }
    terms
}

/// Cuts a query into quoted parts and single words, with the weight of each.
fn weighted_parts(query: &str) -> Vec<(&str, f32)> {
    let mut parts = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        rest = &rest[start..];
        let end = match quoted_end(rest) {
            Some(end) => {
                parts.push((&rest[..end], VALUE_WEIGHT));
                end
            }
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let word = &rest[..end];
                parts.push((word, if is_value(word) { VALUE_WEIGHT } else { 1.0 }));
                end
            }
        };
        rest = &rest[end..];
    }
    parts
}

/// Where the quoted text ends with which a text starts.
fn quoted_end(text: &str) -> Option<usize> {
    let open = text.chars().next()?;
    let close = match open {
        '"' | '\'' | '`' => open,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let body = open.len_utf8();
    text[body..].char_indices().filter(|&(_, c)| c == close).map(|(at, c)| body + at + c.len_utf8()).find(|&end| {
        // An apostrophe within a word closes nothing.
        close != '\'' || !text[end..].starts_with(char::is_alphanumeric)
    })
}

/// Whether a word looks like an address or a file name.
fn is_value(word: &str) -> bool {
    let word = word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '/');
    if word.contains("://") || word.starts_with("www.") {
        return true;
    }
    if let Some((_, domain)) = word.split_once('@') {
        return domain.contains('.');
    }
    word.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (2..=4).contains(&extension.len())
            && extension.bytes().all(|c| c.is_ascii_alphanumeric())
            && extension.bytes().any(|c| c.is_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.to_owned()));
        words.retain(|word| !is_stop_word(word));
        words
    }

    #[test]
    fn texts_become_words() {
        assert!(STOP_WORDS.is_sorted());
        for (text, expected) in [
            (
                "Get the getHTTPResponse_v2 of a user's file",
                &["get", "get", "http", "response", "v", "2", "user", "file"][..],
            ),
            ("查询用户 天 x", &["查询", "询用", "用户", "天", "x"]),
            ("Größe查询Über", &["größe", "查询", "über"]),
            ("🙂 .*+?[(", &[]),
            (&"x".repeat(WORD_MAX + 1), &[]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn values_weigh_less() {
        for (query, expected) in [
            ("create issues creating", &[("creat", 1.0), ("issu", 1.0)][..]),
            ("rename 'Q3 plan' it's plan", &[("renam", 1.0), ("q", 0.3), ("3", 0.3), ("plan", 1.0)]),
            ("open report.txt", &[("open", 1.0), ("report", 0.3), ("txt", 0.3)]),
            (
                "mail bob@acme.io, “big news”",
                &[("mail", 1.0), ("bob", 0.3), ("acm", 0.3), ("io", 0.3), ("big", 0.3), ("news", 0.3)],
            ),
            ("see https://x.org/deploy", &[("see", 1.0), ("https", 0.3), ("x", 0.3), ("org", 0.3), ("deploy", 0.3)]),
            ("say \"unclosed", &[("say", 1.0), ("unclos", 1.0)]),
        ] {
            let terms = query_terms(query);
            let terms: Vec<_> = terms.iter().map(|(term, weight)| (term.as_str(), *weight)).collect();
            assert_eq!(terms, expected, "{query}");
        }
    }

    #[test]
    fn queries_are_bounded() {
        let long: String = (0..5000).map(|at| format!("w{} é{at}🙂 ", "abcdefghij".repeat(at % 3))).collect();
        assert!(query_terms(&long).len() <= TERMS_MAX);
        assert_eq!(query_terms(&"é".repeat(QUERY_MAX)), []);
    }
}
