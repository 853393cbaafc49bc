//! Owns the masking of secrets in text that was written by a source and is about to be shown, in whatever common encoding
//! they stand there. It does not decide what is shown.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// What stands in place of a secret.
const MASK: &str = "***";
/// The shortest value that is masked by value: shorter ones would tear ordinary words apart.
pub const SECRET_MIN: usize = 6;
/// Beginnings of well-known credential formats, followed by at least [`TOKEN_MIN`] token characters.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "hf_",
];
const TOKEN_MIN: usize = 8;
/// Begins a sequence that steers a terminal.
const ESCAPE: char = '\u{1b}';
/// How much of a secret has to be there, where it is cut off.
const BEGUN_MIN: usize = 8;
/// How many layers of escapes are looked through.
const LAYERS_MAX: usize = 3;
/// Words after which a value is a credential: `Bearer x`, `token=x`, `api_key: x`.
const INTRODUCERS: &[&str] =
    &["bearer", "token", "apikey", "api_key", "api-key", "secret", "password", "passwd", "authorization"];

/// Gives the [`forms`] of a source's secrets as they are now.
pub type Secrets = Box<dyn Fn() -> Arc<Vec<String>> + Send + Sync>;

/// The values in every form in which programs tend to show them: as they are and line by line, the password of an address
/// alone, percent-encoded, in hex and base64 (also as part of a longer text), and as in a JSON string. The longest first.
pub fn forms(secrets: Vec<String>) -> Vec<String> {
    let parts: Vec<String> = secrets.iter().flat_map(|secret| parts(secret)).collect();
    let secrets = [secrets, parts].concat();
    let mut forms: Vec<String> =
        secrets.iter().filter(|secret| secret.len() >= SECRET_MIN).flat_map(|secret| encodings(secret)).collect();
    forms.extend(secrets);
    forms.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms
}

/// What of a secret is shown alone: each of its lines, which may be written as `\n`, and the password of an address.
fn parts(secret: &str) -> Vec<String> {
    let text = secret.replace("\\r", "\r").replace("\\n", "\n");
    let mut parts: Vec<String> = match text.contains(['\n', '\r']) {
        true => text.split(['\n', '\r']).map(|line| line.trim().to_owned()).collect(),
        false => Vec::new(),
    };
    if let Some(password) = reqwest::Url::parse(secret).ok().as_ref().and_then(reqwest::Url::password) {
        parts.push(password.to_owned());
        parts.extend(unescaped(password));
    }
    parts.retain(|part| part.len() >= SECRET_MIN);
    parts
}

fn encodings(secret: &str) -> Vec<String> {
    let hex = secret.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let percent = |space: &str, upper: bool| {
        secret.bytes().fold(String::new(), |mut out, byte| {
            let _ = match byte {
                b' ' => out.write_str(space),
                _ if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => out.write_char(byte.into()),
                _ if upper => write!(out, "%{byte:02X}"),
                _ => write!(out, "%{byte:02x}"),
            };
            out
        })
    };
    let quoted = crate::wire::quoted(secret);
    let mut forms = vec![
        secret.chars().filter(|c| !c.is_ascii_control()).collect(),
        hex.to_ascii_uppercase(),
        hex,
        percent("%20", true),
        percent("%20", false),
        percent("+", true),
        quoted[1..quoted.len() - 1].to_owned(),
    ];
    // Within a longer text it may begin at any of three places in a group; what depends on its neighbours is left out.
    for before in 0..3 {
        let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
        let text = STANDARD_NO_PAD.encode(&bytes);
        let own = &text[(before * 8).div_ceil(6)..bytes.len() * 8 / 6];
        forms.extend([own.to_owned(), own.replace('+', "-").replace('/', "_")]);
    }
    forms
}

/// `text` with the given values masked, and nothing else.
pub fn mask_values(text: &str, secrets: &[String]) -> String {
    let mut out = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= SECRET_MIN) {
        if out.contains(secret.as_str()) {
            out = out.replace(secret.as_str(), MASK);
        }
    }
    mask_escaped(out, secrets)
}

/// `text`, which may be cut off, with every secret masked: the given values, well-known token formats, and what follows words
/// such as `Bearer`.
pub fn mask(text: &str, secrets: &[String]) -> String {
    let out = mask_begun(mask_values(text, secrets), secrets);
    let mut masked = String::with_capacity(out.len());
    let mut introduced = false;
    for word in words(&out) {
        let token = word.bytes().next().is_some_and(is_token_byte);
        if token && (is_known_format(word) || (introduced && looks_random(word))) {
            masked.push_str(MASK);
            introduced = false;
            continue;
        }
        if token {
            let lower = word.to_ascii_lowercase();
            introduced = INTRODUCERS.iter().any(|introducer| lower.ends_with(introducer))
                || (introduced && word.len() < TOKEN_MIN);
        }
        masked.push_str(word);
    }
    masked
}

