//! Policy for answering the questions of a turn: automatically, as chosen at its start and possibly only while its
//! client is connected, or by the user when a running tool asks. A tool's question goes through the session like any
//! other interrupt.

use std::sync::Arc;

use agentd_core::{ids::CallId, ports::Person, turn::OnInterrupt};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::turn::{recorder::Recorder, stopwatch::Stopwatch};

/// Policy by which a turn answers interrupts.
#[derive(Debug, Clone)]
pub(crate) struct AnswerMode {
    /// Mode chosen at the start of the turn. Applies to all questions that no user has answered.
    pub(crate) on_interrupt: OnInterrupt,
    /// Cancelled once the client has disconnected; `None` if a disconnect changes nothing.
    disconnected: Option<CancellationToken>,
}

impl AnswerMode {
    /// Creates the mode chosen at the start of a turn.
    pub(crate) fn new(on_interrupt: OnInterrupt, while_connected: bool) -> Self {
        Self { on_interrupt, disconnected: while_connected.then(CancellationToken::new) }
    }

    /// Returns the mode that applies to the next question.
    pub(crate) fn now(&self) -> OnInterrupt {
        match &self.disconnected {
            Some(disconnected) if disconnected.is_cancelled() => OnInterrupt::Wait,
            _ => self.on_interrupt,
        }
    }

    /// Returns true if the mode applies only while the client is connected.
    pub(crate) fn while_connected(&self) -> bool {
        self.disconnected.is_some()
    }

    /// Records that the client has disconnected.
    pub(crate) fn disconnect(&self) {
        if let Some(disconnected) = &self.disconnected {
            disconnected.cancel();
        }
    }

    /// Waits until the client has disconnected. Never returns if a disconnect changes nothing.
    pub(crate) async fn wait_for_disconnect(&self) {
        match &self.disconnected {
            Some(disconnected) => disconnected.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// Returns the handle through which a call may ask the user. The handle gives no answer if the turn runs unattended or
/// was cancelled. The waiting time does not count as work of the turn.
pub(super) fn person_for(
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

/// A question that is withdrawn if its asker stops waiting.
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
