//! Owns what `[http]` and the tables of credentials must be: where the relay listens, and who may connect.
//! It opens no socket, and keeps of a token only its digest.

use std::net::SocketAddr;
use std::time::Duration;

use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use wildmatch::WildMatch;

use crate::name::SourceId;

use super::fault::{did_you_mean, dotted};
use super::keys::{CREDENTIAL, HTTP, LISTEN};
use super::read::Reader;
use super::source::{Repeated, legal};
use super::values::{Span, Values};
use super::{Credential, Exposure, Grant, HttpConfig, SourceEntry, ToolsetConfig, toolset};

/// How credentials are written.
pub(super) const CREDENTIAL_TABLES: &str = "credentials are tables named `[credential.NAME]`";
const HOST_HINT: &str =
    "write the name alone, as in `relay.example`; each name is written out, and only `*` stands for any";
const ORIGIN_HINT: &str =
    "write scheme and host, as in `https://app.example`, without a path or a port that goes without saying; `*` is any";
/// A token shorter than this can be guessed.
const TOKEN_MIN_CHARS: usize = 16;

/// `[http]`.
pub(super) fn http(reader: &mut Reader<'_>, tree: &DeTable<'_>) -> HttpConfig {
    let values = match tree.get("http").map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => reader.section(HTTP, table, "http"),
        _ => Values::new(HTTP),
    };
    let written = values.text("listen").unwrap_or_else(|| LISTEN.to_owned());
    let listen = address(&written).unwrap_or_else(|| {
        let at = values.at("listen").cloned().unwrap_or(0..0);
        let hint = "write an address and a port, as in `listen = \"127.0.0.1:7420\"`; port 0 takes a free one";
        reader.faults.add(&at, "http.listen", "it is no address with a port", hint);
        address(LISTEN).expect("BUG: the default is an address")
    });
    for (key, judge, cause, hint) in [
        ("allowed_hosts", is_host as fn(&str) -> bool, "it is no name of a host", HOST_HINT),
        ("allowed_origins", is_origin, "it is no origin as browsers send it", ORIGIN_HINT),
    ] {
        let Some(at) = values.at(key) else { continue };
        for (index, text) in values.texts(key).iter().enumerate().filter(|(_, text)| !judge(text)) {
            let told = reader.faults.quoted(text).map_or(cause.to_owned(), |told| cause.replacen("it", &told, 1));
            reader.faults.add(at, format!("http.{key}[{index}]"), told, hint);
        }
    }
    HttpConfig {
        listen,
        allowed_hosts: values.texts("allowed_hosts"),
        allowed_origins: values.texts("allowed_origins"),
        session_idle: Duration::from_secs(values.whole("session_idle_secs")),
        credentials: Vec::new(),
        is_guarded: false,
    }
}

/// That nobody but this machine may connect without a credential.
pub(super) fn tell_unguarded(reader: &mut Reader<'_>, tree: &DeTable<'_>, http: &HttpConfig) {
    let table = tree.get("http").and_then(|table| table.get_ref().get("listen"));
    let Some(at) = table.map(Spanned::span).filter(|_| !http.is_guarded && !http.listen.ip().is_loopback()) else {
        return;
    };
    let cause = "it is open to other machines, and nobody may connect from there without a credential";
    let hint = "write a `[credential.ID]` with a `token`, or listen on 127.0.0.1";
    reader.faults.add(&at, "http.listen", cause, hint);
}

/// Whether a request's `Host` can be this, with or without its port; `*` is any.
fn is_host(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    text == "*" || text.chars().all(is_part)
}

/// Whether a request's `Origin` can be this; `*` is any. Those of applications have schemes of their own.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return ["*", "null"].contains(&text) };
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    let is_plain = !scheme.is_empty() && !host.is_empty() && host.chars().all(is_part);
    let is_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    let sent = || reqwest::Url::parse(text).map(|url| url.origin().ascii_serialization());
    is_plain && (!is_web || sent().is_ok_and(|sent| sent.eq_ignore_ascii_case(text)))
}

/// An address with a port; `localhost` is 127.0.0.1.
pub fn address(text: &str) -> Option<SocketAddr> {
    let text = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().ok()
}

/// What the globs of credentials may name.
type Known<'k> = (&'k [SourceEntry], &'k [ToolsetConfig]);

