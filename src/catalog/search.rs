//! Owns the search index over a catalog: BM25F over names, descriptions, parameters and the source's summary, widened by
//! what may stand for a word, with a second look at the best and exact names first. It borrows nothing from the catalog,
//! and refers to its entries by their places.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::Catalog;
use super::dictionary::Dictionary;
use super::indexing::Builder;
use super::postings::Postings;
use super::question::{Group, Question};
use super::rerank::SecondLook;
use super::sequences::Sequences;
use crate::name::SourceId;

/// What the tools gain of the source that fits a query best, beside the best match (1).
const SOURCE_LIFT: f32 = 0.5;
/// How many of the best tools are looked at once more.
const LOOK_AGAIN: usize = 128;

/// A tool found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The position of its toolset in the catalog.
    pub toolset: u32,
    /// The position of its entry in the toolset.
    pub entry: u32,
    /// Greater is better; comparable within one search only.
    pub score: f32,
}

/// A search index over the entries of one catalog that are not hidden.
#[derive(Debug, Default)]
pub struct Index {
    /// The place of each document, in the catalog's order.
    pub(super) documents: Vec<(u32, u32)>,
    /// The documents of each source.
    pub(super) sources: HashMap<SourceId, Range<u32>>,
    /// The documents with a certain name, by its hash; sorted.
    pub(super) names: Vec<(u64, u32)>,
    pub(super) terms: Dictionary,
    pub(super) postings: Postings,
    /// The postings of sources, by the toolset's position.
    pub(super) source_postings: Postings,
    pub(super) sequences: Sequences,
    /// The meaning of each document, one after another.
    pub(super) meanings: Vec<i8>,
}

impl Index {
    /// Indexes every entry that is loaded and not hidden.
    pub fn build(catalog: &Catalog) -> Self {
        Builder::default().index(catalog)
    }

    /// How many tools are indexed.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// All tools that have anything to do with the query, best first, then by provider, source and tool.
    pub fn find(&self, query: &str, source: Option<&str>) -> Vec<Hit> {
        self.find_page(query, source, 0, usize::MAX).0
    }

    /// A part of what [`find`](Self::find) gives, without sorting the rest, and how many there are in all.
    pub fn find_page(&self, query: &str, source: Option<&str>, skip: usize, limit: usize) -> (Vec<Hit>, usize) {
        if self.is_empty() {
            // Sources without tools have words all the same, and no postings.
            return (Vec::new(), 0);
        }
        let range = match source {
            None => 0..self.documents.len() as u32,
            Some(source) => self.sources.get(source).cloned().unwrap_or_default(),
        };
        let scores = self.scores(query, &range);
        let total = scores.iter().filter(|score| **score > 0.0).count();
        let mut keys = best_keys(&scores, skip.saturating_add(limit));
        keys.sort_unstable();
        let hits = keys.into_iter().skip(skip).map(|key| {
            let (toolset, entry) = self.documents[(range.start + document_of(key)) as usize];
            Hit { toolset, entry, score: f32::from_bits(!((key >> 32) as u32)) }
        });
        (hits.collect(), total)
    }

    /// The score of each document in the range.
    fn scores(&self, query: &str, range: &Range<u32>) -> Vec<f32> {
        let question = Question::new(query, &self.terms, &self.postings);
        let mut scores = weigh(&self.postings, &question.groups, range);
        let best = scores.iter().copied().fold(0.0, f32::max);
        if best > 0.0 {
            let lifts = self.source_lifts(&question.groups, range);
            let documents = &self.documents[range.start as usize..range.end as usize];
            for (score, (toolset, _)) in scores.iter_mut().zip(documents).filter(|(score, _)| **score > 0.0) {
                *score = *score / best + lifts.get(*toolset as usize).copied().unwrap_or_default();
            }
            self.look_again(&question, range, &mut scores);
        }
        self.lift_exact(query, range, &mut scores);
        scores
    }

    /// What each source's tools gain because the query fits the source; nothing within a single one.
    fn source_lifts(&self, groups: &[Group], range: &Range<u32>) -> Vec<f32> {
        if range.len() < self.documents.len() {
            return Vec::new();
        }
        let mut scores = weigh(&self.source_postings, groups, &(0..self.source_postings.documents()));
        let best = scores.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        scores.iter_mut().for_each(|score| *score *= SOURCE_LIFT / best);
        scores
    }

    /// Looks at the best once more. As scores only grow, those that are not looked at stay behind them.
    fn look_again(&self, question: &Question, range: &Range<u32>, scores: &mut [f32]) {
        let mut look = SecondLook::new(self, question);
        for key in best_keys(scores, LOOK_AGAIN) {
            let at = document_of(key);
            scores[at as usize] += look.bonus(range.start + at);
        }
    }

