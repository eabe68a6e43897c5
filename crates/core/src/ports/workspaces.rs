//! The files of sessions.

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::{ProjectStanding, Projects, Skills, TreeTransport, Worktrees};

use crate::{
    code::MapFile,
    context::HistoryFile,
    error::{ErrorKind, WorkspaceError},
    files::{FileListing, FilePiece, FileWritten, FilesCopied, FilesRemoved},
    folder::{AddedFolder, FOLDERS, Mount, Mounts},
    guide::{GuideFile, GuideLimits, Guides},
    ids::SessionId,
    knowledge::DocumentPage,
    language::SourceFile,
    state_files::StateFiles,
    surroundings::MachineFacts,
    worktree::WorktreeAccess,
};

/// Name under which sessions see the project.
const PROJECT: &str = "/project";

/// All files of a session: those on the disk, and those of its own state as they are now.
#[derive(Debug, Clone)]
pub struct SessionTree {
    /// Where the files on the disk are.
    pub workspace: Arc<Workspace>,
    /// The files of the session's own state.
    pub state: Arc<StateFiles>,
}

/// The files that a session's tools see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspace {
    /// The absolute path of the session's own tree.
    pub root: PathBuf,
    /// The folder seen as `/project`.
    pub project: Option<Mount>,
    /// The folders seen below `/folders`.
    pub folders: Vec<AddedFolder>,
    /// The absolute path of what all sessions see as `/memories`: kept when a session goes, read by any, written by tools
    /// that a person has allowed to.
    pub memories: Option<PathBuf>,
    /// The repository of which the project is a worktree that the daemon has made.
    pub worktree: Option<WorktreeAccess>,
}

impl Workspace {
    /// The folders of the person that it sees.
    pub fn mounts(&self) -> Mounts {
        Mounts { project: self.project.clone(), folders: self.folders.clone() }
    }

    /// The folder of the person with that name below `/folders`.
    pub fn folder(&self, name: &str) -> Option<&AddedFolder> {
        self.folders.iter().find(|folder| folder.name() == name)
    }

    /// The real paths of the project and of the added folders that tools may change.
    pub fn writable_mounts(&self) -> impl Iterator<Item = &Path> {
        let project = self.project.iter().filter(|mount| mount.writable).map(|mount| mount.path.as_path());
        let folders = self.folders.iter().filter(|folder| folder.writable);
        project.chain(folders.map(|folder| folder.path.as_path()))
    }

    /// Source file with this name in the session. `None` outside the project and the added folders, and for a name with `..`.
    pub fn source_file(&self, name: &str) -> Option<SourceFile> {
        if name.contains('\\') {
            // An escape for bytes that are no text.
            return None;
        }
        let below = |mount: &str| {
            let below = Path::new(name.strip_prefix(mount)?.strip_prefix('/')?);
            let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
            (is_plain && !below.as_os_str().is_empty()).then(|| below.to_path_buf())
        };
        if let Some(below) = below(PROJECT) {
            let folder = self.project.as_ref()?.path.clone();
            return Some(SourceFile { folder, mount: PROJECT.to_owned(), below });
        }
        let folders = self.folders.iter().filter(|folder| folder.at.starts_with(FOLDERS));
        folders.into_iter().find_map(|folder| {
            let below = below(&folder.at)?;
            Some(SourceFile { folder: folder.path.clone(), mount: folder.at.clone(), below })
        })
    }

    /// Source file below a mounted folder. `None` if the session does not mount that folder.
    pub fn source_file_below(&self, folder: &Path, below: &Path) -> Option<SourceFile> {
        let project = self.project.iter().map(|project| (&project.path, PROJECT));
        let folders = self.folders.iter().map(|folder| (&folder.path, &*folder.at));
        let (_, mount) = project.chain(folders).find(|(path, _)| *path == folder)?;
        Some(SourceFile { folder: folder.to_path_buf(), mount: mount.to_owned(), below: below.to_path_buf() })
    }
}

/// Makes, cleans and removes workspaces.
pub trait Workspaces: Send + Sync {
    /// Opens a session's workspace, making it where it is missing.
    fn open(&self, session: SessionId, mounts: Mounts) -> BoxFuture<'_, Result<Workspace, WorkspaceError>>;

