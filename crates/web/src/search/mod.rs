//! Search engines: the requests and response formats of each dialect, and the function that searches.
//!
//! The user configured the engine, so it may have any address, and requests use the client for hosts named by the user.
//! Redirects are never followed, because the key would be sent to the target.

use std::fmt;

use agentd_core::{
    error::{ErrorKind, WebError},
    web::WebSearchHit,
};
use reqwest::{
    Method, Request, StatusCode, Url,
    header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::{body, client::Clients, failure, target::Trust};

/// Settings for a search engine.
#[derive(Debug, Clone)]
pub struct SearchConfig {
    /// Dialect for requests and responses.
    pub dialect: Dialect,
    /// URL of the engine.
    pub base_url: Url,
    /// API key, if the engine needs one.
    pub api_key: Option<SecretString>,
    /// Name of the variable that contains the key, if configured.
    pub key_variable: Option<String>,
}

impl PartialEq for SearchConfig {
    fn eq(&self, other: &Self) -> bool {
        let key = |config: &Self| config.api_key.as_ref().map(|key| key.expose_secret().to_owned());
        let identity = |config: &Self| (config.dialect.clone(), config.base_url.clone(), config.key_variable.clone());
        identity(self) == identity(other) && key(self) == key(other)
    }
}

/// Dialects of search engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialect {
    /// SearXNG, with its JSON format enabled.
    Searxng,
    /// The Brave Search API.
    Brave,
    /// The Tavily search API.
    Tavily,
    /// Any other engine with JSON responses.
    Json(JsonFields),
}

impl Dialect {
    /// Returns the default URL, if all engines of this dialect share one.
    pub const fn default_base_url(&self) -> Option<&'static str> {
        match self {
            Self::Searxng | Self::Json(_) => None,
            Self::Brave => Some("https://api.search.brave.com/res/v1/web/search"),
            Self::Tavily => Some("https://api.tavily.com/search"),
        }
    }

    /// Returns true if the engine rejects requests without a key.
    pub const fn needs_key(&self) -> bool {
        matches!(self, Self::Brave | Self::Tavily)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Searxng => "SearXNG",
            Self::Brave => "Brave",
            Self::Tavily => "Tavily",
            Self::Json(_) => "the search engine",
        })
    }
}

/// Location of the fields in a JSON response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFields {
    /// JSON pointer to the list of results, such as `/results`. Empty if the whole response is the list.
    pub results: String,
    /// Field with the title of a result.
    pub title: String,
    /// Field with the URL of a result.
    pub url: String,
    /// Field with a description of a result.
    pub snippet: String,
    /// Header that contains the key. `None` for `Authorization: Bearer …`.
    pub key_header: Option<String>,
}

/// Maximum number of results in one response.
const MAX_RESULTS: usize = 20;

/// Returns the error for a search without a configured engine.
pub(crate) fn not_configured() -> WebError {
    WebError::new(ErrorKind::Configuration, "no search engine is configured, so web search is unavailable").with_hint(
        "ask the user to set `search.provider` in web.yaml (searxng, brave, tavily or json); for a known address, \
             read_url and http_fetch work without it",
    )
}

/// Sends the query and parses the results.
pub(crate) async fn find(
    config: &SearchConfig,
    clients: &Clients,
    query: &str,
    limit: usize,
    max_bytes: usize,
) -> Result<Vec<WebSearchHit>, WebError> {
    let engine = &config.dialect;
    if let (None, Some(variable)) = (&config.api_key, &config.key_variable) {
        return Err(WebError::new(ErrorKind::Auth, format!("missing key of {engine}: {variable} is not set"))
            .with_hint("the user has to set it where the daemon is started"));
    }
    let mut request = search_request(config, query, limit)?;
    let url = request.url().clone();
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(body::ACCEPTED));
    let response = clients.of(Trust::Named)?.execute(request).await;
    let response = response.map_err(|error| failure::unsent(&url, error))?;
    let status = response.status();
    let body_bytes = body::receive(response, max_bytes).await?;
    if !status.is_success() {
        return Err(rejected_search(engine, status));
    }
    let answer: Value = serde_json::from_slice(&body_bytes.bytes).map_err(|_| invalid_answer(engine, "is not JSON"))?;
    let mut finds = read(engine, &answer).ok_or_else(|| invalid_answer(engine, "has no list of results"))?;
    finds.retain(|find| !find.url.is_empty());
    finds.truncate(limit);
    Ok(finds)
}

fn search_request(config: &SearchConfig, query: &str, limit: usize) -> Result<Request, WebError> {
    let mut request = Request::new(Method::GET, config.base_url.clone());
    let bearer = || secret(&format!("Bearer {}", key(config)));
    match &config.dialect {
        Dialect::Searxng => {
            let url = request.url_mut();
            let path = url.path().trim_end_matches('/').to_owned();
            if !path.ends_with("/search") {
                url.set_path(&format!("{path}/search"));
            }
            url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
        }
        Dialect::Brave => {
            let count = limit.min(MAX_RESULTS).to_string();
            request.url_mut().query_pairs_mut().append_pair("q", query).append_pair("count", &count);
            request.headers_mut().insert("x-subscription-token", secret(key(config))?);
        }
        Dialect::Tavily => {
            *request.method_mut() = Method::POST;
            request.headers_mut().insert(AUTHORIZATION, bearer()?);
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() =
                Some(json!({"query": query, "max_results": limit.min(MAX_RESULTS)}).to_string().into());
        }
        Dialect::Json(fields) => {
            *request.url_mut() = fill_template(&config.base_url, query, limit)?;
            let name = fields.key_header.as_ref().map(|name| HeaderName::from_bytes(name.as_bytes())).transpose();
            if config.api_key.is_some() {
                match name.map_err(|_| invalid_config("search.key_header is not a header name"))? {
                    Some(name) => request.headers_mut().insert(name, secret(key(config))?),
                    None => request.headers_mut().insert(AUTHORIZATION, bearer()?),
                };
            }
        }
    }
    Ok(request)
}

