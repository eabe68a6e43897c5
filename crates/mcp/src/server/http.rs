//! HTTP servers and their three transports: streamable HTTP in two protocol eras, and its predecessor with SSE: an open
//! event stream whose first event names a URL for posting messages.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{Stream, StreamExt as _};
use reqwest::{
    Client, Url,
    header::{ACCEPT, HeaderName, HeaderValue},
};
use rmcp::{
    RoleClient,
    model::ClientJsonRpcMessage,
    service::{
        ClientInitializeError, RunningService, RxJsonRpcMessage, TxJsonRpcMessage, serve_client,
        serve_client_with_lifecycle,
    },
    transport::{
        AuthClient, DynamicTransportError, StreamableHttpClientTransport, Transport,
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
            StreamableHttpResponseLimits,
        },
    },
};
use secrecy::SecretString;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    config::HttpWire,
    http_client::client,
    log::Log,
    login::{Logins, Refusal, ServerUrl},
    reason::{Reason, SecretFilter},
    server::{
        connect::{Era, InitError},
        handler::{BoundedTransport, Handler},
    },
};

/// URL of a server, and everything needed to connect to it.
pub(super) struct Address<'a> {
    pub(super) server_url: ServerUrl<'a>,
    pub(super) headers: &'a BTreeMap<String, SecretString>,
    pub(super) wire: HttpWire,
    /// Time limit for the server to prove that it supports the newer era, if that is unknown.
    pub(super) probe_limit: Option<Duration>,
    pub(super) logins: &'a Logins,
    pub(super) clean: &'a SecretFilter,
    pub(super) log: &'a Arc<Log>,
}

impl Address<'_> {
    /// Initialises the server in this era. In the older era, also tries the SSE transport if it is configured.
    pub(super) async fn initialize(
        &self,
        handler: &Handler,
        era: Era,
    ) -> Result<RunningService<RoleClient, Handler>, InitError> {
        let client = client(self.headers, &self.logins.routes)
            .map_err(|error| Reason::new(format!("could not prepare the request: {}", error.without_url())))?;
        let handshake = self.streamable(client.clone(), era, handler);
        if era == Era::Discover {
            let Some(limit) = self.probe_limit else { return handshake.await };
            // No proof of the newer era within the limit.
            let silence = InitError { reason: None, is_era_mismatch: true, is_final: false };
            return timeout(limit, handshake).await.unwrap_or(Err(silence));
        }
        match handshake.await {
            Err(init_error) if init_error.is_era_mismatch && self.wire == HttpWire::Sse => {
                let stream =
                    EventStream::open(client, self.server_url.url, &self.route()).await.map_err(Reason::new)?;
                let handshake = serve_client(handler.clone(), self.with_limits(stream));
                handshake.await.map_err(|error| self.start_failure(&error).into())
            }
            initialized => initialized,
        }
    }

    /// Initialises the server over streamable HTTP.
    async fn streamable(
        &self,
        client: Client,
        era: Era,
        handler: &Handler,
    ) -> Result<RunningService<RoleClient, Handler>, InitError> {
        match self.logins.manager(self.server_url, self.log).await {
            Ok(Some(manager)) => self.initialize_with(AuthClient::new(client, manager), era, handler).await,
            Ok(None) => self.initialize_with(client, era, handler).await,
            Err(reason) => {
                let reason = Reason::of_server("its login metadata is invalid", &reason, self.clean);
                Err(InitError { is_era_mismatch: era == Era::Initialize, ..reason.into() })
            }
        }
    }

    async fn initialize_with<C: StreamableHttpClient + Sync>(
        &self,
        client: C,
        era: Era,
        handler: &Handler,
    ) -> Result<RunningService<RoleClient, Handler>, InitError> {
        let config = StreamableHttpClientTransportConfig::with_uri(self.server_url.url)
            .max_sse_event_size(MAX_MESSAGE)
            // The library would repeat unanswered requests, but a call must never be sent twice.
            .reinit_on_expired_session(false);
        let cancelled = CancellationToken::new();
        let guard = cancelled.clone().drop_guard();
        let transport = StreamableHttpClientTransport::with_client(HandshakeClient { client, cancelled }, config);
        let handshake = serve_client_with_lifecycle(handler.clone(), self.with_limits(transport), era.lifecycle());
        let service = handshake.await.map_err(|error| match Refusal::of_initialization(&error) {
            Some(refusal) => self.refused(&refusal).into(),
            None => {
                let init_error = InitError::of(era, &error, self.start_failure(&error));
                InitError { is_era_mismatch: init_error.is_era_mismatch || era == Era::Initialize, ..init_error }
            }
        })?;
        guard.disarm();
        Ok(service)
    }

    fn route(&self) -> String {
        self.logins.routes.of(&self.normalized_url()).to_string()
    }

    /// Returns the URL in the normalised form that clients request.
    fn normalized_url(&self) -> String {
        Url::parse(self.server_url.url).map(String::from).unwrap_or_default()
    }

    fn with_limits<T>(&self, transport: T) -> BoundedTransport<T> {
        BoundedTransport::new(transport, Arc::clone(self.log))
    }

    /// Returns the reason for an authorisation error, with a suggestion.
    pub(super) fn refused(&self, refusal: &Refusal) -> Reason {
        self.logins.refused(self.server_url, refusal, self.clean)
    }

    /// Returns the reason for a failed start, with the network route. The URL is removed, because it may contain a key.
    fn start_failure(&self, error: &ClientInitializeError) -> Reason {
        let (urls, clean) = ([self.server_url.url.to_owned(), self.normalized_url()], self.clean.clone());
        let without_url = SecretFilter::new(move |text| {
            let urls = urls.iter().filter(|url| !url.is_empty());
            clean.redact(&urls.fold(text.to_owned(), |text, url| text.replace(url, "[its address]")))
        });
        let reason = Reason::of_greeting(error, &without_url);
        let is_transport_error = matches!(error, ClientInitializeError::TransportError { .. });
        if is_transport_error { reason.by(&self.route()) } else { reason }
    }
}

