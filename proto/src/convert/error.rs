//! Kinds of failure.

use agentd_core::error::ErrorKind;

use super::mirrored;

mirrored!(
    ErrorKind,
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
        QuotaExceeded
    ]
);
