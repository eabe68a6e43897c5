//! Requests beside the turns: sent by a session's actor, received in tasks of the actor. The answer is not added to the
//! history.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    error::{ErrorKind, ModelError},
    model::{Finish, ModelChunk, ModelRequest, Slot},
    ports::Model,
    usage::Usage,
};
use tokio::{
    sync::mpsc::{self, OwnedPermit},
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::EngineError,
    turn::stopwatch::{CallCost, CallStream},
};

/// Maximum size of an answer in bytes, in case the server ignores the token limit.
const MAX_ANSWER: usize = 256 << 10;
/// Capacity of the queue of an answer's parts.
const PART_QUEUE: usize = 64;

/// Part of the answer to a side question.
#[derive(Debug, Clone, PartialEq)]
pub enum SidePart {
    /// More text of the answer.
    Text(String),
    /// Discards the text so far, because the answer starts over.
    Retracted,
    /// End of the answer.
    Done {
        /// ID of the model that answered.
        model: String,
        /// Usage of the call.
        usage: Usage,
        /// True if the answer was truncated at a limit.
        truncated: bool,
    },
}

/// Answer to a side question, in parts. Dropping the receiver cancels the question.
pub type SideAnswer = mpsc::Receiver<Result<SidePart, EngineError>>;

/// Requests beside the turns that are in flight.
#[derive(Default)]
pub(crate) struct Asides {
    tasks: JoinSet<AsideEnd>,
    cancel: CancellationToken,
}

impl Asides {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Ends all requests, current and future ones.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Sends a side question. Returns the parts of its answer.
    pub(crate) fn ask(&mut self, aside: Aside) -> SideAnswer {
        let (parts, answer) = mpsc::channel(PART_QUEUE);
        let last = parts.clone().try_reserve_owned().ok();
        self.tasks.spawn(aside.run(self.cancel.clone(), Some(parts), last));
        answer
    }

    /// Sends a request whose answer only the session reads.
    pub(crate) fn send(&mut self, aside: Aside) {
        self.tasks.spawn(aside.run(self.cancel.clone(), None, None));
    }

    /// Returns the end of the next request that ends; never completes if there is none. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<AsideEnd, JoinError> {
        match self.tasks.join_next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }
}

/// End of a request beside the turns.
pub(crate) struct AsideEnd {
    pub(crate) slot: Slot,
    pub(crate) model: String,
    pub(crate) cost: CallCost,
    /// Text of the answer.
    pub(crate) answer: Result<(String, Finish), EngineError>,
    /// Place for the last part of a side question's answer; `None` for a request of the session itself.
    pub(crate) last: Option<OwnedPermit<Result<SidePart, EngineError>>>,
}

/// Request beside the turns, ready to be sent.
pub(crate) struct Aside {
    pub(crate) slot: Slot,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) request: ModelRequest,
    /// Time limit for the answer.
    pub(crate) time: Duration,
}

impl Aside {
    /// Sends the request and receives its whole answer. The text is also sent to `parts`, whose receiver cancels the
    /// request by its end.
    async fn run(
        self,
        cancel: CancellationToken,
        parts: Option<mpsc::Sender<Result<SidePart, EngineError>>>,
        last: Option<OwnedPermit<Result<SidePart, EngineError>>>,
    ) -> AsideEnd {
        let Self { slot, model, request, time } = self;
        let mut text = String::new();
        let mut chunks = CallStream::open(&*model, request);
        let receive = async {
            loop {
                let part = match chunks.next().await? {
                    ModelChunk::Text(more) => {
                        text.push_str(&more);
                        SidePart::Text(more)
                    }
                    ModelChunk::WasReasoning | ModelChunk::Discarded => {
                        text.clear();
                        SidePart::Retracted
                    }
                    ModelChunk::End(finish) => return Ok::<Finish, ModelError>(finish),
                    // Calls do not run.
                    _ => continue,
                };
                if let Some(parts) = &parts {
                    // If the receiver is gone, the request is cancelled below.
                    let _ = parts.send(Ok(part)).await;
                }
                if text.len() > MAX_ANSWER {
                    return Ok(Finish::Length);
                }
            }
        };
        let client_left = async {
            match &parts {
                Some(parts) => parts.closed().await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(EngineError::stopping()),
            () = client_left => Err(EngineError::new(ErrorKind::Conflict, "the client cancelled the question")),
            received = timeout(time, receive) => received.map_err(|_| {
                let message = format!("the model did not answer within {} seconds", time.as_secs());
                EngineError::new(ErrorKind::Timeout, message).with_hint("retry; `agentctl models` lists the models")
            }),
        };
        let cost = chunks.close(!text.is_empty() || !matches!(ended, Ok(Err(_))));
        let finish = ended.and_then(|received| received.map_err(EngineError::from));
        let answer = finish.and_then(|finish| check_answer(text, finish));
        AsideEnd { slot, model: model.info().id.clone(), cost, answer, last }
    }
}

/// Rejects an answer that was withheld or has no text.
fn check_answer(text: String, finish: Finish) -> Result<(String, Finish), EngineError> {
    let message = match finish {
        Finish::Filtered => "the provider withheld the answer",
        _ if text.trim().is_empty() => "the model gave no answer in text",
        _ => return Ok((text, finish)),
    };
    Err(EngineError::new(ErrorKind::Rejected, message).with_hint("ask in other words, or as a message of the session"))
}
