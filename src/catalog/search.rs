//! Owns the search index over a catalog: BM25F over names, descriptions, parameters and the source's summary, widened by
//! what may stand for a word, with a second look at the best and exact names first. It borrows nothing from the catalog,
//! and refers to its entries by their places.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::thread;

use super::Catalog;
use super::dictionary::Dictionary;
use super::indexing;
use super::known::Known;
use super::postings::Postings;
use super::question::{Group, Question};
use super::rerank::SecondLook;
use super::sequences::Sequences;
use crate::name::SourceId;

/// What the tools gain of the source that fits a query best, beside the best match (1).
const SOURCE_LIFT: f32 = 0.5;
/// How many of the best tools are looked at once more.
const LOOK_AGAIN: usize = 128;

/// A group with postings for fewer than one in so many documents is added up by these alone.
const FEW: usize = 16;
/// How many scores are looked at together.
const CHUNK: usize = 16;
/// How many threads make an index at most, and how many tools are worth one.
const THREADS_MAX: usize = 8;
const TOOLS_A_THREAD: usize = 2000;

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
#[derive(Debug, Default, PartialEq)]
pub struct Index {
    /// The place of each document, in the catalog's order.
    pub(super) documents: Vec<(u32, u32)>,
    /// The position of each source's toolset.
    pub(super) sources: HashMap<SourceId, u32>,
    /// The first document of each toolset, and the end of the last one's.
    pub(super) firsts: Vec<u32>,
    /// The documents with a certain name, by its hash; sorted.
    pub(super) names: Vec<(u64, u32)>,
    pub(super) terms: Dictionary,
    pub(super) known: Known,
    pub(super) postings: Postings,
    /// The postings of sources, by the toolset's position.
    pub(super) source_postings: Postings,
    pub(super) sequences: Sequences,
    /// The meaning of each document, one after another.
    pub(super) meanings: Vec<i8>,
}

impl Index {
    /// Indexes every entry that is loaded and not hidden, on as many threads as are of use.
    pub fn build(catalog: &Catalog) -> Self {
        let tools: usize = catalog.toolsets.iter().map(|toolset| toolset.entries.len()).sum();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        indexing::build(catalog, threads.min(tools / TOOLS_A_THREAD).max(1))
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
            Some(source) => {
                let toolset = self.sources.get(source).map(|&toolset| toolset as usize);
                toolset.map(|toolset| self.firsts[toolset]..self.firsts[toolset + 1]).unwrap_or_default()
            }
        };
        let (scores, best) = self.scores(query, &range);
        let total = scores.iter().filter(|score| **score > 0.0).count();
        let mut keys = match skip.saturating_add(limit) {
            wanted if wanted <= LOOK_AGAIN => {
                best.iter().map(|&document| key(scores[document as usize], document)).collect()
            }
            wanted => best_keys(&scores, wanted),
        };
        keys.sort_unstable();
        let hits = keys.into_iter().skip(skip).take(limit).map(|key| {
            let (toolset, entry) = self.documents[(range.start + document_of(key)) as usize];
            Hit { toolset, entry, score: score_of(key) }
        });
        (hits.collect(), total)
    }

    /// The score of each document in the range, counted from its start, and in no order the [`LOOK_AGAIN`] best, or a few
    /// more.
    fn scores(&self, query: &str, range: &Range<u32>) -> (Vec<f32>, Vec<u32>) {
        let question = Question::new(query, &self.terms, &self.known, &self.postings);
        let mut scores = weigh(&self.postings, &question.groups, range);
        let most = greatest(&scores);
        let mut best = Vec::new();
        if most > 0.0 {
            self.lift_sources(&question.groups, range, most, &mut scores);
            best = self.look_again(&question, range, &mut scores);
        }
        let exact = self.lift_exact(query, range, &mut scores);
        best.retain(|document| !exact.contains(document));
        best.extend(exact);
        (scores, best)
    }

    /// Brings the best score to 1, and adds to each what it gains because the query fits its source; nothing within a single
    /// one.
    fn lift_sources(&self, groups: &[Group], range: &Range<u32>, most: f32, scores: &mut [f32]) {
        if range.len() < self.documents.len() {
            return scores.iter_mut().for_each(|score| *score /= most);
        }
        let lifts = weigh(&self.source_postings, groups, &(0..self.source_postings.documents()));
        let lift = SOURCE_LIFT / greatest(&lifts).max(f32::MIN_POSITIVE);
        for (own, fit) in self.firsts.windows(2).zip(lifts) {
            let lift = fit * lift;
            for score in &mut scores[own[0] as usize..own[1] as usize] {
                *score = if *score > 0.0 { *score / most + lift } else { 0.0 };
            }
        }
    }

    /// Looks at the best once more, and gives them. As scores only grow, those that are not looked at stay behind them.
    fn look_again(&self, question: &Question, range: &Range<u32>, scores: &mut [f32]) -> Vec<u32> {
        let mut look = SecondLook::new(self, question);
        let best: Vec<u32> = best_keys(scores, LOOK_AGAIN).into_iter().map(document_of).collect();
        for &at in &best {
            scores[at as usize] += look.bonus(range.start + at);
        }
        best
    }

    /// Puts the tools before all others that are named in the query, by the whole query or by one word with a separator, and
    /// gives them.
    fn lift_exact(&self, query: &str, range: &Range<u32>, scores: &mut [f32]) -> Vec<u32> {
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
            return lifted;
        }
        lifted.sort_unstable();
        lifted.dedup();
        let lift = greatest(scores) + 1.0;
        for document in &mut lifted {
            *document -= range.start;
            scores[*document as usize] += lift;
        }
        lifted
    }
}

