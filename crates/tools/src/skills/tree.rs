//! The files of a skill: looked through as a whole before any of them is taken, and copied into a session.
//!
//! A skill may be anybody's work. It is small, made of files and folders, and none of its links leads out of it; what
//! is otherwise is refused with the name of the file. Its copy holds plain files only, so nothing of it changes under a
//! session's eyes, and nothing that a session sees leads back to where it came from.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

use crate::text;

/// Maximum size of a skill, in bytes.
pub(crate) const MAX_BYTES: u64 = 10 << 20;
/// Maximum number of files and folders of a skill.
const MAX_ENTRIES: usize = 2000;
/// Maximum nesting of its folders.
const MAX_DEPTH: usize = 16;
/// Maximum number of reported problems.
const MAX_TOLD: usize = 20;

/// Names that are no part of a skill at any depth: leftovers of tools.
const PASSED_OVER: [&str; 6] = [".git", ".DS_Store", "__pycache__", ".venv", "node_modules", ".pytest_cache"];

/// Files of a skill.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Sorted by path.
    files: Vec<TreeFile>,
    /// Each before those in it.
    folders: Vec<PathBuf>,
    pub(crate) bytes: u64,
    /// Obstacles to its use: a file, or none where the whole is meant, and a sentence.
    pub(crate) problems: Vec<(String, String)>,
}

#[derive(Debug)]
struct TreeFile {
    path: PathBuf,
    size: u64,
    modified: (i64, i64),
    runs: bool,
}

impl Tree {
    /// Looks through a folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn of(folder: &Dir) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.visit(folder, folder, Path::new(""), 0)?;
        tree.files.sort_by(|left, right| left.path.cmp(&right.path));
        if tree.bytes > MAX_BYTES {
            let (has, may) = (text::size(tree.bytes), text::size(MAX_BYTES));
            let message = format!("the skill has {has} and may have {may}: leave out what can be fetched or made");
            tree.problems.insert(0, (String::new(), message));
        }
        tree.problems.truncate(MAX_TOLD);
        Ok(tree)
    }

    /// Number of its files.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// The same as long as nothing of it has changed.
    pub(crate) fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for TreeFile { path, size, modified, runs } in &self.files {
            digest.update(path.as_os_str().as_encoded_bytes());
            digest.update(format!("\0{size} {} {} {runs}\0", modified.0, modified.1));
        }
        digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    fn visit(&mut self, root: &Dir, folder: &Dir, below: &Path, depth: usize) -> io::Result<()> {
        for entry in folder.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            if PASSED_OVER.iter().any(|passed| name == *passed) {
                continue;
            }
            let path = below.join(&name);
            if self.files.len() + self.folders.len() >= MAX_ENTRIES {
                self.problem(Path::new(""), format!("the skill has more than {MAX_ENTRIES} files and folders"));
                return Ok(());
            }
            let is_plain = |name: &str| !name.contains(|letter: char| letter.is_control() || letter == '\\');
            if !name.to_str().is_some_and(is_plain) {
                self.problem(&path, "its name is not plain text; rename it");
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() && depth >= MAX_DEPTH {
                self.problem(&path, format!("its folders stand deeper than {MAX_DEPTH} in each other"));
            } else if kind.is_dir() {
                self.folders.push(path.clone());
                self.visit(root, &entry.open_dir()?, &path, depth + 1)?;
            } else if kind.is_symlink() {
                self.link(root, path);
            } else if kind.is_file() {
                self.file(path, &entry.metadata()?);
            } else {
                self.problem(&path, "it is a pipe, socket or device; a skill is made of files and folders");
            }
        }
        Ok(())
    }

    /// A link is what it leads to, where that is a file of the skill.
    fn link(&mut self, root: &Dir, path: PathBuf) {
        match root.metadata(&path) {
            Ok(metadata) if metadata.is_file() => self.file(path, &metadata),
            Ok(_) => self.problem(&path, "it is a link to a folder; put the folder itself there"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.problem(&path, "it is a link to nothing; remove it");
            }
            Err(_) => self.problem(&path, "it is a link that leads out of the skill; put a copy of the file there"),
        }
    }

    fn file(&mut self, path: PathBuf, metadata: &Metadata) {
        self.bytes = self.bytes.saturating_add(metadata.len());
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        self.files.push(TreeFile { path, size: metadata.len(), modified, runs: metadata.mode() & 0o100 != 0 });
    }

    fn problem(&mut self, path: &Path, message: impl Into<String>) {
        let shown = path.to_string_lossy().replace(char::is_control, "\u{fffd}");
        self.problems.push((shown, message.into()));
    }

    /// The paths of its folders and files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path).chain(self.files.iter().map(|file| file.path.as_path()))
    }

    /// Reads all of its files: the path, the right to run and the content of each, sorted by path.
    ///
    /// # Errors
    /// When something cannot be read, or is no longer as it was.
    pub(crate) fn read(&self, from: &Dir) -> io::Result<Vec<(PathBuf, bool, Vec<u8>)>> {
        let mut left = MAX_BYTES;
        let mut files = Vec::new();
        for TreeFile { path, runs, .. } in &self.files {
            let mut content = Vec::new();
            open_file(from, path)?.take(left + 1).read_to_end(&mut content)?;
            left = left.checked_sub(content.len() as u64).ok_or_else(grown)?;
            files.push((path.clone(), *runs, content));
        }
        Ok(files)
    }

    /// Copies all of it into a folder that is empty.
    ///
    /// # Errors
    /// When something cannot be read or written, or is no longer as it was.
    pub(crate) fn copy(&self, from: &Dir, to: &Dir) -> io::Result<()> {
        let mut private = DirBuilder::new();
        private.mode(0o700);
        for folder in &self.folders {
            to.create_dir_with(folder, &private)?;
        }
        let mut left = MAX_BYTES;
        for TreeFile { path, runs, .. } in &self.files {
            let source = open_file(from, path)?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(if *runs { 0o700 } else { 0o600 });
            let mut target = to.open_with(path, &options)?.into_std();
            // It may have grown since it was looked at.
            let copied = io::copy(&mut source.take(left + 1), &mut target)?;
            left = left.checked_sub(copied).ok_or_else(grown)?;
        }
        Ok(())
    }
}

