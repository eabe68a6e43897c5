//! One request on its way, as it is sent to one server.

use agentd_core::{
    error::{ErrorKind, WebError},
    web::{WebMethod, WebRequest},
};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use crate::{failure, target};

/// Headers that belong to the connection, or say who asks: they are not for a request to set.
const OURS: [&str; 14] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
/// Headers of one request at the most.
const MOST_HEADERS: usize = 32;

/// A request to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) method: WebMethod,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<String>,
}

impl Hop {
    /// The first one.
    pub(crate) fn first(request: WebRequest) -> Result<Self, WebError> {
        let WebRequest { method, url, headers, body } = request;
        let url = target::parse(&url)?;
        let body = body.filter(|body| !body.is_empty());
        if method.is_fetch() && body.is_some() {
            return Err(refused(format!("a {} request has no body", method.as_str()), "leave body away, or use POST"));
        }
        Ok(Self { method, url, headers: read(headers)?, body })
    }
}

fn read(written: Vec<(String, String)>) -> Result<HeaderMap, WebError> {
    if written.len() > MOST_HEADERS {
        return Err(refused(format!("more than {MOST_HEADERS} headers cannot be sent"), "send those that are needed"));
    }
    let mut headers = HeaderMap::new();
    for (name, text) in written {
        let shown = failure::quoted(&name);
        let parsed = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| refused(format!("{shown} is no name of a header"), "write it as in `accept-language`"))?;
        if OURS.contains(&parsed.as_str()) {
            return Err(refused(format!("the header {shown} is set by agentd itself"), "leave it away"));
        }
        let value = HeaderValue::from_str(text.trim()).map_err(|_| {
            refused(format!("the header {shown} has characters that none can carry"), "write it in one plain line")
        })?;
        headers.append(parsed, value);
    }
    Ok(headers)
}

fn refused(why: impl Into<String>, hint: &str) -> WebError {
    WebError::new(ErrorKind::InvalidInput, why).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_is_named() {
        let check = |request: WebRequest, expected: &str| {
            let told = Hop::first(request).unwrap_err().to_string();
            assert!(told.contains(expected), "{told}");
        };
        let get = || WebRequest::get("http://example.org/");
        let with = |name: &str, value: &str| WebRequest { headers: vec![(name.into(), value.into())], ..get() };
        check(WebRequest { body: Some("x".into()), ..get() }, "a GET request has no body");
        check(with("a b", "c"), "no name of a header");
        check(with("Host", "internal"), "set by agentd itself");
        check(with("x", "a\r\nHost: internal"), "none can carry");
        check(WebRequest { headers: vec![("a".into(), "b".into()); 33], ..get() }, "more than 32");
        assert!(Hop::first(WebRequest { body: Some(String::new()), ..get() }).is_ok());
    }
}
