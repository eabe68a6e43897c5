//! Exchanges with models, kept for people who want to see them.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{
    error::WorkspaceError,
    exchange::{ExchangeSource, ReceivedAnswer, RequestTap, SentRequest},
    ids::SessionId,
};

/// Keeps exchanges with models.
pub trait Exchanges: Send + Sync {
    /// A tap for one request. It is closed where nothing is to be kept: `wanted` is what the session's settings say.
    fn tap(&self, source: &dyn Fn() -> ExchangeSource, wanted: Option<bool>) -> RequestTap;

    /// Removes all that is kept of a session.
    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;
}

/// Keeps the exchanges of one request. Nothing here waits, and nothing fails: what cannot be kept is missing later.
pub trait ExchangeRecorder: Send + Sync {
    /// Takes an attempt that is about to be sent, and returns the key by which its end is told.
    fn sent(&self, request: &SentRequest<'_>) -> u64;

    /// Takes the end of an attempt.
    fn ended(&self, key: u64, answer: ReceivedAnswer);
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
