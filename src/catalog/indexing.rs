//! Owns the making of the search index: which words of a tool count, in which field, and how much.
//! It does not know how the index is asked.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;

use rust_stemmers::Stemmer;

use super::dictionary::Dictionary;
use super::known::Known;
use super::meaning::Mean;
use super::postings::{FIELDS, FieldWeight, Postings, PostingsBuilder};
use super::search::{Index, name_hash};
use super::sequences::Sequences;
use super::text::first_sentence;
use super::tokens::{each_word, is_stop_word, stemmer};
use super::vocabulary::{Stem, Vocabulary};
use super::walk::Walk;
use super::{Catalog, Entry, Toolset};

/// The fields of a tool.
const NAME: u8 = 0;
const TITLE: u8 = 1;
/// The first sentence of the description, which says what the tool does; and the rest of it.
const DESCRIPTION: u8 = 2;
const DETAIL: u8 = 3;
const PARAMETER: u8 = 4;
const PARAMETER_TEXT: u8 = 5;
const SOURCE: u8 = 6;
const SUMMARY: u8 = 7;
/// What a word in each field is worth. Names count once more in the second look.
const WEIGHTS: [FieldWeight; FIELDS] = [
    FieldWeight { weight: 0.9, b: 0.8 },
    FieldWeight { weight: 1.0, b: 0.8 },
    FieldWeight { weight: 0.8, b: 0.4 },
    FieldWeight { weight: 0.4, b: 0.4 },
    FieldWeight { weight: 0.8, b: 0.4 },
    FieldWeight { weight: 0.5, b: 0.4 },
    FieldWeight { weight: 0.1, b: 0.0 },
    FieldWeight { weight: 0.8, b: 0.6 },
];
/// The fields of a source: its names, its summary, and its tools' names and other words.
const SOURCE_NAME: u8 = 0;
const SOURCE_SUMMARY: u8 = 1;
const SOURCE_TOOLS: u8 = 2;
const SOURCE_TEXTS: u8 = 3;
const UNUSED: FieldWeight = FieldWeight { weight: 0.0, b: 0.0 };
const SOURCE_WEIGHTS: [FieldWeight; FIELDS] = [
    FieldWeight { weight: 3.0, b: 0.5 },
    FieldWeight { weight: 1.5, b: 0.5 },
    FieldWeight { weight: 0.5, b: 0.5 },
    FieldWeight { weight: 0.1, b: 0.5 },
    UNUSED,
    UNUSED,
    UNUSED,
    UNUSED,
];
/// How many words make up a tool's meaning, what those of its name count, and how much a word's rarity does.
const MEANING_WORDS: usize = 30;
const MEANING_NAME: f32 = 1.5;
const MEANING_RARITY: f32 = 0.7;
/// How many words of one tool are indexed.
const WORDS_MAX: usize = 4000;
/// How many words of one source are indexed.
const SOURCE_WORDS_MAX: usize = 40_000;
/// How deep a schema is indexed.
const DEPTH_MAX: usize = 12;

/// A part of an index in the making: some toolsets that follow one another.
struct Part {
    documents: Vec<(u32, u32)>,
    /// The first document of each toolset.
    firsts: Vec<u32>,
    names: Vec<(u64, u32)>,
    terms: Dictionary,
    /// Every word met so far, and its term, if it counts: stemming takes longer than looking it up.
    words: Dictionary,
    word_terms: Vec<Option<u32>>,
    stemmer: Stemmer,
    postings: PostingsBuilder,
    source_postings: PostingsBuilder,
    sequences: Sequences,
    /// The terms of the document in hand.
    found: Vec<(u32, u8)>,
    /// The terms of the source in hand.
    source: Vec<(u32, u8)>,
}

/// Indexes every entry that is loaded and not hidden. The index is the same, however many threads make it.
pub(super) fn build(catalog: &Catalog, threads: usize) -> Index {
    let parts = at_once(shares(catalog, threads), |share| Part::of(catalog, share));
    let mut index = Index {
        sources: catalog.toolsets.iter().zip(0..).map(|(toolset, at)| (toolset.id.clone(), at)).collect(),
        ..Index::default()
    };
    let (mut own, mut sources, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let first = index.documents.len() as u32;
        numbers.push(index.terms.take_in(part.terms));
        index.documents.extend(part.documents);
        index.firsts.extend(part.firsts.iter().map(|at| first + at));
        index.names.extend(part.names.iter().map(|&(name, document)| (name, first + document)));
        index.sequences.append(part.sequences, &numbers[numbers.len() - 1]);
        own.push(part.postings);
        sources.push(part.source_postings);
    }
    index.firsts.push(index.documents.len() as u32);
    index.names.sort_unstable();
    index.names.dedup();
    index.names.shrink_to_fit();
    index.documents.shrink_to_fit();
    index.terms.shrink();
    index.sequences.shrink();
    index.postings = join(own, &numbers, index.terms.len(), &WEIGHTS);
    index.source_postings = join(sources, &numbers, index.terms.len(), &SOURCE_WEIGHTS);
    let (known, stems) = Known::of(&index.terms, Vocabulary::embedded());
    index.known = known;
    index.meanings = meanings(&index, &stems, threads);
    index
}

