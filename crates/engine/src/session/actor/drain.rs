//! Stopping in good order: the running turn gets until the deadline; what waits for a person stays as it is.

use std::time::Duration;

use agentd_core::turn::StopReason;
use tokio::time::Instant;

use crate::session::{
    actor::{Actor, Drain, Next},
    registry::handle::Reply,
};

/// Time for a cancelled turn to tell its end.
const CANCEL_GRACE: Duration = Duration::from_secs(7);

impl Actor {
    /// Begins no more turns from here on. Those that wait are in the journal and begin with the next daemon.
    pub(crate) fn drain(&mut self, deadline: Duration, done: Reply<()>) {
        self.draining = Some(Drain { until: Instant::now() + deadline, suspended: false, done: Some(done) });
    }

    /// Patience has ended: the turn is suspended, and if it was before, it is dropped.
    pub(crate) fn drain_due(&mut self) -> Next {
        let Some(drain) = &mut self.draining else { return Next::Go };
        let Some(running) = self.open.as_mut().and_then(|open| open.running.as_mut()) else { return Next::Go };
        if drain.suspended {
            running.task.abort();
            return Next::Leave;
        }
        drain.suspended = true;
        drain.until = Instant::now() + CANCEL_GRACE;
        running.cancelled_for.get_or_insert(StopReason::Suspended);
        running.cancel.cancel();
        Next::Go
    }

    /// Returns whether a session on its way out may go: its turn has ended, or waits for a person. What waits for a
    /// person can wait for the next daemon, because nothing is under way.
    pub(crate) fn is_drained(&mut self) -> bool {
        if self.draining.is_none() {
            return false;
        }
        let Some(running) = self.open.as_ref().and_then(|open| open.running.as_ref()) else { return true };
        let parks = !self.interrupts.is_empty() && running.cancelled_for.is_none();
        if parks {
            running.task.abort();
        }
        parks
    }

    /// Tells whoever waits that the session is gone.
    pub(crate) fn tell_drained(&mut self) {
        if let Some(done) = self.draining.as_mut().and_then(|drain| drain.done.take()) {
            let _ = done.send(Ok(()));
        }
    }
}
