//! Changes of an open session that come from elsewhere: its title, its mode, its model. What turns do is told by prompts.

use std::sync::{Arc, Weak};

use agent_client_protocol_schema::v1::{SessionInfoUpdate, SessionUpdate};
use agentd_core::event::{EventKind, StateChange};
use agentd_proto::client::{Client, EventStream};

use super::{bridge::Bridge, session::OpenSession, settings};
use crate::{daemon::Daemon, terminal::sanitize::clean_line};

/// Hears of what changes in a session behind an event number, if nobody does yet. It ends with the session, the editor or the
/// connection to the daemon, and is begun again with the next prompt.
pub(super) async fn ensure(bridge: &Arc<Bridge>, session: &Arc<OpenSession>, daemon: &Daemon, after: u64) {
    if session.is_watched() {
        return;
    }
    // Without it changes are told with the next prompt.
    let Ok(events) = daemon.client.subscribe(&session.id.to_string(), after, false).await else { return };
    let (client, bridge, weak) = (daemon.client.clone(), bridge.clone(), Arc::downgrade(session));
    session.watched_by(tokio::spawn(async move {
        tokio::select! {
            () = bridge.over.cancelled() => {}
            () = hear(events, &client, &bridge, &weak) => {}
        }
    }));
}

async fn hear(mut events: EventStream, client: &Client, bridge: &Bridge, session: &Weak<OpenSession>) {
    while let Ok(Some(event)) = events.next().await {
        let Some(session) = session.upgrade() else { return };
        let EventKind::StateChanged { change } = event.kind else { continue };
        match change {
            StateChange::Title { title } => {
                let info = SessionInfoUpdate::new().title(clean_line(&title)).updated_at(event.at.to_string());
                bridge.peer.update(&session.wire, SessionUpdate::SessionInfoUpdate(info)).await;
            }
            // Not those of the event: they may have changed again since.
            StateChange::Settings { .. } => {
                let _ = settings::tell(bridge, client, &session).await;
            }
            _ => {}
        }
    }
}
