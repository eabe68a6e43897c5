//! Port for the files of sessions.

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
    error::{ErrorKind, WorkspaceError, WorkspaceFuture},
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

/// Path of the project inside sessions.
const PROJECT: &str = "/project";

/// All files of a session: files on disk, and the current files in its state.
#[derive(Debug, Clone)]
pub struct SessionTree {
    /// Location of the files on the disk.
    pub workspace: Arc<Workspace>,
    /// Files in the session's state.
    pub state: Arc<StateFiles>,
}

/// The files available to a session's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Absolute path of the session's own tree.
    pub root: PathBuf,
    /// The folder mounted at `/project`.
    pub project: Option<Mount>,
    /// The folders mounted in `/folders`.
    pub folders: Vec<AddedFolder>,
    /// Absolute path of the folder mounted at `/memories` in all sessions. The folder outlives sessions. Every session
    /// can read it; tools write to it only if a user allowed it.
    pub memories: Option<PathBuf>,
    /// Repository of the project, if the project is a worktree that the daemon created.
    pub worktree: Option<WorktreeAccess>,
}

impl Workspace {
    /// Returns the user's folders in this workspace.
    pub fn mounts(&self) -> Mounts {
        Mounts { project: self.project.clone(), folders: self.folders.clone() }
    }

    /// Returns the folder with that name in `/folders`.
    pub fn folder(&self, name: &str) -> Option<&AddedFolder> {
        self.folders.iter().find(|folder| folder.name() == name)
    }

    /// Iterates over the real paths of the project and the added folders, if tools may change them.
    pub fn writable_mounts(&self) -> impl Iterator<Item = &Path> {
        let project = self.project.iter().filter(|mount| mount.writable).map(|mount| mount.path.as_path());
        let folders = self.folders.iter().filter(|folder| folder.writable);
        project.chain(folders.map(|folder| folder.path.as_path()))
    }

    /// Returns the source file with this name in the session. `None` outside the project and the added folders, and for
    /// a name with `..`.
    pub fn source_file(&self, name: &str) -> Option<SourceFile> {
        if name.contains('\\') {
            // A backslash starts an escape for bytes that are not text.
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

    /// Returns the source file in a mounted folder. `None` if the session does not mount that folder.
    pub fn source_file_below(&self, folder: &Path, below: &Path) -> Option<SourceFile> {
        let project = self.project.iter().map(|project| (&project.path, PROJECT));
        let folders = self.folders.iter().map(|folder| (&folder.path, &*folder.at));
        let (_, mount) = project.chain(folders).find(|(path, _)| *path == folder)?;
        Some(SourceFile { folder: folder.to_path_buf(), mount: mount.to_owned(), below: below.to_path_buf() })
    }
}

/// Creates, cleans and removes workspaces.
pub trait Workspaces: Send + Sync {
    /// Opens a session's workspace, and creates it if missing.
    fn open(&self, session: SessionId, mounts: Mounts) -> WorkspaceFuture<'_, Workspace>;

    /// Returns the location of a session's workspace, and rejects the same user folders as [`Self::open`]. The
    /// workspace need not exist yet, so that a turn that touches no file does not wait for its creation.
    fn locate(&self, session: SessionId, mounts: Mounts) -> WorkspaceFuture<'_, Workspace> {
        self.open(session, mounts)
    }

    /// Adds folders to a session. Returns all added folders, with their names in the session.
    ///
    /// # Errors
    /// Fails as [`Mounts::with`] does, and if a folder cannot be opened or is not allowed for sessions.
    fn add_folders(&self, mounts: Mounts, added: Vec<Mount>) -> WorkspaceFuture<'_, Vec<AddedFolder>> {
        Box::pin(std::future::ready(mounts.with(added)))
    }

