//! Records of worktrees, one file each, written before a worktree is created and removed after the worktree. Also the
//! locations in which git works: all of them are explicit, and git can access no other folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use agentd_core::{
    Timestamp,
    error::{ErrorKind, WorkspaceError},
    folder::{AddedFolder, FOLDERS},
    ids::SessionId,
    ports::Workspace,
    worktree::{BRANCH_PREFIX, WorktreeAccess, check_name},
};
use agentd_sandbox::repository::Repository;
use agentd_workspace::{failure::if_there, private, remove::ignore_missing};
use serde::{Deserialize, Serialize};

/// Result of an operation on a worktree.
pub(super) type Result<T> = std::result::Result<T, WorkspaceError>;

/// Folder for the records. Names of worktrees never start with a dot.
const RECORDS: &str = ".records";
/// Folder for git's temporary files: indexes and objects.
pub(super) const SCRATCH: &str = ".scratch";

/// Record of a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorktreeRecord {
    pub(super) name: String,
    pub(super) session: SessionId,
    /// Corresponding project folder in the main worktree.
    pub(super) project: PathBuf,
    pub(super) repository: Repository,
    /// Administrative folder in the repository; `None` until git has created it.
    pub(super) admin: Option<PathBuf>,
    /// Commit from which the worktree started.
    pub(super) base: String,
    pub(super) at: Timestamp,
    pub(super) stage: Stage,
}

/// State of an operation, for recovery after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Being created, and not visible to users yet.
    Making,
    /// Without a pending operation.
    Ready,
    /// The worktree's changes are being committed.
    Committing {
        /// Start in seconds since the epoch.
        at: i64,
    },
    /// The main worktree is being moved from one commit to another.
    Applying {
        from: String,
        to: String,
        /// Start in seconds since the epoch.
        at: i64,
    },
    /// Being removed, together with its branch if the branch is at the commit `tip`.
    Removing {
        tip: Option<String>,
        /// Start in seconds since the epoch.
        at: i64,
    },
}

impl WorktreeRecord {
    pub(super) fn branch(&self) -> String {
        format!("{BRANCH_PREFIX}{}", self.name)
    }

    /// Returns the full name of the branch.
    pub(super) fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch())
    }

    /// Returns the administrative folder in the repository.
    pub(super) fn admin(&self) -> Result<&Path> {
        self.admin
            .as_deref()
            .ok_or_else(|| conflict(format!("the worktree {} is incomplete", self.name), "retry to clear it"))
    }
}

/// Records of all worktrees on disk.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) base: PathBuf,
}

impl Records {
    /// Returns the top folder of a worktree.
    pub(super) fn top(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Creates the folder of all worktrees if it is missing, and returns its real path, which git records.
    pub(super) fn real_base(&self) -> Result<PathBuf> {
        private::folder(&self.base.join(RECORDS))
            .and_then(|()| self.base.canonicalize())
            .map_err(|error| storage("create the worktrees folder", error))
    }

    /// Returns all records, sorted by name. Damaged records are logged and left on disk.
    pub(super) fn all(&self) -> Result<Vec<WorktreeRecord>> {
        let folder = self.base.join(RECORDS);
        let entries = if_there(fs::read_dir(&folder)).map_err(|error| storage("list the worktrees", error))?;
        let mut all = Vec::new();
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(name) = name.strip_suffix(".json").filter(|name| check_name(name).is_ok()) else { continue };
            match self.read(name) {
                Ok(record) => all.extend(record),
                Err(error) => tracing::error!("the record of the worktree {name} cannot be read: {error}"),
            }
        }
        all.sort_by(|left: &WorktreeRecord, right| left.name.cmp(&right.name));
        Ok(all)
    }

    fn read(&self, name: &str) -> io::Result<Option<WorktreeRecord>> {
        let record = if_there(private::read::<WorktreeRecord>(&self.file(name)))?;
        if record.as_ref().is_some_and(|record| record.name != name) {
            return Err(io::Error::other("it belongs to another worktree"));
        }
        Ok(record)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.base.join(RECORDS).join(format!("{name}.json"))
    }

    /// Returns the record of a worktree, or `None` if there is no such worktree.
    pub(super) fn find(&self, name: &str) -> Result<Option<WorktreeRecord>> {
        check_name(name)?;
        self.read(name).map_err(|error| storage(&format!("read the record of the worktree {name}"), error))
    }

    /// Returns the record of an existing worktree.
    pub(super) fn get(&self, name: &str) -> Result<WorktreeRecord> {
        self.find(name)?
            .ok_or_else(|| missing(format!("no such worktree: {name}"), "`agentctl worktree list` shows all"))
    }