/// Every credential of the file without faults, by id.
pub(super) fn credentials(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    repeated: &Repeated,
    known: Known<'_>,
) -> Vec<Credential> {
    let mut found: Vec<Credential> = Vec::new();
    for (name, value) in table.iter() {
        let before = reader.faults.len();
        let credential = credential(reader, name, value.get_ref(), repeated, known);
        let Some(credential) = credential.filter(|_| before == reader.faults.len()) else { continue };
        if let Some(twin) = found.iter().find(|other| other.token_sha256 == credential.token_sha256) {
            let cause = format!("it has the same token as `{}`", dotted("credential", twin.id.as_str()));
            let hint = "give each a token of its own";
            reader.faults.add(&name.span(), dotted("credential", name.get_ref()), cause, hint);
            continue;
        }
        found.push(credential);
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found
}

fn credential(
    reader: &mut Reader<'_>,
    name: &Spanned<DeString<'_>>,
    value: &DeValue<'_>,
    repeated: &Repeated,
    (sources, toolsets): Known<'_>,
) -> Option<Credential> {
    let written = name.get_ref().as_ref();
    let section = dotted("credential", written);
    let id = SourceId::new(written);
    if let Err(bad) = &id {
        let plain = Some(legal(written)).filter(|plain| SourceId::new(plain).is_ok());
        let hint = format!("rename the table, for example to `[credential.{}]`", plain.as_deref().unwrap_or("ci"));
        let cause = bad.to_string().replace("a source id", "the id of a credential");
        reader.faults.add(&name.span(), &section, cause, hint);
    }
    reader.tell_repeated(repeated, "credential", written);
    let DeValue::Table(table) = value else {
        reader.mistyped(&section, &name.span(), "a table", value, CREDENTIAL_TABLES.to_owned());
        return None;
    };
    let values = reader.section(CREDENTIAL, table, &section);
    let token_sha256 = token(reader, &values, &section, &name.span());
    known_sources(reader, &values, &section, sources);
    for list in ["allow", "deny"] {
        toolset::spelled_sources(reader, &values, (&section, list), sources, toolsets);
    }
    let grant = Grant {
        sources: values.written("sources").map(|_| values.texts("sources")),
        read_only: values.flag("read_only"),
        allow: values.texts("allow"),
        deny: values.texts("deny"),
        exposure: values.text("exposure").and_then(|word| Exposure::named(&word)),
    };
    Some(Credential { id: id.ok()?, token_sha256: token_sha256?, grant })
}

/// The digest of the token, from the token or as it is written.
fn token(reader: &mut Reader<'_>, values: &Values, section: &str, header: &Span) -> Option<[u8; 32]> {
    match (values.written("token"), values.written("token_sha256")) {
        (None, None) => {
            let hint = "write `token = \"${VARIABLE}\"`, or `token_sha256` with the digest of the token in hexadecimal";
            reader.faults.add(header, section, "it has neither `token` nor `token_sha256`", hint);
            None
        }
        (Some(_), Some(at)) => {
            let hint = "remove one of the two";
            let cause = "a credential has a `token` or a `token_sha256`, not both";
            reader.faults.add(at, dotted(section, "token_sha256"), cause, hint);
            None
        }
        (Some(_), None) => {
            let (template, at) = (values.template("token")?, values.at("token")?.clone());
            let path = dotted(section, "token");
            if template.has_commands() {
                let hint = "write `${VARIABLE}` or `${file:PATH}`";
                reader.faults.add(&at, path, "`${cmd:...}` does not work here", hint);
                return None;
            }
            let token = template.expand(reader.lookup).ok()?.value;
            if token.chars().count() < TOKEN_MIN_CHARS || token.chars().any(|c| c.is_whitespace() || c.is_control()) {
                let cause = format!("a token has at least {TOKEN_MIN_CHARS} characters, and no blanks");
                let hint = "take a random one, as `openssl rand -hex 32` gives";
                reader.faults.add(&at, path, cause, hint);
                return None;
            }
            Some(Sha256::digest(token.as_bytes()).into())
        }
        (None, Some(_)) => {
            let (text, at) = (values.text("token_sha256")?, values.at("token_sha256")?.clone());
            let digest = digest(&text);
            if digest.is_none() {
                let hint =
                    "write the SHA-256 of the token in 64 hexadecimal digits, as `printf %s TOKEN | sha256sum` gives";
                reader.faults.add(&at, dotted(section, "token_sha256"), "it is no SHA-256 digest", hint);
            }
            digest
        }
    }
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (place, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(digest)
}

/// That each glob fits a source there is.
fn known_sources(reader: &mut Reader<'_>, values: &Values, section: &str, sources: &[SourceEntry]) {
    let ids: Vec<&str> = sources.iter().map(|entry| entry.id().as_str()).collect();
    let Some(at) = values.at("sources") else { return };
    for (index, glob) in values.texts("sources").iter().enumerate() {
        let matcher = WildMatch::new(glob);
        if !ids.iter().any(|id| matcher.matches(id)) {
            let path = format!("{}[{index}]", dotted(section, "sources"));
            reader.faults.add(at, path, "there is no such source", did_you_mean(glob, "the sources are", &ids));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::faults;

    const SOURCE: &str = "[source.notes]\ncommand = 'x'\n";

    fn check(text: &str, told: &[&str]) {
        assert_eq!(faults(&format!("{SOURCE}{text}")), told, "{text}");
    }

    #[test]
    fn what_is_wrong_with_http_is_told() {
        check("[http]\nlisten = 'localhost:1'\nallowed_hosts = ['relay.example']", &[]);
        let guarded = "[credential.ci]\ntoken = '0123456789abcdef'";
        check(&format!("[http]\nlisten = '0.0.0.0:1'\n{guarded}"), &[]);
        check(
            "[http]\nlisten = '0.0.0.0:1'",
            &["4: http.listen: it is open to other machines, and nobody may connect from there without a credential; \
               hint: write a `[credential.ID]` with a `token`, or listen on 127.0.0.1"],
        );
        check(
            "[http]\nlisten = 'here'",
            &["4: http.listen: it is no address with a port; hint: write an address and a port, as in `listen = \
               \"127.0.0.1:7420\"`; port 0 takes a free one"],
        );
    }

    #[test]
    fn hosts_and_origins_that_nobody_sends_are_told() {
        for (host, fits) in [
            ("*", true),
            ("relay.example", true),
            ("Relay.example:443", true),
            ("[fe80::1]", true),
            ("http://x", false),
            ("a b", false),
            ("*.example.com", false),
            ("x/y", false),
            ("b\u{fc}cher.example", false),
        ] {
            let count = faults(&format!("[http]\nallowed_hosts = ['{host}']")).len();
            assert_eq!(count, usize::from(!fits), "{host}");
        }
        for (origin, fits) in [
            ("*", true),
            ("null", true),
            ("https://app.example", true),
            ("HTTPS://App.example:8443", true),
            ("http://[fe80::1]:3000", true),
            ("vscode-webview://abc123", true),
            ("app.example", false),
            ("https://x/path", false),
            ("https://x/", false),
            ("https://x:443", false),
            ("https://*.example", false),
            ("https://b\u{fc}cher.example", false),
            ("https://u@x", false),
        ] {
            let count = faults(&format!("[http]\nallowed_origins = ['{origin}']")).len();
            assert_eq!(count, usize::from(!fits), "{origin}");
        }
        check(
            "[http]\nallowed_hosts = ['x', 'http://x']\nallowed_origins = ['app.example']",
            &[
                "4: http.allowed_hosts[1]: `http://x` is no name of a host; hint: write the name alone, as in \
                 `relay.example`; each name is written out, and only `*` stands for any",
                "5: http.allowed_origins[0]: `app.example` is no origin as browsers send it; hint: write scheme and host, \
                 as in `https://app.example`, without a path or a port that goes without saying; `*` is any",
            ],
        );
    }

    #[test]
    fn what_is_wrong_with_a_credential_is_told() {
        check("[credential.ci]\ntoken = '0123456789abcdef'\nsources = ['notes']\nexposure = 'eager'", &[]);
        check(
            "[credential.ci]\nsources = ['nots']",
            &[
                "3: credential.ci: it has neither `token` nor `token_sha256`; hint: write `token = \"${VARIABLE}\"`, or \
                 `token_sha256` with the digest of the token in hexadecimal",
                "4: credential.ci.sources[0]: there is no such source; hint: did you mean `notes`?",
            ],
        );
        // What withholds nothing is the worst.
        check(
            "[toolset.desk]\ntools = ['notes/*']\n[source.off]\ncommand = 'x'\nenabled = false\n[source.bad]\n\
             [credential.ci]\ntoken = '0123456789abcdef'\nallow = ['notes/*', 'off/*', 'bad/x', 'git*/*', 'zz/*']\n\
             deny = ['*/x', 'nots/file:///*', 'desk/*', '${T}/*']\n[relay]\nalways_visible = ['zz/*']",
            &[
                "8: source.bad: it has neither `command` nor `url`; hint: write `command = \"...\"` with the program to \
                 start, or `url = \"https://...\"`",
                "11: credential.ci.allow[4]: there is no source `zz`; hint: the sources are `bad`, `notes` and `off`",
                "12: credential.ci.deny[1]: there is no source `nots`; hint: did you mean `notes`?",
                "12: credential.ci.deny[2]: `desk` is a toolset, and the tools are judged by their sources; hint: write the \
                 globs of the toolset's `tools`",
                "12: credential.ci.deny[3]: there is no such source; hint: the sources are `bad`, `notes` and `off`",
                "14: relay.always_visible[0]: there is no source `zz`; hint: the sources are `bad`, `notes` and `off`",
            ],
        );
        check(
            "[credential.ci]\ntoken = 'short'",
            &[
                "4: credential.ci.token: a token has at least 16 characters, and no blanks; hint: take a random one, as \
               `openssl rand -hex 32` gives",
            ],
        );
        check(
            "[credential.a]\ntoken = '0123456789abcdef'\n[credential.b]\ntoken = '0123456789abcdef'",
            &["5: credential.b: it has the same token as `credential.a`; hint: give each a token of its own"],
        );
    }
}
