//! Selection of the displayed parts of a document, their size limits, and the cursor to continue from. No side effects.

use std::{collections::HashMap, ops::ControlFlow};

use agentd_core::knowledge::{Extent, ExtentUnit, PartCursor, PartKind, PartRange, ReadPart, Reading};

use crate::{
    Body, DocumentPlace, Kind, Part, Row, Table,
    extract::sections,
    failure::{ReadingLimits, UnreadPages},
    frame::Head,
};

/// Receives the parts of a document and stores the requested ones.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) range: PartRange,
    limits: ReadingLimits,
    pub(super) head: Option<Head>,
    /// Number of parts that have started.
    seen: u32,
    last: Option<DocumentPlace>,
    /// Number of characters in `selected`.
    letters: usize,
    /// Requested parts, or the whole text of a document without pages.
    pub(super) selected: Vec<(u32, Part)>,
}

impl Reader {
    pub(super) fn new(range: PartRange, limits: ReadingLimits) -> Self {
        Self { range: PartRange { first: range.first.max(1), ..range }, limits, ..Self::default() }
    }

    /// Processes the next part. Breaks if no later part is requested.
    pub(super) fn take(&mut self, part: Part) -> ControlFlow<()> {
        let is_new = self.last.as_ref().is_none_or(|last| !last.is_same(&part.place));
        self.last = Some(part.place.clone());
        self.seen = match part.place {
            // Not counted, because chart sheets and pages before the first requested page may be missing.
            DocumentPlace::Page(number)
            | DocumentPlace::ScannedPage(number)
            | DocumentPlace::Section { number, .. }
            | DocumentPlace::Sheet { number, .. } => number,
            _ => self.seen + u32::from(is_new),
        };
        let whole = is_whole(&part.place);
        let is_full = is_new && self.seen > self.range.first && self.letters > self.limits.of(self.kind()).letters;
        let behind = is_full || self.seen >= self.range.first.saturating_add(self.wanted());
        if !whole && behind {
            // Only continue if the total is unknown, in order to count the parts.
            let counted = self.head.as_ref().is_some_and(|head| head.parts.is_some());
            return if counted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        if whole || self.seen >= self.range.first {
            self.letters += letters(&part);
            let rest = match self.selected.last_mut().filter(|_| !is_new) {
                Some((_, last)) => last.join(part),
                None => Some(part),
            };
            self.selected.extend(rest.map(|part| (self.seen, part)));
        }
        ControlFlow::Continue(())
    }

    fn kind(&self) -> Kind {
        self.head.as_ref().map_or(Kind::Plain, |head| head.kind)
    }

    fn wanted(&self) -> u32 {
        self.range.count.unwrap_or_else(|| self.limits.of(self.kind()).parts).max(1)
    }

    pub(super) fn finish(self, broken: Option<String>) -> Reading {
        let (kind, wanted, first) = (self.kind(), self.wanted(), self.range.first);
        let letters = self.limits.of(kind).letters;
        let head = self.head.unwrap_or(Head { kind, title: None, parts: None });
        let picture = |(number, part): &(u32, Part)| Some((*number, UnreadPages::one(part.unread?, !part.is_empty())));
        let pictures: Vec<(u32, UnreadPages)> = self.selected.iter().filter_map(picture).collect();
        let is_whole = self.selected.iter().any(|(_, part)| is_whole(&part.place));
        let (parts_are, total, parts): (_, _, Vec<(u32, Part)>) = if is_whole {
            let text: Vec<String> = self.selected.iter().map(|(_, part)| part.markdown()).collect();
            let text = text.join("\n\n");
            let sections = sections(&text);
            let total = u32::try_from(sections.len()).unwrap_or(u32::MAX);
            let from = usize::try_from(first - 1).unwrap_or(usize::MAX);
            let numbered = (first..).zip(sections.into_iter().skip(from)).take(wanted as usize);
            let part = |(number, text): (u32, &str)| (number, Part::text(DocumentPlace::Whole, text));
            (PartKind::Section, total, numbered.map(part).collect())
        } else {
            let parts_are = match self.last {
                Some(DocumentPlace::Slide(_)) => PartKind::Slide,
                Some(DocumentPlace::Sheet { .. }) => PartKind::Sheet,
                Some(DocumentPlace::Section { .. }) => PartKind::Section,
                _ => PartKind::Page,
            };
            let total = head.parts.unwrap_or(self.seen).max(self.seen);
            (parts_are, total, self.selected)
        };
        let parts = fit(parts, self.range, letters);
        let is_shown = |(number, _): &&(u32, UnreadPages)| parts.iter().any(|part| part.number == *number);
        let shown = pictures.iter().filter(is_shown).map(|(_, page)| *page).reduce(UnreadPages::and);
        let broken = broken.or_else(|| shown.map(|shown| shown.describe_shown()));
        Reading { format: kind.to_string(), title: head.title, parts_are, total, parts, broken, locked: false }
    }
}

/// Returns true if the part is a whole document, or an unnumbered piece of a document.
const fn is_whole(place: &DocumentPlace) -> bool {
    matches!(place, DocumentPlace::Whole | DocumentPlace::Lines { .. } | DocumentPlace::Inner { .. })
}

/// Returns the approximate number of characters in a part.
fn letters(part: &Part) -> usize {
    match &part.body {
        Body::Text(text) => text.chars().count(),
        Body::Table(table) => table.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.chars().count() + 3).sum(),
    }
}

