//! Questions to people, and their answers.

use agentd_core::{
    Timestamp,
    event::Event,
    ids::InterruptId,
    interrupt::{Answer, AnsweredBy, Interrupt},
};

use super::TurnBuilder;
use crate::span::{InterruptSpan, SpanKind};

impl TurnBuilder<'_> {
    /// A question stands below the call that asks it, also where a subagent of the call does.
    pub(super) fn asked(&mut self, event: &Event, interrupt: &Interrupt) {
        let parent = if interrupt.session_id == event.session_id {
            interrupt.call_id.as_ref().and_then(|call| self.tools.get(call)).copied()
        } else {
            self.subagents.get(&interrupt.session_id).and_then(|number| self.arena.parent(*number))
        };
        if let Some(tool) = parent {
            self.begin(tool, event.at);
        }
        let asked = InterruptSpan {
            interrupt_id: interrupt.id,
            session_id: interrupt.session_id,
            ask: interrupt.ask.clone(),
            answer: None,
            by: None,
        };
        let kind = SpanKind::Interrupt(Box::new(asked));
        let number = self.arena.open(parent, interrupt.id.to_string(), event.at, kind);
        self.interrupts.insert(interrupt.id, number);
    }

    pub(super) fn answered(&mut self, event: &Event, id: InterruptId, answer: &Answer, by: &AnsweredBy) {
        let Some(number) = self.interrupts.get(&id).copied() else { return };
        self.arena.close(number, event.at);
        if let SpanKind::Interrupt(asked) = &mut self.arena.span(number).kind {
            (asked.answer, asked.by) = (Some(answer.clone()), Some(by.clone()));
        }
    }

    /// A call begins when it first does something: calls of one answer wait for each other before.
    pub(super) fn begin(&mut self, tool: usize, at: Timestamp) {
        let is_untouched = self.arena.tool(tool).is_some_and(|tool| !tool.ran) && !self.arena.has_children(tool);
        if is_untouched {
            self.arena.span(tool).at = at;
        }
    }
}
