//! The last turns of a session that is taken up, shown as they were.

use agentd_core::{event::EventKind, item::ItemBody};
use agentd_proto::client::{NumberedItem, SessionView};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{
    render::Human,
    report::{count, short_id},
    turn::{Arrival, Line as _, Renderer as _, SocketLine},
};

/// Turns that are shown again.
const TURNS: usize = 2;
/// The items among which they are looked for.
pub(crate) const LOOKED_AT: usize = 300;

impl Chat {
    /// Shows the last turns, without the one that is still open.
    pub(super) async fn replay(&mut self, view: &SessionView) -> anyhow::Result<()> {
        let summary = &view.session.summary;
        let before = view.session.open_turn.map_or(u64::MAX, |(_, first_seq)| first_seq);
        let items = self.daemon.client.items(&summary.id.to_string(), 0, LOOKED_AT).await?;
        let begins = begins(&items, before);
        // Of a turn that is longer than what was looked at, its end is shown.
        let tail = items.iter().map(|item| item.seq).find(|seq| *seq < before);
        let Some(first) = begins.iter().rev().take(TURNS).next_back().copied().or(tail) else { return Ok(()) };
        let shown = begins.len().min(TURNS) as u64;
        let open = u64::from(view.session.open_turn.is_some());
        if let earlier @ 1.. = summary.turns.saturating_sub(shown + open) {
            let earlier = count(earlier, "earlier turn");
            self.note(&format!("{earlier}: agentctl attach {} --after 0", short_id(summary.id)));
        }
        let mut line = SocketLine::attach(&self.daemon, summary.id, first - 1).await?;
        let mut human = Human::stdio().in_chat().showing_input().still();
        while let Some(arrival) = line.next().await? {
            let Arrival::Event(event) = arrival else { continue };
            if event.seq >= before {
                break;
            }
            human.event(&event)?;
            if let EventKind::TurnEnded { result } = &event.kind {
                human.finish(result)?;
            }
        }
        Ok(human.leave()?)
    }
}

/// Numbers of the first items of the turns before an event.
pub(crate) fn begins(items: &[NumberedItem], before: u64) -> Vec<u64> {
    let is_begin = |item: &&NumberedItem| {
        item.seq < before && matches!(item.item.body, ItemBody::UserMessage { steered: false, .. })
    };
    items.iter().filter(is_begin).map(|item| item.seq).collect()
}
