//! Owns who gets in over HTTP: which hosts and origins, and whose credential a request comes with.
//! It does not know what a credential may see.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use sha2::{Digest, Sha256};

use crate::config::HttpConfig;
use crate::snapshot::Principal;

/// Why a request is not let in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error("host `{0}` is not one of this relay's")]
    Host(String),
    #[error("origin `{0}` is not allowed here")]
    Origin(String),
    #[error("a credential is needed")]
    NoCredential,
    #[error("the credential is not known here")]
    BadCredential,
}

impl NotAllowed {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Host(_) => "add it to `allowed_hosts` in [http], or connect through 127.0.0.1",
            Self::Origin(_) => "add it to `allowed_origins` in [http]",
            Self::NoCredential => {
                "send `Authorization: Bearer TOKEN` with the token of a `[credential.ID]` of sources.toml"
            }
            Self::BadCredential => "check the token, and the `[credential.ID]` tables of sources.toml",
        }
    }
}

/// Lets a request in, or not. The names of hosts keep web pages out that made their own name lead here (DNS rebinding).
pub fn admit(config: &HttpConfig, bound: SocketAddr, uri: &Uri, headers: &HeaderMap) -> Result<Principal, NotAllowed> {
    admit_page(config, bound, uri, headers)?;
    credential(config, headers)
}

/// Lets in what asks before the request itself, and carries no credential (a preflight request), or not.
pub fn admit_page(config: &HttpConfig, bound: SocketAddr, uri: &Uri, headers: &HeaderMap) -> Result<(), NotAllowed> {
    host(config, bound, uri, headers)?;
    origin(config, headers)
}

fn host(config: &HttpConfig, bound: SocketAddr, uri: &Uri, headers: &HeaderMap) -> Result<(), NotAllowed> {
    let header = headers.get(HOST).and_then(|value| value.to_str().ok());
    // A host in the request's target stands over that in the header (RFC 9112, 3.2.2).
    let written = uri.authority().map(|authority| authority.as_str()).or(header).unwrap_or_default();
    let name = without_port(written);
    let own = |ip: IpAddr| name.parse::<IpAddr>().is_ok_and(|named| named == ip);
    let allowed = |host: &String| host == "*" || host.eq_ignore_ascii_case(name) || host.eq_ignore_ascii_case(written);
    if is_loopback(name) || own(bound.ip()) || config.allowed_hosts.iter().any(allowed) {
        return Ok(());
    }
    Err(NotAllowed::Host(shown(written)))
}

fn origin(config: &HttpConfig, headers: &HeaderMap) -> Result<(), NotAllowed> {
    match headers.get(ORIGIN) {
        None => Ok(()),
        Some(origin) if allowed_origin(config, origin.as_bytes()) => Ok(()),
        Some(origin) => Err(NotAllowed::Origin(shown(&String::from_utf8_lossy(origin.as_bytes())))),
    }
}

fn allowed_origin(config: &HttpConfig, origin: &[u8]) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).map(without_port);
    host.is_some_and(is_loopback)
        || config.allowed_origins.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin))
}

fn credential(config: &HttpConfig, headers: &HeaderMap) -> Result<Principal, NotAllowed> {
    if !config.is_guarded {
        return Ok(Principal::anonymous());
    }
    let sent = headers.get(AUTHORIZATION).ok_or(NotAllowed::NoCredential)?;
    let (scheme, token) = sent.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(NotAllowed::BadCredential)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(NotAllowed::BadCredential);
    }
    // Comparing digests takes as long whatever the token: how far one fits says nothing about it.
    let digest: [u8; 32] = Sha256::digest(token.trim().as_bytes()).into();
    let found = config.credentials.iter().find(|credential| credential.token_sha256 == digest);
    found.map(|credential| Principal::credential(credential.id.as_str())).ok_or(NotAllowed::BadCredential)
}

fn without_port(authority: &str) -> &str {
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority.split([':', '/']).next().unwrap_or(authority)
}

fn is_loopback(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A name as it may stand in an answer.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::HeaderValue;

    use super::*;

    fn config() -> HttpConfig {
        HttpConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 1)),
            allowed_hosts: vec!["relay.example".to_owned()],
            allowed_origins: vec!["https://app.example".to_owned()],
            session_idle: Duration::from_secs(1),
            credentials: vec![],
            is_guarded: false,
        }
    }

    fn check(host: &str, origin: Option<&'static str>, want: Result<(), NotAllowed>) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
        let bound = SocketAddr::from(([10, 0, 0, 1], 7420));
        let got = admit(&config(), bound, &Uri::from_static("/mcp"), &headers).map(|_| ());
        assert_eq!(got, want, "{host} {origin:?}");
        let guarded = HttpConfig { is_guarded: true, ..config() };
        assert_eq!(admit_page(&guarded, bound, &Uri::from_static("/mcp"), &headers), want, "{host} {origin:?}");
    }

    #[test]
    fn hosts_and_origins() {
        for host in ["localhost:7420", "127.0.0.1", "[::1]:80", "10.0.0.1:7420", "RELAY.example:443", "127.0.0.9:1"] {
            check(host, None, Ok(()));
        }
        for host in ["evil.example", "10.0.0.2:7420", "localhost.evil.example", "", "127.0.0.1.evil.example:80"] {
            check(host, None, Err(NotAllowed::Host(host.to_owned())));
        }
        for origin in ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:3", "https://app.example"] {
            check("localhost", Some(origin), Ok(()));
        }
        for origin in ["null", "http://evil.example", "https://app.example.evil", "http://localhost@evil.example"] {
            check("localhost", Some(origin), Err(NotAllowed::Origin(origin.to_owned())));
        }
    }

    #[test]
    fn a_credential_is_told_by_its_token() {
        let token = "0123456789abcdef";
        let credential = crate::config::Credential {
            id: crate::name::SourceId::new("ci").unwrap(),
            token_sha256: Sha256::digest(token).into(),
            grant: crate::config::Grant::default(),
        };
        let guarded = HttpConfig { credentials: vec![credential], is_guarded: true, ..config() };
        let sent = |text: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.extend(text.map(|text| (AUTHORIZATION, HeaderValue::from_str(text).unwrap())));
            super::credential(&guarded, &headers)
        };
        assert_eq!(sent(Some("Bearer 0123456789abcdef")), Ok(Principal::credential("ci")));
        assert_eq!(sent(Some("bearer 0123456789abcdef")), Ok(Principal::credential("ci")));
        assert_eq!(sent(Some("Bearer 0123456789abcdeg")), Err(NotAllowed::BadCredential));
        assert_eq!(sent(Some("Basic 0123456789abcdef")), Err(NotAllowed::BadCredential));
        assert_eq!(sent(None), Err(NotAllowed::NoCredential));
    }
}
