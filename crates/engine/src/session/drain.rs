//! Stopping in good order: the running turn gets until the deadline; what waits for a person stays as it is.

use std::time::Duration;

use agentd_core::turn::StopReason;
use tokio::time::Instant;

use super::actor::{Actor, Fault, Next};

/// How long a cancelled turn has to tell its end.
const CANCEL_GRACE: Duration = Duration::from_secs(7);

impl Actor {
    /// Takes no more turns and lets the open one end, park or be suspended.
    pub(super) async fn drain(&mut self, deadline: Duration) -> Result<(), Fault> {
        self.draining = true;
        self.drop_queue().await?;
        let mut until = Instant::now() + deadline;
        let mut suspended = false;
        while let Some(running) = self.open.as_mut().and_then(|open| open.running.as_mut()) {
            let is_cancelled = running.cancelled_for == Some(StopReason::Cancelled);
            if !self.interrupts.is_empty() && !is_cancelled {
                // It waits for a person, and so it can wait for the next daemon: nothing is under way.
                running.task.abort();
                break;
            }
            match tokio::time::timeout_at(until, running.messages.recv()).await {
                Ok(Some(message)) => {
                    if let Next::Leave = self.turn_messages(vec![message]).await.map_err(Fault::Fatal)? {
                        break;
                    }
                }
                Ok(None) => break,
                Err(_) if suspended => {
                    running.task.abort();
                    break;
                }
                Err(_) => {
                    suspended = true;
                    running.cancelled_for.get_or_insert(StopReason::Suspended);
                    running.cancel.cancel();
                    until = Instant::now() + CANCEL_GRACE;
                }
            }
        }
        Ok(())
    }
}
