//! Owns the keeping of many like texts in little room: each is packed by itself, with pieces of some of them as what all may
//! refer to, so that one is read without the others in a few microseconds. It does not know what they say.

use std::fmt;
use std::sync::Arc;

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

/// How much all texts of a pack may refer to, in bytes, and what part of them that is at most. It is kept as it is, and every
/// text that is packed takes the time to look through it.
const SHARED_MAX: usize = 8 * 1024;
const SHARED_PART: usize = 8;
/// How much of one text stands in there.
const PIECE_MAX: usize = 2 * 1024;

/// Texts that were packed together.
struct Pack {
    shared: Vec<u8>,
    bytes: Vec<u8>,
    /// Where each text's bytes end.
    ends: Vec<usize>,
}

/// A packed text. Cheap to clone.
#[derive(Clone)]
pub struct Packed {
    pack: Arc<Pack>,
    at: u32,
}

impl Packed {
    /// Packs texts that are much alike: what one source wrote.
    pub fn all(texts: &[&str]) -> Vec<Self> {
        let shared = shared(texts);
        let mut pack = Pack { bytes: Vec::new(), ends: Vec::with_capacity(texts.len()), shared };
        for text in texts {
            pack.bytes.extend_from_slice(&compress_prepend_size_with_dict(text.as_bytes(), &pack.shared));
            pack.ends.push(pack.bytes.len());
        }
        pack.bytes.shrink_to_fit();
        let pack = Arc::new(pack);
        texts.iter().zip(0..).map(|(_, at)| Self { pack: pack.clone(), at }).collect()
    }

    /// The text, byte for byte.
    pub fn unpack(&self) -> String {
        let at = self.at as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.pack.ends[before]);
        let bytes = &self.pack.bytes[start..self.pack.ends[at]];
        let text = decompress_size_prepended_with_dict(bytes, &self.pack.shared).expect("BUG: what was packed unpacks");
        String::from_utf8(text).expect("BUG: a packed text stays a text")
    }
}

impl From<&str> for Packed {
    fn from(text: &str) -> Self {
        let pack =
            Pack { shared: Vec::new(), bytes: compress_prepend_size_with_dict(text.as_bytes(), &[]), ends: Vec::new() };
        let ends = vec![pack.bytes.len()];
        Self { pack: Arc::new(Pack { ends, ..pack }), at: 0 }
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.unpack() == other.unpack()
    }
}

impl Eq for Packed {}

impl fmt::Debug for Packed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unpack().fmt(out)
    }
}

/// The starts of some of the texts, evenly spread.
fn shared(texts: &[&str]) -> Vec<u8> {
    let total: usize = texts.iter().map(|text| text.len()).sum();
    let room = SHARED_MAX.min(total / SHARED_PART);
    let mean = (total / texts.len().max(1)).clamp(1, PIECE_MAX);
    let step = (texts.len() * mean / room.max(1)).max(1);
    let mut shared = Vec::with_capacity(room);
    for text in texts.iter().step_by(step) {
        let piece = text.len().min(PIECE_MAX).min(room - shared.len());
        shared.extend_from_slice(&text.as_bytes()[..piece]);
    }
    shared
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn like_texts_take_little_room() {
        let texts: Vec<String> = (0..100)
            .map(|at| {
                let name = ["invoice", "ticket", "branch", "order"][at % 4];
                format!(
                    "{{\"name\":\"get_{name}_{at}\",\"description\":\"Gets one {name} by its number.\",\"inputSchema\":\
                     {{\"type\":\"object\",\"properties\":{{\"{name}_id\":{{\"type\":\"string\"}}}},\"required\":[\"{name}_id\"]}}}}"
                )
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let packed = Packed::all(&texts);
        let pack = &packed[0].pack;
        let total: usize = texts.iter().map(|text| text.len()).sum();
        assert!(2 * (pack.bytes.len() + pack.shared.len()) < total, "{} of {total}", pack.bytes.len());
        assert!(packed.iter().map(Packed::unpack).eq(texts));
    }

    proptest! {
        #[test]
        fn every_text_comes_back(texts in proptest::collection::vec(any::<String>(), 0..20), times in 1_usize..200) {
            let texts: Vec<String> = texts.iter().map(|text| text.repeat(times)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let packed = Packed::all(&texts);
            prop_assert!(packed.iter().map(Packed::unpack).eq(texts.iter().copied()));
            for text in texts {
                prop_assert_eq!(Packed::from(text).unpack(), text);
            }
        }
    }
}
