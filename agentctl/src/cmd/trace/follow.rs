//! A running turn, part by part: a part is printed when it has ended, and those behind it after it.

use agentd_core::{
    event::{Event, EventKind},
    ids::SessionId,
};
use agentd_trace::{Span, SpanKind, TurnTrace, turns};
use serde_json::json;

use super::{fetch, tree::Sheet};
use crate::{
    daemon::Daemon,
    exit::Exit,
    report,
    terminal::{self, look::TerminalStyle},
};

/// Follows the turn that runs, until it has ended.
pub(super) async fn follow(daemon: &Daemon, session: SessionId, json: bool) -> anyhow::Result<Exit> {
    let id = session.to_string();
    let view = daemon.client.session(&id).await?;
    let Some((turn_id, first)) = view.session.open_turn.filter(|_| view.live_turn.is_some()) else {
        terminal::note("no turn is running in this session; without --follow the last one is shown");
        return Ok(Exit::Done);
    };
    let mut stream = daemon.client.subscribe(&id, first.saturating_sub(1), true).await?;
    let mut events: Vec<Event> = Vec::new();
    let mut printed = Printer { json, number: view.session.summary.turns.max(1), spans: 0 };
    while let Some(event) = stream.next().await? {
        if event.turn_id != Some(turn_id) || !event.kind.is_stored() {
            continue;
        }
        let is_over = matches!(event.kind, EventKind::TurnEnded { .. });
        // What was paid for a part is told right behind its end, so that the next event says that it is whole.
        let may_print = is_over || events.last().is_some_and(|before| ends_part(&before.kind));
        let known = events.len();
        if matches!(event.kind, EventKind::InterruptRaised { .. }) {
            terminal::note("a question waits for an answer: `agentctl interrupts` shows it");
        }
        events.push(fetch::slim(event));
        if !may_print {
            continue;
        }
        let mut trees = turns(if is_over { &events } else { &events[..known] });
        if trees.last().is_some_and(|turn| printed.is_due(turn)) {
            fetch::with_subagents(&daemon.client, &mut trees).await?;
        }
        if let Some(turn) = trees.pop() {
            printed.print(turn)?;
        }
        if is_over {
            break;
        }
    }
    Ok(Exit::Done)
}

/// Returns whether a part of the turn can end with such an event.
fn ends_part(kind: &EventKind) -> bool {
    !matches!(kind, EventKind::ItemStarted { .. } | EventKind::InterruptRaised { .. } | EventKind::StateChanged { .. })
}

struct Printer {
    json: bool,
    /// Number of the turn in its session.
    number: u64,
    /// Number of parts that were printed.
    spans: usize,
}

impl Printer {
    /// Parts that have ended and were not printed. The words of a model come behind the end of its call, so that the last
    /// part waits for the next one.
    fn due<'a>(&self, turn: &'a TurnTrace) -> &'a [Span] {
        let left = turn.spans.get(self.spans..).unwrap_or_default();
        let ended = left.iter().take_while(|span| !span.is_open).count();
        let is_over = turn.outcome.is_some();
        let count = match left.get(ended.wrapping_sub(1)) {
            _ if is_over => left.len(),
            Some(Span { kind: SpanKind::ModelCall(_), .. }) if ended == left.len() => ended - 1,
            _ => ended,
        };
        &left[..count]
    }

    /// Returns whether a part is to be printed that has turns of its own.
    fn is_due(&self, turn: &TurnTrace) -> bool {
        let has_turns = |span: &Span| span.children.iter().any(|child| matches!(child.kind, SpanKind::Subagent(_)));
        turn.outcome.is_some() || self.due(turn).iter().any(has_turns)
    }

    fn print(&mut self, turn: TurnTrace) -> anyhow::Result<()> {
        let turn = TurnTrace { number: self.number, ..turn };
        let due = self.due(&turn);
        let count = due.len();
        if self.json {
            for span in due {
                report::json_line(&json!({ "type": "span", "turn_id": turn.turn_id, "span": span }))?;
            }
        } else if count > 0 {
            let look = TerminalStyle::detect();
            let sheet = Sheet::of(&turn, look.columns(), look.out_color).without_bars();
            let mut lines = Vec::new();
            if self.spans == 0 {
                lines.push(sheet.heading());
            }
            sheet.spans(due, "", &mut lines);
            report::lines(lines)?;
        }
        self.spans += count;
        if turn.outcome.is_some() {
            if self.json {
                report::json_line(&json!({ "type": "turn", "turn": TurnTrace { spans: Vec::new(), ..turn } }))?;
            } else {
                let look = TerminalStyle::detect();
                report::lines([Sheet::of(&turn, look.columns(), look.out_color).without_bars().turn(&turn, "")])?;
            }
        }
        Ok(())
    }
}
