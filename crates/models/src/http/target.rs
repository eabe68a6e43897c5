//! URL of a model, the client that connects to it, and the deadlines of a call. The connect timeout is part of the
//! client.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use agentd_core::route::{self, Routes};
use agentd_http::Certificates;
use reqwest::{
    Client, RequestBuilder, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use crate::{
    config::{LOCAL_WINDOW, ModelConfig, ModelConfigError, REMOTE_WINDOW, Wire},
    key::RenewableKey,
};

const ANTHROPIC_VERSION: &str = "2023-06-01";

/// HTTP clients, one for all models with the same connection settings, so that they share connections and certificates.
#[derive(Default)]
pub(crate) struct Clients {
    routes: Routes,
    clients: HashMap<ConnectionSettings, Client>,
}

/// Connect timeout, whether connections use TLS, and their certificates.
type ConnectionSettings = (Duration, bool, Certificates);

impl Clients {
    pub(crate) fn new(routes: Routes) -> Self {
        Self { routes, clients: HashMap::new() }
    }

    pub(crate) fn get(&mut self, url: &Url, config: &ModelConfig) -> Result<Client, ModelConfigError> {
        let (tls, connect_timeout) = (url.scheme() == "https", Duration::from_millis(config.connect_timeout_ms));
        let settings = (connect_timeout, tls, config.certificates.clone());
        if let Some(client) = self.clients.get(&settings) {
            return Ok(client.clone());
        }
        let with_certificates = config.certificates.read().map_err(ModelConfigError::Certificates)?;
        let client = agentd_http::client(tls, Some(&self.routes), |builder| {
            // A redirect could silently drop the body or the key of a POST. The user must correct the URL instead.
            let builder = with_certificates(builder).redirect(redirect::Policy::none());
            builder.connect_timeout(connect_timeout).tcp_nodelay(true)
        });
        let client = client.map_err(ModelConfigError::Client)?;
        self.clients.insert(settings, client.clone());
        Ok(client)
    }
}

/// URL of a model and its HTTP settings. The displayed text contains no password, query or key.
pub(crate) struct Target {
    base: Url,
    display_url: String,
    routes: Routes,
    pub(super) client: Client,
    pub(super) headers: HeaderMap,
    secrets: Vec<SecretString>,
    key_source: Option<String>,
    key_header: HeaderName,
    pub(super) renewable_key: Option<Arc<RenewableKey>>,
    pub(super) certificates: Certificates,
    pub(crate) deadlines: Deadlines,
}

impl Target {
    pub(crate) fn new(config: &ModelConfig, clients: &mut Clients) -> Result<Self, ModelConfigError> {
        let base = parse(&config.base_url, config.wire)?;
        let mut secrets: Vec<SecretString> = config.headers.values().cloned().collect();
        secrets.extend(config.api_key.clone());
        secrets.extend(base.password().map(SecretString::from));
        let key_header = key_header(config, &base)?;
        Ok(Self {
            display_url: without_secrets(&base),
            routes: clients.routes.clone(),
            client: clients.get(&base, config)?,
            headers: headers(config, &key_header)?,
            secrets,
            key_source: config.key_source.clone(),
            key_header,
            renewable_key: config.renewable_key.clone(),
            certificates: config.certificates.clone(),
            deadlines: Deadlines::new(config),
            base,
        })
    }

    /// Returns the URL, safe to display.
    pub(crate) fn display_url(&self) -> &str {
        &self.display_url
    }

    /// Returns the network route to the server, for display.
    pub(crate) fn route(&self) -> String {
        self.routes.of(self.base.as_str()).to_string()
    }

    /// Returns the route in brackets, if a proxy may be the reason for a failure.
    pub(crate) fn proxy_note(&self) -> String {
        let route = self.routes.of(self.base.as_str());
        if route.proxy().is_some() { format!(" [{route}]") } else { String::new() }
    }

    /// Returns a hint for a refused key, which names the place where the key is set.
    pub(crate) fn key_hint(&self) -> String {
        let source = self.key_source.as_deref().unwrap_or("it has none");
        format!("check the api_key of this model: {source}")
    }

    /// Adds a renewable key to a request. A header that the user has configured takes precedence.
    pub(super) fn with_key(&self, request: RequestBuilder, key: &SecretString) -> RequestBuilder {
        let is_sent = !key.expose_secret().is_empty() && !self.headers.contains_key(&self.key_header);
        match key_value(&self.key_header, key).filter(|_| is_sent) {
            Some(value) => request.header(&self.key_header, value),
            None => request,
        }
    }

    pub(crate) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// Returns true if the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        route::is_this_machine(self.host())
    }

    /// Returns the assumed window, in tokens, for a model whose window is unknown.
    pub(crate) fn assumed_window(&self) -> u64 {
        if self.is_local() { LOCAL_WINDOW } else { REMOTE_WINDOW }
    }

    /// Replaces secrets in text from a server.
    pub(crate) fn redact(&self, text: &str) -> String {
        // Replacing very short secrets would only make the text unreadable.
        let renewed = self.renewable_key.as_ref().map(|key| key.known()).unwrap_or_default();
        let secrets = self.secrets.iter().chain(&renewed).map(ExposeSecret::expose_secret);
        let secrets = secrets.filter(|secret| secret.len() >= 4);
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "[key]"))
    }

    /// Returns the URL and headers of a request to a path, without secrets in the URL.
    pub(crate) fn shown_call(&self, path: &str) -> (String, HeaderMap) {
        let mut headers = self.headers_of_call();
        if self.renewable_key.is_some() {
            headers.entry(&self.key_header).or_insert_with(|| sensitive(HeaderValue::from_static("key")));
        }
        (without_secrets(&self.at(path)), headers)
    }

    pub(super) fn headers_of_call(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.append(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.append(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        headers
    }

    /// Returns a path under the server's root, relative to the base URL. Documents of the same name under `/v1` have
    /// another format.
    pub(crate) fn root_path(&self, path: &str) -> String {
        if self.base.path().trim_end_matches('/').ends_with("/v1") { format!("/..{path}") } else { path.to_owned() }
    }

    pub(super) fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        let queries = [self.base.query(), query].into_iter().flatten().filter(|query| !query.is_empty());
        let query = queries.collect::<Vec<_>>().join("&");
        url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
        url
    }

    #[cfg(test)]
    pub(crate) fn for_tests(base_url: &str, key: &str) -> Self {
        let mut config = ModelConfig::new(Wire::OpenAi, base_url);
        config.api_key = Some(SecretString::from(key)).filter(|_| !key.is_empty());
        Self::new(&config, &mut Clients::default()).unwrap()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display_url)
    }
}