fn label(part: &Part, number: u32) -> String {
    match &part.place {
        DocumentPlace::Page(page) => format!("page {page}"),
        DocumentPlace::ScannedPage(page) => format!("page {page} (recognised)"),
        DocumentPlace::Slide(slide) => format!("slide {slide}"),
        DocumentPlace::Sheet { name, range, .. } => {
            let header = match &part.body {
                Body::Table(table) => table.header.as_ref(),
                _ => None,
            };
            let header = header.map(|row| format!(", header in row {}", row.number)).unwrap_or_default();
            let range = range.map(|range| format!(" ({range}{header})")).unwrap_or_default();
            format!("sheet {name}{range}")
        }
        _ => format!("section {number}"),
    }
}

/// Returns as many parts as fit into `letters` characters. The first part is cut if necessary, so that a large part
/// never causes an empty result.
fn fit(parts: Vec<(u32, Part)>, range: PartRange, mut letters: usize) -> Vec<ReadPart> {
    let mut ends: HashMap<u32, u32> = HashMap::new();
    for (number, part) in &parts {
        if let DocumentPlace::Sheet { range: Some(range), .. } = part.place {
            let end = ends.entry(*number).or_default();
            *end = range.last.1.max(*end);
        }
    }
    let end_of = |number: u32| ends.get(&number).copied().unwrap_or_default();
    let mut fitting: Vec<ReadPart> = Vec::new();
    let mut last_row = 0;
    for (number, part) in parts {
        let from = if number == range.first { range.from } else { PartCursor::default() };
        let is_first = fitting.first().is_none_or(|first| first.number == number);
        let piece = match &part.body {
            Body::Table(table) => {
                let own_end = match part.place {
                    DocumentPlace::Sheet { range: Some(range), .. } => range.last.1,
                    _ => 0,
                };
                rows(table, own_end, from, letters, end_of(number))
            }
            _ => characters(&part.markdown(), from.column, letters),
        };
        let Some(piece) = piece else { continue };
        if piece.is_cut && !is_first {
            break;
        }
        letters -= piece.text.chars().count().min(letters);
        let Piece { text, extent, next, is_cut, last_row: last } = piece;
        last_row = last;
        fitting.push(ReadPart { number, label: label(&part, number), text, cut: next.is_some(), shown: extent, next });
        if is_cut {
            break;
        }
    }
    // The last sheet has more rows that were not included in the window.
    if let Some(last) = fitting.last_mut().filter(|last| last.next.is_none() && last_row > 0)
        && last_row < end_of(last.number)
    {
        last.cut = true;
        last.next = Some(PartCursor { row: last_row.saturating_add(1), column: 0 });
        let shown = Extent { unit: ExtentUnit::Row, first: 1, last: last_row, total: end_of(last.number) };
        last.shown.get_or_insert(shown);
    }
    fitting
}

