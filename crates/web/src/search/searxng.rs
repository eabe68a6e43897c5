//! SearXNG: one's own search engine, which asks others.

use reqwest::Method;

use super::{Question, SearchConfig};

pub(super) fn question(config: &SearchConfig, query: &str) -> Question {
    let mut url = config.base_url.clone();
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/search") {
        url.set_path(&format!("{path}/search"));
    }
    url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
    Question { method: Method::GET, url, headers: Vec::new(), body: None }
}
