//! Round trips of errors.

use agentd_core::error::ErrorKind;
use agentd_proto::{
    client::{ClientError, ClientErrorKind},
    status::{code, to_status},
};
use tonic::{Code, Status};

use crate::samples;

#[test]
fn error_kind_message_and_hint_round_trip() {
    for kind in samples::all::<ErrorKind>() {
        for hint in [None, Some("do this: 日本")] {
            // The status passes through HTTP headers, as on the wire.
            let headers = to_status(kind, "could not do it: ü", hint).into_http::<()>().into_parts().0.headers;
            let error = ClientError::from(Status::from_header_map(&headers).unwrap());
            assert_eq!(error.kind, ClientErrorKind::Answered(kind));
            assert_eq!((error.message.as_str(), error.hint.as_deref()), ("could not do it: ü", hint));
            assert!(!error.is_unreachable());
        }
    }
}

#[test]
fn error_kinds_map_to_expected_grpc_codes() {
    let check = |kind, expected| assert_eq!(code(kind), expected, "{kind:?}");
    check(ErrorKind::NotFound, Code::NotFound);
    check(ErrorKind::InvalidInput, Code::InvalidArgument);
    check(ErrorKind::Conflict, Code::FailedPrecondition);
    check(ErrorKind::Busy, Code::FailedPrecondition);
    check(ErrorKind::ShuttingDown, Code::Unavailable);
    check(ErrorKind::Storage, Code::ResourceExhausted);
    let retried = samples::all::<ErrorKind>().filter(|kind| code(*kind) == Code::Unavailable);
    assert_eq!(retried.collect::<Vec<_>>(), [ErrorKind::ShuttingDown], "clients retry UNAVAILABLE automatically");
}

#[test]
fn status_without_details_is_read_by_its_code() {
    let check = |code, expected| {
        let error = ClientError::from(Status::new(code, "as it is"));
        assert_eq!(error.kind, expected, "{code:?}");
    };
    check(Code::InvalidArgument, ClientErrorKind::Answered(ErrorKind::InvalidInput));
    check(Code::OutOfRange, ClientErrorKind::Answered(ErrorKind::Protocol));
    check(Code::Unimplemented, ClientErrorKind::Answered(ErrorKind::Protocol));
    check(Code::Unavailable, ClientErrorKind::Lost);
    check(Code::Unknown, ClientErrorKind::Lost);
}
