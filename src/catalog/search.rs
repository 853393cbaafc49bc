//! Owns the search index over a catalog: BM25F over names, descriptions, parameters and the source's summary, with exact
//! names first. It borrows nothing from the catalog, and refers to its entries by their places.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::Catalog;
use super::indexing::Builder;
use super::postings::Postings;
use super::tokens::query_terms;
use crate::name::SourceId;

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
    pub(super) terms: HashMap<Box<str>, u32>,
    pub(super) postings: Postings,
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
        // Positive floats sort as their bits do: best score first, then by document.
        let mut keys: Vec<u64> = scores
            .iter()
            .zip(range)
            .filter(|(score, _)| **score > 0.0)
            .map(|(score, document)| (u64::from(!score.to_bits()) << 32) | u64::from(document))
            .collect();
        let total = keys.len();
        let end = skip.saturating_add(limit).min(total);
        if end < total {
            keys.select_nth_unstable(end);
            keys.truncate(end);
        }
        keys.sort_unstable();
        let hits = keys.into_iter().skip(skip).map(|key| {
            let (toolset, entry) = self.documents[key as u32 as usize];
            Hit { toolset, entry, score: f32::from_bits(!((key >> 32) as u32)) }
        });
        (hits.collect(), total)
    }

    /// The score of each document in the range.
    fn scores(&self, query: &str, range: &Range<u32>) -> Vec<f32> {
        let mut scores = vec![0.0_f32; range.len()];
        for (term, weight) in query_terms(query) {
            let Some(&term) = self.terms.get(term.as_str()) else { continue };
            let worth = weight * self.postings.idf(term);
            self.postings.each(term, |document, impact| {
                if document >= range.end {
                    return false;
                }
                if document >= range.start {
                    scores[(document - range.start) as usize] += worth * impact;
                }
                true
            });
        }
        self.lift_exact(query, range, &mut scores);
        scores
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
            assert_eq!(found(query, None), expected, "{query}");
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
