//! How a turn's questions are answered: by itself, as its start said, and where it said so, only while its client is there; or by
//! a person whom a tool asks while it runs, by way of the session: the question is an interrupt like any other.

use std::sync::Arc;

use agentd_core::{ids::CallId, ports::Person, turn::OnInterrupt};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::turn::{recorder::Recorder, stopwatch::Stopwatch};

/// The way in which a turn answers what it is asked.
#[derive(Debug, Clone)]
pub(crate) struct AnswerMode {
    /// The way that the start of the turn named: all that was not decided by a person was decided by that.
    pub(crate) said: OnInterrupt,
    /// Cancelled once the client is gone; none where that changes nothing.
    gone: Option<CancellationToken>,
}

impl AnswerMode {
    /// As the start of a turn says.
    pub(crate) fn new(said: OnInterrupt, while_connected: bool) -> Self {
        Self { said, gone: while_connected.then(CancellationToken::new) }
    }

    /// The way that holds for the next question.
    pub(crate) fn now(&self) -> OnInterrupt {
        match &self.gone {
            Some(gone) if gone.is_cancelled() => OnInterrupt::Wait,
            _ => self.said,
        }
    }

    /// True where it holds only while the client is there.
    pub(crate) fn while_connected(&self) -> bool {
        self.gone.is_some()
    }

    /// Takes note that the client is gone.
    pub(crate) fn leave(&self) {
        if let Some(gone) = &self.gone {
            gone.cancel();
        }
    }

    /// Waits until the client is gone, where that changes anything.
    pub(crate) async fn left(&self) {
        match &self.gone {
            Some(gone) => gone.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// The person that a call may ask. Nobody answers where the turn runs unattended, or was cancelled. The time that they
/// take is no work of the turn.
pub(super) fn of_call(
    call_id: CallId,
    recorder: Recorder,
    stopwatch: Arc<Stopwatch>,
    on_interrupt: OnInterrupt,
    cancel: CancellationToken,
) -> Person {
    if on_interrupt != OnInterrupt::Wait {
        return Person::default();
    }
    Person::new(move |ask| {
        let (call_id, recorder, cancel) = (call_id.clone(), recorder.clone(), cancel.clone());
        let stopwatch = Arc::clone(&stopwatch);
        async move {
            let waiting = stopwatch.pause();
            let mut asked = OpenQuestion { recorder: &recorder, call_id: &call_id, answered: false };
            let answered = cancel.run_until_cancelled(recorder.ask(call_id.clone(), ask)).await;
            asked.answered = answered.is_some();
            drop((asked, waiting));
            answered?.ok().map(|answered| answered.answer)
        }
        .boxed()
    })
}

/// A question that is withdrawn when whoever asked it gives up.
struct OpenQuestion<'a> {
    recorder: &'a Recorder,
    call_id: &'a CallId,
    answered: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.recorder.withdraw(self.call_id.clone());
        }
    }
}
