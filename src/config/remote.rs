//! Owns what a connection to an HTTP source comes to: its address, its headers, its token, all expanded.
//! It connects to nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::launch::{Fingerprint, names_credential, placed};
use super::lookup::{ExpandError, Expanded, Lookup, Problem};
use super::template::{SECRET_MIN_CHARS, Template, from_base};
use crate::redact;

/// How to reach a source over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub url: Template,
    pub transport: Transport,
    pub headers: BTreeMap<String, Template>,
    /// The bearer token, with `auth = "bearer"`.
    pub token: Option<Template>,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<Template>,
    /// The proxy to use instead of what the environment names.
    pub proxy: Option<Template>,
    pub connect_timeout: Duration,
    /// The folder of the configuration file: a relative `ca_file` starts here.
    pub base: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP; the one before it where the source refuses that as the specification has it.
    Auto,
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// A remote with everything expanded.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedRemote {
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub token: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub proxy: Option<String>,
    /// What to mask wherever this source's words are shown.
    pub secrets: Vec<String>,
}

/// Nothing of it: all may be secrets.
impl std::fmt::Debug for ResolvedRemote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResolvedRemote").finish_non_exhaustive()
    }
}

impl Remote {
    /// Expands everything, for one connection. Runs the commands of `${cmd:...}`, so it may take long.
    pub fn resolve(&self, lookup: &dyn Lookup) -> Result<ResolvedRemote, ExpandError> {
        let mut secrets = Vec::new();
        let mut keep = |key: &str, expanded: Result<Expanded, ExpandError>| {
            let expanded = expanded.map_err(|error| placed(key, error))?;
            secrets.extend(expanded.secrets);
            Ok(expanded.value)
        };
        let url = keep("url", self.url.expand(lookup))?;
        let mut headers = Vec::new();
        for (name, template) in &self.headers {
            let key = super::fault::dotted("headers", name);
            let value = keep(&key, template.expand(lookup))?.trim().to_owned();
            refuse_empty(&key, template, &value)?;
            headers.push((name.clone(), value));
        }
        let mut token = None;
        if let Some(template) = &self.token {
            let value = keep("token", template.expand(lookup))?.trim().to_owned();
            refuse_empty("token", template, &value)?;
            token = Some(value);
        }
        let mut ca_file = None;
        if let Some(template) = &self.ca_file {
            ca_file = Some(from_base(&keep("ca_file", template.expand_path(lookup))?, &self.base));
        }
        let mut proxy = None;
        if let Some(template) = &self.proxy {
            proxy = Some(keep("proxy", template.expand(lookup))?);
        }
        secrets.extend(token.clone());
        let named = headers.iter().filter(|(name, _)| holds_credential(name));
        secrets.extend(named.flat_map(|(_, value)| credential_parts(value)));
        secrets.extend([Some(&url), proxy.as_ref()].into_iter().flatten().flat_map(|url| parts_to_hide(url)));
        secrets.retain(|secret| secret.chars().count() >= SECRET_MIN_CHARS && *secret != url);
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        secrets.dedup();
        Ok(ResolvedRemote { url, headers, token, ca_file, proxy, secrets })
    }

    /// What is unwise about it though it works, in words.
    pub fn caution(&self, lookup: &dyn Lookup) -> Option<&'static str> {
        if self.url.has_commands() {
            return None;
        }
        let Expanded { value: url, secrets } = self.url.expand(lookup).ok()?;
        let is_secret =
            |name: &str, value: &str| holds_credential(name) || secrets.iter().any(|own| value.contains(own));
        let logs_in = reqwest::Url::parse(&url).is_ok_and(|url| {
            let mut query = url.query_pairs();
            !url.username().is_empty()
                || url.password().is_some()
                || query.any(|(name, value)| is_secret(&name, &value))
        });
        ((self.has_credentials() || logs_in) && is_open(&url))
            .then_some("its credentials go over plain http:// to another machine, where others can read them")
    }

    /// Whether anything is sent with each request that nobody else should read.
    pub fn has_credentials(&self) -> bool {
        self.token.is_some() || self.headers.keys().any(|name| holds_credential(name))
    }

    /// A hash over what it comes to, as a program's is.
    pub(super) fn fingerprint(&self, lookup: &dyn Lookup) -> String {
        let mut print = Fingerprint::default();
        print.add("url", &self.url.outcome(false, lookup));
        match self.transport {
            Transport::Auto => {}
            Transport::StreamableHttp => print.add("transport", "streamable-http"),
            Transport::Sse => print.add("transport", "sse"),
        }
        for (name, value) in &self.headers {
            print.add(&format!("header {}", name.to_ascii_lowercase()), &value.outcome(false, lookup));
        }
        if let Some(token) = &self.token {
            print.add("token", &token.outcome(false, lookup));
        }
        print.done()
    }
}

pub(super) fn refuse_empty(key: &str, template: &Template, value: &str) -> Result<(), ExpandError> {
    let problem = || Problem::EmptyCredential(template.raw().to_owned());
    let is_credential = key == "token" || template.is_one_reference();
    if value.is_empty() && is_credential || is_scheme(value) {
        return Err(ExpandError { key: key.to_owned(), problem: problem() });
    }
    Ok(())
}

