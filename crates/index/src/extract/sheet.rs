//! Streaming sheets: rows are emitted in batches while a sheet is read, regardless of its size. Also handles cells
//! merged vertically, cell comments, and the end of very large sheets.

use std::collections::BTreeMap;

use calamine::Dimensions;

use super::{Emitter, broken, cell::Comments, clean};
use crate::{
    document::{Body, CellRange, DocumentPlace, Part, Row, Table},
    failure::Failure,
    frame::PIECE_BYTES,
    kind::Kind,
};

/// Number of rows that are examined to find the header.
const HEADER_SEARCH_ROWS: usize = 10;
/// Maximum number of rows per part.
const PIECE_ROWS: usize = 1000;
/// Maximum size of a cell in bytes, twice the limit of spreadsheet programs.
const CELL_BYTES: usize = 64 * 1024;
/// Maximum size of a header in bytes, because the header is repeated in every part.
const HEADER_BYTES: usize = PIECE_BYTES / 8;

/// Sheet whose rows are emitted in batches. Cells must arrive in order, row by row.
#[derive(Default)]
pub(super) struct Sheet {
    /// Sheet number, starting at 1.
    pub(super) number: u32,
    name: String,
    rows: Vec<SparseRow>,
    /// Size of the pending rows in bytes.
    size: usize,
    header: Option<SparseRow>,
    /// True once the header has been searched for.
    is_header_searched: bool,
    first_column: Option<u32>,
    was_emitted: bool,
    /// True once a cell beyond the limits of spreadsheets has been reported.
    is_too_wide: bool,
}

/// Row as its non-empty cells, each with column and text.
struct SparseRow {
    number: u32,
    cells: Vec<(u32, String)>,
}

impl Sheet {
    pub(super) fn new(number: u32, name: String) -> Self {
        Self { number, name, ..Self::default() }
    }

    /// Adds a cell. Rows start at 1, columns at 0. Cells out of order are dropped as duplicates.
    pub(super) fn cell(
        &mut self,
        row: u32,
        column: u32,
        text: String,
        emitter: &mut Emitter<'_>,
    ) -> Result<(), Failure> {
        let mut text = clean::clean_owned(text);
        if text.trim().is_empty() {
            return Ok(());
        }
        if column >= clean::MAX_COLUMNS || row > clean::MAX_ROWS {
            if !std::mem::replace(&mut self.is_too_wide, true) {
                let most = clean::MAX_COLUMNS;
                emitter.leave_out(format!("row {row}{} has more than {most} columns", self.sheet_suffix()));
            }
            return Ok(());
        }
        if text.len() > CELL_BYTES {
            let cell = CellRange { first: (column, row), last: (column, row) };
            emitter.leave_out(format!("cell {cell}{} has more than {} KiB", self.sheet_suffix(), CELL_BYTES / 1024));
            text.truncate(text.floor_char_boundary(CELL_BYTES));
        }
        match self.rows.last_mut() {
            Some(last) if last.number == row => {
                if last.cells.last().is_some_and(|(before, _)| *before >= column) {
                    return Ok(());
                }
                // The empty cells in between are also emitted, so they count.
                let before = last.cells.last().map_or(column, |(before, _)| *before + 1);
                emitter.cells(u64::from(column.saturating_sub(before)) + 1)?;
                self.size += text.len() + 2 + 2 * usize::try_from(column - before).unwrap_or_default();
                last.cells.push((column, text));
                return Ok(());
            }
            Some(last) if last.number > row => return Ok(()),
            _ => {}
        }
        if self.rows.len() >= PIECE_ROWS || self.size >= PIECE_BYTES / 4 {
            self.flush(emitter)?;
        }
        let margin = column.saturating_sub(self.first_column.unwrap_or(column));
        emitter.cells(u64::from(margin) + 1)?;
        self.size += text.len() + 2 + 2 * usize::try_from(margin).unwrap_or_default();
        self.rows.push(SparseRow { number: row, cells: vec![(column, text)] });
        Ok(())
    }

