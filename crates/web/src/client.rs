//! The connections: two clients, which differ in whose addresses they connect to, so that a connection to what a person
//! named is never used for anything else.

use std::sync::{Arc, OnceLock};

use agentd_core::error::{ErrorKind, WebError};
use reqwest::{Certificate, Client, redirect};

use crate::{
    config::WebConfig,
    own::OwnAddresses,
    resolve::{Guard, Lookup},
    target::Trust,
};

/// Made when they are needed: reading the system's certificates takes a while, and many never ask the web.
#[derive(Debug)]
pub(crate) struct Clients {
    config: WebConfig,
    guard: Guard,
    public: OnceLock<Client>,
    named: OnceLock<Client>,
}

impl Clients {
    pub(crate) fn new(config: WebConfig, lookup: Arc<dyn Lookup>, own: OwnAddresses) -> Self {
        let guard = Guard { lookup, allow: config.allow.clone().into(), own, trust: Trust::Public };
        Self { config, guard, public: OnceLock::new(), named: OnceLock::new() }
    }

    pub(crate) fn of(&self, trust: Trust) -> Result<Client, WebError> {
        let place = match trust {
            Trust::Public => &self.public,
            Trust::Named => &self.named,
        };
        if let Some(client) = place.get() {
            return Ok(client.clone());
        }
        let guard = Arc::new(Guard { trust, ..self.guard.clone() });
        let made = build(&self.config, guard).map_err(|error| {
            WebError::new(ErrorKind::Internal, "could not make ready to ask the web").with_source(error)
        })?;
        Ok(place.get_or_init(|| made).clone())
    }
}

fn build(config: &WebConfig, guard: Arc<Guard>) -> reqwest::Result<Client> {
    // An error only says that a provider is there already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        Client::builder()
            .user_agent(config.agent())
            .connect_timeout(config.connect_timeout)
            .dns_resolver(Arc::clone(&guard))
            // A proxy of the environment would connect to whatever it is told, and nobody could look at the address.
            .no_proxy()
            .referer(false)
            // They are followed by hand, so that each is looked at.
            .redirect(redirect::Policy::none())
    };
    builder().build().or_else(|error| {
        tracing::warn!(%error, "the system's certificates cannot be read, using the built-in ones");
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        builder().tls_certs_only(roots.iter().filter_map(|root| Certificate::from_der(root).ok())).build()
    })
}
