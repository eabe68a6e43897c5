//! Events into the answer.

use agentd_core::{model::Finish, origin::ServerFields};

use super::{
    event::{Event, MessageHead},
    partial::PartialBlocks,
    remark,
    usage::WireUsage,
};
use crate::{
    answer::{Answer, RawCall},
    http::{failure::Failure, target::Target},
    wire::{dialect::AnswerReader, last_answers::AnswerNote, lenient::Text},
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
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| Failure::unreadable(target, data, &error))?;
        if event.error.is_some() {
            return Err(Failure::reported(target, data));
        }
        let index = event.index.unwrap_or_default().0;
        match event.kind() {
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
                remark::of_request(event.input_transformations, answer);
                self.count(event.usage, answer);
                let reason = event.delta.as_ref().and_then(|delta| delta.stop_reason.as_ref());
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
                self.end(target, event.stop_reason.as_ref(), answer)?;
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
        self.note.record(head.id.as_ref().map(Text::as_str).unwrap_or_default());
        self.count(head.usage, answer);
        remark::of_cache(head.diagnostics, answer);
        remark::of_request(head.input_transformations, answer);
    }

    fn count(&mut self, usage: Option<WireUsage>, answer: &mut Answer) {
        let Some(usage) = usage else { return };
        let usage = self.usage.unwrap_or_default().updated(usage);
        self.usage = Some(usage);
        (answer.usage, answer.hour_writes) = (Some(usage.usage()), usage.hour_writes());
    }

    fn end(&mut self, target: &Target, reason: Option<&Text<'_>>, answer: &mut Answer) -> Result<(), Failure> {
        let finish = match reason.map(Text::as_str).unwrap_or_default() {
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
        self.is_paused = reason.is_some_and(|reason| reason.as_str() == "pause_turn");
        answer.finish = Some(finish);
        Ok(())
    }
}
