//! The embedded model behind the port.

use std::{
    io,
    sync::{Arc, mpsc::SyncSender},
};

use agentd_core::{
    error::{ErrorKind, ModelError},
    model::{ModelChunk, ModelInfo, ModelRequest},
    ports::Model,
};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    config::EmbeddedConfig,
    recording::Recording,
    status::{Counters, EmbeddedStatus},
    worker::{self, Job, QUEUE},
};

/// Pieces of an answer that wait for their reader. The model stops when there are more.
const PIECES: usize = 32;

/// A model that runs in this process, on the CPU.
///
/// Nothing is loaded before the first request, and one thread answers them all, one after the other. Dropping a stream
/// ends its request within a token, or within a chunk of 128 tokens while the prompt is read.
pub struct EmbeddedModel {
    info: ModelInfo,
    counters: Arc<Counters>,
    /// The way to the worker, or why there is none.
    jobs: Result<SyncSender<Job>, Arc<io::Error>>,
    /// One permit for each place in the worker's queue, so that sending never blocks.
    places: Arc<Semaphore>,
}

impl EmbeddedModel {
    /// A model that will load the configured file when it is first asked. A file that is missing or damaged is told
    /// by the stream of each request.
    #[must_use]
    pub fn new(config: EmbeddedConfig) -> Arc<Self> {
        let info = ModelInfo {
            id: config.model_id(),
            wire: "embedded".to_owned(),
            base_url: None,
            context_window: u64::from(config.context),
            window_source: Default::default(),
            // Calls never pass through text: the harness makes them.
            native_tools: true,
            embedded: true,
            echo_reasoning: false,
            sees_pictures: false,
            figures: Vec::new(),
        };
        let counters = Arc::new(Counters::default());
        let jobs = worker::start(config, Arc::clone(&counters)).map_err(Arc::new);
        Arc::new(Self { info, counters, jobs, places: Arc::new(Semaphore::new(QUEUE)) })
    }

    /// State and counters of the model.
    #[must_use]
    pub fn status(&self) -> EmbeddedStatus {
        self.counters.status()
    }

    /// Hands a request to the worker, and returns where its answer comes out.
    async fn submit(
        jobs: Result<SyncSender<Job>, Arc<io::Error>>,
        places: Arc<Semaphore>,
        request: ModelRequest,
    ) -> Result<mpsc::Receiver<Result<ModelChunk, ModelError>>, ModelError> {
        let jobs = jobs.map_err(|error| {
            ModelError::new(ErrorKind::Internal, "could not start the thread of the built-in model")
                .with_hint("see whether the process may start more threads")
                .with_source(error)
        })?;
        let gone = |_| ModelError::new(ErrorKind::ShuttingDown, "the built-in model has stopped");
        let place = places.acquire_owned().await.map_err(|_| gone(()))?;
        let (reply, pieces) = mpsc::channel(PIECES);
        jobs.try_send(Job { request, reply, place }).map_err(|_| gone(()))?;
        Ok(pieces)
    }
}

impl Model for EmbeddedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        let mut recording = Recording::begin(&self.info.id, &request);
        let submitted = Self::submit(self.jobs.clone(), Arc::clone(&self.places), request);
        stream::once(submitted)
            .flat_map(|submitted| match submitted {
                Ok(pieces) => stream::unfold(Some(pieces), next_piece).boxed(),
                Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
            })
            .inspect(move |piece| recording.note(piece))
            .boxed()
    }
}

type Pieces = mpsc::Receiver<Result<ModelChunk, ModelError>>;

/// The next piece. After the proper end or an error there is none; before it, a worker that is gone is an error.
async fn next_piece(pieces: Option<Pieces>) -> Option<(Result<ModelChunk, ModelError>, Option<Pieces>)> {
    let mut pieces = pieces?;
    let piece = pieces.recv().await.unwrap_or_else(|| {
        let error = ModelError::new(ErrorKind::Internal, "the built-in model ended without finishing its answer");
        Err(error.with_hint("try again"))
    });
    let is_last = matches!(piece, Ok(ModelChunk::End(_)) | Err(_));
    Some((piece, (!is_last).then_some(pieces)))
}
