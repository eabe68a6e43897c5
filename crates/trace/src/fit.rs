//! Holds children inside their parents. Clocks are put back, and events of two sessions are stamped by two tasks.

use agentd_core::Timestamp;

use crate::span::{Span, SpanKind, TurnTrace, between};

/// Puts the turn and all below it between two moments.
pub(crate) fn turn(trace: &mut TurnTrace, from: Timestamp, to: Timestamp) {
    (trace.at, trace.end) = fitted(trace.at, trace.end, from, to);
    spans(&mut trace.spans, trace.at, trace.end);
    trace.waited_ms = waited(trace);
}

fn spans(spans: &mut [Span], from: Timestamp, to: Timestamp) {
    for span in spans {
        (span.at, span.end) = fitted(span.at, span.end, from, to);
        self::spans(&mut span.children, span.at, span.end);
        if let SpanKind::Subagent(subagent) = &mut span.kind {
            for nested in &mut subagent.turns {
                turn(nested, span.at, span.end);
            }
        }
    }
}

fn fitted(at: Timestamp, end: Timestamp, from: Timestamp, to: Timestamp) -> (Timestamp, Timestamp) {
    let to = to.max(from);
    let at = at.max(from).min(to);
    (at, end.max(at).min(to))
}

/// Time in which at least one question was open, of the turn or of one that worked for it.
fn waited(trace: &TurnTrace) -> u64 {
    let mut open = Vec::new();
    questions(&trace.spans, &mut open);
    open.sort_unstable();
    let (mut sum, mut until) = (0_u64, trace.at);
    for (at, end) in open {
        sum = sum.saturating_add(between(at.max(until), end));
        until = until.max(end);
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
