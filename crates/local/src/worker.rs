//! Worker thread that owns the model. The thread loads the weights on first use, answers requests one after the other,
//! and releases the weights when idle.

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
    model::{Finish, ModelChunk},
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::{
    config::{Counters, EmbeddedConfig},
    error::RunError,
    inference::Inference,
};

/// Capacity of the worker's queue. Further requests wait in their own streams.
pub(crate) const QUEUE_CAPACITY: usize = 8;

pub(crate) type Reply = mpsc::Sender<Result<ModelChunk, ModelError>>;

/// Request for a text.
pub(crate) struct WriteRequest {
    /// Notice about the reliability of the text, shown above it.
    pub(crate) mark: String,
    /// Text of the request.
    pub(crate) text: String,
    /// Token limit of the request, if any. The configured limit also applies.
    pub(crate) max_tokens: Option<usize>,
}

/// Request with the channel for the generated text.
pub(crate) struct Job {
    pub(crate) write_request: WriteRequest,
    pub(crate) reply: Reply,
    /// Slot in the queue, released when the request is done.
    pub(crate) slot: OwnedSemaphorePermit,
}

/// Starts the thread, which ends when the sender is dropped.
pub(crate) fn start(config: EmbeddedConfig, counters: Arc<Counters>) -> std::io::Result<SyncSender<Job>> {
    let (sender, jobs) = sync_channel(QUEUE_CAPACITY);
    thread::Builder::new()
        .name("agentd-model".to_owned())
        .spawn(move || Worker { config, counters, loaded: None }.work(&jobs))?;
    Ok(sender)
}

struct Worker {
    config: EmbeddedConfig,
    counters: Arc<Counters>,
    loaded: Option<Inference>,
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
        let Job { write_request, reply, slot } = job;
        if reply.is_closed() {
            return;
        }
        self.counters.status().busy = true;
        // Damaged weights or a bug in the arithmetic may panic. A panic must only end the request and not the daemon.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&write_request, &reply))).unwrap_or_else(|_| {
            self.release("a request failed");
            let error = ModelError::new(ErrorKind::Internal, "the built-in model failed while answering");
            Err(error.with_hint("retry; if it persists, run `make model`, or name another model in models.yaml"))
        });
        self.counters.status().busy = false;
        drop(slot);
        if let Err(error) = outcome {
            // The receiver may be gone.
            let _ = reply.blocking_send(Err(error));
        }
    }

    fn answer(&mut self, write_request: &WriteRequest, reply: &Reply) -> Result<(), ModelError> {
        let loaded = match &mut self.loaded {
            Some(loaded) => loaded,
            none => none.insert(load(&self.config, &self.counters)?),
        };
        match write(loaded, write_request, self.config.max_tokens as usize, reply) {
            Ok(()) | Err(RunError::Cancelled) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn release(&mut self, why: &str) {
        if self.loaded.take().is_some() {
            release_memory();
            self.counters.status().loaded = false;
            tracing::info!("the built-in model was released: {why}");
        }
    }
}

fn write(inference: &mut Inference, write_request: &WriteRequest, limit: usize, reply: &Reply) -> Result<(), RunError> {
    let send = |chunk| reply.blocking_send(Ok(chunk)).map_err(|_| RunError::Cancelled);
    let prompt = inference.chat_prompt(&write_request.text)?;
    let max_tokens = write_request.max_tokens.unwrap_or(limit).min(limit);
    send(ModelChunk::Text(format!("*{}*\n\n", write_request.mark)))?;
    let (stop, emit) = (|| reply.is_closed(), |text| send(ModelChunk::Text(text)).is_ok());
    let (finish, usage) = inference.answer(&prompt, max_tokens, &stop, emit)?;
    // A text that loops, or that reaches the model's limit, ends as if complete, since it was never reliable.
    let is_cut = finish == Finish::Runaway || finish == Finish::Length && max_tokens == limit;
    if is_cut {
        send(ModelChunk::Text(" …".to_owned()))?;
    }
    send(ModelChunk::Usage(usage))?;
    send(ModelChunk::End(if is_cut { Finish::Stop } else { finish }))
}

fn load(config: &EmbeddedConfig, counters: &Arc<Counters>) -> Result<Inference, ModelError> {
    let started = Instant::now();
    let inference = Inference::load(&config.path, config.context as usize, Arc::clone(counters))?;
    {
        let mut status = counters.status();
        (status.loaded, status.loads) = (true, status.loads + 1);
    }
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(path = %config.path.display(), ms, "the built-in model was loaded");
    Ok(inference)
}

/// Returns memory freed by the weights to the system.
///
/// The allocator keeps freed blocks for later allocations, 160 MB of 200 MB of weights. A daemon that is idle for days
/// would never reuse these blocks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "`malloc_trim` is only available as a C function")]
fn release_memory() {
    // SAFETY: `malloc_trim` takes a number and no pointer, may be called at any time from any thread, and only affects
    // pages that contain no allocation.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Does nothing: other allocators return memory by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn release_memory() {}
