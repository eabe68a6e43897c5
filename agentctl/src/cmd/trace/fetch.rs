//! The events of a session and of those that work for it, from the daemon.

use std::collections::BTreeMap;

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    ids::SessionId,
};
use agentd_proto::client::{Client, ClientError, ClientErrorKind};
use agentd_trace::{TurnTrace, nest, subagent_sessions, turns};

/// Sessions of subagents that are read for one trace at the most.
const MOST_SESSIONS: usize = 500;

/// All stored events of a session.
pub(super) async fn events(client: &Client, session: SessionId) -> Result<Vec<Event>, ClientError> {
    let id = session.to_string();
    let view = client.session(&id).await?;
    let last = view.session.summary.last_seq;
    let mut stream = client.subscribe(&id, 0, view.live_turn.is_none()).await?;
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Event| event.seq < last) {
        let Some(event) = stream.next().await? else { break };
        if event.kind.is_stored() {
            events.push(slim(event));
        }
    }
    Ok(events)
}

/// The event without pictures and origins, of which no trace tells.
pub(in crate::cmd) fn slim(mut event: Event) -> Event {
    if let EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } = &mut event.kind {
        item.origin = None;
    }
    event
}

/// Puts the turns of subagents into those for which they worked. What is gone is left out.
pub(super) async fn with_subagents(client: &Client, trees: &mut [TurnTrace]) -> Result<(), ClientError> {
    let mut known: BTreeMap<SessionId, Vec<TurnTrace>> = BTreeMap::new();
    let mut wanted = subagent_sessions(trees);
    while let Some(session) = wanted.pop_first() {
        if known.len() >= MOST_SESSIONS || known.contains_key(&session) {
            continue;
        }
        let of_child = match events(client, session).await {
            Ok(events) => turns(&events),
            Err(error) if error.kind == ClientErrorKind::Answered(ErrorKind::NotFound) => Vec::new(),
            Err(error) => return Err(error),
        };
        wanted.extend(subagent_sessions(&of_child));
        known.insert(session, of_child);
    }
    nest(trees, &known);
    Ok(())
}
