//! Files in a project's `.agentd/` folder, read completely and only once, so that exactly the hashed files are used.
//!
//! The folder is untrusted. Links that lead outside are not followed, pipes do not block, sizes and counts are
//! limited, and unusable files are reported and skipped.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use agentd_core::project::{PROJECT_FOLDER, ProjectProblem};
use agentd_workspace::{exact, jail, text};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use nix::fcntl::OFlag;

use crate::files::{
    agreed_folder::{self, ProblemList as _},
    disk::{self, DiskAccess, NotCached, Stamp},
    front::SKILL_FILE,
    tree::Tree,
};

/// Name of the instructions file.
pub(crate) const INSTRUCTIONS: &str = "instructions.md";
/// Name of the agents file.
pub(crate) const AGENTS_FILE: &str = "agents.yaml";
/// Subfolders whose contents are used.
pub(crate) const AGENTS: &str = "agents";
pub(crate) const COMMANDS: &str = "commands";
pub(crate) const SKILLS: &str = "skills";

/// Maximum size of a text file, in bytes.
const MAX_TEXT: u64 = 64 << 10;
/// Maximum number of text files per folder, and of skills.
const MAX_FILES: usize = 200;
/// Maximum total size of all files, in bytes.
const MAX_BYTES: u64 = 20 << 20;
/// Maximum total size of text files, in bytes: clients get all of them in one message.
const MAX_TEXTS: u64 = 4 << 20;
/// Maximum total number of files.
const MAX_ALL_FILES: usize = 4000;
/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 300;
/// Maximum number of entries per folder.
const MAX_ENTRIES: usize = 2000;

/// Prefix of the hashed input, to identify its format.
const FORM: &[u8] = b"agentd project 1\0";

/// One file that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolderFile {
    /// Path below `.agentd/`, with slashes.
    pub(crate) path: String,
    /// True if the file's owner may execute it.
    pub(crate) runs: bool,
    pub(crate) content: Vec<u8>,
}

/// Content of a project's `.agentd/` folder.
#[derive(Debug, Default)]
pub(crate) struct ProjectFolder {
    /// Used files, sorted by path.
    pub(crate) files: Vec<FolderFile>,
    /// Names of unused entries.
    pub(crate) ignored: Vec<String>,
    pub(crate) problems: Vec<ProjectProblem>,
    /// Stamps of all files and folders that were read. While the stamps are unchanged, the content is unchanged.
    pub(crate) stamps: FolderStamps,
}

/// Stamps of files and folders, taken before they were read.
#[derive(Debug, Default)]
pub(crate) struct FolderStamps(Vec<(PathBuf, Option<Stamp>)>);

impl FolderStamps {
    /// Returns true if nothing has changed since the read, according to the stamps.
    pub(crate) fn are_current(&self, access: DiskAccess) -> Result<bool, NotCached> {
        for (path, recorded) in &self.0 {
            let now = disk::stamp(path, false, access)?;
            if *recorded != now || now.is_some_and(|now| !now.settled) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn note(&mut self, path: PathBuf) {
        // Paths that cannot be checked are treated as missing, so they are checked again each time.
        let stamp = disk::stamp(&path, false, DiskAccess::Blocking).unwrap_or_default();
        self.0.push((path, stamp));
    }
}

impl ProjectFolder {
    /// Reads the folder. Blocks on the disk.
    pub(crate) fn read(project: &Path) -> Self {
        let (root, found) = (project.join(PROJECT_FOLDER), Self::default());
        let mut reader = Reader { root, found, left: MAX_BYTES, texts_left: MAX_TEXTS };
        reader.found.stamps.note(reader.root.clone());
        match exact::open_folder(&reader.root) {
            Ok(folder) => reader.all(&Dir::from_std_file(folder.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => reader
                .found
                .problems
                .refuse("", "it is not a folder, or its path contains a link; none of its files are used"),
        }
        let mut found = reader.found;
        found.files.sort_by(|left, right| left.path.cmp(&right.path));
        found
    }

    /// Returns the file with this path.
    pub(crate) fn file(&self, path: &str) -> Option<&FolderFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Iterates over the Markdown files in a folder, each with its name.
    pub(crate) fn texts_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a FolderFile)> {
        self.files.iter().filter_map(move |file| {
            let name = file.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".md")?;
            (!name.contains('/')).then_some((name, file))
        })
    }
}

impl FolderFile {
    /// Returns the text of the file. Text files are checked to be UTF-8 when they are read.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.content).unwrap_or_default().trim_start_matches('\u{feff}')
    }
}

/// Type of an entry, without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Folder,
    /// Regular file, or a link that may lead to a file.
    File,
}

struct Reader {
    root: PathBuf,
    found: ProjectFolder,
    /// Number of bytes that may still be read in total, and from text files.
    left: u64,
    texts_left: u64,
}

