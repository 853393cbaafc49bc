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

/// A term that more than one in so many documents has is kept as a bit for each document and its impacts, which is smaller
/// and quicker to read.
const COMMON: usize = 8;
/// What an impact of one is worth.
const IMPACT: f32 = (K1 + 1.0) / u16::MAX as f32;
/// The bytes of an impact.
const IMPACT_SIZE: usize = 2;
/// The bits of a step through the documents of a common term.
const STEP: usize = 64;

/// Collects documents one after another.
#[derive(Debug, Default)]
pub(crate) struct PostingsBuilder {
    /// For each document: how many terms; for each its number (as a step from the one before), its fields and its counts.
    stream: Vec<u8>,
    lengths: Vec<[u16; FIELDS]>,
    terms: usize,
    /// The document in hand: each term with its field in the lowest bits, which is sorted faster than a pair.
    keys: Vec<u32>,
}

/// Postings of some documents that follow one another: for each term the document (as a step from the one before, the first
/// from the start) and the impact.
#[derive(Debug)]
pub(crate) struct Run {
    /// Where each term's bytes start, and where the last one's end.
    starts: Vec<u32>,
    counts: Vec<u32>,
    /// The last document of each term.
    lasts: Vec<u32>,
    bytes: Vec<u8>,
    documents: u32,
}

/// For each term the documents that hold it, in ascending order.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Postings {
    /// Where each term's bytes start, and where the last one's end.
    starts: Vec<u32>,
    /// How many documents hold each term.
    counts: Vec<u32>,
    /// For each posting the document (as a step from the one before) and the term's impact in it, in 1/65535; of common
    /// terms a bit for each document, then the impacts.
    bytes: Box<[u8]>,
    documents: usize,
}

/// The mean length of each field over the documents that have it.
pub(crate) type Averages = [f32; FIELDS];

impl PostingsBuilder {
    /// Adds a document, given as its terms with the field of each, one for each time it stands there.
    pub fn add(&mut self, terms: &[(u32, u8)]) {
        let mut lengths = [0_u16; FIELDS];
        for &(_, field) in terms {
            let length = &mut lengths[usize::from(field)];
            *length = length.saturating_add(1);
        }
        self.lengths.push(lengths);
        self.keys.clear();
        self.keys.extend(terms.iter().map(|&(term, field)| term * FIELDS as u32 + u32::from(field)));
        self.keys.sort_unstable();
        let term_of = |key: u32| key / FIELDS as u32;
        let by_term = || self.keys.chunk_by(|&a, &b| term_of(a) == term_of(b));
        write_number(&mut self.stream, by_term().count() as u32);
        let mut last = 0;
        for group in by_term() {
            let term = term_of(group[0]);
            self.terms = self.terms.max(term as usize + 1);
            write_number(&mut self.stream, term - last);
            last = term;
            let mask_at = self.stream.len();
            self.stream.push(0);
            for same in group.chunk_by(|a, b| a == b) {
                self.stream[mask_at] |= 1 << (same[0] % FIELDS as u32);
                self.stream.push(same.len().min(COUNT_MAX) as u8);
            }
        }
    }

    /// The mean lengths over all documents of some builders.
    pub fn averages<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Averages {
        let mut averages = [1.0; FIELDS];
        for (field, average) in averages.iter_mut().enumerate() {
            let all = parts.clone().flat_map(|part| &part.lengths);
            let lengths = all.map(|lengths| u64::from(lengths[field])).filter(|&length| length > 0);
            let (sum, count) = lengths.fold((0, 0_u32), |(sum, count), length| (sum + length, count + 1));
            if count > 0 {
                *average = sum as f32 / count as f32;
            }
        }
        averages
    }

