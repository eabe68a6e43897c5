//! Projection of a session's events: the part of the state that can be updated cheaply with each event.

use agentd_core::{
    context::Window,
    event::{Event, EventKind, StateChange},
    ids::TurnId,
    item::ItemBody,
    turn::StopReason,
    usage::Usage,
};
use jiff::Timestamp;

use crate::codec::Fault;

/// Maximum length of a title from the first input, in characters.
const TITLE_LENGTH: usize = 60;

/// Projected state of a session. The cost of an update does not depend on the number of events.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Projection {
    /// Title of the session; empty until a title is set or there is an input.
    pub(crate) title: String,
    pub(crate) updated_at: Timestamp,
    /// Number of uses of the session since the row was read.
    pub(crate) uses: u64,
    pub(crate) turns: u64,
    pub(crate) last_seq: u64,
    pub(crate) reset_seq: u64,
    /// Part of the history that is visible to a model.
    pub(crate) window: Window,
    pub(crate) open_turn: Option<(TurnId, u64)>,
    /// True if the daemon stopped during the last turn.
    pub(crate) interrupted: bool,
    pub(crate) usage: Usage,
}

impl Projection {
    /// Creates the projection of a session without events.
    pub(crate) fn new(created_at: Timestamp) -> Self {
        Self { updated_at: created_at, ..Self::default() }
    }

    /// Applies the next event. Returns an error if the event's number is not the next number.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<(), Fault> {
        self.advance(event)?;
        if is_use(&event.kind) {
            self.updated_at = event.at;
            self.uses = self.uses.saturating_add(1);
        }
        match &event.kind {
            EventKind::TurnStarted { compacts, .. } => {
                let Some(turn) = event.turn_id else {
                    return Err(Fault::invalid("a turn cannot start without an id"));
                };
                self.turns = self.turns.saturating_add(1);
                // A queued turn that never ran may be reported while another turn is open. In that case, the other turn
                // stays open.
                if self.open_turn.is_none() {
                    self.open_turn = Some((turn, event.seq));
                    self.interrupted &= *compacts;
                }
            }
            EventKind::TurnEnded { result } => {
                if self.open_turn.is_none_or(|(open, _)| Some(open) == event.turn_id) {
                    self.open_turn = None;
                    let interrupted = matches!(result.stop_reason, StopReason::Interrupted | StopReason::Suspended);
                    self.interrupted = if result.only_compacted { self.interrupted } else { interrupted };
                }
            }
            EventKind::ItemCompleted { item, .. } => match &item.body {
                ItemBody::UserMessage { text, typed_bytes, .. } if self.title.is_empty() => {
                    self.title = title_of(typed_part(text, *typed_bytes));
                }
                // An unfinished compaction replaces nothing.
                ItemBody::Compaction(compaction) if !compaction.summary.is_empty() => {
                    self.window = Window { after: compaction.through, summary: event.seq, held: 0 };
                }
                _ => {}
            },
            EventKind::UsageUpdated { usage, .. } => self.usage += *usage,
            EventKind::StateChanged { change: StateChange::Title { title } } => self.title.clone_from(title),
            // The next input sets the title.
            EventKind::StateChanged { change: StateChange::Withdrawn { input: Some(input), .. } }
                if self.title == title_of(input) =>
            {
                self.title.clear();
            }
            EventKind::StateChanged { change: StateChange::Reset } => {
                self.reset_seq = event.seq;
                self.window = Window { after: event.seq, summary: 0, held: 0 };
                // The history before a reset cannot be continued.
                self.interrupted = false;
            }
            EventKind::StateChanged { change: StateChange::Window { window } } => self.window = *window,
            // The usage of copied turns is counted in the source session.
            EventKind::StateChanged { change: StateChange::Forked { .. } } => self.usage = Usage::default(),
            EventKind::StateChanged {
                change:
                    StateChange::Todos { .. }
                    | StateChange::Settings { .. }
                    | StateChange::Queue { .. }
                    | StateChange::File(_)
                    | StateChange::HandedOver { .. }
                    | StateChange::Subagent(_)
                    | StateChange::Agent { .. }
                    | StateChange::Tools { .. }
                    | StateChange::Surroundings(_)
                    | StateChange::TokenLevel { .. }
                    | StateChange::Withdrawn { .. }
                    | StateChange::Undone { .. },
            }
            | EventKind::ItemStarted { .. }
            | EventKind::InterruptRaised { .. }
            | EventKind::InterruptResolved { .. }
            | EventKind::IntentClassified { .. }
            | EventKind::ModelChosen { .. }
            | EventKind::Warning { .. } => {}
            EventKind::ItemDelta { .. } => return Err(Fault::invalid("deltas are not stored")),
        }
        Ok(())
    }

    /// Applies the next event if it is damaged. Only the kind of a damaged event is available.
    pub(crate) fn apply_damaged(&mut self, event: &Event, kind: &str) -> Result<(), Fault> {
        self.advance(event)?;
        match kind {
            "turn_started" => {
                self.turns = self.turns.saturating_add(1);
                self.open_turn = self.open_turn.or_else(|| event.turn_id.map(|turn| (turn, event.seq)));
            }
            "turn_ended" if event.turn_id.is_none() || self.open_turn.map(|(open, _)| open) == event.turn_id => {
                self.open_turn = None;
                self.interrupted = false;
            }
            _ => {}
        }
        Ok(())
    }

    fn advance(&mut self, event: &Event) -> Result<(), Fault> {
        let next = self.last_seq.saturating_add(1);
        if event.seq != next {
            return Err(Fault::conflict(format!(
                "could not store event {} of session {}: the next number is {next}",
                event.seq, event.session_id
            )));
        }
        self.last_seq = next;
        Ok(())
    }
}

