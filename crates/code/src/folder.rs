//! Code of one folder: its index, kept current, and the questions to it.

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
    search::{Hit, SearchQuery},
    symbols::{is_within, outline_of},
    text::{MAX_BYTES, decode, start_of},
    walk::{
        FileTree, MAX_FILES, MayRead, OuterIgnore, OuterRules, RefreshReport, RefreshStep, SkippedFiles, belongs,
        refresh, regular_file, stamp, update,
    },
};

/// Bytes of an answer's text at most.
pub const MAX_ANSWER: usize = 4096;

/// Settings of a [`CodeFolder`].
pub struct FolderConfig {
    /// Threads that read and parse.
    pub threads: usize,
    /// Files that are indexed at most.
    pub max_files: usize,
    /// Rules of git above the folder.
    pub outer: Vec<OuterRules>,
    /// Predicate on paths below the folder: which files may be read. Files with secrets may not.
    pub may_read: Box<MayRead>,
}

impl FolderConfig {
    /// Settings without a change but for the files that may be read.
    pub fn new(may_read: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { threads: 2, max_files: MAX_FILES, outer: Vec::new(), may_read: Box::new(may_read) }
    }
}

/// Code of one folder. Files are read below its root only, and never through links.
pub struct CodeFolder {
    root: PathBuf,
    config: FolderConfig,
    outer: OuterIgnore,
    index: CodeIndex,
    skipped: SkippedFiles,
    /// Folders that were listed, as paths below the root; the root is the empty one.
    folders: Vec<String>,
    is_truncated: bool,
    is_partial: bool,
}

impl CodeFolder {
    /// Creates an empty index of a folder; [`refresh`](Self::refresh) fills it.
    pub fn new(root: &Path, config: FolderConfig) -> Self {
        // Resolved once, so that a link on the way to a file shows as a difference.
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

    /// Real path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Folders whose files belong to the index, as paths below the root, of which one is empty.
    pub fn folders(&self) -> &[String] {
        &self.folders
    }

    /// Brings the index up to the folder: reads what is new or changed by time or size, removes what is gone.
    pub fn refresh(&mut self) -> RefreshReport {
        self.refresh_telling(&mut |_| {})
    }

    /// Does the same, and tells of each step.
    pub fn refresh_telling(&mut self, tell: &mut dyn FnMut(RefreshStep<'_>)) -> RefreshReport {
        let tree = FileTree { root: &self.root, outer: &self.outer, may_read: &*self.config.may_read };
        let mut report =
            refresh(&mut self.index, &mut self.skipped, &tree, self.config.threads, self.config.max_files, tell);
        self.folders = std::mem::take(&mut report.folders);
        (self.is_truncated, self.is_partial) = (report.is_truncated, report.is_partial);
        report
    }

    /// Brings the index up to single files that were written or removed, and tells how many of them it has now. Paths are
    /// below the folder, with slashes.
    pub fn update(&mut self, paths: &[&str]) -> usize {
        let tree = FileTree { root: &self.root, outer: &self.outer, may_read: &*self.config.may_read };
        update(&mut self.index, &mut self.skipped, &tree, paths)
    }

    /// Index of the folder.
    pub fn index(&self) -> &CodeIndex {
        &self.index
    }

    /// Answers a question.
    pub fn reply(&self, question: &CodeQuestion) -> CodeReply {
        let below = match question {
            CodeQuestion::Search { below, .. }
            | CodeQuestion::Symbol { below, .. }
            | CodeQuestion::Outline { path: below } => below,
            CodeQuestion::Map { .. } => "",
        };
        let within = self.index.paths().filter(|path| is_within(path, below)).count();
        let mut unread = BTreeMap::new();
        for (_, (_, reason)) in self.skipped.iter().filter(|(path, _)| is_within(path, below)) {
            *unread.entry(*reason).or_default() += 1;
        }
        let answer = match question {
            CodeQuestion::Search { query, below, limit } => CodeAnswer::Hits(self.search(query, below, *limit)),
            CodeQuestion::Symbol { name, below } => CodeAnswer::Symbol(self.find_symbol(name, below)),
            CodeQuestion::Outline { path } => CodeAnswer::Outline(self.outline(path)),
            CodeQuestion::Map { max_tokens } => CodeAnswer::Map(self.map(*max_tokens)),
        };
        let (is_truncated, is_partial) = (self.is_truncated, self.is_partial);
        let index = CodeIndexState {
            files: self.index.paths().count(),
            within,
            skipped: self.skipped.len(),
            unread,
            is_truncated,
            is_partial,
        };
        CodeReply { answer, index }
    }

    /// Finds code below a file or folder by words, symbols or a plain question; the best first.
    pub fn search(&self, query: &str, below: &str, limit: usize) -> Vec<CodeHit> {
        let hits = self.index.search(&SearchQuery::new(query).within(below), limit);
        hits.into_iter().map(|hit| self.hit(hit)).collect()
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

    /// Finds where a symbol is defined and where it is used, below a file or folder.
    pub fn find_symbol(&self, name: &str, below: &str) -> SymbolLocations {
        self.index.find_symbol(name, below, &mut |path| self.text(path))
    }

    /// Lists the definitions of a file, or of the files of a folder.
    pub fn outline(&self, path: &str) -> Vec<OutlineEntry> {
        outline_of(&self.index, path, &mut |path| self.text(path))
    }

    /// Draws the map of the folder: its most important definitions within a number of tokens.
    pub fn map(&self, max_tokens: usize) -> Vec<MapFile> {
        map(&self.index, max_tokens, &mut |path| self.text(path))
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
}
