//! Sessions that the editor closes or deletes.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CancelNotification, CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse,
};
use agentd_core::{error::ErrorKind, ids::SessionId};

use super::{bridge::Bridge, refusal::Trouble, servers, session::OpenSession};

/// Cancels the turn that runs in a session, by whatever client it was begun; one that has ended needs no cancel. The rest is to
/// be done where neither a prompt nor anything else here follows it.
pub(super) fn cancel(
    bridge: &Arc<Bridge>,
    notification: &CancelNotification,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    let session = bridge.session(&notification.session_id).ok()?;
    // A prompt that comes next waits for this.
    let order = session.cancelling.clone().try_lock_owned();
    let bridge = bridge.clone();
    if session.cancel() {
        return None;
    }
    Some(async move {
        cancel_turn(&bridge, &session).await;
        drop(order);
    })
}

/// Cancels the turn of a session that is not followed here.
async fn cancel_turn(bridge: &Bridge, session: &OpenSession) {
    session.state().questions.clear();
    let Ok(daemon) = bridge.daemon().await else { return };
    // It has ended, or none runs.
    let _ = daemon.client.cancel_turn(&session.id.to_string(), None).await;
}

/// Closes a session: what runs in it is cancelled, and it is no longer watched.
pub(super) async fn close(
    bridge: &Arc<Bridge>,
    request: &CloseSessionRequest,
) -> Result<CloseSessionResponse, Trouble> {
    let session = bridge.session(&request.session_id)?;
    if !session.cancel() {
        cancel_turn(bridge, &session).await;
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
