//! Metrics: counters and histograms.

use super::attributes::{KeyValue, Resource, Scope};

/// An export.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportMetrics {
    /// Metrics by the process that made them.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// Metrics of one process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceMetrics {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Metrics by the instrumentation.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// Metrics of one instrumentation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeMetrics {
    /// The instrumentation.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// A metric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metric {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its unit.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// Its values.
    #[prost(oneof = "MetricData", tags = "7, 9")]
    pub data: Option<MetricData>,
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

/// A counter.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Sum {
    /// Values, one for each set of attributes.
    #[prost(message, repeated, tag = "1")]
    pub points: Vec<NumberPoint>,
    /// Meaning of the values.
    #[prost(enumeration = "Temporality", tag = "2")]
    pub temporality: i32,
    /// Set if it never falls.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// A distribution.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Histogram {
    /// Values, one for each set of attributes.
    #[prost(message, repeated, tag = "1")]
    pub points: Vec<HistogramPoint>,
    /// Meaning of the values.
    #[prost(enumeration = "Temporality", tag = "2")]
    pub temporality: i32,
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

/// A value of a counter.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NumberPoint {
    /// Since when it is counted, in nanoseconds since 1970.
    #[prost(fixed64, tag = "2")]
    pub start_ns: u64,
    /// Time of the value.
    #[prost(fixed64, tag = "3")]
    pub time_ns: u64,
    /// The value.
    #[prost(oneof = "Number", tags = "4, 6")]
    pub value: Option<Number>,
    /// Its attributes.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
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

/// A distribution of values.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HistogramPoint {
    /// Since when it is counted, in nanoseconds since 1970.
    #[prost(fixed64, tag = "2")]
    pub start_ns: u64,
    /// Time of the value.
    #[prost(fixed64, tag = "3")]
    pub time_ns: u64,
    /// Number of values.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// Their sum.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// Number of values up to each bound, and above the last.
    #[prost(fixed64, repeated, tag = "6")]
    pub buckets: Vec<u64>,
    /// The bounds.
    #[prost(double, repeated, tag = "7")]
    pub bounds: Vec<f64>,
    /// Its attributes.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
}