/// Masks a secret of which only the beginning is there, at the end of a text that was cut.
fn mask_begun(mut text: String, secrets: &[String]) -> String {
    let whole = text.trim_end_matches('\u{fffd}').len();
    let begins = |secret: &String| {
        let (start, tail) = (secret.as_bytes().get(..BEGUN_MIN)?, whole.saturating_sub(secret.len()));
        let mut found = memchr::memmem::find_iter(&text.as_bytes()[tail..whole], start).map(|at| at + tail);
        found.find(|at| secret.as_bytes().starts_with(&text.as_bytes()[*at..whole]))
    };
    if let Some(at) = secrets.iter().filter_map(begins).min() {
        text.truncate(at);
        text.push_str(MASK);
    }
    text
}

/// Masks what is secret once escapes are read: those of JSON and programs, of addresses, of HTML, in part or throughout, and
/// one within the other; and once what terminals do not show is left out.
fn mask_escaped(text: String, secrets: &[String]) -> String {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut layer = Layer::of(&text);
    for _ in 0..LAYERS_MAX {
        let Some(next) = layer.peeled() else { break };
        layer = next;
        for secret in secrets.iter().filter(|secret| secret.len() >= SECRET_MIN) {
            let hits = memchr::memmem::find_iter(&layer.bytes, secret.as_bytes());
            found.extend(hits.map(|at| (layer.places[at].0, layer.places[at + secret.len() - 1].1)));
        }
    }
    found.sort_unstable();
    let (mut out, mut done) = (String::new(), 0);
    for (from, to) in found {
        if from >= done {
            let start = (done..=from).rev().find(|at| text.is_char_boundary(*at));
            out.push_str(&text[done..start.unwrap_or(done)]);
            out.push_str(MASK);
        }
        let end = (to..text.len()).find(|at| text.is_char_boundary(*at));
        done = done.max(end.unwrap_or(text.len()));
    }
    if done == 0 { text } else { out + &text[done..] }
}

/// A text without some of its escapes: each byte with where it comes from.
struct Layer {
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
}

impl Layer {
    fn of(text: &str) -> Self {
        Self { bytes: text.as_bytes().to_vec(), places: (0..text.len()).map(|at| (at, at + 1)).collect() }
    }

    /// The same with one layer of escapes less; `None` where there are none.
    fn peeled(&self) -> Option<Self> {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < self.bytes.len() {
            let rest = &self.bytes[at..];
            let (decoded, length) = unescape(rest).unwrap_or((vec![rest[0]], 1));
            let place = (self.places[at].0, self.places[at + length - 1].1);
            places.extend(decoded.iter().map(|_| place));
            bytes.extend(decoded);
            at += length;
        }
        (bytes.len() < self.bytes.len()).then_some(Self { bytes, places })
    }
}

/// A text without one layer of escapes, as far as it has any.
pub fn unescaped(text: &str) -> Option<String> {
    Layer::of(text).peeled().map(|layer| String::from_utf8_lossy(&layer.bytes).into_owned())
}

/// What the escape at the beginning stands for, and its length.
fn unescape(rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    let number = |digits: &[u8], radix| u32::from_str_radix(str::from_utf8(digits).ok()?, radix).ok();
    let of_byte = |digits: &[u8], length| Some((vec![u8::try_from(number(digits, 16)?).ok()?], length));
    let of_char = |code: u32, length| Some((char::from_u32(code)?.to_string().into_bytes(), length));
    match rest {
        [0..=31 | 127, ..] => Some((Vec::new(), control_length(rest))),
        [b'%', a, b, ..] => of_byte(&[*a, *b], 3),
        [b'\\', b'u', a, b, c, d, ..] => of_char(number(&[*a, *b, *c, *d], 16)?, 6),
        [b'\\', b'x', a, b, ..] => of_byte(&[*a, *b], 4),
        [b'\\', c @ (b'/' | b'\\' | b'"' | b'\''), ..] => Some((vec![*c], 2)),
        [b'&', ..] => {
            let end = rest.iter().take(10).position(|byte| *byte == b';')?;
            match &rest[1..end] {
                b"amp" => Some((b"&".to_vec(), end + 1)),
                b"lt" => Some((b"<".to_vec(), end + 1)),
                b"gt" => Some((b">".to_vec(), end + 1)),
                b"quot" => Some((b"\"".to_vec(), end + 1)),
                b"apos" => Some((b"'".to_vec(), end + 1)),
                [b'#', b'x' | b'X', digits @ ..] => of_char(number(digits, 16)?, end + 1),
                [b'#', digits @ ..] => of_char(number(digits, 10)?, end + 1),
                _ => None,
            }
        }
        _ => None,
    }
}

