//! Chunks: pieces of a file that are found as one, cut where definitions begin and end.

use crate::tags::Definition;

/// Bytes that a chunk has at most, unless a single line is longer.
pub const MAX_CHUNK: usize = 1500;
/// Nesting of definitions down to which files are cut; deeper ones are cut by lines.
const MAX_NESTING: u32 = 24;

/// Piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'text> {
    /// Path of the file.
    pub path: &'text str,
    /// First line, from 1.
    pub first_line: u32,
    /// Last line, from 1.
    pub last_line: u32,
    /// Largest definition that begins in it, else the innermost one around its first line.
    pub symbol: Option<&'text Definition>,
    /// Text with its line ends.
    pub text: &'text str,
}

/// Lines and symbol of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkSpan {
    pub(crate) first_line: u32,
    pub(crate) last_line: u32,
    /// Index of the symbol in the definitions of the file.
    pub(crate) symbol: Option<usize>,
}

/// Lines of a text.
#[derive(Debug)]
pub(crate) struct Lines<'text> {
    text: &'text str,
    /// Start of each line, and the end of the text.
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

    /// Number of lines. An empty text has none.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).unwrap_or(u32::MAX)
    }

    fn start(&self, line: u32) -> usize {
        self.starts.get(line as usize - 1).copied().unwrap_or(self.text.len())
    }

    fn bytes(&self, first: u32, last: u32) -> usize {
        self.start(last + 1).saturating_sub(self.start(first))
    }

    /// Text of lines, which are counted from 1.
    pub(crate) fn text(&self, first: u32, last: u32) -> &'text str {
        self.text.get(self.start(first)..self.start(last + 1)).unwrap_or_default()
    }

    /// First line of the comments and attributes directly in front of a line, but not before `limit`.
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

/// Lines from the first to the last one.
type LineRange = (u32, u32);

/// Cuts lines into chunks: at definitions, the outer ones first; neighbours stay together while there is room.
pub(crate) fn cut(lines: &Lines<'_>, definitions: &[Definition]) -> Vec<ChunkSpan> {
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
        // Blank lines and lone brackets would be found by the name of their file alone.
        .filter(|span| lines.text(span.first_line, span.last_line).contains(char::is_alphanumeric))
        .collect()
}

/// Index of the definition with the most lines; the first of those.
fn largest(definitions: &[Definition], range: std::ops::Range<usize>) -> Option<usize> {
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
                if let Some(full) = open.take() {
                    out.push(full);
                }
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

/// The outermost definitions within lines with their comments, and what lies between them.
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

/// Cuts where the room ends, at an empty line of the second half if there is one.
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
