//! Owns the second look at the best tools of a search: how much of a tool's name the query covers, whether words that stand
//! together in the query do so in the tool, and how near their meanings are. It only ever adds to a score.

use std::ops::Range;

use super::meaning::nearness;
use super::question::Question;
use super::search::Index;

/// What is added to the score of the best match (1) for a name that is covered whole, for all pairs, for the same meaning.
const COVERAGE: f32 = 0.4;
const PAIRS: f32 = 0.3;
const MEANING: f32 = 0.5;
/// What a pair is worth with a word between, and the wrong way round.
const WORD_BETWEEN: f32 = 0.7;
const REVERSED: f32 = 0.4;
/// The field of names.
const NAME: u8 = 0;

/// What each term means to a question.
pub(super) struct SecondLook<'a> {
    index: &'a Index,
    question: &'a Question,
    /// Where each term's uses start, plus one; 0 = it has none.
    places: Vec<u16>,
    /// Terms with the group that each may stand for and its share there; sorted.
    uses: Vec<(u32, u16, f32)>,
    /// For each group the best pair with the group before it, in the document in hand.
    pairs: Vec<f32>,
}

impl<'a> SecondLook<'a> {
    pub fn new(index: &'a Index, question: &'a Question) -> Self {
        let groups = question.groups.iter().zip(0_u16..);
        let mut uses: Vec<(u32, u16, f32)> = groups
            .flat_map(|(group, number)| group.members.iter().map(move |&(term, share)| (term, number, share)))
            .collect();
        uses.sort_unstable_by_key(|&(term, group, _)| (term, group));
        let mut places = vec![0; index.terms.len()];
        for (&(term, ..), place) in uses.iter().zip(1_u16..) {
            let first = &mut places[term as usize];
            *first = if *first == 0 { place } else { *first };
        }
        Self { index, question, places, uses, pairs: vec![0.0; question.groups.len()] }
    }

    /// What is to be added to a document's score.
    pub fn bonus(&mut self, document: u32) -> f32 {
        let (mut named, mut covered) = (0.0, 0.0);
        // The uses of the last two words.
        let mut before: [Range<usize>; 2] = [0..0, 0..0];
        let mut last_field = NAME;
        self.pairs.fill(0.0);
        for (term, field) in self.index.sequences.of(document) {
            if field != last_field {
                last_field = field;
                before = [0..0, 0..0];
            }
            let now = self.uses_of(term);
            if field == NAME {
                let idf = self.index.postings.idf(term);
                named += idf;
                covered += idf * self.best_share(&now);
            }
            self.pair(&now, &before[0], 1.0);
            self.pair(&now, &before[1], WORD_BETWEEN);
            let [last, _] = before;
            before = [now, last];
        }
        let coverage = if named > 0.0 { covered / named } else { 0.0 };
        let possible = self.pairs.len().saturating_sub(1).max(1) as f32;
        let pairs = self.pairs.iter().sum::<f32>() / possible;
        COVERAGE * coverage + PAIRS * pairs + MEANING * self.nearness(document)
    }

    fn uses_of(&self, term: u32) -> Range<usize> {
        match self.places[term as usize] {
            0 => 0..0,
            place => {
                let start = usize::from(place) - 1;
                let count = self.uses[start..].iter().take_while(|other| other.0 == term).count();
                start..start + count
            }
        }
    }

    fn best_share(&self, uses: &Range<usize>) -> f32 {
        let shares = self.uses[uses.clone()].iter();
        shares.map(|&(_, group, share)| share * self.question.groups[usize::from(group)].weight).fold(0.0, f32::max)
    }

    /// Notes the pairs of one word and another that stands before it.
    fn pair(&mut self, now: &Range<usize>, before: &Range<usize>, worth: f32) {
        for &(_, group, share) in &self.uses[now.clone()] {
            for &(_, other, other_share) in &self.uses[before.clone()] {
                let (pair, worth) = match (group, other) {
                    _ if other + 1 == group => (group, worth),
                    _ if group + 1 == other => (other, worth * REVERSED),
                    _ => continue,
                };
                let best = &mut self.pairs[usize::from(pair)];
                *best = best.max(share * other_share * worth);
            }
        }
    }

    fn nearness(&self, document: u32) -> f32 {
        let size = self.question.meaning.len();
        let start = document as usize * size;
        nearness(&self.question.meaning, &self.index.meanings[start..start + size])
    }
}
