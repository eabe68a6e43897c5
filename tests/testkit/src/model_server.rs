//! A model server over real HTTP on loopback, that answers as scripted: well, badly, slowly, or never.
//!
//! It speaks chat completions (`…/chat/completions`, `…/models`), OpenAI's Responses (`…/responses`), Anthropic's Messages
//! (`…/messages`) and llama.cpp's `/completion`, and renders the same [`Reply`] in whichever is asked for. As a provider would, it refuses a chat request that breaks a rule of
//! [`crate::validator`] with 400, and does so before it looks at its script.
//!
//! - [`Reply`]: what is answered and how it travels; readable from JSON, for scripts.
//! - [`providers`]: servers that demand what others do not.
//! - `chat_view`: requests to Messages and Responses as the other wire would have had them.
//! - `documents`: the list of models, and what else is told of them.
//! - `render`: a reply as bytes; `delivery`: the bytes on their way, with pauses, cuts and silence.
//! - [`Script`]: which reply comes next; [`command`]: the server as a program of its own.

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
    documents::{Documents, Handing},
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

/// The id that the server lists as its only model.
pub const MODEL_ID: &str = "scripted-model";

/// A request that came.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its number, from 0.
    pub number: usize,
    /// Its path.
    pub path: String,
    /// Its headers, by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// Its body; null where it is no JSON.
    pub body: Value,
    /// The same, byte for byte.
    pub text: String,
    /// The rule that it broke, for which it was refused.
    pub refused: Option<String>,
}

impl Recorded {
    /// The messages of a chat request.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The body as it was sent, also where tests are shown another one.
    pub fn sent(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The key that came with it, in the header of its wire; empty where there was none.
    pub fn key(&self) -> &str {
        let sent = self.headers.get("x-api-key").or(self.headers.get("authorization"));
        sent.map(|sent| sent.trim_start_matches("Bearer ")).unwrap_or_default()
    }

    /// The words of the last message of the person, or the prompt of a completion.
    pub fn last_user(&self) -> &str {
        let user = self.messages().iter().rev().find(|message| message["role"] == "user");
        let words = user.map_or(&self.body["prompt"], |message| &message["content"]);
        let last_block = || words.as_array()?.iter().rev().find_map(|block| block["text"].as_str());
        words.as_str().or_else(last_block).unwrap_or_default()
    }

    /// The role of the last message; empty for a completion.
    pub fn last_role(&self) -> &str {
        self.messages().last().and_then(|message| message["role"].as_str()).unwrap_or_default()
    }
}

/// How many requests came, and how their answers ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came.
    pub requests: usize,
    /// Answers that were sent to their end.
    pub finished: usize,
    /// Answers that were dropped in the middle, because the client went away.
    pub dropped: usize,
}

/// A running server. Dropping it ends it.
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
    counts: watch::Sender<Counts>,
    /// Set if requests that break the rules of providers are answered all the same.
    lenient: AtomicBool,
    /// Set if requests are answered unread.
    unread: AtomicBool,
    stop: CancellationToken,
    go_on: Arc<Notify>,
}

impl ModelServer {
    /// Starts a server on a free port of loopback.
    ///
    /// # Panics
    /// Where no port of loopback can be had.
    pub async fn start() -> Self {
        Self::start_with(Script::default()).await
    }

    /// Starts a server that answers by a script.
    ///
    /// # Panics
    /// Where no port of loopback can be had.
    #[expect(clippy::panic, reason = "a test cannot go on without its server")]
    pub async fn start_with(script: Script) -> Self {
        match Self::bind(SocketAddr::from(([127, 0, 0, 1], 0)), script).await {
            Ok(server) => server,
            Err(error) => panic!("could not listen on loopback: {error}"),
        }
    }

