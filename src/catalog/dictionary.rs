//! Owns the numbering of strings: each gets the next number when it is first met, and is found again by its text or its
//! number. All texts stand in one string, so that 100,000 of them cost little more than their letters.

use super::fuzzy::Sketch;

/// The share of slots that may be taken, in eighths.
const LOAD: usize = 6;
/// The smallest table.
const SLOTS_MIN: usize = 16;

/// Strings, numbered from 0 in the order in which they came.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Dictionary {
    text: String,
    ends: Vec<u32>,
    /// The number of a string plus one, at the place of its hash or the next free one; 0 is free.
    slots: Vec<u32>,
    sketches: Vec<Sketch>,
}

impl Dictionary {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// What is enough to tell that most strings are not meant by a mistyped word, by number.
    pub fn sketches(&self) -> &[Sketch] {
        &self.sketches
    }

    /// The string of a number.
    pub fn text(&self, number: u32) -> &str {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text[start as usize..self.ends[number] as usize]
    }

    fn bytes(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text.as_bytes()[start as usize..self.ends[number] as usize]
    }

    /// The number of a string, if it was met.
    pub fn get(&self, text: &str) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slot(text).1
    }

    /// The number of a string, a new one if it was not met before.
    pub fn insert(&mut self, text: &str) -> u32 {
        if (self.ends.len() + 1) * 8 > self.slots.len() * LOAD {
            self.grow();
        }
        let (slot, known) = self.slot(text);
        known.unwrap_or_else(|| {
            let number = self.ends.len() as u32;
            self.text.push_str(text);
            self.ends.push(self.text.len() as u32);
            self.sketches.push(Sketch::of(text));
            self.slots[slot] = number + 1;
            number
        })
    }

    /// Takes in the strings of another one, in their order; gives the number that each has here.
    pub fn take_in(&mut self, other: Self) -> Vec<u32> {
        let count = other.len() as u32;
        if self.ends.is_empty() {
            *self = other;
            return (0..count).collect();
        }
        (0..count).map(|number| self.insert(other.text(number))).collect()
    }

    /// Where a string stands or would stand, and its number.
    fn slot(&self, text: &str) -> (usize, Option<u32>) {
        let mask = self.slots.len() - 1;
        let mut slot = hash(text) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return (slot, None),
                next if self.bytes(next - 1) == text.as_bytes() => return (slot, Some(next - 1)),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let size = (2 * self.slots.len()).max(SLOTS_MIN);
        self.slots = vec![0; size];
        for number in 0..self.ends.len() as u32 {
            let mut slot = hash(self.text(number)) as usize & (size - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = number + 1;
        }
    }

    /// Gives back the room that is not used.
    pub fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.sketches.shrink_to_fit();
    }
}

/// A quick hash, the same on every machine; texts come from sources of the user's own choice.
fn hash(text: &str) -> u64 {
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let mut hash = text.len() as u64;
    for chunk in chunks {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*chunk)).wrapping_mul(FACTOR);
    }
    let last = rest.iter().fold(0, |last, &byte| (last << 8) | u64::from(byte));
    hash = (hash.rotate_left(5) ^ last).wrapping_mul(FACTOR);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_again() {
        let mut dictionary = Dictionary::default();
        assert_eq!(dictionary.get("a"), None);
        let strings: Vec<String> = (0..5000).map(|at| format!("{}é{at}", "x".repeat(at % 20))).collect();
        for (string, number) in strings.iter().zip(0..) {
            assert_eq!(dictionary.insert(string), number);
        }
        dictionary.shrink();
        for (string, number) in strings.iter().zip(0..) {
            assert_eq!((dictionary.insert(string), dictionary.text(number)), (number, string.as_str()));
        }
        assert_eq!((dictionary.len(), dictionary.get(""), dictionary.get("xé")), (5000, None, None));
        assert_eq!(dictionary.insert(""), 5000);
        assert_eq!(dictionary.get(""), Some(5000));
        let mut other = Dictionary::default();
        let others = ["new", &strings[7], "", "newer"].map(|string| other.insert(string));
        assert_eq!((others, dictionary.take_in(other)), ([0, 1, 2, 3], vec![5001, 7, 5000, 5002]));
        assert_eq!(dictionary.text(5002), "newer");
    }
}
