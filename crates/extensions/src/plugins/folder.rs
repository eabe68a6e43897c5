//! Files of a plugin, scanned as a whole before any of them is used, so that exactly the hashed files are used.
//!
//! Plugins are untrusted. A plugin is limited in size, must consist of files and folders, and must have no link that
//! leads outside.

use std::{io, path::Path};

use agentd_core::project::{ProjectFile, ProjectProblem};
use cap_std::fs::Dir;

use crate::files::{
    agreed_folder::{ProblemList as _, hash, of_bytes},
    tree::{Tree, TreeKind},
};

/// Limits for a plugin. Its servers may need files in `node_modules`.
static PLUGIN_TREE: TreeKind = TreeKind {
    noun: "plugin",
    max_bytes: 32 << 20,
    max_entries: 5000,
    ignored_names: &[".git", ".DS_Store", "__pycache__", ".venv", ".pytest_cache"],
    skips_links: true,
};

/// Maximum size of a text file that is parsed, in bytes.
const MAX_TEXT: usize = 256 << 10;
/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 300;
/// Prefix of the hashed input, to identify its format.
const FORM: &[u8] = b"agentd plugin 1\0";

/// One file of a plugin.
#[derive(Debug)]
pub(super) struct PluginFile {
    /// Path below the plugin's folder, with slashes.
    pub(super) path: String,
    /// True if the file's owner may execute it.
    pub(super) runs: bool,
    bytes: u64,
    sha256: String,
    /// Text of the file, if it has the extension of a text file.
    text: Option<Result<String, &'static str>>,
}

/// All files of a plugin.
#[derive(Debug)]
pub(super) struct PluginFolder {
    /// Files, sorted by path.
    pub(super) files: Vec<PluginFile>,
    /// Links that were skipped.
    pub(super) left_out: Vec<ProjectProblem>,
    pub(super) tree: Tree,
}

impl PluginFolder {
    /// Scans a folder, and reads its files one by one.
    ///
    /// # Errors
    /// Returns the reason why the folder is not a plugin, for the user.
    pub(super) fn read(folder: &Dir) -> Result<Self, String> {
        let unread = |error: io::Error| format!("it cannot be read: {error}");
        let tree = Tree::of_kind(folder, &PLUGIN_TREE).map_err(unread)?;
        if let Some((file, message)) = tree.problems.first() {
            return Err(if file.is_empty() { message.clone() } else { format!("{file}: {message}") });
        }
        if let Some(long) = tree.paths().find(|path| path.as_os_str().len() > MAX_PATH) {
            let start: String = long.to_string_lossy().chars().take(60).collect();
            return Err(format!("{start}…: its path is longer than {MAX_PATH} bytes"));
        }
        let mut files = Vec::new();
        let read = tree.each(folder, |path, runs, content| {
            files.push(PluginFile::new(path, runs, content));
            Ok(())
        });
        read.map_err(unread)?;
        files.sort_by(|left, right| left.path.cmp(&right.path));
        let mut left_out = Vec::new();
        tree.left_out.iter().for_each(|(file, message)| left_out.refuse(file, format!("it is skipped: {message}")));
        Ok(Self { files, left_out, tree })
    }

    /// Returns the hash over all files, as hexadecimal digits.
    pub(super) fn hash(&self) -> String {
        hash(FORM, self.files.iter().map(|file| (&*file.path, file.runs, file.bytes, file.sha256.as_bytes())))
    }

    /// Lists the files as stored in a record.
    pub(super) fn listed(&self) -> Vec<ProjectFile> {
        let file = |file: &PluginFile| {
            let PluginFile { path, bytes, sha256, .. } = file;
            ProjectFile { path: path.clone(), bytes: *bytes, sha256: sha256.clone() }
        };
        self.files.iter().map(file).collect()
    }

    /// Returns the total size of the files, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    /// Returns true if there is a folder at that path and it contains a file.
    pub(super) fn has_folder(&self, path: &str) -> bool {
        self.below(path).next().is_some()
    }

    /// Returns the text of a file, or `None` if there is no such file.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be read as text.
    pub(super) fn text(&self, path: &str) -> Option<Result<&str, &'static str>> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(file.text())
    }

    /// Iterates over the files in a folder, with their paths relative to it. The empty path is the plugin's folder.
    pub(super) fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a PluginFile)> {
        self.files.iter().filter_map(move |file| {
            let path = match folder {
                "" => file.path.as_str(),
                folder => file.path.strip_prefix(folder)?.strip_prefix('/')?,
            };
            Some((path, file))
        })
    }
}

impl PluginFile {
    fn new(path: &Path, runs: bool, content: Vec<u8>) -> Self {
        let path = path.to_string_lossy().into_owned();
        let (bytes, sha256) = (content.len() as u64, of_bytes(&content));
        let text =
            [".md", ".json", ".txt", ".py", ".js", ".mjs"].iter().any(|ending| path.ends_with(ending)).then(|| {
                if content.len() > MAX_TEXT {
                    return Err("it is larger than 256 KiB");
                }
                String::from_utf8(content).map_err(|_| "it is not UTF-8 text")
            });
        Self { path, runs, bytes, sha256, text }
    }

    /// Returns the text of the file.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be read as text.
    pub(super) fn text(&self) -> Result<&str, &'static str> {
        match &self.text {
            Some(Ok(text)) => Ok(text.trim_start_matches('\u{feff}')),
            Some(Err(reason)) => Err(reason),
            None => Err("its file extension is not that of a text file"),
        }
    }
}
