//! Exports, imports and copies session files.
//!
//! The session's commands may run at the same time and change files, so nothing is trusted: every folder and file is
//! opened without following links, and checked once it is open. Files with several names are skipped, since the jail
//! would not open them either. The kernel makes the copies, sharing the data if the file system supports it. An import
//! is written into a staging folder, which is renamed when the import is complete. A marker file next to the staging
//! folder exists until the session is in the journal, so that the next start can remove an incomplete import.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use agentd_core::{
    archive::{MAX_TREE_BYTES, MAX_TREE_DEPTH, MAX_TREE_FILES, TREE_AREAS, TreeFile, check_tree_path},
    context::HistoryFile,
    error::{ErrorKind, WorkspaceError},
    files::FilesCopied,
    ids::SessionId,
    ports::{ArtifactDir, StagedTree, TreeTransport},
};
use cap_std::fs::Dir;

use crate::{
    failure::{fail_if, if_there, storage},
    jail,
    layout::make_shared,
    private, remove,
};

/// Name prefix of staging folders and their marker files.
const STAGED: &str = ".import-";
/// Name suffix of marker files.
const MARK: &str = ".mark";

/// Callback that receives an exported file.
type TakeFile<'a> = dyn FnMut(TreeFile, &mut dyn Read) -> io::Result<()> + Send + 'a;

/// Files of all sessions, below one folder.
#[derive(Debug, Clone)]
pub struct SessionTrees {
    /// Folder of all workspaces.
    pub base: PathBuf,
}

impl TreeTransport for SessionTrees {
    fn each_file(&self, session: SessionId, take: &mut TakeFile<'_>) -> Result<FilesCopied, WorkspaceError> {
        let reading = |error| storage("read the session's files", error);
        let root = if_there(jail::session_root(&self.base.join(session.to_string()))).map_err(reading)?;
        let Some(root) = root else { return Ok(FilesCopied::default()) };
        let mut copy_out = CopyOut { take, done: FilesCopied::default() };
        for area in TREE_AREAS {
            if let Ok(folder) = jail::open_real_folder(&root, area) {
                copy_out.folder(&folder, area, 1).map_err(reading)?;
            }
        }
        Ok(copy_out.done)
    }

    fn stage(&self, session: SessionId) -> Result<Box<dyn StagedTree>, WorkspaceError> {
        let base = make_shared(&self.base).map_err(|error| storage("create the workspaces folder", error))?;
        let staging = base.join(format!("{STAGED}{session}"));
        let destination = base.join(session.to_string());
        let exists = fs::symlink_metadata(&destination).is_ok();
        match fs::DirBuilder::new().mode(0o700).create(&staging) {
            Ok(()) if exists => {
                let _ = fs::remove_dir(&staging);
                Err(already_exists(session))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(already_exists(session)),
            Err(error) => Err(storage("create a folder for the session's files", error)),
            Ok(()) => {
                let root = jail::own_root(&staging);
                let root = root.map_err(|error| storage("open the folder of the session's files", error))?;
                let (done, left) = (FilesCopied::default(), Some(staging.clone()));
                Ok(Box::new(CopyIn { base, session, staging, destination, root, done, folders: 0, left }))
            }
        }
    }

    fn clean_up(&self, is_known: &dyn Fn(SessionId) -> bool) -> Result<(), WorkspaceError> {
        let clean_up = || -> io::Result<()> {
            for entry in if_there(fs::read_dir(&self.base))?.into_iter().flatten() {
                let entry = entry?;
                let name = entry.file_name();
                let Some(name) = name.to_str().and_then(|name| name.strip_prefix(STAGED)) else { continue };
                match name.strip_suffix(MARK).map(str::parse::<SessionId>) {
                    Some(Ok(session)) => {
                        if !is_known(session) {
                            remove::folder_at(&self.base, session.to_string().as_ref())?;
                        }
                        remove::ignore_missing(fs::remove_file(entry.path()))?;
                    }
                    Some(Err(_)) => {}
                    None => remove::folder_at(&self.base, &entry.file_name())?,
                }
            }
            Ok(())
        };
        clean_up().map_err(|error| storage("finish interrupted imports", error))
    }
}

fn already_exists(session: SessionId) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Conflict, format!("files of a session {session} already exist"))
        .with_hint("--as-new imports it under a new id; `agentctl doctor` reports files without a session")
}

struct CopyOut<'a, 'b> {
    take: &'a mut TakeFile<'b>,
    done: FilesCopied,
}

