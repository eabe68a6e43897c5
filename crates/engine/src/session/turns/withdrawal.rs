//! What a cancel takes back of a turn: all that was said to it where nothing was answered, else what no model has read.

use agentd_core::{
    event::{Event, EventKind, StateChange},
    item::{Item, ItemBody, NoticeTopic},
    turn::StopReason,
};

use crate::{
    mentions::typed,
    session::{
        actor::{Actor, Fault, OpenTurn},
        turns::whole,
    },
};

/// Said to the model where a turn was cancelled that had begun to answer.
const INTERRUPTED: &str = "The person interrupted here. Do not continue with this unless they ask for it.";
/// Said to the model where the person continues such a turn.
const CONTINUED: &str = "The person asks to continue what was interrupted.";

impl Actor {
    /// Facts of the cancel of a person's turn, stored directly after `ending`. The journal alone decides what was answered;
    /// a damaged event counts as an answer.
    pub(crate) async fn taken_back(
        &self,
        open: &OpenTurn,
        ending: &[EventKind],
        only_compacted: bool,
    ) -> Result<Vec<EventKind>, Fault> {
        let events = self.turn_events(open.turn_id, open.first_seq).await?;
        let is_answered = events.iter().any(|event| is_answer(event));
        let stored = events.iter().map(|event| (event.seq, &event.kind)).filter(|_| !is_answered);
        let unread = (self.journal.head() + 1..).zip(ending);
        let mut facts: Vec<EventKind> = withdrawn(stored.chain(unread)).into_iter().collect();
        if !is_answered {
            // The next turn tells of its files.
            facts.extend(open.handed_over.iter().cloned().map(|change| EventKind::StateChanged { change }));
        } else if !only_compacted {
            facts.extend(whole(Item::new(open.turn_id, notice(INTERRUPTED))));
        }
        Ok(facts)
    }

    /// Notice in front of a turn that continues one which a person had interrupted.
    pub(crate) fn continued_notice(&self) -> Option<ItemBody> {
        (self.state.last_stop == Some(StopReason::Cancelled)).then(|| notice(CONTINUED))
    }
}

/// The fact that the inputs among these numbered facts are withdrawn, with the notices that came with them.
pub(crate) fn withdrawn<'a>(numbered: impl Iterator<Item = (u64, &'a EventKind)>) -> Option<EventKind> {
    let (mut items, mut input, mut added) = (Vec::new(), None, Vec::new());
    for (seq, kind) in numbered {
        let EventKind::ItemCompleted { item, .. } = kind else { continue };
        match &item.body {
            ItemBody::UserMessage { text, typed_bytes, steered: true, .. } => {
                added.push(typed(text, *typed_bytes).to_owned());
            }
            ItemBody::UserMessage { text, typed_bytes, .. } => input = Some(typed(text, *typed_bytes).to_owned()),
            ItemBody::Notice { .. } => {}
            _ => continue,
        }
        items.push(seq);
    }
    (!items.is_empty()).then(|| EventKind::StateChanged { change: StateChange::Withdrawn { items, input, added } })
}

/// Returns true if an event shows a part of an answer, or may have.
fn is_answer(event: &Event) -> bool {
    match &event.kind {
        EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => {
            !matches!(item.body, ItemBody::UserMessage { .. } | ItemBody::Notice { .. })
        }
        _ => event.is_damaged(),
    }
}

fn notice(text: &str) -> ItemBody {
    let topic = NoticeTopic::Interrupted;
    ItemBody::Notice { text: text.to_owned(), topic, sources: Vec::new(), pictures: Vec::new() }
}
