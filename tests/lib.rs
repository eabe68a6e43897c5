//! The suites that run real processes.
