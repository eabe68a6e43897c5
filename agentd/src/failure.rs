//! Failures of a start: one sentence for the person, a remedy, and the exit code.

use std::{error::Error, fmt::Write, process::ExitCode};

use crate::config::ConfigError;

/// A start, or a stop, that failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// Wrong usage or configuration: exit code 2.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 2, source: None }
    }

    /// Everything else: exit code 1.
    #[must_use]
    pub fn broken(message: impl Into<String>) -> Self {
        Self { code: 1, ..Self::usage(message) }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Hint on what to do.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The message with its causes, on one line.
    #[must_use]
    pub fn message_with_causes(&self) -> String {
        with_causes(self)
    }

    /// Exit code of the process.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// The message with its causes on one line, and the hint on the next.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = format!("agentd: error: {}", with_causes(self));
        if let Some(hint) = &self.hint {
            // Writing to a string does not fail.
            let _ = write!(text, "\nhint: {hint}");
        }
        text
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let failure = Self::usage(error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// The message of an error and of all that caused it, each once: many errors repeat their cause in their own message.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}
