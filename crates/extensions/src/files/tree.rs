//! Scans the files of a skill or plugin as a whole before any of them is used, and copies them.
//!
//! Skills are untrusted. A skill must be small, consist of files and folders, and have no link that leads outside.
//! Anything else is rejected with the name of the file. A copy only contains regular files, so it does not change
//! during a session, and does not lead back to its source.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use agentd_workspace::{private, text};
use cap_std::fs::{Dir, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

/// Maximum nesting of folders.
const MAX_DEPTH: usize = 16;
/// Maximum number of reported problems.
const MAX_LISTED: usize = 20;

/// Limits for one kind of tree.
#[derive(Debug)]
pub(crate) struct TreeKind {
    /// Name of the kind, for messages.
    pub(crate) noun: &'static str,
    /// Maximum total size, in bytes.
    pub(crate) max_bytes: u64,
    /// Maximum number of files and folders.
    pub(crate) max_entries: usize,
    /// Names ignored at any depth: leftovers from other tools.
    pub(crate) ignored_names: &'static [&'static str],
    /// True to skip dangling links and links to folders inside the tree, instead of rejecting the tree.
    pub(crate) skips_links: bool,
}

/// Limits for a skill's files.
pub(crate) static SKILL_TREE: TreeKind = TreeKind {
    noun: "skill",
    max_bytes: 10 << 20,
    max_entries: 2000,
    ignored_names: &[".git", ".DS_Store", "__pycache__", ".venv", "node_modules", ".pytest_cache"],
    skips_links: false,
};

/// Files of a skill or plugin.
#[derive(Debug)]
pub(crate) struct Tree {
    kind: &'static TreeKind,
    /// Files, sorted by path.
    files: Vec<TreeFile>,
    /// Folders, parents before children.
    folders: Vec<PathBuf>,
    pub(crate) bytes: u64,
    /// Problems that prevent the use of the tree: the file, or an empty string for the whole tree, and a message.
    pub(crate) problems: Vec<(String, String)>,
    /// Skipped links, in the same form.
    pub(crate) left_out: Vec<(String, String)>,
}

#[derive(Debug)]
struct TreeFile {
    path: PathBuf,
    size: u64,
    modified: (i64, i64),
    runs: bool,
}

