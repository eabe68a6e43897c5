//! Opens exactly the file or folder that a path names.
//!
//! Each call opens the workspace root again. The kernel resolves the whole path beneath it in one step and follows no
//! link, so the opened file is the one to which the rules were applied, and neither a link nor a concurrent rename can
//! lead outside. [`Jail::follow`] resolves links beforehand; the resolved path is then opened by name. Checks apply to
//! the opened file, not to its name: only regular files and folders pass.
//!
//! Hard links cannot be distinguished from the original file. The session's own tree needs none, so they are rejected
//! there. In a user's folder they can be read, because package managers create them, but never written. The link count
//! is the only evidence, so a file whose other link is removed between the open and the check passes as an ordinary
//! file. Only a command is fast enough to do that, and the access of commands is limited by their sandbox.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
    sync::Arc,
};

use agentd_core::{
    folder::{AddedFolder, FOLDERS},
    ports::Workspace,
    session::Mount,
};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use nix::{errno::Errno, fcntl::OFlag};
use rustix::fs::OFlags;

use crate::{
    exact,
    failure::{Failure, fail_if, if_there},
    path::{FolderName, PathPlace, ToolPath},
};

/// Purpose of opening a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenPurpose {
    /// Reads or lists existing entries.
    Read,
    /// Creates, changes or removes entries.
    Write,
}

/// Access to one workspace's files.
#[derive(Debug, Clone)]
pub struct Jail {
    workspace: Arc<Workspace>,
}

impl Jail {
    /// Creates a jail for a workspace.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }

    /// Returns the folders of the workspace.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Parses a path relative to the root of the tree. Besides the forms in [`ToolPath::parse`], accepts the real paths
    /// of the workspace and the mounted folders, because commands print them.
    pub(crate) fn locate(&self, written: &str) -> Result<ToolPath, Failure> {
        let memories = self.workspace.memories.as_deref().map(|path| (PathPlace::Memories, path));
        let real = self.mounts().chain(memories).map(|(place, path)| (format!("{place}/"), path));
        for (shown, root) in [("./".to_owned(), self.workspace.root.as_path())].into_iter().chain(real) {
            let below = root.to_str().and_then(|root| written.strip_prefix(root));
            match below {
                Some("") => return ToolPath::parse(&shown),
                Some(below) if below.starts_with('/') => return ToolPath::parse(&format!("{shown}{below}")),
                _ => {}
            }
        }
        match ToolPath::parse(written) {
            Err(_) if written.trim_end_matches('/') == FOLDERS => {
                Err(self.missing_folder_error("/folders is not a folder"))
            }
            parsed => parsed,
        }
    }

    /// Returns the user's folders, with their real paths.
    fn mounts(&self) -> impl Iterator<Item = (PathPlace, &Path)> {
        let project = self.workspace.project.iter().map(|mount| (PathPlace::Project, mount.path.as_path()));
        let folder = |folder: &'_ AddedFolder| FolderName::new(folder.name()).map(PathPlace::Folder);
        let folders = self.workspace.folders.iter();
        project.chain(folders.filter_map(move |added| Some((folder(added)?, added.path.as_path()))))
    }

    /// Parses a path from a call. With a mounted project, a path without a leading slash is relative to the project, as
    /// in compiler output and in the user's messages. A path that begins with a name in the session's tree, such as
    /// `uploads/`, is in that tree. If the project also has an entry of that name, a read uses whichever of the two
    /// exists, and a write is rejected.
    ///
    /// # Errors
    /// `E_PATH` with a hint about the correct form.
    pub fn resolve_path(&self, written: &str, purpose: OpenPurpose) -> Result<ToolPath, Failure> {
        let Ok(project) = self.project() else { return self.locate(written) };
        if written.is_empty() || written.starts_with('/') {
            // A rejected absolute path may be meant as a project file.
            return self.locate(written).map_err(|failure| {
                let in_project = ToolPath::parse(&format!("/project/{written}")).ok();
                match in_project.filter(|path| !path.is_root() && self.exists(path)) {
                    Some(path) => Failure::path(format!("{}; did you mean {path}?", failure.text)),
                    None => failure,
                }
            });
        }
        let named = self.locate(written)?;
        // Diffs put `a/` and `b/` before names, which removes the leading slash of a path in an added folder.
        let in_folder = ToolPath::parse(&format!("/{written}")).ok().filter(|path| match path.place() {
            PathPlace::Folder(name) => self.workspace.folder(name.as_str()).is_some(),
            _ => false,
        });
        if let Some(in_folder) = in_folder.filter(|_| fs::symlink_metadata(project.path.join("folders")).is_err()) {
            return Ok(in_folder);
        }
        let in_project = ToolPath::parse(&format!("/project/{written}"))?;
        let Some(first) = in_project.rest().split('/').next().filter(|first| ToolPath::is_name(first)) else {
            return Ok(in_project);
        };
        if fs::symlink_metadata(project.path.join(first)).is_err() {
            return Ok(named);
        }
        match (purpose, self.exists(&named), self.exists(&in_project)) {
            (OpenPurpose::Read, true, false) => Ok(named),
            (OpenPurpose::Read, false, true) => Ok(in_project),
            _ => Err(Failure::path(format!(
                "{written} is ambiguous, because the project has its own {first}; use the full path: {} or \
                 {in_project}",
                named.written()
            ))),
        }
    }