    pub(super) fn store(&self, record: &WorktreeRecord) -> Result<()> {
        private::store(&self.base.join(RECORDS), &format!("{}.json", record.name), record)
            .map_err(|error| storage(&format!("record the worktree {}", record.name), error))
    }

    pub(super) fn change(&self, name: &str, change: impl FnOnce(&mut WorktreeRecord)) -> Result<()> {
        let mut record = self.get(name)?;
        change(&mut record);
        self.store(&record)
    }

    pub(super) fn forget(&self, name: &str) -> Result<()> {
        ignore_missing(fs::remove_file(self.file(name)))
            .map_err(|error| storage(&format!("remove the record of the worktree {name}"), error))
    }

    /// Returns the worktree that contains a folder.
    pub(super) fn of_folder(&self, folder: &Path) -> Option<WorktreeAccess> {
        let base = self.base.canonicalize().ok()?;
        let name = folder.strip_prefix(&base).ok()?.components().next()?.as_os_str().to_str()?;
        let record = self.find(name).ok()??;
        let ready = !matches!(record.stage, Stage::Making | Stage::Removing { .. });
        let top = base.join(name);
        // A subfolder corresponds to the same subfolder in the main worktree.
        let below = folder.strip_prefix(&top).ok()?;
        let main = record.repository.top;
        let project = if below.as_os_str().is_empty() { main } else { main.join(below) };
        let (common, admin) = (record.repository.common, record.admin.filter(|_| ready)?);
        Some(WorktreeAccess { name: record.name, project, top, common, admin })
    }
}

pub(super) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Conflict, message).with_hint(hint)
}

pub(super) fn missing(message: impl Into<String>, hint: impl Into<String>) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::NotFound, message).with_hint(hint)
}

/// Creates a disk error. `doing` completes the sentence "could not …".
pub(super) fn storage(doing: &str, error: std::io::Error) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Storage, format!("could not {doing}: {error}"))
        .with_hint("check the folder `worktrees` in the daemon's data folder")
        .with_source(error)
}

/// Folders and settings for a git call.
#[derive(Debug, Clone, Default)]
pub(super) struct GitPlace {
    pub(super) git_dir: PathBuf,
    pub(super) common: PathBuf,
    pub(super) work_tree: PathBuf,
    pub(super) index: Option<PathBuf>,
    /// Folder for temporary objects, if new objects are not stored in the repository.
    pub(super) objects: Option<PathBuf>,
    /// Folders that may be changed.
    pub(super) writes: Vec<PathBuf>,
    /// Name and mail address of a commit's author.
    pub(super) author: Option<(String, String)>,
    /// Settings that override programs named by the repository.
    pub(super) settings: Vec<(String, &'static str)>,
}

impl GitPlace {
    /// Creates the read-only location of the main worktree.
    pub(super) fn main(repository: &Repository) -> Self {
        let Repository { top: work_tree, git_dir, common } = repository.clone();
        Self { git_dir, common, work_tree, ..Self::default() }
    }

    /// Creates a location with branches and commits only, independent of any work tree.
    pub(super) fn branches(repository: &Repository) -> Self {
        let common = repository.common.clone();
        Self { git_dir: common.clone(), work_tree: common, ..Self::main(repository) }
    }

    /// Creates the read-only location of a worktree.
    pub(super) fn worktree(record: &WorktreeRecord, top: &Path) -> Result<Self> {
        let (git_dir, work_tree) = (record.admin()?.to_owned(), top.to_owned());
        Ok(Self { git_dir, work_tree, ..Self::main(&record.repository) })
    }

    pub(super) fn writing(mut self, folders: &[&Path]) -> Self {
        self.writes.extend(folders.iter().map(|folder| folder.to_path_buf()));
        self
    }

    /// Uses this folder for git's files instead of the work tree.
    pub(super) fn with_separate_folder(self, folder: PathBuf) -> Self {
        Self { work_tree: folder.clone(), ..self }.writing(&[&folder])
    }

    pub(super) fn by(self, author: (String, String)) -> Self {
        Self { author: Some(author), ..self }
    }
}

/// Converts the folders that a call can access to a workspace, for the sandbox.
pub(super) fn accessible(place: &GitPlace, scratch: PathBuf) -> Workspace {
    let mut folders: Vec<(PathBuf, bool)> = Vec::new();
    for folder in [&place.work_tree, &place.common, &place.git_dir].into_iter().chain(&place.writes) {
        let writable = place.writes.contains(folder);
        if !folders.iter().any(|(path, _)| path == folder) {
            folders.push((folder.clone(), writable));
        }
    }
    let folders = folders.into_iter().enumerate().map(|(number, (path, writable))| AddedFolder {
        at: format!("{FOLDERS}/{number}"),
        path,
        writable,
    });
    Workspace { root: scratch, folders: folders.collect(), ..Workspace::default() }
}
