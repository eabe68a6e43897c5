//! Exchanges with models, kept for people who want to see them.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{
    error::WorkspaceError,
    exchange::{ExchangeSource, RequestTap},
    ids::SessionId,
};

/// Keeps exchanges with models.
pub trait Exchanges: Send + Sync {
    /// A tap for one request. It is closed where nothing is to be kept: `wanted` is what the session's settings say.
    fn tap(&self, source: &dyn Fn() -> ExchangeSource, wanted: Option<bool>) -> RequestTap;

    /// Removes all that is kept of a session.
    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;
}

/// Keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoExchanges;

impl NoExchanges {
    /// The port.
    #[must_use]
    pub fn port() -> Arc<dyn Exchanges> {
        Arc::new(Self)
    }
}

impl Exchanges for NoExchanges {
    fn tap(&self, _: &dyn Fn() -> ExchangeSource, _: Option<bool>) -> RequestTap {
        RequestTap::default()
    }

    fn remove(&self, _: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