impl Tree {
    /// Scans the folder of a skill.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub(crate) fn of(folder: &Dir) -> io::Result<Self> {
        Self::of_kind(folder, &SKILL_TREE)
    }

    /// Scans a folder of this kind.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub(crate) fn of_kind(folder: &Dir, kind: &'static TreeKind) -> io::Result<Self> {
        let (files, folders, problems, left_out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut tree = Self { kind, files, folders, bytes: 0, problems, left_out };
        tree.visit(folder, folder, Path::new(""), 0)?;
        tree.files.sort_by(|left, right| left.path.cmp(&right.path));
        if tree.bytes > kind.max_bytes {
            let (noun, has, may) = (kind.noun, text::size(tree.bytes), text::size(kind.max_bytes));
            let message = format!(
                "the {noun} has {has}, and the limit is {may}: remove files that can be downloaded or generated"
            );
            tree.problems.insert(0, (String::new(), message));
        }
        tree.problems.truncate(MAX_LISTED);
        tree.left_out.truncate(MAX_LISTED);
        Ok(tree)
    }

    /// Returns the number of files in the tree.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// Returns a digest of paths, sizes and times, which changes if a file changes.
    pub(crate) fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for TreeFile { path, size, modified, runs } in &self.files {
            digest.update(path.as_os_str().as_encoded_bytes());
            digest.update(format!("\0{size} {} {} {runs}\0", modified.0, modified.1));
        }
        text::hex(&digest.finalize()[..16])
    }

    fn visit(&mut self, root: &Dir, folder: &Dir, below: &Path, depth: usize) -> io::Result<()> {
        for entry in folder.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            if self.kind.ignored_names.iter().any(|passed| name == *passed) {
                continue;
            }
            let path = below.join(&name);
            let TreeKind { noun, max_entries, .. } = self.kind;
            if self.files.len() + self.folders.len() >= *max_entries {
                self.problem(Path::new(""), format!("the {noun} has more than {max_entries} files and folders"));
                return Ok(());
            }
            let is_plain = |name: &str| !name.contains(|letter: char| letter.is_control() || letter == '\\');
            if !name.to_str().is_some_and(is_plain) {
                self.problem(&path, "its name is not plain text; rename it");
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() && depth >= MAX_DEPTH {
                self.problem(&path, format!("its folders are nested more than {MAX_DEPTH} deep"));
            } else if kind.is_dir() {
                self.folders.push(path.clone());
                self.visit(root, &entry.open_dir()?, &path, depth + 1)?;
            } else if kind.is_symlink() {
                self.link(root, path);
            } else if kind.is_file() {
                self.file(path, &entry.metadata()?);
            } else {
                self.problem(
                    &path,
                    format!("it is a pipe, socket or device; a {noun} may contain only files and folders"),
                );
            }
        }
        Ok(())
    }

    /// Adds a link as a copy of its target, if the target is a file in the tree.
    fn link(&mut self, root: &Dir, path: PathBuf) {
        let noun = self.kind.noun;
        match root.metadata(&path) {
            Ok(metadata) if metadata.is_file() => self.file(path, &metadata),
            Ok(metadata) if metadata.is_dir() => {
                self.unusable_link(&path, "it is a link to a folder; replace it with the folder itself");
            }
            Ok(_) => self.problem(
                &path,
                format!("it is a link to something other than a file; a {noun} may contain only files and folders"),
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.unusable_link(&path, "it is a dangling link; remove it");
            }
            Err(_) => {
                self.problem(
                    &path,
                    format!("it is a link that leads out of the {noun}; replace it with a copy of the file"),
                );
            }
        }
    }

    fn file(&mut self, path: PathBuf, metadata: &Metadata) {
        self.bytes = self.bytes.saturating_add(metadata.len());
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        self.files.push(TreeFile { path, size: metadata.len(), modified, runs: metadata.mode() & 0o100 != 0 });
    }

    fn problem(&mut self, path: &Path, message: impl Into<String>) {
        self.problems.push((display_path(path), message.into()));
    }

    fn unusable_link(&mut self, path: &Path, message: &str) {
        if self.kind.skips_links {
            self.left_out.push((display_path(path), message.to_owned()));
        } else {
            self.problem(path, message);
        }
    }

    /// Iterates over the paths of all folders and files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path).chain(self.files.iter().map(|file| file.path.as_path()))
    }

    /// Reads all files: path, executable bit and content of each, sorted by path.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or has changed since the scan.
    pub(crate) fn read(&self, from: &Dir) -> io::Result<Vec<(PathBuf, bool, Vec<u8>)>> {
        let mut files = Vec::new();
        self.each(from, |path, runs, content| {
            files.push((path.to_path_buf(), runs, content));
            Ok(())
        })?;
        Ok(files)
    }

    /// Reads the files one by one, like [`Self::read`].
    ///
    /// # Errors
    /// Fails if a file cannot be read, or has changed since the scan. Errors from `on_file` are returned.
    pub(crate) fn each(
        &self,
        from: &Dir,
        mut on_file: impl FnMut(&Path, bool, Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut left = self.kind.max_bytes;
        for TreeFile { path, runs, .. } in &self.files {
            let mut content = Vec::new();
            open_file(from, path)?.take(left + 1).read_to_end(&mut content)?;
            // The file may have grown since the scan.
            let grown = || io::Error::other(format!("the {} grew after it was scanned", self.kind.noun));
            left = left.checked_sub(content.len() as u64).ok_or_else(grown)?;
            on_file(path, *runs, content)?;
        }
        Ok(())
    }

    /// Copies the tree into an empty folder.
    ///
    /// # Errors
    /// Fails if a file cannot be read or written, or has changed since the scan.
    pub(crate) fn copy(&self, from: &Dir, to: &Dir) -> io::Result<()> {
        for folder in &self.folders {
            private::folder_in(to, folder)?;
        }
        self.each(from, |path, runs, content| {
            private::file_in(to, path, if runs { 0o700 } else { 0o600 })?.write_all(&content)
        })
    }
}

fn display_path(path: &Path) -> String {
    path.to_string_lossy().replace(char::is_control, "\u{fffd}")
}

/// Opens a file of the tree, without blocking on pipes.
fn open_file(from: &Dir, path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    let opened = from.open_with(path, &options)?.into_std();
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is no longer a file", path.display())));
    }
    Ok(opened)
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
    fn copy_has_plain_files_without_tool_leftovers() {
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
    fn outside_links_and_special_files_are_reported() {
        let from = skill();
        let outside = tempfile::NamedTempFile::new().unwrap();
        symlink(outside.path(), from.path().join("absolute")).unwrap();
        symlink("../../../../../../etc/passwd", from.path().join("scripts/climbs")).unwrap();
        symlink("nowhere", from.path().join("broken")).unwrap();
        symlink("scripts", from.path().join("folder")).unwrap();
        nix::unistd::mkfifo(&from.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let tree = Tree::of(&open(from.path())).unwrap();
        let mut listed: Vec<String> =
            tree.problems.iter().map(|(file, message)| format!("{file}: {}", &message[..22])).collect();
        listed.sort();
        assert_eq!(
            listed,
            [
                "absolute: it is a link that lead",
                "broken: it is a dangling link;",
                "folder: it is a link to a fold",
                "pipe: it is a pipe, socket o",
                "scripts/climbs: it is a link that lead",
            ]
        );
    }

    #[test]
    fn tree_above_ten_megabytes_is_rejected() {
        let from = skill();
        fs::File::create(from.path().join("large.bin")).unwrap().set_len(11 << 20).unwrap();
        let tree = Tree::of(&open(from.path())).unwrap();
        assert!(tree.problems[0].1.contains("the limit is 10.0 MB"), "{:?}", tree.problems);
    }
}
