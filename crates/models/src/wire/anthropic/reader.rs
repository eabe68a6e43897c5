//! Events into the answer. Typed and borrowed, and lenient: kinds that are not known are passed over, and so are fields. This wire counts
//! cached tokens beside the others of a request; here they are counted in, as on every wire.

use agentd_core::{model::Finish, origin::ServerFields, usage::Usage};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::partial::PartialBlocks;
use crate::{
    answer::{Answer, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        dialect::{AnswerReader, parsed},
        lenient::{Count, Text, counted},
        memory::AnswerNote,
    },
};

/// Reads one answer.
pub(super) struct Reader {
    /// Fingerprint of the request.
    behind: String,
    note: AnswerNote,
    blocks: PartialBlocks,
    /// Counts of the answer so far, by their names.
    counts: Map<String, Value>,
    is_cut: bool,
    is_paused: bool,
}

impl Reader {
    pub(super) fn new(behind: String, note: AnswerNote) -> Self {
        Self { behind, note, blocks: PartialBlocks::default(), counts: Map::new(), is_cut: false, is_paused: false }
    }
}

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
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
        self.counts.clear();
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

    /// Takes in counts. A later event has the sums, and may leave out what has not changed.
    fn count(&mut self, counts: Option<Map<String, Value>>, answer: &mut Answer) {
        let Some(counts) = counts else { return };
        self.counts.extend(counts.into_iter().filter(|(_, count)| !count.is_null()));
        let (usage, hour_writes) = usage(&self.counts.clone().into());
        (answer.usage, answer.hour_writes) = (Some(usage), hour_writes);
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
    usage: Option<Map<String, Value>>,
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
    usage: Option<Map<String, Value>>,
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

/// Reasons that only say that nobody knows.
const NO_REASONS: [&str; 2] = ["unavailable", "previous_message_not_found"];

/// Takes in why the cache did not hold all of the request before. Nothing is said of it while the server still compares.
fn remark_on_cache(diagnostics: Option<&RawValue>, answer: &mut Answer) {
    let told: Value = diagnostics.and_then(|told| serde_json::from_str(told.get()).ok()).unwrap_or_default();
    let miss = &told["cache_miss_reason"];
    if let Some(reason) = miss["type"].as_str().filter(|reason| !NO_REASONS.contains(reason)) {
        answer.remark(reason, counted(miss, ["/cache_missed_input_tokens"]));
    }
}

/// Takes in what the server changed of the request, such as `thinking_dropped:prefix_binding_mismatch`: parts that the model was
/// not shown, or was shown though they did not fit.
fn remark_on_request(transformations: Option<&RawValue>, answer: &mut Answer) {
    let told: Option<Vec<Value>> = transformations.and_then(|told| serde_json::from_str(told.get()).ok());
    for told in told.into_iter().flatten() {
        let text = |field: &str| told[field].as_str().unwrap_or_default();
        let remark = format!("{}:{}", text("type"), text("reason"));
        answer.remark(remark.trim_end_matches(':'), 0);
    }
}

/// The usage out of all counts.
fn usage(told: &Value) -> (Usage, u64) {
    let hour_writes = counted(told, ["/cache_creation/ephemeral_1h_input_tokens"]);
    let cached_tokens = counted(told, ["/cache_read_input_tokens"]);
    // Some servers leave out the sum of what was put into the cache.
    let parts = counted(told, ["/cache_creation/ephemeral_5m_input_tokens"]).saturating_add(hour_writes);
    let cache_write_tokens = counted(told, ["/cache_creation_input_tokens"]).max(parts);
    let usage = Usage {
        prompt_tokens: counted(told, ["/input_tokens"])
            .saturating_add(cached_tokens)
            .saturating_add(cache_write_tokens),
        cached_tokens,
        cache_write_tokens,
        completion_tokens: counted(told, ["/output_tokens"]),
        reasoning_tokens: counted(told, ["/output_tokens_details/thinking_tokens"]),
        ..Usage::default()
    };
    (usage, hour_writes)
}
