//! A file about to be written: replaced whole or not at all. How that is done is for its backend: a [`WriteSlot`] is
//! the place of a file as one holds it.
//!
//! On the disk the new content goes to a hidden file in the same folder, to the disk, and takes the name in one step.
//! The mode is kept; owner, access lists and extended attributes are those of a new file.
//!
//! Nothing is written through a link, at the end of the path or on the way: the rules have judged the name that was
//! given, and a link would make that another file. That is seen where the file and its folder are opened, so that a
//! link which is put there since the rules were asked is seen too.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt, PermissionsExt as _},
    path::{Path, PathBuf},
};

use agentd_core::Timestamp;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;

use crate::{
    drafts::Draft,
    encoding::Document,
    exact,
    failure::{Failure, if_there},
    jail::{self, Jail},
    path::ToolPath,
    text,
};

/// File that was there when the target was opened.
#[derive(Debug)]
pub struct Existing {
    /// Its content, unless it is larger than was asked for.
    pub content: Option<Vec<u8>>,
    /// Its size in bytes.
    pub size: u64,
    /// When its content was last changed, as far as anybody can tell.
    pub changed: Option<Timestamp>,
    /// Identity by which two names are known to be of one file, where a file can have two.
    pub(super) identity: Option<(u64, u64)>,
    /// Its permissions, where it has any.
    pub(super) mode: Option<u32>,
}

/// A file that may be written.
#[derive(Debug)]
pub struct Target {
    path: ToolPath,
    /// The permissions that it gets, if not those of any new file.
    mode: Option<u32>,
    pub(super) slot: Box<dyn WriteSlot>,
    /// The file that it replaces.
    pub existing: Option<Existing>,
}

/// The place of a file, as its backend holds it.
pub(crate) trait WriteSlot: std::fmt::Debug + Send {
    /// Puts `content` there whole, with these permissions where there are such, making missing folders.
    ///
    /// # Errors
    /// When something else was put there since it was opened, or it cannot be written.
    fn replace(&self, content: &[u8], mode: Option<u32>) -> Result<(), Failure>;

    /// Removes the file that is there. A removal cannot be seen half done, and lasts once this returns.
    ///
    /// # Errors
    /// When something else was put there since it was opened, or it cannot be removed.
    fn remove(&self) -> Result<(), Failure>;

    /// Error for reading a missing file.
    fn missing(&self) -> Failure;

    /// Refuses to go on where something else was put there since it was opened.
    ///
    /// # Errors
    /// When something was.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// The folders above the file that are not there yet, the outer ones first, where folders are something to make.
    fn missing_folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Removes the folders above the file that are empty and were not there before, as `made` tells.
    fn remove_empty_folders(&self, _made: &[PathBuf]) {}
}

impl Target {
    pub(super) fn new(path: ToolPath, existing: Option<Existing>, slot: Box<dyn WriteSlot>) -> Self {
        let mode = existing.as_ref().and_then(|existing| existing.mode);
        Self { path, mode, slot, existing }
    }

    /// The text that is there. `most` is the size up to which content was asked for.
    pub fn document(&self, most: u64) -> Result<Document, Failure> {
        let path = &self.path;
        let Some(existing) = &self.existing else { return Err(self.slot.missing()) };
        let Some(bytes) = &existing.content else {
            return Err(Failure::tool(format!(
                "{path} has {}; files up to {} are edited, so change it with run_bash_command",
                text::size(existing.size),
                text::size(most)
            )));
        };
        Document::read(bytes.clone()).map_err(|what| {
            Failure::tool(format!("{path} is {what}, not text, and an edit would damage it; use run_bash_command"))
        })
    }

    /// Returns whether both are one file, under one name or two.
    pub fn is_file_of(&self, other: &Self) -> bool {
        let identity = |target: &Self| target.existing.as_ref().and_then(|existing| existing.identity);
        match (identity(self), identity(other)) {
            (Some(one), Some(two)) => one == two,
            _ => self.path == other.path,
        }
    }

    /// Lets a new file have the permissions of another, as one that is moved does.
    pub fn with_mode_of(mut self, other: &Self) -> Self {
        self.mode = other.existing.as_ref().and_then(|existing| existing.mode);
        self
    }

    /// Puts `content` in its place, making missing folders.
    pub fn replace(&self, content: &[u8]) -> Result<(), Failure> {
        self.slot.replace(content, self.mode)
    }

    /// Removes the file that is there.
    pub fn remove(&self) -> Result<(), Failure> {
        self.slot.remove()
    }

