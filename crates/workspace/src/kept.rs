//! Files that the daemon stores in a session's tree for tools to read: results too large for the window, and history.
//!
//! Tools cannot write there and the sandbox lets no command do it. Without the sandbox a command could: so nothing that
//! stands there is trusted. No link is followed, and no file that has another name is added to.

use std::{
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use agentd_core::ports::ArtifactDir;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};
use nix::fcntl::OFlag;

use super::{drafts::Draft, jail, target};

/// Keeps a text below the root of a session's tree, which has this path.
pub fn keep(session: &Path, root: &Dir, area: ArtifactDir, name: &str, content: &[u8]) -> io::Result<()> {
    let folder = open(root, area)?;
    replace(session, &folder, name, content)?;
    target::sync(&folder)
}

/// Adds to a text after its first bytes, and returns its length.
pub fn keep_on(root: &Dir, area: ArtifactDir, name: &str, from: Option<u64>, content: &[u8]) -> io::Result<u64> {
    let folder = open(root, area)?;
    let bytes = append(&folder, name, from, content)?;
    target::sync(&folder)?;
    Ok(bytes)
}

/// Opens the folder of an area. Nothing else belongs in its place, so anything found there is removed.
fn open(root: &Dir, area: ArtifactDir) -> io::Result<Dir> {
    match jail::open_real_folder(root, area.folder()) {
        Err(error) if is_no_folder(&error) => root.remove_file(area.folder())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let mut private = DirBuilder::new();
    private.mode(0o700);
    root.create_dir_with(area.folder(), &private)?;
    jail::open_real_folder(root, area.folder())
}

fn is_no_folder(error: &io::Error) -> bool {
    use nix::errno::Errno;
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOTDIR | Errno::ELOOP))
}

/// Atomic for readers: they find the old text or the new one, whole.
fn replace(session: &Path, folder: &Dir, name: &str, content: &[u8]) -> io::Result<()> {
    let draft = Draft::new(session, folder);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = folder.open_with(draft.name(), &options).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        folder.rename(draft.name(), folder, name)
    });
    if written.is_err() {
        // The draft may never have been made; what matters is that none stays.
        let _ = folder.remove_file(draft.name());
    }
    written
}

/// Appends to a file. Its earlier content is never written again, so that it costs the same however long it is.
fn append(folder: &Dir, name: &str, from: Option<u64>, content: &[u8]) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    let mut file = folder.open_with(name, &options)?.into_std();
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else has that name"));
    }
    // One that is shorter has lost what nobody can bring back.
    if let Some(from) = from.filter(|from| *from < metadata.len()) {
        file.set_len(from)?;
    }
    file.write_all(content)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}
