//! Errors as editors are told them: codes of JSON-RPC and of the protocol, with the words of the daemon.

use agent_client_protocol_schema::v1::{Error, ErrorCode};
use agentd_core::{error::ErrorKind, turn::TurnError};
use agentd_proto::client::ClientError;
use serde_json::json;

use crate::{exit::Exit, failure::Failure};

/// Why a request came to nothing.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The request makes no sense.
    Refused(Box<Error>),
    /// The daemon refused it, or cannot be reached.
    Failed(Failure),
}

impl Trouble {
    /// Returns whether it never reached the daemon, so that it can be tried again.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.exit == Exit::Unreachable)
    }

    /// The error that the editor is told.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => *error,
            Self::Failed(failure) => of_failure(&failure),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.into())
    }
}

/// A line that is no JSON.
pub(super) fn unreadable(why: &str) -> Error {
    worded(ErrorCode::ParseError, format!("the line is no JSON: {why}"))
}

/// JSON that is no request.
pub(super) fn not_a_request(why: &str) -> Error {
    worded(ErrorCode::InvalidRequest, why.to_owned())
}

/// A method that is not there.
pub(super) fn unknown_method(name: &str) -> Error {
    worded(ErrorCode::MethodNotFound, format!("there is no method {name:?}"))
}

/// Parameters that do not fit a method.
pub(super) fn misfit(why: impl Into<String>) -> Error {
    worded(ErrorCode::InvalidParams, why.into())
}

/// A session that is not there.
pub(super) fn unknown_session(id: &str) -> Error {
    let message = format!("Session not found: {id}");
    worded(ErrorCode::ResourceNotFound, message).data(json!({"hint": "session/list shows those that there are"}))
}

/// A request that the editor has cancelled.
pub(super) fn cancelled() -> Error {
    worded(ErrorCode::RequestCancelled, "the request was cancelled".to_owned())
}

/// A request that broke because of a defect here.
pub(super) fn broken() -> Error {
    worded(
        ErrorCode::InternalError,
        "the request failed because of a defect of agentctl; the session is as it was".to_owned(),
    )
}

/// A prompt whose editor has gone.
pub(super) fn left() -> Error {
    worded(ErrorCode::RequestCancelled, "the editor has gone; the turn continues without it".to_owned())
}

/// A failure on the way to the daemon, or of the daemon.
pub(super) fn of_failure(failure: &Failure) -> Error {
    let code = match failure.kind {
        ErrorKind::NotFound => ErrorCode::ResourceNotFound,
        ErrorKind::InvalidInput => ErrorCode::InvalidParams,
        _ => ErrorCode::InternalError,
    };
    told(code, &failure.message, failure.hint.as_deref(), failure.kind)
}

/// A turn that failed.
pub(super) fn of_turn(error: &TurnError) -> Error {
    told(ErrorCode::InternalError, &error.message, error.hint.as_deref(), error.kind)
}

/// Many editors show the message and nothing else, so the hint is in it, too.
fn told(code: ErrorCode, message: &str, hint: Option<&str>, kind: ErrorKind) -> Error {
    let words = hint.map_or_else(|| message.to_owned(), |hint| format!("{message}\nhint: {hint}"));
    worded(code, words).data(json!({"kind": kind, "hint": hint}))
}

fn worded(code: ErrorCode, message: String) -> Error {
    Error::new(code.into(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_codes_words_and_hints() {
        let check = |kind: ErrorKind, code: i32| {
            let error = of_failure(&Failure::new(kind, "it failed").hint("try again"));
            assert_eq!((i32::from(error.code), error.message.as_str()), (code, "it failed\nhint: try again"));
            assert_eq!(error.data, Some(json!({"kind": kind, "hint": "try again"})));
        };
        check(ErrorKind::NotFound, -32002);
        check(ErrorKind::InvalidInput, -32602);
        check(ErrorKind::Busy, -32603);
        assert_eq!(i32::from(unknown_session("x").code), -32002);
        assert_eq!(i32::from(cancelled().code), -32800);
    }
}