    /// The folders above the file that are not there yet, the outer ones first.
    pub fn missing_folders(&self) -> Vec<PathBuf> {
        self.slot.missing_folders()
    }

    /// Removes the folders above the file that are empty and were not there before, as `made` tells.
    pub fn remove_empty_folders(&self, made: &[PathBuf]) {
        self.slot.remove_empty_folders(made);
    }
}

/// Shows whether a file is still the one that was read: its identity, its size, and when it was changed.
type Stamp = ((u64, u64), u64, (i64, i64));

fn stamp_of(metadata: &impl MetadataExt) -> Stamp {
    ((metadata.dev(), metadata.ino()), metadata.size(), (metadata.mtime(), metadata.mtime_nsec()))
}

/// The place of a file on the disk.
#[derive(Debug)]
struct DiskSlot {
    jail: Jail,
    path: ToolPath,
    root: Dir,
    /// Path below `root`.
    below: PathBuf,
    /// Stamp of the file that was there.
    stamp: Option<Stamp>,
}

/// Opens the place of a file on the disk, and the file that is there.
pub(super) fn on_disk(jail: &Jail, path: &ToolPath, max_content: u64) -> Result<Target, Failure> {
    let (root, below) = jail.writable_root(path)?;
    if below == Path::new(".") {
        return Err(Failure::path(format!("{path} is a folder; name a file in it")));
    }
    let file = if_there(jail::open_exact(&root, below)).map_err(|error| refused(jail, path, &error))?;
    let (stamp, existing) = file.map(|file| existing(path, file, max_content)).transpose()?.unzip();
    let slot = DiskSlot { jail: jail.clone(), path: path.clone(), root, below: below.to_path_buf(), stamp };
    Ok(Target::new(path.clone(), existing, Box::new(slot)))
}

impl WriteSlot for DiskSlot {
    fn missing(&self) -> Failure {
        // The jail knows what could have been meant.
        self.jail.open_regular(&self.path).err().unwrap_or_else(|| {
            Failure::tool(format!("{} was made by something else just now; read it and repeat the call", self.path))
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
            // The draft may never have been made; what matters is that none stays.
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

    fn remove_empty_folders(&self, made: &[PathBuf]) {
        for folder in made.iter().rev() {
            let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { continue };
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            // One that is in use by now stays.
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
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if let Some(mode) = mode {
            options.mode(mode);
        }
        let mut file = folder.open_with(draft, &options)?.into_std();
        file.write_all(content)?;
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.sync_all()
    }

    /// A folder that was moved away while the draft was written must not take the file with it, and a change made
    /// by someone else meanwhile must not be lost.
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
            "{} was changed by something else while it was being written, so it was left alone; read it again and \
             repeat the call",
            self.path
        )))
    }
}

fn refused(jail: &Jail, path: &ToolPath, error: &io::Error) -> Failure {
    jail.refused(path, error, |real| {
        format!("write to {real} itself, or change the link with run_bash_command if that is what is wanted")
    })
}

fn existing(path: &ToolPath, file: fs::File, max_content: u64) -> Result<(Stamp, Existing), Failure> {
    let failed = |error: io::Error| Failure::io(&format!("read {path}"), &error);
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(Failure::path(format!("{path} is a folder; name a file in it")));
    }
    if !metadata.is_file() {
        return Err(jail::not_regular(path, metadata.file_type()));
    }
    if metadata.nlink() > 1 {
        return Err(jail::hard_link(path));
    }
    let mut content = None;
    if metadata.len() <= max_content {
        let mut bytes = Vec::new();
        file.take(max_content + 1).read_to_end(&mut bytes).map_err(failed)?;
        content = Some(bytes).filter(|bytes| bytes.len() as u64 <= max_content);
    }
    let stamp = stamp_of(&metadata);
    let (identity, size, (seconds, nanoseconds)) = stamp;
    let changed = i32::try_from(nanoseconds).ok().and_then(|nanoseconds| Timestamp::new(seconds, nanoseconds).ok());
    let existing = Existing {
        content,
        size,
        changed,
        identity: Some(identity),
        // Set-user-id and the like are dropped: the content is no longer what was trusted with them.
        mode: Some(metadata.permissions().mode() & 0o777),
    };
    Ok((stamp, existing))
}

/// Makes a rename in this folder last.
pub(super) fn sync(folder: &Dir) -> io::Result<()> {
    jail::open_real_folder(folder, ".")?.into_std_file().sync_all()
}
