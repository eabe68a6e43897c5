//! Ports for a session's folders: projects, skills, worktrees, and confined programs.
//!
//! Also ports next to the journal (the audit log, exchanges with models, imported sessions), a port that records,
//! undoes and checks the file changes of calls, and a handle for a call's progress.

use std::{collections::BTreeMap, ffi::OsString, fmt, io::Read, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::Agents,
    archive::{DraftId, SessionDraft, TreeFile},
    audit::{AuditEntry, AuditRecord, AuditReport, RecordQuery},
    error::{AuditError, StoreFuture, WorkspaceError, WorkspaceFuture},
    event::Event,
    exchange::{ExchangeSource, RequestTap},
    files::FilesCopied,
    guide::{Skill, SkillReport},
    ids::{CallId, SessionId},
    ports::{ToolContext, Workspace},
    project::{ProjectReport, ProjectTrust},
    tool::FileChange,
    undo::{FilesReverted, ForeignChange},
    worktree::{KnownWorktree, MadeWorktree, NewWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport},
};

/// Starts programs in the sandbox for commands: without network, in a clean environment, and with write access only to
/// their own temporary files.
pub trait Confiner: Send + Sync {
    /// Starts a program with its standard input and output connected.
    ///
    /// # Errors
    /// Fails if the sandbox is not available. No program runs without the sandbox.
    fn start(&self, program: ConfinedProgram) -> BoxFuture<'_, Result<ConfinedProcess, ConfineError>>;

    /// Lists the files and folders with secrets that are currently in a folder.
    ///
    /// # Errors
    /// Fails if the folder has too many files to be searched.
    fn secrets(&self, folder: PathBuf) -> BoxFuture<'_, Result<Vec<SecretFile>, ConfineError>>;
}

/// A file or folder with secrets. A replacement at the same path is a different file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// Absolute path on the host.
    pub path: PathBuf,
    /// Device number and inode number.
    pub inode: (u64, u64),
}

/// Program to be started in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinedProgram {
    /// Absolute path, or a name that is looked up inside the sandbox.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Absolute path of the folder that the program may read.
    pub folder: PathBuf,
    /// Files and folders in `folder` that the program may not read.
    pub hidden: Vec<PathBuf>,
    /// Variables added to the program's environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Limit on writable memory for each process of the program, in bytes.
    pub memory_bytes: Option<u64>,
}

/// A running program. Dropping `ended` kills it and all its child processes.
pub struct ConfinedProcess {
    /// Path of the folder inside the program's sandbox.
    pub folder: PathBuf,
    /// Write end of the program's standard input.
    pub input: OwnedFd,
    /// Read end of the program's standard output.
    pub output: OwnedFd,
    /// Resolves when the program has ended.
    pub ended: BoxFuture<'static, ProgramEnd>,
}

/// Outcome of a program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Description of the end, such as `exit code 1`.
    pub how: String,
    /// True if the program never ran, and retrying cannot help with the current settings.
    pub lasting: bool,
}

/// Reason why a program did not start, in one sentence for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfineError {
    /// Error message, one sentence.
    pub message: String,
    /// True if retrying cannot help with the current settings.
    pub lasting: bool,
}

/// Agents of a project's `.agentd/`, and the user's trust in it.
#[derive(Debug, Clone, Default)]
pub struct ProjectStanding {
    /// Current trust in the project.
    pub trust: ProjectTrust,
    /// Agents of the project, or `None` if the project is not trusted. The same `Arc` is returned until something
    /// changes.
    pub agents: Option<Arc<Agents>>,
}

/// The `.agentd/` folders of projects, and the user's trust in them. Tools have no access to this port.
pub trait Projects: Send + Sync {
    /// Returns the details of a project. Command texts are included only if the project is trusted.
    ///
    /// # Errors
    /// Fails if the folder does not exist or cannot be read.
    fn show(&self, project: PathBuf) -> WorkspaceFuture<'_, ProjectReport>;

    /// Trusts a project on behalf of a client if the project's content has this hash.
    ///
    /// # Errors
    /// Fails if the content has another hash, there is nothing to trust, or the trust cannot be stored.
    fn trust(&self, project: PathBuf, hash: String, client: String) -> WorkspaceFuture<'_, ProjectReport>;

    /// Revokes the trust in a project, which may no longer exist.
    ///
    /// # Errors
    /// Fails if the project is not trusted, or the change cannot be stored.
    fn distrust(&self, project: PathBuf) -> WorkspaceFuture<'_, ProjectReport>;
}

/// Lists the available skills, and makes them available in sessions.
pub trait Skills: Send + Sync {
    /// Returns all skills that a session in this workspace can use, sorted by name, including those that the catalogue
    /// leaves out. Without a workspace, the skills that all sessions can use.
    fn usable<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<Skill>>;

