//! A telemetry collector on loopback, over HTTP and gRPC. It decodes messages with third-party types, and can be made
//! to hang, reject messages or fail.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::ExportMetricsServiceRequest,
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{KeyValue, any_value::Value as Any},
    metrics::v1::{metric::Data, number_data_point::Value as Number},
    trace::v1::Span,
};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// Attributes, keyed by name.
pub type Attributes = BTreeMap<String, Value>;

/// A span, as received.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedSpan {
    /// ID of the span's trace, in hexadecimal digits.
    pub trace: String,
    /// ID of the span.
    pub id: String,
    /// ID of the parent span, empty for a root.
    pub parent: String,
    /// Name of the span.
    pub name: String,
    /// Kind of the span, as a number of the protocol.
    pub kind: i32,
    /// Start and end, in nanoseconds since 1970.
    pub time: (u64, u64),
    /// Attributes of the span.
    pub attributes: Attributes,
    /// Events of the span, by name, with their attributes.
    pub events: Vec<(String, Attributes)>,
    /// True if the span's operation failed.
    pub is_error: bool,
    /// Attributes of the process.
    pub resource: Attributes,
}

/// A data point of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedPoint {
    /// Name of the metric.
    pub name: String,
    /// Attributes of the point.
    pub attributes: Attributes,
    /// Value of a counter, or sum of a histogram.
    pub value: f64,
    /// Number of values in a histogram, or 1 for a counter.
    pub count: u64,
}

/// Behaviour of a collector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CollectorBehaviour {
    /// Accepts all messages that arrive.
    #[default]
    Takes,
    /// Never sends a response.
    Hangs,
    /// Responds with this status.
    Answers(u16),
    /// Rejects messages over HTTP that are larger than this many bytes.
    AtMost(usize),
}

#[derive(Debug, Default)]
struct Received {
    behaviour: CollectorBehaviour,
    spans: Vec<ReceivedSpan>,
    points: Vec<ReceivedPoint>,
    /// Path and headers of each request.
    requests: Vec<(String, Attributes)>,
}

type Shared = Arc<Mutex<Received>>;

/// A listening collector, which stops when dropped.
#[derive(Debug)]
pub struct Collector {
    received: Shared,
    http: SocketAddr,
    grpc: SocketAddr,
    servers: [JoinHandle<()>; 2],
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.servers.iter().for_each(JoinHandle::abort);
    }
}

impl Collector {
    /// Starts a collector.
    ///
    /// # Panics
    /// Panics if there is no free port.
    #[expect(clippy::expect_used, reason = "a test cannot continue without its collector")]
    pub async fn start() -> Self {
        let received = Shared::default();
        let listener = async || TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (http, grpc) = (listener().await, listener().await);
        let addresses = (http.local_addr().expect("a local address"), grpc.local_addr().expect("a local address"));
        let router = Router::new()
            .route("/v1/traces", post(take_traces))
            .route("/v1/metrics", post(take_metrics))
            .with_state(Arc::clone(&received));
        let over_http = tokio::spawn(async move {
            axum::serve(http, router).await.expect("the collector serves");
        });
        let service = TraceServiceServer::new(Grpc(Arc::clone(&received)));
        let over_grpc = tokio::spawn(async move {
            let incoming = tokio_stream::wrappers::TcpListenerStream::new(grpc);
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await
                .expect("the collector serves");
        });
        Self { received, http: addresses.0, grpc: addresses.1, servers: [over_http, over_grpc] }
    }

    /// Returns the URL for telemetry over HTTP.
    pub fn http(&self) -> String {
        format!("http://{}", self.http)
    }

    /// Returns the URL for spans over gRPC.
    pub fn grpc(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// Sets the collector's behaviour from now on.
    pub fn set_behaviour(&self, behaviour: CollectorBehaviour) {
        self.state().behaviour = behaviour;
    }

    /// Returns all spans accepted so far.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.state().spans.clone()
    }

    /// Returns all data points accepted so far.
    pub fn points(&self) -> Vec<ReceivedPoint> {
        self.state().points.clone()
    }

    /// Returns the paths and headers of all requests, both accepted and rejected.
    pub fn requests(&self) -> Vec<(String, Attributes)> {
        self.state().requests.clone()
    }

