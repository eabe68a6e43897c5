//! Crashes of a server, and what follows from them. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// Crashes in a row after which a server is given up.
const MOST_CRASHES: u32 = 4;
/// Pause after the first; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Crashes since a server last answered.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    count: u32,
    /// The last one, in words.
    last: String,
    retry_at: Option<Instant>,
    given_up: bool,
}

/// Answer to whether a server may be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartVerdict {
    Start,
    /// Not yet, for this reason.
    Later(String),
    /// Never again, for this reason.
    Never(String),
}

impl Crashes {
    /// Takes note of one. A lasting one comes again whatever is tried.
    pub(super) fn add(&mut self, how: &str, lasting: bool, now: Instant) {
        self.count += 1;
        how.clone_into(&mut self.last);
        self.given_up = lasting || self.count >= MOST_CRASHES;
        self.retry_at = Some(now + FIRST_PAUSE * 2u32.pow(self.count.min(8) - 1));
    }

    /// Takes note of an answer.
    pub(super) fn settle(&mut self) {
        *self = Self::default();
    }

    pub(super) fn verdict(&self, name: &str, now: Instant) -> StartVerdict {
        let Self { count, last, .. } = self;
        if self.given_up && *count < MOST_CRASHES {
            return StartVerdict::Never(format!("{name} is not used: {last}"));
        }
        if self.given_up {
            return StartVerdict::Never(format!(
                "{name} is not used any more: it failed {count} times in a row, at last so: {last}. `agentctl reload` tries it \
                 again"
            ));
        }
        match self.retry_at {
            Some(at) if now < at => {
                StartVerdict::Later(format!("{name} failed ({last}) and is started again in a moment"))
            }
            _ => StartVerdict::Start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_after_some_crashes_it_is_given_up() {
        let (mut crashes, begun) = (Crashes::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(crashes.verdict("x", begun), StartVerdict::Start);
        for (count, pause) in [(1, 1), (2, 2), (3, 4)] {
            crashes.add("exit code 1", false, begun);
            assert!(matches!(crashes.verdict("x", at(pause - 1)), StartVerdict::Later(_)), "{count}");
            assert_eq!(crashes.verdict("x", at(pause)), StartVerdict::Start);
        }
        crashes.add("exit code 1", false, begun);
        assert!(matches!(crashes.verdict("x", at(9999)), StartVerdict::Never(why) if why.contains("4 times")));
        crashes.settle();
        assert_eq!(crashes.verdict("x", begun), StartVerdict::Start);
        crashes.add("there is no sandbox", true, begun);
        assert_eq!(
            crashes.verdict("x", at(9999)),
            StartVerdict::Never("x is not used: there is no sandbox".to_owned())
        );
    }
}
