//! Kinds of failure that cross a port. Retries and exit codes depend on the kind, never on the message.

use std::num::NonZeroU32;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider rejected the key.
    Auth,
    /// The provider's rate limit was exceeded. Retry later.
    RateLimited,
    /// The balance, a quota or a spending limit at the provider is exhausted, and the time of its reset is unknown.
    QuotaExceeded,
    /// No server answers at the URL.
    Unreachable,
    /// The deadline has passed.
    Timeout,
    /// The stream was cut off.
    CutStream,
    /// The answer violates the protocol.
    Protocol,
    /// The request exceeds the model's window.
    ContextOverflow,
    /// The provider rejected the request.
    Rejected,
    /// The provider failed internally.
    Provider,
    /// The disk is full, the folder is read-only, or the journal is damaged.
    Storage,
    /// The requested object does not exist.
    NotFound,
    /// The request is invalid, regardless of the current state.
    InvalidInput,
    /// The request is invalid in the current state, because the question was already answered or its subject has
    /// changed.
    Conflict,
    /// A turn of the session is open. The same request may succeed later.
    Busy,
    /// The daemon is shutting down.
    ShuttingDown,
    /// The configuration does not allow the request.
    Configuration,
    /// A bug in the daemon.
    Internal,
}

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

macro_rules! port_error {
    ($(#[$doc:meta])* $name:ident $({ $($field:ident: $type:ty),+ })?) => {
        $(#[$doc])*
        #[derive(Debug, thiserror::Error)]
        #[error("{message}")]
        pub struct $name {
            kind: ErrorKind,
            message: String,
            hint: Option<String>,
            #[source]
            source: Option<Source>,
            $($($field: $type,)+)?
        }

        impl $name {
            /// Creates an error. The message should state the attempted operation and the failure.
            pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
                Self { kind, message: message.into(), hint: None, source: None, $($($field: Default::default(),)+)? }
            }

            /// Adds a hint on how to fix the error.
            #[must_use]
            pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
                self.hint = Some(hint.into());
                self
            }

            /// Adds the underlying cause.
            #[must_use]
            pub fn with_source(mut self, source: impl Into<Source>) -> Self {
                self.source = Some(source.into());
                self
            }

            /// Returns the kind of the failure.
            pub fn kind(&self) -> ErrorKind {
                self.kind
            }

            /// Returns the hint on how to fix the error, if there is one.
            pub fn hint(&self) -> Option<&str> {
                self.hint.as_deref()
            }
        }
    };
}

port_error!(
    /// A model call failed.
    ModelError { window: Option<NonZeroU32> }
);

/// Future of a request to a model's server.
pub type ModelFuture<'a, T> = BoxFuture<'a, Result<T, ModelError>>;

impl ModelError {
    /// Adds the model's window in tokens, as reported by the server when a request did not fit.
    #[must_use]
    pub fn with_window(mut self, window: Option<u64>) -> Self {
        // `u32` keeps the error small, because errors are passed by value. Windows never have more tokens.
        self.window = window.and_then(|window| NonZeroU32::new(u32::try_from(window).ok()?));
        self
    }

    /// Returns the model's window in tokens, if the server reported it.
    pub fn window(&self) -> Option<u64> {
        self.window.map(|window| u64::from(window.get()))
    }
}

port_error!(
    /// The journal could not be read or written.
    StoreError
);

/// Future of an operation on the journal.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

port_error!(
    /// A session's workspace could not be created, read or removed.
    WorkspaceError
);

/// Future of an operation on the files of sessions.
pub type WorkspaceFuture<'a, T> = BoxFuture<'a, Result<T, WorkspaceError>>;

port_error!(
    /// The audit log could not be written or read.
    AuditError
);
port_error!(
    /// A document could not be read or searched.
    KnowledgeError { needs_password: bool }
);

impl KnowledgeError {
    /// Marks the error as one that only a missing or wrong password caused.
    #[must_use]
    pub fn with_password_needed(self, needs_password: bool) -> Self {
        Self { needs_password, ..self }
    }

    /// Returns true if only a missing or wrong password caused the error.
    pub fn needs_password(&self) -> bool {
        self.needs_password
    }
}

port_error!(
    /// The code in a folder could not be read.
    CodeError
);
port_error!(
    /// A web server could not be reached, or access to it is not allowed.
    WebError
);
