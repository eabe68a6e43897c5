//! Errors of the embedded model, with advice for the user.

use std::{io, path::PathBuf};

use agentd_core::error::{ErrorKind, ModelError};

/// Reason why a file could not be loaded as a model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("no model file at {}", path.display())]
    Missing { path: PathBuf },
    #[error("could not open the model file {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the model file {} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("the model file {} cannot be used: {reason}", path.display())]
    Unsupported { path: PathBuf, reason: String },
}

impl From<LoadError> for ModelError {
    fn from(error: LoadError) -> Self {
        let is_missing = matches!(error, LoadError::Missing { .. });
        let kind = if is_missing { ErrorKind::NotFound } else { ErrorKind::Configuration };
        let hint = match &error {
            LoadError::Missing { .. } => "run `make model`, or name a model in models.yaml",
            LoadError::Unreadable { .. } => {
                "make the file readable for the daemon, or name another model in models.yaml"
            }
            LoadError::Damaged { .. } => "remove the file and run `make model`, or name a model in models.yaml",
            LoadError::Unsupported { .. } => {
                "the built-in engine runs GGUF files of the Llama family; name such a file, or a model server, in \
                    models.yaml"
            }
        };
        Self::new(kind, error.to_string()).with_hint(hint).with_source(error)
    }
}

/// Reason for ending a model run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The receiver of the answer was dropped.
    #[error("the request was cancelled")]
    Cancelled,
    #[error("the request has {tokens} tokens, but the built-in model accepts at most {limit}")]
    TooLong { tokens: usize, limit: usize },
    #[error("the computation of the built-in model failed")]
    Arithmetic(#[from] candle_core::Error),
    #[error("the built-in model computed numbers that are not finite; its file may be damaged")]
    NotFinite,
    #[error("could not encode or decode tokens: {0}")]
    Tokens(String),
}

impl From<RunError> for ModelError {
    fn from(error: RunError) -> Self {
        let (kind, hint) = match &error {
            RunError::TooLong { .. } => (ErrorKind::ContextOverflow, "shorten the prompt, or start a new session"),
            RunError::NotFinite => (ErrorKind::Configuration, "remove the file and run `make model`"),
            RunError::Cancelled | RunError::Arithmetic(_) | RunError::Tokens(_) => {
                (ErrorKind::Internal, "retry; if it persists, name another model in models.yaml")
            }
        };
        Self::new(kind, error.to_string()).with_hint(hint).with_source(error)
    }
}