impl CopyOut<'_, '_> {
    fn folder(&mut self, folder: &Dir, path: &str, depth: usize) -> io::Result<()> {
        // An unreadable folder does not stop the export.
        let Ok(entries) = folder.entries() else { return leave_out(&mut self.done) };
        let mut entries = entries.flatten();
        let mut names: Vec<OsString> = entries
            .by_ref()
            .take(usize::try_from(MAX_TREE_FILES).unwrap_or(usize::MAX))
            .map(|entry| entry.file_name())
            .collect();
        self.done.left_out += entries.count() as u64;
        names.sort();
        for name in names {
            if name.to_string_lossy().starts_with(DRAFT) {
                continue;
            }
            let path = name.to_str().map(|name| format!("{path}/{name}"));
            let Some(path) = path.filter(|path| check_tree_path(path).is_ok()) else {
                self.done.left_out += 1;
                continue;
            };
            match folder.symlink_metadata(&name) {
                Ok(about) if about.is_dir() && depth < MAX_TREE_DEPTH => match jail::open_real_folder(folder, &name) {
                    Ok(inner) => self.folder(&inner, &path, depth + 1)?,
                    Err(_) => self.done.left_out += 1,
                },
                Ok(about) if about.is_file() => self.file(folder, &name, path)?,
                _ => self.done.left_out += 1,
            }
        }
        Ok(())
    }

    fn file(&mut self, folder: &Dir, name: &OsString, path: String) -> io::Result<()> {
        let Some((mut file, about)) = open_own(folder, name) else { return leave_out(&mut self.done) };
        if self.done.files >= MAX_TREE_FILES || about.len() > MAX_TREE_BYTES - self.done.bytes {
            return leave_out(&mut self.done);
        }
        let modified = u64::try_from(about.mtime()).ok().filter(|modified| *modified > 0);
        let executable = about.mode() & 0o100 != 0;
        (self.take)(TreeFile { path, executable, modified, bytes: about.len() }, &mut file)?;
        self.done.files += 1;
        self.done.bytes += about.len();
        Ok(())
    }
}

/// Opens a regular file without other names.
fn open_own(folder: &Dir, name: &OsStr) -> Option<(fs::File, fs::Metadata)> {
    let file = jail::open_exact(folder, name.as_ref()).ok()?;
    let about = file.metadata().ok().filter(|about| about.is_file() && about.nlink() == 1)?;
    Some((file, about))
}

fn leave_out(done: &mut FilesCopied) -> io::Result<()> {
    done.left_out += 1;
    Ok(())
}

struct CopyIn {
    base: PathBuf,
    session: SessionId,
    staging: PathBuf,
    destination: PathBuf,
    root: Dir,
    done: FilesCopied,
    /// Number of folders created so far, subject to the same limit as files.
    folders: u64,
    /// Tree to remove on drop, unless the import was completed.
    left: Option<PathBuf>,
}

impl StagedTree for CopyIn {
    fn add(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<(), WorkspaceError> {
        let invalid =
            |problem: &str| WorkspaceError::new(ErrorKind::InvalidInput, format!("the path of a file {problem}"));
        check_tree_path(&file.path).map_err(invalid)?;
        if self.done.files >= MAX_TREE_FILES || file.bytes > MAX_TREE_BYTES - self.done.bytes {
            let message = "the session has too many files, or too large ones";
            return Err(WorkspaceError::new(ErrorKind::InvalidInput, message));
        }
        let (folders, name) = file.path.rsplit_once('/').unwrap_or_default();
        let written = self.folder(folders).and_then(|folder| write(&folder, name, file, content));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => invalid("occurs twice"),
            _ => storage("write a file of the session", error),
        })?;
        self.done.files += 1;
        self.done.bytes += file.bytes;
        Ok(())
    }

    fn sync(&mut self) -> Result<FilesCopied, WorkspaceError> {
        let moved = rustix::fs::syncfs(&self.root).map_err(io::Error::from).and_then(|()| {
            fs::File::create_new(mark(&self.base, self.session))?.sync_all()?;
            fs::rename(&self.staging, &self.destination)?;
            self.left = Some(self.destination.clone());
            fs::File::open(&self.base)?.sync_all()
        });
        moved.map_err(|error| storage("move the session's files into place", error))?;
        Ok(self.done)
    }

    fn reveal(mut self: Box<Self>) -> Result<(), WorkspaceError> {
        self.left = None;
        remove::ignore_missing(fs::remove_file(mark(&self.base, self.session)))
            .map_err(|error| storage("remove the marker file of an import", error))
    }
}

impl CopyIn {
    /// Opens a folder by path, creating missing parts.
    fn folder(&mut self, path: &str) -> io::Result<Dir> {
        let mut folder = self.root.try_clone()?;
        for name in path.split('/') {
            match private::folder_in(&folder, name) {
                Ok(()) => self.folders += 1,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            if self.folders > MAX_TREE_FILES {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "there are too many folders"));
            }
            folder = jail::open_real_folder(&folder, name)?;
        }
        Ok(folder)
    }
}