    /// Copies a skill to the path where the session's tools read it, unless the current version is already there.
    /// Returns false if there is no skill with that name.
    ///
    /// # Errors
    /// Fails if the skill is unusable, with its first problem, or if writing fails.
    fn link<'a>(&'a self, workspace: &'a Workspace, name: &'a str) -> WorkspaceFuture<'a, bool>;

    /// Returns the packages that must be installed before this command can work: the packages of the session's skills
    /// that the command names and whose scripts it runs.
    fn missing<'a>(&'a self, workspace: &'a Workspace, command: &'a str) -> BoxFuture<'a, Vec<SkillPackages>>;

    /// Records that a command failed because a script of a skill imports a missing module, according to its output.
    /// Returns the package, which [`Self::missing`] includes from then on. `None` if no skill that the command names
    /// imports the module.
    fn import_failed<'a>(
        &'a self,
        workspace: &'a Workspace,
        command: &'a str,
        output: &'a str,
    ) -> BoxFuture<'a, Option<String>>;

    /// Installs the packages, which may take minutes. An existing environment is left unchanged.
    ///
    /// # Errors
    /// Fails if the installation fails. A failed installation leaves nothing behind.
    fn install<'a>(
        &'a self,
        wanted: &'a SkillPackages,
        progress: &'a CallProgress,
        cancel: &'a CancellationToken,
    ) -> WorkspaceFuture<'a, ()>;

    /// Returns the details of all skills, including unusable ones.
    fn reports<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<SkillReport>>;
}

/// Packages in the environment of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPackages {
    /// Name of the skill.
    pub skill: String,
    /// Packages as they are installed.
    pub packages: Vec<String>,
    /// Name of the environment, equal for equal packages.
    pub environment: String,
}

/// Creates, shows, merges and removes worktrees. Each worktree is recorded on disk before it is created, so that all
/// worktrees are found again after a restart. Tools have no access to this port.
pub trait Worktrees: Send + Sync {
    /// Creates a worktree from the last commit of the project's repository.
    ///
    /// # Errors
    /// Fails if the project is not in a repository or the repository has no commit, git is missing or fails, or the
    /// name is invalid or in use.
    fn make(&self, new: NewWorktree) -> WorkspaceFuture<'_, MadeWorktree>;

    /// Returns all worktrees, sorted by name.
    ///
    /// # Errors
    /// Fails if the records cannot be read.
    fn known(&self) -> WorkspaceFuture<'_, Vec<KnownWorktree>>;

    /// Returns the state of a worktree. Facts that cannot be determined are reported as the worktree's problem.
    ///
    /// # Errors
    /// Fails if there is no worktree with that name.
    fn report(&self, name: String) -> WorkspaceFuture<'_, WorktreeReport>;

    /// Returns the differences from the newest commit shared with the main worktree: commits, uncommitted changes and
    /// new files.
    ///
    /// # Errors
    /// Fails if there is no worktree with that name, or git fails.
    fn diff(&self, name: String) -> WorkspaceFuture<'_, WorktreeDiff>;

    /// Commits the worktree's uncommitted changes with this message, and merges the worktree's branch into the branch
    /// checked out in the main worktree. Atomic.
    ///
    /// # Errors
    /// Fails with kind `Conflict`, with the files, if files cannot be merged or have changes in the main worktree.
    fn apply(&self, name: String, message: String) -> WorkspaceFuture<'_, WorktreeApplied>;

    /// Removes a worktree and its branch. Without `force`, fails if the worktree has changes that exist nowhere else.
    ///
    /// # Errors
    /// Fails with kind `Conflict` if there are such changes.
    fn remove(&self, name: String, force: bool) -> WorkspaceFuture<'_, ()>;

    /// Removes a worktree whose session no longer exists, unless it has changes that exist nowhere else. Returns true
    /// if the worktree was removed.
    ///
    /// # Errors
    /// Fails if the worktree cannot be inspected or removed.
    fn leave(&self, name: String) -> WorkspaceFuture<'_, bool>;

    /// Shares a worktree with another session.
    ///
    /// # Errors
    /// Fails if the record cannot be written.
    fn share_worktree(&self, name: String, session: SessionId) -> WorkspaceFuture<'_, ()>;

    /// Completes or cleans up operations that were interrupted when the daemon stopped.
    ///
    /// # Errors
    /// Fails if the records cannot be read.
    fn clean_up(&self) -> WorkspaceFuture<'_, ()>;
}