    /// Puts the tools before all others that are named in the query: by the whole query, or by one word with a separator.
    fn lift_exact(&self, query: &str, range: &Range<u32>, scores: &mut [f32]) {
        let is_quote =
            |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | ':' | '(' | ')' | '?' | '!');
        let whole = query.trim_matches(is_quote);
        let words = query.split_whitespace().map(|word| word.trim_matches(is_quote));
        let words = words.filter(|word| word.contains(['_', '-', '/', '.'])).take(64);
        let mut lifted: Vec<u32> = Vec::new();
        for name in std::iter::once(whole).chain(words).filter(|name| !name.is_empty() && name.len() <= 256) {
            let hash = name_hash(name);
            let first = self.names.partition_point(|&(known, _)| known < hash);
            let same = self.names[first..].iter().take_while(|&&(known, _)| known == hash);
            lifted.extend(same.map(|&(_, document)| document).filter(|document| range.contains(document)));
        }
        if lifted.is_empty() {
            return;
        }
        lifted.sort_unstable();
        lifted.dedup();
        let best = scores.iter().copied().fold(0.0, f32::max);
        for document in lifted {
            scores[(document - range.start) as usize] += best + 1.0;
        }
    }
}

/// The score of each document in the range: the sum over the groups of the best of each group's terms.
fn weigh(postings: &Postings, groups: &[Group], range: &Range<u32>) -> Vec<f32> {
    let mut scores = vec![0.0_f32; range.len()];
    // The last group that a document had a part in, and its best there.
    let mut bests = vec![(0_u32, 0.0_f32); range.len()];
    for (group, number) in groups.iter().zip(1..) {
        // What stands for a word is no rarer than the word.
        let most = if group.leads { postings.idf(group.members[0].0) } else { f32::INFINITY };
        for &(term, share) in &group.members {
            let worth = group.weight * share * postings.idf(term).min(most);
            postings.each(term, range, |document, impact| {
                let at = (document - range.start) as usize;
                let gain = worth * impact;
                let (last, best) = &mut bests[at];
                if *last != number {
                    (*last, *best) = (number, gain);
                    scores[at] += gain;
                } else if gain > *best {
                    scores[at] += gain - *best;
                    *best = gain;
                }
            });
        }
    }
    scores
}

/// The documents with any score, as keys that sort by score, best first, then by document; only the first `limit`, in no
/// order.
fn best_keys(scores: &[f32], limit: usize) -> Vec<u64> {
    // Positive floats sort as their bits do.
    let mut keys: Vec<u64> = scores
        .iter()
        .zip(0_u64..)
        .filter(|(score, _)| **score > 0.0)
        .map(|(score, document)| (u64::from(!score.to_bits()) << 32) | document)
        .collect();
    if limit < keys.len() {
        keys.select_nth_unstable(limit);
        keys.truncate(limit);
    }
    keys
}

fn document_of(key: u64) -> u32 {
    key as u32
}

