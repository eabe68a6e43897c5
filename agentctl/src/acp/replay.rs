//! The history of a session that is loaded: bounded, however long it was. Results keep their heads and tails, those of long ago
//! little of them; pictures do not come back.

use std::sync::Arc;

use agent_client_protocol_schema::v1::SessionUpdate;
use agentd_core::{
    event::{EventKind, StateChange},
    item::ItemBody,
};
use agentd_proto::client::SessionView;

use super::{
    bridge::{self, Bridge},
    refusal::Trouble,
    session::OpenSession,
    updates::{self, Limits, Updates},
};
use crate::{daemon::Daemon, report::short_id};

/// Events that are looked at, the newest ones.
const EVENTS: u64 = 60_000;
/// Events that are told at length, the newest ones.
const RECENT: u64 = 2_000;

const LIMITS: Limits = Limits { words: 64 * 1024, result: 4 * 1024 };
const OLD_LIMITS: Limits = Limits { words: 4 * 1024, result: 512 };

/// Tells what has happened in a session since its history was last cleared. It is not held in memory: each event is told as it
/// is read, as fast as the editor takes them.
pub(super) async fn replay(
    bridge: &Arc<Bridge>,
    session: &OpenSession,
    daemon: &Daemon,
    view: &SessionView,
) -> Result<(), Trouble> {
    let (last, cleared) = (view.session.summary.last_seq, view.session.reset_seq);
    let first = cleared.max(last.saturating_sub(EVENTS));
    if first >= last {
        return Ok(());
    }
    if first > cleared {
        let id = short_id(session.id);
        let words = format!("> Earlier history is not shown here: `agentctl attach {id} --after 0` shows it.\n\n");
        bridge.peer.update(&session.wire, updates::message(&words)).await;
    }
    let places = bridge::places(daemon, session.id, &view.session.settings);
    let mut updates = Updates::replay(session.id, places, bridge.editor().shows, OLD_LIMITS);
    let mut events = daemon.client.subscribe(&session.id.to_string(), first, false).await?;
    let (mut usage, mut unanswered) = (None, Vec::new());
    while let Some(event) = events.next().await? {
        updates.limits = if event.seq + RECENT > last { LIMITS } else { OLD_LIMITS };
        let item = match &event.kind {
            EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => Some(&item.body),
            _ => None,
        };
        // A cancel may have taken it back, so it is shown once something answers it.
        let is_input = matches!(item, Some(ItemBody::UserMessage { .. }));
        match (item, &event.kind) {
            (_, EventKind::StateChanged { change: StateChange::Withdrawn { items, .. } }) => {
                unanswered.retain(|(seq, _)| !items.contains(seq));
            }
            (Some(ItemBody::Notice { .. }), _) => {}
            (Some(_), _) | (_, EventKind::TurnStarted { .. }) if !is_input => {
                show(bridge, session, &mut unanswered).await;
            }
            _ => {}
        }
        for update in updates.event(&event) {
            match update {
                // As they are now.
                SessionUpdate::Plan(_) => {}
                SessionUpdate::UsageUpdate(_) => usage = Some(update),
                update if is_input => unanswered.push((event.seq, update)),
                update => bridge.peer.update(&session.wire, update).await,
            }
        }
        if event.seq >= last {
            break;
        }
    }
    show(bridge, session, &mut unanswered).await;
    if view.live_turn.is_none() {
        for update in updates.finish() {
            bridge.peer.update(&session.wire, update).await;
        }
    }
    let plan = (!view.session.todos.is_empty()).then(|| updates::plan(&view.session.todos));
    for update in plan.into_iter().chain(usage) {
        bridge.peer.update(&session.wire, update).await;
    }
    Ok(())
}

async fn show(bridge: &Bridge, session: &OpenSession, updates: &mut Vec<(u64, SessionUpdate)>) {
    for (_, update) in updates.drain(..) {
        bridge.peer.update(&session.wire, update).await;
    }
}