    /// Turns the documents' terms into the terms' documents.
    pub fn turn(self, averages: &Averages, weights: &[FieldWeight; FIELDS]) -> Run {
        let mut lasts = vec![0_u32; self.terms];
        let mut sizes = vec![0_u32; self.terms];
        let mut counts = vec![0_u32; self.terms];
        self.each(|document, term, _| {
            sizes[term] += number_size(document - lasts[term]) + IMPACT_SIZE as u32;
            counts[term] += 1;
            lasts[term] = document;
        });
        let mut starts = Vec::with_capacity(self.terms + 1);
        let mut total = 0;
        for size in &sizes {
            starts.push(total);
            total += size;
        }
        starts.push(total);

        let mut bytes = vec![0; total as usize];
        let mut cursors = starts.clone();
        lasts.fill(0);
        self.each(|document, term, fields| {
            let lengths = &self.lengths[document as usize];
            let mut at = cursors[term] as usize;
            put_number(&mut bytes, &mut at, document - lasts[term]);
            bytes[at..at + IMPACT_SIZE].copy_from_slice(&impact(fields, lengths, averages, weights).to_le_bytes());
            cursors[term] = (at + IMPACT_SIZE) as u32;
            lasts[term] = document;
        });
        Run { starts, counts, lasts, bytes, documents: self.lengths.len() as u32 }
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
}

/// BM25F's share of a term in a document, from 0 to 1 in 1/65535, at least one.
fn impact(fields: &[u8; FIELDS], lengths: &[u16; FIELDS], averages: &Averages, weights: &[FieldWeight; FIELDS]) -> u16 {
    let mut sum = 0.0;
    for field in 0..FIELDS {
        let FieldWeight { weight, b } = weights[field];
        let norm = 1.0 - b + b * f32::from(lengths[field]) / averages[field];
        sum += weight * f32::from(fields[field]) / norm;
    }
    (sum / (K1 + sum) * f32::from(u16::MAX)).max(1.0) as u16
}

impl Run {
    fn of(&self, term: u32) -> &[u8] {
        &self.bytes[self.starts[term as usize] as usize..self.starts[term as usize + 1] as usize]
    }
}

/// Calls `see` with each document and impact of a term that is not common.
#[inline]
fn each_step(bytes: &[u8], mut see: impl FnMut(u32, u16) -> bool) {
    let mut at = 0;
    let mut document = 0;
    while at < bytes.len() {
        document += read_number(bytes, &mut at);
        let Some(&[low, high]) = bytes.get(at..).and_then(<[u8]>::first_chunk) else { return };
        at += IMPACT_SIZE;
        if !see(document, u16::from_le_bytes([low, high])) {
            return;
        }
    }
}

impl Postings {
    /// Puts runs one after another. `numbers` gives for each run the numbers that its terms have in the whole.
    pub fn joined(runs: &[Run], numbers: &[Vec<u32>], terms: usize) -> Self {
        let documents = runs.iter().map(|run| run.documents as usize).sum();
        // Where each term is found in the runs: the run, its term, and the next place.
        let mut counts = vec![0_u32; terms];
        let mut own = vec![Vec::new(); runs.len()];
        for ((run, numbers), own) in runs.iter().zip(numbers).zip(&mut own) {
            own.resize(terms, u32::MAX);
            let terms = run.counts.iter().zip(0_u32..).zip(numbers).filter(|((count, _), _)| **count > 0);
            for ((count, term), &number) in terms {
                counts[number as usize] += count;
                own[number as usize] = term;
            }
        }
        let mut starts = Vec::with_capacity(terms + 1);
        let mut bytes = Vec::with_capacity(runs.iter().map(|run| run.bytes.len()).sum());
        for (term, &count) in counts.iter().enumerate() {
            starts.push(bytes.len() as u32);
            let parts = || runs.iter().zip(&own).map(move |(run, own)| (run, own[term]));
            if count as usize * COMMON > documents {
                join_common(&mut bytes, documents, count as usize, parts());
            } else {
                join_rare(&mut bytes, parts());
            }
        }
        starts.push(bytes.len() as u32);
        Self { starts, counts, bytes: bytes.into_boxed_slice(), documents }
    }

    /// How many documents there are.
    pub fn documents(&self) -> u32 {
        self.documents as u32
    }

    /// How many documents hold a term.
    pub fn count(&self, term: u32) -> usize {
        self.counts.get(term as usize).copied().unwrap_or_default() as usize
    }

    /// How rare a term is.
    pub fn idf(&self, term: u32) -> f32 {
        let count = self.count(term) as f32;
        (1.0 + (self.documents as f32 - count + 0.5) / (count + 0.5)).ln()
    }

    /// Calls `see` with every document of the range that holds the term, in ascending order, and what the term counts in it
    /// before its rarity.
    pub fn each(&self, term: u32, range: &Range<u32>, mut see: impl FnMut(u32, f32)) {
        match self.of(term) {
            Kept::Rare(bytes) => each_step(bytes, |document, impact| {
                if document >= range.start && document < range.end {
                    see(document, IMPACT * f32::from(impact));
                }
                document < range.end
            }),
            Kept::Common(bits, impacts) => each_word(bits, impacts, range, |first, word, impacts| {
                each_bit(first, word, impacts, &mut see);
            }),
        }
    }

