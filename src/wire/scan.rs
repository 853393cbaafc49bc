//! Owns the walk over JSON text, one level deep: where the members of an object or the elements of an array stand, whether
//! all of the text is JSON, and which of a few words stand in it. It decodes and builds nothing, so no number, escape or depth can make it fail.
//!
//! Positions are handed on as values: so they stay in registers, and the walk takes half the time.

use super::Span;

/// How much of a string is looked at byte by byte first: keys and most values end within it.
const NEAR: usize = 16;
/// How much is looked at at once behind that.
const BLOCK: usize = 32;
/// A string that has not ended after this much more is a long one.
const LONG: usize = 4 * BLOCK;
/// How much of a long string is searched before it is checked: it is still in the nearest cache then.
const STRETCH: usize = 16 * 1024;

/// What is wrong with a text, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub(crate) struct Fault {
    what: &'static str,
    at: usize,
}

/// Which keys an object's own members may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    Strict,
    /// Also such with control characters in them, which JSON does not allow.
    Loose,
}

/// What was met on the way, at any depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// All of the text is ASCII. Where it is not, nobody has looked yet whether it is UTF-8.
    pub ascii: bool,
    /// A string, or a key, `resource_link`.
    pub resource_link: bool,
    /// One `structuredContent`.
    pub structured: bool,
    /// A `null`, where no string is.
    pub null: bool,
}

impl Met {
    const NOTHING: Self = Self { ascii: true, resource_link: false, structured: false, null: false };

    /// A string of this text, as it is written.
    #[inline(always)]
    fn string(&mut self, text: &[u8]) {
        match text.len() {
            13 => self.resource_link |= text == b"resource_link",
            17 => self.structured |= text == b"structuredContent",
            _ => {}
        }
    }
}

/// Where the walk goes on.
type At = Result<usize, Fault>;

/// Gives the members of the one object that `text` is to `each`, keys with their quotes.
pub(crate) fn members(text: &[u8], keys: Keys, mut each: impl FnMut(Span, Span)) -> Result<Met, Fault> {
    let mut met = Met::NOTHING;
    let start = blank(text, 0);
    if text.get(start) != Some(&b'{') {
        return fault(text, start, "expected `{`");
    }
    let mut at = blank(text, start + 1);
    while text.get(at) != Some(&b'}') {
        let start = at;
        if text.get(at) != Some(&b'"') {
            return fault(text, at, "expected a key in quotes");
        }
        at = match keys {
            Keys::Strict => string(text, at + 1, &mut met)?,
            Keys::Loose => loose_string(text, at + 1, &mut met)?,
        };
        let key = Span { start, end: at };
        let start = colon(text, at)?;
        at = value(text, start, &mut met)?;
        each(key, Span { start, end: at });
        at = blank(text, at);
        match text.get(at) {
            Some(b',') => at = blank(text, at + 1),
            Some(b'}') => break,
            _ => return fault(text, at, "expected `,` or `}`"),
        }
        if text.get(at) == Some(&b'}') {
            return fault(text, at, "expected a key behind the comma");
        }
    }
    nothing_more(text, at + 1)?;
    Ok(met)
}

/// Gives the elements of the one array that `text` is to `each`, and tells what [`members`] tells.
pub(crate) fn elements(text: &[u8], mut each: impl FnMut(Span)) -> Result<Met, Fault> {
    let mut met = Met::NOTHING;
    let start = blank(text, 0);
    if text.get(start) != Some(&b'[') {
        return fault(text, start, "expected `[`");
    }
    let mut at = blank(text, start + 1);
    if text.get(at) != Some(&b']') {
        loop {
            let start = at;
            at = value(text, start, &mut met)?;
            each(Span { start, end: at });
            at = blank(text, at);
            match text.get(at) {
                Some(b',') => at = blank(text, at + 1),
                Some(b']') => break,
                _ => return fault(text, at, "expected `,` or `]`"),
            }
        }
    }
    nothing_more(text, at + 1)?;
    Ok(met)
}

#[cold]
#[inline(never)]
fn fault<T>(text: &[u8], at: usize, what: &'static str) -> Result<T, Fault> {
    let what = if at < text.len() { what } else { "the text breaks off" };
    Err(Fault { what, at })
}

