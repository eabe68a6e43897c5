//! Events into the answer.

use agentd_core::{model::Finish, origin::ServerFields};
use serde_json::{json, value::RawValue};

use super::{
    event::{CacheDiagnostics, Event, ItemPlace, WholeResponse},
    numbering::{EventPlace, Numbering},
    partial::{PartialItems, ThoughtKind},
};
use crate::{
    answer::{Answer, RawCall},
    http::{failure::Failure, target::Target},
    wire::{dialect::AnswerReader, last_answers::AnswerNote},
};

/// Reads one answer.
pub(super) struct Reader {
    note: AnswerNote,
    items: PartialItems,
    numbering: Numbering,
    is_cut: bool,
}

/// Events that end an answer.
const ENDS: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let data = data.trim();
        // Some servers and gateways end with it, as those of chat completions do.
        if data == "[DONE]" {
            answer.done = true;
            return Ok(());
        }
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| Failure::unreadable(target, data, &error))?;
        if event.is_whole() {
            return self.end(target, data, answer);
        }
        let kind = event.kind();
        if kind == "error" || event.told_error().is_some() {
            return Err(Failure::reported(target, data));
        }
        match self.numbering.next(event.sequence_number.map(|number| number.0)) {
            EventPlace::Next => {}
            // The end is the end, whatever its number.
            EventPlace::Repeated if !ENDS.contains(&kind) => return Ok(()),
            EventPlace::Repeated => {}
            EventPlace::BehindGap(missing) => {
                let message = format!("event {missing} of the answer of the model at {target} is missing");
                return Err(Failure::cut(message).hint("something on the way to the server loses events; try again"));
            }
        }
        let (place, piece) = (event.place(), event.piece());
        let part = |number: Option<crate::wire::lenient::Count>| number.unwrap_or_default().0;
        match kind {
            "response.output_item.added" => {
                if let Some(item) = event.item {
                    self.items.begin(target, place, item)?;
                }
                Ok(())
            }
            "response.output_item.done" => match event.item {
                Some(item) => self.items.finish(target, place, item, answer),
                None => Ok(()),
            },
            "response.output_text.delta" => self.items.speak(target, place, piece, false, answer),
            "response.refusal.delta" => self.items.speak(target, place, piece, true, answer),
            "response.reasoning_summary_text.delta" => {
                let part = (ThoughtKind::Summary, part(event.summary_index));
                self.items.think(target, place, part, piece, answer)
            }
            "response.reasoning_text.delta" => {
                let part = (ThoughtKind::Text, part(event.content_index));
                self.items.think(target, place, part, piece, answer)
            }
            "response.function_call_arguments.delta" => self.items.add_arguments(target, place, piece, answer),
            "response.function_call_arguments.done" => match event.arguments {
                Some(arguments) => self.items.end_arguments(target, place, arguments, answer),
                None => Ok(()),
            },
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = event.response.map_or("{}", RawValue::get);
                self.end_as(target, response, kind.trim_start_matches("response."), answer)?;
                answer.done = true;
                Ok(())
            }
            "" => Err(Failure::other_wire(target, data)
                .hint("is `wire: responses` right for this server? Servers of chat completions want `wire: openai`")),
            _ => Ok(()),
        }
    }

    fn calls(&mut self) -> Vec<RawCall> {
        self.items.calls(self.is_cut)
    }

    fn fields(&mut self) -> Option<ServerFields> {
        Some(ServerFields { blocks: Some(self.items.stored()?), ..ServerFields::default() })
    }
}

impl Reader {
    pub(super) fn new(note: AnswerNote) -> Self {
        Self { note, items: PartialItems::default(), numbering: Numbering::default(), is_cut: false }
    }

    /// A whole answer of a server that does not stream.
    fn end(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        self.end_as(target, data, "", answer)
    }

    /// The end of an answer in that state, or in the one that it names itself.
    fn end_as(&mut self, target: &Target, data: &str, status: &str, answer: &mut Answer) -> Result<(), Failure> {
        let whole: WholeResponse<'_> =
            serde_json::from_str(data).map_err(|error| Failure::unreadable(target, data, &error))?;
        let status = if status.is_empty() { whole.status() } else { status };
        // A failed answer is paid for, too.
        if let Some(usage) = whole.usage {
            answer.usage = Some(usage.usage());
        }
        if status == "failed" || status == "cancelled" || whole.told_error().is_some() {
            return Err(failed(target, &whole, status));
        }
        for (item, index) in whole.output.iter().flatten().zip(0..) {
            self.items.finish(target, ItemPlace { index: Some(index), id: "" }, item, answer)?;
        }
        self.note.record(whole.id());
        // They explain, and are no reason to fail.
        let told: Option<CacheDiagnostics<'_>> =
            whole.prompt_cache_diagnostics.and_then(|told| serde_json::from_str(told.get()).ok());
        if let Some((reason, tokens)) = told.as_ref().and_then(CacheDiagnostics::miss) {
            answer.remark(reason, tokens);
        }
        let finish = match (status, whole.incomplete_reason()) {
            ("incomplete", "content_filter") => Finish::Filtered,
            ("incomplete", _) => Finish::Length,
            _ if self.items.is_refusal() => Finish::Filtered,
            _ => Finish::Stop,
        };
        self.is_cut = finish == Finish::Length;
        answer.finish = Some(finish);
        Ok(())
    }
}

/// Failure of an answer that its server has given up.
fn failed(target: &Target, response: &WholeResponse<'_>, status: &str) -> Failure {
    let error = response.told_error().map(RawValue::get);
    let error = error.and_then(|error| serde_json::from_str(error).ok());
    let error: serde_json::Value = error.unwrap_or_else(|| json!({"message": format!("the answer {status}")}));
    Failure::reported(target, &json!({"error": error, "request_id": response.id()}).to_string())
}
