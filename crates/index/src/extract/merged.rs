//! Cells that were merged down, comments on cells, and where a very large sheet is left: what stands between the cells of a workbook and
//! the rows that are told.

use std::collections::BTreeMap;

use calamine::Dimensions;

use super::{Teller, comments::Comments, sheet::Sheet};
use crate::failure::Failure;

/// Cells with a text that are read behind the last row that is wanted, to know how far the sheet goes. Of one with more is told what it says of
/// itself.
pub(super) const READ_ON: u32 = 100_000;
/// Merged cells beyond this many are not looked at: nobody merges so many by hand.
const MERGED: usize = 10_000;

/// Merged cells of more than one row, by their first column: first and last row, both from 0.
pub(super) type MergedCells = BTreeMap<u32, Vec<Span>>;

pub(super) struct Span {
    first: u32,
    last: u32,
    text: String,
}

pub(super) fn merged(regions: Vec<Dimensions>) -> MergedCells {
    let mut merged = MergedCells::new();
    for region in regions.into_iter().take(MERGED).filter(|region| region.end.0 > region.start.0) {
        let span = Span { first: region.start.0, last: region.end.0, text: String::new() };
        merged.entry(region.start.1).or_default().push(span);
    }
    merged
}

/// A sheet in which the text of cells that were merged down stands in each of their rows, so that every row can be
/// understood by itself.
pub(super) struct Merging {
    sheet: Sheet,
    merged: MergedCells,
    row: u32,
    /// The cells of the row.
    waiting: Vec<(u32, String)>,
    /// Those on cells that did not come yet.
    comments: Comments,
    /// Cells with a text that came after the last row that is wanted.
    read_on: u32,
}

impl Merging {
    pub(super) fn new(number: u32, name: String, merged: MergedCells) -> Self {
        let sheet = Sheet::new(number, name);
        Self { sheet, merged, row: 0, waiting: Vec::new(), comments: Comments::new(), read_on: 0 }
    }

    /// The same, with these comments on its cells.
    pub(super) fn commented(self, comments: Comments) -> Self {
        Self { comments, ..self }
    }

    /// Takes the comments on cells before this one, which hold nothing else, and adds its own to its text.
    fn with_comments(
        &mut self,
        row: u32,
        column: u32,
        mut text: String,
        teller: &mut Teller<'_>,
    ) -> Result<String, Failure> {
        while let Some(first) = self.comments.first_entry().filter(|first| *first.key() <= (row, column)) {
            let (place, comment) = first.remove_entry();
            if place == (row, column) {
                let gap = if text.is_empty() { "" } else { " " };
                text = format!("{text}{gap}{comment}");
            } else {
                self.plain_cell(place.0, place.1, comment, teller)?;
            }
        }
        Ok(text)
    }

    /// Returns whether no more of its cells need be read: those that are wanted were, and there are very many. Then it is told how far the
    /// sheet goes, as the file has it.
    pub(super) fn is_done(&mut self, declared: Dimensions, teller: &mut Teller<'_>) -> Result<bool, Failure> {
        if self.read_on <= READ_ON || declared.end.0 <= self.row {
            return Ok(false);
        }
        self.flush(teller)?;
        let (row, column) = declared.end;
        self.sheet.goes_on_to((column, row.saturating_add(1)), teller)?;
        Ok(true)
    }

    /// Number of the sheet, from 1.
    pub(super) const fn number(&self) -> u32 {
        self.sheet.number()
    }

    /// Takes a cell; rows count from 0 here.
    pub(super) fn cell(&mut self, row: u32, column: u32, text: String, teller: &mut Teller<'_>) -> Result<(), Failure> {
        let text = self.with_comments(row, column, text, teller)?;
        self.plain_cell(row, column, text, teller)
    }

    fn plain_cell(&mut self, row: u32, column: u32, text: String, teller: &mut Teller<'_>) -> Result<(), Failure> {
        if row != self.row {
            self.flush(teller)?;
            self.row = row;
        }
        if !text.is_empty() {
            // A sheet often has formats far below its last text, and says that it ends there: empty cells are read to their end.
            self.read_on += u32::from(teller.is_satisfied() && !text.trim().is_empty());
            self.waiting.push((column, text));
        }
        Ok(())
    }

    fn flush(&mut self, teller: &mut Teller<'_>) -> Result<(), Failure> {
        let row = self.row;
        let mut cells = std::mem::take(&mut self.waiting);
        // A row without anything of its own stays empty.
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
            self.sheet.cell(row.saturating_add(1), column, text, teller)?;
        }
        Ok(())
    }

    pub(super) fn end(mut self, teller: &mut Teller<'_>) -> Result<(), Failure> {
        self.with_comments(u32::MAX, u32::MAX, String::new(), teller)?;
        self.flush(teller)?;
        self.sheet.end(teller)
    }
}
