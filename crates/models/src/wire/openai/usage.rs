//! What an answer took, in the many shapes in which servers say it.

use agentd_core::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::lenient::{Count, Text};

/// Dollars that no single request costs.
const MAX_CHARGE: f64 = 10_000.0;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage<'a> {
    prompt_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    total_tokens: Option<Count>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Option<Count>,
    /// Moonshot's name for cached tokens.
    cached_tokens: Option<Count>,
    /// LiteLLM's name for tokens that were put into the cache.
    cache_creation_input_tokens: Option<Count>,
    reasoning_tokens: Option<Count>,
    /// OpenRouter's charge, in dollars, and whose key was charged for the model beside it.
    #[serde(borrow)]
    cost: Option<Text<'a>>,
    #[serde(borrow)]
    cost_details: Option<CostDetails<'a>>,
    #[serde(borrow)]
    is_byok: Option<&'a RawValue>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<Count>,
    cache_write_tokens: Option<Count>,
    cache_creation_tokens: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CostDetails<'a> {
    #[serde(borrow)]
    upstream_inference_cost: Option<Text<'a>>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<Count>,
}

/// llama.cpp's account of one answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Timings {
    /// Tokens out of the cache.
    cache_n: Option<Count>,
    /// Tokens of the request that were computed.
    prompt_n: Option<Count>,
    /// Tokens of the answer.
    predicted_n: Option<Count>,
}

impl WireUsage<'_> {
    pub(super) fn usage(&self) -> Usage {
        let count = |places: &[Option<Count>]| places.iter().flatten().map(|count| count.0).max().unwrap_or(0);
        let details = self.prompt_tokens_details.unwrap_or_default();
        let cached_tokens = count(&[details.cached_tokens, self.prompt_cache_hit_tokens, self.cached_tokens]);
        let cache_write_tokens =
            count(&[details.cache_write_tokens, details.cache_creation_tokens, self.cache_creation_input_tokens]);
        // More tokens of the cache than there are in all are counted beside them.
        let of_cache = cached_tokens.saturating_add(cache_write_tokens);
        let prompt_tokens = match count(&[self.prompt_tokens]) {
            rest if of_cache > rest => rest.saturating_add(of_cache),
            all => all,
        };
        let details = self.completion_tokens_details.unwrap_or_default();
        let reasoning_tokens = count(&[details.reasoning_tokens, self.reasoning_tokens]);
        let answer = count(&[self.completion_tokens]);
        let whole = answer.saturating_add(reasoning_tokens);
        // Some servers count thoughts beside the answer: xAI's does.
        let is_beside = reasoning_tokens > answer
            || reasoning_tokens > 0
                && count(&[self.total_tokens]) == count(&[self.prompt_tokens]).saturating_add(whole);
        let completion_tokens = if is_beside { whole } else { answer };
        Usage {
            prompt_tokens,
            cached_tokens,
            cache_write_tokens,
            completion_tokens,
            reasoning_tokens,
            ..Usage::default()
        }
    }

    /// Money that the server charges for the request, in millionths of a dollar: with that of the model's provider, where it
    /// charges a key of the person's own.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before the cast")]
    pub(super) fn charged_microusd(&self) -> Option<u64> {
        let dollars = |text: &Option<Text<'_>>| text.as_ref()?.as_str().trim().parse::<f64>().ok();
        let upstream =
            self.cost_details.as_ref().filter(|_| self.is_byok.is_some_and(|own_key| own_key.get() == "true"));
        let upstream = upstream.and_then(|details| dollars(&details.upstream_inference_cost)).unwrap_or_default();
        let charged = dollars(&self.cost)? + upstream;
        (0.0..MAX_CHARGE).contains(&charged).then(|| (charged * 1e6).round() as u64)
    }
}

impl Timings {
    /// Puts what the account adds to what is known already.
    pub(crate) fn complete(&self, known: Option<Usage>) -> Usage {
        let of = |count: Option<Count>| count.unwrap_or_default().0;
        let mut usage = known.unwrap_or_else(|| Usage {
            prompt_tokens: of(self.prompt_n).saturating_add(of(self.cache_n)),
            completion_tokens: of(self.predicted_n),
            ..Usage::default()
        });
        usage.cached_tokens = usage.cached_tokens.max(of(self.cache_n)).min(usage.prompt_tokens);
        usage
    }
}