/// The score of each document in the range: the sum over the groups of the best of each group's terms.
fn weigh(postings: &Postings, groups: &[Group], range: &Range<u32>) -> Vec<f32> {
    let mut scores = vec![0.0_f32; range.len()];
    // What the group in hand counts in each document.
    let mut bests = vec![0.0_f32; range.len()];
    for group in groups {
        // What stands for a word is no rarer than the word.
        let most = if group.leads { postings.idf(group.members[0].0) } else { f32::INFINITY };
        for &(term, share) in &group.members {
            let worth = group.weight * share * postings.idf(term).min(most);
            postings.raise(term, range, worth, &mut bests);
        }
        let found: usize = group.members.iter().map(|&(term, _)| postings.count(term)).sum();
        if found > range.len() / FEW {
            for (score, best) in scores.iter_mut().zip(&mut bests) {
                *score += *best;
                *best = 0.0;
            }
            continue;
        }
        for &(term, _) in &group.members {
            postings.each(term, range, |document, _| {
                let at = (document - range.start) as usize;
                scores[at] += std::mem::take(&mut bests[at]);
            });
        }
    }
    scores
}

/// The documents with any score, as keys that sort by score, best first, then by document; only the first `limit`, in no
/// order.
fn best_keys(scores: &[f32], limit: usize) -> Vec<u64> {
    let mut keys: Vec<u64> = Vec::new();
    let room = limit.saturating_mul(2).max(1);
    // Only what is above this can be among the best: of equals, those that come first are.
    let mut least = 0.0;
    for (some, first) in scores.chunks(CHUNK).zip((0_u32..).step_by(CHUNK)) {
        if !some.iter().fold(false, |any, &score| any | (score > least)) {
            continue;
        }
        for (&score, document) in some.iter().zip(first..).filter(|&(&score, _)| score > least) {
            keys.push(key(score, document));
        }
        if keys.len() >= room {
            least = keep_best(&mut keys, limit);
        }
    }
    if keys.len() > limit {
        keep_best(&mut keys, limit);
    }
    keys
}

/// Keeps the `limit` best of more keys than that, and gives the least score kept.
fn keep_best(keys: &mut Vec<u64>, limit: usize) -> f32 {
    let least = limit.checked_sub(1).map(|last| *keys.select_nth_unstable(last).1);
    keys.truncate(limit);
    least.map_or(f32::INFINITY, score_of)
}

fn greatest(scores: &[f32]) -> f32 {
    // Several at once, as each comparison waits for the one before it.
    let (chunks, rest) = scores.as_chunks::<CHUNK>();
    let mut most = [0.0_f32; CHUNK];
    for chunk in chunks {
        for (most, score) in most.iter_mut().zip(chunk) {
            *most = most.max(*score);
        }
    }
    most.iter().chain(rest).copied().fold(0.0, f32::max)
}

fn key(score: f32, document: u32) -> u64 {
    // Positive floats sort as their bits do.
    (u64::from(!score.to_bits()) << 32) | u64::from(document)
}

fn score_of(key: u64) -> f32 {
    f32::from_bits(!((key >> 32) as u32))
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
