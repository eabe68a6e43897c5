//! Atomic replacement of a file. The steps depend on the backend, whose [`WriteSlot`] is the location of the file.
//!
//! On disk the new content is written to a hidden file in the same folder, synced, and renamed over the target. The
//! mode is preserved; owner, access lists and extended attributes are those of a new file.
//!
//! Links are never followed, neither at the end of the path nor on the way: the rules were applied to the given name,
//! and a link would redirect the write to another file. Links are checked when the file and its folder are opened, so a
//! link created after the rules were applied is also detected.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt, PermissionsExt as _},
    path::{Path, PathBuf},
};

use agentd_core::Timestamp;
use cap_std::fs::Dir;
use rustix::fs::OFlags;

use crate::{
    drafts::Draft,
    encoding::Document,
    exact,
    failure::{Failure, fail_if, if_there},
    jail::{self, Jail},
    path::ToolPath,
    private, text,
};

/// Mode of a new file, before the umask of the process.
const NEW_FILE: u32 = 0o666;

/// File that existed when the target was opened.
#[derive(Debug)]
pub struct ExistingFile {
    /// Content, or `None` if larger than the requested limit.
    pub content: Option<Vec<u8>>,
    /// Size of the file, in bytes.
    pub size: u64,
    /// Time of the last change of the content, if known.
    pub changed: Option<Timestamp>,
    /// Device and inode, used to recognise two names of one file.
    pub(super) identity: Option<(u64, u64)>,
    /// Permissions, if the backend has any.
    pub(super) mode: Option<u32>,
}

/// File that is about to be written.
#[derive(Debug)]
pub struct Target {
    path: ToolPath,
    /// Permissions of the new file; `None` for the default ones.
    mode: Option<u32>,
    pub(super) slot: Box<dyn WriteSlot>,
    /// Existing file that will be replaced.
    pub existing: Option<ExistingFile>,
}

/// Backend-specific part of a [`Target`].
pub(crate) trait WriteSlot: std::fmt::Debug + Send {
    /// Writes `content` atomically with these permissions, if any, and creates missing folders.
    ///
    /// # Errors
    /// Fails if the file was changed since it was opened, or cannot be written.
    fn replace(&self, content: &[u8], mode: Option<u32>) -> Result<(), Failure>;

    /// Removes the file. The removal is atomic, and durable once this function returns.
    ///
    /// # Errors
    /// Fails if the file was changed since it was opened, or cannot be removed.
    fn remove(&self) -> Result<(), Failure>;

    /// Creates the error for reading a missing file.
    fn missing(&self) -> Failure;

    /// Checks that the file was not changed since it was opened.
    ///
    /// # Errors
    /// Fails if the file was changed.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the missing folders above the file, outermost first. Empty for backends without real folders.
    fn missing_folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Removes the empty folders above the file that are in `created`, an earlier result of [`Self::missing_folders`].
    fn remove_empty_folders(&self, _created: &[PathBuf]) {}
}

impl Target {
    pub(super) fn new(path: ToolPath, existing: Option<ExistingFile>, slot: Box<dyn WriteSlot>) -> Self {
        let mode = existing.as_ref().and_then(|existing| existing.mode);
        Self { path, mode, slot, existing }
    }

    /// Returns the current text of the file. `limit` is the size limit that was requested for its content.
    pub fn document(&self, limit: u64) -> Result<Document, Failure> {
        let path = &self.path;
        let Some(existing) = &self.existing else { return Err(self.slot.missing()) };
        let Some(bytes) = &existing.content else {
            return Err(Failure::tool(format!(
                "{path} is {} large; edits support files up to {}, so use run_bash_command",
                text::size(existing.size),
                text::size(limit)
            )));
        };
        Document::read(bytes.clone()).map_err(|kind| {
            Failure::tool(format!("{path} is {kind}, not text, and an edit would damage it; use run_bash_command"))
        })
    }

    /// Returns true if both targets refer to the same file, under one name or two.
    pub fn is_file_of(&self, other: &Self) -> bool {
        let identity = |target: &Self| target.existing.as_ref().and_then(|existing| existing.identity);
        identity(self).zip(identity(other)).map_or_else(|| self.path == other.path, |(one, two)| one == two)
    }

