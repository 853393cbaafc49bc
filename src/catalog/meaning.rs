//! Owns the meaning of tools and queries as short vectors: the mean of their words' vectors, the rarer ones counting more.
//! It knows nothing of words that are in no vocabulary.

use super::vocabulary::{VECTOR_LENGTH, Vocabulary};

/// A mean's values are kept as signed bytes, this much for 1; longer ones are cut.
const SCALE: f32 = 254.0;

/// A mean in the making.
#[derive(Debug)]
pub(super) struct Mean {
    vocabulary: &'static Vocabulary,
    sum: Vec<f32>,
}

impl Mean {
    pub fn new() -> Self {
        let vocabulary = Vocabulary::embedded();
        Self { vocabulary, sum: vec![0.0; vocabulary.dimensions()] }
    }

    /// Adds the vector of a word, given by its number in the vocabulary.
    pub fn add(&mut self, vector: u16, weight: f32) {
        let weight = weight / VECTOR_LENGTH;
        for (sum, &value) in self.sum.iter_mut().zip(self.vocabulary.vector(vector)) {
            *sum += weight * f32::from(value.cast_signed());
        }
    }

    /// Gives the mean's direction, and starts over.
    pub fn take(&mut self) -> impl Iterator<Item = i8> {
        let length = self.sum.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        self.sum.iter_mut().map(move |value| (std::mem::take(value) / length * SCALE).round() as i8)
    }
}

/// How near two directions are: 1 the same, 0 nothing in common or worse.
pub(super) fn nearness(a: &[i8], b: &[i8]) -> f32 {
    let dot: i32 = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
    (dot as f32 / (SCALE * SCALE)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_lie_between() {
        let mean = |stems: &[&str]| {
            let mut mean = Mean::new();
            for stem in stems {
                mean.add(Vocabulary::embedded().find(stem).unwrap().vector.unwrap(), 2.0);
            }
            let found: Vec<i8> = mean.take().collect();
            assert!(mean.take().all(|value| value == 0));
            found
        };
        let (rain, bill) = (mean(&["rain"]), mean(&["bill"]));
        let both = mean(&["rain", "bill"]);
        assert!(nearness(&rain, &rain) > 0.95 && nearness(&rain, &bill) < 0.3);
        assert!(nearness(&rain, &both) > 0.6 && nearness(&bill, &both) > 0.6);
        assert_eq!(nearness(&mean(&[]), &rain), 0.0);
    }
}
