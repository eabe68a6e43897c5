//! Messages of the OpenTelemetry protocol, limited to the messages that are sent. The field numbers define the
//! protocol.

/// Defines messages, one row per field: its name, its type, and its encoding.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty = ($($options:tt)*),)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name { $($(#[$field_doc])* #[prost($($options)*)] pub $field: $kind,)* }
    )*};
}

messages! {
    /// Value of an attribute.
    AnyValue {
        /// The value, if set.
        value: Option<Value> = (oneof = "Value", tags = "1, 2, 3, 4"),
    }
    /// Attribute with name and value.
    KeyValue {
        /// Name of the attribute.
        key: String = (string, tag = "1"),
        /// Value of the attribute.
        value: Option<AnyValue> = (message, optional, tag = "2"),
    }
    /// Instrumentation that produced the data.
    Scope {
        /// Name of the instrumentation.
        name: String = (string, tag = "1"),
        /// Version of the instrumentation.
        version: String = (string, tag = "2"),
    }
    /// Process that sends the data.
    Resource {
        /// Attributes of the process.
        attributes: Vec<KeyValue> = (message, repeated, tag = "1"),
    }
    /// Response to an export of any signal.
    ExportResponse {
        /// Rejected part, or `None` if everything was accepted.
        partial: Option<PartialSuccess> = (message, optional, tag = "1"),
    }
    /// Rejected part of an export, which must not be sent again.
    PartialSuccess {
        /// Number of rejected spans or data points.
        rejected: i64 = (int64, tag = "1"),
        /// Reason for the rejection.
        message: String = (string, tag = "2"),
    }
    /// Request that exports spans.
    ExportTraces {
        /// Spans, grouped by process.
        resource_spans: Vec<ResourceSpans> = (message, repeated, tag = "1"),
    }
    /// Spans of one process.
    ResourceSpans {
        /// The process that produced the spans.
        resource: Option<Resource> = (message, optional, tag = "1"),
        /// Spans, grouped by instrumentation.
        scope_spans: Vec<ScopeSpans> = (message, repeated, tag = "2"),
    }
    /// Spans of one instrumentation.
    ScopeSpans {
        /// The instrumentation that produced the spans.
        scope: Option<Scope> = (message, optional, tag = "1"),
        /// Spans produced by the instrumentation.
        spans: Vec<Span> = (message, repeated, tag = "2"),
    }
    /// Span of a trace.
    Span {
        /// ID of the trace, 16 bytes.
        trace_id: Vec<u8> = (bytes = "vec", tag = "1"),
        /// ID of the span, 8 bytes.
        span_id: Vec<u8> = (bytes = "vec", tag = "2"),
        /// ID of the parent span, or empty.
        parent_span_id: Vec<u8> = (bytes = "vec", tag = "4"),
        /// Name of the span.
        name: String = (string, tag = "5"),
        /// Kind of the span.
        kind: i32 = (enumeration = "SpanKind", tag = "6"),
        /// Start in nanoseconds since 1970.
        start_ns: u64 = (fixed64, tag = "7"),
        /// End in nanoseconds since 1970.
        end_ns: u64 = (fixed64, tag = "8"),
        /// Attributes of the span.
        attributes: Vec<KeyValue> = (message, repeated, tag = "9"),
        /// Events within the span.
        events: Vec<SpanEvent> = (message, repeated, tag = "11"),
        /// Outcome of the span.
        status: Option<Status> = (message, optional, tag = "15"),
    }
    /// Event at a point in time within a span.
    SpanEvent {
        /// Time in nanoseconds since 1970.
        time_ns: u64 = (fixed64, tag = "1"),
        /// Name of the event.
        name: String = (string, tag = "2"),
        /// Attributes of the event.
        attributes: Vec<KeyValue> = (message, repeated, tag = "3"),
    }
    /// Outcome of a span.
    Status {
        /// Description of the error.
        message: String = (string, tag = "2"),
        /// Code of the outcome.
        code: i32 = (enumeration = "StatusCode", tag = "3"),
    }
    /// Request that exports metrics.
    ExportMetrics {
        /// Metrics, grouped by process.
        resource_metrics: Vec<ResourceMetrics> = (message, repeated, tag = "1"),
    }
    /// Metrics of one process.
    ResourceMetrics {
        /// The process that produced the metrics.
        resource: Option<Resource> = (message, optional, tag = "1"),
        /// Metrics, grouped by instrumentation.
        scope_metrics: Vec<ScopeMetrics> = (message, repeated, tag = "2"),
    }
    /// Metrics of one instrumentation.
    ScopeMetrics {
        /// The instrumentation that produced the metrics.
        scope: Option<Scope> = (message, optional, tag = "1"),
        /// Metrics produced by the instrumentation.
        metrics: Vec<Metric> = (message, repeated, tag = "2"),
    }
    /// Metric with its data points.
    Metric {
        /// Name of the metric.
        name: String = (string, tag = "1"),
        /// Unit of the values.
        unit: String = (string, tag = "3"),
        /// Data points of the metric.
        data: Option<MetricData> = (oneof = "MetricData", tags = "7, 9"),
    }
    /// Data points of a counter.
    Sum {
        /// Points, one per set of attributes.
        points: Vec<NumberPoint> = (message, repeated, tag = "1"),
        /// Reference point of the values.
        temporality: i32 = (enumeration = "Temporality", tag = "2"),
        /// True if the counter never decreases.
        is_monotonic: bool = (bool, tag = "3"),
    }
    /// Data points of a distribution.
    Histogram {
        /// Points, one per set of attributes.
        points: Vec<HistogramPoint> = (message, repeated, tag = "1"),
        /// Reference point of the values.
        temporality: i32 = (enumeration = "Temporality", tag = "2"),
    }
    /// Value of a counter.
    NumberPoint {
        /// Start of the counted period in nanoseconds since 1970.
        start_ns: u64 = (fixed64, tag = "2"),
        /// Time of the value in nanoseconds since 1970.
        time_ns: u64 = (fixed64, tag = "3"),
        /// The value, if set.
        value: Option<Number> = (oneof = "Number", tags = "4, 6"),
        /// Attributes of the point.
        attributes: Vec<KeyValue> = (message, repeated, tag = "7"),
    }
    /// Distribution of values over buckets.
    HistogramPoint {
        /// Start of the counted period in nanoseconds since 1970.
        start_ns: u64 = (fixed64, tag = "2"),
        /// Time of the value in nanoseconds since 1970.
        time_ns: u64 = (fixed64, tag = "3"),
        /// Number of values in all buckets.
        count: u64 = (fixed64, tag = "4"),
        /// Sum of the values.
        sum: Option<f64> = (double, optional, tag = "5"),
        /// Number of values up to each bound, and above the last bound.
        buckets: Vec<u64> = (fixed64, repeated, tag = "6"),
        /// Upper bounds of the buckets.
        bounds: Vec<f64> = (double, repeated, tag = "7"),
        /// Attributes of the point.
        attributes: Vec<KeyValue> = (message, repeated, tag = "9"),
    }
}

