//! Implementation of the model port by the embedded model.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, mpsc::SyncSender},
    time::Instant,
};

use agentd_core::{
    error::{ErrorKind, ModelError},
    exchange::{ExchangeOutcome, ExchangeRecorder, ReceivedAnswer, SentRequest},
    model::{Finish, ModelChunk, ModelInfo, ModelRequest},
    ports::Model,
    tool::ToolSpec,
    usage::Usage,
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    config::{Counters, EmbeddedConfig, EmbeddedStatus, Neighbours},
    error::LoadError,
    harness::{self, Facts, Plan},
    worker::{self, Job, QUEUE_CAPACITY, WriteRequest},
};

/// Maximum number of answer pieces that wait for the reader. The model pauses when the queue is full.
const PIECE_QUEUE: usize = 32;

/// Model that runs in this process on the CPU.
///
/// Most requests are answered without running the model. Nothing is loaded before the first free text, and one thread
/// generates all texts sequentially. Dropping a stream cancels its request within a token, or within a chunk of 128
/// tokens while the prompt is evaluated.
pub struct EmbeddedModel {
    info: ModelInfo,
    path: PathBuf,
    facts: Facts,
    neighbours: Neighbours,
    counters: Arc<Counters>,
    /// Queue of the worker, or the reason why it could not be started.
    jobs: Result<SyncSender<Job>, Arc<io::Error>>,
    /// One permit for each slot in the worker's queue, so that sending never blocks.
    slots: Arc<Semaphore>,
}

impl EmbeddedModel {
    /// Creates a model that loads the configured file on first use. Requests fail while the file is missing.
    /// `neighbours` looks for model servers on this host, which the instructions to connect a model mention.
    pub fn new(config: EmbeddedConfig, neighbours: Neighbours) -> Arc<Self> {
        let info = ModelInfo {
            id: config.model_id(),
            wire: "embedded".to_owned(),
            context_window: u64::from(config.context),
            // The harness builds tool calls itself; they are never parsed from text.
            native_tools: true,
            embedded: true,
            ..ModelInfo::default()
        };
        let facts = Facts { name: config.name(), window: config.context };
        let counters = Arc::new(Counters::default());
        let path = config.path.clone();
        let jobs = worker::start(config, Arc::clone(&counters)).map_err(Arc::new);
        let slots = Arc::new(Semaphore::new(QUEUE_CAPACITY));
        Arc::new(Self { info, path, facts, neighbours, counters, jobs, slots })
    }

    /// Returns the state and counters of the model.
    pub fn status(&self) -> EmbeddedStatus {
        *self.counters.status()
    }

    /// Submits a text to the worker, and returns the receiver of its pieces.
    async fn submit(
        jobs: Result<SyncSender<Job>, Arc<io::Error>>,
        slots: Arc<Semaphore>,
        write_request: WriteRequest,
    ) -> Result<mpsc::Receiver<Result<ModelChunk, ModelError>>, ModelError> {
        let jobs = jobs.map_err(|error| {
            ModelError::new(ErrorKind::Internal, "could not start the thread of the built-in model")
                .with_hint("check the process's thread limit")
                .with_source(error)
        })?;
        let stopped = |_| ModelError::new(ErrorKind::ShuttingDown, "the built-in model has stopped");
        let slot = slots.acquire_owned().await.map_err(|_| stopped(()))?;
        let (reply, pieces) = mpsc::channel(PIECE_QUEUE);
        jobs.try_send(Job { write_request, reply, slot }).map_err(|_| stopped(()))?;
        Ok(pieces)
    }
}

impl Model for EmbeddedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        let mut recording = Recording::begin(&self.info.id, &request);
        let answer = match harness::plan(&request, &self.facts) {
            _ if !self.path.exists() => {
                let missing = LoadError::Missing { path: self.path.clone() };
                stream::once(std::future::ready(Err(missing.into()))).boxed()
            }
            Plan::Say(text) => single(ModelChunk::Text(text)),
            Plan::Call { tool, arguments } => single(ModelChunk::call(tool.to_owned(), arguments.to_string())),
            Plan::Connect(text, language) => {
                let found = (self.neighbours)();
                let text = found
                    .map(move |found| ModelChunk::Text(text + &harness::connect_instructions(language, found.first())));
                stream::once(text).flat_map(single).boxed()
            }
            Plan::Write { mark, text } => {
                let max_tokens = request.max_tokens.and_then(|tokens| usize::try_from(tokens).ok());
                let write_request = WriteRequest { mark, text, max_tokens };
                let submitted = Self::submit(self.jobs.clone(), Arc::clone(&self.slots), write_request);
                let pieces = stream::once(submitted).flat_map(|submitted| match submitted {
                    Ok(pieces) => stream::unfold(Some(pieces), next_piece).boxed(),
                    Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
                });
                pieces.boxed()
            }
        };
        answer.inspect(move |piece| recording.note(piece)).boxed()
    }
}

