//! Owns the postings of the search index: for each term the documents that hold it, and how much it counts in each.
//! They are packed, as 50,000 tools have some five million of them; what a document is, is not known here.

use std::ops::Range;

/// How many fields a document has.
pub(super) const FIELDS: usize = 8;
/// How soon more of the same term in a document stops to count.
const K1: f32 = 1.2;
/// A count in one field beyond this is taken for it.
const COUNT_MAX: usize = 255;

/// How much a field counts, and how much its length is held against it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldWeight {
    pub weight: f32,
    pub b: f32,
}

/// Collects documents one after another.
#[derive(Debug, Default)]
pub(crate) struct PostingsBuilder {
    /// For each document: how many terms; for each its number (as a step from the one before), its fields and its counts.
    stream: Vec<u8>,
    lengths: Vec<[u16; FIELDS]>,
    terms: usize,
}

/// For each term the documents that hold it, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    /// Where each term's bytes start, and where the last one's end.
    starts: Vec<u32>,
    /// How many documents hold each term.
    counts: Vec<u32>,
    /// For each posting the document (as a step from the one before) and the term's impact in it, in 1/65535.
    bytes: Box<[u8]>,
    documents: usize,
}

impl PostingsBuilder {
    /// Adds a document, given as its terms with the field of each, one for each time it stands there; sorts them.
    pub fn add(&mut self, terms: &mut [(u32, u8)]) {
        terms.sort_unstable();
        let mut lengths = [0_u16; FIELDS];
        for &(_, field) in terms.iter() {
            let length = &mut lengths[usize::from(field)];
            *length = length.saturating_add(1);
        }
        self.lengths.push(lengths);
        let by_term = || terms.chunk_by(|a, b| a.0 == b.0);
        write_number(&mut self.stream, by_term().count() as u32);
        let mut last = 0;
        for group in by_term() {
            let term = group[0].0;
            self.terms = self.terms.max(term as usize + 1);
            write_number(&mut self.stream, term - last);
            last = term;
            let mask_at = self.stream.len();
            self.stream.push(0);
            for same_field in group.chunk_by(|a, b| a.1 == b.1) {
                self.stream[mask_at] |= 1 << same_field[0].1;
                self.stream.push(same_field.len().min(COUNT_MAX) as u8);
            }
        }
    }

    /// Turns the documents' terms into the terms' documents.
    pub fn finish(self, weights: &[FieldWeight; FIELDS]) -> Postings {
        let mut last = vec![0_u32; self.terms];
        let mut sizes = vec![0_u32; self.terms];
        let mut counts = vec![0_u32; self.terms];
        self.each(|document, term, _| {
            sizes[term] += number_size(document - last[term]) + 2;
            counts[term] += 1;
            last[term] = document;
        });
        let mut starts = Vec::with_capacity(self.terms + 1);
        let mut total = 0;
        for size in &sizes {
            starts.push(total);
            total += size;
        }
        starts.push(total);

        let averages = self.average_lengths();
        let mut bytes = vec![0; total as usize].into_boxed_slice();
        let mut cursors = starts.clone();
        let mut posting = Vec::with_capacity(8);
        last.fill(0);
        self.each(|document, term, fields| {
            let lengths = &self.lengths[document as usize];
            posting.clear();
            write_number(&mut posting, document - last[term]);
            posting.extend_from_slice(&impact(fields, lengths, &averages, weights).to_le_bytes());
            let at = cursors[term] as usize;
            bytes[at..at + posting.len()].copy_from_slice(&posting);
            cursors[term] += posting.len() as u32;
            last[term] = document;
        });
        Postings { starts, counts, bytes, documents: self.lengths.len() }
    }

    /// Calls `see` with every document, term and its counts by field, in this order.
    fn each(&self, mut see: impl FnMut(u32, usize, &[u8; FIELDS])) {
        let mut at = 0;
        for document in 0..self.lengths.len() as u32 {
            let mut term = 0;
            for _ in 0..read_number(&self.stream, &mut at) {
                term += read_number(&self.stream, &mut at);
                let mask = self.stream[at];
                at += 1;
                let mut fields = [0; FIELDS];
                for (field, count) in fields.iter_mut().enumerate() {
                    if mask & (1 << field) != 0 {
                        *count = self.stream[at];
                        at += 1;
                    }
                }
                see(document, term as usize, &fields);
            }
        }
    }

