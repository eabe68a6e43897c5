//! How long a turn has worked. Waiting for people is no work.
//!
//! The watch stands still while somebody of the turn waits for a person, unless a session works for it meanwhile: then the
//! turn works.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// Time that a turn has worked.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    /// Time worked before.
    before: Duration,
    started: Instant,
    held: watch::Sender<PauseCounts>,
}

/// Reasons to stand still.
#[derive(Debug, Default)]
struct PauseCounts {
    /// Number of calls that wait for a person.
    waiting: usize,
    /// Number of subagents that work for the turn and do not wait.
    working: usize,
    /// Since when it stands still.
    since: Option<Instant>,
    /// Time that it stood still before that.
    stood: Duration,
}

/// Somebody of the turn who waits, or works for it in a session of their own, until this is dropped.
#[derive(Debug)]
pub(crate) struct StopwatchGuard<'a> {
    stopwatch: &'a Stopwatch,
    waits: bool,
}

impl Stopwatch {
    /// Of a turn that has worked so long.
    pub(crate) fn start(before: Duration) -> Self {
        Self { before, started: Instant::now(), held: watch::Sender::default() }
    }

    pub(crate) fn worked(&self) -> Duration {
        let held = self.held.borrow();
        let stood = held.stood + held.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.before + self.started.elapsed().saturating_sub(stood)
    }

    /// Comes when the turn has worked as long as it may; never where there is no limit.
    pub(crate) async fn reaches(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        loop {
            match limit.saturating_sub(self.worked()) {
                Duration::ZERO => return,
                left => sleep(left).await,
            }
        }
    }

    /// Somebody waits for a person.
    pub(crate) fn pause(&self) -> StopwatchGuard<'_> {
        self.share(true)
    }

    /// A session works for the turn, or a model.
    pub(crate) fn work(&self) -> StopwatchGuard<'_> {
        self.share(false)
    }

    fn share(&self, waits: bool) -> StopwatchGuard<'_> {
        self.held.send_modify(|held| {
            *held.count(waits) += 1;
            held.settle();
        });
        StopwatchGuard { stopwatch: self, waits }
    }
}

impl PauseCounts {
    fn count(&mut self, waits: bool) -> &mut usize {
        if waits { &mut self.waiting } else { &mut self.working }
    }

    /// Stands still or goes on, as it must by now.
    fn settle(&mut self) {
        match (self.waiting > 0 && self.working == 0, self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => {
                self.stood += since.elapsed();
                self.since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}

impl Drop for StopwatchGuard<'_> {
    fn drop(&mut self) {
        self.stopwatch.held.send_modify(|held| {
            let count = held.count(self.waits);
            *count = count.saturating_sub(1);
            held.settle();
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_waited_counts_once_and_not_while_somebody_works() {
        let second = Duration::from_secs(1);
        let stopwatch = Stopwatch::start(second);
        advance(second).await;
        assert_eq!(stopwatch.worked(), 2 * second);
        let (first, other) = (stopwatch.pause(), stopwatch.pause());
        advance(second).await;
        assert_eq!(stopwatch.worked(), 2 * second, "also while it is waited");
        drop(first);
        advance(second).await;
        drop(other);
        assert_eq!(stopwatch.worked(), 2 * second);
        let (waits, works) = (stopwatch.pause(), stopwatch.work());
        advance(second).await;
        assert_eq!(stopwatch.worked(), 3 * second, "one of them works");
        drop(works);
        advance(second).await;
        drop(waits);
        assert_eq!(stopwatch.worked(), 3 * second);
    }
}
