//! What a call of a tool is given besides its arguments: rules about files, a client that holds files, a person and a model
//! that it may ask, and a listener for its progress.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use futures_util::future::BoxFuture;

use crate::{
    client_file::{ClientFileAnswer, FileAction, NoAnswer},
    error::ModelError,
    interrupt::{Answer, Ask},
    model::Message,
};

/// The client that holds the project's files for a turn. A tool asks it only about a path that it could open itself, and
/// trusts nothing of the answer.
pub trait ClientFiles: Debug + Send + Sync {
    /// The capabilities of the client that would be asked now; none where there is none, and the disk alone counts.
    fn access(&self) -> Option<ClientFileAccess>;

    /// Asks about a file below the project's folder. It ends within seconds, whatever the client does.
    fn ask<'a>(&'a self, path: &'a str, action: FileAction) -> BoxFuture<'a, Result<ClientFileAnswer, NoAnswer>>;
}

/// Capabilities of a client that holds files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFileAccess {
    /// It gives texts.
    Read,
    /// It gives and takes texts.
    ReadWrite,
}

/// Whom a tool may ask while it runs. Without one, nobody is there.
#[derive(Clone, Default)]
pub struct Person(Option<Arc<AskFn>>);

type AskFn = dyn Fn(Ask) -> BoxFuture<'static, Option<Answer>> + Send + Sync;

impl Person {
    /// Asks by this function. It says nothing where nobody will answer: the turn was cancelled, or runs unattended.
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

/// Where a tool tells how far it is. Without one that listens, nothing is told.
#[derive(Clone, Default)]
pub struct CallProgress(Option<Arc<dyn Fn(String) + Send + Sync>>);

impl CallProgress {
    /// Tells it to this function, which must not wait.
    pub fn new(tell: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Returns whether anybody listens.
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Tells how far the call is, in one line. It is shown while the call runs, and forgotten when its result is there.
    pub fn tell(&self, line: &str) {
        if let Some(tell) = &self.0 {
            tell(format!("{}\n", line.replace(['\n', '\r'], " ")));
        }
    }
}

impl fmt::Debug for CallProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallProgress").field(&self.0.is_some()).finish()
    }
}

/// Rules about reading a file by its path, where nobody was asked whether a call may show it: whether they would let a
/// model read it without asking anybody. Where nobody has set any, all may be read.
#[derive(Clone, Default)]
pub struct ReadRules {
    read: Option<Arc<MayRead>>,
    change: Option<Arc<MayRead>>,
}

/// Test of whether the file of that path may be read, or changed.
type MayRead = dyn Fn(&str) -> bool + Send + Sync;

impl ReadRules {
    /// Rules that this function knows.
    pub fn new(allow: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { read: Some(Arc::new(allow)), change: None }
    }

    /// The same, where this function knows whether the call may change files that it does not name.
    #[must_use]
    pub fn with_changes(self, allow: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { change: Some(Arc::new(allow)), ..self }
    }

    /// Returns whether the call may change the file, which it does not name, as it may change those that it names.
    pub fn allow_change(&self, path: &str) -> bool {
        self.allow(path) && self.change.as_ref().is_none_or(|allow| allow(path))
    }

    /// Returns whether the file may be read without asking.
    pub fn allow(&self, path: &str) -> bool {
        self.read.as_ref().is_none_or(|allow| allow(path))
    }
}

impl std::fmt::Debug for ReadRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRules").field("read", &self.read.is_some()).finish_non_exhaustive()
    }
}

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
    pub fn new(
        model: String,
        ask: impl Fn(SampleRequest) -> BoxFuture<'static, Result<SampleAnswer, ModelError>> + Send + Sync + 'static,
    ) -> Self {
        Self { model, asking: Some(Arc::new(ask)) }
    }

    /// The id of the model that would be asked; none where there is none.
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
