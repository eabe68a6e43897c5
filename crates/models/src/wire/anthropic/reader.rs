//! Reads events into the answer. Events are parsed into borrowed types, and unknown kinds and fields are ignored. This
//! wire counts cached tokens separately; here they are included in the prompt tokens, as on every wire. Blocks are
//! assembled from their pieces.

use agentd_core::{model::Finish, origin::ServerFields, usage::Usage};
use serde::Deserialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{
    answer::{Answer, Kind, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        anthropic::conversation::Block,
        dialect::{AnswerNote, AnswerReader, parse},
        lenient::{Count, Text, counted, is_json},
        partial::{AnswerParts, CallBounds, PartialCall},
        sanitise::is_blank,
    },
};

pub(super) struct Reader {
    /// Hash of the request.
    prefix: String,
    note: AnswerNote,
    blocks: PartialBlocks,
    /// Token counts so far, by name.
    counts: Map<String, Value>,
    is_cut: bool,
    is_paused: bool,
}

impl Reader {
    pub(super) fn new(prefix: String, note: AnswerNote) -> Self {
        Self { prefix, note, blocks: PartialBlocks::default(), counts: Map::new(), is_cut: false, is_paused: false }
    }
}

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let event: Event<'_> = parse(target, data)?;
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
            // A whole answer without streaming.
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
                return Err(Failure::other_wire(target, data)
                    .hint("check `wire`: OpenAI-compatible servers need `wire: openai`"));
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
        let blocks = self.blocks.stored(&self.prefix)?;
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

    /// Updates the token counts. Later events contain totals, and may omit unchanged ones.
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
    /// Number of the block concerned.
    index: Option<Count>,
    /// Start of an answer.
    message: Option<&'a RawValue>,
    /// Start of a block.
    content_block: Option<&'a RawValue>,
    /// Piece of a block, or the end of the answer.
    delta: Option<Delta<'a>>,
    usage: Option<Map<String, Value>>,
    /// The server's changes to the request, reported at its start or end.
    input_transformations: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// Blocks of a whole answer.
    content: Option<Vec<&'a RawValue>>,
    /// Reason why a whole answer ended.
    stop_reason: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Delta<'a> {
    r#type: Text<'a>,
    text: Text<'a>,
    partial_json: Text<'a>,
    thinking: Text<'a>,
    signature: Text<'a>,
    stop_reason: Text<'a>,
}

/// Start of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageHead<'a> {
    id: Text<'a>,
    usage: Option<Map<String, Value>>,
    diagnostics: Option<&'a RawValue>,
    input_transformations: Option<&'a RawValue>,
}

/// Start of a block, or a whole one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct BlockHead<'a> {
    r#type: Text<'a>,
    text: Text<'a>,
    thinking: Text<'a>,
    signature: Text<'a>,
    id: Text<'a>,
    name: Text<'a>,
    input: Option<&'a RawValue>,
}

/// Values that only mean that the reason is unknown.
const NO_REASONS: [&str; 2] = ["unavailable", "previous_message_not_found"];

/// Records why the cache missed part of the previous request. The server reports nothing while it is still comparing.
fn remark_on_cache(diagnostics: Option<&RawValue>, answer: &mut Answer) {
    let value: Value = diagnostics.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default();
    let miss = &value["cache_miss_reason"];
    if let Some(reason) = miss["type"].as_str().filter(|reason| !NO_REASONS.contains(reason)) {
        answer.remark(reason, counted(miss, ["/cache_missed_input_tokens"]));
    }
}

/// Records the server's changes to the request, such as `thinking_dropped:prefix_binding_mismatch`: parts that the
/// model was not shown, or was shown although they did not fit.
fn remark_on_request(transformations: Option<&RawValue>, answer: &mut Answer) {
    let value: Option<Vec<Value>> = transformations.and_then(|value| serde_json::from_str(value.get()).ok());
    for value in value.into_iter().flatten() {
        let text = |field: &str| value[field].as_str().unwrap_or_default();
        let remark = format!("{}:{}", text("type"), text("reason"));
        answer.remark(remark.trim_end_matches(':'), 0);
    }
}