    /// Says where a session's workspace is, and refuses folders of the person as [`Self::open`] does. It need not be there
    /// yet: a turn that touches no file does not wait for folders.
    fn locate(&self, session: SessionId, mounts: Mounts) -> BoxFuture<'_, Result<Workspace, WorkspaceError>> {
        self.open(session, mounts)
    }

    /// Adds folders to those that a session sees: all of them, with the names that they have there.
    ///
    /// # Errors
    /// As of [`Mounts::with`], and where one cannot be opened or is not for sessions to see.
    fn add_folders(
        &self,
        mounts: Mounts,
        added: Vec<Mount>,
    ) -> BoxFuture<'_, Result<Vec<AddedFolder>, WorkspaceError>> {
        Box::pin(std::future::ready(mounts.with(added)))
    }

    /// Copies what a session has in its own tree to another that has nothing yet: `uploads/`, `outputs/`, large results, and
    /// of its history file as much as is said. Durable when it returns. What cannot be copied safely is left out.
    fn copy(
        &self,
        _from: SessionId,
        _to: SessionId,
        _history: Option<HistoryFile>,
    ) -> BoxFuture<'_, Result<FilesCopied, WorkspaceError>> {
        Box::pin(std::future::ready(Ok(FilesCopied::default())))
    }

    /// Facts about the machine and the workspace's project, for a session of a client in this folder. None where nobody
    /// looks for any.
    fn facts<'a>(
        &'a self,
        _workspace: &'a Workspace,
        _client: Option<&'a Path>,
    ) -> BoxFuture<'a, Option<MachineFacts>> {
        Box::pin(std::future::ready(None))
    }

    /// Draws a map of the code of the workspace's project: the most important files, within a number of tokens. Empty where the project is small or has no code, or nobody draws maps; none where it could not be
    /// drawn now.
    fn map<'a>(&'a self, _workspace: &'a Workspace, _max_tokens: usize) -> BoxFuture<'a, Option<Vec<MapFile>>> {
        Box::pin(std::future::ready(Some(Vec::new())))
    }

    /// Empties its `temp/`.
    fn clear_temp(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;

    /// Removes what these folders of it hold, those apart in which something was changed since that moment, and tells of each
    /// what it held. Where nothing is left, the whole workspace goes; it is made again when it is needed. A trial removes
    /// nothing.
    fn clean(
        &self,
        _session: SessionId,
        _areas: Vec<(WorkspaceArea, Timestamp)>,
        _trial: bool,
    ) -> BoxFuture<'_, Result<Vec<(WorkspaceArea, FilesRemoved)>, WorkspaceError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes what was left of workspaces whose removal was cut off. A trial only counts.
    fn clean_leftovers(&self, _trial: bool) -> BoxFuture<'_, Result<FilesRemoved, WorkspaceError>> {
        Box::pin(std::future::ready(Ok(FilesRemoved::default())))
    }

    /// Removes it.
    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;

    /// Puts a file into its `uploads/` and returns the path that tools can open. A name that is taken gets a number.
    fn add_upload(
        &self,
        session: SessionId,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>>;

    /// Removes a file that [`Self::add_upload`] has just put there, by the path that it returned: what it was for did not come to
    /// be. One that is gone already is no error.
    fn remove_upload(&self, _: SessionId, _path: String) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Puts what a person said at too great a length into its `uploads/`, as [`Self::add_upload`] does. Where a file of that
    /// name or one of its numbered names holds the same bytes, it is that file. Durable when it returns.
    fn keep_input(
        &self,
        session: SessionId,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        self.add_upload(session, name, content)
    }

    /// Keeps a text of the daemon's own where tools can read and not change it, and returns the path under which they
    /// find it. A name that is taken is replaced. Durable when it returns. The name is that of a visible file, without folders; others are refused.
    fn keep(
        &self,
        session: SessionId,
        area: ArtifactDir,
        name: String,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>>;

    /// Adds to a text that is kept in pieces, as [`Self::keep`] keeps one whole. What stands behind the first `from` bytes
    /// goes: it is a piece of which nobody knows. None leaves all of it.
    fn keep_on(
        &self,
        session: SessionId,
        area: ArtifactDir,
        name: String,
        from: Option<u64>,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<Artifact, WorkspaceError>>;

    /// Content of a folder, by the paths that tools use, or one file.
    ///
    /// # Errors
    /// Of kind `NotFound` or `InvalidInput`, in the words of the tools, where there is none that tools could read.
    fn list_files(&self, _: SessionTree, path: String) -> BoxFuture<'_, Result<FileListing, WorkspaceError>> {
        no_files(&path)
    }

    /// A piece of a file that tools could read, from that byte on, of at most that many bytes.
    ///
    /// # Errors
    /// As of [`Self::list_files`].
    fn read_file(
        &self,
        _: SessionTree,
        path: String,
        _offset: u64,
        _most: usize,
    ) -> BoxFuture<'_, Result<FilePiece, WorkspaceError>> {
        no_files(&path)
    }

    /// The text of a file that tools could read, whatever its encoding. None where it is longer than so many bytes, no text,
    /// or not to be read at all.
    fn read_text(&self, _: SessionTree, _path: String, _most: usize) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Writes a whole file that tools could write, making its folders. On the disk it is durable when this returns; a file of
    /// the session's own state is for the caller to store.
    ///
    /// # Errors
    /// As of [`Self::list_files`]; of kind `Storage` where the disk does not take it.
    fn write_file(
        &self,
        _: SessionTree,
        path: String,
        _content: Vec<u8>,
        _now: Timestamp,
    ) -> BoxFuture<'_, Result<FileWritten, WorkspaceError>> {
        no_files(&path)
    }

    /// The documents that a session sees, open: the file of that path, whatever it is, or those in that folder and below it, by
    /// their names. Without a path those of the whole session. In the order of their paths, without the first `skip`, and no
    /// more than `most` and than may be open at once; how many there are is told.
    ///
    /// # Errors
    /// As of [`Self::list_files`].
    fn open_documents(
        &self,
        _: SessionTree,
        path: String,
        _skip: usize,
        _most: usize,
    ) -> BoxFuture<'_, Result<DocumentPage, WorkspaceError>> {
        no_files(&path)
    }

    /// Guides that people wrote for models, for a session that works there. Files that are unchanged are not read
    /// again; what cannot be read is left out.
    fn guides<'a>(&'a self, _: &'a Workspace, _: GuideLimits) -> BoxFuture<'a, Guides> {
        Box::pin(std::future::ready(Guides::default()))
    }

    /// The `AGENTS.md` files of the folders of the project in which these paths lie, from the outermost folder on, without
    /// that of the project itself. Paths are those of tools, absolute ones, or relative to the project.
    fn folder_guides(&self, _: &Workspace, _: GuideLimits, _paths: Vec<String>) -> BoxFuture<'_, Vec<GuideFile>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// The skills that its sessions can use; none where nobody knows of any.
    fn skills(&self) -> Option<&dyn Skills> {
        None
    }

    /// Agents of the workspace's project, as far as the person trusts them.
    fn project<'a>(&'a self, _: &'a Workspace) -> BoxFuture<'a, ProjectStanding> {
        Box::pin(std::future::ready(ProjectStanding::default()))
    }

    /// The projects and the trust in them; none where nobody keeps any.
    fn projects(&self) -> Option<&dyn Projects> {
        None
    }

    /// The worktrees of sessions; none where nobody makes any.
    fn worktrees(&self) -> Option<&dyn Worktrees> {
        None
    }

    /// Takes files of sessions out and brings them in; none where nobody can.
    fn transport(&self) -> Option<&dyn TreeTransport> {
        None
    }

    /// Paths of files that tools could open, relative to the workspace, at most `limit`: the session's own first, newest
    /// first, then the project's, from the top of its tree down. What the daemon keeps for itself is not among them.
    fn paths<'a>(
        &'a self,
        workspace: &'a Workspace,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, WorkspaceError>>;
}

