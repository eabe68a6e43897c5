//! Crash counter for a server, with backoff. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::ServerError;

/// Number of crashes after which a server is given up.
const MAX_CRASHES: u32 = 4;
/// Number of consecutive crashes during startup after which a server is given up, since further attempts would not
/// help.
const MAX_EARLY_CRASHES: u32 = 2;
/// Backoff after the first crash. Each further crash doubles it.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Time without a crash after which the counter is reset.
const RESET_AFTER: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(super) struct Crashes {
    count: u32,
    early: u32,
    /// Description of the last crash.
    last: String,
    last_at: Option<Instant>,
    retry_at: Option<Instant>,
    given_up: bool,
}

/// Kind of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrashKind {
    /// The cause is permanent, so retrying is pointless.
    Permanent,
    /// The server exited before it was ready.
    Early,
    /// The server crashed while working, or did not become ready.
    Other,
}

impl Crashes {
    pub(super) fn add(&mut self, description: &str, kind: CrashKind, now: Instant) {
        self.count += 1;
        self.early = if kind == CrashKind::Early { self.early + 1 } else { 0 };
        description.clone_into(&mut self.last);
        self.given_up = kind == CrashKind::Permanent || self.early >= MAX_EARLY_CRASHES || self.count >= MAX_CRASHES;
        (self.last_at, self.retry_at) = (Some(now), Some(now + FIRST_BACKOFF * 2u32.pow(self.count.min(8) - 1)));
    }

    /// Records an answer. A server that keeps crashing soon after each answer is still counted.
    pub(super) fn record_answer(&mut self, now: Instant) {
        if self.last_at.is_none_or(|at| now >= at + RESET_AFTER) {
            *self = Self::default();
        }
    }

    /// Returns an error if the server must not be started now, or is given up.
    pub(super) fn check(&self, name: &str, now: Instant) -> Result<(), ServerError> {
        let Self { count, early, last, .. } = self;
        if self.given_up {
            let reason = match count {
                _ if *early >= MAX_EARLY_CRASHES => format!("it ended {early} times before it was ready, last: {last}"),
                count if *count >= MAX_CRASHES => format!("it failed {count} times, last: {last}"),
                _ => last.clone(),
            };
            let message = format!("{name} is disabled: {reason}. `agentctl reload` retries it");
            return Err(ServerError { message, given_up: true });
        }
        if self.retry_at.is_none_or(|at| now >= at) {
            return Ok(());
        }
        Err(ServerError::transient(format!("{name} failed ({last}) and is being restarted")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_given_up(crashes: &Crashes, part: &str) -> bool {
        let later = Instant::now() + Duration::from_secs(9999);
        crashes.check("x", later).is_err_and(|error| error.given_up && error.message.contains(part))
    }

    #[test]
    fn crashing_server_is_retried_later_then_abandoned() {
        let (mut crashes, start) = (Crashes::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(crashes.check("x", start), Ok(()));
        for (count, pause) in [(1, 1), (2, 2), (3, 4)] {
            crashes.add("exit code 1", CrashKind::Other, start);
            assert!(crashes.check("x", at(pause - 1)).is_err_and(|error| !error.given_up), "{count}");
            assert_eq!(crashes.check("x", at(pause)), Ok(()));
            // The server answers once in each run.
            crashes.record_answer(at(pause));
        }
        crashes.add("exit code 1", CrashKind::Other, start);
        assert!(is_given_up(&crashes, "failed 4 times"));
    }

    #[test]
    fn crashes_are_forgotten_after_stable_operation() {
        let (mut crashes, start) = (Crashes::default(), Instant::now());
        for round in 0..9 {
            let at = start + RESET_AFTER * round;
            crashes.record_answer(at);
            assert_eq!(crashes.check("x", at), Ok(()), "{round}");
            crashes.add("exit code 1", CrashKind::Other, at);
        }
    }

    #[test]
    fn lasting_failure_is_not_retried() {
        let mut crashes = Crashes::default();
        crashes.add("no sandbox", CrashKind::Permanent, Instant::now());
        assert!(is_given_up(&crashes, "x is disabled: no sandbox. `agentctl reload`"));
        let mut crashes = Crashes::default();
        for kind in [CrashKind::Early, CrashKind::Other, CrashKind::Early] {
            crashes.add("exit code 1", kind, Instant::now());
            assert!(!is_given_up(&crashes, ""));
        }
        crashes = Crashes::default();
        crashes.add("exit code 1", CrashKind::Early, Instant::now());
        crashes.add("exit code 1", CrashKind::Early, Instant::now());
        assert!(is_given_up(&crashes, "ended 2 times before it was ready, last: exit code 1"));
    }
}
