//! What is asked and answered.

use std::time::Duration;

use super::snippet::Snippet;
use crate::{chunk::Chunk, document::Place, index::id::DocumentId};

/// How many letters of a chunk are shown around its hits.
pub(crate) const CITED: usize = 240;

/// What is searched for, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The documents that whoever asks may see. Nothing is told of any other.
    pub documents: Vec<Visible>,
    /// What is searched for.
    pub query: Query,
    /// How many hits at most.
    pub limit: usize,
    /// Set if the chunks before and after each hit are told as well.
    pub context: bool,
    /// How long reading through texts may take. What was found by then is told.
    pub within: Duration,
}

impl Request {
    /// The ten best hits in these documents.
    #[must_use]
    pub const fn new(documents: Vec<Visible>, query: Query) -> Self {
        Self { documents, query, limit: 10, context: false, within: Duration::from_secs(5) }
    }

    /// Returns whether it may have to read whole texts.
    pub(crate) const fn may_scan(&self) -> bool {
        matches!(self.query, Query::Regex { .. })
    }
}

/// A document that may be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    /// Which one.
    pub id: DocumentId,
    /// What whoever asks calls it: it is cited by that.
    pub name: String,
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Words, with `"phrases in quotes"`, `word*`, `OR` and `NOT`. Whatever it is, it is no error.
    Words(String),
    /// A regular expression. One that is none is searched for as words, with a note.
    Regex {
        /// The expression; `^` and `$` are ends of lines.
        pattern: String,
        /// Set if capitals matter.
        case_sensitive: bool,
    },
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The best first; those of a regular expression in the order of the documents.
    pub hits: Vec<Hit>,
    /// Documents of the request that are not in the index, so that nothing could be found in them.
    pub missing: Vec<DocumentId>,
    /// False when reading was cut off by time, so that there may be more.
    pub complete: bool,
    /// What whoever asked should know, each a sentence without its full stop.
    pub notes: Vec<String>,
    /// How it was found.
    pub how: How,
}

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By the index alone.
    Index,
    /// By reading the chunks that the index says can match.
    Narrowed,
    /// By reading everything that may be seen.
    Scan,
}

/// A chunk that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Its document.
    pub document: DocumentId,
    /// What the document calls itself.
    pub title: Option<String>,
    /// Which chunk of the document it is, from 0.
    pub ordinal: u32,
    /// `report.pdf p. 12`, `data.xlsx Sales!A2:F20`, `deck.pptx slide 7`.
    pub citation: String,
    /// Higher is better. It compares hits of one answer.
    pub score: f32,
    /// The part of it that has the hits.
    pub snippet: Snippet,
    /// All of it.
    pub chunk: Chunk,
    /// The text of the chunk before, where it was asked for.
    pub before: Option<String>,
    /// The text of the chunk after, where it was asked for.
    pub after: Option<String>,
    pub(crate) owner: u32,
}

/// A document and a place in it as people write it.
#[must_use]
pub fn citation(name: &str, place: &Place) -> String {
    let place = place.to_string();
    if place.is_empty() { name.to_owned() } else { format!("{name} {place}") }
}
