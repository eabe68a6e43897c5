//! Splits text into units and packs them into chunks.

use std::ops::Range;

use super::{Chunk, ChunkConfig};
use crate::document::DocumentPlace;

/// Maximum number of characters in a cited heading, and maximum number of headings.
const HEADING_LIMITS: (usize, usize) = (80, 4);

/// Headings above a text, from the outermost to the innermost, with their levels.
#[derive(Debug, Default)]
pub(super) struct Headings(Vec<(usize, String)>);

impl Headings {
    /// Returns the innermost heading.
    fn last(&self) -> Option<&String> {
        self.0.last().map(|(_, heading)| heading)
    }

    /// Updates the headings if the line is a heading.
    fn take(&mut self, line: &str) {
        if let Some(title) = heading(line) {
            let level = line.trim_start().bytes().take_while(|byte| *byte == b'#').count();
            self.0.retain(|(outer, _)| *outer < level);
            self.0.push((level, title.to_owned()));
        }
    }

    /// Adds the headings to a location that is a section.
    fn at(&self, place: &DocumentPlace) -> DocumentPlace {
        let DocumentPlace::Section { number, .. } = place else { return place.clone() };
        let cut = |(_, heading): &(usize, String)| heading.chars().take(HEADING_LIMITS.0).collect::<String>();
        let path: Vec<String> = self.0.iter().take(HEADING_LIMITS.1).map(cut).collect();
        DocumentPlace::Section { number: *number, heading: (!path.is_empty()).then(|| path.join(" > ")) }
    }
}

/// Splits a text into chunks. `under` contains the headings above the text, and is updated with the headings inside it.
pub(super) fn chunks(place: &DocumentPlace, text: &str, under: &mut Headings, config: &ChunkConfig) -> Vec<Chunk> {
    let units = units(text, config.letters);
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut start = 0;
    while start < units.len() {
        let overlap = chunks.last().map_or(0, |_| overlap(text, &units[..start], &units[start], config.overlap));
        let end = end_of_chunk(&units, start, overlap, config);
        let first = units[start].bytes.start;
        let begin = first - text[..first].chars().rev().take(overlap).map(char::len_utf8).sum::<usize>();
        let bytes = trim_range(text, begin..units[end - 1].bytes.end);
        let opening = units[start..end].iter().take_while(|unit| unit.kind == UnitKind::Heading);
        for unit in opening {
            under.take(&text[unit.bytes.clone()]);
        }
        // Text that only repeats the overlap needs no chunk.
        let has_new_text = !text[first..units[end - 1].bytes.end].trim().is_empty();
        if has_new_text {
            let (place, heading) = (under.at(place), under.last().cloned());
            chunks.push(Chunk { place, text: text[bytes.clone()].to_owned(), heading, bytes });
        }
        for unit in units[start..end].iter().filter(|unit| unit.kind == UnitKind::Heading) {
            under.take(&text[unit.bytes.clone()]);
        }
        start = end;
    }
    chunks
}

/// Returns the index after the last unit of the chunk that starts at `start`.
fn end_of_chunk(units: &[Unit], start: usize, overlap: usize, config: &ChunkConfig) -> usize {
    let mut letters = overlap + units[start].letters;
    let mut end = start + 1;
    while end < units.len() && letters + units[end].letters <= config.letters {
        // Break before a heading, and before a paragraph that does not fit completely.
        let is_new = match units[end].kind {
            UnitKind::Heading => units[start..end].iter().any(|unit| unit.kind != UnitKind::Heading),
            _ => units[end].starts_paragraph && letters + paragraph(units, end) > config.letters,
        };
        if is_new && letters * 2 >= config.letters {
            break;
        }
        letters += units[end].letters;
        end += 1;
    }
    // A trailing heading belongs to the next chunk.
    let body = units[start..end].iter().rposition(|unit| unit.kind != UnitKind::Heading);
    match body {
        Some(last) if end < units.len() => start + last + 1,
        _ => end,
    }
}

/// Returns the number of characters in the paragraph that starts at this unit.
fn paragraph(units: &[Unit], start: usize) -> usize {
    let rest = units[start + 1..].iter().take_while(|unit| !unit.starts_paragraph);
    units[start].letters + rest.map(|unit| unit.letters).sum::<usize>()
}

