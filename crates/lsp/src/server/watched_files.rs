//! Detection of changes to files that a server depends on. The server cannot watch these files inside its sandbox.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
};

use super::DiskChange;
use crate::{config::ServerConfig, source::Stamp};

/// Maximum number of files and folders per scan.
const MAX_SCANNED: usize = 20_000;
/// Maximum number of tracked files.
const MAX_FILES: usize = 5000;
/// Folders of generated files, in addition to hidden folders.
const GENERATED_FOLDERS: [&str; 5] = ["node_modules", "target", "__pycache__", "venv", "site-packages"];

/// Stamps of the files at the last scan, by path relative to the project.
#[derive(Debug, Default)]
pub(super) struct WatchedFiles {
    stamps: BTreeMap<PathBuf, Stamp>,
    /// True if a limit was exceeded.
    is_cut: bool,
}

impl WatchedFiles {
    /// Scans the files of a server's kind under the server's root. May block.
    pub(super) fn scan(config: &ServerConfig, folder: &Path, root: &Path) -> Self {
        let mut watched = Self::default();
        let mut left = MAX_SCANNED;
        // Breadth first, to prefer files near the root.
        let mut folders = VecDeque::from([root.to_owned()]);
        while let Some(below) = folders.pop_front().filter(|_| !watched.is_cut) {
            watched.list(config, folder, &below, &mut folders, &mut left);
        }
        watched
    }

    fn list(
        &mut self,
        config: &ServerConfig,
        folder: &Path,
        below: &Path,
        folders: &mut VecDeque<PathBuf>,
        left: &mut usize,
    ) {
        let Ok(entries) = folder.join(below).read_dir() else { return };
        for entry in entries.flatten() {
            if *left == 0 || self.stamps.len() >= MAX_FILES {
                self.is_cut = true;
                return;
            }
            *left -= 1;
            let name = entry.file_name();
            let text = name.to_string_lossy();
            // Links are neither followed nor tracked.
            let Ok(kind) = entry.file_type() else { continue };
            let path = below.join(&name);
            if kind.is_dir() && !text.starts_with('.') && !GENERATED_FOLDERS.contains(&&*text) {
                folders.push_back(path);
            } else if kind.is_file()
                && (config.language_of(&path).is_some() || config.root_markers.iter().any(|marker| *marker == text))
                && let Ok(found) = entry.metadata()
            {
                self.stamps.insert(path, Stamp::of(&found));
            }
        }
    }

    /// Returns the changes between this scan and a later one.
    pub(super) fn changes(&self, later: &Self) -> Vec<(PathBuf, DiskChange)> {
        let created_or_changed = later.stamps.iter().filter_map(|(path, stamp)| match self.stamps.get(path) {
            Some(old) if old == stamp => None,
            Some(_) => Some((path.clone(), DiskChange::Changed)),
            None => Some((path.clone(), DiskChange::Created)),
        });
        // A file missing from an incomplete scan may still exist.
        let deleted = self.stamps.keys().filter(|path| !later.is_cut && !later.stamps.contains_key(*path));
        let deleted = deleted.map(|path| (path.clone(), DiskChange::Deleted));
        created_or_changed.chain(deleted).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn changes_of_source_and_marker_files_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let config = crate::pool::tests::config(Path::new("x"), &["py"]).servers.remove(0);
        for name in ["app/src", "app/.venv", "app/node_modules", "other"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path("app/src/a.py"), "").unwrap();
        fs::write(path("app/src/B.PY"), "").unwrap();
        fs::write(path("app/gone.py"), "").unwrap();
        let scan = || WatchedFiles::scan(&config, folder.path(), Path::new("app"));
        let before = scan();
        assert_eq!(before.changes(&scan()), []);
        for name in ["app/src/a.py", "app/root", "app/text.txt", "app/.venv/c.py", "other/d.py"] {
            fs::write(path(name), "x = 1\n").unwrap();
        }
        fs::write(path("app/node_modules/e.py"), "").unwrap();
        fs::remove_file(path("app/gone.py")).unwrap();
        let expected = [
            ("app/root", DiskChange::Created),
            ("app/src/a.py", DiskChange::Changed),
            ("app/gone.py", DiskChange::Deleted),
        ];
        assert_eq!(before.changes(&scan()), expected.map(|(name, change)| (PathBuf::from(name), change)));
    }
}
