//! What a session's events add up to: the part that is cheap to keep current, event by event.

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

/// Characters of the first input that name a session.
const TITLE_LENGTH: usize = 60;

/// The narrow part of a session's state: it costs the same after a million events.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Projection {
    /// Empty until it is given or there is an input.
    pub(crate) title: String,
    pub(crate) updated_at: Timestamp,
    /// Number of uses since it was read.
    pub(crate) uses: u64,
    pub(crate) turns: u64,
    pub(crate) last_seq: u64,
    pub(crate) reset_seq: u64,
    /// Which part of the history a model sees.
    pub(crate) window: Window,
    pub(crate) open_turn: Option<(TurnId, u64)>,
    /// Set if the last turn was ended by a stop of the daemon.
    pub(crate) interrupted: bool,
    pub(crate) usage: Usage,
}

impl Projection {
    /// Of a session without events.
    pub(crate) fn new(created_at: Timestamp) -> Self {
        Self { updated_at: created_at, ..Self::default() }
    }

    /// Adds the next event, or refuses one that is not the next.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<(), Fault> {
        self.take_number(event)?;
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
                // A turn that waited and never ran is told of while another is open, which stays the open one.
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
                    self.title = title_of(typed(text, *typed_bytes));
                }
                // One that never came to its end replaces nothing.
                ItemBody::Compaction(compaction) if !compaction.summary.is_empty() => {
                    self.window = Window { after: compaction.through, summary: event.seq, held: 0 };
                }
                _ => {}
            },
            EventKind::UsageUpdated { usage, .. } => self.usage += *usage,
            EventKind::StateChanged { change: StateChange::Title { title } } => self.title.clone_from(title),
            // The next input names the session.
            EventKind::StateChanged { change: StateChange::Withdrawn { input: Some(input), .. } }
                if self.title == title_of(input) =>
            {
                self.title.clear();
            }
            EventKind::StateChanged { change: StateChange::Reset } => {
                self.reset_seq = event.seq;
                self.window = Window { after: event.seq, summary: 0, held: 0 };
                // What was set aside cannot be continued.
                self.interrupted = false;
            }
            EventKind::StateChanged { change: StateChange::Window { window } } => self.window = *window,
            // What the copied turns took was paid for in the other session.
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

    /// Adds the next event where it is damaged. Of which kind it was is known, and no more.
    pub(crate) fn apply_damaged(&mut self, event: &Event, kind: &str) -> Result<(), Fault> {
        self.take_number(event)?;
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

    fn take_number(&mut self, event: &Event) -> Result<(), Fault> {
        let next = self.last_seq.saturating_add(1);
        if event.seq != next {
            return Err(Fault::conflict(format!(
                "event {} of session {} cannot be stored, because its next number is {next}",
                event.seq, event.session_id
            )));
        }
        self.last_seq = next;
        Ok(())
    }
}

/// Returns whether an event counts as use of its session. What a turn does between its start and its end does not:
/// sessions are sorted by their last use, and an index would be rewritten with every event.
fn is_use(kind: &EventKind) -> bool {
    match kind {
        EventKind::TurnStarted { .. }
        | EventKind::TurnEnded { .. }
        | EventKind::InterruptRaised { .. }
        | EventKind::InterruptResolved { .. } => true,
        // Files are written, and the level changes, in the middle of a turn.
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

/// The words of an input that a person typed, where there are any; else all of it.
fn typed(text: &str, typed_bytes: Option<u64>) -> &str {
    let typed = typed_bytes.and_then(|bytes| text.get(..usize::try_from(bytes).ok()?));
    typed.filter(|typed| !typed.trim().is_empty()).unwrap_or(text)
}

/// The start of an input on one line, without what a terminal would obey.
fn title_of(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut title = String::new();
    let mut length = 0;
    // Goes character by character, because an input may be a hundred megabytes without a space.
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
    fn titles_are_of_what_was_typed() {
        let check = |text: &str, typed_bytes, title: &str| assert_eq!(title_of(typed(text, typed_bytes)), title);
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