/// Returns the number of characters before a chunk that are repeated in the chunk: whole sentences if any are short
/// enough, otherwise whole words. Nothing is repeated across a heading, because the text before a heading belongs to
/// another section.
fn overlap(text: &str, before: &[Unit], next: &Unit, limit: usize) -> usize {
    let Some(end) = before.last().filter(|_| next.kind != UnitKind::Heading).map(|unit| unit.bytes.end) else {
        return 0;
    };
    let mut whole = 0;
    for unit in before.iter().rev().take_while(|unit| unit.kind != UnitKind::Heading) {
        if whole + unit.letters > limit {
            break;
        }
        whole += unit.letters;
    }
    if whole > 0 || before.last().is_some_and(|unit| unit.kind == UnitKind::Heading) {
        return whole;
    }
    let tail: Vec<char> = text[..end].chars().rev().take(limit).collect();
    // The tail is reversed, so its last white space precedes the first whole word.
    match tail.iter().rposition(|letter| letter.is_whitespace()) {
        Some(words) if tail[..words].iter().any(|letter| !letter.is_whitespace()) => words,
        _ => tail.len(),
    }
}

/// Shrinks the range by white space at both ends.
fn trim_range(text: &str, bytes: Range<usize>) -> Range<usize> {
    let piece = &text[bytes.clone()];
    let start = bytes.start + (piece.len() - piece.trim_start().len());
    start..start + piece.trim().len()
}

/// Text that is not split between chunks: a sentence, or a separate line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Byte range, including trailing white space.
    pub(super) bytes: Range<usize>,
    /// Length of the unit in characters.
    pub(super) letters: usize,
    pub(super) kind: UnitKind,
    /// True if a paragraph starts with this unit.
    pub(super) starts_paragraph: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitKind {
    Heading,
    /// Line of a list, a table or a listing.
    Line,
    Sentence,
}

/// Splits a text into units of at most `limit` characters. The units together cover the text.
pub(super) fn units(text: &str, limit: usize) -> Vec<Unit> {
    let mut units = Vec::new();
    for block in blocks(text) {
        let mut starts_paragraph = block.starts_paragraph;
        let body = &text[block.bytes.clone()];
        let pieces =
            if block.kind == UnitKind::Sentence { sentences(body) } else { std::iter::once(0..body.len()).collect() };
        for piece in pieces.into_iter().flat_map(|piece| split(body, piece, limit)) {
            let letters = body[piece.clone()].chars().count();
            let bytes = block.bytes.start + piece.start..block.bytes.start + piece.end;
            let (kind, is_start) = (block.kind, std::mem::take(&mut starts_paragraph));
            units.push(Unit { bytes, letters, kind, starts_paragraph: is_start });
        }
    }
    units
}