fn parse(base_url: &str, wire: Wire) -> Result<Url, ModelConfigError> {
    let refuse = |reason: &str| {
        // The part before an `@` may be a password, and a query may contain a key.
        let tail = base_url.split('?').next().unwrap_or_default().rsplit('@').next().unwrap_or_default();
        ModelConfigError::BaseUrl { base_url: tail.chars().take(200).collect(), reason: reason.to_owned() }
    };
    let mut url = Url::parse(base_url.trim()).map_err(|error| refuse(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("it is neither http nor https"));
    }
    if url.host_str().is_none() {
        return Err(refuse("it has no host"));
    }
    let path = url.path().trim_end_matches('/');
    // Users paste the URL of a call, but the paths of calls are added by us.
    let calls = ["/chat/completions", "/completion", "/messages", "/responses", "/embeddings"];
    let mut path = calls.iter().find_map(|call| path.strip_suffix(call)).unwrap_or(path).to_owned();
    // SDKs of this wire add the version themselves, so URLs are written with and without it.
    if wire == Wire::Anthropic && !path.ends_with("/v1") {
        path.push_str("/v1");
    }
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

fn without_secrets(base: &Url) -> String {
    let mut url = base.clone();
    // These calls only fail for URLs without a host, which were rejected before.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.as_str().trim_end_matches('/').to_owned()
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

fn invalid_header(name: &str, reason: &'static str) -> ModelConfigError {
    ModelConfigError::Header { name: name.chars().take(80).collect(), reason }
}

fn header_name(name: &str) -> Result<HeaderName, ModelConfigError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid_header(name, "its name contains invalid characters"))
}

/// Returns the header for the key. Azure's classic API, which is recognised by its version in the query, has its own
/// header for keys.
fn key_header(config: &ModelConfig, base: &Url) -> Result<HeaderName, ModelConfigError> {
    match &config.api_key_header {
        Some(name) => header_name(name),
        None if config.wire == Wire::Anthropic => Ok(HeaderName::from_static("x-api-key")),
        None if base.query_pairs().any(|(name, _)| name == "api-version") => Ok(HeaderName::from_static("api-key")),
        None => Ok(AUTHORIZATION),
    }
}

/// Returns the value of the key's header, or `None` if the key is invalid.
fn key_value(header: &HeaderName, key: &SecretString) -> Option<HeaderValue> {
    let key = key.expose_secret();
    let text = if *header == AUTHORIZATION { format!("Bearer {key}") } else { key.to_owned() };
    HeaderValue::from_str(&text).ok().map(sensitive)
}

