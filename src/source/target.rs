//! Owns how HTTP requests to one source are made: the client with its certificates and proxy, the source's own headers,
//! which redirects are followed, and the words for a connection that does not come about. It knows no message.

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use reqwest::{Method, Response, StatusCode, Url};

use super::stderr::StderrTail;
use super::via::{self, Via};
use crate::call::{CallError, ErrorKind};
use crate::config::{Remote, ResolvedRemote, SystemLookup};
use crate::redact::{self, Secrets};

/// A pooled connection that was idle for longer is not used again. Node and uvicorn close theirs after 5 s, and a request
/// that crosses such an end on its way may or may not have been read; others on the way forget idle connections silently.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// How often a silent connection is probed, so that one that is dead is found out.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long sent data may stay unacknowledged before the connection counts as dead.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(45);
/// How many headers a request has besides its message's and its source's.
const HEADERS_BESIDE: usize = 4;
/// The most redirects one request follows.
const REDIRECTS_MAX: usize = 5;
/// The most characters of a source's own words in an error.
pub const SAMPLE: usize = 200;
/// What is told of a call that may have been carried out.
pub const UNKNOWN_EFFECT: &str = "whether the call took effect is not known, check before repeating it";
/// How many secrets are known at most, the latest ones.
const SECRETS_MAX: usize = 100;
/// Credentials that were just found to be the same as before are not read again so soon.
const LOOK_GAP: Duration = Duration::from_secs(5);

/// Where requests to a source go, and what goes with each.
pub struct Target {
    pub source: String,
    pub url: Url,
    client: reqwest::Client,
    remote: Remote,
    lookup: SystemLookup,
    via: Via,
    worn: Arc<Mutex<Arc<Worn>>>,
    /// When the credentials were last read anew and found to be the same. Held while they are read, which may take a command
    /// its time: all others wait for that without a thread.
    looked: Arc<tokio::sync::Mutex<Option<Instant>>>,
    pub has_token: bool,
    pub has_credentials: bool,
}

/// What every request carries, as the settings were when they were last filled in.
pub struct Worn {
    headers: HeaderMap,
    /// What must not be shown of it.
    secrets: Vec<String>,
    mask: StderrTail,
}

impl Worn {
    fn new(resolved: &ResolvedRemote, before: &[String]) -> Result<Self, (String, String)> {
        let secrets: Vec<_> = resolved.secrets.iter().chain(before).take(SECRETS_MAX).cloned().collect();
        Ok(Self { headers: headers(resolved)?, mask: StderrTail::new(secrets.clone()), secrets })
    }
}

/// A request that got no response.
#[derive(Debug)]
pub struct Trouble {
    pub error: CallError,
    /// No connection came about, so nothing was sent.
    pub unreached: bool,
}

impl Target {
    /// Fills in the settings, and makes the client; nothing is sent yet.
    pub async fn new(source: &str, remote: &Remote, lookup: SystemLookup, via: Via) -> Result<Self, CallError> {
        let (wanted, id) = (remote.clone(), source.to_owned());
        let made = tokio::task::spawn_blocking(move || {
            let resolved = wanted.resolve(&lookup).map_err(|error| (error.to_string(), error.hint()))?;
            Self::from_resolved(id, &wanted, lookup, via, resolved)
        });
        made.await.expect("BUG: filling in settings never panics").map_err(|(why, hint)| {
            let text = format!("source `{source}` cannot be connected to: {why}");
            CallError::new(ErrorKind::Unavailable, text, hint).at(source, None)
        })
    }

    fn from_resolved(
        source: String,
        remote: &Remote,
        lookup: SystemLookup,
        via: Via,
        resolved: ResolvedRemote,
    ) -> Result<Self, (String, String)> {
        let url = Url::parse(&resolved.url)
            .map_err(|error| (format!("`url` is no address: {error}"), "write it in full".to_owned()))?;
        let client = client(&url, remote, &resolved)?;
        Ok(Self {
            source,
            url,
            client,
            remote: remote.clone(),
            via,
            lookup,
            worn: Arc::new(Mutex::new(Arc::new(Worn::new(&resolved, &[])?))),
            looked: Arc::default(),
            has_token: resolved.token.is_some(),
            has_credentials: remote.has_credentials(),
        })
    }

