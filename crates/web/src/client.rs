//! Resolves names and makes connections. A name is resolved once per connection, all its addresses are checked, and the
//! connection uses one of these addresses, so that a second lookup cannot return other addresses after the check. There
//! are two clients with different rules for addresses, so that a connection to a host that the user named is never
//! reused for other requests.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use agentd_core::error::{ErrorKind, WebError};
use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::{
    Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};

use crate::{
    config::{self, AllowedHost, WebConfig},
    target::{OwnAddresses, Trust},
};

/// Resolver of host names.
pub trait Lookup: fmt::Debug + Send + Sync {
    /// Returns the addresses of a host.
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Resolver of the operating system.
#[derive(Debug)]
pub(crate) struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) }.boxed()
    }
}

/// Error for a name that resolves to an address that must not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is not public ({kind})")]
pub(crate) struct RefusedAddress {
    pub(crate) address: IpAddr,
    pub(crate) kind: &'static str,
}

/// Resolver for a client, which only returns addresses that the client may connect to.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) allow: Arc<[AllowedHost]>,
    pub(crate) own: OwnAddresses,
    pub(crate) trust: Trust,
}

impl Guard {
    /// Checks all addresses. A single address that must not be reached causes an error, because a name that resolves to
    /// both kinds of addresses is an attempt to bypass the check.
    fn check(&self, addresses: &[IpAddr]) -> Result<(), RefusedAddress> {
        if self.trust == Trust::Named {
            return Ok(());
        }
        match self.own.refused(addresses, |address| config::covers(&self.allow, address)) {
            Some((address, kind)) => Err(RefusedAddress { address, kind }),
            None => Ok(()),
        }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.lookup.addresses(name.as_str().to_owned()).await?;
            guard.check(&addresses)?;
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into());
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// HTTP clients, created on first use, because reading the system's certificates takes time and many processes never
/// access the web.
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
        let cell = match trust {
            Trust::Public => &self.public,
            Trust::Named => &self.named,
        };
        if let Some(client) = cell.get() {
            return Ok(client.clone());
        }
        let guard = Arc::new(Guard { trust, ..self.guard.clone() });
        // A proxy from the environment would resolve names and connect without a check of the address.
        let client = agentd_http::client(true, None, |builder| {
            builder
                .user_agent(self.config.agent())
                .connect_timeout(self.config.connect_timeout)
                .dns_resolver(Arc::clone(&guard))
                .referer(false)
                // `fetch` follows redirects and checks each of them.
                .redirect(redirect::Policy::none())
        });
        let client = client
            .map_err(|error| WebError::new(ErrorKind::Internal, "could not prepare web requests").with_source(error))?;
        Ok(cell.get_or_init(|| client).clone())
    }
}
