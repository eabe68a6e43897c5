//! One event of an answer, or a whole answer of a server that does not stream. Typed and borrowed, because this is
//! read hundreds of thousands of times per second; lenient in every place where servers are known to differ. And what an answer
//! took, in the many shapes in which servers say it.

use agentd_core::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::lenient::{Count, Text};

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Chunk<'a> {
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) usage: Option<WireUsage<'a>>,
    /// llama.cpp's own account.
    pub(super) timings: Option<Timings>,
    /// Groq's place for the usage.
    pub(super) x_groq: Option<XGroq<'a>>,
    pub(super) error: Option<&'a RawValue>,
    /// `error` where the whole event is one.
    pub(super) object: Option<&'a RawValue>,
    /// Message of an error that comes without a wrapping, as older llama.cpp's do.
    pub(super) message: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct XGroq<'a> {
    pub(super) usage: Option<WireUsage<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Choice<'a> {
    pub(super) index: Option<Count>,
    pub(super) delta: Option<Delta<'a>>,
    /// In place of the delta, in a whole answer.
    pub(super) message: Option<Delta<'a>>,
    pub(super) finish_reason: Text<'a>,
    /// Moonshot's place for the usage.
    pub(super) usage: Option<WireUsage<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Delta<'a> {
    pub(super) content: Text<'a>,
    pub(super) refusal: Text<'a>,
    reasoning_content: Text<'a>,
    reasoning: Text<'a>,
    thinking: Text<'a>,
    /// Signed or encrypted thoughts, which go back to their server.
    pub(super) reasoning_details: Option<&'a RawValue>,
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

impl Delta<'_> {
    /// The words of reasoning. Some servers send the same words under two names.
    pub(super) fn reasoning(&self) -> &str {
        let places = [&*self.reasoning_content, &self.reasoning, &self.thinking];
        places.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct CallDelta<'a> {
    pub(super) index: Option<Count>,
    pub(super) id: Text<'a>,
    /// A signature of the call, which goes back to its server.
    pub(super) extra_content: Option<&'a RawValue>,
    pub(super) function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct FunctionDelta<'a> {
    pub(super) name: Text<'a>,
    /// Usually a string with a piece of JSON; some servers send the JSON itself.
    pub(super) arguments: Option<&'a RawValue>,
}

/// Dollars that no single request costs.
const MAX_CHARGE: f64 = 10_000.0;

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct WireUsage<'a> {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Count,
    /// Moonshot's name for cached tokens.
    cached_tokens: Count,
    /// LiteLLM's name for tokens that were put into the cache.
    cache_creation_input_tokens: Count,
    reasoning_tokens: Count,
    /// OpenRouter's charge, in dollars, and whose key was charged for the model beside it.
    cost: Text<'a>,
    cost_details: Option<CostDetails<'a>>,
    is_byok: Option<&'a RawValue>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
    cache_creation_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CostDetails<'a> {
    upstream_inference_cost: Text<'a>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Count,
}

/// llama.cpp's account of one answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Timings {
    /// Tokens out of the cache.
    cache_n: Count,
    /// Tokens of the request that were computed.
    prompt_n: Count,
    /// Tokens of the answer.
    predicted_n: Count,
}

impl WireUsage<'_> {
    pub(super) fn usage(&self) -> Usage {
        let count = |places: [Count; 3]| places.map(|count| count.0).into_iter().max().unwrap_or(0);
        let details = self.prompt_tokens_details.unwrap_or_default();
        let cached_tokens = count([details.cached_tokens, self.prompt_cache_hit_tokens, self.cached_tokens]);
        let cache_write_tokens =
            count([details.cache_write_tokens, details.cache_creation_tokens, self.cache_creation_input_tokens]);
        // More tokens of the cache than there are in all are counted beside them.
        let of_cache = cached_tokens.saturating_add(cache_write_tokens);
        let prompt_tokens = match self.prompt_tokens.0 {
            rest if of_cache > rest => rest.saturating_add(of_cache),
            all => all,
        };
        let details = self.completion_tokens_details.unwrap_or_default();
        let reasoning_tokens = details.reasoning_tokens.0.max(self.reasoning_tokens.0);
        let answer = self.completion_tokens.0;
        let whole = answer.saturating_add(reasoning_tokens);
        // Some servers count thoughts beside the answer: xAI's does.
        let is_beside = reasoning_tokens > answer
            || reasoning_tokens > 0 && self.total_tokens.0 == self.prompt_tokens.0.saturating_add(whole);
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
        let dollars = |text: &Text<'_>| text.trim().parse::<f64>().ok();
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
        let mut usage = known.unwrap_or_else(|| Usage {
            prompt_tokens: self.prompt_n.0.saturating_add(self.cache_n.0),
            completion_tokens: self.predicted_n.0,
            ..Usage::default()
        });
        usage.cached_tokens = usage.cached_tokens.max(self.cache_n.0).min(usage.prompt_tokens);
        usage
    }
}