/// Types of attribute values that are sent.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// UTF-8 encoded text value.
    #[prost(string, tag = "1")]
    Text(String),
    /// Boolean value, true or false.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// Signed 64-bit integer value.
    #[prost(int64, tag = "3")]
    Int(i64),
    /// Floating-point number of 64 bits.
    #[prost(double, tag = "4")]
    Double(f64),
}

impl KeyValue {
    /// Creates an attribute with this value.
    pub fn new(key: &str, value: impl Into<Value>) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value.into()) }) }
    }
}

macro_rules! values {
    ($($kind:ty: $value:ident => $converted:expr;)*) => {$(
        impl From<$kind> for Value {
            fn from($value: $kind) -> Self {
                $converted
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
    /// The kind is unspecified.
    Unspecified = 0,
    /// Work within the process.
    Internal = 1,
    /// Request to another process.
    Client = 3,
}

/// Code of a span's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum StatusCode {
    /// The outcome is unspecified.
    Unset = 0,
    /// The operation was successful.
    Ok = 1,
    /// The operation has failed.
    Error = 2,
}

/// Data points of a metric.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum MetricData {
    /// Points of a counter.
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// Points of a distribution.
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

/// Reference point of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Temporality {
    /// The reference point is unspecified.
    Unspecified = 0,
    /// Values since the last export.
    Delta = 1,
    /// Values since the start.
    Cumulative = 2,
}

/// Value of a number point.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Number {
    /// Floating-point number of 64 bits.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Signed 64-bit integer value.
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}