    fn exists(&self, path: &ToolPath) -> bool {
        self.root(path.place()).is_ok_and(|root| root.symlink_metadata(path.below_place()).is_ok())
    }

    /// Returns the roots of a search from `start`. The root of the workspace includes the user's folders. These folders
    /// come first, so that clutter in the workspace does not use up the result limit.
    pub(crate) fn places(&self, start: &ToolPath) -> Vec<ToolPath> {
        let is_top = *start == ToolPath::root(PathPlace::Own);
        let mounts = self.mounts().filter(|_| is_top).map(|(place, _)| ToolPath::root(place));
        mounts.chain([start.clone()]).collect()
    }

    /// Resolves links in a path, provided that their targets are in the same tree. A missing path is returned
    /// unchanged. The path may change afterwards: opening the result opens that name and follows no link.
    ///
    /// # Errors
    /// `E_PATH` for a link that leads outside, forms a cycle, or leads to a name that a call cannot express.
    pub(crate) fn follow(&self, path: &ToolPath) -> Result<ToolPath, Failure> {
        let root = self.root(path.place())?;
        let real = exact::follow(&root, path.below_place()).map_err(|error| self.failure(path, &error))?;
        ToolPath::found(path.place(), &real).ok_or_else(|| {
            Failure::path(format!("cannot follow a link in {path}: the name of its target is not plain text"))
        })
    }

    /// Opens a regular file for reading.
    pub(super) fn open_regular(&self, path: &ToolPath) -> Result<(fs::File, fs::Metadata), Failure> {
        let (file, metadata) = self.open(path)?;
        fail_if(metadata.is_dir(), || Failure::path(format!("{path} is a folder; list_workspace_files lists it")))?;
        fail_if(metadata.nlink() > 1 && !path.place().is_mounted(), || hard_link(path))?;
        Ok((file, metadata))
    }

    /// Returns true if the path is missing and its parent folder exists.
    pub(super) fn is_missing(&self, path: &ToolPath) -> bool {
        let Ok(root) = self.root(path.place()) else { return false };
        let parent = path.below_place().parent().filter(|parent| !parent.as_os_str().is_empty());
        let is_missing =
            open_exact(&root, path.below_place()).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        is_missing && open_exact(&root, parent.unwrap_or(Path::new("."))).is_ok()
    }

    /// Opens an optional settings file, such as an ignore file. Follows links within the tree.
    pub(super) fn open_linked(&self, path: &ToolPath) -> Option<fs::File> {
        let root = self.root(path.place()).ok()?;
        let file = match open_exact(&root, path.below_place()) {
            Err(error) if is_link(&error) => open_exact(&root, &exact::follow(&root, path.below_place()).ok()?).ok()?,
            opened => opened.ok()?,
        };
        let metadata = file.metadata().ok()?;
        let is_own = metadata.nlink() == 1 || path.place().is_mounted();
        (metadata.is_file() && is_own).then_some(file)
    }

    /// Opens a folder for listing.
    pub fn open_folder(&self, path: &ToolPath) -> Result<Dir, Failure> {
        let (file, metadata) = self.open(path)?;
        fail_if(!metadata.is_dir(), || Failure::path(format!("{path} is a file, not a folder")))?;
        Ok(Dir::from_std_file(file))
    }

