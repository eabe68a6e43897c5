//! Telemetry for others, and traces for whoever looks into turns.

use serde::Deserialize;

use super::{
    ConfigError,
    group::group,
    origin::{Origin, Origins},
    value::Within,
};

group! {
    /// Turns for an OpenTelemetry collector.
    TelemetrySettings, TelemetryLayer {
        /// Address of the collector, or `none`. Variables precede it.
        endpoint: String,
        /// Set if words, arguments and results are sent.
        content: bool,
    }
}

group! {
    /// Requests to models and their answers, as they are on the wire.
    TraceSettings, TraceLayer {
        /// Set if those of all sessions are kept.
        requests: bool,
        /// The size at which a file of a session is rotated, in bytes.
        max_file_bytes: Within<65_536, 1_099_511_627_776>,
        /// Files of a session.
        max_files: Within<1, 100>,
    }
}
