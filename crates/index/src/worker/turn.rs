//! Turns of workers: a few read at a time, and beside them one recognises letters, which takes minutes. Whoever needs no
//! recognition never waits for one who does.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{failure::Failure, recognition::Recognition};

/// Documents whose letters are recognised at a time. One uses several processors.
const RECOGNISING: usize = 1;

/// Effort of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingPass {
    /// Ends with [`Failure::NeedsRecognition`] at the first page whose letters can only be recognised. It has its turn soon.
    Quick,
    /// Recognises letters where there are models. It may wait for minutes.
    Full,
}

/// Turns of workers. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct WorkerTurns {
    reading: Arc<Semaphore>,
    recognising: Arc<Semaphore>,
}

/// Permission to run one worker, given back when this is dropped.
#[derive(Debug)]
pub struct WorkerTurn {
    /// The recognition that the worker has.
    pub(super) recognition: Recognition,
    _permit: OwnedSemaphorePermit,
}

impl WorkerTurn {
    /// The recognition that the worker has.
    pub const fn recognition(&self) -> &Recognition {
        &self.recognition
    }
}

impl WorkerTurns {
    /// Turns for at most this many workers that read, and for those that recognise.
    pub(super) fn new(reading: usize) -> Self {
        let turns = |count: usize| Arc::new(Semaphore::new(count.max(1)));
        Self { reading: turns(reading), recognising: turns(RECOGNISING) }
    }

    /// The next turn of this kind.
    ///
    /// # Errors
    /// When it was cancelled.
    pub(super) async fn next(
        &self,
        pass: ReadingPass,
        recognition: Recognition,
        cancel: &CancellationToken,
    ) -> Result<WorkerTurn, Failure> {
        let (turns, recognition) = match (pass, recognition) {
            (ReadingPass::Full, ready @ Recognition::Ready { .. }) => (&self.recognising, ready),
            (ReadingPass::Quick, Recognition::Ready { .. }) => (&self.reading, Recognition::Deferred),
            (_, missing) => (&self.reading, missing),
        };
        let permit = tokio::select! {
            permit = Arc::clone(turns).acquire_owned() => permit.map_err(|_| Failure::Cancelled)?,
            () = cancel.cancelled() => return Err(Failure::Cancelled),
        };
        Ok(WorkerTurn { recognition, _permit: permit })
    }
}
