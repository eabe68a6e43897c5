//! HTTP clients for all crates, with the system's certificates or built-in ones as a fallback.
//!
//! - `certificates`: own authorities and client certificates, and failures because of certificates.

mod certificates;

pub use certificates::{CertificateProblem, Certificates, certificate_problem};

use agentd_core::route::Routes;
use reqwest::{Certificate, Client, ClientBuilder, Proxy};

/// User agent of all requests.
pub const AGENT: &str = concat!("agentd/", env!("CARGO_PKG_VERSION"));

/// Installs the process's TLS cryptography, which building a client requires. Does nothing if it is already installed.
pub fn init_crypto() {
    // An error only means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Creates a client that uses these routes, or no proxy if there are none. `set` adds further options. Without `tls`,
/// no certificates are loaded: loading takes milliseconds, and fails if there are no certificates.
///
/// # Errors
/// Fails if the options are invalid.
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
        tracing::warn!(%error, "could not read the system's certificates; using the built-in ones");
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        builder().tls_certs_only(roots.iter().filter_map(|root| Certificate::from_der(root).ok())).build()
    })
}