/// Returns true if sending failed because the server has forgotten the session. Nothing on this connection will be
/// answered any more.
pub(super) fn is_session_lost(error: &DynamicTransportError) -> bool {
    let error = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(error, Some(StreamableHttpError::SessionExpired))
}

/// Client whose requests end when their initialisation fails or is cancelled. The library's worker would wait for the
/// first response regardless.
#[derive(Clone)]
struct HandshakeClient<C> {
    client: C,
    cancelled: CancellationToken,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Outcome<T, C> = Result<T, StreamableHttpError<<C as StreamableHttpClient>::Error>>;

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for HandshakeClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Outcome<StreamableHttpPostResponse, C> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(url, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Outcome<StreamableHttpPostResponse, C> {
        let posting = self.client.post_message_with_response_limits(url, message, session, token, headers, limits);
        let outcome = self.cancelled.run_until_cancelled(posting).await;
        Ok(match outcome.ok_or(StreamableHttpError::TransportChannelClosed)?? {
            StreamableHttpPostResponse::Sse(events, session) => {
                let events = events.take_until(self.cancelled.clone().cancelled_owned()).boxed();
                StreamableHttpPostResponse::Sse(events, session)
            }
            response => response,
        })
    }

    fn delete_session(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> impl Future<Output = Outcome<(), C>> + Send + '_ {
        self.client.delete_session(url, session, token, headers)
    }

    fn get_stream(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> impl Future<Output = Outcome<BoxedSseResponse, C>> + Send + '_ {
        self.client.get_stream_with_max_sse_event_size(url, session, last_event, token, headers, MAX_MESSAGE)
    }
}

/// Maximum size of a message, in bytes.
const MAX_MESSAGE: usize = 16 << 20;

/// Transport over HTTP with SSE.
struct EventStream {
    client: Client,
    /// URL for posting messages.
    post: Url,
    /// Event stream, or `None` once it is closed.
    events: Option<Events>,
}

/// Byte stream, and the events parsed from it but not returned yet.
struct Events {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    parser: Parser,
}

impl EventStream {
    /// Opens the stream and waits for the URL.
    async fn open(client: Client, url: &str, route: &str) -> Result<Self, String> {
        let unreachable = |error: reqwest::Error| format!("could not reach it {route}: {}", error.without_url());
        let response = client.get(url).header(ACCEPT, "text/event-stream").send().await.map_err(unreachable)?;
        if !response.status().is_success() {
            return Err(format!("it answered {} to a request for its events", response.status()));
        }
        let base = response.url().clone();
        let bytes = response.bytes_stream().map(|piece| piece.map(|piece| piece.to_vec()));
        let mut events = Events { bytes: Box::pin(bytes), parser: Parser::default() };
        loop {
            match events.next().await {
                Some(Event { name, data }) if name == "endpoint" => {
                    let post = base.join(data.trim()).map_err(|_| "it sent an invalid message endpoint".to_owned())?;
                    // Keys are sent with every message, and must stay within their intended origin.
                    if post.origin() != base.origin() {
                        return Err("its message endpoint is on another origin".to_owned());
                    }
                    return Ok(Self { client, post, events: Some(events) });
                }
                Some(_) => {}
                None => return Err("its event stream ended before the message endpoint".to_owned()),
            }
        }
    }
}

impl Transport<RoleClient> for EventStream {
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let request = self.client.post(self.post.clone()).json(&item);
        async move {
            let response = request.send().await.and_then(reqwest::Response::error_for_status);
            response.map(drop).map_err(|error| io::Error::other(error.without_url()))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = self.events.as_mut()?.next().await?;
            if (event.name.is_empty() || event.name == "message")
                && let Ok(message) = serde_json::from_str(&event.data)
            {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.events = None;
        Ok(())
    }
}

impl Events {
    /// Returns the next event, or `None` at the end of the stream, on an error, or if an event is too long. Cancel
    /// safe.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.parser.ready.pop_front() {
                return Some(event);
            }
            if self.parser.buffered() > MAX_MESSAGE {
                return None;
            }
            let piece = self.bytes.next().await?.ok()?;
            self.parser.feed(&piece);
        }
    }
}

