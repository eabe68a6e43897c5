//! Settings for the exporter, from the standard OpenTelemetry variables. Without an endpoint, nothing is exported.

use std::time::Duration;

use agentd_core::route::Routes;
use secrecy::SecretString;
use url::Url;

use crate::otlp::Temporality;

/// Default time limit for one export.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of resource attributes, and of headers.
const MAX_PAIRS: usize = 128;

agentd_core::names! {
    /// Kind of exported data, with the name that is used in paths and file names.
    pub enum Signal {
        /// Spans of turns and their parts.
        Traces = "traces",
        /// Counters and histograms of turns.
        Metrics = "metrics",
    }
}

/// Transport protocol for exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Protobuf messages in the bodies of HTTP requests.
    Http,
    /// Calls over gRPC without TLS.
    Grpc,
}

/// Connection to a collector for one signal.
#[derive(Debug, Clone)]
pub struct SignalConfig {
    /// URL of the collector, including the path for HTTP.
    pub endpoint: Url,
    /// Transport protocol of the collector.
    pub protocol: Protocol,
    /// Additional headers, which may contain keys.
    pub headers: Vec<(String, SecretString)>,
    /// Time limit for one export.
    pub timeout: Duration,
    /// Proxy routes. gRPC connects directly.
    pub routes: Routes,
}

/// Settings for the exporter.
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// Connection for spans, or `None` if they are not exported.
    pub traces: Option<SignalConfig>,
    /// Connection for metrics, or `None` if they are not exported.
    pub metrics: Option<SignalConfig>,
    /// Attributes of the process.
    pub resource: Vec<(String, String)>,
    /// True if texts, arguments and results are exported.
    pub content: bool,
    /// Reference point of the metrics' values.
    pub temporality: Temporality,
}

/// Invalid setting. The error contains the name of the variable, but never its value, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} {problem}")]
pub struct TelemetryConfigError {
    name: String,
    problem: &'static str,
}

impl TelemetryConfigError {
    fn new(name: impl Into<String>, problem: &'static str) -> Self {
        Self { name: name.into(), problem }
    }
}

/// Settings from the configuration. Environment variables take precedence.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConfiguredTelemetry<'a> {
    /// URL of the collector, if configured.
    pub endpoint: Option<&'a str>,
    /// True if texts, arguments and results are exported.
    pub content: bool,
    /// Version of the program.
    pub version: &'a str,
}

impl TelemetryConfig {
    /// Reads the settings from variables. Returns `None` if no endpoint is set, or if the export is disabled.
    ///
    /// # Errors
    /// Returns an error if a variable is invalid.
    pub fn read<'a>(
        variable: impl Fn(&str) -> Option<&'a str>,
        configured: ConfiguredTelemetry<'_>,
    ) -> Result<Option<Self>, TelemetryConfigError> {
        let is_true = |name: &str| variable(name).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
        if is_true("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let traces = signal(Signal::Traces, &variable, configured.endpoint)?;
        let metrics = signal(Signal::Metrics, &variable, configured.endpoint)?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let content = match variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").map(str::trim) {
            None => configured.content,
            Some(value) => {
                ["true", "span_only", "span_and_event"].iter().any(|enabled| value.eq_ignore_ascii_case(enabled))
            }
        };
        let temporality = match variable("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE").map(str::trim) {
            Some(value) if value.eq_ignore_ascii_case("delta") => Temporality::Delta,
            _ => Temporality::Cumulative,
        };
        let resource = resource(&variable, configured.version)?;
        Ok(Some(Self { traces, metrics, resource, content, temporality }))
    }

    /// Returns the connection for a signal, or `None` if the signal is not exported.
    pub fn signal(&self, signal: Signal) -> Option<&SignalConfig> {
        match signal {
            Signal::Traces => self.traces.as_ref(),
            Signal::Metrics => self.metrics.as_ref(),
        }
    }
}

fn signal<'a>(
    signal: Signal,
    variable: &impl Fn(&str) -> Option<&'a str>,
    configured: Option<&str>,
) -> Result<Option<SignalConfig>, TelemetryConfigError> {
    let upper = signal.as_str().to_ascii_uppercase();
    if variable(&format!("OTEL_{upper}_EXPORTER")).is_some_and(|value| value.trim() == "none") {
        return Ok(None);
    }
    // Settings for one signal take precedence over settings for all signals.
    let setting = |suffix: &str| {
        let names = [format!("OTEL_EXPORTER_OTLP_{upper}_{suffix}"), format!("OTEL_EXPORTER_OTLP_{suffix}")];
        names.into_iter().find_map(|name| Some((variable(&name)?.trim(), name)))
    };
    let is_specific = variable(&format!("OTEL_EXPORTER_OTLP_{upper}_ENDPOINT")).is_some();
    let Some((text, name)) = setting("ENDPOINT").or_else(|| Some((configured?, "telemetry.endpoint".to_owned())))
    else {
        return Ok(None);
    };
    let protocol = match setting("PROTOCOL") {
        None | Some(("http/protobuf", _)) => Protocol::Http,
        Some(("grpc", _)) => Protocol::Grpc,
        Some((_, name)) => return Err(TelemetryConfigError::new(name, "is neither http/protobuf nor grpc")),
    };
    let endpoint = endpoint(text, &name, protocol, (!is_specific).then_some(signal))?;
    let headers = pairs_of(setting("HEADERS"))?.into_iter();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.into())).collect();
    let timeout = match setting("TIMEOUT") {
        Some((text, name)) => {
            let milliseconds = text.parse().ok().filter(|milliseconds| (1..=600_000).contains(milliseconds));
            let problem = || TelemetryConfigError::new(name, "is not a number of milliseconds from 1 to 600000");
            Duration::from_millis(milliseconds.ok_or_else(problem)?)
        }
        None => TIMEOUT,
    };
    Ok(Some(SignalConfig { endpoint, protocol, headers, timeout, routes: Routes::read(variable) }))
}

