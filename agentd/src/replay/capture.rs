//! A session's events for a recording, and those of its subagents.

use std::{collections::HashMap, sync::Arc};

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
    import_origin::ImportOrigin,
    model::{Slot, SlotInfo},
};
use agentd_engine::{Engine, EngineError};
use agentd_replay::{CapturedSession, RecordedProject};

/// Events that are read at once.
const PAGE: usize = 1000;

/// Events of a recording at most, those of subagents included.
const MOST: usize = 1_000_000;

/// Reads a session and all that worked for it.
pub(super) async fn gather(engine: &Engine, session: SessionId) -> Result<CapturedSession, EngineError> {
    let view = engine.session(session).await?.show().await?;
    let mut room = MOST;
    let events = read(engine, session, &mut room).await?;
    let mut subagents = HashMap::new();
    let mut open = children(&events);
    while let Some(child) = open.pop() {
        if subagents.contains_key(&child) {
            continue;
        }
        // One that was deleted has only its result.
        let events = read(engine, child, &mut room).await.unwrap_or_default();
        open.extend(children(&events));
        subagents.insert(child, events);
    }
    let summary = view.session.summary;
    Ok(CapturedSession {
        began: summary.created_at,
        title: summary.title,
        project: view.session.settings.project.map(|mount| RecordedProject { writable: mount.writable }),
        models: models(engine.models(), &events, view.session.settings.imported.as_deref()),
        events,
        subagents,
    })
}

/// The models of the slots, each as the last turn had it: a session may have been imported from where others are configured.
fn models(mut models: Vec<SlotInfo>, events: &[Arc<Event>], origin: Option<&ImportOrigin>) -> Vec<SlotInfo> {
    let figures = origin.and_then(|origin| origin.context.as_ref());
    let mut told: HashMap<Slot, &str> = HashMap::new();
    for event in events {
        if let EventKind::TurnStarted { slot, model, .. } = &event.kind {
            told.insert(*slot, model);
        }
    }
    for known in &mut models {
        let Some(id) = told.get(&known.slot).filter(|id| !id.is_empty()) else { continue };
        (*id).clone_into(&mut known.model.id);
        if let Some(view) = figures.filter(|view| view.model == *id) {
            known.model.context_window = view.window;
        }
    }
    models
}

async fn read(engine: &Engine, session: SessionId, room: &mut usize) -> Result<Vec<Arc<Event>>, EngineError> {
    let mut events: Vec<Arc<Event>> = Vec::new();
    while *room > 0 {
        let after = events.last().map_or(0, |event| event.seq);
        let page = engine.events(session, after, PAGE.min(*room)).await?;
        if page.is_empty() {
            break;
        }
        *room -= page.len();
        events.extend(page);
    }
    Ok(events)
}

fn children(events: &[Arc<Event>]) -> Vec<SessionId> {
    let child = |event: &Arc<Event>| match &event.kind {
        EventKind::StateChanged { change: StateChange::Subagent(subagent) } => Some(subagent.session_id),
        _ => None,
    };
    events.iter().filter_map(child).collect()
}
