//! Names to addresses. They are resolved once for each connection, all of them are looked at, and the connection goes to
//! one of those: there is no second look-up between the check and the connection that could say something else.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::{
    allow::{self, AllowedHost},
    own::OwnAddresses,
    target::Trust,
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
        match self.own.refused(addresses, |address| allow::covers(&self.allow, address)) {
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
