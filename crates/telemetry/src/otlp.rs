//! Messages of the OpenTelemetry protocol, as far as they are sent: the numbers of their fields are the protocol.

pub mod attributes;
pub mod metrics;
pub mod trace;