/// Consecutive lines of one kind with the empty lines after them.
struct Block {
    bytes: Range<usize>,
    kind: UnitKind,
    starts_paragraph: bool,
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
                None => blocks.push(Block { bytes, kind: UnitKind::Sentence, starts_paragraph: true }),
            }
            continue;
        }
        let kind = if is_fence || is_listing { UnitKind::Line } else { kind_of(trimmed) };
        is_listing ^= is_fence;
        let starts_paragraph = std::mem::take(&mut after_gap);
        match blocks.last_mut() {
            // The line continues the paragraph.
            Some(last) if !starts_paragraph && kind == UnitKind::Sentence && last.kind == UnitKind::Sentence => {
                last.bytes.end = bytes.end
            }
            _ => blocks.push(Block { bytes, kind, starts_paragraph: starts_paragraph || kind == UnitKind::Heading }),
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

/// Returns the text of a heading without its marks.
pub(super) fn heading(line: &str) -> Option<&str> {
    let line = line.trim();
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(marks..).filter(|_| (1..=6).contains(&marks))?.strip_prefix([' ', '\t'])?;
    let title = title.trim().trim_matches(['#', '*', '_', ' ']);
    (!title.is_empty()).then_some(title)
}

/// Splits ranges that are too long, after a word if possible.
fn split(text: &str, mut range: Range<usize>, limit: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    while let Some((cut, _)) = text[range.clone()].char_indices().nth(limit.max(1)) {
        let piece = &text[range.start..range.start + cut];
        // Only in the second half, to avoid tiny pieces.
        let word = piece.rfind([' ', '\n', '，', '、', ',']).filter(|at| *at > cut / 2);
        let end = word.map_or(cut, |at| at + piece[at..].chars().next().map_or(1, char::len_utf8));
        pieces.push(range.start..range.start + end);
        range.start += end;
    }
    pieces.push(range);
    pieces
}

/// Abbreviations that do not end a sentence.
const ABBREVIATIONS: [&str; 27] = [
    "al", "approx", "art", "ca", "cf", "ch", "co", "corp", "dept", "dr", "e.g", "eq", "etc", "fig", "i.e", "inc", "jr",
    "ltd", "mr", "mrs", "ms", "nos", "prof", "sec", "st", "vol", "vs",
];

/// Splits a text into sentences, each including trailing white space. The sentences together cover the text.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let after = at + letter.len_utf8();
        let is_end = match letter {
            // Chinese and Japanese sentence marks need no white space after them.
            '。' | '！' | '？' | '；' | '｡' | '…' => true,
            '.' | '!' | '?' => may_end(text, at, letter),
            _ => false,
        };
        if !is_end {
            continue;
        }
        // Further marks and closing quotes or brackets belong to the sentence.
        let mut end = after;
        while let Some((at, letter)) = letters.next_if(|(_, letter)| CLOSING.contains(*letter)) {
            end = at + letter.len_utf8();
        }
        let is_full_width = !matches!(letter, '.' | '!' | '?');
        let next = text[end..].chars().next();
        if !is_full_width && next.is_some_and(|next| !next.is_whitespace()) {
            continue;
        }
        while let Some((at, letter)) = letters.next_if(|(_, letter)| letter.is_whitespace()) {
            end = at + letter.len_utf8();
        }
        sentences.push(start..end);
        start = end;
    }
    if start < text.len() {
        sentences.push(start..text.len());
    }
    sentences
}

const CLOSING: &str = ".!?。！？…\"')]*_”’」』）》】〕〉»";

/// Returns true if a mark may end a sentence, judged by the text before the mark. The caller checks for white space
/// after the mark.
fn may_end(text: &str, at: usize, mark: char) -> bool {
    if mark != '.' {
        return true;
    }
    let before = &text[..at];
    let word =
        before.rsplit(|letter: char| letter.is_whitespace() || "([\"'“‘".contains(letter)).next().unwrap_or_default();
    // Initials, and numbers of sections or list items.
    let is_initial = word.len() == 1 && word.chars().all(|letter| letter.is_ascii_uppercase());
    let is_number =
        !word.is_empty() && word.len() <= 3 && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    let starts_line = before[..before.len() - word.len()].chars().next_back().is_none_or(|letter| letter == '\n');
    let is_abbreviation = word.len() <= 6 && ABBREVIATIONS.binary_search(&word.to_ascii_lowercase().as_str()).is_ok();
    !(is_initial || is_abbreviation || (is_number && starts_line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_natural_boundaries() {
        let check = |expected: &[&str]| {
            let text = expected.concat();
            let found: Vec<&str> = sentences(&text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, expected);
        };
        check(&["One. ", "Two! ", "Three?"]);
        check(&["Dr. A. Smith paid 3.50 e.g. for tea (see fig. 2). ", "Then he left."]);
        check(&["He said \"no.\" ", "She agreed."]);
        check(&["Wait... ", "what?! ", "Yes."]);
        check(&["今天下雨。", "他说：“不去。”", "真的吗？！", "是的；", "走吧"]);
        check(&["会議は終わりました。", "「はい。」", "と言った。"]);
        check(&["회의가 끝났습니다. ", "다음 주에 만나요. ", "네?"]);
        check(&["1. First of a list. ", "In 2024. ", "End"]);
        check(&["version 1.2.3 of agentd.yaml is new\n"]);
        check(&[]);
        assert!(ABBREVIATIONS.is_sorted(), "it can be searched");
    }
}
