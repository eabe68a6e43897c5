//! Watches the session at the prompt for turns of other clients.

use std::time::Duration;

use agentd_core::{error::ErrorKind, event::EventKind, ids::SessionId};
use agentd_proto::client::{Client, ClientError, ClientErrorKind, SessionView};

use crate::{daemon::Daemon, turn::SocketLine};

/// Delay between attempts to watch after the daemon was lost.
const PAUSE: Duration = Duration::from_secs(1);

/// Number of the last event of a session that was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenUpTo {
    session: SessionId,
    seq: u64,
}

impl SeenUpTo {
    pub(super) fn of(line: &SocketLine) -> Self {
        Self { session: line.session(), seq: line.last_seq() }
    }
}

/// Waits for a turn that this chat does not show, and returns the number of the event before it. Never completes if the
/// session does not exist.
pub(super) async fn next_turn(daemon: &Daemon, session: SessionId, seen: &mut Option<SeenUpTo>) -> u64 {
    let mut client = daemon.client.clone();
    loop {
        // The stream ends with the daemon, so the next daemon is connected.
        match begun_elsewhere(&client, session, seen).await {
            Ok(Some(after)) => return after,
            Err(error) if error.kind == ClientErrorKind::Answered(ErrorKind::NotFound) => std::future::pending().await,
            Ok(None) | Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
        if let Ok(found) = daemon.location.connect().await {
            client = found;
        }
    }
}

async fn begun_elsewhere(
    client: &Client,
    session: SessionId,
    seen: &mut Option<SeenUpTo>,
) -> Result<Option<u64>, ClientError> {
    let name = session.to_string();
    let after = match *seen {
        Some(seen) if seen.session == session => seen.seq,
        _ => {
            let view = client.session(&name).await?;
            if let Some(before) = before_turn(&view) {
                return Ok(Some(before));
            }
            let seq = view.session.summary.last_seq;
            *seen = Some(SeenUpTo { session, seq });
            seq
        }
    };
    let mut events = client.subscribe(&name, after, false).await?;
    while let Some(event) = events.next().await? {
        let is_at_work = match event.kind {
            EventKind::TurnStarted { .. } => true,
            // The turn continues once its last question is answered.
            EventKind::InterruptResolved { .. } => client.interrupts(Some(&name)).await?.is_empty(),
            _ => false,
        };
        if is_at_work {
            return Ok(Some(event.seq.saturating_sub(1)));
        }
    }
    Ok(None)
}

/// Returns the number of the event before the running turn, if any.
pub(super) fn before_turn(view: &SessionView) -> Option<u64> {
    let (_, first_seq) = view.session.open_turn.filter(|_| view.live_turn.is_some() && view.pending.is_empty())?;
    Some(first_seq.saturating_sub(1))
}
