//! Finding chunks: from what somebody or some model wrote to places that can be cited.
//!
//! - [`parse`]: makes words and phrases of whatever was written; nothing is refused.
//! - [`plan`]: makes queries of phrases and the like, for the chunks that may be seen: what words stand for in the index, and their worth.
//! - [`words`]: the best chunks for them, by their scores.
//! - [`pattern`]: regular expressions: the index tells which chunks can match at all, and those are read.
//! - [`marks`]: where the hits are, and as much around them as one looks at.
//!
//! Exact phrases come first, then the chunks with the most of the words, each counted by how rare it is.

pub mod marks;
pub mod parse;
pub(crate) mod pattern;
pub(crate) mod plan;
pub(crate) mod words;

use std::{ops::Range, time::Duration};

use agentd_core::knowledge::SearchedBy;

pub use self::marks::Snippet;
pub(crate) use self::pattern::Stop;
use self::plan::{AllowedDocuments, Candidate, Planner};
use crate::{
    analyze::Dictionary,
    chunk::Chunk,
    index::{DocumentId, IndexError, view::View},
};

/// Searches what the request names. Blocks.
pub(crate) fn search(
    view: &View,
    dictionary: &Dictionary,
    request: &Request,
    stop: &Stop,
) -> Result<Answer, IndexError> {
    let planner = Planner { view, request, allowed: AllowedDocuments::new(view, &request.documents) };
    let mut answer = match &request.query {
        Query::Words(text) => words::search(&planner, dictionary, text)?,
        Query::Regex(pattern) => match pattern::Pattern::new(pattern) {
            Ok(pattern) => pattern::search(&planner, &pattern, stop)?,
            Err(why) => {
                let mut answer = words::search(&planner, dictionary, pattern)?;
                let note =
                    format!("the pattern is no regular expression that is known here ({why}); searched for its words");
                answer.notes.insert(0, note);
                answer
            }
        },
    };
    if request.context {
        add_neighbours(view, &mut answer.hits)?;
    }
    Ok(answer)
}

/// A candidate with its text, as it is told.
fn hit(planner: &Planner<'_>, candidate: &Candidate, chunk: Chunk, marks: &[Range<usize>]) -> Option<Hit> {
    let visible = planner.request.documents.get(candidate.position)?;
    Some(Hit {
        owner: candidate.owner,
        ordinal: candidate.ordinal,
        citation: chunk.place.behind(&visible.name),
        score: candidate.score,
        snippet: marks::around(&chunk.text, marks, CITED),
        chunk,
        before: None,
        after: None,
    })
}

/// Adds the chunks beside each hit. One of another page or sheet would be cited by the place of the hit, so it is left out.
fn add_neighbours(view: &View, hits: &mut [Hit]) -> Result<(), IndexError> {
    for hit in hits {
        let (owner, place) = (hit.owner, &hit.chunk.place);
        let beside = |ordinal| -> Result<Option<String>, IndexError> {
            let chunk = view.chunk_of(owner, ordinal)?;
            Ok(chunk.filter(|chunk| chunk.place.is_same(place)).map(|chunk| chunk.text))
        };
        let before = hit.ordinal.checked_sub(1).map(beside).transpose()?.flatten();
        let after = beside(hit.ordinal.saturating_add(1))?;
        (hit.before, hit.after) = (before, after);
    }
    Ok(())
}

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
    pub const fn new(documents: Vec<Visible>, query: Query) -> Self {
        Self { documents, query, limit: 10, context: false, within: Duration::from_secs(5) }
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
    /// A regular expression, whose `^` and `$` are ends of lines; capitals do not matter unless it says so. One that is none is searched
    /// for as words, with a note.
    Regex(String),
}

/// Answer to a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The best first; those of a regular expression in the order of the documents.
    pub hits: Vec<Hit>,
    /// False when reading was cut off by time, so that there may be more.
    pub complete: bool,
    /// Set if there are more matches than were asked for, as far as that is known without further work.
    pub more: bool,
    /// Set if a phrase in quotes stands nowhere, and the hits have some of its words only.
    pub is_loose: bool,
    /// Notes for the caller, each a sentence without its full stop.
    pub notes: Vec<String>,
    /// Way in which it was found.
    pub how: SearchedBy,
}

impl Answer {
    /// An answer that has found nothing yet.
    pub(crate) const fn of(how: SearchedBy) -> Self {
        Self { hits: Vec::new(), complete: true, more: false, is_loose: false, notes: Vec::new(), how }
    }
}

/// A chunk that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
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
