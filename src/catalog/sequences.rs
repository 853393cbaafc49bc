//! Owns the words of each tool in their order, as numbers of terms: name, title and the start of the description. The
//! second look at the best tools reads them; what a term is, is not known here.

use super::postings::{read_number, write_number};

/// How many words of a tool are kept.
const LENGTH_MAX: usize = 64;

/// For each document its terms in order, by field.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Sequences {
    /// Where each document's bytes end.
    ends: Vec<u32>,
    /// A term plus one, as a number of variable length; 0 ends a field.
    bytes: Vec<u8>,
}

impl Sequences {
    /// Adds a document, given as its terms with the field of each; fields follow one another from 0. Terms of the first
    /// field that say nothing (as they stand in its source's name) are left out where others remain.
    pub fn add(&mut self, terms: &[(u32, u8)], is_idle: impl Fn(u32) -> bool) {
        let mut last = 0;
        let keeps_all = terms.iter().all(|&(term, field)| field > 0 || is_idle(term));
        for &(term, field) in &terms[..terms.len().min(LENGTH_MAX)] {
            if field == 0 && !keeps_all && is_idle(term) {
                continue;
            }
            while last < field {
                self.bytes.push(0);
                last += 1;
            }
            write_number(&mut self.bytes, term + 1);
        }
        self.ends.push(self.bytes.len() as u32);
    }

    /// Adds the documents of another one; `numbers` says which terms its terms are here.
    pub fn append(&mut self, other: Self, numbers: &[u32]) {
        let mut at = 0;
        for end in other.ends {
            while at < end as usize {
                let term = read_number(&other.bytes, &mut at);
                write_number(&mut self.bytes, term.checked_sub(1).map_or(0, |term| numbers[term as usize] + 1));
            }
            self.ends.push(self.bytes.len() as u32);
        }
    }

    /// The terms of a document in their order, each with its field.
    pub fn of(&self, document: u32) -> impl Iterator<Item = (u32, u8)> {
        let document = document as usize;
        let mut at = if document == 0 { 0 } else { self.ends[document - 1] as usize };
        let end = self.ends[document] as usize;
        let mut field = 0;
        std::iter::from_fn(move || {
            while at < end {
                match read_number(&self.bytes, &mut at) {
                    0 => field += 1,
                    next => return Some((next - 1, field)),
                }
            }
            None
        })
    }

    /// Gives back the room that is not used.
    pub fn shrink(&mut self) {
        self.ends.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_keep_their_order() {
        let mut sequences = Sequences::default();
        let long: Vec<(u32, u8)> = (0..200).map(|term| (70_000 - term, 1)).collect();
        let documents = [&[(7, 0), (300, 0), (0, 2), (7, 2)][..], &[], &[(1, 3)], &long];
        documents.iter().for_each(|terms| sequences.add(terms, |term| term == 1));
        sequences.add(&[(1, 0), (7, 0), (1, 2)], |term| term == 1);
        assert_eq!(sequences.of(4).collect::<Vec<_>>(), [(7, 0), (1, 2)]);
        sequences.shrink();
        assert_eq!(sequences.ends.len(), 5);
        for (terms, document) in documents.iter().zip(0..) {
            assert_eq!(sequences.of(document).collect::<Vec<_>>(), terms[..terms.len().min(LENGTH_MAX)]);
        }
    }
}