/// Whether a value is what stands before a credential, and nothing more: `Bearer ${TOKEN}` without a token.
fn is_scheme(value: &str) -> bool {
    ["Bearer", "Basic", "Digest", "Token", "ApiKey"].iter().any(|scheme| value.eq_ignore_ascii_case(scheme))
}

/// Whether a header so named holds a secret, wherever it comes from.
fn holds_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = if name.contains("authoriz") { name } else { name.replace("author", "") };
    names_credential(&name) || ["auth", "cookie", "session", "credential"].iter().any(|part| name.contains(part))
}

/// How long a word is at most that is no secret.
const WORD_MAX: usize = 10;

/// Whether the value of a pair may be secret. A short plain word is none, which may stand in any text of the source.
fn may_be_secret(name: &str, value: &str) -> bool {
    let is_word = value.len() <= WORD_MAX && value.chars().all(|c| c.is_ascii_lowercase());
    holds_credential(name) || !is_word
}

/// The parts of an address that may be secret: who logs in, and the values of its query.
fn parts_to_hide(url: &str) -> Vec<String> {
    let Ok(parsed) = reqwest::Url::parse(url) else { return Vec::new() };
    let query =
        parsed.query_pairs().filter(|(name, value)| may_be_secret(name, value)).map(|(_, value)| value.into_owned());
    let raw_query = parsed.query().map(str::to_owned);
    let plain = |text: &str| redact::unescaped(text).unwrap_or_else(|| text.to_owned());
    let (name, password) = (parsed.username(), parsed.password());
    let login = [Some(name), password].into_iter().flatten().flat_map(|text| [text.to_owned(), plain(text)]);
    let both = password.map(|password| format!("{}:{}", plain(name), plain(password)));
    query.chain(raw_query).chain(login).chain(both).collect()
}

/// The parts of a header that is a credential which may be secret by themselves: what follows its scheme, who logs in, and
/// the values of cookies and of other pairs.
fn credential_parts(value: &str) -> Vec<String> {
    let last = value.split_whitespace().last().unwrap_or_default();
    let pairs =
        value.split([';', ',']).flat_map(|part| part.split_whitespace()).filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (name, value.trim_matches('"')));
    let values = pairs.filter(|(name, value)| may_be_secret(name, value)).map(|(_, value)| value.to_owned());
    let login = STANDARD.decode(last).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let login = login.filter(|_| value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("basic ")));
    let password = login.as_ref().and_then(|login| login.split_once(':')).map(|(_, password)| password.to_owned());
    [value.to_owned(), last.to_owned()].into_iter().chain(values).chain(login.clone()).chain(password).collect()
}

/// Why a header of this name cannot be set; `None` if it can.
pub(super) fn refused_header(name: &str) -> Option<&'static str> {
    if reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Some("it is no name of a header");
    }
    let name = name.to_ascii_lowercase();
    let own = ["accept", "content-type", "content-length", "accept-encoding", "last-event-id", "expect"];
    if own.contains(&name.as_str()) || name.starts_with("mcp-") {
        return Some("the relay sets this header itself");
    }
    let hop = ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection"];
    (hop.contains(&name.as_str()) || name.starts_with("proxy-")).then_some("this header belongs to the connection")
}

/// Whether a header can have this value.
pub(super) fn is_sendable(value: &str) -> bool {
    reqwest::header::HeaderValue::from_bytes(value.trim().as_bytes()).is_ok()
}

/// Why an address is of no use; `None` if it can be connected to.
pub(super) fn refused_url(text: &str) -> Option<&'static str> {
    match reqwest::Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Some("it does not start with http:// or https://"),
        Ok(url) if url.host_str().is_none_or(str::is_empty) => Some("it names no host"),
        Ok(url) if url.fragment().is_some() => Some("it has a fragment, which is never sent"),
        Ok(_) => None,
        Err(_) => Some("it is no address"),
    }
}