    /// Returns a suffix with the sheet's name, if the sheet has a name.
    fn sheet_suffix(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" of {}", self.name) }
    }

    /// Emits the remaining rows. An empty sheet is also emitted, because of its name.
    pub(super) fn end(mut self, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
        if self.rows.is_empty() && !self.was_emitted {
            return emitter.table(self.number, &self.name, Table::default());
        }
        self.flush(emitter)
    }

    /// Emits the remaining rows, and an empty part that extends the sheet to an unread cell, with its zero-based column
    /// and one-based row.
    pub(super) fn extend_to(&mut self, (column, row): (u32, u32), emitter: &mut Emitter<'_>) -> Result<(), Failure> {
        self.flush(emitter)?;
        let first_column = self.first_column.unwrap_or_default();
        let last = (column.clamp(first_column, clean::MAX_COLUMNS - 1), row.min(clean::MAX_ROWS));
        let header = self.header.as_ref().map(|header| header.from(first_column));
        let table = Table { first_column, header, rows: Vec::new() };
        let range = Some(CellRange { first: (first_column, last.1), last });
        let place = DocumentPlace::Sheet { number: self.number, name: self.name.clone(), range };
        emitter.part(Part { place, body: Body::Table(table), notes: None, unread: None })
    }

    fn flush(&mut self, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
        let mut rows = std::mem::take(&mut self.rows);
        self.size = 0;
        if !std::mem::replace(&mut self.is_header_searched, true)
            && let Some(at) = find_header(&rows)
        {
            let after = rows.split_off(at + 1);
            let header = rows.pop();
            // Rows above the header are a title.
            self.emit(rows, emitter)?;
            self.header = header;
            rows = after;
        }
        self.emit(rows, emitter)
    }

    fn emit(&mut self, rows: Vec<SparseRow>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
        let starts = self.header.iter().chain(&rows).filter_map(|row| Some(row.cells.first()?.0));
        let Some(first_column) = starts.chain(self.first_column).min().filter(|_| !rows.is_empty()) else {
            return Ok(());
        };
        self.first_column = Some(first_column);
        self.was_emitted = true;
        let header = self.header.as_ref().map(|row| row.from(first_column));
        // Usually a single part. More parts are only needed for very long rows.
        let mut piece = Table { first_column, header, rows: Vec::new() };
        let head = piece.header.as_ref().map_or(0, Row::size);
        let mut size = head;
        for row in rows {
            let row = row.from(first_column);
            if size + row.size() > PIECE_BYTES && !piece.rows.is_empty() {
                let next = Table { first_column, header: piece.header.clone(), rows: Vec::new() };
                emitter.table(self.number, &self.name, std::mem::replace(&mut piece, next))?;
                size = head;
            }
            if head + row.size() > PIECE_BYTES {
                let row_name =
                    format!("row {} of {}", row.number, if self.name.is_empty() { "it" } else { &self.name });
                return Err(Failure::too_large(&row_name, PIECE_BYTES as u64));
            }
            size += row.size();
            piece.rows.push(row);
        }
        emitter.table(self.number, &self.name, piece)
    }
}

impl SparseRow {
    fn from(&self, first_column: u32) -> Row {
        let mut cells = Vec::new();
        for (column, text) in &self.cells {
            let at = usize::try_from(column.saturating_sub(first_column)).unwrap_or_default();
            cells.resize(at, String::new());
            cells.push(text.clone());
        }
        Row { number: self.number, cells }
    }
}