/// Returns true if an event counts as use of its session. Events within a turn do not count: sessions are sorted by
/// last use, so each event would update the index.
fn is_use(kind: &EventKind) -> bool {
    match kind {
        EventKind::TurnStarted { .. }
        | EventKind::TurnEnded { .. }
        | EventKind::InterruptRaised { .. }
        | EventKind::InterruptResolved { .. } => true,
        // State files and the fill level change during a turn.
        EventKind::StateChanged { change } => !matches!(
            change,
            StateChange::File(_)
                | StateChange::Subagent(_)
                | StateChange::Agent { .. }
                | StateChange::Tools { .. }
                | StateChange::Surroundings(_)
                | StateChange::TokenLevel { .. }
        ),
        EventKind::ItemStarted { .. }
        | EventKind::ItemDelta { .. }
        | EventKind::ItemCompleted { .. }
        | EventKind::UsageUpdated { .. }
        | EventKind::IntentClassified { .. }
        | EventKind::ModelChosen { .. }
        | EventKind::Warning { .. } => false,
    }
}

/// Returns the part of an input that the user typed, or the whole input if nothing was typed.
fn typed_part(text: &str, typed_bytes: Option<u64>) -> &str {
    let typed_part = typed_bytes.and_then(|bytes| text.get(..usize::try_from(bytes).ok()?));
    typed_part.filter(|typed_part| !typed_part.trim().is_empty()).unwrap_or(text)
}

/// Returns the start of an input on one line, without control characters.
fn title_of(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut title = String::new();
    let mut length = 0;
    // Processes single characters, because an input can have a hundred megabytes without a space.
    for (index, word) in words.enumerate() {
        let gap = (index > 0).then_some(' ');
        for c in gap.into_iter().chain(word.chars()) {
            if length == TITLE_LENGTH {
                title.pop();
                title.truncate(title.trim_end().len());
                title.push('…');
                return title;
            }
            title.push(c);
            length += 1;
        }
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_use_only_the_typed_text() {
        let check = |text: &str, typed_bytes, title: &str| assert_eq!(title_of(typed_part(text, typed_bytes)), title);
        check("Sum up\n\nUploaded file: a.txt", Some(6), "Sum up");
        check("Sum up\n\nand more", None, "Sum up and more");
        check("piped", Some(0), "piped");
        check("é", Some(1), "é");
        check("short", Some(99), "short");
    }

    #[test]
    fn titles_are_one_short_line() {
        let check = |text: &str, title: &str| assert_eq!(title_of(text), title);
        check("", "");
        check(" \n\t ", "");
        check("Hello", "Hello");
        check("  Tidy\n\nthe  house\r\n", "Tidy the house");
        check("a\u{1b}[31mb\0c", "a [31mb c");
        check(&"x".repeat(60), &"x".repeat(60));
        check(&"é".repeat(61), &format!("{}…", "é".repeat(59)));
        check(&format!("{} {}", "x".repeat(58), "y".repeat(9)), &format!("{}…", "x".repeat(58)));
    }
}
