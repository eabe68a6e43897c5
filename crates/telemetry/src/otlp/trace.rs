//! Spans.

use super::attributes::{KeyValue, Resource, Scope};

/// An export.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportTraces {
    /// Spans by the process that made them.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// Spans of one process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceSpans {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Spans by the instrumentation.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// Spans of one instrumentation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeSpans {
    /// The instrumentation.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// A span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    /// Id of the trace, 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// Id of the span, 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// Id of the span that it is a part of; empty for none.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// Its name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Its kind.
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    /// Its start, in nanoseconds since 1970.
    #[prost(fixed64, tag = "7")]
    pub start_ns: u64,
    /// Its end.
    #[prost(fixed64, tag = "8")]
    pub end_ns: u64,
    /// Its attributes.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Events within it.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<SpanEvent>,
    /// Its outcome.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    /// Not said.
    Unspecified = 0,
    /// Work of the process itself.
    Internal = 1,
    /// A request to another one.
    Client = 3,
}

/// Something that happened at one time in a span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SpanEvent {
    /// Its time, in nanoseconds since 1970.
    #[prost(fixed64, tag = "1")]
    pub time_ns: u64,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its attributes.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// Outcome of a span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// Description of an error.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The code.
    #[prost(enumeration = "StatusCode", tag = "3")]
    pub code: i32,
}

/// Code of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum StatusCode {
    /// Not said.
    Unset = 0,
    /// It is well.
    Ok = 1,
    /// It failed.
    Error = 2,
}
