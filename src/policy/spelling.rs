//! Owns what a source may take a URI for: read once or more, with or without its detours, and as URL parsers read it.
//! It judges nothing.

use reqwest::Url;
use unicode_normalization::UnicodeNormalization;

/// How the URIs of relays begin.
const RELAY: &str = "toolrelay://";

/// What is escaped twice is read twice by careless sources, and something may have to be dropped between.
const READINGS: usize = 4;

/// All other spellings of a URI. With `keep_user` the name that is to log in stays in them.
pub fn others(uri: &str, keep_user: bool) -> Vec<String> {
    let mut all = Vec::new();
    for text in texts(uri) {
        for is_path in [false, true] {
            add(&mut all, plain(&text, is_path));
        }
        if let Some(url) = parsed(&text) {
            add(&mut all, read(&named(url, keep_user)));
        }
    }
    all.retain(|spelling| spelling != uri);
    all
}

/// What is left of a URI for sources that look at a part of it: of one of a relay's what is in it; nobody who logs in; no
/// fragment; of files neither host nor query, and no slash at the end. What has no scheme is a file.
pub fn careless(uri: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut texts = texts(uri);
    for _ in 0..READINGS {
        let inner: Vec<String> = texts.iter().filter_map(|text| within(text)).map(str::to_owned).collect();
        inner.iter().for_each(|text| add(&mut all, plain(text, false)));
        texts.extend(inner.into_iter().filter(|text| !texts.contains(text)).collect::<Vec<_>>());
    }
    for hosted in texts.clone().iter().filter_map(|text| hosted(text)) {
        add(&mut all, plain(&hosted, false));
        texts.push(hosted);
    }
    for text in texts {
        let Some(mut url) = parsed(&text).or_else(|| pathlike(&text)).map(|url| named(url, false)) else { continue };
        url.set_fragment(None);
        if url.scheme() == "file" {
            url.set_query(None);
            // An authority is set to none where there may be one.
            let _ = url.set_host(None);
            add(&mut all, read(&url).trim_end_matches('/').to_owned());
        }
        add(&mut all, read(&url));
    }
    all
}

/// With nothing but the host between its scheme and its path, whatever the scheme. A port is left where it may be another
/// one than is usual.
fn hosted(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let of_file = scheme.eq_ignore_ascii_case("file").then(|| host.trim_end_matches(|c: char| c.is_ascii_digit()));
    let host = of_file.filter(|host| host.ends_with(':')).unwrap_or(host).trim_end_matches(':');
    (host.len() < authority.len()).then(|| format!("{scheme}://{host}{path}"))
}

fn add(all: &mut Vec<String>, spelling: String) {
    if !all.contains(&spelling) {
        all.push(spelling);
    }
}

/// What is read as the URI: escapes read not at all or again and again (`%41` is `A`), with what parsers drop or without, and
/// with backslashes as they are or as slashes.
fn texts(uri: &str) -> Vec<String> {
    let mut all = vec![uri.to_owned()];
    // One may bring the other about: `%2<TAB>e`.
    for _ in 0..READINGS {
        let before = all.clone();
        for text in &before {
            for change in [unescaped, bare, composed, |text: &str| text.replace('\\', "/")] {
                add(&mut all, change(text));
            }
        }
        if all.len() == before.len() {
            break;
        }
    }
    all
}

/// With characters composed (NFC), as file systems take them for the same name.
fn composed(text: &str) -> String {
    if text.is_ascii() { text.to_owned() } else { text.nfc().collect() }
}

/// What a relay behind this one reads in one of its own URIs.
fn within(text: &str) -> Option<&str> {
    let start = text.get(..RELAY.len()).filter(|start| start.eq_ignore_ascii_case(RELAY))?;
    Some(text[start.len()..].split_once('/')?.1)
}