    /// Sets the permissions of a new file to those of another file, as for a moved file.
    pub fn with_mode_of(mut self, other: &Self) -> Self {
        self.mode = other.existing.as_ref().and_then(|existing| existing.mode);
        self
    }

    /// Replaces the content and creates missing folders.
    pub fn replace(&self, content: &[u8]) -> Result<(), Failure> {
        self.slot.replace(content, self.mode)
    }

    /// Removes the existing file.
    pub fn remove(&self) -> Result<(), Failure> {
        self.slot.remove()
    }

    /// Returns the missing folders above the file, outermost first.
    pub fn missing_folders(&self) -> Vec<PathBuf> {
        self.slot.missing_folders()
    }

    /// Removes the empty folders above the file that are in `created`, an earlier result of [`Self::missing_folders`].
    pub fn remove_empty_folders(&self, created: &[PathBuf]) {
        self.slot.remove_empty_folders(created);
    }
}

/// Identity, size and modification time, which show whether a file was changed.
type Stamp = ((u64, u64), u64, (i64, i64));

fn stamp_of(metadata: &impl MetadataExt) -> Stamp {
    ((metadata.dev(), metadata.ino()), metadata.size(), (metadata.mtime(), metadata.mtime_nsec()))
}

/// Location of a file on disk.
#[derive(Debug)]
struct DiskSlot {
    jail: Jail,
    path: ToolPath,
    root: Dir,
    /// Path of the file below `root`.
    below: PathBuf,
    /// Stamp of the file when it was opened.
    stamp: Option<Stamp>,
}

/// Opens the location of a file on disk, and the existing file.
pub(super) fn on_disk(jail: &Jail, path: &ToolPath, max_content: u64) -> Result<Target, Failure> {
    let (root, below) = jail.writable_root(path)?;
    fail_if(below == Path::new("."), || Failure::path(format!("{path} is a folder; name a file in it")))?;
    let file = if_there(jail::open_exact(&root, below)).map_err(|error| refused(jail, path, &error))?;
    let (stamp, existing) = file.map(|file| existing(path, file, max_content)).transpose()?.unzip();
    let slot = DiskSlot { jail: jail.clone(), path: path.clone(), root, below: below.to_path_buf(), stamp };
    Ok(Target::new(path.clone(), existing, Box::new(slot)))
}

impl WriteSlot for DiskSlot {
    fn missing(&self) -> Failure {
        // The jail suggests similar paths.
        self.jail.open_regular(&self.path).err().unwrap_or_else(|| {
            Failure::tool(format!("{} was created in the meantime; read it and retry the call", self.path))
        })
    }

    fn check(&self) -> Result<(), Failure> {
        let (parent, name) = self.parent_and_name();
        self.check_unchanged(parent, &self.open_parent(parent)?, name.as_ref())
    }

    fn replace(&self, content: &[u8], mode: Option<u32>) -> Result<(), Failure> {
        let (parent, name) = self.parent_and_name();
        let folder =
            exact::make_folders(&self.root, parent).map_err(|error| refused(&self.jail, &self.path, &error))?;
        let folder = Dir::from_std_file(folder.into());
        let draft = Draft::new(&self.jail.workspace().root, &folder);
        let written = self
            .write_draft(&folder, draft.name(), content, mode)
            .map_err(|error| Failure::io(&format!("write {}", self.path), &error))
            .and_then(|()| self.check_unchanged(parent, &folder, name.as_ref()))
            .and_then(|()| {
                folder
                    .rename(draft.name(), &folder, name)
                    .map_err(|error| Failure::io(&format!("replace {}", self.path), &error))
            });
        if written.is_err() {
            // The draft may never have been created.
            let _ = folder.remove_file(draft.name());
        }
        written?;
        sync(&folder).map_err(|error| Failure::io(&format!("write {} to the disk", self.path), &error))
    }

    fn remove(&self) -> Result<(), Failure> {
        let (parent, name) = self.parent_and_name();
        let folder = self.open_parent(parent)?;
        self.check_unchanged(parent, &folder, name.as_ref())?;
        folder.remove_file(name).map_err(|error| Failure::io(&format!("remove {}", self.path), &error))?;
        sync(&folder).map_err(|error| Failure::io(&format!("remove {} from the disk", self.path), &error))
    }