/// Returns the index of the header among the first rows: a row that fills nearly all columns, contains only words, and
/// is followed by other rows.
fn find_header(rows: &[SparseRow]) -> Option<usize> {
    let sample = &rows[..rows.len().min(HEADER_SEARCH_ROWS)];
    let width = sample.iter().map(|row| row.cells.len()).max().filter(|width| *width >= 2)?;
    let names_columns = |row: &SparseRow| {
        let size: usize = row.cells.iter().map(|(_, text)| text.len()).sum();
        row.cells.len() * 5 >= width * 4 && size <= HEADER_BYTES && row.cells.iter().all(|(_, text)| is_word(text))
    };
    sample.iter().position(names_columns).filter(|at| at + 1 < rows.len())
}

/// Returns true if the cell contains words, as opposed to a number, a date or a percentage.
fn is_word(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
        && !text.starts_with(|letter: char| letter.is_ascii_digit() || "-+=".contains(letter))
}

/// Maximum number of non-empty cells that are read after the last requested row, to find the end of the sheet. For
/// larger sheets, the extent declared in the file is used.
pub(super) const MAX_TRAILING_CELLS: u32 = 100_000;
/// Maximum number of merged regions, far more than a person merges by hand.
const MAX_MERGED_REGIONS: usize = 10_000;

/// Regions merged over more than one row, by first column. Rows start at 0.
pub(super) type MergedCells = BTreeMap<u32, Vec<Span>>;

pub(super) struct Span {
    first: u32,
    last: u32,
    text: String,
}

pub(super) fn merged(regions: Vec<Dimensions>) -> MergedCells {
    let mut merged = MergedCells::new();
    for region in regions.into_iter().take(MAX_MERGED_REGIONS).filter(|region| region.end.0 > region.start.0) {
        let span = Span { first: region.start.0, last: region.end.0, text: String::new() };
        merged.entry(region.start.1).or_default().push(span);
    }
    merged
}

/// Sheet in which the text of vertically merged cells is repeated in each of their rows, so that every row makes sense
/// by itself.
pub(super) struct MergingSheet {
    pub(super) sheet: Sheet,
    merged: MergedCells,
    row: u32,
    waiting: Vec<(u32, String)>,
    /// Comments on cells that have not been reached yet.
    pub(super) comments: Comments,
    /// Number of non-empty cells after the last requested row.
    trailing_cells: u32,
}

impl MergingSheet {
    pub(super) fn new(number: u32, name: String, merged: MergedCells) -> Self {
        let sheet = Sheet::new(number, name);
        Self { sheet, merged, row: 0, waiting: Vec::new(), comments: Comments::new(), trailing_cells: 0 }
    }

    /// Returns true if the rest of the sheet need not be read, because the requested rows are complete and
    /// [`MAX_TRAILING_CELLS`] more cells were read. In that case, the sheet is extended to its declared end.
    pub(super) fn is_done(&mut self, declared: Dimensions, emitter: &mut Emitter<'_>) -> Result<bool, Failure> {
        if self.trailing_cells <= MAX_TRAILING_CELLS || declared.end.0 <= self.row {
            return Ok(false);
        }
        self.flush(emitter)?;
        let (row, column) = declared.end;
        self.sheet.extend_to((column, row.saturating_add(1)), emitter)?;
        Ok(true)
    }

    /// Adds a cell. Rows start at 0.
    pub(super) fn cell(
        &mut self,
        row: u32,
        column: u32,
        text: String,
        emitter: &mut Emitter<'_>,
    ) -> Result<(), Failure> {
        // Emit comments on preceding empty cells. A comment on this cell follows the cell's text.
        let mut text = text;
        while let Some(first) = self.comments.first_entry().filter(|first| *first.key() <= (row, column)) {
            let (place, comment) = first.remove_entry();
            if place == (row, column) {
                let gap = if text.is_empty() { "" } else { " " };
                text = format!("{text}{gap}{comment}");
            } else {
                self.plain_cell(place.0, place.1, comment, emitter)?;
            }
        }
        self.plain_cell(row, column, text, emitter)
    }

