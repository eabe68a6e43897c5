//! When it is looked by itself for what is too old.

use std::{sync::Arc, time::Duration};

use agentd_core::Timestamp;
use agentd_engine::Activity;
use tokio::{sync::watch, time::sleep};

use super::{Retention, SCHEDULE};

/// Delay of the first cleaning after the start, so that new clients do not wait for it.
const FIRST: Duration = Duration::from_secs(5 * 60);
/// Interval of checks whether it is due. The clock decides, not the waiting: a machine may have slept.
const LOOK: Duration = Duration::from_secs(60);
/// Time limit for a due cleaning to wait until the daemon rests.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Cleans from time to time, while no turn works where that can be had. Never returns.
pub async fn follow(retention: Arc<Retention>, activity: watch::Receiver<Activity>) {
    let mut next = Next::first(retention.clock.now());
    loop {
        sleep(LOOK).await;
        let every = retention.settings.borrow().every.0.map(|span| span.0);
        let is_quiet = activity.borrow().is_quiet();
        if next.has_come(retention.clock.now(), every, is_quiet) {
            match retention.clean(SCHEDULE, false).await {
                Ok(report) => tracing::debug!(parts = ?report.parts, "looked for what nobody has used for long"),
                Err(error) => tracing::warn!("what nobody has used for long could not be looked for: {error}"),
            }
        }
    }
}

/// When the next cleaning is.
struct Next(Timestamp);

impl Next {
    fn first(now: Timestamp) -> Self {
        Self(now.saturating_add(FIRST).unwrap_or(now))
    }

    /// Returns whether it is due; if so, schedules the next one.
    fn has_come(&mut self, now: Timestamp, every: Option<Duration>, is_quiet: bool) -> bool {
        let Some(every) = every else { return false };
        let then = now.saturating_add(every).unwrap_or(now);
        // The clock may have been put back.
        self.0 = self.0.min(then.max(Self::first(now).0));
        let overdue = self.0.saturating_add(PATIENCE).unwrap_or(self.0);
        let has_come = if is_quiet { now >= self.0 } else { now >= overdue };
        if has_come {
            self.0 = then;
        }
        has_come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + minute * 60).unwrap()
    }

    #[test]
    fn the_clock_says_when() {
        let hour = Some(Duration::from_secs(3600));
        let mut next = Next::first(minute(0));
        let mut check = |at: i64, every, is_quiet, expected| {
            assert_eq!(next.has_come(minute(at), every, is_quiet), expected, "minute {at}");
        };
        check(1, hour, true, false);
        check(6, hour, true, true);
        check(7, hour, true, false);
        check(66, hour, true, true);
        // It waits for rest, but not for ever.
        check(130, hour, false, false);
        check(185, hour, false, false);
        check(186, hour, false, true);
        check(400, None, true, false);
        check(401, hour, true, true);
        // The machine has slept, and then its clock was put back.
        check(9000, hour, true, true);
        check(100, hour, true, false);
        check(161, hour, true, true);
    }
}
