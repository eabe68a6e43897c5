//! The tree under construction: numbered spans, each with the number of its parent. At the end, the times of children
//! are clamped to their parents' times, because clocks may be set back and the events of two sessions are stamped by
//! two tasks.

use agentd_core::Timestamp;

use crate::span::{ModelCallSpan, Span, SpanKind, ToolSpan, TurnTrace, between};

/// Spans of one turn.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// Spans with the numbers of their parents.
    nodes: Vec<(Option<usize>, Span)>,
}

impl Arena {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a span without duration.
    pub(crate) fn point(&mut self, parent: Option<usize>, id: String, at: Timestamp, kind: SpanKind) -> usize {
        self.nodes.push((parent, Span { id, at, end: at, is_open: false, kind, children: Vec::new() }));
        self.nodes.len() - 1
    }

    /// Adds a span that has not ended.
    pub(crate) fn open(&mut self, parent: Option<usize>, id: String, at: Timestamp, kind: SpanKind) -> usize {
        let number = self.point(parent, id, at, kind);
        self.nodes[number].1.is_open = true;
        number
    }

    /// Returns the span with this number.
    pub(crate) fn span(&mut self, number: usize) -> &mut Span {
        &mut self.nodes[number].1
    }

    pub(crate) fn close(&mut self, number: usize, at: Timestamp) {
        let span = self.span(number);
        (span.end, span.is_open) = (at, false);
    }

    pub(crate) fn call(&mut self, number: usize) -> Option<&mut ModelCallSpan> {
        match &mut self.span(number).kind {
            SpanKind::ModelCall(call) => Some(call),
            _ => None,
        }
    }

    pub(crate) fn tool(&mut self, number: usize) -> Option<&mut ToolSpan> {
        match &mut self.span(number).kind {
            SpanKind::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    pub(crate) fn parent(&self, number: usize) -> Option<usize> {
        self.nodes[number].0
    }

    pub(crate) fn has_children(&self, parent: usize) -> bool {
        self.nodes.iter().any(|(known, _)| *known == Some(parent))
    }

    /// Returns the time of the first text or reasoning of a model call.
    pub(crate) fn first_output(&self, call: usize) -> Option<Timestamp> {
        let is_output = |span: &Span| matches!(span.kind, SpanKind::Message { .. } | SpanKind::Reasoning { .. });
        let first = self.nodes.iter().find(|(parent, span)| *parent == Some(call) && is_output(span));
        first.map(|(_, span)| span.at)
    }

    /// Builds the tree. Open spans end at `end`. Children come after their parents, so that processing the spans from
    /// the back completes each span before its parent.
    pub(crate) fn into_tree(mut self, end: Timestamp) -> Vec<Span> {
        let mut roots = Vec::new();
        while let Some((parent, mut span)) = self.nodes.pop() {
            span.children.reverse();
            if span.is_open {
                span.end = end;
            }
            match parent.and_then(|parent| self.nodes.get_mut(parent)) {
                Some((_, parent_span)) => parent_span.children.push(span),
                None => roots.push(span),
            }
        }
        roots.reverse();
        roots
    }
}

/// Clamps the times of the turn and of all spans below it to the range `from..=to`.
pub(crate) fn clamp(trace: &mut TurnTrace, from: Timestamp, to: Timestamp) {
    (trace.at, trace.end) = clamped(trace.at, trace.end, from, to);
    clamp_spans(&mut trace.spans, trace.at, trace.end);
    trace.waited_ms = waiting_ms(trace);
}

fn clamp_spans(spans: &mut [Span], from: Timestamp, to: Timestamp) {
    for span in spans {
        (span.at, span.end) = clamped(span.at, span.end, from, to);
        clamp_spans(&mut span.children, span.at, span.end);
        if let SpanKind::Subagent(subagent) = &mut span.kind {
            for nested in &mut subagent.turns {
                clamp(nested, span.at, span.end);
            }
        }
    }
}

fn clamped(at: Timestamp, end: Timestamp, from: Timestamp, to: Timestamp) -> (Timestamp, Timestamp) {
    let to = to.max(from);
    let at = at.max(from).min(to);
    (at, end.max(at).min(to))
}

/// Returns the time during which at least one question from the turn or its subagents was open, in milliseconds.
fn waiting_ms(trace: &TurnTrace) -> u64 {
    let mut open = Vec::new();
    questions(&trace.spans, &mut open);
    open.sort_unstable();
    let (mut sum, mut counted_until) = (0_u64, trace.at);
    for (at, end) in open {
        sum = sum.saturating_add(between(at.max(counted_until), end));
        counted_until = counted_until.max(end);
    }
    sum
}

fn questions(spans: &[Span], open: &mut Vec<(Timestamp, Timestamp)>) {
    for span in spans {
        match &span.kind {
            SpanKind::Interrupt(_) => open.push((span.at, span.end)),
            SpanKind::Subagent(work) => work.turns.iter().for_each(|turn| questions(&turn.spans, open)),
            _ => {}
        }
        questions(&span.children, open);
    }
}
