//! Parsed source files, split into chunks at the boundaries of definitions.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    time::{Duration, Instant},
};

use tree_sitter::{ParseOptions, Tree};

use crate::{
    language::{Grammar, Language},
    tags::{Definition, Tags, tags},
    text::MAX_PARSED,
};

/// Time limit for parsing a file, after which the file is split by lines. Parsing 1 MiB takes a tenth of this time.
pub const MAX_PARSE_TIME: Duration = Duration::from_secs(2);

/// Maximum nesting of macros around items whose content is parsed.
const MAX_NESTED_MACROS: usize = 4;

/// Parsers for all languages, one set per thread.
#[derive(Default)]
pub struct Parser {
    parsers: BTreeMap<Language, tree_sitter::Parser>,
}

impl Parser {
    /// Parses a file and splits it into chunks. Never fails: a file that cannot be parsed in time is split by lines.
    #[must_use]
    pub fn parse<'text>(&mut self, path: &'text str, text: &'text str) -> SourceFile<'text> {
        let language = Language::of_path(path);
        let grammar = language.and_then(Language::grammar);
        let parsed = language.zip(grammar).filter(|_| text.len() <= MAX_PARSED).and_then(|(language, grammar)| {
            let tree = self.tree(language, grammar, text)?;
            let tree = if language == Language::Rust { self.reparse_macros(grammar, text, tree) } else { tree };
            Some(tags(&tree, grammar, text))
        });
        let tags = parsed.unwrap_or_default();
        let lines = Lines::new(text);
        let spans = split_at_definitions(&lines, &tags.definitions);
        SourceFile { path, text, language, tags, spans, lines }
    }

    /// Reparses the text without the macro calls around items, as in `cfg_net! { pub fn bind() {} }`, because the
    /// grammar treats the content of a call as mere tokens. Replaces the call with blanks and keeps the content. Macros
    /// with custom syntax are left unchanged.
    fn reparse_macros(&mut self, grammar: &Grammar, text: &str, mut tree: Tree) -> Tree {
        let mut expanded = text.as_bytes().to_vec();
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
                    if let Some(byte) = expanded.get_mut(at).filter(|byte| **byte != b'\n') {
                        *byte = b' ';
                    }
                }
            }
            let next = if macros.is_empty() { None } else { std::str::from_utf8(&expanded).ok() };
            let Some(next) = next.and_then(|text| self.tree(Language::Rust, grammar, text)) else { break };
            tree = next;
        }
        tree
    }

    fn tree(&mut self, language: Language, grammar: &Grammar, text: &str) -> Option<Tree> {
        let parser = self.parsers.entry(language).or_insert_with(|| {
            let mut parser = tree_sitter::Parser::new();
            // If the grammar has an unsupported version, the parser has no language and parses nothing.
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
            // Without a reset, the next call would resume parsing this file.
            parser.reset();
        }
        tree
    }
}

/// Returns the macro calls with braces in item position: the range of each call, and of its content.
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

/// Parsed source file with its chunks.
#[derive(Debug)]
pub struct SourceFile<'text> {
    /// Path relative to the folder, with slashes.
    pub path: &'text str,
    /// Text of the file.
    pub text: &'text str,
    /// Language by file extension.
    pub language: Option<Language>,
    /// Definitions and references. Empty if the file was not parsed, in which case the chunks are split by lines.
    pub tags: Tags,
    pub(crate) spans: Vec<ChunkSpan>,
    lines: Lines<'text>,
}

impl SourceFile<'_> {
    /// Iterates over the chunks in order. Chunks do not overlap, and together contain all lines with letters or digits.
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

/// Maximum size of a chunk in bytes, unless a single line is longer.
pub const MAX_CHUNK: usize = 1500;
/// Maximum nesting of definitions at which files are split. Deeper definitions are split by lines.
const MAX_NESTING: u32 = 24;

/// Part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'text> {
    /// Path of the file.
    pub path: &'text str,
    /// First line, starting at 1.
    pub first_line: u32,
    /// Last line, starting at 1.
    pub last_line: u32,
    /// Largest definition that starts in the chunk, otherwise the innermost definition around the first line.
    pub symbol: Option<&'text Definition>,
    /// Text including its line ends.
    pub text: &'text str,
}

/// Lines and symbol of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkSpan {
    pub(crate) first_line: u32,
    pub(crate) last_line: u32,
    /// Index of the symbol in the file's definitions.
    pub(crate) symbol: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Lines<'text> {
    text: &'text str,
    /// Start offset of each line, and the end of the text.
    starts: Vec<usize>,
}

