//! Replay of the last turns of a resumed session, and a summary of turns that ended since the last message.

use std::collections::BTreeSet;

use agentd_core::{
    Timestamp,
    event::{Event, EventKind, StateChange},
    item::ItemBody,
    usage::Usage,
};
use agentd_proto::client::{NumberedItem, SessionView};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    render::Human,
    report::{ago, count, short_id},
    terminal::{paint::money, sanitize::clean_line},
    turn::{Arrival, Line as _, Renderer as _, SocketLine},
};

/// Number of turns that are replayed.
const TURNS: usize = 2;
/// Maximum number of items that are searched for turns.
pub(crate) const LOOKED_AT: usize = 300;
/// Maximum number of turns in the summary.
const MAX_SUMMARISED: usize = 8;
/// Maximum number of files that the summary names.
const MAX_NAMED: usize = 4;
/// Age of the last message in seconds from which a summary is shown.
const LONG_AGO: i64 = 3600;

impl Chat {
    /// Shows the last turns, without the one that is still open, and a summary if the last message is old.
    pub(super) async fn replay(&mut self, view: &SessionView) -> anyhow::Result<()> {
        let summary = &view.session.summary;
        let before = view.session.open_turn.map_or(u64::MAX, |(_, first_seq)| first_seq);
        let items = self.daemon.client.items(&summary.id.to_string(), 0, LOOKED_AT).await?;
        let begins = begins(&items, before);
        // Only the end of a very long turn is shown.
        let tail = items.iter().map(|item| item.seq).find(|seq| *seq < before);
        let Some(first) = begins.iter().rev().take(TURNS).next_back().copied().or(tail) else { return Ok(()) };
        let shown = begins.len().min(TURNS) as u64;
        let open = u64::from(view.session.open_turn.is_some());
        if let earlier @ 1.. = summary.turns.saturating_sub(shown + open) {
            let earlier = count(earlier, "earlier turn");
            self.note(&format!("{earlier}: agentctl attach {} --after 0", short_id(summary.id)));
        }
        let from = begins.iter().rev().take(MAX_SUMMARISED).next_back().copied().unwrap_or(first);
        let mut line = SocketLine::attach(&self.daemon, summary.id, from - 1).await?;
        let mut absence = Absence::default();
        let mut human = Human::stdio().in_chat().showing_input().still();
        while let Some(arrival) = line.next().await? {
            let Arrival::Event(event) = arrival else { continue };
            if event.seq >= before {
                break;
            }
            absence.add(&event);
            if event.seq < first {
                continue;
            }
            human.event(&event)?;
            if let EventKind::TurnEnded { result } = &event.kind {
                human.finish(result)?;
            }
        }
        human.leave()?;
        // The open turn has a newer message, unless that was queued.
        let is_newer = |item: &NumberedItem| {
            let is_late = |steered| steered || absence.queued == 0;
            item.seq >= before && matches!(item.item.body, ItemBody::UserMessage { steered, .. } if is_late(steered))
        };
        if !items.iter().any(is_newer) {
            absence.lines(Timestamp::now(), view.pending.len()).iter().for_each(|line| self.note(line));
        }
        Ok(())
    }
}

/// Turns that ended since the last message or answer of a user.
#[derive(Debug, Default)]
struct Absence {
    /// Time of that message or answer.
    since: Option<Timestamp>,
    /// Number of queued turns. Their messages were written before they start.
    queued: u32,
    turns: u64,
    unfinished: u64,
    files: BTreeSet<String>,
    usage: Usage,
}

impl Absence {
    /// Adds the next event of the session.
    fn add(&mut self, event: &Event) {
        let is_from_user = match &event.kind {
            EventKind::ItemCompleted { item, .. } => {
                matches!(item.body, ItemBody::UserMessage { steered, .. } if steered || self.queued == 0)
            }
            EventKind::InterruptResolved { by, .. } => by.client().is_some(),
            EventKind::StateChanged { change: StateChange::Queue { length, .. } } => {
                *length > std::mem::replace(&mut self.queued, *length)
            }
            EventKind::TurnEnded { result } if !result.only_compacted => {
                self.turns += 1;
                self.unfinished += u64::from(result.stop_reason.can_continue());
                self.files.extend(result.files.iter().map(|file| file.path.clone()));
                self.usage += result.usage;
                false
            }
            _ => false,
        };
        if is_from_user {
            *self = Self { since: Some(event.at), queued: self.queued, ..Self::default() };
        }
    }

