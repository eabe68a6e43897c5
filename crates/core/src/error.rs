//! The kinds of failure that cross a port. Whoever retries or maps to an exit code reads the kind, never the text.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider refused the key.
    Auth,
    /// The provider wants us to wait.
    RateLimited,
    /// The balance, a quota or a spending limit at the provider is used up, and nobody knows until when.
    QuotaExceeded,
    /// Nothing answers at the address.
    Unreachable,
    /// A deadline passed.
    Timeout,
    /// A stream ended before its proper end.
    CutStream,
    /// The answer is not what the protocol says.
    Protocol,
    /// The request does not fit the model's window.
    ContextOverflow,
    /// The provider refused the request.
    Rejected,
    /// The provider failed.
    Provider,
    /// The disk is full, the folder is read-only, or the journal is damaged.
    Storage,
    /// The named thing does not exist.
    NotFound,
    /// The request makes no sense as it is.
    InvalidInput,
    /// The request makes no sense now: an answer was given before, or what it is about has changed.
    Conflict,
    /// The request has to wait: a turn of the session is open. The same makes sense later.
    Busy,
    /// The daemon is stopping.
    ShuttingDown,
    /// The configuration does not allow it.
    Configuration,
    /// A defect of ours.
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
            /// A failure of that kind; the message says what was attempted and what came of it.
            pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
                Self { kind, message: message.into(), hint: None, source: None, $($($field: Default::default(),)+)? }
            }

            /// Adds what to do about it.
            #[must_use]
            pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
                self.hint = Some(hint.into());
                self
            }

            /// Adds the cause.
            #[must_use]
            pub fn with_source(mut self, source: impl Into<Source>) -> Self {
                self.source = Some(source.into());
                self
            }

            /// Kind of the failure.
            pub fn kind(&self) -> ErrorKind {
                self.kind
            }

            /// Hint on what to do, where something can be done.
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

impl ModelError {
    /// Adds the window that the model has, as its server said when a request did not fit, in tokens.
    #[must_use]
    pub fn with_window(mut self, window: Option<u64>) -> Self {
        // Small, because errors travel by value: no window has more tokens than that.
        self.window = window.and_then(|window| NonZeroU32::new(u32::try_from(window).ok()?));
        self
    }

    /// The window that the model has, where its server said so, in tokens.
    pub fn window(&self) -> Option<u64> {
        self.window.map(|window| u64::from(window.get()))
    }
}

port_error!(
    /// The journal could not be read or written.
    StoreError
);
port_error!(
    /// A session's workspace could not be made, read or removed.
    WorkspaceError
);
port_error!(
    /// The audit log could not be written or read.
    AuditError
);
port_error!(
    /// A document could not be read or searched.
    KnowledgeError { needs_password: bool }
);

impl KnowledgeError {
    /// The same, where a password is all that it needs, or another one than was given.
    #[must_use]
    pub fn needing_password(self, needs_password: bool) -> Self {
        Self { needs_password, ..self }
    }

    /// Returns whether a password is all that it needs, or another one than was given.
    pub fn needs_password(&self) -> bool {
        self.needs_password
    }
}

port_error!(
    /// The code of a folder could not be looked at.
    CodeError
);
port_error!(
    /// A server of the web could not be asked, or may not be.
    WebError
);