    /// Copies a session's own tree to a session that has no files yet: `uploads/`, `outputs/`, large results, and the
    /// given part of its history file. Durable on return. Files that cannot be copied safely are skipped.
    fn copy(
        &self,
        _from: SessionId,
        _to: SessionId,
        _history: Option<HistoryFile>,
    ) -> WorkspaceFuture<'_, FilesCopied> {
        Box::pin(std::future::ready(Ok(FilesCopied::default())))
    }

    /// Collects facts about the machine and the workspace's project, for a session whose client works in this folder.
    /// `None` if the implementation does not support this.
    fn facts<'a>(
        &'a self,
        _workspace: &'a Workspace,
        _client: Option<&'a Path>,
    ) -> BoxFuture<'a, Option<MachineFacts>> {
        Box::pin(std::future::ready(None))
    }

    /// Creates a map of the project's code: the most important files, within a token limit. Empty if the project is
    /// small or has no code, or if maps are not supported. `None` if the map could not be created now.
    fn map<'a>(&'a self, _workspace: &'a Workspace, _max_tokens: usize) -> BoxFuture<'a, Option<Vec<MapFile>>> {
        Box::pin(std::future::ready(Some(Vec::new())))
    }

    /// Empties the `temp/` folder of a session.
    fn clear_temp(&self, session: SessionId) -> WorkspaceFuture<'_, ()>;

    /// Removes the contents of these folders, except for folders that changed after the given time. Returns the removed
    /// data for each folder. If no data is left, the whole workspace is removed, and is created again on demand. A
    /// trial removes nothing.
    fn clean(
        &self,
        _session: SessionId,
        _areas: Vec<(WorkspaceArea, Timestamp)>,
        _trial: bool,
    ) -> WorkspaceFuture<'_, Vec<(WorkspaceArea, FilesRemoved)>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes the remains of workspaces whose removal was interrupted. A trial only counts them.
    fn clean_leftovers(&self, _trial: bool) -> WorkspaceFuture<'_, FilesRemoved> {
        Box::pin(std::future::ready(Ok(FilesRemoved::default())))
    }

    /// Removes the workspace of a session.
    fn remove(&self, session: SessionId) -> WorkspaceFuture<'_, ()>;

    /// Stores a file in `uploads/`, and returns the path for tools. A number is added to a name that is in use.
    fn add_upload(&self, session: SessionId, name: String, content: Vec<u8>) -> WorkspaceFuture<'_, String>;

    /// Removes a file that [`Self::add_upload`] has just stored, by the returned path, because the operation that
    /// needed it failed. A missing file is not an error.
    fn remove_upload(&self, _: SessionId, _path: String) -> WorkspaceFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Stores an oversized input in `uploads/`, like [`Self::add_upload`]. Reuses a file with that name, or with one of
    /// its numbered names, if the bytes are equal. Durable on return.
    fn store_input(&self, session: SessionId, name: String, content: Vec<u8>) -> WorkspaceFuture<'_, String> {
        self.add_upload(session, name, content)
    }

    /// Stores the daemon's `text` where tools can read but not change it, and returns the path for tools. Replaces a
    /// file of the same name. Durable on return. The name must be a visible file name, without folders.
    fn keep(
        &self,
        session: SessionId,
        area: ArtifactDir,
        name: String,
        content: Vec<u8>,
    ) -> WorkspaceFuture<'_, String>;

    /// Appends to a file like those stored by [`Self::keep`]. Truncates the file to `from` bytes first, because any
    /// further bytes are from an unfinished earlier write. `None` does not truncate.
    fn append_artifact(
        &self,
        session: SessionId,
        area: ArtifactDir,
        name: String,
        from: Option<u64>,
        content: Vec<u8>,
    ) -> WorkspaceFuture<'_, Artifact>;

    /// Lists a folder, or one file, by the paths that tools use.
    ///
    /// # Errors
    /// Fails with kind `NotFound` or `InvalidInput`, and the message that tools get, if tools could not read the path.
    fn list_files(&self, _: SessionTree, path: String) -> WorkspaceFuture<'_, FileListing> {
        no_files(&path)
    }

    /// Reads at most `limit` bytes from `offset` of a file that tools could read.
    ///
    /// # Errors
    /// Same as [`Self::list_files`].
    fn read_file(&self, _: SessionTree, path: String, _offset: u64, _limit: usize) -> WorkspaceFuture<'_, FilePiece> {
        no_files(&path)
    }

    /// Reads the text of a file that tools could read, in any encoding. `None` if the file is longer than `limit`
    /// bytes, not text, or not readable.
    fn read_text(&self, _: SessionTree, _path: String, _limit: usize) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Writes a whole file that tools could write, and creates missing folders. A file on the disk is durable on
    /// return. The caller must store a change to a file in the session's state.
    ///
    /// # Errors
    /// Fails as [`Self::list_files`] does, and with kind `Storage` if writing fails.
    fn write_file(
        &self,
        _: SessionTree,
        path: String,
        _content: Vec<u8>,
        _now: Timestamp,
    ) -> WorkspaceFuture<'_, FileWritten> {
        no_files(&path)
    }

    /// Opens documents in a session: the file at this path, of any kind, or the documents (by name) in this folder at
    /// any depth. An empty path means the whole session. Documents are ordered by path. Skips the first `skip`, and
    /// opens at most `limit` and no more than may be open at once. Also returns the total.
    ///
    /// # Errors
    /// Same as [`Self::list_files`].
    fn open_documents(
        &self,
        _: SessionTree,
        path: String,
        _skip: usize,
        _limit: usize,
    ) -> WorkspaceFuture<'_, DocumentPage> {
        no_files(&path)
    }

    /// Loads the guides for a session in this workspace. Unchanged files are not read again, and unreadable ones are
    /// skipped.
    fn guides<'a>(&'a self, _: &'a Workspace, _: GuideLimits) -> BoxFuture<'a, Guides> {
        Box::pin(std::future::ready(Guides::default()))
    }

    /// Loads the `AGENTS.md` files of the project's folders that contain these paths, outermost first, without the file
    /// of the project itself. Paths may be tool paths, absolute, or relative to the project.
    fn folder_guides(&self, _: &Workspace, _: GuideLimits, _paths: Vec<String>) -> BoxFuture<'_, Vec<GuideFile>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Returns the port for skills, or `None` if the implementation has none.
    fn skills(&self) -> Option<&dyn Skills> {
        None
    }

    /// Returns the agents of the workspace's project, if the user trusts it.
    fn project<'a>(&'a self, _: &'a Workspace) -> BoxFuture<'a, ProjectStanding> {
        Box::pin(std::future::ready(ProjectStanding::default()))
    }

    /// Returns the port for projects and the trust in them, or `None` if the implementation has none.
    fn projects(&self) -> Option<&dyn Projects> {
        None
    }

    /// Returns the port for worktrees, or `None` if the implementation has none.
    fn worktrees(&self) -> Option<&dyn Worktrees> {
        None
    }

    /// Returns the port for exporting and importing files, or `None` if the implementation has none.
    fn transport(&self) -> Option<&dyn TreeTransport> {
        None
    }

    /// Lists up to `limit` paths of files that tools could open, relative to the workspace: first the session's own
    /// files, newest first, then the project's files, from the top of the tree down. Internal files of the daemon are
    /// excluded.
    fn paths<'a>(&'a self, workspace: &'a Workspace, limit: usize) -> WorkspaceFuture<'a, Vec<String>>;
}

