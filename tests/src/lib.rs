//! Empty crate: the suites are in `suite/`, their helpers in `testkit/`.