impl<'text> Lines<'text> {
    pub(crate) fn new(text: &'text str) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        if starts.last() != Some(&text.len()) {
            starts.push(text.len());
        }
        Self { text, starts }
    }

    /// Returns the number of lines, which is zero for an empty text.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).unwrap_or(u32::MAX)
    }

    fn start(&self, line: u32) -> usize {
        self.starts.get(line as usize - 1).copied().unwrap_or(self.text.len())
    }

    fn bytes(&self, first: u32, last: u32) -> usize {
        self.start(last + 1).saturating_sub(self.start(first))
    }

    /// Returns the text of these lines. Line numbers start at 1.
    pub(crate) fn text(&self, first: u32, last: u32) -> &'text str {
        self.text.get(self.start(first)..self.start(last + 1)).unwrap_or_default()
    }

    /// Returns the first line of the comments and attributes directly above a line, but not before `limit`.
    fn with_comments(&self, line: u32, limit: u32) -> u32 {
        let mut first = line;
        let mut in_block = false;
        while first > limit {
            let above = self.text(first - 1, first - 1).trim();
            in_block = (in_block || above.ends_with("*/")) && !above.starts_with("/*");
            let is_comment =
                in_block || ["//", "/*", "#", "@", "--", "template"].iter().any(|it| above.starts_with(it));
            if !is_comment {
                break;
            }
            first -= 1;
        }
        first
    }
}

/// First and last line, both included.
type LineRange = (u32, u32);

/// Splits lines into chunks at definitions, starting with the outermost. Adjacent definitions share a chunk if they
/// fit.
pub(crate) fn split_at_definitions(lines: &Lines<'_>, definitions: &[Definition]) -> Vec<ChunkSpan> {
    let count = lines.count();
    if count == 0 {
        return Vec::new();
    }
    let mut pieces = Vec::new();
    split(lines, definitions, (1, count), 0, &mut pieces);
    let mut around: Vec<usize> = Vec::new();
    let mut next = 0;
    pieces
        .into_iter()
        .map(|(first_line, last_line)| {
            let own = next;
            while definitions.get(next).is_some_and(|definition| definition.first_line <= last_line) {
                next += 1;
            }
            around.retain(|index| definitions.get(*index).is_some_and(|around| around.last_line >= first_line));
            let largest = largest(definitions, own..next);
            let symbol = largest.or_else(|| around.last().copied());
            around.extend(
                (own..next).filter(|index| definitions.get(*index).is_some_and(|begun| begun.last_line > last_line)),
            );
            ChunkSpan { first_line, last_line, symbol }
        })
        // Blank lines and lone brackets would only match by file name.
        .filter(|span| lines.text(span.first_line, span.last_line).contains(char::is_alphanumeric))
        .collect()
}

/// Returns the index of the definition with the most lines. If there are several, returns the first.
fn largest(definitions: &[Definition], range: Range<usize>) -> Option<usize> {
    let lines = |index: &usize| {
        definitions.get(*index).map_or(0, |definition| definition.last_line.saturating_sub(definition.first_line))
    };
    range.min_by_key(|index| (std::cmp::Reverse(lines(index)), *index))
}

fn split(lines: &Lines<'_>, definitions: &[Definition], range: LineRange, nesting: u32, out: &mut Vec<LineRange>) {
    let (first, last) = range;
    if lines.bytes(first, last) <= MAX_CHUNK {
        return out.push(range);
    }
    let parts = if nesting < MAX_NESTING { parts(lines, definitions, range) } else { Vec::new() };
    if parts.len() < 2 {
        return split_by_lines(lines, range, out);
    }
    let mut open: Option<LineRange> = None;
    for part in parts {
        match open {
            Some((start, _)) if lines.bytes(start, part.1) <= MAX_CHUNK => open = Some((start, part.1)),
            _ => {
                out.extend(open.take());
                if lines.bytes(part.0, part.1) <= MAX_CHUNK {
                    open = Some(part);
                } else {
                    split(lines, definitions, part, nesting + 1, out);
                }
            }
        }
    }
    out.extend(open);
}

/// Returns the outermost definitions in these lines with their comments, and the lines between them.
fn parts(lines: &Lines<'_>, definitions: &[Definition], (first, last): LineRange) -> Vec<LineRange> {
    let mut parts = Vec::new();
    let mut next_line = first;
    let from = definitions.partition_point(|definition| definition.first_line < first);
    for definition in definitions.iter().skip(from).take_while(|definition| definition.first_line <= last) {
        let is_whole = definition.first_line <= first + 1 && definition.last_line >= last;
        if definition.first_line < next_line || definition.last_line > last || is_whole {
            continue;
        }
        let start = lines.with_comments(definition.first_line, next_line);
        if start > next_line {
            parts.push((next_line, start - 1));
        }
        parts.push((start, definition.last_line));
        next_line = definition.last_line + 1;
    }
    if next_line <= last && !parts.is_empty() {
        parts.push((next_line, last));
    }
    parts
}

/// Splits at the maximum size, preferably at an empty line in the second half.
fn split_by_lines(lines: &Lines<'_>, (first, last): LineRange, out: &mut Vec<LineRange>) {
    let mut start = first;
    let mut blank: Option<u32> = None;
    let mut line = first;
    while line <= last {
        if line > start && lines.bytes(start, line) > MAX_CHUNK {
            let end = blank.take().unwrap_or(line - 1);
            out.push((start, end));
            start = end + 1;
            line = start;
            continue;
        }
        if lines.text(line, line).trim().is_empty() && lines.bytes(start, line) > MAX_CHUNK / 2 {
            blank = Some(line);
        }
        line += 1;
    }
    if start <= last {
        out.push((start, last));
    }
}
