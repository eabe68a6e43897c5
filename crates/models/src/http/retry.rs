//! Retry policy with exponential backoff and jitter. A call is retried before its first token. If an answer breaks off
//! later, `call` discards it before the retry.

use std::time::Duration;

use agentd_core::model::ModelChunk;
use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::Instant;

use crate::{
    config::ModelConfig,
    http::failure::{Failure, RetryCondition},
};

/// Maximum backoff if the server requests no wait.
const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// Factor of the backoff for limits per minute, and the maximum of those waits: slightly more than a minute.
const MINUTE_FACTOR: u32 = 20;
const MAX_MINUTE: Duration = Duration::from_secs(90);

/// Maximum time to wait for a server that loads its model, and maximum wait between two attempts.
const MAX_LOADING_TIME: Duration = Duration::from_secs(5 * 60);
const MAX_LOADING_WAIT: Duration = Duration::from_secs(5);

/// Interval after which a wait for a loading server is announced again.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum wait before the only retry of a call that has a fallback model.
const FALLBACK_WAIT: Duration = Duration::from_secs(5);

/// Maximum number of immediate retries after an invalid answer of the model.
const MAX_IMMEDIATE: u32 = 2;

/// Retry state of one call.
pub(crate) struct Retries {
    waits: Box<dyn Iterator<Item = Duration> + Send>,
    /// Number of waits left.
    left: u32,
    first: Duration,
    max_wait: Duration,
    attempt: u32,
    /// Number of immediate retries so far.
    immediate: u32,
    /// True once the call has waited for a limit that this request alone may exceed.
    waited_for_limit: bool,
    /// True if there is a fallback model.
    has_fallback: bool,
    loading: Option<LoadingWait>,
}

/// Wait for a server that loads its model.
struct LoadingWait {
    since: Instant,
    announced: Option<Instant>,
    next: Duration,
}

#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) wait: Duration,
    /// Chunk that announces the wait, or `None` if the same wait was announced recently.
    pub(crate) announcement: Option<ModelChunk>,
}

impl Retries {
    /// Creates the policy for a call with at most `retries` retries. A call with a fallback model gets at most one
    /// retry, and no long wait.
    pub(crate) fn new(config: &ModelConfig, retries: u32, has_fallback: bool) -> Self {
        let max_wait = Duration::from_millis(config.max_retry_delay_ms);
        let first = Duration::from_millis(config.retry_delay_ms).min(max_wait);
        let waits = ExponentialBuilder::default()
            .with_factor(2.0)
            .with_min_delay(first)
            .with_max_delay(MAX_BACKOFF.max(first).min(max_wait))
            .with_max_times(usize::try_from(retries).unwrap_or(usize::MAX))
            .with_jitter()
            .build();
        Self {
            waits: Box::new(waits),
            left: if has_fallback { retries.min(1) } else { retries },
            first,
            max_wait,
            attempt: 1,
            immediate: 0,
            waited_for_limit: false,
            has_fallback,
            loading: None,
        }
    }

    /// Returns the next attempt after this failure, or the failure if there is none.
    pub(crate) fn after(&mut self, failure: Failure) -> Result<Retry, Failure> {
        // The fallback model should answer soon.
        let is_slow = match failure.retry {
            RetryCondition::Loading | RetryCondition::Limited { .. } => true,
            RetryCondition::After(wait) => wait > FALLBACK_WAIT,
            RetryCondition::Never | RetryCondition::Later | RetryCondition::Immediately => false,
        };
        if self.has_fallback && (self.attempt > 1 || is_slow) {
            return Err(failure);
        }
        let (requested, max_wait, factor) = match failure.retry {
            RetryCondition::Never => return Err(failure),
            RetryCondition::Loading => return self.while_loading(failure),
            RetryCondition::Immediately if self.immediate == MAX_IMMEDIATE => return Err(failure),
            RetryCondition::Immediately => {
                self.immediate += 1;
                return Ok(self.at_once(failure.error.to_string()));
            }
            RetryCondition::Limited { once: true, .. } if std::mem::replace(&mut self.waited_for_limit, true) => {
                return Err(failure);
            }
            RetryCondition::Limited { wait, .. } => (wait, self.max_wait.max(MAX_MINUTE), MINUTE_FACTOR),
            RetryCondition::Later => (None, self.max_wait, 1),
            RetryCondition::After(wait) => (Some(wait), self.max_wait, 1),
        };
        if let Some(wait) = requested.filter(|wait| *wait > max_wait) {
            let hint = format!("try again in {} seconds, as the server requests", wait.as_secs());
            return Err(failure.hint(&hint));
        }
        let Some(backoff) = self.waits.next() else { return Err(failure) };
        self.left = self.left.saturating_sub(1);
        // Jitter prevents clients with the same requested wait from returning all at once.
        let wait = requested.map_or(backoff * factor, |requested| requested.saturating_add(backoff / 10)).min(max_wait);
        Ok(self.announce(wait, failure.error.to_string(), Some(self.left)))
    }

