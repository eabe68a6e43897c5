//! Code of one folder: its index, kept current, and the questions to it.

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    index::CodeIndex,
    map::{MapFocus, map},
    search::{Hit, SearchQuery},
    source::Parser,
    symbols::{OutlineEntry, SymbolLocations, outline_of},
    text::{MAX_BYTES, decode, start_of},
    walk::{MAX_FILES, MayRead, RefreshReport, SkippedFiles, belongs, is_secret, refresh, regular_file, stamp, update},
};

/// Bytes of an answer's text at most.
pub const MAX_ANSWER: usize = 4096;

/// Settings of a [`CodeFolder`].
pub struct FolderConfig {
    /// Threads that read and parse.
    pub threads: usize,
    /// Files that are indexed at most.
    pub max_files: usize,
    /// Predicate on paths below the folder: which files may be read. Without a change, all but secrets.
    pub may_read: Box<MayRead>,
}

impl Default for FolderConfig {
    fn default() -> Self {
        Self { threads: 2, max_files: MAX_FILES, may_read: Box::new(|path| !is_secret(path)) }
    }
}

impl std::fmt::Debug for FolderConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FolderConfig")
            .field("threads", &self.threads)
            .field("max_files", &self.max_files)
            .finish_non_exhaustive()
    }
}

/// Found piece of code.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Path, lines, symbol and score.
    pub hit: Hit,
    /// Text of the lines, cut after [`MAX_ANSWER`] bytes.
    pub text: String,
    /// Set if the file changed since it was indexed, so that the lines may have moved.
    pub is_stale: bool,
}

/// Code of one folder. Files are read below its root only, and never through links.
#[derive(Debug)]
pub struct CodeFolder {
    root: PathBuf,
    config: FolderConfig,
    index: CodeIndex,
    skipped: SkippedFiles,
}

impl CodeFolder {
    /// Creates an empty index of a folder; [`refresh`](Self::refresh) fills it.
    #[must_use]
    pub fn new(root: &Path, config: FolderConfig) -> Self {
        // Resolved once, so that a link on the way to a file shows as a difference.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { root, config, index: CodeIndex::new(), skipped: SkippedFiles::new() }
    }

    /// Brings the index up to the folder: reads what is new or changed by time or size, removes what is gone.
    pub fn refresh(&mut self) -> RefreshReport {
        refresh(
            &mut self.index,
            &mut self.skipped,
            &self.root,
            self.config.threads,
            self.config.max_files,
            &*self.config.may_read,
        )
    }

    /// Brings the index up to single files that were written or removed, and tells how many of them it has now. Paths are
    /// below the folder, with slashes.
    pub fn update(&mut self, paths: &[&str]) -> usize {
        update(&mut self.index, &mut self.skipped, &self.root, paths, &*self.config.may_read)
    }

    /// Index of the folder.
    #[must_use]
    pub fn index(&self) -> &CodeIndex {
        &self.index
    }

    /// Finds code by words, symbols or a plain question; the best first.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<Answer> {
        let hits = self.index.search(&SearchQuery::new(query), limit);
        hits.into_iter().map(|hit| self.answer(hit)).collect()
    }

    fn answer(&self, hit: Hit) -> Answer {
        let now = regular_file(&self.root, &hit.path).map(|(_, metadata)| stamp(&metadata));
        let is_stale = now != self.index.stamp(&hit.path);
        let text = self.text(&hit.path).map(|text| {
            let lines = text.split_inclusive('\n').skip(hit.first_line as usize - 1);
            lines.take((hit.last_line - hit.first_line) as usize + 1).collect::<String>()
        });
        let text = text.unwrap_or_default();
        Answer { text: start_of(&text, MAX_ANSWER).to_owned(), is_stale, hit }
    }

    /// Finds where a symbol is defined and where it is used.
    #[must_use]
    pub fn find_symbol(&self, name: &str) -> SymbolLocations {
        self.index.find_symbol(name, &mut |path| self.text(path))
    }

    /// Lists the definitions of a file, or of the files of a folder.
    #[must_use]
    pub fn outline(&self, path: &str) -> Vec<OutlineEntry> {
        outline_of(&self.index, path, &mut |path| self.text(path))
    }

    /// Draws the map of the folder: its most important definitions within a number of tokens.
    #[must_use]
    pub fn map(&self, focus: &MapFocus, max_tokens: usize) -> String {
        map(&self.index, focus, max_tokens, &mut |path| self.text(path))
    }

    /// Text of an indexed file, if it still may be read.
    fn text(&self, path: &str) -> Option<String> {
        if !belongs(path, &*self.config.may_read) {
            return None;
        }
        let (place, metadata) = regular_file(&self.root, path)?;
        if metadata.len() > MAX_BYTES as u64 {
            return None;
        }
        let bytes = fs::read(place).ok()?;
        decode(&bytes).ok().map(Cow::into_owned)
    }

    /// Parses a file of the folder anew, for a caller that needs its tags.
    #[must_use]
    pub fn tags(&self, path: &str) -> Option<crate::tags::Tags> {
        let text = self.text(path)?;
        Some(Parser::new().parse(path, &text).tags)
    }
}
