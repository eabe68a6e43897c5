//! A person whom a tool may ask while it runs.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use crate::interrupt::{Answer, Ask};

/// Whom a tool may ask while it runs. Without one, nobody is there.
#[derive(Clone, Default)]
pub struct Person(Option<Arc<AskFn>>);

type AskFn = dyn Fn(Ask) -> BoxFuture<'static, Option<Answer>> + Send + Sync;

impl Person {
    /// Asks by this function. It says nothing where nobody will answer: the turn was cancelled, or runs unattended.
    #[must_use]
    pub fn new(ask: impl Fn(Ask) -> BoxFuture<'static, Option<Answer>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// Asks, and waits for the answer as long as it takes.
    pub async fn ask(&self, ask: Ask) -> Option<Answer> {
        match &self.0 {
            Some(asking) => asking(ask).await,
            None => None,
        }
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Person").field(&self.0.is_some()).finish()
    }
}
