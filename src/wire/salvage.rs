//! Owns the search for the id of a message that cannot be read, so that its call can end at once instead of at its limit.
//! It finds only an id of the message itself: one inside its params or its result would end somebody else's call.

use serde_json::value::RawValue;

/// The id, as it is written, in a message of which the beginning and the end are at hand (each may be the whole).
pub fn salvage_id<'a>(head: &'a [u8], tail: &'a [u8]) -> Option<&'a str> {
    from_head(head).or_else(|| from_tail(tail))
}

/// Whether a message, of which the beginning is at hand, is seen to be an answer and no request.
pub fn is_answer(head: &[u8]) -> bool {
    let kind =
        outer(head).filter(|(_, rest)| rest.trim_ascii_start().starts_with(b":")).find_map(|(name, _)| match name {
            b"\"method\"" => Some(false),
            b"\"result\"" | b"\"error\"" => Some(true),
            _ => None,
        });
    kind.unwrap_or(false)
}

/// The first `"id":` outside of every inner value.
fn from_head(text: &[u8]) -> Option<&str> {
    let found = outer(text).filter(|(name, _)| *name == b"\"id\"").find_map(|(_, rest)| value(rest));
    found.map(|(id, _)| id)
}

/// Follows strings and brackets from the start: the strings outside of every inner value, each with what comes after it.
fn outer(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let (mut at, mut depth) = (0, 0_usize);
    std::iter::from_fn(move || {
        while at < text.len() {
            let start = at;
            at += 1;
            match text[start] {
                b'"' => {
                    let string = string_length(&text[start..]);
                    at = string.map_or(text.len(), |length| start + length);
                    if depth == 1 && string.is_some() {
                        return Some((&text[start..at], &text[at..]));
                    }
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    })
}

/// The last `"id":` after which nothing but plain members and the message's own bracket comes.
fn from_tail(text: &[u8]) -> Option<&str> {
    let at = memchr::memmem::rfind(text, b"\"id\"")?;
    // The end of a longer name.
    if text[..at].ends_with(b"\\") {
        return None;
    }
    let (id, rest) = value(&text[at + 4..])?;
    let inner = rest.trim_ascii_end().strip_suffix(b"}")?;
    let is_outermost = !inner.iter().any(|byte| matches!(byte, b'{' | b'[' | b'}' | b']'));
    is_outermost.then_some(id)
}

/// A string or a number behind a colon, and what comes after it.
fn value(text: &[u8]) -> Option<(&str, &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let length = match text.first()? {
        b'"' => string_length(text)?,
        _ => text.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))?,
    };
    let raw = std::str::from_utf8(&text[..length]).ok()?;
    serde_json::from_str::<&RawValue>(raw).ok()?;
    Some((raw, &text[length..]))
}

/// The length of the string literal that `text` starts with, quotes included.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<&str>) {
        assert_eq!(salvage_id(text.as_bytes(), text.as_bytes()), want, "{text}");
    }

    #[test]
    fn ids_of_broken_messages_are_found() {
        check(r#"{"jsonrpc":"2.0","id": 17,"result":{"con"#, Some("17"));
        check(r#"{"jsonrpc":"2.0","id":"a \" b","method":"#, Some(r#""a \" b""#));
        check(r#""}],"isError":false},"id":"18"}"#, Some(r#""18""#));
        check(r#"{"result":{"id":1,"a":[{"id":2}]},"jsonrpc":"2.0","id":-3,}"#, Some("-3"));
        check(r#"3}]},"id":4,"jsonrpc":"2.0"}"#, Some("4"));
        check(r#"{"method":"id","id":5,"#, Some("5"));
    }

    #[test]
    fn answers_are_told_from_requests() {
        for (text, want) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"method":"#, true),
            (r#"{"error":{"code":1},"#, true),
            (r#"{"result":"method","#, true),
            (r#"{"jsonrpc":"result","id":1,"method":"error","params":{"result":1}"#, false),
            (r#"{"params":{"result":1},"id":2"#, false),
            (r#"[{"result":1}]"#, false),
            (r#"{"result"#, false),
            ("", false),
        ] {
            assert_eq!(is_answer(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn ids_of_inner_values_are_not() {
        check(r#"{"jsonrpc":"2.0","#, None);
        check(r#"{"jsonrpc":"2.0","id":1"#, None);
        check(r#"{"params":{"id":1},"method":"ping""#, None);
        check(r#"{"params":{"arguments":{"id":1}}}"#, None);
        assert_eq!(from_tail(br#"1},{"id":2}]}}"#), None);
        check(r#"{"text":"\"id\":1,","#, None);
        check(r#"{"id":{},"x"#, None);
    }
}
