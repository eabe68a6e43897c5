//! A file about to be written: replaced whole or not at all.
//!
//! The new content goes to a hidden file in the same folder, to the disk, and takes the name in one step. Mode and
//! a link inside the same writable folder are kept; owner, access lists and extended attributes are those of a new
//! file.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt, PermissionsExt as _},
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use super::{
    jail::{self, Jail},
    path::ToolPath,
};
use crate::failure::Failure;

/// What was there when the target was opened.
#[derive(Debug)]
pub(crate) struct Existing {
    /// Its content, unless it is larger than was asked for.
    pub(crate) content: Option<Vec<u8>>,
    /// Its size in bytes.
    pub(crate) size: u64,
    stamp: Stamp,
    mode: u32,
}

/// Tells whether a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &impl MetadataExt) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// A file that may be written.
#[derive(Debug)]
pub(crate) struct Target {
    jail: Jail,
    path: ToolPath,
    root: Dir,
    /// Where it is below `root`, links at the end resolved.
    below: PathBuf,
    /// What it replaces.
    pub(crate) existing: Option<Existing>,
}

impl Target {
    /// Opens the place of a file, and the file that is there, if its content has at most `max_content` bytes.
    pub(crate) fn open(jail: &Jail, path: &ToolPath, max_content: u64) -> Result<Self, Failure> {
        let (root, below) = jail.writable_root(path)?;
        if below == Path::new(".") {
            return Err(Failure::path(format!("{path} is a folder; name a file in it")));
        }
        let refused = |error: &io::Error| jail.refused(path, error);
        let below = match root.symlink_metadata(below) {
            Ok(metadata) if metadata.is_symlink() => root.canonicalize(below).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Failure::path(format!("{path} is a link to a file that is not there; write to that file itself"))
                }
                _ => refused(&error),
            })?,
            Ok(_) => below.to_path_buf(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => below.to_path_buf(),
            Err(error) => return Err(refused(&error)),
        };
        let existing = match root.open_with(&below, &jail::reading()) {
            Ok(file) => Some(existing(path, file.into_std(), max_content)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refused(&error)),
        };
        Ok(Self { jail: jail.clone(), path: path.clone(), root, below, existing })
    }

    /// Puts `content` in its place, making missing folders.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<(), Failure> {
        let parent = self.below.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = self.below.file_name().unwrap_or_default();
        self.root.create_dir_all(parent).map_err(|error| self.refused(&error))?;
        let folder = self.open_parent(parent)?;
        let draft = format!(".agentd-{}.tmp", uuid::Uuid::new_v4().simple());
        let written = self
            .write_draft(&folder, &draft, content)
            .map_err(|error| Failure::io(&format!("write {}", self.path), &error))
            .and_then(|()| self.check_unchanged(parent, &folder, name.as_ref()))
            .and_then(|()| {
                folder
                    .rename(&draft, &folder, name)
                    .map_err(|error| Failure::io(&format!("replace {}", self.path), &error))
            });
        if written.is_err() {
            // The draft may never have been made; what matters is that none stays.
            let _ = folder.remove_file(&draft);
        }
        written?;
        sync(&folder).map_err(|error| Failure::io(&format!("write {} to the disk", self.path), &error))
    }

    fn open_parent(&self, parent: &Path) -> Result<Dir, Failure> {
        self.root.open_dir(parent).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &io::Error) -> Failure {
        self.jail.refused(&self.path, error)
    }

    fn write_draft(&self, folder: &Dir, draft: &str, content: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if let Some(existing) = &self.existing {
            options.mode(existing.mode);
        }
        let mut file = folder.open_with(draft, &options)?.into_std();
        file.write_all(content)?;
        if let Some(existing) = &self.existing {
            file.set_permissions(fs::Permissions::from_mode(existing.mode))?;
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
        let now = folder.open_with(name, &jail::reading()).and_then(|file| file.into_std().metadata());
        let same_file = match (&self.existing, now) {
            (Some(existing), Ok(metadata)) => existing.stamp == Stamp::of(&metadata),
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

fn existing(path: &ToolPath, file: fs::File, max_content: u64) -> Result<Existing, Failure> {
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
    Ok(Existing {
        content,
        size: metadata.len(),
        stamp: Stamp::of(&metadata),
        // Set-user-id and the like are dropped: the content is no longer what was trusted with them.
        mode: metadata.permissions().mode() & 0o777,
    })
}

/// Makes a rename in this folder last.
pub(super) fn sync(folder: &Dir) -> io::Result<()> {
    jail::open_real_folder(folder, ".")?.into_std_file().sync_all()
}