fn usage(value: &Value) -> (Usage, u64) {
    let hour_writes = counted(value, ["/cache_creation/ephemeral_1h_input_tokens"]);
    let cached_tokens = counted(value, ["/cache_read_input_tokens"]);
    // Some servers omit the total of cache writes.
    let parts = counted(value, ["/cache_creation/ephemeral_5m_input_tokens"]).saturating_add(hour_writes);
    let cache_write_tokens = counted(value, ["/cache_creation_input_tokens"]).max(parts);
    let usage = Usage {
        prompt_tokens: counted(value, ["/input_tokens"])
            .saturating_add(cached_tokens)
            .saturating_add(cache_write_tokens),
        cached_tokens,
        cache_write_tokens,
        completion_tokens: counted(value, ["/output_tokens"]),
        reasoning_tokens: counted(value, ["/output_tokens_details/thinking_tokens"]),
        ..Usage::default()
    };
    (usage, hour_writes)
}

/// Maximum number of blocks of one answer.
const MAX_BLOCKS: usize = 4096;

/// Blocks of one answer, in the order in which they started.
#[derive(Debug, Default)]
struct PartialBlocks {
    blocks: Vec<PartialBlock>,
    bounds: CallBounds,
    /// True after an unexpected piece. Reasoning is then not sent back, as it would follow another prefix.
    is_malformed: bool,
}

#[derive(Debug)]
struct PartialBlock {
    index: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Text(String),
    Thoughts {
        text: String,
        signature: String,
    },
    Call(Box<PartialCall>),
    /// An unknown block, and the pieces of its input.
    Other {
        raw: Box<RawValue>,
        input: String,
    },
}

