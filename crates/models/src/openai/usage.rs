//! What an answer took, in the many shapes in which servers say it.

use agentd_core::usage::Usage;
use serde::Deserialize;

use crate::lenient::Count;

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Option<Count>,
    /// Moonshot's name for cached tokens.
    cached_tokens: Option<Count>,
    reasoning_tokens: Option<Count>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<Count>,
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

impl WireUsage {
    pub(super) fn usage(&self) -> Usage {
        let count = |places: &[Option<Count>]| places.iter().flatten().map(|count| count.0).max().unwrap_or(0);
        let cached_tokens = count(&[
            self.prompt_tokens_details.and_then(|details| details.cached_tokens),
            self.prompt_cache_hit_tokens,
            self.cached_tokens,
        ]);
        // More cached tokens than there are in all are counted beside them.
        let prompt_tokens = match count(&[self.prompt_tokens]) {
            rest if cached_tokens > rest => rest.saturating_add(cached_tokens),
            all => all,
        };
        Usage {
            prompt_tokens,
            cached_tokens,
            completion_tokens: count(&[self.completion_tokens]),
            reasoning_tokens: count(&[
                self.completion_tokens_details.and_then(|details| details.reasoning_tokens),
                self.reasoning_tokens,
            ]),
            ..Usage::default()
        }
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
