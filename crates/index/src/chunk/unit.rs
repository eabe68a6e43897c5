//! A text taken apart into what should stay together.

use std::ops::Range;

use super::sentence::sentences;

/// Text that should stay together: a sentence, or a line that is one thing by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its bytes, with the white space that follows it.
    pub(super) bytes: Range<usize>,
    /// Its length in characters.
    pub(super) letters: usize,
    pub(super) kind: UnitKind,
    /// Set if a paragraph begins with it.
    pub(super) opens: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitKind {
    Heading,
    /// A line of a list, a table, or a listing.
    Line,
    Sentence,
}

/// The units of a text; together they are the text. None has more than `most` characters.
pub(super) fn units(text: &str, most: usize) -> Vec<Unit> {
    let mut units = Vec::new();
    for block in blocks(text) {
        let mut opens = block.opens;
        let body = &text[block.bytes.clone()];
        let pieces =
            if block.kind == UnitKind::Sentence { sentences(body) } else { std::iter::once(0..body.len()).collect() };
        for piece in pieces.into_iter().flat_map(|piece| split(body, piece, most)) {
            let letters = body[piece.clone()].chars().count();
            let bytes = block.bytes.start + piece.start..block.bytes.start + piece.end;
            units.push(Unit { bytes, letters, kind: block.kind, opens: std::mem::take(&mut opens) });
        }
    }
    units
}

/// Lines that belong together, and the empty lines after them.
struct Block {
    bytes: Range<usize>,
    kind: UnitKind,
    opens: bool,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_listing = false;
    let mut after_gap = true;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bytes = at..at + line.len();
        at = bytes.end;
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        if trimmed.is_empty() {
            after_gap = true;
            match blocks.last_mut() {
                Some(last) => last.bytes.end = bytes.end,
                None => blocks.push(Block { bytes, kind: UnitKind::Sentence, opens: true }),
            }
            continue;
        }
        let kind = if is_fence || is_listing { UnitKind::Line } else { kind_of(trimmed) };
        is_listing ^= is_fence;
        let opens = std::mem::take(&mut after_gap);
        match blocks.last_mut() {
            // A line that goes on with the paragraph.
            Some(last) if !opens && kind == UnitKind::Sentence && last.kind == UnitKind::Sentence => {
                last.bytes.end = bytes.end
            }
            _ => blocks.push(Block { bytes, kind, opens: opens || kind == UnitKind::Heading }),
        }
    }
    blocks
}

fn kind_of(line: &str) -> UnitKind {
    let is_numbered = || {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        (1..=3).contains(&digits) && [". ", ") "].iter().any(|mark| line[digits..].starts_with(mark))
    };
    if heading(line).is_some() {
        UnitKind::Heading
    } else if line.starts_with('|')
        || ["- ", "* ", "+ ", "> ", "• "].iter().any(|mark| line.starts_with(mark))
        || is_numbered()
    {
        UnitKind::Line
    } else {
        UnitKind::Sentence
    }
}

/// Text of a heading, without its marks.
pub(super) fn heading(line: &str) -> Option<&str> {
    let line = line.trim();
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    let says = line.get(marks..).filter(|_| (1..=6).contains(&marks))?.strip_prefix([' ', '\t'])?;
    let says = says.trim().trim_matches(['#', '*', '_', ' ']);
    (!says.is_empty()).then_some(says)
}

/// Cuts what is too long, after a word if there is one.
fn split(text: &str, mut range: Range<usize>, most: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    while let Some((cut, _)) = text[range.clone()].char_indices().nth(most.max(1)) {
        let piece = &text[range.start..range.start + cut];
        // In the second half only, so that pieces are no splinters.
        let word = piece.rfind([' ', '\n', '，', '、', ',']).filter(|at| *at > cut / 2);
        let end = word.map_or(cut, |at| at + piece[at..].chars().next().map_or(1, char::len_utf8));
        pieces.push(range.start..range.start + end);
        range.start += end;
    }
    pieces.push(range);
    pieces
}
