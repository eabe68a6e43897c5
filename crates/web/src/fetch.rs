//! Performs a request and follows its redirects. Each request is checked before it is sent.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    error::{ErrorKind, WebError},
    ports::{ReadRules, Web},
    web::{WebAnswer, WebRequest, WebSearchHit},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::{
    Method, Response,
    header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RANGE},
};

use crate::{
    body,
    client::{Clients, Lookup, SystemLookup},
    config::WebConfig,
    failure,
    hop::{Hop, next_hop},
    search,
    target::{self, OwnAddresses},
};

/// Response headers that are returned: headers that describe the content or the next steps.
const REPORTED_HEADERS: &str = "allow cache-control content-disposition content-language date etag last-modified link \
    location retry-after www-authenticate";
/// Maximum length of a returned header value, in characters.
const MAX_HEADER_LENGTH: usize = 500;

/// Access to the web with the user's settings.
#[derive(Debug)]
pub struct Fetcher {
    config: WebConfig,
    clients: Clients,
    own: OwnAddresses,
}

impl Fetcher {
    /// Creates a fetcher that uses the system's resolver. Clients are created and certificates are read on first use.
    pub fn new(config: WebConfig) -> Self {
        Self::with_lookup(config, Arc::new(SystemLookup))
    }

    /// Creates a fetcher with another resolver.
    pub fn with_lookup(config: WebConfig, lookup: Arc<dyn Lookup>) -> Self {
        let own = OwnAddresses::of_this_machine();
        Self { clients: Clients::new(config.clone(), lookup, own.clone()), own, config }
    }

    async fn follow(&self, request: WebRequest, rules: &ReadRules) -> Result<WebAnswer, WebError> {
        let mut hop = Hop::first(request)?;
        let mut passed = Vec::new();
        loop {
            let response = self.send(&hop).await?;
            let status = response.status().as_u16();
            let location = response.headers().get(LOCATION).map(HeaderValue::as_bytes);
            let Some(next) = next_hop(&hop, status, location)? else {
                return self.answer(hop, passed, response).await;
            };
            self.may_follow(&next, passed.len(), rules)?;
            passed.push(String::from(hop.url));
            hop = next;
        }
    }

    fn may_follow(&self, next: &Hop, followed: usize, rules: &ReadRules) -> Result<(), WebError> {
        let limit = self.config.max_redirects;
        if followed >= limit {
            let error = WebError::new(ErrorKind::Rejected, format!("it redirects more than {limit} times"));
            return Err(error.with_hint(format!("the next address would be {}", next.url)));
        }
        if !rules.allow(next.url.as_str()) {
            let message = format!("it redirects to {}, which requires approval", next.url);
            return Err(
                WebError::new(ErrorKind::Rejected, message).with_hint("request that address directly, to get approval")
            );
        }
        Ok(())
    }

    async fn send(&self, hop: &Hop) -> Result<Response, WebError> {
        let client = self.clients.of(target::check_url(&hop.url, &self.config.allow, &self.own)?)?;
        // A range of compressed content cannot be unpacked.
        let encodings = if hop.headers.contains_key(RANGE) { "identity" } else { body::ACCEPTED };
        let mut headers = hop.headers.clone();
        for (name, default) in [
            (ACCEPT, "text/html, application/xhtml+xml, application/json;q=0.9, */*;q=0.8"),
            (ACCEPT_LANGUAGE, "en, *;q=0.5"),
            (ACCEPT_ENCODING, encodings),
        ] {
            headers.entry(name).or_insert(HeaderValue::from_static(default));
        }
        // All of these names are valid methods.
        let method = Method::from_bytes(hop.method.as_str().as_bytes()).unwrap_or_default();
        let mut request = client.request(method, hop.url.clone()).headers(headers);
        if let Some(body) = &hop.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| failure::unsent(&hop.url, error))
    }

    async fn answer(&self, hop: Hop, passed: Vec<String>, response: Response) -> Result<WebAnswer, WebError> {
        let status = response.status();
        let content_type = response.headers().get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let (media_type, charset) = body::declared(content_type.as_deref().unwrap_or_default());
        let headers = reported_headers(response.headers());
        let received = body::receive(response, self.config.max_bytes).await?;
        let text = body::text(&received.bytes, &media_type, charset.as_deref());
        Ok(WebAnswer {
            url: hop.url.into(),
            passed,
            status: status.as_u16(),
            reason: status.canonical_reason().unwrap_or_default().to_owned(),
            headers,
            media_type,
            body: received.bytes,
            text,
            cut: received.cut,
        })
    }
}

impl Web for Fetcher {
    fn check(&self, request: &WebRequest) -> Result<(), WebError> {
        let hop = Hop::first(request.clone())?;
        target::check_url(&hop.url, &self.config.allow, &self.own).map(|_| ())
    }

    fn fetch(&self, request: WebRequest, rules: ReadRules) -> BoxFuture<'_, Result<WebAnswer, WebError>> {
        async move { within(self.config.timeout, self.follow(request, &rules)).await }.boxed()
    }

    fn search(&self, query: String, limit: usize) -> BoxFuture<'_, Result<Vec<WebSearchHit>, WebError>> {
        async move {
            let engine = self.config.search.as_ref().ok_or_else(search::not_configured)?;
            let finding = search::find(engine, &self.clients, &query, limit, self.config.max_bytes);
            within(self.config.timeout, finding).await
        }
        .boxed()
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, WebError>>) -> Result<T, WebError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("it did not answer in full within {} s", limit.as_secs_f64());
        Err(WebError::new(ErrorKind::Timeout, message).with_hint("request less, or retry later"))
    })
}

fn reported_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let is_reported = |name: &str| REPORTED_HEADERS.split_ascii_whitespace().any(|reported| reported == name);
    let reported = headers.iter().filter(|(name, _)| is_reported(name.as_str()));
    reported
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), value.chars().take(MAX_HEADER_LENGTH).collect())
        })
        .collect()
}
