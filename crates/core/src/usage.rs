//! What model calls took: tokens, and money where prices are known.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens and money of one or more model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the requests, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens of the requests that the server did not compute again.
    pub cached_tokens: u64,
    /// Tokens of the requests that the server put into its cache, where it counts them: some have a price of their own for it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Tokens of the answers, reasoning included.
    pub completion_tokens: u64,
    /// Tokens of the answers that were reasoning.
    pub reasoning_tokens: u64,
    /// Money, in millionths of a US dollar, at the prices of the time of each call; absent where no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
    /// Model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// Those of them whose price is not known: the money is that of the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_calls: u64,
}

impl Usage {
    /// Usage of one model call, as its server counted it. Where the server counted nothing, or the price of its tokens is not
    /// known, the price of the call is not known.
    #[must_use]
    pub fn of_call(counted: Option<Self>) -> Self {
        let counted = counted.unwrap_or_default();
        Self { calls: 1, unpriced_calls: u64::from(counted.cost_microusd.is_none()), ..counted }
    }

    /// Usage of a model call that came to nothing: it is counted, and costs nothing as far as anybody knows.
    #[must_use]
    pub fn of_failed_call() -> Self {
        Self { calls: 1, ..Self::default() }
    }

    /// With so many answers before it that broke off and were asked for again. Their servers did not come to count them.
    #[must_use]
    pub fn with_broken(self, answers: u64) -> Self {
        Self { calls: self.calls + answers, unpriced_calls: self.unpriced_calls + answers, ..self }
    }

    /// All tokens, of requests and answers.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

/// Timing of one model call. Retries and answers that broke off are part of the call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTiming {
    /// Time from the request to the first part of an answer, in milliseconds; none where none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
    /// Time from the request to the end of the answer, in milliseconds.
    pub duration_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
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

/// Prices of a model, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Request tokens that the server had to compute.
    pub input: f64,
    /// Request tokens out of the server's cache; `input` where absent.
    #[serde(default)]
    pub cached_input: Option<f64>,
    /// Request tokens that the server put into its cache; `input` where absent.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// Answer tokens.
    pub output: f64,
}

impl Prices {
    /// Price of `usage`, in millionths of a US dollar.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "money for display; token counts are far below 2^52 and prices are not negative"
    )]
    pub fn cost_microusd(&self, usage: &Usage) -> u64 {
        let written = usage.cache_write_tokens;
        let fresh = usage.prompt_tokens.saturating_sub(usage.cached_tokens).saturating_sub(written) as f64;
        let cached = usage.cached_tokens as f64 * self.cached_input.unwrap_or(self.input);
        let written = written as f64 * self.cache_write.unwrap_or(self.input);
        (fresh * self.input + cached + written + usage.completion_tokens as f64 * self.output).round().max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_says_of_how_many_calls_no_price_is_known() {
        let counted = Usage { prompt_tokens: 5, ..Usage::default() };
        let priced = Usage::of_call(Some(Usage { cost_microusd: Some(7), ..counted }));
        assert_eq!((priced.calls, priced.unpriced_calls), (1, 0));
        let mut sum = priced;
        for unpriced in [Some(counted), None] {
            sum += Usage::of_call(unpriced);
        }
        sum += Usage::of_failed_call();
        assert_eq!((sum.calls, sum.unpriced_calls, sum.cost_microusd), (4, 2, Some(7)));
        let again = priced.with_broken(2);
        assert_eq!((again.calls, again.unpriced_calls, again.cost_microusd), (3, 2, Some(7)));
        assert_eq!(sum.prompt_tokens, 10);
    }

    #[test]
    fn a_million_tokens_cost_their_price() {
        let prices = Prices { input: 3.0, cached_input: Some(0.3), cache_write: None, output: 15.0 };
        let usage =
            Usage { prompt_tokens: 1_000_000, cached_tokens: 500_000, completion_tokens: 100_000, ..Usage::default() };
        assert_eq!(prices.cost_microusd(&usage), 1_500_000 + 150_000 + 1_500_000);
        let usage = Usage { cache_write_tokens: 200_000, ..usage };
        assert_eq!(prices.cost_microusd(&usage), 1_500_000 + 150_000 + 1_500_000);
        let prices = Prices { cache_write: Some(3.75), ..prices };
        assert_eq!(prices.cost_microusd(&usage), 900_000 + 750_000 + 150_000 + 1_500_000);
    }
}
