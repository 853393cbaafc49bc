//! Owns the masking of secrets in text that was written by a source and is about to be shown.
//! It does not decide what is shown.

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
    fn lines_are_cleaned() {
        assert_eq!(one_line("\u{1b}[31mred\u{1b}[0m\tend\r", 100), "red end");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