/// Without what URL parsers drop (WHATWG URL 4.4: tabs and line breaks anywhere, other controls and blanks at the ends), and
/// out of what old ones take it out of: `<URL:..>` (RFC 3986, appendix C).
fn bare(text: &str) -> String {
    let text: String = text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    let ends = |c: char| c <= ' ';
    let text = text.trim_matches(ends);
    let text = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text).trim_matches(ends);
    let wrapped = text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("url:"));
    if wrapped { text[4..].trim_matches(ends).to_owned() } else { text.to_owned() }
}

/// What URL parsers make of it, where its scheme has rules of its own for them (`http`, `file` and the like).
fn parsed(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp" | "file").then_some(url)
}

/// A URL without the escapes that its parser made.
fn read(url: &Url) -> String {
    plain(&unescaped(url.as_str()), false)
}

/// A text without a scheme, as the path of a file.
fn pathlike(text: &str) -> Option<Url> {
    let is_scheme = |start: &str| {
        start.starts_with(|c: char| c.is_ascii_alphabetic())
            && start.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    let has_scheme = text.split_once(':').is_some_and(|(start, _)| is_scheme(start));
    (!has_scheme).then(|| Url::parse(&format!("file:{text}")).ok()).flatten()
}

/// The URL with its host as it is looked up, and without who logs in unless that is to be kept.
fn named(mut url: Url, keep_user: bool) -> Url {
    // They fail where there is nothing to change.
    if let Some(host) = url.host_str().filter(|host| host.ends_with('.')).map(str::to_owned) {
        let _ = url.set_host(Some(host.trim_end_matches('.')));
    }
    if !keep_user {
        let _ = (url.set_username(""), url.set_password(None));
    }
    url
}

/// A URI without its detours: `.`, `..` and doubled slashes of its path resolved. With `is_path` what stands where a host
/// does counts as the first part of the path, as sources take it that make one path of both.
fn plain(text: &str, is_path: bool) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let fixed = usize::from(!is_path || rest.starts_with('/'));
    let mut parts: Vec<&str> = Vec::new();
    for (place, part) in rest.split('/').enumerate() {
        match part {
            "" if place > 0 => {}
            "." => {}
            ".." => parts.truncate(parts.len().saturating_sub(1).max(fixed)),
            part => parts.push(part),
        }
    }
    let end = if rest.len() > 1 && rest.ends_with('/') { "/" } else { "" };
    format!("{scheme}{}{end}", parts.join("/"))
}

fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_lead_to_the_same() {
        for (uri, expected) in [
            ("file:///a/b", "file:///a/b"),
            ("file:///a/../b", "file:///b"),
            ("file:///../../b", "file:///b"),
            ("file:///a/./b//c/", "file:///a/b/c/"),
            ("skill://pdf", "skill://pdf"),
        ] {
            assert_eq!(plain(uri, false), expected, "{uri}");
        }
        for (uri, expected) in [
            ("skill://pdf/../csv/x", "skill://csv/x"),
            ("skill://pdf/../../csv/x", "skill://csv/x"),
            ("file:///../../b", "file:///b"),
            ("skill://pdf/x", "skill://pdf/x"),
        ] {
            assert_eq!(plain(uri, true), expected, "{uri}");
        }
    }

    #[test]
    fn escapes_are_read_again_and_again() {
        for (uri, expected) in [
            ("file:///%61/%2e%2E/b", "file:///b"),
            ("file:///%252e%252e/b", "file:///b"),
            ("note://host/x%2Fy", "note://host/x/y"),
            ("a\\b", "a/b"),
            ("http://U@H.example.:80/a", "http://h.example/a"),
        ] {
            let found = others(uri, false);
            assert!(found.iter().any(|spelling| spelling == expected), "{uri} {found:?}");
        }
        for uri in ["doc:a%", "note://u@X:80/a", "file:///a/b", "https://h.example/a?b=c", "get_*"] {
            assert_eq!(others(uri, false), Vec::<String>::new(), "{uri}");
        }
    }
}
