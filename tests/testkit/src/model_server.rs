//! A model server over real HTTP on loopback, with scripted replies: valid, broken, slow, or missing.
//!
//! It supports chat completions (`…/chat/completions`, `…/models`), OpenAI's Responses (`…/responses`), Anthropic's
//! Messages (`…/messages`) and llama.cpp's `/completion`, and renders the same [`Reply`] for each of them. Like a
//! provider, it rejects a chat request that breaks a rule of [`crate::validator`] with 400, before it consults the
//! script.
//!
//! - [`Reply`]: content and delivery of a reply; deserialisable from JSON, for scripts.
//! - [`providers`]: servers with additional requirements.
//! - `chat_view`: requests to Messages and Responses, converted to chat completions.
//! - `documents`: the list of models, and other documents about models.
//! - `render`: a reply as bytes; `delivery`: sending the bytes, with pauses, cuts and hangs.
//! - [`Script`]: selects the next reply; [`command`]: the server as a standalone program.

pub(crate) mod chat_view;
pub mod command;
mod delivery;
mod documents;
pub mod providers;
mod render;
mod reply;
mod script;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::Response,
    serve::ListenerExt,
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use self::{
    chat_view::TestWire,
    documents::{DocumentReply, Documents},
    providers::StrictServer,
    render::Wire,
};
pub use self::{
    documents::listing,
    providers::Provider,
    render::fast_text,
    reply::{Reply, ReplyCall, UsagePlace},
    script::Script,
};
use crate::validator;

/// ID of the only model that the server lists by default.
pub const MODEL_ID: &str = "scripted-model";

/// A request, as recorded.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Number of the request, from 0.
    pub number: usize,
    /// Path of the request.
    pub path: String,
    /// Headers, by lowercase name.
    pub headers: BTreeMap<String, String>,
    /// The body; null if it is not valid JSON.
    pub body: Value,
    /// The body, byte for byte.
    pub text: String,
    /// The rule that the request broke, if the request was rejected.
    pub refused: Option<String>,
}

impl Recorded {
    /// Returns the messages of a chat request.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the body as sent, even if `body` is a view of it.
    pub fn sent(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// Returns the API key from the header that the wire uses, or an empty string if there is none.
    pub fn key(&self) -> &str {
        let sent = self.headers.get("x-api-key").or(self.headers.get("authorization"));
        sent.map(|sent| sent.trim_start_matches("Bearer ")).unwrap_or_default()
    }

    /// Returns the text of the last user message, or the prompt of a completion.
    pub fn last_user(&self) -> &str {
        let user = self.messages().iter().rev().find(|message| message["role"] == "user");
        let content = user.map_or(&self.body["prompt"], |message| &message["content"]);
        let last_block = || content.as_array()?.iter().rev().find_map(|block| block["text"].as_str());
        content.as_str().or_else(last_block).unwrap_or_default()
    }

    /// Returns the role of the last message, or an empty string for a completion.
    pub fn last_role(&self) -> &str {
        self.messages().last().and_then(|message| message["role"].as_str()).unwrap_or_default()
    }
}

/// Number of requests and responses, by how the responses ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were received.
    pub requests: usize,
    /// Responses that were sent completely.
    pub finished: usize,
    /// Responses that were dropped because the client disconnected.
    pub dropped: usize,
}

/// Headers of a request, by lowercase name.
pub type RequestHeaders = BTreeMap<String, String>;

/// Check of a request's path with its query, and of its headers. Returns the status and the reason of a refusal.
struct Gate(Box<dyn Fn(&str, &RequestHeaders) -> Result<(), (u16, String)> + Send + Sync>);

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

/// A running server, which stops when dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    requests: Mutex<Vec<Recorded>>,
    documents: Mutex<Documents>,
    strict: Mutex<Option<StrictServer>>,
    gate: Mutex<Option<Gate>>,
    counts: watch::Sender<Counts>,
    /// True if requests that break the providers' rules are accepted.
    lenient: AtomicBool,
    /// True if request bodies are ignored.
    unread: AtomicBool,
    stop: CancellationToken,
    release_held_reply: Arc<Notify>,
}

impl ModelServer {
    /// Starts a server on a free loopback port.
    ///
    /// # Panics
    /// Panics if there is no free port.
    pub async fn start() -> Self {
        Self::start_with(Script::default()).await
    }

    /// Starts a server with a script.
    ///
    /// # Panics
    /// Panics if there is no free port.
    #[expect(clippy::panic, reason = "a test cannot continue without its server")]
    pub async fn start_with(script: Script) -> Self {
        match Self::bind(SocketAddr::from(([127, 0, 0, 1], 0)), script).await {
            Ok(server) => server,
            Err(error) => panic!("could not listen on loopback: {error}"),
        }
    }

