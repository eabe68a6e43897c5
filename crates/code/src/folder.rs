//! Code in one folder: an up-to-date index, and answers to questions.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use agentd_core::code::{
    CodeAnswer, CodeHit, CodeIndexState, CodeQuestion, CodeReply, MapFile, OutlineEntry, SymbolLocations,
};

use crate::{
    index::CodeIndex,
    map::map,
    search::{Hit, MAX_HITS, SearchQuery},
    symbols::{is_within, outline_of},
    text::{MAX_ANSWER, MAX_BYTES, decode, start_of},
    walk::{
        FileTree, MAX_FILES, MayRead, OuterIgnore, OuterRules, RefreshReport, RefreshStep, SkippedFiles, may_index,
        refresh, regular_file, stamp, update,
    },
};

/// Settings of a [`CodeFolder`].
pub struct FolderConfig {
    /// Number of threads that read and parse.
    pub threads: usize,
    /// Maximum number of indexed files.
    pub max_files: usize,
    /// Git ignore rules of the parent folders.
    pub outer: Vec<OuterRules>,
    /// Predicate on paths relative to the folder that returns true for files that may be read. Must exclude files that
    /// contain secrets.
    pub may_read: Box<MayRead>,
}

impl FolderConfig {
    /// Creates the default settings with this predicate.
    pub fn new(may_read: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { threads: 2, max_files: MAX_FILES, outer: Vec::new(), may_read: Box::new(may_read) }
    }
}

/// Code in one folder. Files are only read inside the root folder and never through links.
pub struct CodeFolder {
    root: PathBuf,
    config: FolderConfig,
    outer: OuterIgnore,
    index: CodeIndex,
    skipped: SkippedFiles,
    /// Listed folders as paths relative to the root. The root itself is an empty path.
    folders: Vec<String>,
    is_truncated: bool,
    is_partial: bool,
}

