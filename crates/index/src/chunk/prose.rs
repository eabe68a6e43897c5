//! Packs units of a text into chunks.

use std::ops::Range;

use super::{
    Chunk, ChunkConfig,
    unit::{Unit, UnitKind, heading, units},
};
use crate::document::DocumentPlace;

/// Characters of a heading that are cited, and headings.
const CITED: (usize, usize) = (80, 4);

/// The headings that a text stands under, each below the one before it, with their levels.
#[derive(Debug, Default)]
pub(super) struct Headings(Vec<(usize, String)>);

impl Headings {
    /// The innermost heading.
    fn last(&self) -> Option<&String> {
        self.0.last().map(|(_, heading)| heading)
    }

    /// Takes in a line that may be a heading.
    fn take(&mut self, line: &str) {
        if let Some(says) = heading(line) {
            let level = line.trim_start().bytes().take_while(|byte| *byte == b'#').count();
            self.0.retain(|(outer, _)| *outer < level);
            self.0.push((level, says.to_owned()));
        }
    }

    /// The place, with these headings where it is a section.
    fn at(&self, place: &DocumentPlace) -> DocumentPlace {
        let DocumentPlace::Section { number, .. } = place else { return place.clone() };
        let cut = |(_, heading): &(usize, String)| heading.chars().take(CITED.0).collect::<String>();
        let path: Vec<String> = self.0.iter().take(CITED.1).map(cut).collect();
        DocumentPlace::Section { number: *number, heading: (!path.is_empty()).then(|| path.join(" > ")) }
    }
}

/// The chunks of a text. `under` are the headings that it stands under, and then those that its end stands under.
pub(super) fn chunks(place: &DocumentPlace, text: &str, under: &mut Headings, config: &ChunkConfig) -> Vec<Chunk> {
    let units = units(text, config.letters);
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut start = 0;
    while start < units.len() {
        let overlap = chunks.last().map_or(0, |_| overlap(text, &units[..start], &units[start], config.overlap));
        let end = end_of_chunk(&units, start, overlap, config);
        let first = units[start].bytes.start;
        let begin = first - text[..first].chars().rev().take(overlap).map(char::len_utf8).sum::<usize>();
        let bytes = trimmed(text, begin..units[end - 1].bytes.end);
        let opening = units[start..end].iter().take_while(|unit| unit.kind == UnitKind::Heading);
        for unit in opening {
            under.take(&text[unit.bytes.clone()]);
        }
        // What is told again is not worth a chunk of its own.
        let says_more = !text[first..units[end - 1].bytes.end].trim().is_empty();
        if says_more {
            chunks.push(Chunk {
                place: under.at(place),
                text: text[bytes.clone()].to_owned(),
                heading: under.last().cloned(),
                bytes,
            });
        }
        for unit in units[start..end].iter().filter(|unit| unit.kind == UnitKind::Heading) {
            under.take(&text[unit.bytes.clone()]);
        }
        start = end;
    }
    chunks
}

/// The unit after the last one of the chunk that begins with `start`.
fn end_of_chunk(units: &[Unit], start: usize, overlap: usize, config: &ChunkConfig) -> usize {
    let mut letters = overlap + units[start].letters;
    let mut end = start + 1;
    while end < units.len() && letters + units[end].letters <= config.letters {
        // A heading begins something new, and so does a paragraph that does not fit any more.
        let is_new = match units[end].kind {
            UnitKind::Heading => units[start..end].iter().any(|unit| unit.kind != UnitKind::Heading),
            _ => units[end].opens && letters + paragraph(units, end) > config.letters,
        };
        if is_new && letters * 2 >= config.letters {
            break;
        }
        letters += units[end].letters;
        end += 1;
    }
    // A heading is of no use at the end.
    let body = units[start..end].iter().rposition(|unit| unit.kind != UnitKind::Heading);
    match body {
        Some(last) if end < units.len() => start + last + 1,
        _ => end,
    }
}

/// Characters of the paragraph that begins with this unit.
fn paragraph(units: &[Unit], start: usize) -> usize {
    let rest = units[start + 1..].iter().take_while(|unit| !unit.opens);
    units[start].letters + rest.map(|unit| unit.letters).sum::<usize>()
}

/// Number of characters before a chunk that are repeated in it: whole sentences if there are any that are short enough,
/// or else whole words. Nothing is repeated after a heading: what stands before that belongs to something else.
fn overlap(text: &str, before: &[Unit], next: &Unit, most: usize) -> usize {
    let Some(end) = before.last().filter(|_| next.kind != UnitKind::Heading).map(|unit| unit.bytes.end) else {
        return 0;
    };
    let mut whole = 0;
    for unit in before.iter().rev().take_while(|unit| unit.kind != UnitKind::Heading) {
        if whole + unit.letters > most {
            break;
        }
        whole += unit.letters;
    }
    if whole > 0 || before.last().is_some_and(|unit| unit.kind == UnitKind::Heading) {
        return whole;
    }
    let tail: Vec<char> = text[..end].chars().rev().take(most).collect();
    // Backwards: the last white space is where the first whole word begins.
    match tail.iter().rposition(|letter| letter.is_whitespace()) {
        Some(words) if tail[..words].iter().any(|letter| !letter.is_whitespace()) => words,
        _ => tail.len(),
    }
}

/// Without white space around it.
fn trimmed(text: &str, bytes: Range<usize>) -> Range<usize> {
    let piece = &text[bytes.clone()];
    let start = bytes.start + (piece.len() - piece.trim_start().len());
    start..start + piece.trim().len()
}