    /// Raises for every document of the range that holds the term what stands for it in `bests` to what the term counts in
    /// it, `worth` times.
    pub fn raise(&self, term: u32, range: &Range<u32>, worth: f32, bests: &mut [f32]) {
        let Kept::Common(bits, impacts) = self.of(term) else {
            return self.each(term, range, |document, gain| {
                let best = &mut bests[(document - range.start) as usize];
                *best = best.max(worth * gain);
            });
        };
        each_word(bits, impacts, range, |first, word, impacts| {
            let start = first.checked_sub(range.start).map(|start| start as usize);
            let all = start.filter(|_| word == u64::MAX).and_then(|start| bests.get_mut(start..start + STEP));
            match all {
                // Most documents hold the most common words: these go without looking for their bits.
                Some(bests) => {
                    for (best, impact) in bests.iter_mut().zip(impacts.as_chunks().0) {
                        *best = best.max(worth * (IMPACT * f32::from(u16::from_le_bytes(*impact))));
                    }
                }
                None => each_bit(first, word, impacts, &mut |document, gain| {
                    let best = &mut bests[(document - range.start) as usize];
                    *best = best.max(worth * gain);
                }),
            }
        });
    }

    fn of(&self, term: u32) -> Kept<'_> {
        let term = term as usize;
        let (Some(&start), Some(&end)) = (self.starts.get(term), self.starts.get(term + 1)) else {
            return Kept::Rare(&[]);
        };
        let bytes = &self.bytes[start as usize..end as usize];
        if self.counts[term] as usize * COMMON > self.documents {
            let (bits, impacts) = bytes.split_at(self.documents.div_ceil(STEP) * (STEP / 8));
            return Kept::Common(bits.as_chunks().0, impacts);
        }
        Kept::Rare(bytes)
    }

    /// How many bytes it takes.
    #[cfg(test)]
    fn size(&self) -> usize {
        self.bytes.len() + 4 * (self.starts.len() + self.counts.len())
    }
}

/// How the documents of a term are kept.
enum Kept<'a> {
    Rare(&'a [u8]),
    Common(&'a [[u8; STEP / 8]], &'a [u8]),
}

/// Calls `see` with the first document, the bits and the impacts of each word that has to do with the range.
#[inline]
fn each_word(bits: &[[u8; STEP / 8]], impacts: &[u8], range: &Range<u32>, mut see: impl FnMut(u32, u64, &[u8])) {
    let word = |at: usize| u64::from_le_bytes(bits[at]);
    let (start, end) = (range.start as usize, range.end as usize);
    let before: u32 = (0..start / STEP).map(|at| word(at).count_ones()).sum();
    let mut impacts = &impacts[before as usize * IMPACT_SIZE..];
    for at in start / STEP..end.div_ceil(STEP).min(bits.len()) {
        let mut found = word(at);
        let first = at * STEP;
        if first < start {
            let cut = found & ((1 << (start - first)) - 1);
            impacts = &impacts[cut.count_ones() as usize * IMPACT_SIZE..];
            found &= !cut;
        }
        if end - first < STEP {
            found &= (1 << (end - first)) - 1;
        }
        let (own, rest) = impacts.split_at(found.count_ones() as usize * IMPACT_SIZE);
        see(first as u32, found, own);
        impacts = rest;
    }
}

#[inline]
fn each_bit(first: u32, mut word: u64, impacts: &[u8], see: &mut impl FnMut(u32, f32)) {
    for impact in impacts.as_chunks().0 {
        see(first + word.trailing_zeros(), IMPACT * f32::from(u16::from_le_bytes(*impact)));
        word &= word - 1;
    }
}

/// Writes the documents of a common term, found in each run under a number of its own.
fn join_common<'a>(bytes: &mut Vec<u8>, documents: usize, count: usize, parts: impl Iterator<Item = (&'a Run, u32)>) {
    let bits_at = bytes.len();
    bytes.resize(bits_at + documents.div_ceil(STEP) * (STEP / 8), 0);
    bytes.reserve(count * IMPACT_SIZE);
    let mut first = 0;
    for (run, term) in parts {
        if term != u32::MAX {
            each_step(run.of(term), |document, impact| {
                let document = (first + document) as usize;
                bytes[bits_at + document / 8] |= 1 << (document % 8);
                bytes.extend_from_slice(&impact.to_le_bytes());
                true
            });
        }
        first += run.documents;
    }
}

