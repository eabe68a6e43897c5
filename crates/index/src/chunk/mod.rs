//! Chunks: pieces of a document small enough to be found and quoted, each with the place by which it is cited.
//!
//! A chunk ends where a paragraph ends, or else a sentence, or else a word; the next one begins a little before that, so that
//! what stands on the edge can be found in one of them. No chunk goes beyond its page, sheet or slide, so its place is true.
//!
//! - [`sentence`]: where sentences end, in English, Chinese, Japanese and Korean.
//! - `unit`: a text taken apart into headings, lines of lists and tables, and sentences.
//! - `prose`: units packed into chunks.
//! - `lines`: the lines that chunks of a text stand in.
//! - `table`: rows packed into chunks, each with the names of the columns.

mod lines;
mod prose;
pub mod sentence;
mod table;
mod unit;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::document::{Body, DocumentPlace, Part};

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
    #[must_use]
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
            Body::Table(table) if part.notes.is_none() => table::chunks(at, table, &self.config),
            _ => prose::chunks(at, &part.markdown(), &mut self.headings, &self.config),
        };
        if let DocumentPlace::Lines { first, .. } = at {
            lines::number(&mut chunks, &part.markdown(), *first);
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