fn headers(config: &ModelConfig, key_header: &HeaderName) -> Result<HeaderMap, ModelConfigError> {
    let mut headers = HeaderMap::new();
    let bad_value = |name: &str| invalid_header(name, "its value contains invalid characters");
    if config.wire == Wire::Anthropic {
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(ANTHROPIC_VERSION));
    }
    if let (Some(key), None) = (&config.api_key, &config.renewable_key)
        && !key.expose_secret().is_empty()
    {
        headers.insert(key_header, key_value(key_header, key).ok_or_else(|| bad_value("api_key"))?);
    }
    for (name, text) in &config.headers {
        let value = HeaderValue::from_str(text.expose_secret()).map_err(|_| bad_value(name))?;
        headers.insert(header_name(name)?, sensitive(value));
    }
    Ok(headers)
}

/// Time limit for the usage after the answer has ended.
pub(crate) const USAGE_TAIL: Duration = Duration::from_millis(1_500);

/// Time limit for the end of the transfer after all data. Waiting for it allows the connection to be reused.
pub(crate) const LAST_BYTES: Duration = Duration::from_millis(100);

/// Time for which a server may send only keep-alives, as a multiple of the first-byte or the idle timeout, whichever is
/// longer.
const KEEP_ALIVE_TIMES: u32 = 5;

/// Maximum of this time, unless one of the timeouts is longer.
const MAX_KEEP_ALIVE: Duration = Duration::from_secs(600);

/// Maximum time for reading data that already arrived, after a deadline was noticed late.
pub(super) const MAX_GRACE: Duration = Duration::from_secs(2);

/// Time limit for a list of models.
const LISTING: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    /// Time limit for reading a renewable key, which is part of no other deadline.
    pub(super) key: Duration,
    first_byte: Duration,
    idle: Duration,
}

/// Point in time, and the kind of wait that it limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(super) at: Instant,
    pub(super) limit: Duration,
    pub(super) missed: MissedDeadline,
    /// True if the deadline was missed before, and only data that arrived in time is still read.
    pub(super) is_grace: bool,
}

/// Kind of wait that a deadline limits.
#[derive(Debug, Clone, Copy)]
pub(super) enum MissedDeadline {
    FirstByte,
    Idle,
    KeepAlive,
    Tail,
}

impl Deadlines {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        Self {
            key: Duration::from_millis(config.key_timeout_ms),
            first_byte: Duration::from_millis(config.first_byte_timeout_ms),
            idle: Duration::from_millis(config.idle_timeout_ms),
        }
    }

    /// Returns a deadline for the first byte of the answer, from now.
    pub(crate) fn first_byte(&self) -> Deadline {
        Deadline::new(self.first_byte, MissedDeadline::FirstByte)
    }

    /// Returns a deadline for the next bytes of the answer, from now.
    pub(crate) fn idle(&self) -> Deadline {
        Deadline::new(self.idle, MissedDeadline::Idle)
    }

    /// Returns a deadline for the next part of the answer itself, from now. A server sends comments while it processes
    /// a long prompt; a stuck server may send them indefinitely.
    pub(crate) fn keep_alive(&self) -> Deadline {
        let longer = self.first_byte.max(self.idle);
        let limit = longer.saturating_mul(KEEP_ALIVE_TIMES).min(MAX_KEEP_ALIVE.max(longer));
        Deadline::new(limit, MissedDeadline::KeepAlive)
    }

    /// Returns a deadline for data after the answer, within `limit` from now.
    pub(crate) fn tail(&self, limit: Duration) -> Deadline {
        Deadline::new(limit.min(self.idle), MissedDeadline::Tail)
    }

    /// Returns a deadline for a list of models, from now.
    pub(crate) fn listing(&self) -> Deadline {
        Deadline::new(LISTING.min(self.first_byte), MissedDeadline::FirstByte)
    }
}

impl Deadline {
    fn new(limit: Duration, missed: MissedDeadline) -> Self {
        Self { at: Instant::now() + limit, limit, missed, is_grace: false }
    }

    /// Returns true if the deadline is in the past.
    pub(crate) fn has_passed(&self) -> bool {
        self.at <= Instant::now()
    }

    /// Returns the same deadline, or a short grace period if the deadline has passed. A grace period is not extended
    /// again, as otherwise each part that arrives late would extend the deadline.
    pub(crate) fn after_miss(self) -> Self {
        if self.is_grace || !self.has_passed() {
            return self;
        }
        Self { at: Instant::now() + self.at.elapsed().min(MAX_GRACE), is_grace: true, ..self }
    }

