//! Exports turns to an OpenTelemetry collector: spans and metrics that follow the conventions for generative AI, sent
//! over OTLP.
//!
//! Spans and metrics are generated from the journal after a stored position, so that a turn that ended before a crash
//! is exported after the restart. Without an endpoint, nothing is generated or sent.
//!
//! - [`config`]: the endpoint and the other settings, from the standard variables.
//! - [`export`]: the task that follows the journal, one per signal. [`position`]: the last turn that a collector has
//!   acknowledged.
//! - [`spans`] and [`measures`]: the exported data of a turn, with the names and IDs in [`names`].
//! - [`otlp`]: the messages of the protocol; [`send`]: requests to the collector.

pub mod config;
pub mod export;
pub mod measures;
pub mod names;
pub mod otlp;
pub mod position;
pub mod send;
pub mod spans;

pub use self::{
    config::{Protocol, Signal, TelemetryConfig, TelemetryConfigError},
    export::{TurnSource, follow},
};
