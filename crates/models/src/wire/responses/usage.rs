//! Usage of an answer. Cached tokens are among those of the request, as on most wires.

use agentd_core::usage::Usage;
use serde::Deserialize;

use crate::wire::lenient::Count;

/// Counts of an answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Option<Count>,
    input_tokens_details: Option<InputDetails>,
    output_tokens: Option<Count>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<Count>,
    cache_write_tokens: Option<Count>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<Count>,
}

impl WireUsage {
    pub(super) fn usage(self) -> Usage {
        let of = |count: Option<Count>| count.unwrap_or_default().0;
        let input = self.input_tokens_details.unwrap_or_default();
        let (cached_tokens, written) = (of(input.cached_tokens), of(input.cache_write_tokens));
        // More cached tokens than there are in all are counted beside them.
        let prompt_tokens = match of(self.input_tokens) {
            rest if cached_tokens.saturating_add(written) > rest => {
                rest.saturating_add(cached_tokens).saturating_add(written)
            }
            all => all,
        };
        Usage {
            prompt_tokens,
            cached_tokens,
            cache_write_tokens: written,
            completion_tokens: of(self.output_tokens),
            reasoning_tokens: of(self.output_tokens_details.and_then(|details| details.reasoning_tokens)),
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_counted_in() {
        let check = |json: &str, prompt_tokens: u64| {
            let usage = serde_json::from_str::<WireUsage>(json).unwrap().usage();
            let expected = Usage {
                prompt_tokens,
                cached_tokens: 100,
                cache_write_tokens: 20,
                completion_tokens: 30,
                reasoning_tokens: 12,
                ..Usage::default()
            };
            assert_eq!(usage, expected, "{json}");
        };
        let details = r#""input_tokens_details":{"cached_tokens":100,"cache_write_tokens":20},"output_tokens":30,
            "output_tokens_details":{"reasoning_tokens":12},"total_tokens":157"#;
        check(&format!(r#"{{"input_tokens":127,{details}}}"#), 127);
        check(&format!(r#"{{"input_tokens":7,{details}}}"#), 127);
    }
}