    fn remove_empty_folders(&self, created: &[PathBuf]) {
        for folder in created.iter().rev() {
            let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { continue };
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            // Fails for folders that are no longer empty. They stay.
            let _ = self.open_parent(parent).map(|parent| parent.remove_dir(name));
        }
    }

    fn missing_folders(&self) -> Vec<PathBuf> {
        let above = self.below.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let is_missing = |folder: &&Path| {
            self.root.symlink_metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let mut missing: Vec<PathBuf> = above.take_while(is_missing).map(Path::to_path_buf).collect();
        missing.reverse();
        missing
    }
}

impl DiskSlot {
    fn parent_and_name(&self) -> (&Path, &OsStr) {
        let parent = self.below.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        (parent, self.below.file_name().unwrap_or_default())
    }

    fn open_parent(&self, parent: &Path) -> Result<Dir, Failure> {
        let folder = exact::open_below(&self.root, parent, OFlags::RDONLY | OFlags::DIRECTORY);
        let folder = folder.map_err(|error| refused(&self.jail, &self.path, &error))?;
        Ok(Dir::from_std_file(folder.into()))
    }

    fn write_draft(&self, folder: &Dir, draft: &str, content: &[u8], mode: Option<u32>) -> io::Result<()> {
        let mut file = private::file_in(folder, draft, mode.unwrap_or(NEW_FILE))?;
        file.write_all(content)?;
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.sync_all()
    }

    /// Checks that no change made by another program would be lost, and that the folder was not moved away while the
    /// draft was written: the draft would otherwise be renamed in the moved folder.
    fn check_unchanged(&self, parent: &Path, folder: &Dir, name: &Path) -> Result<(), Failure> {
        let identity = |folder: &Dir| {
            folder.dir_metadata().map(|metadata| {
                use cap_std::fs::MetadataExt as _;
                (metadata.dev(), metadata.ino())
            })
        };
        let same_folder = match (identity(folder), identity(&self.open_parent(parent)?)) {
            (Ok(held), Ok(named)) => held == named,
            _ => false,
        };
        let now = jail::open_exact(folder, name).and_then(|file| file.metadata());
        let same_file = match (self.stamp, now) {
            (Some(stamp), Ok(metadata)) => stamp == stamp_of(&metadata),
            (None, Err(error)) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        };
        if same_folder && same_file {
            return Ok(());
        }
        Err(Failure::tool(format!(
            "{} was changed in the meantime, so it was not replaced; read it again and retry the call",
            self.path
        )))
    }
}

fn refused(jail: &Jail, path: &ToolPath, error: &io::Error) -> Failure {
    jail.refused(path, error, |real| {
        format!("write to {real} itself, or change the link with run_bash_command if intended")
    })
}

fn existing(path: &ToolPath, file: fs::File, max_content: u64) -> Result<(Stamp, ExistingFile), Failure> {
    let failed = |error: io::Error| Failure::io(&format!("read {path}"), &error);
    let metadata = file.metadata().map_err(failed)?;
    fail_if(metadata.is_dir(), || Failure::path(format!("{path} is a folder; name a file in it")))?;
    fail_if(!metadata.is_file(), || jail::not_regular(path, metadata.file_type()))?;
    fail_if(metadata.nlink() > 1, || jail::hard_link(path))?;
    let mut content = None;
    if metadata.len() <= max_content {
        let mut bytes = Vec::new();
        file.take(max_content + 1).read_to_end(&mut bytes).map_err(failed)?;
        content = Some(bytes).filter(|bytes| bytes.len() as u64 <= max_content);
    }
    let stamp = stamp_of(&metadata);
    let (identity, size, (seconds, nanoseconds)) = stamp;
    let changed = i32::try_from(nanoseconds).ok().and_then(|nanoseconds| Timestamp::new(seconds, nanoseconds).ok());
    let existing = ExistingFile {
        content,
        size,
        changed,
        identity: Some(identity),
        // Drops the set-user-ID and similar bits: the content that was trusted with these bits is replaced.
        mode: Some(metadata.permissions().mode() & 0o777),
    };
    Ok((stamp, existing))
}

/// Makes a rename in this folder durable.
pub(super) fn sync(folder: &Dir) -> io::Result<()> {
    jail::open_real_folder(folder, ".")?.into_std_file().sync_all()
}
