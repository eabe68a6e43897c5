//! Source files, parsed and cut into chunks.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
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

/// Macros around items in each other that are opened.
const MAX_NESTED_MACROS: usize = 4;

/// Parsers of all languages, one per thread.
#[derive(Default)]
pub struct Parser {
    parsers: BTreeMap<Language, tree_sitter::Parser>,
}

impl Parser {
    /// Creates parsers when they are needed.
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
        let tree = match (tree, grammar) {
            (Some(tree), Some(grammar)) if language == Some(Language::Rust) => Some(self.opened(grammar, text, tree)),
            (tree, _) => tree,
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

    /// The tree of a text with blanks in place of the macros around items, such as `cfg_net! { pub fn bind() {} }`: to a grammar what is
    /// in them is tokens. Those with a language of their own stay.
    fn opened(&mut self, grammar: &Grammar, text: &str, mut tree: Tree) -> Tree {
        let mut opened = text.as_bytes().to_vec();
        for _ in 0..MAX_NESTED_MACROS {
            let mut has_items = |body: &str| {
                let tree = self.tree(Language::Rust, grammar, body);
                tree.is_some_and(|tree| {
                    !tree.root_node().has_error() && !tags(&tree, grammar, body).definitions.is_empty()
                })
            };
            let mut macros = item_macros(&tree);
            macros.retain(|(_, body)| text.get(body.clone()).is_some_and(&mut has_items));
            for (around, body) in &macros {
                for at in (around.start..body.start).chain(body.end..around.end) {
                    if let Some(byte) = opened.get_mut(at).filter(|byte| **byte != b'\n') {
                        *byte = b' ';
                    }
                }
            }
            let next = if macros.is_empty() { None } else { std::str::from_utf8(&opened).ok() };
            let Some(next) = next.and_then(|text| self.tree(Language::Rust, grammar, text)) else { break };
            tree = next;
        }
        tree
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

/// Macros in the place of items that have braces: where each is, and what is between its braces.
fn item_macros(tree: &Tree) -> Vec<(Range<usize>, Range<usize>)> {
    const AROUND_ITEMS: [&str; 6] =
        ["source_file", "mod_item", "impl_item", "trait_item", "declaration_list", "expression_statement"];
    let (mut found, mut cursor) = (Vec::new(), tree.walk());
    loop {
        let node = cursor.node();
        if node.kind() == "macro_invocation" {
            let last = node.child_count().checked_sub(1).and_then(|last| node.child(last));
            let body =
                last.filter(|last| last.kind() == "token_tree" && last.child(0).is_some_and(|open| open.kind() == "{"));
            found
                .extend(body.map(|body| (node.byte_range(), body.start_byte() + 1..body.end_byte().saturating_sub(1))));
        }
        if AROUND_ITEMS.contains(&node.kind()) && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return found;
            }
        }
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
