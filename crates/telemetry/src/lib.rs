//! Turns for an OpenTelemetry collector: spans and metrics by the conventions for generative AI, sent as OTLP.
//!
//! They are made from the journal behind a durable position, so that a turn that ended before a crash is sent after it. Without
//! an endpoint nothing is made and nothing is sent.
//!
//! - [`config`]: the endpoint and what else the usual variables say.
//! - [`export`]: the task that follows the journal, one for each signal. [`position`]: how far a collector has acknowledged.
//! - [`spans`] and [`measures`]: what is sent of a turn, with the names and ids in [`names`].
//! - [`otlp`]: the messages of the protocol; [`send`]: the way to the collector.

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