    fn plain_cell(&mut self, row: u32, column: u32, text: String, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
        if row != self.row {
            self.flush(emitter)?;
            self.row = row;
        }
        if !text.is_empty() {
            // Sheets often have formatted empty cells far below their last text and declare such cells as used, so
            // empty cells do not count.
            self.trailing_cells += u32::from(emitter.has_all_rows() && !text.trim().is_empty());
            self.waiting.push((column, text));
        }
        Ok(())
    }

    fn flush(&mut self, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
        let row = self.row;
        let mut cells = std::mem::take(&mut self.waiting);
        // An empty row stays empty.
        if !self.merged.is_empty() && !cells.is_empty() {
            for (column, spans) in &mut self.merged {
                spans.retain(|span| span.last >= row);
                let Some(span) = spans.iter_mut().find(|span| (span.first..=span.last).contains(&row)) else {
                    continue;
                };
                match cells.iter().find(|(at, _)| at == column) {
                    Some((_, text)) => span.text.clone_from(text),
                    None if span.text.is_empty() => {}
                    None => cells.push((*column, span.text.clone())),
                }
            }
            cells.sort_by_key(|(column, _)| *column);
        }
        for (column, text) in cells {
            self.sheet.cell(row.saturating_add(1), column, text, emitter)?;
        }
        Ok(())
    }

    pub(super) fn end(mut self, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
        self.cell(u32::MAX, u32::MAX, String::new(), emitter)?;
        self.flush(emitter)?;
        self.sheet.end(emitter)
    }
}

const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Number of lines that are examined to detect the separator.
const SAMPLE_LINES: usize = 20;

pub(super) fn csv(bytes: &[u8], emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let text = clean::decode(bytes, None);
    emitter.head(None, Some(1))?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator(&text))
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut sheet = Sheet::new(1, String::new());
    let mut record = csv::StringRecord::new();
    let mut row = 0_u32;
    while reader.read_record(&mut record).map_err(|error| broken(Kind::Csv, &error.to_string()))? {
        let start = record.position().map_or(0, csv::Position::byte);
        let empty = empty_lines(text.as_bytes(), usize::try_from(start).unwrap_or(usize::MAX));
        row = row.saturating_add(empty).saturating_add(1);
        for (column, cell) in (0..).zip(&record) {
            sheet.cell(row, column, cell.to_owned(), emitter)?;
        }
    }
    sheet.end(emitter)
}

/// Counts empty lines before the record at `start`. Spreadsheets count them as rows, but the parser skips them.
fn empty_lines(text: &[u8], start: usize) -> u32 {
    // The record may start in the middle of the previous line's `\r\n`.
    let is_half = start.checked_sub(1).is_some_and(|before| text.get(before..=start) == Some(b"\r\n"));
    let mut rest = text.get(start + usize::from(is_half)..).unwrap_or_default();
    let mut count = 0;
    while let [b'\r', b'\n', behind @ ..] | [b'\r' | b'\n', behind @ ..] = rest {
        rest = behind;
        count += 1;
    }
    count
}

/// Returns the separator that gives most lines the same number of cells, at least two.
fn separator(text: &str) -> u8 {
    let score = |separator: &u8| {
        let lines = text.lines().filter(|line| !line.trim().is_empty()).take(SAMPLE_LINES);
        let counts: Vec<usize> = lines.map(|line| count_outside_quotes(line, *separator)).collect();
        let first = counts.first().copied().unwrap_or_default();
        let matching = counts.iter().filter(|count| **count == first && first > 0).count();
        (matching, first)
    };
    // Prefer the first of several separators with equal scores.
    SEPARATORS.into_iter().rev().max_by_key(score).unwrap_or(b',')
}