/// The same for a term that is not common: only the first step of each run is another one.
fn join_rare<'a>(bytes: &mut Vec<u8>, parts: impl Iterator<Item = (&'a Run, u32)>) {
    let (mut first, mut last) = (0, 0);
    for (run, term) in parts {
        if term != u32::MAX {
            let own = run.of(term);
            let mut at = 0;
            let step = read_number(own, &mut at);
            write_number(bytes, first + step - last);
            bytes.extend_from_slice(&own[at..]);
            last = first + run.lasts[term as usize];
        }
        first += run.documents;
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

/// [`write_number`] into room that is there.
fn put_number(bytes: &mut [u8], at: &mut usize, mut number: u32) {
    while number >= 0x80 {
        bytes[*at] = number as u8 | 0x80;
        *at += 1;
        number >>= 7;
    }
    bytes[*at] = number as u8;
    *at += 1;
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

    const WEIGHTS: [FieldWeight; FIELDS] = [FieldWeight { weight: 1.0, b: 0.0 }; FIELDS];

    fn joined(builders: Vec<PostingsBuilder>, terms: usize) -> Postings {
        let averages = PostingsBuilder::averages(builders.iter());
        let numbers = vec![(0..terms as u32).collect(); builders.len()];
        let runs: Vec<Run> = builders.into_iter().map(|builder| builder.turn(&averages, &WEIGHTS)).collect();
        Postings::joined(&runs, &numbers, terms)
    }

    #[test]
    fn documents_become_postings() {
        let mut builder = PostingsBuilder::default();
        builder.add(&[(300, 0), (0, 6), (300, 0), (300, 2)]);
        builder.add(&[]);
        builder.add(&[(0, 0), (1, 0)]);
        let postings = joined(vec![builder], 301);
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
        assert_eq!((postings.count(0), postings.count(2), postings.count(999)), (2, 0, 0));
        assert_eq!(postings.size(), (8 + 2 * 2) + 2 * (8 + 2) + 4 * (302 + 301));
    }

    /// Documents that hold term 0 always, 1 mostly, 2 often, and others seldom.
    fn documents(range: Range<u32>) -> PostingsBuilder {
        let mut builder = PostingsBuilder::default();
        for at in range {
            let terms = (0..40_u32).filter(|&term| match term {
                0 => true,
                1 => !at.is_multiple_of(97),
                2 => at.is_multiple_of(5),
                _ => (at * 7 + term).is_multiple_of(31 + term),
            });
            let found: Vec<(u32, u8)> =
                terms.flat_map(|term| vec![(term, (at % 7) as u8); 1 + (at % 3) as usize]).collect();
            builder.add(&found);
        }
        builder
    }

    #[test]
    fn runs_become_one() {
        let whole = joined(vec![documents(0..1000)], 40);
        for cuts in [&[500][..], &[1, 2, 64], &[0, 999], &[128, 640]] {
            let starts = std::iter::once(&0).chain(cuts);
            let parts = starts.zip(cuts.iter().chain([&1000])).map(|(&start, &end)| documents(start..end));
            assert_eq!(joined(parts.collect(), 40), whole);
        }
    }

    #[test]
    fn a_part_of_the_documents_is_read_like_all() {
        let postings = joined(vec![documents(0..1000)], 40);
        for term in 0..40 {
            let mut all = Vec::new();
            postings.each(term, &(0..1000), |document, gain| all.push((document, gain)));
            assert_eq!(all.len(), postings.count(term));
            for range in [0..0, 0..1000, 1..999, 64..128, 63..65, 70..90, 999..1000, 500..1000] {
                let want: Vec<_> = all.iter().copied().filter(|(document, _)| range.contains(document)).collect();
                let mut found = Vec::new();
                postings.each(term, &range, |document, gain| found.push((document, gain)));
                assert_eq!(found, want, "{term} {range:?}");
                let mut bests = vec![0.5; range.len()];
                postings.raise(term, &range, 2.0, &mut bests);
                let mut expected = vec![0.5; range.len()];
                for (document, gain) in want {
                    expected[(document - range.start) as usize] = f32::max(0.5, 2.0 * gain);
                }
                assert_eq!(bests, expected, "{term} {range:?}");
            }
        }
    }
}
