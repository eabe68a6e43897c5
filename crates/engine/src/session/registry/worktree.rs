//! Git worktrees of sessions: created if the settings request one, and released when the session is deleted. Also
//! closes folders while all of their files are changed or removed, so that no turn begins in them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    error::ErrorKind,
    folder::AddedFolder,
    ids::SessionId,
    ports::Worktrees,
    session::{Mount, SessionSettings, SessionSummary},
    worktree::{KnownWorktree, NewWorktree},
};
use tokio::{sync::watch, task::spawn_blocking};

use crate::{
    config::Ports,
    error::{EngineError, Result},
};

/// Maximum number of sessions searched for other users of a worktree.
const MAX_SEARCHED: usize = 100_000;
/// Maximum number of worktrees for the subagents of one session.
const MAX_SUBAGENT_WORKTREES: usize = 16;

/// Creates the worktree that the settings request, if any, and returns the settings with the worktree.
pub(crate) async fn with_worktree(ports: &Ports, id: SessionId, settings: SessionSettings) -> Result<SessionSettings> {
    let Some(requested) = &settings.worktree else { return Ok(settings) };
    let Some(project) = &settings.project else {
        let hint = "choose a git repository with -C, or start in one";
        return Err(EngineError::invalid("a worktree requires a project", hint));
    };
    // Rejects an invalid project before git runs in it.
    ports.workspaces.locate(id, settings.mounts()).await?;
    let new = NewWorktree { session: id, name: requested.name.clone(), project: project.path.clone() };
    let created = worktrees_port(ports)?.make(new).await?;
    let project = Some(Mount { path: created.folder, writable: true });
    Ok(SessionSettings { project, worktree: Some(created.worktree), ..settings })
}

/// Returns the worktree port, or an error if the port is missing.
pub(crate) fn worktrees_port(ports: &Ports) -> Result<&dyn Worktrees> {
    ports.workspaces.worktrees().ok_or_else(|| {
        EngineError::new(ErrorKind::Configuration, "this daemon does not support worktrees")
            .with_hint("start it normally")
    })
}

/// Returns the sessions that could change files in these folders.
pub(crate) async fn sessions_using(ports: &Ports, folders: &[PathBuf]) -> Result<Vec<SessionId>> {
    let (sessions, folders) = (ports.store.sessions(MAX_SEARCHED).await?, folders.to_vec());
    let is_user =
        move |one: &SessionSummary| folders.iter().any(|folder| can_change(folder, one.project.as_ref(), &one.folders));
    // A folder may be on a disk that answers slowly or not at all.
    let found = spawn_blocking(move || sessions.into_iter().filter(is_user).map(|one| one.id).collect()).await;
    found.map_err(|error| EngineError::new(ErrorKind::Internal, format!("could not read the sessions: {error}")))
}

/// Returns another session that works in a worktree. Sessions whose folders contain the worktree are ignored, because
/// such folders may span all of the user's files.
async fn successor(ports: &Ports, target: &KnownWorktree, session: SessionId) -> Result<Option<SessionId>> {
    let works_there = |one: &SessionSummary| {
        let added = one.folders.iter().map(|added| &added.path);
        let is_named = one.worktree.as_ref().is_some_and(|worktree| worktree.name == target.name);
        is_named || one.project.iter().map(|mount| &mount.path).chain(added).any(|path| path.starts_with(&target.top))
    };
    let sessions = ports.store.sessions(MAX_SEARCHED).await?;
    Ok(sessions.into_iter().find(|one| one.id != session && works_there(one)).map(|one| one.id))
}

/// Releases the worktrees of a deleted session: passes each worktree to another session that works there, or removes
/// the worktree if it has no changes. Otherwise, the worktree stays for the user to merge or remove.
pub(crate) async fn release_worktrees(ports: &Ports, gone: SessionId) {
    if let Err(error) = try_release(ports, gone, true).await {
        tracing::warn!(session = %gone, "could not remove a worktree of the session: {error}");
    }
}

/// Removes the worktree of a subagent if it has no changes and no other user. Returns true if the worktree was removed.
pub(crate) async fn remove_unchanged(ports: &Ports, subagent: SessionId) -> bool {
    try_release(ports, subagent, false).await.unwrap_or_else(|error| {
        tracing::warn!(session = %subagent, "could not remove the worktree of a subagent: {error}");
        false
    })
}