/// The positions of the toolsets in parts with about as many tools each.
fn shares(catalog: &Catalog, count: usize) -> Vec<Range<usize>> {
    let total: usize = catalog.toolsets.iter().map(|toolset| toolset.entries.len()).sum();
    let (mut shares, mut start, mut seen) = (Vec::new(), 0, 0);
    for (toolset, next) in catalog.toolsets.iter().zip(1..) {
        seen += toolset.entries.len();
        if seen * count >= total * (shares.len() + 1) && shares.len() + 1 < count {
            shares.push(start..next);
            start = next;
        }
    }
    shares.push(start..catalog.toolsets.len());
    shares
}

/// Does work on all items at the same time, a thread for each; gives the outcomes in the order of the items.
fn at_once<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let mut items = items.into_iter();
        let first = items.next();
        let others: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        let first = first.map(work);
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        first.into_iter().chain(others).collect()
    })
}

fn join(parts: Vec<PostingsBuilder>, numbers: &[Vec<u32>], terms: usize, weights: &[FieldWeight; FIELDS]) -> Postings {
    let averages = PostingsBuilder::averages(parts.iter());
    let runs = at_once(parts, |part| part.turn(&averages, weights));
    Postings::joined(&runs, numbers, terms)
}

impl Part {
    fn new() -> Self {
        Self {
            documents: Vec::new(),
            firsts: Vec::new(),
            names: Vec::new(),
            terms: Dictionary::default(),
            words: Dictionary::default(),
            word_terms: Vec::new(),
            stemmer: stemmer(),
            postings: PostingsBuilder::default(),
            source_postings: PostingsBuilder::default(),
            sequences: Sequences::default(),
            found: Vec::new(),
            source: Vec::new(),
        }
    }

    /// Takes all tools of some toolsets.
    fn of(catalog: &Catalog, share: Range<usize>) -> Self {
        let mut part = Self::new();
        let first = share.start as u32;
        for (toolset, at) in catalog.toolsets[share].iter().zip(first..) {
            part.firsts.push(part.documents.len() as u32);
            let shared = part.shared_terms(toolset);
            part.source = shared
                .iter()
                .map(|&(term, field)| (term, if field == SOURCE { SOURCE_NAME } else { SOURCE_SUMMARY }))
                .collect();
            for (entry, position) in toolset.entries.iter().zip(0_u32..).filter(|(entry, _)| entry.is_for_models()) {
                let document = part.documents.len() as u32;
                let full = format!("{}/{}", entry.source, entry.tool);
                for name in [entry.tool.as_str(), &full, catalog.exposed_name(entry).as_str()] {
                    part.names.push((name_hash(name), document));
                }
                part.documents.push((at, position));
                part.add(entry, &shared);
            }
            part.source_postings.add(&part.source);
        }
        part
    }

    /// The terms that all tools of a toolset have.
    fn shared_terms(&mut self, toolset: &Toolset) -> Vec<(u32, u8)> {
        self.take(SOURCE, toolset.id.as_str());
        self.take(SOURCE, &toolset.name);
        self.take(SUMMARY, &toolset.summary);
        std::mem::take(&mut self.found)
    }

    fn add(&mut self, entry: &Entry, shared: &[(u32, u8)]) {
        let sheet = entry.read();
        let view = sheet.view();
        self.take(NAME, entry.tool.as_str());
        self.take(TITLE, &view.title().unwrap_or_default());
        let description = view.description().unwrap_or_default();
        let first = first_sentence(&description);
        // The sentence starts after any marks of a heading.
        let end = first.as_ptr().addr() - description.as_ptr().addr() + first.len();
        self.take(DESCRIPTION, first);
        self.take(DETAIL, &description[end..]);
        self.sequences.add(&self.found, |term| shared.contains(&(term, SOURCE)));
        let room = SOURCE_WORDS_MAX.saturating_sub(self.source.len());
        let own = self.found.iter().take(room);
        self.source.extend(own.map(|&(term, field)| (term, if field == NAME { SOURCE_TOOLS } else { SOURCE_TEXTS })));
        if let Some(schema) = view.member("inputSchema") {
            self.take_schema(&mut Walk::new(schema), DEPTH_MAX);
        }
        self.found.extend_from_slice(shared);
        self.postings.add(&self.found);
        self.found.clear();
    }

