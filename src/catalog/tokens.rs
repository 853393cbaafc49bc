//! Owns the making of search terms from text: words, without the most common ones, reduced to their stems.
//! It does not know what is searched.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use crate::policy::words;

/// Longer words are keys, hashes or encoded data, not language.
const WORD_MAX: usize = 48;
/// How much of a query is read, in bytes.
const QUERY_MAX: usize = 8 * 1024;
/// How many different terms of a query count.
const TERMS_MAX: usize = 64;
/// The weight of what is probably a value (quoted text, addresses, file names, numbers) beside that of other words.
const VALUE_WEIGHT: f32 = 0.3;

/// Stop-words that say in a query what is wanted, though not in a tool.
const ASKING_WORDS: &[&str] = &["when", "where", "who", "whose"];

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

/// A compound of more parts, or of more bytes, is a whole name rather than a word (`getHTTPResponse`, not `GitHub`).
const COMPOUND_PARTS_MAX: usize = 3;
const COMPOUND_MAX: usize = 12;

/// Abbreviations whose plural does not look like one.
const ABBREVIATIONS: &[&str] = &["cd", "cpu", "db", "dvd", "gpu", "mp", "pdf", "pr", "tv", "vm", "vpn"];

/// Calls `see` with every word of the text in lower case, oversized ones left out; Chinese, Japanese and Korean text gives
/// its pairs of characters. A compound such as `GitHub` or `k8s` is given after its parts, with their number; others have 0.
pub(crate) fn each_word(text: &str, mut see: impl FnMut(&str, usize)) {
    let text = &composed(text);
    let mut lower = String::new();
    each_chunk(text, |chunk| {
        let chunk = singular(chunk);
        // Most words need no more than a look.
        if chunk.bytes().all(|c| c.is_ascii_lowercase()) {
            if chunk.len() <= WORD_MAX {
                see(chunk, 0);
            }
            return;
        }
        let mut parts = 0;
        for word in words(chunk) {
            parts += 1;
            if word.len() > WORD_MAX && word.is_ascii() {
                continue;
            }
            if word.is_ascii() {
                lower.clear();
                lower.push_str(word);
                lower.make_ascii_lowercase();
                see(&lower, 0);
            } else {
                each_run(word, &mut |run| see(run, 0));
            }
        }
        if (2..=COMPOUND_PARTS_MAX).contains(&parts) && chunk.len() <= COMPOUND_MAX && chunk.is_ascii() {
            lower.clear();
            lower.push_str(chunk);
            lower.make_ascii_lowercase();
            see(&lower, parts);
        }
    });
}

/// The text in one form, whichever its writer composed its characters in (NFKC): letters and their marks as one, full width as
/// plain.
fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkc().collect())
}

/// Calls `see` with every run of letters and digits.
fn each_chunk(text: &str, mut see: impl FnMut(&str)) {
    if !text.is_ascii() {
        return text.split(|c: char| !c.is_alphanumeric()).filter(|chunk| !chunk.is_empty()).for_each(see);
    }
    let mut rest = text;
    while let Some(start) = rest.bytes().position(|c| c.is_ascii_alphanumeric()) {
        let after = rest[start..].bytes().position(|c| !c.is_ascii_alphanumeric());
        let end = after.map_or(rest.len(), |length| start + length);
        see(&rest[start..end]);
        rest = &rest[end..];
    }
}

/// A word without the `s` of many abbreviations (`PRs`, `VMs`, `gpus`), which no stemmer knows.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(one) if one.len() >= 2 && one.bytes().all(|c| c.is_ascii_uppercase()) => one,
        Some(one) if ABBREVIATIONS.contains(&one) => one,
        _ => word,
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

/// A word of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryWord {
    /// In lower case.
    pub word: String,
    pub stem: String,
    pub weight: f32,
    /// How many of the words before it are its parts, if it is a compound.
    pub parts: usize,
}