    /// Returns the earlier of two deadlines.
    pub(crate) fn earlier(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_parsed_and_shown_without_secrets() {
        let check = |base_url: &str, call: &str, shown: &str| {
            let target = Target::for_tests(base_url, "");
            assert_eq!((target.at("/x").as_str(), target.to_string().as_str()), (call, shown), "{base_url}");
        };
        check("http://h:1/v1", "http://h:1/v1/x", "http://h:1/v1");
        check(" http://h:1/v1/ ", "http://h:1/v1/x", "http://h:1/v1");
        check("http://h:1", "http://h:1/x", "http://h:1");
        check("https://h/v1/chat/completions", "https://h/v1/x", "https://h/v1");
        check("http://u:p@h/d?api-version=1#f", "http://u:p@h/d/x?api-version=1", "http://h/d");
        check("http://h/d/chat/completions?api-version=1", "http://h/d/x?api-version=1", "http://h/d");
        check("http://h/v1?", "http://h/v1/x", "http://h/v1");
    }

    #[test]
    fn queries_of_base_and_path_are_joined() {
        let at = |base: &str, path: &str| Target::for_tests(base, "").at(path).to_string();
        assert_eq!(at("http://h/d?api-version=1", "/models?limit=2"), "http://h/d/models?api-version=1&limit=2");
        assert_eq!(at("http://h/v1?a=1&b=%26", "/../props"), "http://h/props?a=1&b=%26");
    }

    #[test]
    fn key_header_depends_on_wire_and_api_version() {
        let sent = |wire, base: &str, header: Option<&str>| {
            let mut config = ModelConfig::new(wire, base);
            (config.api_key, config.api_key_header) = (Some("k".into()), header.map(str::to_owned));
            let target = Target::new(&config, &mut Clients::default()).unwrap();
            let (name, value) = target.headers.iter().find(|(_, value)| value.is_sensitive()).unwrap();
            format!("{name}: {}", value.to_str().unwrap())
        };
        let azure = "http://h/openai/deployments/d?api-version=1";
        assert_eq!(sent(Wire::OpenAi, "http://h/v1", None), "authorization: Bearer k");
        assert_eq!(sent(Wire::Anthropic, "http://h", None), "x-api-key: k");
        assert_eq!(sent(Wire::OpenAi, azure, None), "api-key: k");
        assert_eq!(sent(Wire::OpenAi, azure, Some("Authorization")), "authorization: Bearer k");
        assert_eq!(sent(Wire::Anthropic, "http://h", Some("Authorization")), "authorization: Bearer k");
        assert_eq!(sent(Wire::OpenAi, "http://h/v1", Some("Ocp-Apim-Key")), "ocp-apim-key: k");
        let mut config = ModelConfig::new(Wire::OpenAi, "http://h");
        config.api_key_header = Some("two words".to_owned());
        assert!(Target::new(&config, &mut Clients::default()).is_err());
    }

    #[test]
    fn messages_url_contains_v1_once() {
        for (base, shown) in [("http://h/v1/", "http://h/v1"), ("http://h/anthropic", "http://h/anthropic/v1")] {
            let target = Target::new(&ModelConfig::new(Wire::Anthropic, base), &mut Clients::default()).unwrap();
            assert_eq!((target.at("/messages").as_str(), target.display_url()), (&*format!("{shown}/messages"), shown));
            assert_eq!(target.at("/models?limit=2").as_str(), format!("{shown}/models?limit=2"));
        }
    }

    #[test]
    fn local_models_get_a_smaller_assumed_window() {
        let check = |base_url: &str, window: u64| {
            assert_eq!(Target::for_tests(base_url, "").assumed_window(), window, "{base_url}");
        };
        for local in ["http://127.0.0.1:1/v1", "http://[::1]:1", "http://localhost:11434/v1", "http://gpu.localhost"] {
            check(local, LOCAL_WINDOW);
        }
        for remote in ["https://api.example.com/v1", "http://192.168.1.7:11434/v1", "http://localhost.example"] {
            check(remote, REMOTE_WINDOW);
        }
    }

    #[test]
    fn invalid_urls_are_rejected_without_their_password() {
        let check = |base_url: &str, part: &str| {
            let error = parse(base_url, Wire::OpenAi).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
        };
        check("", "relative URL without a base");
        check("localhost:8080", "neither http nor https");
        check("ftp://u:hunter2@h", "neither http nor https");
        check("unix:/run/x", "neither http nor https");
        check("unix:/run/x?key=hunter2", "neither http nor https");
        check("http://", "host");
    }
}
