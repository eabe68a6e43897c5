//! What is asked and answered.

use std::time::Duration;

use super::snippet::Snippet;
use crate::{chunk::Chunk, document::DocumentPlace, index::id::DocumentId};

/// Characters of a chunk that are shown around its hits.
pub(crate) const CITED: usize = 240;

/// Maximum number of hits, whatever is asked for.
pub(crate) const MOST_HITS: usize = 200;

/// Search request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The documents that whoever asks may see. Nothing is told of any other.
    pub documents: Vec<Visible>,
    /// The query.
    pub query: Query,
    /// Maximum number of hits.
    pub limit: usize,
    /// Set if the chunks before and after each hit are told as well.
    pub context: bool,
    /// Time limit for reading through texts. What was found by then is returned.
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
    /// Name for citations, as the caller knows it.
    pub name: String,
}

/// Query of a search.
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

/// Answer to a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The best first; those of a regular expression in the order of the documents.
    pub hits: Vec<Hit>,
    /// Documents of the request that are not in the index, so that nothing could be found in them.
    pub missing: Vec<DocumentId>,
    /// False when reading was cut off by time, so that there may be more.
    pub complete: bool,
    /// Set if there are more matches than were asked for, as far as that is known without further work.
    pub more: bool,
    /// Set if a phrase in quotes stands nowhere, and the hits have some of its words only.
    pub is_loose: bool,
    /// Notes for the caller, each a sentence without its full stop.
    pub notes: Vec<String>,
    /// Way in which it was found.
    pub how: How,
}

impl Answer {
    /// An answer that has found nothing yet.
    pub(crate) const fn of(how: How) -> Self {
        Self {
            hits: Vec::new(),
            missing: Vec::new(),
            complete: true,
            more: false,
            is_loose: false,
            notes: Vec::new(),
            how,
        }
    }
}

/// Way in which something was found.
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
    /// The document's own title.
    pub title: Option<String>,
    /// Ordinal of the chunk in the document, from 0. One is free where a page ends.
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
pub fn citation(name: &str, place: &DocumentPlace) -> String {
    place.behind(name)
}