impl Reader {
    fn all(&mut self, root: &Dir) {
        for (name, kind) in self.entries(root, "") {
            match (name.as_str(), kind) {
                (INSTRUCTIONS | AGENTS_FILE, Kind::File) => self.text(root, &name),
                (AGENTS | COMMANDS, Kind::Folder) => self.texts(root, &name),
                (SKILLS, Kind::Folder) => self.skills(root),
                (INSTRUCTIONS | AGENTS_FILE, Kind::Folder) => {
                    self.found.problems.refuse(&name, "it is a folder, but should be a file")
                }
                (AGENTS | COMMANDS | SKILLS, Kind::File) => {
                    self.found.problems.refuse(&name, "it is not a folder; use a folder, not a link");
                }
                _ => self.found.ignored.push(name),
            }
        }
    }

    /// Returns the entries of a folder, sorted by name.
    fn entries(&mut self, folder: &Dir, below: &str) -> Vec<(String, Kind)> {
        let listed = folder.entries().map(|listed| listed.take(MAX_ENTRIES + 1).collect::<Vec<_>>());
        let listed = listed.unwrap_or_else(|error| {
            self.found.problems.refuse(below, format!("it cannot be listed: {error}"));
            Vec::new()
        });
        if listed.len() > MAX_ENTRIES {
            // Using only the first entries would depend on the order on disk.
            self.found.problems.refuse(below, format!("it has more than {MAX_ENTRIES} entries; none of them are used"));
            return Vec::new();
        }
        let mut entries = Vec::new();
        for entry in listed.into_iter().flatten() {
            let is_plain = |name: &String| !name.contains(|letter: char| letter.is_control() || letter == '\\');
            match entry.file_name().into_string().ok().filter(is_plain) {
                Some(name) => {
                    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                    entries.push((name, if is_folder { Kind::Folder } else { Kind::File }));
                }
                None => self.found.problems.refuse(below, "a name in it is not plain text; rename it"),
            }
        }
        entries.sort();
        entries
    }

    /// Reads the Markdown files directly in a folder.
    fn texts(&mut self, root: &Dir, below: &str) {
        let Some(folder) = self.open_folder(root, below) else { return };
        let mut count = 0;
        for (name, kind) in self.entries(&folder, below) {
            if kind == Kind::Folder || !name.ends_with(".md") {
                continue;
            }
            count += 1;
            if count > MAX_FILES {
                self.found.problems.refuse(below, format!("only its first {MAX_FILES} files are used"));
                return;
            }
            self.text(root, &format!("{below}/{name}"));
        }
    }

    fn skills(&mut self, root: &Dir) {
        let Some(folder) = self.open_folder(root, SKILLS) else { return };
        let mut count = 0;
        for (name, kind) in self.entries(&folder, SKILLS) {
            let below = format!("{SKILLS}/{name}");
            if kind == Kind::File {
                if folder.symlink_metadata(&name).is_ok_and(|found| found.is_symlink()) {
                    self.found.problems.refuse(&below, "it is a link; replace it with the folder itself");
                }
                continue;
            }
            count += 1;
            if count > MAX_FILES {
                self.found.problems.refuse(SKILLS, format!("only its first {MAX_FILES} skills are used"));
                return;
            }
            self.skill(&folder, &name, &below);
        }
    }

    /// Reads all files of a skill, or none.
    fn skill(&mut self, skills: &Dir, name: &str, below: &str) {
        self.note(below);
        let read = jail::open_real_folder(skills, name).and_then(|folder| {
            let tree = Tree::of(&folder)?;
            for path in tree.paths() {
                self.note(&format!("{below}/{}", path.display()));
            }
            if let Some((file, message)) = tree.problems.first() {
                let file = if file.is_empty() { String::new() } else { format!("{file}: ") };
                return Err(io::Error::other(format!("the skill is not used: {file}{message}")));
            }
            if tree.bytes > self.left || tree.count() + self.found.files.len() > MAX_ALL_FILES {
                return Err(too_much());
            }
            if tree.paths().any(|path| below.len() + path.as_os_str().len() >= MAX_PATH) {
                return Err(io::Error::other(format!("a path in it is longer than {MAX_PATH} bytes")));
            }
            tree.read(&folder)
        });
        let files = match read {
            Ok(files) => files,
            Err(error) => return self.found.problems.refuse(below, error.to_string()),
        };
        if !files.iter().any(|(path, ..)| path == Path::new(SKILL_FILE)) {
            return self.found.problems.refuse(below, format!("missing {SKILL_FILE}"));
        }
        for (path, runs, content) in files {
            self.left = self.left.saturating_sub(content.len() as u64);
            let path = format!("{below}/{}", path.display());
            self.found.files.push(FolderFile { path, runs, content });
        }
    }