/// Names are compared without regard to case.
pub(super) fn name_hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.to_lowercase().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Listing, ServerNote, Toolset, ToolsetSpec};
    use super::*;
    use crate::config::{ToolOverride, ToolRules};

    fn toolset(id: &str, summary: &str, raws: &[&str]) -> Arc<Toolset> {
        let id = SourceId::new(id).unwrap();
        let hidden = ToolOverride { hidden: true, ..ToolOverride::default() };
        let rules = ToolRules { tools: [("secret".to_owned(), hidden)].into(), ..ToolRules::default() };
        let spec = ToolsetSpec {
            id: &id,
            name: "",
            provider: id.as_str(),
            summary: Some(summary),
            prefix: id.as_str(),
            rules: &rules,
        };
        Arc::new(Toolset::build(&spec, &Listing::new(raws.iter().map(|&raw| raw.into()), ServerNote::default(), None)))
    }

    fn catalog() -> Catalog {
        let files = toolset(
            "files",
            "The local disk.",
            &[
                r#"{"name":"read_file","description":"Reads a text file.","inputSchema":{"properties":{"path":{}}}}"#,
                r#"{"name":"write_file","description":"Writes text to a file.","inputSchema":{"anyOf":[{"properties":
                    {"mode":{"enum":["append","truncate"],"description":"What happens to old bytes"}}}]}}"#,
                r#"{"name":"secret","description":"Reads a file in secret."}"#,
            ],
        );
        let mail = toolset(
            "mail",
            "Letters.",
            &[
                r#"{"name":"search","description":"Finds letters by text."}"#,
                r#"{"name":"sendLetter","title":"Post office","inputSchema":{"maximum":1e400}}"#,
                r#"{"name":"查询用户","description":"查询"}"#,
            ],
        );
        Catalog::build(vec![mail, files])
    }

    fn found(query: &str, source: Option<&str>) -> Vec<String> {
        let catalog = catalog();
        let index = Index::build(&catalog);
        let hits = index.find(query, source);
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
        let entry = |hit: &Hit| &catalog.toolsets[hit.toolset as usize].entries[hit.entry as usize];
        hits.iter().map(|hit| format!("{}/{}", entry(hit).source, entry(hit).tool)).collect()
    }

    #[test]
    fn the_best_tool_comes_first() {
        for (query, expected) in [
            ("read a file", &["files/read_file", "files/write_file"][..]),
            ("append bytes", &["files/write_file"]),
            ("sending letters", &["mail/sendLetter", "mail/search", "mail/查询用户"]),
            ("post office", &["mail/sendLetter"]),
            ("用户", &["mail/查询用户"]),
            ("path", &["files/read_file"]),
            ("secret", &[]),
            ("xyzzy", &[]),
            ("", &[]),
            ("the of and", &[]),
            (".*+?[({^$|\\ 🙂\u{0}", &[]),
        ] {
            let found = found(query, None);
            assert!(
                found.starts_with(&expected.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()),
                "{query}: {found:?}"
            );
            assert_eq!(found.is_empty(), expected.is_empty(), "{query}: {found:?}");
        }
    }

    #[test]
    fn exact_names_come_before_all() {
        for (query, expected) in [
            ("search", "mail/search"),
            ("mail/search", "mail/search"),
            ("Files__Write_File", "files/write_file"),
            ("read text file text file with `files/write_file`", "files/write_file"),
            ("SENDLETTER", "mail/sendLetter"),
        ] {
            assert_eq!(found(query, None).first().map(String::as_str), Some(expected), "{query}");
        }
    }

    #[test]
    fn any_spelling_finds() {
        for query in [
            "write_file",
            "writeFile",
            "write files",
            "writing a file",
            "wrtie a flie",
            "WRITE FILE!",
            "files/write_file",
            "persist a document",
            "write \"search the letters\" to a file",
            "🙂 write 🙂 file",
            "write file frobnicate xyzzy",
        ] {
            assert_eq!(found(query, None).first().map(String::as_str), Some("files/write_file"), "{query}");
        }
        assert_eq!(found("查询所有的用户", None), ["mail/查询用户"]);
    }

    #[test]
    fn one_strange_word_hides_nothing() {
        for query in ["read file", "letters by text", "send"] {
            let mut plain = found(query, None);
            let mut strange = found(&format!("{query} qwxzjk"), None);
            plain.sort_unstable();
            strange.sort_unstable();
            assert_eq!(plain, strange, "{query}");
        }
    }

    #[test]
    fn the_same_query_gives_the_same_order() {
        let (a, b) = (Index::build(&catalog()), Index::build(&catalog()));
        for query in ["text", "file letter text", "serach lettres", &"read a file and ".repeat(320)] {
            assert_eq!(a.find(query, None), b.find(query, None), "{query}");
        }
    }

    #[test]
    fn a_source_can_be_given() {
        assert_eq!(found("text", Some("mail")), ["mail/search"]);
        assert_eq!(found("read_file", Some("mail")), [""; 0]);
        assert_eq!(found("text", Some("nowhere")), [""; 0]);
    }

    #[test]
    fn pages_are_parts_of_the_whole() {
        let index = Index::build(&catalog());
        let all = index.find("text file letter", None);
        assert_eq!((index.len(), all.len()), (5, 5));
        for skip in 0..7 {
            for limit in 0..7 {
                let part: Vec<_> = all.iter().copied().skip(skip).take(limit).collect();
                assert_eq!(index.find_page("text file letter", None, skip, limit), (part, 5), "{skip} {limit}");
            }
        }
    }

    #[test]
    fn long_queries_are_bounded() {
        let long: String = (0..1000).map(|at| format!("file{} \"é🙂' ", at)).collect();
        assert!(!found(&long, None).is_empty());
    }

    #[test]
    fn a_catalog_without_tools_is_searched_without_harm() {
        let index = Index::build(&Catalog::build(vec![toolset("notes", "Short notes.", &[])]));
        assert_eq!(index.find("notes", None), []);
        assert_eq!(index.find("notes", Some("notes")), []);
    }
}
