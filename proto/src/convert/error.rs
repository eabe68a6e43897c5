//! Kinds of failure.

use agentd_core::error::ErrorKind;

use super::mirrored;
use crate::v1;

mirrored!(
    ErrorKind,
    v1::ErrorKind,
    error_kind_to_wire,
    error_kind,
    optional_error_kind,
    "the kind of an error",
    [
        Auth,
        RateLimited,
        Unreachable,
        Timeout,
        CutStream,
        Protocol,
        ContextOverflow,
        Rejected,
        Provider,
        Storage,
        NotFound,
        InvalidInput,
        Conflict,
        Busy,
        ShuttingDown,
        Configuration,
        Internal,
        QuotaExceeded,
    ]
);
