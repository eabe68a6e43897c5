//! Usage of model calls: tokens, and cost if prices are known.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens and cost of one or more model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the requests, including cached ones.
    pub prompt_tokens: u64,
    /// Tokens of the requests that the server read from its cache.
    pub cached_tokens: u64,
    /// Tokens of the requests that the server wrote to its cache, if the server counts cache writes. Some servers
    /// charge a separate price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Tokens of the answers, including reasoning.
    pub completion_tokens: u64,
    /// Tokens of the answers that were reasoning.
    pub reasoning_tokens: u64,
    /// Cost in millionths of a US dollar, at the prices at the time of each call. `None` if no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
    /// Number of model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// Number of calls with an unknown price, which are not included in the cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_calls: u64,
}

impl Usage {
    /// Returns the usage of one model call as counted by its server. The price is unknown if the server counted
    /// nothing, or if the model's token prices are unknown.
    pub fn of_call(counted: Option<Self>) -> Self {
        let counted = counted.unwrap_or_default();
        Self { calls: 1, unpriced_calls: u64::from(counted.cost_microusd.is_none()), ..counted }
    }

    /// Returns the usage of a failed model call, which counts as a call and is assumed to be free.
    pub fn of_failed_call() -> Self {
        Self { calls: 1, ..Self::default() }
    }

    /// Returns the total number of tokens in requests and answers.
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

/// Timing of one model call, including its retries and broken attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTiming {
    /// Time from the request to the first part of an answer, in milliseconds. `None` if no part arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
    /// Time from the request to the end of the answer, in milliseconds.
    pub duration_ms: u64,
}

/// Serde predicate for skipping default values.
pub fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cost_microusd = match (self.cost_microusd, other.cost_microusd) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.calls = self.calls.saturating_add(other.calls);
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
    }
}

/// Prices of a model, in US dollars per million tokens.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Number of request tokens above which these prices apply, for the whole request and its answer. 0 except in
    /// `tiers`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub above: u64,
    /// Price of request tokens that were not cached.
    pub input: f64,
    /// Price of request tokens from the server's cache. `None` for the price of `input`.
    pub cached_input: Option<f64>,
    /// Price of request tokens that the server wrote to its cache. `None` for the price of `input`.
    pub cache_write: Option<f64>,
    /// Price of cache writes that the server keeps for an hour. `None` for twice the price of `input`, as Anthropic
    /// publishes.
    pub cache_write_1h: Option<f64>,
    /// Price of answer tokens.
    pub output: f64,
    /// Price of answer tokens that were reasoning. `None` for the price of `output`.
    pub reasoning: Option<f64>,
    /// Prices for longer requests, lowest threshold first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Prices>,
}

impl Prices {
    /// Highest plausible price, in US dollars per million tokens.
    const MAX: f64 = 10_000.0;

    /// Returns true if all prices are plausible and the thresholds of tiers increase.
    pub fn are_plausible(&self) -> bool {
        let rates = [self.cached_input, self.cache_write, self.cache_write_1h, self.reasoning];
        let mut rates = rates.into_iter().flatten().chain([self.input, self.output]);
        let thresholds: Vec<u64> =
            std::iter::once(self.above).chain(self.tiers.iter().map(|tier| tier.above)).collect();
        rates.all(|rate| (0.0..=Self::MAX).contains(&rate))
            && thresholds.is_sorted_by(|lower, upper| lower < upper)
            && self.tiers.iter().all(|tier| tier.tiers.is_empty() && tier.are_plausible())
    }

    /// Returns the prices for a request with this many tokens.
    pub fn of_request(&self, tokens: u64) -> &Self {
        self.tiers.iter().rev().find(|tier| tokens > tier.above).unwrap_or(self)
    }

    /// Returns the cost of one request in millionths of a US dollar. `hour_writes` is the part of the cache writes that
    /// the server keeps for an hour.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "money for display; token counts are far below 2^52 and prices are not negative"
    )]
    pub fn cost_microusd(&self, usage: &Usage, hour_writes: u64) -> u64 {
        let Usage { prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, reasoning_tokens, .. } =
            *usage;
        let Self { input, cached_input, cache_write, cache_write_1h, output, reasoning, .. } =
            *self.of_request(prompt_tokens);
        let hour_writes = hour_writes.min(cache_write_tokens);
        // Some servers do not include reasoning in the answer tokens.
        let reasoned = reasoning_tokens.min(completion_tokens);
        let parts = [
            (prompt_tokens.saturating_sub(cached_tokens).saturating_sub(cache_write_tokens), input),
            (cached_tokens, cached_input.unwrap_or(input)),
            (cache_write_tokens - hour_writes, cache_write.unwrap_or(input)),
            (hour_writes, cache_write_1h.unwrap_or(2.0 * input)),
            (completion_tokens - reasoned, output),
            (reasoned, reasoning.unwrap_or(output)),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>().round().max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_of_a_million_tokens_is_the_price() {
        let prices = Prices { input: 3.0, cached_input: Some(0.3), output: 15.0, ..Prices::default() };
        let usage =
            Usage { prompt_tokens: 1_000_000, cached_tokens: 500_000, completion_tokens: 100_000, ..Usage::default() };
        assert_eq!(prices.cost_microusd(&usage, 0), 1_500_000 + 150_000 + 1_500_000);
        let usage = Usage { cache_write_tokens: 200_000, ..usage };
        assert_eq!(prices.cost_microusd(&usage, 0), 1_500_000 + 150_000 + 1_500_000);
        let prices = Prices { cache_write: Some(3.75), ..prices };
        assert_eq!(prices.cost_microusd(&usage, 0), 900_000 + 750_000 + 150_000 + 1_500_000);
        assert_eq!(prices.cost_microusd(&usage, 80_000), 900_000 + 450_000 + 480_000 + 150_000 + 1_500_000);
        let prices = Prices { cache_write_1h: Some(7.0), reasoning: Some(20.0), ..prices };
        let usage = Usage { reasoning_tokens: 40_000, ..usage };
        let answer = 60_000 * 15 + 40_000 * 20;
        assert_eq!(prices.cost_microusd(&usage, u64::MAX), 900_000 + 200_000 * 7 + 150_000 + answer);
    }

    #[test]
    fn long_request_uses_the_upper_price_tier_entirely() {
        let tier = |above, input| Prices { above, input, output: 10.0 * input, ..Prices::default() };
        let prices = Prices { tiers: vec![tier(100, 2.0), tier(200, 4.0)], ..tier(0, 1.0) };
        assert!(prices.are_plausible());
        for (prompt_tokens, price) in [(100, 1), (101, 2), (200, 2), (201, 4), (1 << 40, 4)] {
            let usage = Usage { prompt_tokens, completion_tokens: 7, ..Usage::default() };
            assert_eq!(prices.cost_microusd(&usage, 0), (prompt_tokens + 70) * price, "{prompt_tokens}");
        }
        for wrong in [
            Prices { tiers: vec![tier(200, 2.0), tier(100, 4.0)], ..tier(0, 1.0) },
            Prices { tiers: vec![tier(0, 2.0)], ..tier(0, 1.0) },
            Prices { tiers: vec![prices.clone()], ..tier(0, 1.0) },
            Prices { tiers: vec![tier(9, f64::NAN)], ..tier(0, 1.0) },
            Prices { reasoning: Some(-1.0), ..tier(0, 1.0) },
            tier(0, f64::INFINITY),
        ] {
            assert!(!wrong.are_plausible(), "{wrong:?}");
        }
    }
}
