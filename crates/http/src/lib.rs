//! Clients for HTTP, as all crates make them: with the system's certificates, or else built-in ones.

use agentd_core::route::Routes;
use reqwest::{Certificate, Client, ClientBuilder, Proxy};

/// Name of agentd, as servers see it.
pub const AGENT: &str = concat!("agentd/", env!("CARGO_PKG_VERSION"));

/// Installs the process's TLS cryptography. Building a client without it would fail; calling it again, or after somebody else did,
/// changes nothing.
pub fn init_crypto() {
    // An error only says that a provider is there already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client that connects by these routes, or by none, with what `set` adds. Without `tls` no certificates are read: that costs
/// milliseconds, and fails where there are none.
///
/// # Errors
/// Reports settings that cannot be used.
pub fn client(
    tls: bool,
    routes: Option<&Routes>,
    set: impl Fn(ClientBuilder) -> ClientBuilder,
) -> reqwest::Result<Client> {
    init_crypto();
    let builder = || {
        let builder = Client::builder().user_agent(AGENT);
        set(match routes.cloned() {
            Some(routes) => builder.proxy(Proxy::custom(move |url| routes.of(url.as_str()).proxy())),
            None => builder.no_proxy(),
        })
    };
    if !tls {
        return builder().tls_certs_only([]).build();
    }
    builder().build().or_else(|error| {
        tracing::warn!(%error, "the system's certificates cannot be read, using the built-in ones");
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        builder().tls_certs_only(roots.iter().filter_map(|root| Certificate::from_der(root).ok())).build()
    })
}
