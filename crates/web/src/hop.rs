//! A single request to one server, and its redirection to another server. This module performs no I/O.
//!
//! The server controls the target of a redirect, so a redirected request omits everything that is only meant for the
//! original server: headers that could contain keys, and methods that do more than fetch.

use agentd_core::{
    error::{ErrorKind, WebError},
    web::{WebMethod, WebRequest, is_harmless_header},
};
use reqwest::{
    Url,
    header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::{failure, target};

/// Headers of the connection or of the client's identity. Requests may not set them.
const RESERVED: &str = "accept-encoding connection content-length expect host keep-alive proxy-authorization \
    proxy-connection te trailer transfer-encoding upgrade user-agent via";
/// Maximum number of headers in one request.
const MAX_HEADERS: usize = 32;

/// Request to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) method: WebMethod,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<String>,
}

impl Hop {
    /// Creates the first request, after checking its parts.
    pub(crate) fn first(request: WebRequest) -> Result<Self, WebError> {
        let WebRequest { method, url, headers, body } = request;
        let url = target::parse(&url)?;
        let body = body.filter(|body| !body.is_empty());
        if method.is_fetch() && body.is_some() {
            return Err(hop_error(format!("a {} request has no body", method.as_str()), "omit body, or use POST"));
        }
        Ok(Self { method, url, headers: read(headers)?, body })
    }
}

fn read(pairs: Vec<(String, String)>) -> Result<HeaderMap, WebError> {
    if pairs.len() > MAX_HEADERS {
        return Err(hop_error(format!("at most {MAX_HEADERS} headers can be sent"), "send only the necessary headers"));
    }
    let mut headers = HeaderMap::new();
    for (name, text) in pairs {
        let shown = failure::quoted(&name);
        let parsed = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| hop_error(format!("invalid header name: {shown}"), "use a name like `accept-language`"))?;
        if RESERVED.split_ascii_whitespace().any(|name| name == parsed.as_str()) {
            return Err(hop_error(format!("the header {shown} is set by agentd itself"), "omit it"));
        }
        let value = HeaderValue::from_str(text.trim())
            .map_err(|_| hop_error(format!("the header {shown} has invalid characters"), "use one plain line"))?;
        headers.append(parsed, value);
    }
    Ok(headers)
}

fn hop_error(message: impl Into<String>, hint: &str) -> WebError {
    WebError::new(ErrorKind::InvalidInput, message).with_hint(hint)
}

