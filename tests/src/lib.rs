//! Nothing to see here: the suites are in `suite/`, and what they are made with is in `testkit/`.