/// Excerpt of a part.
#[derive(Default)]
struct Piece {
    text: String,
    extent: Option<Extent>,
    next: Option<PartCursor>,
    /// True if the excerpt was cut to fit.
    is_cut: bool,
    /// Last row in the excerpt, or 0 if there are no rows.
    last_row: u32,
}

/// Returns as many rows as fit, or an excerpt of a single row that is too long. `None` if no rows remain at `from`.
/// `own` is the last row of this piece of the sheet, `end` the last row of the sheet.
fn rows(table: &Table, own: u32, from: PartCursor, letters: usize, end: u32) -> Option<Piece> {
    let remaining: Vec<Row> = table.rows.iter().filter(|row| row.number >= from.row).cloned().collect();
    let Some(first) = remaining.first().map(|row| row.number) else {
        // An empty sheet is shown as empty.
        let is_empty = end == 0 && from == PartCursor::default();
        return is_empty.then(|| Piece { text: table.markdown(), ..Piece::default() });
    };
    let fits = |count: usize| table.markdown_of(&remaining[..count]).chars().count() <= letters;
    let behind = |row: u32| (row < end).then(|| PartCursor { row: row.saturating_add(1), column: 0 });
    if from.column > 0 || !fits(1) {
        // A single row that is too long: show a range of its characters.
        let piece = characters(&table.markdown_of(&remaining[..1]), from.column, letters)?;
        let next = match piece.next {
            Some(PartCursor { column, .. }) => Some(PartCursor { row: first, column }),
            None => behind(first),
        };
        return Some(Piece { next, is_cut: true, last_row: first, ..piece });
    }
    // The length grows with the number of rows, so a binary search finds the maximum number.
    let more: Vec<usize> = (2..=remaining.len()).collect();
    let least = 1 + more.partition_point(|count| fits(*count));
    let last = remaining.get(least - 1).map_or(first, |row| row.number);
    let is_cut = last < own;
    let next = behind(last).filter(|_| is_cut);
    let is_part = is_cut || from.row > 0;
    let extent = is_part.then_some(Extent { unit: ExtentUnit::Row, first, last, total: end.max(last) });
    Some(Piece { text: table.markdown_of(&remaining[..least]), extent, next, is_cut, last_row: last })
}

/// Returns as many characters as fit, starting at the one-based position `from`, or `None` if the text ends before
/// `from`.
fn characters(text: &str, from: u32, letters: usize) -> Option<Piece> {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let total = text.chars().count();
    let before = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
    if before > 0 && before >= total {
        return None;
    }
    let text: String = text.chars().skip(before).take(letters).collect();
    let last = before + text.chars().count();
    let next = (last < total).then(|| PartCursor { row: 0, column: number(last + 1) });
    let is_part = before > 0 || next.is_some();
    let (first, last, total) = (number(before + 1), number(last), number(total));
    let extent = is_part.then_some(Extent { unit: ExtentUnit::Character, first, last, total });
    Some(Piece { text, extent, next, is_cut: next.is_some(), last_row: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_page_is_continued_by_character_offset() {
        let page = || vec![(4, Part::text(DocumentPlace::Page(4), "héllo wörld"))];
        let read = |column: u32| {
            let from = PartCursor { row: 0, column };
            fit(page(), PartRange { first: 4, from, ..PartRange::default() }, 5).pop()
        };
        let first = read(0).unwrap();
        assert_eq!((first.text.as_str(), first.next.map(|next| next.column)), ("héllo", Some(6)));
        assert_eq!(first.shown.unwrap().to_string(), "characters 1-5 of 11");
        assert_eq!(read(6).unwrap().text, " wörl");
        let last = read(11).unwrap();
        assert_eq!(
            (last.text.as_str(), last.cut, last.shown.unwrap().to_string()),
            ("d", false, "characters 11-11 of 11".to_owned())
        );
        assert_eq!(read(12), None);
    }
}
