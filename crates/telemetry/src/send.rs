//! Requests to a collector, one at a time and with a time limit. Responses are untrusted, so their size is limited and
//! their text is never logged.

use std::time::Duration;

use prost::Message;
use reqwest::{Client, StatusCode, header, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use tonic::{
    Code,
    client::Grpc,
    metadata::{AsciiMetadataKey, AsciiMetadataValue},
    transport::{Channel, Endpoint},
};

use crate::{
    config::{Protocol, Signal, SignalConfig},
    otlp::ExportResponse,
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Maximum pause that a collector may request.
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// Outcome of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportOutcome {
    /// Accepted, except for the rejected parts, which must not be sent again.
    Accepted {
        /// Number of rejected parts.
        rejected: u64,
    },
    /// Rejected permanently, with the reason.
    Rejected(String),
    /// Too large for one message. Smaller parts of the message may be accepted.
    TooLarge(String),
    /// Failed, but can be retried.
    Retry {
        /// Reason for the failure.
        reason: String,
        /// Pause that the collector requested.
        after: Option<Duration>,
        /// True if the message itself may cause the failure, so that the number of retries is limited.
        is_doubtful: bool,
    },
}

/// Collector for one signal.
#[derive(Debug)]
pub struct Collector {
    transport: Transport,
    headers: Vec<(String, SecretString)>,
    timeout: Duration,
    signal: Signal,
}

#[derive(Debug)]
enum Transport {
    Http { client: Client, url: url::Url, route: String },
    Grpc(Channel),
}

/// Failure to create the client.
#[derive(Debug, thiserror::Error)]
#[error("could not set up the connection to the collector: {0}")]
pub struct CollectorError(String);

impl Collector {
    /// Creates the client without connecting.
    ///
    /// # Errors
    /// Returns an error if the URL or the certificates are invalid.
    pub fn new(signal: Signal, config: &SignalConfig) -> Result<Self, CollectorError> {
        let failed = |error: &dyn std::error::Error| CollectorError(error.to_string());
        let transport = match config.protocol {
            Protocol::Http => {
                let route = config.routes.of(config.endpoint.as_str()).to_string();
                let client =
                    agentd_http::client(config.endpoint.scheme() == "https", Some(&config.routes), |builder| {
                        // Following a redirect could send keys to another server.
                        builder.connect_timeout(config.timeout).redirect(redirect::Policy::none())
                    });
                let client = client.map_err(|error| failed(&error.without_url()))?;
                Transport::Http { client, url: config.endpoint.clone(), route }
            }
            Protocol::Grpc => {
                let endpoint = Endpoint::from_shared(config.endpoint.to_string()).map_err(|error| failed(&error))?;
                Transport::Grpc(endpoint.connect_timeout(config.timeout).connect_lazy())
            }
        };
        Ok(Self { transport, headers: config.headers.clone(), timeout: config.timeout, signal })
    }

    /// Sends one message within the time limit.
    pub async fn export<M: Message + Default + 'static>(&self, message: M) -> ExportOutcome {
        let sent = async {
            match &self.transport {
                Transport::Http { client, url, route } => self.post(client, url, route, &message).await,
                Transport::Grpc(channel) => self.call(channel.clone(), message).await,
            }
        };
        let timed_out = || retry("the collector did not answer in time".to_owned());
        tokio::time::timeout(self.timeout, sent).await.unwrap_or_else(|_| timed_out())
    }

    async fn post(&self, client: &Client, url: &url::Url, route: &str, message: &impl Message) -> ExportOutcome {
        let mut request = client.post(url.clone()).header(header::CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &self.headers {
            let Ok(mut value) = header::HeaderValue::from_str(value.expose_secret()) else { continue };
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let mut response = match request.body(message.encode_to_vec()).send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                return retry(format!("could not connect {route}: {}", root_cause(error)));
            }
            Err(error) => return retry(root_cause(error)),
        };
        let status = response.status();
        if status.is_success() {
            let mut body = Vec::new();
            while let Ok(Some(piece)) = response.chunk().await {
                if body.len() + piece.len() > MAX_RESPONSE_BYTES {
                    break;
                }
                body.extend_from_slice(&piece);
            }
            return accepted(ExportResponse::decode(body.as_slice()).unwrap_or_default());
        }
        let reason = format!("the collector answered {}", status.as_u16());
        match status {
            // These codes mean that the message itself is invalid. Any other cause may be fixed later: a key, a path,
            // overload.
            StatusCode::BAD_REQUEST | StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::UNPROCESSABLE_ENTITY => {
                ExportOutcome::Rejected(reason)
            }
            StatusCode::PAYLOAD_TOO_LARGE => ExportOutcome::TooLarge(reason),
            _ => {
                let seconds =
                    response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                let after = seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_PAUSE));
                let is_doubtful = status == StatusCode::INTERNAL_SERVER_ERROR;
                ExportOutcome::Retry { reason, after, is_doubtful }
            }
        }
    }

    async fn call<M: Message + Default + 'static>(&self, channel: Channel, message: M) -> ExportOutcome {
        let path = match self.signal {
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        };
        let mut request = tonic::Request::new(message);
        for (name, value) in &self.headers {
            let (Ok(name), Ok(mut value)) =
                (name.parse::<AsciiMetadataKey>(), value.expose_secret().parse::<AsciiMetadataValue>())
            else {
                continue;
            };
            value.set_sensitive(true);
            request.metadata_mut().insert(name, value);
        }
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        if let Err(error) = grpc.ready().await {
            return retry(root_cause(error));
        }
        let codec = tonic_prost::ProstCodec::<M, ExportResponse>::default();
        match grpc.unary(request, tonic::codegen::http::uri::PathAndQuery::from_static(path), codec).await {
            Ok(response) => accepted(response.into_inner()),
            Err(status) => {
                let reason = format!("the collector answered {:?}", status.code());
                match status.code() {
                    Code::InvalidArgument | Code::DataLoss => ExportOutcome::Rejected(reason),
                    // With details, the error is a rate limit. Without details, the message is too large.
                    Code::ResourceExhausted if !status.details().is_empty() => retry(reason),
                    Code::OutOfRange | Code::ResourceExhausted => ExportOutcome::TooLarge(reason),
                    code => {
                        let is_doubtful = matches!(code, Code::Internal | Code::Unknown);
                        ExportOutcome::Retry { reason, after: None, is_doubtful }
                    }
                }
            }
        }
    }
}

fn retry(reason: String) -> ExportOutcome {
    ExportOutcome::Retry { reason, after: None, is_doubtful: false }
}

fn accepted(response: ExportResponse) -> ExportOutcome {
    let rejected = response.partial.map_or(0, |partial| u64::try_from(partial.rejected).unwrap_or(0));
    ExportOutcome::Accepted { rejected }
}

/// Returns the root cause of an error. The full error text may contain a URL with keys.
fn root_cause(error: impl std::error::Error) -> String {
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |&error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}