    /// Waits for a server that loads its model. Short waits between the attempts avoid an unnecessary delay.
    fn while_loading(&mut self, failure: Failure) -> Result<Retry, Failure> {
        let now = Instant::now();
        let first = self.first;
        let loading = self.loading.get_or_insert(LoadingWait { since: now, announced: None, next: first });
        if now.duration_since(loading.since) >= MAX_LOADING_TIME {
            return Err(failure);
        }
        let wait = loading.next.min(MAX_LOADING_WAIT);
        loading.next = wait * 2;
        if loading.announced.is_none_or(|announced| now.duration_since(announced) >= ANNOUNCE_INTERVAL) {
            loading.announced = Some(now);
            let minutes = MAX_LOADING_TIME.as_secs() / 60;
            let reason = format!("{}; waiting up to {minutes} minutes", failure.error);
            return Ok(self.announce(wait, reason, None));
        }
        self.attempt += 1;
        Ok(Retry { wait, announcement: None })
    }

    /// Returns an immediate attempt in another form. It does not count as a retry.
    pub(crate) fn at_once(&mut self, reason: String) -> Retry {
        self.announce(Duration::ZERO, reason, None)
    }

    /// Announces the next attempt, after which `left` more may follow, if they are counted.
    fn announce(&mut self, wait: Duration, reason: String, left: Option<u32>) -> Retry {
        self.attempt += 1;
        let delay_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let (attempt, attempts) = (self.attempt, left.map(|left| self.attempt + left));
        Retry { wait, announcement: Some(ModelChunk::Retry { attempt, attempts, delay_ms, reason }) }
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
        Retries::new(&config, config.retries, false)
    }

    #[test]
    fn retry_delays_grow_and_end() {
        let mut retries = retries();
        for (number, low, high) in [(2, 500, 1_000), (3, 1_000, 2_000), (4, 2_000, 4_000)] {
            let retry = retries.after(Failure::cut("cut")).unwrap();
            assert!((low..=high).contains(&retry.wait.as_millis()), "{retry:?}");
            let Some(ModelChunk::Retry { attempt, attempts, .. }) = retry.announcement else { panic!("{retry:?}") };
            assert_eq!((attempt, attempts), (number, Some(4)));
        }
        assert_eq!(retries.after(Failure::cut("cut")).unwrap_err().error.kind(), ErrorKind::CutStream);
    }

    #[test]
    fn rate_limits_are_retried_with_long_delays() {
        let limited = |wait, once| Failure { retry: RetryCondition::Limited { wait, once }, ..Failure::cut("limited") };
        let mut limited_retries = retries();
        assert!((10_000..=20_000).contains(&limited_retries.after(limited(None, false)).unwrap().wait.as_millis()));
        let retry = limited_retries.after(limited(Some(Duration::from_secs(61)), false)).unwrap();
        assert!((61_000..=61_300).contains(&retry.wait.as_millis()), "{retry:?}");
        assert!(limited_retries.after(limited(Some(Duration::from_secs(91)), false)).is_err());
        let mut retries = retries();
        assert!(retries.after(limited(None, true)).is_ok() && retries.after(limited(None, true)).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn loading_server_is_retried_for_minutes_with_notices() {
        let loading = || Failure { retry: RetryCondition::Loading, ..Failure::cut("Loading model") };
        let (mut retries, start, mut announced) = (retries(), Instant::now(), Vec::new());
        while let Ok(retry) = retries.after(loading()) {
            announced.extend(retry.announcement.map(|_| start.elapsed().as_secs() / 60));
            assert!(retry.wait <= MAX_LOADING_WAIT);
            tokio::time::sleep(retry.wait).await;
        }
        assert_eq!(announced, [0, 1, 2, 3, 4]);
        assert!((300..310).contains(&start.elapsed().as_secs()));
    }
}
