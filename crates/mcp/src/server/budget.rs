//! How soon a server that failed may be started again. Pure.
//!
//! A call never waits for a server that keeps failing: it is told at once when the next try may be. No server is given
//! up for good.

use std::time::{Duration, Instant};

/// Delays after the first failure, the second, and so on. The last holds for all that follow.
const WAITS: [Duration; 6] = [
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Uptime after which a server's failures are forgotten.
const STEADY: Duration = Duration::from_secs(60);

/// Failures of a server.
#[derive(Debug, Default)]
pub(super) struct Budget {
    failures: usize,
    next_try: Option<Instant>,
}

impl Budget {
    /// Time until it may be started, if not now.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.next_try.map(|next| next.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// It could not be started, or ended by itself after it had lived so long.
    pub(super) fn failed(&mut self, lived: Duration, now: Instant) {
        if lived >= STEADY {
            self.failures = 0;
        }
        let wait = WAITS[self.failures.min(WAITS.len() - 1)];
        self.failures += 1;
        self.next_try = Some(now + wait);
    }

    /// A person wants it to be tried at once.
    pub(super) fn forgive(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_failing_is_tried_less_and_less_but_never_given_up() {
        let mut budget = Budget::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(budget.wait(now), None);
            budget.failed(Duration::from_secs(1), now);
            let wait = budget.wait(now).unwrap_or_default();
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [0, 0, 2, 10, 30, 60, 60, 60]);
        budget.failed(STEADY, now);
        assert_eq!(budget.wait(now), None, "one that lived long begins anew");
        budget.failed(Duration::ZERO, now);
        budget.failed(Duration::ZERO, now);
        assert!(budget.wait(now).is_some());
        budget.forgive();
        assert_eq!(budget.wait(now), None);
    }
}
