//! HTTP client for servers: headers, proxies, redirects and certificates.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use agentd_core::route::Routes;
use reqwest::{
    Client,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use secrecy::{ExposeSecret as _, SecretString};

/// Maximum number of redirects. Only redirects within the same origin are followed.
const REDIRECTS: usize = 3;

/// Creates a client that sends these headers with each request. The client follows redirects only within an origin, so
/// that keys are not sent elsewhere.
pub(crate) fn client(headers: &BTreeMap<String, SecretString>, routes: &Routes) -> reqwest::Result<Client> {
    let sent = headers.iter().filter_map(|(name, value)| {
        let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::try_from(name).ok()?, value))
    });
    // If names differ only in case, the last one wins.
    let sent: HashMap<HeaderName, HeaderValue> = sent.collect();
    let sent: HeaderMap = sent.into_iter().collect();
    agentd_http::client(true, Some(routes), |builder| {
        builder.connect_timeout(Duration::from_secs(10)).default_headers(sent.clone()).referer(false).redirect(
            redirect::Policy::custom(|attempt| {
                let is_same = attempt.previous().first().is_none_or(|first| first.origin() == attempt.url().origin());
                if !is_same || attempt.previous().len() > REDIRECTS { attempt.stop() } else { attempt.follow() }
            }),
        )
    })
}
