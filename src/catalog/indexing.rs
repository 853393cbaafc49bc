//! Owns the making of the search index: which words of a tool count, in which field, and how much.
//! It does not know how the index is asked.

use std::collections::HashMap;
use std::ops::Range;

use rust_stemmers::Stemmer;

use super::postings::{FIELDS, FieldWeight, PostingsBuilder};
use super::search::{Index, name_hash};
use super::tokens::{each_word, is_stop_word, stemmer};
use super::{Catalog, Entry, Toolset};
use crate::name::SourceId;
use crate::wire::raw::{self, Kind, Members};

/// The fields of a tool, and what a word in each is worth.
const NAME: u8 = 0;
const TITLE: u8 = 1;
const DESCRIPTION: u8 = 2;
const PARAMETER: u8 = 3;
const PARAMETER_TEXT: u8 = 4;
const SOURCE: u8 = 5;
const SUMMARY: u8 = 6;
const WEIGHTS: [FieldWeight; FIELDS] = [
    FieldWeight { weight: 1.5, b: 0.8 },
    FieldWeight { weight: 1.5, b: 0.8 },
    FieldWeight { weight: 0.8, b: 0.4 },
    FieldWeight { weight: 0.5, b: 0.4 },
    FieldWeight { weight: 0.3, b: 0.4 },
    FieldWeight { weight: 0.1, b: 0.0 },
    FieldWeight { weight: 0.8, b: 0.6 },
];
/// How many words of one tool are indexed.
const WORDS_MAX: usize = 4000;
/// How deep a schema is indexed.
const DEPTH_MAX: usize = 12;

/// An index in the making.
pub(super) struct Builder {
    documents: Vec<(u32, u32)>,
    sources: HashMap<SourceId, Range<u32>>,
    names: Vec<(u64, u32)>,
    terms: HashMap<Box<str>, u32>,
    /// The term of each word met so far, if it counts: stemming takes longer than looking it up.
    words: HashMap<Box<str>, Option<u32>>,
    stemmer: Stemmer,
    postings: PostingsBuilder,
    /// The terms of the document in hand.
    found: Vec<(u32, u8)>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            documents: Vec::new(),
            sources: HashMap::new(),
            names: Vec::new(),
            terms: HashMap::new(),
            words: HashMap::new(),
            stemmer: stemmer(),
            postings: PostingsBuilder::default(),
            found: Vec::new(),
        }
    }
}

impl Builder {
    /// Indexes every entry that is loaded and not hidden.
    pub fn index(mut self, catalog: &Catalog) -> Index {
        for (toolset, at) in catalog.toolsets.iter().zip(0_u32..) {
            let start = self.documents.len() as u32;
            let shared = self.shared_terms(toolset);
            for (entry, position) in toolset.entries.iter().zip(0_u32..).filter(|(entry, _)| !entry.hidden) {
                let document = self.documents.len() as u32;
                let full = format!("{}/{}", entry.source, entry.tool);
                for name in [entry.tool.as_str(), &full, catalog.exposed_name(entry).as_str()] {
                    self.names.push((name_hash(name), document));
                }
                self.documents.push((at, position));
                self.add(entry, &shared);
            }
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
        self.found.extend_from_slice(shared);
        self.take(NAME, entry.tool.as_str());
        self.take(TITLE, &entry.title().unwrap_or_default());
        self.take(DESCRIPTION, &entry.description().unwrap_or_default());
        if let Some(schema) = entry.members().get("inputSchema") {
            self.take_schema(schema, DEPTH_MAX);
        }
        self.postings.add(&mut self.found);
        self.found.clear();
    }

    fn take(&mut self, field: u8, text: &str) {
        let Self { terms, words, stemmer, found, .. } = self;
        each_word(text, |word| {
            if found.len() >= WORDS_MAX {
                return;
            }
            let term = words.get(word).copied().unwrap_or_else(|| {
                let next = terms.len() as u32;
                let term = (!is_stop_word(word)).then(|| *terms.entry(stemmer.stem(word).into()).or_insert(next));
                words.insert(word.into(), term);
                term
            });
            found.extend(term.map(|term| (term, field)));
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
        self.terms.shrink_to_fit();
        Index {
            documents: self.documents,
            sources: self.sources,
            names: self.names,
            terms: self.terms,
            postings: self.postings.finish(&WEIGHTS),
        }
    }
}
