//! Transport of errors: a gRPC status with a code and a message. Its standard details trailer contains the kind, for
//! programs, and the hint, for users.

use agentd_core::error::ErrorKind;
use prost::Message as _;
use tonic::{Code, Status};

use crate::{
    convert::{Wire, WireError},
    v1,
};

const DETAIL_TYPE: &str = "type.googleapis.com/agentd.v1.ErrorDetail";

/// Creates the status of a failed call.
pub fn to_status(kind: ErrorKind, message: impl Into<String>, hint: Option<&str>) -> Status {
    let (code, message) = (code(kind), message.into());
    let detail = v1::ErrorDetail { kind: kind.to_wire(), hint: hint.unwrap_or_default().to_owned() };
    let details = v1::ErrorStatus {
        code: code as i32,
        message: message.clone(),
        details: vec![prost_types::Any { type_url: DETAIL_TYPE.to_owned(), value: detail.encode_to_vec() }],
    };
    Status::with_details(code, message, details.encode_to_vec().into())
}

/// Returns the kind and the hint of a status from [`to_status`], or `None` for a status from another source.
pub fn read_details(status: &Status) -> Option<(ErrorKind, Option<String>)> {
    let details = v1::ErrorStatus::decode(status.details()).ok()?;
    let detail = details.details.iter().find(|packed| packed.type_url == DETAIL_TYPE)?;
    let detail = v1::ErrorDetail::decode(detail.value.as_slice()).ok()?;
    // Even with an unknown kind from a newer version, this is a response from the daemon.
    let kind = Wire::from_wire(detail.kind, "the kind of an error").unwrap_or_else(|_| kind(status.code()));
    Some((kind, (!detail.hint.is_empty()).then_some(detail.hint)))
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        to_status(ErrorKind::InvalidInput, format!("could not read the request: {error}"), None)
    }
}

/// Returns the code that best describes a kind to clients that support only codes.
pub fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Auth | ErrorKind::Rejected | ErrorKind::Conflict | ErrorKind::Busy | ErrorKind::Configuration => {
            Code::FailedPrecondition
        }
        ErrorKind::RateLimited | ErrorKind::QuotaExceeded | ErrorKind::Storage => Code::ResourceExhausted,
        ErrorKind::Unreachable | ErrorKind::Provider | ErrorKind::CutStream => Code::Aborted,
        ErrorKind::Timeout => Code::DeadlineExceeded,
        ErrorKind::ContextOverflow => Code::OutOfRange,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::InvalidInput => Code::InvalidArgument,
        // Clients retry this code automatically, so no other kind may use it.
        ErrorKind::ShuttingDown => Code::Unavailable,
        ErrorKind::Protocol | ErrorKind::Internal => Code::Internal,
    }
}

/// Returns the kind for a code without details, as sent by other servers and proxies.
pub fn kind(code: Code) -> ErrorKind {
    match code {
        Code::InvalidArgument => ErrorKind::InvalidInput,
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted => ErrorKind::Conflict,
        Code::ResourceExhausted => ErrorKind::Storage,
        Code::DeadlineExceeded => ErrorKind::Timeout,
        Code::Unavailable => ErrorKind::ShuttingDown,
        Code::Unauthenticated | Code::PermissionDenied => ErrorKind::Auth,
        // The transport uses `OutOfRange` for a message that is too large.
        Code::Unimplemented | Code::OutOfRange => ErrorKind::Protocol,
        Code::Ok | Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => ErrorKind::Internal,
    }
}
