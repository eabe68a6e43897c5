//! Opens what a path names, and nothing else.
//!
//! Each call opens the workspace root afresh, and resolves the whole path beneath it in one step of the kernel, and through
//! no link: what is opened is what was named, since the rules have judged the name, and neither a link nor a rename under way can lead outside.
//! [`Jail::follow`] resolves links beforehand, and the resolved path is named then. What was opened
//! is looked at, not its name: only regular files and folders pass.
//!
//! Hard links cannot be told from the file they share. In the session's own tree nothing needs them, so they are
//! refused there; in a folder of the person they can be read, because package managers make them, but never written. The count
//! of links is all that tells them, so a link that is removed in the instant between the opening and the look passes
//! as an ordinary file. Only a command can make and remove links so fast, and what a command may reach is for its
//! sandbox to say.

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
    failure::{Failure, if_there},
    path::{FolderName, PathPlace, ToolPath},
};

/// The purpose of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// To look at what is there.
    Read,
    /// To change or make it.
    Write,
}

/// The way into one workspace.
#[derive(Debug, Clone)]
pub struct Jail {
    workspace: Arc<Workspace>,
}

impl Jail {
    /// The way into this workspace.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }

    /// The folders of the workspace.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Reads a path that is written from the root of the tree. Besides the forms of [`ToolPath::parse`] it takes the
    /// real paths of the workspace and the project, because commands print them.
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
                Err(self.no_folder("/folders is no folder of its own"))
            }
            parsed => parsed,
        }
    }

    /// The folders of the person, with their real paths.
    fn mounts(&self) -> impl Iterator<Item = (PathPlace, &Path)> {
        let project = self.workspace.project.iter().map(|mount| (PathPlace::Project, mount.path.as_path()));
        let folder = |folder: &'_ AddedFolder| FolderName::new(folder.name()).map(PathPlace::Folder);
        let folders = self.workspace.folders.iter();
        project.chain(folders.filter_map(move |added| Some((folder(added)?, added.path.as_path()))))
    }

    /// Reads a path as a call writes it. Where a project is mounted, a path without a slash in front means the project,
    /// as in what compilers and people say; one that begins with a name of the session's tree, such as `uploads/`,
    /// means that tree. Where the project has an entry of that name too, it means whichever of both is there, and to
    /// write, neither.
    ///
    /// # Errors
    /// `E_PATH`, saying how to write it.
    pub fn meant(&self, written: &str, aim: Aim) -> Result<ToolPath, Failure> {
        let Ok(project) = self.project() else { return self.locate(written) };
        if written.is_empty() || written.starts_with('/') {
            // An absolute path that was refused may mean a file of the project.
            return self.locate(written).map_err(|failure| {
                let in_project = ToolPath::parse(&format!("/project/{written}")).ok();
                match in_project.filter(|path| !path.is_root() && self.is_there(path)) {
                    Some(path) => Failure::path(format!("{}; did you mean {path}?", failure.text)),
                    None => failure,
                }
            });
        }
        let named = self.locate(written)?;
        // Diffs name files behind `a/` and `b/`, so that one of an added folder has lost its slash.
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
        match (aim, self.is_there(&named), self.is_there(&in_project)) {
            (Aim::Read, true, false) => Ok(named),
            (Aim::Read, false, true) => Ok(in_project),
            _ => Err(Failure::path(format!(
                "{written} may be two files, because the project has an entry {first} of its own; write the whole path: {} or \
                 {in_project}",
                named.written()
            ))),
        }
    }

    fn is_there(&self, path: &ToolPath) -> bool {
        self.root(path.place()).is_ok_and(|root| root.symlink_metadata(path.below_place()).is_ok())
    }

    /// Places searched from `start`: the root of the workspace includes the folders of the person, which come first, so
    /// that clutter in the workspace does not use up what a search may show.
    pub(crate) fn places(&self, start: &ToolPath) -> Vec<ToolPath> {
        let is_top = *start == ToolPath::root(PathPlace::Own);
        let mounts = self.mounts().filter(|_| is_top).map(|(place, _)| ToolPath::root(place));
        mounts.chain([start.clone()]).collect()
    }

    /// Resolves a path: the path itself, or another if links in the same tree are on the way. A missing path is no
    /// link. It may change afterwards: opening the result opens that name, and no link in its place.
    ///
    /// # Errors
    /// `E_PATH` for a link that leads out, in a circle, or to what no call can name.
    pub(crate) fn follow(&self, path: &ToolPath) -> Result<ToolPath, Failure> {
        let root = self.root(path.place())?;
        let real = exact::follow(&root, path.below_place()).map_err(|error| self.told(path, &error))?;
        ToolPath::found(path.place(), &real).ok_or_else(|| {
            Failure::path(format!(
                "{path} leads through a link to a name that is not plain text, which is not followed"
            ))
        })
    }

    /// Opens a regular file for reading.
    pub(super) fn open_regular(&self, path: &ToolPath) -> Result<(fs::File, fs::Metadata), Failure> {
        let (file, metadata) = self.open(path)?;
        if metadata.is_dir() {
            return Err(Failure::path(format!("{path} is a folder; list_workspace_files shows what it holds")));
        }
        if metadata.nlink() > 1 && !path.place().is_mounted() {
            return Err(hard_link(path));
        }
        Ok((file, metadata))
    }

    /// Returns whether nothing is there, in a folder that is.
    pub(super) fn is_missing(&self, path: &ToolPath) -> bool {
        let Ok(root) = self.root(path.place()) else { return false };
        let parent = path.below_place().parent().filter(|parent| !parent.as_os_str().is_empty());
        let is_missing =
            open_exact(&root, path.below_place()).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        is_missing && open_exact(&root, parent.unwrap_or(Path::new("."))).is_ok()
    }

    /// Opens a file with settings that may well be missing, such as an ignore file; it may be a link in the tree.
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

    /// Opens a folder.
    pub fn open_folder(&self, path: &ToolPath) -> Result<Dir, Failure> {
        let (file, metadata) = self.open(path)?;
        if !metadata.is_dir() {
            return Err(Failure::path(format!("{path} is a file, not a folder")));
        }
        Ok(Dir::from_std_file(file))
    }

    /// Opens a file or a folder, whichever is there.
    pub(super) fn open(&self, path: &ToolPath) -> Result<(fs::File, fs::Metadata), Failure> {
        let file = open_exact(&self.root(path.place())?, path.below_place());
        let file = file.map_err(|error| self.refused(path, &error, |real| format!("read {real} itself")))?;
        let metadata = file.metadata().map_err(|error| Failure::io(&format!("look at {path}"), &error))?;
        if metadata.is_dir() || metadata.is_file() {
            Ok((file, metadata))
        } else {
            Err(not_regular(path, metadata.file_type()))
        }
    }

    /// The folder that a path is resolved beneath when it is read.
    pub(crate) fn root(&self, place: PathPlace) -> Result<Dir, Failure> {
        let (folder, what) = match place {
            PathPlace::Own => {
                return session_root(&self.workspace.root)
                    .map_err(|error| Failure::tool(format!("the session's workspace cannot be opened: {error}")));
            }
            PathPlace::Project => (&self.project()?.path, "the project folder".to_owned()),
            PathPlace::Folder(name) => (&self.folder(name)?.path, format!("the folder {place}")),
            PathPlace::Memories => {
                let memories = self.workspace.memories.as_deref();
                let memories = memories.ok_or_else(|| Failure::path("nothing is kept across sessions here"))?;
                return own_root(memories)
                    .map_err(|error| Failure::tool(format!("/memories cannot be opened: {error}")));
            }
            PathPlace::State => {
                return Err(Failure::path(
                    "/state is not on the disk: commands cannot see it, and the file tools can; copy what a command needs to temp/",
                ));
            }
        };
        own_root(folder).map_err(|error| Failure::path(format!("{what} cannot be opened: {error}")))
    }

    /// The folder that a path is resolved beneath when it is written, and the path below it: one of the writable areas,
    /// the project or what all sessions share, so that no link leads from a writable folder into one that is not.
    pub(super) fn writable_root<'p>(&self, path: &'p ToolPath) -> Result<(Dir, &'p Path), Failure> {
        if path.place() == PathPlace::Project && !self.project()?.writable {
            return Err(Failure::path(format!(
                "{path} cannot be changed: the project is mounted read-only, and only the user can mount it writable \
                 (`-C DIR:rw`); write to /outputs/{} instead",
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
            .map_err(|error| Failure::path(format!("{area}/ of the workspace is not a folder any more: {error}")))?;
        Ok((folder, Path::new(below)))
    }

    /// The mounted project.
    ///
    /// # Errors
    /// `E_PATH` where none is mounted.
    pub fn project(&self) -> Result<&Mount, Failure> {
        self.workspace.project.as_ref().ok_or_else(|| {
            Failure::path("no project folder is mounted in this session; use uploads/, outputs/ and temp/")
        })
    }

    fn folder(&self, name: FolderName) -> Result<&AddedFolder, Failure> {
        self.workspace
            .folder(name.as_str())
            .ok_or_else(|| self.no_folder(&format!("there is no folder {}", PathPlace::Folder(name))))
    }

    /// Says which folders there are, in place of one that is not.
    fn no_folder(&self, problem: &str) -> Failure {
        let names: Vec<&str> = self.workspace.folders.iter().map(|folder| folder.at.as_str()).collect();
        Failure::path(if names.is_empty() {
            format!("{problem}: no folder was added to this session")
        } else {
            format!("{problem}; use one of {}", names.join(", "))
        })
    }

    /// Explains to the model why a path could not be opened; if it leads through a link, with what to do about the path
    /// that it leads to.
    pub(super) fn refused(&self, path: &ToolPath, error: &io::Error, instead: impl Fn(&ToolPath) -> String) -> Failure {
        if !is_link(error) {
            return self.told(path, error);
        }
        match self.follow(path) {
            Ok(real) if real == *path => self.told(path, error),
            Ok(real) => {
                let found = self.root(path.place()).map(|root| root.symlink_metadata(path.below_place()));
                let is_link = found.is_ok_and(|found| found.is_ok_and(|found| found.is_symlink()));
                let what = if is_link { "is a link to" } else { "leads through a link to" };
                Failure::path(format!("{path} {what} {real}; {}", instead(&real)))
            }
            Err(failure) => failure,
        }
    }

    fn told(&self, path: &ToolPath, error: &io::Error) -> Failure {
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
                Failure::path(format!("{path} cannot be there: a part before the last is a file, not a folder"))
            }
            Some(Errno::ELOOP) => Failure::path(format!(
                "{path} is a link in a circle, or was a link while it was being opened; look again, and name the file \
                 itself"
            )),
            Some(Errno::ENAMETOOLONG) => Failure::path("the path is too long; shorten its names"),
            Some(Errno::EACCES | Errno::EPERM) => {
                Failure::path(format!("{path} may not be opened: its permissions do not allow it"))
            }
            Some(Errno::ENXIO | Errno::ENODEV) => {
                Failure::path(format!("{path} is not a regular file (a pipe, socket or device); use a regular file"))
            }
            Some(Errno::EISDIR) => Failure::path(format!("{path} is a folder; name a file in it")),
            _ => Failure::io(&format!("open {path}"), error),
        }
    }
}

/// Returns whether it may have been a link that was not followed. One on the way is no folder, where it is gone step by
/// step.
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
    let what = match kind {
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "no regular file",
    };
    Failure::path(format!("{path} is {what}; only regular files can be used"))
}

/// Opens for reading what a path below a folder names, and no link, without waiting for the other end of a pipe and
/// without taking a terminal.
pub fn open_exact(folder: &Dir, path: &Path) -> io::Result<fs::File> {
    Ok(exact::open_below(folder, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?.into())
}

/// Opens the root of a workspace or project, refusing a link in its place and on the way to it.
pub fn own_root(root: &Path) -> io::Result<Dir> {
    Ok(Dir::from_std_file(exact::open_folder(root)?.into()))
}

/// The same of a session's own folder, which only the daemon has any business to close: a command that did so would end
/// the session for good.
pub fn session_root(root: &Path) -> io::Result<Dir> {
    // An administrator gets in without, and the commands of a session do not.
    exact::let_in(root)?;
    own_root(root)
}

/// Opens a folder, refusing a link in its place.
pub fn open_real_folder(parent: &Dir, name: impl AsRef<Path>) -> io::Result<Dir> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits());
    Ok(Dir::from_std_file(parent.open_with(name, &options)?.into_std()))
}