    /// Returns the lines of the summary: none if the last message is recent, or no turn has ended since.
    fn lines(&self, now: Timestamp, open_questions: usize) -> Vec<String> {
        let since = self.since.filter(|since| now.duration_since(*since).as_secs() >= LONG_AGO);
        let (Some(since), 1..) = (since, self.turns) else { return Vec::new() };
        let mut facts = vec![format!("{} ended", count(self.turns, "turn"))];
        facts.extend((self.unfinished > 0).then(|| format!("{} unfinished", self.unfinished)));
        facts.extend(self.usage.cost_microusd.filter(|cost| *cost > 0).and_then(|_| money(&self.usage)));
        facts.extend((open_questions > 0).then(|| format!("{} open", count(open_questions, "question"))));
        let mut lines = vec![format!("since the last message, {}: {}", ago(since, now), facts.join(" · "))];
        if !self.files.is_empty() {
            let more = (self.files.len() > MAX_NAMED).then(|| "…".to_owned());
            let named = self.files.iter().take(MAX_NAMED).map(|path| clean_line(path)).chain(more);
            let named = named.collect::<Vec<_>>().join(", ");
            lines.push(format!("{} changed: {named}", count(self.files.len(), "file")));
        }
        lines
    }
}

/// Returns the sequence numbers of the first items of the turns before an event.
pub(crate) fn begins(items: &[NumberedItem], before: u64) -> Vec<u64> {
    let is_begin = |item: &&NumberedItem| {
        item.seq < before && matches!(item.item.body, ItemBody::UserMessage { steered: false, .. })
    };
    items.iter().filter(is_begin).map(|item| item.seq).collect()
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        ids::{InterruptId, SessionId, TraceId, TurnId},
        interrupt::{Answer, AnsweredBy},
        item::{Item, ItemStatus},
        tool::{FileChange, FileChangeKind},
        turn::{StopReason, TurnResult},
    };

    use super::*;

    fn message(steered: bool) -> EventKind {
        let body = ItemBody::UserMessage { text: "Go on".to_owned(), steered, typed_bytes: None, stored: None };
        EventKind::ItemCompleted { item: Item::new(TurnId::generate(), body), status: ItemStatus::Done }
    }

    fn queue(length: u32) -> EventKind {
        EventKind::StateChanged { change: StateChange::Queue { length, added: None } }
    }

    fn answered(by: AnsweredBy) -> EventKind {
        let interrupt_id = InterruptId::generate();
        EventKind::InterruptResolved { interrupt_id, call_id: None, answer: Answer::Approve, by }
    }

    fn ended(stop_reason: StopReason, files: &[&str]) -> EventKind {
        let file = |path: &&str| FileChange::new(*path, FileChangeKind::Modified);
        let result = TurnResult::new(TurnId::generate(), TraceId::generate(), stop_reason);
        let usage = Usage { cost_microusd: Some(1_250_000), ..Usage::default() };
        let files = files.iter().map(file).collect();
        EventKind::TurnEnded { result: Box::new(TurnResult { files, usage, ..result }) }
    }

    #[test]
    fn summary_covers_turns_since_the_last_message() {
        let check = |kinds: &[EventKind], hours: i64, questions: usize, expected: &[&str]| {
            let mut absence = Absence::default();
            for (seq, kind) in (1..).zip(kinds) {
                let (session_id, at) = (SessionId::generate(), Timestamp::UNIX_EPOCH);
                absence.add(&Event { session_id, turn_id: None, seq, at, kind: kind.clone() });
            }
            let now = Timestamp::from_second(hours * 3600).unwrap();
            assert_eq!(absence.lines(now, questions), expected, "{kinds:?}");
        };
        let done = |files: &[&str]| ended(StopReason::Completed, files);
        let one = "since the last message, 2 h ago: 1 turn ended · $1.25";
        check(&[message(false), done(&[])], 2, 0, &[one]);
        check(&[message(false), done(&[])], 0, 0, &[]);
        check(&[message(false)], 2, 1, &[]);
        // Earlier turns do not count, nor do those that the user has steered or answered.
        check(&[message(false), done(&["a"]), message(false), done(&[])], 2, 0, &[one]);
        check(&[message(false), done(&["a"]), message(true), done(&[])], 2, 0, &[one]);
        let client = AnsweredBy::Client("agentctl".to_owned());
        let answered_by_user = [message(false), done(&["a"]), answered(client), done(&[])];
        check(&answered_by_user, 2, 1, &[&format!("{one} · 1 question open")]);
        let two = "since the last message, 2 h ago: 2 turns ended · $2.50";
        check(&[message(false), done(&[]), answered(AnsweredBy::Deadline), done(&[])], 2, 0, &[two]);
        // A queued turn starts later than its message was written.
        let queued = [message(false), queue(1), done(&["b"]), message(false), queue(0), done(&["a", "b"])];
        check(&queued, 2, 2, &[&format!("{two} · 2 questions open"), "2 files changed: a, b"]);
        let many = ["a", "b", "c", "d", "\u{1b}[2Je"];
        let unfinished = "since the last message, 2 h ago: 1 turn ended · 1 unfinished · $1.25";
        let cut = [message(false), ended(StopReason::MaxSteps, &many)];
        check(&cut, 2, 0, &[unfinished, "5 files changed: e, a, b, c, …"]);
    }
}
