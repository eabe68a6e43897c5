//! Chunks: excerpts of a document that are small enough to be found and quoted, each with the location by which it is
//! cited.
//!
//! A chunk ends after a paragraph if possible, otherwise after a sentence or a word. The next chunk starts a little
//! earlier, so that text at the boundary is complete in one of the two. A chunk never extends beyond a page, sheet or
//! slide, so its location is exact.
//!
//! `prose` splits a text into units (headings, lines in lists and tables, sentences) and packs the units into chunks.

mod prose;

use std::ops::Range;

use agentd_core::embedding::digest;
use serde::{Deserialize, Serialize};

use crate::document::{Body, DocumentPlace, Part, Row, Table};

/// Size limits of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkConfig {
    /// Approximate number of characters in a text chunk. With its overlap, a chunk exceeds this number by at most a
    /// fifth.
    pub letters: usize,
    /// Maximum number of characters shared with the previous chunk.
    pub overlap: usize,
    /// Maximum number of rows in a sheet chunk.
    pub rows: usize,
    /// Number of rows shared with the previous chunk.
    pub row_overlap: usize,
    /// Number of characters above which no more rows are added to a sheet chunk.
    pub table_letters: usize,
}

impl Default for ChunkConfig {
    fn default() -> Self {
        Self { letters: 400, overlap: 80, rows: 20, row_overlap: 2, table_letters: 4000 }
    }
}

/// Excerpt of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Location of the chunk. For a sheet, the cells of this chunk.
    pub place: DocumentPlace,
    /// Text of the chunk, as Markdown.
    pub text: String,
    /// Closest heading above the chunk, without its marks.
    pub heading: Option<String>,
    /// Byte range in [`Part::markdown`]. Empty for rows of a sheet, which are located by their cells.
    pub bytes: Range<usize>,
}

impl Chunk {
    /// Returns the text for embedding, and its key: the ordinal of the chunk and half of the digest.
    pub(crate) fn to_embed(&self, ordinal: u32) -> (u64, String) {
        let text = format!("{}\n{}", self.heading.as_deref().unwrap_or_default(), self.text);
        (u64::from(ordinal) << 32 | digest(&text) >> 32, text)
    }
}

/// Splits parts into chunks as they arrive, without the whole document.
#[derive(Debug)]
pub struct Chunker {
    config: ChunkConfig,
    /// Headings at the end of the last part.
    headings: prose::Headings,
    last: Option<DocumentPlace>,
}

impl Chunker {
    /// Creates a chunker for a new document.
    pub fn new(config: ChunkConfig) -> Self {
        Self { config, headings: prose::Headings::default(), last: None }
    }

    /// Returns the chunks of the next part.
    pub fn chunks(&mut self, part: &Part) -> Vec<Chunk> {
        // The headings of a slide, or of a document in an archive, do not apply to the next part.
        let continues = match (&self.last, &part.place) {
            (Some(last), place) if last.is_same(place) => true,
            (Some(DocumentPlace::Inner { path: last, .. }), DocumentPlace::Inner { path, place }) => {
                last == path && !matches!(**place, DocumentPlace::Slide(_))
            }
            (_, place) => !matches!(place, DocumentPlace::Slide(_) | DocumentPlace::Inner { .. }),
        };
        if !continues {
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

/// Sets the location of each chunk to its lines. `first` is the number of the text's first line.
pub(super) fn number_lines(chunks: &mut [Chunk], text: &str, first: u32) {
    let ends = |text: Option<&str>| {
        let ends = text.unwrap_or_default().bytes().filter(|byte| *byte == b'\n').count();
        u32::try_from(ends).unwrap_or(u32::MAX)
    };
    let (mut at, mut line) = (0, first);
    for chunk in chunks {
        // Chunks are in order, but each chunk starts a little before the end of the previous one.
        if chunk.bytes.start < at {
            (at, line) = (0, first);
        }
        line = line.saturating_add(ends(text.get(at..chunk.bytes.start)));
        at = chunk.bytes.start;
        let last = line.saturating_add(ends(text.get(chunk.bytes.clone())));
        chunk.place = DocumentPlace::Lines { first: line, last };
    }
}

/// Splits the rows of a sheet into chunks, each below the column names.
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
        // Include at least one new row.
        start = end.saturating_sub(config.row_overlap).max(start + 1);
    }
    chunks
}

fn end_of_rows(rows: &[Row], start: usize, config: &ChunkConfig) -> usize {
    let mut letters = 0;
    let mut end = start;
    // One row more than the overlap, so that every chunk has a new row.
    let min_end = start + config.row_overlap + 1;
    for row in rows[start..].iter().take(config.rows.max(config.row_overlap + 1)) {
        letters += row.cells.iter().map(|cell| cell.chars().count() + 3).sum::<usize>();
        if end >= min_end && letters > config.table_letters {
            break;
        }
        end += 1;
    }
    end
}
