//! Errors of web requests, with hints on how to resolve them.

use std::{error::Error as _, net::IpAddr};

use agentd_core::error::{ErrorKind, WebError};
use reqwest::Url;

use crate::client::RefusedAddress;

/// Returns the error for an address that is not public and that the user has not allowed.
pub(crate) fn private(host: &str, address: IpAddr, kind: &str) -> WebError {
    let problem = if host.trim_matches(['[', ']']) == address.to_string() {
        format!("{address} is not public ({kind})")
    } else {
        format!("{} leads to {address}, which is not public ({kind})", quoted(host))
    };
    WebError::new(ErrorKind::Configuration, format!("no request was sent: {problem}"))
        .with_hint("only the user can allow this address, with fetch.allow in web.yaml; do not try to bypass this")
}

/// Quotes text for a message. The text is shortened, and anything that may be a password is removed.
pub(crate) fn quoted(text: &str) -> String {
    let text = match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => text.to_owned(),
    };
    let short: String = text.chars().take(120).collect();
    format!("{short:?}{}", if short.len() < text.len() { "…" } else { "" })
}

/// Returns the error for a request that could not be sent or was not answered.
pub(crate) fn unsent(url: &Url, error: reqwest::Error) -> WebError {
    let host = url.host_str().unwrap_or_default().to_owned();
    let causes = || std::iter::successors(error.source(), |&cause| cause.source());
    if let Some(refused) = causes().find_map(|cause| cause.downcast_ref::<RefusedAddress>()) {
        return private(&host, refused.address, refused.kind);
    }
    let reason = causes().last().map_or_else(|| "no answer".to_owned(), ToString::to_string);
    if error.is_timeout() {
        return WebError::new(ErrorKind::Timeout, format!("{host} does not answer: {reason}"));
    }
    let kind = if error.is_connect() { ErrorKind::Unreachable } else { ErrorKind::Protocol };
    let action = if error.is_connect() { "could not reach" } else { "could not request" };
    WebError::new(kind, format!("{action} {host}: {reason}")).with_hint("check the address")
}

/// Returns the error for a response that ended early.
pub(crate) fn cut_off(read: usize, error: &reqwest::Error) -> WebError {
    let innermost = std::iter::successors(error.source(), |&cause| cause.source()).last();
    let reason = innermost.map(|cause| format!(" ({cause})")).unwrap_or_default();
    WebError::new(ErrorKind::CutStream, format!("the answer ended after {read} bytes{reason}"))
        .with_hint("retry; if it persists, the server is at fault")
}

/// Returns the error for content that cannot be unpacked.
pub(crate) fn damaged(problem: &str) -> WebError {
    WebError::new(ErrorKind::Protocol, format!("the answer cannot be unpacked: {problem}"))
}