fn write(folder: &Dir, name: &str, file: &TreeFile, content: &mut dyn Read) -> io::Result<()> {
    let mut target = private::file_in(folder, name, if file.executable { 0o700 } else { 0o600 })?;
    let written = io::copy(&mut content.take(file.bytes), &mut target)?;
    target.flush()?;
    let is_short = || io::Error::new(io::ErrorKind::UnexpectedEof, "it is shorter than declared");
    fail_if(written != file.bytes, is_short)?;
    let modified = file.modified.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    // An invalid time is not a reason to reject the file.
    modified.map_or(Ok(()), |modified| target.set_modified(modified).or(Ok(())))
}

impl Drop for CopyIn {
    fn drop(&mut self) {
        let Some(left) = &self.left else { return };
        let removed = remove::folder_at(&self.base, left.file_name().unwrap_or_default())
            .and_then(|()| remove::ignore_missing(fs::remove_file(mark(&self.base, self.session))));
        if let Err(error) = removed {
            tracing::warn!(session = %self.session, "leftovers of an import are removed at the next start: {error}");
        }
    }
}

fn mark(base: &Path, session: SessionId) -> PathBuf {
    base.join(format!("{STAGED}{session}{MARK}"))
}

/// Name prefix of drafts.
pub(super) const DRAFT: &str = ".agentd-";

/// Copies uploads, outputs and files stored for tools to read. `temp/` is skipped, and skills are linked again later.
pub fn copy(from: &Dir, to: &Dir, history: Option<&HistoryFile>) -> io::Result<FilesCopied> {
    let mut copy_state = CopyState { done: FilesCopied::default(), folders: 0 };
    // History is copied first, so that other files do not use up its share of the limits.
    if let Some(history) = history
        && let Some((from, to)) = open_in_both(from, to, ArtifactDir::ConversationHistory.as_str())?
    {
        copy_state.file(&from, &to, OsStr::new(&history.name), history.bytes)?;
    }
    for area in [ArtifactDir::LargeToolResults.as_str(), "uploads", "outputs"] {
        if let Some((from, to)) = open_in_both(from, to, area)? {
            copy_state.folder(&from, &to, 0)?;
        }
    }
    // Syncs once, regardless of the number of files.
    rustix::fs::syncfs(to)?;
    Ok(copy_state.done)
}

/// Opens a folder in both trees. `None` if the source has no such folder.
fn open_in_both(from: &Dir, to: &Dir, name: impl AsRef<Path>) -> io::Result<Option<(Dir, Dir)>> {
    let Ok(from) = jail::open_real_folder(from, &name) else { return Ok(None) };
    Ok(Some((from, jail::open_real_folder(to, &name)?)))
}

struct CopyState {
    done: FilesCopied,
    /// Number of folders created so far, subject to the same limit as files.
    folders: u64,
}

impl CopyState {
    fn folder(&mut self, from: &Dir, to: &Dir, depth: usize) -> io::Result<()> {
        // An unreadable folder does not stop the copy.
        let Ok(entries) = from.entries() else { return leave_out(&mut self.done) };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(DRAFT) {
                continue;
            }
            // The entry may change in the meantime, so the type of the opened file decides.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < MAX_TREE_DEPTH && self.folders < MAX_TREE_FILES => {
                    self.folders += 1;
                    private::folder_in(to, &name)?;
                    match open_in_both(from, to, &name)? {
                        Some((from, to)) => self.folder(&from, &to, depth + 1)?,
                        None => self.done.left_out += 1,
                    }
                }
                Ok(kind) if kind.is_file() => self.file(from, to, &name, None)?,
                _ => self.done.left_out += 1,
            }
        }
        Ok(())
    }

    /// Copies a file, or its first `limit` bytes.
    fn file(&mut self, from: &Dir, to: &Dir, name: &OsStr, limit: Option<u64>) -> io::Result<()> {
        let Some((source, metadata)) = open_own(from, name) else { return leave_out(&mut self.done) };
        let size = metadata.len().min(limit.unwrap_or(u64::MAX));
        if size > MAX_TREE_BYTES.saturating_sub(self.done.bytes) || self.done.files >= MAX_TREE_FILES {
            return leave_out(&mut self.done);
        }
        let mut target = private::file_in(to, name, (metadata.mode() & 0o700) | 0o600)?;
        self.done.bytes += io::copy(&mut source.take(size), &mut target)?;
        self.done.files += 1;
        if let Ok(modified) = metadata.modified() {
            target.set_modified(modified)?;
        }
        Ok(())
    }
}
