//! Builds spans from items (messages, tool calls and results, compactions) and from questions with their answers.

use agentd_core::{
    Timestamp,
    event::Event,
    ids::{CallId, InterruptId},
    interrupt::{Answer, AnsweredBy, Interrupt},
    item::{Item, ItemBody, ItemStatus},
    tool::{ToolErrorCode, ToolResult},
};

use super::TurnBuilder;
use crate::span::{InterruptSpan, SpanKind, ToolSpan};

impl TurnBuilder<'_> {
    pub(super) fn item_started(&mut self, event: &Event, item: &Item) {
        let number = match &item.body {
            ItemBody::AgentMessage { .. } | ItemBody::Reasoning { .. } => {
                let call = self.current_call(event);
                self.arena.open(Some(call), item.id.to_string(), event.at, text_span(&item.body))
            }
            ItemBody::ToolResult(result) => {
                let number = self.tool(event, result);
                self.start_tool(number, event.at);
                if let Some(tool) = self.arena.tool(number) {
                    tool.ran = true;
                }
                number
            }
            ItemBody::Compaction(_) => {
                let kind = SpanKind::Compaction { summary: String::new(), report: None };
                let number = self.arena.open(None, item.id.to_string(), event.at, kind);
                self.compaction = Some(number);
                number
            }
            ItemBody::UserMessage { .. } | ItemBody::Notice { .. } | ItemBody::ToolCall(_) => return,
        };
        self.items.insert(item.id, number);
    }

    pub(super) fn item_completed(&mut self, event: &Event, item: &Item, status: ItemStatus) {
        self.note_server(item);
        let (id, at) = (item.id.to_string(), event.at);
        let number = match &item.body {
            ItemBody::UserMessage { text, steered, .. } => {
                self.arena.point(None, id, at, SpanKind::Input { text: text.clone(), steered: *steered });
                return;
            }
            ItemBody::Notice { text, topic, .. } => {
                self.arena.point(None, id, at, SpanKind::Notice { topic: *topic, text: text.clone() });
                return;
            }
            ItemBody::ToolCall(call) => {
                self.new_tool(event, &call.call_id, &call.name, &call.arguments);
                return;
            }
            ItemBody::AgentMessage { .. } | ItemBody::Reasoning { .. } => self.complete_text(event, item),
            ItemBody::ToolResult(result) => self.complete_tool(event, result),
            ItemBody::Compaction(compaction) => {
                let known = self.items.get(&item.id).copied();
                let report = Some(Box::new(compaction.report.clone()));
                let kind = SpanKind::Compaction { summary: compaction.summary.clone(), report };
                let number = known.unwrap_or_else(|| self.arena.open(None, id, at, kind.clone()));
                self.arena.span(number).kind = kind;
                self.compaction = None;
                number
            }
        };
        self.arena.close(number, at);
        // The end time is unknown.
        self.arena.span(number).is_open = status == ItemStatus::Unknown;
    }

    /// Completes a message or reasoning. The item completes after the usage event of its model call, but belongs to
    /// that call.
    fn complete_text(&mut self, event: &Event, item: &Item) -> usize {
        let known = self.items.get(&item.id).copied();
        let number = known.unwrap_or_else(|| {
            let call = self.call.or(self.last_call.map(|(number, _)| number));
            let call = call.unwrap_or_else(|| self.current_call(event));
            self.arena.open(Some(call), item.id.to_string(), event.at, text_span(&item.body))
        });
        self.arena.span(number).kind = text_span(&item.body);
        number
    }

    /// Records the server of a model call. The server is in the origin of the answer, not in the usage event.
    fn note_server(&mut self, item: &Item) {
        let Some((_, address)) = item.origin.as_ref().and_then(|origin| origin.model.rsplit_once('@')) else { return };
        let host = address.split('/').next().unwrap_or_default();
        let call = self.call.or(self.last_call.map(|(number, _)| number)).and_then(|number| self.arena.call(number));
        if let Some(call) = call.filter(|_| !host.is_empty()) {
            call.server = Some(host.to_owned());
        }
    }

    fn complete_tool(&mut self, event: &Event, result: &ToolResult) -> usize {
        let number = self.tool(event, result);
        if let Some(tool) = self.arena.tool(number) {
            let ToolResult { text, error, exit_code, details, files, ran_with, .. } = result.clone();
            let duration_ms = tool.ran.then_some(result.duration_ms);
            let ran = tool.ran && error != Some(ToolErrorCode::NotRun);
            let before = std::mem::take(tool);
            *tool = ToolSpan { text, error, exit_code, duration_ms, ran, details, files, ran_with, ..before };
        }
        // The subagents of this call have ended.
        let below: Vec<usize> =
            self.subagents.values().copied().filter(|it| self.arena.parent(*it) == Some(number)).collect();
        for subagent in below {
            self.arena.close(subagent, event.at);
        }
        self.last_tool = Some(number);
        number
    }

    /// Returns the span of a result's call. A result without a call means that the journal is damaged, but is shown
    /// anyway.
    fn tool(&mut self, event: &Event, result: &ToolResult) -> usize {
        let known = self.tools.get(&result.call_id).copied();
        known.unwrap_or_else(|| self.new_tool(event, &result.call_id, &result.name, ""))
    }

    fn new_tool(&mut self, event: &Event, call_id: &CallId, name: &str, arguments: &str) -> usize {
        let (step, name) = (self.last_call.map_or(0, |(_, step)| step), name.to_owned());
        let (id, arguments) = (call_id.clone(), arguments.to_owned());
        let span = ToolSpan { call_id: id, step, name, arguments, ..ToolSpan::default() };
        let number = self.arena.open(None, call_id.to_string(), event.at, SpanKind::Tool(Box::new(span)));
        self.tools.insert(call_id.clone(), number);
        number
    }

    /// Adds a question below the tool call that asks it, even if a subagent of that call asks.
    pub(super) fn interrupt_raised(&mut self, event: &Event, interrupt: &Interrupt) {
        let parent = if interrupt.session_id == event.session_id {
            interrupt.call_id.as_ref().and_then(|call| self.tools.get(call)).copied()
        } else {
            self.subagents.get(&interrupt.session_id).and_then(|number| self.arena.parent(*number))
        };
        if let Some(tool) = parent {
            self.start_tool(tool, event.at);
        }
        let Interrupt { id: interrupt_id, session_id, ask, .. } = interrupt.clone();
        let question = InterruptSpan { interrupt_id, session_id, ask, answer: None, by: None };
        let kind = SpanKind::Interrupt(Box::new(question));
        let number = self.arena.open(parent, interrupt.id.to_string(), event.at, kind);
        self.interrupts.insert(interrupt.id, number);
    }

    pub(super) fn interrupt_resolved(&mut self, event: &Event, id: InterruptId, answer: &Answer, by: &AnsweredBy) {
        let Some(number) = self.interrupts.get(&id).copied() else { return };
        self.arena.close(number, event.at);
        if let SpanKind::Interrupt(question) = &mut self.arena.span(number).kind {
            (question.answer, question.by) = (Some(answer.clone()), Some(by.clone()));
        }
    }

    /// Moves the start of a tool call to its first activity, because calls in one answer may wait for each other.
    fn start_tool(&mut self, tool: usize, at: Timestamp) {
        let has_not_started = self.arena.tool(tool).is_some_and(|tool| !tool.ran) && !self.arena.has_children(tool);
        if has_not_started {
            self.arena.span(tool).at = at;
        }
    }
}

fn text_span(body: &ItemBody) -> SpanKind {
    match body {
        ItemBody::Reasoning { text } => SpanKind::Reasoning { text: text.clone() },
        ItemBody::AgentMessage { text } => SpanKind::Message { text: text.clone() },
        _ => SpanKind::Message { text: String::new() },
    }
}
