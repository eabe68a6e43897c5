//! Copies a session's own files for another session.
//!
//! Commands of the session may run meanwhile and change what is there, so nothing is trusted: every folder and file is
//! opened as itself, through no link, and looked at once it is open. What has several names is left out, as the jail
//! would not open it either. The data is copied by the kernel, which shares it where the file system can.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
};

use agentd_core::{context::HistoryFile, files::FilesCopied, ports::ArtifactDir};
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};
use nix::fcntl::OFlag;

use super::jail;

/// Limits of copying a session.
const MOST: FilesCopied = FilesCopied { files: 10_000, bytes: 1 << 30, left_out: 0 };
/// Maximum nesting of folders.
const MAX_DEPTH: usize = 32;
/// Prefix of files that the daemon is writing.
pub(super) const DRAFT: &str = ".agentd-";

/// Copies files that tools may have made and those stored for them to read. `temp/` is dropped, and skills are linked
/// anew.
pub fn copy(from: &Dir, to: &Dir, history: Option<&HistoryFile>) -> io::Result<FilesCopied> {
    let mut copying = Copying { done: FilesCopied::default(), folders: 0 };
    // What the history leads to comes first, so that nothing else takes its room.
    if let Some(history) = history
        && let Some((from, to)) = both(from, to, ArtifactDir::ConversationHistory.folder())?
    {
        copying.file(&from, &to, OsStr::new(&history.name), history.bytes)?;
    }
    for area in [ArtifactDir::LargeToolResults.folder(), "uploads", "outputs"] {
        if let Some((from, to)) = both(from, to, area)? {
            copying.folder(&from, &to, 0)?;
        }
    }
    // One wait for the disk, however many files there are.
    rustix::fs::syncfs(to)?;
    Ok(copying.done)
}

/// A folder here and there, unless something else is in its place.
fn both(from: &Dir, to: &Dir, name: impl AsRef<std::path::Path>) -> io::Result<Option<(Dir, Dir)>> {
    let Ok(from) = jail::open_real_folder(from, &name) else { return Ok(None) };
    Ok(Some((from, jail::open_real_folder(to, &name)?)))
}

struct Copying {
    done: FilesCopied,
    /// Folders that were made. There are never more than files may be.
    folders: u64,
}

impl Copying {
    fn folder(&mut self, from: &Dir, to: &Dir, depth: usize) -> io::Result<()> {
        // One that cannot be looked into keeps nothing else from being copied.
        let Ok(entries) = from.entries() else {
            self.done.left_out += 1;
            return Ok(());
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(DRAFT) {
                continue;
            }
            // What the entry says may be different a moment later; what is opened decides.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < MAX_DEPTH && self.folders < MOST.files => {
                    self.folders += 1;
                    let mut private = DirBuilder::new();
                    private.mode(0o700);
                    to.create_dir_with(&name, &private)?;
                    match both(from, to, &name)? {
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

    /// Copies one file, or its first bytes.
    fn file(&mut self, from: &Dir, to: &Dir, name: &OsStr, most: Option<u64>) -> io::Result<()> {
        let Some(source) = open(from, name) else {
            self.done.left_out += 1;
            return Ok(());
        };
        let metadata = source.metadata()?;
        let size = metadata.len().min(most.unwrap_or(u64::MAX));
        let room = MOST.bytes.saturating_sub(self.done.bytes);
        if !metadata.is_file() || metadata.nlink() > 1 || size > room || self.done.files >= MOST.files {
            self.done.left_out += 1;
            return Ok(());
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode((metadata.mode() & 0o700) | 0o600);
        let mut target = to.open_with(name, &options)?.into_std();
        self.done.bytes += io::copy(&mut source.take(size), &mut target)?;
        self.done.files += 1;
        if let Ok(modified) = metadata.modified() {
            target.set_modified(modified)?;
        }
        Ok(())
    }
}

pub(super) fn open(folder: &Dir, name: &OsStr) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    folder.open_with(name, &options).ok().map(cap_std::fs::File::into_std)
}