/// Whether what is sent to this address can be read on its way.
fn is_open(text: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(text) else { return false };
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = bare == "localhost"
        || bare.ends_with(".localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    url.scheme() == "http" && !is_local
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::fake::FakeLookup;

    fn template(raw: &str) -> Template {
        Template::parse(raw, Path::new("/conf")).unwrap()
    }

    fn remote(url: &str, headers: &[(&str, &str)], token: Option<&str>) -> Remote {
        Remote {
            url: template(url),
            transport: Transport::Auto,
            headers: headers.iter().map(|&(name, value)| (name.to_owned(), template(value))).collect(),
            token: token.map(template),
            ca_file: Some(template("ca.pem")),
            proxy: None,
            connect_timeout: Duration::from_secs(10),
            base: "/conf".into(),
        }
    }

    fn lookup() -> FakeLookup {
        FakeLookup::new(&[("T", "secret-token"), ("HOST", "example.org"), ("EMPTY", "")])
    }

    #[test]
    fn everything_is_expanded_and_every_secret_known() {
        let url = "https://someone:password1@${HOST}/mcp?key=query-secret";
        let headers = [("Authorization", "Basic literal-secret"), ("X-Api-Key", "${T}"), ("X-Mode", "plain-value")];
        let resolved = remote(url, &headers, Some("${T}\n")).resolve(&lookup()).unwrap();
        assert_eq!(resolved.url, "https://someone:password1@example.org/mcp?key=query-secret");
        assert_eq!(resolved.token.as_deref(), Some("secret-token"));
        assert_eq!(resolved.ca_file, Some("/conf/ca.pem".into()));
        for secret in ["secret-token", "literal-secret", "password1", "query-secret", "someone"] {
            assert!(resolved.secrets.iter().any(|known| known == secret), "{secret}");
        }
        assert!(!resolved.secrets.iter().any(|known| known == "plain-value"));
        assert_eq!(format!("{resolved:?}"), "ResolvedRemote { .. }");
        let url = "https://someone:pass%40word@${HOST}/mcp";
        let headers = [
            ("Cookie", "sid=cookie-secret; theme=dark"),
            ("Authorization", "Basic bWU6YmFzaWMtc2VjcmV0"),
            ("X-Auth", "key=\"pair-secret\",v=1"),
        ];
        let secrets = remote(url, &headers, None).resolve(&lookup()).unwrap().secrets;
        for secret in
            ["pass@word", "someone:pass@word", "cookie-secret", "basic-secret", "me:basic-secret", "pair-secret"]
        {
            assert!(secrets.iter().any(|known| known == secret), "{secret}");
        }
        assert!(!secrets.iter().any(|known| known == "dark" || known == "1"));
    }

    #[test]
    fn an_empty_credential_is_told() {
        let told = |remote: Remote| remote.resolve(&lookup()).map_err(|error| error.to_string()).unwrap_err();
        let empty = "the credential is empty: `${EMPTY}` gives no text";
        assert_eq!(told(remote("https://x", &[], Some("${EMPTY}"))), format!("token: {empty}"));
        assert_eq!(told(remote("https://x", &[("X-Key", "${EMPTY}")], None)), format!("headers.X-Key: {empty}"));
        let scheme = remote("https://x", &[("Authorization", "Bearer ${EMPTY}")], None);
        let told_of_it = "headers.Authorization: the credential is empty: `Bearer ${EMPTY}` gives no text";
        assert_eq!(told(scheme), told_of_it);
    }

    #[test]
    fn headers_and_addresses_are_judged() {
        for name in ["Accept", "mcp-session-id", "Mcp-Param-X", "Connection", "Proxy-Authorization", "a b", ""] {
            assert!(refused_header(name).is_some(), "{name}");
        }
        for name in ["Host", "Authorization", "x-api-key", "User-Agent"] {
            assert_eq!(refused_header(name), None, "{name}");
        }
        for (url, told) in [
            ("ftp://x/", Some("it does not start with http:// or https://")),
            ("localhost:3000/mcp", Some("it does not start with http:// or https://")),
            ("/mcp", Some("it is no address")),
            ("https://x/#a", Some("it has a fragment, which is never sent")),
            ("http://[::1]:3/mcp", None),
        ] {
            assert_eq!(refused_url(url), told, "{url}");
        }
        for (url, open) in [
            ("http://example.org/", true),
            ("http://127.0.0.1:1/", false),
            ("http://[::1]/", false),
            ("http://localhost/", false),
            ("https://example.org/", false),
        ] {
            assert_eq!(is_open(url), open, "{url}");
            assert_eq!(remote(url, &[], Some("${T}")).caution(&lookup()).is_some(), open, "{url}");
            let login = url.replacen("//", "//name:word@", 1);
            assert_eq!(remote(&login, &[], None).caution(&lookup()).is_some(), open, "{login}");
            assert_eq!(remote(url, &[("X-Mode", "x")], None).caution(&lookup()), None, "{url}");
        }
    }

    #[test]
    fn the_fingerprint_is_over_what_it_comes_to() {
        let plain = remote("https://x/${T}", &[("A", "1")], Some("${T}"));
        let print = |remote: &Remote| remote.fingerprint(&lookup());
        let others = [
            remote("https://y/${T}", &[("A", "1")], Some("${T}")),
            remote("https://x/${T}", &[("A", "2")], Some("${T}")),
            remote("https://x/${T}", &[("A", "1")], None),
            remote("https://x/${T}", &[("A", "1")], Some("${file:t}")),
            Remote { transport: Transport::Sse, ..plain.clone() },
        ];
        let same = Remote { base: "/elsewhere".into(), connect_timeout: Duration::from_secs(1), ..plain.clone() };
        assert_eq!(print(&plain), print(&same));
        assert_eq!(print(&plain), print(&remote("https://x/secret-token", &[("A", "1")], Some("${T}"))));
        assert!(others.iter().all(|other| print(other) != print(&plain)));
        assert_ne!(plain.fingerprint(&FakeLookup::new(&[("T", "of-another")])), print(&plain));
    }
}