    /// What requests carry now.
    pub fn worn(&self) -> Arc<Worn> {
        locked(&self.worn).clone()
    }

    /// Whether requests carry something else now than `refused`: headers and token are read anew for that, once for all who
    /// ask at the same time.
    pub async fn renew(&self, refused: &Arc<Worn>) -> bool {
        // Held to the end of the reading, though whoever asked may be gone by then.
        let mut looked = self.looked.clone().lock_owned().await;
        if !Arc::ptr_eq(refused, &self.worn()) {
            return true;
        }
        if looked.is_some_and(|at| at.elapsed() < LOOK_GAP) {
            return false;
        }
        let (remote, lookup, refused, worn) =
            (self.remote.clone(), self.lookup.clone(), refused.clone(), self.worn.clone());
        let renewed = tokio::task::spawn_blocking(move || {
            let resolved = remote.resolve(&lookup).ok();
            let new = resolved.and_then(|resolved| Worn::new(&resolved, &refused.secrets).ok());
            let new = new.filter(|new| new.headers != refused.headers);
            *looked = new.is_none().then(Instant::now);
            new.is_some_and(|new| {
                *locked(&worn) = Arc::new(new);
                true
            })
        });
        renewed.await.expect("BUG: filling in settings never panics")
    }

    /// A text of the source's own as it may be shown.
    pub fn masked(&self, text: &str, max: usize) -> String {
        self.worn().mask.masked(text, max)
    }

    /// What is secret of it, as it is each time.
    pub fn secrets(&self) -> Secrets {
        let worn = self.worn.clone();
        Box::new(move || locked(&worn).mask.secrets())
    }

    /// What is told of its last words: a source over HTTP has none, but what is secret of it is known.
    pub fn tail(&self) -> StderrTail {
        self.worn().mask.clone()
    }

    /// The address without what may be secret in it.
    pub fn shown(&self, url: &Url) -> String {
        self.masked(&format!("{}{}", url.origin().ascii_serialization(), url.path()), SAMPLE)
    }

    /// Sends a request, and gives the head of the response. If the credentials are refused, and are others by now, it is sent
    /// once more with them.
    pub async fn send(&self, method: Method, url: &Url, more: &HeaderMap, body: &Bytes) -> Result<Response, Trouble> {
        let worn = self.worn();
        let response = self.send_in(&worn, &method, url, more, body).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !Box::pin(self.renew(&worn)).await {
            return Ok(response);
        }
        tracing::info!("credentials refused, tried again with those of now");
        Box::pin(self.send_in(&self.worn(), &method, url, more, body)).await
    }

