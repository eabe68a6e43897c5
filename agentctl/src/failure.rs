//! Failures that end a command: a message, a hint and an exit code.

use std::{io, path::Path};

use agentd_core::error::ErrorKind;
use agentd_proto::client::{ClientError, ClientErrorKind};

use crate::{
    exit::Exit,
    terminal::{fitted, sanitize},
};

/// Failure that ended a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// Exit code of the process.
    pub(crate) exit: Exit,
    /// Kind of the error, for programs.
    pub(crate) kind: ErrorKind,
    /// Message: what was attempted and what happened.
    pub(crate) message: String,
    /// Hint on how to proceed.
    pub(crate) hint: Option<String>,
    /// True if the daemon reported the failure.
    pub(crate) is_answer: bool,
}

impl Failure {
    /// Creates a failure with the exit code of its kind.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { exit: Exit::of_kind(kind), kind, message: message.into(), hint: None, is_answer: false }
    }

    /// Creates a failure caused by an invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Creates a failure to reach the daemon.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, ..Self::new(ErrorKind::Unreachable, message) }
    }

    /// Returns a function that wraps an error of reading or writing a file.
    pub(crate) fn of_file(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.display().to_string();
        move |error| Self::usage(format!("could not {action} {path}: {error}"))
    }

    /// Adds a hint for the user.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names the daemon's machine, if it is another one and the daemon reported the failure.
    pub(crate) fn at_host(self, host: Option<&str>) -> Self {
        match host.filter(|_| self.is_answer) {
            Some(host) => Self { message: format!("{} (on {host})", self.message), ..self },
            None => self,
        }
    }

    /// Returns message and hint in one line.
    pub(crate) fn sentence(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.message.clone(), |hint| format!("{}; {hint}", self.message))
    }

    /// Converts any error that reached the top level.
    pub(crate) fn from_any(error: &anyhow::Error) -> Self {
        if let Some(failure) = error.downcast_ref::<Self>() {
            return failure.clone();
        }
        if let Some(error) = error.downcast_ref::<ClientError>() {
            return error.clone().into();
        }
        Self::new(ErrorKind::Internal, format!("{error:#}"))
    }

    /// Prints the failure with its hint, in colour.
    pub(crate) fn print(&self, mut to: impl io::Write) -> io::Result<()> {
        let mut line = |name: &str, color: &str, text: &str| {
            let text = fitted(&format!("{name} {}", sanitize::clean(text)));
            writeln!(to, "\x1b[1;{color}m{name}\x1b[0m{}", text.strip_prefix(name).unwrap_or(&text))
        };
        line("error:", "31", &self.message)?;
        self.hint.as_deref().map_or(Ok(()), |hint| line("hint:", "36", hint))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let failure = match error.kind {
            ClientErrorKind::Answered(kind) => Self { is_answer: true, ..Self::new(kind, error.message) },
            ClientErrorKind::NotRunning
            | ClientErrorKind::Refused
            | ClientErrorKind::OtherVersion
            | ClientErrorKind::Lost => Self::unreachable(error.message),
        };
        Self { hint: error.hint, ..failure }
    }
}

/// Returns true if the error only means that standard output was closed.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_survives_error_context() {
        let failure = Failure::usage("no prompt").hint("give one");
        let error = anyhow::Error::from(failure.clone()).context("running");
        assert_eq!(Failure::from_any(&error), failure);
        assert_eq!(Failure::from_any(&anyhow::anyhow!("boom")).exit, Exit::Failed);
    }

    #[test]
    fn failure_messages_are_sanitised() {
        let mut out = Vec::new();
        Failure::usage("bad\x1b]0;title\x07 name").print(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(!out.contains("\x1b]0"), "{out:?}");
    }
}
