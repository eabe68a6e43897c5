//! Source files, parsed and cut into chunks.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use tree_sitter::{ParseOptions, Tree};

use crate::{
    chunk::{Chunk, ChunkSpan, Lines, cut},
    language::{Grammar, Language},
    tags::{Tags, tags},
    text::MAX_PARSED,
};

/// Longest time for one file, after which it is cut by lines. A file of 1 MiB takes a tenth of it.
pub const MAX_PARSE_TIME: Duration = Duration::from_secs(2);

/// Parsers of all languages, one per thread.
#[derive(Default)]
pub struct Parser {
    parsers: BTreeMap<Language, tree_sitter::Parser>,
}

impl Parser {
    /// Creates parsers when they are needed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses a file and cuts it into chunks. Never fails: what no grammar parses in time is cut by lines.
    #[must_use]
    pub fn parse<'text>(&mut self, path: &'text str, text: &'text str) -> SourceFile<'text> {
        let language = Language::of_path(path);
        let grammar = language.and_then(Language::grammar);
        let tree = match (language, grammar) {
            (Some(language), Some(grammar)) if text.len() <= MAX_PARSED => self.tree(language, grammar, text),
            _ => None,
        };
        let is_parsed = tree.is_some();
        let tags = match (tree, grammar) {
            (Some(tree), Some(grammar)) => tags(&tree, grammar, text),
            _ => Tags::default(),
        };
        let lines = Lines::new(text);
        let spans = cut(&lines, &tags.definitions);
        SourceFile { path, text, language, is_parsed, tags, spans, lines }
    }

    fn tree(&mut self, language: Language, grammar: &Grammar, text: &str) -> Option<Tree> {
        let parser = self.parsers.entry(language).or_insert_with(|| {
            let mut parser = tree_sitter::Parser::new();
            // A grammar that the library is too new for leaves the parser without language: it then parses nothing.
            drop(parser.set_language(&grammar.language));
            parser
        });
        let deadline = Instant::now() + MAX_PARSE_TIME;
        let mut is_late = |_: &tree_sitter::ParseState| {
            if Instant::now() > deadline { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let bytes = text.as_bytes();
        let tree = parser.parse_with_options(
            &mut |at, _| bytes.get(at..).unwrap_or_default(),
            None,
            Some(ParseOptions::new().progress_callback(&mut is_late)),
        );
        if tree.is_none() {
            // Otherwise the next file would go on where this one stopped.
            parser.reset();
        }
        tree
    }
}

impl std::fmt::Debug for Parser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parser").field("languages", &self.parsers.keys()).finish()
    }
}

/// Parsed source file.
#[derive(Debug)]
pub struct SourceFile<'text> {
    /// Path below the folder, with slashes.
    pub path: &'text str,
    /// Text of the file.
    pub text: &'text str,
    /// Language by the ending of the path.
    pub language: Option<Language>,
    /// Set if a grammar parsed it; otherwise there are no tags and chunks are cut by lines.
    pub is_parsed: bool,
    /// Definitions and references.
    pub tags: Tags,
    pub(crate) spans: Vec<ChunkSpan>,
    lines: Lines<'text>,
}

impl SourceFile<'_> {
    /// Chunks in the order of the text. Together they are the whole text; none overlaps another.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.spans.iter().map(|span| Chunk {
            path: self.path,
            first_line: span.first_line,
            last_line: span.last_line,
            symbol: span.symbol.and_then(|index| self.tags.definitions.get(index)),
            text: self.lines.text(span.first_line, span.last_line),
        })
    }
}