    /// Starts a server at an address.
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub async fn bind(address: SocketAddr, script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            requests: Mutex::default(),
            documents: Mutex::default(),
            strict: Mutex::default(),
            counts: watch::Sender::default(),
            lenient: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            stop: CancellationToken::new(),
            go_on: Arc::default(),
        });
        let listener = listener.tap_io(|stream| {
            // Without it, small events would wait for each other; a failure only makes them slower.
            let _ = stream.set_nodelay(true);
        });
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let task = tokio::spawn(async move {
            // Serving ends only with its task.
            let _ = axum::serve(listener, router).await;
        });
        let server = Self { address, shared, task };
        match chat_view::wire() {
            Some(TestWire::Messages) => {
                let mut model = providers::thinking_model(MODEL_ID);
                // As over chat completions, nothing is said of pictures.
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

    /// Where chat completions live: the address that goes into `base_url` or `MODEL_BASIC_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.root_url())
    }

    /// Where llama.cpp's `/completion` lives.
    pub fn root_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a reply behind those that wait.
    pub fn reply(&self, reply: Reply) -> &Self {
        self.script().push(reply);
        self
    }

    /// Answers like this whenever no reply waits.
    pub fn default_reply(&self, reply: Reply) -> &Self {
        self.respond_with(move |_| reply.clone())
    }

    /// Answers by a function whenever no reply waits.
    pub fn respond_with(&self, respond: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> &Self {
        self.script().respond_with(respond);
        self
    }

    /// Lists these models in place of [`MODEL_ID`].
    pub fn lists(&self, models: impl IntoIterator<Item = Value>) -> &Self {
        self.tells("/v1/models", documents::listing(models))
    }

    /// Has this document at a path, such as `/props`.
    pub fn tells(&self, path: &str, document: Value) -> &Self {
        locked(&self.shared.documents).set(path, Handing::There(document));
        self
    }

    /// Has no document at a path.
    pub fn lacks(&self, path: &str) -> &Self {
        locked(&self.shared.documents).set(path, Handing::Missing);
        self
    }

    /// Says nothing where it is asked for the document at a path.
    pub fn is_silent_about(&self, path: &str) -> &Self {
        locked(&self.shared.documents).set(path, Handing::Silence);
        self
    }

    /// The paths of documents that it was asked for, oldest first.
    pub fn documents_asked(&self) -> Vec<String> {
        locked(&self.shared.documents).asked.clone()
    }

    /// Demands what this provider demands, and answers in its form.
    pub fn acts_as(&self, provider: Provider) -> &Self {
        if let Some(models) = provider.models() {
            self.tells("/v1/models", models);
        }
        *locked(&self.shared.strict) = Some(StrictServer::new(provider));
        self
    }

    /// Answers also requests that break the rules of providers, for tests whose requests are none.
    pub fn lenient(&self) -> &Self {
        self.shared.lenient.store(true, Ordering::Relaxed);
        self
    }

    /// Answers requests without a look at their bodies, and keeps none of them: for measures, in which the time that it takes
    /// to read a request would count as somebody's.
    pub fn reads_nothing(&self) -> &Self {
        self.shared.unread.store(true, Ordering::Relaxed);
        self
    }

    /// The rules for which requests were refused, oldest first.
    pub fn refusals(&self) -> Vec<String> {
        locked(&self.shared.requests).iter().filter_map(|request| request.refused.clone()).collect()
    }

    /// The requests that came, oldest first; questions for the list of models are not among them.
    pub fn requests(&self) -> Vec<Recorded> {
        locked(&self.shared.requests).clone()
    }

    /// The replies that still wait.
    pub fn waiting_replies(&self) -> usize {
        self.script().waiting()
    }

    /// Lets a reply that holds go on, or the next one that would.
    pub fn go_on(&self) {
        self.shared.go_on.notify_one();
    }

    /// How many requests came, and how their answers ended.
    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Waits until the counts are as wanted.
    ///
    /// # Panics
    /// Where that takes more than 30 seconds.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn wait_until(&self, wanted: impl FnMut(&Counts) -> bool) -> Counts {
        let mut counts = self.shared.counts.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(30), counts.wait_for(wanted)).await;
        match waited {
            Ok(Ok(counts)) => *counts,
            _ => panic!("the model server waited in vain; its counts are {:?}", self.counts()),
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
    /// The refusal of a chat request, with the rule that it breaks.
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
    let document = locked(&shared.documents).ask(&path);
    match document {
        Some(Handing::There(document)) => {
            return respond(StatusCode::OK, "application/json", Body::from(document.to_string()));
        }
        Some(Handing::Silence) => std::future::pending::<()>().await,
        Some(Handing::Missing) | None => {}
    }
    if !["/chat/completions", "/completion", "/messages", "/responses"].iter().any(|call| path.ends_with(call)) {
        return respond(
            StatusCode::NOT_FOUND,
            "application/json",
            Body::from(r#"{"error":{"message":"no such path"}}"#),
        );
    }
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return respond(StatusCode::BAD_REQUEST, "text/plain", Body::from("the body broke off"));
    };
    if shared.unread.load(Ordering::Relaxed) {
        return answer_unread(&shared, path).await;
    }
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
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
    // Taken before the count goes up, so that whoever waits for the request finds the script moved on.
    let reply = match refusal {
        Some((_, reply)) => reply,
        None => shared.reply_to(&recorded),
    };
    shared.counts.send_modify(|counts| counts.requests += 1);
    delivery::deliver(reply, &recorded, shared.counts.clone(), shared.stop.clone(), shared.go_on.clone()).await
}

async fn answer_unread(shared: &Shared, path: String) -> Response {
    let number = shared.counts.borrow().requests;
    // What the daemon asks for in each of its requests.
    let body = json!({"stream": true, "stream_options": {"include_usage": true}});
    let request = Recorded { number, path, headers: BTreeMap::new(), body, text: String::new(), refused: None };
    let reply = shared.reply_to(&request);
    shared.counts.send_modify(|counts| counts.requests += 1);
    delivery::deliver(reply, &request, shared.counts.clone(), shared.stop.clone(), shared.go_on.clone()).await
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
