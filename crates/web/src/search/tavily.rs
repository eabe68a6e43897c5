//! The search of Tavily.

use agentd_core::error::WebError;
use reqwest::{Method, header::AUTHORIZATION};
use serde_json::json;

use super::{Question, SearchConfig, key, secret};

/// Finds of one answer at the most.
const MOST: usize = 20;

pub(super) fn question(config: &SearchConfig, query: &str, most: usize) -> Result<Question, WebError> {
    let token = secret(AUTHORIZATION, &format!("Bearer {}", key(config)))?;
    let body = json!({"query": query, "max_results": most.min(MOST)});
    Ok(Question { method: Method::POST, url: config.base_url.clone(), headers: vec![token], body: Some(body) })
}