    /// Opens a file or a folder.
    pub(super) fn open(&self, path: &ToolPath) -> Result<(fs::File, fs::Metadata), Failure> {
        let file = open_exact(&self.root(path.place())?, path.below_place());
        let file = file.map_err(|error| self.refused(path, &error, |real| format!("read {real} itself")))?;
        let metadata = file.metadata().map_err(|error| Failure::io(&format!("inspect {path}"), &error))?;
        if metadata.is_dir() || metadata.is_file() {
            Ok((file, metadata))
        } else {
            Err(not_regular(path, metadata.file_type()))
        }
    }

    /// Returns the folder beneath which a path is resolved for reading.
    pub(crate) fn root(&self, place: PathPlace) -> Result<Dir, Failure> {
        let (folder, name) = match place {
            PathPlace::Own => {
                return session_root(&self.workspace.root)
                    .map_err(|error| Failure::tool(format!("the session's workspace cannot be opened: {error}")));
            }
            PathPlace::Project => (&self.project()?.path, "the project folder".to_owned()),
            PathPlace::Folder(name) => (&self.folder(name)?.path, format!("the folder {place}")),
            PathPlace::Memories => {
                let memories = self.workspace.memories.as_deref();
                let memories = memories.ok_or_else(|| Failure::path("/memories is not available here"))?;
                return own_root(memories)
                    .map_err(|error| Failure::tool(format!("/memories cannot be opened: {error}")));
            }
            PathPlace::State => {
                return Err(Failure::path(
                    "/state is not on the disk: only the file tools can access it; copy what a command needs to temp/",
                ));
            }
        };
        own_root(folder).map_err(|error| Failure::path(format!("{name} cannot be opened: {error}")))
    }

    /// Returns the folder beneath which a path is resolved for writing, and the path below it. The folder is one of the
    /// writable areas, the project, an added folder or the memories, so that no link leads from a writable folder into
    /// a read-only one.
    pub(super) fn writable_root<'p>(&self, path: &'p ToolPath) -> Result<(Dir, &'p Path), Failure> {
        if path.place() == PathPlace::Project && !self.project()?.writable {
            return Err(Failure::path(format!(
                "{path} cannot be changed: the project is mounted read-only, and only the user can mount it writable \
                 (`/project rw` in the chat, or `-C DIR:rw`); write to /outputs/{} instead",
                path.name()
            )));
        }
        if let PathPlace::Folder(name) = path.place()
            && !self.folder(name)?.writable
        {
            return Err(Failure::path(format!(
                "{path} cannot be changed: {} was added read-only, and only the user can make it writable \
                 (`--add-dir DIR:rw`); write to /outputs/{} instead",
                path.place(),
                path.name()
            )));
        }
        if path.place() != PathPlace::Own {
            return Ok((self.root(path.place())?, path.below_place()));
        }
        let (area, below) = path.rest().split_once('/').unwrap_or((path.rest(), "."));
        if !crate::path::WRITABLE.contains(&area) {
            return Err(Failure::path(format!(
                "{path} cannot be written: only uploads/, outputs/, temp/, /memories, /state and a writable \
                 /project or added folder can; write to outputs/{} instead",
                path.name()
            )));
        }
        let root = self.root(PathPlace::Own)?;
        let folder = if_there(open_real_folder(&root, area)).and_then(|folder| match folder {
            Some(folder) => Ok(folder),
            None => root.create_dir(area).and_then(|()| open_real_folder(&root, area)),
        });
        let folder = folder
            .map_err(|error| Failure::path(format!("{area}/ of the workspace is no longer a folder: {error}")))?;
        Ok((folder, Path::new(below)))
    }

    /// Returns the mounted project.
    ///
    /// # Errors
    /// `E_PATH` if no project is mounted.
    pub fn project(&self) -> Result<&Mount, Failure> {
        self.workspace.project.as_ref().ok_or_else(|| {
            Failure::path("no project folder is mounted in this session; use uploads/, outputs/ and temp/")
        })
    }

    fn folder(&self, name: FolderName) -> Result<&AddedFolder, Failure> {
        self.workspace
            .folder(name.as_str())
            .ok_or_else(|| self.missing_folder_error(&format!("there is no folder {}", PathPlace::Folder(name))))
    }

    /// Creates an error for a missing folder that lists the existing folders.
    fn missing_folder_error(&self, problem: &str) -> Failure {
        let names: Vec<&str> = self.workspace.folders.iter().map(|folder| folder.at.as_str()).collect();
        Failure::path(if names.is_empty() {
            format!("{problem}: no folder was added to this session")
        } else {
            format!("{problem}; use one of {}", names.join(", "))
        })
    }

    /// Explains to the model why a path could not be opened. For a path that contains a link, `instead` suggests an
    /// alternative that uses the link's target.
    pub(super) fn refused(&self, path: &ToolPath, error: &io::Error, instead: impl Fn(&ToolPath) -> String) -> Failure {
        if !is_link(error) {
            return self.failure(path, error);
        }
        match self.follow(path) {
            Ok(real) if real == *path => self.failure(path, error),
            Ok(real) => {
                let found = self.root(path.place()).map(|root| root.symlink_metadata(path.below_place()));
                let is_link = found.is_ok_and(|found| found.is_ok_and(|found| found.is_symlink()));
                let relation = if is_link { "is a link to" } else { "leads through a link to" };
                Failure::path(format!("{path} {relation} {real}; {}", instead(&real)))
            }
            Err(failure) => failure,
        }
    }

    fn failure(&self, path: &ToolPath, error: &io::Error) -> Failure {
        let escaped = error.raw_os_error().is_none() && error.kind() == io::ErrorKind::PermissionDenied;
        if escaped {
            return Failure::path(format!(
                "{path} leads outside its folder through a link, which is not followed; work on a copy below uploads/, \
                 outputs/ or temp/"
            ));
        }
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT) => self.missing(path),
            Some(Errno::ENOTDIR | Errno::EEXIST) => {
                Failure::path(format!("{path} cannot exist: a parent of it is a file, not a folder"))
            }
            Some(Errno::ELOOP) => Failure::path(format!(
                "{path} is a circular link, or was a link while it was being opened; check it, and use the path of the \
                 file itself"
            )),
            Some(Errno::ENAMETOOLONG) => Failure::path("the path is too long; shorten its names"),
            Some(Errno::EACCES | Errno::EPERM) => Failure::path(format!("{path} cannot be opened: permission denied")),
            Some(Errno::ENXIO | Errno::ENODEV) => {
                Failure::path(format!("{path} is not a regular file (a pipe, socket or device); use a regular file"))
            }
            Some(Errno::EISDIR) => Failure::path(format!("{path} is a folder; name a file in it")),
            _ => Failure::io(&format!("open {path}"), error),
        }
    }
}