/// Parses the URL. The path of the signal is appended to a URL for all signals.
fn endpoint(text: &str, name: &str, protocol: Protocol, signal: Option<Signal>) -> Result<Url, TelemetryConfigError> {
    let problem = |problem| TelemetryConfigError::new(name, problem);
    let mut url = Url::parse(text).map_err(|_| problem("is not a URL such as http://localhost:4318"))?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err(problem("is not a URL such as http://localhost:4318"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(problem("contains a password; put it into OTEL_EXPORTER_OTLP_HEADERS"));
    }
    if protocol == Protocol::Grpc && url.scheme() == "https" {
        return Err(problem("uses https, which is not supported with grpc; use http/protobuf"));
    }
    if let (Protocol::Http, Some(signal)) = (protocol, signal) {
        let path = format!("{}/v1/{}", url.path().trim_end_matches('/'), signal.as_str());
        url.set_path(&path);
    }
    Ok(url)
}

fn resource<'a>(
    variable: &impl Fn(&str) -> Option<&'a str>,
    version: &str,
) -> Result<Vec<(String, String)>, TelemetryConfigError> {
    const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let mut attributes = pairs_of(variable(NAME).map(|text| (text, NAME.to_owned())))?;
    let mut set = |name: &str, value: Option<&str>, default: &str| {
        if let Some(value) = value {
            attributes.retain(|(key, _)| key != name);
            attributes.push((name.to_owned(), value.to_owned()));
        } else if !attributes.iter().any(|(key, _)| key == name) {
            attributes.push((name.to_owned(), default.to_owned()));
        }
    };
    set("service.name", variable("OTEL_SERVICE_NAME"), "agentd");
    set("service.version", None, version);
    Ok(attributes)
}

/// Returns the pairs in a setting, or no pairs if it is not set.
fn pairs_of(setting: Option<(&str, String)>) -> Result<Vec<(String, String)>, TelemetryConfigError> {
    let Some((text, name)) = setting else { return Ok(Vec::new()) };
    pairs(text).ok_or_else(|| TelemetryConfigError::new(name, "is not a list of key=value pairs"))
}

/// Parses a list of `key=value` pairs with percent-encoded values.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=')?;
        let (key, value) = (key.trim(), percent_decoded(value.trim())?);
        if key.is_empty() || pairs.len() >= MAX_PAIRS {
            return None;
        }
        pairs.push((key.to_owned(), value));
    }
    Some(pairs)
}

/// Decodes percent-encoding such as `%41`. A `+` is not decoded.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = more;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret as _;

    use super::*;

    fn read(variables: &[(&str, &'static str)]) -> Result<Option<TelemetryConfig>, TelemetryConfigError> {
        let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        TelemetryConfig::read(variable, ConfiguredTelemetry { version: "1", ..ConfiguredTelemetry::default() })
    }

    #[test]
    fn telemetry_is_off_without_an_endpoint() {
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "a=b");
        assert!(read(&[headers, ("OTEL_SERVICE_NAME", "x")]).unwrap().is_none());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        assert!(read(&[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]).unwrap().is_none());
        let none = [endpoint, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
        assert!(read(&none).unwrap().is_none());
    }

    #[test]
    fn signals_share_an_endpoint_or_have_their_own() {
        let config = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/base/")]).unwrap().unwrap();
        assert_eq!(config.traces.unwrap().endpoint.as_str(), "http://localhost:4318/base/v1/traces");
        assert_eq!(config.metrics.unwrap().endpoint.as_str(), "http://localhost:4318/base/v1/metrics");
        let config = read(&[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://host/here"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20x%2by, b = c"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,deployment.environment=dev"),
        ]);
        let config = config.unwrap().unwrap();
        let traces = config.traces.unwrap();
        assert_eq!((traces.endpoint.as_str(), traces.timeout.as_millis()), ("https://host/here", 250));
        let headers: Vec<_> =
            traces.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        assert_eq!(headers, [("authorization", "Bearer x+y"), ("b", "c")]);
        assert!(!format!("{:?}", traces.headers).contains("Bearer"));
        assert!(config.metrics.is_none() && !config.content);
        assert!(config.resource.contains(&("service.name".to_owned(), "mine".to_owned())));
    }

    #[test]
    fn invalid_settings_are_reported_without_values() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://secret"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:secret@localhost"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%secret"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "secret"),
            ("OTEL_RESOURCE_ATTRIBUTES", "secret"),
        ] {
            let error = read(&[(name, value), endpoint]).unwrap_err().to_string();
            assert!(error.starts_with(name) && !error.contains("secret"), "{error}");
        }
        let tls = [("OTEL_EXPORTER_OTLP_ENDPOINT", "https://host"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert!(read(&tls).is_err());
    }

    proptest! {
        #[test]
        fn any_header_list_is_read_or_rejected(text in ".{0,60}") {
            if let Some(pairs) = pairs(&text) {
                prop_assert!(pairs.iter().all(|(key, _)| !key.is_empty()));
            }
        }
    }
}