    /// Starts a server at an address.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn bind(address: SocketAddr, script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            requests: Mutex::default(),
            documents: Mutex::default(),
            strict: Mutex::default(),
            gate: Mutex::default(),
            counts: watch::Sender::default(),
            lenient: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            stop: CancellationToken::new(),
            release_held_reply: Arc::default(),
        });
        let listener = listener.tap_io(|stream| {
            // Without this, Nagle's algorithm delays small events. A failure only makes them slower.
            let _ = stream.set_nodelay(true);
        });
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let task = tokio::spawn(async move {
            // This only returns when the server task ends.
            let _ = axum::serve(listener, router).await;
        });
        let server = Self { address, shared, task };
        match chat_view::wire() {
            Some(TestWire::Messages) => {
                let mut model = providers::thinking_model(MODEL_ID);
                // As with chat completions, support for images is unspecified.
                model["capabilities"]["image_input"] = Value::Null;
                server.acts_as(Provider::Anthropic).lists([model]);
            }
            Some(TestWire::Responses) => {
                server.acts_as(Provider::OpenAi);
            }
            None => {}
        }
        Ok(server)
    }

    /// Returns the base URL for chat completions, as set in `base_url` or `MODEL_BASIC_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.root_url())
    }

    /// Returns the base URL for llama.cpp's `/completion`.
    pub fn root_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a reply to the end of the queue.
    pub fn reply(&self, reply: Reply) -> &Self {
        self.script().push(reply);
        self
    }

    /// Sets the reply that is sent when the queue is empty.
    pub fn default_reply(&self, reply: Reply) -> &Self {
        self.respond_with(move |_| reply.clone())
    }

    /// Sets a function that replies when the queue is empty.
    pub fn respond_with(&self, respond: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> &Self {
        self.script().respond_with(respond);
        self
    }

    /// Lists these models instead of [`MODEL_ID`].
    pub fn lists(&self, models: impl IntoIterator<Item = Value>) -> &Self {
        self.serves("/v1/models", documents::listing(models))
    }

    /// Serves this document at a path, such as `/props`.
    pub fn serves(&self, path: &str, document: Value) -> &Self {
        locked(&self.shared.documents).set(path, DocumentReply::Content(document));
        self
    }

    /// Responds with 404 at a path.
    pub fn lacks(&self, path: &str) -> &Self {
        locked(&self.shared.documents).set(path, DocumentReply::Missing);
        self
    }

    /// Never responds to requests for the document at a path.
    pub fn hangs_at(&self, path: &str) -> &Self {
        locked(&self.shared.documents).set(path, DocumentReply::Silence);
        self
    }

    /// Returns the paths of requested documents, oldest first.
    pub fn requested_documents(&self) -> Vec<String> {
        locked(&self.shared.documents).asked.clone()
    }

    /// Enforces the provider's requirements, and replies in the provider's form.
    pub fn acts_as(&self, provider: Provider) -> &Self {
        if let Some(models) = provider.models() {
            self.serves("/v1/models", models);
        }
        *locked(&self.shared.strict) = Some(StrictServer::new(provider));
        self
    }

    /// Checks the path, the query and the headers of all requests, including those for documents, before anything else.
    pub fn guarded_by(
        &self,
        check: impl Fn(&str, &RequestHeaders) -> Result<(), (u16, String)> + Send + Sync + 'static,
    ) -> &Self {
        *locked(&self.shared.gate) = Some(Gate(Box::new(check)));
        self
    }

    /// Accepts requests that break the providers' rules, for tests that send such requests.
    pub fn lenient(&self) -> &Self {
        self.shared.lenient.store(true, Ordering::Relaxed);
        self
    }

    /// Neither parses nor records request bodies. Benchmarks use this, because the time for parsing a request would be
    /// attributed to the client.
    pub fn ignore_bodies(&self) -> &Self {
        self.shared.unread.store(true, Ordering::Relaxed);
        self
    }

    /// Returns the rules that rejected requests have broken, oldest first.
    pub fn refusals(&self) -> Vec<String> {
        locked(&self.shared.requests).iter().filter_map(|request| request.refused.clone()).collect()
    }

    /// Returns the recorded requests, oldest first, without requests for the list of models.
    pub fn requests(&self) -> Vec<Recorded> {
        locked(&self.shared.requests).clone()
    }

    /// Returns the number of queued replies.
    pub fn waiting_replies(&self) -> usize {
        self.script().waiting()
    }

    /// Releases the reply that is being held, or the next reply that would be held.
    pub fn release_held_reply(&self) {
        self.shared.release_held_reply.notify_one();
    }

    /// Returns the number of requests, and how the responses ended.
    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Waits until the counts satisfy a condition.
    ///
    /// # Panics
    /// Panics if the condition is not satisfied within 30 seconds.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn wait_until(&self, wanted: impl FnMut(&Counts) -> bool) -> Counts {
        let mut counts = self.shared.counts.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(30), counts.wait_for(wanted)).await;
        match waited {
            Ok(Ok(counts)) => *counts,
            _ => panic!("timed out waiting for requests; the counts are {:?}", self.counts()),
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        locked(&self.shared.script)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.task.abort();
    }
}