/// Fills the query and the number of results into the `{query}` and `{count}` placeholders of the URL. In a parsed URL,
/// the braces may be percent-encoded.
fn fill_template(base_url: &Url, query: &str, limit: usize) -> Result<Url, WebError> {
    let mut text = base_url.as_str().to_owned();
    for (name, value) in [("query", encoded(query)), ("count", limit.to_string())] {
        text = text.replace(&format!("{{{name}}}"), &value).replace(&format!("%7B{name}%7D"), &value);
    }
    Url::parse(&text).map_err(|error| invalid_config(&format!("invalid search.base_url: {error}")))
}

fn invalid_config(problem: &str) -> WebError {
    WebError::new(ErrorKind::Configuration, format!("invalid web.yaml: {problem}"))
}

/// Percent-encodes text for use in a URL.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

fn read(dialect: &Dialect, answer: &Value) -> Option<Vec<WebSearchHit>> {
    match dialect {
        Dialect::Searxng => finds(answer.get("results")?, "title", "url", "content"),
        // Brave omits the list if there are no results.
        Dialect::Brave if answer.get("web").is_none() => answer.get("query").map(|_| Vec::new()),
        Dialect::Brave => finds(answer.pointer("/web/results")?, "title", "url", "description"),
        Dialect::Tavily => finds(answer.get("results")?, "title", "url", "content"),
        Dialect::Json(fields) => finds(answer.pointer(&fields.results)?, &fields.title, &fields.url, &fields.snippet),
    }
}

/// Parses a list of results. The caller drops results without a URL.
fn finds(list: &Value, title: &str, url: &str, snippet: &str) -> Option<Vec<WebSearchHit>> {
    let text =
        |find: &Value, name: &str| find.get(name).and_then(Value::as_str).map(without_markup).unwrap_or_default();
    let find = |find: &Value| WebSearchHit {
        title: text(find, title),
        url: find.get(url).and_then(Value::as_str).unwrap_or_default().to_owned(),
        snippet: text(find, snippet),
    };
    Some(list.as_array()?.iter().map(find).collect())
}

/// Removes the HTML that some engines use to highlight matches.
fn without_markup(text: &str) -> String {
    let mut plain = text.to_owned();
    for mark in ["<strong>", "</strong>", "<b>", "</b>", "<em>", "</em>"] {
        plain = plain.replace(mark, "");
    }
    // `&amp;` is decoded last, so that its result is not decoded again.
    for (entity, letter) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&amp;", "&")]
    {
        plain = plain.replace(entity, letter);
    }
    plain
}

/// Returns a header value with the key, marked as sensitive so that it is never printed.
fn secret(text: &str) -> Result<HeaderValue, WebError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        WebError::new(ErrorKind::Configuration, "the key of the search engine has characters invalid in a header")
            .with_hint("check the variable that search.api_key_env of web.yaml names")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn key(config: &SearchConfig) -> &str {
    config.api_key.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default()
}

/// Returns the error for a rejected search. The engine's own message is left out, because some engines repeat the key
/// in it.
fn rejected_search(engine: &Dialect, status: StatusCode) -> WebError {
    let message = format!("{engine} refused the search: {status}");
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if *engine == Dialect::Searxng => {
            WebError::new(ErrorKind::Auth, message).with_hint("list json under search.formats in settings.yml")
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => WebError::new(ErrorKind::Auth, message)
            .with_hint("the user has to check the key in the variable that search.api_key_env of web.yaml names"),
        StatusCode::TOO_MANY_REQUESTS => {
            WebError::new(ErrorKind::RateLimited, message).with_hint("wait before the next search")
        }
        _ => WebError::new(ErrorKind::Provider, message),
    }
}

fn invalid_answer(engine: &Dialect, problem: &str) -> WebError {
    WebError::new(ErrorKind::Protocol, format!("the answer of {engine} {problem}"))
        .with_hint("the user has to check search.base_url and search.provider in web.yaml")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn malformed_search_answers_are_parsed_or_rejected() {
        let check = |dialect: Dialect, answer: Value, expected: Option<&[&str]>| {
            let read = read(&dialect, &answer);
            let snippets = read.as_ref().map(|finds| finds.iter().map(|find| &*find.snippet).collect::<Vec<_>>());
            assert_eq!(snippets.as_deref(), expected, "{dialect} {answer}");
        };
        let marked = json!({"web": {"results": [{"description": "a <strong>language</strong>"}]}});
        check(Dialect::Brave, marked, Some(&["a language"]));
        check(Dialect::Brave, json!({"type": "search", "query": {}}), Some(&[]));
        check(Dialect::Brave, json!({"error": 1}), None);
        check(Dialect::Searxng, json!({"results": {"a": 1}}), None);
        check(Dialect::Searxng, json!([]), None);
        check(Dialect::Searxng, json!({"results": [1, {"url": 2}]}), Some(&["", ""]));
    }

    #[test]
    fn search_engine_errors_have_a_hint() {
        let check = |dialect: Dialect, status: u16, part: &str| {
            let error = rejected_search(&dialect, StatusCode::from_u16(status).unwrap());
            assert!(error.hint().unwrap_or_default().contains(part), "{error:?}");
        };
        check(Dialect::Searxng, 403, "search.formats");
        check(Dialect::Brave, 401, "search.api_key_env");
        check(Dialect::Tavily, 429, "wait");
    }
}