/// To the next byte that is no blank.
#[inline(always)]
fn blank(text: &[u8], mut at: usize) -> usize {
    // Most bytes are no blank, and one comparison tells.
    while let Some(..=b' ') = text.get(at)
        && let b' ' | b'\n' | b'\r' | b'\t' = text[at]
    {
        at += 1;
    }
    at
}

fn nothing_more(text: &[u8], at: usize) -> Result<(), Fault> {
    let at = blank(text, at);
    if at < text.len() { fault(text, at, "expected nothing more") } else { Ok(()) }
}

/// The brackets that are open, the innermost last: one bit each, set for an object.
#[derive(Default)]
struct Open {
    depth: usize,
    nearest: u64,
    /// Those further out, 64 together.
    outer: Vec<u64>,
}

impl Open {
    #[inline(always)]
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.stow();
        }
        self.nearest = self.nearest << 1 | u64::from(object);
        self.depth += 1;
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth -= 1;
        self.nearest >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.fetch();
        }
    }

    #[cold]
    #[inline(never)]
    fn stow(&mut self) {
        self.outer.push(self.nearest);
    }

    #[cold]
    #[inline(never)]
    fn fetch(&mut self) {
        self.nearest = self.outer.pop().expect("BUG: what is open was noted");
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        self.nearest & 1 == 1
    }
}

/// Over one value, whatever stands in it.
fn value(text: &[u8], mut at: usize, met: &mut Met) -> At {
    let mut open = Open::default();
    loop {
        // A value starts here.
        match text.get(at) {
            Some(b'"') => at = string(text, at + 1, met)?,
            Some(b'{') => {
                open.push(true);
                at = blank(text, at + 1);
                if text.get(at) != Some(&b'}') {
                    at = key(text, at, met)?;
                    continue;
                }
            }
            Some(b'[') => {
                open.push(false);
                at = blank(text, at + 1);
                if text.get(at) != Some(&b']') {
                    continue;
                }
            }
            Some(b'-' | b'0'..=b'9') => at = number(text, at)?,
            Some(b't') => at = word(text, at, b"true")?,
            Some(b'f') => at = word(text, at, b"false")?,
            Some(b'n') => {
                at = word(text, at, b"null")?;
                met.null = true;
            }
            _ => return fault(text, at, "expected a value"),
        }
        // It ends here, and with it maybe what it stands in.
        loop {
            if open.depth == 0 {
                return Ok(at);
            }
            at = blank(text, at);
            match text.get(at) {
                Some(b',') => {
                    at = blank(text, at + 1);
                    if open.in_object() {
                        at = key(text, at, met)?;
                    }
                    break;
                }
                Some(b'}') if open.in_object() => {}
                Some(b']') if !open.in_object() => {}
                _ if open.in_object() => return fault(text, at, "expected `,` or `}`"),
                _ => return fault(text, at, "expected `,` or `]`"),
            }
            // Of an object or an array that was empty, it is the bracket that is taken here.
            at += 1;
            open.pop();
        }
    }
}

/// Over a key and its colon, to the value.
#[inline(always)]
fn key(text: &[u8], at: usize, met: &mut Met) -> At {
    if text.get(at) != Some(&b'"') {
        return fault(text, at, "expected a key in quotes");
    }
    let at = string(text, at + 1, met)?;
    colon(text, at)
}

#[inline(always)]
fn colon(text: &[u8], at: usize) -> At {
    let at = blank(text, at);
    if text.get(at) == Some(&b':') { Ok(blank(text, at + 1)) } else { fault(text, at, "expected `:`") }
}

#[inline(always)]
fn word(text: &[u8], at: usize, word: &[u8]) -> At {
    if text[at..].starts_with(word) { Ok(at + word.len()) } else { fault(text, at, "expected true, false or null") }
}

#[inline(always)]
fn number(text: &[u8], mut at: usize) -> At {
    if text[at] == b'-' {
        at += 1;
    }
    let start = at;
    at = digits(text, start)?;
    if text[start] == b'0' && at > start + 1 {
        return fault(text, start, "expected no digit behind a leading zero");
    }
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = digits(text, at)?;
    }
    Ok(at)
}

#[inline(always)]
fn digits(text: &[u8], start: usize) -> At {
    let mut at = start;
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    if at == start { fault(text, at, "expected a digit") } else { Ok(at) }
}