/// Returns the next request if the response is a redirect, or an error if the redirect must not be followed.
pub(crate) fn next_hop(hop: &Hop, status: u16, location: Option<&[u8]>) -> Result<Option<Hop>, WebError> {
    let (301..=303 | 307 | 308, Some(location)) = (status, location) else { return Ok(None) };
    let location = String::from_utf8_lossy(location);
    let not_followed = |reason: &str| {
        let (from, to) = (hop.url.host_str().unwrap_or_default(), failure::quoted(&location));
        WebError::new(ErrorKind::Rejected, format!("{from} redirects to {to}: {reason}"))
    };
    let hint = |url: &Url| format!("to follow the redirect, request {url} itself");
    let mut url = hop.url.join(location.trim()).map_err(|error| not_followed(&error.to_string()))?;
    // A fragment is only meant for the client and is not sent.
    url.set_fragment(None);
    target::check_form(&url).map_err(not_followed)?;
    if hop.url.scheme() == "https" && url.scheme() == "http" {
        let message = "it downgrades from https to http";
        return Err(not_followed(message).with_hint(hint(&url)));
    }
    let method = match (status, hop.method) {
        (303, WebMethod::Get | WebMethod::Head) => hop.method,
        (303, _) | (301 | 302, WebMethod::Post) => WebMethod::Get,
        (_, method) => method,
    };
    let is_cross_origin = url.origin() != hop.url.origin();
    if is_cross_origin && !method.is_fetch() {
        let message = format!("a {} request is not sent to another server", method.as_str());
        return Err(not_followed(&message).with_hint(hint(&url)));
    }
    let passed_headers = hop.headers.iter().filter(|(name, _)| !is_cross_origin || is_harmless_header(name.as_str()));
    let mut headers: HeaderMap = passed_headers.map(|(name, value)| (name.clone(), value.clone())).collect();
    let body = if method == hop.method { hop.body.clone() } else { None };
    if body.is_none() {
        for about_the_body in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION] {
            headers.remove(about_the_body);
        }
    }
    Ok(Some(Hop { method, url, headers, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_requests_are_rejected_with_a_reason() {
        let check = |request: WebRequest, expected: &str| {
            let error = Hop::first(request).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let get = || WebRequest::get("http://example.org/");
        let with = |name: &str, value: &str| WebRequest { headers: vec![(name.into(), value.into())], ..get() };
        check(WebRequest { body: Some("x".into()), ..get() }, "a GET request has no body");
        check(with("a b", "c"), "invalid header name");
        check(with("Host", "internal"), "set by agentd itself");
        check(with("x", "a\r\nHost: internal"), "invalid characters");
        check(WebRequest { headers: vec![("a".into(), "b".into()); 33], ..get() }, "at most 32 headers");
        assert!(Hop::first(WebRequest { body: Some(String::new()), ..get() }).is_ok());
    }

    fn hop(method: WebMethod, url: &str) -> Hop {
        let mut headers = HeaderMap::new();
        for name in ["accept", "authorization", "cookie", "content-type"] {
            headers.insert(name, "value".parse().unwrap());
        }
        let body = (!method.is_fetch()).then(|| "body".to_owned());
        Hop { method, url: url.parse().unwrap(), headers, body }
    }

    /// Returns the next request as `METHOD url [headers] body`, or the error.
    fn next_request(method: WebMethod, from: &str, status: u16, location: &str) -> String {
        match next_hop(&hop(method, from), status, Some(location.as_bytes())) {
            Ok(None) => "answer".to_owned(),
            Ok(Some(next)) => {
                let names: Vec<&str> = next.headers.keys().map(|name| name.as_str()).collect();
                format!("{} {} [{}] {}", next.method.as_str(), next.url, names.join(" "), next.body.unwrap_or_default())
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn redirects_follow_the_standard_and_drop_credentials() {
        use WebMethod::{Delete, Get, Head, Post};
        let all = "accept authorization cookie";
        let check = |method, from, status, location, expected: &str| {
            let next = next_request(method, from, status, location);
            assert_eq!(next.trim(), expected.trim(), "{status} {location}");
        };
        check(Get, "http://a/x/y", 302, "z?q#f", &format!("GET http://a/x/z?q [{all}]"));
        check(Get, "http://a/", 301, "//b/c", "GET http://b/c [accept]");
        check(Get, "http://a/", 308, "http://a:8080/", "GET http://a:8080/ [accept]");
        check(Get, "http://a/", 307, "https://a/", "GET https://a/ [accept]");
        check(Head, "http://a/", 303, "/b", &format!("HEAD http://a/b [{all}]"));
        check(Post, "http://a/", 303, "/b", &format!("GET http://a/b [{all}]"));
        check(Post, "http://a/", 302, "http://b/", "GET http://b/ [accept]");
        check(Post, "http://a/", 307, "/b", &format!("POST http://a/b [{all} content-type] body"));
        check(Delete, "http://a/", 301, "/b", &format!("DELETE http://a/b [{all} content-type] body"));
        for status in [200, 204, 300, 304, 305, 400, 500] {
            check(Get, "http://a/", status, "http://b/", "answer");
        }
    }

    #[test]
    fn unsafe_redirects_are_rejected() {
        use WebMethod::{Delete, Get, Post};
        for (method, from, status, location, message) in [
            (Get, "https://a/", 302, "http://a/", "downgrades from https"),
            (Get, "http://a/", 302, "file:///etc/passwd", "neither http nor https"),
            (Get, "http://a/", 302, "javascript:alert(1)", "neither http nor https"),
            (Get, "http://a/", 302, "http://user:secret@b/", "before the @"),
            (Get, "http://a/", 302, "http://[nonsense", "invalid"),
            (Post, "http://a/", 307, "http://b/", "is not sent to another"),
            (Post, "http://a/", 308, "http://a:8080/", "is not sent to another"),
            (Delete, "http://a/", 302, "http://b/", "is not sent to another"),
        ] {
            let error = next_request(method, from, status, location);
            assert!(error.contains(message) && !error.contains("secret"), "{location}: {error}");
        }
        assert!(
            next_request(Get, "http://a/", 302, &format!("/{}", "a".repeat(8 * 1024))).contains("longer than 8 KB")
        );
        assert!(next_hop(&hop(Get, "http://a/"), 302, None).unwrap().is_none());
    }
}
