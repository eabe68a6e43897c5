//! What an answer took. This wire counts cached tokens beside the others of a request; here they are counted in, as on every
//! wire.

use agentd_core::usage::Usage;
use serde::Deserialize;

use crate::wire::lenient::Count;

/// Counts of an answer so far. A later event has the sums, and may leave out what has not changed.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Option<Count>,
    cache_read_input_tokens: Option<Count>,
    cache_creation_input_tokens: Option<Count>,
    cache_creation: Option<CacheWrites>,
    output_tokens: Option<Count>,
    output_tokens_details: Option<OutputDetails>,
}

/// Tokens that were put into the cache, by the time for which they stay there. Some servers leave out their sum.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CacheWrites {
    ephemeral_5m_input_tokens: Option<Count>,
    ephemeral_1h_input_tokens: Option<Count>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Option<Count>,
}

impl WireUsage {
    /// These counts, and those of a later event over them.
    pub(super) fn updated(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            cache_read_input_tokens: later.cache_read_input_tokens.or(self.cache_read_input_tokens),
            cache_creation_input_tokens: later.cache_creation_input_tokens.or(self.cache_creation_input_tokens),
            cache_creation: later.cache_creation.or(self.cache_creation),
            output_tokens: later.output_tokens.or(self.output_tokens),
            output_tokens_details: later.output_tokens_details.or(self.output_tokens_details),
        }
    }

    /// Tokens of cache writes that stay for an hour.
    pub(super) fn hour_writes(self) -> u64 {
        self.cache_creation.unwrap_or_default().ephemeral_1h_input_tokens.unwrap_or_default().0
    }

    pub(super) fn usage(self) -> Usage {
        let of = |count: Option<Count>| count.unwrap_or_default().0;
        let cached_tokens = of(self.cache_read_input_tokens);
        let writes = self.cache_creation.unwrap_or_default();
        let parts = of(writes.ephemeral_5m_input_tokens).saturating_add(self.hour_writes());
        let written = of(self.cache_creation_input_tokens).max(parts);
        Usage {
            prompt_tokens: of(self.input_tokens).saturating_add(cached_tokens).saturating_add(written),
            cached_tokens,
            cache_write_tokens: written,
            completion_tokens: of(self.output_tokens),
            reasoning_tokens: of(self.output_tokens_details.and_then(|details| details.thinking_tokens)),
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_count_and_later_events_have_the_sums() {
        let parse = |json: &str| serde_json::from_str::<WireUsage>(json).unwrap();
        let start = parse(
            r#"{"input_tokens":7,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":1}"#,
        );
        let end = parse(r#"{"input_tokens":null,"output_tokens":30,"output_tokens_details":{"thinking_tokens":12}}"#);
        let expected = Usage {
            prompt_tokens: 127,
            cached_tokens: 100,
            cache_write_tokens: 20,
            completion_tokens: 30,
            reasoning_tokens: 12,
            ..Usage::default()
        };
        assert_eq!(start.updated(end).usage(), expected);
    }
}