impl CodeFolder {
    /// Creates an empty index of a folder; [`refresh`](Self::refresh) fills it.
    pub fn new(root: &Path, config: FolderConfig) -> Self {
        // Resolved once, so that the real path of a file differs from its path only if a link inside the folder is
        // involved.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self {
            root,
            outer: OuterIgnore::new(&config.outer),
            config,
            index: CodeIndex::default(),
            skipped: SkippedFiles::new(),
            folders: Vec::new(),
            is_truncated: false,
            is_partial: false,
        }
    }

    /// Returns the real path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folders whose files belong to the index, as paths relative to the root. The root itself is
    /// an empty path.
    pub fn folders(&self) -> &[String] {
        &self.folders
    }

    /// Updates the index: reads files that are new or whose time or size has changed, and removes missing files.
    pub fn refresh(&mut self) -> RefreshReport {
        self.refresh_with_progress(&mut |_| {})
    }

    /// Like [`refresh`](Self::refresh), with a callback for each step.
    pub fn refresh_with_progress(&mut self, on_step: &mut dyn FnMut(RefreshStep<'_>)) -> RefreshReport {
        let tree = FileTree { root: &self.root, outer: &self.outer, may_read: &*self.config.may_read };
        let mut report =
            refresh(&mut self.index, &mut self.skipped, &tree, self.config.threads, self.config.max_files, on_step);
        self.folders = std::mem::take(&mut report.folders);
        (self.is_truncated, self.is_partial) = (report.is_truncated, report.is_partial);
        report
    }

    /// Updates the index for single files that were written or removed, and returns the number of these files that are
    /// now indexed. Paths are relative to the folder and contain slashes.
    pub fn update(&mut self, paths: &[&str]) -> usize {
        let tree = FileTree { root: &self.root, outer: &self.outer, may_read: &*self.config.may_read };
        update(&mut self.index, &mut self.skipped, &tree, paths)
    }

    /// Returns the index of the folder.
    pub fn index(&self) -> &CodeIndex {
        &self.index
    }

    /// Answers a question from the index.
    pub fn reply(&self, question: &CodeQuestion) -> CodeReply {
        let below = match question {
            CodeQuestion::Search { below, .. }
            | CodeQuestion::Symbol { below, .. }
            | CodeQuestion::Outline { path: below } => below,
            CodeQuestion::Chunks { .. } | CodeQuestion::Map { .. } => "",
        };
        let within = self.index.paths().filter(|path| is_within(path, below)).count();
        let mut unread = BTreeMap::new();
        for (_, (_, reason)) in self.skipped.iter().filter(|(path, _)| is_within(path, below)) {
            *unread.entry(*reason).or_default() += 1;
        }
        let answer = match question {
            CodeQuestion::Search { query, below, limit, similar } => {
                let query = SearchQuery::new(query).within(below).with_similar(similar);
                CodeAnswer::Hits(self.find(&query, *limit))
            }
            CodeQuestion::Chunks { from } => CodeAnswer::Hits(self.chunks(*from)),
            CodeQuestion::Symbol { name, below } => CodeAnswer::Symbol(self.find_symbol(name, below)),
            CodeQuestion::Outline { path } => CodeAnswer::Outline(self.outline(path)),
            CodeQuestion::Map { max_tokens } => CodeAnswer::Map(self.map(*max_tokens)),
        };
        let (files, skipped) = (self.index.paths().count(), self.skipped.len());
        let Self { is_truncated, is_partial, .. } = *self;
        let index = CodeIndexState { files, within, skipped, unread, is_truncated, is_partial, note: None };
        CodeReply { answer, index }
    }

    /// Finds code in a file or folder by words, symbols or a plain question, best first.
    pub fn search(&self, query: &str, below: &str, limit: usize) -> Vec<CodeHit> {
        self.find(&SearchQuery::new(query).within(below), limit)
    }

    fn find(&self, query: &SearchQuery, limit: usize) -> Vec<CodeHit> {
        self.index.search(query, limit).into_iter().map(|hit| self.hit(hit)).collect()
    }

    /// Returns the chunks after the first `from` ones.
    fn chunks(&self, from: usize) -> Vec<CodeHit> {
        let live = self.index.chunks().filter(|(_, chunk)| self.index.file(chunk.file).is_some());
        let hits = live.skip(from).take(MAX_HITS).filter_map(|(number, _)| self.index.hit(number, 0.0, &[]));
        hits.map(|hit| self.hit(hit)).collect()
    }

    fn hit(&self, hit: Hit) -> CodeHit {
        let now = regular_file(&self.root, &hit.path).map(|(_, metadata)| stamp(&metadata));
        let is_stale = now != self.index.stamp(&hit.path);
        let text = self.text(&hit.path).map(|text| {
            let lines = text.split_inclusive('\n').skip(hit.first_line as usize - 1);
            lines.take((hit.last_line - hit.first_line) as usize + 1).collect::<String>()
        });
        let text = start_of(&text.unwrap_or_default(), MAX_ANSWER).to_owned();
        let Hit { path, first_line, last_line, symbol, score } = hit;
        CodeHit { path, first_line, last_line, symbol, score, text, is_stale }
    }

    /// Finds the definitions and uses of a symbol in a file or folder.
    pub fn find_symbol(&self, name: &str, below: &str) -> SymbolLocations {
        self.index.find_symbol(name, below, &mut |path| self.text(path))
    }

    /// Lists the definitions of a file, or of all files in a folder.
    pub fn outline(&self, path: &str) -> Vec<OutlineEntry> {
        outline_of(&self.index, path, &mut |path| self.text(path))
    }

    /// Returns a map of the folder: its most important definitions within a token budget.
    pub fn map(&self, max_tokens: usize) -> Vec<MapFile> {
        map(&self.index, max_tokens, &mut |path| self.text(path))
    }

    /// Returns the text of an indexed file if it may still be read.
    fn text(&self, path: &str) -> Option<String> {
        if !may_index(path, &*self.config.may_read) {
            return None;
        }
        let (path_on_disk, metadata) = regular_file(&self.root, path)?;
        if metadata.len() > MAX_BYTES as u64 {
            return None;
        }
        let bytes = fs::read(path_on_disk).ok()?;
        decode(&bytes).ok().map(Cow::into_owned)
    }
}
