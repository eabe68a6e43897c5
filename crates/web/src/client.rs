//! Names to addresses. They are resolved once for each connection, all of them are looked at, and the connection goes to
//! one of those: there is no second look-up between the check and the connection that could say something else. And the
//! connections: two clients, which differ in whose addresses they connect to, so that a connection to what a person named is never
//! used for anything else.

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

/// Whoever knows the addresses of names.
pub trait Lookup: fmt::Debug + Send + Sync {
    /// The addresses of a host.
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The machine's own way.
#[derive(Debug)]
pub(crate) struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) }.boxed()
    }
}

/// A name leads where nobody may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is not public ({what})")]
pub(crate) struct RefusedAddress {
    pub(crate) address: IpAddr,
    pub(crate) what: &'static str,
}

/// Resolves names for a client, and hands out only addresses that may be connected to.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) allow: Arc<[AllowedHost]>,
    pub(crate) own: OwnAddresses,
    pub(crate) trust: Trust,
}

impl Guard {
    /// One address that may not be reached spoils all: a name that leads to both is meant to deceive.
    fn check(&self, addresses: &[IpAddr]) -> Result<(), RefusedAddress> {
        if self.trust == Trust::Named {
            return Ok(());
        }
        match self.own.refused(addresses, |address| config::covers(&self.allow, address)) {
            Some((address, what)) => Err(RefusedAddress { address, what }),
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
        // A proxy of the environment would connect to whatever it is told, and nobody could look at the address.
        let made = agentd_http::client(true, None, |builder| {
            builder
                .user_agent(self.config.agent())
                .connect_timeout(self.config.connect_timeout)
                .dns_resolver(Arc::clone(&guard))
                .referer(false)
                // They are followed by hand, so that each is looked at.
                .redirect(redirect::Policy::none())
        });
        let made = made.map_err(|error| {
            WebError::new(ErrorKind::Internal, "could not make ready to ask the web").with_source(error)
        })?;
        Ok(place.get_or_init(|| made).clone())
    }
}
