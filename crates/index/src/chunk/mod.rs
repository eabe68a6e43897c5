//! Chunks: pieces of a document small enough to be found and quoted, each with the place by which it is cited.
//!
//! A chunk ends where a paragraph ends, or else a sentence, or else a word; the next one begins a little before that, so that
//! what stands on the edge can be found in one of them. No chunk goes beyond its page, sheet or slide, so its place is true.
//!
//! - `unit`: a text taken apart into headings, lines of lists and tables, and sentences.
//! - `prose`: units packed into chunks.

mod prose;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::document::{Body, DocumentPlace, Part, Row, Table};

/// Size of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkConfig {
    /// Characters of a chunk of text, about; with its overlap it is never more than a fifth above.
    pub letters: usize,
    /// Characters that a chunk shares with the one before, at most.
    pub overlap: usize,
    /// Rows of a chunk of a sheet, at most.
    pub rows: usize,
    /// Rows that it shares with the one before.
    pub row_overlap: usize,
    /// Characters of a chunk of a sheet from which on it takes no more rows.
    pub table_letters: usize,
}

impl Default for ChunkConfig {
    fn default() -> Self {
        Self { letters: 400, overlap: 80, rows: 20, row_overlap: 2, table_letters: 4000 }
    }
}

/// A piece of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Where it stands. Of a sheet it has the cells of this piece.
    pub place: DocumentPlace,
    /// Its text, as Markdown.
    pub text: String,
    /// The heading that it stands under, without its marks.
    pub heading: Option<String>,
    /// Which bytes of [`Part::markdown`] it is; empty for rows of a sheet, which have their place instead.
    pub bytes: Range<usize>,
}

/// Makes chunks of parts as they come, without the whole document.
#[derive(Debug)]
pub struct Chunker {
    config: ChunkConfig,
    /// The last headings.
    headings: prose::Headings,
    last: Option<DocumentPlace>,
}

impl Chunker {
    /// A chunker that has seen nothing yet.
    pub fn new(config: ChunkConfig) -> Self {
        Self { config, headings: prose::Headings::default(), last: None }
    }

    /// The chunks of the next part.
    pub fn chunks(&mut self, part: &Part) -> Vec<Chunk> {
        // The heading of a slide, or of a document in an archive, says nothing of the next one.
        let goes_on = match (&self.last, &part.place) {
            (Some(last), place) if last.is_same(place) => true,
            (Some(DocumentPlace::Inner { path: last, .. }), DocumentPlace::Inner { path, place }) => {
                last == path && !matches!(**place, DocumentPlace::Slide(_))
            }
            (_, place) => !matches!(place, DocumentPlace::Slide(_) | DocumentPlace::Inner { .. }),
        };
        if !goes_on {
            self.headings = prose::Headings::default();
        }
        self.last = Some(part.place.clone());
        let at = match &part.place {
            DocumentPlace::Inner { place, .. } => place,
            place => place,
        };
        let mut chunks = match &part.body {
            Body::Table(table) if part.notes.is_none() => table_chunks(at, table, &self.config),
            _ => prose::chunks(at, &part.markdown(), &mut self.headings, &self.config),
        };
        if let DocumentPlace::Lines { first, .. } = at {
            number_lines(&mut chunks, &part.markdown(), *first);
        }
        if let DocumentPlace::Inner { path, .. } = &part.place {
            for chunk in &mut chunks {
                let place = std::mem::replace(&mut chunk.place, DocumentPlace::Whole);
                chunk.place = DocumentPlace::Inner { path: path.clone(), place: Box::new(place) };
            }
        }
        chunks
    }
}

#[cfg(test)]
mod tests;

/// Gives each chunk the lines that it stands in. `first` is the number of the text's first line.
pub(super) fn number_lines(chunks: &mut [Chunk], text: &str, first: u32) {
    let ends = |text: Option<&str>| {
        let ends = text.unwrap_or_default().bytes().filter(|byte| *byte == b'\n').count();
        u32::try_from(ends).unwrap_or(u32::MAX)
    };
    let (mut at, mut line) = (0, first);
    for chunk in chunks {
        // Chunks come in order, though each begins a little before the end of the one before.
        if chunk.bytes.start < at {
            (at, line) = (0, first);
        }
        line = line.saturating_add(ends(text.get(at..chunk.bytes.start)));
        at = chunk.bytes.start;
        let last = line.saturating_add(ends(text.get(chunk.bytes.clone())));
        chunk.place = DocumentPlace::Lines { first: line, last };
    }
}

/// The chunks of the rows of a sheet, each under the names of its columns.
pub(super) fn table_chunks(place: &DocumentPlace, table: &Table, config: &ChunkConfig) -> Vec<Chunk> {
    let DocumentPlace::Sheet { number, name, .. } = place else { return Vec::new() };
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < table.rows.len() {
        let end = end_of_rows(&table.rows, start, config);
        let rows = &table.rows[start..end];
        chunks.push(Chunk {
            place: DocumentPlace::Sheet { number: *number, name: name.clone(), range: table.range_of(rows) },
            text: table.markdown_of(rows),
            heading: None,
            bytes: 0..0,
        });
        if end == table.rows.len() {
            break;
        }
        // At least one row that was not there before.
        start = end.saturating_sub(config.row_overlap).max(start + 1);
    }
    chunks
}

fn end_of_rows(rows: &[Row], start: usize, config: &ChunkConfig) -> usize {
    let mut letters = 0;
    let mut end = start;
    // One row more than is told again, so that there is always something new.
    let least = start + config.row_overlap + 1;
    for row in rows[start..].iter().take(config.rows.max(config.row_overlap + 1)) {
        letters += row.cells.iter().map(|cell| cell.chars().count() + 3).sum::<usize>();
        if end >= least && letters > config.table_letters {
            break;
        }
        end += 1;
    }
    end
}