/// The audit log: append-only, with each line chained to the previous one. Entries are stored in the order in which
/// they are passed, with secrets redacted and long values truncated.
pub trait Audit: Send + Sync {
    /// Stores an entry. Durable on return. Dropping the future does not undo the record.
    fn record(&self, entry: AuditEntry) -> BoxFuture<'_, Result<(), AuditError>>;

    /// Queues an entry for events that no call waits for, such as read-only calls. The entry becomes durable soon.
    /// Entries that cannot be stored are reported to the operator.
    fn note(&self, entry: AuditEntry) -> BoxFuture<'_, ()>;
}

/// Reader of the audit log.
pub trait AuditReader: Send + Sync {
    /// Returns the newest records that match the query, oldest first. Returns fewer records if they would be too large
    /// to send at once.
    fn records(&self, query: RecordQuery) -> BoxFuture<'_, Result<Vec<AuditRecord>, AuditError>>;

    /// Verifies the whole log. If `noted` is a hash that was noted elsewhere, also checks that the log still contains
    /// the line with this hash.
    fn verify(&self, noted: Option<String>) -> BoxFuture<'_, Result<AuditReport, AuditError>>;
}

/// Recorder of exchanges with models.
pub trait Exchanges: Send + Sync {
    /// Creates a tap for one request, closed if nothing is to be recorded. `wanted` is the session's setting.
    fn tap(&self, source: &dyn Fn() -> ExchangeSource, wanted: Option<bool>) -> RequestTap;

    /// Removes all recorded exchanges of a session.
    fn remove(&self, session: SessionId) -> WorkspaceFuture<'_, ()>;
}

/// Implementation that records nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoExchanges;

impl NoExchanges {
    /// Returns this implementation as a port.
    pub fn port() -> Arc<dyn Exchanges> {
        Arc::new(Self)
    }
}

impl Exchanges for NoExchanges {
    fn tap(&self, _: &dyn Fn() -> ExchangeSource, _: Option<bool>) -> RequestTap {
        RequestTap::default()
    }

    fn remove(&self, _: SessionId) -> WorkspaceFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Imports sessions into the journal. Drafts are invisible until they are finished; the daemon's next start removes
/// abandoned drafts.
pub trait JournalImports: Send + Sync {
    /// Begins a new draft.
    fn begin(&self, draft: DraftId) -> StoreFuture<'_, ()>;

    /// Adds events to a draft, numbered without gaps after the draft's last event.
    fn add(&self, draft: DraftId, events: Vec<Arc<Event>>) -> StoreFuture<'_, ()>;

    /// Converts drafts into sessions, atomically. A session must precede its subagents. Durable on return. Interrupts
    /// in the imported sessions can no longer be answered, and no turn is queued.
    ///
    /// # Errors
    /// Fails with kind `Conflict` if a session already exists, or if a turn is open.
    fn finish(&self, drafts: Vec<SessionDraft>) -> StoreFuture<'_, ()>;

    /// Removes drafts and their events.
    fn abandon(&self, drafts: Vec<DraftId>) -> StoreFuture<'_, ()>;
}

/// Exports the files of sessions from workspaces, and imports them. Every method blocks.
pub trait TreeTransport: Send + Sync {
    /// Passes every exportable file of a session's tree to `visit`, up to the limits on number and size. Files that
    /// cannot be copied safely are skipped and counted.
    ///
    /// # Errors
    /// Returns the first error from `visit` or from reading the tree.
    fn each_file(
        &self,
        session: SessionId,
        visit: &mut (dyn FnMut(TreeFile, &mut dyn Read) -> std::io::Result<()> + Send),
    ) -> Result<FilesCopied, WorkspaceError>;

    /// Begins the tree of a session that is being imported.
    ///
    /// # Errors
    /// Fails with kind `Conflict` if a session with that id already has files.
    fn stage(&self, session: SessionId) -> Result<Box<dyn StagedTree>, WorkspaceError>;

    /// Cleans up after imports that were interrupted. Keeps the trees of sessions for which `is_known` returns true,
    /// and removes others.
    ///
    /// # Errors
    /// Fails if the folders cannot be read.
    fn clean_up(&self, is_known: &dyn Fn(SessionId) -> bool) -> Result<(), WorkspaceError>;
}

/// A tree that is not yet visible. Dropping the value removes the tree.
pub trait StagedTree: Send {
    /// Adds a file. Checks the file's path again, and never replaces an existing file.
    ///
    /// # Errors
    /// Fails if the path leads outside of the tree, the name is in use, the quota is exceeded, or writing fails.
    fn add(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<(), WorkspaceError>;

    /// Flushes the tree to disk and moves it to its final path. Dropping the value still removes the tree.
    ///
    /// # Errors
    /// Fails if writing fails.
    fn sync(&mut self) -> Result<FilesCopied, WorkspaceError>;

    /// Makes the tree permanent. Called when the session is in the journal. The daemon's next start repairs a failure.
    ///
    /// # Errors
    /// Fails if the marker of the import cannot be removed.
    fn reveal(self: Box<Self>) -> Result<(), WorkspaceError>;
}

/// Records the changes that calls make to the files of a session, for undo. The calls of one session run one after
/// another.
pub trait Snapshots: Send + Sync {
    /// Scans and stores the files before a call: either all files that the session may change, or only these paths. The
    /// stored contents are durable on return, and remain until the caller drops the result.
    ///
    /// An error states why the changes of the call cannot be recorded.
    fn before<'a>(&'a self, call: &'a ToolContext, paths: Option<&'a [String]>) -> WorkspaceFuture<'a, FilesBefore>;

