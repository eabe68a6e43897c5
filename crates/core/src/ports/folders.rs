//! Folders beside the session: projects, skills, worktrees, and programs that run confined.
//!
//! What is kept beside or brought into the journal: the audit log, exchanges with models, and sessions from elsewhere.
//!
//! Changes of files by calls: recorded, taken back, and checked; a listener for the progress of a call.

use std::{collections::BTreeMap, ffi::OsString, fmt, io::Read, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::Agents,
    archive::{DraftId, SessionDraft, TreeFile},
    audit::{AuditEntry, AuditRecord, AuditReport, RecordQuery},
    error::{AuditError, StoreError, WorkspaceError},
    event::Event,
    exchange::{ExchangeSource, RequestTap},
    files::FilesCopied,
    guide::{Skill, SkillReport},
    ids::{CallId, SessionId},
    ports::{ToolContext, Workspace},
    project::{ProjectReport, ProjectTrust},
    tool::FileChange,
    undo::FilesReverted,
    worktree::{KnownWorktree, MadeWorktree, NewWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport},
};

/// Starts programs inside the walls of commands: no network, a clean environment, nothing to be written but temporary files
/// of their own.
pub trait Confiner: Send + Sync {
    /// Starts a program. It reads its input and writes its output until it ends.
    ///
    /// # Errors
    /// The walls cannot be had, and nothing runs without them.
    fn start(&self, program: ConfinedProgram) -> BoxFuture<'_, Result<ConfinedProcess, ConfineError>>;

    /// Files of secrets and folders of them below a folder, as they are now.
    ///
    /// # Errors
    /// The folder has too many files to be searched.
    fn secrets(&self, folder: PathBuf) -> BoxFuture<'_, Result<Vec<SecretFile>, ConfineError>>;
}

/// A file or folder that holds secrets. One that took the place of another one at its path is a different one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its device and its number there.
    pub inode: (u64, u64),
}

/// A program to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinedProgram {
    /// Absolute path of its file, or its name, which is looked for inside the walls.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Absolute path of the folder that it may read.
    pub folder: PathBuf,
    /// Files and folders in it that it may not read.
    pub hidden: Vec<PathBuf>,
    /// Further variables of its environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Memory that each of its processes may write to, in bytes.
    pub memory_bytes: Option<u64>,
}

/// A program that runs. Dropping `ended` kills it with all that it started.
pub struct ConfinedProcess {
    /// The folder under the name by which the program knows it.
    pub folder: PathBuf,
    /// Write end of its standard input.
    pub input: OwnedFd,
    /// Read end of its standard output.
    pub output: OwnedFd,
    /// Resolves when it has ended.
    pub ended: BoxFuture<'static, ProgramEnd>,
}

/// End of a program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Manner of it, in words: `exit code 1`.
    pub how: String,
    /// Set if it never ran, and no later try can help while the settings stay.
    pub lasting: bool,
}

/// Reason why a program did not start, in one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfineError {
    /// The sentence.
    pub message: String,
    /// Set if no later try can help while the settings stay.
    pub lasting: bool,
}

/// The part of a project's `.agentd/` that sessions take their agents from.
#[derive(Debug, Clone, Default)]
pub struct ProjectStanding {
    /// The trust in it now.
    pub trust: ProjectTrust,
    /// Its agents; none unless it is trusted. The same value as long as nothing has changed.
    pub agents: Option<Arc<Agents>>,
}

/// Knows the `.agentd/` folders of projects, and which of them the person trusts. No tool reaches this port.
pub trait Projects: Send + Sync {
    /// All that is known of a project. Texts of commands are told only where it is trusted.
    ///
    /// # Errors
    /// When there is no such folder, or it cannot be read.
    fn show(&self, project: PathBuf) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;

    /// Trusts a project as long as its content has this hash, on behalf of a client.
    ///
    /// # Errors
    /// When its content has another hash, there is nothing to trust, or the trust cannot be stored.
    fn trust(
        &self,
        project: PathBuf,
        hash: String,
        client: String,
    ) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;

    /// Trusts a project no longer. The project need not be there any more.
    ///
    /// # Errors
    /// When it is not trusted, or that cannot be stored.
    fn distrust(&self, project: PathBuf) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;
}

/// Knows the skills that there are, and brings them into sessions.
pub trait Skills: Send + Sync {
    /// Every skill that a session there can use, sorted by name, those included that the catalogue leaves out; without a
    /// workspace, those of all sessions.
    fn usable<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<Skill>>;