fn count_outside_quotes(line: &str, separator: u8) -> usize {
    let mut is_quoted = false;
    let is_outside = |byte: &u8| {
        is_quoted ^= *byte == b'"';
        *byte == separator && !is_quoted
    };
    line.bytes().filter(is_outside).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Kind, Limits, Part, Piece, document::push};

    fn parts_of(read: impl FnOnce(&mut Emitter<'_>)) -> Vec<Part> {
        let (limits, mut parts) = (Limits::default(), Vec::new());
        let mut listener = |piece| {
            if let Piece::Part(part) = piece {
                push(&mut parts, part);
            }
            Ok(())
        };
        read(&mut Emitter::new(Kind::Csv, &limits, &mut listener));
        parts
    }

    #[test]
    fn column_header_row_is_found() {
        let check = |rows: &[(u32, &[&str])], expected: &[&str]| {
            let parts = parts_of(|emitter| {
                let mut sheet = Sheet::new(1, "S".to_owned());
                for (row, cells) in rows {
                    for (column, cell) in (0..).zip(*cells) {
                        sheet.cell(*row, column, (*cell).to_owned(), emitter).unwrap();
                    }
                }
                sheet.end(emitter).unwrap();
            });
            let has_header = |part: &Part| matches!(&part.body, Body::Table(table) if table.header.is_some());
            let places: Vec<String> = parts.iter().map(|part| format!("{} {}", part.place, has_header(part))).collect();
            assert_eq!(places, expected, "{rows:?}");
        };
        check(&[(1, &["name", "price"]), (2, &["a", "1"])], &["S!A2:B2 true"]);
        check(&[(1, &["2024", "price"]), (2, &["a", "1"])], &["S!A1:B2 false"]);
        check(&[(1, &["Prices"]), (3, &["name", "price"]), (4, &["a", "1"])], &["S!A1 false", "S!A4:B4 true"]);
        check(&[(1, &["only", "one"])], &["S!A1:B1 false"]);
        check(&[(1, &["text"]), (2, &["text"])], &["S!A1:A2 false"]);
        check(&[(5, &["", "", "名称", "数量"]), (6, &["", "", "甲", "3"])], &["S!C6:D6 true"]);
        check(&[], &["S false"]);
    }

    #[test]
    fn gaps_between_cells_count_against_the_limit() {
        let limits = Limits { cells: 100, ..Limits::default() };
        let mut listener = |_| Ok(());
        let mut emitter = Emitter::new(Kind::Csv, &limits, &mut listener);
        let mut sheet = Sheet::new(1, String::new());
        sheet.cell(1, 0, "a".to_owned(), &mut emitter).unwrap();
        let failure = sheet.cell(1, 16_383, "b".to_owned(), &mut emitter).unwrap_err();
        assert!(matches!(failure, Failure::TooLarge { .. }), "{failure}");
    }

    #[test]
    fn csv_row_numbers_match_spreadsheets() {
        let numbers = |text: &str| {
            let mut rows: Vec<u32> = Vec::new();
            for part in parts_of(|emitter| csv(text.as_bytes(), emitter).unwrap()) {
                let Body::Table(table) = part.body else { continue };
                rows.extend(table.header.iter().chain(&table.rows).map(|row| row.number));
            }
            rows
        };
        for end in ["\n", "\r\n", "\r"] {
            let lines = |text: &str| numbers(&text.replace('\n', end));
            assert_eq!(lines("a,b\n\n1,2\n\n\n3,\"x\ny\"\n\n4,5\n\n"), [1, 3, 6, 8], "{end:?}");
            assert_eq!(lines("\n\na,b\n1,2"), [3, 4], "{end:?}");
            assert_eq!(lines("1,2\n , \n3,4\n"), [1, 3], "{end:?}");
        }
    }

    #[test]
    fn csv_separator_gives_uniform_rows() {
        let check = |text: &str, expected: u8| assert_eq!(char::from(separator(text)), char::from(expected), "{text}");
        check("a,b\n1,2\n", b',');
        check("name;price\nx;1,50\ny;2,75\n", b';');
        check("a\tb, c\n1\t2\n", b'\t');
        check("\"a;b\",c\n\"d;e;f\",g\n", b',');
        check("one column\n", b',');
        check("", b',');
    }
}