    /// Returns the changes since [`Self::before`] for a call that was still running when the previous daemon process
    /// ended. Empty if nothing is known about the call. Possible changes after that process ended are marked as late.
    fn unfinished<'a>(
        &'a self,
        session: SessionId,
        workspace: &'a Workspace,
        call: &'a CallId,
    ) -> WorkspaceFuture<'a, Changes>;

    /// Reverts changes, each path once: files get their previous content, byte for byte. A path that has changed since,
    /// or that is marked as late, is a conflict and is skipped. A preview changes nothing.
    fn undo<'a>(
        &'a self,
        session: SessionId,
        workspace: &'a Workspace,
        changes: Vec<FileChange>,
        preview: bool,
    ) -> WorkspaceFuture<'a, FilesReverted>;

    /// Stores the current state of a file as known to the session of a call. Changes that the session makes itself are
    /// known without it.
    fn note_read(&self, _call: &ToolContext, _path: String) -> WorkspaceFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the known files that others have changed, each change once, sorted by path.
    fn changed_by_others(&self, _: SessionId, _: Arc<Workspace>) -> WorkspaceFuture<'_, Vec<ForeignChange>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Stores the undo data of one session's changes for another session that works on the same files. Returns the
    /// changes in a form that can be undone in the other session; changes whose data could not be stored are only
    /// listed.
    fn adopt(
        &self,
        _from: SessionId,
        _to: SessionId,
        changes: Vec<FileChange>,
    ) -> WorkspaceFuture<'_, Vec<FileChange>> {
        let reported = changes.into_iter().map(|change| FileChange::new(change.path, change.change)).collect();
        Box::pin(std::future::ready(Ok(reported)))
    }

    /// Removes all snapshots of a session.
    fn remove(&self, session: SessionId) -> WorkspaceFuture<'_, ()>;
}

/// The files before a call. The call owns them: other calls cannot cause the stored contents to be dropped.
pub struct FilesBefore {
    /// Guarded files and folders of the user, topmost only, by their real paths. Filled in only for a call that is
    /// [checked](crate::policy::Confinement::is_checked).
    pub closed: Vec<PathBuf>,
    /// Changes, known before the call, that undo would not cover, one sentence each.
    pub gaps: Vec<String>,
    /// Reason why the files could not be checked after the call.
    pub unchecked: Option<String>,
    /// Paths whose contents are not stored, such as folders that git ignores.
    pub unstored: Vec<String>,
    /// Scans the files again when awaited, and returns the changes. For a call that is
    /// [checked](crate::policy::Confinement::is_checked), changes to guarded files are reverted at once.
    pub after: WorkspaceFuture<'static, Changes>,
}

/// Changes made by a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Reverted changes to guarded files, with a way to restore each, and changes that could not be reverted.
    pub set_aside: FilesReverted,
    /// Every path once: first the session's own tree, then the project, each sorted.
    pub files: Vec<FileChange>,
    /// Changes that could not be recorded and therefore cannot be undone, one sentence each.
    pub notes: Vec<String>,
    /// Diff of the first files, for people, if the call may change any file. It leaves out files that
    /// [`ToolContext::reading`] does not allow to be read.
    pub diff: Option<String>,
}

/// Handle for progress reports of a call. The default discards them.
#[derive(Clone, Default)]
pub struct CallProgress(Option<Arc<dyn Fn(String) + Send + Sync>>);

impl CallProgress {
    /// Creates a handle that calls this function, which must not block.
    pub fn new(report: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    /// Returns true if reports have a receiver.
    pub fn has_receiver(&self) -> bool {
        self.0.is_some()
    }

    /// Reports progress in one line. The line is shown while the call runs and discarded when the result arrives.
    pub fn report(&self, line: &str) {
        if let Some(report) = &self.0 {
            report(format!("{}\n", line.replace(['\n', '\r'], " ")));
        }
    }
}

impl fmt::Debug for CallProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallProgress").field(&self.0.is_some()).finish()
    }
}