    /// Puts a skill where tools of the session read it, unless it is there as it is now. False where there is none of that
    /// name.
    ///
    /// # Errors
    /// When the skill cannot be used, with what is wrong with it; or the disk does not take it.
    fn link<'a>(&'a self, workspace: &'a Workspace, name: &'a str) -> BoxFuture<'a, Result<bool, WorkspaceError>>;

    /// Packages that must be installed before a command with this text does what it says: for skills of the session
    /// that it names and runs something of.
    fn missing<'a>(&'a self, workspace: &'a Workspace, command: &'a str) -> BoxFuture<'a, Vec<SkillPackages>>;

    /// Notes that a command failed because a script of a skill imports a module that is not there, as its output says. The
    /// package that is then among [`Self::missing`]; none where no skill of the session that the command names imports it.
    fn import_failed<'a>(
        &'a self,
        workspace: &'a Workspace,
        command: &'a str,
        output: &'a str,
    ) -> BoxFuture<'a, Option<String>>;

    /// Installs it, which may take minutes. What is there already is left as it is.
    ///
    /// # Errors
    /// When it cannot be installed; then nothing of it is left.
    fn install<'a>(
        &'a self,
        wanted: &'a SkillPackages,
        progress: &'a CallProgress,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>>;

    /// Everything that is known of all skills, those included that cannot be used.
    fn reports<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<SkillReport>>;
}

/// Packages that a skill's environment has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPackages {
    /// The skill.
    pub skill: String,
    /// The packages, as they are installed.
    pub packages: Vec<String>,
    /// The name of the environment, the same for the same packages.
    pub environment: String,
}

/// Makes, shows, merges and removes worktrees. All are found again on the disk: each is recorded before it is made. No tool
/// reaches this port.
pub trait Worktrees: Send + Sync {
    /// Makes a worktree from the last commit of the project's repository.
    ///
    /// # Errors
    /// When the project is in no repository or in one without a commit, git is missing or fails, or the name is taken or
    /// none.
    fn make(&self, new: NewWorktree) -> BoxFuture<'_, Result<MadeWorktree, WorkspaceError>>;

    /// All worktrees, sorted by name.
    ///
    /// # Errors
    /// When the records cannot be read.
    fn known(&self) -> BoxFuture<'_, Result<Vec<KnownWorktree>, WorkspaceError>>;

    /// State of a worktree. What cannot be found out of it is told as its problem.
    ///
    /// # Errors
    /// When there is none of that name.
    fn report(&self, name: String) -> BoxFuture<'_, Result<WorktreeReport, WorkspaceError>>;

    /// Its difference from the newest commit that its main tree has as well: commits, changes that are not committed, and new files.
    ///
    /// # Errors
    /// When there is none of that name, or git fails.
    fn diff(&self, name: String) -> BoxFuture<'_, Result<WorktreeDiff, WorkspaceError>>;

    /// Commits what is not committed in it, with this message, and merges its branch into what the main tree has checked out:
    /// all of it, or nothing.
    ///
    /// # Errors
    /// Of kind `Conflict`, with the files, where they cannot be merged or are changed in the main tree.
    fn apply(&self, name: String, message: String) -> BoxFuture<'_, Result<WorktreeApplied, WorkspaceError>>;

    /// Removes a worktree and its branch; unless forced, one without changes that nothing else has.
    ///
    /// # Errors
    /// Of kind `Conflict` where it has such changes.
    fn remove(&self, name: String, force: bool) -> BoxFuture<'_, Result<(), WorkspaceError>>;

    /// Removes a worktree whose session is gone, where it has no changes that nothing else has. Says whether it did.
    ///
    /// # Errors
    /// When it cannot be looked at or removed.
    fn leave(&self, name: String) -> BoxFuture<'_, Result<bool, WorkspaceError>>;

    /// Gives a worktree to another session, which uses it too.
    ///
    /// # Errors
    /// When the record cannot be written.
    fn hand_over(&self, name: String, heir: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;

    /// Finishes or clears what a stop of the daemon cut off.
    ///
    /// # Errors
    /// When the records cannot be read.
    fn settle(&self) -> BoxFuture<'_, Result<(), WorkspaceError>>;
}

/// The audit log: append-only, each line chained to the one before. What it is given is kept in the order in which it
/// was given, with secrets taken out and what is long cut.
pub trait Audit: Send + Sync {
    /// Keeps an entry. It is durable when this returns. A caller that stops waiting does not undo it.
    fn record(&self, entry: AuditEntry) -> BoxFuture<'_, Result<(), AuditError>>;

