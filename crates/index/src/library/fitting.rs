//! Part of a document that is shown, and the place at which it is read on. Pure.

use agentd_core::knowledge::{Extent, ExtentUnit, PartCursor, PartRange, ReadPart};

use crate::{Body, DocumentPlace, Part, Row, Table};

/// A part that could be shown.
#[derive(Debug)]
pub(super) struct ShowablePart {
    pub(super) number: u32,
    pub(super) label: String,
    pub(super) part: Part,
}

/// As many parts as there is room for; of the first as much as fits, so that there always is something.
pub(super) fn fit(parts: Vec<ShowablePart>, range: PartRange, mut letters: usize) -> Vec<ReadPart> {
    let ends = last_rows(&parts);
    let end_of = |number: u32| ends.iter().find(|(known, _)| *known == number).map_or(0, |(_, row)| *row);
    let mut fitting: Vec<ReadPart> = Vec::new();
    let mut last_row = 0;
    for ShowablePart { number, label, part } in parts {
        let from = if number == range.first { range.from } else { PartCursor::default() };
        let is_first = fitting.first().is_none_or(|first| first.number == number);
        let piece = match &part.body {
            Body::Table(table) => rows(table, own_end(&part.place), from, letters, end_of(number)),
            _ => characters(&part.markdown(), from.column, letters),
        };
        let Some(piece) = piece else { continue };
        if piece.is_cut && !is_first {
            break;
        }
        letters -= piece.text.chars().count().min(letters);
        let Piece { text, extent, next, is_cut, last_row: last } = piece;
        last_row = last;
        fitting.push(ReadPart { number, label, text, cut: next.is_some(), shown: extent, next });
        if is_cut {
            break;
        }
    }
    // Rows of the last sheet of which nothing was told.
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

/// The last row of a piece of a sheet.
const fn own_end(place: &DocumentPlace) -> u32 {
    match place {
        DocumentPlace::Sheet { range: Some(range), .. } => range.last.1,
        _ => 0,
    }
}

/// The last row of each sheet.
fn last_rows(parts: &[ShowablePart]) -> Vec<(u32, u32)> {
    let mut ends: Vec<(u32, u32)> = Vec::new();
    for ShowablePart { number, part, .. } in parts {
        let DocumentPlace::Sheet { range: Some(range), .. } = part.place else { continue };
        match ends.last_mut().filter(|(known, _)| known == number) {
            Some((_, row)) => *row = range.last.1.max(*row),
            None => ends.push((*number, range.last.1)),
        }
    }
    ends
}

/// Text of a part that is shown.
struct Piece {
    text: String,
    extent: Option<Extent>,
    next: Option<PartCursor>,
    /// Set if there was no room for all of what there is.
    is_cut: bool,
    /// The last row that is shown; 0 where there are no rows.
    last_row: u32,
}

/// As many rows as fit; of one that is too long as many characters. None where no row is wanted. `own` is the last row of
/// this piece of the sheet, `end` that of the sheet.
fn rows(table: &Table, own: u32, from: PartCursor, letters: usize, end: u32) -> Option<Piece> {
    let told: Vec<Row> = table.rows.iter().filter(|row| row.number >= from.row).cloned().collect();
    let Some(first) = told.first().map(|row| row.number) else {
        // A sheet of nothing is shown as one.
        let is_empty = end == 0 && from == PartCursor::default();
        return is_empty.then(|| Piece {
            text: table.markdown(),
            extent: None,
            next: None,
            is_cut: false,
            last_row: 0,
        });
    };
    let fits = |count: usize| table.markdown_of(&told[..count]).chars().count() <= letters;
    let behind = |row: u32| (row < end).then(|| PartCursor { row: row.saturating_add(1), column: 0 });
    if from.column > 0 || !fits(1) {
        // One row that is too long, and where in it.
        let piece = characters(&table.markdown_of(&told[..1]), from.column, letters)?;
        let next = match piece.next {
            Some(PartCursor { column, .. }) => Some(PartCursor { row: first, column }),
            None => behind(first),
        };
        return Some(Piece { next, is_cut: true, last_row: first, ..piece });
    }
    // The most that fit: more rows are never shorter.
    let (mut least, mut most) = (1, told.len());
    while least < most {
        let middle = (least + most).div_ceil(2);
        if fits(middle) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    let last = told.get(least - 1).map_or(first, |row| row.number);
    let is_cut = last < own;
    let next = behind(last).filter(|_| is_cut);
    let is_part = is_cut || from.row > 0;
    let extent = is_part.then_some(Extent { unit: ExtentUnit::Row, first, last, total: end.max(last) });
    Some(Piece { text: table.markdown_of(&told[..least]), extent, next, is_cut, last_row: last })
}

/// As many characters as fit, from one on that is counted from 1. None where the text ends before it.
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
    use crate::CellRange;

    /// A sheet with a title, a header and rows, of which only some may have been told.
    fn sheet(told: &[(u32, String)], last: u32) -> Vec<ShowablePart> {
        let part = |rows: Vec<Row>, header: Option<Row>, first: u32, last: u32| {
            let range = Some(CellRange { first: (0, first), last: (0, last) });
            let place = DocumentPlace::Sheet { number: 1, name: "S".to_owned(), range };
            let body = Body::Table(Table { first_column: 0, header, rows });
            ShowablePart { number: 1, label: String::new(), part: Part { place, body, notes: None, unread: None } }
        };
        let row = |number: u32, text: &str| Row { number, cells: vec![text.to_owned()] };
        let rows = told.iter().map(|(number, text)| row(*number, text)).collect();
        let title = if told.first().is_some_and(|(number, _)| *number > 3) { Vec::new() } else { vec![row(1, "T")] };
        vec![part(title, None, 1, 1), part(rows, Some(row(2, "h")), 3, last)]
    }

    #[test]
    fn a_sheet_is_read_on_to_its_end_and_no_row_is_lost() {
        let all: Vec<(u32, String)> = (3..400)
            .filter(|row| row % 7 != 0)
            .map(|row| (row, format!("r{row} ").repeat(row as usize % 40)))
            .collect();
        let end = all.last().unwrap().0;
        let (mut from, mut seen, mut steps) = (PartCursor::default(), String::new(), 0);
        loop {
            // What a worker tells of it.
            let told: Vec<_> = all.iter().filter(|(row, _)| *row >= from.row).take(30).cloned().collect();
            let shown = fit(sheet(&told, end), PartRange { from, ..PartRange::default() }, 300);
            let last = shown.last().unwrap();
            seen.extend(shown.iter().map(|part| part.text.as_str()));
            steps += 1;
            let Some(next) = last.next else { break };
            assert!(last.cut && last.shown.is_some(), "{shown:?}");
            assert!((next.row, next.column) > (from.row, from.column), "{next:?}");
            from = next;
        }
        for (row, text) in &all {
            let word = format!("r{row} ");
            assert_eq!(seen.matches(&format!(" {word}")).count() >= 1, !text.trim().is_empty(), "{row}");
        }
        assert!(steps > 20 && seen.contains("| T |"), "{steps}");
    }

    #[test]
    fn a_long_page_is_read_on_by_its_characters() {
        let page = || {
            vec![ShowablePart {
                number: 4,
                label: String::new(),
                part: Part::text(DocumentPlace::Page(4), "héllo wörld"),
            }]
        };
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
