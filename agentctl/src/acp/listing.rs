//! The sessions that there are, page by page.

use agent_client_protocol_schema::v1::{Error, ListSessionsRequest, ListSessionsResponse, SessionInfo};
use agentd_core::{ids::SessionId, session::SessionSummary};

use super::{
    bridge::Bridge,
    refusal::{self, Trouble},
};
use crate::{daemon::Daemon, terminal::sanitize::clean_line};

/// Sessions of one page.
const PAGE: usize = 50;
/// Sessions that are looked through.
const MOST: usize = 10_000;

/// A page of sessions, last used first: those of one folder, where one is named.
pub(super) async fn list(bridge: &Bridge, request: &ListSessionsRequest) -> Result<ListSessionsResponse, Trouble> {
    let after = request.cursor.as_deref().map(Cursor::read).transpose()?;
    let daemon = bridge.daemon().await?;
    let folder = match &request.cwd {
        Some(cwd) if !cwd.is_absolute() => return Err(refusal::misfit("cwd must be an absolute path").into()),
        Some(cwd) => match std::fs::canonicalize(cwd) {
            Ok(folder) => Some(folder),
            // No session of it could be loaded.
            Err(_) => return Ok(ListSessionsResponse::new(Vec::new())),
        },
        None => None,
    };
    let mut sessions = daemon.client.sessions(MOST).await?;
    // The order is ours, so that a page goes on where the one before it ended, whatever was used meanwhile.
    sessions.sort_by_key(|session| std::cmp::Reverse(Cursor::of(session)));
    sessions.retain(|session| {
        // One that nobody has spoken in is nothing to load.
        let is_used = session.turns > 0 || !session.title.is_empty();
        let is_here = folder
            .as_ref()
            .is_none_or(|folder| session.project.as_ref().is_some_and(|project| project.path == *folder));
        is_used && is_here && after.as_ref().is_none_or(|after| Cursor::of(session) < *after)
    });
    let next = (sessions.len() > PAGE).then(|| Cursor::of(&sessions[PAGE - 1]).written());
    let page = sessions.iter().take(PAGE).map(|session| info(&daemon, session)).collect();
    Ok(ListSessionsResponse::new(page).next_cursor(next))
}

fn info(daemon: &Daemon, session: &SessionSummary) -> SessionInfo {
    let own = || daemon.client.hello().data_dir.join("workspace").join(session.id.to_string());
    let folder = session.project.as_ref().map_or_else(own, |project| project.path.clone());
    let title = Some(clean_line(&session.title)).filter(|title| !title.is_empty());
    let further = session.folders.iter().map(|folder| folder.path.clone()).collect();
    SessionInfo::new(session.id.to_string(), folder)
        .additional_directories(further)
        .title(title)
        .updated_at(session.updated_at.to_string())
}

/// A place in the list: when a session was last used, in nanoseconds, and which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor(i128, SessionId);

impl Cursor {
    fn of(session: &SessionSummary) -> Self {
        Self(session.updated_at.as_nanosecond(), session.id)
    }

    fn written(self) -> String {
        format!("{}-{}", self.0, self.1)
    }

    fn read(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('-').and_then(|(at, id)| Some(Self(at.parse().ok()?, id.parse().ok()?)));
        parts.ok_or_else(|| refusal::misfit("this cursor is none of session/list; leave it out for the first page"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_are_written() {
        let cursor = Cursor(1_767_225_600_000_000_001, SessionId::generate());
        assert_eq!(Cursor::read(&cursor.written()), Ok(cursor));
        for bad in ["", "1", "x-y", "1-", "-1-2"] {
            assert!(Cursor::read(bad).is_err(), "{bad}");
        }
    }
}