impl Shared {
    /// Returns the rejection of a chat request with the rule that the request breaks, if any.
    fn refusal(&self, path: &str, headers: &BTreeMap<String, String>, body: &[u8]) -> Option<(String, Reply)> {
        let strict = locked(&self.strict);
        match Wire::of(path) {
            Wire::Completion => return None,
            Wire::Messages => return providers::messages_refusal(strict.as_ref(), headers, body),
            Wire::Responses => return providers::responses_refusal(strict.as_ref(), body),
            Wire::Chat => {}
        }
        let leeway = strict.as_ref().map(|strict| strict.provider.leeway()).unwrap_or_default();
        if let Err(broken) = validator::chat_completions_of(body, leeway) {
            let rule = broken.to_string();
            return Some((rule.clone(), Reply::refusal(400, &rule)));
        }
        let reply = strict.as_ref()?.refuses(&serde_json::from_slice(body).ok()?)?;
        Some((reply.body.clone().unwrap_or_default(), reply))
    }

    fn reply_to(&self, request: &Recorded) -> Reply {
        let reply = locked(&self.script).next(request);
        match &mut *locked(&self.strict) {
            Some(strict) => strict.dressed(reply, &request.text),
            None => reply,
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let headers = || -> RequestHeaders {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect()
    };
    let target = head.uri.path_and_query().map_or(path.as_str(), |target| target.as_str());
    let passed = locked(&shared.gate).as_ref().map_or(Ok(()), |Gate(check)| check(target, &headers()));
    if let Err((status, reason)) = passed {
        let error = json!({"error": {"message": reason}}).to_string();
        return respond(StatusCode::from_u16(status).unwrap_or_default(), "application/json", Body::from(error));
    }
    let document = locked(&shared.documents).ask(&path);
    match document {
        Some(DocumentReply::Content(document)) => {
            return respond(StatusCode::OK, "application/json", Body::from(document.to_string()));
        }
        Some(DocumentReply::Silence) => std::future::pending::<()>().await,
        Some(DocumentReply::Missing) | None => {}
    }
    if !["/chat/completions", "/completion", "/messages", "/responses"].iter().any(|call| path.ends_with(call)) {
        return respond(
            StatusCode::NOT_FOUND,
            "application/json",
            Body::from(r#"{"error":{"message":"no such path"}}"#),
        );
    }
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return respond(StatusCode::BAD_REQUEST, "text/plain", Body::from("the request body is incomplete"));
    };
    if shared.unread.load(Ordering::Relaxed) {
        return answer_unread(&shared, path).await;
    }
    let headers = headers();
    let checked = !shared.lenient.load(Ordering::Relaxed);
    let refusal = if checked { shared.refusal(&path, &headers, &body) } else { None };
    let recorded = {
        let mut requests = locked(&shared.requests);
        let text = String::from_utf8_lossy(&body).into_owned();
        let mut body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if let Some(view) = chat_view::of(&path, &body) {
            body = view;
        }
        let refused = refusal.as_ref().map(|(rule, _)| rule.clone());
        if let Some(rule) = refused.as_ref().filter(|_| chat_view::wire().is_some()) {
            eprintln!("refused: {rule}");
        }
        let recorded = Recorded { number: requests.len(), path, headers, body, text, refused };
        requests.push(recorded.clone());
        recorded
    };
    // The reply is chosen before the count is incremented, so that the script has advanced when a test sees the new
    // count.
    let reply = match refusal {
        Some((_, reply)) => reply,
        None => shared.reply_to(&recorded),
    };
    shared.counts.send_modify(|counts| counts.requests += 1);
    delivery::deliver(reply, &recorded, shared.counts.clone(), shared.stop.clone(), shared.release_held_reply.clone())
        .await
}

async fn answer_unread(shared: &Shared, path: String) -> Response {
    let number = shared.counts.borrow().requests;
    // These are the options that the daemon sends with every request.
    let body = json!({"stream": true, "stream_options": {"include_usage": true}});
    let request = Recorded { number, path, headers: BTreeMap::new(), body, text: String::new(), refused: None };
    let reply = shared.reply_to(&request);
    shared.counts.send_modify(|counts| counts.requests += 1);
    delivery::deliver(reply, &request, shared.counts.clone(), shared.stop.clone(), shared.release_held_reply.clone())
        .await
}

fn respond(status: StatusCode, content_type: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Ok(value) = content_type.parse() {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
