//! The thread that owns the model: it loads on first use, answers one request after the other, and lets go when idle.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Instant,
};

use agentd_core::{
    error::{ErrorKind, ModelError},
    model::{ModelChunk, ModelRequest},
    usage::Usage,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::{
    config::EmbeddedConfig,
    error::RunError,
    harness::{
        plan::plan,
        run::{Listener, Memory, RequestRun},
    },
    inference::{Inference, Stop},
    memory,
    status::Counters,
};

/// Requests that may wait in the worker's queue. More wait at its door, in the streams that were asked for.
pub(crate) const QUEUE: usize = 8;

pub(crate) type Reply = mpsc::Sender<Result<ModelChunk, ModelError>>;

/// One request and where its answer goes.
pub(crate) struct Job {
    pub(crate) request: ModelRequest,
    pub(crate) reply: Reply,
    /// The place in the queue, given back when the request is done.
    pub(crate) place: OwnedSemaphorePermit,
}

/// Starts the thread. It ends when the sender is gone.
pub(crate) fn start(config: EmbeddedConfig, counters: Arc<Counters>) -> std::io::Result<SyncSender<Job>> {
    let (sender, jobs) = sync_channel(QUEUE);
    thread::Builder::new()
        .name("agentd-model".to_owned())
        .spawn(move || Worker { config, counters, loaded: None }.work(&jobs))?;
    Ok(sender)
}

struct Worker {
    config: EmbeddedConfig,
    counters: Arc<Counters>,
    loaded: Option<LoadedModel>,
}

struct LoadedModel {
    inference: Inference,
    memory: Memory,
}

impl Worker {
    fn work(&mut self, jobs: &Receiver<Job>) {
        loop {
            let job = if self.loaded.is_some() {
                jobs.recv_timeout(self.config.idle)
            } else {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match job {
                Ok(job) => self.serve(job),
                Err(RecvTimeoutError::Timeout) => self.release("it was idle"),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn serve(&mut self, job: Job) {
        let Job { request, reply, place } = job;
        if reply.is_closed() {
            return;
        }
        self.counters.set_busy(true);
        // Damaged weights, or a defect in the arithmetic, may panic. That ends one request and never the daemon.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&request, &reply))).unwrap_or_else(|_| {
            self.release("a request made it fail");
            let error = ModelError::new(ErrorKind::Internal, "the built-in model failed while it answered");
            Err(error.with_hint("try again; if it stays, run `make model`, or name another model in models.yaml"))
        });
        self.counters.set_busy(false);
        drop(place);
        if let Err(error) = outcome {
            // Nobody may be there to hear it.
            let _ = reply.blocking_send(Err(error));
        }
    }

    fn answer(&mut self, request: &ModelRequest, reply: &Reply) -> Result<(), ModelError> {
        let plan = plan(request);
        let loaded = match &mut self.loaded {
            Some(loaded) => loaded,
            none => none.insert(load(&self.config, &self.counters)?),
        };
        let mut run = RequestRun {
            inference: &loaded.inference,
            memory: &mut loaded.memory,
            listener: reply,
            max_tokens: most_tokens(request, &self.config),
            // It runs here, and nobody is paid for it.
            usage: Usage { cost_microusd: Some(0), ..Usage::default() },
        };
        match run.carry_out(plan) {
            Ok(()) | Err(RunError::Cancelled) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn release(&mut self, why: &str) {
        if self.loaded.take().is_some() {
            memory::give_back();
            self.counters.set_loaded(false);
            tracing::info!("the built-in model was released: {why}");
        }
    }
}

/// Maximum number of tokens of the answer to a request.
fn most_tokens(request: &ModelRequest, config: &EmbeddedConfig) -> usize {
    let wanted = request.max_tokens.map_or(usize::MAX, |tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
    wanted.min(config.max_tokens as usize)
}

fn load(config: &EmbeddedConfig, counters: &Arc<Counters>) -> Result<LoadedModel, ModelError> {
    let started = Instant::now();
    let inference = Inference::load(&config.path, config.context as usize, Arc::clone(counters))?;
    let memory = Memory::new(&inference);
    counters.set_loaded(true);
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(path = %config.path.display(), ms, "the built-in model was loaded");
    Ok(LoadedModel { inference, memory })
}

impl Stop for Reply {
    fn stopped(&self) -> bool {
        self.is_closed()
    }
}

impl Listener for Reply {
    fn hand_out(&self, chunk: ModelChunk) -> bool {
        self.blocking_send(Ok(chunk)).is_ok()
    }
}
