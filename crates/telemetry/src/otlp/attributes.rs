//! Attributes, and who sends.

/// A value of an attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4")]
    pub value: Option<Value>,
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

/// An attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

impl KeyValue {
    /// An attribute.
    #[must_use]
    pub fn new(key: &str, value: impl Into<Value>) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value.into()) }) }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

/// The instrumentation that made what is sent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// The process that sends.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// Its attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Answer to an export, whatever it exported.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportResponse {
    /// The part that was not taken; none where all was.
    #[prost(message, optional, tag = "1")]
    pub partial: Option<PartialSuccess>,
}

/// A part that was not taken, and is not to be sent again.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartialSuccess {
    /// Number of spans or data points.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// The reason.
    #[prost(string, tag = "2")]
    pub message: String,
}
