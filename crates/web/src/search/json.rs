//! Any search engine that answers in JSON: a person says where in the address the question stands, and where in the answer
//! the finds do.

use agentd_core::error::{ErrorKind, WebError};
use reqwest::{Method, Url, header::HeaderName};

use super::{Question, SearchConfig, key, secret};

/// Where things stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFields {
    /// The list of finds, as a JSON pointer: `/results`; empty where the whole answer is the list.
    pub results: String,
    /// The field of a find that is its title.
    pub title: String,
    /// The field that is its address.
    pub url: String,
    /// The field that says what it is about.
    pub snippet: String,
    /// The header in which the key goes; none for `Authorization: Bearer …`.
    pub key_header: Option<String>,
}

/// `{query}` and `{count}` in the address stand for the question and how many finds are wanted.
pub(super) fn question(
    config: &SearchConfig,
    fields: &JsonFields,
    query: &str,
    most: usize,
) -> Result<Question, WebError> {
    let wrong = |what: &str| WebError::new(ErrorKind::Configuration, format!("web.yaml cannot be followed: {what}"));
    let encoded = encoded(query);
    // Braces are written otherwise in an address that was read.
    let mut text = config.base_url.as_str().to_owned();
    for (place, value) in [("query", encoded.as_str()), ("count", &most.to_string())] {
        text = text.replace(&format!("{{{place}}}"), value).replace(&format!("%7B{place}%7D"), value);
    }
    let url = Url::parse(&text).map_err(|error| wrong(&format!("search.base_url is no address: {error}")))?;
    let mut headers = Vec::new();
    if config.api_key.is_some() {
        headers.push(match &fields.key_header {
            Some(name) => {
                let name = HeaderName::from_bytes(name.as_bytes());
                secret(name.map_err(|_| wrong("search.key_header is no name of a header"))?, key(config))?
            }
            None => secret(reqwest::header::AUTHORIZATION, &format!("Bearer {}", key(config)))?,
        });
    }
    Ok(Question { method: Method::GET, url, headers, body: None })
}

/// The text as a part of an address, byte by byte.
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