    /// Sends a request, along redirects within the same origin.
    async fn send_in(
        &self,
        worn: &Worn,
        method: &Method,
        url: &Url,
        more: &HeaderMap,
        body: &Bytes,
    ) -> Result<Response, Trouble> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let mut headers = HeaderMap::with_capacity(worn.headers.len() + more.len() + HEADERS_BESIDE);
            worn.headers.iter().chain(more).for_each(|(name, value)| drop(headers.insert(name, value.clone())));
            headers.insert(via::HEADER, self.via.told());
            let request = self.client.request(method.clone(), url.clone()).body(body.clone());
            let mut request = request.build().map_err(|error| self.trouble(&error))?;
            // A login in the address comes as a header, and gives way to what is worn.
            for (name, value) in std::mem::replace(request.headers_mut(), headers) {
                name.map(|name| request.headers_mut().entry(name).or_insert(value));
            }
            let response = self.client.execute(request).await.map_err(|error| self.trouble(&error))?;
            let Some(next) = redirect(&response) else { return Ok(response) };
            url = self.follow(method, &url, response.status(), next.as_deref())?;
        }
        Err(self.refused(format!("it redirects more than {REDIRECTS_MAX} times"), "correct `url`".to_owned()))
    }

    /// Where a redirect leads, if it may be followed.
    fn follow(&self, method: &Method, from: &Url, status: StatusCode, next: Option<&str>) -> Result<Url, Trouble> {
        let to = next.and_then(|next| from.join(next).ok()).map(|to| with_login_of(from, to));
        let Some(to) = to else {
            return Err(self.refused(
                format!("it answers HTTP {} without a usable address", status.as_u16()),
                "correct `url`".to_owned(),
            ));
        };
        let (here, there) = (self.shown(from), self.shown(&to));
        if to.origin() != from.origin() {
            let why = format!("it redirects from {here} to another origin, {there}, which is not followed");
            return Err(self.refused(why, format!("write `url = \"{there}\"` if that is where it is now")));
        }
        let keeps = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if !keeps && *method != Method::GET {
            let why = format!("it redirects {here} to {there} with HTTP {}, which loses the request", status.as_u16());
            let is_login = ["login", "signin", "sign-in", "sign_in"].iter().any(|word| to.path().contains(word));
            let hint = match is_login {
                true => "that is a login page: it wants credentials, in `token` or `headers`".to_owned(),
                false => format!("write `url = \"{there}\"`"),
            };
            return Err(self.refused(why, hint));
        }
        Ok(to)
    }

    fn refused(&self, why: String, hint: String) -> Trouble {
        let text = format!("source `{}`: {why}", self.source);
        Trouble { error: CallError::new(ErrorKind::Unavailable, text, hint).at(&self.source, None), unreached: false }
    }

    fn trouble(&self, error: &reqwest::Error) -> Trouble {
        let unreached = error.is_connect() || error.is_builder();
        let (why, hint) = self.why(error, unreached);
        let text = format!("source `{}` {why}", self.source);
        Trouble { error: CallError::new(ErrorKind::Unavailable, text, hint).at(&self.source, None), unreached }
    }

    /// What went wrong, in words, and what to do.
    fn why(&self, error: &reqwest::Error, unreached: bool) -> (String, &'static str) {
        let at = self.shown(&self.url);
        let told = self.told(error);
        if let Some(tls) = tls_error(error) {
            let tls = self.masked(&tls, SAMPLE);
            let hint = "check its certificate; name the authority behind it in `ca_file` if that is your own";
            return (format!("cannot be reached at {at}: no secure connection comes about: {tls}"), hint);
        }
        match io_error(error).map(io::Error::kind) {
            // Whoever cannot be reached is the proxy: only that is connected to.
            _ if unreached && self.remote.proxy.is_some() && !is_loopback(&self.url) => (
                format!("cannot be reached at {at}: no connection through its `proxy` comes about: {told}"),
                "check `proxy`, and that it leads to the host in `url`",
            ),
            _ if error.is_dns() => (
                format!("cannot be reached: its host is not known ({told})"),
                "check the host in `url`, and the network",
            ),
            Some(io::ErrorKind::ConnectionRefused) => (
                format!("cannot be reached at {at}: the connection was refused"),
                "start it, or correct host and port in `url`",
            ),
            _ if unreached && error.is_timeout() => (
                format!("cannot be reached at {at}: no connection came about in time"),
                "check the network, or raise `connect_timeout_secs`",
            ),
            _ if unreached => (format!("cannot be reached at {at}: {told}"), "check `url`, `proxy` and the network"),
            _ => (format!("broke the connection off: {told}"), UNKNOWN_EFFECT),
        }
    }

    /// The words of an error and its causes, without addresses and secrets.
    pub fn told(&self, error: &reqwest::Error) -> String {
        // The first ones only say in which step it was.
        let text = causes(error).last().map_or_else(|| "no cause is told".to_owned(), ToString::to_string);
        self.masked(&text, SAMPLE)
    }
}

