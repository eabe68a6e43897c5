//! Client for requests to servers: headers, routes, redirects and certificates.

use std::collections::{BTreeMap, HashMap};

use agentd_core::route::Routes;
use reqwest::{
    Certificate, Client, Proxy,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use secrecy::{ExposeSecret as _, SecretString};

/// Maximum number of redirects, which are followed to the same server only.
const REDIRECTS: usize = 3;

/// A client that sends these headers with each request, and follows redirects only within a server: keys stay with whom
/// they are meant for.
pub(crate) fn client(headers: &BTreeMap<String, SecretString>, routes: &Routes) -> reqwest::Result<Client> {
    // An error only says that a provider is there already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sent: HashMap<HeaderName, HeaderValue> = headers
        .iter()
        .filter_map(|(name, value)| {
            let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        })
        .collect();
    let sent: HeaderMap = sent.into_iter().collect();
    let builder = || {
        Client::builder()
            .user_agent(concat!("agentd/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(std::time::Duration::from_secs(10))
            .proxy(proxy(routes.clone()))
            .default_headers(sent.clone())
            .referer(false)
            .redirect(redirect::Policy::custom(|attempt| {
                let stays = attempt.previous().first().is_none_or(|first| first.origin() == attempt.url().origin());
                if !stays || attempt.previous().len() > REDIRECTS { attempt.stop() } else { attempt.follow() }
            }))
    };
    builder().build().or_else(|error| {
        tracing::warn!(%error, "the system's certificates cannot be read, using the built-in ones");
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        builder().tls_certs_only(roots.iter().filter_map(|root| Certificate::from_der(root).ok())).build()
    })
}

fn proxy(routes: Routes) -> Proxy {
    Proxy::custom(move |url| routes.of(url.as_str()).proxy())
}