    fn text(&mut self, root: &Dir, path: &str) {
        self.note(path);
        match self.read_text(root, path) {
            Ok(content) => self.found.files.push(FolderFile { path: path.to_owned(), runs: false, content }),
            Err(error) => self.found.problems.refuse(path, error.to_string()),
        }
    }

    fn read_text(&mut self, root: &Dir, path: &str) -> io::Result<Vec<u8>> {
        let mut options = OpenOptions::new();
        // Opening a pipe would block until its other end is opened.
        options.read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
        let is_link = || root.symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        let opened = root.open_with(path, &options).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other("it is a dangling link; remove it"),
            io::ErrorKind::PermissionDenied if is_link() => {
                io::Error::other("it is a link that leads out of the folder; replace it with a copy of the file")
            }
            _ => io::Error::other(format!("it cannot be read: {error}")),
        })?;
        let file = opened.into_std();
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut content = Vec::new();
        file.take(MAX_TEXT + 1).read_to_end(&mut content)?;
        if content.len() as u64 > MAX_TEXT {
            return Err(io::Error::other(format!("it is larger than {} KiB", MAX_TEXT >> 10)));
        }
        if std::str::from_utf8(&content).map_or(true, |text| text.contains('\0')) {
            return Err(io::Error::other("it is not UTF-8 text"));
        }
        let size = content.len() as u64;
        self.texts_left = self.texts_left.checked_sub(size).ok_or_else(too_much)?;
        self.left = self.left.checked_sub(size).ok_or_else(too_much)?;
        Ok(content)
    }

    fn open_folder(&mut self, root: &Dir, below: &str) -> Option<Dir> {
        self.note(below);
        let opened = jail::open_real_folder(root, below);
        opened.map_err(|error| self.found.problems.refuse(below, format!("it cannot be opened: {error}"))).ok()
    }

    fn note(&mut self, below: &str) {
        let path = self.root.join(below);
        self.found.stamps.note(path);
    }
}

/// Returns the hash over the paths, contents and executable bits of the files. Empty if there are no files.
pub(super) fn hash(files: &[FolderFile]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let hashed = files.iter().map(|file| (&*file.path, file.runs, file.content.len() as u64, &*file.content));
    agreed_folder::hash(FORM, hashed)
}

fn too_much() -> io::Error {
    let (all, texts) = (text::size(MAX_BYTES), text::size(MAX_TEXTS));
    io::Error::other(format!(
        "it is skipped: {PROJECT_FOLDER}/ may have {MAX_ALL_FILES} files and {all} in total, {texts} of it text"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, content: &[u8]) -> FolderFile {
        FolderFile { path: path.to_owned(), runs: false, content: content.to_vec() }
    }

    fn any_files() -> impl Strategy<Value = Vec<FolderFile>> {
        let content = prop::collection::vec(any::<u8>(), 0..20);
        let files = prop::collection::btree_map("[a-z/.]{1,6}", (content, any::<bool>()), 1..6);
        files.prop_map(|files| {
            let file = |(path, (content, runs))| FolderFile { path, runs, content };
            files.into_iter().map(file).collect()
        })
    }

    proptest! {
        #[test]
        fn folder_hash_is_independent_of_file_order(files in any_files(), turned in any::<prop::sample::Index>()) {
            let mut other = files.clone();
            other.rotate_left(turned.index(files.len()));
            prop_assert_eq!(hash(&files), hash(&other));
            other.reverse();
            prop_assert_eq!(hash(&files), hash(&other));
        }

        #[test]
        fn folder_hash_covers_content_names_and_modes(files in any_files(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let whole = hash(&files);
            let changed_index = at.index(files.len());
            let changed = |change: &dyn Fn(&mut FolderFile)| {
                let mut files = files.clone();
                change(&mut files[changed_index]);
                hash(&files)
            };
            prop_assert_ne!(&whole, &changed(&|file| file.path.push('x')));
            prop_assert_ne!(&whole, &changed(&|file| file.runs = !file.runs));
            prop_assert_ne!(&whole, &changed(&|file| file.content.push(0)));
            if !files[changed_index].content.is_empty() {
                let byte = at.index(files[changed_index].content.len());
                prop_assert_ne!(&whole, &changed(&|file| file.content[byte] ^= 1 << bit));
            }
            let mut remaining_files = files.clone();
            remaining_files.remove(changed_index);
            prop_assert_ne!(&whole, &hash(&remaining_files));
        }
    }

    #[test]
    fn folder_hash_separates_names_contents_and_files() {
        let sets = [
            vec![file("a", b"bc")],
            vec![file("ab", b"c")],
            vec![file("a", b"b"), file("c", b"")],
            vec![file("a", b""), file("b", b"c")],
        ];
        let hashes: std::collections::BTreeSet<String> = sets.iter().map(|set| hash(set)).collect();
        assert_eq!(hashes.len(), sets.len());
        assert_eq!(hash(&[]), "");
    }
}
