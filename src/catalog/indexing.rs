//! Owns the making of the search index: which words of a tool count, in which field, and how much.
//! It does not know how the index is asked.

use std::collections::HashMap;
use std::ops::Range;

use rust_stemmers::Stemmer;

use super::dictionary::Dictionary;
use super::meaning::Mean;
use super::postings::{FIELDS, FieldWeight, Postings, PostingsBuilder};
use super::search::{Index, name_hash};
use super::sequences::Sequences;
use super::text::first_sentence;
use super::tokens::{each_word, is_stop_word, stemmer};
use super::vocabulary::Vocabulary;
use super::{Catalog, Entry, Toolset};
use crate::name::SourceId;
use crate::wire::raw::{self, Kind, Members};

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

/// An index in the making.
pub(super) struct Builder {
    documents: Vec<(u32, u32)>,
    sources: HashMap<SourceId, Range<u32>>,
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

impl Default for Builder {
    fn default() -> Self {
        Self {
            documents: Vec::new(),
            sources: HashMap::new(),
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
}

impl Builder {
    /// Indexes every entry that is loaded and not hidden.
    pub fn index(mut self, catalog: &Catalog) -> Index {
        for (toolset, at) in catalog.toolsets.iter().zip(0_u32..) {
            let start = self.documents.len() as u32;
            let shared = self.shared_terms(toolset);
            self.source = shared
                .iter()
                .map(|&(term, field)| (term, if field == SOURCE { SOURCE_NAME } else { SOURCE_SUMMARY }))
                .collect();
            for (entry, position) in toolset.entries.iter().zip(0_u32..).filter(|(entry, _)| !entry.hidden) {
                let document = self.documents.len() as u32;
                let full = format!("{}/{}", entry.source, entry.tool);
                for name in [entry.tool.as_str(), &full, catalog.exposed_name(entry).as_str()] {
                    self.names.push((name_hash(name), document));
                }
                self.documents.push((at, position));
                self.add(entry, &shared);
            }
            self.source_postings.add(&mut self.source);
            self.sources.insert(toolset.id.clone(), start..self.documents.len() as u32);
        }
        self.finish()
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
            self.take_schema(schema, DEPTH_MAX);
        }
        self.found.extend_from_slice(shared);
        self.postings.add(&mut self.found);
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
    fn take_schema(&mut self, schema: &str, depth: usize) {
        if depth == 0 || self.found.len() >= WORDS_MAX {
            return;
        }
        if raw::kind(schema) == Kind::Array {
            for item in raw::elements(schema).unwrap_or_default() {
                self.take_schema(item, depth - 1);
            }
        }
        for member in Members::of(schema).unwrap_or_default().0 {
            match &*member.key {
                "properties" => {
                    for property in Members::of(member.value).unwrap_or_default().0 {
                        self.take(PARAMETER, &property.key);
                        self.take_schema(property.value, depth - 1);
                    }
                }
                "$defs" | "definitions" | "patternProperties" => {
                    for named in Members::of(member.value).unwrap_or_default().0 {
                        self.take_schema(named.value, depth - 1);
                    }
                }
                "description" | "const" => self.take(PARAMETER_TEXT, &raw::string(member.value).unwrap_or_default()),
                "enum" => {
                    for value in raw::elements(member.value).unwrap_or_default() {
                        self.take(PARAMETER_TEXT, &raw::string(value).unwrap_or_default());
                    }
                }
                "default" | "examples" | "required" => {}
                _ if matches!(raw::kind(member.value), Kind::Object | Kind::Array) => {
                    self.take_schema(member.value, depth - 1);
                }
                _ => {}
            }
        }
    }

    fn finish(mut self) -> Index {
        self.names.sort_unstable();
        self.names.dedup();
        self.names.shrink_to_fit();
        self.documents.shrink_to_fit();
        self.terms.shrink();
        self.sequences.shrink();
        let postings = self.postings.finish(&WEIGHTS);
        Index {
            meanings: meanings(&self.terms, &postings, &self.sequences),
            documents: self.documents,
            sources: self.sources,
            names: self.names,
            terms: self.terms,
            postings,
            source_postings: self.source_postings.finish(&SOURCE_WEIGHTS),
            sequences: self.sequences,
        }
    }
}

/// The meaning of each document, one after another.
fn meanings(terms: &Dictionary, postings: &Postings, sequences: &Sequences) -> Vec<i8> {
    let vocabulary = Vocabulary::embedded();
    let worth = |term: u32| postings.idf(term).powf(MEANING_RARITY);
    let words: Vec<_> = (0..terms.len() as u32)
        .map(|term| vocabulary.vector_number(terms.text(term)).map(|vector| (vector, worth(term))))
        .collect();
    let mut mean = Mean::new();
    let mut meanings = Vec::with_capacity(sequences.len() * vocabulary.dimensions());
    for document in 0..sequences.len() as u32 {
        for (term, field) in sequences.of(document).take(MEANING_WORDS) {
            if let Some((vector, worth)) = words[term as usize] {
                mean.add(vector, if field == NAME { MEANING_NAME * worth } else { worth });
            }
        }
        meanings.extend(mean.take());
    }
    meanings
}