/// Returns true if the error may be due to a link that was not followed. A link within the path fails with `ENOTDIR` if
/// the path is walked step by step.
fn is_link(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ELOOP | Errno::ENOTDIR))
}

pub(super) fn hard_link(path: &ToolPath) -> Failure {
    Failure::path(format!(
        "{path} is a hard link: the same content has another name that may be outside the workspace; copy it to a new \
         file (`cp a b`) and use the copy"
    ))
}

pub(super) fn not_regular(path: &ToolPath, kind: fs::FileType) -> Failure {
    let description = match kind {
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "not a regular file",
    };
    Failure::path(format!("{path} is {description}; only regular files can be used"))
}

/// Opens a path in a folder for reading, following no link. Does not block on a pipe, and does not acquire a
/// controlling terminal.
pub fn open_exact(folder: &Dir, path: &Path) -> io::Result<fs::File> {
    Ok(exact::open_below(folder, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?.into())
}

/// Opens the root of a workspace or project. Rejects links anywhere in the path.
pub fn own_root(root: &Path) -> io::Result<Dir> {
    Ok(Dir::from_std_file(exact::open_folder(root)?.into()))
}

/// Opens a session's own folder like [`own_root`], after restoring the daemon's access to the folder. Otherwise a
/// command that removed the permissions would make the session permanently unusable.
pub fn session_root(root: &Path) -> io::Result<Dir> {
    // Also needed if the daemon runs as root: root has access anyway, but the session's commands do not.
    exact::restore_access(root)?;
    own_root(root)
}

/// Opens a folder, rejecting a link at its path.
pub fn open_real_folder(parent: &Dir, name: impl AsRef<Path>) -> io::Result<Dir> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits());
    Ok(Dir::from_std_file(parent.open_with(name, &options)?.into_std()))
}