impl PartialBlocks {
    fn begin(&mut self, target: &Target, index: u64, raw: &RawValue, answer: &mut Answer) -> Result<(), Failure> {
        let Ok(head) = serde_json::from_str::<BlockHead<'_>>(raw.get()) else {
            self.is_malformed = true;
            return Ok(());
        };
        if self.blocks.len() == MAX_BLOCKS {
            return Err(Failure::protocol(format!(
                "the model at {target} answered with more than {MAX_BLOCKS} blocks"
            )));
        }
        let body = match &*head.r#type {
            "text" => Body::Text(String::new()),
            "thinking" => Body::Thoughts { text: String::new(), signature: head.signature.to_string() },
            "tool_use" => {
                self.bounds.add_call(target)?;
                Body::Call(Box::new(PartialCall::new(&head.id, &head.name)))
            }
            _ => Body::Other { raw: raw.to_owned(), input: String::new() },
        };
        let last = self.blocks.last().map(|block| &block.body);
        let separates = matches!(body, Body::Thoughts { .. })
            && matches!(last, Some(Body::Thoughts { text, .. }) if !text.is_empty());
        self.blocks.push(PartialBlock { index, body });
        answer.size += 1;
        if separates {
            answer.push(Kind::Reasoning, "\n\n");
        }
        // Whole blocks already have their content.
        self.add_text(index, &head.text, answer);
        self.add_thoughts(index, &head.thinking, answer);
        if let Some(input) = head.input.filter(|input| !matches!(input.get(), "{}" | "null")) {
            self.add_input(target, index, input.get(), answer)?;
        }
        Ok(())
    }

    /// Adds a piece to a block.
    fn add(&mut self, target: &Target, index: u64, delta: &Delta<'_>, answer: &mut Answer) -> Result<(), Failure> {
        match &*delta.r#type {
            "text_delta" => self.add_text(index, &delta.text, answer),
            "thinking_delta" => self.add_thoughts(index, &delta.thinking, answer),
            "signature_delta" => match self.block(index) {
                Some(Body::Thoughts { signature, .. }) => signature.push_str(&delta.signature),
                _ => self.is_malformed = true,
            },
            "input_json_delta" => return self.add_input(target, index, &delta.partial_json, answer),
            // Sources of the text. The text can be sent back without them.
            "citations_delta" => {}
            _ => self.is_malformed = true,
        }
        Ok(())
    }

    /// Returns the calls. A call without arguments gets an empty object, unless the answer was cut before they arrived.
    fn calls(&self, is_cut: bool) -> Vec<RawCall> {
        let last = self.blocks.len().saturating_sub(1);
        let call = |(at, block): (usize, &PartialBlock)| match &block.body {
            Body::Call(call) => Some(call.read(!(is_cut && at == last))),
            _ => None,
        };
        self.blocks.iter().enumerate().filter_map(call).collect()
    }

    /// Returns all blocks in stored form, after that prefix, or `None` if only text and calls need to be sent back.
    fn stored(&self, prefix: &str) -> Option<String> {
        let mut stored = AnswerParts::default();
        let fits = self.blocks.iter().try_for_each(|block| match &block.body {
            Body::Text(text) if text.is_empty() => Some(()),
            Body::Text(text) => stored.text(text, None),
            Body::Call(call) => stored.call(&call.id),
            // Reasoning that was cut has no signature yet, and would be refused without one.
            Body::Thoughts { signature, .. } if signature.is_empty() => Some(()),
            Body::Thoughts { text, signature } => stored.original(&signed(text, signature)?),
            Body::Other { raw, input } => stored.original(&with_input(raw, input)?),
        });
        if self.is_malformed || fits.is_none() {
            self.warn_if_thoughts_are_lost();
            return None;
        }
        stored.into_json(Some(prefix))
    }

    /// Returns all blocks in the format of a message, or `None` if they cannot be sent back.
    fn message(&self) -> Option<String> {
        let blocks = self.blocks.iter().filter_map(|block| match &block.body {
            Body::Text(text) => (!is_blank(text)).then(|| Some(Block::text(text).json)),
            Body::Call(call) => Some(Some(Block::call(&call.id, &call.name, &call.arguments).json)),
            Body::Thoughts { text, signature } => {
                (!signature.is_empty()).then(|| Some(signed(text, signature)?.get().to_owned()))
            }
            Body::Other { raw, input } => Some(with_input(raw, input).map(|raw| raw.get().to_owned())),
        });
        let blocks: Vec<String> = blocks.collect::<Option<_>>()?;
        (!self.is_malformed && !blocks.is_empty()).then(|| format!("[{}]", blocks.join(",")))
    }

    fn warn_if_thoughts_are_lost(&self) {
        if self.blocks.iter().any(|block| matches!(block.body, Body::Thoughts { .. } | Body::Other { .. })) {
            tracing::warn!("blocks of an answer are too large or unreadable and are not sent back");
        }
    }

    fn add_text(&mut self, index: u64, text: &str, answer: &mut Answer) {
        match self.block(index) {
            _ if text.is_empty() => {}
            Some(Body::Text(before)) => before.push_str(text),
            _ => self.is_malformed = true,
        }
        answer.push(Kind::Text, text);
    }

    fn add_thoughts(&mut self, index: u64, thoughts: &str, answer: &mut Answer) {
        match self.block(index) {
            _ if thoughts.is_empty() => {}
            Some(Body::Thoughts { text, .. }) => text.push_str(thoughts),
            _ => self.is_malformed = true,
        }
        answer.push(Kind::Reasoning, thoughts);
    }

    fn add_input(&mut self, target: &Target, index: u64, piece: &str, answer: &mut Answer) -> Result<(), Failure> {
        self.bounds.add_bytes(target, piece.len(), answer)?;
        match self.block(index) {
            Some(Body::Call(call)) => call.push(piece, answer),
            Some(Body::Other { input, .. }) => input.push_str(piece),
            _ => self.is_malformed = true,
        }
        Ok(())
    }

    /// Returns the last block with that number.
    fn block(&mut self, index: u64) -> Option<&mut Body> {
        self.blocks.iter_mut().rev().find(|block| block.index == index).map(|block| &mut block.body)
    }
}

/// Formats signed reasoning as it is sent back.
fn signed(text: &str, signature: &str) -> Option<Box<RawValue>> {
    to_raw_value(&json!({"type": "thinking", "thinking": text, "signature": signature})).ok()
}

/// Returns a block with its original bytes, and the input that followed it.
fn with_input(raw: &RawValue, input: &str) -> Option<Box<RawValue>> {
    if !is_json(raw.get()) {
        return None;
    }
    if input.is_empty() {
        return Some(raw.to_owned());
    }
    let mut block: serde_json::Map<String, serde_json::Value> = serde_json::from_str(raw.get()).ok()?;
    block.insert("input".to_owned(), serde_json::from_str(input).ok()?);
    to_raw_value(&block).ok()
}
