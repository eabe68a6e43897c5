//! What a person sets of the web. No call of a model changes any of it.

use std::time::Duration;

use crate::{allow::AllowedHost, search::SearchConfig};

/// Settings of the way to the web.
#[derive(Debug, Clone, PartialEq)]
pub struct WebConfig {
    /// Time limit of a request, redirects and the answer included.
    pub timeout: Duration,
    /// Time limit of a connection.
    pub connect_timeout: Duration,
    /// Bytes of an answer that are taken, counted when it is unpacked.
    pub max_bytes: usize,
    /// Redirects that are followed.
    pub max_redirects: usize,
    /// Whom the people behind a server can ask about agentd: an address of a page or of mail.
    pub contact: Option<String>,
    /// Targets that may be reached besides public addresses.
    pub allow: Vec<AllowedHost>,
    /// The search engine; without it no search is possible.
    pub search: Option<SearchConfig>,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            max_bytes: 5 << 20,
            max_redirects: 5,
            contact: None,
            allow: Vec::new(),
            search: None,
        }
    }
}

impl WebConfig {
    /// The name under which servers know agentd: its version, and whom to ask about it.
    pub fn agent(&self) -> String {
        let name = agentd_http::AGENT;
        match self.contact.as_deref().map(str::trim).filter(|contact| !contact.is_empty()) {
            Some(contact) => format!("{name} (+{contact})"),
            None => name.to_owned(),
        }
    }
}