    fn take(&mut self, field: u8, text: &str) {
        let Self { terms, words, word_terms, stemmer, found, .. } = self;
        each_word(text, |word, _| {
            if found.len() >= WORDS_MAX {
                return;
            }
            let number = words.insert(word) as usize;
            if number == word_terms.len() {
                word_terms.push((!is_stop_word(word)).then(|| terms.insert(&stemmer.stem(word))));
            }
            found.extend(word_terms[number].map(|term| (term, field)));
        });
    }

    /// Takes the names of parameters at any depth, their descriptions and their values.
    fn take_schema(&mut self, schema: &mut Walk, depth: usize) {
        if depth == 0 || self.found.len() >= WORDS_MAX {
            return schema.skip();
        }
        if schema.next() == b'[' {
            return schema.elements(|item| self.take_schema(item, depth - 1));
        }
        schema.members(|key, value| match key {
            "properties" => value.members(|name, property| {
                self.take(PARAMETER, name);
                self.take_schema(property, depth - 1);
            }),
            "$defs" | "definitions" | "patternProperties" => {
                value.members(|_, named| self.take_schema(named, depth - 1));
            }
            "description" | "const" => self.take(PARAMETER_TEXT, &value.string().unwrap_or_default()),
            "enum" => value.elements(|one| self.take(PARAMETER_TEXT, &one.string().unwrap_or_default())),
            "default" | "examples" | "required" => value.skip(),
            _ if matches!(value.next(), b'{' | b'[') => self.take_schema(value, depth - 1),
            _ => value.skip(),
        });
    }
}

/// The meaning of each document, one after another.
fn meanings(index: &Index, stems: &[Option<Stem>], threads: usize) -> Vec<i8> {
    let vocabulary = Vocabulary::embedded();
    let worth = |term: u32| index.postings.idf(term).powf(MEANING_RARITY);
    let vectors = stems.iter().map(|stem| stem.as_ref().and_then(|stem| stem.vector));
    let words: Vec<_> = vectors.zip(0..).map(|(vector, term)| vector.map(|vector| (vector, worth(term)))).collect();
    let share = index.len().div_ceil(threads).max(1);
    let shares = (0..threads).map(|at| index.len().min(at * share)..index.len().min((at + 1) * share)).collect();
    let parts = at_once(shares, |share: Range<usize>| {
        let mut mean = Mean::new();
        let mut meanings = Vec::with_capacity(share.len() * vocabulary.dimensions());
        for document in share {
            for (term, field) in index.sequences.of(document as u32).take(MEANING_WORDS) {
                if let Some((vector, worth)) = words[term as usize] {
                    mean.add(vector, if field == NAME { MEANING_NAME * worth } else { worth });
                }
            }
            meanings.extend(mean.take());
        }
        meanings
    });
    parts.concat()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Listing, ServerNote, ToolsetSpec};
    use super::*;
    use crate::config::ToolRules;
    use crate::name::SourceId;

    fn catalog() -> Catalog {
        let rules = ToolRules::default();
        let toolsets = (0..40).map(|at| {
            let id = SourceId::new(&format!("source-{at}")).unwrap();
            let spec =
                ToolsetSpec { id: &id, name: "", provider: "p", summary: None, prefix: id.as_str(), rules: &rules };
            let tool = |number: usize| {
                let word = ["invoice", "letter", "weather", "branch", "file"][(at * 3 + number) % 5];
                format!(r#"{{"name":"get_{word}_{number}","description":"Gets a {word} by number {}."}}"#, at * number)
            };
            let tools = (0..at % 7).map(|number| tool(number).into());
            Arc::new(Toolset::build(&spec, &Listing::new(tools, ServerNote::default(), None)))
        });
        Catalog::build(toolsets.collect())
    }

    #[test]
    fn any_number_of_threads_makes_the_same_index() {
        let catalog = catalog();
        let one = build(&catalog, 1);
        assert!(one.len() > 100 && !one.find("weather letters", None).is_empty());
        for threads in [2, 3, 7, 64] {
            assert!(build(&catalog, threads) == one, "{threads}");
        }
        assert!(build(&Catalog::build(Vec::new()), 3).is_empty());
    }

    #[test]
    fn shares_are_of_a_size() {
        let catalog = catalog();
        for count in [1, 2, 3, 8] {
            let shares = shares(&catalog, count);
            assert_eq!((shares.len(), shares[0].start, shares[count - 1].end), (count, 0, 40));
            let sizes =
                shares.iter().map(|share| catalog.toolsets[share.clone()].iter().map(|of| of.count).sum::<usize>());
            assert!(
                shares.is_sorted_by(|a, b| a.end == b.start) && sizes.max().unwrap() <= 120 / count + 7,
                "{shares:?}"
            );
        }
    }
}
