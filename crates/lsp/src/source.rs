//! File access in a project that never follows links, because commands in the sandbox may have created links.

use std::{
    fs::{File, Metadata},
    io::Read as _,
    path::{Component, Path},
    sync::Arc,
    time::SystemTime,
};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Maximum size of a file that is sent to a server, in bytes.
const MAX_FILE: u64 = 1 << 20;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Content of a file, if it can be sent to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Text with the stamp from the time when the file was opened, so that a concurrent change is detected later.
    Text(Arc<str>, Stamp),
    /// The file does not exist.
    Absent,
    /// The file is too large, not UTF-8, or not a readable regular file.
    Unreadable,
}

/// Metadata that reveals a change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
}

/// Returns the current stamp of a file, or `None` if the file does not exist.
pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    path.symlink_metadata().ok().map(|found| Stamp::of(&found))
}

impl Stamp {
    /// Creates the stamp from a file's metadata.
    pub(crate) fn of(found: &Metadata) -> Self {
        Self { modified: found.modified().ok(), size: found.len() }
    }
}

/// Reads a file in a folder. May block.
pub(crate) fn read(folder: &Path, below: &Path) -> Content {
    match open(folder, below) {
        Ok(Some(file)) => read_content(file).unwrap_or(Content::Unreadable),
        Ok(None) => Content::Unreadable,
        Err(rustix::io::Errno::NOENT) => Content::Absent,
        Err(_) => Content::Unreadable,
    }
}

fn open(folder: &Path, below: &Path) -> rustix::io::Result<Option<File>> {
    let mut opened = openat(CWD, folder, FOLDER, Mode::empty())?;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Ok(None) };
        let flags = if parts.peek().is_some() { FOLDER } else { FILE };
        opened = openat(&opened, name, flags, Mode::empty())?;
    }
    Ok(Some(opened.into()))
}

fn read_content(file: File) -> Option<Content> {
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() > MAX_FILE {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_FILE {
        return None;
    }
    String::from_utf8(bytes).ok().map(|text| Content::Text(text.into(), Stamp::of(&found)))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn links_and_large_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("src")).unwrap();
        fs::write(root.join("src/a.py"), "x = 1\n").unwrap();
        fs::write(root.join("latin.py"), b"\xe4").unwrap();
        fs::write(root.join("large.py"), vec![b'x'; MAX_FILE as usize + 1]).unwrap();
        symlink("src/a.py", root.join("link.py")).unwrap();
        symlink("src", root.join("lib")).unwrap();
        let check = |below: &str, expected: Content| assert_eq!(read(root, Path::new(below)), expected, "{below}");
        let found = stamp(&root.join("src/a.py")).unwrap();
        check("src/a.py", Content::Text("x = 1\n".into(), found));
        check("src/b.py", Content::Absent);
        for below in ["latin.py", "large.py", "link.py", "lib/a.py", "../a.py", "src"] {
            check(below, Content::Unreadable);
        }
    }
}
