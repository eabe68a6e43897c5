//! Git worktrees of sessions: made where the settings of a session to be wish for one, and left where it goes.

use std::path::PathBuf;

use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    ports::{Store, Workspaces, Worktrees},
    session::{Mount, SessionSettings, SessionSummary},
    worktree::{KnownWorktree, NewWorktree},
};

use tokio::task::spawn_blocking;

use crate::{error::EngineError, session::registry::closed::reaches};

/// Sessions among which others in the same worktree are looked for.
const SEARCHED: usize = 100_000;
/// Worktrees of the subagents of one session, at the most.
const MOST_OF_SUBAGENTS: usize = 16;

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

/// Sessions that could change files below one of these folders.
pub(crate) async fn users(store: &dyn Store, folders: &[PathBuf]) -> Result<Vec<SessionId>, EngineError> {
    let (sessions, folders) = (store.sessions(SEARCHED).await?, folders.to_vec());
    let is_user =
        move |one: &SessionSummary| folders.iter().any(|folder| reaches(folder, one.project.as_ref(), &one.folders));
    // A folder may be on a disk that answers slowly, or not at all.
    let found = spawn_blocking(move || sessions.into_iter().filter(is_user).map(|one| one.id).collect()).await;
    found
        .map_err(|error| EngineError::new(ErrorKind::Internal, format!("the sessions could not be looked at: {error}")))
}

/// Another session that works in a worktree. One whose folders are above it does not: it may be all of a person's files.
async fn heir(store: &dyn Store, known: &KnownWorktree, session: SessionId) -> Result<Option<SessionId>, EngineError> {
    let works_there = |one: &SessionSummary| {
        let added = one.folders.iter().map(|added| &added.path);
        let is_named = one.worktree.as_ref().is_some_and(|worktree| worktree.name == known.name);
        is_named || one.project.iter().map(|mount| &mount.path).chain(added).any(|path| path.starts_with(&known.top))
    };
    let sessions = store.sessions(SEARCHED).await?;
    Ok(sessions.into_iter().find(|one| one.id != session && works_there(one)).map(|one| one.id))
}

/// Leaves the worktrees of a session that is gone: to another one that works there, or removed where they have no changes.
/// Otherwise they stay, for a person to merge or remove.
pub(crate) async fn leave(workspaces: &dyn Workspaces, store: &dyn Store, gone: SessionId) {
    let Some(worktrees) = workspaces.worktrees() else { return };
    let left = async {
        for known in worktrees.known().await?.into_iter().filter(|known| known.session == gone) {
            match heir(store, &known, gone).await? {
                Some(heir) => worktrees.hand_over(known.name, heir).await?,
                None if worktrees.leave(known.name.clone()).await? => {}
                None => tracing::info!(session = %gone, "the worktree {} has changes, and stays", known.name),
            }
        }
        Ok::<_, EngineError>(())
    };
    if let Err(error) = left.await {
        tracing::warn!(session = %gone, "a worktree of the session stays: {error}");
    }
}

/// Removes the worktree of a subagent that has changed nothing in it and that nobody else uses. Says whether it did.
pub(crate) async fn leave_unchanged(workspaces: &dyn Workspaces, store: &dyn Store, subagent: SessionId) -> bool {
    let Some(worktrees) = workspaces.worktrees() else { return false };
    let left = async {
        let mut is_gone = false;
        for known in worktrees.known().await?.into_iter().filter(|known| known.session == subagent) {
            if heir(store, &known, subagent).await?.is_none() {
                is_gone |= worktrees.leave(known.name).await?;
            }
        }
        Ok::<_, EngineError>(is_gone)
    };
    left.await.unwrap_or_else(|error| {
        tracing::warn!(session = %subagent, "the worktree of a subagent stays: {error}");
        false
    })
}

/// Refuses one more worktree where the subagents of a session have many.
pub(crate) async fn check_number(
    workspaces: &dyn Workspaces,
    store: &dyn Store,
    parent: SessionId,
) -> Result<(), EngineError> {
    let children = store.children(parent).await?;
    let known = ported(workspaces)?.known().await?;
    let number = known.iter().filter(|known| children.iter().any(|child| child.id == known.session)).count();
    if number < MOST_OF_SUBAGENTS {
        return Ok(());
    }
    let message = format!("the subagents of this session have {number} worktrees already");
    Err(EngineError::new(ErrorKind::Conflict, message)
        .with_hint("leave `worktree` out, or have the user merge and remove some: agentctl worktree list"))
}
