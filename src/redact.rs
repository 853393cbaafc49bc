//! Owns the masking of secrets in text that was written by a source and is about to be shown, in whatever common encoding
//! they stand there. It does not decide what is shown.

use std::fmt::Write as _;

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
/// Words after which a value is a credential: `Bearer x`, `token=x`, `api_key: x`.
const INTRODUCERS: &[&str] =
    &["bearer", "token", "apikey", "api_key", "api-key", "secret", "password", "passwd", "authorization"];

/// The values in every form in which programs tend to show them: as they are, percent-encoded, in hex and base64 (also as
/// part of a longer text), and as in a JSON string. The longest first.
pub fn forms(secrets: Vec<String>) -> Vec<String> {
    let mut forms: Vec<String> =
        secrets.iter().filter(|secret| secret.len() >= SECRET_MIN).flat_map(|secret| encodings(secret)).collect();
    forms.extend(secrets);
    forms.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms
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

/// `text` with every secret masked: the given values, well-known token formats, and what follows words such as `Bearer`.
pub fn mask(text: &str, secrets: &[String]) -> String {
    let mut out = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= SECRET_MIN) {
        if out.contains(secret.as_str()) {
            out = out.replace(secret.as_str(), MASK);
        }
    }
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
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            if chars.next_if_eq(&'[').is_some() {
                while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
            }
        } else if c.is_control() {
            out.push(' ');
        } else {
            out.push(c);
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
    fn lines_are_cleaned() {
        assert_eq!(one_line("\u{1b}[31mred\u{1b}[0m\tend\r", 100), "red end");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