/// Opens a file of a skill, without waiting for the other end of a pipe.
fn open_file(from: &Dir, path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    let opened = from.open_with(path, &options)?.into_std();
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is not a file any more", path.display())));
    }
    Ok(opened)
}

fn grown() -> io::Error {
    io::Error::other("the skill has grown meanwhile")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn open(path: &Path) -> Dir {
        Dir::open_ambient_dir(path, cap_std::ambient_authority()).unwrap()
    }

    fn skill() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("scripts/deep")).unwrap();
        fs::create_dir_all(folder.path().join(".git/objects")).unwrap();
        fs::write(folder.path().join(".git/objects/x"), "x").unwrap();
        fs::write(folder.path().join("SKILL.md"), "---\ndescription: x\n---\n").unwrap();
        fs::write(folder.path().join("scripts/deep/run.py"), "print(1)\n").unwrap();
        folder
    }

    #[test]
    fn a_copy_holds_plain_files_and_nothing_that_tools_left() {
        let from = skill();
        symlink("../SKILL.md", from.path().join("scripts/again.md")).unwrap();
        let tree = Tree::of(&open(from.path())).unwrap();
        assert_eq!((tree.count(), tree.problems.len()), (3, 0), "{tree:?}");
        let to = tempfile::tempdir().unwrap();
        tree.copy(&open(from.path()), &open(to.path())).unwrap();
        assert_eq!(fs::read_to_string(to.path().join("scripts/deep/run.py")).unwrap(), "print(1)\n");
        assert!(fs::symlink_metadata(to.path().join("scripts/again.md")).unwrap().is_file());
        assert!(!to.path().join(".git").exists());
        let before = tree.digest();
        fs::write(from.path().join("scripts/deep/run.py"), "print(22)\n").unwrap();
        assert_ne!(Tree::of(&open(from.path())).unwrap().digest(), before);
    }

    #[test]
    fn what_leads_out_or_is_no_file_is_told() {
        let from = skill();
        let outside = tempfile::NamedTempFile::new().unwrap();
        symlink(outside.path(), from.path().join("absolute")).unwrap();
        symlink("../../../../../../etc/passwd", from.path().join("scripts/climbs")).unwrap();
        symlink("nowhere", from.path().join("broken")).unwrap();
        symlink("scripts", from.path().join("folder")).unwrap();
        nix::unistd::mkfifo(&from.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let tree = Tree::of(&open(from.path())).unwrap();
        let mut told: Vec<String> =
            tree.problems.iter().map(|(file, message)| format!("{file}: {}", &message[..22])).collect();
        told.sort();
        assert_eq!(
            told,
            [
                "absolute: it is a link that lead",
                "broken: it is a link to nothin",
                "folder: it is a link to a fold",
                "pipe: it is a pipe, socket o",
                "scripts/climbs: it is a link that lead",
            ]
        );
    }

    #[test]
    fn eleven_megabytes_are_too_many() {
        let from = skill();
        fs::File::create(from.path().join("large.bin")).unwrap().set_len(11 << 20).unwrap();
        let tree = Tree::of(&open(from.path())).unwrap();
        assert!(tree.problems[0].1.contains("may have 10.0 MB"), "{:?}", tree.problems);
    }
}
