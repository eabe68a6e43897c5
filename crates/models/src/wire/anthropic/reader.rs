//! Events into the answer. Typed and borrowed, and lenient: kinds that are not known are passed over, and so are fields. This wire counts
//! cached tokens beside the others of a request; here they are counted in, as on every wire.

use agentd_core::{model::Finish, origin::ServerFields, usage::Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::partial::PartialBlocks;
use crate::{
    answer::{Answer, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        dialect::{AnswerReader, parsed},
        lenient::{Count, Text},
        memory::AnswerNote,
    },
};

/// Reads one answer.
pub(super) struct Reader {
    /// Fingerprint of the request.
    behind: String,
    note: AnswerNote,
    blocks: PartialBlocks,
    usage: Option<WireUsage>,
    is_cut: bool,
    is_paused: bool,
}

impl Reader {
    pub(super) fn new(behind: String, note: AnswerNote) -> Self {
        Self { behind, note, blocks: PartialBlocks::default(), usage: None, is_cut: false, is_paused: false }
    }
}

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let data = data.trim();
        // Gateways that speak the other wire as well end with it.
        if data == "[DONE]" {
            answer.done = true;
            return Ok(());
        }
        let event: Event<'_> = parsed(target, data)?;
        if event.error.is_some() {
            return Err(Failure::reported(target, data));
        }
        let index = event.index.unwrap_or_default().0;
        match &*event.r#type {
            "message_start" => {
                let head = event.message.and_then(|message| serde_json::from_str::<MessageHead>(message.get()).ok());
                self.head(head.unwrap_or_default(), answer);
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.blocks.begin(target, index, block, answer)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = &event.delta {
                    self.blocks.add(target, index, delta, answer)?;
                }
            }
            "message_delta" => {
                remark_on_request(event.input_transformations, answer);
                self.count(event.usage, answer);
                let reason = event.delta.as_ref().map_or("", |delta| &*delta.stop_reason);
                self.end(target, reason, answer)?;
            }
            "message_stop" => {
                answer.finish.get_or_insert(Finish::Stop);
                answer.done = true;
            }
            // A whole answer.
            "message" => {
                self.head(serde_json::from_str(data).unwrap_or_default(), answer);
                for (at, block) in event.content.iter().flatten().enumerate() {
                    self.blocks.begin(target, at as u64, block, answer)?;
                }
                self.count(event.usage, answer);
                self.end(target, &event.stop_reason, answer)?;
                answer.finish.get_or_insert(Finish::Stop);
            }
            "" => {
                return Err(Failure::other_wire(target, data).hint(
                    "is `wire: anthropic` right for this server? Servers of OpenAI's interface want `wire: openai`",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn paused(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_paused) {
            return None;
        }
        self.usage = None;
        self.blocks.message()
    }

    fn calls(&mut self) -> Vec<RawCall> {
        self.blocks.calls(self.is_cut)
    }

    fn fields(&mut self) -> Option<ServerFields> {
        let blocks = self.blocks.stored(&self.behind)?;
        Some(ServerFields { blocks: Some(blocks), ..ServerFields::default() })
    }
}

impl Reader {
    fn head(&mut self, head: MessageHead<'_>, answer: &mut Answer) {
        self.note.record(&head.id);
        self.count(head.usage, answer);
        remark_on_cache(head.diagnostics, answer);
        remark_on_request(head.input_transformations, answer);
    }

    fn count(&mut self, usage: Option<WireUsage>, answer: &mut Answer) {
        let Some(usage) = usage else { return };
        let usage = self.usage.unwrap_or_default().updated(usage);
        self.usage = Some(usage);
        (answer.usage, answer.hour_writes) = (Some(usage.usage()), usage.hour_writes());
    }

    fn end(&mut self, target: &Target, reason: &str, answer: &mut Answer) -> Result<(), Failure> {
        let finish = match reason {
            "" => return Ok(()),
            "max_tokens" => Finish::Length,
            "refusal" => Finish::Filtered,
            "model_context_window_exceeded" => {
                let window = answer.usage.map(|usage| usage.tokens());
                return Err(Failure::window_full(target, window));
            }
            _ => Finish::Stop,
        };
        self.is_cut = finish == Finish::Length;
        self.is_paused = reason == "pause_turn";
        answer.finish = Some(finish);
        Ok(())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    r#type: Text<'a>,
    /// Number of the block that it is about.
    index: Option<Count>,
    /// The beginning of an answer.
    message: Option<&'a RawValue>,
    /// The beginning of a block.
    content_block: Option<&'a RawValue>,
    /// A piece of a block, or the end of the answer.
    delta: Option<Delta<'a>>,
    usage: Option<WireUsage>,
    /// Changes that the server made to the request, told at its beginning or its end.
    input_transformations: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// The blocks of a whole answer.
    content: Option<Vec<&'a RawValue>>,
    /// Why a whole answer ended.
    stop_reason: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Delta<'a> {
    pub(super) r#type: Text<'a>,
    pub(super) text: Text<'a>,
    pub(super) partial_json: Text<'a>,
    pub(super) thinking: Text<'a>,
    pub(super) signature: Text<'a>,
    /// Why the answer ended.
    pub(super) stop_reason: Text<'a>,
}

/// The head of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageHead<'a> {
    id: Text<'a>,
    usage: Option<WireUsage>,
    diagnostics: Option<&'a RawValue>,
    input_transformations: Option<&'a RawValue>,
}

/// A block at its beginning, or a whole one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct BlockHead<'a> {
    pub(super) r#type: Text<'a>,
    pub(super) text: Text<'a>,
    pub(super) thinking: Text<'a>,
    pub(super) signature: Text<'a>,
    pub(super) id: Text<'a>,
    pub(super) name: Text<'a>,
    pub(super) input: Option<&'a RawValue>,
}

/// Counts of an answer so far. A later event has the sums, and may leave out what has not changed.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
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
    fn updated(self, later: Self) -> Self {
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
    fn hour_writes(self) -> u64 {
        self.cache_creation.unwrap_or_default().ephemeral_1h_input_tokens.unwrap_or_default().0
    }

    fn usage(self) -> Usage {
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

/// Reasons that only say that nobody knows.
const NO_REASONS: [&str; 2] = ["unavailable", "previous_message_not_found"];

/// `diagnostics` of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Diagnostics<'a> {
    /// Null while the server still compares.
    cache_miss_reason: Option<MissReason<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MissReason<'a> {
    r#type: Text<'a>,
    cache_missed_input_tokens: Count,
}

/// One of the `input_transformations`: a part of the request that the model was not shown, or was shown though it did not fit.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Transformation<'a> {
    r#type: Text<'a>,
    reason: Text<'a>,
}

/// Takes in why the cache did not hold all of the request before.
fn remark_on_cache(diagnostics: Option<&RawValue>, answer: &mut Answer) {
    let told: Option<Diagnostics<'_>> = diagnostics.and_then(|told| serde_json::from_str(told.get()).ok());
    let Some(miss) = told.and_then(|told| told.cache_miss_reason) else { return };
    let reason = &*miss.r#type;
    if !NO_REASONS.contains(&reason) {
        answer.remark(reason, miss.cache_missed_input_tokens.0);
    }
}

/// Takes in what the server changed of the request, such as `thinking_dropped:prefix_binding_mismatch`.
fn remark_on_request(transformations: Option<&RawValue>, answer: &mut Answer) {
    let told: Option<Vec<Transformation<'_>>> = transformations.and_then(|told| serde_json::from_str(told.get()).ok());
    for Transformation { r#type, reason } in told.into_iter().flatten() {
        let remark = format!("{}:{}", &*r#type, &*reason);
        answer.remark(remark.trim_end_matches(':'), 0);
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