/// The words of a query, each stem once, in the order in which they come.
pub(crate) fn query_words(query: &str) -> Vec<QueryWord> {
    let end = (0..=QUERY_MAX.min(query.len())).rev().find(|&at| query.is_char_boundary(at)).unwrap_or_default();
    let query = &query[..end];
    let stemmer = stemmer();
    let mut found: Vec<QueryWord> = Vec::new();
    for (part, weight) in weighted_parts(query) {
        // For each simple word of this part, whether it is in `found` because of it.
        let mut is_new = Vec::new();
        each_word(part, |word, parts| {
            let is_simple = parts == 0;
            let parts = is_new.iter().rev().take(parts).filter(|is_new| **is_new).count();
            if is_simple {
                is_new.push(false);
            }
            let asks = ASKING_WORDS.contains(&word);
            if is_stop_word(word) && !asks {
                return;
            }
            let is_number = word.bytes().all(|c| c.is_ascii_digit());
            let weight = if is_number || asks { VALUE_WEIGHT } else { weight };
            let stem = stemmer.stem(word);
            if let Some(known) = found.iter_mut().find(|known| known.stem == *stem) {
                known.weight = known.weight.max(weight);
            } else if found.len() < TERMS_MAX {
                if let Some(last) = is_new.last_mut().filter(|_| is_simple) {
                    *last = true;
                }
                found.push(QueryWord { word: word.to_owned(), stem: stem.into_owned(), weight, parts });
            }
        });
    }
    found
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
        each_word(text, |word, _| words.push(word.to_owned()));
        words.retain(|word| !is_stop_word(word));
        words
    }

    /// As texts from macOS are written, and from Japanese keyboards.
    #[test]
    fn words_are_the_same_however_they_are_composed() {
        for (written, plain) in [
            ("\u{1111}\u{1161}\u{110b}\u{1175}\u{11af}", "파일"),
            ("U\u{308}bertra\u{308}gt", "überträgt"),
            ("ｓｅａｒｃｈ", "search"),
            ("ﾃﾞｰﾀ", "データ"),
        ] {
            assert_eq!(found(written), found(plain), "{written}");
            assert_eq!(query_words(written), query_words(plain), "{written}");
        }
    }

    #[test]
    fn texts_become_words() {
        assert!(STOP_WORDS.is_sorted());
        for (text, expected) in [
            (
                "Get the getHTTPResponse_v2 of a user's file",
                &["get", "get", "http", "response", "v", "2", "v2", "user", "file"][..],
            ),
            ("GitHub k8s OneDrive", &["git", "hub", "github", "k", "8", "k8s", "drive", "onedrive"]),
            ("list PRs, two VMs, https dns", &["list", "pr", "two", "vm", "https", "dns"]),
            ("readVeryLongTextFile", &["read", "long", "text", "file"]),
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
            ("rename 'Q3 plan' it's plan", &[("renam", 1.0), ("q", 0.3), ("3", 0.3), ("q3", 0.3), ("plan", 1.0)]),
            ("open report.txt", &[("open", 1.0), ("report", 0.3), ("txt", 0.3)]),
            (
                "mail bob@acme.io, “big news”",
                &[("mail", 1.0), ("bob", 0.3), ("acm", 0.3), ("io", 0.3), ("big", 0.3), ("news", 0.3)],
            ),
            ("see https://x.org/deploy", &[("see", 1.0), ("https", 0.3), ("x", 0.3), ("org", 0.3), ("deploy", 0.3)]),
            ("say \"unclosed", &[("say", 1.0), ("unclos", 1.0)]),
        ] {
            let words = query_words(query);
            let terms: Vec<_> = words.iter().map(|word| (word.stem.as_str(), word.weight)).collect();
            assert_eq!(terms, expected, "{query}");
        }
    }

    #[test]
    fn queries_are_bounded() {
        let long: String = (0..5000).map(|at| format!("w{} é{at}🙂 ", "abcdefghij".repeat(at % 3))).collect();
        assert!(query_words(&long).len() <= TERMS_MAX);
        assert_eq!(query_words(&"é".repeat(QUERY_MAX)), []);
    }

    #[test]
    fn compounds_know_their_parts() {
        for (query, expected) in [
            ("my GitHub repo", &[("git", 0), ("hub", 0), ("github", 2), ("repo", 0)][..]),
            ("git and file/GitHub", &[("git", 0), ("file", 0), ("hub", 0), ("github", 1)]),
            ("who is where", &[("who", 0), ("where", 0)]),
        ] {
            let words = query_words(query);
            let parts: Vec<_> = words.iter().map(|word| (word.word.as_str(), word.parts)).collect();
            assert_eq!(parts, expected, "{query}");
        }
    }
}