/// How long the control character at the beginning is, with all of the sequence that it begins (ECMA-48).
fn control_length(rest: &[u8]) -> usize {
    const BELL: u8 = 7;
    let Some(after) = rest.strip_prefix(b"\x1b") else { return 1 };
    match after {
        [b'[', sequence @ ..] => {
            let end = sequence.iter().position(|byte| !(0x20..=0x3f).contains(byte));
            2 + end.map_or(sequence.len(), |end| end + usize::from((0x40..=0x7e).contains(&sequence[end])))
        }
        [b']', sequence @ ..] => match sequence.iter().position(|byte| matches!(*byte, BELL | 0x1b)) {
            Some(end) => 2 + end + if sequence[end..].starts_with(b"\x1b\\") { 2 } else { 1 },
            None => 1,
        },
        [byte, ..] if byte.is_ascii_graphic() => 2,
        _ => 1,
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/')
}

/// Runs of token characters and runs of others, in turn.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let token = is_token_byte(*rest.as_bytes().first()?);
        let end = rest.bytes().position(|byte| is_token_byte(byte) != token).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

fn is_known_format(word: &str) -> bool {
    PREFIXES.iter().any(|prefix| {
        word.match_indices(prefix).any(|(at, _)| {
            let starts = at == 0 || !word.as_bytes()[at - 1].is_ascii_alphanumeric();
            starts && word.len() - at - prefix.len() >= TOKEN_MIN
        })
    })
}

fn looks_random(word: &str) -> bool {
    word.len() >= TOKEN_MIN && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// `text` as one line fit for a message: control characters and escape sequences gone, at most `max` characters.
pub fn one_line(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            ESCAPE => control_length(rest.as_bytes()),
            _ => c.len_utf8(),
        };
        rest = &rest[length..];
        match c {
            ESCAPE => {}
            _ if c.is_control() => out.push(' '),
            _ => out.push(c),
        }
    }
    let out = out.trim();
    if out.chars().count() <= max {
        return out.to_owned();
    }
    out.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked() {
        let check = |text: &str, want: &str| assert_eq!(mask(text, &["hunter22".to_owned(), "abc".to_owned()]), want);
        check("Error: API_TOKEN missing (got sk-live-abcdef1234)", "Error: API_TOKEN missing (got ***)");
        check("key hunter22! abc", "key ***! abc");
        check("Authorization: Bearer a1b2c3d4e5f6", "Authorization: Bearer ***");
        check("GITHUB_TOKEN=ghp_0123456789abcdef", "GITHUB_TOKEN=***");
        check("token expected at line 12345678 of x", "token expected at line 12345678 of x");
        check(
            "Cannot find module '/usr/lib/task-runner/index.js'",
            "Cannot find module '/usr/lib/task-runner/index.js'",
        );
        check("naïve ✓ text", "naïve ✓ text");
    }

    #[test]
    fn encoded_secrets_are_masked() {
        let secret = "p\u{e4}ss+w/or d\"7";
        let secrets = forms(vec![secret.to_owned()]);
        let base64 = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        let hex = |upper: bool| {
            let digits = |byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
            secret.bytes().map(digits).collect::<String>()
        };
        for shown in [
            secret.to_owned(),
            "p%C3%A4ss%2Bw%2For%20d%227".to_owned(),
            "p%c3%a4ss%2bw%2for%20d%227".to_owned(),
            "p%C3%A4ss%2Bw%2For+d%227".to_owned(),
            r#"p\u{e4}ss+w/or d\"7"#.replace("\\u{e4}", "\u{e4}"),
            hex(false),
            hex(true),
        ] {
            assert_eq!(mask(&format!("<{shown}>"), &secrets), "<***>", "{shown}");
        }
        for around in ["", "u", "me:", "user:"] {
            let shown = base64(format!("{around}{secret}{around}"));
            let masked = mask(&shown, &secrets);
            assert!(masked.contains("***"), "{shown} {masked}");
        }
        assert_eq!(forms(vec!["abc".to_owned()]), ["abc"]);
    }

    #[test]
    fn escaped_secrets_are_masked() {
        let secrets = forms(vec!["ab/cd+Ef<9Z\"&mäy".to_owned(), "abc".to_owned()]);
        for shown in [
            r#"ab\/cd+Ef<9Z\"&mäy"#,
            r#"ab/cd\u002BEf\u003C9Z\u0022\u0026m\u00E4y"#,
            r#"ab/cd\u002bEf\u003c9Z\u0022\u0026m\u00e4y"#,
            "ab/cd+Ef&lt;9Z&quot;&amp;mäy",
            "ab&#47;cd&#x2B;Ef&#60;9Z&#34;&#38;m&#228;y",
            "ab/cd%2BEf%3C9Z%22%26m%C3%a4y",
            "ab%252Fcd%252BEf%253C9Z%2522%2526m%25C3%25A4y",
            r#"ab\\\/cd+Ef<9Z\\\"&m\\u00e4y"#,
            r#"ab/cd+Ef<9Z\x22&m\xc3\xa4y"#,
        ] {
            assert_eq!(mask(&format!("ä<{shown}> %zz \\ & 100%"), &secrets), "ä<***> %zz \\ & 100%", "{shown}");
        }
        assert_eq!(mask(r"\u0061bc ab%63 C:\\dir 50%", &secrets), r"\u0061bc ab%63 C:\\dir 50%");
        assert_eq!(unescaped("a%40b").as_deref(), Some("a@b"));
        assert_eq!(unescaped("a@b%"), None);
    }

    #[test]
    fn parts_of_secrets_are_masked() {
        let key = "-----BEGIN KEY-----\nMIIfirstline\nsecondLINE\n-----END KEY-----\n";
        for key in [key.to_owned(), key.replace('\n', "\\n"), key.replace('\n', "\r\n")] {
            let secrets = forms(vec![key.clone()]);
            for line in ["MIIfirstline", "secondLINE"] {
                assert_eq!(mask(&format!("| {line} |"), &secrets), "| *** |", "{key:?}");
            }
            assert_eq!(mask(&format!("<{key}>"), &secrets), "<***>", "{key:?}");
            assert_eq!(mask(&format!("<{}>", key.replace(['\n', '\r'], "")), &secrets), "<***>", "{key:?}");
        }
        let secrets = forms(vec!["postgres://me:pa%20ss42x@db/x".to_owned()]);
        assert_eq!(mask("no login with pa ss42x or pa%20ss42x", &secrets), "no login with *** or ***");
        assert_eq!(mask("no login at db for me", &secrets), "no login at db for me");
    }

    #[test]
    fn what_terminals_do_not_show_hides_no_secret() {
        let secrets = forms(vec!["abcdEFGH12345678".to_owned()]);
        for shown in [
            "abcd\u{1b}[31mEFGH\u{1b}[0m12345678",
            "abcdEFGH\u{1b}[1;38;5;9m12345678",
            "abcd\u{1b}]8;;http://x\u{7}EFGH\u{1b}]8;;\u{1b}\\12345678",
            "abcd\u{8}EFGH\r\n12345678",
            "abcd%1b[0mEFGH\\u001b[0m12345678",
        ] {
            assert_eq!(mask(&format!("<{shown}>"), &secrets), "<***>", "{shown:?}");
        }
        assert_eq!(mask("\u{1b}[31mplain\u{1b}[0m", &secrets), "\u{1b}[31mplain\u{1b}[0m");
    }

    #[test]
    fn secrets_that_are_cut_off_are_masked() {
        let secrets = forms(vec!["é-0123456789-0123456789".to_owned()]);
        for (text, want) in [
            ("key é-012345", "key ***"),
            ("key é-0123456789-0123456789 and é-0123456789-0\u{fffd}", "key *** and ***"),
            ("key %C3%A9-0123", "key ***"),
            ("key é-01", "key é-01"),
            ("key é-0123456 and more", "key é-0123456 and more"),
        ] {
            assert_eq!(mask(text, &secrets), want);
        }
    }

    #[test]
    fn lines_are_cleaned() {
        assert_eq!(one_line("\u{1b}[1;31", 100), "");
        assert_eq!(one_line("a\u{1b}[1;31é\u{1b}]0;title\u{7}b\u{1b}(c\u{1b}", 100), "aébc");
        assert_eq!(one_line("\u{1b}[31mred\u{1b}[0m\tend\r", 100), "red end");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
