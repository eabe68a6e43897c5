//! Policy for answering the questions of a turn: automatically, as chosen at its start and possibly only while its
//! client is connected, or by the user when a running tool asks. A tool's question goes through the session like any
//! other interrupt.

use agentd_core::{ids::CallId, turn::OnInterrupt};
use tokio_util::sync::CancellationToken;

use crate::turn::recorder::Recorder;

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

/// A question that is withdrawn if its asker stops waiting.
pub(super) struct OpenQuestion<'a> {
    pub(super) recorder: &'a Recorder,
    pub(super) call_id: &'a CallId,
    pub(super) answered: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.recorder.withdraw(self.call_id.clone());
        }
    }
}