    fn state(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records a request. Returns an error status if the request is to be rejected.
async fn check_request(shared: &Shared, path: &str, headers: Attributes, size: usize) -> Result<(), u16> {
    let behaviour = {
        let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
        state.requests.push((path.to_owned(), headers));
        state.behaviour
    };
    match behaviour {
        CollectorBehaviour::Takes => Ok(()),
        CollectorBehaviour::Hangs => std::future::pending().await,
        CollectorBehaviour::Answers(status) => Err(status),
        CollectorBehaviour::AtMost(max) if size > max => Err(413),
        CollectorBehaviour::AtMost(_) => Ok(()),
    }
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn attributes(headers: &HeaderMap) -> Attributes {
    headers.iter().map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap_or_default()))).collect()
}

async fn take_traces(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Result<Vec<u8>, StatusCode> {
    check_request(&shared, "/v1/traces", attributes(&headers), body.len()).await.map_err(status)?;
    let request = ExportTraceServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    note_spans(&shared, request);
    Ok(ExportTraceServiceResponse::default().encode_to_vec())
}

async fn take_metrics(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Result<Vec<u8>, StatusCode> {
    check_request(&shared, "/v1/metrics", attributes(&headers), body.len()).await.map_err(status)?;
    let request = ExportMetricsServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let metrics = request.resource_metrics.into_iter().flat_map(|of| of.scope_metrics).flat_map(|of| of.metrics);
    let mut points = Vec::new();
    for metric in metrics {
        let name = metric.name;
        let point = |attributes: Vec<KeyValue>, value, count| ReceivedPoint {
            name: name.clone(),
            attributes: attributes_of(attributes),
            value,
            count,
        };
        match metric.data {
            Some(Data::Sum(sum)) => points.extend(sum.data_points.into_iter().map(|it| {
                let value = match it.value {
                    Some(Number::AsInt(whole)) => whole as f64,
                    Some(Number::AsDouble(number)) => number,
                    None => f64::NAN,
                };
                point(it.attributes, value, 1)
            })),
            Some(Data::Histogram(histogram)) => points.extend(
                histogram.data_points.into_iter().map(|it| point(it.attributes, it.sum.unwrap_or(f64::NAN), it.count)),
            ),
            _ => {}
        }
    }
    shared.lock().unwrap_or_else(PoisonError::into_inner).points.extend(points);
    Ok(Vec::new())
}

struct Grpc(Shared);

#[tonic::async_trait]
impl TraceService for Grpc {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let headers = attributes(&request.metadata().clone().into_headers());
        let refused = |_| tonic::Status::unavailable("not now");
        check_request(&self.0, "grpc", headers, 0).await.map_err(refused)?;
        note_spans(&self.0, request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

fn note_spans(shared: &Shared, request: ExportTraceServiceRequest) {
    let mut spans = Vec::new();
    for of in request.resource_spans {
        let resource = attributes_of(of.resource.unwrap_or_default().attributes);
        let all = of.scope_spans.into_iter().flat_map(|of| of.spans);
        spans.extend(all.map(|span| received(span, resource.clone())));
    }
    shared.lock().unwrap_or_else(PoisonError::into_inner).spans.extend(spans);
}

fn received(span: Span, resource: Attributes) -> ReceivedSpan {
    ReceivedSpan {
        trace: hexadecimal(&span.trace_id),
        id: hexadecimal(&span.span_id),
        parent: hexadecimal(&span.parent_span_id),
        name: span.name,
        kind: span.kind,
        time: (span.start_time_unix_nano, span.end_time_unix_nano),
        attributes: attributes_of(span.attributes),
        events: span.events.into_iter().map(|event| (event.name, attributes_of(event.attributes))).collect(),
        is_error: span.status.is_some_and(|status| status.code == 2),
        resource,
    }
}

fn attributes_of(attributes: Vec<KeyValue>) -> Attributes {
    let value = |any: Option<Any>| match any {
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::BoolValue(value)) => json!(value),
        Some(Any::IntValue(number)) => json!(number),
        Some(Any::DoubleValue(number)) => json!(number),
        _ => Value::Null,
    };
    attributes.into_iter().map(|pair| (pair.key, value(pair.value.and_then(|value| value.value)))).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