/// Returns a stream with a complete answer. The answer costs nothing, as it is produced locally.
fn single(chunk: ModelChunk) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
    let usage = Usage { cost_microusd: Some(0), ..Usage::default() };
    stream::iter([Ok(chunk), Ok(ModelChunk::Usage(usage)), Ok(ModelChunk::End(Finish::Stop))]).boxed()
}

type Pieces = mpsc::Receiver<Result<ModelChunk, ModelError>>;

/// Returns the next piece, or `None` after the regular end or an error. If the worker is gone before the end, returns
/// an error.
async fn next_piece(pieces: Option<Pieces>) -> Option<(Result<ModelChunk, ModelError>, Option<Pieces>)> {
    let mut pieces = pieces?;
    let piece = pieces.recv().await.unwrap_or_else(|| {
        let error = ModelError::new(ErrorKind::Internal, "the built-in model stopped before finishing its answer");
        Err(error.with_hint("retry"))
    });
    let is_last = matches!(piece, Ok(ModelChunk::End(_)) | Err(_));
    Some((piece, (!is_last).then_some(pieces)))
}

/// Maximum number of recorded answer bytes.
const MAX_TEXT: usize = 1 << 20;

/// Recording of an answer for the request's tap, from the request to the end of the answer. Contains the harness input
/// and the result, as no data is sent over a wire. Dropping the recording before the end records the answer as
/// abandoned.
struct Recording(Option<OpenRecording>);

struct OpenRecording {
    recorder: Arc<dyn ExchangeRecorder>,
    key: u64,
    started: Instant,
    text: String,
    calls: Vec<Value>,
    answer: ReceivedAnswer,
}

impl Recording {
    /// Starts a recording if the request has a recorder.
    fn begin(model: &str, request: &ModelRequest) -> Self {
        let open = request.tap.recorder().map(|recorder| {
            let body = body(request).to_string();
            let sent = SentRequest { wire: "embedded", model, url: "", headers: &[], attempt: 1, body: &body };
            let (key, recorder) = (recorder.sent(&sent), Arc::clone(recorder));
            let (text, calls, answer) = (String::new(), Vec::new(), ReceivedAnswer::default());
            OpenRecording { recorder, key, started: Instant::now(), text, calls, answer }
        });
        Self(open)
    }

    /// Records a piece of the answer.
    fn note(&mut self, piece: &Result<ModelChunk, ModelError>) {
        let Some(open) = &mut self.0 else { return };
        match piece {
            Ok(ModelChunk::End(_)) => return self.end(ExchangeOutcome::Whole, None),
            Err(error) => return self.end(ExchangeOutcome::Failed, Some(error.to_string())),
            Ok(ModelChunk::Text(more)) if open.text.len() + more.len() <= MAX_TEXT => open.text.push_str(more),
            Ok(ModelChunk::ToolCall { name, arguments, .. }) => {
                open.calls.push(json!({ "name": name, "arguments": arguments }));
            }
            Ok(ModelChunk::Usage(usage)) => open.answer.usage = Some(Usage { calls: 0, unpriced_calls: 0, ..*usage }),
            Ok(_) => {}
        }
        if matches!(piece, Ok(ModelChunk::Text(_) | ModelChunk::ToolCall { .. })) {
            open.answer.first_token.get_or_insert(open.started.elapsed());
        }
    }

    fn end(&mut self, outcome: ExchangeOutcome, error: Option<String>) {
        let Some(OpenRecording { recorder, key, started, text, calls, answer }) = self.0.take() else { return };
        let body = json!({ "text": text, "calls": calls }).to_string().into_bytes();
        let bytes = body.len() as u64;
        recorder.ended(key, ReceivedAnswer { body, bytes, duration: started.elapsed(), outcome, error, ..answer });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(ExchangeOutcome::Abandoned, None);
    }
}

fn body(request: &ModelRequest) -> Value {
    let tool =
        |tool: &ToolSpec| json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
    json!({
        "messages": request.messages,
        "tools": request.tools.iter().map(tool).collect::<Vec<_>>(),
        "may_call": request.may_call,
        "max_tokens": request.max_tokens,
        "known_paths": request.known_paths,
    })
}