    /// Hands an entry over, to be durable soon: for what nothing waits for, such as a call that only looks. What cannot
    /// be kept is told to the operator.
    fn note(&self, entry: AuditEntry) -> BoxFuture<'_, ()>;
}

/// Reads the audit log.
pub trait AuditReader: Send + Sync {
    /// The newest records that fit the query, oldest first; fewer where they would be too large to send at once.
    fn records(&self, query: RecordQuery) -> BoxFuture<'_, Result<Vec<AuditRecord>, AuditError>>;

    /// Returns whether the whole log holds. With a hash that was noted elsewhere: whether that line is still in it.
    fn verify(&self, noted: Option<String>) -> BoxFuture<'_, Result<AuditReport, AuditError>>;
}

/// Keeps exchanges with models.
pub trait Exchanges: Send + Sync {
    /// A tap for one request. It is closed where nothing is to be kept: `wanted` is what the session's settings say.
    fn tap(&self, source: &dyn Fn() -> ExchangeSource, wanted: Option<bool>) -> RequestTap;

    /// Removes all that is kept of a session.
    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;
}

/// Keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoExchanges;

impl NoExchanges {
    /// The port.
    pub fn port() -> Arc<dyn Exchanges> {
        Arc::new(Self)
    }
}

impl Exchanges for NoExchanges {
    fn tap(&self, _: &dyn Fn() -> ExchangeSource, _: Option<bool>) -> RequestTap {
        RequestTap::default()
    }

    fn remove(&self, _: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Brings sessions into the journal. Nobody sees a draft before it is finished, and the next start removes what was left.
pub trait JournalImports: Send + Sync {
    /// Begins a draft.
    fn begin(&self, draft: DraftId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Adds events to a draft, numbered without a gap after those that it has.
    fn add(&self, draft: DraftId, events: Vec<Arc<Event>>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Makes sessions of drafts, all or none: a session before those that work for it. It is durable when this returns. No
    /// interrupt of theirs can be answered, and no turn waits.
    ///
    /// An error of kind `Conflict` says that a session is there already, or that a turn is open.
    fn finish(&self, drafts: Vec<SessionDraft>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Removes drafts.
    fn abandon(&self, drafts: Vec<DraftId>) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Takes the files of sessions out of workspaces and brings them in. Every method blocks.
pub trait TreeTransport: Send + Sync {
    /// Shows every file of a session's tree that travels, as far as they are not too many or too large. What cannot be copied
    /// safely is left out and counted.
    ///
    /// # Errors
    /// The first of `take`, or why the tree cannot be read.
    fn each_file(
        &self,
        session: SessionId,
        take: &mut (dyn FnMut(TreeFile, &mut dyn Read) -> std::io::Result<()> + Send),
    ) -> Result<FilesCopied, WorkspaceError>;

    /// Begins the tree of a session that is to be.
    ///
    /// # Errors
    /// Of kind `Conflict` where files of a session of that id are there already.
    fn stage(&self, session: SessionId) -> Result<Box<dyn StagedTree>, WorkspaceError>;

    /// Settles what imports have left behind that were cut off: the tree of a session that `is_known` knows is kept, others are
    /// removed.
    ///
    /// # Errors
    /// When the folders cannot be read.
    fn settle(&self, is_known: &dyn Fn(SessionId) -> bool) -> Result<(), WorkspaceError>;
}

/// A tree that is still out of sight. Dropping it removes it.
pub trait StagedTree: Send {
    /// Adds a file. Its path is checked again, and nothing that is there is replaced.
    ///
    /// # Errors
    /// When the path leads out, something has that name, the quota is used up, or the disk does not take it.
    fn add(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<(), WorkspaceError>;

    /// Writes all of it to the disk and puts it where its session will look for it. Dropping it removes it still.
    ///
    /// # Errors
    /// When the disk does not take it.
    fn sync(&mut self) -> Result<FilesCopied, WorkspaceError>;

    /// Keeps it. Called when the session is in the journal: a failure is settled at the next start.
    ///
    /// # Errors
    /// When what marks it as coming in cannot be removed.
    fn reveal(self: Box<Self>) -> Result<(), WorkspaceError>;
}

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

/// Where a tool tells how far it is. Without one that listens, nothing is told.
#[derive(Clone, Default)]
pub struct CallProgress(Option<Arc<dyn Fn(String) + Send + Sync>>);

impl CallProgress {
    /// Tells it to this function, which must not wait.
    pub fn new(tell: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Returns whether anybody listens.
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Tells how far the call is, in one line. It is shown while the call runs, and forgotten when its result is there.
    pub fn tell(&self, line: &str) {
        if let Some(tell) = &self.0 {
            tell(format!("{}\n", line.replace(['\n', '\r'], " ")));
        }
    }
}

impl fmt::Debug for CallProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallProgress").field(&self.0.is_some()).finish()
    }
}