/// Releases the worktrees of a session, and returns true if one was removed. Worktrees are passed to other sessions
/// only if `is_gone`.
async fn try_release(ports: &Ports, session: SessionId, is_gone: bool) -> Result<bool> {
    let Some(worktrees) = ports.workspaces.worktrees() else { return Ok(false) };
    let mut is_removed = false;
    for worktree in worktrees.known().await?.into_iter().filter(|worktree| worktree.session == session) {
        match successor(ports, &worktree, session).await? {
            Some(successor) if is_gone => worktrees.share_worktree(worktree.name, successor).await?,
            Some(_) => {}
            None if worktrees.leave(worktree.name.clone()).await? => is_removed = true,
            None if is_gone => {
                tracing::info!(%session, "the worktree {} has changes and was not removed", worktree.name)
            }
            None => {}
        }
    }
    Ok(is_removed)
}

/// Rejects another worktree if the subagents of a session already have the maximum number.
pub(crate) async fn check_worktree_limit(ports: &Ports, parent: SessionId) -> Result<()> {
    let children = ports.store.children(parent).await?;
    let worktrees = worktrees_port(ports)?.known().await?;
    let number = worktrees.iter().filter(|worktree| children.iter().any(|child| child.id == worktree.session)).count();
    if number < MAX_SUBAGENT_WORKTREES {
        return Ok(());
    }
    let message = format!("the subagents of this session already have {number} worktrees");
    Err(EngineError::new(ErrorKind::Conflict, message)
        .with_hint("omit `worktree`, or ask the user to merge and remove some: agentctl worktree list"))
}

/// Set of folders that are currently closed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClosedFolders(Arc<watch::Sender<Vec<PathBuf>>>);

/// Guard that keeps folders closed until it is dropped.
#[derive(Debug)]
pub(crate) struct FolderClosure {
    all: ClosedFolders,
    folders: Vec<PathBuf>,
}

impl ClosedFolders {
    pub(crate) fn close(&self, folders: Vec<PathBuf>) -> FolderClosure {
        self.0.send_modify(|closed| closed.extend(folders.iter().cloned()));
        FolderClosure { all: self.clone(), folders }
    }

    /// Returns true if a session could change files in a closed folder.
    pub(crate) fn affect(&self, project: Option<&Mount>, added: &[AddedFolder]) -> bool {
        let closed = self.0.borrow().clone();
        closed.iter().any(|folder| can_change(folder, project, added))
    }
}

impl Drop for FolderClosure {
    fn drop(&mut self) {
        self.all.0.send_modify(|all| {
            for folder in &self.folders {
                // Another closure may include the same folder, so only one entry is removed.
                if let Some(at) = all.iter().position(|closed| closed == folder) {
                    all.swap_remove(at);
                }
            }
        });
    }
}

/// Returns true if a session with these folders could change files in `folder`.
pub(crate) fn can_change(folder: &Path, project: Option<&Mount>, added: &[AddedFolder]) -> bool {
    let is_in = |path: &Path| path.starts_with(folder) || folder.starts_with(path);
    let writable = project.filter(|mount| mount.writable).map(|mount| mount.path.as_path()).into_iter();
    let added = added.iter().filter(|added| added.writable).map(|added| added.path.as_path());
    // The folder may be named through a link.
    writable.chain(added).any(|path| is_in(path) || path.canonicalize().is_ok_and(|real| is_in(&real)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_stays_closed_until_the_last_guard_drops() {
        let closed = ClosedFolders::default();
        let mount = |path: &str, writable| Mount { path: path.into(), writable };
        let affects = |path: &str, writable| closed.affect(Some(&mount(path, writable)), &[]);
        assert!(!affects("/w/one", true));
        let (first, second) = (closed.close(vec!["/w/one".into(), "/app".into()]), closed.close(vec!["/app".into()]));
        for (path, writable, expected) in [
            ("/w/one", true, true),
            ("/w/one/sub", true, true),
            ("/w", true, true),
            ("/w/one", false, false),
            ("/w/other", true, false),
        ] {
            assert_eq!(affects(path, writable), expected, "{path}");
        }
        drop(first);
        assert!(!affects("/w/one", true) && affects("/app", true));
        drop(second);
        assert!(!affects("/app", true));
        let added = AddedFolder { at: "/folders/app".into(), path: "/app".into(), writable: true };
        assert!(can_change(Path::new("/app"), None, &[added]));
    }
}