/// Event of a server-sent event stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Event {
    name: String,
    data: String,
}

/// Incremental parser of events.
#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    /// True if the last byte was `\r`, which may be the first half of a line end.
    after_return: bool,
    event: Event,
    has_data: bool,
    ready: VecDeque<Event>,
}

impl Parser {
    fn buffered(&self) -> usize {
        self.line.len() + self.event.data.len()
    }

    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.end_line(&String::from_utf8_lossy(&line));
                }
                _ => {
                    self.after_return = false;
                    self.line.push(*byte);
                }
            }
        }
    }

    fn end_line(&mut self, line: &str) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                self.ready.push_back(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::route::Routes;
    use proptest::prelude::*;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn abandoned_handshake_leaves_no_request() {
        let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        for (era, response) in [(Era::Discover, ""), (Era::Discover, stream), (Era::Initialize, "")] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let received = tokio::spawn(async move {
                let (mut socket, mut received) = (listener.accept().await.unwrap().0, Vec::new());
                socket.read_buf(&mut received).await.unwrap();
                socket.write_all(response.as_bytes()).await.unwrap();
                let _ = socket.read_to_end(&mut received).await;
                String::from_utf8_lossy(&received).into_owned()
            });
            let (headers, logins) = (BTreeMap::new(), Logins::disabled(Routes::default()));
            let (clean, log) = (SecretFilter::default(), Arc::default());
            let address = Address {
                server_url: ServerUrl { server: "s", url: &url, client: None },
                headers: &headers,
                wire: HttpWire::Streamable,
                probe_limit: Some(Duration::from_millis(200)),
                logins: &logins,
                clean: &clean,
                log: &log,
            };
            let handler = Handler {
                server: "s".to_owned(),
                calls: Arc::default(),
                log: Arc::clone(&log),
                sampling: Default::default(),
                changed: Arc::default(),
            };
            let initialized = timeout(Duration::from_millis(400), address.initialize(&handler, era)).await;
            assert!(!matches!(initialized, Ok(Ok(_))), "the initialisation succeeded without a response");
            let received = timeout(Duration::from_secs(5), received).await.expect("the request is still open").unwrap();
            assert!(
                received.contains(if era == Era::Discover { "server/discover" } else { "initialize" }),
                "{received}"
            );
        }
    }

    fn events(pieces: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        pieces.iter().for_each(|piece| parser.feed(piece));
        parser.ready.into()
    }

    proptest! {
        #[test]
        fn sse_events_are_independent_of_chunking(text in "(event: a|data: b|:c|\r\n|\n|\r|d){0,30}", cut in 0..60usize) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(events(&[&bytes[..cut], &bytes[cut..]]), events(&[bytes]));
        }
    }
}
