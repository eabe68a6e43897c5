//! Git worktrees of sessions: made where the settings of a session to be wish for one, and left where it goes.

use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    ports::{Workspaces, Worktrees},
    session::{Mount, SessionSettings},
    worktree::{NewWorktree, SessionWorktree},
};

use super::shared::Ports;
use crate::error::EngineError;

/// Sessions among which others in the same worktree are looked for.
const SEARCHED: usize = 100_000;

/// The settings of a session to be, with the worktree made that they wish for.
pub(crate) async fn with_worktree(
    workspaces: &dyn Workspaces,
    id: SessionId,
    settings: SessionSettings,
) -> Result<SessionSettings, EngineError> {
    let Some(wish) = &settings.worktree else { return Ok(settings) };
    let Some(project) = &settings.project else {
        return Err(EngineError::new(ErrorKind::InvalidInput, "a worktree is made of a project, and there is none")
            .with_hint("name the folder of a git repository with -C, or start in one"));
    };
    // Refused as any project is, before git looks at it.
    workspaces.locate(id, settings.mounts()).await?;
    let new = NewWorktree { session: id, name: wish.name.clone(), project: project.path.clone() };
    let made = ported(workspaces)?.make(new).await?;
    let project = Some(Mount { path: made.folder, writable: true });
    Ok(SessionSettings { project, worktree: Some(made.worktree), ..settings })
}

/// Maker of worktrees.
pub(crate) fn ported(workspaces: &dyn Workspaces) -> Result<&dyn Worktrees, EngineError> {
    workspaces.worktrees().ok_or_else(|| {
        EngineError::new(ErrorKind::Configuration, "this daemon makes no worktrees").with_hint("start it as usual")
    })
}

/// Sessions that work in a worktree.
pub(crate) async fn users(parts: &Ports, name: &str) -> Result<Vec<SessionId>, EngineError> {
    let sessions = parts.store.sessions(SEARCHED).await?;
    let is_in = |worktree: &SessionWorktree| worktree.name == name;
    Ok(sessions.into_iter().filter(|one| one.worktree.as_ref().is_some_and(is_in)).map(|one| one.id).collect())
}

/// Leaves the worktrees of a session that is gone: to another one that works there, or removed where they have no changes.
/// Otherwise they stay, for a person to merge or remove.
pub(crate) async fn leave(parts: &Ports, gone: SessionId) {
    let Some(worktrees) = parts.workspaces.worktrees() else { return };
    let left = async {
        for (name, _) in worktrees.names().await?.into_iter().filter(|(_, session)| *session == gone) {
            let heir = users(parts, &name).await?.into_iter().find(|user| *user != gone);
            match heir {
                Some(heir) => worktrees.hand_over(name, heir).await?,
                None if worktrees.leave(name.clone()).await? => {}
                None => tracing::info!(session = %gone, "the worktree {name} has changes, and stays"),
            }
        }
        Ok::<_, EngineError>(())
    };
    if let Err(error) = left.await {
        tracing::warn!(session = %gone, "a worktree of the session stays: {error}");
    }
}
