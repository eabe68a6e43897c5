//! When a failed call is tried again: only before its first token, with growing waits that vary by chance.

use std::time::Duration;

use agentd_core::model::ModelChunk;
use backon::{BackoffBuilder, ExponentialBuilder};

use crate::{
    config::ModelConfig,
    failure::{Again, Failure},
};

/// The longest wait that we choose ourselves.
const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// The attempts of one call.
pub(crate) struct Retries {
    waits: Box<dyn Iterator<Item = Duration> + Send>,
    longest: Duration,
    attempt: u32,
}

/// Another attempt.
#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) wait: Duration,
    pub(crate) announcement: ModelChunk,
}

impl Retries {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let longest = Duration::from_millis(config.max_retry_delay_ms);
        let first = Duration::from_millis(config.retry_delay_ms).min(longest);
        let waits = ExponentialBuilder::default()
            .with_factor(2.0)
            .with_min_delay(first)
            .with_max_delay(MAX_BACKOFF.max(first).min(longest))
            .with_max_times(usize::try_from(config.retries).unwrap_or(usize::MAX))
            .with_jitter()
            .build();
        Self { waits: Box::new(waits), longest, attempt: 1 }
    }

    /// The next attempt after this failure, or the failure, if there is none.
    pub(crate) fn after(&mut self, failure: Failure) -> Result<Retry, Failure> {
        let asked = match failure.again {
            Again::Never => return Err(failure),
            Again::Later => None,
            Again::After(wait) if wait > self.longest => {
                let hint = format!("the server asks to wait {} seconds", wait.as_secs());
                return Err(failure.hint(&hint));
            }
            Again::After(wait) => Some(wait),
        };
        let Some(chosen) = self.waits.next() else { return Err(failure) };
        // The chance of our own wait keeps those who were told the same time from coming back all at once.
        let wait = asked.map_or(chosen, |asked| asked.saturating_add(chosen / 10)).min(self.longest);
        Ok(self.announce(wait, failure.error.to_string()))
    }

    /// An attempt at once in another form; it does not count against the limit.
    pub(crate) fn at_once(&mut self, reason: String) -> Retry {
        self.announce(Duration::ZERO, reason)
    }

    fn announce(&mut self, wait: Duration, reason: String) -> Retry {
        self.attempt += 1;
        let delay_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Retry { wait, announcement: ModelChunk::Retry { attempt: self.attempt, delay_ms, reason } }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::error::ErrorKind;

    use super::*;
    use crate::config::Wire;

    fn retries() -> Retries {
        let mut config = ModelConfig::new(Wire::OpenAi, "http://h");
        config.max_retry_delay_ms = 10_000;
        Retries::new(&config)
    }

    #[test]
    fn waits_grow_and_end() {
        let mut retries = retries();
        for (low, high) in [(500, 1_000), (1_000, 2_000), (2_000, 4_000)] {
            let retry = retries.after(Failure::cut("cut")).unwrap();
            assert!((low..=high).contains(&retry.wait.as_millis()), "{retry:?}");
        }
        assert_eq!(retries.after(Failure::cut("cut")).unwrap_err().error.kind(), ErrorKind::CutStream);
    }

    #[test]
    fn a_servers_wish_is_kept_up_to_the_limit() {
        let asking = |seconds| Failure { again: Again::After(Duration::from_secs(seconds)), ..Failure::cut("later") };
        let retry = retries().after(asking(7)).unwrap();
        assert!((7_050..=7_100).contains(&retry.wait.as_millis()), "{retry:?}");
        let ModelChunk::Retry { attempt, reason, .. } = retry.announcement else { panic!() };
        assert_eq!((attempt, reason.as_str()), (2, "later"));
        let refused = retries().after(asking(11)).unwrap_err();
        assert_eq!(refused.error.hint(), Some("the server asks to wait 11 seconds"));
    }

    #[test]
    fn what_cannot_help_is_not_tried() {
        assert!(retries().after(Failure::protocol("nonsense")).is_err());
    }
}