/// Refusal of workspaces that have no files to show.
fn no_files<T: Send + 'static>(path: &str) -> BoxFuture<'static, Result<T, WorkspaceError>> {
    let error = WorkspaceError::new(ErrorKind::NotFound, format!("there is no file {path:?} to be shown here"));
    Box::pin(std::future::ready(Err(error)))
}

names! {
    /// A folder of a workspace that can be cleaned. What compactions replaced is a part of the history, and is not.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum WorkspaceArea {
        /// Copies of what people handed over.
        Uploads = "uploads",
        /// Files that tools made for people.
        Outputs = "outputs",
        /// Files that tools needed for a while.
        Temp = "temp",
        /// Copies of skills.
        Skills = "skills",
        /// Results too large for the window, each whole.
        LargeToolResults = "large_tool_results",
    }
}

names! {
    /// A folder of a workspace in which the daemon keeps what tools can read and not change. It goes with the session, stays
    /// when that is reset, and is no part of what can be undone.
    pub enum ArtifactDir {
        /// Results too large for the window, each whole.
        LargeToolResults = "large_tool_results",
        /// History that compactions replaced, one after the other.
        ConversationHistory = "conversation_history",
    }
}

/// A text that the daemon keeps in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The path under which tools find it.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

impl ArtifactDir {
    /// Refuses what is not the name of a visible file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty name, one above 200 bytes, one that begins with a dot, and one with slashes,
    /// backslashes or control characters.
    pub fn check_name(name: &str) -> Result<(), WorkspaceError> {
        const MAX_NAME: usize = 200;
        let is_sound = !name.is_empty()
            && name.len() <= MAX_NAME
            && !name.starts_with('.')
            && !name.contains(|letter: char| matches!(letter, '/' | '\\') || letter.is_control());
        if is_sound {
            return Ok(());
        }
        Err(WorkspaceError::new(ErrorKind::InvalidInput, format!("could not keep {name:?}: it is no plain file name"))
            .with_hint(format!("give a name of at most {MAX_NAME} bytes, without slashes, that begins with no dot")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_persons_folders_have_a_place() {
        let workspace = Workspace {
            root: "/data/w/1".into(),
            project: Some(Mount { path: "/home/p/code".into(), writable: true }),
            folders: vec![AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false }],
            ..Workspace::default()
        };
        let check = |name: &str, path: Option<&str>| {
            let file = workspace.source_file(name);
            assert_eq!(file.as_ref().map(SourceFile::path), path.map(PathBuf::from), "{name}");
            assert!(file.is_none_or(|file| file.name() == name));
        };
        check("/project/src/a.py", Some("/home/p/code/src/a.py"));
        check("/folders/lib/b.c", Some("/srv/lib/b.c"));
        check("/folders/other/b.c", None);
        check("outputs/a.py", None);
        check("/project/../a.py", None);
        check("/projects/a.py", None);
        check("/project", None);
        check("/project/\\xff.py", None);
    }
}
