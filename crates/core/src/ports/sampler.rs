//! A model that a tool may ask while it runs, for somebody whom the tool works with.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use crate::{error::ModelError, model::Message};

/// A model that a tool may ask while it runs: the turn's, at the turn's cost. Without one, none is there to be asked.
///
/// Whoever stops waiting for the answer takes the request back.
#[derive(Clone, Default)]
pub struct Sampler {
    model: String,
    asking: Option<Arc<SampleFn>>,
}

type SampleFn = dyn Fn(SampleRequest) -> BoxFuture<'static, Result<SampleAnswer, ModelError>> + Send + Sync;

/// Question to a model. It can call nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest {
    /// The conversation. The first message is the system message, the others are of [`Message::User`] and
    /// [`Message::Assistant`], and none is blank.
    pub messages: Vec<Message>,
    /// Maximum number of tokens of the answer, from 1.
    pub max_tokens: u64,
}

/// Answer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleAnswer {
    /// Its words.
    pub text: String,
    /// The model's id.
    pub model: String,
    /// Set if the answer was cut, for it was too long.
    pub cut: bool,
}

impl Sampler {
    /// Asks the model of that id by this function, which refuses where the turn's tokens or its time are used up.
    #[must_use]
    pub fn new(
        model: String,
        ask: impl Fn(SampleRequest) -> BoxFuture<'static, Result<SampleAnswer, ModelError>> + Send + Sync + 'static,
    ) -> Self {
        Self { model, asking: Some(Arc::new(ask)) }
    }

    /// The id of the model that would be asked; none where there is none.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.asking.as_ref().map(|_| self.model.as_str())
    }

    /// Asks, and waits for the whole answer. None where there is no model.
    pub async fn ask(&self, asked: SampleRequest) -> Option<Result<SampleAnswer, ModelError>> {
        match &self.asking {
            Some(asking) => Some(asking(asked).await),
            None => None,
        }
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sampler").field(&self.model()).finish()
    }
}
