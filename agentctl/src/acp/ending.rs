//! Sessions that the editor closes or deletes.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CancelNotification, CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse,
};
use agentd_core::{error::ErrorKind, ids::SessionId};

use super::{bridge::Bridge, refusal::Trouble, servers, session::OpenSession};

/// Cancels the prompt that runs in a session; one that has ended needs no cancel. The session is handed back whose turn waits
/// for the answer to a question in words, without a prompt.
pub(super) fn cancel(bridge: &Bridge, notification: &CancelNotification) -> Option<Arc<OpenSession>> {
    let session = bridge.session(&notification.session_id).ok()?;
    let waits = !session.cancel() && !session.state().questions.is_empty();
    waits.then_some(session)
}

/// Cancels a turn whose prompt has ended with a question in words.
pub(super) async fn cancel_waiting(bridge: &Bridge, session: &OpenSession) {
    let told = std::mem::take(&mut session.state().questions);
    if told.is_empty() {
        return;
    }
    let (Ok(daemon), id) = (bridge.daemon().await, session.id.to_string()) else { return };
    // It may have been answered, or cancelled, elsewhere, and another turn may run: only the one that still asks is meant.
    let Ok(view) = daemon.client.session(&id).await else { return };
    for interrupt in view.pending.iter().filter(|interrupt| told.contains(&interrupt.id)) {
        let _ = daemon.client.cancel_turn(&id, Some(interrupt.turn_id)).await;
    }
}

/// Closes a session: what the editor had running in it is cancelled, and it is no longer watched.
pub(super) async fn close(
    bridge: &Arc<Bridge>,
    request: &CloseSessionRequest,
) -> Result<CloseSessionResponse, Trouble> {
    let session = bridge.session(&request.session_id)?;
    if !session.cancel() {
        cancel_waiting(bridge, &session).await;
    }
    if let Ok(daemon) = bridge.daemon().await {
        servers::take_back(&daemon, &session).await;
    }
    bridge.close(session.id);
    session.unwatch();
    Ok(CloseSessionResponse::new())
}

/// Deletes a session for good. One that is gone already is deleted, too.
pub(super) async fn delete(bridge: &Bridge, request: &DeleteSessionRequest) -> Result<DeleteSessionResponse, Trouble> {
    let Ok(id) = request.session_id.0.parse::<SessionId>() else { return Ok(DeleteSessionResponse::new()) };
    let client = bridge.daemon().await?.client;
    if let Err(error) = client.delete_session(&id.to_string()).await
        && error.answered() != Some(ErrorKind::NotFound)
    {
        return Err(error.into());
    }
    if let Some(session) = bridge.close(id) {
        session.unwatch();
    }
    Ok(DeleteSessionResponse::new())
}
