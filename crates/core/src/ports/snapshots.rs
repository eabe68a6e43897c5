//! Changes of files by calls: recorded, taken back, and checked.

use std::path::PathBuf;

use futures_util::future::BoxFuture;

use super::{ToolContext, Workspace};
use crate::{
    error::WorkspaceError,
    ids::{CallId, SessionId},
    tool::FileChange,
    undo::FilesReverted,
};

/// Records what calls change in the files of a session, so that it can be undone. The calls of one session come one
/// after the other.
pub trait Snapshots: Send + Sync {
    /// Looks at the files before a call and keeps what they hold: all that the session may change, or only these paths.
    /// Everything it saw is durable when this returns, and stays for as long as the call has it.
    ///
    /// An error says why the changes of the call cannot be recorded.
    fn before<'a>(
        &'a self,
        call: &'a ToolContext,
        paths: Option<&'a [String]>,
    ) -> BoxFuture<'a, Result<FilesBefore, WorkspaceError>>;

    /// The changes since [`Self::before`] of a call that the last life of the daemon did not see end; nothing where
    /// nothing is known of it. What may have been changed after that life ended is marked as late.
    fn unfinished<'a>(
        &'a self,
        session: SessionId,
        workspace: &'a Workspace,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<Changes, WorkspaceError>>;

    /// Takes changes back, each path once: files come to hold what they held before, byte for byte. A path that no
    /// longer is what it was after the change, and what is marked as late, is a conflict and is left alone. A preview changes nothing.
    fn undo<'a>(
        &'a self,
        session: SessionId,
        workspace: &'a Workspace,
        changes: Vec<FileChange>,
        preview: bool,
    ) -> BoxFuture<'a, Result<FilesReverted, WorkspaceError>>;

    /// Keeps for one session, too, what is needed to take back changes of another one that worked on its files, and returns
    /// them as they can be taken back there: what could not be kept is only told of.
    fn adopt(
        &self,
        _from: SessionId,
        _to: SessionId,
        changes: Vec<FileChange>,
    ) -> BoxFuture<'_, Result<Vec<FileChange>, WorkspaceError>> {
        let reported = changes.into_iter().map(|change| FileChange::new(change.path, change.change)).collect();
        Box::pin(std::future::ready(Ok(reported)))
    }

    /// Removes all that is kept of a session.
    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;
}

/// The files as they were before a call, which owns them: no other call makes them be dropped.
pub struct FilesBefore {
    /// Guarded files and folders of the person, the topmost of each, by their real paths. Only of a call that is
    /// [checked](crate::policy::Confinement::is_checked).
    pub closed: Vec<PathBuf>,
    /// Changes that could not be undone, as far as that is known before the call: a sentence each.
    pub gaps: Vec<String>,
    /// Reason why what the call leaves behind could not be checked.
    pub unchecked: Option<String>,
    /// Paths of which no contents are kept, such as folders that git ignores.
    pub unkept: Vec<String>,
    /// Looks again when it is awaited, and reports what has changed. Of a call that is
    /// [checked](crate::policy::Confinement::is_checked), changes of guarded files are taken back at once.
    pub after: BoxFuture<'static, Result<Changes, WorkspaceError>>,
}

/// Changes of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes of guarded files that were taken back: the way back to each, and what could not be taken back.
    pub set_aside: FilesReverted,
    /// Every path once: those of the session's own tree, then those of the project, each sorted.
    pub files: Vec<FileChange>,
    /// Changes that could not be recorded and therefore cannot be undone, a sentence each.
    pub notes: Vec<String>,
}