/// The address with the login of `from`, where it names none and has the same origin.
pub fn with_login_of(from: &Url, mut to: Url) -> Url {
    if to.origin() == from.origin() && to.username().is_empty() && to.password().is_none() {
        let _ = (to.set_username(from.username()), to.set_password(from.password()));
    }
    to
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The headers that go with every request.
fn headers(resolved: &ResolvedRemote) -> Result<HeaderMap, (String, String)> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("toolrelay/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    for (name, value) in &resolved.headers {
        let unusable = || (format!("header `{name}` has a value that cannot be sent"), "use printable text".to_owned());
        let mut sent = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unusable())?;
        sent.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?, sent);
    }
    if let Some(token) = &resolved.token {
        let unusable = || ("`token` cannot be sent in a header".to_owned(), "use printable text".to_owned());
        let mut sent = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| unusable())?;
        sent.set_sensitive(true);
        headers.insert(AUTHORIZATION, sent);
    }
    Ok(headers)
}

/// The address of a redirect; `None` for every other response.
fn redirect(response: &Response) -> Option<Option<String>> {
    let status = response.status();
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    redirects.then(|| response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned))
}

/// What an error comes of, the first cause last. What an I/O error wraps counts, which `source` alone would skip.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let cause = next?;
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source());
        Some(cause)
    })
}

fn io_error(error: &reqwest::Error) -> Option<&io::Error> {
    causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).last()
}

fn tls_error(error: &reqwest::Error) -> Option<String> {
    causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()).map(ToString::to_string)
}

fn client(url: &Url, remote: &Remote, resolved: &ResolvedRemote) -> Result<reqwest::Client, (String, String)> {
    static PROVIDER: Once = Once::new();
    // The same for all of the process; a second one is refused, and means the same.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(remote.connect_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .tcp_keepalive(KEEP_ALIVE)
        .tcp_keepalive_interval(KEEP_ALIVE)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .tcp_nodelay(true);
    #[cfg(target_os = "linux")]
    {
        builder = builder.tcp_user_timeout(UNACKNOWLEDGED);
    }
    if url.scheme() == "http" {
        // What is refused unread is sent again over HTTP/2 alone, which there is only under TLS.
        builder = builder.retry(reqwest::retry::never().max_retries_per_request(0));
    }
    if remote.headers.keys().any(|name| name.eq_ignore_ascii_case("host")) {
        // HTTP/2 has no such header: the name would come from the address.
        builder = builder.http1_only();
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    } else if let Some(proxy) = &resolved.proxy {
        let proxy = reqwest::Proxy::all(proxy.as_str()).map_err(|_| {
            ("`proxy` is no address".to_owned(), "write it as in `http://proxy.example:3128`".to_owned())
        })?;
        builder = builder.no_proxy().proxy(proxy);
    }
    if let Some(path) = &resolved.ca_file {
        let shown = redact::mask(&path.display().to_string(), &resolved.secrets);
        builder = builder.tls_certs_merge(authorities(path, &shown)?);
    } else if url.scheme() == "http" && resolved.proxy.as_deref().is_none_or(|proxy| !proxy.starts_with("https:")) {
        // Reading the system's certificates takes time, and fails where there are none.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| {
        let causes = causes(&error).map(ToString::to_string).collect::<Vec<_>>();
        let hint = "check that the system's certificates are installed, or name some in `ca_file`";
        (format!("no client can be made: {}", causes.join(": ")), hint.to_owned())
    })
}

fn authorities(path: &std::path::Path, shown: &str) -> Result<Vec<reqwest::Certificate>, (String, String)> {
    let hint = || "name a PEM file of certificates in `ca_file`".to_owned();
    let bytes = std::fs::read(path).map_err(|error| (format!("`ca_file` {shown}: {error}"), hint()))?;
    let found = reqwest::Certificate::from_pem_bundle(&bytes).unwrap_or_default();
    if found.is_empty() {
        return Err((format!("`ca_file` {shown} holds no certificate"), hint()));
    }
    Ok(found)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
