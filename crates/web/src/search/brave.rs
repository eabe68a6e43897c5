//! The search of Brave.

use agentd_core::error::WebError;
use reqwest::{Method, header::HeaderName};

use super::{Question, SearchConfig, key, secret};

/// Finds of one answer at the most.
const MOST: usize = 20;

pub(super) fn question(config: &SearchConfig, query: &str, most: usize) -> Result<Question, WebError> {
    let mut url = config.base_url.clone();
    url.query_pairs_mut().append_pair("q", query).append_pair("count", &most.min(MOST).to_string());
    let token = secret(HeaderName::from_static("x-subscription-token"), key(config))?;
    Ok(Question { method: Method::GET, url, headers: vec![token], body: None })
}