/// Returns the error of a workspace without files.
fn no_files<T: Send + 'static>(path: &str) -> WorkspaceFuture<'static, T> {
    let error = WorkspaceError::new(ErrorKind::NotFound, format!("no such file in this workspace: {path:?}"));
    Box::pin(std::future::ready(Err(error)))
}

names! {
    /// A folder of a workspace that can be cleaned. The history replaced by compactions is excluded, because it belongs
    /// to the session.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum WorkspaceArea {
        /// Copies of files that users uploaded.
        Uploads = "uploads",
        /// Files that tools created for users.
        Outputs = "outputs",
        /// Temporary files of tools.
        Temp = "temp",
        /// Copies of skills for tools.
        Skills = "skills",
        /// Whole results that are too large for the window.
        LargeToolResults = "large_tool_results",
    }
}

names! {
    /// A folder of a workspace in which the daemon stores files that tools can read but not change. The folder is
    /// removed with the session, survives a reset, and is not affected by undo.
    pub enum ArtifactDir {
        /// Whole results that are too large for the window.
        LargeToolResults = "large_tool_results",
        /// History that compactions replaced, in order.
        ConversationHistory = "conversation_history",
    }
}

/// Text that the daemon stores in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Path at which tools find the text.
    pub path: String,
    /// Size of the text, in bytes.
    pub bytes: u64,
}

impl ArtifactDir {
    /// Checks that `name` is the name of a visible file, without folders.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty name, a name longer than 200 bytes, a name that begins with a dot, and
    /// a name with slashes, backslashes or control characters.
    pub fn check_name(name: &str) -> Result<(), WorkspaceError> {
        const MAX_NAME: usize = 200;
        let is_valid = !name.is_empty()
            && name.len() <= MAX_NAME
            && !name.starts_with('.')
            && !name.contains(|letter: char| matches!(letter, '/' | '\\') || letter.is_control());
        if is_valid {
            return Ok(());
        }
        Err(WorkspaceError::new(ErrorKind::InvalidInput, format!("could not store {name:?}: not a plain file name"))
            .with_hint(format!("use a name of at most {MAX_NAME} bytes, without slashes or a leading dot")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_file_exists_only_in_mounts() {
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