/// Bytes of which a string cannot simply be full: quotes, backslashes, control characters, and those of no ASCII character.
#[inline(always)]
const fn is_special(byte: u8) -> bool {
    // Signed, the last are less than all others.
    byte.cast_signed() < 0x20 || byte == b'"' || byte == b'\\'
}

static SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_special(byte as u8);
        byte += 1;
    }
    table
};

/// Whether any of the bytes is so. Without an exit inside of a block it is done for many bytes at once.
#[inline(always)]
fn has(bytes: &[u8], is: impl Fn(u8) -> bool) -> bool {
    let (blocks, rest) = bytes.as_chunks::<{ 2 * BLOCK }>();
    let in_block = |block: &[u8]| block.iter().fold(false, |any, byte| any | is(*byte));
    blocks.iter().any(|block| in_block(block)) || in_block(rest)
}

/// Over the rest of a string, from behind its opening quote to behind the closing one.
#[inline(always)]
fn string(text: &[u8], at: usize, met: &mut Met) -> At {
    let end = match near(text, at) {
        Some(end) if text[end] == b'"' => end + 1,
        Some(end) => far(text, end, met)?,
        None => far(text, at, met)?,
    };
    met.string(&text[at..end - 1]);
    Ok(end)
}

/// The first special byte, if it is near.
#[inline(always)]
fn near(text: &[u8], at: usize) -> Option<usize> {
    let bytes = text[at..].first_chunk::<NEAR>()?;
    for (place, byte) in bytes.iter().enumerate() {
        if SPECIAL[usize::from(*byte)] {
            return Some(at + place);
        }
    }
    None
}

/// The same as [`string`], for what is not over at once.
#[inline(never)]
fn far(text: &[u8], mut at: usize, met: &mut Met) -> At {
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => {
                at = escape(text, at)?;
                // Where there is one escape there are often more.
                match near(text, at) {
                    Some(end) => at = end,
                    None => at = plain(text, at, met)?,
                }
            }
            Some(0x80..) => at = stretch(text, at, met)?,
            Some(0x20..) => at = plain(text, at, met)?,
            _ => return fault(text, at, "expected no control character in a string"),
        }
    }
}

/// To the next special byte, or the end.
#[inline(always)]
fn plain(text: &[u8], mut at: usize, met: &mut Met) -> At {
    let long = at + LONG;
    while let Some(block) = text[at..].first_chunk::<BLOCK>() {
        if block.iter().fold(false, |any, byte| any | is_special(*byte)) {
            break;
        }
        at += BLOCK;
        if at >= long {
            return stretch(text, at, met);
        }
    }
    while text.get(at).is_some_and(|byte| !SPECIAL[usize::from(*byte)]) {
        at += 1;
    }
    Ok(at)
}

/// To the next quote or backslash, or the end.
#[inline(never)]
fn stretch(text: &[u8], mut at: usize, met: &mut Met) -> At {
    loop {
        let rest = &text[at..text.len().min(at + STRETCH)];
        let end = memchr::memchr2(b'"', b'\\', rest);
        let plain = &rest[..end.unwrap_or(rest.len())];
        // Signed, bytes that are not ASCII are less than all others.
        if has(plain, |byte| byte.cast_signed() < 0x20) {
            met.ascii = false;
            if has(plain, |byte| byte < 0x20) {
                let control = plain.iter().position(|byte| *byte < 0x20).unwrap_or_default();
                return fault(text, at + control, "expected no control character in a string");
            }
        }
        at += plain.len();
        if end.is_some() || at == text.len() {
            return Ok(at);
        }
    }
}

/// Over a backslash and what has to come behind it. A surrogate may stand alone.
#[inline(always)]
fn escape(text: &[u8], at: usize) -> At {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            let digits = text[at + 2..].iter().take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
            if digits == 4 { Ok(at + 6) } else { fault(text, at + 2 + digits, "expected four hex digits") }
        }
        _ => fault(text, at + 1, "expected an escape"),
    }
}

/// The same as [`string`], for a key in which control characters may stand.
fn loose_string(text: &[u8], mut at: usize, met: &mut Met) -> At {
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape(text, at)?,
            Some(byte) => {
                met.ascii &= byte.is_ascii();
                at += 1;
            }
            None => return fault(text, at, "expected the end of a key"),
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