    /// The mean length of each field over the documents that have it.
    fn average_lengths(&self) -> [f32; FIELDS] {
        let mut averages = [1.0; FIELDS];
        for (field, average) in averages.iter_mut().enumerate() {
            let lengths = || self.lengths.iter().map(|lengths| u64::from(lengths[field])).filter(|&length| length > 0);
            let count = lengths().count();
            if count > 0 {
                *average = lengths().sum::<u64>() as f32 / count as f32;
            }
        }
        averages
    }
}

/// BM25F's share of a term in a document, from 0 to 1 in 1/65535, at least one.
fn impact(
    fields: &[u8; FIELDS],
    lengths: &[u16; FIELDS],
    averages: &[f32; FIELDS],
    weights: &[FieldWeight; FIELDS],
) -> u16 {
    let mut sum = 0.0;
    for field in 0..FIELDS {
        let FieldWeight { weight, b } = weights[field];
        let norm = 1.0 - b + b * f32::from(lengths[field]) / averages[field];
        sum += weight * f32::from(fields[field]) / norm;
    }
    (sum / (K1 + sum) * f32::from(u16::MAX)).max(1.0) as u16
}

impl Postings {
    /// How many documents there are.
    pub fn documents(&self) -> u32 {
        self.documents as u32
    }

    /// How rare a term is.
    pub fn idf(&self, term: u32) -> f32 {
        let count = self.counts.get(term as usize).copied().unwrap_or_default() as f32;
        (1.0 + (self.documents as f32 - count + 0.5) / (count + 0.5)).ln()
    }

    /// Calls `see` with every document of the range that holds the term, in ascending order, and what the term counts in it
    /// before its rarity.
    pub fn each(&self, term: u32, range: &Range<u32>, mut see: impl FnMut(u32, f32)) {
        let term = term as usize;
        let (Some(&start), Some(&end)) = (self.starts.get(term), self.starts.get(term + 1)) else { return };
        let bytes = &self.bytes[start as usize..end as usize];
        let mut at = 0;
        let mut document = 0;
        while at < bytes.len() {
            document += read_number(bytes, &mut at);
            let Some(&[low, high]) = bytes.get(at..).and_then(<[u8]>::first_chunk) else { return };
            let impact = u16::from_le_bytes([low, high]);
            at += 2;
            if document >= range.end {
                return;
            }
            if document >= range.start {
                see(document, (K1 + 1.0) / f32::from(u16::MAX) * f32::from(impact));
            }
        }
    }

    /// How many bytes it takes.
    #[cfg(test)]
    fn size(&self) -> usize {
        self.bytes.len() + 4 * (self.starts.len() + self.counts.len())
    }
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
pub(super) fn write_number(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[inline]
pub(super) fn read_number(bytes: &[u8], at: &mut usize) -> u32 {
    // Most numbers are small.
    let first = bytes[*at];
    if first < 0x80 {
        *at += 1;
        return u32::from(first);
    }
    let mut number = 0;
    let mut shift = 0;
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= u32::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

fn number_size(number: u32) -> u32 {
    (32 - (number | 1).leading_zeros()).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, u32::MAX] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, number);
            assert_eq!(bytes.len() as u32, number_size(number));
            assert_eq!(read_number(&bytes, &mut 0), number);
        }
    }

    #[test]
    fn documents_become_postings() {
        let mut builder = PostingsBuilder::default();
        builder.add(&mut [(300, 0), (0, 6), (300, 0), (300, 2)]);
        builder.add(&mut []);
        builder.add(&mut [(0, 0), (1, 0)]);
        let weights = [FieldWeight { weight: 1.0, b: 0.0 }; FIELDS];
        let postings = builder.finish(&weights);
        let of = |term| {
            let mut found = Vec::new();
            postings.each(term, &(0..3), |document, impact| found.push((document, (impact * 1000.0).round())));
            found
        };
        assert_eq!(of(0), [(0, 1000.0), (2, 1000.0)]);
        assert_eq!(of(1), [(2, 1000.0)]);
        assert_eq!(of(2), []);
        assert_eq!(of(300), [(0, 1571.0)]);
        assert!(postings.idf(1) > postings.idf(0));
        assert_eq!(postings.size(), 4 * 3 + 4 * (302 + 301));
    }
}
