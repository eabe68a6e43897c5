//! A strict server for embeddings on loopback. Its vectors are deterministic: bags of hashed words, in which synonyms
//! are the same word. Requests that the real servers refuse are refused, and recorded as such.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// Key that the server accepts.
pub const EMBEDDING_KEY: &str = "embedding-key-7";
/// IDs of the models that the server offers.
pub const EMBEDDING_MODELS: [&str; 2] = ["small-embedder", "large-embedder"];

/// Maximum number of texts in one request, and maximum size of a text in bytes.
const MAX_TEXTS: usize = 64;
const MAX_TEXT: usize = 2048;

/// Words that have the same meaning.
const SYNONYMS: [&[&str]; 4] = [
    &["car", "automobile", "vehicle", "auto"],
    &["repair", "mend", "fix", "reparieren"],
    &["invoice", "bill", "rechnung"],
    &["settle", "pay", "bezahlen"],
];

/// Behaviour of the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum EmbeddingBehaviour {
    /// Returns a vector for each text.
    #[default]
    Answers,
    /// Returns this body with status 200.
    Raw(String),
    /// Refuses each request with this status.
    Refuses(u16),
    /// Refuses each request after this number of requests with texts.
    RefusesAfter(usize),
    /// Never sends a response.
    Hangs,
}

#[derive(Debug, Default)]
struct Received {
    behaviour: EmbeddingBehaviour,
    dimension: usize,
    /// Texts of each accepted request.
    requests: Vec<Vec<String>>,
    refusals: Vec<String>,
}

type Shared = Arc<Mutex<Received>>;

/// A running server, which stops when dropped.
#[derive(Debug)]
pub struct EmbeddingServer {
    address: SocketAddr,
    received: Shared,
    task: JoinHandle<()>,
}

impl Drop for EmbeddingServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EmbeddingServer {
    /// Starts a server on a free loopback port.
    ///
    /// # Panics
    /// Panics if there is no free port.
    #[expect(clippy::expect_used, reason = "a test cannot continue without its server")]
    pub async fn start() -> Self {
        let received: Shared = Arc::new(Mutex::new(Received { dimension: 512, ..Received::default() }));
        let router = Router::new().route("/v1/embeddings", post(embeddings)).with_state(Arc::clone(&received));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let task = tokio::spawn(async move {
            // This only returns when the task ends.
            let _ = axum::serve(listener, router).await;
        });
        Self { address, received, task }
    }

    /// Returns the base URL, as set in `base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Sets the behaviour from the next request on.
    pub fn behaves(&self, behaviour: EmbeddingBehaviour) {
        locked(&self.received).behaviour = behaviour;
    }

    /// Sets the size of the vectors from the next request on.
    pub fn has_dimension(&self, dimension: usize) {
        locked(&self.received).dimension = dimension;
    }

    /// Returns the texts of each accepted request since the last call.
    pub fn take_requests(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut locked(&self.received).requests)
    }

    /// Returns the rules that requests have broken.
    pub fn refusals(&self) -> Vec<String> {
        locked(&self.received).refusals.clone()
    }
}

fn locked(received: &Shared) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn embeddings(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let (behaviour, answer) = {
        let mut received = locked(&shared);
        match accepted(&headers, &body) {
            Err(rule) => {
                received.refusals.push(rule.clone());
                return refusal(400, &rule);
            }
            Ok((model, texts)) => {
                let behaviour = match received.behaviour.clone() {
                    EmbeddingBehaviour::RefusesAfter(0) => EmbeddingBehaviour::Refuses(400),
                    EmbeddingBehaviour::RefusesAfter(left) => {
                        received.behaviour = EmbeddingBehaviour::RefusesAfter(left - 1);
                        EmbeddingBehaviour::Answers
                    }
                    other => other,
                };
                let answer = answer(&model, &texts, received.dimension);
                if behaviour == EmbeddingBehaviour::Answers {
                    received.requests.push(texts);
                }
                (behaviour, answer)
            }
        }
    };
    match behaviour {
        EmbeddingBehaviour::Answers | EmbeddingBehaviour::RefusesAfter(_) => Json(answer).into_response(),
        EmbeddingBehaviour::Raw(body) => body.into_response(),
        EmbeddingBehaviour::Refuses(status) => refusal(status, "the texts are refused"),
        EmbeddingBehaviour::Hangs => std::future::pending().await,
    }
}

fn refusal(status: u16, message: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    (status, Json(json!({"error": {"message": message, "type": "invalid_request_error"}}))).into_response()
}

/// Returns the model and the texts of a request, or the rule that it breaks.
fn accepted(headers: &HeaderMap, body: &[u8]) -> Result<(String, Vec<String>), String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let require = |is_met: bool, rule: &str| if is_met { Ok(()) } else { Err(rule.to_owned()) };
    require(header("authorization") == format!("Bearer {EMBEDDING_KEY}"), "a wrong key")?;
    require(header("content-type") == "application/json", "a content type that is not JSON")?;
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let fields: BTreeSet<&str> = body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    require(fields == BTreeSet::from(["encoding_format", "input", "model"]), "unknown or missing fields")?;
    require(body["encoding_format"] == "float", "an encoding other than float")?;
    let model = body["model"].as_str().unwrap_or_default();
    require(EMBEDDING_MODELS.contains(&model), "an unknown model")?;
    let texts = body["input"].as_array().into_iter().flatten();
    let texts: Vec<String> = texts.map(|text| text.as_str().unwrap_or_default().to_owned()).collect();
    require((1..=MAX_TEXTS).contains(&texts.len()), "too few or too many texts")?;
    require(texts.iter().all(|text| !text.trim().is_empty() && text.len() <= MAX_TEXT), "an empty or too long text")?;
    Ok((model.to_owned(), texts))
}

/// Returns the vectors of texts, in reverse order, since only `index` counts.
fn answer(model: &str, texts: &[String], dimension: usize) -> Value {
    let entries = texts.iter().enumerate().rev();
    let data: Vec<Value> = entries
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text, dimension)}))
        .collect();
    let tokens = texts.iter().map(|text| text.split_whitespace().count()).sum::<usize>();
    json!({
        "object": "list", "model": model, "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })
}

/// Returns the counts of the words in a text, by their hashes.
fn vector(text: &str, dimension: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dimension];
    for word in text.split(|letter: char| !letter.is_alphabetic()).filter(|word| word.len() > 2) {
        let word = word.to_lowercase();
        let word = SYNONYMS.iter().find(|group| group.contains(&&*word)).map_or(&*word, |group| group[0]);
        let place = (agentd_core::embedding::digest(word) % dimension as u64) as usize;
        if let Some(number) = vector.get_mut(place) {
            *number += 0.25;
        }
    }
    vector
}
