//! Messages of the OpenTelemetry protocol, as far as they are sent: the numbers of their fields are the protocol.

/// Messages, a row a field: its name, its type, and what it is in the protocol.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty = ($($how:tt)*),)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name { $($(#[$field_doc])* #[prost($($how)*)] pub $field: $kind,)* }
    )*};
}

messages! {
    /// A value of an attribute.
    AnyValue {
        /// The value.
        value: Option<Value> = (oneof = "Value", tags = "1, 2, 3, 4"),
    }
    /// An attribute.
    KeyValue {
        /// Its name.
        key: String = (string, tag = "1"),
        /// Its value.
        value: Option<AnyValue> = (message, optional, tag = "2"),
    }
    /// The instrumentation that made what is sent.
    Scope {
        /// Its name.
        name: String = (string, tag = "1"),
        /// Its version.
        version: String = (string, tag = "2"),
    }
    /// The process that sends.
    Resource {
        /// Its attributes.
        attributes: Vec<KeyValue> = (message, repeated, tag = "1"),
    }
    /// Answer to an export, whatever it exported.
    ExportResponse {
        /// The part that was not taken; none where all was.
        partial: Option<PartialSuccess> = (message, optional, tag = "1"),
    }
    /// A part that was not taken, and is not to be sent again.
    PartialSuccess {
        /// Number of spans or data points.
        rejected: i64 = (int64, tag = "1"),
        /// The reason.
        message: String = (string, tag = "2"),
    }
    /// An export of spans.
    ExportTraces {
        /// Spans by the process that made them.
        resource_spans: Vec<ResourceSpans> = (message, repeated, tag = "1"),
    }
    /// Spans of one process.
    ResourceSpans {
        /// The process.
        resource: Option<Resource> = (message, optional, tag = "1"),
        /// Spans by the instrumentation.
        scope_spans: Vec<ScopeSpans> = (message, repeated, tag = "2"),
    }
    /// Spans of one instrumentation.
    ScopeSpans {
        /// The instrumentation.
        scope: Option<Scope> = (message, optional, tag = "1"),
        /// The spans.
        spans: Vec<Span> = (message, repeated, tag = "2"),
    }
    /// A span.
    Span {
        /// Id of the trace, 16 bytes.
        trace_id: Vec<u8> = (bytes = "vec", tag = "1"),
        /// Id of the span, 8 bytes.
        span_id: Vec<u8> = (bytes = "vec", tag = "2"),
        /// Id of the span that it is a part of; empty for none.
        parent_span_id: Vec<u8> = (bytes = "vec", tag = "4"),
        /// Its name.
        name: String = (string, tag = "5"),
        /// Its kind.
        kind: i32 = (enumeration = "SpanKind", tag = "6"),
        /// Its start, in nanoseconds since 1970.
        start_ns: u64 = (fixed64, tag = "7"),
        /// Its end.
        end_ns: u64 = (fixed64, tag = "8"),
        /// Its attributes.
        attributes: Vec<KeyValue> = (message, repeated, tag = "9"),
        /// Events within it.
        events: Vec<SpanEvent> = (message, repeated, tag = "11"),
        /// Its outcome.
        status: Option<Status> = (message, optional, tag = "15"),
    }
    /// Something that happened at one time in a span.
    SpanEvent {
        /// Its time, in nanoseconds since 1970.
        time_ns: u64 = (fixed64, tag = "1"),
        /// Its name.
        name: String = (string, tag = "2"),
        /// Its attributes.
        attributes: Vec<KeyValue> = (message, repeated, tag = "3"),
    }
    /// Outcome of a span.
    Status {
        /// Description of an error.
        message: String = (string, tag = "2"),
        /// The code.
        code: i32 = (enumeration = "StatusCode", tag = "3"),
    }
    /// An export of metrics.
    ExportMetrics {
        /// Metrics by the process that made them.
        resource_metrics: Vec<ResourceMetrics> = (message, repeated, tag = "1"),
    }
    /// Metrics of one process.
    ResourceMetrics {
        /// The process.
        resource: Option<Resource> = (message, optional, tag = "1"),
        /// Metrics by the instrumentation.
        scope_metrics: Vec<ScopeMetrics> = (message, repeated, tag = "2"),
    }
    /// Metrics of one instrumentation.
    ScopeMetrics {
        /// The instrumentation.
        scope: Option<Scope> = (message, optional, tag = "1"),
        /// The metrics.
        metrics: Vec<Metric> = (message, repeated, tag = "2"),
    }
    /// A metric.
    Metric {
        /// Its name.
        name: String = (string, tag = "1"),
        /// Its unit.
        unit: String = (string, tag = "3"),
        /// Its values.
        data: Option<MetricData> = (oneof = "MetricData", tags = "7, 9"),
    }
    /// A counter.
    Sum {
        /// Values, one for each set of attributes.
        points: Vec<NumberPoint> = (message, repeated, tag = "1"),
        /// Meaning of the values.
        temporality: i32 = (enumeration = "Temporality", tag = "2"),
        /// Set if it never falls.
        is_monotonic: bool = (bool, tag = "3"),
    }
    /// A distribution.
    Histogram {
        /// Values, one for each set of attributes.
        points: Vec<HistogramPoint> = (message, repeated, tag = "1"),
        /// Meaning of the values.
        temporality: i32 = (enumeration = "Temporality", tag = "2"),
    }
    /// A value of a counter.
    NumberPoint {
        /// Since when it is counted, in nanoseconds since 1970.
        start_ns: u64 = (fixed64, tag = "2"),
        /// Time of the value.
        time_ns: u64 = (fixed64, tag = "3"),
        /// The value.
        value: Option<Number> = (oneof = "Number", tags = "4, 6"),
        /// Its attributes.
        attributes: Vec<KeyValue> = (message, repeated, tag = "7"),
    }
    /// A distribution of values.
    HistogramPoint {
        /// Since when it is counted, in nanoseconds since 1970.
        start_ns: u64 = (fixed64, tag = "2"),
        /// Time of the value.
        time_ns: u64 = (fixed64, tag = "3"),
        /// Number of values.
        count: u64 = (fixed64, tag = "4"),
        /// Their sum.
        sum: Option<f64> = (double, optional, tag = "5"),
        /// Number of values up to each bound, and above the last.
        buckets: Vec<u64> = (fixed64, repeated, tag = "6"),
        /// The bounds.
        bounds: Vec<f64> = (double, repeated, tag = "7"),
        /// Its attributes.
        attributes: Vec<KeyValue> = (message, repeated, tag = "9"),
    }
}

/// The kinds of values that are sent.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A truth value.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Int(i64),
    /// A number.
    #[prost(double, tag = "4")]
    Double(f64),
}

impl KeyValue {
    /// An attribute.
    pub fn new(key: &str, value: impl Into<Value>) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value.into()) }) }
    }
}

macro_rules! values {
    ($($kind:ty: $value:ident => $made:expr;)*) => {$(
        impl From<$kind> for Value {
            fn from($value: $kind) -> Self {
                $made
            }
        }
    )*};
}

values! {
    &str: text => Self::Text(text.to_owned());
    String: text => Self::Text(text);
    bool: value => Self::Bool(value);
    u64: number => Self::Int(i64::try_from(number).unwrap_or(i64::MAX));
    i64: number => Self::Int(number);
    f64: number => Self::Double(number);
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

/// Values of a metric.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum MetricData {
    /// A counter.
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// A distribution.
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

/// Meaning of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Temporality {
    /// Not said.
    Unspecified = 0,
    /// Since the last export.
    Delta = 1,
    /// Since the start.
    Cumulative = 2,
}

/// A number.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Number {
    /// Any.
    #[prost(double, tag = "4")]
    Double(f64),
    /// A whole one.
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}
